use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::token_budget::room_beside;
use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::entry::Entry;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::view::{Reason, View};

/// Keeps what matters to the current question, not only what is recent, within a number of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevant {
    /// Tokens of the whole request.
    pub max_tokens: usize,
    /// What counts how much.
    pub weights: Weights,
    /// Tokens left free for the reply.
    pub reserve: usize,
}

/// How match and recency are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Share of the question's words, rare ones counting more.
    pub matching: f64,
    /// Place in the history, newest highest.
    pub recency: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { matching: 0.6, recency: 0.4 }
    }
}

impl HistoryManager for Relevant {
    fn name(&self) -> &'static str {
        "relevant"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let mut room = room_beside(&view, cx, self.max_tokens.saturating_sub(self.reserve))?;
        let protected = view.protected();
        let mut chosen = Vec::new();
        for index in self.ranked(&view) {
            if protected.contains(index) {
                continue;
            }
            if let Some(left) = room.checked_sub(view.group_tokens(cx.counter, index)) {
                room = left;
                chosen.push(index);
            }
        }
        view.keep(&Ranges::of(chosen), self.name(), Reason::LessRelevant);
        Ok(view)
    }

    fn budget(&self, _: &CurationContext) -> Option<usize> {
        Some(self.max_tokens.saturating_sub(self.reserve))
    }

    fn config(&self) -> Value {
        let weights = json!({ "match": self.weights.matching, "recency": self.weights.recency });
        config_of(
            self.name(),
            json!({ "max_tokens": self.max_tokens, "weights": weights, "reserve": self.reserve }),
        )
    }
}

impl Relevant {
    /// The body's groups, best first, newer first where they are equal.
    fn ranked(&self, view: &View<'_>) -> Vec<u32> {
        let words_of = |index: u32| {
            let mut words = BTreeSet::new();
            for item in view.group_items(index) {
                add_words(&item.entry, &mut words);
            }
            words
        };
        let query = view.last_user().map(words_of).unwrap_or_default();
        let groups: Vec<(u32, Vec<String>)> = view
            .groups()
            .map(|(index, _)| {
                (index, words_of(index).into_iter().filter(|word| query.contains(word)).collect())
            })
            .collect();
        let mut having: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, shared) in &groups {
            for word in shared {
                *having.entry(word).or_default() += 1;
            }
        }
        let n = groups.len() as f64;
        let idf = |word: &str| (1.0 + n / (1.0 + having.get(word).copied().unwrap_or(0) as f64)).ln();
        let whole: f64 = query.iter().map(|word| idf(word)).sum();
        let mut scored: Vec<(f64, u32)> = groups
            .iter()
            .enumerate()
            .map(|(place, (index, shared))| {
                let matching =
                    if whole > 0.0 { shared.iter().map(|word| idf(word)).sum::<f64>() / whole } else { 0.0 };
                let recency = (place as f64 + 1.0) / n;
                (self.weights.matching * matching + self.weights.recency * recency, *index)
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.into_iter().map(|(_, index)| index).collect()
    }
}

/// Words are runs of three or more letters or digits, in lower case, of texts, call names and arguments.
fn add_words(entry: &Entry, words: &mut BTreeSet<String>) {
    let mut add = |text: &str| {
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if word.chars().nth(2).is_some() {
                words.insert(word.to_lowercase());
            }
        }
    };
    for text in entry.texts() {
        add(&text.as_str());
    }
    for call in entry.tool_calls() {
        add(&call.name.as_str());
        add(&call.arguments.as_str());
    }
}
