//! `OpenAI` Chat Completions: every message is one entry, and every result has a message of its own.

use std::sync::Arc;

use super::at::At;
use super::read::{
    empty_entry, id_text, message_list, object, optional_text, own_text, role_word, text, tools, unknown_role,
};
use crate::block::{
    Block, BlockKind, CallStyle, Media, MediaKind, MediaSource, Reasoning, ToolCall, ToolResult,
};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{JsonKind, Object, Raw};
use crate::text::{RawJson, Text};
use crate::wire::{ParseOptions, Parsed, Wire, WireError};

/// The roles there are, for messages to people.
const ROLES: &str = "system, developer, user, assistant, tool or function";

/// Reads a list of messages, or a request that holds one under `messages`.
pub(crate) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    let (list, members, shape) = message_list(body, "messages")?;
    let mut parsed = Parsed::around(shape);
    let mut reader = ChatReader::default();
    let path = At::Body.key("messages");
    for (index, message) in list.elements().take(options.take.unwrap_or(usize::MAX)).enumerate() {
        let entry = reader.message(message, index, &path.index(index))?;
        parsed.push(Some(index), entry, options);
    }
    for &index in &reader.answered {
        let blocks = parsed.entries.get_mut(index).into_iter().flat_map(|entry| &mut *entry.blocks);
        for block in blocks {
            // Calls of today's form have JSON of their own; the old one does not.
            if let (BlockKind::ToolCall(call), None) = (&mut block.kind, &block.raw) {
                call.call_id = Some(given_id(index));
            }
        }
    }
    parsed.tools = members.get("tools").filter(|list| list.kind() == JsonKind::Array).map(|list| {
        tools(Wire::OpenaiChat, "/tools", list, |tool| {
            tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool).get("name")
        })
    });
    parsed.notes = reader.notes;
    Ok(parsed)
}

/// Reads one message.
pub(crate) fn read_message(message: Raw<'_>) -> Result<Entry, WireError> {
    ChatReader::default().message(message, 0, &At::Body)
}

/// Reads messages in order; the order matters only for the old `function_call`, which has no ids.
#[derive(Default)]
struct ChatReader {
    /// Message and name of a `function_call` that waits for its `function` message.
    pending: Option<(usize, String)>,
    /// Messages whose old-style call was answered, so that it can be given the id of its result.
    answered: Vec<usize>,
    notes: Vec<String>,
}

/// The id given to the old-style call of a message, which has none of its own.
fn given_id(index: usize) -> Text {
    Text::from(format!("sb_{index}_0").as_str())
}

impl ChatReader {
    fn message(&mut self, message: Raw<'_>, index: usize, path: &At<'_>) -> Result<Entry, WireError> {
        let source = own_text(message, path, "a message")?;
        let message = &object(Raw::trusted(&source), path, "a message")?;
        let word = role_word(message, path, ROLES)?;
        let role = role_named(&word).ok_or_else(|| unknown_role(&word, path, ROLES))?;
        let mut entry = empty_entry(Wire::OpenaiChat, role, Arc::clone(&source));
        entry.author = optional_text(message, "name", &source).map(Box::new);
        // Nearly every message is one block.
        let mut blocks = Vec::with_capacity(1);
        entry.content_state = match message.get("content").map(|content| (content.kind(), content)) {
            None => ContentState::Absent,
            Some((JsonKind::Null, _)) => ContentState::Null,
            Some((JsonKind::String, content)) => {
                let text = Text::Raw(RawJson::new(&source, content));
                blocks.push(Block::new(BlockKind::Text(text), None));
                ContentState::Text
            }
            Some((JsonKind::Array, content)) => {
                let path = path.key("content");
                for (number, part) in content.elements().enumerate() {
                    blocks.push(read_part(part, &source, &path.index(number))?);
                }
                ContentState::Parts
            }
            Some((other, _)) => {
                let problem =
                    format!("content must be a text, null or a list of parts, not {}", other.name());
                return Err(WireError::bad_message(path.key("content"), problem));
            }
        };
        entry.blocks = match role {
            Role::Tool => Box::from([self.read_result(blocks, message, &source, path)?]),
            Role::Assistant => self.read_reply(blocks, message, &source, index, path)?.into(),
            Role::System | Role::User => blocks.into(),
        };
        Ok(entry)
    }

    /// Wraps the content of a tool message into the result it is.
    fn read_result(
        &mut self,
        content: Vec<Block>,
        message: &Object<'_>,
        source: &Arc<str>,
        path: &At<'_>,
    ) -> Result<Block, WireError> {
        let name = optional_text(message, "name", source).map(Box::new);
        let mut call_id = id_text(message, "tool_call_id", source, path)?;
        let answers =
            |(_, called): &mut (usize, String)| name.as_ref().is_some_and(|name| **name == **called);
        if call_id.is_none()
            && let Some((index, _)) = self.pending.take_if(answers)
        {
            call_id = Some(given_id(index));
            self.answered.push(index);
            self.notes
                .push(format!("message {index}: `function_call` has no id; paired by name with its result"));
        }
        let result = ToolResult { call_id, name, content: content.into(), is_error: None };
        Ok(Block::new(BlockKind::ToolResult(Box::new(result)), None))
    }

