//! Codex rollouts: JSON lines of two logs in one. The items are the record; the events are a display log that only
//! fills in what replies cost.
//!
//! After a compaction the model saw another history, but the earlier lines remain what was said: it becomes a summary.

use std::borrow::Cow;

use super::draft::{BetweenEntries, ConversationDraft, finish};
use super::lines::{JsonLine, MemberReaders, first_objects, lines, not_this_format, object};
use super::print::{PrintedObject, list};
use super::{FoundMessage, Parent, ReadConversation, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Time, Usage};
use crate::json::{Object, Raw};
use crate::wire::Wire;

/// The types of lines that wrap a payload.
const WRAPPED: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// Whether the text is a rollout: wrapped lines, or the older form in which every line is an item itself.
pub(crate) fn looks_like(text: &str) -> bool {
    let mut first = first_objects(text).peekable();
    let opens_bare = first.peek().is_some_and(opens_bare);
    first.any(|line| {
        let kind = line.text("type").unwrap_or_default();
        let wrapped = WRAPPED.contains(&kind.as_ref()) && line.get("payload").is_some();
        wrapped || (opens_bare && (is_item(&line) || line.get("record_type").is_some()))
    })
}

/// Reads a rollout.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (draft, failed) = found(text)?;
    Ok(finish(vec![draft], Wire::OpenaiResponses, failed))
}

fn found(text: &str) -> Result<(ConversationDraft, Vec<TranscriptError>), TranscriptError> {
    let mut rollout = Rollout::default();
    let mut failed = Vec::new();
    for line in lines(text) {
        if let Err(error) = line.object().and_then(|members| rollout.line(line, &members)) {
            failed.push(error);
        }
    }
    if !rollout.known {
        let problem = "not a Codex rollout: no line holds an item, an event or the session";
        return Err(failed.into_iter().next().unwrap_or_else(|| not_this_format(problem)));
    }
    Ok((rollout.draft, failed))
}

/// A rollout, read line by line.
#[derive(Default)]
pub(super) struct Rollout {
    draft: ConversationDraft,
    /// Whether anything of the format was seen.
    known: bool,
    /// Whether the session was introduced; a fork repeats the introduction of what it forked from.
    opened: bool,
    model: Option<String>,
    /// Whether the model wrote the last item: what it writes next may be part of the same entry.
    model_speaks: bool,
}

impl Rollout {
    /// Messages that were not handed over yet.
    pub(super) fn len(&self) -> usize {
        self.draft.found.len()
    }

    /// Whether anything of the format was seen.
    pub(super) fn known(&self) -> bool {
        self.known
    }

    /// What was read so far, if the line that comes next is no part of its last entry.
    pub(super) fn take_before(
        &mut self,
        next: &Object<'_>,
        failed: &mut Vec<TranscriptError>,
    ) -> Option<ReadConversation> {
        let inner = next.inner("payload").and_then(|payload| payload.object().ok());
        let item = inner.as_ref().unwrap_or(next);
        let begins = is_item(item) && !(self.model_speaks && speaks_model(item));
        begins.then(|| self.take(failed))
    }

    /// What was read so far.
    pub(super) fn take(&mut self, failed: &mut Vec<TranscriptError>) -> ReadConversation {
        let mut rest = ConversationDraft::default();
        rest.head.id.clone_from(&self.draft.head.id);
        std::mem::replace(&mut self.draft, rest).finish(Wire::OpenaiResponses, failed)
    }

