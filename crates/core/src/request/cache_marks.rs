//! Cache marks belong to the request, not to the entries: where a client put them, and where they go when the list is another.
//!
//! A mark (`cache_control`) asks the provider to keep everything up to it. A recorded entry remembers the mark of the call in
//! which it was first seen, which says nothing about any later call. So marks are taken out of the messages that are sent, and
//! put where the client would have put them: on the place of its newest mark, counted from the end, and on the end of what
//! the call before had sent, from which the provider reads its cache.

use crate::json::{self, Edit, Edits, JsonKind, Raw};
use crate::wire::{Wire, list_key, system_key, tools_key};

/// Most marks of one request; one more is refused (AN-50).
const MOST: usize = 4;
/// The member that is a mark.
const MARK: &str = "cache_control";

/// The marks of a client's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientMarks {
    /// Marks on tools, on instructions and on the request itself, which stay where they are.
    fixed: usize,
    /// The newest mark among the messages.
    newest: Option<Newest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Newest {
    /// Its message and block, counted from the end: 0 is the last one.
    message: usize,
    block: usize,
    /// What it says.
    text: String,
}

impl ClientMarks {
    /// The marks in a request of a client.
    pub(crate) fn of(wire: Wire, body: Raw<'_>) -> Self {
        if wire != Wire::Anthropic || !body.text().contains(MARK) {
            return ClientMarks::default();
        }
        let listed = |key: &str| body.get(key).into_iter().flat_map(Raw::elements).filter_map(mark).count();
        let fixed = listed(tools_key(wire))
            + system_key(wire).map_or(0, listed)
            + usize::from(body.get(MARK).is_some_and(|mark| mark.kind() == JsonKind::Object));
        let messages: Vec<Raw<'_>> = body.get(list_key(wire)).into_iter().flat_map(Raw::elements).collect();
        let newest = messages.iter().rev().enumerate().find_map(|(message, raw)| {
            let blocks: Vec<Raw<'_>> = blocks(*raw).collect();
            let (block, text) =
                blocks.iter().rev().enumerate().find_map(|(at, block)| Some((at, mark(*block)?)))?;
            Some(Newest { message, block, text: json::one_line(text).into_owned() })
        });
        ClientMarks { fixed, newest }
    }
}

/// The messages of a request with no mark but those that belong there now.
pub(crate) fn place(wire: Wire, messages: &mut [String], client: &ClientMarks) {
    if wire != Wire::Anthropic {
        return;
    }
    for message in messages.iter_mut() {
        *message = unmarked(message).unwrap_or_else(|| std::mem::take(message));
    }
    let Some(newest) = &client.newest else { return };
    let room = MOST.saturating_sub(client.fixed);
    let last = messages.len().checked_sub(newest.message + 1);
    // The newest first: where there is no room for both, the older one goes.
    let mut places: Vec<(usize, usize)> = Vec::new();
    places.extend(last.map(|message| (message, newest.block)));
    places.extend(stable_end(messages).filter(|end| Some(*end) != last).map(|message| (message, 0)));
    for (message, block) in places.into_iter().take(room) {
        if let Some(text) = messages.get_mut(message)
            && let Some(marked) = marked(text, block, &newest.text)
        {
            *text = marked;
        }
    }
}

/// A message without its marks; none if it has none.
pub(crate) fn unmarked(message: &str) -> Option<String> {
    if !message.contains(MARK) {
        return None;
    }
    let raw = json::check(message).ok()?;
    let mut edits = Edits::new();
    for (number, block) in blocks(raw).enumerate() {
        if block.get(MARK).is_some() {
            edits.insert(format!("/content/{number}/{MARK}"), Edit::Remove);
        }
        for (inner, part) in block.get("content").into_iter().flat_map(Raw::elements).enumerate() {
            if part.get(MARK).is_some() {
                edits.insert(format!("/content/{number}/content/{inner}/{MARK}"), Edit::Remove);
            }
        }
    }
    (!edits.is_empty()).then(|| json::edit(raw, &edits))
}

/// A message with a mark on one of its blocks, counted from the end, or on the nearest before it that can bear one.
fn marked(message: &str, block: usize, mark: &str) -> Option<String> {
    let raw = json::check(message).ok()?;
    let content = raw.get("content")?;
    if content.kind() == JsonKind::String {
        if content.string().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        let only = format!("[{{\"type\":\"text\",\"text\":{},\"{MARK}\":{mark}}}]", content.text());
        return Some(json::edit(raw, &Edits::from([("/content".into(), Edit::Put(only))])));
    }
    let all: Vec<Raw<'_>> = blocks(raw).collect();
    let bearer = all.iter().enumerate().rev().skip(block).find(|(_, block)| can_bear(**block))?.0;
    let edits = Edits::from([(format!("/content/{bearer}/{MARK}"), Edit::Put(mark.into()))]);
    Some(json::edit(raw, &edits))
}

