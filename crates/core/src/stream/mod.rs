//! Replies: from the bytes a provider sends to the message they amount to.
//!
//! An [`Assembler`] takes a provider's event stream in whatever chunks it comes and gives the [`Reply`]: the message
//! as the wire would send it back in the next request, made of the provider's own JSON pieces, and what is known
//! about it. [`Reply::from_body`] does the same with a reply that came in one piece.
//!
//! | wire | the message grows by | it is whole after | `raw` |
//! |---|---|---|---|
//! | `openai-chat` | `delta` of choice 0 | `finish_reason` or `[DONE]` | `{"role":"assistant","content":…,…,"tool_calls":[…]}` |
//! | `openai-responses` | `response.output_item.done` | `response.completed` or `.incomplete` | `[item,…]` |
//! | `anthropic` | `content_block_start` and its deltas | `message_stop` | `{"role":"assistant","content":[block,…]}` |
//! | `gemini` | the parts of candidate 0 | `finishReason` | `{"role":"model","parts":[part,…]}` |
//!
//! A stream without its end is truncated, never a success; so is one with an event that cannot be read. What came
//! until then is kept in a form that reads as cut: arguments that are no whole JSON stay as the text they are
//! (`{"__raw":"…"}` where the wire wants an object), thoughts cut before their signature have none. Unknown events
//! are passed over, as every provider asks.

mod anthropic;
mod bedrock;
mod delta;
mod gemini;
mod growing;
mod list;
mod messages;
mod openai_chat;
mod openai_responses;
mod problem;
mod reply;
pub mod sse;
mod stop;
mod usage;

use std::fmt;

pub use delta::Delta;
pub use messages::messages_in;
pub use problem::{StreamError, StreamErrorOrigin};
pub use reply::{AppliedEdit, Reply};
use stop::Asks;
pub use stop::StopReason;

use crate::entry::{Meta, Status, Usage};
use crate::json::{self, JsonKind, Object, Raw};
use crate::wire::{Wire, WireError};
use sse::{SseEvent, UnreadableEvent};

/// How much of a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes of one event. Lines have no other cap, because cutting one makes a whole reply unreadable; the largest
    /// seen are generated pictures, some tens of megabytes of base64 in the last event of a response.
    pub event_bytes: usize,
    /// Bytes of a whole stream. A token costs some 350 bytes of JSON around it, so the longest outputs on offer
    /// (128,000 tokens) stay below 50 megabytes; a stream of several times that is a fault, not an answer.
    pub stream_bytes: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits { event_bytes: 64 << 20, stream_bytes: 256 << 20 }
    }
}

/// Puts a streamed reply together. The same bytes give the same reply, however they are cut into chunks.
///
/// ```
/// use scrollback_core::{Status, stream::Assembler, wire::Wire};
///
/// let mut assembler = Assembler::new(Wire::OpenaiChat)?;
/// assembler.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Good \"}}]}\n\nda");
/// assembler.feed(b"ta: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"day\"},\"finish_reason\":\"stop\"}]}\n\n");
/// let reply = assembler.finish();
/// assert_eq!(reply.meta.status, Status::Complete);
/// assert_eq!(reply.raw.as_deref(), Some(r#"{"role":"assistant","content":"Good day"}"#));
/// assert_eq!(reply.entry()?.content().as_deref(), Some("Good day"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Assembler {
    framing: Framing,
    /// Bytes that may still come.
    room: usize,
    assembly: Assembly,
}

/// How a stream is cut into events.
#[derive(Debug)]
enum Framing {
    /// Server-sent events.
    Events(sse::SseParser),
    /// The elements of one JSON list.
    List(list::Elements),
}

impl Assembler {
    /// An assembler for the streams of a wire; an error for Bedrock, which streams binary frames, and for our own
    /// wire, which is no provider's.
    pub fn new(wire: Wire) -> Result<Self, WireError> {
        Self::with_limits(wire, StreamLimits::default())
    }

