//! What a sub-agent is given once and for all: its mission, the type it shall return, tools, data. Every request begins with
//! the same bytes made of these, so that a provider's cache can keep them.

use std::collections::BTreeMap;

use scrollback_core::tokens::Counter;
use scrollback_lisp::{Signature, Value};

use super::compression::Coalescing;
use super::show::{has_sample, one_line, pad, remark, shorten, type_label};

/// Graphemes of a tool's description.
const DESCRIPTION: usize = 200;

/// What a sub-agent is given. Nothing in it changes from turn to turn.
#[derive(Clone, Debug)]
pub struct Input {
    /// The task, its placeholders filled.
    pub mission: String,
    /// What it takes and returns.
    pub signature: Option<Signature>,
    /// What it may call.
    pub tools: Vec<ToolLine>,
    /// What it may read.
    pub data: BTreeMap<String, Value>,
    /// What names of the data mean.
    pub descriptions: BTreeMap<String, String>,
    /// The instructions of every request.
    pub system: String,
    /// How many turns there are.
    pub max_turns: usize,
    /// How many more there are after returns that did not fit.
    pub retry_turns: usize,
    /// How tokens are counted.
    pub counter: Counter,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLine {
    /// Its name.
    pub name: String,
    /// What it takes and gives.
    pub signature: Option<Signature>,
    /// What it does.
    pub description: Option<String>,
}

impl Default for Input {
    fn default() -> Self {
        Input {
            mission: String::new(),
            signature: None,
            tools: Vec::new(),
            data: BTreeMap::new(),
            descriptions: BTreeMap::new(),
            system: String::new(),
            max_turns: super::MAX_TURNS,
            retry_turns: 0,
            counter: Counter::for_model(None),
        }
    }
}

impl Input {
    /// How many turns are left after some, of which so many returned something that did not fit.
    pub(crate) fn turns_left(&self, turns: usize, retriable: usize) -> usize {
        (self.max_turns + retriable.min(self.retry_turns)).saturating_sub(turns)
    }

    /// Mission, return type, tools and data: the same bytes on every turn.
    pub(crate) fn heading(&self, options: &Coalescing) -> String {
        let mut parts = vec![self.mission.trim().to_string()];
        parts.extend(self.returns());
        parts.extend(self.tools());
        parts.extend(self.data(options));
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    fn returns(&self) -> Option<String> {
        let output = self.signature.as_ref()?.output.to_string();
        (output != ":any").then(|| format!(";; === return ===\n(return {output})"))
    }

    fn tools(&self) -> Option<String> {
        if self.tools.is_empty() {
            return None;
        }
        let mut tools: Vec<&ToolLine> = self.tools.iter().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let lines = tools.into_iter().map(ToolLine::line);
        Some([";; === tool/ ===".to_string()].into_iter().chain(lines).collect::<Vec<_>>().join("\n"))
    }

    fn data(&self, options: &Coalescing) -> Option<String> {
        let shown = self.data.iter().filter(|(name, _)| options.private().shows(name));
        let mut lines: Vec<String> = shown
            .map(|(name, value)| {
                let sample = if has_sample(value) { options.sample(value) } else { String::new() };
                let doc = self.descriptions.get(name).and_then(|text| remark(text));
                let doc = doc.map_or_else(String::new, |doc| format!("\"{doc}\" "));
                format!("{}; {doc}{}{sample}", pad(&format!("data/{name}")), type_label(value))
            })
            .collect();
        if lines.is_empty() {
            return None;
        }
        lines.insert(0, ";; === data/ ===".into());
        Some(lines.join("\n"))
    }
}

impl ToolLine {
    fn line(&self) -> String {
        let name = &self.name;
        let mut line = match &self.signature {
            Some(signature) => format!("tool/{name}{signature}"),
            None => format!("tool/{name}(...) -> :any"),
        };
        let description = one_line(self.description.as_deref().unwrap_or_default());
        if !description.is_empty() {
            line.push_str("  ; ");
            line.push_str(&shorten(&description, DESCRIPTION));
        }
        line
    }
}

/// The line that ends a message: how many turns there are.
pub(crate) fn turns_line(left: usize) -> String {
    match left {
        0 | 1 => "FINAL TURN - you must call (return result) or (fail reason) now.".into(),
        left => format!("Turns left: {left}"),
    }
}
