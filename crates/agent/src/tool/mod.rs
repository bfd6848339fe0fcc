//! Tools: what a model may ask to be done, and the results.
//!
//! Whatever a tool does, the model gets a result it can act on: an unknown name, arguments that are no JSON, a failure, a
//! timeout and a panic are all results that say what was wrong. Output is data; it never changes anything but the record.

mod attempt;
mod command;
mod function;
mod http;
mod human;
pub mod load;
pub mod mcp;
mod output;
mod process;
mod recall;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::effects::BoxFuture;
use crate::error::{AgentError, AgentErrorKind};
pub use attempt::attempt;
pub use command::Command;
pub use function::{Function, tool};
pub use http::{HttpCall, HttpTool};
pub use human::Human;
pub use output::shorten;
pub use recall::{RecallNames, RecallPlace, recall_tools};

/// Something that can be called.
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> &Spec;

    /// Does it. The caller watches the time.
    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome>;

    /// Whether it only asks a person, so that the answer comes from outside.
    fn asks(&self) -> bool {
        false
    }
}

/// What a tool is.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its name: 1 to 64 letters, digits, `_` or `-`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// What it is called with, as a JSON Schema.
    pub parameters: Value,
    /// What it does to the world.
    pub effects: Effects,
    /// How long it may take.
    pub timeout: Duration,
    /// Most bytes of its output; the middle of a longer one is left out.
    pub max_output: usize,
}

impl Spec {
    /// A tool of that name with the usual limits. Any object will do for its arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Spec {
            name: name.into(),
            description: description.into(),
            parameters: serde_json::json!({ "type": "object" }),
            effects: Effects::Write,
            // Long enough for a build or a crawl, short enough that a hung one is noticed.
            timeout: Duration::from_secs(60),
            // Four times what the largest windows hold; managers shorten it further.
            max_output: 1 << 20,
        }
    }
}

/// What a tool does to the world; decides what happens when a crash leaves it unknown whether it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effects {
    /// Nothing: it is run again.
    Read,
    /// Something that may be done twice: it is run again.
    #[default]
    Write,
    /// Something that must not be done twice: it is not run again.
    Once,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its id, the same when it is run again after a crash.
    pub id: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// It answered.
    Done(ToolOutput),
    /// It failed, and says why.
    Failed(String),
    /// A person has to be asked; the answer comes later.
    Ask(String),
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutput {
    /// A text.
    Text(String),
    /// Anything else, as JSON.
    Json(Value),
    /// Content blocks in the form of Anthropic's messages, as for images.
    Parts(Vec<Value>),
}

impl ToolOutput {
    /// The text the model sees.
    pub fn into_text(self) -> String {
        match self {
            ToolOutput::Text(text) | ToolOutput::Json(Value::String(text)) => text,
            ToolOutput::Json(value) => value.to_string(),
            ToolOutput::Parts(parts) => {
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                texts.join("\n")
            }
        }
    }
}

/// The tools of an agent, by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, (usize, Arc<dyn Tool>)>,
    schemas: BTreeMap<String, Arc<jsonschema::Validator>>,
}

impl Toolbox {
    /// Adds a tool; an error if its name is taken or none, or its schema is not one.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), AgentError> {
        let spec = tool.spec();
        let bad = |problem: String| {
            Err(AgentError::new(AgentErrorKind::Tool, format!("tool {:?}: {problem}", spec.name)))
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if spec.name.is_empty() || spec.name.len() > 64 || !spec.name.chars().all(fits) {
            return bad("must be 1 to 64 letters, digits, `_` or `-`".into());
        }
        if self.tools.contains_key(&spec.name) {
            return bad("two tools have this name".into());
        }
        let schema = match jsonschema::validator_for(&spec.parameters) {
            Ok(schema) => schema,
            Err(error) => return bad(format!("its parameters are not a JSON Schema: {error}")),
        };
        let name = spec.name.clone();
        self.schemas.insert(name.clone(), Arc::new(schema));
        self.tools.insert(name, (self.tools.len(), tool));
        Ok(())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(_, tool)| tool)
    }

    /// What the tools are, in the order they were added.
    pub fn specs(&self) -> Vec<&Spec> {
        let mut all: Vec<_> = self.tools.values().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, tool)| tool.spec()).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool a call asks for and what it is called with; otherwise what to tell the model.
    pub fn resolve(&self, name: &str, arguments: &str) -> Result<Resolved, String> {
        let Some(tool) = self.get(name) else {
            let known: Vec<&str> = self.specs().iter().map(|spec| spec.name.as_str()).collect();
            return Err(match known.as_slice() {
                [] => format!("unknown tool {name:?}; there are no tools"),
                known => format!("unknown tool {name:?}; known: {}", known.join(", ")),
            });
        };
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        let Value::Object(arguments) = value else {
            return Err(format!("the arguments must be a JSON object, not {}", kind(&value)));
        };
        let arguments = Value::Object(arguments);
        if let Some(schema) = self.schemas.get(name) {
            let wrong: Vec<String> = schema.iter_errors(&arguments).take(5).map(|error| at(&error)).collect();
            if !wrong.is_empty() {
                return Err(format!("the arguments do not fit the tool: {}", wrong.join("; ")));
            }
        }
        let Value::Object(arguments) = arguments else {
            return Err("the arguments are not an object".into());
        };
        Ok(Resolved { tool: Arc::clone(tool), arguments })
    }
}

/// A call that can be made.
pub struct Resolved {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

/// What is wrong with arguments, and where.
fn at(error: &jsonschema::ValidationError<'_>) -> String {
    match error.instance_path.to_string().as_str() {
        "" => error.to_string(),
        path => format!("{path}: {error}"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.specs().iter().map(|spec| &spec.name)).finish()
    }
}
