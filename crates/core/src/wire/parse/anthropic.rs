//! Anthropic Messages: a user message may hold several results and a text; each becomes an entry.

use std::sync::Arc;

use super::at::At;
use super::read::{
    call_block, empty_entry, id_text, message_list, object, object_arguments, optional_text, own_text,
    role_word, text, tools, unknown_role,
};
use super::split::{read_pieces, split};
use crate::block::{
    Block, BlockKind, CallStyle, Marks, Media, MediaKind, MediaSource, Reasoning, ToolResult,
};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{JsonKind, Object, Raw};
use crate::text::{RawJson, Text};
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
    parsed.tools = members
        .get("tools")
        .filter(|list| list.kind() == JsonKind::Array)
        .map(|list| tools(Wire::Anthropic, "/tools", list, |tool| tool.get("name")));
    Ok(parsed)
}

/// Reads one message that is one entry, or the value of the system field.
pub(crate) fn read_message(message: Raw<'_>) -> Result<Entry, WireError> {
    if message.kind() != JsonKind::Object {
        return read_system(message, &At::Body);
    }
    let source = own_text(message, &At::Body, "a message")?;
    read_entry(&source, &At::Body)
}

/// The entries of one message: its results, then the rest.
fn read_entries(message: Raw<'_>, path: &At<'_>) -> Result<Vec<Entry>, WireError> {
    let source = own_text(message, path, "a message")?;
    // Read whole first, so that trouble is reported where it stands in the message.
    let whole = read_entry(&source, path)?;
    if whole.role == Role::Assistant || !has_result(&whole) {
        return Ok(vec![whole]);
    }
    let is_result =
        |block: Raw<'_>| block.get("type").and_then(Raw::string).as_deref() == Some("tool_result");
    let pieces = split(&source, "content", path, is_result)?;
    if pieces.len() == 1 {
        return Ok(vec![as_result(whole)]);
    }
    read_pieces(pieces, |piece| read_entry(piece, path))
}

fn has_result(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult(_)))
}

/// A message that is nothing but one result is spoken by the tool.
fn as_result(mut entry: Entry) -> Entry {
    if let [Block { kind: BlockKind::ToolResult(_), .. }] = &*entry.blocks {
        entry.role = Role::Tool;
        entry.content_state = result_state(&entry);
    }
    entry
}

/// How the content of the result was written, which is what a rewriting of it has to know.
fn result_state(entry: &Entry) -> ContentState {
    let content = entry.blocks.first().and_then(|block| block.raw.as_ref()?.raw().get("content"));
    match content.map(Raw::kind) {
        None => ContentState::Absent,
        Some(JsonKind::Null) => ContentState::Null,
        Some(JsonKind::String) => ContentState::Text,
        Some(_) => ContentState::Parts,
    }
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
    let mut entry = empty_entry(Wire::Anthropic, role, Arc::clone(source));
    if let Some(content) = message.get("content") {
        (entry.content_state, entry.blocks) = read_content(content, source, &path.key("content"), role)?;
    }
    Ok(as_result(entry))
}

fn read_system(system: Raw<'_>, path: &At<'_>) -> Result<Entry, WireError> {
    let source: Arc<str> = system.text().into();
    let mut entry = empty_entry(Wire::Anthropic, Role::System, Arc::clone(&source));
    (entry.content_state, entry.blocks) = read_content(Raw::trusted(&source), &source, path, Role::System)?;
    Ok(entry)
}

/// A text, or a list of blocks.
fn read_content(
    content: Raw<'_>,
    source: &Arc<str>,
    path: &At<'_>,
    role: Role,
) -> Result<(ContentState, Box<[Block]>), WireError> {
    match content.kind() {
        JsonKind::Null => Ok((ContentState::Null, Box::default())),
        JsonKind::String => {
            let text = Text::Raw(RawJson::new(source, content));
            Ok((ContentState::Text, Box::from([Block::new(BlockKind::Text(text), None)])))
        }
        JsonKind::Array => {
            let blocks = content
                .elements()
                .enumerate()
                .map(|(number, block)| read_block(block, source, &path.index(number), role));
            Ok((ContentState::Parts, blocks.collect::<Result<_, _>>()?))
        }
        other => {
            let problem = format!("content must be a text or a list of blocks, not {}", other.name());
            Err(WireError::bad_message(path, problem))
        }
    }
}

