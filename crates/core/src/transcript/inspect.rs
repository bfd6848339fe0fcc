//! Inspect: evaluation logs, whose samples hold messages in a shape of their own, close to chat.

use std::collections::BTreeMap;

use super::chat::{self, ChatMessage, Writing, call, compact, literal};
use super::values::{
    JsonAt, each_record, first_record, has_key, has_list, id_of, leave_notes, note, other_members,
};
use super::{FoundMessage, Note, Source, Transcript, TranscriptError};
use crate::entry::Meta;
use crate::json::{JsonKind, Object, Raw};

/// Whether the text is an evaluation log with samples, or one sample.
pub(crate) fn looks_like(text: &str) -> bool {
    let is_log = |log: Raw<'_>| has_list(log, "samples") && log.get("eval").is_some();
    let is_sample = |sample: Raw<'_>| {
        has_list(sample, "messages")
            && ["epoch", "input", "target"].iter().all(|key| sample.get(key).is_some())
    };
    (has_key(text, "samples") || has_key(text, "epoch"))
        && first_record(text).is_some_and(|record| is_log(record) || is_sample(record))
}

/// Reads one conversation per sample; its id is `id/epoch`. What a log says about all of them stays with the first.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    each_record(text, |record, transcript| {
        let log = record.object("an evaluation log or a sample")?;
        let Some(samples) = log.get("samples").filter(|samples| samples.kind() == JsonKind::Array) else {
            return read_sample(record, record.raw, transcript);
        };
        let mut of_log = Transcript::default();
        for sample in samples.elements() {
            let read = read_sample(record, sample, &mut of_log);
            of_log.failed.extend(read.err());
        }
        leave_notes(&mut of_log, other_members(&log, &["samples"]));
        transcript.conversations.append(&mut of_log.conversations);
        transcript.failed.append(&mut of_log.failed);
        Ok(())
    })
}

/// One sample of a record.
fn read_sample(
    record: JsonAt<'_>,
    sample: Raw<'_>,
    transcript: &mut Transcript,
) -> Result<(), TranscriptError> {
    let bad = |problem: &str| record.error(sample, problem.into());
    let members = sample.object().map_err(|_| bad("a key appears twice in the sample"))?;
    let list = members
        .get("messages")
        .filter(|list| list.kind() == JsonKind::Array)
        .ok_or_else(|| bad("the sample has no list `messages`"))?;
    let mut notes = Vec::new();
    let messages = list.elements().enumerate().map(|(index, from)| {
        let found = message(index + 1, from, &mut notes);
        ChatMessage { found, record, from }
    });
    let mut conversation = chat::conversation(messages.collect(), &mut transcript.failed);
    conversation.id = match (id_of(members.get("id")), id_of(members.get("epoch"))) {
        (Some(id), Some(epoch)) => Some(format!("{id}/{epoch}")),
        (id, _) => id,
    };
    conversation.notes.extend(notes);
    conversation.notes.extend(other_members(&members, &["id", "epoch", "messages"]));
    transcript.conversations.push(conversation);
    Ok(())
}

