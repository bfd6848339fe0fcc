//! Records that were used recently, so that a conversation that goes on is not read again.
//!
//! A record that is found by its conversation is only used if the store still has it so: the caller has just learnt there
//! the link of the last entry, and when something was written or erased last. Other servers may do so whenever they like.
//!
//! A record that is found by what was said in it is not compared with anything: a caller that continues it is told by a conflict
//! if the store has more by now, or something of it was erased.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use scrollback_core::{AppendError, Link, Record, Slot, Time, next_prefix};
use scrollback_store::{Conversation, ConversationId, MatchScope, SessionId, Tenant};

/// Bytes of messages that are kept: a few hundred long conversations.
const MAX_BYTES: usize = 64 << 20;
/// Records that are kept, however short they are.
const MAX_RECORDS: usize = 8192;

/// A record and the link of its last entry.
#[derive(Debug)]
pub(crate) struct CachedRecord {
    pub(crate) record: Record,
    pub(crate) link: Link,
    /// When it was last so.
    at: Time,
    /// The chain's value over all that was said, where it was computed.
    pub(crate) prefix: Option<Link>,
    pub(crate) belongs: Belongs,
    bytes: usize,
}

/// What a conversation belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Belongs {
    pub(crate) session: SessionId,
    /// Whose lists of messages may continue it.
    pub(crate) scope: Option<MatchScope>,
}

impl Belongs {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        Belongs { session: conversation.session.clone(), scope: conversation.scope.clone() }
    }
}

impl CachedRecord {
    pub(crate) fn new(record: Record, link: Link, at: Time, belongs: Belongs) -> Self {
        let bytes = record.slots().iter().map(size).sum();
        CachedRecord { record, link, at, prefix: None, belongs, bytes }
    }

    /// What it is found by: all that was said, and whose lists may continue it.
    fn said(&self, tenant: &Tenant) -> Option<(Tenant, MatchScope, Link)> {
        Some((tenant.clone(), self.belongs.scope.clone()?, self.prefix?))
    }

    /// When the conversation was last as it is here.
    pub(crate) fn as_of(&self) -> Time {
        self.at
    }

    /// About how many bytes of messages it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in what is about to be appended. Where it is refused, the record is not used any more.
    pub(crate) fn expect(&mut self, slots: &[Slot]) -> Result<(), AppendError> {
        for slot in slots {
            self.bytes += size(slot);
            self.record.take(slot.clone())?;
        }
        Ok(())
    }

    /// Notes that everything in the record is durable, and takes in the decisions that were appended with it.
    pub(crate) fn confirm(&mut self, decided: &[Slot], link: Link, at: Time) -> Result<(), AppendError> {
        self.expect(decided)?;
        (self.link, self.at) = (link, at);
        Ok(())
    }

    /// Takes in what was appended at a moment.
    pub(crate) fn take(&mut self, slots: Vec<Slot>, link: Link, at: Time) -> Result<(), AppendError> {
        for slot in slots {
            self.bytes += size(&slot);
            if let Slot::Message(entry) = &slot {
                self.prefix = self.prefix.map(|prefix| next_prefix(&prefix, entry).unwrap_or(prefix));
            }
            self.record.take(slot)?;
        }
        (self.link, self.at) = (link, at);
        Ok(())
    }
}

/// About how many bytes of messages something in a record has.
pub(super) fn size(slot: &Slot) -> usize {
    match slot {
        Slot::Message(entry) => entry.origin.raw.len() + 256,
        _ => 256,
    }
}

/// The records used recently.
#[derive(Debug, Default)]
pub(crate) struct RecentRecords(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    known: HashMap<ConversationId, Held>,
    /// Which of them say what.
    said: HashMap<(Tenant, MatchScope, Link), ConversationId>,
    /// When each was used, oldest first.
    order: BTreeMap<u64, ConversationId>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    /// Its place in the order.
    used: u64,
    tenant: Tenant,
    known: CachedRecord,
}

impl RecentRecords {
    /// The record of a conversation as the store has it now. It is taken out, and the caller puts it back.
    pub(crate) fn take(&self, now: &Conversation) -> Option<CachedRecord> {
        let known = self.kept().remove(&now.id)?;
        (known.link == now.head_link && known.at == now.updated_at).then_some(known)
    }

    /// The record in which the longest of these lists was said, and nothing after it; and which list that is. None where
    /// that is the last one, or another so far behind it that `most` lists are not enough.
    pub(crate) fn take_saying(
        &self,
        tenant: &Tenant,
        scope: &MatchScope,
        prefixes: &[Link],
        most: usize,
    ) -> Option<(usize, ConversationId, CachedRecord)> {
        let mut kept = self.kept();
        let key = |prefix: &Link| (tenant.clone(), scope.clone(), *prefix);
        let found = prefixes.iter().enumerate().rev();
        let (at, id) = found.into_iter().find_map(|(at, prefix)| Some((at, kept.said.get(&key(prefix))?)))?;
        let id = id.clone();
        let later = prefixes.len() - at - 1;
        if later == 0 || later > most {
            return None;
        }
        let known = kept.remove(&id)?;
        Some((at, id, known))
    }

