//! `OpenHands`: a list of events, actions and observations, joined by the id of the tool call that made them.
//!
//! An action with `tool_call_metadata` carries the whole reply of the model it came from, so the assistant's message
//! is that reply's, once per reply. Without it the session did not use function calling: then what the agent did was
//! text, and its result was the next user message.

use std::collections::BTreeMap;

use super::chat::{self, ChatMessage, Writing, call, compact, literal, reply_meta};
use super::values::{JsonAt, Values, finished, first_record, has_key, id_of, note, other_members, values};
use super::{FoundMessage, Note, ReadConversation, Source, Transcript, TranscriptError};
use crate::context::Tools;
use crate::entry::{Meta, Time};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::{ParseOptions, Wire};

/// Actions an agent took by saying so, and their results. Others are the program's own bookkeeping.
const SPOKEN: [&str; 12] = [
    "run",
    "run_ipython",
    "read",
    "write",
    "edit",
    "browse",
    "browse_interactive",
    "delegate",
    "think",
    "finish",
    "reject",
    "call_tool_mcp",
];
/// Observations that were shown to the model, beside those of the actions above.
const SHOWN: [&str; 4] = ["error", "success", "mcp", "user_rejected"];

/// Whether the text is a list of events, or evaluation output with a `history` of them.
pub(crate) fn looks_like(text: &str) -> bool {
    (has_key(text, "action") || has_key(text, "observation"))
        && first_record(text).is_some_and(|first| {
            let history = first.get("history").and_then(|history| history.elements().next());
            // The old form has pairs of action and observation.
            let first = match history {
                Some(pair) if pair.kind() == JsonKind::Array => pair.elements().next(),
                Some(event) => Some(event),
                None => Some(first),
            };
            first.is_some_and(is_event)
        })
}

/// Whether a value is an event; messages and items of wires have a role or a type.
fn is_event(value: Raw<'_>) -> bool {
    let word = |key: &str| value.get(key).is_some_and(|word| word.kind() == JsonKind::String);
    (word("action") || word("observation")) && value.get("role").is_none() && value.get("type").is_none()
}

/// Reads one conversation per history; events without one around them are one conversation together.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let Values { found, failed } = values(text)?;
    let mut transcript = Transcript { conversations: Vec::new(), failed };
    let mut loose = EventReader::default();
    for record in found.into_iter().flat_map(JsonAt::records) {
        let output = match record.object("an event or an output") {
            Ok(output) => output,
            Err(error) => {
                transcript.failed.push(error);
                continue;
            }
        };
        match output.get("history").filter(|history| history.kind() == JsonKind::Array) {
            Some(history) => {
                let mut reader = EventReader::default();
                for item in history.elements() {
                    match item.kind() {
                        JsonKind::Array => item.elements().for_each(|event| reader.event(record, event)),
                        _ => reader.event(record, item),
                    }
                }
                let mut conversation = reader.conversation(&mut transcript.failed);
                conversation.id = id_of(output.get("instance_id"));
                conversation.notes.extend(other_members(&output, &["history", "instance_id"]));
                transcript.conversations.push(conversation);
            }
            // Among events, what is not an event is kept as a note.
            None if loose.events > 0 || is_event(record.raw) => loose.event(record, record.raw),
            None => {
                let problem = "neither an event nor an output with a `history`".into();
                transcript.failed.push(record.error(record.raw, problem));
            }
        }
    }
    if loose.events > 0 {
        let conversation = loose.conversation(&mut transcript.failed);
        transcript.conversations.push(conversation);
    }
    finished(transcript)
}

/// Reads events in order.
#[derive(Default)]
struct EventReader<'a> {
    events: usize,
    messages: Vec<ChatMessage<'a>>,
    notes: Vec<Note>,
    /// Replies whose message was written, and those of their calls no action has come for yet.
    replies: BTreeMap<String, Vec<String>>,
    tools: Option<Tools>,
    assumed: Assumed,
    /// Whether the last thing said was the user's, to tell speakers apart where no event names them.
    user_spoke: bool,
}

/// What had to be assumed, each noted once.
#[derive(Default)]
struct Assumed {
    text_mode: bool,
    utc: bool,
    speaker: bool,
}

