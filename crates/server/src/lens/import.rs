//! Importing other tools' transcripts.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_store::Recipient;
use scrollback_store::transfer::ImportMode;

use super::form::FormFields;
use super::page::NavItem;
use super::text::{plural, said};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::transfer::{self, ImportRequest, Report, format_named};

/// Notes and failures listed on the page.
const LISTED: usize = 50;

pub(crate) async fn show(viewer: Viewer) -> Response {
    viewer.answer(Ok(page(None)))
}

pub(crate) async fn take(viewer: Viewer, headers: HeaderMap, body: Body) -> Response {
    let made = async {
        viewer.caller.may_write()?;
        let fields = FormFields::read(&viewer, &headers, body).await?;
        let mut all = Report::default();
        for request in given(&fields)? {
            let report = transfer::import(&viewer.app, viewer.tenant(), request).await?;
            all.files += report.files;
            all.conversations += report.conversations;
            all.added += report.added;
            all.skipped += report.skipped;
            all.notes.extend(report.notes);
            all.failed.extend(report.failed);
        }
        Ok::<_, HttpProblem>(page(Some(&all)))
    };
    let made = made.await;
    viewer.answer(made)
}

/// What is to be imported: each file that was chosen, or the text that was pasted.
fn given(fields: &FormFields) -> Result<Vec<ImportRequest>, HttpProblem> {
    let mut texts = Vec::new();
    for (name, bytes) in fields.files("file") {
        let text = String::from_utf8(bytes.to_vec()).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            HttpProblem::bad_request("bad_text", format!("the file {name} is not UTF-8 at byte {at}"))
        })?;
        texts.push((name.to_string(), text));
    }
    if texts.is_empty() {
        texts.push(("pasted".to_string(), fields.text("text")));
    }
    texts.retain(|(_, text)| !text.trim().is_empty());
    if texts.is_empty() {
        return Err(HttpProblem::bad_request("bad_input", "choose a file or paste its text"));
    }
    // Sub-agents have files of their own, and belong to a session that must be there before them.
    texts.sort_by_key(|(_, text)| is_of_helper(text));
    let (format, recipient) = (fields.text("format"), fields.text("recipient"));
    let request = |(name, text): (String, String)| {
        Ok(ImportRequest {
            text,
            name,
            format: if format.is_empty() { None } else { Some(format_named(&format)?) },
            recipient: if recipient.is_empty() { None } else { Some(Recipient::parse(&recipient)?) },
            mode: if fields.text("dry_run").is_empty() { ImportMode::Write } else { ImportMode::DryRun },
        })
    };
    texts.into_iter().map(request).collect()
}

/// Whether a file of Claude Code is that of a sub-agent.
fn is_of_helper(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains("\"isSidechain\":true"))
}

fn page(report: Option<&Report>) -> PageContent {
    let body = html! {
        div.head { h1 { "Import" } }
        @if let Some(report) = report { (told(report)) }
        section.card { div.in {
            form.stack.drop data-drop="1" method="post" action="/lens/import" enctype="multipart/form-data" {
                p { "Sessions of Claude Code and Codex, requests of any provider, fine-tuning sets, evaluation logs, our own exports. Importing a file again adds only what is new." }
                div.fields {
                    div.wide { label for="file" { "Files; drop them here" } input #file type="file" name="file" multiple; span.soft.small data-chosen="1" role="status" {} }
                    div { label for="format" { "Format" } select #format name="format" {
                        option value="" { "detected from its shape" }
                        @for name in scrollback_core::InputFormat::names() { option value=(name) { (name) } }
                    } }
                    div { label for="to" { "Recipient" } input #to name="recipient" placeholder="none" autocomplete="off"; }
                }
                div { label for="text" { "Or its text" } textarea #text.mono name="text" spellcheck="false" {} }
                div { label { input type="checkbox" name="dry_run" value="1"; " only say what would be added" } }
                div { button.first { "Import" } }
            }
        } }
    };
    PageContent { title: "Import".into(), place: NavItem::Import, live: None, body }
}

fn told(report: &Report) -> Markup {
    let class = if report.failed.is_empty() { "good" } else { "warn" };
    html! {
        div.note.(class) role="status" {
            p { (plural(report.conversations, "conversation", "conversations")) " found, " (plural(report.added, "entry", "entries")) " added, " (plural(report.skipped, "entry was", "entries were")) " there already." }
            @if report.added > 0 { p { a href="/lens" { "To the sessions" } } }
        }
        @if !report.failed.is_empty() { section.card { h2 { "Not read" } div.scroll { table.cards {
            thead { tr { th scope="col" { "File" } th.n scope="col" { "Line" } th scope="col" { "Problem" } } }
            tbody { @for failed in report.failed.iter().take(LISTED) { tr { th scope="row" { (said(&failed.file)) } td.n data-l="Line" { (failed.line) } td { (said(&failed.problem)) } } } }
        } } @if report.failed.len() > LISTED { p.in.soft { "and " (report.failed.len() - LISTED) " more" } } } }
        @if !report.notes.is_empty() { section.card { h2 { "Notes" } ul { @for note in report.notes.iter().take(LISTED) { li { (said(note)) } } @if report.notes.len() > LISTED { li.soft { "and " (report.notes.len() - LISTED) " more" } } } } }
    }
}
