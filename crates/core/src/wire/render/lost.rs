//! What a wire cannot hold, and where it stood.

use serde::Serialize;

use super::Cx;
use crate::block::{Block, BlockKind};
use crate::entry::Entry;
use crate::json::{Kind, Raw};
use crate::text::{RawJson, Text};
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
const MODELLED: [&str; 23] = [
    "role",
    "content",
    "parts",
    "type",
    "id",
    "status",
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

impl Cx<'_> {
    /// Notes that part of an entry cannot be held.
    pub(super) fn lose(&mut self, entry: &Entry, block: Option<&Block>, what: &str, reason: &'static str) {
        let path = block.map_or_else(String::new, |block| locate(entry, block));
        self.lose_at(path, what, reason);
    }

    pub(super) fn lose_at(&mut self, path: String, what: &str, reason: &'static str) {
        self.lost.push(Lost { position: self.position, path, what: what.into(), reason });
    }

    /// Notes that a result can say only in words that it failed.
    pub(super) fn lose_error_mark(&mut self, entry: &Entry) {
        let path = entry.blocks.first().map_or_else(String::new, |block| locate(entry, block));
        let key = if entry.origin.wire == Wire::Bedrock { "/toolResult/status" } else { "/is_error" };
        self.lose_at(format!("{path}{key}"), "is_error", "the text says so instead");
    }

    /// Notes what no other wire holds: unknown members, cache marks, provider ids, and on most the speaker's name.
    pub(super) fn lose_extras(&mut self, entry: &Entry) {
        let raw = Raw::trusted(&entry.origin.raw);
        let items: Vec<(String, Raw<'_>)> = match raw.kind() {
            Kind::Array if entry.origin.wire == Wire::OpenaiResponses => {
                raw.elements().enumerate().map(|(number, item)| (format!("/{number}"), item)).collect()
            }
            Kind::Object => vec![(String::new(), raw)],
            _ => Vec::new(),
        };
        for (path, item) in items {
            for (key, value) in item.members() {
                if !MODELLED.contains(&key.as_ref()) && value.kind() != Kind::Null {
                    let path = format!("{path}/{}", crate::json::escape_pointer(&key));
                    self.lose_at(path, &key, "the other format has no place for it");
                }
            }
        }
        if entry.author.is_some() && self.wire != Wire::OpenaiChat {
            self.lose_at("/name".into(), "name", "only openai-chat names speakers");
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
        if let Some(marks) = &block.marks {
            if marks.cache_hint.is_some() {
                self.lose(entry, Some(block), "cache_control", "cache marks differ between providers");
            }
            if marks.provider_id.is_some() {
                self.lose(entry, Some(block), "id", "ids of one provider mean nothing to another");
            }
        }
        let opaque = matches!(
            block.kind,
            BlockKind::Opaque(_) | BlockKind::Compaction(_) | BlockKind::Reasoning(_) | BlockKind::Media(_)
        );
        // What is lost as a whole is listed as a whole.
        if opaque || block.raw.as_ref().is_some_and(|raw| raw.as_str() == &*entry.origin.raw) {
            return;
        }
        for (key, value) in block.ext() {
            if value.raw().kind() != Kind::Null && !matches!(key.as_str(), "status" | "caller") {
                let path = format!("{}/{}", locate(entry, block), crate::json::escape_pointer(&key));
                self.lose_at(path, &key, "the other format has no place for it");
            }
        }
        if let BlockKind::ToolCall(call) = &block.kind
            && call.signature.is_some()
        {
            self.lose(entry, Some(block), "signature", "signatures of one provider mean nothing to another");
        }
    }
}

/// JSON pointer of a block within the text of its entry's message.
fn locate(entry: &Entry, block: &Block) -> String {
    let text = match &block.kind {
        BlockKind::Text(Text::Raw(raw) | Text::Json(raw)) | BlockKind::Refusal(Text::Raw(raw)) => Some(raw),
        BlockKind::Reasoning(reasoning) => match &reasoning.text {
            Some(Text::Raw(raw)) => Some(raw),
            _ => None,
        },
        _ => None,
    };
    let Some(span) = block.raw.as_deref().or(text).map(RawJson::span) else { return String::new() };
    let path = pointer(Raw::trusted(&entry.origin.raw), &entry.origin.raw, span);
    match &entry.origin.part {
        Some(part) => renumber(&path, &part.indexes),
        None => path,
    }
}

/// The pointer of the value that covers `span` exactly, or of the nearest one around it.
fn pointer(mut value: Raw<'_>, source: &str, span: (u32, u32)) -> String {
    let mut path = String::new();
    let covers = |child: Raw<'_>| {
        let (start, end) = child.span_in(source);
        start <= span.0 && span.1 <= end
    };
    while value.span_in(source) != span {
        let next = match value.kind() {
            Kind::Array => value
                .elements()
                .enumerate()
                .find(|(_, child)| covers(*child))
                .map(|(number, child)| (number.to_string(), child)),
            Kind::Object => value
                .members()
                .find(|(_, child)| covers(*child))
                .map(|(key, child)| (crate::json::escape_pointer(&key).into_owned(), child)),
            _ => None,
        };
        let Some((step, child)) = next else { break };
        path.push('/');
        path.push_str(&step);
        value = child;
    }
    path
}

/// The same pointer in the whole message, of which the entry is a part.
fn renumber(path: &str, indexes: &[u32]) -> String {
    let mut steps: Vec<String> = path.split('/').map(str::to_string).collect();
    if let Some(step) = steps.get_mut(2)
        && let Some(index) = step.parse::<usize>().ok().and_then(|number| indexes.get(number))
    {
        *step = index.to_string();
    }
    steps.join("/")
}
