//! `scrollback.toml`: the nearest one from the working directory upwards, then the one in the user's configuration
//! directory, merged field by field.

mod flow;
mod retention;
mod server;
mod span;
mod telemetry;
pub mod user_store;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use scrollback_core::RecallWishes;
use scrollback_core::model::ModelName;
use scrollback_core::nearest::nearest;
use scrollback_core::redact::Options;
use scrollback_store::{FollowUps, HistorySettings};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::provider::{Catalog, ModelSettings, ProviderSettings};
use crate::runner::Prices;
pub use flow::{FlowLayer, FlowTable, HistoryTable, LimitsTable};
pub use retention::{Retention, read_size};
pub use server::{
    Abandoned, DEFAULT_PORT, Policy, RecipientField, Recording, ServerLimits, ServerSettings, listen_address,
};
pub use span::read_span;
pub use telemetry::TelemetrySettings;

/// The file's name, in a project or in `scrollback/` of the user's configuration directory.
const FILE: &str = "scrollback.toml";

/// What the files say. Tables of parts of Scrollback that read their own settings are passed over here.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    store: Option<String>,
    providers: BTreeMap<String, ProviderSection>,
    models: BTreeMap<String, Model>,
    history: History,
    flow: FlowTable,
    agents: BTreeMap<String, Map<String, Value>>,
    redact: Redact,
    server: server::Server,
    telemetry: telemetry::Telemetry,
    retention: retention::WrittenRetention,
    recall: Recall,
    /// The files it was read from.
    #[serde(skip)]
    files: Vec<PathBuf>,
    /// What each of them says about flows.
    #[serde(skip)]
    flow_layers: Vec<FlowLayer>,
}

/// `[history]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct History {
    #[serde(rename = "maxTurnsBeforeCompaction")]
    max_turns_before_compaction: Option<usize>,
    #[serde(rename = "recentTurnsToKeep")]
    recent_turns_to_keep: Option<usize>,
    #[serde(rename = "maxRecentTurns")]
    max_recent_turns: Option<usize>,
    follow_up: FollowUp,
}

/// `[recall]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Recall {
    available: Option<bool>,
    notice: Option<bool>,
    obligations: Option<bool>,
    write: Option<bool>,
}

/// `[history.follow_up]`, in minutes
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FollowUp {
    awaiting_answer: Option<u64>,
    active: Option<u64>,
    idle: Option<u64>,
    closed: Option<u64>,
}

/// `[providers.NAME]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProviderSection {
    base_url: Option<String>,
    key_env: Option<String>,
    dialect: Option<String>,
}

/// `[models."provider:model"]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Model {
    context_window: Option<u64>,
    input_per_mtok: Option<f64>,
    output_per_mtok: Option<f64>,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
    /// How history reaches it, for flows.
    mode: Option<String>,
    base_url: Option<String>,
    key_env: Option<String>,
    dialect: Option<String>,
}

/// What `mode` of a model may say.
const MODES: [&str; 2] = ["chat", "prompt"];

impl Model {
    fn prices(&self) -> Prices {
        Prices {
            input: self.input_per_mtok,
            output: self.output_per_mtok,
            cache_read: self.cache_read_per_mtok,
            cache_write: self.cache_write_per_mtok,
        }
    }
}

/// `[redact]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Redact {
    email: Option<bool>,
    phone: Option<bool>,
    card: Option<bool>,
    patterns: Option<Vec<String>>,
}

impl Config {
    /// The dialect of the host that serves a model, where it was given one; the model's own before its provider's.
    pub fn dialect(&self, model: Option<&ModelName>) -> Option<String> {
        self.catalog().dialect(model?)
    }

    /// The store to use where none is named.
    pub fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Whether the files say where a provider is.
    pub fn has_base_url(&self, provider: &str) -> bool {
        self.providers.get(provider).is_some_and(|provider| provider.base_url.is_some())
    }

    /// The files it was read from, the nearest first.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What the files say about flows, the nearest first.
    pub fn flow_layers(&self) -> &[FlowLayer] {
        &self.flow_layers
    }

    /// How histories are kept.
    pub fn history(&self) -> Result<HistorySettings, BadConfig> {
        let usual = HistorySettings::default();
        let settings = HistorySettings {
            max_turns_before_compaction: self
                .history
                .max_turns_before_compaction
                .unwrap_or(usual.max_turns_before_compaction),
            recent_turns_to_keep: self.history.recent_turns_to_keep.unwrap_or(usual.recent_turns_to_keep),
            max_recent_turns: self.history.max_recent_turns.unwrap_or(usual.max_recent_turns),
        };
        settings.checked().map_err(|error| BadConfig(format!("[history]: {error}")))
    }

