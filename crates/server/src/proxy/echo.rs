//! Answers without a provider: the last thing the user said, in the form the client expects.
//!
//! So everything works before there is a key: clients, records, views, the lens.

use bytes::Bytes;
use scrollback_core::tokens::{OVERHEAD, Tokenizer, entry_tokens};
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role};
use serde_json::{Value, json};

use super::client_request::ReplyShape;

/// Bytes of a request whose tokens are counted one by one; of a larger one they are estimated, and the usage says so.
const COUNTED: usize = 256 << 10;
/// Bytes of a token in an estimate.
const BYTES_PER_TOKEN: usize = 4;

/// Characters in one event of a streamed text.
const PIECE: usize = 8;

/// What every id made here begins with, after the letters of its wire.
pub(crate) const OWN_ID: &str = "scrollback_";

/// Which of the responses of one stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Earlier,
    Last,
}

/// An answer of our own.
pub(crate) struct Echo<'a> {
    pub(crate) wire: Wire,
    /// The model as the client named it.
    pub(crate) model: &'a str,
    /// What tells this answer from others.
    pub(crate) id: &'a str,
    /// When it is given, in seconds.
    pub(crate) at: i64,
    /// What the answer is to, as it would have been sent.
    pub(crate) said: &'a [Entry],
}

