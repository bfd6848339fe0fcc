//! Finds the provider that serves a model, by its name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scrollback_core::model::{self, BadModel, ModelName};
use scrollback_core::nearest::nearest;
use scrollback_core::{CurationContext, RecallWishes};
use secrecy::SecretString;

use super::upstream::Upstream;
use super::{Api, Echo, Endpoint, Http, Provider, Scripted};
use crate::runner::Prices;

/// What the configuration says about one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Most input it takes, in tokens.
    pub context_window: Option<u64>,
    /// What it costs.
    pub prices: Prices,
    /// Where it is.
    pub base_url: Option<String>,
    /// The variable with its key.
    pub key_env: Option<String>,
    /// How its host differs from other hosts of the same format.
    pub dialect: Option<String>,
}

/// What the configuration says about one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Where it is.
    pub base_url: Option<String>,
    /// The variable with its key.
    pub key_env: Option<String>,
    /// How its host differs from other hosts of the same format.
    pub dialect: Option<String>,
}

/// Reads a variable of the environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The models that can be asked, and how.
///
/// ```
/// use scrollback_agent::provider::Catalog;
/// let catalog = Catalog::default().with_environment(|_| None);
/// assert_eq!(catalog.provider_named("offline:echo")?.describe().model.to_string(), "offline:echo");
/// let error = catalog.provider_named("openai:gpt-4o").unwrap_err();
/// assert!(error.to_string().contains("OPENAI_API_KEY"));
/// # Ok::<(), scrollback_agent::provider::NoProvider>(())
/// ```
#[derive(Clone)]
pub struct Catalog {
    models: BTreeMap<String, ModelSettings>,
    providers: BTreeMap<String, ProviderSettings>,
    recall: RecallWishes,
    environment: Environment,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog::new(BTreeMap::new(), BTreeMap::new())
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("models", &self.models).finish_non_exhaustive()
    }
}

/// A model that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoProvider {
    kind: NoProviderKind,
    message: String,
}

/// The kinds of [`NoProvider`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoProviderKind {
    /// There is no model of that name, or none that can be asked.
    BadModel,
    /// The script cannot be read.
    BadScript,
    /// The configuration lacks something, or it is wrong.
    BadConfig,
    /// The variable with the key is not set.
    MissingKey,
}

impl NoProviderKind {
    /// The code programs act on.
    pub fn code(self) -> &'static str {
        match self {
            NoProviderKind::BadModel => "bad_model",
            NoProviderKind::BadScript => "bad_script",
            NoProviderKind::BadConfig => "bad_config",
            NoProviderKind::MissingKey => "missing_key",
        }
    }
}

impl NoProvider {
    /// Which kind it is.
    pub fn kind(&self) -> NoProviderKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

impl fmt::Display for NoProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NoProvider {}

impl From<BadModel> for NoProvider {
    fn from(error: BadModel) -> Self {
        none(NoProviderKind::BadModel, error.to_string())
    }
}

fn none(kind: NoProviderKind, message: impl Into<String>) -> NoProvider {
    NoProvider { kind, message: message.into() }
}

impl Catalog {
    /// What a configuration says, keys being read from the environment of the process.
    pub fn new(
        models: BTreeMap<String, ModelSettings>,
        providers: BTreeMap<String, ProviderSettings>,
    ) -> Self {
        let environment: Environment = Arc::new(|name| std::env::var(name).ok());
        Catalog { models, providers, recall: RecallWishes::default(), environment }
    }

    /// The same with what is said about recall; what was said before counts where this says nothing.
    #[must_use]
    pub fn with_recall(mut self, wishes: RecallWishes) -> Self {
        self.recall = wishes.over(self.recall);
        self
    }

    /// Puts into the context of a view what the configuration says: windows of models, and what is kept and said for recall.
    pub fn configure(&self, cx: &mut CurationContext) {
        cx.windows = self.windows();
        cx.wish(self.recall);
    }