    /// When to follow up.
    pub fn follow_ups(&self) -> FollowUps {
        let (usual, wanted) = (FollowUps::default(), &self.history.follow_up);
        FollowUps {
            awaiting_answer: wanted.awaiting_answer.unwrap_or(usual.awaiting_answer),
            active: wanted.active.unwrap_or(usual.active),
            idle: wanted.idle.unwrap_or(usual.idle),
            closed: wanted.closed.unwrap_or(usual.closed),
        }
    }

    /// How the server behaves.
    pub fn server(&self) -> Result<ServerSettings, BadConfig> {
        let settings = self.server.settings()?;
        let (follow_ups, retention) = (self.follow_ups(), self.retention()?);
        Ok(ServerSettings { follow_ups, retention, recall_writes: self.recall_writes(), ..settings })
    }

    /// What views keep and say for the sake of recall.
    pub fn recall(&self) -> RecallWishes {
        let Recall { available, notice, obligations, .. } = self.recall;
        RecallWishes { available, notice, obligations }
    }

    /// Whether the recall server offers a tool that pins.
    pub fn recall_writes(&self) -> bool {
        self.recall.write.unwrap_or(false)
    }

    /// What is kept for how long.
    pub fn retention(&self) -> Result<Retention, BadConfig> {
        self.retention.settings()
    }

    /// Where spans are sent, and what is in them; none where they are not wanted.
    pub fn telemetry(&self) -> Result<Option<TelemetrySettings>, BadConfig> {
        self.telemetry.settings(|name| std::env::var(name).ok())
    }

    /// The variables that may hold a provider's key.
    pub fn key_names(&self) -> Vec<String> {
        self.catalog().key_names()
    }

    /// The models, and how to reach them.
    pub fn catalog(&self) -> Catalog {
        let models = self.models.iter().map(|(name, model)| {
            let settings = ModelSettings {
                context_window: model.context_window,
                prices: model.prices(),
                base_url: model.base_url.clone(),
                key_env: model.key_env.clone(),
                dialect: model.dialect.clone(),
            };
            (name.clone(), settings)
        });
        let providers = self.providers.iter().map(|(name, provider)| {
            let settings = ProviderSettings {
                base_url: provider.base_url.clone(),
                key_env: provider.key_env.clone(),
                dialect: provider.dialect.clone(),
            };
            (name.clone(), settings)
        });
        Catalog::new(models.collect(), providers.collect()).with_recall(self.recall())
    }

    /// Context windows by model name.
    pub fn windows(&self) -> BTreeMap<String, u64> {
        self.catalog().windows()
    }

    /// What to redact: the wishes of `[redact]`, and the value of every key the configuration knows of.
    pub fn redaction(&self) -> Options {
        Options {
            email: self.redact.email.unwrap_or(false),
            phone: self.redact.phone.unwrap_or(false),
            card: self.redact.card.unwrap_or(false),
            patterns: self.redact.patterns.clone().unwrap_or_default(),
            configured: self.key_names().iter().filter_map(|name| std::env::var(name).ok()).collect(),
        }
    }

    /// Fills what this file leaves open from a file of lower rank.
    fn over(mut self, lower: Config) -> Config {
        for (name, model) in lower.models {
            let mine = self.models.entry(name).or_default();
            mine.context_window = mine.context_window.or(model.context_window);
            mine.input_per_mtok = mine.input_per_mtok.or(model.input_per_mtok);
            mine.output_per_mtok = mine.output_per_mtok.or(model.output_per_mtok);
            mine.cache_read_per_mtok = mine.cache_read_per_mtok.or(model.cache_read_per_mtok);
            mine.cache_write_per_mtok = mine.cache_write_per_mtok.or(model.cache_write_per_mtok);
            mine.mode = mine.mode.take().or(model.mode);
            mine.base_url = mine.base_url.take().or(model.base_url);
            mine.dialect = mine.dialect.take().or(model.dialect);
            mine.key_env = mine.key_env.take().or(model.key_env);
        }
        for (name, provider) in lower.providers {
            let mine = self.providers.entry(name).or_default();
            mine.base_url = mine.base_url.take().or(provider.base_url);
            mine.key_env = mine.key_env.take().or(provider.key_env);
            mine.dialect = mine.dialect.take().or(provider.dialect);
        }
        self.store = self.store.take().or(lower.store);
        self.files.extend(lower.files);
        self.flow_layers.extend(lower.flow_layers);
        self.history = self.history.over(lower.history);
        self.server = self.server.over(lower.server);
        self.telemetry = self.telemetry.over(lower.telemetry);
        self.retention = self.retention.over(lower.retention);
        self.recall = self.recall.over(lower.recall);
        self.redact.email = self.redact.email.or(lower.redact.email);
        self.redact.phone = self.redact.phone.or(lower.redact.phone);
        self.redact.card = self.redact.card.or(lower.redact.card);
        self.redact.patterns = self.redact.patterns.or(lower.redact.patterns);
        self
    }
}

