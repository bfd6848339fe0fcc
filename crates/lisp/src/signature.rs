//! Signatures: what a tool takes and gives, in the syntax `(query :string, limit :int?) -> [:map]`.

use std::fmt;

use crate::value::{Map, Value, number};

/// How deep a signature may be nested.
const MAX_NESTING: usize = 64;

/// Parameters and result of a tool, or inputs and output of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The parameters in order; none if only an output was given.
    pub parameters: Vec<(String, Type)>,
    /// What comes back.
    pub output: Type,
}

/// A type, perhaps optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// What it is when it is there.
    pub base: Base,
    /// Whether nil or absence is fine.
    pub optional: bool,
}

/// What a value has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `:string`
    String,
    /// `:int`
    Int,
    /// `:float`
    Float,
    /// `:bool`
    Bool,
    /// `:keyword`
    Keyword,
    /// `:map`
    Map,
    /// `:any`
    Any,
    /// `:datetime`
    DateTime,
    /// `[type]`
    List(Box<Type>),
    /// `{name type, …}`
    Fields(Vec<(String, Type)>),
}

/// A signature that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSignature {
    /// Where, counted from 1.
    pub column: usize,
    /// What was expected there.
    pub expected: String,
}

impl fmt::Display for BadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signature, column {}: expected {}", self.column, self.expected)
    }
}

impl std::error::Error for BadSignature {}

/// A value that does not fit its type, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// `items[0].id`; empty at the top.
    pub path: String,
    /// What was expected and what is there.
    pub message: String,
}

impl Signature {
    /// Reads a signature.
    ///
    /// ```
    /// use scrollback_lisp::Signature;
    /// let signature = Signature::parse("( query :string,limit :int? )->[:map]")?;
    /// assert_eq!(signature.to_string(), "(query :string, limit :int?) -> [:map]");
    /// # Ok::<(), scrollback_lisp::BadSignature>(())
    /// ```
    pub fn parse(text: &str) -> Result<Signature, BadSignature> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let mut parameters = Vec::new();
        if parser.take("(") {
            parameters = parser.fields(")")?;
            parser.expect("->")?;
        }
        let output = parser.type_()?;
        parser.skip();
        if parser.at < text.len() {
            return parser.fail("the end");
        }
        Ok(Signature { parameters, output })
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn fail<T>(&self, expected: &str) -> Result<T, BadSignature> {
        let column = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        Err(BadSignature { column, expected: expected.into() })
    }

    fn expect(&mut self, token: &str) -> Result<(), BadSignature> {
        if self.take(token) { Ok(()) } else { self.fail(token) }
    }

    fn fields(&mut self, close: &str) -> Result<Vec<(String, Type)>, BadSignature> {
        let mut fields = Vec::new();
        if self.take(close) {
            return Ok(fields);
        }
        loop {
            self.skip();
            let rest = self.rest();
            let length = rest
                .char_indices()
                .find(|(at, c)| {
                    !(c.is_alphabetic() || *c == '_' || (*at > 0 && (c.is_alphanumeric() || *c == '-')))
                })
                .map_or(rest.len(), |(at, _)| at);
            if length == 0 {
                return self.fail("a name");
            }
            let name = rest.get(..length).unwrap_or_default().to_string();
            self.at += length;
            fields.push((name, self.type_()?));
            if self.take(close) {
                return Ok(fields);
            }
            if !self.take(",") {
                return self.fail(&format!(", or {close}"));
            }
        }
    }

    fn type_(&mut self) -> Result<Type, BadSignature> {
        const NAMES: [(&str, Base); 8] = [
            (":string", Base::String),
            (":int", Base::Int),
            (":float", Base::Float),
            (":bool", Base::Bool),
            (":keyword", Base::Keyword),
            (":map", Base::Map),
            (":any", Base::Any),
            (":datetime", Base::DateTime),
        ];
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.fail(&format!("no more than {MAX_NESTING} levels"));
        }
        let base = if self.take("[") {
            let item = self.type_()?;
            self.expect("]")?;
            Base::List(Box::new(item))
        } else if self.take("{") {
            let fields = self.fields("}")?;
            if fields.is_empty() { Base::Map } else { Base::Fields(fields) }
        } else {
            let rest = self.rest();
            let length = rest
                .char_indices()
                .find(|(at, c)| *at > 0 && !c.is_ascii_alphanumeric())
                .map_or(rest.len(), |(at, _)| at);
            let word = rest.get(..length).unwrap_or_default();
            let Some((name, base)) = NAMES.into_iter().find(|(name, _)| *name == word) else {
                return self.fail(
                    "a type: :string :int :float :bool :keyword :map :any :datetime, [type] or {name type}",
                );
            };
            self.at += name.len();
            base
        };
        self.depth -= 1;
        Ok(Type { base, optional: self.take("?") })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}) -> {}", Fields(&self.parameters), self.output)
    }
}

struct Fields<'f>(&'f [(String, Type)]);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, type_)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {type_}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            Base::List(item) => write!(f, "[{item}]")?,
            Base::Fields(fields) => write!(f, "{{{}}}", Fields(fields))?,
            base => write!(f, ":{}", base.name())?,
        }
        f.write_str(if self.optional { "?" } else { "" })
    }
}

impl Base {
    fn name(&self) -> &'static str {
        match self {
            Base::String => "string",
            Base::Int => "int",
            Base::Float => "float",
            Base::Bool => "bool",
            Base::Keyword => "keyword",
            Base::Map | Base::Fields(_) => "map",
            Base::Any => "any",
            Base::DateTime => "datetime",
            Base::List(_) => "list",
        }
    }
}

impl Type {
    /// Everything in a value that does not fit this type. Extra fields are fine; an integer is a `:float`.
    pub fn validate(&self, value: &Value) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.check(value, String::new(), &mut found);
        found
    }

    // Recursion follows the type, whose depth the parser bounds.
    fn check(&self, value: &Value, path: String, found: &mut Vec<Mismatch>) {
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
                    item.check(value, format!("{path}[{at}]"), found);
                }
                true
            }
            (Base::Fields(fields), Value::Map(map)) => {
                for (name, type_) in fields {
                    let value = map.get(&Value::keyword(name)).unwrap_or(&Value::Nil);
                    let dot = if path.is_empty() { "" } else { "." };
                    type_.check(value, format!("{path}{dot}{name}"), found);
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
pub(crate) fn coerce_fields(
    fields: &[(String, Type)],
    map: &Map,
    path: &str,
    warnings: &mut Vec<String>,
) -> Map {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_print_as_they_are_meant() {
        for (text, canonical) in [
            (":int", "() -> :int"),
            ("() -> :any?", "() -> :any?"),
            (
                "(a :int,b [:string?]?)->{x :float,y {z :bool}}",
                "(a :int, b [:string?]?) -> {x :float, y {z :bool}}",
            ),
            ("(m {}) -> {}", "(m :map) -> :map"),
        ] {
            let printed = Signature::parse(text).map(|signature| signature.to_string());
            assert_eq!(printed.as_deref(), Ok(canonical), "{text}");
            assert_eq!(Signature::parse(canonical), Signature::parse(text));
        }
    }

    #[test]
    fn what_is_no_signature_is_refused_with_its_column() {
        for (text, column) in [
            ("", 1),
            ("[]", 2),
            ("(a) -> :int", 3),
            ("(a :int -> :int", 9),
            (":int :int", 6),
            (":integer", 1),
        ] {
            assert_eq!(Signature::parse(text).map_err(|bad| bad.column), Err(column), "{text}");
        }
        assert!(Signature::parse(&"[".repeat(100_000)).is_err());
    }

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
}
