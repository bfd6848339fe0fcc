//! Entries as SQLite keeps them: conversation and position are one number, the place, so that the rows of a record lie
//! together and nothing but that number is repeated in indexes.

use scrollback_core::Time;

use super::connection::{SqliteSession, ask};
use crate::error::StoreError;
use crate::id::ConversationId;
use crate::rows::{DECISION, EntryRow, MESSAGE, TOMBSTONE};
use crate::table::{ColumnValue, Demand, Scan, Table};

/// Bits of a place that are the position; the rest is the number of the conversation.
const POSITION_BITS: u32 = 32;
const POSITIONS: i64 = 1 << POSITION_BITS;

/// The columns of [`EntryRow`], the first two as one.
pub(super) const COLUMNS: &[&str] = &[
    "place",
    "kind",
    "role",
    "evaluation_id",
    "sequence",
    "created_at",
    "body",
    "body_hash",
    "link",
    "prefix_hash",
];

/// Where some of them stand that are kept shorter than they are told: kinds and roles as numbers, the time as milliseconds.
const KIND: usize = 1;
const ROLE: usize = 2;
const CREATED_AT: usize = 5;

/// The words whose numbers are their places here.
const KINDS: [&str; 3] = [MESSAGE, DECISION, TOMBSTONE];
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// A word as its number, if it has one.
fn number_of_word(words: &[&str], word: &str) -> Option<i64> {
    (0..).zip(words).find_map(|(number, known)| (*known == word).then_some(number))
}

/// Replaces a word by its number. What is no such word stays.
fn to_number(cell: Option<&mut ColumnValue>, words: &[&str]) {
    if let Some(cell) = cell
        && let ColumnValue::Text(word) = cell
        && let Some(number) = number_of_word(words, word)
    {
        *cell = ColumnValue::Int(number);
    }
}

/// The reverse.
fn to_word(cell: Option<&mut ColumnValue>, words: &[&str]) {
    if let Some(cell) = cell
        && let ColumnValue::Int(number) = cell
        && let Some(word) = usize::try_from(*number).ok().and_then(|number| words.get(number))
    {
        *cell = ColumnValue::from(*word);
    }
}

/// A time as a number, if the number gives the same text.
fn shorten(time: &mut ColumnValue) {
    if let ColumnValue::Text(text) = time
        && let Some(parsed) = Time::parse(text)
        && parsed.to_string() == *text
    {
        *time = ColumnValue::Int(parsed.0);
    }
}

/// Whether a table is kept by place.
pub(super) fn is_placed<T: Table>() -> bool {
    T::NAME == EntryRow::NAME
}

/// The number of the conversation a place belongs to, and the position there.
pub(super) fn split(place: i64) -> (i64, u64) {
    (place >> POSITION_BITS, (place & (POSITIONS - 1)) as u64)
}

/// The first and the last place of a conversation.
pub(super) fn range(number: i64) -> (i64, i64) {
    let first = number << POSITION_BITS;
    (first, first + POSITIONS - 1)
}

/// Conversation numbers begin at 1; what is in none has no place.
const NOWHERE: i64 = 0;

impl SqliteSession {
    /// The place of an entry; there is nothing at the place of one whose conversation is unknown.
    pub(super) fn place(&mut self, conversation: &str, position: u64) -> Result<i64, StoreError> {
        let number = self.number_of(conversation)?.unwrap_or(NOWHERE);
        Ok(number << POSITION_BITS | i64::from(position as u32))
    }

    /// The number of a conversation. The last one asked for is remembered: a number never changes.
    fn number_of(&mut self, conversation: &str) -> Result<Option<i64>, StoreError> {
        if let Some((_, number)) = self.known.as_ref().filter(|(id, _)| id == conversation) {
            return Ok(Some(*number));
        }
        let sql = "select number from conversations where id = $1";
        let found = ask(&self.connection, sql, &[conversation.into()])?;
        let Some([ColumnValue::Int(number)]) = found.first().map(Vec::as_slice) else { return Ok(None) };
        self.known = Some((conversation.into(), *number));
        Ok(Some(*number))
    }

