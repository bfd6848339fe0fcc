//! Transcripts in, records out: what the API and the lens's import page share.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use scrollback_core::transcript::{self, Format, Source};
use scrollback_core::wire::{ParseOptions, RenderOptions, Wire, list_key, system_key};
use scrollback_core::{Fidelity, Record, Slot, ViewItem, json};
use scrollback_store::export::{ExportReader, LinkCheck, WIRES, is_header, lines};
use scrollback_store::import::{Course, ImportMode, Imported, Importer};
use scrollback_store::{ConversationId, Memory, Recipient, Store, Tenant};
use serde::Serialize;

use crate::{App, HttpProblem};

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportFormat {
    Wire(Wire),
    Transcript(Format),
}

impl ImportFormat {
    /// Every format that can be read from one text.
    pub(crate) fn names() -> Vec<&'static str> {
        Wire::ALL
            .iter()
            .map(|wire| wire.name())
            .chain(Format::ALL.iter().map(|format| format.name()))
            .collect()
    }

    /// The format of that name.
    pub(crate) fn named(name: &str) -> Result<Self, HttpProblem> {
        let found = Wire::named(name)
            .map(ImportFormat::Wire)
            .or_else(|| Format::named(name).map(ImportFormat::Transcript));
        found.ok_or_else(|| {
            let known = ImportFormat::names();
            let detail = format!("unknown format {name:?} (known: {})", known.join(", "));
            HttpProblem::bad_request("unknown_format", detail).with("known", known)
        })
    }
}

/// What to import.
pub(crate) struct ImportRequest {
    /// The text of a file.
    pub(crate) text: String,
    /// What it is called; part of the identity of conversations whose source names none.
    pub(crate) name: String,
    /// How it is written; detected if none.
    pub(crate) format: Option<ImportFormat>,
    /// All entries go to this recipient's conversation.
    pub(crate) recipient: Option<Recipient>,
    /// Whether anything is written.
    pub(crate) mode: ImportMode,
}

/// What an import did.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Imported")]
pub(crate) struct Report {
    /// Files read.
    pub(crate) files: u64,
    /// Conversations found.
    pub(crate) conversations: u64,
    /// Entries added.
    pub(crate) added: u64,
    /// Entries that were there already.
    pub(crate) skipped: u64,
    /// What had to be assumed, and what is no message.
    pub(crate) notes: Vec<String>,
    /// What could not be read.
    pub(crate) failed: Vec<FailedLine>,
}

/// A line that could not be read, or a whole file (line 0).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FailedLine")]
pub(crate) struct FailedLine {
    /// The file.
    pub(crate) file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) problem: String,
}

/// Failures that are kept: a million bad lines say no more than a thousand.
const MAX_FAILED: usize = 1_000;

/// Imports one text. What cannot be read is told in the report; only a store that fails is an error.
pub(crate) async fn import(app: &App, tenant: &Tenant, given: ImportRequest) -> Result<Report, HttpProblem> {
    let mut report = Report { files: 1, ..Report::default() };
    let done = match (&given.format, given.text.lines().next()) {
        (None | Some(ImportFormat::Wire(Wire::Scrollback)), Some(first)) if is_header(first) => {
            own(app, tenant, &given, &mut report).await
        }
        _ => foreign(app, tenant, &given, &mut report).await,
    };
    match done {
        Ok(()) => {}
        Err(FailedImport::Input(problem)) => {
            report.failed.push(FailedLine { file: given.name.clone(), line: 0, problem });
        }
        Err(FailedImport::Store(problem)) => return Err(*problem),
    }
    Ok(report)
}

enum FailedImport {
    Input(String),
    Store(Box<HttpProblem>),
}

impl From<scrollback_store::StoreError> for FailedImport {
    fn from(error: scrollback_store::StoreError) -> Self {
        use scrollback_store::ErrorKind;
        match error.kind() {
            ErrorKind::Damaged | ErrorKind::Conflict | ErrorKind::TooLarge | ErrorKind::NotFound => {
                FailedImport::Input(error.to_string())
            }
            _ => FailedImport::Store(Box::new(error.into())),
        }
    }
}

impl Report {
    fn add(&mut self, done: &Imported) {
        self.conversations += done.conversations;
        self.added += done.added;
        self.skipped += done.skipped;
        let room = MAX_FAILED.saturating_sub(self.notes.len());
        self.notes.extend(done.note_lines().into_iter().take(room));
    }
}

async fn foreign(
    app: &App,
    tenant: &Tenant,
    given: &ImportRequest,
    report: &mut Report,
) -> Result<(), FailedImport> {
    let format = match given.format {
        Some(ImportFormat::Transcript(format)) => Some(format),
        Some(ImportFormat::Wire(_)) => None,
        None => transcript::detect(&given.text),
    };
    let (name, conversations) = if let Some(format) = format {
        let read = transcript::read(Some(format), &given.text)
            .map_err(|error| FailedImport::Input(error.to_string()))?;
        for error in read.failed.into_iter().take(MAX_FAILED) {
            let (file, line, problem) = (given.name.clone(), error.line, error.problem);
            report.failed.push(FailedLine { file, line, problem });
        }
        (format.name(), read.conversations)
    } else {
        let (wire, conversation) = body(given)?;
        (wire.name(), vec![conversation])
    };
    let importer = Importer {
        store: Arc::clone(&app.store),
        tenant: tenant.clone(),
        format: name.into(),
        recipient: given.recipient.clone(),
        fallback: app.now(),
        now: app.now(),
        mode: given.mode,
    };
    for (number, conversation) in conversations.into_iter().enumerate() {
        let session = format!("scrollback:{}#{number}", given.name);
        report.add(&importer.piece(conversation, &session, &mut Course::default()).await?);
    }
    Ok(())
}

