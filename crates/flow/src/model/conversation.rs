//! What a conversational loop remembers, and what of it is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use scrollback_core::manager::SharedManager;
use serde::{Deserialize, Serialize};

use super::Agent;
use crate::FlowTemplate;

/// How a loop holds a conversation.
pub struct LoopMemory {
    /// How its history is bounded.
    pub history: HistoryManagement,
    /// Which steps become turns.
    pub turns: TurnSources,
    /// The block that prompt-only agents are sent; none: the usual one between delimiters.
    pub history_template: Option<FlowTemplate>,
    /// How it begins.
    pub seed: Seed,
    /// Whether tool exchanges are part of it.
    pub tool_artifacts: ToolArtifacts,
}

/// How a history is bounded.
pub enum HistoryManagement {
    /// Bounds on the turns in front of the input.
    Bounds(Bounds),
    /// Managers over the whole view.
    Managers(Managers),
}

/// The list form of `history_management`.
pub struct Managers {
    /// What the managers are together.
    pub manager: SharedManager,
    /// Whether any of them may ask for summaries.
    pub condenses: bool,
    /// Who writes them, by the name the list has for it; none for `offline`.
    pub writers: BTreeMap<String, Arc<Agent>>,
}

/// The mapping form of `history_management`. At least one of the two bounds is there.
#[derive(Clone)]
pub struct Bounds {
    /// What happens to the oldest turns.
    pub strategy: Strategy,
    /// Most tokens of all turns together.
    pub max_tokens: Option<u64>,
    /// Most turns.
    pub max_turns: Option<u64>,
    /// Who condenses; none: the offline summariser.
    pub summarizer: Option<Arc<Agent>>,
    /// The oldest share to condense, between 0 and 1.
    pub summarize_ratio: f64,
}

/// What happens to turns beyond the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The oldest are left out, by tokens.
    #[default]
    TruncateTokens,
    /// The oldest are left out, by number.
    TruncateTurns,
    /// The oldest are condensed, then left out.
    Summarize,
}

impl Strategy {
    /// The words of a flow, in the order messages list them.
    pub const WORDS: [&'static str; 3] = ["truncate_tokens", "truncate_turns", "summarize"];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Strategy::TruncateTokens => Strategy::WORDS[0],
            Strategy::TruncateTurns => Strategy::WORDS[1],
            Strategy::Summarize => Strategy::WORDS[2],
        }
    }

    /// The strategy of a word.
    pub fn named(word: &str) -> Option<Self> {
        [Strategy::TruncateTokens, Strategy::TruncateTurns, Strategy::Summarize]
            .into_iter()
            .find(|strategy| strategy.word() == word)
    }
}

/// Which steps of a loop's scope become turns, and with which role: decided by position when the flow is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSources {
    pub(crate) roles: BTreeMap<String, TurnRole>,
}

impl TurnSources {
    /// The role of a step's turn; none if it makes none.
    pub fn role(&self, step: &str) -> Option<TurnRole> {
        self.roles.get(step).copied()
    }

    /// All steps that make turns, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TurnRole)> {
        self.roles.iter().map(|(step, role)| (step.as_str(), *role))
    }
}

/// Who is taken to have said a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnRole {
    /// The person.
    User,
    /// The agent.
    Assistant,
}

/// The turn a history starts with.
pub struct Seed {
    /// What it is.
    pub from: SeedFrom,
    /// Put before it where history is sent as text; never stored, never in messages.
    pub prefix: String,
}

/// What a history starts with.
pub enum SeedFrom {
    /// The loop's input, or the run's if that is blank.
    Input,
    /// A text.
    Text(FlowTemplate),
    /// Nothing.
    Nothing,
}

/// How tool exchanges appear in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolArtifacts {
    /// They are left out.
    #[default]
    Omit,
    /// Whole exchanges are kept, in chat mode.
    Include,
}