impl<'a> EventReader<'a> {
    fn event(&mut self, record: JsonAt<'a>, raw: Raw<'a>) {
        self.events += 1;
        let Ok(event) = raw.object() else { return self.keep("event with a key twice", raw) };
        let word = |key: &str| event.get(key).and_then(Raw::string);
        let metadata = event.get("tool_call_metadata").filter(|metadata| metadata.kind() == JsonKind::Object);
        match (word("action"), word("observation"), metadata) {
            (Some(_), _, Some(metadata)) => self.call(record, raw, &event, metadata),
            (Some(action), _, None) => match action.as_ref() {
                "message" => self.said(record, raw, &event),
                "system" => self.instructed(record, raw, &event),
                spoken if SPOKEN.contains(&spoken) => self.did(record, raw, &event, spoken),
                other => self.keep(other, raw),
            },
            (None, Some(_), Some(metadata)) => self.result(record, raw, &event, metadata),
            (None, Some(seen), None) if SPOKEN.contains(&seen.as_ref()) || SHOWN.contains(&seen.as_ref()) => {
                self.assume_text_mode();
                let raw_text = text_or_empty(event.get("content").or_else(|| event.get("message")));
                self.push(record, raw, &event, plain("user", &raw_text), None);
            }
            (None, Some(other), None) => self.keep(&other, raw),
            (None, None, _) => self.keep(word("kind").as_deref().unwrap_or("event"), raw),
        }
    }

    /// The reply an action came from, if its message is not there yet.
    fn call(&mut self, record: JsonAt<'a>, raw: Raw<'a>, event: &Object<'a>, metadata: Raw<'a>) {
        let call_id = metadata.get("tool_call_id").and_then(Raw::string).unwrap_or_default();
        let reply = metadata.get("model_response").filter(|reply| reply.kind() == JsonKind::Object);
        let message = reply
            .and_then(|reply| reply.get("choices")?.elements().next()?.get("message"))
            .filter(|message| message.get("role").is_some());
        let (Some(reply), Some(message)) = (reply, message) else {
            let written = rebuilt_call(event, metadata, &call_id);
            let tags = [("openhands.args".to_string(), "reprinted".to_string())].into();
            return self.push(record, raw, event, written, Some(Meta { tags, ..Meta::default() }));
        };
        let id = id_of(reply.get("id")).unwrap_or_default();
        if let Some(waiting) = self.replies.get_mut(&id)
            && let Some(at) = waiting.iter().position(|waits| *waits == call_id)
        {
            waiting.swap_remove(at);
            return;
        }
        let calls = message.get("tool_calls").into_iter().flat_map(Raw::elements);
        let mut waiting: Vec<String> = calls.filter_map(|call| id_of(call.get("id"))).collect();
        if let Some(at) = waiting.iter().position(|waits| *waits == call_id) {
            waiting.swap_remove(at);
        }
        self.replies.insert(id, waiting);
        self.push(record, raw, event, message.text().into(), Some(reply_meta(reply)));
    }

    fn result(&mut self, record: JsonAt<'a>, raw: Raw<'a>, event: &Object<'a>, metadata: Raw<'a>) {
        let mut written = Writing::new().text("role", "tool");
        for (key, from) in [("tool_call_id", "tool_call_id"), ("name", "function_name")] {
            if let Some(value) = metadata.get(from).filter(|value| value.kind() == JsonKind::String) {
                written = written.raw(key, value.text());
            }
        }
        let content = text_or_empty(event.get("content").or_else(|| event.get("message")));
        self.push(record, raw, event, written.raw("content", &content).end(), None);
    }

    /// A message of the user or of the agent.
    fn said(&mut self, record: JsonAt<'a>, raw: Raw<'a>, event: &Object<'a>) {
        let role = match event.get("source").and_then(Raw::string).as_deref() {
            Some("agent") => "assistant",
            Some(_) => "user",
            None => {
                if !std::mem::replace(&mut self.assumed.speaker, true) {
                    self.assume("messages have no `source`; the user is taken to begin and to take turns");
                }
                if self.user_spoke { "assistant" } else { "user" }
            }
        };
        let text = text_or_empty(field(event, "content"));
        let images = field(event, "image_urls").or_else(|| field(event, "images_urls"));
        let mut images = images.into_iter().flat_map(Raw::elements).peekable();
        let written = if images.peek().is_none() {
            plain(role, &text)
        } else {
            let mut parts = vec![Writing::new().text("type", "text").raw("text", &text).end()];
            parts.extend(images.map(|url| {
                let url = Writing::new().raw("url", url.text()).end();
                Writing::new().text("type", "image_url").raw("image_url", &url).end()
            }));
            Writing::new().text("role", role).raw("content", &format!("[{}]", parts.join(","))).end()
        };
        self.push(record, raw, event, written, None);
    }

