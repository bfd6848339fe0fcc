//! A request, taken apart once: every member, message and block the rules ask for.

use std::borrow::Cow;
use std::ops::Range;

use super::finding::RequestPath;
use crate::json::{JsonKind, Raw};

/// A request; a bare list of messages is one without any other members.
pub(super) struct AnthropicRequest<'a> {
    members: Vec<(Cow<'a, str>, Raw<'a>)>,
    pub(super) messages: Vec<AnthropicMessage<'a>>,
    /// Runs of messages of one role, which the provider merges into one.
    pub(super) turns: Vec<RoleRun>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnthropicRole {
    User,
    Assistant,
    System,
    /// Something the provider does not know.
    Other,
}

pub(super) struct AnthropicMessage<'a> {
    pub(super) role: AnthropicRole,
    /// Whether it says nothing: no content, `null`, no text or no blocks, and no settings for the turn either.
    pub(super) is_empty: bool,
    /// The blocks; a text for content is one of them.
    pub(super) blocks: Vec<AnthropicBlock<'a>>,
}

/// A run of messages of one role.
pub(super) struct RoleRun {
    pub(super) role: AnthropicRole,
    pub(super) messages: Range<usize>,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Image,
    /// `document` and `search_result`.
    Document,
    Thinking,
    RedactedThinking,
    /// `tool_use`.
    Call,
    /// `tool_result`.
    Result,
    /// `server_tool_use` and `mcp_tool_use`: run by the provider.
    ServerCall,
    /// Its result.
    ServerResult,
    Compaction,
    /// `tool_addition` and `tool_removal`.
    ToolChange,
    /// Anything else, which is accepted in silence.
    Other,
}

pub(super) struct AnthropicBlock<'a> {
    pub(super) raw: Raw<'a>,
    pub(super) place: RequestPath,
    pub(super) kind: Type,
    /// `id` of a call, `tool_use_id` of a result.
    pub(super) id: Option<Cow<'a, str>>,
    /// `text`, `thinking` or `data`, whatever it is.
    pub(super) text: Option<Raw<'a>>,
    pub(super) signature: Option<Raw<'a>>,
    pub(super) content: Option<Raw<'a>>,
    pub(super) name: Option<Raw<'a>>,
    pub(super) source: Option<Raw<'a>>,
    /// `cache_control`, unless it is `null`.
    pub(super) mark: Option<Raw<'a>>,
    /// Whether it has a member besides those that texts and thinking have.
    pub(super) has_more: bool,
    /// The blocks inside a result.
    pub(super) inner: Vec<AnthropicBlock<'a>>,
}

impl<'a> AnthropicRequest<'a> {
    pub(super) fn read(body: Raw<'a>) -> Self {
        let members: Vec<_> = body.members().collect();
        let mut request = AnthropicRequest { members, messages: Vec::new(), turns: Vec::new() };
        let list = if body.kind() == JsonKind::Array { Some(body) } else { request.get("messages") };
        for (index, message) in list.into_iter().flat_map(Raw::elements).enumerate() {
            let message = read_message(message, index);
            match request.turns.last_mut() {
                Some(turn) if turn.role == message.role => turn.messages.end = index + 1,
                _ => request.turns.push(RoleRun { role: message.role, messages: index..index + 1 }),
            }
            request.messages.push(message);
        }
        request
    }

    /// A member of the body; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<Raw<'a>> {
        let (_, value) = self.members.iter().find(|(name, _)| name == key)?;
        (value.kind() != JsonKind::Null).then_some(*value)
    }

    /// The blocks of a turn, in order.
    pub(super) fn blocks(&self, turn: &RoleRun) -> impl DoubleEndedIterator<Item = &AnthropicBlock<'a>> {
        let messages = self.messages.get(turn.messages.clone()).unwrap_or_default();
        messages.iter().flat_map(|message| &message.blocks)
    }

    /// The last turn; system messages at the end do not count.
    pub(super) fn last_spoken(&self) -> Option<(usize, &RoleRun)> {
        self.turns.iter().enumerate().rfind(|(_, turn)| turn.role != AnthropicRole::System)
    }

    /// Whether the messages go on from what the provider holds.
    pub(super) fn continues_thread(&self) -> bool {
        let kind = self.get("thread").and_then(|thread| thread.get("type")).and_then(Raw::string);
        kind.as_deref() == Some("continue")
    }

    /// Whether it is only a list of messages.
    pub(super) fn is_bare(&self) -> bool {
        self.members.is_empty()
    }
}

