//! What configuration and flags say about flows, each value with where it comes from.
//!
//! Settings can be stored with a run and read back, so that a resumed run uses those it began with.

mod load;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{HistoryMode, Strategy};

/// What is set outside a flow. The default sets nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowSettings {
    /// `[flow] default_model`.
    pub default_model: Option<Set<Located<String>>>,
    /// `[flow] max_loops`.
    pub max_loops: Option<Set<u32>>,
    /// `[flow.history]`.
    pub history: HistorySettings,
    /// `[flow.limits]`.
    pub limits: LimitSettings,
    /// `--max-tokens` and `--max-cost`, which win over the flow's own limits.
    pub flags: LimitSettings,
    /// `[agents.NAME]`, field by field.
    pub agents: BTreeMap<String, BTreeMap<String, Set<Located<Value>>>>,
    /// `mode` of `[models."…"]`.
    pub modes: BTreeMap<String, Set<HistoryMode>>,
}

/// `[flow.history]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistorySettings {
    /// What happens to the oldest turns.
    pub strategy: Option<Set<Strategy>>,
    /// Most tokens of all turns together.
    pub max_tokens: Option<Set<u64>>,
    /// Most turns.
    pub max_turns: Option<Set<u64>>,
    /// Who condenses.
    pub summarizer_agent: Option<Set<String>>,
    /// The oldest share to condense.
    pub summarize_ratio: Option<Set<f64>>,
}

/// Limits of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSettings {
    /// Tokens.
    pub max_tokens: Option<Set<u64>>,
    /// Dollars.
    pub max_cost_usd: Option<Set<f64>>,
}

/// A value, and who set it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Set<T> {
    /// The value.
    pub value: T,
    /// Who said so.
    pub from: SettingOrigin,
}

/// A value in which paths may stand, and the folder they are relative to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Located<T> {
    /// What is said.
    pub said: T,
    /// The folder of the file that says it.
    pub folder: PathBuf,
}

/// Where a setting comes from, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingOrigin {
    /// The command line.
    Flag,
    /// The flow itself.
    Flow,
    /// A configuration file.
    File(PathBuf),
    /// Not set anywhere: this is the default.
    BuiltIn,
}

/// A setting in force: what `validate --effective` lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Which one: `steps.chat.max_loops`.
    pub setting: String,
    /// Its value.
    pub value: Value,
    /// Who said so.
    pub from: SettingOrigin,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Flag => f.write_str("flag"),
            SettingOrigin::Flow => f.write_str("flow"),
            SettingOrigin::File(path) => path.display().fmt(f),
            SettingOrigin::BuiltIn => f.write_str("built-in"),
        }
    }
}
