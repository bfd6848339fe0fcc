//! `LangChain` messages: the lists of `messages_to_dict`, of `model_dump`, and the constructors of `dumpd`.
//!
//! A constructor is data like the others: its last name says which message it is, and nothing is ever constructed.
//! Arguments of calls were parsed before they were saved. They are printed again, compactly, and marked as such, unless
//! the provider's own text of them was kept beside.

use std::borrow::Cow;

use super::draft::{ConversationDraft, finish};
use super::lines::{MemberReaders, not_this_format, object};
use super::print::{PrintedObject, compact, list};
use super::{FoundMessage, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Usage};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::Wire;

/// Members of a message that have a place of their own.
const PLACED: [&str; 14] = [
    "additional_kwargs",
    "content",
    "example",
    "id",
    "invalid_tool_calls",
    "name",
    "response_metadata",
    "role",
    "status",
    "tool_call_chunks",
    "tool_call_id",
    "tool_calls",
    "type",
    "usage_metadata",
];

/// Whether the text is a list of messages in one of the three forms.
pub(crate) fn looks_like(text: &str) -> bool {
    let Ok(raw) = json::check(text) else { return false };
    messages(raw)
        .and_then(|list| list.elements().next())
        .is_some_and(|first| LangchainMessage::read(first).is_some())
}

/// Reads a list of messages, or an object with `messages`.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (draft, failed) = found(text)?;
    Ok(finish(vec![draft], Wire::OpenaiChat, failed))
}

fn messages(raw: Raw<'_>) -> Option<Raw<'_>> {
    let list = if raw.kind() == JsonKind::Object { raw.get("messages")? } else { raw };
    (list.kind() == JsonKind::Array).then_some(list)
}

fn found(text: &str) -> Result<(ConversationDraft, Vec<TranscriptError>), TranscriptError> {
    let raw = json::check(text).map_err(|error| TranscriptError {
        line: error.line,
        byte: error.offset,
        problem: format!("not valid JSON: {} at column {}", error.problem, error.column),
    })?;
    let wanted = "not LangChain messages: expected a list of them, or an object with `messages`";
    let list = messages(raw).ok_or_else(|| not_this_format(wanted))?;
    let mut draft = ConversationDraft::default();
    let mut failed = Vec::new();
    if let (JsonKind::Object, Ok(around)) = (raw.kind(), raw.object()) {
        draft.note_rest(0, &around, &["messages"]);
    }
    for (index, element) in list.elements().enumerate() {
        let byte = element.span_in(text).0 as usize;
        let Some(message) = LangchainMessage::read(element) else {
            let kind = element.get("type").and_then(Raw::string).unwrap_or(Cow::Borrowed("unknown"));
            draft.note(index + 1, kind, Some(element.text()));
            continue;
        };
        match message.members {
            Ok(members) => read_message(&mut draft, index + 1, byte, &message.kind, &members),
            Err(problem) => failed.push(TranscriptError { line: index + 1, byte, problem }),
        }
    }
    if draft.found.is_empty() && failed.is_empty() && list.elements().next().is_some() {
        return Err(not_this_format("not LangChain messages: no element of the list is one"));
    }
    Ok((draft, failed))
}

/// A message, whichever way it was written.
struct LangchainMessage<'a> {
    /// `human`, `ai`, `system`, `tool`, `function` or `chat`.
    kind: Cow<'a, str>,
    members: Result<Object<'a>, String>,
}

impl<'a> LangchainMessage<'a> {
    /// Takes an element of the list apart; none if it is no message.
    fn read(element: Raw<'a>) -> Option<Self> {
        let word = element.get("type").and_then(Raw::string)?;
        let (name, inner) = if word == "constructor" {
            let name = element.get("id")?.elements().last().and_then(Raw::string)?;
            (name, element.get("kwargs")?)
        } else if let Some(data) = element.get("data").filter(|data| data.kind() == JsonKind::Object) {
            (word, data)
        } else {
            (word, element)
        };
        inner.get("content")?;
        let kind = match name.strip_suffix("Chunk").unwrap_or(&name) {
            "human" | "HumanMessage" => "human",
            "ai" | "AIMessage" => "ai",
            "system" | "SystemMessage" => "system",
            "tool" | "ToolMessage" => "tool",
            "function" | "FunctionMessage" => "function",
            "chat" | "ChatMessage" => "chat",
            _ => return None,
        };
        Some(LangchainMessage { kind: Cow::Borrowed(kind), members: object(inner) })
    }
}

