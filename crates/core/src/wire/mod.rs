//! Wires: the message formats of providers.
//!
//! Each is parsed into entries, rendered from them, checked by its provider's rules and repaired, by a file of its name
//! in each of the four folders. [`Wire`] is where one begins: [`Wire::parse`], [`Wire::render`] to keep everything,
//! [`Wire::request`] to send it.

pub mod check;
mod detect;
pub mod openai_chat;
mod parse;
mod render;
pub mod repair;
pub(crate) mod replies;
mod request;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::context::Tools;
use crate::decision::Decision;
use crate::entry::{Entry, Role, Time};
use crate::json::{self, JsonError, Raw};
use crate::model::Provider;
use crate::record::{AppendError, Record, Slot};
use crate::tokens::{Tokenizer, entry_tokens};
use crate::view::ViewItem;

pub(crate) use parse::openai_responses::items as responses_items;
pub use render::{
    Checked, LeftOut, Lost, OPENING, Purpose, RenderOptions, Rendered, SYSTEM_NOTE, list_key, system_key,
    tools_key,
};

/// A provider's message format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wire {
    /// `OpenAI` Chat Completions, and everything that speaks it.
    #[serde(rename = "openai-chat")]
    OpenaiChat,
    /// `OpenAI` Responses.
    #[serde(rename = "openai-responses")]
    OpenaiResponses,
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// Gemini `generateContent`.
    #[serde(rename = "gemini")]
    Gemini,
    /// Amazon Bedrock Converse.
    #[serde(rename = "bedrock")]
    Bedrock,
    /// Our own form, which loses nothing.
    #[serde(rename = "scrollback")]
    Scrollback,
}

impl Wire {
    /// Every wire there is.
    pub const ALL: [Wire; 6] = [
        Wire::OpenaiChat,
        Wire::OpenaiResponses,
        Wire::Anthropic,
        Wire::Gemini,
        Wire::Bedrock,
        Wire::Scrollback,
    ];

    /// Its name on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Wire::OpenaiChat => "openai-chat",
            Wire::OpenaiResponses => "openai-responses",
            Wire::Anthropic => "anthropic",
            Wire::Gemini => "gemini",
            Wire::Bedrock => "bedrock",
            Wire::Scrollback => "scrollback",
        }
    }

    /// The wire of that name.
    pub fn named(name: &str) -> Option<Wire> {
        Wire::ALL.into_iter().find(|wire| wire.name() == name)
    }

    /// Whose own format it is; none for the neutral form.
    pub fn provider(self) -> Option<Provider> {
        match self {
            Wire::OpenaiChat | Wire::OpenaiResponses => Some(Provider::OpenAi),
            Wire::Anthropic => Some(Provider::Anthropic),
            Wire::Gemini => Some(Provider::Gemini),
            Wire::Bedrock => Some(Provider::Bedrock),
            Wire::Scrollback => None,
        }
    }

    /// The wire a body is written in, by its shape.
    pub fn detect(body: Raw<'_>) -> Option<Wire> {
        detect::detect(body)
    }

    /// Reads a body: a list of messages, or an object that holds one.
    pub fn parse(self, body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
        match self {
            Wire::OpenaiChat => parse::openai_chat::parse(body, options),
            Wire::OpenaiResponses => parse::openai_responses::parse(body, options),
            Wire::Anthropic => parse::anthropic::parse(body, options),
            Wire::Scrollback => parse::scrollback::parse(body, options),
            Wire::Gemini => parse::gemini::parse(body, options),
            Wire::Bedrock => parse::bedrock::parse(body, options),
        }
    }

    /// Reads one message that is one entry: any message of `openai-chat`, a part of one elsewhere.
    pub fn read_message(self, message: Raw<'_>) -> Result<Entry, WireError> {
        match self {
            Wire::OpenaiChat => parse::openai_chat::read_message(message),
            Wire::OpenaiResponses => parse::openai_responses::read_message(message),
            Wire::Anthropic => parse::anthropic::read_message(message),
            Wire::Gemini => parse::gemini::read_message(message),
            Wire::Bedrock => parse::bedrock::read_message(message),
            Wire::Scrollback => {
                Err(WireError::bad_input("an entry in the neutral form names the wire of its message"))
            }
        }
    }

    /// Whether the provider wants the first message to be a user's.
    pub fn starts_with_user(self) -> bool {
        matches!(self, Wire::Anthropic | Wire::Gemini | Wire::Bedrock)
    }

    /// Reads one message that is one entry whose role is known: on one wire instructions look like any other message.
    pub(crate) fn read_entry(self, role: Role, message: Raw<'_>) -> Result<Entry, WireError> {
        match (self, role) {
            (Wire::Gemini, Role::System) => parse::gemini::read_system(message, &parse::At::Body),
            _ => self.read_message(message),
        }
    }

    /// Prints entries as messages of this wire.
    pub fn render(self, items: impl IntoIterator<Item = ViewItem>, options: RenderOptions<'_>) -> Rendered {
        render::render(self, items.into_iter().collect(), options, render::Own::AsSaid)
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tokens of the message that opens a list where the provider wants a user first.
pub fn opening_tokens(tokenizer: Tokenizer) -> usize {
    entry_tokens(tokenizer, &Entry::text(Role::User, OPENING))
}

/// Every place of a record in the neutral form: what was said, decided and erased.
pub fn neutral(record: &Record) -> Vec<String> {
    render::scrollback::record(record)
}

/// One entry of a record in the neutral form.
pub fn neutral_entry(position: u64, entry: &Entry) -> String {
    render::scrollback::message(position, entry)
}

/// What parsing needs to know from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// The evaluation the entries become part of, counted from sequence 0.
    pub evaluation_id: Uuid,
    /// When they were said.
    pub created_at: Time,
    /// How many messages to read; all of them if none.
    pub take: Option<usize>,
}

