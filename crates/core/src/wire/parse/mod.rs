//! From a provider's JSON to entries. One file per wire, all of the same shape: `parse` reads a whole body,
//! `read_message` one message that is one entry.
//!
//! Every entry keeps the exact text of its message; its blocks are slices of that text.

pub(super) mod anthropic;
mod at;
pub(super) mod bedrock;
pub(super) mod gemini;
pub(super) mod openai_chat;
pub(super) mod openai_responses;
mod read;
pub(super) mod scrollback;
mod split;

pub(super) use at::At;
pub(super) use read::{RAW_ARGUMENTS, empty_entry};
