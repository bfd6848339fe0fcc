//! What people answer: a text, and what it means to the step that asked.

use serde_json::{Value, json};

use super::refusal::{RefusedKind, RunRefused};

/// What an answer means; everything that is wrong with it otherwise.
///
/// Without a schema any text that is not blank will do. With one whose type is text the answer is that text; any other is
/// read as JSON.
pub(super) fn meaning(text: &str, schema: Option<&Value>) -> Result<Value, RunRefused> {
    let Some(schema) = schema else {
        return if text.trim().is_empty() {
            Err(wrong(vec![json!({ "path": "", "message": "the answer is blank; write something" })]))
        } else {
            Ok(Value::from(text))
        };
    };
    let value = if wants_text(schema) {
        Value::from(text)
    } else {
        serde_json::from_str(text).map_err(|error| {
            let message = format!("the answer must be JSON: {error}");
            wrong(vec![json!({ "path": "", "message": message })])
        })?
    };
    let Ok(validator) = jsonschema::validator_for(schema) else { return Ok(value) };
    let errors: Vec<Value> = validator
        .iter_errors(&value)
        .map(|error| json!({ "path": error.instance_path.to_string(), "message": error.to_string() }))
        .collect();
    if errors.is_empty() { Ok(value) } else { Err(wrong(errors)) }
}

fn wants_text(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string")
}

fn wrong(errors: Vec<Value>) -> RunRefused {
    let text =
        |error: &Value, name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
    let told: Vec<String> = errors
        .iter()
        .map(|error| match text(error, "path").as_str() {
            "" => text(error, "message"),
            path => format!("{path}: {}", text(error, "message")),
        })
        .collect();
    let message = format!("the answer does not fit what was asked for: {}", told.join("; "));
    let mut refused = RunRefused::new(RefusedKind::InvalidAnswer, message);
    refused.errors = errors;
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_text_or_the_json_the_schema_wants() {
        assert_eq!(meaning("yes", None).ok(), Some(json!("yes")));
        assert!(meaning(" \n", None).is_err());
        let text = json!({ "type": "string", "minLength": 3 });
        assert_eq!(meaning("42", Some(&json!({ "type": "string" }))).ok(), Some(json!("42")));
        assert!(meaning("no", Some(&text)).is_err());
        let number = json!({ "type": "integer", "minimum": 1 });
        assert_eq!(meaning("42", Some(&number)).ok(), Some(json!(42)));
        assert!(meaning("forty", Some(&number)).is_err());
        let object =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let wrong =
            meaning(r#"{"n": "x"}"#, Some(&object)).err().map(|refused| refused.errors).unwrap_or_default();
        assert_eq!(wrong.first().and_then(|error| error.get("path")), Some(&json!("/n")));
    }
}