impl Recall {
    fn over(self, lower: Recall) -> Recall {
        Recall {
            available: self.available.or(lower.available),
            notice: self.notice.or(lower.notice),
            obligations: self.obligations.or(lower.obligations),
            write: self.write.or(lower.write),
        }
    }
}

impl History {
    fn over(self, lower: History) -> History {
        let (mine, other) = (self.follow_up, lower.follow_up);
        History {
            max_turns_before_compaction: self
                .max_turns_before_compaction
                .or(lower.max_turns_before_compaction),
            recent_turns_to_keep: self.recent_turns_to_keep.or(lower.recent_turns_to_keep),
            max_recent_turns: self.max_recent_turns.or(lower.max_recent_turns),
            follow_up: FollowUp {
                awaiting_answer: mine.awaiting_answer.or(other.awaiting_answer),
                active: mine.active.or(other.active),
                idle: mine.idle.or(other.idle),
                closed: mine.closed.or(other.closed),
            },
        }
    }
}

/// A store's URL with its path relative to the file that names it.
fn beside(file: &Path, url: &str) -> String {
    match url.strip_prefix("sqlite:") {
        Some(path) if path != ":memory:" => {
            let folder = file.parent().unwrap_or(Path::new(""));
            format!("sqlite:{}", folder.join(path).display())
        }
        _ => url.into(),
    }
}

/// The configuration in force here.
pub fn load() -> Result<Config, BadConfig> {
    let project = std::env::current_dir().ok().and_then(|here| find_upwards(&here));
    let user = user_file().filter(|path| path.is_file() && Some(path) != project.as_ref());
    let mut config = Config::default();
    for path in project.into_iter().chain(user) {
        config = config.over(read(&path)?);
    }
    Ok(config)
}

fn find_upwards(start: &Path) -> Option<PathBuf> {
    start.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file())
}

fn user_file() -> Option<PathBuf> {
    let configured = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = configured.or_else(|| std::env::home_dir().map(|home| home.join(".config")))?;
    Some(folder.join("scrollback").join(FILE))
}

fn read(path: &Path) -> Result<Config, BadConfig> {
    let text = std::fs::read_to_string(path).map_err(|error| bad(path, &error.to_string()))?;
    let mut config: Config = toml::from_str(&text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text.get(..span.start).unwrap_or_default().matches('\n').count());
        bad(path, &format!("line {line}: {}", with_suggestion(error.message())))
    })?;
    for (name, model) in &config.models {
        ModelName::parse(name).map_err(|error| bad(path, &format!("in [models]: {error}")))?;
        if model.context_window == Some(0) {
            return Err(bad(path, &format!("[models.{name:?}]: context_window must be at least 1")));
        }
        if let Some(mode) = model.mode.as_deref().filter(|mode| !MODES.contains(mode)) {
            let known = MODES.join(", ");
            return Err(bad(path, &format!("[models.{name:?}]: mode must be one of {known}, not {mode:?}")));
        }
        let prices = model.prices();
        let all = [prices.input, prices.output, prices.cache_read, prices.cache_write];
        if all.iter().flatten().any(|price| !price.is_finite() || *price < 0.0) {
            return Err(bad(path, &format!("[models.{name:?}]: a price must not be below 0")));
        }
    }
    config.server.settings().map_err(|error| bad(path, &error.0))?;
    config.retention.settings().map_err(|error| bad(path, &error.0))?;
    config.store = config.store.map(|url| beside(path, &url));
    config.files = vec![path.to_path_buf()];
    let modes = config.models.iter().filter_map(|(name, model)| Some((name.clone(), model.mode.clone()?)));
    config.flow_layers = vec![FlowLayer {
        file: path.to_path_buf(),
        modes: modes.collect(),
        flow: std::mem::take(&mut config.flow),
        agents: std::mem::take(&mut config.agents),
    }];
    Ok(config)
}

fn bad(path: &Path, problem: &str) -> BadConfig {
    BadConfig(format!("{}, {problem}", path.display()))
}

/// What is wrong with the configuration, where, and what to write instead; on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConfig(String);

impl BadConfig {
    /// A mistake in a file, found by the code that knows what its values mean.
    pub fn in_file(path: &Path, problem: &str) -> Self {
        bad(path, problem)
    }
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}

/// serde says "unknown field `x`, expected one of `a`, `b`"; the nearest of those is what was meant.
fn with_suggestion(problem: &str) -> String {
    let mut quoted = problem.split('`').skip(1).step_by(2);
    let hint = problem
        .starts_with("unknown field")
        .then(|| quoted.next())
        .flatten()
        .and_then(|found| nearest(found, quoted))
        .map(|near| format!("; did you mean `{near}`?"));
    format!(
        "{}{}",
        problem.replace("unknown field", "unknown key").replace('\n', " "),
        hint.unwrap_or_default()
    )
}
