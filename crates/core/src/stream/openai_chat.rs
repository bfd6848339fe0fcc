//! Replies of `OpenAI` Chat Completions, and of everything that speaks it.
//!
//! Only choice 0 becomes the message: a conversation goes on from one answer, and there is no way to say which of
//! several it was. Others are noted.

use std::collections::BTreeMap;

use super::growing::Growing;
use super::stop::Asks;
use super::usage::{self, present};
use super::{MessageDraft, ReplyMeta, number, text};
use crate::json::{JsonKind, Object, Raw};

/// The message of choice 0, growing by its deltas.
#[derive(Debug, Default)]
pub(super) struct GrowingChoice {
    /// Whether any of it came.
    begun: bool,
    /// Everything but the calls: what is known of the format and what hosts add to it.
    members: Growing,
    calls: Vec<Growing>,
    /// The call each index stands for now.
    indexes: BTreeMap<u64, usize>,
}

impl MessageDraft for GrowingChoice {
    fn take(&mut self, _: &str, chunk: &Object<'_>, told: &mut ReplyMeta) {
        told.names(chunk.get("id"), chunk.get("model"));
        let groq = || chunk.get("x_groq").and_then(|own| own.get("usage"));
        if let Some(usage) = present(chunk.get("usage")).or_else(|| present(groq())) {
            told.usage = usage::openai(usage).or(told.usage.take());
        }
        let choices = chunk.get("choices").into_iter().flat_map(Raw::elements);
        for (place, choice) in choices.enumerate() {
            if number(choice.get("index")).unwrap_or(place as u64) == 0 {
                self.choice(choice, told);
            } else {
                told.note(OTHER_CHOICES);
            }
        }
    }

    fn message(&self, _: &mut ReplyMeta) -> Option<String> {
        if !self.begun {
            return None;
        }
        let mut out = String::from("{\"role\":\"assistant\",");
        self.members.write_members(&mut out);
        for (number, call) in self.calls.iter().enumerate() {
            out.push_str(if number == 0 { ",\"tool_calls\":[" } else { "," });
            call.write(&mut out);
        }
        out.push_str(if self.calls.is_empty() { "}" } else { "]}" });
        Some(out)
    }
}

const OTHER_CHOICES: &str = "choices other than the first were left out of the message";

impl GrowingChoice {
    fn choice(&mut self, choice: Raw<'_>, told: &mut ReplyMeta) {
        for (key, value) in choice.members() {
            match key.as_ref() {
                "delta" if value.kind() == JsonKind::Object => self.delta(value, told),
                "finish_reason" => {
                    if let Some(reason) = text(Some(value)) {
                        told.stop = Some(reason);
                        told.ended = true;
                    }
                }
                // Where Moonshot puts it.
                "usage" => told.usage = present(Some(value)).and_then(usage::openai).or(told.usage.take()),
                _ => {}
            }
        }
    }

    fn delta(&mut self, delta: Raw<'_>, told: &mut ReplyMeta) {
        if !self.begun {
            self.begun = true;
            self.members.set("content", Raw::trusted("null"));
        }
        for (key, value) in delta.members() {
            match key.as_ref() {
                // A reply is the assistant's, whatever a host calls it.
                "role" => {}
                "tool_calls" => {
                    for piece in value.elements() {
                        self.call(piece);
                        told.asks = Asks::ForTools;
                    }
                }
                key => {
                    if key == "function_call" && value.kind() == JsonKind::Object {
                        told.asks = Asks::ForTools;
                    }
                    self.members.append(key, value);
                }
            }
        }
    }

    /// Adds a piece to the call it belongs to. Indexes say which, but some hosts have none and some use 0 for every
    /// call: another id begins another call.
    fn call(&mut self, piece: Raw<'_>) {
        let index = number(piece.get("index"));
        let id = text(piece.get("id"));
        let last = self.calls.len().checked_sub(1);
        let known = match index {
            Some(index) => self.indexes.get(&index).copied(),
            None => last,
        };
        let same = |place: &usize| {
            let known_id = self.calls.get(*place).and_then(|call| call.text("id"));
            id.is_none() || known_id.is_none_or(|known| known.is_empty() || Some(known) == id)
        };
        let place = known.filter(same).unwrap_or(self.calls.len());
        if place == self.calls.len() {
            self.calls.push(Growing::default());
        }
        if let Some(index) = index {
            self.indexes.insert(index, place);
        }
        let Some(call) = self.calls.get_mut(place) else { return };
        for (key, value) in piece.members().filter(|(key, _)| key != "index") {
            call.append(&key, value);
        }
    }
}

/// The message of a whole response.
pub(super) fn body(response: &Object<'_>, told: &mut ReplyMeta) -> Option<String> {
    told.names(response.get("id"), response.get("model"));
    told.usage = present(response.get("usage")).and_then(usage::openai);
    let mut choices = response.get("choices").into_iter().flat_map(Raw::elements);
    let choice = choices.next()?;
    if choices.next().is_some() {
        told.note(OTHER_CHOICES);
    }
    told.stop = text(choice.get("finish_reason"));
    let message = choice.get("message").filter(|message| message.kind() == JsonKind::Object)?;
    let calls = message.get("tool_calls").is_some_and(|calls| calls.elements().next().is_some());
    let call = message.get("function_call").is_some_and(|call| call.kind() == JsonKind::Object);
    if calls || call {
        told.asks = Asks::ForTools;
    }
    Some(message.text().into())
}