    /// Keeps a record for the next one who asks.
    pub(crate) fn keep(&self, tenant: &Tenant, id: &ConversationId, known: CachedRecord) {
        let mut kept = self.kept();
        kept.remove(id);
        kept.clock += 1;
        let now = kept.clock;
        kept.bytes += known.bytes;
        kept.order.insert(now, id.clone());
        if let Some(said) = known.said(tenant) {
            kept.said.insert(said, id.clone());
        }
        kept.known.insert(id.clone(), Held { used: now, tenant: tenant.clone(), known });
        while kept.bytes > MAX_BYTES || kept.known.len() > MAX_RECORDS {
            let Some(oldest) = kept.order.first_key_value().map(|(_, id)| id.clone()) else { break };
            kept.remove(&oldest);
        }
    }

    fn kept(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn remove(&mut self, id: &ConversationId) -> Option<CachedRecord> {
        let Held { used, tenant, known } = self.known.remove(id)?;
        self.order.remove(&used);
        self.bytes -= known.bytes;
        if let Some(said) = known.said(&tenant) {
            // Another conversation may have said the same since.
            if self.said.get(&said) == Some(id) {
                self.said.remove(&said);
            }
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::{Entry, Role};

    fn record(text: &str) -> Record {
        let mut record = Record::new();
        record.append(Entry::text(Role::User, text)).unwrap();
        record
    }

    fn scope() -> MatchScope {
        MatchScope::caller("anna")
    }

    fn known(text: &str, link: Link) -> CachedRecord {
        let session = SessionId::new(Time(1));
        CachedRecord::new(record(text), link, Time(5), Belongs { session, scope: Some(scope()) })
    }

    /// The row of a conversation in the store, as far as it matters here.
    fn row(id: &ConversationId, link: u8, at: i64) -> Conversation {
        Conversation {
            id: id.clone(),
            session: SessionId::of(id),
            kind: scrollback_store::ConversationKind::Main,
            scope: Some(scope()),
            project: None,
            tenant: Tenant::default(),
            key: None,
            recipient: None,
            parent: None,
            fork_position: None,
            title: None,
            status: None,
            status_at: None,
            created_at: Time(0),
            updated_at: Time(at),
            head: 1,
            head_link: [link; 32],
            head_prefix: [0; 32],
            last_role: None,
            last_said_at: None,
            turns: 1,
            uncovered_turns: 1,
            settings: None,
        }
    }

    #[test]
    fn only_what_the_store_still_has_is_used() {
        let (lately, id, tenant) =
            (RecentRecords::default(), ConversationId::new(Time(1)), Tenant::default());
        lately.keep(&tenant, &id, known("a", [1; 32]));
        assert!(lately.take(&row(&id, 2, 5)).is_none(), "another request wrote");
        lately.keep(&tenant, &id, known("a", [1; 32]));
        assert!(lately.take(&row(&id, 1, 6)).is_none(), "something was erased");
        lately.keep(&tenant, &id, known("a", [1; 32]));
        assert!(lately.take(&row(&id, 1, 5)).is_some());
        assert!(lately.take(&row(&id, 1, 5)).is_none(), "it is in use");
    }

    #[test]
    fn a_record_is_found_by_what_was_said_in_it_and_only_in_its_tenant() {
        let (lately, tenant) = (RecentRecords::default(), Tenant::default());
        let ids: Vec<ConversationId> = (0..2).map(|at| ConversationId::new(Time(at))).collect();
        let said = |prefix| CachedRecord { prefix: Some(prefix), ..known("a", [1; 32]) };
        lately.keep(&tenant, &ids[0], said([7; 32]));
        let other = Tenant::parse("other").unwrap();
        assert!(lately.take_saying(&other, &scope(), &[[7; 32], [8; 32]], 9).is_none());
        let wanted = [[6; 32], [7; 32], [8; 32]];
        let ben = MatchScope::caller("ben");
        assert!(lately.take_saying(&tenant, &ben, &wanted, 9).is_none(), "another caller");
        assert!(
            lately.take_saying(&tenant, &scope(), &wanted[..2], 9).is_none(),
            "there is nothing to go on with"
        );
        assert!(lately.take_saying(&tenant, &scope(), &wanted, 0).is_none(), "too much to go on with");
        let found = lately.take_saying(&tenant, &scope(), &wanted, 9).map(|(at, id, _)| (at, id));
        assert_eq!(found, Some((1, ids[0].clone())));
        assert!(lately.take_saying(&tenant, &scope(), &wanted, 9).is_none(), "it is in use");
        // Two conversations that say the same: the later is found, and goes without the other.
        lately.keep(&tenant, &ids[0], said([7; 32]));
        lately.keep(&tenant, &ids[1], said([7; 32]));
        assert!(lately.take(&row(&ids[0], 1, 5)).is_some());
        assert!(lately.take_saying(&tenant, &scope(), &wanted, 9).is_some_and(|(_, id, _)| id == ids[1]));
        assert!(lately.kept().said.is_empty());
    }

    #[test]
    fn the_oldest_go_first() {
        let (lately, tenant) = (RecentRecords::default(), Tenant::default());
        let long = "x".repeat(MAX_BYTES / 3);
        let ids: Vec<ConversationId> = (0..4).map(|at| ConversationId::new(Time(at))).collect();
        for id in &ids {
            lately.keep(&tenant, id, known(&long, [0; 32]));
        }
        assert!(lately.take(&row(&ids[0], 0, 5)).is_none());
        assert!(lately.take(&row(&ids[3], 0, 5)).is_some());
        let kept = lately.0.lock().unwrap();
        assert!(kept.bytes <= MAX_BYTES && kept.order.len() == kept.known.len());
    }
}
