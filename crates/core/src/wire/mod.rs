//! Wires: the message formats of providers. One file each, all of the same shape: parse a body into entries,
//! render a view back into one.

mod bedrock;
pub mod check;
mod gemini;
pub mod openai_chat;
mod read;
mod split;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::context::Tools;
use crate::entry::{Entry, Time};
use crate::json::{self, JsonError, Kind, Raw};
use crate::view::Item;

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

    /// The wire a body is written in, by its shape.
    pub fn detect(body: Raw<'_>) -> Option<Wire> {
        let list = body.kind() == Kind::Array;
        (list || body.get("messages").is_some()).then_some(Wire::OpenaiChat)
    }

    /// Reads a body: a list of messages, or an object that holds one.
    pub fn parse(self, body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
        match self {
            Wire::OpenaiChat => openai_chat::parse(body, options),
            Wire::Gemini => gemini::parse(body, options),
            Wire::Bedrock => bedrock::parse(body, options),
            _ => Err(WireError::bad_input("not read yet")),
        }
    }

    /// Reads one message that is one entry: any message of `openai-chat`, a part of one elsewhere.
    pub fn read_message(self, message: Raw<'_>) -> Result<Entry, WireError> {
        match self {
            Wire::OpenaiChat => openai_chat::provider_message_to_entry(message),
            _ => Err(WireError::bad_input("not read yet")),
        }
    }

    /// Prints the entries of a view as messages of this wire, one text each.
    pub fn render(self, items: impl IntoIterator<Item = Item>) -> Vec<String> {
        match self {
            _ => items.into_iter().map(|item| openai_chat::render_item(&item)).collect(),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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
    /// The message each entry came from, by its place in the list.
    pub indexes: Vec<usize>,
    /// Everything around the messages.
    pub body: Body,
    /// The tools the request offers, if it says.
    pub tools: Option<Tools>,
    /// What the reader had to assume.
    pub notes: Vec<String>,
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
    /// The body with these messages in it, one a line, everything else as it was.
    pub fn with_messages(&self, messages: &[String]) -> String {
        let list = one_per_line(messages);
        let Body::Object { raw, key } = self else { return list };
        let mut out = String::from("{");
        let Ok(object) = json::check(raw) else { return list };
        for (name, value) in object.members() {
            if out.len() > 1 {
                out.push(',');
            }
            json::write_string(&mut out, &name);
            out.push(':');
            if name == *key {
                out.push_str(&list);
            } else {
                out.push_str(&json::one_line(value));
            }
        }
        out.push('}');
        out
    }
}

fn one_per_line(messages: &[String]) -> String {
    if messages.is_empty() { "[]".into() } else { format!("[\n{}\n]", messages.join(",\n")) }
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
pub enum WireErrorKind {
    /// Not JSON, or JSON that two readers could read differently.
    BadJson,
    /// JSON, but no messages in it.
    BadInput,
    /// A message that is none.
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

    pub(crate) fn bad_message(path: String, message: String) -> Self {
        WireError { kind: WireErrorKind::BadMessage, message, path }
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

    /// A key that stands twice in one object.
    pub(crate) fn duplicate_key(path: String, key: &str) -> Self {
        let message = format!("the key {key:?} stands twice; readers would disagree about which one counts");
        WireError { kind: WireErrorKind::BadJson, message, path }
    }
}

impl From<JsonError> for WireError {
    fn from(error: JsonError) -> Self {
        let message =
            format!("not valid JSON: {} at line {} column {}", error.problem, error.line, error.column);
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