    pub(super) fn line(&mut self, line: JsonLine<'_>, members: &Object<'_>) -> Result<(), TranscriptError> {
        let time = members.text("timestamp").and_then(|time| Time::parse(&time));
        let kind = members.text("type").unwrap_or_default();
        let Some(payload) = members.inner("payload") else {
            if is_item(members) {
                self.item(line, line.text, members, time);
            } else if opens_bare(members) {
                self.open(line, members, time);
            } else {
                let word = members.text("record_type").unwrap_or(kind);
                let word = if word.is_empty() { Cow::Borrowed("unknown") } else { word };
                self.draft.note(line.number, word, Some(line.text));
            }
            return Ok(());
        };
        self.known |= WRAPPED.contains(&kind.as_ref());
        let inner = object(payload).map_err(|problem| line.error(format!("the payload: {problem}")))?;
        match kind.as_ref() {
            "response_item" if is_item(&inner) => self.item(line, payload.text(), &inner, time),
            "session_meta" => self.open(line, &inner, time),
            "turn_context" => {
                self.model = inner.text("model").map(Cow::into_owned).or(self.model.take());
                self.draft.note(line.number, kind, Some(line.text));
            }
            "compacted" => self.compacted(line, &inner),
            "event_msg" | "response_item" => {
                let word = inner.text("type").unwrap_or(kind);
                if word == "token_count"
                    && let Some(usage) = usage(&inner)
                {
                    self.draft.say(BetweenEntries::Usage(usage));
                }
                self.draft.note(line.number, word, Some(line.text));
            }
            _ => self.draft.note(line.number, kind, Some(line.text)),
        }
        Ok(())
    }

    fn item(&mut self, line: JsonLine<'_>, raw: &str, item: &Object<'_>, time: Option<Time>) {
        self.known = true;
        self.model_speaks = speaks_model(item);
        let meta = self.model_speaks.then(|| Meta { model_asked: self.model.clone(), ..Meta::default() });
        let id = item.text("id").map(Cow::into_owned);
        let source = Source { line: line.number, id };
        self.draft.push(line.byte, FoundMessage { raw: raw.to_string(), source, time, meta });
    }

    /// The session introduces itself; what it was told to be becomes its first message.
    fn open(&mut self, line: JsonLine<'_>, session: &Object<'_>, time: Option<Time>) {
        self.known = true;
        self.draft.note(line.number, "session_meta", Some(line.text));
        if std::mem::replace(&mut self.opened, true) {
            return;
        }
        self.draft.head.id = session.text("id").or_else(|| session.text("session_id")).map(Cow::into_owned);
        let parent = session.text("forked_from_id").or_else(|| session.text("parent_thread_id"));
        self.draft.head.parent = parent.map(|id| Parent { id: id.into_owned(), at: None });
        let instructions = session.get("base_instructions").or_else(|| session.get("instructions"));
        let told = instructions.and_then(|told| told.get("text").or(Some(told))).and_then(Raw::string);
        if let Some(told) = told.filter(|told| !told.is_empty()) {
            let part = PrintedObject::new().text("type", "input_text").text("text", &told).end();
            let raw = PrintedObject::new()
                .text("type", "message")
                .text("role", "developer")
                .raw("content", &list(&[part]))
                .end();
            let source = Source { line: line.number, id: None };
            self.draft.push(line.byte, FoundMessage { raw, source, time, meta: None });
        }
    }

    /// A compaction whose text is sealed by the provider leaves no summary, only the note.
    fn compacted(&mut self, line: JsonLine<'_>, compacted: &Object<'_>) {
        let covers = self.draft.found.len();
        if let Some(text) = compacted.text("message").filter(|text| !text.is_empty()) {
            self.draft.say(BetweenEntries::Summary { text: text.into_owned(), covers, by: "codex" });
        }
        self.draft.note(line.number, "compacted", Some(line.text));
    }
}

/// Whether an object is an item of the Responses wire. Snapshots of the work tree are written as if they were.
fn is_item(object: &Object<'_>) -> bool {
    object.text("type").is_some_and(|kind| {
        matches!(kind.as_ref(), "message" | "reasoning" | "compaction" | "compaction_summary")
            || kind.ends_with("_call")
            || kind.ends_with("_call_output")
            || kind.ends_with("_output")
    })
}

/// Whether an object is the first line of the older form: the session, without a type.
fn opens_bare(object: &Object<'_>) -> bool {
    object.get("type").is_none() && object.text("id").is_some() && object.text("timestamp").is_some()
}

/// Whether the model wrote the item.
fn speaks_model(item: &Object<'_>) -> bool {
    let kind = item.text("type").unwrap_or_default();
    match kind.as_ref() {
        "message" => item.text("role").as_deref() == Some("assistant"),
        _ => kind == "reasoning" || kind.ends_with("_call"),
    }
}

