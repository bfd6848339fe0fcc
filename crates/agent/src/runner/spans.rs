//! What a collector is told about an evaluation: the agent, and within it every attempt at its model and every tool.

use scrollback_core::stream::Reply;
use scrollback_core::wire::ParseOptions;
use scrollback_core::{Entry, Time, json};

use super::Ended;
use super::call::Outgoing;
use super::evaluation::Evaluation;
use super::spend::Spent;
use crate::event::ToolInvoked;
use crate::provider::Provider;
use crate::telemetry::{Chat, Invoked, Place, Telemetry, ToolUse};

/// What an attempt at a request came to.
pub(super) struct Tried<'a> {
    pub(super) began: Time,
    pub(super) reply: Option<&'a Reply>,
    pub(super) spent: &'a Spent,
    /// How it failed, as one word.
    pub(super) error: Option<&'a str>,
}

impl Evaluation<'_> {
    /// Where the span of this evaluation stands.
    fn place(&self) -> Place {
        self.runner.telemetry.place(self.id, self.span)
    }

    /// Who is sent spans of what this evaluation calls.
    pub(crate) fn telemetry_inside(&self) -> Telemetry {
        self.runner.telemetry.within(self.place().trace, Some(self.span))
    }

    /// The conversation; a record that is nowhere has none, and then the evaluation stands for it.
    pub(crate) fn conversation_id(&self) -> String {
        self.journal.conversation().map_or_else(|| self.id.to_string(), ToString::to_string)
    }

    /// Tells of an attempt at a request.
    pub(super) fn tell_chat(&self, provider: &dyn Provider, outgoing: &Outgoing, tried: &Tried<'_>) {
        self.runner.telemetry.tell(|content| {
            let info = provider.describe();
            let conversation = self.conversation_id();
            let chat = Chat {
                place: self.place().inside(),
                time: (tried.began, self.now()),
                provider: info.model.provider().name(),
                model: info.model.model(),
                conversation: &conversation,
                reply: tried.reply.map(|reply| &reply.meta),
                spent: Some(tried.spent),
                error: tried.error,
            };
            let Some(content) = content else { return chat.span() };
            let said: Vec<Entry> = json::check(&outgoing.body)
                .ok()
                .and_then(|body| info.wire.parse(body, &ParseOptions::default()).ok())
                .map(|parsed| parsed.entries)
                .unwrap_or_default();
            let answered = tried.reply.and_then(|reply| reply.entry().ok());
            chat.span().with_messages(content, said.iter(), answered.as_ref())
        });
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
    pub(super) fn tell_invoked(&self, ended: &Ended) {
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
                    Ended::Failed(error) => Some(error.code.as_str()),
                    Ended::Replied { .. } | Ended::Paused(_) => None,
                },
            };
            invoked.span()
        });
    }
}
