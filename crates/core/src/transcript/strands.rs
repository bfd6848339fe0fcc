//! Strands sessions: a folder with one file a message, or those messages in one list.
//!
//! Every agent of the session is a conversation. What its manager had removed by then becomes a cut, or a summary if
//! it had written one. A redacted message overrides what was said; the original stays as a tag.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::draft::{BetweenEntries, ConversationDraft, finish};
use super::lines::{MemberReaders, not_this_format, object};
use super::print::compact;
use super::{FoundMessage, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Time};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::Wire;

/// Whether the text is a list of session messages.
pub(crate) fn looks_like(text: &str) -> bool {
    let Ok(raw) = json::check(text) else { return false };
    let first = raw.elements().next();
    first.is_some_and(|first| first.get("message").is_some() && first.get("message_id").is_some())
}

/// Reads a list of session messages.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (draft, failed) = found(text)?;
    Ok(finish(vec![draft], Wire::Bedrock, failed))
}

fn found(text: &str) -> Result<(ConversationDraft, Vec<TranscriptError>), TranscriptError> {
    if !looks_like(text) {
        return Err(not_this_format(
            "not Strands messages: expected a list of objects with message and message_id",
        ));
    }
    let raw = json::check(text).map_err(|error| not_this_format(&error.to_string()))?;
    let (mut draft, mut failed) = (ConversationDraft::default(), Vec::new());
    let mut messages: Vec<(u64, usize, Raw<'_>)> = Vec::new();
    for (index, element) in raw.elements().enumerate() {
        let number = element.get("message_id").and_then(|id| id.text().parse().ok()).unwrap_or(index as u64);
        messages.push((number, index + 1, element));
    }
    messages.sort_by_key(|(number, place, _)| (*number, *place));
    for (_, line, element) in messages {
        let byte = element.span_in(text).0 as usize;
        if let Err(problem) = message(&mut draft, line, byte, element) {
            failed.push(TranscriptError { line, byte, problem });
        }
    }
    Ok((draft, failed))
}

/// Reads the files of a session folder, each given by its path within the folder and its text.
pub fn read_folder(files: &[(String, String)]) -> Result<Transcript, TranscriptError> {
    let (drafts, failed) = found_in_folder(files)?;
    Ok(finish(drafts, Wire::Bedrock, failed))
}

/// What the folder holds of one agent.
#[derive(Default)]
struct Agent<'a> {
    about: Option<&'a str>,
    /// Messages by number.
    messages: BTreeMap<u64, &'a str>,
}