/// A body, read.
#[derive(Debug)]
pub struct Parsed {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The message each entry came from, by its place in the list; none for what stands in a field of its own.
    pub indexes: Vec<Option<usize>>,
    /// Everything around the messages.
    pub body: Body,
    /// The tools the request offers, if it says.
    pub tools: Option<Tools>,
    /// What the reader had to assume.
    pub notes: Vec<String>,
    /// What stands between the entries of a record in the neutral form.
    pub between: Vec<Between>,
}

/// A place of a record that is no message.
#[derive(Clone, Debug)]
pub struct Between {
    /// Its position.
    pub position: u64,
    /// A decision or a tombstone.
    pub slot: Slot,
}

impl Parsed {
    /// Nothing read yet.
    fn around(body: Body) -> Self {
        Parsed {
            entries: Vec::new(),
            indexes: Vec::new(),
            body,
            tools: None,
            notes: Vec::new(),
            between: Vec::new(),
        }
    }

    /// The entries as a record, with the decisions among them.
    pub fn into_record(self) -> Result<Record, AppendError> {
        let mut record = Record::new();
        let mut between = self.between.into_iter().peekable();
        let mut entries = self.entries.into_iter();
        loop {
            let position = record.len() as u64;
            if let Some(other) = between.next_if(|other| other.position == position) {
                match other.slot {
                    Slot::Decision(decision, at) => {
                        record.decide(Decision::clone(&decision), at).map(|_| ())?;
                    }
                    Slot::Erased(tombstone) => record.bury(*tombstone).map(|_| ())?,
                    Slot::Message(_) => {}
                }
                continue;
            }
            let Some(entry) = entries.next() else { return Ok(record) };
            record.append(entry)?;
        }
    }

    /// Adds an entry as the next of its evaluation.
    fn push(&mut self, index: Option<usize>, entry: Entry, options: &ParseOptions) {
        let sequence = self.entries.len() as u64;
        self.entries.push(entry.stamped(options.evaluation_id, sequence, options.created_at));
        self.indexes.push(index);
    }
}

/// What stands around the messages of a request, kept so that it can be sent again.
#[derive(Clone, Debug)]
pub enum Body {
    /// Nothing: the messages were a bare list.
    List,
    /// An object; its text, and the key that holds the messages.
    Object {
        /// The whole object, verbatim.
        raw: Arc<str>,
        /// Where the messages are.
        key: &'static str,
    },
}

impl Body {
    /// The same without some of its keys; the rest keeps its spelling.
    #[must_use]
    pub fn without(&self, keys: &[&str]) -> Body {
        let Body::Object { raw, key } = self else { return Body::List };
        let whole = Raw::trusted(raw);
        let kept = whole.spelled_members().filter(|(name, _)| {
            let name = name.string().unwrap_or_default();
            !keys.contains(&name.as_ref())
        });
        let kept: Vec<String> =
            kept.map(|(name, value)| format!("{}:{}", name.text(), value.text())).collect();
        Body::Object { raw: format!("{{{}}}", kept.join(",")).into(), key }
    }

    /// The same with a value under a key, in the place of what stood there; the rest keeps its spelling.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Body {
        let Body::Object { raw, key: list } = self else { return Body::List };
        let path = format!("/{}", json::escape_pointer(key));
        let edits = json::Edits::from([(path, json::Edit::Put(value.into()))]);
        Body::Object { raw: json::edit(Raw::trusted(raw), &edits).into(), key: list }
    }
}

fn one_per_line(messages: &[String]) -> String {
    if messages.is_empty() { "[]".into() } else { format!("[\n{}\n]", messages.join(",\n")) }
}

impl Body {
    /// Whether the request asks for reasoning with a budget of its own, the older kind, which is bound to nothing.
    pub fn asks_for_manual_thinking(&self) -> bool {
        let Body::Object { raw, .. } = self else { return false };
        let thinking = Raw::trusted(raw).get("thinking");
        thinking.and_then(|thinking| thinking.get("type")?.string()).as_deref() == Some("enabled")
    }
}

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    kind: WireErrorKind,
    message: String,
    path: String,
}

/// The kinds of [`WireError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireErrorKind {
    /// Not JSON, or JSON that two readers could read differently.
    BadJson,
    /// JSON, but no messages in it.
    BadInput,
    /// A message that is not one.
    BadMessage,
}

impl WireError {
    /// Which kind it is.
    pub fn kind(&self) -> WireErrorKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self.kind {
            WireErrorKind::BadJson => "bad_json",
            WireErrorKind::BadInput => "bad_input",
            WireErrorKind::BadMessage => "bad_message",
        }
    }

    /// JSON pointer of the offending value, from the body.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn bad_message(path: impl fmt::Display, message: String) -> Self {
        WireError { kind: WireErrorKind::BadMessage, message, path: path.to_string() }
    }

    /// An input without messages.
    pub fn bad_input(message: impl Into<String>) -> Self {
        WireError { kind: WireErrorKind::BadInput, message: message.into(), path: String::new() }
    }

    /// The same error at a place.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    /// A key that appears twice in one object.
    pub(crate) fn duplicate_key(path: impl fmt::Display, key: &str) -> Self {
        let message = format!("the key {key:?} appears twice; readers would disagree about which one counts");
        WireError { kind: WireErrorKind::BadJson, message, path: path.to_string() }
    }
}

impl From<JsonError> for WireError {
    fn from(error: JsonError) -> Self {
        let JsonError { problem, line, column, offset, .. } = &error;
        let message = format!("not valid JSON: {problem} at line {line} column {column} (byte {offset})");
        WireError { kind: WireErrorKind::BadJson, message, path: error.path }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for WireError {}