    /// An assembler for streams that are one JSON list, an event after the other, as Gemini sends them without `alt=sse`.
    ///
    /// ```
    /// use scrollback_core::{Status, stream::Assembler, wire::Wire};
    /// let mut assembler = Assembler::of_list(Wire::Gemini)?;
    /// assembler.feed(b"[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Good \"}]}}]}\n,{\"candi");
    /// assembler.feed(b"dates\":[{\"content\":{\"parts\":[{\"text\":\"day\"}]},\"finishReason\":\"STOP\"}]}]");
    /// let reply = assembler.finish();
    /// assert_eq!(reply.meta.status, Status::Complete);
    /// assert_eq!(reply.entry()?.content().as_deref(), Some("Good day"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_list(wire: Wire) -> Result<Self, WireError> {
        let limits = StreamLimits::default();
        let assembler = Self::with_limits(wire, limits)?;
        Ok(Assembler { framing: Framing::List(list::Elements::new(limits.event_bytes)), ..assembler })
    }

    /// The same with other limits.
    pub fn with_limits(wire: Wire, limits: StreamLimits) -> Result<Self, WireError> {
        let none = || WireError::bad_input(format!("the {wire} wire has no event stream to read"));
        let assembly = Assembly::new(wire).ok_or_else(none)?;
        let parser = sse::SseParser::new(limits.event_bytes);
        Ok(Assembler { framing: Framing::Events(parser), room: limits.stream_bytes, assembly })
    }

    /// Takes in the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_telling(bytes, None);
    }

    /// Takes in the next bytes and tells, piece by piece, what they add.
    pub fn watch(&mut self, bytes: &[u8], mut sink: impl FnMut(Delta)) {
        self.feed_telling(bytes, Some(&mut sink));
    }

    fn feed_telling(&mut self, bytes: &[u8], mut sink: Sink<'_>) {
        let taken = bytes.get(..self.room).unwrap_or(bytes);
        self.room -= taken.len();
        if taken.len() < bytes.len() {
            self.assembly.unreadable("the stream is larger than the limit; the rest of it was not read");
        }
        let assembly = &mut self.assembly;
        match &mut self.framing {
            Framing::Events(parser) => parser.feed(taken, |event| assembly.event(event, &mut sink)),
            Framing::List(elements) => elements.feed(taken, |element| {
                assembly.event(element.map(|data| SseEvent { name: "", data }), &mut sink);
            }),
        }
    }

    /// Whether the end of the reply has come; what still follows is usage at most.
    pub fn is_complete(&self) -> bool {
        self.assembly.told.ended
    }

    /// The reply as it would be if the stream broke after its last whole event; costs a copy of all of it.
    pub fn so_far(&self) -> Reply {
        self.assembly.reply(Status::TruncatedUpstream)
    }

    /// The reply, now that the provider has closed the stream.
    pub fn finish(self) -> Reply {
        self.close(Status::TruncatedUpstream)
    }

    /// The reply, now that the client has left; truncated on its side unless it was whole by then.
    pub fn finish_cancelled(self) -> Reply {
        self.close(Status::TruncatedClient)
    }

    fn close(self, truncated: Status) -> Reply {
        let mut assembly = self.assembly;
        // A list that ends inside an element ends before it: half of an element does not count.
        if let Framing::Events(parser) = self.framing {
            parser.end(|event| assembly.last_event(event));
        }
        assembly.reply(truncated)
    }
}

/// What is called as the reply grows, if anything.
type Sink<'s> = Option<&'s mut dyn FnMut(Delta)>;

/// What the events read so far amount to.
#[derive(Debug)]
struct Assembly {
    wire: Wire,
    draft: Box<dyn MessageDraft>,
    told: ReplyMeta,
    /// Why part of the stream is missing from the reply.
    unreadable: Option<&'static str>,
}

/// The message of one wire, growing event by event.
trait MessageDraft: fmt::Debug + Send + Sync {
    /// Takes in an event, given its type (its own or, without one, its name).
    fn take(&mut self, kind: &str, event: &Object<'_>, told: &mut ReplyMeta);

    /// The message so far; none before any of it came. `told` says whether it is whole, and takes notes.
    fn message(&self, told: &mut ReplyMeta) -> Option<String>;
}

impl Assembly {
    /// Nothing yet of a reply; none for a wire without streams we read.
    fn new(wire: Wire) -> Option<Self> {
        let draft: Box<dyn MessageDraft> = match wire {
            Wire::OpenaiChat => Box::<openai_chat::GrowingChoice>::default(),
            Wire::OpenaiResponses => Box::<openai_responses::GrowingOutput>::default(),
            Wire::Anthropic => Box::<anthropic::GrowingMessage>::default(),
            Wire::Gemini => Box::<gemini::GrowingCandidate>::default(),
            Wire::Bedrock | Wire::Scrollback => return None,
        };
        let told = ReplyMeta { done_ends: wire == Wire::OpenaiChat, ..ReplyMeta::default() };
        Some(Assembly { wire, draft, told, unreadable: None })
    }

    fn unreadable(&mut self, why: &'static str) {
        self.unreadable.get_or_insert(why);
    }

    fn event(&mut self, event: Result<SseEvent<'_>, UnreadableEvent>, sink: &mut Sink<'_>) {
        let event = match event {
            Ok(event) => event,
            Err(why) => return self.unreadable(why.as_str()),
        };
        let data = event.data.trim();
        if data == "[DONE]" {
            self.told.done();
        } else if let Ok(data) = json::check(data) {
            self.take(event.name, data, sink);
        } else if !data.is_empty() && event.name != "ping" {
            self.unreadable("an event of the stream is not JSON");
        }
    }

    /// The event that the stream ended in: whole if it reads as one, else cut off and no fault of its own.
    fn last_event(&mut self, event: Result<SseEvent<'_>, UnreadableEvent>) {
        let whole = match event {
            Ok(event) => event.data.trim() == "[DONE]" || json::check(event.data).is_ok(),
            Err(UnreadableEvent::TooLarge) => true,
            Err(UnreadableEvent::NotUtf8) => false,
        };
        if whole {
            self.event(event, &mut None);
        }
    }

