//! An item of `input`, taken apart once, and the side it comes from.

use std::borrow::Cow;

use crate::json::{JsonKind, Raw};

/// Calls a client answers; the output of one has `_output` behind the same name.
const CALLS: [&str; 7] = [
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "tool_search_call",
];

/// Who an item comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemSide {
    /// A message of the user, or of the one who set the conversation up.
    User,
    /// The output of a call.
    Output,
    /// The model's reasoning.
    Reasoning,
    /// Anything else the model said or did.
    Model,
    /// A reference, or a kind of item there are no rules for: it may stand for anything.
    Unknown,
}

/// What the rules look at in an item.
pub(super) struct CheckedItem<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) side: ItemSide,
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) call_id: Option<Cow<'a, str>>,
    /// The id of the call it answers, where an output names the item and not the `call_id`.
    answered_id: Option<Cow<'a, str>>,
    /// As it is written; none if missing or null.
    pub(super) encrypted_content: Option<Raw<'a>>,
    /// None if missing or null, as the following.
    pub(super) summary: Option<Raw<'a>>,
    pub(super) content: Option<Raw<'a>>,
    pub(super) phase: Option<Raw<'a>>,
    pub(super) in_progress: bool,
    /// Whether it is a call the model does not wait for.
    pub(super) is_async: bool,
}

impl<'a> CheckedItem<'a> {
    pub(super) fn read(item: Raw<'a>) -> Self {
        let (mut kind, mut role) = (None, None);
        let mut read = CheckedItem {
            kind: Cow::Borrowed(""),
            side: ItemSide::Unknown,
            id: None,
            call_id: None,
            answered_id: None,
            encrypted_content: None,
            summary: None,
            content: None,
            phase: None,
            in_progress: false,
            is_async: false,
        };
        for (key, value) in item.members().filter(|(_, value)| value.kind() != JsonKind::Null) {
            match key.as_ref() {
                "type" => kind = value.string(),
                "role" => role = value.string(),
                "id" => read.id = value.string().filter(|id| !id.is_empty()),
                "call_id" => read.call_id = value.string(),
                "encrypted_content" => read.encrypted_content = Some(value),
                "summary" => read.summary = Some(value),
                "content" => read.content = Some(value),
                "phase" => read.phase = Some(value),
                "status" => read.in_progress = value.string().as_deref() == Some("in_progress"),
                "async" => read.is_async = value.text() == "true",
                _ => {}
            }
        }
        // A message may leave its type out.
        let untyped = if role.is_some() { "message" } else { "" };
        read.kind = kind.unwrap_or(Cow::Borrowed(untyped));
        read.side = match (read.kind.as_ref(), role.as_deref()) {
            ("message", Some("assistant")) => ItemSide::Model,
            ("message", Some("user" | "system" | "developer")) => ItemSide::User,
            ("reasoning", _) => ItemSide::Reasoning,
            ("tool_search_output", _) if read.call_id.is_some() => ItemSide::Output,
            (call, _) if CALLS.contains(&call) => ItemSide::Model,
            (output, _) if output.strip_suffix("_output").is_some_and(|call| CALLS.contains(&call)) => {
                ItemSide::Output
            }
            _ => ItemSide::Unknown,
        };
        if read.kind == "local_shell_call_output" && read.call_id.is_none() {
            read.answered_id = read.id.take();
        }
        read
    }

    /// What pairs a call with its output, if this is a call.
    pub(super) fn called(&self) -> Option<&str> {
        self.call_id.as_deref().filter(|_| CALLS.contains(&self.kind.as_ref()))
    }

    /// What pairs an output with its call, if this is an output.
    pub(super) fn answers(&self) -> Option<&str> {
        let names = self.call_id.as_deref().or(self.answered_id.as_deref());
        names.filter(|_| self.side == ItemSide::Output)
    }

    /// Whether it has content that is no empty list.
    pub(super) fn has_content(&self) -> bool {
        self.content
            .is_some_and(|content| content.kind() != JsonKind::Array || content.elements().next().is_some())
    }

    /// Whether it is something the assistant said to the user.
    pub(super) fn is_reply(&self) -> bool {
        self.side == ItemSide::Model && self.kind == "message"
    }
}
