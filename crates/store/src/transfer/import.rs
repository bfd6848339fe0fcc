//! Import: conversations of other tools become stored ones, and importing again adds only what is new.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use scrollback_core::identity::project_of;
use scrollback_core::transcript::{self, Format, Relation};
use scrollback_core::{Decision, Entry, Time};
use uuid::Uuid;

use crate::conversation::NewConversation;
use crate::entry::{Expected, NewEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::run::Alias;
use crate::session::ConversationKind;
use crate::store::Store;
use crate::tx::Tx;

/// Entries written in one commit.
const BATCH: usize = 256;

/// Kinds of notes that are kept of an import.
const MAX_NOTES: usize = 1_000;

/// Where imported conversations go, and what is known about their source.
#[derive(Clone)]
pub struct Importer {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Whose they become.
    pub tenant: Tenant,
    /// The name of the format, under which ids of the source are remembered.
    pub format: String,
    /// Everything becomes this recipient's: entries go to the current conversation, branches and helpers become further ones.
    pub recipient: Option<Recipient>,
    /// The time of entries that have none.
    pub fallback: Time,
    /// Now.
    pub now: Time,
    /// Whether anything is written.
    pub mode: ImportMode,
}

/// Whether an import writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
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
    /// What had to be assumed, and what is no message: each kind once, and how often it was met.
    pub notes: BTreeMap<String, u64>,
}

impl Imported {
    /// Adds what another import did. Of many kinds of notes the first are kept: there may be one for each of a million lines.
    pub fn and(&mut self, other: Imported) {
        self.conversations += other.conversations;
        self.added += other.added;
        self.skipped += other.skipped;
        for (kind, times) in other.notes {
            if self.notes.contains_key(&kind) || self.notes.len() < MAX_NOTES {
                *self.notes.entry(kind).or_default() += times;
            }
        }
    }

    /// Notes a kind of thing once more.
    fn note(&mut self, kind: impl Into<String>) {
        *self.notes.entry(kind.into()).or_default() += 1;
    }

    /// The notes, a line for each kind.
    pub fn note_lines(&self) -> Vec<String> {
        let line = |(kind, times): (&String, &u64)| {
            if *times > 1 { format!("{kind}, {times} times") } else { kind.clone() }
        };
        self.notes.iter().map(line).collect()
    }
}

/// How far a conversation has come that is imported in pieces.
#[derive(Default)]
pub struct Course {
    /// Where each entry so far was put.
    positions: Vec<Option<u64>>,
    /// How often each key was met, by its hash.
    seen: HashMap<[u8; 8], u32>,
    /// Decisions so far.
    decisions: usize,
    /// Whether it was said that times are missing.
    timeless: bool,
}

impl Importer {
    /// Imports one conversation of a source. `session` names it where the source does not.
    pub async fn conversation(
        &self,
        source: transcript::ReadConversation,
        session: &str,
    ) -> Result<Imported, StoreError> {
        self.piece(source, session, &mut Course::default()).await
    }

    /// Imports the next piece of a conversation.
    pub async fn piece(
        &self,
        source: transcript::ReadConversation,
        session: &str,
        course: &mut Course,
    ) -> Result<Imported, StoreError> {
        let session = source.id.clone().unwrap_or_else(|| session.to_string());
        let mut imported = Imported { conversations: u64::from(source.before == 0), ..Imported::default() };
        source.notes.iter().for_each(|note| imported.note(&note.kind));
        if !course.timeless && source.entries.iter().any(|entry| entry.created_at == Time(0)) {
            course.timeless = true;
            imported.note(format!("no times in the source: using {}", self.fallback));
        }
        let keys: Vec<String> = keys(&source, &session, &mut course.seen);
        let known = self.known(&source, &keys).await?;
        imported.skipped = known.iter().filter(|known| known.is_some()).count() as u64;
        imported.added = source.entries.len() as u64 - imported.skipped;
        let nothing_new = imported.added == 0 && source.decisions.is_empty();
        if self.mode == ImportMode::DryRun || nothing_new {
            course.positions.extend(known);
            return Ok(imported);
        }
        let (id, numbered) = self.place(&source, &session).await?;
        let first_new = known.iter().position(Option::is_none).unwrap_or(known.len());
        let out_of_order = known.iter().skip(first_new).any(Option::is_some);
        if out_of_order {
            imported.note("entries were inserted between known ones; they are added at the end");
        }
        let numbered = numbered.unwrap_or(imported.skipped);
        let left = known.get(first_new.wrapping_sub(1)).copied().flatten();
        let (id, numbered) = match left {
            // The source has gone another way since: what was imported before stays, and this goes on from where they part.
            Some(at) if self.is_tree() && !out_of_order && numbered > imported.skipped => {
                let now = self.now;
                let fork = self.store.fork(&self.tenant, &id, at + 1, ConversationId::new(now), now).await?;
                (fork.id, first_new as u64)
            }
            _ => (id, numbered),
        };
        course.positions.extend(known);
        self.write(&id, &source, &session, &keys, numbered, course).await?;
        self.decide(&id, &source, course, &mut imported).await?;
        Ok(imported)
    }

