//! `OpenAI` Chat Completions: every message is one entry, and every result has a message of its own.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use super::{Body, ParseOptions, Parsed, Wire, WireError};
use crate::block::{
    Block, BlockKind, CallStyle, Media, MediaKind, MediaSource, Reasoning, ToolCall, ToolResult,
};
use crate::context::Tools;
use crate::entry::{ContentState, Entry, Origin, Role, Time};
use crate::json::{self, Kind, Object, Raw};
use crate::text::{RawJson, Text};
use crate::view::{Fidelity, Item};

/// The roles there are, for messages to people.
const ROLES: &str = "system, developer, user, assistant, tool or function";

/// Spans are kept in 32 bits.
const MAX_MESSAGE_BYTES: usize = u32::MAX as usize;

/// Reads a list of messages, or a request that holds one under `messages`.
pub(super) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    let (list, shape) = match body.kind() {
        Kind::Array => (body, Body::List),
        Kind::Object => {
            let object = body.object().map_err(|key| WireError::duplicate_key(String::new(), &key))?;
            let list =
                object.get("messages").ok_or_else(|| WireError::bad_input("the object has no `messages`"))?;
            if list.kind() != Kind::Array {
                let problem = format!("`messages` must be a list, not {}", list.kind().name());
                return Err(WireError::bad_input(problem).at("/messages"));
            }
            (list, Body::Object { raw: body.text().into(), key: "messages" })
        }
        other => {
            return Err(WireError::bad_input(format!("expected a list of messages, found {}", other.name())));
        }
    };
    let mut reader = Reader::default();
    let mut entries: Vec<Entry> = list
        .elements()
        .take(options.take.unwrap_or(usize::MAX))
        .enumerate()
        .map(|(index, message)| {
            let entry = reader.message(message, index, &format!("/messages/{index}"))?;
            Ok(entry.stamped(options.evaluation_id, index as u64, options.created_at))
        })
        .collect::<Result<_, WireError>>()?;
    for &index in &reader.answered {
        let blocks = entries.get_mut(index).into_iter().flat_map(|entry| &mut *entry.blocks);
        for block in blocks {
            // Calls of today's form have JSON of their own; the old one does not.
            if let (BlockKind::ToolCall(call), None) = (&mut block.kind, &block.raw) {
                call.call_id = Some(given_id(index));
            }
        }
    }
    let tools = match body.kind() {
        Kind::Object => body.get("tools").filter(|tools| tools.kind() == Kind::Array).map(read_tools),
        _ => None,
    };
    let indexes = (0..entries.len()).collect();
    Ok(Parsed { entries, indexes, body: shape, tools, notes: reader.notes })
}

fn read_tools(tools: Raw<'_>) -> Tools {
    let (mut names, mut definitions) = (Vec::new(), Vec::new());
    for tool in tools.elements() {
        definitions.push(json::one_line(tool).into_owned());
        let inner = tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool);
        names.extend(inner.get("name").and_then(Raw::string).map(Cow::into_owned));
    }
    Tools::defined(names, definitions)
}

/// One message to one entry; the one-message form of parsing.
///
/// ```
/// use scrollback_core::{json, wire::openai_chat};
/// let message = json::check(r#"{"role":"tool","tool_call_id":"c1","content":"42"}"#)?;
/// let entry = openai_chat::provider_message_to_entry(message)?;
/// assert_eq!(entry.tool_call_id().as_deref(), Some("c1"));
/// assert_eq!(openai_chat::entry_to_provider_message(&entry), message.text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn provider_message_to_entry(message: Raw<'_>) -> Result<Entry, WireError> {
    Reader::default().message(message, 0, "")
}

/// An entry of this wire as the message it came as.
pub fn entry_to_provider_message(entry: &Entry) -> &str {
    &entry.origin.raw
}

/// A plain message of our own making.
pub(crate) fn text_entry(role: Role, text: &str) -> Entry {
    let mut raw = format!("{{\"role\":\"{role}\",\"content\":");
    json::write_string(&mut raw, text);
    raw.push('}');
    own_entry(role, &raw)
}

