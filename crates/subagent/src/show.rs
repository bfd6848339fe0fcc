//! Values as a model is shown them: short, in the language's own notation, and never without saying what was left out.

use std::borrow::Cow;
use std::fmt::Write;

use scrollback_lisp::{Map, Value};
use unicode_segmentation::UnicodeSegmentation;

/// Collections inside collections inside collections: their content is left out.
const DEEPEST: usize = 3;
/// Graphemes of a key.
const KEY: usize = 30;
/// The narrowest a part gets, however many share the width.
const NARROWEST: usize = 10;
/// The column where remarks begin.
const COLUMN: usize = 30;

/// How much of a value is shown.
///
/// ```
/// use scrollback_subagent::Show;
/// use scrollback_lisp::Value;
/// let show = Show { limit: 3, width: 80, ..Show::default() };
/// let value = Value::read("[1 2 3 4 5]")?;
/// assert_eq!(show.value(&value), "[1 2 3 ...] (5 items, showing first 3)");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// Items of a collection.
    pub limit: usize,
    /// Graphemes of a string; the parts of a collection share them.
    pub width: usize,
    /// What is done about names that begin with `_`.
    pub private: Private,
}

/// What is done about keys that begin with `_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Private {
    /// They are shown as all others.
    #[default]
    Shown,
    /// They are left out.
    Hidden,
}

impl Private {
    /// Whether a name is shown.
    pub fn shows(self, name: &str) -> bool {
        self == Private::Shown || !name.starts_with('_')
    }

    fn shows_key(self, key: &Value) -> bool {
        match key {
            Value::Str(text) => self.shows(text.as_str()),
            Value::Keyword(keyword) => self.shows(keyword.name()),
            _ => true,
        }
    }
}