    /// What an id of the source means here. What was erased of a person is known by a pseudonym of its id, so that importing it
    /// once more does not bring it back.
    async fn remembered(&self, source_id: &str) -> Result<Option<Alias>, StoreError> {
        let known = self.store.alias(&self.tenant, &self.format, source_id).await?;
        if known.is_some() {
            return Ok(known);
        }
        let Some(pseudonyms) = self.store.pseudonyms().await? else { return Ok(None) };
        self.store.alias(&self.tenant, &self.format, &pseudonyms.text(&self.tenant, source_id)).await
    }

    /// Whether sessions of the source are trees, whose main path may be another one the next time.
    fn is_tree(&self) -> bool {
        self.format == Format::ClaudeCode.name()
    }

    /// The positions of entries that were imported before. What is a branch now may have been part of the main path then.
    async fn known(
        &self,
        source: &transcript::ReadConversation,
        keys: &[String],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let trunk = source.parent.as_ref().filter(|_| self.is_tree() && source.relation == Relation::Branch);
        let mut known = Vec::with_capacity(keys.len());
        for (key, at) in keys.iter().zip(&source.sources) {
            let mut alias = self.remembered(key).await?;
            if let (None, Some(parent), Some(message)) = (&alias, trunk, &at.id) {
                let as_trunk = format!("{}/{message}", parent.id);
                alias = self.remembered(&as_trunk).await?;
            }
            known.push(alias.and_then(|alias| alias.position));
        }
        Ok(known)
    }

    /// The conversation the entries go to: the one of an earlier import, the recipient's, a fork, or a new one. And how many
    /// entries of the session it has, if that was written down.
    async fn place(
        &self,
        source: &transcript::ReadConversation,
        session: &str,
    ) -> Result<(ConversationId, Option<u64>), StoreError> {
        if let Some(alias) = self.remembered(session).await? {
            return Ok((alias.conversation, alias.position));
        }
        let id = ConversationId::new(self.now);
        let mut tx = Tx::new(&self.tenant, self.now);
        let found = match &self.recipient {
            Some(recipient) => self.store.current(&self.tenant, recipient).await?.map(|current| current.id),
            None => None,
        };
        let parent = self.parent_of(source).await?;
        let id = match (parent, found) {
            // A branch is a fork of what it branched off, with a recipient or without.
            (Some((parent, Some(at))), _) => {
                self.store.fork(&self.tenant, &parent, at, id, self.now).await?.id
            }
            // What a helper said is a conversation of its own, beside the one that started it.
            (Some((parent, None)), _) => {
                let of = self.store.conversation(&self.tenant, &parent).await?;
                tx.create(NewConversation {
                    recipient: of.recipient,
                    title: source.title.clone(),
                    project: project_of(&source.entries).or(of.project),
                    parent: Some(parent),
                    session: Some(of.session),
                    kind: ConversationKind::SubAgent,
                    ..NewConversation::new(id.clone())
                });
                id
            }
            (None, Some(current)) => current,
            (None, None) => {
                let mut new = NewConversation::new(id.clone());
                if let Some(recipient) = &self.recipient {
                    new = NewConversation::with(id.clone(), recipient);
                }
                new.title.clone_from(&source.title);
                new.project = project_of(&source.entries);
                tx.create(new);
                id
            }
        };
        tx.alias(self.alias(session.into(), &id, Some(0)));
        self.store.commit(tx).await?;
        Ok((id, Some(0)))
    }