/// A result of our own making.
pub(crate) fn result_entry(call_id: &str, text: &str) -> Entry {
    let mut raw = String::from("{\"role\":\"tool\",\"tool_call_id\":");
    json::write_string(&mut raw, call_id);
    raw.push_str(",\"content\":");
    json::write_string(&mut raw, text);
    raw.push('}');
    own_entry(Role::Tool, &raw)
}

/// An assistant's message with calls, of our own making.
pub(crate) fn calling_entry(text: Option<&str>, calls: &[(&str, &str, &str)]) -> Entry {
    let mut raw = String::from("{\"role\":\"assistant\",\"content\":");
    match text {
        Some(text) => json::write_string(&mut raw, text),
        None => raw.push_str("null"),
    }
    for (number, (id, name, arguments)) in calls.iter().enumerate() {
        raw.push_str(if number == 0 { ",\"tool_calls\":[" } else { "," });
        raw.push_str("{\"id\":");
        json::write_string(&mut raw, id);
        raw.push_str(",\"type\":\"function\",\"function\":{\"name\":");
        json::write_string(&mut raw, name);
        raw.push_str(",\"arguments\":");
        json::write_string(&mut raw, arguments);
        raw.push_str("}}");
    }
    raw.push_str(if calls.is_empty() { "}" } else { "]}" });
    own_entry(Role::Assistant, &raw)
}

fn own_entry(role: Role, raw: &str) -> Entry {
    // What we print ourselves always reads back; the empty entry is there for the type only.
    provider_message_to_entry(Raw::trusted(raw)).unwrap_or_else(|_| empty_entry(role, raw.into()))
}

fn empty_entry(role: Role, raw: Arc<str>) -> Entry {
    Entry {
        role,
        blocks: Box::default(),
        content_state: ContentState::Absent,
        evaluation_id: Uuid::nil(),
        sequence: 0,
        created_at: Time::default(),
        author: None,
        meta: None,
        origin: Origin { wire: Wire::OpenaiChat, raw, part: None },
    }
}

