//! What a wire cannot hold, and where it stood.

use serde::Serialize;

use super::Cx;
use super::places::Places;
use crate::block::{Block, BlockKind, CallStyle, ToolCall};
use crate::entry::{Entry, Role};
use crate::json::{JsonKind, Raw};
use crate::wire::Wire;

/// Something the target wire cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The entry it was part of, by position; none for parts of the request around the messages.
    #[serde(skip)]
    pub position: Option<u64>,
    /// JSON pointer: from the entry's own text where there is an entry, else from the body.
    pub path: String,
    /// What it is.
    pub what: String,
    /// Why it cannot be held.
    pub reason: &'static str,
}

/// Members of messages and items that the model of an entry holds, whatever their wire; all others are extensions.
const MODELLED: [&str; 21] = [
    "role",
    "content",
    "parts",
    "type",
    "tool_calls",
    "tool_call_id",
    "name",
    "refusal",
    "reasoning_content",
    "function_call",
    "call_id",
    "arguments",
    "input",
    "output",
    "summary",
    "encrypted_content",
    "action",
    "operation",
    "actions",
    "server_label",
    "text",
];

/// Members of the object in a block that says what is called.
const IN_CALLS: [&str; 7] = ["name", "arguments", "input", "args", "id", "toolUseId", "type"];

/// Members of the object in a block that says where media are.
const IN_MEDIA: [&str; 16] = [
    "url",
    "detail",
    "data",
    "format",
    "filename",
    "file_data",
    "file_id",
    "type",
    "media_type",
    "mimeType",
    "mime_type",
    "fileUri",
    "file_uri",
    "source",
    "name",
    "displayName",
];