impl Show {
    /// The value in short.
    pub fn value(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, 0, self.width, &mut out);
        out
    }

    /// Arguments of a tool: nothing if there are none, else a map whose keys are keywords where they can be.
    pub(crate) fn arguments(&self, args: &Map) -> String {
        let mut out = String::new();
        if !args.is_empty() {
            self.entries(args, 0, self.width, &mut out, |key, out| match key {
                Value::Str(name) if is_plain(name.as_str()) => {
                    out.push(':');
                    out.push_str(name.as_str());
                }
                key => self.key(key, 0, out),
            });
        }
        out
    }

    // The recursion ends at the third level, however deep the value is.
    fn write(&self, value: &Value, depth: usize, width: usize, out: &mut String) {
        match value {
            Value::Str(text) => out.push_str(&quoted(&shorten(text.as_str(), width))),
            Value::Float(x) => out.push_str(&Value::Float(rounded(*x)).to_string()),
            Value::Vector(items) => self.items(("[", "]"), items.len(), items.iter(), depth, width, out),
            Value::Set(items) => self.items(("#{", "}"), items.len(), items.iter(), depth, width, out),
            Value::Map(entries) => {
                self.entries(entries, depth, width, out, |key, out| self.key(key, depth, out));
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn key(&self, key: &Value, depth: usize, out: &mut String) {
        match key {
            Value::Str(text) => out.push_str(&quoted(&shorten(text.as_str(), KEY))),
            key => self.write(key, depth + 1, KEY, out),
        }
    }

    fn items<'v>(
        &self,
        (open, close): (&str, &str),
        count: usize,
        items: impl Iterator<Item = &'v Value>,
        depth: usize,
        width: usize,
        out: &mut String,
    ) {
        let shown = count.min(self.limit);
        out.push_str(open);
        if count > 0 && depth >= DEEPEST {
            out.push_str("...");
            out.push_str(close);
            return;
        }
        for (number, item) in items.take(shown).enumerate() {
            out.push_str(if number == 0 { "" } else { " " });
            self.write(item, depth + 1, share(width, shown), out);
        }
        self.end(close, count, shown, out);
    }

    fn entries(
        &self,
        map: &Map,
        depth: usize,
        width: usize,
        out: &mut String,
        key: impl Fn(&Value, &mut String),
    ) {
        let count = match self.private {
            Private::Shown => map.len(),
            Private::Hidden => map.iter().filter(|(key, _)| self.private.shows_key(key)).count(),
        };
        let shown = count.min(self.limit);
        out.push('{');
        if count > 0 && depth >= DEEPEST {
            out.push_str("...}");
            return;
        }
        let visible = map.iter().filter(|(key, _)| self.private.shows_key(key));
        for (number, (name, value)) in visible.take(shown).enumerate() {
            out.push_str(if number == 0 { "" } else { " " });
            key(name, out);
            out.push(' ');
            self.write(value, depth + 1, share(width, shown), out);
        }
        self.end("}", count, shown, out);
    }

    fn end(&self, close: &str, count: usize, shown: usize, out: &mut String) {
        if count > self.limit {
            out.push_str(" ...");
            out.push_str(close);
            let _ = write!(out, " ({count} items, showing first {shown})");
        } else {
            out.push_str(close);
        }
    }
}

/// The part of a width that one of so many gets.
fn share(width: usize, among: usize) -> usize {
    width.checked_div(among).unwrap_or(0).max(NARROWEST)
}

/// Whether a sample says more than the type does.
pub(crate) fn has_sample(value: &Value) -> bool {
    match value {
        Value::Nil | Value::Function(_) => false,
        Value::Vector(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
        Value::Set(items) => !items.is_empty(),
        _ => true,
    }
}

/// The type of a value in the short vocabulary: `list[3]`, `integer`, `#fn[...]`.
pub(crate) fn type_label(value: &Value) -> String {
    match value {
        Value::Function(_) => "#fn[...]".into(),
        value => value.label(),
    }
}

/// A float without the noise of its last digits.
fn rounded(x: f64) -> f64 {
    let near: f64 = format!("{x:.10}").parse().unwrap_or(x);
    if near == 0.0 || !x.is_finite() { x } else { near }
}

/// Whether a key can be written as a keyword.
fn is_plain(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_?!*+<>=-".contains(&byte);
    first && name.bytes().all(fits)
}

fn quoted(text: &str) -> String {
    Value::str(text).to_string()
}

/// The first graphemes of a text and `...`, or the text itself if it has no more than that.
pub(crate) fn shorten(text: &str, graphemes: usize) -> Cow<'_, str> {
    // A grapheme has at least one byte.
    if text.len() <= graphemes {
        return text.into();
    }
    match text.grapheme_indices(true).nth(graphemes) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// How many graphemes a text has.
pub(crate) fn graphemes(text: &str) -> usize {
    text.graphemes(true).count()
}

/// A text on one line: runs of white space are one space, none at the ends.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A docstring on one line, without what would begin a remark of its own; none if it says nothing.
pub(crate) fn remark(text: &str) -> Option<String> {
    Some(one_line(&text.replace(';', ""))).filter(|doc| !doc.is_empty())
}

/// A text with spaces up to the column where remarks begin; at least one.
pub(crate) fn pad(text: &str) -> String {
    let spaces = COLUMN.saturating_sub(text.chars().count()).max(1);
    format!("{text}{}", " ".repeat(spaces))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn show(text: &str) -> String {
        Show { limit: 3, width: 80, private: Private::Shown }.value(&Value::read(text).unwrap())
    }

    #[test]
    fn values_are_shown_in_short() {
        for (text, shown) in [
            ("nil", "nil"),
            ("[]", "[]"),
            ("#{1 2 3 4}", "#{1 2 3 ...} (4 items, showing first 3)"),
            ("{:a 1 :b {:c {:d [1]}}}", "{:a 1 :b {:c {:d [...]}}}"),
            ("[[[[]]]]", "[[[[]]]]"),
            ("[[[[1]]]]", "[[[[...]]]]"),
            ("0.1", "0.1"),
            ("0.30000000000000004", "0.3"),
            ("1.0E-12", "1.0E-12"),
            ("##NaN", "##NaN"),
            ("0.123456789012345", "0.123456789"),
            ("\"a\\n\\\"b\\\"\"", "\"a\\n\\\"b\\\"\""),
            ("[1 [1 2 3 4]]", "[1 [1 2 3 ...] (4 items, showing first 3)]"),
        ] {
            assert_eq!(show(text), shown, "{text}");
        }
        let long = format!("[\"{0}\" \"{0}\" \"{0}\" \"{0}\"]", "é".repeat(100));
        let part = format!("\"{}...\"", "é".repeat(26));
        assert_eq!(show(&long), format!("[{part} {part} {part} ...] (4 items, showing first 3)"));
        let key = format!("{{\"{}\" 1}}", "k".repeat(31));
        assert_eq!(show(&key), format!("{{\"{}...\" 1}}", "k".repeat(30)));
    }

    #[test]
    fn arguments_have_keywords_where_they_can() {
        let Value::Map(args) = Value::read("{\"role\" \"admin\" \"a b\" 1 \"_x\" 2}").unwrap() else {
            return;
        };
        let show = Show { limit: 3, width: 60, private: Private::Shown };
        assert_eq!(show.arguments(&args), "{:_x 2 \"a b\" 1 :role \"admin\"}");
        let hidden = Show { private: Private::Hidden, ..show };
        assert_eq!(hidden.arguments(&args), "{\"a b\" 1 :role \"admin\"}");
        assert_eq!(show.arguments(&Map::default()), "");
    }

    #[test]
    fn remarks_begin_in_one_column() {
        assert_eq!(pad("x").len(), 30);
        assert_eq!(pad(&"é".repeat(29)).chars().count(), 30);
        assert_eq!(pad(&"x".repeat(30)), format!("{} ", "x".repeat(30)));
        assert_eq!(one_line("  a \n\t b "), "a b");
    }
}
