//! Import: conversations of other tools become stored ones, and importing again adds only what is new.

use std::sync::Arc;

use scrollback_core::transcript::{self, Note};
use scrollback_core::{Decision, Entry, Time};
use uuid::Uuid;

use crate::conversation::NewConversation;
use crate::entry::{Expected, NewEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::run::Alias;
use crate::store::Store;
use crate::tx::Tx;

/// Entries written in one commit.
const BATCH: usize = 256;

/// Where imported conversations go, and what is known about their source.
#[derive(Clone)]
pub struct Importer {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Whose they become.
    pub tenant: Tenant,
    /// The name of the format, under which ids of the source are remembered.
    pub format: String,
    /// All entries go to this recipient's conversation.
    pub recipient: Option<Recipient>,
    /// The time of entries that have none.
    pub fallback: Time,
    /// Now.
    pub now: Time,
    /// Whether anything is written.
    pub mode: Mode,
}

/// Whether an import writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Write,
    /// It only says what it would write.
    DryRun,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Conversations that were found.
    pub conversations: u64,
    /// Entries that were added.
    pub added: u64,
    /// Entries that were there already.
    pub skipped: u64,
    /// What had to be assumed, and what is no message.
    pub notes: Vec<String>,
}

impl Imported {
    /// Adds what another import did.
    pub fn and(&mut self, other: Imported) {
        self.conversations += other.conversations;
        self.added += other.added;
        self.skipped += other.skipped;
        self.notes.extend(other.notes);
    }
}

impl Importer {
    /// Imports one conversation of a source. `session` names it where the source does not.
    pub async fn conversation(
        &self,
        source: transcript::Conversation,
        session: &str,
    ) -> Result<Imported, StoreError> {
        let session = source.id.clone().unwrap_or_else(|| session.to_string());
        let mut imported = Imported { conversations: 1, ..Imported::default() };
        imported.notes = notes(&source.notes);
        if source.entries.iter().any(|entry| entry.created_at == Time(0)) {
            imported.notes.push(format!("no times in the source: {} is taken", self.fallback));
        }
        let keys: Vec<String> = keys(&source, &session);
        let known = self.known(&keys).await?;
        imported.skipped = known.iter().filter(|known| known.is_some()).count() as u64;
        imported.added = source.entries.len() as u64 - imported.skipped;
        if self.mode == Mode::DryRun || imported.added == 0 {
            return Ok(imported);
        }
        let id = self.place(&source, &session).await?;
        let first_new = known.iter().position(Option::is_none).unwrap_or(known.len());
        let out_of_order = known.iter().skip(first_new).any(Option::is_some);
        if out_of_order {
            imported.notes.push("entries were inserted between known ones; they are added at the end".into());
        }
        self.write(&id, &source, &session, &keys, &known, &mut imported).await?;
        Ok(imported)
    }

    /// The positions of entries that were imported before.
    async fn known(&self, keys: &[String]) -> Result<Vec<Option<u64>>, StoreError> {
        let mut known = Vec::with_capacity(keys.len());
        for key in keys {
            let alias = self.store.alias(&self.tenant, &self.format, key).await?;
            known.push(alias.and_then(|alias| alias.position));
        }
        Ok(known)
    }

    /// The conversation the entries go to: the one of an earlier import, the recipient's, a fork, or a new one.
    async fn place(
        &self,
        source: &transcript::Conversation,
        session: &str,
    ) -> Result<ConversationId, StoreError> {
        if let Some(alias) = self.store.alias(&self.tenant, &self.format, session).await? {
            return Ok(alias.conversation);
        }
        let id = ConversationId::new(self.now);
        let mut tx = Tx::new(&self.tenant, self.now);
        let found = match &self.recipient {
            Some(recipient) => self.store.current(&self.tenant, recipient).await?.map(|current| current.id),
            None => None,
        };
        let id = match (found, self.fork_of(source).await?) {
            (Some(current), _) => current,
            (None, Some((parent, at))) if self.recipient.is_none() => {
                self.store.fork(&self.tenant, &parent, at, id, self.now).await?.id
            }
            _ => {
                let mut new = NewConversation::new(id.clone());
                if let Some(recipient) = &self.recipient {
                    new = NewConversation::with(id.clone(), recipient);
                }
                new.title.clone_from(&source.title);
                tx.create(new);
                id
            }
        };
        tx.alias(self.alias(session.into(), &id, None));
        self.store.commit(tx).await?;
        Ok(id)
    }

    /// The place a conversation branched off, if that was imported.
    async fn fork_of(
        &self,
        source: &transcript::Conversation,
    ) -> Result<Option<(ConversationId, u64)>, StoreError> {
        let Some(parent) = &source.parent else { return Ok(None) };
        let Some(of) = self.store.alias(&self.tenant, &self.format, &parent.id).await? else {
            return Ok(None);
        };
        let Some(at) = &parent.at else { return Ok(None) };
        let message = self.store.alias(&self.tenant, &self.format, &format!("{}/{at}", parent.id)).await?;
        Ok(message.and_then(|message| Some((of.conversation, message.position? + 1))))
    }

