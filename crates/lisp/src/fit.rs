//! Whether a value fits its type, and what is done about one that almost does.

use std::fmt;

use crate::signature::{Base, Signature, Type};
use crate::value::{Map, Value, json, number};

/// How values are held against signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// What does not fit is an error.
    #[default]
    Enabled,
    /// What does not fit is a warning.
    WarnOnly,
    /// What does not fit is an error, and so is a field that the signature does not name.
    Strict,
    /// Nothing is looked at, and nothing coerced.
    Disabled,
}

impl Validation {
    /// Every mode, as it is written.
    pub const ALL: [(&'static str, Validation); 4] = [
        ("enabled", Validation::Enabled),
        ("warn_only", Validation::WarnOnly),
        ("strict", Validation::Strict),
        ("disabled", Validation::Disabled),
    ];
}

/// What is done about fields that a type does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Allowed,
    Refused,
}

/// A value that does not fit its type, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// `items[0].id`; empty at the top.
    pub path: String,
    /// What was expected and what is there.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(root)" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

impl Type {
    /// Everything in a value that does not fit this type. Extra fields are fine; an integer is a `:float`.
    pub fn validate(&self, value: &Value) -> Vec<Mismatch> {
        self.mismatches(value, Extra::Allowed)
    }

    /// The same in a mode: extra fields are refused by [`Validation::Strict`], and nothing is by
    /// [`Validation::Disabled`].
    pub fn validate_in(&self, mode: Validation, value: &Value) -> Vec<Mismatch> {
        match mode {
            Validation::Disabled => Vec::new(),
            Validation::Strict => self.mismatches(value, Extra::Refused),
            Validation::Enabled | Validation::WarnOnly => self.mismatches(value, Extra::Allowed),
        }
    }

    fn mismatches(&self, value: &Value, extra: Extra) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.check(value, String::new(), extra, &mut found);
        found
    }

    // Recursion follows the type, whose depth the parser bounds.
    fn check(&self, value: &Value, path: String, extra: Extra, found: &mut Vec<Mismatch>) {
        if matches!(value, Value::Nil) && (self.optional || self.base == Base::Any) {
            return;
        }
        let fits = match (&self.base, value) {
            (Base::Any, _)
            | (Base::String, Value::Str(_))
            | (Base::Int, Value::Int(_) | Value::Big(_))
            | (Base::Float, Value::Float(_) | Value::Int(_) | Value::Big(_))
            | (Base::Bool, Value::Bool(_))
            | (Base::Keyword, Value::Keyword(_))
            | (Base::Map, Value::Map(_))
            | (Base::DateTime, Value::DateTime(_) | Value::Date(_)) => true,
            (Base::DateTime, Value::Str(text)) => crate::value::Instant::parse(text.as_str()).is_some(),
            (Base::List(item), Value::Vector(items)) => {
                for (at, value) in items.iter().enumerate() {
                    item.check(value, format!("{path}[{at}]"), extra, found);
                }
                true
            }
            (Base::Fields(fields), Value::Map(map)) => {
                for (name, type_) in fields {
                    let value = map.get(&Value::keyword(name)).unwrap_or(&Value::Nil);
                    let dot = if path.is_empty() { "" } else { "." };
                    type_.check(value, format!("{path}{dot}{name}"), extra, found);
                }
                // Without any field it is whatever map.
                if extra == Extra::Refused && !fields.is_empty() {
                    found.extend(unexpected(fields, map, &path));
                }
                true
            }
            _ => false,
        };
        if !fits && found.len() < 1000 {
            let message = format!("expected {}, got {}", self.base.name(), value.kind());
            found.push(Mismatch { path, message });
        }
    }

    /// The value made to fit where only its notation is wrong: `"42"` for an `:int`, `"true"` for a `:bool`. Each
    /// change is noted in `warnings`; an integer becomes a float silently.
    pub fn coerce(&self, value: Value, path: &str, warnings: &mut Vec<String>) -> Value {
        let coerced = match (&self.base, &value) {
            (Base::Int, Value::Str(text)) => text.as_str().parse().ok().map(Value::Int),
            (Base::Int, Value::Float(x)) if x.fract() == 0.0 => number::whole(*x),
            (Base::Float, Value::Str(text)) => {
                text.as_str().parse::<f64>().ok().filter(|x| x.is_finite()).map(Value::Float)
            }
            (Base::Float, Value::Int(n)) => return Value::Float(*n as f64),
            (Base::Bool, Value::Str(text)) => match text.as_str() {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                _ => None,
            },
            (Base::String, Value::Keyword(keyword)) => Some(Value::str(keyword.as_str())),
            (Base::Keyword, Value::Str(text)) => Some(Value::keyword(text.as_str())),
            (Base::List(item), Value::Vector(items)) => {
                let items = items.iter().enumerate();
                return Value::vector(
                    items.map(|(at, value)| item.coerce(value.clone(), &format!("{path}[{at}]"), warnings)),
                );
            }
            (Base::Fields(fields), Value::Map(map)) => {
                return Value::Map(coerce_fields(fields, map, path, warnings));
            }
            _ => return value,
        };
        match coerced {
            Some(coerced) => {
                warnings.push(format!("{path}: took {} for {}", value.kind(), self.base.name()));
                coerced
            }
            None => value,
        }
    }
}