    fn id_of(&mut self, number: i64) -> Result<String, StoreError> {
        if let Some((id, _)) = self.known.as_ref().filter(|(_, known)| *known == number) {
            return Ok(id.clone());
        }
        let found = ask(
            &self.connection,
            "select id from conversations where number = $1",
            &[ColumnValue::Int(number)],
        )?;
        let Some([ColumnValue::Text(id)]) = found.first().map(Vec::as_slice) else {
            return Err(StoreError::damaged("an entry belongs to no conversation"));
        };
        self.known = Some((id.clone(), number));
        Ok(id.clone())
    }

    /// Rows or keys whose first two columns become one.
    pub(super) fn pack_places(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        rows.into_iter()
            .map(|cells| {
                let mut cells = cells.into_iter();
                let (Some(ColumnValue::Text(id)), Some(ColumnValue::Int(position))) =
                    (cells.next(), cells.next())
                else {
                    return Err(StoreError::damaged("an entry without a place"));
                };
                let place = self.place(&id, position as u64)?;
                let mut cells: Vec<ColumnValue> =
                    std::iter::once(ColumnValue::Int(place)).chain(cells).collect();
                to_number(cells.get_mut(KIND), &KINDS);
                to_number(cells.get_mut(ROLE), &ROLES);
                if let Some(time) = cells.get_mut(CREATED_AT) {
                    shorten(time);
                }
                Ok(cells)
            })
            .collect()
    }

    /// The reverse.
    pub(super) fn unpack_places(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        rows.into_iter()
            .map(|cells| {
                let mut cells = cells.into_iter();
                let Some(ColumnValue::Int(place)) = cells.next() else {
                    return Err(StoreError::damaged("an entry without a place"));
                };
                let (number, position) = split(place);
                let found = [ColumnValue::Text(self.id_of(number)?), ColumnValue::from(position)];
                let mut cells: Vec<ColumnValue> = found.into_iter().chain(cells).collect();
                // The place became two cells.
                to_word(cells.get_mut(KIND + 1), &KINDS);
                to_word(cells.get_mut(ROLE + 1), &ROLES);
                if let Some(time) = cells.get_mut(CREATED_AT + 1)
                    && let ColumnValue::Int(millis) = time
                {
                    *time = Time(*millis).into();
                }
                Ok(cells)
            })
            .collect()
    }

    /// Demands on conversation and position as demands on the place. Where there are others, an index may serve them; those
    /// begin with the conversation.
    pub(super) fn narrow_places(&mut self, scan: Scan) -> Result<Scan, StoreError> {
        let Scan { demands, order, descending, after, limit } = scan;
        let (mut number, mut from, mut below) = (None, 0, POSITIONS);
        let mut others = Vec::new();
        for demand in demands {
            match demand {
                Demand::Equal("conversation_id", ColumnValue::Text(id)) => {
                    number = Some(self.number_of(&id)?.unwrap_or(NOWHERE));
                }
                Demand::From("position", ColumnValue::Int(position)) => from = position.max(from),
                Demand::Below("position", ColumnValue::Int(position)) => below = position.min(below),
                Demand::Equal("prefix_hash", ColumnValue::Bytes(hash)) => {
                    let start = hash.get(..5).unwrap_or_default();
                    others.push(Demand::Equal("prefix_start", ColumnValue::from(start)));
                    others.push(Demand::Equal("prefix_hash", ColumnValue::Bytes(hash)));
                }
                Demand::Is("role", word) => {
                    others.push(Demand::IsNumber("role", number_of_word(&ROLES, word).unwrap_or(-1)));
                }
                other => others.push(other),
            }
        }
        if let Some(number) = number {
            if !others.is_empty() {
                others.push(Demand::Equal("conversation", ColumnValue::Int(number)));
            }
            let first = number << POSITION_BITS;
            others.push(Demand::From("place", ColumnValue::Int(first + from)));
            others.push(Demand::Below("place", ColumnValue::Int(first + below)));
        }
        let mut order: Vec<&'static str> = order;
        for column in &mut order {
            if ["conversation_id", "position"].contains(column) {
                *column = "place";
            }
        }
        order.dedup();
        Ok(Scan { demands: others, order, descending, after, limit })
    }

    /// The conversation and position of a place.
    pub(super) fn whereabouts(&mut self, place: i64) -> Result<(ConversationId, u64), StoreError> {
        let (number, position) = split(place);
        Ok((ConversationId::stored(self.id_of(number)?), position))
    }
}
