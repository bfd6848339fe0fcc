//! Reading a map name by name. What is asked for is known; everything else is a mistake, and says what was meant.

use std::time::Duration;

use scrollback_core::nearest::nearest;

use super::{Node, Place, Problem, Value};

/// A map that is being read. Problems are collected, so that all of them can be shown at once.
pub struct Fields<'n, 'p> {
    node: &'n Node,
    path: String,
    asked: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
}

impl<'n, 'p> Fields<'n, 'p> {
    /// Begins to read a map that stands at `path`; anything else is a problem, and reads as an empty map.
    pub fn of(node: &'n Node, path: impl Into<String>, problems: &'p mut Vec<Problem>) -> Self {
        let path = path.into();
        if node.as_map().is_none() {
            let message = format!("must be a map, not {}", node.kind());
            problems.push(Problem { path: path.clone(), at: node.at, message });
        }
        Fields { node, path, asked: Vec::new(), problems }
    }

    /// The path of a name in this map.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// Where the map stands.
    pub fn at(&self) -> Place {
        self.node.at
    }

    /// Notes a mistake at a name, or at the map itself if the name is empty or not there.
    pub fn problem(&mut self, name: &str, message: impl Into<String>) {
        let at = self.node.get(name).map_or(self.node.at, |node| node.at);
        let path = if name.is_empty() { self.path.clone() } else { self.path(name) };
        self.problems.push(Problem { path, at, message: message.into() });
    }

    /// Where further problems go.
    pub fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// The value of a name, whatever it is; null counts as not there.
    pub fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.asked.push(name);
        self.node.get(name).filter(|node| node.value != Value::Null)
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl FnOnce(&'n Node) -> Option<T>,
    ) -> Option<T> {
        let node = self.node(name)?;
        let value = read(node);
        if value.is_none() {
            self.problem(name, format!("must be {wanted}, not {}", shown(node)));
        }
        value
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.read(name, "a text", |node| node.as_text().map(str::to_string))
    }

    /// A text that must be there.
    pub fn required_text(&mut self, name: &'static str) -> Option<String> {
        if self.node.get(name).is_none_or(|node| node.value == Value::Null) {
            self.asked.push(name);
            self.problem("", format!("`{name}` is missing"));
            return None;
        }
        self.text(name)
    }

    /// One of some words.
    pub fn word(&mut self, name: &'static str, words: &[&str]) -> Option<String> {
        let text = self.text(name)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let hint = nearest(&text, words.iter().copied())
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        self.problem(name, format!("must be one of {}, not {text:?}{hint}", words.join(", ")));
        None
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.read(name, "true or false", |node| match node.value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        })
    }

    /// A whole number of at least `least`.
    pub fn count(&mut self, name: &'static str, least: u64) -> Option<u64> {
        let wanted = format!("a whole number of at least {least}");
        self.read(name, &wanted, |node| match &node.value {
            Value::Number(text) => text.parse().ok().filter(|number| *number >= least),
            _ => None,
        })
    }

    /// A number above zero.
    pub fn positive(&mut self, name: &'static str) -> Option<f64> {
        self.read(name, "a number above 0", |node| match &node.value {
            Value::Number(text) => {
                text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite())
            }
            _ => None,
        })
    }

    /// A duration: seconds, or a text such as `500ms`, `5s`, `2m`.
    pub fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.read(name, "a duration such as 10, 500ms, 5s or 2m", |node| match &node.value {
            Value::Number(text) | Value::Text(text) => read_duration(text),
            _ => None,
        })
    }

    /// A number of bytes: a number, or one with `KiB`, `MiB`, `kB`, `MB` or `B` behind it.
    pub fn bytes(&mut self, name: &'static str) -> Option<u64> {
        self.read(name, "a size such as 65536, 512KiB or 1MiB", |node| match &node.value {
            Value::Number(text) | Value::Text(text) => read_bytes(text),
            _ => None,
        })
    }

    /// A list of texts; numbers and flags count as what is written.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        let text = |item: &Node| match &item.value {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        self.read(name, "a list of texts", |node| node.as_list()?.iter().map(text).collect())
    }

    /// A list.
    pub fn list(&mut self, name: &'static str) -> Option<&'n [Node]> {
        self.read(name, "a list", Node::as_list)
    }

    /// Ends the reading: names nobody asked for are mistakes.
    pub fn end(self) {
        for (key, _) in self.node.as_map().unwrap_or_default() {
            if self.asked.contains(&key.name.as_str()) {
                continue;
            }
            let hint = match nearest(&key.name, self.asked.iter().copied()) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => format!(" (known: {})", self.asked.join(", ")),
            };
            let path =
                if self.path.is_empty() { key.name.clone() } else { format!("{}.{}", self.path, key.name) };
            self.problems.push(Problem { path, at: key.at, message: format!("unknown key{hint}") });
        }
    }
}

/// A value for messages to people: itself where it is short, else what it is.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Text(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Value::Number(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        _ => node.kind().into(),
    }
}

/// Reads a number of bytes above zero.
fn read_bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "B"),
    };
    let factor: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// Reads a duration: a number of seconds, or one with `ms`, `s`, `m` or `h` behind it.
pub fn read_duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.trim().parse::<f64>().ok()? * factor;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}
