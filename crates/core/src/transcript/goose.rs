//! goose sessions: JSON lines after a line about the session, or the rows of its database.
//!
//! Its messages have the shape of Anthropic's with other names: requests become calls, responses results. What a
//! message holds for people only (confirmations, notifications) is kept as a note.

use std::borrow::Cow;

use super::draft::{ConversationDraft, finish};
use super::lines::{JsonLine, MemberReaders, first_objects, lines, not_this_format, object};
use super::print::{PrintedObject, list};
use super::{FoundMessage, ReadConversation, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Time};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::Wire;

/// Beyond this, a number of seconds would be the year 5138: it counts milliseconds.
const MAX_SECONDS: i64 = 99_999_999_999;

/// A row of the table `messages`.
#[derive(Clone, Debug, Default)]
pub struct GooseRow {
    /// `message_id`, where the database has one.
    pub message_id: Option<String>,
    /// `user` or `assistant`.
    pub role: String,
    /// `content_json`: a list of parts.
    pub content_json: String,
    /// `created_timestamp`, in seconds.
    pub created: i64,
    /// `metadata_json`: who sees the message.
    pub metadata_json: Option<String>,
}

/// Whether the text is a session: after the line about it, messages with the second in which they were written.
pub(crate) fn looks_like(text: &str) -> bool {
    first_objects(text).any(|line| {
        line.text("role").is_some() && line.list("content").is_some() && line.number("created").is_some()
    })
}

/// Reads a session in JSON lines.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (draft, failed) = found(text)?;
    Ok(finish(vec![draft], Wire::Anthropic, failed))
}

/// Reads the rows of one session, in the order of the database.
pub fn read_rows(session_id: &str, title: Option<&str>, rows: &[GooseRow]) -> Transcript {
    let (mut draft, failed) = found_rows(rows);
    draft.head.id = Some(session_id.to_string());
    draft.head.title = title.map(Into::into);
    finish(vec![draft], Wire::Anthropic, failed)
}

fn found(text: &str) -> Result<(ConversationDraft, Vec<TranscriptError>), TranscriptError> {
    let (mut draft, mut failed) = (ConversationDraft::default(), Vec::new());
    for line in lines(text) {
        if let Err(error) = line.object().and_then(|members| read_line(&mut draft, line, &members)) {
            failed.push(error);
        }
    }
    if draft.found.is_empty() && draft.head.notes.is_empty() {
        let problem = "not a goose session: no line is a message or about the session";
        return Err(failed.into_iter().next().unwrap_or_else(|| not_this_format(problem)));
    }
    Ok((draft, failed))
}

/// A session, read line by line.
#[derive(Default)]
pub(super) struct GooseSession {
    draft: ConversationDraft,
}

impl GooseSession {
    /// Messages that were not handed over yet.
    pub(super) fn len(&self) -> usize {
        self.draft.found.len()
    }

    pub(super) fn line(&mut self, line: JsonLine<'_>, members: &Object<'_>) -> Result<(), TranscriptError> {
        read_line(&mut self.draft, line, members)
    }

    /// What was read so far.
    pub(super) fn take(&mut self, failed: &mut Vec<TranscriptError>) -> ReadConversation {
        let mut rest = ConversationDraft::default();
        rest.head.id.clone_from(&self.draft.head.id);
        std::mem::replace(&mut self.draft, rest).finish(Wire::Anthropic, failed)
    }
}

fn read_line(
    draft: &mut ConversationDraft,
    line: JsonLine<'_>,
    members: &Object<'_>,
) -> Result<(), TranscriptError> {
    if let (Some(role), Some(content)) = (members.text("role"), members.get("content")) {
        let created = members.get("created").and_then(|created| created.text().parse().ok());
        let message = GooseMessage {
            line: line.number,
            byte: line.byte,
            id: members.text("id").map(Cow::into_owned),
            role: &role,
            content,
            created,
            metadata: members.inner("metadata"),
        };
        message.push(draft).map_err(|problem| line.error(problem))?;
        draft.note_rest(line.number, members, &["id", "role", "content", "created", "metadata"]);
        return Ok(());
    }
    let about = ["working_dir", "description", "message_count", "session_id"];
    if !about.iter().any(|key| members.get(key).is_some()) {
        return Err(line.error("neither a message nor about the session".into()));
    }
    draft.head.id = members.text("id").or_else(|| members.text("session_id")).map(Cow::into_owned);
    let title = members.text("name").or_else(|| members.text("description"));
    draft.head.title = title.filter(|title| !title.is_empty()).map(Cow::into_owned);
    draft.note(line.number, "session", Some(line.text));
    Ok(())
}

