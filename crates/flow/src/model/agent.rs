//! Agents: who answers.

use std::path::PathBuf;
use std::time::Duration;

use scrollback_agent::tool::load::Declared;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An agent. A loop never changes it: history is put into a call, not into an agent.
#[derive(Clone)]
pub struct Agent {
    /// What it is called.
    pub name: String,
    /// Its model, as written: `provider:model`.
    pub model: String,
    /// The folder that files in the model's name are relative to, for `Catalog::provider_in`.
    pub folder: PathBuf,
    /// Its instructions, word for word.
    pub system_prompt: Option<String>,
    /// How history reaches it.
    pub mode: HistoryMode,
    /// Whether its replies come while they are written.
    pub stream: bool,
    /// Longest reply, in tokens; what a call reserves.
    pub max_output_tokens: u64,
    /// Sent only when set.
    pub temperature: Option<f64>,
    /// Sent only when set.
    pub top_p: Option<f64>,
    /// How often a call that failed for the moment is made again.
    pub max_retries: u32,
    /// How long one call may take.
    pub timeout: Duration,
    /// What a reply must fit; it is a JSON value then.
    pub output_schema: Option<Value>,
    /// What it may call.
    pub tools: Declared,
    /// Whether it may search and read the run's record.
    pub recall: bool,
}

/// How history reaches an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryMode {
    /// As messages, each with its own role.
    #[default]
    Chat,
    /// As a block of text in front of the input.
    Prompt,
}