/// Reads messages in order; the order matters only for the old `function_call`, which has no ids.
#[derive(Default)]
struct Reader {
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

impl Reader {
    fn message(&mut self, message: Raw<'_>, index: usize, path: &str) -> Result<Entry, WireError> {
        let bad = |key: &str, problem: String| WireError::bad_message(format!("{path}{key}"), problem);
        if message.kind() != Kind::Object {
            return Err(bad("", format!("a message must be an object, not {}", message.kind().name())));
        }
        if message.text().len() > MAX_MESSAGE_BYTES {
            return Err(bad("", "the message is larger than 4 GiB".into()));
        }
        let source: Arc<str> = message.text().into();
        let message =
            &Raw::trusted(&source).object().map_err(|key| WireError::duplicate_key(path.into(), &key))?;
        let role_raw = message
            .get("role")
            .ok_or_else(|| bad("/role", format!("the message has no role: expected {ROLES}")))?;
        let word = role_raw.string().ok_or_else(|| bad("/role", "the role must be a text".into()))?;
        let role = role_named(&word)
            .ok_or_else(|| bad("/role", format!("unknown role {}: expected {ROLES}", quoted(&word))))?;
        let mut entry = empty_entry(role, Arc::clone(&source));
        entry.author = optional_text(message, "name", &source).map(Box::new);
        let mut blocks = Vec::new();
        entry.content_state = match message.get("content").map(|content| (content.kind(), content)) {
            None => ContentState::Absent,
            Some((Kind::Null, _)) => ContentState::Null,
            Some((Kind::String, content)) => {
                let text = Text::Raw(RawJson::new(&source, content));
                blocks.push(Block::new(BlockKind::Text(text), None));
                ContentState::Text
            }
            Some((Kind::Array, content)) => {
                for (number, part) in content.elements().enumerate() {
                    blocks.push(read_part(part, &source, &format!("{path}/content/{number}"))?);
                }
                ContentState::Parts
            }
            Some((other, _)) => {
                let problem =
                    format!("content must be a text, null or a list of parts, not {}", other.name());
                return Err(bad("/content", problem));
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
        path: &str,
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
        path: &str,
    ) -> Result<Vec<Block>, WireError> {
        if let Some(text) = optional_text(message, "reasoning_content", source) {
            let reasoning = Reasoning { text: Some(text), ..Reasoning::default() };
            blocks.insert(0, Block::new(BlockKind::Reasoning(Box::new(reasoning)), None));
        }
        if let Some(text) = optional_text(message, "refusal", source) {
            blocks.push(Block::new(BlockKind::Refusal(text), None));
        }
        if let Some(calls) = message.get("tool_calls").filter(|calls| calls.kind() != Kind::Null) {
            let path = format!("{path}/tool_calls");
            if calls.kind() != Kind::Array {
                let problem = format!("tool_calls must be a list, not {}", calls.kind().name());
                return Err(WireError::bad_message(path, problem));
            }
            for (number, call) in calls.elements().enumerate() {
                blocks.push(read_call(call, source, &format!("{path}/{number}"))?);
            }
        }
        if let Some(call) = message.get("function_call").filter(|call| call.kind() == Kind::Object) {
            let call = object(call, &format!("{path}/function_call"), "a function call")?;
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

/// A word of the input in an error message: enough to recognise it.
fn quoted(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    if short.len() < word.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

fn optional_text(object: &Object<'_>, key: &str, source: &Arc<str>) -> Option<Text> {
    let value = object.get(key).filter(|value| value.kind() == Kind::String)?;
    Some(Text::Raw(RawJson::new(source, value)))
}

/// An id that may be missing, but must be a text if it is there.
fn id_text(object: &Object<'_>, key: &str, source: &Arc<str>, path: &str) -> Result<Option<Text>, WireError> {
    match object.get(key).map(Raw::kind) {
        None | Some(Kind::Null) => Ok(None),
        Some(Kind::String) => Ok(optional_text(object, key, source)),
        Some(other) => Err(WireError::bad_message(
            format!("{path}/{key}"),
            format!("an id must be a text, not {}", other.name()),
        )),
    }
}

fn object<'a>(value: Raw<'a>, path: &str, what: &str) -> Result<Object<'a>, WireError> {
    if value.kind() != Kind::Object {
        let problem = format!("{what} must be an object, not {}", value.kind().name());
        return Err(WireError::bad_message(path.into(), problem));
    }
    value.object().map_err(|key| WireError::duplicate_key(path.into(), &key))
}

fn read_call(raw: Raw<'_>, source: &Arc<str>, path: &str) -> Result<Block, WireError> {
    let call = object(raw, path, "a tool call")?;
    let id = id_text(&call, "id", source, path)?;
    let inner = |key: &str| match call.get(key) {
        Some(inner) => object(inner, &format!("{path}/{key}"), "what is called").map(Some),
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
        Some(value) if value.kind() == Kind::String => Text::Raw(RawJson::new(source, value)),
        // Some hosts send an object where the format wants its text.
        Some(value) if value.kind() != Kind::Null => Text::from(value.text()),
        _ => Text::from(""),
    };
    let name = optional_text(inner, "name", source).unwrap_or_else(|| Text::from(""));
    let call = ToolCall { call_id, name, arguments, style, signature: None };
    Block::new(BlockKind::ToolCall(Box::new(call)), None)
}

fn read_part(raw: Raw<'_>, source: &Arc<str>, path: &str) -> Result<Block, WireError> {
    let part = object(raw, path, "a content part")?;
    let kind = part.get("type").and_then(Raw::string);
    let text = |key: &str| {
        let missing = part.get(key).is_none();
        let problem =
            if missing { format!("the part has no `{key}`") } else { format!("`{key}` must be a text") };
        optional_text(&part, key, source)
            .ok_or_else(|| WireError::bad_message(format!("{path}/{key}"), problem))
    };
    let block = match kind.as_deref() {
        Some("text") => BlockKind::Text(text("text")?),
        Some("refusal") => BlockKind::Refusal(text("refusal")?),
        Some(media @ ("image_url" | "input_audio" | "file")) => match part.get(media) {
            Some(inner) => BlockKind::Media(Box::new(read_media(media, inner, source))),
            None => BlockKind::Opaque(RawJson::new(source, raw)),
        },
        _ => BlockKind::Opaque(RawJson::new(source, raw)),
    };
    Ok(Block::new(block, Some(RawJson::new(source, raw))))
}

fn read_media(kind: &str, inner: Raw<'_>, source: &Arc<str>) -> Media {
    let text = |key: &str| {
        let value = inner.get(key).filter(|value| value.kind() == Kind::String)?;
        Some(Text::Raw(RawJson::new(source, value)))
    };
    let inline_or_url = |text: Text| {
        let inline = text.as_str().starts_with("data:");
        if inline { MediaSource::Inline(text) } else { MediaSource::Url(text) }
    };
    let (media, place) = match kind {
        "image_url" => {
            let bare = (inner.kind() == Kind::String).then(|| Text::Raw(RawJson::new(source, inner)));
            (MediaKind::Image, bare.or_else(|| text("url")).map(inline_or_url))
        }
        "input_audio" => (MediaKind::Audio, text("data").map(MediaSource::Inline)),
        _ => {
            let data = text("file_data").map(MediaSource::Inline);
            (MediaKind::Document, data.or_else(|| text("file_id").map(MediaSource::File)))
        }
    };
    let low_detail = inner.get("detail").and_then(Raw::string).as_deref() == Some("low");
    Media {
        kind: media,
        mime: None,
        name: text("filename").map(Box::new),
        source: place,
        low_detail,
        size: None,
    }
}

/// The message of one item: as it came, unless the view rewrote it.
pub(super) fn render_item(item: &Item) -> String {
    let raw = Raw::trusted(&item.entry.origin.raw);
    match item.fidelity {
        Fidelity::AsSaid | Fidelity::Moved => json::one_line(raw).into_owned(),
        Fidelity::Rewritten => render_rewritten(&item.entry, raw),
    }
}

/// The message with only those values printed anew that the view changed; key order and all else stay.
fn render_rewritten(entry: &Entry, raw: Raw<'_>) -> String {
    let mut out = String::from("{");
    for (key, value) in raw.members() {
        let replaced = match key.as_ref() {
            "content" => Some(render_content(entry)),
            "tool_calls" => render_calls(entry),
            "function_call" => {
                let kept = entry
                    .blocks
                    .iter()
                    .any(|block| matches!(block.kind, BlockKind::ToolCall(_)) && block.raw.is_none());
                kept.then(|| json::one_line(value).into_owned())
            }
            "reasoning_content" => {
                let kept = entry.blocks.iter().any(|block| matches!(block.kind, BlockKind::Reasoning(_)));
                kept.then(|| value.text().to_string())
            }
            _ => Some(json::one_line(value).into_owned()),
        };
        let Some(replaced) = replaced else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        json::write_string(&mut out, &key);
        out.push(':');
        out.push_str(&replaced);
    }
    out.push('}');
    out
}

fn render_content(entry: &Entry) -> String {
    let content: &[Block] = entry.tool_result().map_or(&entry.blocks, |result| &result.content);
    let mut out = String::new();
    match entry.content_state {
        ContentState::Null | ContentState::Absent => out.push_str("null"),
        ContentState::Text => match content.iter().flat_map(Block::texts).next() {
            Some(text) => text.write_json(&mut out),
            None => out.push_str("null"),
        },
        ContentState::Parts => {
            out.push('[');
            for block in content {
                let Some(raw) = block.raw.as_ref().filter(|_| !matches!(block.kind, BlockKind::ToolCall(_)))
                else {
                    continue;
                };
                if out.len() > 1 {
                    out.push(',');
                }
                match &block.kind {
                    BlockKind::Text(text @ Text::Own(_)) => render_text_part(&mut out, raw, text),
                    _ => out.push_str(&json::one_line(raw.raw())),
                }
            }
            out.push(']');
        }
    }
    out
}

/// A text part with another text and everything else as it was.
fn render_text_part(out: &mut String, raw: &RawJson, text: &Text) {
    out.push('{');
    for (number, (key, value)) in raw.raw().members().enumerate() {
        if number > 0 {
            out.push(',');
        }
        json::write_string(out, &key);
        out.push(':');
        if key == "text" {
            text.write_json(out);
        } else {
            out.push_str(&json::one_line(value));
        }
    }
    out.push('}');
}

/// The calls that are left; none when the key has to go, since an empty list is refused by the provider.
fn render_calls(entry: &Entry) -> Option<String> {
    let calls: Vec<Cow<'_, str>> = entry
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::ToolCall(_)))
        .filter_map(|block| Some(json::one_line(block.raw.as_ref()?.raw())))
        .collect();
    (!calls.is_empty()).then(|| format!("[{}]", calls.join(",")))
}
