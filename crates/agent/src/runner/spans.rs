//! What a collector is told about an evaluation: the agent, and within it every tool. Attempts at its model are told by the
//! exchange.

use scrollback_core::Time;

use super::EvaluationEnd;
use super::evaluation::Evaluation;
use crate::event::ToolInvoked;
use crate::telemetry::{Invoked, SpanContext, Telemetry, ToolUse};

impl Evaluation<'_> {
    /// Where the span of this evaluation stands.
    fn place(&self) -> SpanContext {
        self.runner.telemetry.place(self.id, self.span)
    }

    /// Who is sent spans of what this evaluation calls.
    pub fn telemetry_inside(&self) -> Telemetry {
        self.runner.telemetry.within(self.place().trace, Some(self.span))
    }

    /// The conversation; a record that is nowhere has none, and then the evaluation stands for it.
    pub fn conversation_id(&self) -> String {
        self.journal.conversation().map_or_else(|| self.id.to_string(), ToString::to_string)
    }

    /// Tells of a tool that ended.
    pub(super) fn tell_tool(&self, event: &ToolInvoked) {
        self.runner.telemetry.tell(|content| {
            let (now, conversation) = (self.now(), self.conversation_id());
            let tool = ToolUse {
                place: self.place().inside(),
                time: (Time(now.0.saturating_sub_unsigned(event.milliseconds)), now),
                name: &event.name,
                call_id: &event.call_id,
                conversation: &conversation,
                error: event.is_error.then_some("tool_error"),
                arguments: &event.arguments,
                result: &event.result,
            };
            tool.span(content)
        });
    }

    /// Tells how the evaluation ended.
    pub(super) fn tell_invoked(&self, ended: &EvaluationEnd) {
        self.runner.telemetry.tell(|_| {
            let model = self.runner.provider.describe().model;
            let conversation = self.conversation_id();
            let invoked = Invoked {
                place: self.place(),
                time: (self.started_at, self.now()),
                name: &self.prompt.name,
                provider: model.provider().name(),
                model: model.model(),
                conversation: &conversation,
                spent: &self.spent,
                error: match ended {
                    EvaluationEnd::Failed(error) => Some(error.code()),
                    EvaluationEnd::Replied { .. } | EvaluationEnd::Paused(_) => None,
                },
            };
            invoked.span()
        });
    }
}
