//! Gemini describes parameters in a dialect of its own; the others want JSON Schema.

use super::quote;
use crate::json::{self, Edit, Edits, JsonKind, Raw};

/// A schema of Gemini's as JSON Schema: types in small letters, numbers as numbers, null among the types.
pub(super) fn from_gemini(schema: Raw<'_>) -> String {
    let mut edits = Edits::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((path, schema)) = open.pop() {
        let nullable = schema.get("nullable").is_some_and(|value| value.text() == "true");
        for (key, value) in schema.members() {
            let path = format!("{path}/{}", json::escape_pointer(&key));
            match key.as_ref() {
                "type" => edits.extend(word(value, nullable).map(|word| (path, word))),
                "nullable" => edits.extend([(path, Edit::Remove)]),
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
                    edits.extend(number(value).map(|number| (path, number)));
                }
                "items" => open.push((path, value)),
                "properties" => open.extend(value.members().map(|(name, inner)| {
                    let path = format!("{path}/{}", json::escape_pointer(&name));
                    (path, inner)
                })),
                "anyOf" => open.extend(
                    value.elements().enumerate().map(|(number, inner)| (format!("{path}/{number}"), inner)),
                ),
                _ => {}
            }
        }
    }
    let edited = json::edit(schema, &edits);
    json::check(&edited).map(|raw| json::one_line(raw).into_owned()).unwrap_or(edited)
}

fn word(value: Raw<'_>, nullable: bool) -> Option<Edit> {
    let word = value.string()?.to_ascii_lowercase();
    Some(match word.as_str() {
        "type_unspecified" => Edit::Remove,
        word if nullable => Edit::Put(format!("[{},\"null\"]", quote(word))),
        word => Edit::Put(quote(word)),
    })
}

/// Whole numbers of 64 bits travel as texts there.
fn number(value: Raw<'_>) -> Option<Edit> {
    let digits = value.string().filter(|_| value.kind() == JsonKind::String)?;
    digits.parse::<u64>().ok().map(|number| Edit::Put(number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_say_a_type_become_small() {
        let schema = r#"{"type":"OBJECT","properties":{"type":{"type":"STRING","enum":["NUMBER"],"nullable":true},
            "days":{"type":"ARRAY","maxItems":"7","items":{"anyOf":[{"type":"INTEGER"},{"type":"NULL"}]}}}}"#;
        let wanted = r#"{"type":"object","properties":{"type":{"type":["string","null"],"enum":["NUMBER"]},"days":{"type":"array","maxItems":7,"items":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}}"#;
        let found = from_gemini(Raw::trusted(schema));
        let compact: String = found.split_whitespace().collect();
        assert_eq!(compact, wanted);
    }
}
