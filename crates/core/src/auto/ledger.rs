//! The ledger: one entry with chosen lines of many others.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Role};
use crate::tokens::{Counter, Tokenizer, entry_tokens};

/// First line of every ledger.
pub const LEDGER_HEADING: &str = "[earlier entries, shortened]";

/// What a ledger keeps of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerPart {
    /// Number of the group's first entry, and the tools it called or who spoke.
    pub heading: String,
    /// The lines, in order: position of the entry, number of the segment in it, and the text.
    pub lines: Vec<(u64, u32, String)>,
}

/// A ledger as views show it.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) parts: Vec<LedgerPart>,
    /// What is sent.
    pub(crate) entry: Arc<Entry>,
    /// Position of the plan that brought it; none while that is not recorded.
    pub(crate) from: Option<u64>,
    /// Its tokens, counted once per tokenizer.
    counted: [OnceLock<usize>; Tokenizer::ALL.len()],
}

impl Ledger {
    pub(crate) fn new(parts: Vec<LedgerPart>, from: Option<u64>) -> Self {
        let mut text = LEDGER_HEADING.to_string();
        for part in &parts {
            text.push('\n');
            text.push_str(&part.heading);
            for (_, _, line) in &part.lines {
                text.push('\n');
                text.push_str(line);
            }
        }
        let entry = Arc::new(Entry::text(Role::User, &text));
        Ledger { parts, entry, from, counted: Default::default() }
    }

    /// Tokens of it as an entry.
    pub(crate) fn tokens(&self, counter: Counter) -> usize {
        let count = || entry_tokens(counter.tokenizer, &self.entry);
        let known = self.counted.get(counter.tokenizer.index());
        counter.factor.apply(known.map_or_else(count, |known| *known.get_or_init(count)))
    }

    /// The lines it has: position of the entry, number of the segment, text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &(u64, u32, String)> {
        self.parts.iter().flat_map(|part| &part.lines)
    }
}

/// Parts without the lines of some entries; a part that has no line left goes with its heading.
pub(crate) fn without(parts: &[LedgerPart], gone: impl Fn(u64) -> bool) -> Vec<LedgerPart> {
    let left = |part: &LedgerPart| {
        let lines: Vec<_> = part.lines.iter().filter(|(entry, ..)| !gone(*entry)).cloned().collect();
        (part.lines.is_empty() || !lines.is_empty())
            .then(|| LedgerPart { heading: part.heading.clone(), lines })
    };
    parts.iter().filter_map(left).collect()
}
