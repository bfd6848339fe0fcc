//! `scrollback.toml`: the nearest one from the working directory upwards, then the one in the user's configuration
//! directory, merged field by field.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use scrollback_core::model::ModelName;
use scrollback_core::nearest::nearest;
use scrollback_core::redact::Options;
use serde::Deserialize;

use crate::failure::{Failure, USAGE};

/// The file's name, in a project or in `scrollback/` of the user's configuration directory.
const FILE: &str = "scrollback.toml";

/// What the file may say. Tables of parts of Scrollback that read their own settings are passed over here.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    #[serde(rename = "store")]
    _store: Option<String>,
    providers: BTreeMap<String, Provider>,
    models: BTreeMap<String, Model>,
    #[serde(rename = "history")]
    _history: Option<toml::Table>,
    #[serde(rename = "flow")]
    _flow: Option<toml::Table>,
    #[serde(rename = "agents")]
    _agents: Option<toml::Table>,
    redact: Redact,
    #[serde(rename = "server")]
    _server: Option<toml::Table>,
}

/// `[providers.NAME]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Provider {
    #[serde(rename = "base_url")]
    _base_url: Option<String>,
    key_env: Option<String>,
    dialect: Option<String>,
}

/// `[models."provider:model"]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Model {
    context_window: Option<u64>,
    #[serde(rename = "input_per_mtok")]
    _input: Option<f64>,
    #[serde(rename = "output_per_mtok")]
    _output: Option<f64>,
    #[serde(rename = "cache_read_per_mtok")]
    _cache_read: Option<f64>,
    #[serde(rename = "cache_write_per_mtok")]
    _cache_write: Option<f64>,
    #[serde(rename = "mode")]
    _mode: Option<String>,
    #[serde(rename = "base_url")]
    _base_url: Option<String>,
    key_env: Option<String>,
    dialect: Option<String>,
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
    pub(crate) fn dialect(&self, model: Option<&ModelName>) -> Option<String> {
        let model = model?;
        let own = self.models.get(&model.to_string()).and_then(|model| model.dialect.clone());
        own.or_else(|| self.providers.get(model.provider().name())?.dialect.clone())
    }

    /// Context windows by model name.
    pub(crate) fn windows(&self) -> BTreeMap<String, u64> {
        self.models.iter().filter_map(|(name, model)| Some((name.clone(), model.context_window?))).collect()
    }

    /// What to redact: the wishes of `[redact]`, and the value of every key the configuration knows of.
    pub(crate) fn redaction(&self) -> Options {
        let of_providers = self.providers.values().filter_map(|provider| provider.key_env.as_deref());
        let of_models = self.models.values().filter_map(|model| model.key_env.as_deref());
        let names = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"].into_iter().chain(of_providers).chain(of_models);
        Options {
            email: self.redact.email.unwrap_or(false),
            phone: self.redact.phone.unwrap_or(false),
            card: self.redact.card.unwrap_or(false),
            patterns: self.redact.patterns.clone().unwrap_or_default(),
            configured: names.filter_map(|name| std::env::var(name).ok()).collect(),
        }
    }

    /// Fills what this file leaves open from a file of lower rank.
    fn over(mut self, lower: Config) -> Config {
        for (name, model) in lower.models {
            let mine = self.models.entry(name).or_default();
            mine.context_window = mine.context_window.or(model.context_window);
            mine.dialect = mine.dialect.take().or(model.dialect);
            mine.key_env = mine.key_env.take().or(model.key_env);
        }
        for (name, provider) in lower.providers {
            let mine = self.providers.entry(name).or_default();
            mine.key_env = mine.key_env.take().or(provider.key_env);
            mine.dialect = mine.dialect.take().or(provider.dialect);
        }
        self.redact.email = self.redact.email.or(lower.redact.email);
        self.redact.phone = self.redact.phone.or(lower.redact.phone);
        self.redact.card = self.redact.card.or(lower.redact.card);
        self.redact.patterns = self.redact.patterns.or(lower.redact.patterns);
        self
    }
}

/// The configuration in force here.
pub(crate) fn load() -> Result<Config, Failure> {
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

fn read(path: &Path) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| bad(path, &error.to_string()))?;
    let config: Config = toml::from_str(&text).map_err(|error| {
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
    }
    Ok(config)
}

fn bad(path: &Path, problem: &str) -> Failure {
    Failure::new(USAGE, "bad_config", format!("{}, {problem}", path.display()))
}

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