/// Reasoning and blank texts take no mark (AN-52).
fn can_bear(block: Raw<'_>) -> bool {
    match block.get("type").and_then(Raw::string).as_deref() {
        Some("thinking" | "redacted_thinking") => false,
        Some("text") => block.get("text").and_then(Raw::string).is_some_and(|text| !text.trim().is_empty()),
        _ => true,
    }
}

/// The last message that the call before had sent: the one before the newest reply.
fn stable_end(messages: &[String]) -> Option<usize> {
    let is_reply = |message: &String| {
        let role = json::check(message)
            .ok()
            .and_then(|raw| raw.get("role")?.string().map(|role| role == "assistant"));
        role == Some(true)
    };
    messages.iter().rposition(is_reply)?.checked_sub(1)
}

fn blocks(message: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    message
        .get("content")
        .filter(|content| content.kind() == JsonKind::Array)
        .into_iter()
        .flat_map(Raw::elements)
}

fn mark(block: Raw<'_>) -> Option<Raw<'_>> {
    let inner = block.get("content").into_iter().flat_map(Raw::elements);
    let found = std::iter::once(block).chain(inner).find_map(|block| block.get(MARK));
    found.filter(|mark| mark.kind() == JsonKind::Object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const EPHEMERAL: &str = r#"{"type":"ephemeral"}"#;

    fn text(role: &str, text: &str, mark: &str) -> String {
        let mark = if mark.is_empty() { String::new() } else { format!(r#","cache_control":{mark}"#) };
        format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"{text}"{mark}}}]}}"#)
    }

    fn placed(body: &str, messages: &[String]) -> Vec<String> {
        let marks = ClientMarks::of(Wire::Anthropic, json::check(body).unwrap());
        let mut messages = messages.to_vec();
        place(Wire::Anthropic, &mut messages, &marks);
        messages
    }

    fn request(messages: &[String], around: &str) -> String {
        format!(r#"{{"model":"m"{around},"messages":[{}]}}"#, messages.join(","))
    }

    #[test]
    fn marks_go_where_the_client_put_its_newest_and_where_the_call_before_ended() {
        let sent = [
            text("user", "a", ""),
            text("assistant", "b", ""),
            text("user", "c", EPHEMERAL),
            text("assistant", "d", ""),
            text("user", "e", r#"{"type":"ephemeral","ttl":"1h"}"#),
        ];
        let around = r#","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]"#;
        let list = [
            text("user", "a", EPHEMERAL),
            text("user", "c", ""),
            text("assistant", "d", ""),
            text("user", "e", ""),
        ];
        let hour = r#"{"type":"ephemeral","ttl":"1h"}"#;
        let wanted = [
            text("user", "a", ""),
            text("user", "c", hour),
            text("assistant", "d", ""),
            text("user", "e", hour),
        ];
        assert_eq!(placed(&request(&sent, around), &list), wanted, "the mark of an earlier call is gone");
        let full = r#","tools":[{"name":"t","cache_control":{"type":"ephemeral"}}],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}]"#;
        let list = placed(&request(&sent, full), &list).concat();
        assert_eq!(list.matches(MARK).count(), 1, "three of four are taken: {list}");
        assert!(list.ends_with(&text("user", "e", hour)));
    }

    #[test]
    fn a_client_without_marks_among_its_messages_gets_none() {
        let sent = [text("user", "a", "")];
        let list = [text("user", "a", EPHEMERAL), text("assistant", "b", "")];
        let got = placed(
            &request(&sent, r#","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]"#),
            &list,
        );
        assert!(!got.concat().contains(MARK), "{got:?}");
        let mut chat = vec![text("user", "a", EPHEMERAL)];
        place(Wire::OpenaiChat, &mut chat, &ClientMarks::default());
        assert_eq!(chat, [text("user", "a", EPHEMERAL)], "other wires have other marks");
    }

    #[test]
    fn reasoning_and_blank_texts_bear_no_mark() {
        let thought = r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"","signature":"s"}]}"#;
        let got = marked(thought, 0, EPHEMERAL).unwrap();
        assert!(got.contains(r#""text":"x","cache_control""#), "{got}");
        assert_eq!(marked(r#"{"role":"user","content":" "}"#, 0, EPHEMERAL), None);
        assert_eq!(marked(r#"{"role":"user","content":[]}"#, 0, EPHEMERAL), None);
        let plain = marked(r#"{"role":"user","content":"hi"}"#, 0, EPHEMERAL).unwrap();
        assert_eq!(plain, text("user", "hi", EPHEMERAL));
        let inside = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}"#;
        assert!(!unmarked(inside).unwrap().contains(MARK));
        let quoted = text("user", "cache_control", "");
        assert_eq!(unmarked(&quoted), None, "a word in a text is no mark");
    }
}
