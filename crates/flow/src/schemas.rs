//! The JSON Schemas of everything that flows are written in and that commands about flows print.

use serde_json::{Value, json};

/// The schema of flows, for editors. It agrees with [`Flow::read`](crate::Flow::read) about the shape of a flow; what only
/// makes sense as a whole (names, expressions, templates, prices) is for the reader.
pub const FLOW: &str = include_str!("../flow.schema.json");
/// The documents that commands print, all in one.
const DOCUMENTS: &str = include_str!("../documents.schema.json");

/// Every schema by name, with what it describes.
pub const NAMES: [(&str, &str); 10] = [
    ("flow", "a flow, as it is written"),
    ("run", "what run and resume print"),
    ("validate", "what validate prints"),
    ("lens-list", "what lens list prints"),
    ("lens-show", "what lens show prints"),
    ("lens-trace", "what lens trace prints"),
    ("lens-prompt", "what lens prompt prints"),
    ("init", "what init prints"),
    ("event", "a line of run --progress json, and of lens trace --export"),
    ("error", "what any command prints that is refused or fails"),
];

/// The schema of that name (JSON Schema 2020-12); `None` if the name is unknown.
///
/// ```
/// let schema = scrollback_flow::schemas::named("run").unwrap_or_default();
/// assert!(schema.contains("\"$ref\": \"#/$defs/run\""));
/// assert_eq!(scrollback_flow::schemas::named("poem"), None);
/// ```
pub fn named(name: &str) -> Option<String> {
    let (name, about) = NAMES.iter().find(|(known, _)| *known == name)?;
    if *name == "flow" {
        return Some(FLOW.into());
    }
    let mut schema: Value = serde_json::from_str(DOCUMENTS).ok()?;
    let members = schema.as_object_mut()?;
    members.insert("$id".into(), json!(format!("urn:scrollback:{name}")));
    members.insert("title".into(), json!(about));
    members.insert("$ref".into(), json!(format!("#/$defs/{name}")));
    serde_json::to_string_pretty(&schema).ok().map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::problem::Code;

    #[test]
    fn every_schema_is_one_and_knows_the_codes_there_are() {
        for (name, _) in NAMES {
            let schema: Value = serde_json::from_str(&named(name).unwrap()).unwrap();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
            jsonschema::draft202012::meta::validate(&schema)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let documents: Value = serde_json::from_str(DOCUMENTS).unwrap();
        let listed = |name: &str| documents["$defs"][name]["properties"]["code"]["enum"].clone();
        assert_eq!(listed("run_error"), json!(crate::error::RunErrorKind::ALL));
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(listed("problem"), json!(codes));
    }
}
