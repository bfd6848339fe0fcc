//! Blocks: the parts of an entry's content.

use crate::json::{self, JsonKind};
use crate::text::{RawJson, Text};

/// One part of what an entry says.
///
/// `raw` is the block's own JSON where the wire has one; a block that is not rewritten goes back as exactly that.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What kind of part it is.
    pub kind: BlockKind,
    /// The verbatim JSON of the block, if it is a value of its own on its wire; most texts are not.
    pub raw: Option<Box<RawJson>>,
    /// The provider's id of the block and its cache mark; rare, so kept apart.
    pub marks: Option<Box<Marks>>,
}

/// What a provider attached to a block beside its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The provider's own id (`rs_…`, `msg_…`, `fc_…`).
    pub provider_id: Option<Text>,
    /// The cache breakpoint, verbatim.
    pub cache_hint: Option<RawJson>,
}

/// The kinds of block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Plain text.
    Text(Text),
    /// What the model thought; replayed verbatim or not at all.
    Reasoning(Box<Reasoning>),
    /// A tool the model wants run.
    ToolCall(Box<ToolCall>),
    /// What a tool answered.
    ToolResult(Box<ToolResult>),
    /// An image, a sound, a file.
    Media(Box<Media>),
    /// A refusal in the model's words.
    Refusal(Text),
    /// A provider's own compaction of earlier messages; opaque and signed.
    Compaction(RawJson),
    /// Anything else: kept, and rendered only to the wire it came from.
    Opaque(RawJson),
}

/// Reasoning as its provider gave it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning {
    /// The thought, if it is readable.
    pub text: Option<Text>,
    /// Summaries of the thought.
    pub summaries: Vec<Text>,
    /// The provider's signature over it.
    pub signature: Option<Text>,
    /// The payload only the provider can read.
    pub encrypted: Option<Text>,
    /// Whether the provider hid the text.
    pub redacted: bool,
}

/// How a tool call is made, and by whom it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStyle {
    /// The client runs it; arguments are meant to be a JSON object.
    Function,
    /// The client runs it; arguments are free text.
    Custom,
    /// The provider runs it and its result stands in the same entry.
    Server,
    /// The provider runs it on an MCP server.
    Mcp,
}

impl CallStyle {
    /// Whether the client must answer the call; only such calls form groups.
    pub fn is_client(self) -> bool {
        matches!(self, CallStyle::Function | CallStyle::Custom)
    }
}

/// A tool the model wants run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id its result must carry. A call without one can never be answered.
    pub call_id: Option<Text>,
    /// Name of the tool.
    pub name: Text,
    /// The arguments exactly as the model wrote them; not always JSON.
    pub arguments: Text,
    /// Who runs it.
    pub style: CallStyle,
    /// The provider's signature over the call; rare, so kept apart.
    pub signature: Option<Box<Text>>,
}

/// What the arguments of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// A JSON object, as it should be.
    Object,
    /// JSON, but no object.
    OtherJson,
    /// Not JSON at all.
    NotJson,
}

impl ToolCall {
    /// Whether the arguments parse, and as what.
    pub fn arguments_json(&self) -> Arguments {
        match json::check(&self.arguments.as_str()) {
            Ok(raw) if raw.kind() == JsonKind::Object => Arguments::Object,
            Ok(_) => Arguments::OtherJson,
            Err(_) => Arguments::NotJson,
        }
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub call_id: Option<Text>,
    /// Name of the tool, where the wire states it; often absent, so kept apart.
    pub name: Option<Box<Text>>,
    /// The answer: texts, media, opaque parts.
    pub content: Box<[Block]>,
    /// Whether the tool failed; none where the wire cannot say.
    pub is_error: Option<bool>,
}

/// What a media block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// A document or any other file.
    Document,
}

/// Where the bytes of a media block are.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaSource {
    /// In the message itself: a data URL or bare base64.
    Inline(Text),
    /// In the message itself, as readable text.
    Text(Text),
    /// At an address.
    Url(Text),
    /// At the provider, under its file id.
    File(Text),
}

/// An image, a sound, a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Its MIME type, where stated.
    pub mime: Option<String>,
    /// Its name, where it has one; rare, so kept apart.
    pub name: Option<Box<Text>>,
    /// Where the bytes are; none when the wire names no source.
    pub source: Option<MediaSource>,
    /// How closely the model shall look, where stated: `low`, `high`, `auto`.
    pub detail: Option<Box<str>>,
    /// Width and height in pixels, where known.
    pub size: Option<(u32, u32)>,
}

/// Keys that some wire gives a meaning the model of a block holds; every other key is an extension.
const MODELLED: [&str; 42] = [
    "type",
    "text",
    "refusal",
    "id",
    "function",
    "custom",
    "name",
    "arguments",
    "input",
    "image_url",
    "input_audio",
    "file",
    "thinking",
    "signature",
    "data",
    "summary",
    "encrypted_content",
    "tool_use_id",
    "content",
    "is_error",
    "cache_control",
    "call_id",
    "output",
    "source",
    "functionCall",
    "function_call",
    "functionResponse",
    "function_response",
    "toolUse",
    "toolResult",
    "json",
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "image",
    "document",
    "video",
    "filename",
    "file_id",
    "file_url",
    "title",
];

impl Block {
    /// A text block of our own making.
    pub fn text(text: &str) -> Self {
        Block { kind: BlockKind::Text(Text::from(text)), raw: None, marks: None }
    }

    pub(crate) fn new(kind: BlockKind, raw: Option<RawJson>) -> Self {
        Block { kind, raw: raw.map(Box::new), marks: None }
    }

    /// Whether a key of the block's JSON is one this model holds.
    pub(crate) fn knows(key: &str) -> bool {
        MODELLED.contains(&key)
    }

    /// The keys of the block's JSON that this model does not hold, verbatim and in order.
    pub fn ext(&self) -> Vec<(String, RawJson)> {
        let Some(raw) = &self.raw else { return Vec::new() };
        let source: std::sync::Arc<str> = raw.as_str().into();
        let Ok(value) = json::check(&source) else { return Vec::new() };
        value
            .members()
            .filter(|(key, _)| !MODELLED.contains(&key.as_ref()))
            .map(|(key, value)| (key.into_owned(), RawJson::new(&source, value)))
            .collect()
    }

    /// The id of the call it makes or answers.
    pub fn call_id(&self) -> Option<&Text> {
        match &self.kind {
            BlockKind::ToolCall(call) => call.call_id.as_ref(),
            BlockKind::ToolResult(result) => result.call_id.as_ref(),
            _ => None,
        }
    }

    /// Every text in the block that a reader would see, results' inner texts included.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        let (own, inner): (Option<&Text>, &[Block]) = match &self.kind {
            BlockKind::Text(text) | BlockKind::Refusal(text) => (Some(text), &[]),
            BlockKind::ToolResult(result) => (None, &result.content),
            _ => (None, &[]),
        };
        own.into_iter().chain(inner.iter().filter_map(|block| match &block.kind {
            BlockKind::Text(text) => Some(text),
            _ => None,
        }))
    }
}
