//! `ShareGPT` conversations: turns of plain text. Calls and results have no ids, so they are paired by adjacency and
//! given some.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::draft::{ConversationDraft, finish};
use super::lines::{JsonLine, MemberReaders, first_objects, lines, not_this_format, object};
use super::print::{PrintedObject, compact, list};
use super::{FoundMessage, ReadConversation, Source, Transcript, TranscriptError, tools_of};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::Wire;

/// Whether the text is a conversation with turns of `from` and `value`, a list of them, or one a line.
pub(crate) fn looks_like(text: &str) -> bool {
    let turns = |conversation: Raw<'_>| {
        let first = conversation.get("conversations").and_then(|turns| turns.elements().next());
        first.is_some_and(|turn| turn.get("from").is_some() && turn.get("value").is_some())
    };
    if let Ok(raw) = json::check(text) {
        return turns(raw) || raw.elements().next().is_some_and(turns);
    }
    first_objects(text).next().is_some_and(|line| {
        let first = line.list("conversations").and_then(|turns| turns.elements().next());
        first.is_some_and(|turn| turn.get("from").is_some())
    })
}

/// Reads a list of conversations, one alone, or one a line.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (drafts, failed) = found(text)?;
    Ok(finish(drafts, Wire::OpenaiChat, failed))
}

fn found(text: &str) -> Result<(Vec<ConversationDraft>, Vec<TranscriptError>), TranscriptError> {
    let (mut drafts, mut failed) = (Vec::new(), Vec::new());
    let mut take = |place: ConversationPosition, members: Result<Object<'_>, TranscriptError>| match members
        .and_then(|members| conversation(place, &members))
    {
        Ok(draft) => drafts.push(draft),
        Err(error) => failed.push(error),
    };
    match json::check(text) {
        Ok(raw) if raw.kind() == JsonKind::Array => {
            for (index, element) in raw.elements().enumerate() {
                let place = ConversationPosition { line: index + 1, byte: element.span_in(text).0 as usize };
                take(place, object(element).map_err(|problem| place.error(problem)));
            }
        }
        Ok(raw) => {
            let place = ConversationPosition { line: 1, byte: 0 };
            take(place, object(raw).map_err(|problem| place.error(problem)));
        }
        Err(_) => {
            for line in lines(text) {
                take(ConversationPosition { line: line.number, byte: line.byte }, line.object());
            }
        }
    }
    if drafts.is_empty() {
        let problem = "not ShareGPT conversations: nothing has `conversations`";
        return Err(failed.into_iter().next().unwrap_or_else(|| not_this_format(problem)));
    }
    Ok((drafts, failed))
}

/// The conversation of one line.
pub(super) fn conversation_in(
    line: JsonLine<'_>,
    members: &Object<'_>,
    failed: &mut Vec<TranscriptError>,
) -> Result<ReadConversation, TranscriptError> {
    let place = ConversationPosition { line: line.number, byte: line.byte };
    Ok(conversation(place, members)?.finish(Wire::OpenaiChat, failed))
}

/// Where a conversation stands: its line, or its place in the list.
#[derive(Clone, Copy)]
struct ConversationPosition {
    line: usize,
    byte: usize,
}

impl ConversationPosition {
    fn error(self, problem: String) -> TranscriptError {
        TranscriptError { line: self.line, byte: self.byte, problem }
    }
}

fn conversation(
    place: ConversationPosition,
    members: &Object<'_>,
) -> Result<ConversationDraft, TranscriptError> {
    let turns = members.list("conversations");
    let turns = turns.ok_or_else(|| place.error("there is no list of `conversations`".into()))?;
    let mut reader =
        ShareGptTurns { draft: ConversationDraft::default(), place, waiting: VecDeque::new(), given: false };
    let id = members.get("id").filter(|id| matches!(id.kind(), JsonKind::String | JsonKind::Number));
    reader.draft.head.id = id.map(|id| id.string().unwrap_or(Cow::Borrowed(id.text())).into_owned());
    if let Some(system) = members.text("system").filter(|system| !system.is_empty()) {
        reader.push(PrintedObject::message("system").text("content", &system).end());
    }
    for turn in turns.elements() {
        reader.turn(turn);
    }
    let mut draft = reader.draft;
    // Some write the definitions as a text that holds the list.
    let text = members.text("tools");
    let list = text.as_deref().map_or_else(|| members.list("tools"), |text| json::check(text).ok());
    draft.head.tools = list.and_then(tools_of);
    let placed: &[&str] = &["conversations", "id", "system", "tools"];
    let unread = draft.head.tools.is_none();
    draft.note_rest(place.line, members, if unread { placed.get(..3).unwrap_or(placed) } else { placed });
    Ok(draft)
}

/// Turns, read in order: a result answers the oldest call that waits.
struct ShareGptTurns {
    draft: ConversationDraft,
    place: ConversationPosition,
    waiting: VecDeque<String>,
    /// Whether it was said that ids are given.
    given: bool,
}

impl ShareGptTurns {
    fn push(&mut self, raw: String) {
        let id = Some(format!("{}.{}", self.place.line, self.draft.found.len()));
        let source = Source { line: self.place.line, id };
        self.draft.push(self.place.byte, FoundMessage { raw, source, ..FoundMessage::default() });
    }

