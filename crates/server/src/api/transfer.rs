//! Import and export.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use scrollback_store::transfer::ImportMode;
use scrollback_store::{ConversationId, Listing, Recipient, Which};
use serde::Deserialize;

use super::operation::{ApiRequest, Operation};
use crate::HttpProblem;
use crate::memory::HeldBody;
use crate::transfer::{self, ExportForm, ImportRequest, Report};

/// Most conversations of one export: the command line writes files of any size.
const MOST: usize = 1_000;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::upload(
            "/import",
            "importTranscript",
            "Imports a transcript of any known format: the body is the file. Importing it again adds only what is new.",
            import,
        ),
        Operation::text(
            "application/x-ndjson",
            "/export",
            "exportConversations",
            "Conversations as lines of text: our own form, which loses nothing, or one body a line.",
            export,
        )
        .fails(&[404, 413]),
    ]
}

/// What the body is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportQuery {
    /// Its format; detected if not said.
    format: Option<String>,
    /// Its name: part of the identity of conversations whose source names none.
    name: Option<String>,
    /// All entries go to this recipient's conversation.
    recipient: Option<String>,
    /// `true` only says what would be written.
    dry_run: Option<bool>,
}

async fn import(asking: ApiRequest, query: ImportQuery) -> Result<Report, HttpProblem> {
    let text = String::from_utf8(asking.body.to_vec()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        HttpProblem::bad_request("bad_text", format!("the file is not UTF-8 at byte {at}"))
    })?;
    let given = ImportRequest {
        text,
        name: query.name.unwrap_or_else(|| "upload".into()),
        format: query.format.as_deref().map(transfer::format_named).transpose()?,
        recipient: query.recipient.as_deref().map(Recipient::parse).transpose()?,
        mode: if query.dry_run.unwrap_or(false) { ImportMode::DryRun } else { ImportMode::Write },
    };
    transfer::import(&asking.app, asking.tenant(), given).await
}

/// What to export, and as what.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportQuery {
    /// This conversation.
    conversation: Option<String>,
    /// The conversations with this recipient.
    recipient: Option<String>,
    /// `true` for everything of the tenant.
    all: Option<bool>,
    /// `scrollback` if not said, or a wire.
    format: Option<String>,
}

async fn export(asking: ApiRequest, query: ExportQuery) -> Result<Response, HttpProblem> {
    let target = ExportForm::named(query.format.as_deref().unwrap_or("scrollback"))?;
    let which = match (query.conversation, query.recipient, query.all.unwrap_or(false)) {
        (Some(id), None, false) => {
            let id = ConversationId::parse(&id).ok_or_else(|| HttpProblem::not_found("conversation"))?;
            return answer(&asking, &[id], target).await;
        }
        (None, Some(recipient), false) => Which::With(Recipient::parse(&recipient)?),
        (None, None, true) => Which::All,
        _ => {
            let detail = "say what to export: conversation, recipient, or all=true";
            return Err(HttpProblem::bad_request("bad_query", detail));
        }
    };
    let listing = Listing { which, limit: MOST, ..Listing::default() };
    let page = asking.app.store.list(Some(asking.tenant()), listing).await?;
    if page.next.is_some() {
        let detail = format!("more than {MOST} conversations; `scrollback export` writes files of any size");
        return Err(HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
    }
    let mut ids: Vec<ConversationId> = page.conversations.into_iter().map(|(row, _)| row.id).collect();
    // The oldest first, so that forks come after what they were forked from.
    ids.sort();
    answer(&asking, &ids, target).await
}

async fn answer(
    asking: &ApiRequest,
    ids: &[ConversationId],
    target: ExportForm,
) -> Result<Response, HttpProblem> {
    let mut share = asking.app.memory.share(asking.tenant());
    let text = transfer::export(&asking.app, asking.tenant(), ids, target, &mut share).await?;
    let body = Body::new(HeldBody::new(text, share));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}