/// What the last reply cost. Cached tokens are part of the input there.
fn usage(event: &Object<'_>) -> Option<Usage> {
    let last = event.inner("info")?.get("last_token_usage")?.object().ok()?;
    let cached = last.number("cached_input_tokens");
    Some(Usage {
        input_uncached: last.number("input_tokens").map(|input| input.saturating_sub(cached.unwrap_or(0))),
        cache_read: cached,
        output: last.number("output_tokens"),
        reasoning: last.number("reasoning_output_tokens"),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ROLLOUT: &str = include_str!("../../../../corpus/transcript/codex/rollout.jsonl");
    const BARE: &str = include_str!("../../../../corpus/transcript/codex/bare.jsonl");

    #[test]
    fn items_are_the_record_and_everything_else_is_a_note() {
        let (draft, failed) = found(ROLLOUT).unwrap();
        assert!(looks_like(ROLLOUT) && failed.is_empty());
        assert_eq!(draft.head.id.as_deref(), Some("thread-2"));
        assert_eq!(draft.head.parent, Some(Parent { id: "thread-1".into(), at: None }));
        let lines: Vec<usize> = draft.found.iter().map(|found| found.source.line).collect();
        assert_eq!(lines, [1, 4, 6, 7, 8, 11, 13], "instructions first, then the items");
        assert_eq!(
            draft.found[0].raw,
            r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"You are a coding agent."}]}"#
        );
        assert_eq!(
            draft.found[3].raw,
            r#"{"type":"function_call","name":"shell","arguments":"{\"command\": [\"ls\"]}","call_id":"call_1"}"#,
            "the payload keeps its spelling"
        );
        let notes: Vec<_> = draft.head.notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
        assert_eq!(
            notes,
            [
                (1, "session_meta"),
                (2, "session_meta"),
                (3, "turn_context"),
                (5, "user_message"),
                (9, "token_count"),
                (10, "compacted"),
                (12, "ghost_snapshot"),
                (14, "world_state"),
            ]
        );
    }

    #[test]
    fn the_model_of_the_turn_is_known_of_what_the_model_wrote() {
        let (draft, _) = found(ROLLOUT).unwrap();
        let models: Vec<_> = draft
            .found
            .iter()
            .map(|found| found.meta.as_ref().and_then(|meta| meta.model_asked.as_deref()))
            .collect();
        let model = Some("gpt-5-codex");
        assert_eq!(models, [None, None, model, model, None, None, model]);
    }

    #[test]
    fn a_compaction_is_a_summary_of_all_before_it_and_tokens_belong_to_the_reply() {
        let (draft, _) = found(ROLLOUT).unwrap();
        let usage = Usage {
            input_uncached: Some(80),
            cache_read: Some(20),
            output: Some(9),
            reasoning: Some(4),
            ..Usage::default()
        };
        let summary = BetweenEntries::Summary { text: "Listed the files.".into(), covers: 5, by: "codex" };
        assert_eq!(draft.between, [(5, BetweenEntries::Usage(usage)), (5, summary)]);
    }

    #[test]
    fn the_older_form_has_items_for_lines() {
        let (draft, failed) = found(BARE).unwrap();
        assert!(looks_like(BARE));
        assert_eq!(draft.head.id.as_deref(), Some("old-1"));
        assert_eq!(draft.found.len(), 3, "instructions, user, assistant");
        assert_eq!(
            draft.head.notes.iter().map(|note| note.kind.as_str()).collect::<Vec<_>>(),
            ["session_meta", "state"]
        );
        assert_eq!((failed.len(), failed[0].line), (1, 5), "the line that was cut off");
    }

    #[test]
    fn what_is_no_rollout_is_an_error() {
        for text in ["", "hello", "{\"a\":1}", r#"{"messages":[]}"#] {
            assert!(found(text).is_err() && !looks_like(text), "{text}");
        }
    }

    #[test]
    fn a_rollout_becomes_entries() {
        let read = read(ROLLOUT).unwrap();
        let conversation = &read.conversations[0];
        assert!(read.failed.is_empty(), "{:?}", read.failed);
        let roles: Vec<_> = conversation.entries.iter().map(|entry| entry.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "user", "assistant"]);
        let usage = conversation.entries[2].meta.as_ref().unwrap().usage.as_ref().unwrap();
        assert_eq!(usage.input(), Some(100));
        assert_eq!(conversation.decisions[0].after, 4);
    }
}