fn found_in_folder(
    files: &[(String, String)],
) -> Result<(Vec<ConversationDraft>, Vec<TranscriptError>), TranscriptError> {
    let mut agents: BTreeMap<&str, Agent<'_>> = BTreeMap::new();
    let mut session: Option<&str> = None;
    let mut others: Vec<&(String, String)> = Vec::new();
    for file in files {
        match place(&file.0) {
            Some(StrandsFile::Session) => session = Some(&file.1),
            Some(StrandsFile::Agent(id)) => agents.entry(id).or_default().about = Some(&file.1),
            Some(StrandsFile::Message(id, number)) => {
                agents.entry(id).or_default().messages.insert(number, &file.1);
            }
            None => others.push(file),
        }
    }
    if agents.is_empty() {
        return Err(not_this_format(
            "not a Strands session: the folder has no agents/agent_<id>/ with files",
        ));
    }
    let about = session.and_then(|text| json::check(text).ok());
    let session_id = about.and_then(|about| about.get("session_id")).and_then(Raw::string);
    let (mut drafts, mut failed) = (Vec::new(), Vec::new());
    for (id, agent) in agents {
        drafts.push(read_agent(id, &agent, session_id.as_deref(), &mut failed));
    }
    if let Some(first) = drafts.first_mut() {
        for (name, text) in session
            .map(|text| ("session.json", text))
            .into_iter()
            .chain(others.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        {
            first.note(0, name, Some(text));
        }
    }
    Ok((drafts, failed))
}

/// What a file of the folder is.
enum StrandsFile<'a> {
    Session,
    Agent(&'a str),
    Message(&'a str, u64),
}

/// Tells a file by the end of its path, so that it does not matter where the folder begins.
fn place(path: &str) -> Option<StrandsFile<'_>> {
    let mut steps = path.rsplit(['/', '\\']);
    let name = steps.next()?;
    let folder = steps.next();
    if name == "session.json" {
        return Some(StrandsFile::Session);
    }
    if name == "agent.json" {
        return Some(StrandsFile::Agent(folder?.strip_prefix("agent_")?));
    }
    let number = name.strip_prefix("message_")?.strip_suffix(".json")?.parse().ok()?;
    if folder? != "messages" {
        return None;
    }
    Some(StrandsFile::Message(steps.next()?.strip_prefix("agent_")?, number))
}

fn read_agent(
    id: &str,
    agent: &Agent<'_>,
    session: Option<&str>,
    failed: &mut Vec<TranscriptError>,
) -> ConversationDraft {
    let mut draft = ConversationDraft::default();
    draft.head.id = Some(session.map_or_else(|| id.to_string(), |session| format!("{session}/{id}")));
    // Which messages are gone is said in numbers of messages, the broken ones included.
    let mut numbers = Vec::new();
    for (number, text) in &agent.messages {
        let line = *number as usize + 1;
        let read = json::check(text).map_err(|error| format!("not valid JSON: {error}"));
        match read.and_then(|raw| message(&mut draft, line, 0, raw)) {
            Ok(()) => numbers.push(*number),
            Err(problem) => {
                let problem = format!("agent {id:?}, message_{number}.json: {problem}");
                failed.push(TranscriptError { line, byte: 0, problem });
            }
        }
    }
    let Some(text) = agent.about else { return draft };
    draft.note(0, "agent.json", Some(text));
    match json::check(text).map_err(|error| error.to_string()).and_then(object) {
        Ok(about) => manager_state(&mut draft, &about, &numbers),
        Err(problem) => {
            let problem = format!("agent {id:?}, agent.json: {problem}");
            failed.push(TranscriptError { line: 0, byte: 0, problem });
        }
    }
    draft
}

/// What the agent's manager had taken out of its sight: the first so many messages, perhaps for a summary of them.
fn manager_state(draft: &mut ConversationDraft, about: &Object<'_>, numbers: &[u64]) {
    let Some(state) = about.inner("conversation_manager_state").and_then(|state| state.object().ok()) else {
        return;
    };
    let Some(removed) = state.number("removed_message_count").filter(|removed| *removed > 0) else { return };
    let gone = numbers.partition_point(|number| *number < removed);
    let summary = state.inner("summary_message").and_then(|summary| summary.get("content"));
    match summary {
        Some(content) => {
            let texts = content.elements().filter_map(|block| block.get("text").and_then(Raw::string));
            let text = texts.collect::<Vec<_>>().join("\n");
            draft.say(BetweenEntries::Summary { text, covers: gone, by: "strands" });
        }
        None => draft.say(BetweenEntries::Cut { before: gone, by: "strands" }),
    }
}

/// A session message: what is shown of it, and when it was written.
fn message(draft: &mut ConversationDraft, line: usize, byte: usize, raw: Raw<'_>) -> Result<(), String> {
    let members = object(raw)?;
    let said = members.inner("message").ok_or("there is no `message`")?;
    let mut meta = Meta::default();
    let shown = match members.get("redact_message").filter(|redacted| redacted.kind() == JsonKind::Object) {
        Some(redacted) => {
            meta.tags.insert("strands.redacted_original".into(), compact(said));
            redacted
        }
        None => said,
    };
    draft.note_rest(line, &members, &["message", "message_id", "redact_message", "created_at", "updated_at"]);
    let time = members.text("created_at").and_then(|time| Time::parse(&time));
    let id = members.get("message_id").map(|id| id.string().unwrap_or(Cow::Borrowed(id.text())).into_owned());
    let meta = (meta != Meta::default()).then_some(meta);
    draft.push(byte, FoundMessage { raw: plain_bytes(shown), source: Source { line, id }, time, meta });
    Ok(())
}

/// The key that marks an object as bytes. With its plain quotes it stands in no text, where they would be escaped.
const BYTES: &str = "\"__bytes_encoded__\"";

/// A message in which bytes are base64 texts, as the wire has them, not `{"__bytes_encoded__": true, "data": "…"}`.
fn plain_bytes(raw: Raw<'_>) -> String {
    let mut parts = raw.text().split(BYTES);
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let open = out.trim_end().strip_suffix('{').map(str::len);
        if let (Some(open), Some((data, rest))) = (open, encoded(part)) {
            out.truncate(open);
            out.extend(["\"", data, "\"", rest]);
        } else {
            out.extend([BYTES, part]);
        }
    }
    out
}