    fn turn(&mut self, turn: Raw<'_>) {
        let line = self.place.line;
        let (Some(from), Some(value)) = (
            turn.get("from").and_then(Raw::string),
            turn.get("value").filter(|value| value.kind() == JsonKind::String),
        ) else {
            self.draft.note(line, "a turn without `from` or a text as `value`", Some(turn.text()));
            return;
        };
        let plain = |role: &str| PrintedObject::message(role).raw("content", value.text()).end();
        if matches!(from.as_ref(), "human" | "user") {
            // The talk went on: a result that comes now is not for those calls.
            self.waiting.clear();
        }
        let raw = match from.as_ref() {
            "system" => plain("system"),
            "human" | "user" => plain("user"),
            "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard" => plain("assistant"),
            "function_call" => self.calls(value).unwrap_or_else(|| {
                self.draft.note(line, "a function_call that is not JSON with a name; read as text", None);
                plain("assistant")
            }),
            "observation" | "tool" | "function_response" => self.result(value),
            other => {
                self.draft.note(line, other, Some(turn.text()));
                return;
            }
        };
        self.push(raw);
    }

    fn result(&mut self, value: Raw<'_>) -> String {
        let mut printed = PrintedObject::message("tool");
        if let Some(id) = self.waiting.pop_front() {
            printed = printed.text("tool_call_id", &id);
        } else {
            self.draft.note(self.place.line, "a result that no call precedes", None);
        }
        printed.raw("content", value.text()).end()
    }

    /// The message of a text that holds a call, or a list of them.
    fn calls(&mut self, value: Raw<'_>) -> Option<String> {
        let text = value.string()?;
        let raw = json::check(&text).ok()?;
        let calls: Vec<Raw<'_>> =
            if raw.kind() == JsonKind::Array { raw.elements().collect() } else { vec![raw] };
        let position = self.draft.found.len();
        let (mut printed, mut ids) = (Vec::new(), Vec::new());
        for (number, call) in calls.iter().enumerate() {
            let name = call.get("name").filter(|name| name.kind() == JsonKind::String)?;
            let arguments = call.get("arguments").or_else(|| call.get("parameters"));
            let arguments = match arguments {
                Some(text) if text.kind() == JsonKind::String => text.string().unwrap_or_default(),
                Some(parsed) => Cow::Owned(compact(parsed)),
                None => Cow::Borrowed("{}"),
            };
            let id = format!("sb_{position}_{number}");
            let function = PrintedObject::new().raw("name", name.text()).text("arguments", &arguments).end();
            printed.push(
                PrintedObject::new()
                    .text("id", &id)
                    .text("type", "function")
                    .raw("function", &function)
                    .end(),
            );
            ids.push(id);
        }
        if ids.is_empty() {
            return None;
        }
        self.waiting.extend(ids);
        if !std::mem::replace(&mut self.given, true) {
            self.draft.note(
                self.place.line,
                "calls have no ids; given by position and paired by adjacency",
                None,
            );
        }
        Some(
            PrintedObject::message("assistant")
                .raw("content", "null")
                .raw("tool_calls", &list(&printed))
                .end(),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TOOLS: &str = include_str!("../../../../corpus/transcript/sharegpt/tools.json");

    #[test]
    fn calls_and_results_are_paired_by_adjacency_and_that_is_noted_once() {
        let read = read(TOOLS).unwrap();
        assert!(looks_like(TOOLS) && read.failed.is_empty());
        let conversation = &read.conversations[0];
        assert_eq!(conversation.id.as_deref(), Some("talk-1"));
        let raws: Vec<&str> = conversation.entries.iter().map(|entry| entry.origin.raw.as_ref()).collect();
        assert_eq!(
            raws,
            [
                r#"{"role":"system","content":"Use the tools."}"#,
                r#"{"role":"user","content":"Weather in Oslo and Rome?"}"#,
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"sb_2_0","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"sb_2_1","type":"function","function":{"name":"weather","arguments":"{\"city\":  \"Rome\"}"}}]}"#,
                r#"{"role":"tool","tool_call_id":"sb_2_0","content":"rain"}"#,
                r#"{"role":"tool","tool_call_id":"sb_2_1","content":"sun"}"#,
                r#"{"role":"assistant","content":"Rain and sun."}"#,
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"sb_6_0","type":"function","function":{"name":"stop","arguments":"{}"}}]}"#,
                r#"{"role":"tool","tool_call_id":"sb_6_0","content":"ok"}"#,
            ]
        );
        let notes: Vec<&str> = conversation.notes.iter().map(|note| note.kind.as_str()).collect();
        assert_eq!(
            notes,
            ["calls have no ids; given by position and paired by adjacency", "narrator", "source"]
        );
        assert_eq!(conversation.tools.as_ref().unwrap().names(), ["weather", "stop"]);
    }

    #[test]
    fn a_list_one_alone_and_lines_are_the_same() {
        let one = r#"{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}"#;
        for (text, count) in
            [(one.to_string(), 1), (format!("[{one},{one}]"), 2), (format!("{one}\n{one}\n{{"), 2)]
        {
            let read = read(&text).unwrap();
            assert!(looks_like(&text));
            assert_eq!(read.conversations.len(), count, "{text}");
            assert_eq!(read.conversations.last().unwrap().entries.len(), 2);
            assert_eq!(read.failed.len(), usize::from(text.ends_with("\n{")));
        }
    }

    #[test]
    fn a_call_that_is_none_stays_text_and_a_result_without_call_stays_unpaired() {
        let text = r#"{"conversations":[{"from":"function_call","value":"weather!"},{"from":"observation","value":"?"}]}"#;
        let read = read(text).unwrap();
        let entries = &read.conversations[0].entries;
        assert_eq!(entries[0].content().as_deref(), Some("weather!"));
        assert_eq!(entries[1].tool_call_id(), None);
        assert_eq!(read.conversations[0].notes.len(), 2);
    }

    #[test]
    fn other_texts_are_an_error() {
        for text in ["", "[]", "[1]", r#"{"messages":[]}"#] {
            assert!(read(text).is_err() && !looks_like(text), "{text}");
        }
    }
}