/// The fields of a map coerced to their types; other entries stay as they are.
fn coerce_fields(fields: &[(String, Type)], map: &Map, path: &str, warnings: &mut Vec<String>) -> Map {
    let mut coerced = map.clone();
    for (name, type_) in fields {
        let key = Value::keyword(name);
        if let Some((own, value)) = map.entry(&key) {
            let dot = if path.is_empty() { "" } else { "." };
            let value = type_.coerce(value.clone(), &format!("{path}{dot}{name}"), warnings);
            coerced.insert_exact(own.clone(), value);
        }
    }
    coerced
}

/// Arguments that fit their signature.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The arguments, made to fit where only their notation was wrong.
    pub args: Map,
    /// What was odd but no error.
    pub warnings: Vec<String>,
}

impl Signature {
    /// Holds arguments against the parameters, by a mode; what does not fit otherwise.
    ///
    /// ```
    /// use scrollback_lisp::{Signature, Validation, Value};
    /// let signature = Signature::parse("(limit :int) -> :any").map_err(|bad| bad.to_string())?;
    /// let Some(Value::Map(args)) = Value::from_json(r#"{"limit": "10"}"#) else { return Ok(()) };
    /// let accepted = signature.accept(Validation::Enabled, &args).map_err(|wrong| format!("{wrong:?}"))?;
    /// assert_eq!(accepted.warnings, ["limit: took string for int"]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn accept(&self, mode: Validation, args: &Map) -> Result<Accepted, Vec<Mismatch>> {
        if mode == Validation::Disabled {
            return Ok(Accepted { args: args.clone(), warnings: Vec::new() });
        }
        let mut warnings = Vec::new();
        let args = coerce_fields(&self.parameters, args, "", &mut warnings);
        let mut wrong = Vec::new();
        for (parameter, type_) in &self.parameters {
            let value = args.get(&Value::keyword(parameter)).unwrap_or(&Value::Nil);
            let found = type_.validate_in(mode, value).into_iter();
            wrong.extend(found.map(|Mismatch { path, message }| {
                let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
                Mismatch { path: format!("{parameter}{dot}{path}"), message }
            }));
        }
        if mode == Validation::Strict {
            wrong.extend(unexpected(&self.parameters, &args, ""));
        }
        if mode == Validation::WarnOnly {
            warnings.extend(wrong.drain(..).map(|mismatch| mismatch.to_string()));
        }
        if wrong.is_empty() { Ok(Accepted { args, warnings }) } else { Err(wrong) }
    }
}

/// Entries of a map that are none of the fields, as mismatches.
fn unexpected<'m>(
    fields: &'m [(String, Type)],
    map: &'m Map,
    path: &'m str,
) -> impl Iterator<Item = Mismatch> + 'm {
    let meant: Vec<&Value> =
        fields.iter().filter_map(|(name, _)| Some(map.entry(&Value::keyword(name))?.0)).collect();
    let extra = map.iter().map(|(key, _)| key).filter(move |key| !meant.contains(key));
    extra.map(move |key| {
        let dot = if path.is_empty() { "" } else { "." };
        Mismatch { path: format!("{path}{dot}{}", json::name(key)), message: "unexpected field".into() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_path() {
        let type_ = Signature::parse("{items [{id :int}], total :float?}").map(|signature| signature.output);
        let value = Value::from_json(r#"{"items": [{"id": 1}, {"id": "2"}], "more": 1}"#).unwrap_or_default();
        let found: Vec<String> = type_
            .iter()
            .flat_map(|t| t.validate(&value))
            .map(|m| format!("{}: {}", m.path, m.message))
            .collect();
        assert_eq!(found, ["items[1].id: expected int, got string"]);
    }

    #[test]
    fn modes_differ_in_what_they_refuse() {
        let type_ = Signature::parse("{id :int}").map(|signature| signature.output);
        let value = Value::from_json(r#"{"id": "7", "more": 1}"#).unwrap_or_default();
        for (mode, wanted) in [
            (Validation::Enabled, vec!["id"]),
            (Validation::WarnOnly, vec!["id"]),
            (Validation::Strict, vec!["id", "more"]),
            (Validation::Disabled, vec![]),
        ] {
            let found: Vec<String> =
                type_.iter().flat_map(|t| t.validate_in(mode, &value)).map(|m| m.path).collect();
            assert_eq!(found, wanted, "{mode:?}");
        }
        let any = Signature::parse("{}").map(|signature| signature.output);
        assert!(any.iter().all(|any| any.validate_in(Validation::Strict, &value).is_empty()), "any map");
        assert!(any.iter().all(|any| any.validate(&Value::from(1)).len() == 1), "but a map");
    }
}
