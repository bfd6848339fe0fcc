//! The chain by which a list of messages is recognised: what was said, whoever spells it.
//!
//! Two clients that send the same messages have the same chain, and a reply matches when the client sends it back in its
//! own spelling. So only what the blocks say counts: not reasoning, cache hints, unknown keys, null against absent, one
//! text part against a plain text, nor times and ids of ours. The leading system entries are left out too, because clients
//! put dates into them, and so are those that were recorded to take their place.

use crate::block::{Block, BlockKind, Media, MediaSource, ToolCall, ToolResult};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::json::{self, Kind, Raw};
use crate::text::Text;

/// The chain's value before anything was said.
pub const PREFIX_START: Link = *b"sb1 prefix: nothing said so far.";

/// The chain's value after an entry; none for an entry of the lead, which leaves it as it was.
pub fn next_prefix(previous: &Link, entry: &Entry) -> Option<Link> {
    if entry.role == Role::System && (*previous == PREFIX_START || entry.is_lead()) {
        return None;
    }
    let mut said = Said(blake3::Hasher::new());
    said.field(previous);
    said.field(entry.role.as_str().as_bytes());
    for block in &entry.blocks {
        said.block(block);
    }
    Some(*said.0.finalize().as_bytes())
}

/// The chain over a list of messages: the value after each entry.
pub fn prefixes<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Link> {
    let mut last = PREFIX_START;
    let next = |entry: &Entry| {
        last = next_prefix(&last, entry).unwrap_or(last);
        last
    };
    entries.into_iter().map(next).collect()
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
    let mut said = Said(blake3::Hasher::new());
    if !matches!(block.kind, BlockKind::ToolResult(_)) {
        said.field(role.as_str().as_bytes());
    }
    said.block(block);
    Some(*said.0.finalize().as_bytes())
}

/// What an entry says, on its way into a hash: every field has its length in front.
struct Said(blake3::Hasher);

impl Said {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: Option<&Text>) {
        self.field(text.map(Text::as_str).unwrap_or_default().as_bytes());
    }

    fn block(&mut self, block: &Block) {
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

    fn call(&mut self, call: &ToolCall) {
        self.field(b"call");
        self.text(call.call_id.as_ref());
        self.text(Some(&call.name));
        let written = call.arguments.as_str();
        match json::check(&written) {
            Ok(arguments) if arguments.kind() == Kind::Object => {
                let mut sorted = String::with_capacity(written.len());
                write_sorted(arguments, &mut sorted);
                self.field(sorted.as_bytes());
            }
            _ => self.field(written.as_bytes()),
        }
    }

    fn result(&mut self, result: &ToolResult) {
        self.field(b"result");
        self.text(result.call_id.as_ref());
        for block in &result.content {
            self.block(block);
        }
        self.field(if result.is_error == Some(true) { b"error" } else { b"" });
    }

    fn media(&mut self, media: &Media) {
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
        Kind::Object => {
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
        Kind::Array => {
            out.push('[');
            for (number, element) in value.elements().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write_sorted(element, out);
            }
            out.push(']');
        }
        Kind::String => json::write_string(out, &value.string().unwrap_or_default()),
        _ => out.push_str(value.text()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::{ParseOptions, Wire};

    fn chain(wire: Wire, body: &str) -> Link {
        let body = json::check(body).unwrap();
        let parsed = wire.parse(body, &ParseOptions::default()).unwrap();
        *prefixes(&parsed.entries).last().unwrap()
    }

    const PLAIN: &str = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"b\": [1, 2], \"a\": \"x\"}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]"#;

    #[test]
    fn spelling_does_not_matter() {
        let same = [
            r#"[{"role":"system","content":"Today is Monday."},{"content":[{"type":"text","text":"h\u0069"}],"role":"user","x":1},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"x\",\"b\":[1,2]}"}}],"refusal":null},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"ok"}]}]"#,
            r#"[{"role":"system","content":"Today is Tuesday."},{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\u0078\",\"b\":[1,2]}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]"#,
        ];
        for other in same {
            assert_eq!(chain(Wire::OpenaiChat, other), chain(Wire::OpenaiChat, PLAIN), "{other}");
        }
        let anthropic = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{"a":"x","b":[1,2]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok","is_error":false}]}]"#;
        assert_eq!(chain(Wire::Anthropic, anthropic), chain(Wire::OpenaiChat, PLAIN));
    }

    #[test]
    fn what_is_said_matters() {
        let changes = [
            (r#""content":"hi""#, r#""content":"ho""#),
            (r#""name":"f""#, r#""name":"g""#),
            ("[1, 2]", "[2, 1]"),
            (r#""content":"ok""#, r#""content":"no""#),
            (r#""role":"user""#, r#""role":"assistant""#),
        ];
        for (from, to) in changes {
            let other = PLAIN.replacen(from, to, 1);
            assert_ne!(other, PLAIN);
            assert_ne!(chain(Wire::OpenaiChat, &other), chain(Wire::OpenaiChat, PLAIN), "{to}");
        }
    }

    #[test]
    fn only_leading_instructions_are_left_out() {
        let system = Entry::text(Role::System, "s");
        let user = Entry::text(Role::User, "u");
        assert_eq!(prefixes([&system]), [PREFIX_START]);
        assert_eq!(prefixes([&system, &user]).last(), prefixes([&user]).last());
        assert_ne!(prefixes([&user, &system]).last(), prefixes([&user]).last());
        assert_eq!(prefixes([&user, &system.as_lead()]).last(), prefixes([&user]).last());
    }
}
