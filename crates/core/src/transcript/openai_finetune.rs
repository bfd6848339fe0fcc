//! Training examples for `OpenAI` models: every line is a conversation.
//!
//! A preference example is the conversation with the preferred answer; the other answer is a fork of it.

use super::draft::{ConversationDraft, finish};
use super::lines::{JsonLine, MemberReaders, first_objects, lines, not_this_format};
use super::{FoundMessage, Parent, ReadConversation, Source, Transcript, TranscriptError, tools_of};
use crate::entry::Meta;
use crate::json::{Object, Raw};
use crate::wire::Wire;

/// Whether the text is a set of examples. One line of `messages` alone is an ordinary request as well, and read as such.
pub(crate) fn looks_like(text: &str) -> bool {
    let pair = |line: &Object<'_>| line.get("preferred_output").is_some() && line.get("input").is_some();
    let mut examples = 0;
    for line in first_objects(text) {
        if pair(&line) {
            return true;
        }
        let first = line.list("messages").and_then(|list| list.elements().next());
        if first.is_none_or(|message| message.get("role").is_none()) {
            return false;
        }
        examples += 1;
    }
    examples > 1
}

/// Reads a set of examples.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (drafts, failed) = found(text)?;
    Ok(finish(drafts, Wire::OpenaiChat, failed))
}

fn found(text: &str) -> Result<(Vec<ConversationDraft>, Vec<TranscriptError>), TranscriptError> {
    let (mut drafts, mut failed) = (Vec::new(), Vec::new());
    let mut examples = 0;
    for line in lines(text) {
        match line.object().and_then(|members| example(line, &members)) {
            Ok(found) => {
                examples += 1;
                drafts.extend(found);
            }
            Err(error) => failed.push(error),
        }
    }
    if examples == 0 {
        let problem = "not fine-tuning examples: no line has `messages` or `preferred_output`";
        return Err(failed.into_iter().next().unwrap_or_else(|| not_this_format(problem)));
    }
    Ok((drafts, failed))
}

/// The conversations of one line.
pub(super) fn conversations(
    line: JsonLine<'_>,
    members: &Object<'_>,
    failed: &mut Vec<TranscriptError>,
) -> Result<Vec<ReadConversation>, TranscriptError> {
    let drafts = example(line, members)?;
    Ok(drafts.into_iter().map(|draft| draft.finish(Wire::OpenaiChat, failed)).collect())
}

/// The conversation of a line, and the answer that was not preferred as a fork of it.
fn example(line: JsonLine<'_>, members: &Object<'_>) -> Result<Vec<ConversationDraft>, TranscriptError> {
    let mut draft = ConversationDraft::default();
    draft.head.id = Some(line.number.to_string());
    if let Some(messages) = members.list("messages") {
        push_all(&mut draft, line, messages);
        draft.head.tools = members.list("tools").and_then(tools_of);
        draft.note_rest(line.number, members, &["messages", "tools"]);
        return Ok(vec![draft]);
    }
    let (Some(input), Some(preferred)) = (members.inner("input"), members.list("preferred_output")) else {
        return Err(line.error("the line has neither `messages` nor `input` with `preferred_output`".into()));
    };
    let input =
        input.object().map_err(|key| line.error(format!("the key {key:?} appears twice in `input`")))?;
    push_all(&mut draft, line, input.list("messages").unwrap_or(Raw::trusted("[]")));
    let at = draft.found.last().and_then(|found| found.source.id.clone());
    let mut fork = ConversationDraft::default();
    fork.head.id = Some(format!("{}/non_preferred", line.number));
    fork.head.parent = Some(Parent { id: line.number.to_string(), at });
    push_all(&mut draft, line, preferred);
    draft.head.tools = input.list("tools").and_then(tools_of);
    draft.note_rest(line.number, &input, &["messages", "tools"]);
    draft.note_rest(line.number, members, &["input", "preferred_output", "non_preferred_output"]);
    let Some(other) = members.list("non_preferred_output") else { return Ok(vec![draft]) };
    push_all(&mut fork, line, other);
    for (number, found) in fork.found.iter_mut().enumerate() {
        found.source.id = Some(format!("{}.non_preferred.{number}", line.number));
    }
    Ok(vec![draft, fork])
}

/// Messages of a line are told apart by line and place, since they have no ids.
fn push_all(draft: &mut ConversationDraft, line: JsonLine<'_>, messages: Raw<'_>) {
    for message in messages.elements() {
        let weight = message.get("weight").map(|weight| {
            let mut meta = Meta::default();
            meta.tags.insert("openai-finetune.weight".into(), weight.text().into());
            meta
        });
        let id = Some(format!("{}.{}", line.number, draft.found.len()));
        let byte = line.byte + message.span_in(line.text).0 as usize;
        let source = Source { line: line.number, id };
        draft.push(byte, FoundMessage { raw: message.text().to_string(), source, time: None, meta: weight });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CHAT: &str = include_str!("../../../../corpus/transcript/openai-finetune/chat.jsonl");
    const PREFERENCE: &str = include_str!("../../../../corpus/transcript/openai-finetune/preference.jsonl");

    #[test]
    fn every_line_is_a_conversation_and_weights_stay() {
        let read = read(CHAT).unwrap();
        assert!(looks_like(CHAT));
        assert_eq!(read.conversations.len(), 2);
        let first = &read.conversations[0];
        assert_eq!(first.entries[1].meta.as_ref().unwrap().tags["openai-finetune.weight"], "0");
        assert!(first.entries[1].origin.raw.contains("\"weight\": 0"), "the message keeps its spelling");
        assert_eq!(first.tools.as_ref().unwrap().names(), ["weather"]);
        assert_eq!(first.notes[0].kind, "parallel_tool_calls");
        assert_eq!((read.failed.len(), read.failed[0].line), (1, 2), "a broken line fails alone");
        assert_eq!(read.conversations[1].sources[0].line, 3);
    }

    #[test]
    fn the_answer_that_was_not_preferred_is_a_fork() {
        let read = read(PREFERENCE).unwrap();
        assert!(looks_like(PREFERENCE));
        let texts: Vec<Vec<_>> = read
            .conversations
            .iter()
            .map(|conversation| conversation.entries.iter().filter_map(crate::Entry::content).collect())
            .collect();
        assert_eq!(texts, [vec!["hello", "Good day!"], vec!["what"]]);
        let parent = read.conversations[1].parent.as_ref().unwrap();
        assert_eq!(Some(&parent.id), read.conversations[0].id.as_ref());
        assert_eq!(parent.at, read.conversations[0].sources[0].id);
    }

    #[test]
    fn one_request_on_one_line_is_not_claimed() {
        let request = r#"{"messages":[{"role":"user","content":"x"}]}"#;
        assert!(!looks_like(request));
        assert_eq!(read(request).unwrap().conversations.len(), 1, "but can be asked for");
        assert!(read("{}").is_err() && read("").is_err() && read("words").is_err());
    }

    #[test]
    fn a_bad_message_is_reported_where_it_stands() {
        let text = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"bard\"}]}\n";
        let read = read(text).unwrap();
        assert_eq!((read.failed[0].line, read.failed[0].byte), (1, 43));
        assert_eq!(read.conversations[0].entries.len(), 1);
    }
}