/// A message in the chat form: members in their order, those the wire writes otherwise written its way.
fn message(place: usize, raw: Raw<'_>, notes: &mut Vec<Note>) -> FoundMessage {
    let mut found = FoundMessage {
        raw: raw.text().into(),
        source: Source { line: place, id: None },
        ..FoundMessage::default()
    };
    // What is no object, or has a key twice, is refused by the wire, which says so.
    let Ok(message) = raw.object() else { return found };
    let text = |key: &str| message.get(key).and_then(Raw::string);
    found.source.id = id_of(message.get("id"));
    let mut tags = BTreeMap::new();
    let mut out = Writing::new();
    let mut changed = false;
    for (key, value) in message.members() {
        let written = match (key.as_ref(), value.kind()) {
            ("content", JsonKind::Array) => content(place, *value, notes),
            ("tool_calls", JsonKind::Array) => calls(place, *value, &mut tags, notes),
            _ => None,
        };
        changed |= written.is_some();
        out = out.raw(key, written.as_deref().unwrap_or(value.text()));
    }
    if let Some(reasoning) = reasoning(&message) {
        out = out.text("reasoning_content", &reasoning);
        changed = true;
    }
    if let (Some("tool"), Some(function), None) =
        (text("role").as_deref(), text("function"), message.get("name"))
    {
        out = out.text("name", &function);
        changed = true;
    }
    if changed {
        found.raw = out.end();
    }
    if let Some(error) = message.get("error").filter(|error| error.kind() != JsonKind::Null) {
        let kind = error.get("type").and_then(Raw::string);
        tags.insert(
            "inspect.error".into(),
            kind.map_or_else(|| "unknown".into(), std::borrow::Cow::into_owned),
        );
    }
    let model = text("model").map(std::borrow::Cow::into_owned);
    if model.is_some() || !tags.is_empty() {
        found.meta = Some(Meta { model_served: model, tags, ..Meta::default() });
    }
    found
}

/// Parts of a content list in the chat form; none if they are that already. Reasoning moves beside the content, and
/// what the wire cannot hold of it stays as a note.
fn content(place: usize, list: Raw<'_>, notes: &mut Vec<Note>) -> Option<String> {
    let mut parts = Vec::new();
    let mut changed = false;
    for part in list.elements() {
        let kind = part.get("type").and_then(Raw::string);
        let written = match kind.as_deref() {
            Some("reasoning") => {
                let more = ["signature", "redacted", "summary"].iter().filter_map(|key| part.get(key));
                if more.into_iter().any(|value| !matches!(value.text(), "null" | "false")) {
                    notes.push(note(place, "reasoning", part));
                }
                changed = true;
                continue;
            }
            Some("image") => image(part),
            Some("audio") => audio(part),
            _ => None,
        };
        changed |= written.is_some();
        parts.push(written.unwrap_or_else(|| part.text().into()));
    }
    changed.then(|| if parts.is_empty() { "null".into() } else { format!("[{}]", parts.join(",")) })
}

fn image(part: Raw<'_>) -> Option<String> {
    let url = part.get("image").filter(|url| url.kind() == JsonKind::String)?;
    let mut image = Writing::new().raw("url", url.text());
    if let Some(detail) = part.get("detail").filter(|detail| detail.kind() == JsonKind::String) {
        image = image.raw("detail", detail.text());
    }
    Some(Writing::new().text("type", "image_url").raw("image_url", &image.end()).end())
}

/// Sound that stands in the message itself; a path or an address stays as it is.
fn audio(part: Raw<'_>) -> Option<String> {
    let data = part.get("audio")?.string()?;
    let (_, base64) = data.strip_prefix("data:")?.split_once(";base64,")?;
    let mut audio = Writing::new().text("data", base64);
    if let Some(format) = part.get("format") {
        audio = audio.raw("format", format.text());
    }
    Some(Writing::new().text("type", "input_audio").raw("input_audio", &audio.end()).end())
}

/// The thoughts among the parts, joined; none if there are none.
fn reasoning(message: &Object<'_>) -> Option<String> {
    let parts = message.get("content")?.elements();
    let thoughts: Vec<_> = parts
        .filter(|part| part.get("type").and_then(Raw::string).as_deref() == Some("reasoning"))
        .filter_map(|part| part.get("reasoning")?.string())
        .collect();
    (!thoughts.is_empty()).then(|| thoughts.join("\n"))
}

