//! What programs compute with: immutable values that are copied in constant time and shared between threads.

mod date;
mod deep_drop;
pub(crate) mod function;
pub(crate) mod json;
mod map;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod pattern;
pub(crate) mod print;
mod set;
pub(crate) mod text;
pub(crate) mod tree;
mod tree_edit;
mod vector;
mod word;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use num_bigint::BigInt;

pub use date::{Date, Duration, Instant};
pub(crate) use deep_drop::{Debris, clear as clear_debris};
pub use function::Function;
pub(crate) use function::{Closure, Derived, Test};
pub use map::Map;
pub use pattern::Pattern;
pub use set::Set;
pub use text::{Keyword, Text};
pub use vector::Vector;
pub(crate) use word::Word;

/// Any value of the language.
///
/// Two values are `==` when they are equal as keys of a map: structurally, numbers by value, so `1` equals `1.0`. They
/// are ordered as keys are printed. A value is cloned in constant time, whatever its size.
///
/// ```
/// use scrollback_lisp::Value;
/// let orders = Value::from_json(r#"[{"id": 1, "total": 9.5}]"#).ok_or("not JSON")?;
/// assert_eq!(orders.to_string(), r#"[{"id" 1 "total" 9.5}]"#);
/// assert_eq!(orders.label(), "list[1]");
/// # Ok::<(), &str>(())
/// ```
#[derive(Default)]
// Two words, both aligned whatever the variant: values are copied all the time, and a copy of seven odd bytes stalls.
#[repr(u64)]
// Those that own nothing come first: one comparison tells them from the others.
pub enum Value {
    /// Nothing; false in a condition.
    #[default]
    Nil,
    /// True or false.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A float, infinities and not-a-number included.
    Float(f64),
    /// A day.
    Date(Date),
    /// A moment, in UTC.
    DateTime(Instant),
    /// A span of time.
    Duration(Duration),
    /// A larger integer. One that fits 64 bits is always an [`Int`](Value::Int).
    Big(Arc<BigInt>),
    /// A string.
    Str(Text),
    /// A keyword.
    Keyword(Keyword),
    /// A vector: the only kind of sequence.
    Vector(Vector),
    /// A map, sorted by key.
    Map(Map),
    /// A set, sorted.
    Set(Set),
    /// Anything made to be called.
    Function(Arc<Function>),
    /// A compiled regular expression.
    Regex(Pattern),
    /// A reference to a definition.
    Var(Text),
}

impl Value {
    /// A string.
    pub fn str(text: impl Into<Text>) -> Value {
        Value::Str(text.into())
    }

    /// The keyword of this text.
    pub fn keyword(text: &str) -> Value {
        Value::Keyword(Keyword::new(text))
    }

    /// A vector of these values.
    pub fn vector(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Vector(items.into_iter().collect())
    }

    /// Whether a condition takes this for true: everything but nil and false.
    pub fn is_truthy(&self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    /// What kind of value this is, with its size: `integer`, `list[3]`, `map[2]`, `#fn[x y]`.
    pub fn label(&self) -> String {
        match self {
            Value::Vector(items) => format!("list[{}]", items.len()),
            Value::Map(entries) => format!("map[{}]", entries.len()),
            Value::Set(members) => format!("set[{}]", members.len()),
            Value::Function(function) => function.label(),
            _ => self.kind().to_string(),
        }
    }

    /// What kind of value this is, in one word, as `(type v)` says it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "boolean",
            Value::Int(_) | Value::Big(_) => "integer",
            Value::Float(_) => "float",
            Value::Str(_) => "string",
            Value::Keyword(_) => "keyword",
            Value::Vector(_) => "list",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::Function(_) => "function",
            Value::Regex(_) => "regex",
            Value::Date(_) => "date",
            Value::DateTime(_) => "datetime",
            Value::Duration(_) => "duration",
            Value::Var(_) => "var",
        }
    }

    /// A copy that shares what the value is made of.
    fn share(&self) -> Value {
        match self {
            Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.clone(),
            Value::Big(n) => Value::Big(Arc::clone(n)),
            Value::Str(text) => Value::Str(text.clone()),
            Value::Keyword(keyword) => Value::Keyword(keyword.clone()),
            Value::Vector(items) => Value::Vector(items.clone()),
            Value::Map(entries) => Value::Map(entries.clone()),
            Value::Set(members) => Value::Set(members.clone()),
            Value::Function(function) => Value::Function(Arc::clone(function)),
            Value::Regex(pattern) => Value::Regex(pattern.clone()),
            Value::Date(date) => Value::Date(*date),
            Value::DateTime(instant) => Value::DateTime(*instant),
            Value::Duration(duration) => Value::Duration(*duration),
            Value::Var(name) => Value::Var(name.clone()),
        }
    }

    /// Whether this owns nothing: it is all there is of it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self,
            Value::Nil
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::Date(_)
                | Value::DateTime(_)
                | Value::Duration(_)
        )
    }

    /// Drops a value; one that owns nothing on the spot, without a call.
    #[inline]
    pub(crate) fn discard(self) {
        if self.is_plain() {
            std::mem::forget(self);
        }
    }

    /// Whether this is a number of any kind.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Big(_) | Value::Float(_))
    }

    /// Whether this is a vector, map or set.
    pub(crate) fn is_collection(&self) -> bool {
        matches!(self, Value::Vector(_) | Value::Map(_) | Value::Set(_))
    }

    /// Reads JSON. Objects become maps with string keys, integers of any size stay integers; of two equal keys the
    /// later wins. `None` if it is not JSON.
    pub fn from_json(text: &str) -> Option<Value> {
        json::read(text, json::Keys::Strings)
    }

    /// The printed form, cut with `...` when it is longer than so many bytes; whether it was cut.
    pub fn to_text(&self, limit: usize) -> (String, bool) {
        let print::PrintedValue { mut text, truncated } = print::readable(self, limit);
        if truncated {
            let mut end = limit.min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("...");
        }
        (text, truncated)
    }

    /// Compact JSON, or its beginning if it is longer than so many bytes; whether it was cut.
    pub fn to_json_text(&self, limit: usize) -> (String, bool) {
        let written = json::write(self, limit);
        (written.text, written.truncated)
    }

    /// This value as compact JSON: keywords as their text, sets as arrays, dates as ISO text, functions as printed,
    /// and floats that JSON does not know as null.
    pub fn to_json(&self) -> String {
        json::write(self, usize::MAX).text
    }
}

impl Clone for Value {
    /// What has no parts is copied on the spot, without a call.
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Value::Nil => Value::Nil,
            Value::Bool(truth) => Value::Bool(*truth),
            Value::Int(n) => Value::Int(*n),
            Value::Float(x) => Value::Float(*x),
            _ => self.share(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        order::keys(self, other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        order::keys(self, other)
    }
}

/// Prints readably: reading what is printed gives an equal value, functions aside.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::readable(self, usize::MAX).text)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::readable(self, 10_000).text)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Value::Float(x)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::str(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::str(text)
    }
}

impl From<BigInt> for Value {
    fn from(n: BigInt) -> Self {
        i64::try_from(&n).map_or_else(|_| Value::Big(Arc::new(n)), Value::Int)
    }
}
