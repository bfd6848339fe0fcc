//! What a text of messages may be written in: the wire of a provider, or the format of another tool.

use crate::transcript::Format;
use crate::wire::Wire;

/// The format of an input, as commands and the API name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// A request, or a bare list of messages, of a wire.
    Wire(Wire),
    /// A transcript of another tool.
    Transcript(Format),
}

impl InputFormat {
    /// The names of all of them, wires first.
    pub fn names() -> Vec<&'static str> {
        let wires = Wire::ALL.iter().map(|wire| wire.name());
        wires.chain(Format::ALL.iter().map(|format| format.name())).collect()
    }

    /// The format of that name.
    ///
    /// ```
    /// use scrollback_core::{InputFormat, wire::Wire};
    /// assert_eq!(InputFormat::named("gemini"), Some(InputFormat::Wire(Wire::Gemini)));
    /// assert!(InputFormat::names().into_iter().all(|name| InputFormat::named(name).is_some()));
    /// assert_eq!(InputFormat::named("word"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        Wire::named(name).map(InputFormat::Wire).or_else(|| Format::named(name).map(InputFormat::Transcript))
    }

    /// The wire, if it is one.
    pub fn wire(self) -> Option<Wire> {
        match self {
            InputFormat::Wire(wire) => Some(wire),
            InputFormat::Transcript(_) => None,
        }
    }

    /// The transcript format, if it is one.
    pub fn transcript(self) -> Option<Format> {
        match self {
            InputFormat::Wire(_) => None,
            InputFormat::Transcript(format) => Some(format),
        }
    }
}