    fn take(&mut self, name: &str, data: Raw<'_>, sink: &mut Sink<'_>) {
        if data.kind() != JsonKind::Object {
            return;
        }
        match data.object() {
            Ok(event) => {
                let kind = text(event.get("type"));
                let kind = kind.as_deref().unwrap_or(name);
                // Every wire reports errors under this key or, where the event is the error, under this name.
                match reported(event.get("error")) {
                    Some(error) => self.told.fail(error),
                    None if kind == "error" => self.told.fail(data),
                    None => {}
                }
                let known = sink.is_some().then(|| self.told.usage.clone());
                self.draft.take(kind, &event, &mut self.told);
                if let Some(sink) = sink {
                    delta::tell(self.wire, kind, &event, sink);
                    let new = self.told.usage.clone().filter(|new| known.flatten().as_ref() != Some(new));
                    new.map(Delta::Usage).map(sink);
                }
            }
            Err(_) => self.unreadable("an event of the stream has a key twice"),
        }
    }

    fn reply(&self, truncated: Status) -> Reply {
        let mut told = self.told.clone();
        let raw = self.draft.message(&mut told);
        // Pieces are checked where they arrive, but a message may be nested deeper than each of them.
        let readable = raw.as_deref().is_none_or(|raw| json::check(raw).is_ok());
        let unreadable =
            self.unreadable.or((!readable).then_some("the message is nested too deep to be kept"));
        told.reply(self.wire, raw.filter(|_| readable), unreadable.map(StreamError::malformed), truncated)
    }
}

/// What a provider tells beside the message itself.
#[derive(Clone, Debug, Default)]
struct ReplyMeta {
    response_id: Option<String>,
    model: Option<String>,
    stop: Option<String>,
    usage: Option<Usage>,
    asks: Asks,
    /// Whether the message is whole.
    ended: bool,
    /// Whether `[DONE]` ends a message on this wire.
    done_ends: bool,
    problem: Option<StreamError>,
    notes: Vec<String>,
    /// What the provider did to the request by itself.
    edits: Vec<AppliedEdit>,
}

impl ReplyMeta {
    /// The name of the response and of the model, as far as they are told; the first word counts.
    fn names(&mut self, id: Option<Raw<'_>>, model: Option<Raw<'_>>) {
        if self.response_id.is_none() {
            self.response_id = text(id);
        }
        if self.model.is_none() {
            self.model = text(model);
        }
    }

    /// What the provider says it did to the request; the last word counts.
    fn edited(&mut self, management: Option<Raw<'_>>) {
        if let Some(management) = management.filter(|management| management.kind() == JsonKind::Object) {
            self.edits = AppliedEdit::read(management);
        }
    }

    /// An error the provider reported; the first one counts.
    fn fail(&mut self, error: Raw<'_>) {
        self.problem.get_or_insert_with(|| StreamError::read(error));
    }

    /// Something the reader of the reply should know, once.
    fn note(&mut self, note: &str) {
        if self.notes.len() < MAX_NOTES && !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.into());
        }
    }

    /// The sentinel after the last event.
    fn done(&mut self) {
        self.ended |= self.done_ends;
    }

    fn reply(self, wire: Wire, raw: Option<String>, lost: Option<StreamError>, truncated: Status) -> Reply {
        let status = match (&self.problem, &lost) {
            (Some(_), _) => Status::Error,
            (None, None) if self.ended => Status::Complete,
            (None, _) => truncated,
        };
        let stop = if self.problem.is_some() {
            Some(StopReason::Error)
        } else if self.ended || self.stop.is_some() {
            Some(StopReason::of_provider(self.stop.as_deref(), self.asks))
        } else {
            None
        };
        let meta = Meta {
            model_served: self.model,
            response_id: self.response_id,
            stop,
            stop_raw: self.stop,
            usage: self.usage,
            status,
            ..Meta::default()
        };
        Reply {
            wire,
            raw,
            meta,
            problem: self.problem.or(lost),
            notes: self.notes,
            applied_edits: self.edits,
        }
    }
}

/// Notes are for people; a stream made to fill them gets no further.
const MAX_NOTES: usize = 20;

/// An error under the key for errors, which may also stand there with nothing in it.
fn reported(error: Option<Raw<'_>>) -> Option<Raw<'_>> {
    error.filter(|error| match error.kind() {
        JsonKind::Object => true,
        JsonKind::String => error.text() != "\"\"",
        _ => false,
    })
}

/// A string that is there and says something.
fn text(value: Option<Raw<'_>>) -> Option<String> {
    value.and_then(Raw::string).filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned)
}

/// A whole number.
fn number(value: Option<Raw<'_>>) -> Option<u64> {
    value?.text().parse().ok()
}