/// Calls in the chat form; none if there are none. Arguments were parsed by the source, so they are printed again, and
/// that is tagged. A call that says more than the wire can hold is noted.
fn calls(
    place: usize,
    list: Raw<'_>,
    tags: &mut BTreeMap<String, String>,
    notes: &mut Vec<Note>,
) -> Option<String> {
    let mut out: Vec<String> = Vec::new();
    for each in list.elements() {
        let text = |key: &str| each.get(key).and_then(Raw::string);
        // A call that names its function by a text is of Inspect's form; any other is left to the wire.
        let (Some(name), Some(arguments)) = (text("function"), each.get("arguments")) else {
            out.push(each.text().into());
            continue;
        };
        let arguments = if arguments.kind() == JsonKind::String {
            arguments.text().into()
        } else {
            tags.insert("inspect.args".into(), "reprinted".into());
            literal(&compact(arguments))
        };
        out.push(call(&text("id").unwrap_or_default(), &name, &arguments));
        let says_more = |(key, value): (std::borrow::Cow<'_, str>, Raw<'_>)| match key.as_ref() {
            "id" | "function" | "arguments" => false,
            "type" => value.text() != "\"function\"",
            _ => value.kind() != JsonKind::Null,
        };
        if each.members().any(says_more) {
            notes.push(note(place, "tool_call", each));
        }
    }
    (!out.is_empty()).then(|| format!("[{}]", out.join(",")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::block::BlockKind;

    const LOG: &str = include_str!("../../../../corpus/transcript/inspect/log.json");

    #[test]
    fn messages_become_chat_messages() {
        assert!(looks_like(LOG));
        let transcript = read(LOG).unwrap();
        let sample = &transcript.conversations[0];
        assert_eq!(sample.id.as_deref(), Some("s1/2"));
        assert_eq!(sample.sources[3], Source { line: 4, id: Some("d".into()) });
        let kinds = |at: usize| sample.entries[at].blocks.iter().map(|block| &block.kind).collect::<Vec<_>>();
        assert!(matches!(kinds(1)[..], [BlockKind::Text(_), BlockKind::Media(_), BlockKind::Media(_)]));
        assert!(matches!(
            kinds(2)[..],
            [BlockKind::Reasoning(_), BlockKind::Text(_), BlockKind::ToolCall(_)]
        ));
        let call = sample.entries[2].tool_calls().next().unwrap();
        assert_eq!(
            (&*call.name.as_str(), &*call.arguments.as_str()),
            ("bash", r#"{"cmd":"file a.png","n":1.50}"#)
        );
        let meta = sample.entries[2].meta.as_ref().unwrap();
        assert_eq!(
            (meta.tags["inspect.args"].as_str(), meta.model_served.as_deref()),
            ("reprinted", Some("some-model"))
        );
    }

    #[test]
    fn results_keep_name_and_error_and_need_no_call() {
        let transcript = read(LOG).unwrap();
        let [.., failed, orphan] = &transcript.conversations[0].entries[..] else { panic!("two results") };
        assert_eq!(failed.tool_name().as_deref(), Some("bash"));
        assert_eq!(failed.meta.as_ref().unwrap().tags["inspect.error"], "timeout");
        assert_eq!(orphan.tool_call_id().as_deref(), Some("bash_9"));
        assert!(orphan.meta.is_none());
    }

    #[test]
    fn what_is_no_message_is_noted_and_a_sample_without_messages_fails_alone() {
        let transcript = read(LOG).unwrap();
        let kinds: Vec<_> = transcript.conversations[0].notes.iter().map(|note| note.kind.as_str()).collect();
        assert_eq!(
            kinds,
            ["reasoning", "tool_call", "input", "target", "scores", "version", "status", "eval"]
        );
        assert_eq!(transcript.conversations.len(), 1);
        assert!(LOG.lines().nth(transcript.failed[0].line - 1).unwrap().trim() == "{");
        assert!(transcript.failed[0].problem.contains("no list `messages`"));
    }

    #[test]
    fn a_sample_alone_is_read_and_a_message_that_needs_nothing_stays_verbatim() {
        let text = r#"{"id": 1, "epoch": 1, "input": "x", "target": "", "messages": [{"role": "user",  "content": "x"}]}"#;
        assert!(looks_like(text));
        let transcript = read(text).unwrap();
        assert_eq!(
            transcript.conversations[0].entries[0].origin.raw.as_ref(),
            r#"{"role": "user",  "content": "x"}"#
        );
    }
}
