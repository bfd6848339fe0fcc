//! Amazon Bedrock Converse: every message holds a list of blocks, and each result in it becomes an entry.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::at::At;
use super::read::{
    bytes, call_block, empty_entry, id_text, message_list, object, object_arguments, optional_text, own_text,
    role_word, text, tools, unknown_role,
};
use super::split::{read_pieces, split};
use crate::block::{Block, BlockKind, CallStyle, Media, MediaKind, MediaSource, Reasoning, ToolResult};
use crate::context::Tools;
use crate::entry::{ContentState, Entry, Role};
use crate::json::{JsonKind, Object, Raw};
use crate::text::RawJson;
use crate::wire::{ParseOptions, Parsed, Wire, WireError};

/// The roles there are, for messages to people.
const ROLES: &str = "user, assistant or system";

/// Reads a list of messages, or a request that holds one under `messages`.
pub(crate) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    let (list, members, shape) = message_list(body, "messages")?;
    let mut parsed = Parsed::around(shape);
    if let Some(system) = members.get("system").filter(|system| system.kind() != JsonKind::Null) {
        parsed.push(None, read_system(system, &At::Body.key("system"))?, options);
    }
    let path = At::Body.key("messages");
    for (index, message) in list.elements().take(options.take.unwrap_or(usize::MAX)).enumerate() {
        for entry in read_entries(message, &path.index(index))? {
            parsed.push(Some(index), entry, options);
        }
    }
    parsed.tools = members.get("toolConfig").and_then(|config| config.get("tools")).and_then(read_tools);
    Ok(parsed)
}

/// Reads one message that is one entry, or the value of the `system` field.
pub(crate) fn read_message(message: Raw<'_>) -> Result<Entry, WireError> {
    if message.kind() == JsonKind::Array {
        return read_system(message, &At::Body);
    }
    read_entry(&own_text(message, &At::Body, "a message")?, &At::Body)
}

fn read_tools(list: Raw<'_>) -> Option<Tools> {
    (list.kind() == JsonKind::Array)
        .then(|| tools(Wire::Bedrock, "/toolConfig/tools", list, |tool| tool.get("toolSpec")?.get("name")))
}

/// The entries of one message: its results, then the rest.
fn read_entries(message: Raw<'_>, path: &At<'_>) -> Result<Vec<Entry>, WireError> {
    let source = own_text(message, path, "a message")?;
    // Read whole first, so that trouble is reported where it stands in the message.
    let whole = read_entry(&source, path)?;
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    if whole.blocks.len() < 2 || !whole.blocks.iter().any(is_result) {
        return Ok(vec![whole]);
    }
    let pieces = split(&source, "content", path, |block| block.get("toolResult").is_some())?;
    read_pieces(pieces, |piece| read_entry(piece, path))
}

fn read_entry(source: &Arc<str>, path: &At<'_>) -> Result<Entry, WireError> {
    let message = object(Raw::trusted(source), path, "a message")?;
    let word = role_word(&message, path, ROLES)?;
    let role = match word.as_ref() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(unknown_role(&word, path, ROLES)),
    };
    let (content_state, blocks) = match message.get("content") {
        Some(content) => read_content(content, source, &path.key("content"), |block, source, path| {
            read_block(block, source, path, role)
        })?,
        None => (ContentState::Absent, Box::default()),
    };
    let mut entry = empty_entry(Wire::Bedrock, role, Arc::clone(source));
    (entry.content_state, entry.blocks) = (content_state, blocks);
    if let [Block { kind: BlockKind::ToolResult(_), raw: Some(raw), .. }] = &*entry.blocks {
        // A message that is nothing but one result is spoken by the tool.
        let content = raw.raw().get("toolResult").and_then(|result| result.get("content"));
        entry.content_state = content.map_or(ContentState::Absent, state);
        entry.role = Role::Tool;
    }
    Ok(entry)
}

fn read_system(system: Raw<'_>, path: &At<'_>) -> Result<Entry, WireError> {
    let source: Arc<str> = system.text().into();
    let read =
        |block: Raw<'_>, source: &Arc<str>, path: &At<'_>| read_block(block, source, path, Role::System);
    let (content_state, blocks) = read_content(Raw::trusted(&source), &source, path, read)?;
    let mut entry = empty_entry(Wire::Bedrock, Role::System, Arc::clone(&source));
    (entry.content_state, entry.blocks) = (content_state, blocks);
    Ok(entry)
}

fn state(content: Raw<'_>) -> ContentState {
    if content.kind() == JsonKind::Null { ContentState::Null } else { ContentState::Parts }
}

/// A list of blocks, each read by `read`.
fn read_content(
    content: Raw<'_>,
    source: &Arc<str>,
    path: &At<'_>,
    read: impl Fn(Raw<'_>, &Arc<str>, &At<'_>) -> Result<Block, WireError>,
) -> Result<(ContentState, Box<[Block]>), WireError> {
    if !matches!(content.kind(), JsonKind::Array | JsonKind::Null) {
        let problem = format!("the content must be a list of blocks, not {}", content.kind().name());
        return Err(WireError::bad_message(path, problem));
    }
    let blocks =
        content.elements().enumerate().map(|(number, block)| read(block, source, &path.index(number)));
    Ok((state(content), blocks.collect::<Result<_, _>>()?))
}

