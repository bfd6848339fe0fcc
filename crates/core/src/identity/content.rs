//! What blocks say, exactly: the measure for whether two spellings of an entry have the same content.
//!
//! Only what the blocks say counts: not reasoning, cache hints, unknown keys, null against absent, one text part against a
//! plain text, nor the order of the keys in arguments.

use super::said_id;
use crate::block::{Block, BlockKind, Media, MediaSource, ToolCall, ToolResult};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::json::{self, JsonKind, Raw};
use crate::text::Text;

/// What an entry says. Two entries with the same value say the same, however they are spelled.
pub fn content_hash(entry: &Entry) -> Link {
    let mut said = Said::default();
    said.field(entry.role.as_str().as_bytes());
    for block in &entry.blocks {
        said.block(block);
    }
    said.finish()
}

/// What one block says, by the same measure; none for a block that says nothing, such as reasoning or an empty text.
///
/// Results of tools are the same under every role, because some wires have users speak for tools.
pub(crate) fn block_said(role: Role, block: &Block) -> Option<Link> {
    let says_nothing = match &block.kind {
        BlockKind::Text(text) => text.as_str().is_empty(),
        BlockKind::Reasoning(_) => true,
        _ => false,
    };
    if says_nothing {
        return None;
    }
    let mut said = Said::default();
    if !matches!(block.kind, BlockKind::ToolResult(_)) {
        said.field(role.as_str().as_bytes());
    }
    said.block(block);
    Some(said.finish())
}

/// What is said, on its way into a hash: every field has its length in front.
#[derive(Default)]
pub(super) struct Said(blake3::Hasher);

impl Said {
    pub(super) fn finish(&self) -> Link {
        *self.0.finalize().as_bytes()
    }

    pub(super) fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub(super) fn text(&mut self, text: Option<&Text>) {
        self.field(text.map(Text::as_str).unwrap_or_default().as_bytes());
    }

    pub(super) fn block(&mut self, block: &Block) {
        match &block.kind {
            // Clients write a message without text as null, as nothing, or as an empty text.
            BlockKind::Text(text) if text.as_str().is_empty() => {}
            BlockKind::Text(text) => {
                self.field(b"text");
                self.text(Some(text));
            }
            BlockKind::Refusal(text) => {
                self.field(b"refusal");
                self.text(Some(text));
            }
            BlockKind::ToolCall(call) => self.call(call),
            BlockKind::ToolResult(result) => self.result(result),
            BlockKind::Media(media) => self.media(media),
            BlockKind::Compaction(raw) | BlockKind::Opaque(raw) => {
                self.field(b"opaque");
                self.field(json::one_line(raw.raw()).as_bytes());
            }
            BlockKind::Reasoning(_) => {}
        }
    }

    pub(super) fn call(&mut self, call: &ToolCall) {
        self.field(b"call");
        self.text(said_id(call.call_id.as_ref()));
        self.text(Some(&call.name));
        let written = call.arguments.as_str();
        match json::check(&written) {
            Ok(arguments) if arguments.kind() == JsonKind::Object => {
                let mut sorted = String::with_capacity(written.len());
                write_sorted(arguments, &mut sorted);
                self.field(sorted.as_bytes());
            }
            _ => self.field(written.as_bytes()),
        }
    }

    pub(super) fn result(&mut self, result: &ToolResult) {
        self.field(b"result");
        self.text(said_id(result.call_id.as_ref()));
        for block in &result.content {
            self.block(block);
        }
        self.field(if result.is_error == Some(true) { b"error" } else { b"" });
    }

    pub(super) fn media(&mut self, media: &Media) {
        self.field(b"media");
        let source = match &media.source {
            Some(MediaSource::Inline(data)) => {
                let data = data.as_str();
                // A data URL and bare base64 are the same picture.
                let bytes = data.split_once(";base64,").map_or(data.as_ref(), |(_, bytes)| bytes);
                blake3::hash(bytes.as_bytes())
            }
            Some(MediaSource::Text(text) | MediaSource::Url(text) | MediaSource::File(text)) => {
                blake3::hash(text.as_str().as_bytes())
            }
            None => blake3::hash(b""),
        };
        self.field(source.as_bytes());
    }
}

/// Writes a value without white space and with the keys of every object in byte order. Numbers keep their spelling.
/// Nesting was bounded when the value was checked.
fn write_sorted(value: Raw<'_>, out: &mut String) {
    match value.kind() {
        JsonKind::Object => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (number, (key, member)) in members.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                json::write_string(out, &key);
                out.push(':');
                write_sorted(member, out);
            }
            out.push('}');
        }
        JsonKind::Array => {
            out.push('[');
            for (number, element) in value.elements().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write_sorted(element, out);
            }
            out.push(']');
        }
        JsonKind::String => json::write_string(out, &value.string().unwrap_or_default()),
        _ => out.push_str(value.text()),
    }
}
