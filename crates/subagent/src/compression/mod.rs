//! Compression: which messages stand for the turns so far. A pure function; what it leaves out, the record has.

mod coalesced;
mod coalescing;
mod ledger;
mod rolling;
mod setting;
mod stats;
mod uncompressed;

use scrollback_core::Role;
use scrollback_lisp::Memory;

pub use coalesced::SingleUserCoalesced;
pub use coalescing::{Coalescing, ToolResults, Trigger};
pub use ledger::TurnLedger;
pub use rolling::RollingWindow;
pub use setting::{Chosen, Options, Strategy, normalize, parse};
pub use stats::{PromptTokens, ShownCount, Stats};
pub use uncompressed::Uncompressed;
pub(crate) use uncompressed::feedback;

use super::input::Input;
use super::turn::Turn;

/// A strategy: from turns to the messages of the next request.
///
/// Pure: the same input gives the same bytes, and nothing but the input is looked at.
pub trait Compression: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// The options that decide how values are shown, also in the part that no strategy touches.
    fn shown(&self) -> &Coalescing;

    /// The messages, given what [`TurnLedger`] has added up about the turns. Costs what is shown, not what there is.
    fn render(&self, ledger: &TurnLedger, turns: &[Turn], memory: &Memory, input: &Input) -> Rendered;

    /// The messages and what is known about them, tokens included.
    fn to_messages(&self, turns: &[Turn], memory: &Memory, input: &Input) -> Rendered {
        let mut ledger = TurnLedger::default();
        ledger.advance(turns);
        let mut rendered = self.render(&ledger, turns, memory, input);
        rendered.stats.tokens = Some(ledger.tokens(turns, input, self.shown(), &rendered));
        rendered
    }
}

/// The messages of a request.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The messages, instructions first.
    pub messages: Vec<PromptMessage>,
    /// How many bytes of the first user message are the same on every turn.
    pub heading: usize,
    /// What was done.
    pub stats: Stats,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// Where it comes from.
    pub source: PromptSource,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The instructions.
    System,
    /// The mission with what it is given, before any turn.
    Mission,
    /// The mission, and what the first so many turns came to.
    Coalesced(usize),
    /// The reply of a turn, by its place in the list.
    Reply(usize),
    /// What a turn came to, by its place in the list.
    Feedback(usize),
}

impl Rendered {
    /// What tells these messages from others: equal hashes, equal bytes.
    pub fn hash(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for message in &self.messages {
            hash.update(message.role.as_str().as_bytes()).update(b"\0");
            hash.update(&(message.text.len() as u64).to_le_bytes()).update(message.text.as_bytes());
        }
        hash.finalize().to_hex().to_string()
    }

    /// The user texts, which is what compression is about.
    pub fn user_texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter(|message| message.role == Role::User).map(|message| &*message.text)
    }
}

/// The instructions.
fn system_message(input: &Input) -> PromptMessage {
    PromptMessage { role: Role::System, text: input.system.clone(), source: PromptSource::System }
}
