//! Values on their way from step to step. A value knows whether it *is* something that was said.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::expression::as_text;

/// An entry of a run's record, by what names it wherever the record is kept: its evaluation and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The evaluation.
    pub evaluation: Uuid,
    /// The place within it.
    pub sequence: u64,
}

impl EntryId {
    /// An evaluation id for the entry alone, under which a request shows it among entries of other evaluations.
    pub(crate) fn apart(self) -> Uuid {
        Uuid::from_u128(self.evaluation.as_u128().wrapping_add(u128::from(self.sequence) + 1))
    }
}

/// Something that was said: an entry and its text, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The entry.
    pub id: EntryId,
    /// Its text blocks.
    pub text: Arc<str>,
}

/// What one step passes to the next.
///
/// An output, an answer and the run's input are entries, and stay so through every template that is exactly one
/// reference to them. Text that quotes a value is a new text.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The value that expressions and templates see.
    pub value: Arc<Value>,
    /// The entry it is, if it is one.
    pub said: Option<Arc<Said>>,
}

impl Passed {
    /// A value that is not an entry of the record.
    pub fn new(value: Value) -> Self {
        Passed { value: Arc::new(value), said: None }
    }

    /// A value that is an entry.
    pub fn said(value: Value, id: EntryId, text: impl Into<Arc<str>>) -> Self {
        Passed { value: Arc::new(value), said: Some(Arc::new(Said { id, text: text.into() })) }
    }

    /// The entry it is, if it is one.
    pub fn entry(&self) -> Option<EntryId> {
        self.said.as_ref().map(|said| said.id)
    }

    /// What an agent is sent of it: the entry as it was written, else the value as templates print it.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.said {
            Some(said) => Cow::Borrowed(&*said.text),
            None => match &*self.value {
                Value::String(text) => Cow::Borrowed(text),
                Value::Null => Cow::Borrowed(""),
                other => Cow::Owned(as_text(other).to_string()),
            },
        }
    }

    /// Whether there is nothing in it to read.
    pub fn is_blank(&self) -> bool {
        self.text().trim().is_empty()
    }
}

impl Default for Passed {
    fn default() -> Self {
        Passed::new(Value::Null)
    }
}
