//! What programs do with a conversation besides viewing it: messages as they come, what others wrote, people's data.

use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Slot};
use scrollback_store::{
    Compaction, Erase, ErasedCount, Expected, FollowUps, Followed, HistorySettings, NewEntry, Offline,
    RecordsExt, Status, StoredEntry, compact, follow, new_evaluation,
};

use crate::conversation::{Append, Conversation};
use crate::error::{Error, ErrorKind, Result};
use crate::messages::read_messages;
use crate::open::now;

/// How often an append is tried again when other writers come first.
const ATTEMPTS: usize = 16;

impl Conversation {
    /// Reads what others wrote since. Costs one small query where that is nothing.
    pub async fn refresh(&mut self) -> Result<()> {
        let Some(found) = self.store.current(&self.tenant, &self.recipient).await? else {
            return Ok(());
        };
        let (from, same) = (self.record.len() as u64, self.id.as_ref() == Some(&found.id));
        if same && found.head == from && self.written == Some(found.updated_at) {
            return Ok(());
        }
        if !same || found.head <= from {
            return self.reload().await;
        }
        for placed in self.store.entries(&self.tenant, &found.id, from, found.head).await? {
            let kept = match placed.slot {
                Slot::Message(entry) => self.record.share(entry).is_ok(),
                Slot::Decision(decision, at) => self.record.decide(Decision::clone(&decision), at).is_ok(),
                Slot::Erased(_) => false,
            };
            if !kept {
                return self.reload().await;
            }
        }
        self.written = Some(found.updated_at);
        Ok(())
    }

    /// Appends messages given as JSON text: a list, a request, one message, or a provider's whole reply. Their positions, first
    /// and last.
    pub async fn append_messages(&mut self, text: &str, wire: Option<Wire>) -> Result<(u64, u64)> {
        let entries = read_messages(text, wire)?;
        if entries.is_empty() {
            return Err(Error::new(ErrorKind::Messages, "there are no messages to append"));
        }
        let new = NewEntry::evaluation(entries, now());
        self.write(Expected::Any, new).await
    }

    /// Records what a list of messages says that the record does not say yet, and where the list stands in it. For programs
    /// that keep a list of their own: call it with the whole list, or with its newest part, before each model call.
    pub async fn follow(&mut self, text: &str, wire: Option<Wire>) -> Result<Followed> {
        let list = read_messages(text, wire)?;
        for _ in 0..ATTEMPTS {
            self.refresh().await?;
            let (store, at) = (self.store.as_ref(), now());
            match follow(store, &self.tenant, &self.recipient, &self.record, &list, at).await {
                Err(error) if error.kind() == scrollback_store::ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
                Ok(done) => {
                    self.refresh().await?;
                    return Ok(done);
                }
            }
        }
        let message = "other writers keep coming first: try again";
        Err(Error::new(ErrorKind::Store(scrollback_store::ErrorKind::Conflict), message))
    }

    /// Records decisions: pins, cuts, plans.
    pub async fn decide(&mut self, decisions: Vec<Decision>) -> Result<()> {
        if decisions.is_empty() {
            return Ok(());
        }
        let new = decisions.into_iter().map(NewEntry::from).collect();
        self.write(Expected::Any, new).await.map(|_| ())
    }

    async fn write(&mut self, expected: Expected, new: Vec<NewEntry>) -> Result<(u64, u64)> {
        let at = now();
        let before = self.record.len() as u64;
        let slots: Vec<Slot> = new.iter().map(|entry| entry.slot(at)).collect();
        let appended = self.store.append_for(&self.tenant, at, &self.recipient, expected, new).await?;
        let same = self.id.as_ref().is_none_or(|id| *id == appended.conversation);
        let mut kept = same && appended.first == before;
        if kept {
            for slot in slots {
                kept = kept
                    && match slot {
                        Slot::Message(entry) => self.record.share(entry).is_ok(),
                        Slot::Decision(decision, at) => {
                            self.record.decide(Decision::clone(&decision), at).is_ok()
                        }
                        Slot::Erased(_) => false,
                    };
            }
            self.id = Some(appended.conversation.clone());
            self.written = Some(at);
        }
        if !kept {
            self.refresh().await?;
        }
        Ok((appended.first, appended.last))
    }

