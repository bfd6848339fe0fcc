//! `OpenAI` Responses: a flat list of items. What the model gave in one run (reasoning, messages, calls) is one entry;
//! every other item is an entry of its own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::at::At;
use super::read::{
    call_block, empty_entry, id_text, object, optional_text, own_text, text, tools, unknown_role,
};
use crate::block::{
    Block, BlockKind, CallStyle, Marks, Media, MediaKind, MediaSource, Reasoning, ToolResult,
};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{JsonKind, Object, Raw};
use crate::text::{RawJson, Text};
use crate::wire::{Body, ParseOptions, Parsed, Wire, WireError};

/// The roles of messages, for people.
const ROLES: &str = "user, assistant, system or developer";

/// Where the items are.
const INPUT: At<'_> = At::Key(&At::Body, "input");

/// Reads a text, a list of items, or a request that holds one of them under `input`.
pub(crate) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    let (input, members, shape) = match body.kind() {
        JsonKind::Array => (body, Object::default(), Body::List),
        JsonKind::Object => {
            let object = body.object().map_err(|key| WireError::duplicate_key(At::Body, &key))?;
            let key = if object.get("input").is_none() && object.get("items").is_some() {
                "items"
            } else {
                "input"
            };
            // A request that goes on from what the server holds needs no input.
            let continues = ["previous_response_id", "conversation", "response_id", "prompt"];
            let held = continues.iter().any(|key| object.get(key).is_some()).then(|| Raw::trusted("[]"));
            let input =
                object.get(key).or(held).ok_or_else(|| WireError::bad_input("the object has no `input`"))?;
            (input, object, Body::Object { raw: body.text().into(), key })
        }
        other => {
            return Err(WireError::bad_input(format!("expected a list of items, found {}", other.name())));
        }
    };
    let mut parsed = Parsed::around(shape);
    if let Some(instructions) = members.get("instructions").filter(|value| value.kind() == JsonKind::String) {
        parsed.push(None, read_instructions(instructions), options);
    }
    match input.kind() {
        JsonKind::String => parsed.push(Some(0), user_text(input), options),
        JsonKind::Array => read_items(input, &mut parsed, options)?,
        other => {
            let problem = format!("`input` must be a text or a list, not {}", other.name());
            return Err(WireError::bad_input(problem).at("/input"));
        }
    }
    parsed.tools = members.get("tools").filter(|list| list.kind() == JsonKind::Array).map(|list| {
        tools(Wire::OpenaiResponses, "/tools", list, |tool| tool.get("name")).with_names(namespaced(list))
    });
    Ok(parsed)
}

/// The tools inside namespaces, by their names with the namespace in front.
fn namespaced(list: Raw<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for space in
        list.elements().filter(|tool| tool.get("type").and_then(Raw::string).as_deref() == Some("namespace"))
    {
        let Some(namespace) = space.get("name").and_then(Raw::string) else { continue };
        let inside = space.get("tools").into_iter().flat_map(Raw::elements);
        let inside = inside.filter_map(|tool| tool.get("name").and_then(Raw::string));
        names.extend(inside.map(|name| in_namespace(&namespace, &name)));
    }
    names
}

fn in_namespace(namespace: &str, name: &str) -> String {
    format!("{}__{name}", namespace.trim_end_matches('_'))
}

/// Reads one item, a list of items that are one entry, or the value of `instructions`.
pub(crate) fn read_message(message: Raw<'_>) -> Result<Entry, WireError> {
    match message.kind() {
        JsonKind::String => Ok(read_instructions(message)),
        JsonKind::Array => read_run(&message.text().into(), |number| At::Index(&At::Body, number)),
        _ => {
            let source = own_text(message, &At::Body, "an item")?;
            match side(Raw::trusted(&source)) {
                ItemOwner::Model => read_run(&source, |_| At::Body),
                ItemOwner::Other => read_item(&source, &At::Body),
            }
        }
    }
}

fn read_instructions(instructions: Raw<'_>) -> Entry {
    let source: Arc<str> = instructions.text().into();
    let mut entry = empty_entry(Wire::OpenaiResponses, Role::System, Arc::clone(&source));
    let text = Text::Raw(RawJson::new(&source, Raw::trusted(&source)));
    entry.blocks = Box::from([Block::new(BlockKind::Text(text), None)]);
    entry.content_state = ContentState::Text;
    entry
}

