//! The text form of a configuration, read into the same tree that JSON gives.

use serde_json::{Number, Value};

use super::{ConfigError, ConfigErrorKind};
use crate::json::{self, JsonKind, Raw};

/// Managers inside managers, at most; more is a mistake, and recursion stays shallow.
pub(super) const MAX_NESTING: usize = 32;

/// A configuration that was read but not interpreted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConfigNode {
    Null,
    Bool(bool),
    Number(Number),
    /// A text in quotes; where a manager is wanted, its text form.
    Text(String),
    /// A word without quotes.
    Word(String),
    List(Vec<ConfigNode>),
    Object(Vec<(String, ConfigNode)>),
    /// A name with arguments.
    Call {
        name: String,
        positional: Vec<ConfigNode>,
        named: Vec<(String, ConfigNode)>,
    },
}

impl ConfigNode {
    /// What it is, in messages to people.
    pub(super) fn describe(&self) -> String {
        match self {
            ConfigNode::Null => "null".into(),
            ConfigNode::Bool(value) => value.to_string(),
            ConfigNode::Number(number) => number.to_string(),
            ConfigNode::Text(text) => format!("the text {text:?}"),
            ConfigNode::Word(word) => format!("`{word}`"),
            ConfigNode::List(_) => "a list".into(),
            ConfigNode::Object(_) => "an object".into(),
            ConfigNode::Call { name, .. } => format!("`{name}(…)`"),
        }
    }
}

impl From<Raw<'_>> for ConfigNode {
    /// Nesting was limited when the text was checked.
    fn from(raw: Raw<'_>) -> Self {
        match raw.kind() {
            JsonKind::Null => ConfigNode::Null,
            JsonKind::Bool => ConfigNode::Bool(raw.text() == "true"),
            // A number too large for any option is told apart from a text by what it is printed as.
            JsonKind::Number => serde_json::from_str(raw.text())
                .map_or_else(|_| ConfigNode::Word(raw.text().into()), ConfigNode::Number),
            JsonKind::String => ConfigNode::Text(raw.string().unwrap_or_default().into_owned()),
            JsonKind::Array => ConfigNode::List(raw.elements().map(ConfigNode::from).collect()),
            JsonKind::Object => ConfigNode::Object(
                raw.members().map(|(key, value)| (key.into_owned(), ConfigNode::from(value))).collect(),
            ),
        }
    }
}

impl From<&Value> for ConfigNode {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => ConfigNode::Null,
            Value::Bool(value) => ConfigNode::Bool(*value),
            Value::Number(number) => ConfigNode::Number(number.clone()),
            Value::String(text) => ConfigNode::Text(text.clone()),
            Value::Array(items) => ConfigNode::List(items.iter().map(ConfigNode::from).collect()),
            Value::Object(members) => ConfigNode::Object(
                members.iter().map(|(key, value)| (key.clone(), ConfigNode::from(value))).collect(),
            ),
        }
    }
}

impl From<ConfigNode> for Value {
    /// Words are texts; a name with arguments is an object of it. Nesting was limited when the text was read.
    fn from(node: ConfigNode) -> Self {
        match node {
            ConfigNode::Null => Value::Null,
            ConfigNode::Bool(value) => Value::Bool(value),
            ConfigNode::Number(number) => Value::Number(number),
            ConfigNode::Text(text) | ConfigNode::Word(text) => Value::String(text),
            ConfigNode::List(items) => items.into_iter().map(Value::from).collect(),
            ConfigNode::Object(members) => {
                Value::Object(members.into_iter().map(|(key, node)| (key, Value::from(node))).collect())
            }
            ConfigNode::Call { name, positional, named } => {
                let numbered = positional.into_iter().enumerate().map(|(at, node)| (at.to_string(), node));
                let options = numbered.chain(named).map(|(key, node)| (key, Value::from(node)));
                Value::Object([(name, Value::Object(options.collect()))].into_iter().collect())
            }
        }
    }
}

/// Reads the text form of one manager. Text that begins with `{` or `[` is JSON.
pub(super) fn read(text: &str, path: &str) -> Result<ConfigNode, ConfigError> {
    let mut reader = SyntaxReader { text, at: 0, path };
    reader.space();
    let node = if matches!(reader.peek(), Some('{' | '[')) { reader.json()? } else { reader.value(0)? };
    reader.space();
    match reader.peek() {
        None => Ok(node),
        Some(found) => {
            let hint =
                if matches!(node, ConfigNode::Word(_)) { "; options stand in parentheses" } else { "" };
            Err(reader.error(&format!("nothing was expected after the manager, found {found:?}{hint}")))
        }
    }
}

struct SyntaxReader<'a> {
    text: &'a str,
    at: usize,
    path: &'a str,
}