    /// The places of the record between two positions, both included.
    pub async fn places(&self, first: u64, last: u64) -> Result<Vec<StoredEntry>> {
        let Some(id) = &self.id else { return Ok(Vec::new()) };
        let below = last.saturating_add(1).min(self.record.len() as u64);
        Ok(self.store.entries(&self.tenant, id, first, below).await?)
    }

    /// Erases what was said at these positions, or everything. Places and hashes stay.
    pub async fn erase(&mut self, positions: Option<(u64, u64)>, reason: &str) -> Result<ErasedCount> {
        self.refresh().await?;
        let Some(id) = self.id.clone() else { return Ok(ErasedCount::default()) };
        let what = positions.map_or(Erase::All, |range| Erase::Positions(vec![range]));
        let done = self.store.erase(&self.tenant, &id, what, reason, now()).await?;
        self.reload().await?;
        Ok(done)
    }

    /// Has all but the last `keep` turns summarised, without a model. What the summary says, if one was needed.
    pub async fn compact(&mut self, keep: usize) -> Result<Option<String>> {
        self.refresh().await?;
        let Some(id) = self.id.clone() else { return Ok(None) };
        let settings = HistorySettings {
            max_turns_before_compaction: keep + 1,
            recent_turns_to_keep: keep,
            ..HistorySettings::default()
        };
        let done = compact(self.store.as_ref(), &self.tenant, &id, &settings, &Offline, now()).await?;
        self.refresh().await?;
        match done {
            Compaction::Done { text, .. } => Ok(Some(text)),
            Compaction::UnderBound | Compaction::Stale => Ok(None),
            Compaction::Failed(why) => {
                let message = format!("no summary could be written: {why}");
                Err(Error::new(ErrorKind::View, message).at("summary_failed", ""))
            }
        }
    }

    /// What the summary in force says.
    pub async fn summary(&mut self) -> Result<Option<String>> {
        self.refresh().await?;
        let Some(id) = &self.id else { return Ok(None) };
        let recent = self.store.recent(&self.tenant, id, 0).await?;
        Ok(recent.summary.map(|summary| summary.text))
    }

    /// Where the conversation stands, and whether a follow-up is due.
    pub async fn status(&mut self) -> Result<(Status, bool)> {
        self.refresh().await?;
        let Some(id) = &self.id else { return Ok((Status::Idle, false)) };
        let row = self.store.conversation(&self.tenant, id).await?;
        Ok((row.status(), FollowUps::default().of(&row, now()).due))
    }

    /// Sets where the conversation stands.
    pub async fn set_status(&mut self, name: &str) -> Result<()> {
        let status = Status::named(name).ok_or_else(|| {
            let known = Status::ALL.map(Status::name).join(", ");
            let message = format!("unknown status {name:?}; known: {known}");
            Error::new(ErrorKind::Input, message).at("unknown_status", "")
        })?;
        self.refresh().await?;
        let id = self.id()?.clone();
        self.store.write(&self.tenant, now(), |tx| _ = tx.status(&id, status)).await?;
        Ok(())
    }

    /// Appends entries at a position that is expected to be the next one.
    pub async fn append_at(&mut self, expected: u64, append: impl Into<Append>) -> Result<()> {
        let Append { entries, at, evaluation, sequence } = append.into();
        let at = at.unwrap_or_else(now);
        let new = NewEntry::continued(entries, evaluation.unwrap_or_else(new_evaluation), sequence, at);
        self.write(Expected::At(expected), new).await.map(|_| ())
    }
}
