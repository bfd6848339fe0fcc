//! A request body as what it shares with the record and what is its own.
//!
//! Every call of a conversation sends everything again that was said before. A template says so: it names ranges of the
//! recorded messages and holds only the text around them, so that keeping all requests takes little more than keeping
//! the last one.

use std::sync::Arc;

use super::shared::{SharedRange, SharedValues, common_end, common_start, values};
use crate::chain::Link;
use crate::entry::Entry;
use crate::json::{self, JsonKind, Raw};
use crate::wire::{Wire, list_key, system_key};

/// A text of so many bytes that is not in the record is a piece of its own, so that it can be shared with other requests
/// whatever changes beside it.
const APART: usize = 256;

/// A request body: literal texts, and copies of what the recorded messages say.
///
/// ```
/// use std::sync::Arc;
/// use scrollback_core::{Entry, Role, request::{BodyPiece, BodyTemplate}, wire::Wire};
/// let entry = Entry::text(Role::User, "What is in my inbox?");
/// let body = format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, entry.origin.raw);
///
/// let template = BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), [(7, &entry)]);
/// assert_eq!(template.pieces().get(1), Some(&BodyPiece::Run { first: 7, last: 7 }));
/// let raw = |position| (position == 7).then(|| Arc::clone(&entry.origin.raw));
/// assert_eq!(template.body(raw).as_deref(), Some(body.as_bytes()));
/// assert_eq!(template.body(|_| None), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyTemplate {
    /// BLAKE3 of the body.
    hash: Link,
    pieces: Vec<BodyPiece>,
}

/// A part of a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// These bytes.
    Text(Vec<u8>),
    /// Bytes of the raw text of a recorded message, from `start` on, below `end`.
    Copy {
        /// The message.
        position: u64,
        /// The first byte.
        start: u32,
        /// The first byte that is no longer copied.
        end: u32,
    },
    /// The whole raw texts of messages at consecutive positions, with a comma between them.
    Run {
        /// Position of the first.
        first: u64,
        /// Position of the last.
        last: u64,
    },
}

impl BodyTemplate {
    /// Finds what a body shares with the entries it shows, given in the order in which the body shows them.
    ///
    /// Takes time proportional to the body and the entries together. A body that is not JSON is one text. Where entries
    /// were left out, changed or given in another order, less is shared; the body comes back all the same.
    pub fn of<'e>(
        wire: Wire,
        body: &[u8],
        shown: impl IntoIterator<Item = (u64, &'e Entry)>,
    ) -> BodyTemplate {
        let hash = *blake3::hash(body).as_bytes();
        let text = std::str::from_utf8(body).ok().filter(|text| u32::try_from(text.len()).is_ok());
        let Some((text, value)) = text.and_then(|text| Some((text, json::check(text).ok()?))) else {
            let pieces = if body.is_empty() { Vec::new() } else { vec![BodyPiece::Text(body.to_vec())] };
            return BodyTemplate { hash, pieces };
        };
        let shown = shown.into_iter().map(|(position, entry)| (position, entry.origin.raw.as_ref()));
        let (positions, messages): (Vec<u64>, Vec<&str>) = shown.unzip();
        let mut cutter =
            Cutter { text, at: 0, pieces: Vec::new(), positions, messages, next: 0, index: None };
        cutter.body(wire, value);
        cutter.text_upto(text.len());
        BodyTemplate { hash, pieces: cutter.pieces }
    }

    /// A template that was kept as its pieces, and the hash of the body they make up.
    pub fn from_pieces(hash: Link, pieces: Vec<BodyPiece>) -> BodyTemplate {
        BodyTemplate { hash, pieces }
    }

    /// BLAKE3 of the body.
    pub fn hash(&self) -> &Link {
        &self.hash
    }

    /// What the body is made of, in order.
    pub fn pieces(&self) -> &[BodyPiece] {
        &self.pieces
    }

    /// The same, for a caller that has no other use for the template.
    pub fn into_pieces(self) -> Vec<BodyPiece> {
        self.pieces
    }

    /// The body again, from the raw texts of the messages. None if a message is missing, or if what comes out is not
    /// what was sent.
    pub fn body(&self, raw: impl Fn(u64) -> Option<Arc<str>>) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        for piece in &self.pieces {
            match piece {
                BodyPiece::Text(text) => body.extend_from_slice(text),
                BodyPiece::Copy { position, start, end } => {
                    let raw = raw(*position)?;
                    body.extend_from_slice(raw.as_bytes().get(*start as usize..*end as usize)?);
                }
                BodyPiece::Run { first, last } => {
                    for position in *first..=*last {
                        if position > *first {
                            body.push(b',');
                        }
                        body.extend_from_slice(raw(position)?.as_bytes());
                    }
                }
            }
        }
        (blake3::hash(&body).as_bytes() == &self.hash).then_some(body)
    }

    /// Positions of the messages that were sent exactly as they are recorded, in the order in which they were sent.
    pub fn whole(&self) -> impl Iterator<Item = u64> {
        self.pieces
            .iter()
            .filter_map(|piece| match piece {
                BodyPiece::Run { first, last } => Some(*first..=*last),
                _ => None,
            })
            .flatten()
    }

    /// Positions of the messages that something is copied from, in the order in which it was sent. A position may come
    /// several times.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        self.pieces
            .iter()
            .filter_map(|piece| match piece {
                BodyPiece::Run { first, last } => Some(*first..=*last),
                BodyPiece::Copy { position, .. } => Some(*position..=*position),
                BodyPiece::Text(_) => None,
            })
            .flatten()
    }
}