impl SyntaxReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn error(&self, problem: &str) -> ConfigError {
        let column = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        ConfigError::new(
            ConfigErrorKind::BadSyntax,
            self.path,
            format!("{problem} (column {column} of {:?})", self.text),
        )
    }

    fn value(&mut self, depth: usize) -> Result<ConfigNode, ConfigError> {
        if depth > MAX_NESTING {
            return Err(self.error(&format!("nested deeper than {MAX_NESTING}")));
        }
        self.space();
        match self.peek() {
            None => Err(self.error("a manager or a value was expected, found the end")),
            Some('"' | '{') => self.json(),
            Some('[') => self.list(depth),
            Some('-' | '0'..='9') => self.number(),
            Some(c) if is_word_start(c) => self.word(depth),
            Some('\'') => Err(self.error("texts stand in double quotes")),
            Some(found) => Err(self.error(&format!("a manager or a value was expected, found {found:?}"))),
        }
    }

    /// One JSON value at this place.
    fn json(&mut self) -> Result<ConfigNode, ConfigError> {
        // serde finds the end of the value and names what is wrong; our own reader keeps keys that appear twice.
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<serde::de::IgnoredAny>();
        let end = match values.next() {
            Some(Ok(_)) => values.byte_offset(),
            Some(Err(error)) => {
                let hint = if self.rest().contains('\'') {
                    "; JSON has double quotes"
                } else if self.rest().starts_with('[') {
                    "; in a JSON list managers are texts or objects"
                } else {
                    ""
                };
                return Err(self.error(&format!("not valid JSON: {error}{hint}")));
            }
            None => return Err(self.error("a value was expected, found the end")),
        };
        let text = self.rest().get(..end).unwrap_or_default();
        match json::check(text) {
            Ok(raw) => {
                let node = ConfigNode::from(raw);
                self.at += end;
                Ok(node)
            }
            Err(error) => Err(self.error(&format!("not valid JSON: {error}"))),
        }
    }

    fn list(&mut self, depth: usize) -> Result<ConfigNode, ConfigError> {
        self.eat('[');
        let mut items = Vec::new();
        loop {
            self.space();
            if self.eat(']') {
                return Ok(ConfigNode::List(items));
            }
            if !items.is_empty() && !self.eat(',') {
                return Err(self.error("`,` or `]` was expected"));
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn number(&mut self) -> Result<ConfigNode, ConfigError> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | 'k' | '_' | '0'..='9'))
            .unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        let number = spelled_number(digits).filter(|_| !after.starts_with(is_word_char));
        match number {
            Some(number) => {
                self.at += end;
                Ok(ConfigNode::Number(number))
            }
            None => Err(self.error("this is not a number; write it as 8000, 8_000 or 8k")),
        }
    }

    fn bare_word(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_word_char(c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default().to_string();
        self.at += end;
        word
    }

    fn word(&mut self, depth: usize) -> Result<ConfigNode, ConfigError> {
        let word = self.bare_word();
        self.space();
        if self.eat('(') {
            return self.arguments(word, depth);
        }
        Ok(match word.as_str() {
            "true" => ConfigNode::Bool(true),
            "false" => ConfigNode::Bool(false),
            "null" => ConfigNode::Null,
            _ => ConfigNode::Word(word),
        })
    }

    fn arguments(&mut self, name: String, depth: usize) -> Result<ConfigNode, ConfigError> {
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        loop {
            self.space();
            if self.eat(')') {
                return Ok(ConfigNode::Call { name, positional, named });
            }
            if !(positional.is_empty() && named.is_empty()) {
                if !self.eat(',') {
                    let colon =
                        matches!(positional.last(), Some(ConfigNode::Word(word)) if word.ends_with(':'));
                    let hint = if colon { "; options are given as name=value" } else { "" };
                    return Err(self.error(&format!("`,` or `)` was expected{hint}")));
                }
                self.space();
            }
            match self.option_name() {
                Some(option) => named.push((option, self.value(depth + 1)?)),
                None if named.is_empty() => positional.push(self.value(depth + 1)?),
                None => return Err(self.error("values without a name come before those with one")),
            }
        }
    }

    /// `name =`, if that is what comes next.
    fn option_name(&mut self) -> Option<String> {
        let start = self.at;
        if self.peek().is_some_and(is_word_start) {
            let word = self.bare_word();
            self.space();
            if self.eat('=') {
                return Some(word);
            }
        }
        self.at = start;
        None
    }
}

/// A number as people write it: `8000`, `8_000`, `8k`, `-0.5`.
///
/// ```
/// use scrollback_core::manager::spelled_number;
/// assert_eq!(spelled_number("16k").and_then(|number| number.as_u64()), Some(16_000));
/// assert_eq!(spelled_number("16_000").and_then(|number| number.as_u64()), Some(16_000));
/// assert_eq!(spelled_number("_16"), None);
/// ```
pub fn spelled_number(text: &str) -> Option<Number> {
    let (plain, thousands) = match text.strip_suffix('k') {
        Some(plain) => (plain, true),
        None => (text, false),
    };
    let parts: Vec<&str> = plain.split('_').collect();
    // Each `_` stands between two digits.
    let edges = parts.windows(2).all(|pair| {
        let digit = |text: Option<&&str>, at: fn(&str) -> Option<char>| {
            text.and_then(|text| at(text)).is_some_and(|letter| letter.is_ascii_digit())
        };
        digit(pair.first(), |text| text.chars().next_back()) && digit(pair.last(), |text| text.chars().next())
    });
    let number: Number = serde_json::from_str(&parts.concat()).ok().filter(|_| edges)?;
    if !thousands {
        return Some(number);
    }
    match number.as_u64() {
        Some(whole) => whole.checked_mul(1000).map(Number::from),
        None => Number::from_f64(number.as_f64()? * 1000.0),
    }
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Words take what model names have in them.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '@')
}
