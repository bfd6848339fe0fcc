//! From a text to stored conversations.

use scrollback_core::transcript::{self, Note, ReadConversation, Source};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{InputFormat, json};

use super::export::{ExportReader, LinkCheck, is_header};
use super::import::{Course, ImportMode, Imported, Importer};
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::id::Tenant;
use crate::memory::Memory;
use crate::store::Store;

/// Failures that are kept of an import: a million bad lines say no more than a thousand.
pub const MAX_FAILED: usize = 1_000;

/// A line that could not be read, or a whole text (line 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLine {
    /// The line, from 1; 0 for the text as a whole.
    pub line: usize,
    /// What is wrong, in one line.
    pub problem: String,
}

/// What importing a text did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextImport {
    /// What was added and what was there.
    pub imported: Imported,
    /// What could not be read.
    pub failed: Vec<FailedLine>,
}

/// Imports a text of any known format, detected if none is given. `name` is part of the identity of conversations whose
/// source names none, and `importer.format` is set to what the text turns out to be. Input that cannot be read is told in
/// the result; only a store that fails is an error.
pub async fn import_text(
    importer: &Importer,
    name: &str,
    text: &str,
    format: Option<InputFormat>,
) -> StoreResult<TextImport> {
    let mut done = TextImport::default();
    let ours = matches!(format, None | Some(InputFormat::Wire(Wire::Scrollback)));
    let result = match text.lines().next() {
        Some(first) if ours && is_header(first) => own_export(importer, text, &mut done).await,
        _ => conversations(importer, name, text, format, &mut done).await,
    };
    match result {
        Err(error) if is_about_input(error.kind()) => {
            done.failed.push(FailedLine { line: 0, problem: error.to_string() });
            Ok(done)
        }
        other => other.map(|()| done),
    }
}

/// Whether an error is about what was to be imported, not about the store.
fn is_about_input(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Damaged
            | ErrorKind::Conflict
            | ErrorKind::BadText
            | ErrorKind::TooLarge
            | ErrorKind::NotFound
    )
}

async fn conversations(
    importer: &Importer,
    name: &str,
    text: &str,
    format: Option<InputFormat>,
    done: &mut TextImport,
) -> StoreResult<()> {
    let bad = |problem: String| StoreError::new(ErrorKind::BadText, problem);
    let found = match format {
        Some(format) => format.transcript(),
        None => transcript::detect(text),
    };
    let (format, conversations) = if let Some(format) = found {
        let read = transcript::read(Some(format), text).map_err(|error| bad(error.to_string()))?;
        let failed = read.failed.into_iter().take(MAX_FAILED);
        done.failed.extend(failed.map(|error| FailedLine { line: error.line, problem: error.problem }));
        (format.name(), read.conversations)
    } else {
        let (wire, conversation) = read_body(text, format.and_then(InputFormat::wire)).map_err(bad)?;
        (wire.name(), vec![conversation])
    };
    let importer = Importer { format: format.into(), ..importer.clone() };
    for (number, conversation) in conversations.into_iter().enumerate() {
        let session = session_name(name, number);
        done.imported.and(importer.piece(conversation, &session, &mut Course::default()).await?);
    }
    Ok(())
}

async fn own_export(importer: &Importer, text: &str, done: &mut TextImport) -> StoreResult<()> {
    let dry = Memory::new();
    let store: &dyn Store = if importer.mode == ImportMode::DryRun { &dry } else { importer.store.as_ref() };
    // Whatever tenant the export says, it becomes the importer's.
    let mut reader = ExportImport::new(store, Some(importer.tenant.clone()), LinkCheck::Links);
    let mut problem = None;
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(wrong) = reader.line(text).await? {
            problem = Some(FailedLine { line, problem: wrong });
            break;
        }
    }
    if problem.is_none() {
        reader.finish().await?;
    }
    done.imported.and(reader.done);
    done.failed.extend(problem);
    Ok(())
}

/// The name of a conversation whose source has none: that of the text, and its place in it.
pub fn session_name(text: &str, number: usize) -> String {
    format!("scrollback:{text}#{number}")
}

/// A request or a list of messages as one conversation, with its wire, which is detected if none is given; or why it is not one.
pub fn read_body(text: &str, wire: Option<Wire>) -> Result<(Wire, ReadConversation), String> {
    let raw = json::check(text)
        .map_err(|error| format!("not valid JSON: {} at line {}", error.problem, error.line))?;
    let wire = wire.or_else(|| Wire::detect(raw));
    let wire = wire.ok_or("neither messages nor a transcript of a known format")?;
    let parsed = wire.parse(raw, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let sources = (1..=parsed.entries.len()).map(|line| Source { line, id: None }).collect();
    let notes = parsed.notes.into_iter().map(|kind| Note { line: 0, kind, raw: None }).collect();
    Ok((wire, ReadConversation { entries: parsed.entries, sources, notes, ..ReadConversation::default() }))
}

/// Reads our own export line by line and writes each conversation when it is whole: a file of any size takes the memory of
/// its largest conversation.
pub struct ExportImport<'s> {
    store: &'s dyn Store,
    tenant: Option<Tenant>,
    check: LinkCheck,
    reader: Option<ExportReader>,
    /// What was imported so far.
    pub done: Imported,
}

impl<'s> ExportImport<'s> {
    /// Into this store; as this tenant's, or else as that of the tenant the export names.
    pub fn new(store: &'s dyn Store, tenant: Option<Tenant>, check: LinkCheck) -> Self {
        ExportImport { store, tenant, check, reader: None, done: Imported::default() }
    }

    /// Takes the next line; what is wrong with it, if something is. After that no line is taken.
    pub async fn line(&mut self, line: &str) -> StoreResult<Option<String>> {
        if is_header(line) {
            self.finish().await?;
            self.reader = Some(ExportReader::begin(line, self.tenant.as_ref())?);
        } else if line.trim().is_empty() {
            // The end of the file, mostly.
        } else if let Some(reader) = &mut self.reader {
            return Ok(reader.place(line).err().map(|error| error.to_string()));
        } else {
            let message = "the export does not begin with a header";
            return Err(StoreError::new(ErrorKind::BadText, message));
        }
        Ok(None)
    }

    /// Writes the last conversation.
    pub async fn finish(&mut self) -> StoreResult<()> {
        let Some(reader) = self.reader.take() else { return Ok(()) };
        let (added, skipped) = reader.finish(self.store, self.check).await?;
        self.done.and(Imported { conversations: 1, added, skipped, ..Imported::default() });
        Ok(())
    }
}
