//! Is this the same entry? Clients do not send back byte for byte what they received.
//!
//! They add default arguments, reorder keys, drop reasoning, replace old results by a note, and put reminders around what the
//! person typed. So matching compares what an entry *is*:
//!
//! | entry | identity | ignored |
//! |---|---|---|
//! | assistant with tool calls | ids and names of the calls, in order | arguments, texts, reasoning |
//! | tool result | the id of its call | the content |
//! | assistant without calls | its text, trimmed and normalised | reasoning, annotations |
//! | user, system | text without client wrappers, trimmed and normalised; media | cache marks, wrappers |
//! | opaque item | its id, or else its text | |
//!
//! Where an entry differs from the recorded one under the same identity, the record keeps the original, and an
//! [`Echo`](crate::Decision::Echo) keeps the client's version.

mod align;
mod prefix;
mod said;
mod wrappers;

use unicode_normalization::UnicodeNormalization;

use crate::block::{Block, BlockKind, ToolCall, ToolResult};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::json::{self, Raw};
use crate::text::Text;

pub use align::{Alignment, align};
pub use prefix::{PREFIX_START, next_prefix, prefixes};
use said::Said;
pub(crate) use said::block_said;
pub use said::content_hash;
pub use wrappers::{WRAPPERS, Wrapper, without_wrappers};

/// What an entry is, whoever spells it. None for an entry that says nothing of its own: only client wrappers, only reasoning,
/// or nothing at all. Such entries come and go between calls.
pub fn identity(entry: &Entry) -> Option<Link> {
    let mut said = Said::default();
    said.field(entry.role.as_str().as_bytes());
    let mut anything = false;
    let calls: Vec<&ToolCall> = entry.tool_calls().collect();
    if !calls.is_empty() {
        for call in calls {
            call_identity(&mut said, call);
        }
        return Some(said.finish());
    }
    let mut text = String::new();
    for block in &entry.blocks {
        match &block.kind {
            BlockKind::Text(words) | BlockKind::Refusal(words) => add_text(&mut text, entry.role, words),
            BlockKind::ToolResult(result) => {
                anything = true;
                result_identity(&mut said, result);
            }
            BlockKind::Media(media) => {
                anything = true;
                said.media(media);
            }
            BlockKind::Compaction(raw) | BlockKind::Opaque(raw) => {
                anything = true;
                opaque_identity(&mut said, raw.raw());
            }
            BlockKind::Reasoning(_) | BlockKind::ToolCall(_) => {}
        }
    }
    if !text.is_empty() {
        anything = true;
        said.field(b"text");
        said.field(text.nfc().collect::<String>().as_bytes());
    }
    anything.then(|| said.finish())
}

/// Adds a text without what the client wrapped around it. Parts are joined by a line break, as one part or several may
/// hold the same words.
fn add_text(all: &mut String, role: Role, words: &Text) {
    let words = words.as_str();
    let bare = if role == Role::Assistant { words } else { without_wrappers(&words).into_owned().into() };
    let bare = bare.trim();
    if bare.is_empty() {
        return;
    }
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(bare);
}

/// A call is its id and name. Without an id, only its arguments tell it from others.
fn call_identity(said: &mut Said, call: &ToolCall) {
    match call.call_id.as_ref().filter(|id| !id.is_empty()) {
        Some(id) => {
            said.field(b"call by id");
            said.text(Some(id));
            said.text(Some(&call.name));
        }
        None => said.call(call),
    }
}

/// A result is the id of its call. Without an id, only its content tells it from others.
fn result_identity(said: &mut Said, result: &ToolResult) {
    match result.call_id.as_ref().filter(|id| !id.is_empty()) {
        Some(id) => {
            said.field(b"result by id");
            said.text(Some(id));
        }
        None => said.result(result),
    }
}

fn opaque_identity(said: &mut Said, raw: Raw<'_>) {
    let id = raw.get("id").and_then(Raw::string).filter(|id| !id.is_empty());
    said.field(b"opaque");
    match id {
        Some(id) => said.field(id.as_bytes()),
        None => said.field(json::one_line(raw).as_bytes()),
    }
}

/// What the person said in an entry, without what their client wrapped around it; empty if that is all there is.
pub fn words_of_person(entry: &Entry) -> String {
    let mut text = String::new();
    for block in &entry.blocks {
        if let Block { kind: BlockKind::Text(words), .. } = block {
            add_text(&mut text, Role::User, words);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::Wire;

    fn entry(wire: Wire, message: &str) -> Entry {
        wire.read_message(json::check(message).unwrap()).unwrap()
    }

    fn same(wire: Wire, one: &str, other: &str) {
        assert_eq!(identity(&entry(wire, one)), identity(&entry(wire, other)), "{one}\n{other}");
    }

    fn differ(wire: Wire, one: &str, other: &str) {
        assert_ne!(identity(&entry(wire, one)), identity(&entry(wire, other)), "{one}\n{other}");
    }

    #[test]
    fn a_call_is_its_id_and_name() {
        let reply = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Editing. "},{"type":"tool_use","id":"t1","name":"Edit","input":{"old_string":"a","count":"1"}}]}"#;
        let echo = r#"{"role":"assistant","content":[{"type":"text","text":"Editing."},{"type":"tool_use","id":"t1","name":"Edit","input":{"replace_all":false,"count":1,"old_string":"a"}}]}"#;
        same(Wire::Anthropic, reply, echo);
        differ(Wire::Anthropic, reply, &echo.replace("t1", "t2"));
        differ(Wire::Anthropic, reply, &echo.replace("\"Edit\"", "\"Write\""));
    }

    #[test]
    fn a_result_is_the_id_of_its_call() {
        let result = r#"{"role":"tool","tool_call_id":"c1","content":"a long result"}"#;
        same(Wire::OpenaiChat, result, &result.replace("a long result", "[cleared]"));
        differ(Wire::OpenaiChat, result, &result.replace("c1", "c2"));
    }

    #[test]
    fn what_people_and_models_say_is_compared_without_wrappers_and_outer_white_space() {
        let plain = r#"{"role":"user","content":"fix the bug"}"#;
        let wrapped = r#"{"role":"user","content":[{"type":"text","text":"<system-reminder>\nbe kind\n</system-reminder>"},{"type":"text","text":"fix the bug\n"}]}"#;
        same(Wire::Anthropic, plain, wrapped);
        differ(Wire::Anthropic, plain, r#"{"role":"user","content":"fix the bugs"}"#);
        let composed = r#"{"role":"assistant","content":"caf\u00e9"}"#;
        same(Wire::OpenaiChat, composed, r#"{"role":"assistant","content":"cafe\u0301 "}"#);
    }

    #[test]
    fn what_says_nothing_has_no_identity() {
        let reminder = r#"{"role":"user","content":"<system-reminder>only this</system-reminder>"}"#;
        assert_eq!(identity(&entry(Wire::Anthropic, reminder)), None);
        assert_eq!(words_of_person(&entry(Wire::Anthropic, reminder)), "");
    }

    #[test]
    fn calls_without_ids_are_told_apart_by_their_arguments() {
        let call = r#"{"role":"model","parts":[{"functionCall":{"name":"look","args":{"at":"a"}}}]}"#;
        differ(Wire::Gemini, call, &call.replace("\"a\"}", "\"b\"}"));
    }
}
