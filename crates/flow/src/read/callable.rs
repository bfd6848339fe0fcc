//! Which models can be asked, by their names.

use scrollback_core::model::{ModelName, Provider};

/// A model name that no provider serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCallable {
    /// What is wrong, and what to write.
    pub message: String,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
}

/// The model of a name, if it is one that can be asked.
///
/// ```
/// use scrollback_flow::callable_model;
/// assert!(callable_model("openai:gpt-4o?api=responses").is_ok());
/// assert_eq!(callable_model("opnai:gpt-4o").unwrap_err().suggestion.as_deref(), Some("openai:gpt-4o"));
/// assert!(callable_model("gemini:gemini-2.5-pro").is_err());
/// ```
pub fn callable_model(written: &str) -> Result<ModelName, NotCallable> {
    let (name, api) = written.split_once("?api=").map_or((written, None), |(name, api)| (name, Some(api)));
    let model = ModelName::parse(name).map_err(|error| NotCallable {
        message: error.to_string(),
        suggestion: error.suggestion().map(String::from),
    })?;
    let refused = |message: String| {
        Err(NotCallable { message: format!("model {written:?}: {message}"), suggestion: None })
    };
    match (model.provider(), api) {
        (Provider::OpenAi, None | Some("chat" | "responses")) => Ok(model),
        (Provider::OpenAi, Some(other)) => refused(format!("api must be chat or responses, not {other:?}")),
        (_, Some(_)) => refused("only openai models have a choice of interface".into()),
        (Provider::Gemini | Provider::Bedrock, _) => {
            let provider = model.provider();
            refused(format!("models of {provider} are for counting and converting only and cannot be called"))
        }
        (Provider::Offline, _) if model.model() != "echo" && !model.model().starts_with("script=") => {
            refused("there are offline:echo and offline:script=FILE".into())
        }
        _ => Ok(model),
    }
}