fn read_message(message: Raw<'_>, index: usize) -> AnthropicMessage<'_> {
    let (mut role, mut content, mut sets) = (AnthropicRole::Other, None, false);
    for (key, value) in message.members() {
        match key.as_ref() {
            "output_config" => sets = true,
            "role" => role = role_named(value),
            "content" if content.is_none() => content = Some(value),
            _ => {}
        }
    }
    let mut blocks = Vec::new();
    let mut is_empty = content.is_none();
    if let Some(content) = content {
        match content.kind() {
            JsonKind::Array => {
                for (number, block) in content.elements().enumerate() {
                    blocks.push(read_block(block, RequestPath::Block(index, number, None)));
                }
                is_empty = blocks.is_empty();
            }
            JsonKind::String if content.text() != "\"\"" => {
                let mut block = AnthropicBlock::new(content, RequestPath::Message(index));
                block.kind = Type::Text;
                block.text = Some(content);
                blocks.push(block);
            }
            JsonKind::String | JsonKind::Null => is_empty = true,
            JsonKind::Bool | JsonKind::Number | JsonKind::Object => {}
        }
    }
    // Claude Code sets the effort of a turn by a system message without content.
    is_empty &= !(sets && role == AnthropicRole::System);
    AnthropicMessage { role, is_empty, blocks }
}

fn role_named(role: Raw<'_>) -> AnthropicRole {
    match role.string().as_deref() {
        Some("user") => AnthropicRole::User,
        Some("assistant") => AnthropicRole::Assistant,
        Some("system") => AnthropicRole::System,
        _ => AnthropicRole::Other,
    }
}

fn read_block(raw: Raw<'_>, place: RequestPath) -> AnthropicBlock<'_> {
    let mut block = read_members(raw, place);
    if let (Type::Result, Some(content), RequestPath::Block(message, number, None)) =
        (block.kind, block.content, place)
    {
        let inner = content.elements().enumerate();
        block.inner =
            inner.map(|(at, raw)| read_members(raw, RequestPath::Block(message, number, Some(at)))).collect();
    }
    block
}

fn read_members(raw: Raw<'_>, place: RequestPath) -> AnthropicBlock<'_> {
    let mut block = AnthropicBlock::new(raw, place);
    for (key, value) in raw.members() {
        match key.as_ref() {
            "type" => block.kind = type_named(value),
            "id" | "tool_use_id" => block.id = value.string(),
            "text" | "thinking" | "data" => block.text = Some(value),
            "signature" => block.signature = Some(value),
            "cache_control" => block.mark = (value.kind() != JsonKind::Null).then_some(value),
            other => {
                block.has_more = true;
                match other {
                    "content" => block.content = Some(value),
                    "name" => block.name = Some(value),
                    "source" => block.source = Some(value),
                    _ => {}
                }
            }
        }
    }
    block
}

fn type_named(kind: Raw<'_>) -> Type {
    match kind.string().as_deref() {
        Some("text") => Type::Text,
        Some("image") => Type::Image,
        Some("document" | "search_result") => Type::Document,
        Some("thinking") => Type::Thinking,
        Some("redacted_thinking") => Type::RedactedThinking,
        Some("tool_use") => Type::Call,
        Some("tool_result") => Type::Result,
        Some("server_tool_use" | "mcp_tool_use") => Type::ServerCall,
        Some(
            "web_search_tool_result"
            | "web_fetch_tool_result"
            | "code_execution_tool_result"
            | "bash_code_execution_tool_result"
            | "text_editor_code_execution_tool_result"
            | "tool_search_tool_result"
            | "advisor_tool_result"
            | "mcp_tool_result",
        ) => Type::ServerResult,
        Some("compaction") => Type::Compaction,
        Some("tool_addition" | "tool_removal") => Type::ToolChange,
        _ => Type::Other,
    }
}

impl<'a> AnthropicBlock<'a> {
    fn new(raw: Raw<'a>, place: RequestPath) -> Self {
        AnthropicBlock {
            raw,
            place,
            kind: Type::Other,
            id: None,
            text: None,
            signature: None,
            content: None,
            name: None,
            source: None,
            mark: None,
            has_more: false,
            inner: Vec::new(),
        }
    }

    /// Whether it is reasoning the provider signed or sealed.
    pub(super) fn is_thinking(&self) -> bool {
        matches!(self.kind, Type::Thinking | Type::RedactedThinking)
    }

    /// Whether the provider ran, or runs, something here.
    pub(super) fn is_server_tool(&self) -> bool {
        matches!(self.kind, Type::ServerCall | Type::ServerResult)
    }

    /// What tells a piece of reasoning from all others: its signature, or what is sealed.
    pub(super) fn seal(&self) -> Option<&'a str> {
        let seal = match self.kind {
            Type::Thinking => self.signature,
            Type::RedactedThinking => self.text,
            _ => None,
        };
        seal.filter(|seal| seal.kind() == JsonKind::String && seal.text().len() > 2).map(Raw::text)
    }
}

/// Whether a string literal stands for nothing but white space.
pub(super) fn is_blank(literal: Raw<'_>) -> bool {
    // Nearly every text shows at its first character that it is not one.
    let first = literal.text().chars().nth(1);
    first.is_none_or(|first| first.is_whitespace() || matches!(first, '\\' | '"'))
        && literal.string().is_some_and(|text| text.trim().is_empty())
}
