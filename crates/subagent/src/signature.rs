//! Signatures of tools for agents and flows: the notation of PTC-Lisp, translated into a JSON Schema.

use scrollback_agent::tool::load::ToolSignature;
use scrollback_lisp::{Base, Signature, Type};
use serde_json::{Map, Value, json};

/// Reads the signature of a tool: `(query :string, limit :int?) -> [:map]`.
///
/// ```
/// let signature = scrollback_subagent::read_signature("(city :string) -> :string")?;
/// assert_eq!(signature.parameters, ["city"]);
/// assert_eq!(signature.schema["properties"]["city"]["type"], "string");
/// # Ok::<(), String>(())
/// ```
pub fn read_signature(text: &str) -> Result<ToolSignature, String> {
    let signature = Signature::parse(text).map_err(|error| error.to_string())?;
    Ok(ToolSignature {
        text: signature.to_string(),
        parameters: signature.parameters.iter().map(|(name, _)| name.clone()).collect(),
        schema: schema_of(&signature.parameters),
    })
}

/// The signature as PTC-Lisp has it, which was read once already.
pub(crate) fn signature_of(tool: Option<&ToolSignature>) -> Result<Option<Signature>, String> {
    tool.map(|signature| Signature::parse(&signature.text).map_err(|error| error.to_string())).transpose()
}

/// The JSON Schema of a signature's parameters.
fn schema_of(parameters: &[(String, Type)]) -> Value {
    let properties: Map<String, Value> =
        parameters.iter().map(|(name, kind)| (name.clone(), type_schema(kind))).collect();
    let required: Vec<&String> =
        parameters.iter().filter(|(_, kind)| !kind.optional).map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

// The depth is that of the signature, which its parser limits.
fn type_schema(kind: &Type) -> Value {
    let simple = |name: &str| {
        if kind.optional { json!({ "type": [name, "null"] }) } else { json!({ "type": name }) }
    };
    match &kind.base {
        Base::String | Base::Keyword | Base::DateTime => simple("string"),
        Base::Int => simple("integer"),
        Base::Float => simple("number"),
        Base::Bool => simple("boolean"),
        Base::Any => json!({}),
        Base::Map => simple("object"),
        Base::List(inner) => {
            let mut schema = simple("array");
            if let Some(members) = schema.as_object_mut() {
                members.insert("items".into(), type_schema(inner));
            }
            schema
        }
        Base::Fields(fields) => schema_of(fields),
    }
}
