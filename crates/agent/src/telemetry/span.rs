//! One piece of work that ended, and what is said about it.

use scrollback_core::stream::StopReason;
use scrollback_core::{Entry, Meta, Time};
use uuid::Uuid;

use super::content::ContentWriter;
use super::names;
use crate::runner::AttemptUsage;

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Several texts.
    Texts(Vec<String>),
}

/// Names one span within its trace; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub(crate) [u8; 8]);

impl SpanId {
    /// A new random id.
    pub fn random() -> Self {
        // The first half of a random UUID has bits that are always set, so it is never zero.
        let (half, _) = Uuid::new_v4().as_u64_pair();
        SpanId(half.to_be_bytes())
    }
}

/// Whether the caller that began a trace wants it sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Spans are sent.
    Yes,
    /// They are not.
    No,
}

/// Where a span stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace it is in.
    pub trace: Uuid,
    /// The span itself.
    pub span: SpanId,
    /// The span it is part of.
    pub parent: Option<SpanId>,
}

impl SpanContext {
    /// That of another span inside this one.
    #[must_use]
    pub fn inside(&self) -> Self {
        SpanContext { trace: self.trace, span: SpanId::random(), parent: Some(self.span) }
    }

    /// Where a client says that its request stands, in the form of W3C Trace Context, and whether it wants spans.
    pub fn of_traceparent(text: &str) -> Option<(Self, Sampled)> {
        let mut parts = text.trim().split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, digits| {
            text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let shaped = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
        if !shaped || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let parent = u64::from_str_radix(parent, 16).ok().filter(|parent| *parent != 0)?;
        let sampled = if u8::from_str_radix(flags, 16).ok()? & 1 == 1 { Sampled::Yes } else { Sampled::No };
        let parent = Some(SpanId(parent.to_be_bytes()));
        Some((SpanContext { trace: Uuid::from_u128(trace), span: SpanId::random(), parent }, sampled))
    }
}

/// One piece of work that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// What was done, and with what: `chat gpt-4o`.
    pub name: String,
    /// Whether another process did it.
    pub is_remote: bool,
    /// Where it stands.
    pub place: SpanContext,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// What is said about it.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// What failed, as one word.
    pub error: Option<String>,
}

/// Longest name that is told: clients may write anything where a name belongs.
const LONGEST_NAME: usize = 200;

impl FinishedSpan {
    fn new(operation: &'static str, subject: &str, place: SpanContext, (began, ended): (Time, Time)) -> Self {
        let subject = short(subject);
        let name = if subject.is_empty() { operation.into() } else { format!("{operation} {subject}") };
        let attributes = vec![(names::OPERATION, AttributeValue::Text(operation.into()))];
        FinishedSpan { name, is_remote: false, place, began, ended, attributes, error: None }
    }

    /// Says something more about it.
    pub fn say(&mut self, name: &'static str, text: &str) {
        self.attributes.push((name, AttributeValue::Text(short(text))));
    }

    /// The same with what a model was sent and what it answered.
    #[must_use]
    pub fn with_messages<'e>(
        mut self,
        content: &ContentWriter,
        said: impl Iterator<Item = &'e Entry>,
        answered: Option<&Entry>,
    ) -> Self {
        self.say_whole(names::INPUT_MESSAGES, content.messages(said));
        if let Some(entry) = answered {
            self.say_whole(names::OUTPUT_MESSAGES, content.messages(std::iter::once(entry)));
        }
        self
    }

    fn say_whole(&mut self, name: &'static str, text: String) {
        self.attributes.push((name, AttributeValue::Text(text)));
    }

    fn count(&mut self, name: &'static str, number: u64) {
        self.attributes.push((name, AttributeValue::Number(i64::try_from(number).unwrap_or(i64::MAX))));
    }

    fn fail(&mut self, error: Option<&str>) {
        if let Some(error) = error {
            self.say(names::ERROR, error);
            self.error = Some(short(error));
        }
    }

    fn used(&mut self, spent: &AttemptUsage) {
        self.count(names::INPUT_TOKENS, spent.input);
        self.count(names::OUTPUT_TOKENS, spent.output);
        self.count(names::CACHE_READ_TOKENS, spent.cache_read);
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// One attempt at asking a model.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    /// Where it stands.
    pub place: SpanContext,
    /// When it began and ended.
    pub time: (Time, Time),
    /// Who serves the model.
    pub provider: &'a str,
    /// The model that was asked for, as its provider names it.
    pub model: &'a str,
    /// The conversation; the evaluation or call itself where there is none.
    pub conversation: &'a str,
    /// What is known about the reply.
    pub reply: Option<&'a Meta>,
    /// What it used.
    pub spent: Option<&'a AttemptUsage>,
    /// How it failed, as one word.
    pub error: Option<&'a str>,
}

