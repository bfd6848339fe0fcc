//! What a collector is told about one attempt at a model.

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Entry, json};

use super::AttemptEnd;
use crate::telemetry::{Chat, ContentWriter, FinishedSpan};

/// The span of an attempt; with what was said in it where that is wanted.
pub fn chat_span(
    chat: &Chat<'_>,
    said: impl FnOnce() -> Vec<Entry>,
    ended: &AttemptEnd<'_>,
    content: Option<&ContentWriter>,
) -> FinishedSpan {
    let Some(content) = content else { return chat.span() };
    let answered = ended.reply.and_then(|reply| reply.entry().ok());
    chat.span().with_messages(content, said().iter(), answered.as_ref())
}

/// What a body says.
pub(crate) fn said_in(wire: Wire, body: &[u8]) -> Vec<Entry> {
    let parsed =
        json::check_bytes(body).ok().and_then(|body| wire.parse(body, &ParseOptions::default()).ok());
    parsed.map(|parsed| parsed.entries).unwrap_or_default()
}