    /// The system prompt, and the tools on offer with it.
    fn instructed(&mut self, record: JsonAt<'a>, raw: Raw<'a>, event: &Object<'a>) {
        if let Some(tools) = field(event, "tools").filter(|tools| tools.kind() == JsonKind::Array) {
            let body = Writing::new().raw("messages", "[]").raw("tools", tools.text()).end();
            let parsed = json::check(&body).ok();
            let parsed = parsed.and_then(|body| Wire::OpenaiChat.parse(body, &ParseOptions::default()).ok());
            self.tools = parsed.and_then(|parsed| parsed.tools);
        }
        let text = text_or_empty(field(event, "content"));
        self.push(record, raw, event, plain("system", &text), None);
    }

    /// An action that was written as text, the way it was written.
    fn did(&mut self, record: JsonAt<'a>, raw: Raw<'a>, event: &Object<'a>, action: &str) {
        self.assume_text_mode();
        let text = |key: &str| field(event, key).and_then(Raw::string).filter(|text| !text.is_empty());
        let (thought, tag, done) = match action {
            "run" => (text("thought"), "execute_bash", text("command")),
            "run_ipython" => (text("thought"), "execute_ipython", text("code")),
            "browse_interactive" => (text("thought"), "execute_browse", text("browser_actions")),
            "finish" => (text("final_thought").or_else(|| text("thought")), "", None),
            _ => (text("thought").or_else(|| text("message")), "", None),
        };
        let mut said: Vec<String> = thought.map(std::borrow::Cow::into_owned).into_iter().collect();
        said.extend(done.map(|done| format!("<{tag}>\n{done}\n</{tag}>")));
        let role = match event.get("source").and_then(Raw::string).as_deref() {
            Some("user") => "user",
            _ => "assistant",
        };
        self.push(record, raw, event, plain(role, &literal(&said.join("\n"))), None);
    }

    fn push(
        &mut self,
        record: JsonAt<'a>,
        from: Raw<'a>,
        event: &Object<'a>,
        raw: String,
        meta: Option<Meta>,
    ) {
        self.user_spoke = raw.starts_with(r#"{"role":"user""#);
        let source = Source { line: self.events, id: id_of(event.get("id")) };
        let time = self.time(event);
        self.messages.push(ChatMessage { found: FoundMessage { raw, source, time, meta }, record, from });
    }

    /// When an event happened; the source writes local times without saying of where.
    fn time(&mut self, event: &Object<'_>) -> Option<Time> {
        let text = event.get("timestamp")?.string()?;
        if let Some(time) = Time::parse(&text) {
            return Some(time);
        }
        let time = Time::parse(&format!("{text}Z"))?;
        if !std::mem::replace(&mut self.assumed.utc, true) {
            self.assume("times have no zone and are read as UTC");
        }
        Some(time)
    }

    fn assume_text_mode(&mut self) {
        if !std::mem::replace(&mut self.assumed.text_mode, true) {
            self.assume("events without `tool_call_metadata` are read as texts");
        }
    }

    fn assume(&mut self, what: &str) {
        self.notes.push(Note { line: self.events, kind: what.into(), raw: None });
    }

    fn keep(&mut self, kind: &str, raw: Raw<'_>) {
        self.notes.push(note(self.events, kind, raw));
    }

    fn conversation(self, failed: &mut Vec<TranscriptError>) -> ReadConversation {
        let mut conversation = chat::conversation(self.messages, failed);
        conversation.notes.extend(self.notes);
        conversation.tools = self.tools;
        conversation
    }
}

/// A member of an action: under `args`, or beside the action in the old form.
fn field<'a>(event: &Object<'a>, key: &str) -> Option<Raw<'a>> {
    event.get("args").and_then(|args| args.get(key)).or_else(|| event.get(key))
}

/// The literal of a text, in its own spelling.
fn text_or_empty(value: Option<Raw<'_>>) -> String {
    value
        .filter(|value| value.kind() == JsonKind::String)
        .map_or_else(|| "\"\"".into(), |value| value.text().into())
}

fn plain(role: &str, content: &str) -> String {
    Writing::new().text("role", role).raw("content", content).end()
}

