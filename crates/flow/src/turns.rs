//! Loop turns: which entries a conversational loop remembers, in the order they were said.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, OnceLock};

use scrollback_core::tokens::{Tokenizer, entry_tokens};
use scrollback_core::{Entry, Role, SUMMARY_HEADING, SummaryPlace};
use uuid::Uuid;

use crate::TurnRole;
use crate::passed_values::EntryId;

/// One marked entry of a conversational loop.
#[derive(Debug)]
pub struct Turn {
    /// The entry.
    pub entry: EntryId,
    /// Who is taken to have said it.
    pub role: TurnRole,
    /// The field of a structured output that is its text.
    pub field: Option<String>,
    /// What it says.
    pub text: Arc<str>,
    spoken: Spoken,
}

/// A message as requests hold it, with its tokens once they were counted.
#[derive(Debug)]
pub(crate) struct Spoken {
    message: Arc<Entry>,
    counts: [OnceLock<usize>; Tokenizer::ALL.len()],
}

impl Spoken {
    /// A message that stands alone in an evaluation of its own.
    pub(crate) fn new(role: Role, text: &str, apart: Uuid) -> Self {
        let message = Entry::text(role, text).stamped(apart, 0, scrollback_core::Time(0));
        Spoken { message: Arc::new(message), counts: Default::default() }
    }

    pub(crate) fn message(&self) -> &Arc<Entry> {
        &self.message
    }

    /// Tokens of the message, counted once.
    pub(crate) fn tokens(&self, tokenizer: Tokenizer) -> usize {
        let count = || entry_tokens(tokenizer, &self.message);
        let place = Tokenizer::ALL.iter().position(|known| *known == tokenizer);
        match place.and_then(|place| self.counts.get(place)) {
            Some(counted) => *counted.get_or_init(count),
            None => count(),
        }
    }
}

impl Turn {
    /// The turn an entry is.
    pub fn new(entry: EntryId, role: TurnRole, field: Option<String>, text: Arc<str>) -> Self {
        let spoken = Spoken::new(role_of(role), &text, entry.apart());
        Turn { entry, role, field, text, spoken }
    }

    /// The turn as a message.
    pub(crate) fn spoken(&self) -> &Spoken {
        &self.spoken
    }
}

/// The role a turn is sent with.
pub(crate) fn role_of(role: TurnRole) -> Role {
    match role {
        TurnRole::User => Role::User,
        TurnRole::Assistant => Role::Assistant,
    }
}

/// What one execution of a conversational loop remembers.
#[derive(Clone, Debug, Default)]
pub struct LoopScope {
    turns: Vec<Arc<Turn>>,
    /// The number of each marked entry, from 0.
    marked: HashMap<EntryId, usize>,
    /// The turn the history started with.
    pub(crate) seed: Option<EntryId>,
    /// How many of the oldest turns an overflow cut off.
    pub(crate) cut: usize,
    /// What stands for the oldest turns.
    pub(crate) summary: Option<Arc<Condensed>>,
    /// What a manager of a list had recorded to stand for some of the turns.
    pub(crate) listed: Option<Arc<Listed>>,
    /// How many turns there were when a summary could not be written, so that it is not tried again at once.
    pub(crate) failed_at: Option<usize>,
}

/// A recorded summary that a manager of a list asked for.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The turns it stands for.
    pub(crate) entries: Vec<EntryId>,
    /// What it says.
    pub(crate) text: String,
    /// Where it stands.
    pub(crate) place: SummaryPlace,
    /// Who wrote it.
    pub(crate) by: String,
}

/// A recorded summary of a scope's oldest turns.
#[derive(Debug)]
pub struct Condensed {
    /// How many of the oldest turns it stands for.
    pub covers: usize,
    /// What it says.
    pub text: String,
    spoken: Spoken,
}

impl Condensed {
    /// A summary that stands for the oldest turns of a loop.
    pub fn new(covers: usize, text: String) -> Self {
        let shown = format!("{SUMMARY_HEADING}\n{text}");
        // Derived from what it covers: no other message of a request has this id.
        let apart = Uuid::from_u128(0x5CA1_AB1E << 64 | covers as u128);
        Condensed { covers, spoken: Spoken::new(Role::Assistant, &shown, apart), text }
    }

    pub(crate) fn spoken(&self) -> &Spoken {
        &self.spoken
    }
}

impl LoopScope {
    /// The whole history, never the bounded one.
    pub fn turns(&self) -> &[Arc<Turn>] {
        &self.turns
    }

    /// Whether an entry is a turn already.
    pub fn is_marked(&self, entry: EntryId) -> bool {
        self.marked.contains_key(&entry)
    }

    /// The number of an entry among the turns, from 0.
    pub fn number(&self, entry: EntryId) -> Option<usize> {
        self.marked.get(&entry).copied()
    }

    /// The numbers of entries among the turns, from 0; an entry that is no turn has none. What is sent are mostly turns in a
    /// row, and the next in a row is found without a search.
    pub fn numbers<'s>(
        &'s self,
        entries: impl Iterator<Item = EntryId> + 's,
    ) -> impl Iterator<Item = usize> + 's {
        let mut next = 0;
        entries.filter_map(move |entry| {
            let follows = self.turns.get(next).is_some_and(|turn| turn.entry == entry);
            let number = if follows { next } else { self.number(entry)? };
            next = number + 1;
            Some(number)
        })
    }

    /// Marks an entry; nothing happens if it is a turn already.
    pub fn mark(&mut self, turn: Arc<Turn>) {
        if let Slot::Vacant(place) = self.marked.entry(turn.entry) {
            place.insert(self.turns.len());
            self.turns.push(turn);
        }
    }
}

/// The text of a field of a structured output: `answer.question`. None if it is missing or blank.
pub fn field_text(value: &serde_json::Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(value, |value, name| match value {
        serde_json::Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })?;
    let text = match found {
        serde_json::Value::Null => return None,
        other => crate::expression::as_text(other).into_owned(),
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_marked_once_and_equal_texts_are_two_turns() {
        let mut scope = LoopScope::default();
        let entry = |sequence| EntryId { evaluation: Uuid::nil(), sequence };
        let yes = |sequence| Arc::new(Turn::new(entry(sequence), TurnRole::User, None, "yes".into()));
        scope.mark(yes(0));
        scope.mark(yes(1));
        scope.mark(yes(0));
        assert_eq!(scope.turns().len(), 2);
        assert!(scope.is_marked(entry(1)) && !scope.is_marked(entry(2)));
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let value = json!({"a": {"b": ["x", {"c": 3}]}, "blank": " ", "none": null});
        assert_eq!(field_text(&value, "a.b.0").as_deref(), Some("x"));
        assert_eq!(field_text(&value, "a.b.1.c").as_deref(), Some("3"));
        for missing in ["a.x", "blank", "none", "a.b.9", ""] {
            assert_eq!(field_text(&value, missing), None, "{missing}");
        }
    }
}