    fn alias(&self, source_id: String, conversation: &ConversationId, position: Option<u64>) -> Alias {
        Alias {
            tenant: self.tenant.clone(),
            source: self.format.clone(),
            source_id,
            conversation: conversation.clone(),
            position,
        }
    }

    /// Appends what is new, a batch at a time, each with the aliases that make the next import skip it.
    async fn write(
        &self,
        id: &ConversationId,
        source: &transcript::Conversation,
        session: &str,
        keys: &[String],
        known: &[Option<u64>],
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        // One source session is one evaluation, however often it is imported.
        let hash = blake3::hash(format!("{}\n{}\n{session}", self.tenant, self.format).as_bytes());
        let evaluation = Uuid::from_slice(hash.as_bytes().get(..16).unwrap_or_default()).unwrap_or_default();
        let mut sequence = imported.skipped;
        let mut positions: Vec<Option<u64>> = known.to_vec();
        let new: Vec<usize> =
            (0..source.entries.len()).filter(|at| known.get(*at).is_some_and(Option::is_none)).collect();
        for batch in new.chunks(BATCH) {
            let entries: Vec<NewEntry> = batch
                .iter()
                .filter_map(|at| source.entries.get(*at))
                .map(|entry| {
                    let at = if entry.created_at == Time(0) { self.fallback } else { entry.created_at };
                    sequence += 1;
                    NewEntry::from(Entry::clone(entry).stamped(evaluation, sequence - 1, at))
                })
                .collect();
            let head = self.store.conversation(&self.tenant, id).await?.head;
            let mut tx = Tx::new(&self.tenant, self.now);
            tx.append(id, Expected::At(head), entries);
            for (position, at) in (head..).zip(batch) {
                if let Some(place) = positions.get_mut(*at) {
                    *place = Some(position);
                }
                if let Some(key) = keys.get(*at) {
                    tx.alias(self.alias(key.clone(), id, Some(position)));
                }
                if let Some(message) = source.sources.get(*at).and_then(|source| source.id.as_ref()) {
                    tx.alias(self.alias(format!("{session}/{message}"), id, Some(position)));
                }
            }
            self.store.commit(tx).await?;
        }
        self.decide(id, source, &positions, imported).await
    }

    /// Records the decisions the source had taken about what was imported now. Those that do not hold here are noted.
    async fn decide(
        &self,
        id: &ConversationId,
        source: &transcript::Conversation,
        positions: &[Option<u64>],
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        for (number, decided) in source.decisions.iter().enumerate() {
            let key =
                format!("{}/decision {number}/{:?}", source.id.as_deref().unwrap_or_default(), decided.after);
            if self.store.alias(&self.tenant, &self.format, &key).await?.is_some() {
                continue;
            }
            let head = self.store.conversation(&self.tenant, id).await?.head;
            let place = |index: u64| positions.get(index as usize).copied().flatten().unwrap_or(head);
            let decision = decided.decision.clone().moved(place);
            let summary = matches!(decision, Decision::Summary { .. });
            let decision = if summary { self.after_current(id, decision).await? } else { decision };
            let mut tx = Tx::new(&self.tenant, self.now);
            tx.append(id, Expected::Any, vec![decision.into()]).alias(self.alias(key, id, Some(head)));
            match self.store.commit(tx).await {
                Err(error) if matches!(error.kind(), ErrorKind::BadDecision | ErrorKind::Stale) => {
                    imported.notes.push(format!("a decision of the source does not hold: {error}"));
                }
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }

    /// A summary that takes the place of the one in force.
    async fn after_current(&self, id: &ConversationId, decision: Decision) -> Result<Decision, StoreError> {
        let current = self.store.recent(&self.tenant, id, 0).await?.summary.map(|summary| summary.position);
        Ok(match decision {
            Decision::Summary { covers, text, place, by, usage, scope, .. } => {
                Decision::Summary { covers, text, place, by, usage, replaces: current, scope }
            }
            other => other,
        })
    }
}

/// What identifies each entry in its source: the session, the line's id or number, and a hash of what it says. Of entries
/// that share all three, the later ones are numbered.
fn keys(source: &transcript::Conversation, session: &str) -> Vec<String> {
    let mut seen: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let key = |(entry, at): (&Entry, &transcript::Source)| {
        let hash = blake3::hash(entry.origin.raw.as_bytes()).to_hex();
        let part = entry.origin.part.as_ref().map_or(0, |part| part.number);
        let line = at.id.clone().unwrap_or_else(|| at.line.to_string());
        let key = format!("{session}/{line}/{part}/{}", hash.get(..16).unwrap_or_default());
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        if *times == 1 { key } else { format!("{key}/{times}") }
    };
    source.entries.iter().zip(&source.sources).map(key).collect()
}

/// Notes of one kind as one.
fn notes(notes: &[Note]) -> Vec<String> {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for note in notes {
        *counts.entry(note.kind.as_str()).or_default() += 1;
    }
    let told =
        |(kind, count): (&str, usize)| if count > 1 { format!("{kind}, {count} times") } else { kind.into() };
    counts.into_iter().map(told).collect()
}
