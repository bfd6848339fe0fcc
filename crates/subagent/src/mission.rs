//! Missions: the task in words, with places for data.

use std::collections::BTreeMap;

use scrollback_core::nearest::nearest;
use scrollback_lisp::{Base, Signature, Type, Value};

use super::error::{SubagentError, SubagentErrorKind};

/// A text with placeholders: `{{name}}`, or `{{name.field}}` for a field of it.
///
/// ```
/// use scrollback_subagent::PromptTemplate;
/// use scrollback_lisp::{Signature, Value};
/// let template = PromptTemplate::parse("Who spent more than {{limit}}?");
/// assert_eq!(template.expand(&[("limit".to_string(), Value::from(10))].into()), "Who spent more than 10?");
/// let signature = Signature::parse("(limit :int) -> :any").ok();
/// assert!(template.check(signature.as_ref()).is_ok());
/// assert!(PromptTemplate::parse("{{limt}}").check(signature.as_ref()).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    text: String,
    pieces: Vec<PromptPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PromptPiece {
    Text(String),
    Placeholder { path: Vec<String>, written: String },
}

impl PromptTemplate {
    /// Reads a text. Braces that hold no name are text.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            plain.push_str(before);
            let inner = after.split_once("}}").and_then(|(inner, tail)| Some((path(inner)?, inner, tail)));
            if let Some((path, inner, tail)) = inner {
                pieces.push(PromptPiece::Text(std::mem::take(&mut plain)));
                pieces.push(PromptPiece::Placeholder { path, written: format!("{{{{{inner}}}}}") });
                rest = tail;
            } else {
                plain.push_str("{{");
                rest = after;
            }
        }
        plain.push_str(rest);
        pieces.push(PromptPiece::Text(plain));
        PromptTemplate { text: text.into(), pieces }
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The placeholders, each as names joined by dots.
    pub fn placeholders(&self) -> impl Iterator<Item = String> + '_ {
        self.paths().map(|path| path.join("."))
    }

    fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.pieces.iter().filter_map(|piece| match piece {
            PromptPiece::Placeholder { path, .. } => Some(path.as_slice()),
            PromptPiece::Text(_) => None,
        })
    }

    /// An error if a placeholder is not a parameter of the signature.
    pub fn check(&self, signature: Option<&Signature>) -> Result<(), SubagentError> {
        let parameters = signature.map_or(&[][..], |signature| &signature.parameters);
        self.paths().try_for_each(|path| known(path, parameters))
    }

    /// The text with values in place of placeholders; one that has none stays as it is written.
    pub fn expand(&self, data: &BTreeMap<String, Value>) -> String {
        let piece = |piece: &PromptPiece| match piece {
            PromptPiece::Text(text) => text.clone(),
            PromptPiece::Placeholder { path, written } => match find(path, data) {
                None | Some(Value::Nil) => written.clone(),
                Some(Value::Str(text)) => text.as_str().to_string(),
                Some(Value::Date(day)) => day.to_string(),
                Some(Value::DateTime(instant)) => instant.to_string(),
                Some(other) => other.to_string(),
            },
        };
        self.pieces.iter().map(piece).collect()
    }
}

/// Names joined by dots; none if it is something else.
fn path(inner: &str) -> Option<Vec<String>> {
    let names: Vec<String> = inner.trim().split('.').map(|name| name.trim().to_string()).collect();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    names.iter().all(|name| !name.is_empty() && name.chars().all(fits)).then_some(names)
}

fn known(path: &[String], parameters: &[(String, Type)]) -> Result<(), SubagentError> {
    let mut fields = parameters;
    for (depth, name) in path.iter().enumerate() {
        let Some((_, type_)) = fields.iter().find(|(field, _)| field == name) else {
            let written = path.join(".");
            let names: Vec<&str> = fields.iter().map(|(field, _)| field.as_str()).collect();
            let hint = match (nearest(name, names.iter().copied()), names.is_empty(), depth) {
                (Some(near), ..) => format!("did you mean `{near}`?"),
                (None, true, _) => {
                    "the signature has no parameters; write one: \"(name :type) -> :type\"".into()
                }
                (None, false, _) => format!("there are: {}", names.join(", ")),
            };
            let message = format!(
                "the mission has {{{{{written}}}}}, which is not a parameter of the signature; {hint}"
            );
            return Err(SubagentError::new(SubagentErrorKind::Placeholder, message));
        };
        match &type_.base {
            Base::Fields(inner) if !inner.is_empty() => fields = inner,
            // What is in other values is not known before they are there.
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn find<'d>(path: &[String], data: &'d BTreeMap<String, Value>) -> Option<&'d Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(data.get(first)?, |value, name| match value {
        Value::Map(map) => map.get(&Value::keyword(name)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn placeholders_are_filled_and_others_stay() {
        let data: BTreeMap<String, Value> = [
            ("n".to_string(), Value::from(3)),
            ("user".to_string(), Value::read("{\"name\" \"Ana\" \"tags\" [1 2]}").unwrap()),
        ]
        .into();
        for (text, filled) in [
            ("{{n}} of {{ user.name }}", "3 of Ana"),
            ("{{user.tags}} {{user.none}}", "[1 2] {{user.none}}"),
            ("{{}} {{ }} {{a b}} {{n", "{{}} {{ }} {{a b}} {{n"),
            ("{{{n}}}", "{{{n}}}"),
            ("plain", "plain"),
        ] {
            assert_eq!(PromptTemplate::parse(text).expand(&data), filled, "{text}");
        }
    }

    #[test]
    fn unknown_placeholders_say_what_there_is() {
        let signature = Signature::parse("(user {name :string}, n :int, any {}) -> :any").unwrap();
        let check = |text: &str| {
            PromptTemplate::parse(text).check(Some(&signature)).map_err(|error| error.to_string())
        };
        assert_eq!(check("{{user.name}} {{n}} {{n.more}} {{any.thing}}"), Ok(()));
        assert!(check("{{usr}}").unwrap_err().contains("did you mean `user`?"));
        assert!(check("{{user.age}}").unwrap_err().contains("there are: name"));
        assert!(
            PromptTemplate::parse("{{x}}").check(None).unwrap_err().to_string().contains("no parameters")
        );
    }
}
