//! A tool that asks a person.

use super::{Call, Spec, Tool, ToolOutcome};
use crate::effects::BoxFuture;

/// Asks a person, and has the evaluation wait for the answer.
pub struct Human {
    spec: Spec,
    question: String,
}

impl Human {
    /// A tool that asks `question`, in which `{name}` stands for an argument.
    pub fn new(spec: Spec, question: impl Into<String>) -> Self {
        Human { spec, question: question.into() }
    }
}

impl Tool for Human {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        let question = super::command::fill(&self.question, &call.arguments);
        Box::pin(std::future::ready(ToolOutcome::Ask(question)))
    }

    fn asks(&self) -> bool {
        true
    }
}
