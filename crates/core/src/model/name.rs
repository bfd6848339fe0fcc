//! `provider:model`, the one way a model is named in arguments, configuration, records and output.

use std::error::Error;
use std::fmt;

use super::facts;
use crate::nearest::nearest;

/// Who serves a model, and so which wire, tokenizer and price list apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `openai`: called, and counted exactly.
    OpenAi,
    /// `anthropic`: called, and counted by estimate.
    Anthropic,
    /// `gemini`: named for counting, checking and converting; never called.
    Gemini,
    /// `bedrock`: named for counting, checking and converting; never called.
    Bedrock,
    /// `openai-compatible`: any server with `OpenAI`'s interface and a base URL of its own.
    OpenAiCompatible,
    /// `offline`: answers without a network.
    Offline,
}

impl Provider {
    /// Every provider, in the order messages list them.
    pub const ALL: [Provider; 6] = [
        Provider::OpenAi,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Bedrock,
        Provider::OpenAiCompatible,
        Provider::Offline,
    ];

    /// The word before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Gemini => "gemini",
            Provider::Bedrock => "bedrock",
            Provider::OpenAiCompatible => "openai-compatible",
            Provider::Offline => "offline",
        }
    }

    fn named(word: &str) -> Option<Provider> {
        Provider::ALL.into_iter().find(|provider| provider.name() == word)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A model as `provider:model`: the provider is known, the model is not empty and has no control characters
/// and no white space around it.
///
/// Only the first colon separates, so `openai-compatible:llama3:8b` and `openai:ft:gpt-4o:org` are what they
/// look like. Whether such a model exists is not checked here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelName {
    provider: Provider,
    model: Box<str>,
}

impl ModelName {
    /// Reads `provider:model`; printing the result gives the same text again.
    ///
    /// ```
    /// use scrollback_core::model::{ModelName, Provider};
    /// let model = ModelName::parse("anthropic:claude-opus-5")?;
    /// assert_eq!(model.provider(), Provider::Anthropic);
    /// assert_eq!(model.to_string(), "anthropic:claude-opus-5");
    ///
    /// let slip = ModelName::parse("opnai:gpt-4o").unwrap_err();
    /// assert_eq!(slip.suggestion(), Some("openai:gpt-4o"));
    /// # Ok::<(), scrollback_core::model::BadModel>(())
    /// ```
    pub fn parse(raw: &str) -> Result<ModelName, BadModel> {
        let bad = |kind, suggestion| BadModel { raw: raw.into(), kind, suggestion };
        let Some((word, model)) = raw.split_once(':') else {
            return Err(bad(BadModelKind::NoProvider, owner_of(raw)));
        };
        let Some(provider) = Provider::named(word) else {
            let slip = || {
                let provider = nearest(word, Provider::ALL.map(Provider::name))?;
                (!model.is_empty()).then(|| format!("{provider}:{model}").into())
            };
            return Err(bad(BadModelKind::UnknownProvider, owner_of(raw).or_else(slip)));
        };
        if model.is_empty() || model.trim() != model || model.chars().any(char::is_control) {
            return Err(bad(BadModelKind::BadName, None));
        }
        Ok(ModelName { provider, model: model.into() })
    }

    /// Reads a model that may be named without its provider: one that is known is looked up, another is taken for one of the
    /// provider that is given.
    ///
    /// ```
    /// use scrollback_core::model::{ModelName, Provider};
    /// assert_eq!(ModelName::resolve("gpt-4o", None)?.to_string(), "openai:gpt-4o");
    /// assert_eq!(ModelName::resolve("my-claude", Some(Provider::Anthropic))?.to_string(), "anthropic:my-claude");
    /// assert!(ModelName::resolve("my-model", None).is_err());
    /// # Ok::<(), scrollback_core::model::BadModel>(())
    /// ```
    pub fn resolve(raw: &str, provider: Option<Provider>) -> Result<ModelName, BadModel> {
        let refused = match ModelName::parse(raw) {
            Err(refused) if !raw.contains(':') => refused,
            read => return read,
        };
        match (refused.suggestion(), provider) {
            (Some(known), _) => ModelName::parse(known),
            (None, Some(provider)) => ModelName::parse(&format!("{provider}:{raw}")),
            (None, None) => Err(refused),
        }
    }

    /// Who serves it.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// What the provider calls it: the text after the first colon.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

/// The full name of a model that was written without its provider, if the built-in table lists it.
fn owner_of(bare: &str) -> Option<Box<str>> {
    Provider::ALL
        .into_iter()
        .map(|provider| ModelName { provider, model: bare.into() })
        .find(|model| facts(model).is_some())
        .map(|model| model.to_string().into())
}

/// Why a text names no model; shown as one line that says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadModel {
    raw: Box<str>,
    kind: BadModelKind,
    suggestion: Option<Box<str>>,
}