    /// The same with another environment.
    #[must_use]
    pub fn with_environment(
        mut self,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// The variables that hold keys: the usual ones, and those the configuration names.
    pub fn key_names(&self) -> Vec<String> {
        let of_providers = self.providers.values().filter_map(|provider| provider.key_env.clone());
        let of_models = self.models.values().filter_map(|model| model.key_env.clone());
        let usual = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"].map(String::from);
        usual.into_iter().chain(of_providers).chain(of_models).collect()
    }

    /// The provider of a model; scripts are relative to the working directory.
    pub fn provider_named(&self, name: &str) -> Result<Arc<dyn Provider>, NoProvider> {
        self.provider_in(name, Path::new(""))
    }

    /// The provider of a model that a file in `folder` names.
    pub fn provider_in(&self, name: &str, folder: &Path) -> Result<Arc<dyn Provider>, NoProvider> {
        let (name, api) = match name.split_once("?api=") {
            Some((name, "chat")) => (name, Some(Api::Chat)),
            Some((name, "responses")) => (name, Some(Api::Responses)),
            Some((_, other)) => {
                return Err(none(
                    NoProviderKind::BadModel,
                    format!("model {name:?}: api must be chat or responses, not {other:?}"),
                ));
            }
            None => (name, None),
        };
        let model = ModelName::parse(name)?;
        if api.is_some() && model.provider() != model::Provider::OpenAi {
            return Err(none(
                NoProviderKind::BadModel,
                format!("model {name:?}: only openai models have a choice of interface"),
            ));
        }
        match model.provider() {
            model::Provider::OpenAi => {
                let usual = if only_responses(model.model()) { Api::Responses } else { Api::Chat };
                self.http(model, api.unwrap_or(usual), Usual::OPENAI)
            }
            model::Provider::Anthropic => self.http(model, Api::Messages, Usual::ANTHROPIC),
            model::Provider::OpenAiCompatible => self.http(model, Api::Chat, Usual::NONE),
            model::Provider::Offline => offline(model, folder),
            model::Provider::Gemini | model::Provider::Bedrock => Err(none(
                NoProviderKind::BadModel,
                format!(
                    "model {name:?}: models of {} are for counting and converting only and cannot be called",
                    model.provider()
                ),
            )),
        }
    }

    fn http(&self, model: ModelName, api: Api, usual: Usual) -> Result<Arc<dyn Provider>, NoProvider> {
        let own = self.models.get(&model.to_string());
        let shared = self.providers.get(model.provider().name());
        let from_environment = usual.base_variable.and_then(|name| self.variable(name));
        let base = from_environment
            .or_else(|| own.and_then(|own| own.base_url.clone()))
            .or_else(|| shared.and_then(|shared| shared.base_url.clone()))
            .or_else(|| usual.base.map(String::from));
        let Some(base) = base else {
            return Err(none(
                NoProviderKind::BadConfig,
                format!(
                    "model {:?} has no base URL: write [models.{:?}] base_url = \"…\" in scrollback.toml",
                    model.to_string(),
                    model.to_string()
                ),
            ));
        };
        let configured = own.and_then(|own| own.key_env.clone());
        let configured = configured.or_else(|| shared.and_then(|shared| shared.key_env.clone()));
        let variable = configured.or_else(|| usual.key_variable.map(String::from));
        let key = match variable {
            None => None,
            Some(variable) => match self.variable(&variable) {
                Some(key) => Some(SecretString::from(key)),
                None => {
                    return Err(none(
                        NoProviderKind::MissingKey,
                        format!(
                            "model {:?} needs a key: set {variable} in the environment",
                            model.to_string()
                        ),
                    ));
                }
            },
        };
        let endpoint =
            Endpoint::new(&base, api, key).map_err(|error| none(NoProviderKind::BadConfig, error.message))?;
        let http = Http::new(model, api, endpoint)
            .map_err(|error| none(NoProviderKind::BadConfig, error.message))?;
        Ok(Arc::new(http))
    }

    /// The models that the configuration names.
    pub fn model_names(&self) -> Vec<String> {
        self.models.keys().cloned().collect()
    }

    /// Whether the configuration gives the base URL of a compatible host for a model.
    pub fn has_place(&self, model: &str) -> bool {
        let name = || format!("{}:{model}", model::Provider::OpenAiCompatible.name());
        !self.models.is_empty() && self.models.get(&name()).is_some_and(|model| model.base_url.is_some())
    }

    /// What the configuration says about a model. Most have none, and are not written out to be looked for.
    fn settings_of(&self, model: &ModelName) -> Option<&ModelSettings> {
        if self.models.is_empty() { None } else { self.models.get(&model.to_string()) }
    }

    /// The provider that requests for a model are passed on to. It has a key only if one is set here.
    pub fn upstream(
        &self,
        provider: model::Provider,
        model: &str,
        connect: Duration,
    ) -> Result<Upstream, NoProvider> {
        let compatible = format!("{}:{model}", model::Provider::OpenAiCompatible.name());
        let own = self.models.get(&compatible).filter(|own| own.base_url.is_some());
        let (provider, usual) = match (own, provider) {
            // A model with a place of its own is there, whatever else is configured.
            (Some(_), model::Provider::OpenAi) => (model::Provider::OpenAiCompatible, Usual::NONE),
            (_, model::Provider::OpenAi) => (provider, Usual::OPENAI),
            (_, model::Provider::Anthropic) => (provider, Usual::ANTHROPIC),
            (_, model::Provider::Gemini) => (provider, Usual::GEMINI),
            _ => {
                let message = format!("requests cannot be passed on to {provider}");
                return Err(none(NoProviderKind::BadModel, message));
            }
        };
        let own = own.filter(|_| provider == model::Provider::OpenAiCompatible);
        let shared = self.providers.get(provider.name());
        let stated = usual
            .base_variable
            .and_then(|name| self.variable(name))
            .or_else(|| own.and_then(|own| own.base_url.clone()))
            .or_else(|| shared.and_then(|shared| shared.base_url.clone()));
        let variable = own.and_then(|own| own.key_env.clone());
        let variable = variable.or_else(|| shared.and_then(|shared| shared.key_env.clone()));
        let variable = variable.or_else(|| usual.key_variable.map(String::from));
        let key = variable.and_then(|name| self.variable(&name)).map(SecretString::from);
        let base = stated.as_deref().or(usual.base).unwrap_or_default();
        Upstream::new(provider, base, stated.is_some(), key, connect)
            .map_err(|error| none(NoProviderKind::BadConfig, error.message))
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty())
    }