    /// Reads what only assistant messages have: reasoning, refusal, calls.
    fn read_reply(
        &mut self,
        mut blocks: Vec<Block>,
        message: &Object<'_>,
        source: &Arc<str>,
        index: usize,
        path: &At<'_>,
    ) -> Result<Vec<Block>, WireError> {
        if let Some(text) = optional_text(message, "reasoning_content", source) {
            let reasoning = Reasoning { text: Some(text), ..Reasoning::default() };
            blocks.insert(0, Block::new(BlockKind::Reasoning(Box::new(reasoning)), None));
        }
        if let Some(text) = optional_text(message, "refusal", source) {
            blocks.push(Block::new(BlockKind::Refusal(text), None));
        }
        if let Some(calls) = message.get("tool_calls").filter(|calls| calls.kind() != JsonKind::Null) {
            let path = path.key("tool_calls");
            if calls.kind() != JsonKind::Array {
                let problem = format!("tool_calls must be a list, not {}", calls.kind().name());
                return Err(WireError::bad_message(path, problem));
            }
            for (number, call) in calls.elements().enumerate() {
                blocks.push(read_call(call, source, &path.index(number))?);
            }
        }
        if let Some(call) = message.get("function_call").filter(|call| call.kind() == JsonKind::Object) {
            let call = object(call, &path.key("function_call"), "a function call")?;
            let block = call_block(&call, None, CallStyle::Function, "arguments", source);
            if let BlockKind::ToolCall(call) = &block.kind {
                self.pending = Some((index, call.name.as_str().into_owned()));
            }
            blocks.push(block);
        }
        Ok(blocks)
    }
}

fn role_named(word: &str) -> Option<Role> {
    Some(match word {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => return None,
    })
}

fn read_call(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let call = object(raw, path, "a tool call")?;
    let id = id_text(&call, "id", source, path)?;
    let inner = |key: &str| match call.get(key) {
        Some(inner) => object(inner, &path.key(key), "what is called").map(Some),
        None => Ok(None),
    };
    let mut block = if let Some(custom) = inner("custom")? {
        call_block(&custom, id, CallStyle::Custom, "input", source)
    } else {
        call_block(inner("function")?.as_ref().unwrap_or(&call), id, CallStyle::Function, "arguments", source)
    };
    block.raw = Some(Box::new(RawJson::new(source, raw)));
    Ok(block)
}

fn call_block(
    inner: &Object<'_>,
    call_id: Option<Text>,
    style: CallStyle,
    arguments: &str,
    source: &Arc<str>,
) -> Block {
    let arguments = match inner.get(arguments) {
        Some(value) if value.kind() == JsonKind::String => Text::Raw(RawJson::new(source, value)),
        // Some hosts send an object where the format wants its text.
        Some(value) if value.kind() != JsonKind::Null => Text::from(value.text()),
        _ => Text::from(""),
    };
    let name = optional_text(inner, "name", source).unwrap_or_else(|| Text::from(""));
    let call = ToolCall { call_id, name, arguments, style, signature: None };
    Block::new(BlockKind::ToolCall(Box::new(call)), None)
}

fn read_part(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let part = object(raw, path, "a content part")?;
    let kind = part.get("type").and_then(Raw::string);
    let block = match kind.as_deref() {
        Some("text") => BlockKind::Text(text(&part, "text", source, path)?),
        Some("refusal") => BlockKind::Refusal(text(&part, "refusal", source, path)?),
        Some(media @ ("image_url" | "input_audio" | "file")) => match part.get(media) {
            Some(inner) if inner.kind() == JsonKind::Object => {
                object(inner, &path.key(media), "what is shown")?;
                BlockKind::Media(Box::new(read_media(media, inner, source)))
            }
            Some(inner) => BlockKind::Media(Box::new(read_media(media, inner, source))),
            None => BlockKind::Opaque(RawJson::new(source, raw)),
        },
        _ => BlockKind::Opaque(RawJson::new(source, raw)),
    };
    Ok(Block::new(block, Some(RawJson::new(source, raw))))
}

fn read_media(kind: &str, inner: Raw<'_>, source: &Arc<str>) -> Media {
    let text = |key: &str| {
        let value = inner.get(key).filter(|value| value.kind() == JsonKind::String)?;
        Some(Text::Raw(RawJson::new(source, value)))
    };
    let inline_or_url = |text: Text| {
        let inline = text.as_str().starts_with("data:");
        if inline { MediaSource::Inline(text) } else { MediaSource::Url(text) }
    };
    let (media, place) = match kind {
        "image_url" => {
            let bare = (inner.kind() == JsonKind::String).then(|| Text::Raw(RawJson::new(source, inner)));
            (MediaKind::Image, bare.or_else(|| text("url")).map(inline_or_url))
        }
        "input_audio" => (MediaKind::Audio, text("data").map(MediaSource::Inline)),
        _ => {
            let data = text("file_data").map(MediaSource::Inline);
            (MediaKind::Document, data.or_else(|| text("file_id").map(MediaSource::File)))
        }
    };
    let detail = inner.get("detail").and_then(Raw::string).map(Into::into);
    let sound = inner.get("format").and_then(Raw::string).filter(|_| media == MediaKind::Audio);
    Media {
        kind: media,
        mime: sound.map(|format| format!("audio/{format}")),
        name: text("filename").map(Box::new),
        source: place,
        detail,
        size: None,
    }
}