fn found_rows(rows: &[GooseRow]) -> (ConversationDraft, Vec<TranscriptError>) {
    let (mut draft, mut failed) = (ConversationDraft::default(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let read = || {
            let content = json::check(&row.content_json).map_err(|error| format!("content_json: {error}"))?;
            let metadata = row.metadata_json.as_deref().map(json::check).transpose();
            let metadata = metadata.map_err(|error| format!("metadata_json: {error}"))?;
            Ok(GooseMessage {
                line: index + 1,
                byte: 0,
                id: row.message_id.clone(),
                role: &row.role,
                content,
                created: Some(row.created),
                metadata,
            })
        };
        let pushed = read().and_then(|message: GooseMessage<'_>| message.push(&mut draft));
        if let Err(problem) = pushed {
            failed.push(TranscriptError { line: index + 1, byte: 0, problem });
        }
    }
    (draft, failed)
}

/// A message, from a line or a row.
struct GooseMessage<'a> {
    line: usize,
    byte: usize,
    id: Option<String>,
    role: &'a str,
    content: Raw<'a>,
    created: Option<i64>,
    metadata: Option<Raw<'a>>,
}

impl GooseMessage<'_> {
    fn push(self, draft: &mut ConversationDraft) -> Result<(), String> {
        if self.content.kind() != JsonKind::Array {
            return Err(format!("the content must be a list, not {}", self.content.kind().name()));
        }
        let mut parts = Vec::new();
        for part in self.content.elements() {
            let part_members = object(part).map_err(|problem| format!("a part of the content: {problem}"))?;
            let kind = part_members.text("type").unwrap_or(Cow::Borrowed("unknown"));
            match block(&kind, &part_members) {
                Some(block) => parts.push(block),
                None => draft.note(self.line, kind, Some(part.text())),
            }
        }
        let mut meta = Meta::default();
        for flag in ["agentVisible", "userVisible"] {
            if self
                .metadata
                .and_then(|metadata| metadata.get(flag))
                .is_some_and(|seen| seen.text() == "false")
            {
                meta.tags.insert(format!("goose.{flag}"), "false".into());
                if flag == "agentVisible" {
                    draft.note(self.line, "agentVisible=false: the model was not shown this message", None);
                }
            }
        }
        if parts.is_empty() {
            // Every part is a note by now; a message of nothing would be refused by the wire.
            return Ok(());
        }
        let raw = PrintedObject::message(self.role).raw("content", &list(&parts)).end();
        let time = self.created.map(|created| {
            Time(if created.abs() > MAX_SECONDS { created } else { created.saturating_mul(1000) })
        });
        let meta = (meta != Meta::default()).then_some(meta);
        draft.push(
            self.byte,
            FoundMessage { raw, source: Source { line: self.line, id: self.id }, time, meta },
        );
        Ok(())
    }
}

/// A part as a block of Anthropic's; none if the model has no use for it.
fn block(kind: &str, part: &Object<'_>) -> Option<String> {
    let typed = |word: &str| PrintedObject::new().text("type", word);
    Some(match kind {
        "text" => typed("text").maybe("text", part.get("text")).end(),
        "image" => image(part.get("data")?, part.get("mimeType")?),
        "thinking" => typed("thinking")
            .maybe("thinking", part.get("thinking"))
            .maybe("signature", part.get("signature"))
            .end(),
        "redactedThinking" => typed("redacted_thinking").maybe("data", part.get("data")).end(),
        "toolRequest" | "frontendToolRequest" => {
            // A request that could not be read has no name to be called by.
            let call = part.inner("toolCall")?.get("value")?;
            let input = call.get("arguments").filter(|input| input.kind() == JsonKind::Object);
            typed("tool_use")
                .maybe("id", part.get("id"))
                .raw("name", call.get("name")?.text())
                .raw("input", input.map_or("{}", Raw::text))
                .end()
        }
        "toolResponse" => {
            let result = part.inner("toolResult")?;
            let printed = typed("tool_result").maybe("tool_use_id", part.get("id"));
            if result.get("status").and_then(Raw::string).as_deref() == Some("error") {
                let error = result.get("error").filter(|error| error.kind() == JsonKind::String);
                return Some(printed.maybe("content", error).raw("is_error", "true").end());
            }
            let value = result.get("value")?;
            // Older sessions have the list of contents where newer ones have an object around it.
            let contents = if value.kind() == JsonKind::Array { value } else { value.get("content")? };
            let blocks: Vec<String> = contents.elements().map(inner_block).collect();
            let printed = printed.raw("content", &list(&blocks));
            match value.get("isError").filter(|failed| failed.text() == "true") {
                Some(_) => printed.raw("is_error", "true").end(),
                None => printed.end(),
            }
        }
        _ => return None,
    })
}