impl Cx<'_> {
    /// Notes that part of an entry cannot be held.
    pub(super) fn lose(&mut self, entry: &Entry, block: Option<&Block>, what: &str, reason: &'static str) {
        let path = block.map_or_else(String::new, |block| self.places.locate(entry, block));
        self.lose_at(path, what, reason);
    }

    pub(super) fn lose_at(&mut self, path: String, what: &str, reason: &'static str) {
        self.lost.push(Lost { position: self.position, path, what: what.into(), reason });
    }

    /// Notes a text that the provider refuses, as there is nothing in it.
    pub(super) fn lose_blank(&mut self, entry: &Entry, block: &Block) -> Option<String> {
        self.lose(entry, Some(block), "blank text", "the provider refuses it");
        None
    }

    /// Notes that a result can say only in words that it failed.
    pub(super) fn lose_error_mark(&mut self, entry: &Entry) {
        let path = entry.blocks.first().map_or_else(String::new, |block| self.places.locate(entry, block));
        let key = match entry.origin.wire {
            Wire::Bedrock => "/toolResult/status",
            Wire::Gemini => "/functionResponse/response/error",
            _ => "/is_error",
        };
        self.lose_at(format!("{path}{key}"), "is_error", "the text says so instead");
    }

    /// Notes what no other wire holds: unknown members, cache marks, provider ids, and on most the speaker's name.
    pub(super) fn lose_extras(&mut self, entry: &Entry) {
        let raw = Raw::trusted(&entry.origin.raw);
        let items: Vec<(String, Raw<'_>)> = match raw.kind() {
            JsonKind::Array if entry.origin.wire == Wire::OpenaiResponses => {
                raw.elements().enumerate().map(|(number, item)| (format!("/{number}"), item)).collect()
            }
            JsonKind::Object => vec![(String::new(), raw)],
            _ => Vec::new(),
        };
        for (path, item) in items {
            self.lose_unknown(item, &|_| path.clone(), |key| MODELLED.contains(&key));
        }
        // Gemini names the tool in every result.
        let named = self.wire == Wire::OpenaiChat || (self.wire == Wire::Gemini && entry.role == Role::Tool);
        if entry.author.is_some() && !named {
            self.lose_at("/name".into(), "name", "only openai-chat names speakers");
        }
        let openai = matches!(self.wire, Wire::OpenaiChat | Wire::OpenaiResponses);
        if !openai && raw.get("role").and_then(Raw::string).as_deref() == Some("developer") {
            self.lose_at("/role".into(), "developer role", "the instructions are the system's there");
        }
        for block in &entry.blocks {
            self.lose_marks(entry, block);
            if let BlockKind::ToolResult(result) = &block.kind {
                for inner in &result.content {
                    self.lose_marks(entry, inner);
                }
            }
        }
    }

    fn lose_marks(&mut self, entry: &Entry, block: &Block) {
        // What is lost as a whole is listed as a whole.
        let opaque =
            matches!(block.kind, BlockKind::Opaque(_) | BlockKind::Compaction(_) | BlockKind::Reasoning(_));
        let Some(raw) = block.raw.as_ref().filter(|_| !opaque) else { return };
        // Looked up only for what is lost.
        let place = |places: &Places| places.locate(entry, block);
        if block.marks.as_ref().is_some_and(|marks| marks.cache_hint.is_some()) {
            let path = format!("{}/cache_control", place(&self.places));
            self.lose_at(path, "cache_control", "cache marks differ between providers");
        }
        // The members of a message that is one block are listed with the message.
        if raw.as_str() != &*entry.origin.raw && !is_item(entry, block) {
            self.lose_unknown(raw.raw(), &place, Block::knows);
        }
        // One level down: what is called, and where media are.
        for (key, value) in raw.raw().members().filter(|(_, value)| value.kind() == JsonKind::Object) {
            let known: &[&str] = match key.as_ref() {
                "function" | "custom" | "functionCall" | "function_call" | "toolUse" => &IN_CALLS,
                "image_url" | "input_audio" | "file" | "source" | "inlineData" | "inline_data"
                | "fileData" | "file_data" | "image" | "document" | "video" => &IN_MEDIA,
                _ => continue,
            };
            let inside = |places: &Places| format!("{}/{key}", place(places));
            self.lose_unknown(value, &inside, |key| known.contains(&key));
        }
    }

    /// Lists the members that the model of a block does not hold.
    pub(super) fn lose_unknown(
        &mut self,
        value: Raw<'_>,
        place: &dyn Fn(&Places) -> String,
        knows: impl Fn(&str) -> bool,
    ) {
        for (key, value) in value.members() {
            if value.kind() == JsonKind::Null || knows(&key) {
                continue;
            }
            let path = format!("{}/{}", place(&self.places), crate::json::escape_pointer(&key));
            let reason = match key.as_ref() {
                "thoughtSignature" | "thought_signature" => {
                    "signatures of one provider mean nothing to another"
                }
                "id" => "ids of one provider mean nothing to another",
                _ => "the other format has no place for it",
            };
            self.lose_at(path, &key, reason);
        }
    }

    /// Notes what of a call the wire prints differently: its name, or that its arguments are free text.
    pub(super) fn lose_call_form(&mut self, call: &ToolCall, entry: &Entry, block: &Block) {
        let name = call.name.as_str();
        self.lose_name(entry, block, self.wire == Wire::Gemini || super::tools::fit_name(&name) == name);
        let holds_custom = matches!(self.wire, Wire::OpenaiChat | Wire::OpenaiResponses);
        if call.style == CallStyle::Custom && !holds_custom {
            self.lose(
                entry,
                Some(block),
                "custom call",
                "it becomes a call with an object for its arguments",
            );
        }
    }

    /// Notes that a name had to change.
    pub(super) fn lose_name(&mut self, entry: &Entry, block: &Block, kept: bool) {
        if !kept {
            self.lose(entry, Some(block), "name", "the other format takes other characters, or none");
        }
    }
}

/// Whether the block is an item of its own, whose members are listed with the entry.
fn is_item(entry: &Entry, block: &Block) -> bool {
    entry.origin.wire == Wire::OpenaiResponses
        && matches!(block.kind, BlockKind::ToolCall(_) | BlockKind::ToolResult(_))
}