/// The base64 text of an object that is marked as bytes, and what follows it.
fn encoded(after_mark: &str) -> Option<(&str, &str)> {
    let mut rest = after_mark;
    for token in [":", "true", ",", "\"data\"", ":", "\""] {
        rest = rest.trim_start().strip_prefix(token)?;
    }
    let (data, rest) = rest.split_once('"')?;
    Some((data, rest.trim_start().strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const AGENT: &str = include_str!("../../../../corpus/transcript/strands/agents/agent_default/agent.json");
    const MESSAGES: [&str; 4] = [
        include_str!("../../../../corpus/transcript/strands/agents/agent_default/messages/message_0.json"),
        include_str!("../../../../corpus/transcript/strands/agents/agent_default/messages/message_1.json"),
        include_str!("../../../../corpus/transcript/strands/agents/agent_default/messages/message_2.json"),
        include_str!("../../../../corpus/transcript/strands/agents/agent_default/messages/message_10.json"),
    ];
    const SESSION: &str = include_str!("../../../../corpus/transcript/strands/session.json");

    fn folder() -> Vec<(String, String)> {
        let at = "session_s1/agents/agent_default";
        let mut files = vec![
            ("session_s1/session.json".to_string(), SESSION.to_string()),
            (format!("{at}/agent.json"), AGENT.to_string()),
            ("session_s1/multi_agents/graph.json".to_string(), "{}".to_string()),
        ];
        for (number, text) in [10, 2, 1, 0].into_iter().zip(MESSAGES.iter().rev()) {
            files.push((format!("{at}/messages/message_{number}.json"), (*text).to_string()));
        }
        files
    }

    #[test]
    fn messages_stand_in_the_order_of_their_numbers() {
        let (drafts, failed) = found_in_folder(&folder()).unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        let draft = &drafts[0];
        assert_eq!(draft.head.id.as_deref(), Some("s1/default"));
        let ids: Vec<_> = draft.found.iter().filter_map(|found| found.source.id.as_deref()).collect();
        assert_eq!(ids, ["0", "1", "2", "10"], "10 comes after 2");
        assert_eq!(draft.found[0].time, Time::parse("2026-01-05T10:00:00.250Z"));
        let notes: Vec<&str> = draft.head.notes.iter().map(|note| note.kind.as_str()).collect();
        assert_eq!(notes, ["agent.json", "session.json", "session_s1/multi_agents/graph.json"]);
    }

    #[test]
    fn a_redacted_message_overrides_and_the_original_stays_as_a_tag() {
        let (drafts, _) = found_in_folder(&folder()).unwrap();
        let redacted = &drafts[0].found[2];
        assert_eq!(redacted.raw, r#"{"role": "user", "content": [{"text": "[redacted]"}]}"#);
        assert_eq!(
            redacted.meta.as_ref().unwrap().tags["strands.redacted_original"],
            r#"{"role":"user","content":[{"text":"my number is 12"}]}"#
        );
    }

    #[test]
    fn bytes_are_base64_texts_as_on_the_wire() {
        let (drafts, _) = found_in_folder(&folder()).unwrap();
        assert_eq!(
            drafts[0].found[0].raw,
            r#"{"role": "user", "content": [{"text": "{\"__bytes_encoded__\": true}"}, {"image": {"format": "png", "source": {"bytes": "iVBO"}}}, {"image": {"format": "png", "source": {"bytes":"Rw=="}}}]}"#
        );
    }

    #[test]
    fn what_the_manager_removed_is_a_cut_or_a_summary() {
        let (drafts, _) = found_in_folder(&folder()).unwrap();
        assert_eq!(drafts[0].between, [(4, BetweenEntries::Cut { before: 2, by: "strands" })]);
        let mut files = folder();
        files[1].1 = r#"{"agent_id":"default","conversation_manager_state":{"__name__":"SummarizingConversationManager",
            "removed_message_count":3,"summary_message":{"role":"user","content":[{"text":"They spoke."}]}}}"#
            .into();
        let (drafts, _) = found_in_folder(&files).unwrap();
        let summary = BetweenEntries::Summary { text: "They spoke.".into(), covers: 3, by: "strands" };
        assert_eq!(drafts[0].between, [(4, summary)]);
    }

    #[test]
    fn a_broken_file_fails_alone_and_the_count_stays_right() {
        let mut files = folder();
        files.last_mut().unwrap().1.truncate(20);
        let (drafts, failed) = found_in_folder(&files).unwrap();
        assert_eq!(failed.len(), 1);
        assert!(
            failed[0].problem.starts_with("agent \"default\", message_0.json: not valid JSON"),
            "{}",
            failed[0]
        );
        assert_eq!(drafts[0].between, [(3, BetweenEntries::Cut { before: 1, by: "strands" })]);
    }

    #[test]
    fn a_list_in_one_file_reads_the_same() {
        let text = format!("[{},{},{}]", MESSAGES[2], MESSAGES[0], MESSAGES[1]);
        let (draft, failed) = found(&text).unwrap();
        assert!(looks_like(&text) && failed.is_empty());
        let ids: Vec<_> = draft.found.iter().filter_map(|found| found.source.id.as_deref()).collect();
        assert_eq!(ids, ["0", "1", "2"]);
        for other in ["", "[]", "[1]", "{}"] {
            assert!(found(other).is_err() && !looks_like(other), "{other}");
        }
        assert!(found_in_folder(&[("notes.txt".into(), String::new())]).is_err());
    }

    #[test]
    fn a_folder_becomes_entries() {
        let read = read_folder(&folder()).unwrap();
        let roles: Vec<_> = read.conversations[0].entries.iter().map(|entry| entry.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        assert!(read.failed.is_empty() && read.conversations[0].decisions.len() == 1);
    }
}
