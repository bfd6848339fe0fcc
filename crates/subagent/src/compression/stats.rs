//! What compression did, in numbers.

use scrollback_core::tokens::{Counter, Method};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// What was done to the turns of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The strategy's name, or `off`.
    pub strategy: &'static str,
    /// Whether it was at work.
    pub triggered: bool,
    /// Turns so far.
    pub turns: usize,
    /// Turns that stand in a summary.
    pub turns_compressed: usize,
    /// Tool calls.
    pub tool_calls: ShownCount,
    /// Printed texts.
    pub printlns: ShownCount,
    /// Failed turns whose errors are not shown.
    pub error_turns_collapsed: usize,
    /// Tokens with and without it, where they were counted.
    pub tokens: Option<PromptTokens>,
}

/// How many of something are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShownCount {
    /// All there are.
    pub total: usize,
    /// Those that are shown.
    pub shown: usize,
    /// Those that are not.
    pub dropped: usize,
}

impl ShownCount {
    pub(super) fn of(total: usize, shown: usize) -> Self {
        ShownCount { total, shown, dropped: total - shown.min(total) }
    }

    pub(super) fn all(total: usize) -> Self {
        ShownCount::of(total, total)
    }
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptTokens {
    /// Uncompressed.
    pub before: usize,
    /// As it is.
    pub after: usize,
    /// How they were counted.
    pub counter: Counter,
}

impl Stats {
    /// As programs read it.
    pub fn to_json(&self) -> Value {
        let mut stats = json!({
            "strategy": self.strategy,
            "triggered": self.triggered,
            "turns": self.turns,
            "turns_compressed": self.turns_compressed,
            "tool_calls": self.tool_calls,
            "printlns": self.printlns,
            "error_turns_collapsed": self.error_turns_collapsed,
        });
        if let Some(tokens) = self.tokens {
            stats["tokens_before"] = json!(tokens.before);
            stats["tokens_after"] = json!(tokens.after);
            stats["tokenizer"] = json!(tokens.counter.tokenizer.name());
            stats["exact"] = json!(tokens.counter.method == Method::Exact);
        }
        stats
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}
