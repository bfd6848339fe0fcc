//! Gemini `generateContent`: every content holds a list of parts, and each function response in it becomes an entry.
//!
//! Keys are read in the spelling of REST (`functionCall`) and in that of the SDKs (`function_call`).

mod pair;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use self::pair::give_ids;
use super::at::At;
use super::read::{
    call_block, empty_entry, id_text, message_list, object, object_arguments, only_member, optional_text,
    own_text, text, tools, unknown_role,
};
use super::split::{read_pieces, split};
use crate::block::{Block, BlockKind, CallStyle, Media, MediaKind, MediaSource, Reasoning, ToolResult};
use crate::context::{OfferedTool, Tools};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{self, JsonKind, Object, Raw};
use crate::text::{RawJson, Text};
use crate::wire::{ParseOptions, Parsed, Wire, WireError};

/// The roles there are, for messages to people.
const ROLES: &str = "user, model, function or system";

/// Reads a list of contents, or a request that holds one under `contents`.
pub(crate) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    let (list, members, shape) = message_list(body, "contents")?;
    let mut parsed = Parsed::around(shape);
    for key in ["systemInstruction", "system_instruction"] {
        if let Some(system) = members.get(key).filter(|system| system.kind() != JsonKind::Null) {
            parsed.push(None, read_system(system, &At::Body.key(key))?, options);
            break;
        }
    }
    let path = At::Body.key("contents");
    for (index, content) in list.elements().take(options.take.unwrap_or(usize::MAX)).enumerate() {
        for entry in read_entries(content, &path.index(index))? {
            parsed.push(Some(index), entry, options);
        }
    }
    if give_ids(&mut parsed.entries) {
        parsed.notes.push(
            "calls without ids: paired with their responses by name and order, under ids of our own".into(),
        );
    }
    parsed.tools = members.get("tools").and_then(read_tools);
    Ok(parsed)
}

/// Reads one content that is one entry. What came without an id stays without: that needs the entries around it.
///
/// The value of the system field is a content too, mostly without a role; see [`read_system`].
pub(crate) fn read_message(content: Raw<'_>) -> Result<Entry, WireError> {
    read_entry(&own_text(content, &At::Body, "a content")?, &At::Body)
}

/// Reads the value of the system field.
pub(crate) fn read_system(system: Raw<'_>, path: &At<'_>) -> Result<Entry, WireError> {
    let source = own_text(system, path, "the system instruction")?;
    let content = object(Raw::trusted(&source), path, "the system instruction")?;
    let mut entry = empty_entry(Wire::Gemini, Role::System, Arc::clone(&source));
    (entry.content_state, entry.blocks) = read_parts(&content, &source, path)?;
    Ok(entry)
}

fn read_tools(list: Raw<'_>) -> Option<Tools> {
    if list.kind() != JsonKind::Array {
        return None;
    }
    let mut definitions = Vec::new();
    for (number, tool) in list.elements().enumerate() {
        for (key, value) in tool.members() {
            let place = format!("/tools/{number}/{key}");
            if matches!(key.as_ref(), "functionDeclarations" | "function_declarations") {
                let declared = tools(Wire::Gemini, &place, value, |tool| tool.get("name"));
                definitions.extend_from_slice(declared.definitions());
            } else {
                // A tool that the provider runs.
                let text = format!("{{{}:{}}}", json::quote(&key), json::one_line(value));
                definitions.push(OfferedTool { name: None, place: Some(place), text });
            }
        }
    }
    Some(Tools::found(Wire::Gemini, definitions))
}

fn either_raw<'a>(value: Raw<'a>, camel: &str, snake: &str) -> Option<Raw<'a>> {
    value.members().find(|(key, _)| key == camel || key == snake).map(|(_, value)| value)
}

/// The value under either spelling of a key, and the spelling.
fn either<'a, 'k>(object: &Object<'a>, camel: &'k str, snake: &'k str) -> Option<(&'k str, Raw<'a>)> {
    let found = |key: &'k str| {
        object.get(key).filter(|value| value.kind() != JsonKind::Null).map(|value| (key, value))
    };
    found(camel).or_else(|| found(snake))
}

/// The text under either spelling of a key.
fn either_text(object: &Object<'_>, camel: &str, snake: &str, source: &Arc<str>) -> Option<Text> {
    optional_text(object, camel, source).or_else(|| optional_text(object, snake, source))
}

