//! How every wire reads values: what may be missing, what must be a text, and what to say when it is not.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::at::At;
use crate::block::{Block, BlockKind, CallStyle, ToolCall};
use crate::context::{OfferedTool, Tools};
use crate::entry::{ContentState, Entry, Origin, Role, Time};
use crate::json::{self, JsonKind, Object, Raw};
use crate::text::{RawJson, Text};
use crate::wire::{Body, Wire, WireError};

/// The single member under which arguments that are no JSON object travel on wires that want an object.
pub(crate) const RAW_ARGUMENTS: &str = "__raw";

/// Spans are kept in 32 bits.
const MAX_MESSAGE_BYTES: usize = u32::MAX as usize;

/// The list of messages in a body, all members of it, and how to send it again; a bare list is a body too.
pub(super) fn message_list<'a>(
    body: Raw<'a>,
    key: &'static str,
) -> Result<(Raw<'a>, Object<'a>, Body), WireError> {
    match body.kind() {
        JsonKind::Array => Ok((body, Object::default(), Body::List)),
        JsonKind::Object => {
            let object = body.object().map_err(|key| WireError::duplicate_key(At::Body, &key))?;
            let list =
                object.get(key).ok_or_else(|| WireError::bad_input(format!("the object has no `{key}`")))?;
            if list.kind() != JsonKind::Array {
                let problem = format!("`{key}` must be a list, not {}", list.kind().name());
                return Err(WireError::bad_input(problem).at(&format!("/{key}")));
            }
            Ok((list, object, Body::Object { raw: body.text().into(), key }))
        }
        other => Err(WireError::bad_input(format!("expected a list of messages, found {}", other.name()))),
    }
}

/// The text of a message in memory of its own.
pub(super) fn own_text(message: Raw<'_>, path: &At<'_>, what: &str) -> Result<Arc<str>, WireError> {
    if message.kind() != JsonKind::Object {
        let problem = format!("{what} must be an object, not {}", message.kind().name());
        return Err(WireError::bad_message(path, problem));
    }
    if message.text().len() > MAX_MESSAGE_BYTES {
        return Err(WireError::bad_message(path, format!("{what} is larger than 4 GiB")));
    }
    Ok(message.text().into())
}

/// An entry with nothing in it yet.
pub(crate) fn empty_entry(wire: Wire, role: Role, raw: Arc<str>) -> Entry {
    Entry {
        role,
        blocks: Box::default(),
        content_state: ContentState::Absent,
        evaluation_id: Uuid::nil(),
        sequence: 0,
        created_at: Time::default(),
        author: None,
        meta: None,
        origin: Origin { wire, raw, part: None },
    }
}

/// An object in which no key appears twice.
pub(super) fn object<'a>(
    value: Raw<'a>,
    path: &At<'_>,
    what: impl fmt::Display,
) -> Result<Object<'a>, WireError> {
    if value.kind() != JsonKind::Object {
        let problem = format!("{what} must be an object, not {}", value.kind().name());
        return Err(WireError::bad_message(path, problem));
    }
    value.object().map_err(|key| WireError::duplicate_key(path, &key))
}

/// The role word of a message.
pub(super) fn role_word<'a>(
    message: &Object<'a>,
    path: &At<'_>,
    roles: &str,
) -> Result<Cow<'a, str>, WireError> {
    let path = path.key("role");
    match message.get("role").map(Raw::string) {
        Some(Some(word)) => Ok(word),
        Some(None) => Err(WireError::bad_message(path, "the role must be a text".into())),
        None => Err(WireError::bad_message(path, format!("the message has no role: expected {roles}"))),
    }
}

/// The complaint about an unknown role.
pub(super) fn unknown_role(word: &str, path: &At<'_>, roles: &str) -> WireError {
    let problem = format!("unknown role {}: expected {roles}", quoted(word));
    WireError::bad_message(path.key("role"), problem)
}

/// A word of the input in an error message: enough to recognise it.
fn quoted(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    if short.len() < word.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

/// The text under a key; none if it is missing or no text.
pub(super) fn optional_text(object: &Object<'_>, key: &str, source: &Arc<str>) -> Option<Text> {
    let value = object.get(key).filter(|value| value.kind() == JsonKind::String)?;
    Some(Text::Raw(RawJson::new(source, value)))
}

/// The text under a key that must be there.
pub(super) fn text(
    object: &Object<'_>,
    key: &str,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<Text, WireError> {
    optional_text(object, key, source).ok_or_else(|| {
        let missing = object.get(key).is_none();
        let problem =
            if missing { format!("the part has no `{key}`") } else { format!("`{key}` must be a text") };
        WireError::bad_message(path.key(key), problem)
    })
}

/// An id that may be missing, but must be a text if it is there.
pub(super) fn id_text(
    object: &Object<'_>,
    key: &str,
    source: &Arc<str>,
    path: &At<'_>,
) -> Result<Option<Text>, WireError> {
    match object.get(key).map(Raw::kind) {
        None | Some(JsonKind::Null) => Ok(None),
        Some(JsonKind::String) => Ok(optional_text(object, key, source)),
        Some(other) => {
            Err(WireError::bad_message(path.key(key), format!("an id must be a text, not {}", other.name())))
        }
    }
}

/// The arguments of a call on a wire that holds them as an object: its text, or what was wrapped because it is not an object.
pub(super) fn object_arguments(value: Option<Raw<'_>>, source: &Arc<str>) -> Text {
    let Some(value) = value.filter(|value| value.kind() != JsonKind::Null) else { return Text::from("{}") };
    match only_member(value) {
        Some((key, inner)) if key == RAW_ARGUMENTS && inner.kind() == JsonKind::String => {
            Text::Raw(RawJson::new(source, inner))
        }
        _ => Text::Json(RawJson::new(source, value)),
    }
}

/// The one member of an object that has no other.
pub(super) fn only_member(value: Raw<'_>) -> Option<(Cow<'_, str>, Raw<'_>)> {
    let mut members = value.members();
    let member = members.next()?;
    members.next().is_none().then_some(member)
}

/// A call that has JSON of its own.
pub(super) fn call_block(
    raw: Raw<'_>,
    source: &Arc<str>,
    call_id: Option<Text>,
    name: Option<Text>,
    arguments: Text,
    style: CallStyle,
) -> Block {
    let name = name.unwrap_or_else(|| Text::from(""));
    let call = ToolCall { call_id, name, arguments, style, signature: None };
    Block::new(BlockKind::ToolCall(Box::new(call)), Some(RawJson::new(source, raw)))
}

/// Bytes as base64: a text, or the object SDKs write into files.
pub(super) fn bytes(value: Raw<'_>, source: &Arc<str>) -> Option<Text> {
    let value = if value.kind() == JsonKind::Object { value.get("data")? } else { value };
    (value.kind() == JsonKind::String).then(|| Text::Raw(RawJson::new(source, value)))
}

/// The tools of a request: the list at `place` defines one each.
pub(super) fn tools<'a>(
    wire: Wire,
    place: &str,
    list: Raw<'a>,
    name: impl Fn(Raw<'a>) -> Option<Raw<'a>>,
) -> Tools {
    let define = |(number, tool): (usize, Raw<'a>)| OfferedTool {
        name: name(tool).and_then(Raw::string).map(Cow::into_owned),
        place: Some(format!("{place}/{number}")),
        text: json::one_line(tool).into_owned(),
    };
    Tools::found(wire, list.elements().enumerate().map(define).collect())
}
