//! The tools of a sub-agent: those every agent has, expressions of the language, and other sub-agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::telemetry::{SpanId, ToolUse};
use scrollback_agent::tool::{Call, Effects, Tool, ToolOutcome, ToolOutput, Toolbox, attempt};
use scrollback_core::{INTERRUPTED, json::quote};
use scrollback_lisp::{Definition, Env, Limits, Map, Memory, Program, ProgramEnd, Signature, Value};

use super::agent::SubAgent;
use super::input::ToolLine;
use super::program::{Attempt, Nested, Work, stopwatch};
use super::show::one_line;

/// What programs may call.
#[derive(Clone)]
pub struct AgentTool {
    pub(crate) line: ToolLine,
    pub(crate) source: CallTarget,
    /// What a call may do to the world, where that is said beside what the source says.
    pub(crate) effects: Option<Effects>,
    /// How long an expression may compute, where it is not as long as programs.
    pub(crate) timeout: Option<Duration>,
}

/// Who answers a call.
#[derive(Clone)]
pub(crate) enum CallTarget {
    /// A tool of any agent; in a box of its own, which knows its schema.
    Tool(Toolbox, OutputForm),
    /// An expression over its parameters.
    Lisp(Program),
    /// Another sub-agent.
    Agent(Arc<SubAgent>),
}

/// What the text a tool answers with is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// JSON; anything else is an error.
    Json,
    /// JSON if it is that, else a text.
    Either,
    /// A text.
    #[default]
    Text,
}

impl AgentTool {
    /// A tool of any agent. Without a signature programs give its arguments in one map.
    pub fn new(
        tool: Arc<dyn Tool>,
        signature: Option<Signature>,
        form: OutputForm,
    ) -> Result<Self, scrollback_agent::AgentError> {
        let spec = tool.spec();
        let description = Some(spec.description.clone()).filter(|text| !text.is_empty());
        let line = ToolLine { name: spec.name.clone(), signature, description };
        let mut own = Toolbox::default();
        own.add(tool)?;
        Ok(AgentTool::of(line, CallTarget::Tool(own, form)))
    }

    /// An expression of the language; names in it stand for its parameters, builtins or not.
    pub fn lisp(
        name: &str,
        signature: Option<Signature>,
        description: Option<String>,
        expression: &str,
    ) -> Result<Self, scrollback_lisp::Error> {
        let program = Program::compile(expression)?;
        let line = ToolLine { name: name.into(), signature, description };
        Ok(AgentTool::of(line, CallTarget::Lisp(program)))
    }

    /// A sub-agent, whose signature is that of the tool.
    pub(crate) fn agent(name: &str, description: Option<String>, agent: Arc<SubAgent>) -> Self {
        let line = ToolLine { name: name.into(), signature: agent.signature().cloned(), description };
        AgentTool::of(line, CallTarget::Agent(agent))
    }

    fn of(line: ToolLine, source: CallTarget) -> Self {
        AgentTool { line, source, effects: None, timeout: None }
    }

    /// The same with effects of its own; a call that may happen once is not made again after an interruption.
    #[must_use]
    pub fn with_effects(self, effects: Effects) -> Self {
        AgentTool { effects: Some(effects), ..self }
    }

    /// As the model is told of it.
    pub fn line(&self) -> &ToolLine {
        &self.line
    }

    fn effects(&self) -> Effects {
        if let Some(effects) = self.effects {
            return effects;
        }
        match &self.source {
            CallTarget::Tool(own, _) => {
                own.get(&self.line.name).map_or(Effects::Write, |tool| tool.spec().effects)
            }
            CallTarget::Lisp(_) => Effects::Read,
            CallTarget::Agent(_) => Effects::Write,
        }
    }
}

/// One call that a program waits for.
pub(crate) struct AwaitedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: Map,
}

/// What a call came to.
pub(crate) struct FinishedCall {
    pub(crate) result: Result<Value, String>,
    pub(crate) child: Option<Nested>,
}

impl Work {
    /// Makes a call, and sends its span.
    pub(crate) async fn call(self: Arc<Self>, call: AwaitedCall) -> FinishedCall {
        let telemetry = self.family.telemetry.clone();
        if !telemetry.is_on() {
            return self.make(call).await;
        }
        let (clock, conversation) = (Arc::clone(&self.host.clock), self.conversation.clone());
        let parent = self.family.parent.unwrap_or_default();
        let (id, name, arguments) =
            (call.id.clone(), call.name.clone(), Value::Map(call.args.clone()).to_json());
        let began = clock.now();
        let answered = self.make(call).await;
        telemetry.tell(|content| {
            let result = match &answered.result {
                Ok(value) => value.to_json(),
                Err(why) => why.clone(),
            };
            let tool = ToolUse {
                place: telemetry.place(parent, SpanId::random()),
                time: (began, clock.now()),
                name: &name,
                call_id: &id,
                conversation: &conversation,
                error: answered.result.is_err().then_some("tool_error"),
                arguments: &arguments,
                result: &result,
            };
            tool.span(content)
        });
        answered
    }

    async fn make(self: Arc<Self>, call: AwaitedCall) -> FinishedCall {
        let failed = |why: String| FinishedCall { result: Err(why), child: None };
        let Some(tool) = self.tools.get(&call.name) else { return failed("there is no such tool".into()) };
        if self.attempt == Attempt::Again && tool.effects() == Effects::Once {
            return failed(INTERRUPTED.into());
        }
        match &tool.source {
            CallTarget::Tool(own, form) => {
                FinishedCall { result: self.ask(tool, own, *form, call).await, child: None }
            }
            CallTarget::Lisp(program) => {
                FinishedCall { result: self.evaluate(tool, program, call.args).await, child: None }
            }
            CallTarget::Agent(agent) => {
                let data = by_name(&call.args);
                let nested = self.run_nested(Arc::clone(agent), data).await;
                FinishedCall { result: nested.result.clone(), child: Some(nested) }
            }
        }
    }

