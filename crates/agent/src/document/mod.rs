//! Documents that people write: YAML, or JSON, which is YAML too. Every value knows where it stands, so that every
//! mistake can be shown at its place, and all of them at once.

mod fields;
mod parse;

use std::fmt;

use serde_json::{Map, Number, Value as Json};

pub use fields::{Fields, read_duration};
pub use parse::{ParsedDocument, parse, parse_all};

/// A place in a document, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it says.
    pub value: Value,
    /// Where.
    pub at: TextPosition,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no: `true` or `false`, no other words.
    Bool(bool),
    /// A number, in its own spelling.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Named values, in their order. No name appears twice.
    Map(Vec<(NodeKey, Node)>),
}

/// A name in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeKey {
    /// The name.
    pub name: String,
    /// Where.
    pub at: TextPosition,
}

impl Node {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The named values, if it is a map.
    pub fn as_map(&self) -> Option<&[(NodeKey, Node)]> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The value of a name, if it is a map that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.as_map()?.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    /// What it is, for messages to people.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    // The depth is limited where documents are parsed.
    /// The same as JSON.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Number(text) => number(text).map_or_else(|| Json::String(text.clone()), Json::Number),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(list) => list.iter().map(Node::to_json).collect(),
            Value::Map(map) => {
                let members = map.iter().map(|(key, node)| (key.name.clone(), node.to_json()));
                Json::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

// The depth is limited where JSON is parsed.
impl From<&Json> for Node {
    /// The same as a document that stands nowhere.
    fn from(json: &Json) -> Self {
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => Value::Number(number.to_string()),
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(list) => Value::List(list.iter().map(Node::from).collect()),
            Json::Object(members) => {
                let named = |(name, value): (&String, &Json)| {
                    (NodeKey { name: name.clone(), at: TextPosition::default() }, Node::from(value))
                };
                Value::Map(members.iter().map(named).collect())
            }
        };
        Node { value, at: TextPosition::default() }
    }
}

/// A number as JSON has it.
fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

/// A mistake in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// Which kind of mistake: one of [`code`], or of those whose document it is.
    pub code: &'static str,
    /// Where, as a path of names and numbers: `tools[0].name`.
    pub path: String,
    /// Where in the text.
    pub at: TextPosition,
    /// What is wrong, and what to do.
    pub message: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

/// Kinds of mistakes that any document can have.
pub mod code {
    /// It is no document at all.
    pub const SYNTAX: &str = "yaml_syntax";
    /// A key appears twice in one map.
    pub const DUPLICATE_KEY: &str = "duplicate_key";
    /// There is no such key.
    pub const UNKNOWN_KEY: &str = "unknown_key";
    /// A key that is needed is not there.
    pub const MISSING_KEY: &str = "missing_key";
    /// A value of another kind was expected.
    pub const WRONG_TYPE: &str = "wrong_type";
    /// A value is too small, too large, too long or too short.
    pub const OUT_OF_RANGE: &str = "out_of_range";
    /// A value that means nothing here.
    pub const UNKNOWN_VALUE: &str = "unknown_value";
    /// Two keys exclude each other.
    pub const CONFLICTING_KEYS: &str = "conflicting_keys";
    /// A JSON Schema that is not valid.
    pub const BAD_SCHEMA: &str = "bad_schema";
}

impl DocumentProblem {
    /// A mistake of a kind at a place.
    pub fn new(
        code: &'static str,
        path: impl Into<String>,
        at: TextPosition,
        message: impl Into<String>,
    ) -> Self {
        DocumentProblem { code, path: path.into(), at, message: message.into(), suggestion: None }
    }

    /// The same with the word that was probably meant, which the message says too.
    #[must_use]
    pub fn suggesting(mut self, word: Option<&str>) -> Self {
        self.suggestion = word.map(String::from);
        if let Some(word) = word {
            self.message = format!("{}; did you mean `{word}`?", self.message);
        }
        self
    }
}

impl fmt::Display for DocumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.at.line, self.at.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DocumentProblem {}