/// Cuts a body into pieces from its beginning to its end.
struct Cutter<'b, 'e> {
    text: &'b str,
    /// Everything before this is in `pieces`.
    at: usize,
    pieces: Vec<BodyPiece>,
    /// The messages that are shown: their positions and raw texts.
    positions: Vec<u64>,
    messages: Vec<&'e str>,
    /// The message that the next element of the list should be.
    next: usize,
    /// Made when an element is not the message it should be.
    index: Option<SharedValues<'e>>,
}

impl Cutter<'_, '_> {
    /// The messages and instructions are looked up in the record; what else is long is kept apart.
    fn body(&mut self, wire: Wire, body: Raw<'_>) {
        if body.kind() == JsonKind::Array {
            return body.elements().for_each(|element| self.element(element));
        }
        for (key, value) in body.members() {
            if key == list_key(wire) && value.kind() == JsonKind::Array {
                value.elements().for_each(|element| self.element(element));
            } else if system_key(wire) == Some(key.as_ref()) {
                self.instructions(value);
            } else {
                let (start, end) = self.range(value);
                self.apart(start, end);
            }
        }
    }

    /// Instructions may be one recorded message. If they are not, one of several changed, and the others did not.
    fn instructions(&mut self, value: Raw<'_>) {
        if value.kind() == JsonKind::Array && self.find(value.text()).is_none() {
            value.elements().for_each(|element| self.element(element));
        } else {
            self.element(value);
        }
    }

    /// One message of the list.
    fn element(&mut self, element: Raw<'_>) {
        let (start, end) = self.range(element);
        if self.messages.get(self.next) == Some(&element.text()) {
            self.copy(start, end, SharedRange { message: self.next, start: 0, end: end - start });
            self.next += 1;
            return;
        }
        let mut last = None;
        for value in values(element.text()) {
            let (from, to) = (start + value.start, start + value.end);
            if from < self.at {
                continue;
            }
            match self.text.get(from..to).and_then(|text| self.find(text)) {
                Some(found) => {
                    let (from, to, found) = self.grown((start, end), (from, to), found);
                    self.copy(from, to, found);
                    last = last.max(Some(found.message));
                }
                None if value.is_string => self.apart(from, to),
                None => {}
            }
        }
        self.next = last.map_or(self.next, |last| last + 1);
    }

    fn find(&mut self, text: &str) -> Option<SharedRange> {
        let index = self.index.get_or_insert_with(|| SharedValues::of(&self.messages));
        index.find(text, self.next)
    }

    /// A copy with what is equal before and after it, too. It stays within the element and does not reach back into
    /// what is a piece already.
    fn grown(
        &self,
        element: (usize, usize),
        (from, to): (usize, usize),
        found: SharedRange,
    ) -> (usize, usize, SharedRange) {
        let message = self.messages.get(found.message).copied().unwrap_or_default();
        let before = self.text.get(self.at.max(element.0)..from).zip(message.get(..found.start));
        let after = self.text.get(to..element.1).zip(message.get(found.end..));
        let before = before.map_or(0, |(sent, recorded)| common_end(sent, recorded));
        let after = after.map_or(0, |(sent, recorded)| common_start(sent, recorded));
        let grown = SharedRange { start: found.start - before, end: found.end + after, ..found };
        (from - before, to + after, grown)
    }

    /// Where a value lies in the body.
    fn range(&self, value: Raw<'_>) -> (usize, usize) {
        let (start, end) = value.span_in(self.text);
        (start as usize, end as usize)
    }

    /// Everything up to a place is text.
    fn text_upto(&mut self, end: usize) {
        if let Some(text) = self.text.get(self.at..end).filter(|text| !text.is_empty()) {
            self.pieces.push(BodyPiece::Text(text.into()));
            self.at = end;
        }
    }

    /// A value that is text of its own, if it is long enough.
    fn apart(&mut self, start: usize, end: usize) {
        if end - start >= APART {
            self.text_upto(start);
            self.text_upto(end);
        }
    }

    /// Bytes that a message has, too.
    fn copy(&mut self, start: usize, end: usize, found: SharedRange) {
        let (Some(&position), Some(message)) =
            (self.positions.get(found.message), self.messages.get(found.message))
        else {
            return;
        };
        let (Ok(first), Ok(last)) = (u32::try_from(found.start), u32::try_from(found.end)) else { return };
        let is_whole = found.start == 0 && found.end == message.len();
        let follows = self.text.get(self.at..start) == Some(",");
        if let Some(BodyPiece::Run { last, .. }) = self.pieces.last_mut()
            && is_whole
            && follows
            && last.checked_add(1) == Some(position)
        {
            *last = position;
            self.at = end;
            return;
        }
        self.text_upto(start);
        self.pieces.push(if is_whole {
            BodyPiece::Run { first: position, last: position }
        } else {
            BodyPiece::Copy { position, start: first, end: last }
        });
        self.at = end;
    }
}
