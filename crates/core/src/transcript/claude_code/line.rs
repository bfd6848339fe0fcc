//! One line of a session: who wrote it, what it hangs on, and the message in it, if it has one.

use std::borrow::Cow;

use super::super::TranscriptError;
use super::super::lines::{JsonLine, MemberReaders, object};
use crate::entry::{Time, Usage};
use crate::json::{JsonKind, Object, Raw};

/// A line, taken apart.
pub(super) struct SessionLine<'a> {
    pub(super) line: JsonLine<'a>,
    pub(super) members: Object<'a>,
    /// Its `type`.
    pub(super) kind: Cow<'a, str>,
    pub(super) uuid: Option<Cow<'a, str>>,
    /// The line it says it follows. After a compaction only the logical parent is left.
    pub(super) parent: Option<Cow<'a, str>>,
    pub(super) time: Option<Time>,
    pub(super) strand: Strand<'a>,
    pub(super) message: Option<LineMessage<'a>>,
}

/// Whose line it is: lines of different strands never continue one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strand<'a> {
    /// The session itself.
    Main,
    /// A sub-agent, by its id where there is one.
    Side(Option<Cow<'a, str>>),
}

/// The Anthropic message in a line.
pub(super) struct LineMessage<'a> {
    pub(super) raw: Raw<'a>,
    pub(super) members: Object<'a>,
    pub(super) speaker: Speaker<'a>,
    pub(super) content: Raw<'a>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Speaker<'a> {
    User,
    /// The model, with the id that all lines of one reply share.
    Assistant(Option<Cow<'a, str>>),
}

impl<'a> SessionLine<'a> {
    /// Takes a line apart; an error if it is broken, or holds a message that cannot be read.
    pub(super) fn read(line: JsonLine<'a>) -> Result<Self, TranscriptError> {
        let members = line.object()?;
        let kind = members.text("type").unwrap_or(Cow::Borrowed("unknown"));
        let message = match kind.as_ref() {
            "user" | "assistant" => {
                Some(LineMessage::read(&kind, &members).map_err(|problem| line.error(problem))?)
            }
            _ => None,
        };
        let strand =
            if members.is_true("isSidechain") { Strand::Side(members.text("agentId")) } else { Strand::Main };
        Ok(SessionLine {
            line,
            uuid: members.text("uuid"),
            parent: members.text("parentUuid").or_else(|| members.text("logicalParentUuid")),
            time: members.text("timestamp").and_then(|time| Time::parse(&time)),
            strand,
            message,
            kind,
            members,
        })
    }

    /// Whether it is the text that took the place of everything before a compaction.
    pub(super) fn is_summary(&self) -> bool {
        self.message.is_some() && self.members.is_true("isCompactSummary")
    }

    /// Of a compaction that kept the last messages: the first of them.
    pub(super) fn first_kept(&self) -> Option<Cow<'a, str>> {
        self.members.inner("compactMetadata")?.get("preservedSegment")?.get("headUuid")?.string()
    }
}

impl<'a> LineMessage<'a> {
    fn read(kind: &str, line: &Object<'a>) -> Result<Self, String> {
        let raw = line.get("message").ok_or("the line has no `message`")?;
        let members = object(raw).map_err(|problem| format!("the message: {problem}"))?;
        let content = members.get("content").ok_or("the message has no `content`")?;
        let speaker = match kind {
            "assistant" => Speaker::Assistant(members.text("id")),
            _ => Speaker::User,
        };
        Ok(LineMessage { raw, members, speaker, content })
    }

    pub(super) fn is_assistant(&self) -> bool {
        matches!(self.speaker, Speaker::Assistant(_))
    }

    /// Ids of the calls it answers.
    pub(super) fn answers(&self) -> Vec<Cow<'a, str>> {
        self.content
            .elements()
            .filter(|block| block.get("type").and_then(Raw::string).as_deref() == Some("tool_result"))
            .filter_map(|block| block.get("tool_use_id").and_then(Raw::string))
            .collect()
    }

    /// Its texts, joined by line breaks.
    pub(super) fn texts(&self) -> String {
        if let Some(text) = self.content.string() {
            return text.into_owned();
        }
        let texts = self.content.elements().filter_map(|block| block.get("text").and_then(Raw::string));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The tokens the reply reported.
    pub(super) fn usage(&self) -> Option<Usage> {
        let usage = self.members.inner("usage")?.object().ok()?;
        let mut read = Usage {
            input_uncached: usage.number("input_tokens"),
            cache_read: usage.number("cache_read_input_tokens"),
            output: usage.number("output_tokens"),
            ..Usage::default()
        };
        let by_lifetime = usage.inner("cache_creation").and_then(|written| written.object().ok());
        for (lifetime, key) in [("5m", "ephemeral_5m_input_tokens"), ("1h", "ephemeral_1h_input_tokens")] {
            if let Some(tokens) = by_lifetime.as_ref().and_then(|written| written.number(key)) {
                read.cache_write.insert(lifetime.into(), tokens);
            }
        }
        if let (true, Some(tokens)) = (by_lifetime.is_none(), usage.number("cache_creation_input_tokens")) {
            // Before lifetimes could be chosen there was this one.
            read.cache_write.insert("5m".into(), tokens);
        }
        Some(read)
    }
}

/// The blocks of a content, whichever way it is written.
pub(super) fn blocks(content: Raw<'_>) -> Vec<Cow<'_, str>> {
    match content.kind() {
        JsonKind::String => vec![Cow::Owned(format!(r#"{{"type":"text","text":{}}}"#, content.text()))],
        _ => content.elements().map(|block| Cow::Borrowed(block.text())).collect(),
    }
}
