//! Printing without recursion, into a text of bounded size.

use std::fmt::Write;

use super::tree::Iter;
use super::{Map, Set, Value, Vector, number};

/// What was printed.
pub(crate) struct PrintedValue {
    pub(crate) text: String,
    /// Whether the limit cut it; `text` is then at least as long as the limit.
    pub(crate) truncated: bool,
}

/// A value as the reader reads it, at most about `limit` bytes.
pub(crate) fn readable(value: &Value, limit: usize) -> PrintedValue {
    let mut printer = Printer { text: String::new(), limit, truncated: false };
    printer.print(value);
    PrintedValue { text: printer.text, truncated: printer.truncated }
}

/// As `str` and `println` have it: strings and dates as their bare text, nil as `nil`.
pub(crate) fn display(value: &Value, limit: usize) -> PrintedValue {
    let text = match value {
        Value::Str(text) if text.bytes() <= limit => text.as_str().to_string(),
        Value::Date(date) => date.to_string(),
        Value::DateTime(instant) => instant.to_string(),
        Value::Duration(duration) => duration.to_string(),
        _ => return readable(value, limit),
    };
    PrintedValue { text, truncated: false }
}

enum OpenPrint<'v> {
    Values(Iter<'v, Value>, &'static str),
    Entries(Iter<'v, (Value, Value)>),
    /// The value of an entry whose key was just printed.
    Value(&'v Value),
}

struct Printer {
    text: String,
    limit: usize,
    truncated: bool,
}

impl Printer {
    fn print(&mut self, value: &Value) {
        let mut open = Vec::new();
        self.start(value, &mut open);
        let mut first = true;
        while let Some(top) = open.last_mut() {
            if self.text.len() > self.limit {
                self.truncated = true;
                return;
            }
            let next = match top {
                OpenPrint::Value(value) => {
                    let value = *value;
                    open.pop();
                    Some(value)
                }
                OpenPrint::Values(items, close) => {
                    let next = items.next();
                    if next.is_none() {
                        self.text.push_str(close);
                        open.pop();
                    }
                    next
                }
                OpenPrint::Entries(entries) => {
                    if let Some((key, value)) = entries.next() {
                        open.push(OpenPrint::Value(value));
                        Some(key)
                    } else {
                        self.text.push('}');
                        open.pop();
                        None
                    }
                }
            };
            if let Some(value) = next {
                if !first {
                    self.text.push(' ');
                }
                first = self.start(value, &mut open);
            } else {
                first = false;
            }
        }
        self.truncated |= self.text.len() > self.limit;
    }

    /// Prints a value without parts, or the opening of one with parts; whether something was opened.
    fn start<'v>(&mut self, value: &'v Value, open: &mut Vec<OpenPrint<'v>>) -> bool {
        match value {
            Value::Vector(Vector(items)) => {
                self.text.push('[');
                open.push(OpenPrint::Values(items.iter(), "]"));
                return true;
            }
            Value::Set(Set(items)) => {
                self.text.push_str("#{");
                open.push(OpenPrint::Values(items.iter(), "}"));
                return true;
            }
            Value::Map(Map(entries)) => {
                self.text.push('{');
                open.push(OpenPrint::Entries(entries.iter()));
                return true;
            }
            Value::Nil => self.text.push_str("nil"),
            Value::Bool(truth) => self.text.push_str(if *truth { "true" } else { "false" }),
            Value::Int(n) => drop(write!(self.text, "{n}")),
            Value::Big(n) => self.text.push_str(&n.to_string()),
            Value::Float(x) => self.text.push_str(&number::print_float(*x)),
            Value::Str(text) => self.quote(text.as_str()),
            Value::Keyword(keyword) => {
                if crate::read::is_keyword(keyword.as_str()) {
                    self.text.push(':');
                    self.text.push_str(keyword.as_str());
                } else {
                    // No spelling with a colon would read back as this keyword.
                    self.tagged("#keyword ", keyword.as_str());
                }
            }
            Value::Function(function) => self.text.push_str(&function.label()),
            Value::Regex(pattern) => {
                self.text.push_str("#\"");
                self.text.push_str(pattern.source());
                self.text.push('"');
            }
            Value::Date(date) => self.tagged("#date ", &date.to_string()),
            Value::DateTime(instant) => self.tagged("#inst ", &instant.to_string()),
            Value::Duration(duration) => self.tagged("#duration ", &duration.to_string()),
            Value::Var(name) => {
                self.text.push_str("#'");
                self.text.push_str(name.as_str());
            }
        }
        false
    }

    fn tagged(&mut self, tag: &str, text: &str) {
        self.text.push_str(tag);
        self.quote(text);
    }

    fn quote(&mut self, text: &str) {
        let room = self.limit.saturating_add(1).saturating_sub(self.text.len());
        let end = if room < text.len() { text.char_indices().nth(room) } else { None };
        let mut rest = end.map_or(text, |(end, _)| text.get(..end).unwrap_or_default());
        self.text.push('"');
        while let Some(at) =
            rest.bytes().position(|byte| matches!(byte, b'\\' | b'"' | b'\n' | b'\t' | b'\r'))
        {
            let (plain, special) = rest.split_at(at);
            self.text.push_str(plain);
            self.text.push_str(match special.as_bytes().first() {
                Some(b'\\') => "\\\\",
                Some(b'"') => "\\\"",
                Some(b'\n') => "\\n",
                Some(b'\t') => "\\t",
                _ => "\\r",
            });
            rest = special.get(1..).unwrap_or_default();
        }
        self.text.push_str(rest);
        self.text.push('"');
    }
}