fn read_message(draft: &mut ConversationDraft, line: usize, byte: usize, kind: &str, members: &Object<'_>) {
    let mut meta = Meta::default();
    let role = match kind {
        "human" => "user".into(),
        "ai" => "assistant".into(),
        "chat" => {
            let role = members.text("role").unwrap_or_default().into_owned();
            if matches!(role.as_str(), "system" | "developer" | "user" | "assistant") {
                role
            } else {
                draft.note(line, "a chat message of a role the wire does not know; read as user", None);
                meta.tags.insert("langchain.role".into(), role);
                "user".into()
            }
        }
        other => other.to_string(),
    };
    let mut printed = PrintedObject::message(&role).raw("content", &content(members.get("content")));
    printed = printed.maybe("name", members.get("name").filter(|name| name.kind() == JsonKind::String));
    printed = printed.maybe("tool_call_id", members.get("tool_call_id"));
    let extra = members.inner("additional_kwargs").and_then(|extra| extra.object().ok());
    if kind == "ai" {
        printed = calls(printed, members, extra.as_ref(), &mut meta);
        read_meta(members, &mut meta);
    }
    if members.text("status").as_deref() == Some("error") {
        meta.tags.insert("langchain.status".into(), "error".into());
    }
    draft.note_rest(line, members, &PLACED);
    if let Some(extra) = &extra {
        draft.note_rest(line, extra, &["tool_calls", "function_call"]);
    }
    if let Some(around) = members.inner("response_metadata").filter(|around| around.text() != "{}") {
        draft.note(line, "response_metadata", Some(around.text()));
    }
    let id = members.text("id").map(Cow::into_owned);
    let meta = (meta != Meta::default()).then_some(meta);
    draft.push(byte, FoundMessage { raw: printed.end(), source: Source { line, id }, time: None, meta });
}

/// The content as the wire writes it: parts may be bare texts here.
fn content(content: Option<Raw<'_>>) -> String {
    match content {
        Some(parts) if parts.kind() == JsonKind::Array => {
            let parts: Vec<String> = parts
                .elements()
                .map(|part| match part.kind() {
                    JsonKind::String => {
                        PrintedObject::new().text("type", "text").raw("text", part.text()).end()
                    }
                    _ => part.text().to_string(),
                })
                .collect();
            list(&parts)
        }
        Some(content) => content.text().to_string(),
        None => "null".into(),
    }
}

/// The calls: as the provider wrote them where that was kept, else printed from what was parsed.
fn calls(
    printed: PrintedObject,
    members: &Object<'_>,
    extra: Option<&Object<'_>>,
    meta: &mut Meta,
) -> PrintedObject {
    let some = |list: &Raw<'_>| list.elements().next().is_some();
    let kept = |key: &str| extra.and_then(|extra| extra.get(key));
    if let Some(call) = kept("function_call").filter(|call| call.kind() == JsonKind::Object) {
        return printed.raw("function_call", call.text());
    }
    if let Some(calls) = kept("tool_calls").filter(|calls| calls.kind() == JsonKind::Array).filter(some) {
        return printed.raw("tool_calls", calls.text());
    }
    let mut all = Vec::new();
    for call in members.list("tool_calls").into_iter().flat_map(Raw::elements) {
        let arguments = call.get("args").map_or_else(|| "{}".into(), compact);
        all.push(print_call(call, &arguments));
        meta.tags.insert("langchain.args".into(), "reprinted".into());
    }
    for call in members.list("invalid_tool_calls").into_iter().flat_map(Raw::elements) {
        let arguments = call.get("args").and_then(Raw::string).unwrap_or_default();
        all.push(print_call(call, &arguments));
    }
    if all.is_empty() { printed } else { printed.raw("tool_calls", &list(&all)) }
}

fn print_call(call: Raw<'_>, arguments: &str) -> String {
    let text = |key: &str| call.get(key).filter(|value| value.kind() == JsonKind::String);
    let function = PrintedObject::new().maybe("name", text("name")).text("arguments", arguments).end();
    PrintedObject::new().maybe("id", text("id")).text("type", "function").raw("function", &function).end()
}

