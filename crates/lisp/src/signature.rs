//! Signatures: what a tool takes and gives, in the syntax `(query :string, limit :int?) -> [:map]`.

use std::fmt;

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
    /// `{name type, …}`; `{}` is any map.
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
        let mut parser = SignatureParser { text, at: 0, depth: 0 };
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

struct SignatureParser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl SignatureParser<'_> {
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
            Base::Fields(self.fields("}")?)
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
        write!(f, "({}) -> {}", SignatureFields(&self.parameters), self.output)
    }
}

struct SignatureFields<'f>(&'f [(String, Type)]);

impl fmt::Display for SignatureFields<'_> {
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
            Base::Fields(fields) => write!(f, "{{{}}}", SignatureFields(fields))?,
            base => write!(f, ":{}", base.name())?,
        }
        f.write_str(if self.optional { "?" } else { "" })
    }
}

impl Base {
    pub(crate) fn name(&self) -> &'static str {
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
            ("( m {  } )->{ }?", "(m {}) -> {}?"),
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
}