/// The entries of one content: its responses, then the rest.
fn read_entries(content: Raw<'_>, path: &At<'_>) -> Result<Vec<Entry>, WireError> {
    let source = own_text(content, path, "a content")?;
    // Read whole first, so that trouble is reported where it stands in the content.
    let whole = read_entry(&source, path)?;
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    if whole.blocks.len() < 2 || !whole.blocks.iter().any(is_result) {
        return Ok(vec![whole]);
    }
    let pieces =
        split(&source, "parts", path, |part| part.object().is_ok_and(|part| response_of(&part).is_some()))?;
    read_pieces(pieces, |piece| read_entry(piece, path))
}

fn read_entry(source: &Arc<str>, path: &At<'_>) -> Result<Entry, WireError> {
    let content = object(Raw::trusted(source), path, "a content")?;
    let role = match content.get("role").filter(|role| role.kind() != JsonKind::Null) {
        None => Role::User,
        Some(role) => {
            let problem = || WireError::bad_message(path.key("role"), "the role must be a text".into());
            let word = role.string().ok_or_else(problem)?;
            match word.as_ref() {
                // Older requests have the responses under a role of their own.
                "user" | "function" => Role::User,
                "model" => Role::Assistant,
                "system" => Role::System,
                _ => return Err(unknown_role(&word, path, ROLES)),
            }
        }
    };
    let mut entry = empty_entry(Wire::Gemini, role, Arc::clone(source));
    (entry.content_state, entry.blocks) = read_parts(&content, source, path)?;
    if let [Block { kind: BlockKind::ToolResult(result), raw: Some(raw), .. }] = &*entry.blocks {
        // A content that is nothing but one response is spoken by the tool.
        entry.content_state = result_state(result, raw);
        entry.role = Role::Tool;
    }
    Ok(entry)
}

/// How the content of a response was written: as one value, or with media beside it.
fn result_state(result: &ToolResult, raw: &RawJson) -> ContentState {
    let response = either_raw(raw.raw(), "functionResponse", "function_response")
        .and_then(|response| response.get("response"))
        .map(Raw::kind);
    match (response, &*result.content) {
        (_, [Block { kind: BlockKind::Text(_), .. }]) => ContentState::Text,
        (None, []) => ContentState::Absent,
        (Some(JsonKind::Null), []) => ContentState::Null,
        _ => ContentState::Parts,
    }
}

/// The parts of a content. The provider takes a single part without its list too.
fn read_parts(
    content: &Object<'_>,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<(ContentState, Box<[Block]>), WireError> {
    let path = path.key("parts");
    let Some(parts) = content.get("parts") else { return Ok((ContentState::Absent, Box::default())) };
    match parts.kind() {
        JsonKind::Null => Ok((ContentState::Null, Box::default())),
        JsonKind::Object => Ok((ContentState::Parts, Box::from([read_part(parts, source, &path)?]))),
        JsonKind::Array => {
            let blocks = parts
                .elements()
                .enumerate()
                .map(|(number, part)| read_part(part, source, &path.index(number)));
            Ok((ContentState::Parts, blocks.collect::<Result<_, _>>()?))
        }
        other => Err(WireError::bad_message(path, format!("the parts must be a list, not {}", other.name()))),
    }
}

fn call_of<'a>(part: &Object<'a>) -> Option<(&'static str, Raw<'a>)> {
    either(part, "functionCall", "function_call")
}

fn response_of<'a>(part: &Object<'a>) -> Option<(&'static str, Raw<'a>)> {
    either(part, "functionResponse", "function_response").filter(|_| call_of(part).is_none())
}

fn read_part(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let part = object(raw, path, "a part")?;
    let kind = if let Some((key, call)) = call_of(&part) {
        return read_call(raw, &part, call, source, &path.key(key));
    } else if let Some((key, response)) = response_of(&part) {
        BlockKind::ToolResult(Box::new(read_response(response, source, &path.key(key))?))
    } else if part.get("text").is_some_and(|text| text.kind() != JsonKind::Null) {
        let said = text(&part, "text", source, path)?;
        if part.get("thought").is_some_and(|thought| thought.text() == "true") {
            let signature = signature(&part, source);
            BlockKind::Reasoning(Box::new(Reasoning { text: Some(said), signature, ..Reasoning::default() }))
        } else {
            BlockKind::Text(said)
        }
    } else {
        media_or_opaque(raw, &part, source)
    };
    Ok(Block::new(kind, Some(RawJson::new(source, raw))))
}