/// Model, end and tokens of a reply.
fn read_meta(members: &Object<'_>, meta: &mut Meta) {
    let about = members.inner("response_metadata");
    let text = |keys: [&str; 2]| {
        let value = keys.iter().find_map(|key| about?.get(key).and_then(Raw::string));
        value.map(Cow::into_owned)
    };
    meta.model_served = text(["model_name", "model"]);
    meta.stop_raw = text(["finish_reason", "stop_reason"]);
    meta.response_id = text(["id", "response_id"]);
    meta.usage = members.inner("usage_metadata").and_then(|usage| usage.object().ok()).map(|usage| {
        let read = usage.inner("input_token_details").and_then(|details| details.object().ok());
        let detail = |key: &str| read.as_ref().and_then(|details| details.number(key));
        let written = detail("cache_creation");
        let cached = detail("cache_read").unwrap_or(0).saturating_add(written.unwrap_or(0));
        let spent = usage.inner("output_token_details").and_then(|details| details.object().ok());
        Usage {
            input_uncached: usage.number("input_tokens").map(|input| input.saturating_sub(cached)),
            cache_read: detail("cache_read"),
            // The lifetime was not kept; this is the provider's own default.
            cache_write: written.map(|tokens| ("5m".to_string(), tokens)).into_iter().collect(),
            output: usage.number("output_tokens"),
            reasoning: spent.and_then(|details| details.number("reasoning")),
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DICTS: &str = include_str!("../../../../corpus/transcript/langchain/dicts.json");
    const CONSTRUCTORS: &str = include_str!("../../../../corpus/transcript/langchain/constructors.json");

    fn raws(draft: &ConversationDraft) -> Vec<&str> {
        draft.found.iter().map(|found| found.raw.as_str()).collect()
    }

    #[test]
    fn parsed_arguments_are_printed_compactly_and_marked() {
        let (draft, failed) = found(DICTS).unwrap();
        assert!(looks_like(DICTS) && failed.is_empty());
        assert_eq!(
            raws(&draft),
            [
                r#"{"role":"system","content":"Be brief."}"#,
                r#"{"role":"user","content":[{"type":"text","text":"what is this?"},{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],"name":"ada"}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"x\":1.50,\"deep\":[1,2]}"}},{"id":"c2","type":"function","function":{"name":"look","arguments":"{\"x\": "}}]}"#,
                r#"{"role":"tool","content":"a cat","name":"look","tool_call_id":"c1"}"#,
            ]
        );
        let reply = draft.found[2].meta.as_ref().unwrap();
        assert_eq!(reply.tags["langchain.args"], "reprinted");
        let usage = reply.usage.as_ref().unwrap();
        assert_eq!((usage.input_uncached, usage.input(), usage.reasoning), (Some(60), Some(100), Some(3)));
        assert_eq!(reply.model_served.as_deref(), Some("gpt-4o"));
        let result = draft.found[3].meta.as_ref().unwrap();
        assert_eq!(result.tags["langchain.status"], "error");
        let notes: Vec<_> = draft.head.notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
        assert_eq!(notes, [(3, "response_metadata"), (4, "artifact"), (5, "remove")]);
    }

    #[test]
    fn constructors_are_data_and_the_providers_own_arguments_win() {
        let (draft, failed) = found(CONSTRUCTORS).unwrap();
        assert!(looks_like(CONSTRUCTORS) && failed.is_empty());
        assert_eq!(
            raws(&draft),
            [
                r#"{"role":"user","content":"weather?"}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":  \"Oslo\"}"}}]}"#,
                r#"{"role":"user","content":"as a critic"}"#,
                r#"{"role":"function","content":"rain","name":"weather"}"#,
            ]
        );
        assert!(draft.found[1].meta.is_none(), "nothing was printed again");
        assert_eq!(draft.found[2].meta.as_ref().unwrap().tags["langchain.role"], "critic");
        assert_eq!(draft.found[0].source.id.as_deref(), Some("m1"));
    }

    #[test]
    fn both_become_entries() {
        let read = read(DICTS).unwrap();
        let roles: Vec<_> = read.conversations[0].entries.iter().map(|entry| entry.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert!(read.failed.is_empty(), "{:?}", read.failed);
    }

    #[test]
    fn a_message_with_a_key_twice_fails_alone() {
        let text = r#"[{"type":"human","data":{"content":"a","content":"b"}},{"type":"human","data":{"content":"c"}}]"#;
        let read = read(text).unwrap();
        assert_eq!((read.conversations[0].entries.len(), read.failed.len()), (1, 1));
        assert_eq!((read.failed[0].line, read.failed[0].byte), (1, 1));
    }

    #[test]
    fn other_lists_are_an_error() {
        for text in ["[1]", r#"[{"role":"user","content":"x"}]"#, "{}", "nonsense"] {
            assert!(read(text).is_err() && !looks_like(text), "{text}");
        }
    }
}