impl Echo<'_> {
    /// The answer's pieces, as they would have come over a connection.
    pub(crate) fn pieces(&self, shape: ReplyShape) -> Vec<Bytes> {
        let pieces = match (self.wire, shape) {
            (Wire::Anthropic, ReplyShape::Whole | ReplyShape::List) => {
                vec![self.message(&self.text(), "end_turn", self.output()).to_string()]
            }
            (Wire::Anthropic, ReplyShape::Events) => self.message_events(),
            (Wire::OpenaiResponses, ReplyShape::Whole | ReplyShape::List) => {
                vec![self.response("completed").to_string()]
            }
            (Wire::OpenaiResponses, ReplyShape::Events) => self.response_events(),
            (Wire::Gemini, ReplyShape::Whole) => vec![self.contents(&self.text(), Which::Last).to_string()],
            (Wire::Gemini, ReplyShape::Events) => {
                self.content_pieces().iter().map(|piece| format!("data: {piece}\r\n\r\n")).collect()
            }
            (Wire::Gemini, ReplyShape::List) => self.content_list(),
            (_, ReplyShape::Whole | ReplyShape::List) => vec![self.completion().to_string()],
            (_, ReplyShape::Events) => self.completion_events(),
        };
        pieces.into_iter().map(Bytes::from).collect()
    }

    fn text(&self) -> String {
        let last = self.said.iter().rfind(|entry| entry.role == Role::User);
        last.and_then(Entry::content).unwrap_or_default()
    }

    fn input(&self) -> usize {
        if self.is_estimated() {
            return OVERHEAD + self.bytes() / BYTES_PER_TOKEN;
        }
        OVERHEAD + self.said.iter().map(|entry| entry_tokens(Tokenizer::O200kBase, entry)).sum::<usize>()
    }

    fn output(&self) -> usize {
        let text = self.text();
        if self.is_estimated() { text.len() / BYTES_PER_TOKEN } else { Tokenizer::O200kBase.count(&text) }
    }

    /// Bytes of everything that is said.
    fn bytes(&self) -> usize {
        self.said.iter().map(|entry| entry.origin.raw.len()).sum()
    }

    /// Whether there is so much that its tokens are estimated.
    fn is_estimated(&self) -> bool {
        self.bytes() > COUNTED
    }

    /// Usage that says so where it is estimated.
    fn labelled(&self, mut usage: Value) -> Value {
        if let Some(members) = usage.as_object_mut().filter(|_| self.is_estimated()) {
            members.insert("estimated".into(), json!(true));
        }
        usage
    }

    fn parts(&self) -> Vec<String> {
        let letters: Vec<char> = self.text().chars().collect();
        letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
    }

    fn chat_usage(&self) -> Value {
        let (input, output) = (self.input(), self.output());
        self.labelled(
            json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output }),
        )
    }

    fn completion(&self) -> Value {
        json!({
            "id": format!("chatcmpl-{OWN_ID}{}", self.id), "object": "chat.completion", "created": self.at,
            "model": self.model,
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": self.text(), "refusal": null },
                "logprobs": null, "finish_reason": "stop",
            }],
            "usage": self.chat_usage(),
        })
    }

    fn completion_events(&self) -> Vec<String> {
        let event = |choices: Value, usage: Value| {
            let mut chunk = json!({
                "id": format!("chatcmpl-{OWN_ID}{}", self.id), "object": "chat.completion.chunk",
                "created": self.at, "model": self.model, "choices": choices,
            });
            if let Some(members) = chunk.as_object_mut().filter(|_| !usage.is_null()) {
                members.insert("usage".into(), usage);
            }
            format!("data: {chunk}\n\n")
        };
        let choice =
            |delta: Value, reason: Value| json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        let mut events =
            vec![event(choice(json!({ "role": "assistant", "content": "" }), Value::Null), Value::Null)];
        events.extend(
            self.parts()
                .iter()
                .map(|part| event(choice(json!({ "content": part }), Value::Null), Value::Null)),
        );
        // The last chunk with a choice carries the usage, so that no client meets one without.
        events.push(event(choice(json!({}), json!("stop")), self.chat_usage()));
        events.push("data: [DONE]\n\n".into());
        events
    }

    fn message(&self, text: &str, stop: &str, output: usize) -> Value {
        let content = if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
        json!({
            "id": format!("msg_{OWN_ID}{}", self.id), "type": "message", "role": "assistant", "model": self.model,
            "content": content,
            "stop_reason": if stop.is_empty() { Value::Null } else { json!(stop) }, "stop_sequence": null,
            "usage": self.labelled(json!({ "input_tokens": self.input(), "output_tokens": output })),
        })
    }

    fn message_events(&self) -> Vec<String> {
        let event =
            |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
        let mut events = vec![event(json!({ "type": "message_start", "message": self.message("", "", 0) }))];
        let parts = self.parts();
        if !parts.is_empty() {
            let block = json!({ "type": "text", "text": "" });
            events.push(event(json!({ "type": "content_block_start", "index": 0, "content_block": block })));
            for part in parts {
                let delta = json!({ "type": "text_delta", "text": part });
                events.push(event(json!({ "type": "content_block_delta", "index": 0, "delta": delta })));
            }
            events.push(event(json!({ "type": "content_block_stop", "index": 0 })));
        }
        events.push(event(json!({
            "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
            "usage": { "output_tokens": self.output() },
        })));
        events.push(event(json!({ "type": "message_stop" })));
        events
    }

    /// A response of Gemini with a text, the last one with the reason for its end and the usage.
    fn contents(&self, text: &str, which: Which) -> Value {
        let last = which == Which::Last;
        let (input, output) = (self.input(), self.output());
        let mut candidate =
            json!({ "content": { "role": "model", "parts": [{ "text": text }] }, "index": 0 });
        if let Some(members) = candidate.as_object_mut().filter(|_| last) {
            members.insert("finishReason".into(), json!("STOP"));
        }
        let usage = json!({
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        });
        json!({
            "candidates": [candidate], "usageMetadata": if last { self.labelled(usage) } else { json!({ "promptTokenCount": input }) },
            "modelVersion": self.model, "responseId": format!("{OWN_ID}{}", self.id),
        })
    }

    /// A response for each piece of the text.
    fn content_pieces(&self) -> Vec<Value> {
        let parts = self.parts();
        let last = parts.len().saturating_sub(1);
        if parts.is_empty() {
            return vec![self.contents("", Which::Last)];
        }
        parts
            .iter()
            .enumerate()
            .map(|(number, part)| {
                self.contents(part, if number == last { Which::Last } else { Which::Earlier })
            })
            .collect()
    }

    /// The same as one list, in the pieces in which it would have come.
    fn content_list(&self) -> Vec<String> {
        let pieces = self.content_pieces().into_iter().enumerate();
        let mut list: Vec<String> = pieces
            .map(|(number, piece)| format!("{}{piece}", if number == 0 { "[" } else { ",\r\n" }))
            .collect();
        list.push("]".into());
        list
    }

    fn item(&self, text: &str, status: &str) -> Value {
        let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        json!({
            "id": format!("msg_{OWN_ID}{}", self.id), "type": "message", "role": "assistant", "status": status,
            "content": if status == "completed" { content } else { json!([]) },
        })
    }

    fn response(&self, status: &str) -> Value {
        let (input, output) = (self.input(), self.output());
        let done = status == "completed";
        let usage = json!({
            "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + output,
        });
        json!({
            "id": format!("resp_{OWN_ID}{}", self.id), "object": "response", "created_at": self.at, "status": status,
            "model": self.model, "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "temperature": null, "top_p": null, "tool_choice": "auto", "tools": [],
            "output": if done { json!([self.item(&self.text(), status)]) } else { json!([]) },
            "usage": if done { self.labelled(usage) } else { Value::Null },
        })
    }

    fn response_events(&self) -> Vec<String> {
        let mut number = 0;
        let mut event = |mut data: Value| {
            if let Some(members) = data.as_object_mut() {
                members.insert("sequence_number".into(), json!(number));
            }
            number += 1;
            format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
        };
        let begun = self.response("in_progress");
        let (text, item) = (self.text(), format!("msg_{OWN_ID}{}", self.id));
        let at = json!({ "item_id": item, "output_index": 0, "content_index": 0 });
        let placed = |kind: &str, more: Value| {
            let mut data = json!({ "type": kind });
            for value in [&at, &more] {
                if let (Some(all), Some(members)) = (data.as_object_mut(), value.as_object()) {
                    all.extend(members.clone());
                }
            }
            data
        };
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let mut events = vec![
            event(json!({ "type": "response.created", "response": begun })),
            event(json!({ "type": "response.in_progress", "response": begun })),
            event(
                json!({ "type": "response.output_item.added", "output_index": 0, "item": self.item("", "in_progress") }),
            ),
            event(placed("response.content_part.added", json!({ "part": part("") }))),
        ];
        for piece in self.parts() {
            events
                .push(event(placed("response.output_text.delta", json!({ "delta": piece, "logprobs": [] }))));
        }
        events.push(event(placed("response.output_text.done", json!({ "text": text, "logprobs": [] }))));
        events.push(event(placed("response.content_part.done", json!({ "part": part(&text) }))));
        let item = self.item(&text, "completed");
        events.push(event(json!({ "type": "response.output_item.done", "output_index": 0, "item": item })));
        events.push(event(json!({ "type": "response.completed", "response": self.response("completed") })));
        events
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::json;
    use scrollback_core::stream::{Assembler, Reply};

    #[test]
    fn every_form_is_read_as_a_whole_reply() {
        let said = [Entry::text(Role::System, "Be brief."), Entry::text(Role::User, "Grüße, and good day!")];
        for wire in [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini] {
            let echo = Echo { wire, model: "m", id: "1", at: 0, said: &said };
            let whole = echo.pieces(ReplyShape::Whole).concat();
            let reply = Reply::from_body(wire, json::check_bytes(&whole).unwrap());
            let mut assembler = Assembler::new(wire).unwrap();
            for piece in echo.pieces(ReplyShape::Events) {
                assembler.feed(&piece);
            }
            for reply in [reply, assembler.finish()] {
                assert_eq!(reply.problem, None, "{wire}");
                assert_eq!(reply.meta.status, scrollback_core::Status::Complete, "{wire}");
                assert_eq!(
                    reply.entry().unwrap().content().as_deref(),
                    Some("Grüße, and good day!"),
                    "{wire}"
                );
                assert!(reply.meta.usage.unwrap().output.unwrap() > 0, "{wire}");
            }
        }
    }
}
