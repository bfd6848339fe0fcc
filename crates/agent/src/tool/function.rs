//! Tools that are Rust functions.

use std::future::Future;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Call, Spec, Tool, ToolOutcome, ToolOutput};
use crate::effects::BoxFuture;

type ToolFunction = dyn Fn(Call) -> BoxFuture<'static, ToolOutcome> + Send + Sync;

/// A tool that is a Rust function.
pub struct Function {
    spec: Spec,
    run: Box<ToolFunction>,
}

/// A tool from a function of typed arguments.
///
/// ```
/// use scrollback_agent::tool::{Tool, tool};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize)]
/// struct Where { city: String }
/// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
/// let weather = tool("weather", "Weather by city", schema, |at: Where| async move {
///     Ok(json!({ "city": at.city, "sky": "clear" }))
/// });
/// assert_eq!(weather.spec().name, "weather");
/// ```
pub fn tool<A, F>(
    name: &str,
    description: &str,
    parameters: Value,
    run: impl Fn(A) -> F + Send + Sync + 'static,
) -> Function
where
    A: DeserializeOwned,
    F: Future<Output = Result<Value, String>> + Send + 'static,
{
    let spec = Spec { parameters, ..Spec::new(name, description) };
    let run = move |call: Call| -> BoxFuture<'static, ToolOutcome> {
        match serde_json::from_value(Value::Object(call.arguments)) {
            Ok(arguments) => {
                let answer = run(arguments);
                Box::pin(async move {
                    match answer.await {
                        Ok(value) => ToolOutcome::Done(ToolOutput::Json(value)),
                        Err(problem) => ToolOutcome::Failed(problem),
                    }
                })
            }
            Err(error) => {
                let problem = format!("the arguments do not fit the tool: {error}");
                Box::pin(std::future::ready(ToolOutcome::Failed(problem)))
            }
        }
    };
    Function { spec, run: Box::new(run) }
}

impl Function {
    /// The same tool with another description of itself.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        change(&mut self.spec);
        self
    }
}

impl Tool for Function {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        (self.run)(call)
    }
}
