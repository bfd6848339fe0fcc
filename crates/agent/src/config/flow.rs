//! `[flow]` and `[agents.NAME]`: what one file says about flows. The reader of flows merges the files and knows what the
//! values mean.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

/// What one file says about flows.
#[derive(Clone, Debug, Default)]
pub struct FlowLayer {
    /// The file.
    pub file: PathBuf,
    /// `[flow]`.
    pub flow: FlowTable,
    /// `[agents.NAME]`, as written.
    pub agents: BTreeMap<String, Map<String, Value>>,
    /// `mode` of `[models."…"]`: `chat` or `prompt`.
    pub modes: BTreeMap<String, String>,
}

/// `[flow]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowTable {
    /// The model of agents that name none.
    pub default_model: Option<String>,
    /// Most iterations of loops that do not say.
    pub max_loops: Option<u64>,
    /// `[flow.history]`.
    pub history: HistoryTable,
    /// `[flow.limits]`.
    pub limits: LimitsTable,
}

/// `[flow.history]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistoryTable {
    /// What happens to the oldest turns.
    pub strategy: Option<String>,
    /// Most tokens of all turns together.
    pub max_tokens: Option<u64>,
    /// Most turns.
    pub max_turns: Option<u64>,
    /// Who condenses.
    pub summarizer_agent: Option<String>,
    /// The oldest share to condense.
    pub summarize_ratio: Option<f64>,
}

/// `[flow.limits]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsTable {
    /// Most tokens of a run.
    pub max_tokens: Option<u64>,
    /// Most dollars of a run.
    pub max_cost_usd: Option<f64>,
}
