//! Import and export as the API and the lens's import page show them; the work is done by `scrollback_store::transfer`.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use scrollback_core::InputFormat;
use scrollback_core::wire::Wire;
use scrollback_store::transfer::{
    self, ImportMode, Importer, WIRES, import_text, lines, whole_body, with_parents,
};
use scrollback_store::{ConversationId, Recipient, Tenant};
use serde::Serialize;

use crate::memory::Share;
use crate::{App, HttpProblem};

/// The input format of that name.
pub(crate) fn format_named(name: &str) -> Result<InputFormat, HttpProblem> {
    InputFormat::named(name).ok_or_else(|| {
        let known = InputFormat::names();
        let detail = format!("unknown format {name:?} (known: {})", known.join(", "));
        HttpProblem::bad_request("unknown_format", detail).with("known", known)
    })
}

/// What to import.
pub(crate) struct ImportRequest {
    /// The text of a file.
    pub(crate) text: String,
    /// What it is called; part of the identity of conversations whose source names none.
    pub(crate) name: String,
    /// How it is written; detected if none.
    pub(crate) format: Option<InputFormat>,
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

/// Imports one text. What cannot be read is told in the report; only a store that fails is an error.
pub(crate) async fn import(app: &App, tenant: &Tenant, given: ImportRequest) -> Result<Report, HttpProblem> {
    let importer = Importer {
        store: Arc::clone(&app.store),
        tenant: tenant.clone(),
        format: String::new(),
        recipient: given.recipient,
        fallback: app.now(),
        now: app.now(),
        mode: given.mode,
    };
    let done = import_text(&importer, &given.name, &given.text, given.format).await?;
    let told = |failed: transfer::FailedLine| FailedLine {
        file: given.name.clone(),
        line: failed.line,
        problem: failed.problem,
    };
    Ok(Report {
        files: 1,
        conversations: done.imported.conversations,
        added: done.imported.added,
        skipped: done.imported.skipped,
        notes: done.imported.note_lines(),
        failed: done.failed.into_iter().map(told).collect(),
    })
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

/// Conversations as lines of text, which take their share of the server's memory.
pub(crate) async fn export(
    app: &App,
    tenant: &Tenant,
    ids: &[ConversationId],
    target: ExportForm,
    share: &mut Share,
) -> Result<String, HttpProblem> {
    let mut out = String::new();
    let mut written = BTreeSet::new();
    for id in ids {
        let before = out.len();
        match target {
            ExportForm::Own => {
                for id in with_parents(app.store.as_ref(), tenant, id, &mut written).await? {
                    for line in lines(app.store.as_ref(), tenant, &id).await? {
                        out.push_str(&line);
                        out.push('\n');
                    }
                }
            }
            ExportForm::Body(wire) => {
                let record = app.store.record(tenant, id, None).await?;
                out.push_str(&whole_body(&record, wire).0);
                out.push('\n');
            }
        }
        share.grow(out.len() - before).await?;
    }
    Ok(out)
}