/// `input` as one text: the message it is short for.
fn user_text(input: Raw<'_>) -> Entry {
    let source: Arc<str> = format!("{{\"role\":\"user\",\"content\":{}}}", input.text()).into();
    read_item(&source, &At::Body).unwrap_or_else(|_| empty_entry(Wire::OpenaiResponses, Role::User, source))
}

/// Whose item it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemOwner {
    /// The model gave it: part of a run.
    Model,
    /// Anybody else did.
    Other,
}

fn side(item: Raw<'_>) -> ItemOwner {
    let word = item.get("type").and_then(Raw::string);
    match word.as_deref() {
        None | Some("message") => {
            let role = item.get("role").and_then(Raw::string);
            if role.as_deref() == Some("assistant") { ItemOwner::Model } else { ItemOwner::Other }
        }
        Some(
            "reasoning"
            | "item_reference"
            | "compaction"
            | "program"
            | "mcp_list_tools"
            | "mcp_approval_request",
        ) => ItemOwner::Model,
        Some(word) if word.ends_with("_call") => ItemOwner::Model,
        Some(_) => ItemOwner::Other,
    }
}

fn read_items(list: Raw<'_>, parsed: &mut Parsed, options: &ParseOptions) -> Result<(), WireError> {
    let mut run: Vec<(usize, Raw<'_>)> = Vec::new();
    // One kind of output names the item of its call, not the call.
    let mut calls: HashMap<Cow<'_, str>, Cow<'_, str>> = HashMap::new();
    for (index, item) in list.elements().take(options.take.unwrap_or(usize::MAX)).enumerate() {
        let path = INPUT.index(index);
        let source = own_text(item, &path, "an item")?;
        if side(item) == ItemOwner::Model {
            run.push((index, item));
            let text = |key: &str| item.get(key).and_then(Raw::string);
            calls.extend(text("id").zip(text("call_id")));
            continue;
        }
        close_run(&mut run, parsed, options)?;
        let mut entry = read_item(&source, &path)?;
        if item.get("call_id").is_none()
            && let Some(Block { kind: BlockKind::ToolResult(result), .. }) = entry.blocks.first_mut()
            && let Some(call) = result.call_id.as_ref().and_then(|id| calls.get(id.as_str().as_ref()))
        {
            result.call_id = Some(Text::from(call.as_ref()));
        }
        parsed.push(Some(index), entry, options);
    }
    close_run(&mut run, parsed, options)
}

/// Makes an entry of the run that has ended, if there was one.
fn close_run(
    run: &mut Vec<(usize, Raw<'_>)>,
    parsed: &mut Parsed,
    options: &ParseOptions,
) -> Result<(), WireError> {
    let Some(&(first, item)) = run.first() else { return Ok(()) };
    let source: Arc<str> = if run.len() == 1 {
        item.text().into()
    } else {
        let mut list = String::from("[");
        for (number, (_, item)) in run.iter().enumerate() {
            if number > 0 {
                list.push(',');
            }
            list.push_str(item.text());
        }
        list.push(']');
        list.into()
    };
    let entry = read_run(&source, |number| At::Index(&INPUT, first + number))?;
    run.clear();
    parsed.push(Some(first), entry, options);
    Ok(())
}

/// The items of an entry's raw text: the elements of a list, or the one it is.
pub(crate) fn items(raw: Raw<'_>) -> Vec<Raw<'_>> {
    if raw.kind() == JsonKind::Array { raw.elements().collect() } else { vec![raw] }
}

fn read_run(source: &Arc<str>, path: impl Fn(usize) -> At<'static>) -> Result<Entry, WireError> {
    let mut entry = empty_entry(Wire::OpenaiResponses, Role::Assistant, Arc::clone(source));
    let mut blocks = Vec::new();
    for (number, item) in items(Raw::trusted(source)).into_iter().enumerate() {
        read_model_item(item, source, &path(number), &mut blocks)?;
    }
    entry.content_state = ContentState::Parts;
    entry.blocks = blocks.into();
    Ok(entry)
}

/// The name of a called tool, with its namespace in front where it has one: `mcp__scrollback__search`.
fn qualified(item: &Object<'_>, source: &Arc<str>) -> Option<Text> {
    let name = optional_text(item, "name", source)?;
    let namespace = item.get("namespace").and_then(Raw::string).unwrap_or_default();
    Some(match &*namespace {
        "" => name,
        namespace => Text::from(in_namespace(namespace, &name.as_str()).as_str()),
    })
}

fn read_model_item(
    raw: Raw<'_>,
    source: &Arc<str>,
    path: &At<'_>,
    blocks: &mut Vec<Block>,
) -> Result<(), WireError> {
    let item = object(raw, path, "an item")?;
    let word = item.get("type").and_then(Raw::string).unwrap_or(Cow::Borrowed("message"));
    let own = || RawJson::new(source, raw);
    let optional = |key: &str| optional_text(&item, key, source);
    let mut block = match word.as_ref() {
        "message" => {
            let content = item.get("content");
            return read_content(content, source, &path.key("content"))
                .map(|(_, parts)| blocks.extend(parts));
        }
        "reasoning" => Block::new(BlockKind::Reasoning(Box::new(read_reasoning(&item, source))), Some(own())),
        "compaction" => Block::new(BlockKind::Compaction(own()), Some(own())),
        "function_call" => {
            let id = id_text(&item, "call_id", source, path)?;
            let arguments = optional("arguments").unwrap_or_else(|| Text::from(""));
            call_block(raw, source, id, qualified(&item, source), arguments, CallStyle::Function)
        }
        "custom_tool_call" => {
            let id = id_text(&item, "call_id", source, path)?;
            let arguments = optional("input").unwrap_or_else(|| Text::from(""));
            call_block(raw, source, id, qualified(&item, source), arguments, CallStyle::Custom)
        }
        "mcp_call" => {
            let arguments = optional("arguments").unwrap_or_else(|| Text::from(""));
            call_block(raw, source, optional("id"), optional("name"), arguments, CallStyle::Mcp)
        }
        // The client runs these too, each with an output item of its own.
        "computer_call" | "local_shell_call" | "shell_call" | "apply_patch_call" => {
            let id = id_text(&item, "call_id", source, path)?;
            let inner = ["action", "operation", "actions"].iter().find_map(|key| item.get(key));
            let arguments =
                inner.map_or_else(|| Text::from("{}"), |value| Text::Json(RawJson::new(source, value)));
            call_block(raw, source, id, Some(Text::from(word.as_ref())), arguments, CallStyle::Function)
        }
        word if word.ends_with("_call") => {
            let name = Some(Text::from(word));
            call_block(raw, source, optional("id"), name, Text::from("{}"), CallStyle::Server)
        }
        _ => Block::new(BlockKind::Opaque(own()), Some(own())),
    };
    if let Some(id) = optional("id") {
        block.marks = Some(Box::new(Marks { provider_id: Some(id), cache_hint: None }));
    }
    blocks.push(block);
    Ok(())
}

fn read_reasoning(item: &Object<'_>, source: &Arc<str>) -> Reasoning {
    let texts = |key: &str| -> Vec<Text> {
        let parts = item.get(key).into_iter().flat_map(Raw::elements);
        let text = |part: Raw<'_>| {
            let text = part.get("text").filter(|text| text.kind() == JsonKind::String)?;
            Some(Text::Raw(RawJson::new(source, text)))
        };
        parts.filter_map(text).collect()
    };
    Reasoning {
        text: texts("content").into_iter().next(),
        summaries: texts("summary"),
        encrypted: optional_text(item, "encrypted_content", source),
        ..Reasoning::default()
    }
}

/// An item that the model did not write.
fn read_item(source: &Arc<str>, path: &At<'_>) -> Result<Entry, WireError> {
    let item = object(Raw::trusted(source), path, "an item")?;
    let word = item.get("type").and_then(Raw::string).unwrap_or(Cow::Borrowed("message"));
    let own = || RawJson::new(source, Raw::trusted(source));
    let (role, state, blocks): (Role, ContentState, Box<[Block]>) = match word.as_ref() {
        "message" => {
            let role = match item.get("role").and_then(Raw::string).as_deref() {
                Some("user") => Role::User,
                Some("system" | "developer") => Role::System,
                Some(word) => return Err(unknown_role(word, path, ROLES)),
                None if item.get("type").is_some() || item.get("content").is_some() => {
                    let problem = format!("the message has no role: expected {ROLES}");
                    return Err(WireError::bad_message(path.key("role"), problem));
                }
                None => {
                    let problem = "an item needs a `type`, or a `role` if it is a message".into();
                    return Err(WireError::bad_message(path, problem));
                }
            };
            let (state, blocks) = read_content(item.get("content"), source, &path.key("content"))?;
            (role, state, blocks.into())
        }
        word if is_output(word) => {
            let (state, result) = read_output(&item, source, path)?;
            let block = Block::new(BlockKind::ToolResult(Box::new(result)), Some(own()));
            (Role::Tool, state, Box::from([block]))
        }
        word => {
            let role = match word {
                "configuration_update" | "additional_tools" => Role::System,
                _ => Role::User,
            };
            (role, ContentState::Absent, Box::from([Block::new(BlockKind::Opaque(own()), Some(own()))]))
        }
    };
    let mut entry = empty_entry(Wire::OpenaiResponses, role, Arc::clone(source));
    (entry.content_state, entry.blocks) = (state, blocks);
    Ok(entry)
}

/// Whether items of this type answer a call the client ran.
fn is_output(word: &str) -> bool {
    matches!(
        word,
        "function_call_output"
            | "custom_tool_call_output"
            | "computer_call_output"
            | "local_shell_call_output"
            | "shell_call_output"
            | "apply_patch_call_output"
    )
}

fn read_output(
    item: &Object<'_>,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<(ContentState, ToolResult), WireError> {
    let call_id = match id_text(item, "call_id", source, path)? {
        Some(id) => Some(id),
        None => id_text(item, "id", source, path)?,
    };
    let output = item.get("output");
    let (state, content) = match output.map(Raw::kind) {
        Some(JsonKind::Object | JsonKind::Number | JsonKind::Bool) => {
            let raw = output.map(|output| RawJson::new(source, output));
            let blocks = raw.map(|raw| Block::new(BlockKind::Opaque(raw.clone()), Some(raw)));
            (ContentState::Parts, blocks.into_iter().collect())
        }
        _ => read_content(output, source, &path.key("output"))?,
    };
    let name = optional_text(item, "name", source).map(Box::new);
    Ok((state, ToolResult { call_id, name, content: content.into(), is_error: None }))
}

/// A text, or a list of parts.
fn read_content(
    content: Option<Raw<'_>>,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<(ContentState, Vec<Block>), WireError> {
    let Some(content) = content else { return Ok((ContentState::Absent, Vec::new())) };
    match content.kind() {
        JsonKind::Null => Ok((ContentState::Null, Vec::new())),
        JsonKind::String => {
            let text = Text::Raw(RawJson::new(source, content));
            Ok((ContentState::Text, vec![Block::new(BlockKind::Text(text), None)]))
        }
        JsonKind::Array => {
            let parts = content
                .elements()
                .enumerate()
                .map(|(number, part)| read_part(part, source, &path.index(number)));
            Ok((ContentState::Parts, parts.collect::<Result<_, _>>()?))
        }
        other => {
            let problem = format!("content must be a text or a list of parts, not {}", other.name());
            Err(WireError::bad_message(path, problem))
        }
    }
}

fn read_part(raw: Raw<'_>, source: &Arc<str>, path: &At<'_>) -> Result<Block, WireError> {
    let part = object(raw, path, "a content part")?;
    let word = part.get("type").and_then(Raw::string);
    let kind = match word.as_deref() {
        Some("input_text" | "output_text" | "text") => BlockKind::Text(text(&part, "text", source, path)?),
        Some("refusal") => BlockKind::Refusal(text(&part, "refusal", source, path)?),
        Some(word @ ("input_image" | "input_file" | "input_audio")) => {
            BlockKind::Media(Box::new(read_media(word, &part, source)))
        }
        _ => BlockKind::Opaque(RawJson::new(source, raw)),
    };
    Ok(Block::new(kind, Some(RawJson::new(source, raw))))
}

fn read_media(word: &str, part: &Object<'_>, source: &Arc<str>) -> Media {
    let at = |key: &str| optional_text(part, key, source);
    let inline_or_url = |text: Text| {
        let inline = text.as_str().starts_with("data:");
        if inline { MediaSource::Inline(text) } else { MediaSource::Url(text) }
    };
    let file = || at("file_id").map(MediaSource::File);
    let (kind, place) = match word {
        "input_image" => (MediaKind::Image, at("image_url").map(inline_or_url).or_else(file)),
        "input_audio" => {
            let data =
                part.get("input_audio").and_then(|audio| audio.get("data")).unwrap_or(Raw::trusted("null"));
            let data = (data.kind() == JsonKind::String).then(|| Text::Raw(RawJson::new(source, data)));
            (MediaKind::Audio, data.map(MediaSource::Inline))
        }
        _ => {
            let data = at("file_data").map(MediaSource::Inline);
            let place = data.or_else(|| at("file_url").map(MediaSource::Url)).or_else(file);
            (MediaKind::Document, place)
        }
    };
    let detail = part.get("detail").and_then(Raw::string).map(Into::into);
    Media { kind, mime: None, name: at("filename").map(Box::new), source: place, detail, size: None }
}