/// A request or a list of messages of some wire.
fn body(given: &ImportRequest) -> Result<(Wire, transcript::ReadConversation), FailedImport> {
    let raw = json::check(&given.text).map_err(|error| {
        FailedImport::Input(format!("not valid JSON: {} at line {}", error.problem, error.line))
    })?;
    let wire = match given.format {
        Some(ImportFormat::Wire(wire)) => Some(wire),
        _ => Wire::detect(raw),
    };
    let wire = wire
        .ok_or_else(|| FailedImport::Input("neither messages nor a transcript of a known format".into()))?;
    let parsed =
        wire.parse(raw, &ParseOptions::default()).map_err(|error| FailedImport::Input(error.to_string()))?;
    let sources = (1..=parsed.entries.len()).map(|line| Source { line, id: None }).collect();
    let notes = parsed.notes.into_iter().map(|kind| transcript::Note { line: 0, kind, raw: None }).collect();
    Ok((wire, transcript::ReadConversation { entries: parsed.entries, sources, notes, ..Default::default() }))
}

/// Our own export. Whatever tenant it says, it becomes the caller's.
async fn own(
    app: &App,
    tenant: &Tenant,
    given: &ImportRequest,
    report: &mut Report,
) -> Result<(), FailedImport> {
    let dry = Memory::new();
    let store: &dyn Store = if given.mode == ImportMode::DryRun { &dry } else { app.store.as_ref() };
    let mut reader: Option<ExportReader> = None;
    for (number, line) in (1..).zip(given.text.lines()) {
        if is_header(line) {
            if let Some(done) = reader.take() {
                finish(done, store, report).await?;
            }
            reader = Some(ExportReader::begin(line, Some(tenant))?);
        } else if line.trim().is_empty() {
            // The end of the file, mostly.
        } else if let Some(reader) = &mut reader
            && let Err(error) = reader.place(line)
        {
            report.failed.push(FailedLine {
                file: given.name.clone(),
                line: number,
                problem: error.to_string(),
            });
            return Ok(());
        }
    }
    match reader {
        Some(done) => finish(done, store, report).await,
        None => Ok(()),
    }
}

async fn finish(reader: ExportReader, store: &dyn Store, report: &mut Report) -> Result<(), FailedImport> {
    let (added, skipped) = reader.finish(store, LinkCheck::Links).await?;
    report.add(&Imported { conversations: 1, added, skipped, ..Imported::default() });
    Ok(())
}

/// What an export is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportForm {
    /// Our own form, which loses nothing.
    Own,
    /// A body of a wire.
    Body(Wire),
}

impl ExportForm {
    /// The target of that name.
    pub(crate) fn named(name: &str) -> Result<Self, HttpProblem> {
        let wire = WIRES.into_iter().find(|wire| wire.name() == name).map(ExportForm::Body);
        let own = (name == "scrollback").then_some(ExportForm::Own);
        wire.or(own).ok_or_else(|| {
            let known: Vec<&str> = ["scrollback"].into_iter().chain(WIRES.map(Wire::name)).collect();
            let detail = format!("cannot export as {name:?} here (known: {})", known.join(", "));
            HttpProblem::bad_request("unknown_format", detail).with("known", known)
        })
    }
}

/// Conversations as lines of text.
pub(crate) async fn export(
    app: &App,
    tenant: &Tenant,
    ids: &[ConversationId],
    target: ExportForm,
) -> Result<String, HttpProblem> {
    let mut out = String::new();
    let mut written = HashSet::new();
    for id in ids {
        match target {
            ExportForm::Own => with_parents(app, tenant, id, &mut written, &mut out).await?,
            ExportForm::Body(wire) => {
                let record = app.store.record(tenant, id, None).await?;
                out.push_str(&whole(&record, wire));
                out.push('\n');
            }
        }
    }
    Ok(out)
}

/// A conversation in our own form, after those it was forked from.
async fn with_parents(
    app: &App,
    tenant: &Tenant,
    id: &ConversationId,
    written: &mut HashSet<ConversationId>,
    out: &mut String,
) -> Result<(), HttpProblem> {
    let mut chain = vec![app.store.conversation(tenant, id).await?];
    while let Some(parent) = chain.last().and_then(|last| last.parent.clone()) {
        chain.push(app.store.conversation(tenant, &parent).await?);
    }
    for one in chain.into_iter().rev() {
        if written.insert(one.id.clone()) {
            for line in lines(app.store.as_ref(), tenant, &one.id).await? {
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
    Ok(())
}

/// Everything said as one body of a wire.
fn whole(record: &Record, wire: Wire) -> String {
    let item = |(position, slot): (u64, &Slot)| match slot {
        Slot::Message(entry) => Some(ViewItem {
            source: scrollback_core::ItemSource::Entry(position),
            entry: Arc::clone(entry),
            fidelity: Fidelity::AsSaid,
        }),
        _ => None,
    };
    let items: Vec<ViewItem> = (0..).zip(record.slots()).filter_map(item).collect();
    let rendered = wire.render(items, RenderOptions { record: Some(record), ..RenderOptions::default() });
    let mut out = String::from("{");
    if let Some((key, system)) = system_key(wire).zip(rendered.system) {
        let _ = write!(out, "\"{key}\":{system},");
    }
    let _ = write!(out, "\"{}\":[{}]}}", list_key(wire), rendered.messages.join(","));
    out
}