/// What is wrong with the text of a [`BadModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadModelKind {
    /// There is no colon.
    NoProvider,
    /// The word before the colon is not one of [`Provider::ALL`].
    UnknownProvider,
    /// The part after the colon is empty, begins or ends in white space, or has control characters.
    BadName,
}

impl BadModel {
    /// What a caller can act on.
    pub fn kind(&self) -> BadModelKind {
        self.kind
    }

    /// The name that was probably meant: a model of the built-in table, or the same model at the provider
    /// with the nearest spelling.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

impl fmt::Display for BadModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.raw.escape_debug();
        let known = Provider::ALL.map(Provider::name).join(", ");
        match self.kind {
            BadModelKind::NoProvider => write!(f, "model `{raw}` has no provider")?,
            BadModelKind::UnknownProvider => write!(f, "model `{raw}` has an unknown provider")?,
            BadModelKind::BadName => write!(f, "model `{raw}` has no usable name after its provider")?,
        }
        if let Some(meant) = &self.suggestion {
            write!(f, " (did you mean `{}`?)", meant.escape_debug())?;
        }
        write!(f, "; write provider:model, the provider being one of {known}")
    }
}

impl Error for BadModel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_prints_back_as_it_was_read() {
        for (raw, provider, model) in [
            ("openai:gpt-4o", Provider::OpenAi, "gpt-4o"),
            ("openai:ft:gpt-4o-2024-08-06:org::id", Provider::OpenAi, "ft:gpt-4o-2024-08-06:org::id"),
            ("anthropic:claude-opus-5", Provider::Anthropic, "claude-opus-5"),
            ("gemini:gemini-2.5-pro", Provider::Gemini, "gemini-2.5-pro"),
            ("bedrock:amazon.nova-pro-v1:0", Provider::Bedrock, "amazon.nova-pro-v1:0"),
            ("openai-compatible:qwen/qwen3:8b", Provider::OpenAiCompatible, "qwen/qwen3:8b"),
            ("offline:script=a file.json", Provider::Offline, "script=a file.json"),
        ] {
            let parsed = ModelName::parse(raw);
            assert_eq!(parsed, Ok(ModelName { provider, model: model.into() }), "{raw}");
            assert_eq!(parsed.map(|name| name.to_string()), Ok(raw.to_owned()));
        }
    }

    #[test]
    fn a_bad_name_says_what_to_write_instead() {
        use BadModelKind::{BadName, NoProvider, UnknownProvider};
        for (raw, kind, suggestion) in [
            ("", NoProvider, None),
            ("gpt-4o", NoProvider, Some("openai:gpt-4o")),
            ("claude-opus-5", NoProvider, Some("anthropic:claude-opus-5")),
            ("gemini-2.5-pro", NoProvider, Some("gemini:gemini-2.5-pro")),
            ("no-such-model", NoProvider, None),
            ("amazon.nova-pro-v1:0", UnknownProvider, Some("bedrock:amazon.nova-pro-v1:0")),
            ("ft:gpt-4o-2024-08-06:org::id", UnknownProvider, Some("openai:ft:gpt-4o-2024-08-06:org::id")),
            ("opnai:gpt-4o", UnknownProvider, Some("openai:gpt-4o")),
            ("OpenAI:gpt-4o", UnknownProvider, Some("openai:gpt-4o")),
            ("openai_compatible:x", UnknownProvider, Some("openai-compatible:x")),
            ("mistral:large", UnknownProvider, None),
            (":gpt-4o", UnknownProvider, None),
            ("opnai:", UnknownProvider, None),
            ("openai:", BadName, None),
            ("openai: gpt-4o", BadName, None),
            ("openai:gpt\n4o", BadName, None),
        ] {
            let error = ModelName::parse(raw).err();
            assert_eq!(error.as_ref().map(BadModel::kind), Some(kind), "{raw:?}");
            assert_eq!(error.as_ref().and_then(BadModel::suggestion), suggestion, "{raw:?}");
        }
    }

    #[test]
    fn a_message_is_one_line_that_lists_the_providers() {
        let message = |raw| ModelName::parse(raw).err().map(|error| error.to_string()).unwrap_or_default();
        let known = "openai, anthropic, gemini, bedrock, openai-compatible, offline";
        for (raw, what) in [
            ("opnai:gpt-4o", "model `opnai:gpt-4o` has an unknown provider (did you mean `openai:gpt-4o`?)"),
            ("gpt-4o", "model `gpt-4o` has no provider (did you mean `openai:gpt-4o`?)"),
            ("openai:a\nb", "model `openai:a\\nb` has no usable name after its provider"),
        ] {
            assert_eq!(
                message(raw),
                format!("{what}; write provider:model, the provider being one of {known}")
            );
        }
    }
}