impl Chat<'_> {
    /// The span, without a word of what was said.
    pub fn span(&self) -> FinishedSpan {
        let mut span = FinishedSpan::new("chat", self.model, self.place, self.time);
        span.is_remote = true;
        span.say(names::PROVIDER, self.provider);
        span.say(names::REQUEST_MODEL, self.model);
        span.say(names::CONVERSATION, self.conversation);
        if let Some(meta) = self.reply {
            for (name, text) in
                [(names::RESPONSE_MODEL, &meta.model_served), (names::RESPONSE_ID, &meta.response_id)]
            {
                if let Some(text) = text {
                    span.say(name, text);
                }
            }
            if let Some(stop) = meta.stop_raw.as_deref().or(meta.stop.as_ref().map(StopReason::as_str)) {
                span.attributes.push((names::FINISH_REASONS, AttributeValue::Texts(vec![short(stop)])));
            }
        }
        if let Some(spent) = self.spent {
            span.used(spent);
        }
        span.fail(self.error);
        span
    }
}

/// One call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolUse<'a> {
    /// Where it stands.
    pub place: SpanContext,
    /// When it began and ended.
    pub time: (Time, Time),
    /// The tool.
    pub name: &'a str,
    /// The call.
    pub call_id: &'a str,
    /// The conversation; the evaluation itself where there is none.
    pub conversation: &'a str,
    /// How it failed, as one word.
    pub error: Option<&'a str>,
    /// What it was called with.
    pub arguments: &'a str,
    /// What it answered.
    pub result: &'a str,
}

impl ToolUse<'_> {
    /// The span; arguments and result only where content was asked for.
    pub fn span(&self, content: Option<&ContentWriter>) -> FinishedSpan {
        let mut span = FinishedSpan::new("execute_tool", self.name, self.place, self.time);
        span.say(names::TOOL, self.name);
        span.say(names::TOOL_CALL, self.call_id);
        span.say(names::CONVERSATION, self.conversation);
        span.fail(self.error);
        if let Some(content) = content {
            span.say_whole(names::TOOL_ARGUMENTS, content.text(self.arguments));
            span.say_whole(names::TOOL_RESULT, content.text(self.result));
        }
        span
    }
}

/// One run of an agent on one input.
#[derive(Clone, Copy, Debug)]
pub struct Invoked<'a> {
    /// Where it stands.
    pub place: SpanContext,
    /// When it began and ended.
    pub time: (Time, Time),
    /// The agent.
    pub name: &'a str,
    /// Who serves its model.
    pub provider: &'a str,
    /// Its model, as the provider names it.
    pub model: &'a str,
    /// The conversation; the evaluation itself where there is none.
    pub conversation: &'a str,
    /// What all its requests used.
    pub spent: &'a AttemptUsage,
    /// How it failed, as one word.
    pub error: Option<&'a str>,
}

impl Invoked<'_> {
    /// The span.
    pub fn span(&self) -> FinishedSpan {
        let mut span = FinishedSpan::new("invoke_agent", self.name, self.place, self.time);
        span.say(names::AGENT, self.name);
        span.say(names::PROVIDER, self.provider);
        span.say(names::REQUEST_MODEL, self.model);
        span.say(names::CONVERSATION, self.conversation);
        span.used(self.spent);
        span.fail(self.error);
        span
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_whole_traceparent_counts() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (place, sampled) = SpanContext::of_traceparent(good).unwrap();
        assert_eq!(sampled, Sampled::Yes);
        assert_eq!(place.trace.simple().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(place.parent, Some(SpanId(0xb7ad_6b71_6920_3331_u64.to_be_bytes())));
        assert_ne!(Some(place.span), place.parent);
        let unwanted = SpanContext::of_traceparent(&good.replace("-01", "-00")).unwrap();
        assert_eq!(unwanted.1, Sampled::No);
        // A later version may say more.
        assert!(SpanContext::of_traceparent(&format!("01{}-more", &good[2..])).is_some());
        let bad = [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ];
        for text in bad {
            assert_eq!(SpanContext::of_traceparent(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_clients_are_bounded() {
        let spent = AttemptUsage::default();
        let chat = Chat {
            place: SpanContext { trace: Uuid::from_u128(1), span: SpanId::random(), parent: None },
            time: (Time(1), Time(2)),
            provider: "openai",
            model: &"m".repeat(10_000),
            conversation: "c",
            reply: None,
            spent: Some(&spent),
            error: Some("rate_limit"),
        };
        let span = chat.span();
        assert_eq!(span.name.len(), "chat ".len() + LONGEST_NAME);
        assert_eq!(span.error.as_deref(), Some("rate_limit"));
        assert!(span.attributes.contains(&(names::ERROR, AttributeValue::Text("rate_limit".into()))));
    }
}