    /// The conversation a conversation comes from, if that was imported, and the place of it where it branched off. What begins with
    /// words of its own did not branch off: a helper was started there.
    async fn parent_of(
        &self,
        source: &transcript::ReadConversation,
    ) -> Result<Option<(ConversationId, Option<u64>)>, StoreError> {
        let Some(parent) = &source.parent else { return Ok(None) };
        let Some(of) = self.remembered(&parent.id).await? else { return Ok(None) };
        if source.relation == Relation::Helper {
            return Ok(Some((of.conversation, None)));
        }
        let Some(at) = &parent.at else { return Ok(None) };
        let message = self.remembered(&format!("{}/{at}", parent.id)).await?;
        Ok(message.and_then(|message| Some((of.conversation, Some(message.position? + 1)))))
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

    /// Appends what is new, a batch at a time, each with the aliases that make the next import skip it, and with the number
    /// of entries the session has come to.
    async fn write(
        &self,
        id: &ConversationId,
        source: &transcript::ReadConversation,
        session: &str,
        keys: &[String],
        mut sequence: u64,
        course: &mut Course,
    ) -> Result<(), StoreError> {
        // One source session is one evaluation, however often it is imported.
        let hash = blake3::hash(format!("{}\n{}\n{session}", self.tenant, self.format).as_bytes());
        let evaluation = Uuid::from_slice(hash.as_bytes().get(..16).unwrap_or_default()).unwrap_or_default();
        let is_new = |at: &usize| course.positions.get(source.before + at).is_some_and(Option::is_none);
        let new: Vec<usize> = (0..source.entries.len()).filter(is_new).collect();
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
            tx.alias(self.alias(session.into(), id, Some(sequence)));
            for (position, at) in (head..).zip(batch) {
                if let Some(place) = course.positions.get_mut(source.before + at) {
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
        Ok(())
    }

    /// Records the decisions the source had taken about what was imported now. Those that do not hold here are noted.
    async fn decide(
        &self,
        id: &ConversationId,
        source: &transcript::ReadConversation,
        course: &mut Course,
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        for decided in &source.decisions {
            let number = course.decisions;
            course.decisions += 1;
            let key =
                format!("{}/decision {number}/{:?}", source.id.as_deref().unwrap_or_default(), decided.after);
            if self.remembered(&key).await?.is_some() {
                continue;
            }
            let head = self.store.conversation(&self.tenant, id).await?.head;
            let place = |index: u64| course.positions.get(index as usize).copied().flatten().unwrap_or(head);
            let decision = decided.decision.clone().moved(place);
            let summary = matches!(decision, Decision::Summary { .. });
            let decision = if summary { self.after_current(id, decision).await? } else { decision };
            let mut tx = Tx::new(&self.tenant, self.now);
            tx.append(id, Expected::Any, vec![decision.into()]).alias(self.alias(key, id, Some(head)));
            match self.store.commit(tx).await {
                Err(error) if matches!(error.kind(), ErrorKind::BadDecision | ErrorKind::Stale) => {
                    imported.note(format!("a decision of the source cannot be applied ({})", error.code()));
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
fn keys(
    source: &transcript::ReadConversation,
    session: &str,
    seen: &mut HashMap<[u8; 8], u32>,
) -> Vec<String> {
    let key = |(entry, at): (&Entry, &transcript::Source)| {
        let hash = blake3::hash(entry.origin.raw.as_bytes()).to_hex();
        let part = entry.origin.part.as_ref().map_or(0, |part| part.number);
        let line = at.id.clone().unwrap_or_else(|| at.line.to_string());
        let key = format!("{session}/{line}/{part}/{}", hash.get(..16).unwrap_or_default());
        let short = blake3::hash(key.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default();
        let times = seen.entry(short).or_default();
        *times += 1;
        if *times == 1 { key } else { format!("{key}/{times}") }
    };
    source.entries.iter().zip(&source.sources).map(key).collect()
}
