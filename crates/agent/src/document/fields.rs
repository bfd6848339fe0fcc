//! Reading a map name by name. What is asked for is known; everything else is a mistake, and says what was meant.

use std::ops::RangeInclusive;
use std::time::Duration;

use scrollback_core::nearest::nearest_key;

use super::{DocumentProblem, Node, TextPosition, Value, code};

/// A map that is being read. Problems are collected, so that all of them can be shown at once.
pub struct Fields<'n, 'p> {
    node: &'n Node,
    path: String,
    asked: Vec<&'static str>,
    dealt_with: Vec<&'static str>,
    problems: &'p mut Vec<DocumentProblem>,
}

impl<'n, 'p> Fields<'n, 'p> {
    /// Begins to read a map that stands at `path`; anything else is a problem, and reads as an empty map.
    pub fn of(node: &'n Node, path: impl Into<String>, problems: &'p mut Vec<DocumentProblem>) -> Self {
        let path = path.into();
        if node.as_map().is_none() {
            let message = format!("must be a map, not {}", node.kind());
            problems.push(DocumentProblem::new(code::WRONG_TYPE, path.clone(), node.at, message));
        }
        Fields { node, path, asked: Vec::new(), dealt_with: Vec::new(), problems }
    }

    /// The path of a name in this map.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// The map itself.
    pub fn map_node(&self) -> &'n Node {
        self.node
    }

    /// Where the map stands.
    pub fn at(&self) -> TextPosition {
        self.node.at
    }

    /// Notes a mistake at a name, or at the map itself if the name is empty or not there.
    pub fn problem(&mut self, name: &str, message: impl Into<String>) {
        self.problem_of(code::UNKNOWN_VALUE, name, message);
    }

    /// The same for a mistake of a kind.
    pub fn problem_of(&mut self, code: &'static str, name: &str, message: impl Into<String>) {
        let at = self.node.get(name).map_or(self.node.at, |node| node.at);
        let path = if name.is_empty() { self.path.clone() } else { self.path(name) };
        self.problems.push(DocumentProblem::new(code, path, at, message));
    }

    /// Notes that a name is missing.
    pub fn missing(&mut self, name: &'static str) {
        self.ask(name);
        self.problem_of(code::MISSING_KEY, "", format!("`{name}` is missing"));
    }

    /// Where further problems go.
    pub fn problems(&mut self) -> &mut Vec<DocumentProblem> {
        self.problems
    }

    /// The value of a name, whatever it is; null counts as not there.
    pub fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.ask(name);
        self.node.get(name).filter(|node| node.value != Value::Null)
    }

    /// Notes that a name is not known here, and that this was said already.
    pub fn deal_with(&mut self, name: &'static str) {
        self.dealt_with.push(name);
    }

    fn ask(&mut self, name: &'static str) {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
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
            self.problem_of(code::WRONG_TYPE, name, format!("must be {wanted}, not {}", shown(node)));
        }
        value
    }

    /// A number that lies where it should; a number that does not is out of range, anything else no number.
    fn number<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let node = self.node(name)?;
        let read = match &node.value {
            Value::Number(text) => read(text),
            _ => Err(code::WRONG_TYPE),
        };
        read.map_err(|code| self.problem_of(code, name, format!("must be {wanted}, not {}", shown(node))))
            .ok()
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.read(name, "a text", |node| node.as_text().map(str::to_string))
    }

    /// A text that must be there.
    pub fn required_text(&mut self, name: &'static str) -> Option<String> {
        if self.node.get(name).is_none_or(|node| node.value == Value::Null) {
            self.missing(name);
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
        let at = self.node.get(name).map_or(self.node.at, |node| node.at);
        let message = format!("must be one of {}, not {text:?}", words.join(", "));
        let problem = DocumentProblem::new(code::UNKNOWN_VALUE, self.path(name), at, message);
        self.problems.push(problem.suggesting(nearest_key(&text, words.iter().copied())));
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
        self.count_in(name, least..=u64::MAX)
    }

    /// A whole number in a range.
    pub fn count_in(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let (least, most) = (*range.start(), *range.end());
        let wanted = if most == u64::MAX {
            format!("a whole number of at least {least}")
        } else {
            format!("a whole number from {least} to {most}")
        };
        self.number(name, &wanted, |text| match text.parse::<f64>() {
            Ok(number) if number.fract() != 0.0 => Err(code::WRONG_TYPE),
            // `4e3` and `5.0` are whole numbers too, as long as a float holds them exactly.
            Ok(number) => {
                let small = (0.0..=9_007_199_254_740_992.0).contains(&number).then_some(number as u64);
                let whole = text.parse().ok().or(small);
                whole.filter(|whole| range.contains(whole)).ok_or(code::OUT_OF_RANGE)
            }
            Err(_) => Err(code::WRONG_TYPE),
        })
    }

    /// A number above zero.
    pub fn positive(&mut self, name: &'static str) -> Option<f64> {
        self.number_where(name, "a number above 0", |number| number > 0.0)
    }

    /// A finite number for which something holds, which `wanted` says in words.
    pub fn number_where(
        &mut self,
        name: &'static str,
        wanted: &str,
        holds: impl FnOnce(f64) -> bool,
    ) -> Option<f64> {
        self.number(name, wanted, |text| {
            let number = text.parse().map_err(|_| code::WRONG_TYPE)?;
            if f64::is_finite(number) && holds(number) { Ok(number) } else { Err(code::OUT_OF_RANGE) }
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

    /// Ends the reading: unknown names are mistakes.
    pub fn end(self) {
        for (key, _) in self.node.as_map().unwrap_or_default() {
            let name = key.name.as_str();
            if self.asked.contains(&name) || self.dealt_with.contains(&name) {
                continue;
            }
            let near = nearest_key(&key.name, self.asked.iter().copied());
            let known =
                if near.is_some() { String::new() } else { format!(" (known: {})", self.asked.join(", ")) };
            let path =
                if self.path.is_empty() { key.name.clone() } else { format!("{}.{}", self.path, key.name) };
            let problem =
                DocumentProblem::new(code::UNKNOWN_KEY, path, key.at, format!("unknown key{known}"));
            self.problems.push(problem.suggesting(near));
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