fn read_block(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>, role: Role) -> Result<Block, WireError> {
    let block = object(raw, path, "a content block")?;
    let inner = |key: &str| match block.get(key) {
        Some(inner) => object(inner, &path.key(key), format_args!("`{key}`")).map(Some),
        None => Ok(None),
    };
    let kind = if block.get("text").is_some() {
        BlockKind::Text(text(&block, "text", source, path)?)
    } else if let Some(call) = inner("toolUse")? {
        return read_call(raw, &call, source, &path.key("toolUse"));
    } else if let (Role::User, Some(result)) = (role, inner("toolResult")?) {
        BlockKind::ToolResult(Box::new(read_result(&result, source, &path.key("toolResult"))?))
    } else if let Some(reasoning) =
        inner("reasoningContent")?.and_then(|inner| read_reasoning(&inner, source))
    {
        BlockKind::Reasoning(Box::new(reasoning))
    } else if let Some(media) = read_media(&block, source) {
        BlockKind::Media(Box::new(media))
    } else {
        BlockKind::Opaque(RawJson::new(source, raw))
    };
    Ok(Block::new(kind, Some(RawJson::new(source, raw))))
}

fn read_call(raw: Raw<'_>, call: &Object<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let style = match call.get("type").and_then(Raw::string).as_deref() {
        Some("server_tool_use") => CallStyle::Server,
        _ => CallStyle::Function,
    };
    let id = id_text(call, "toolUseId", source, path)?;
    let arguments = object_arguments(call.get("input"), source);
    Ok(call_block(raw, source, id, optional_text(call, "name", source), arguments, style))
}

fn read_result(result: &Object<'_>, source: &Arc<str>, path: &At<'_>) -> Result<ToolResult, WireError> {
    let content = match result.get("content") {
        Some(content) => read_content(content, source, &path.key("content"), read_inner)?.1,
        None => Box::default(),
    };
    let is_error = match result.get("status").and_then(Raw::string).as_deref() {
        Some("error") => Some(true),
        Some("success") => Some(false),
        _ => None,
    };
    Ok(ToolResult { call_id: id_text(result, "toolUseId", source, path)?, name: None, content, is_error })
}

/// A block inside a result.
fn read_inner(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let block = object(raw, path, "a content block")?;
    let kind = if block.get("text").is_some() {
        BlockKind::Text(text(&block, "text", source, path)?)
    } else if let Some(json) = block.get("json") {
        BlockKind::Text(crate::Text::Json(RawJson::new(source, json)))
    } else if let Some(media) = read_media(&block, source) {
        BlockKind::Media(Box::new(media))
    } else {
        BlockKind::Opaque(RawJson::new(source, raw))
    };
    Ok(Block::new(kind, Some(RawJson::new(source, raw))))
}

fn read_reasoning(inner: &Object<'_>, source: &Arc<str>) -> Option<Reasoning> {
    if let Some(said) = inner.get("reasoningText").and_then(|said| said.object().ok()) {
        return Some(Reasoning {
            text: optional_text(&said, "text", source),
            signature: optional_text(&said, "signature", source).filter(|text| !text.as_str().is_empty()),
            ..Reasoning::default()
        });
    }
    let encrypted = Some(bytes(inner.get("redactedContent")?, source)?);
    Some(Reasoning { encrypted, redacted: true, ..Reasoning::default() })
}

fn read_media(block: &Object<'_>, source: &Arc<str>) -> Option<Media> {
    let kinds = [
        ("image", MediaKind::Image),
        ("document", MediaKind::Document),
        ("video", MediaKind::Video),
        ("audio", MediaKind::Audio),
    ];
    let (key, kind, inner) =
        kinds.into_iter().find_map(|(key, kind)| Some((key, kind, block.get(key)?.object().ok()?)))?;
    let place = inner.get("source").and_then(|place| {
        let inline = place.get("bytes").and_then(|value| bytes(value, source)).map(MediaSource::Inline);
        let written = || optional_text(&place.object().ok()?, "text", source).map(MediaSource::Text);
        inline.or_else(written).or_else(|| {
            let location = place.get("s3Location")?.object().ok()?;
            optional_text(&location, "uri", source).map(MediaSource::File)
        })
    });
    let format = inner.get("format").and_then(Raw::string);
    let mime = format.map(|format| match kind {
        MediaKind::Document => document_mime(&format),
        _ => format!("{key}/{format}"),
    });
    let name = optional_text(&inner, "name", source).map(Box::new);
    Some(Media { kind, mime, name, source: place, detail: None, size: None })
}

fn document_mime(format: &str) -> String {
    let mime = match format {
        "pdf" => "application/pdf",
        "doc" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "txt" => "text/plain",
        "md" => "text/markdown",
        other => return format!("text/{other}"),
    };
    mime.into()
}
