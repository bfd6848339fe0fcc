//! What stands around the items: OR-12, OR-13, OR-20, OR-21, OR-22.

use std::borrow::Cow;

use super::super::body::is_longer_than;
use super::super::{Severity, ViolationReport};
use crate::json::{JsonKind, Raw, escape_pointer};

/// Most pairs of `metadata`, and most characters of a key and of a value.
const METADATA: (usize, usize, usize) = (16, 64, 512);
/// Most characters of a `safety_identifier`.
const SAFETY_IDENTIFIER_CHARS: usize = 128;
/// Most items put into a conversation by one call.
const CONVERSATION_ITEMS: usize = 20;
/// What `include` asks for reasoning with.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Whether the provider keeps what it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StoreSetting {
    /// It does, by default.
    #[default]
    On,
    /// `store: false`.
    Off,
}

/// The keys of a body that the rules look at, taken apart once. Null is the same as missing.
#[derive(Default)]
pub(super) struct ResponsesRequest<'a> {
    pub(super) input: Option<Raw<'a>>,
    pub(super) store: StoreSetting,
    /// What `reasoning.effort` is set to.
    pub(super) effort: Option<Cow<'a, str>>,
    pub(super) truncates: bool,
    previous_response_id: Option<Cow<'a, str>>,
    conversation: Option<Raw<'a>>,
    instructions: Option<Raw<'a>>,
    metadata: Option<Raw<'a>>,
    safety_identifier: Option<Raw<'a>>,
    items: Option<Raw<'a>>,
    include: Option<Raw<'a>>,
    background: bool,
    /// Set where a stored response is asked for, instead of a new one.
    response_id: Option<Raw<'a>>,
}

impl<'a> ResponsesRequest<'a> {
    /// Reads a body; a bare list is its input.
    pub(super) fn read(body: Raw<'a>) -> Self {
        let mut read = ResponsesRequest::default();
        if body.kind() == JsonKind::Array {
            read.input = Some(body);
        }
        for (key, value) in body.members().filter(|(_, value)| value.kind() != JsonKind::Null) {
            match key.as_ref() {
                "input" => read.input = Some(value),
                "store" if value.text() == "false" => read.store = StoreSetting::Off,
                "reasoning" => read.effort = value.get("effort").and_then(Raw::string),
                "truncation" => read.truncates = value.string().as_deref() == Some("auto"),
                "previous_response_id" => read.previous_response_id = value.string(),
                "conversation" => read.conversation = Some(value),
                "instructions" => read.instructions = Some(value),
                "metadata" => read.metadata = Some(value),
                "safety_identifier" => read.safety_identifier = Some(value),
                "items" => read.items = Some(value),
                "include" => read.include = Some(value),
                "background" => read.background = value.text() == "true",
                "response_id" => read.response_id = Some(value),
                _ => {}
            }
        }
        read
    }

    /// Whether the server holds what was said before.
    pub(super) fn continues(&self) -> bool {
        self.previous_response_id.is_some() || self.conversation.is_some()
    }

    /// Everything that concerns no item; `before` is the request that was sent before.
    pub(super) fn check(&self, before: Option<&ResponsesRequest<'_>>, report: &mut ViolationReport<'_>) {
        if self.previous_response_id.is_some() && self.conversation.is_some() {
            let message = "previous_response_id is there too, and they exclude each other; leave one out";
            report.add("OR-12", "/conversation", message);
        } else if self.continues()
            && self.instructions.is_none()
            && before.is_some_and(|before| before.instructions.is_some())
        {
            let path = if self.conversation.is_some() { "/conversation" } else { "/previous_response_id" };
            let message = "the instructions sent before are not handed on; send them again";
            report.add_as("OR-12", Severity::Silent, path, message);
        }
        if self.previous_response_id.as_ref().is_some_and(|id| id.starts_with("cmp_")) {
            let message = "a compaction cannot be continued by its id; send the items it returned";
            report.add("OR-13", "/previous_response_id", message);
        }
        self.check_limits(report);
        self.check_include(report);
    }

    fn check_limits(&self, report: &mut ViolationReport<'_>) {
        let (pairs, key_chars, value_chars) = METADATA;
        for (number, (key, value)) in self.metadata.into_iter().flat_map(Raw::members).enumerate() {
            if number == pairs {
                report.add(
                    "OR-20",
                    "/metadata",
                    format!("metadata has more than {pairs} pairs; leave some out"),
                );
            }
            if key.chars().nth(key_chars).is_some() || is_longer_than(value_chars, value) {
                let message = format!(
                    "the key is over {key_chars} or the value over {value_chars} characters; shorten it"
                );
                report.add("OR-20", format!("/metadata/{}", escape_pointer(&key)), message);
            }
        }
        if self.safety_identifier.is_some_and(|id| is_longer_than(SAFETY_IDENTIFIER_CHARS, id)) {
            let message = "the safety_identifier is longer than 128 characters; hash it";
            report.add("OR-20", "/safety_identifier", message);
        }
        if self.items.into_iter().flat_map(Raw::elements).nth(CONVERSATION_ITEMS).is_some() {
            report.add("OR-21", "/items", "more than 20 items at once; add them in several calls");
        }
    }

    fn check_include(&self, report: &mut ViolationReport<'_>) {
        let mut included = self.include.into_iter().flat_map(Raw::elements);
        let Some(place) = included.position(|what| what.string().as_deref() == Some(ENCRYPTED)) else {
            return;
        };
        let path = format!("/include/{place}");
        if self.response_id.is_some() {
            let message = "a response that is kept does not give its reasoning encrypted; do not ask for it";
            report.add("OR-22", path, message);
        } else if self.background {
            // Accepted when the response is made, and then missing from what is fetched.
            let message = "a background response is fetched without encrypted reasoning; do not rely on it";
            report.add_as("OR-22", Severity::Silent, path, message);
        }
    }
}
