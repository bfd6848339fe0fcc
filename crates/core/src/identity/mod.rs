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
//! | message item of a reply (Responses) | its id, or else its text | text, where the id is the same |
//!
//! Where an entry differs from the recorded one under the same identity, the record keeps the original, and an
//! [`Echo`](crate::Decision::Echo) keeps the client's version.

mod align;
mod content;
mod continuation;
mod items;
mod prefix;
mod project;
mod titles;
mod wrappers;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::block::{BlockKind, ToolCall, ToolResult};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::json::{self, Raw};
use crate::text::Text;

pub use align::{Alignment, align};
use content::Said;
pub(crate) use content::block_said;
pub use content::content_hash;
pub use continuation::{Continuation, continue_from};
pub use prefix::{PREFIX_START, next_prefix, prefixes};
pub use project::project_of;
pub use titles::{asks_for_title, begins_after_compaction, first_request, title_in, title_of};
pub use wrappers::{FRAMES, PREAMBLES, Preamble, WRAPPERS, Wrapper, without_wrappers};

/// What an entry is, however a client spells it. None for an entry that says nothing of its own: only client wrappers, only reasoning,
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
    let texts: Vec<Cow<'_, str>> = texts(entry).collect();
    let mut text = Cow::Borrowed("");
    for words in &texts {
        add_text(&mut text, bare(entry.role, words));
    }
    for block in &entry.blocks {
        match &block.kind {
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
            BlockKind::Text(_) | BlockKind::Refusal(_) | BlockKind::Reasoning(_) | BlockKind::ToolCall(_) => {
            }
        }
    }
    if !text.is_empty() {
        anything = true;
        said.field(b"text");
        said.field(normalised(&text).as_bytes());
    }
    anything.then(|| said.finish())
}

/// The texts of an entry.
fn texts(entry: &Entry) -> impl Iterator<Item = Cow<'_, str>> {
    entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(words) | BlockKind::Refusal(words) => Some(words.as_str()),
        _ => None,
    })
}

/// A text without what the client wrapped around it, trimmed.
fn bare(role: Role, words: &str) -> Cow<'_, str> {
    if role == Role::Assistant {
        return Cow::Borrowed(words.trim());
    }
    match without_wrappers(words) {
        Cow::Borrowed(words) => Cow::Borrowed(words.trim()),
        Cow::Owned(words) => Cow::Owned(words.trim().into()),
    }
}

/// Adds a text to those before it. They are joined by a line break, as one part or several may hold the same words. A single
/// text, which most entries are, is not copied.
fn add_text<'t>(all: &mut Cow<'t, str>, words: Cow<'t, str>) {
    if all.is_empty() {
        *all = words;
    } else if !words.is_empty() {
        let all = all.to_mut();
        all.push('\n');
        all.push_str(&words);
    }
}

/// A text in the normal form NFC. Most texts have it already, which is cheap to see.
fn normalised(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// A call is its id and name. Without an id, only its arguments tell it from others.
fn call_identity(said: &mut Said, call: &ToolCall) {
    match said_id(call.call_id.as_ref()) {
        Some(id) => {
            said.field(b"call by id");
            said.text(Some(id));
            said.text(Some(&call.name));
        }
        None => said.call(call),
    }
}

/// An id that stands in the message. One that was given to a call without an id names its place, which is another one in
/// every list.
pub(crate) fn said_id(id: Option<&Text>) -> Option<&Text> {
    id.filter(|id| !id.is_empty() && !id.is_own())
}

/// A result is the id of its call. Without an id, only its content tells it from others.
fn result_identity(said: &mut Said, result: &ToolResult) {
    match said_id(result.call_id.as_ref()) {
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
    let mut text = Cow::Borrowed("");
    for block in &entry.blocks {
        if let BlockKind::Text(words) = &block.kind {
            add_text(&mut text, bare(Role::User, &words.as_str()).into_owned().into());
        }
    }
    text.into_owned()
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