/// The assistant's message where the reply was not kept: the thought, and a call with the arguments of the action.
fn rebuilt_call(event: &Object<'_>, metadata: Raw<'_>, call_id: &str) -> String {
    let name = metadata.get("function_name").and_then(Raw::string).unwrap_or_default();
    let arguments = event.get("args").map_or_else(|| "{}".into(), compact);
    let thought = field(event, "thought").filter(|thought| thought.kind() == JsonKind::String);
    Writing::new()
        .text("role", "assistant")
        .raw("content", thought.map_or("null", Raw::text))
        .raw("tool_calls", &format!("[{}]", call(call_id, &name, &literal(&arguments))))
        .end()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OUTPUT: &str = include_str!("../../../../corpus/transcript/openhands/output.jsonl");
    const EVENTS: &str = include_str!("../../../../corpus/transcript/openhands/events.json");

    fn roles(conversation: &ReadConversation) -> Vec<&str> {
        conversation.entries.iter().map(|entry| entry.role.as_str()).collect()
    }

    #[test]
    fn a_reply_is_one_message_with_all_its_calls() {
        assert!(looks_like(OUTPUT));
        let transcript = read(OUTPUT).unwrap();
        let session = &transcript.conversations[0];
        assert_eq!(session.id.as_deref(), Some("repo__1"));
        assert_eq!(roles(session), ["system", "user", "assistant", "tool", "tool", "user", "assistant"]);
        let calls: Vec<_> =
            session.entries[2].tool_calls().map(|call| call.arguments.as_str().into_owned()).collect();
        assert_eq!(calls, [r#"{"command": "ls"}"#, r#"{"command": "pwd"}"#]);
        assert!(OUTPUT.contains(session.entries[2].origin.raw.as_ref()), "the reply's own bytes");
        assert_eq!(session.entries[4].tool_call_id().as_deref(), Some("t2"));
        let meta = session.entries[2].meta.as_ref().unwrap();
        assert_eq!(
            (meta.response_id.as_deref(), meta.stop_raw.as_deref()),
            (Some("gen-1"), Some("tool_calls"))
        );
        let usage = meta.usage.as_ref().unwrap();
        assert_eq!((usage.input_uncached, usage.cache_read, usage.output), (Some(20), Some(100), Some(20)));
        assert_eq!(session.tools.as_ref().unwrap().names(), ["execute_bash"]);
        assert_eq!(session.entries[1].created_at.to_string(), "2025-04-30T16:32:02.500Z");
        assert_eq!(session.sources[3], Source { line: 5, id: Some("4".into()) });
    }

    #[test]
    fn a_call_whose_reply_was_not_kept_is_rebuilt_and_tagged() {
        let transcript = read(OUTPUT).unwrap();
        let last = transcript.conversations[0].entries.last().unwrap();
        let call = last.tool_calls().next().unwrap();
        assert_eq!((&*call.name.as_str(), last.content().as_deref()), ("finish", Some("Done.")));
        assert_eq!(last.meta.as_ref().unwrap().tags["openhands.args"], "reprinted");
    }

    #[test]
    fn without_calls_actions_and_observations_are_texts() {
        let transcript = read(OUTPUT).unwrap();
        let session = &transcript.conversations[1];
        let texts: Vec<_> =
            session.entries.iter().map(|entry| (entry.role.as_str(), entry.content().unwrap())).collect();
        let expected = [
            ("user", "Add a licence."),
            ("assistant", "First the file.\n<execute_bash>\ntouch LICENSE\n</execute_bash>"),
            ("user", "ok"),
            ("assistant", "Done."),
        ];
        assert_eq!(texts, expected.map(|(role, text)| (role, text.to_string())));
    }

    #[test]
    fn bookkeeping_is_noted_assumptions_are_said_once_and_a_cut_line_fails_alone() {
        let transcript = read(OUTPUT).unwrap();
        let kinds: Vec<_> = transcript.conversations[0].notes.iter().map(|note| note.kind.as_str()).collect();
        let expected = [
            "times have no zone and are read as UTC",
            "recall",
            "events without `tool_call_metadata` are read as texts",
            "metrics",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(transcript.failed.iter().map(|error| error.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_list_of_events_and_a_line_each_are_one_conversation() {
        assert!(looks_like(EVENTS));
        let list = read(EVENTS).unwrap();
        let lines: Vec<_> = json::check(EVENTS).unwrap().elements().map(compact).collect();
        let lines = read(&lines.join("\n")).unwrap();
        for transcript in [list, lines] {
            assert_eq!(transcript.conversations.len(), 1);
            assert_eq!(
                roles(&transcript.conversations[0]),
                ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
            );
        }
    }
}