fn image(data: Raw<'_>, mime: Raw<'_>) -> String {
    let source = PrintedObject::new()
        .text("type", "base64")
        .raw("media_type", mime.text())
        .raw("data", data.text())
        .end();
    PrintedObject::new().text("type", "image").raw("source", &source).end()
}

/// A content inside a result: texts, images and resources are MCP's; anything else stays as it is.
fn inner_block(content: Raw<'_>) -> String {
    let kind = content.get("type").and_then(Raw::string).unwrap_or_default();
    let text = match kind.as_ref() {
        "text" => content.get("text"),
        "resource" => content.get("resource").and_then(|resource| resource.get("text")),
        _ => None,
    };
    if let Some(text) = text {
        return PrintedObject::new().text("type", "text").raw("text", text.text()).end();
    }
    match (kind.as_ref(), content.get("data"), content.get("mimeType")) {
        ("image", Some(data), Some(mime)) => image(data, mime),
        _ => content.text().to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SESSION: &str = include_str!("../../../../corpus/transcript/goose/session.jsonl");

    #[test]
    fn requests_become_calls_and_responses_results() {
        let (draft, failed) = found(SESSION).unwrap();
        assert!(looks_like(SESSION));
        assert_eq!(draft.head.title.as_deref(), Some("Listing files"));
        let raws: Vec<&str> = draft.found.iter().map(|found| found.raw.as_str()).collect();
        assert_eq!(
            raws,
            [
                r#"{"role":"user","content":[{"type":"text","text":"which files?"}]}"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"ls","signature":"sig=="},{"type":"redacted_thinking","data":"xx"},{"type":"tool_use","id":"t1","name":"shell","input":{"command": "ls"}},{"type":"tool_use","id":"t2","name":"shell","input":{}}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"README"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]},{"type":"tool_result","tool_use_id":"t2","content":"-32603: no shell","is_error":true}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"One file."}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t3","content":[{"type":"text","text":"new shape"}],"is_error":true}]}"#,
            ]
        );
        assert_eq!(draft.found[0].time, Some(Time(1_740_171_566_000)));
        assert_eq!((failed.len(), failed[0].line), (1, 8), "the line that was cut off");
    }

    #[test]
    fn who_sees_a_message_is_a_tag_and_what_is_for_people_a_note() {
        let (draft, _) = found(SESSION).unwrap();
        let tags = |at: usize| draft.found[at].meta.as_ref().map(|meta| meta.tags.keys().collect::<Vec<_>>());
        assert_eq!(tags(0), None);
        assert_eq!(tags(3).unwrap(), ["goose.agentVisible"]);
        assert_eq!(tags(4).unwrap(), ["goose.userVisible"]);
        let notes: Vec<_> = draft.head.notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
        assert_eq!(
            notes,
            [
                (1, "session"),
                (5, "systemNotification"),
                (5, "agentVisible=false: the model was not shown this message"),
                (6, "toolRequest"),
            ]
        );
    }

    #[test]
    fn rows_of_the_database_read_the_same() {
        let row = |content: &str| GooseRow {
            message_id: Some("m1".into()),
            role: "user".into(),
            content_json: content.into(),
            created: 1_740_171_566,
            metadata_json: Some(r#"{"userVisible":true,"agentVisible":false}"#.into()),
        };
        let (draft, failed) = found_rows(&[row(r#"[{"type":"text","text":"hi"}]"#), row("[{"), row("{}")]);
        assert_eq!(draft.found.len(), 1);
        assert_eq!(draft.found[0].source, Source { line: 1, id: Some("m1".into()) });
        assert_eq!(draft.found[0].meta.as_ref().unwrap().tags["goose.agentVisible"], "false");
        assert_eq!(failed.iter().map(|failure| failure.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn what_is_no_session_is_an_error() {
        for text in ["", "words", r#"{"a":1}"#, "[]"] {
            assert!(found(text).is_err() && !looks_like(text), "{text}");
        }
    }

    #[test]
    fn a_session_becomes_entries() {
        let read = read(SESSION).unwrap();
        let roles: Vec<_> = read.conversations[0].entries.iter().map(|entry| entry.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "tool"]);
        let result = read.conversations[0].entries[3].tool_result().unwrap();
        assert_eq!(result.is_error, Some(true));
    }
}
