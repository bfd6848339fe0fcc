//! Who and what a row belongs to: tenants, recipients, conversations.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use scrollback_core::Time;
use uuid::Uuid;

use crate::error::{ErrorKind, StoreError};

/// Longest name of a recipient or tenant, in bytes.
const MAX_NAME: usize = 512;

/// Letters and digits of a ULID, without those that look alike.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The id of a conversation: a ULID, so ids sort by the time they were made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(Box<str>);

impl ConversationId {
    /// A new id of that time.
    pub fn new(at: Time) -> Self {
        ConversationId::from_parts(at, u128::from_be_bytes(random()))
    }

    /// The id of that time with these random bits, of which 80 count.
    pub fn from_parts(at: Time, random: u128) -> Self {
        let millis = u128::from(at.0.max(0) as u64 & 0xFFFF_FFFF_FFFF);
        let bits = millis << 80 | random & ((1 << 80) - 1);
        let letter = |place: u32| {
            let index = (bits >> (5 * (25 - place)) & 31) as usize;
            char::from(CROCKFORD.get(index).copied().unwrap_or(b'0'))
        };
        ConversationId((0..26).map(letter).collect::<String>().into())
    }

    /// Reads an id: 26 letters and digits of a ULID.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_uppercase();
        let fits = text.len() == 26
            && text.bytes().all(|letter| CROCKFORD.contains(&letter))
            && text.starts_with(|first: char| first < '8');
        fits.then(|| ConversationId(text.into()))
    }

    /// The 26 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a database says is an id; verified by the chain, not here.
    pub(crate) fn stored(text: String) -> Self {
        ConversationId(text.into())
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The person or channel a conversation is with: any text of 1 to 512 bytes without control characters. It is data,
/// never a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recipient(Box<str>);

impl Recipient {
    /// Reads a recipient's id.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        name("recipient", text).map(Recipient)
    }

    /// The id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of the recipient's current conversation.
    pub fn key(&self) -> String {
        format!("conversation:{}", self.0)
    }

    pub(crate) fn stored(text: String) -> Self {
        Recipient(text.into())
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose data it is. No query crosses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Box<str>);

impl Tenant {
    /// Reads a tenant's name.
    /// `*` is reserved: to PostgreSQL's row security it stands for the operator, who may touch the rows of all tenants.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if text == "*" {
            return Err(StoreError::new(
                ErrorKind::BadArgument,
                "the tenant `*` is reserved; choose another name",
            ));
        }
        name("tenant", text).map(Tenant)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: String) -> Self {
        Tenant(text.into())
    }
}

impl Default for Tenant {
    /// The one tenant of a store without keys.
    fn default() -> Self {
        Tenant("default".into())
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new id for an evaluation.
pub fn new_evaluation() -> Uuid {
    uuid::Builder::from_random_bytes(random()).into_uuid()
}

/// A new id for a call to a model. Those of one process sort in the order they were made, also within a millisecond, so that
/// calls which began at the same time are listed in the order in which they were sent.
pub fn new_call(at: Time) -> Uuid {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let [first, second, third, fourth] = MADE.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    // Four bits of the first byte and two of the third are taken by the version and the variant of the id.
    let count = [first << 2 | second >> 6, second << 2 | third >> 6, third & 0x3F, fourth];
    let mut rest = [0; 10];
    rest.iter_mut().zip(count.into_iter().chain(random())).for_each(|(place, byte)| *place = byte);
    uuid::Builder::from_unix_timestamp_millis(at.0.max(0) as u64, &rest).into_uuid()
}

pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    // A system without randomness would give equal ids, and those are refused where they are used.
    let _ = getrandom::fill(&mut bytes);
    bytes
}

fn name(what: &str, text: &str) -> Result<Box<str>, StoreError> {
    let problem = if text.is_empty() {
        "is empty"
    } else if text.len() > MAX_NAME {
        "is longer than 512 bytes"
    } else if text.chars().any(char::is_control) {
        "has control characters"
    } else {
        return Ok(text.into());
    };
    Err(StoreError::new(ErrorKind::BadArgument, format!("the {what} {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_sort_in_the_order_they_were_made() {
        let made: Vec<String> = (0..5_000).map(|_| new_call(Time(1_000)).to_string()).collect();
        assert!(made.is_sorted() && made.last() < Some(&new_call(Time(1_001)).to_string()));
    }

    #[test]
    fn ids_sort_by_time_and_read_back() {
        let early = ConversationId::from_parts(Time(1_000), u128::MAX);
        let late = ConversationId::from_parts(Time(1_001), 0);
        assert!(early < late);
        assert_eq!(early.as_str().len(), 26);
        assert_eq!(ConversationId::parse(&early.to_string().to_lowercase()), Some(early));
        assert_eq!(ConversationId::parse("01ARZ3NDEKTSV4RRFFQ69G5FA"), None, "too short");
        assert_eq!(ConversationId::parse("81ARZ3NDEKTSV4RRFFQ69G5FAV"), None, "too late");
        assert_eq!(ConversationId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAI"), None, "I is no digit");
        assert_ne!(ConversationId::new(Time(0)), ConversationId::new(Time(0)));
    }

    #[test]
    fn recipients_are_any_text_without_control_characters() {
        for good in ["a", "+49 170 1234567", "../../etc/passwd", "'; drop table entries;--", "Ωmega 🙂"] {
            assert_eq!(
                Recipient::parse(good).map(|recipient| recipient.key()),
                Ok(format!("conversation:{good}"))
            );
        }
        for bad in ["", "a\nb", "\u{0}", "\u{7f}", &"x".repeat(513)] {
            assert!(Recipient::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Recipient::parse(&"x".repeat(512)).is_ok());
    }
}