    /// Asks a tool of any agent.
    async fn ask(
        &self,
        tool: &AgentTool,
        own: &Toolbox,
        form: OutputForm,
        call: AwaitedCall,
    ) -> Result<Value, String> {
        let arguments = Value::Map(call.args).to_json();
        let resolved = match &tool.line.signature {
            // What fits its signature was checked before the call.
            Some(_) => own.get(&call.name).cloned().zip(serde_json::from_str(&arguments).ok()),
            None => Some(own.resolve(&call.name, &arguments)?).map(|found| (found.tool, found.arguments)),
        };
        let Some((called, arguments)) = resolved else {
            return Err("the arguments are not an object".into());
        };
        let most = called.spec().max_output;
        match attempt(called, Call { id: call.id, arguments }, &*self.host.clock).await {
            ToolOutcome::Failed(why) => Err(why),
            ToolOutcome::Ask(_) => Err("questions to a person are not possible here".into()),
            ToolOutcome::Done(ToolOutput::Json(value)) => {
                Value::from_json(&value.to_string()).ok_or_else(|| "the answer cannot be read".into())
            }
            ToolOutcome::Done(output) => taken(&output.into_text(), form, tool.line.signature.as_ref(), most),
        }
    }

    /// Runs an expression over its arguments.
    async fn evaluate(&self, tool: &AgentTool, program: &Program, args: Map) -> Result<Value, String> {
        let limits = Limits { time: tool.timeout.unwrap_or(self.limits.time), ..self.limits.clone() };
        let mut env =
            Env::new().limits(limits).clock(stopwatch()).now(self.host.clock.now().0).cancel(&self.cancel);
        // Parameters are definitions, so that one called `day` or `count` is not taken for a builtin. One that was left
        // away is nil, not a name that stands for nothing.
        let mut memory = Memory::default();
        let parameters = tool.line.signature.iter().flat_map(|signature| &signature.parameters);
        let absent = parameters.map(|(name, _)| (name.clone(), Value::Nil));
        for (name, value) in absent.chain(by_name(&args)) {
            env = env.data(&name, value.clone());
            memory.insert(&name, Definition { value: Some(value), ..Definition::default() });
        }
        env = env.memory(&memory);
        let program = program.clone();
        let ran = tokio::task::spawn_blocking(move || program.run(&mut env)).await;
        match ran.map(|outcome| outcome.result) {
            Ok(Ok(ProgramEnd::Value(value) | ProgramEnd::Returned(value))) => Ok(value),
            Ok(Err(error)) => Err(error.text()),
            Err(_) => Err("the expression was stopped".into()),
        }
    }
}

/// The text of an answer as the value it is taken for.
fn taken(text: &str, form: OutputForm, signature: Option<&Signature>, most: usize) -> Result<Value, String> {
    match (form, Value::from_json(text)) {
        (OutputForm::Json | OutputForm::Either, Some(value)) => Ok(value),
        (OutputForm::Json, None) if text.trim().is_empty() => {
            Err("it answered nothing, and JSON was expected; declare `output: text` if that is right".into())
        }
        (OutputForm::Json, None) => {
            let start: String = one_line(text).chars().take(60).collect();
            let hint = if text.len() >= most {
                "it is longer than max_output"
            } else {
                "declare `output: text` if it is a text"
            };
            Err(format!("its answer is not JSON: {}; {hint}", quote(&start)))
        }
        (OutputForm::Either, None) => Ok(Value::str(text)),
        // `wc` answers `3` and a line end: where the signature says :int, that is meant.
        (OutputForm::Text, _) => Ok(match signature.map(|signature| &signature.output) {
            Some(type_) if !type_.validate(&Value::str(text)).is_empty() => {
                let value = type_.coerce(Value::str(text.trim()), "", &mut Vec::new());
                if type_.validate(&value).is_empty() { value } else { Value::str(text) }
            }
            _ => Value::str(text),
        }),
    }
}

/// Arguments by name.
pub(crate) fn by_name(args: &Map) -> BTreeMap<String, Value> {
    let named = args.iter().filter_map(|(key, value)| match key {
        Value::Str(name) => Some((name.as_str().to_string(), value.clone())),
        Value::Keyword(name) => Some((name.as_str().to_string(), value.clone())),
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_are_taken_for_what_is_declared() {
        let signature = |text: &str| Some(Signature::parse(text).unwrap());
        for (text, form, declared, value) in [
            ("{\"a\": 1}", OutputForm::Json, None, Ok("{\"a\" 1}")),
            (" 3\n", OutputForm::Text, signature("(text :string) -> :int"), Ok("3")),
            ("three\n", OutputForm::Text, signature("(text :string) -> :int"), Ok("\"three\\n\"")),
            ("3\n", OutputForm::Text, signature(":string"), Ok("\"3\\n\"")),
            ("plain", OutputForm::Either, None, Ok("\"plain\"")),
            ("plain", OutputForm::Json, None, Err("output: text")),
            ("", OutputForm::Json, None, Err("answered nothing")),
        ] {
            let found = taken(text, form, declared.as_ref(), 1 << 20).map(|value| value.to_string());
            match value {
                Ok(value) => assert_eq!(found.as_deref(), Ok(value), "{text}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{text}"),
            }
        }
    }
}
