//! Copying a whole store into a new SQLite file: the backup of stores that are no file themselves.

use std::path::Path;

use scrollback_core::Time;

use super::lineage::Lineage;
use super::read as places;
use crate::backend::{Backend, Whose};
use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::rows::{Blob, CallRow, EntryRow, PartRow, Rows, SentRow, SummaryRow};
use crate::run::{Alias, Evaluation, Event, Key, Run, Span, Step};
use crate::session::Session;
use crate::sqlite::Sqlite;
use crate::table::Scan;

/// Every row of a store at one moment.
#[derive(Default)]
pub(crate) struct Everything {
    conversations: Vec<Conversation>,
    entries: Vec<EntryRow>,
    blobs: Vec<Blob>,
    calls: Vec<CallRow>,
    summaries: Vec<SummaryRow>,
    evaluations: Vec<Evaluation>,
    runs: Vec<Run>,
    steps: Vec<Step>,
    spans: Vec<Span>,
    events: Vec<Event>,
    sent: Vec<SentRow>,
    parts: Vec<PartRow>,
    aliases: Vec<Alias>,
    sessions: Vec<Session>,
    keys: Vec<Key>,
}

/// Reads everything.
pub(crate) async fn read<R: Rows>(rows: &mut R) -> Result<Everything, StoreError> {
    Ok(Everything {
        // Parents come before their forks: ids sort by the time they were made.
        conversations: rows.scan(Scan::new().ascending(&["id"])).await?,
        entries: rows.scan(Scan::new().ascending(&["conversation_id", "position"])).await?,
        blobs: rows.scan(Scan::new()).await?,
        calls: rows.scan(Scan::new()).await?,
        summaries: rows.scan(Scan::new()).await?,
        evaluations: rows.scan(Scan::new()).await?,
        runs: rows.scan(Scan::new()).await?,
        steps: rows.scan(Scan::new()).await?,
        spans: rows.scan(Scan::new()).await?,
        events: rows.scan(Scan::new()).await?,
        sent: rows.scan(Scan::new()).await?,
        parts: rows.scan(Scan::new()).await?,
        aliases: rows.scan(Scan::new()).await?,
        sessions: rows.scan(Scan::new()).await?,
        keys: rows.scan(Scan::new()).await?,
    })
}

/// Writes everything into a new file, in one transaction.
pub(crate) async fn into_file(path: &Path, all: Everything) -> Result<(), StoreError> {
    let made = all.conversations.iter().map(|row| row.created_at).min().unwrap_or(Time(0));
    let file = Sqlite::open(path, made)?;
    let mut all = Some(all);
    file.write(Whose::All, Box::new(move |rows| Box::pin(write(rows, all.take().unwrap_or_default())))).await
}

async fn write<R: Rows>(rows: &mut R, all: Everything) -> Result<(), StoreError> {
    rows.add(&all.conversations).await?;
    rows.add(&all.entries).await?;
    rows.add(&all.blobs).await?;
    rows.add(&all.calls).await?;
    rows.add(&all.summaries).await?;
    rows.add(&all.evaluations).await?;
    rows.add(&all.runs).await?;
    rows.add(&all.steps).await?;
    rows.add(&all.spans).await?;
    rows.add(&all.events).await?;
    rows.add(&all.sent).await?;
    rows.add(&all.parts).await?;
    rows.add(&all.aliases).await?;
    rows.add(&all.sessions).await?;
    rows.add(&all.keys).await?;
    for conversation in &all.conversations {
        let lineage = Lineage::of(rows, conversation).await?;
        let from = conversation.fork_position.unwrap_or(0);
        for placed in places::range(rows, &conversation.tenant, &lineage, from, conversation.head).await? {
            let words = places::words(&placed.slot);
            if !words.is_empty() {
                rows.index(&conversation.id, placed.position, &words).await?;
            }
        }
    }
    Ok(())
}