fn signature(part: &Object<'_>, source: &Arc<str>) -> Option<Text> {
    let signature = either_text(part, "thoughtSignature", "thought_signature", source)?;
    (!signature.as_str().is_empty()).then_some(signature)
}

fn read_call(
    raw: Raw<'_>,
    part: &Object<'_>,
    call: Raw<'_>,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<Block, WireError> {
    let call = object(call, path, "a function call")?;
    let id = id_text(&call, "id", source, path)?;
    let arguments = object_arguments(call.get("args"), source);
    let name = optional_text(&call, "name", source);
    let mut block = call_block(raw, source, id, name, arguments, CallStyle::Function);
    if let BlockKind::ToolCall(call) = &mut block.kind {
        call.signature = signature(part, source).map(Box::new);
    }
    Ok(block)
}

fn read_response(response: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<ToolResult, WireError> {
    let response = object(response, path, "a function response")?;
    let mut content = Vec::new();
    let mut is_error = None;
    if let Some(value) = response.get("response").filter(|value| value.kind() != JsonKind::Null) {
        let (said, failed) = said_in(value, source);
        content.push(Block::new(BlockKind::Text(said), None));
        is_error = failed.then_some(true);
    }
    if let Some(parts) = response.get("parts").filter(|parts| parts.kind() != JsonKind::Null) {
        let path = path.key("parts");
        if parts.kind() != JsonKind::Array {
            let problem = format!("the parts must be a list, not {}", parts.kind().name());
            return Err(WireError::bad_message(path, problem));
        }
        for (number, raw) in parts.elements().enumerate() {
            let part = object(raw, &path.index(number), "a part")?;
            let kind = media_or_opaque(raw, &part, source);
            content.push(Block::new(kind, Some(RawJson::new(source, raw))));
        }
    }
    let name = optional_text(&response, "name", source).map(Box::new);
    Ok(ToolResult {
        call_id: id_text(&response, "id", source, path)?,
        name,
        content: content.into(),
        is_error,
    })
}

/// What a response says, and whether it says that the tool failed: the text under the one key there is, or all of it.
fn said_in(value: Raw<'_>, source: &Arc<str>) -> (Text, bool) {
    let literal = |text: Raw<'_>| Text::Raw(RawJson::new(source, text));
    match only_member(value) {
        Some((key, text)) if text.kind() == JsonKind::String && (key == "output" || key == "result") => {
            (literal(text), false)
        }
        Some((key, text)) if text.kind() == JsonKind::String && key == "error" => (literal(text), true),
        _ if value.kind() == JsonKind::String => (literal(value), false),
        _ => (Text::Json(RawJson::new(source, value)), false),
    }
}

fn media_or_opaque(raw: Raw<'_>, part: &Object<'_>, source: &Arc<str>) -> BlockKind {
    match read_media(part, source) {
        Some(media) => BlockKind::Media(Box::new(media)),
        None => BlockKind::Opaque(RawJson::new(source, raw)),
    }
}

fn read_media(part: &Object<'_>, source: &Arc<str>) -> Option<Media> {
    let (inner, place) = if let Some((_, inner)) = either(part, "inlineData", "inline_data") {
        let inner = inner.object().ok()?;
        let data = optional_text(&inner, "data", source).map(MediaSource::Inline);
        (inner, data)
    } else {
        let (_, inner) = either(part, "fileData", "file_data")?;
        let inner = inner.object().ok()?;
        let address = either_text(&inner, "fileUri", "file_uri", source);
        (inner, address.map(place_of))
    };
    let mime = either_text(&inner, "mimeType", "mime_type", source).map(|mime| mime.as_str().into_owned());
    let kind = match mime.as_deref().and_then(|mime| mime.split('/').next()) {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::Document,
    };
    let name = either_text(&inner, "displayName", "display_name", source).map(Box::new);
    Some(Media { kind, mime, name, source: place, detail: None, size: None })
}

/// A public address, or a file kept at the provider.
fn place_of(address: Text) -> MediaSource {
    let text = address.as_str();
    let open = text.starts_with("http://") || text.starts_with("https://");
    let kept = text.contains("generativelanguage.googleapis.com/");
    drop(text);
    if open && !kept { MediaSource::Url(address) } else { MediaSource::File(address) }
}
