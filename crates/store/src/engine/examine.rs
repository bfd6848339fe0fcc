//! Examining a whole store: what no single conversation holds. Each table by the digests of its rows, blobs and parts of requests
//! by their names.

use crate::body;
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::rows::{Blob, PartRow, Rows, SentRow};
use crate::run::{Alias, Evaluation, Event, Key, KeyUse, Run, Span, Step};
use crate::session::Session;
use crate::table::{Scan, Table};

use super::verify::ProblemKind;

/// Blobs read at a time: each may be large.
const BLOBS: usize = 32;

/// What examining a whole store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// What is not as it was written, and a line for people.
    pub problems: Vec<(ProblemKind, String)>,
    /// What could not be examined, and why.
    pub notes: Vec<String>,
}

impl Examined {
    pub(crate) fn problem(&mut self, kind: ProblemKind, detail: impl Into<String>) {
        self.problems.push((kind, detail.into()));
    }

    /// Takes what another part found. Damage that keeps a part from being read is a problem of the store, not of the examination.
    pub(crate) fn take(&mut self, part: &str, found: Result<Examined, StoreError>) -> Result<(), StoreError> {
        match found {
            Ok(found) => {
                self.problems.extend(found.problems);
                self.notes.extend(found.notes);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::ForeignFile) => {
                self.problem(ProblemKind::PageDamaged, format!("{part} cannot be read: {error}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The parts that are examined one by one, each on a state of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Conversations,
    Sessions,
    Evaluations,
    Runs,
    Steps,
    Spans,
    Events,
    Sent,
    Aliases,
    Keys,
    KeyUses,
    SentParts,
    Blobs,
}

impl Part {
    pub(crate) const ALL: [Part; 13] = [
        Part::Conversations,
        Part::Sessions,
        Part::Evaluations,
        Part::Runs,
        Part::Steps,
        Part::Spans,
        Part::Events,
        Part::Sent,
        Part::Aliases,
        Part::Keys,
        Part::KeyUses,
        Part::SentParts,
        Part::Blobs,
    ];
}

/// Examines one part.
pub(crate) async fn examine<R: Rows>(rows: &mut R, part: Part) -> Result<Examined, StoreError> {
    match part {
        Part::Conversations => table::<R, Conversation>(rows).await,
        Part::Sessions => table::<R, Session>(rows).await,
        Part::Evaluations => table::<R, Evaluation>(rows).await,
        Part::Runs => table::<R, Run>(rows).await,
        Part::Steps => table::<R, Step>(rows).await,
        Part::Spans => table::<R, Span>(rows).await,
        Part::Events => table::<R, Event>(rows).await,
        Part::Sent => table::<R, SentRow>(rows).await,
        Part::Aliases => table::<R, Alias>(rows).await,
        Part::Keys => table::<R, Key>(rows).await,
        Part::KeyUses => table::<R, KeyUse>(rows).await,
        Part::SentParts => {
            let mut found = table::<R, PartRow>(rows).await?;
            parts(rows, &mut found).await?;
            Ok(found)
        }
        Part::Blobs => blobs(rows).await,
    }
}

async fn table<R: Rows, T: Table>(rows: &mut R) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    match rows.changed::<T>().await? {
        0 => {}
        wrong => {
            found.problem(
                ProblemKind::RowChanged,
                format!("{wrong} rows of {} are not what was written", T::NAME),
            );
        }
    }
    Ok(found)
}

/// What is said of rows that would come again for ever: each page of them begins after the last row of the one before.
const OUT_OF_ORDER: &str = "rows are out of order on a damaged page";

/// Parts of requests are named after what they say.
async fn parts<R: Rows>(rows: &mut R, found: &mut Examined) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let scan = Scan::new().ascending(&["conversation_id", "hash"]).after(after.clone()).limit(BLOBS);
        let page = rows.scan::<PartRow>(scan).await?;
        let Some(last) = page.last().map(PartRow::key) else { return Ok(()) };
        if after.as_ref() == Some(&last) {
            found.problem(ProblemKind::PageDamaged, OUT_OF_ORDER);
            return Ok(());
        }
        after = Some(last);
        for part in &page {
            if *blake3::hash(part.items.as_bytes()).as_bytes() != part.hash {
                let detail =
                    format!("the part {} of requests does not match its hash", body::hex(&part.hash));
                found.problem(ProblemKind::RequestChanged, detail);
            }
        }
    }
}

/// Blobs too, also those that nothing refers to.
async fn blobs<R: Rows>(rows: &mut R) -> Result<Examined, StoreError> {
    let (mut found, mut after) = (Examined::default(), None);
    loop {
        let scan = Scan::new().ascending(&["tenant", "hash"]).after(after.clone()).limit(BLOBS);
        let page = rows.scan::<Blob>(scan).await?;
        let Some(last) = page.last().map(Blob::key) else { return Ok(found) };
        if after.as_ref() == Some(&last) {
            found.problem(ProblemKind::PageDamaged, OUT_OF_ORDER);
            return Ok(found);
        }
        after = Some(last);
        for blob in &page {
            match body::unpack(blob) {
                Ok(bytes) if bytes.len() as u64 == blob.size => {}
                Ok(_) => {
                    let detail = format!("the blob {} has the wrong size", body::hex(&blob.hash));
                    found.problem(ProblemKind::BlobChanged, detail);
                }
                Err(error) => found.problem(ProblemKind::BlobChanged, error.to_string()),
            }
        }
    }
}