fn read_block(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>, role: Role) -> Result<Block, WireError> {
    let block = object(raw, path, "a content block")?;
    let word = block.get("type").and_then(Raw::string);
    let own = || RawJson::new(source, raw);
    let kind = match word.as_deref() {
        Some("text") => BlockKind::Text(text(&block, "text", source, path)?),
        Some("thinking") => BlockKind::Reasoning(Box::new(Reasoning {
            text: optional_text(&block, "thinking", source),
            signature: optional_text(&block, "signature", source).filter(|text| !text.as_str().is_empty()),
            ..Reasoning::default()
        })),
        Some("redacted_thinking") => BlockKind::Reasoning(Box::new(Reasoning {
            encrypted: optional_text(&block, "data", source),
            redacted: true,
            ..Reasoning::default()
        })),
        Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
            let style = match word.as_deref() {
                Some("server_tool_use") => CallStyle::Server,
                Some("mcp_tool_use") => CallStyle::Mcp,
                _ => CallStyle::Function,
            };
            let id = id_text(&block, "id", source, path)?;
            let arguments = object_arguments(block.get("input"), source);
            let mut read =
                call_block(raw, source, id, optional_text(&block, "name", source), arguments, style);
            read.marks = marks(&block, source);
            return Ok(read);
        }
        Some("tool_result") if role != Role::Assistant => {
            BlockKind::ToolResult(Box::new(read_result(&block, source, path)?))
        }
        Some("image" | "document") => match read_media(&block, word.as_deref(), source, path)? {
            Some(media) => BlockKind::Media(Box::new(media)),
            None => BlockKind::Opaque(own()),
        },
        Some("compaction") => BlockKind::Compaction(own()),
        _ => BlockKind::Opaque(own()),
    };
    let mut read = Block::new(kind, Some(own()));
    read.marks = marks(&block, source);
    Ok(read)
}

/// The cache mark of a block; rare.
fn marks(block: &Object<'_>, source: &Arc<str>) -> Option<Box<Marks>> {
    let mark = block.get("cache_control").filter(|mark| mark.kind() == JsonKind::Object)?;
    Some(Box::new(Marks { cache_hint: Some(RawJson::new(source, mark)), provider_id: None }))
}

fn read_result(block: &Object<'_>, source: &Arc<str>, path: &At<'_>) -> Result<ToolResult, WireError> {
    let content = match block.get("content") {
        Some(content) => read_content(content, source, &path.key("content"), Role::Assistant)?.1,
        None => Box::default(),
    };
    let is_error = match block.get("is_error").map(Raw::text) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    Ok(ToolResult { call_id: id_text(block, "tool_use_id", source, path)?, name: None, content, is_error })
}

fn read_media(
    block: &Object<'_>,
    kind: Option<&str>,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<Option<Media>, WireError> {
    let Some(place) = block.get("source").filter(|place| place.kind() == JsonKind::Object) else {
        return Ok(None);
    };
    let place = object(place, &path.key("source"), "a source")?;
    let at = |key: &str| optional_text(&place, key, source);
    let found = match place.get("type").and_then(Raw::string).as_deref() {
        Some("base64") => at("data").map(MediaSource::Inline),
        Some("text") => at("data").map(MediaSource::Text),
        Some("url") => at("url").map(MediaSource::Url),
        Some("file") => at("file_id").map(MediaSource::File),
        _ => None,
    };
    Ok(found.map(|found| Media {
        kind: if kind == Some("image") { MediaKind::Image } else { MediaKind::Document },
        mime: at("media_type").map(|mime| mime.as_str().into_owned()),
        name: optional_text(block, "title", source).map(Box::new),
        source: Some(found),
        detail: None,
        size: None,
    }))
}