    /// Context windows that the configuration states, by model name.
    pub fn windows(&self) -> BTreeMap<String, u64> {
        let stated = self.models.iter();
        stated.filter_map(|(name, model)| Some((name.clone(), model.context_window?))).collect()
    }

    /// What a model costs: as configured, else as in the built-in table.
    pub fn prices(&self, model: &ModelName) -> Prices {
        let own = self.settings_of(model).map(|settings| settings.prices).unwrap_or_default();
        own.or(Prices::of(model))
    }

    /// What the host of a model does differently; the model's own setting before its provider's.
    pub fn dialect(&self, model: &ModelName) -> Option<String> {
        let own = self.settings_of(model).and_then(|settings| settings.dialect.clone());
        own.or_else(|| self.providers.get(model.provider().name())?.dialect.clone())
    }
}

/// Where a provider usually is, and where its key and another place for it come from.
#[derive(Clone, Copy)]
struct Usual {
    base: Option<&'static str>,
    base_variable: Option<&'static str>,
    key_variable: Option<&'static str>,
}

impl Usual {
    const OPENAI: Usual = Usual {
        base: Some("https://api.openai.com/v1"),
        base_variable: Some("OPENAI_BASE_URL"),
        key_variable: Some("OPENAI_API_KEY"),
    };
    const ANTHROPIC: Usual = Usual {
        base: Some("https://api.anthropic.com"),
        base_variable: Some("ANTHROPIC_BASE_URL"),
        key_variable: Some("ANTHROPIC_API_KEY"),
    };
    const GEMINI: Usual = Usual {
        base: Some("https://generativelanguage.googleapis.com"),
        base_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        key_variable: Some("GEMINI_API_KEY"),
    };
    const NONE: Usual = Usual { base: None, base_variable: None, key_variable: None };
}

/// Whether a model answers on the newer interface only.
fn only_responses(model: &str) -> bool {
    let base = model.strip_prefix("ft:").unwrap_or(model);
    let families =
        ["o1-pro", "o3-pro", "codex-", "computer-use-", "o3-deep-research", "o4-mini-deep-research"];
    families.iter().any(|family| base.starts_with(family))
        || (base.starts_with("gpt-5") && (base.contains("-codex") || base.contains("-pro")))
}

fn offline(model: ModelName, folder: &Path) -> Result<Arc<dyn Provider>, NoProvider> {
    let named = model.model().to_string();
    if named == "echo" {
        return Ok(Arc::new(Echo::new(model)));
    }
    if let Some(file) = named.strip_prefix("script=") {
        let path = folder.join(file);
        let scripted = Scripted::load(model, &path).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            none(NoProviderKind::BadScript, format!("{}: {}", path.display(), told.join("; ")))
        })?;
        return Ok(Arc::new(scripted));
    }
    let word = named.split('=').next().unwrap_or_default();
    let hint = nearest(word, ["echo", "script"])
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(none(
        NoProviderKind::BadModel,
        format!("model \"offline:{named}\": there are offline:echo and offline:script=FILE{hint}"),
    ))
}
