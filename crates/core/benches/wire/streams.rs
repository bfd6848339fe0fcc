//! Replies put together from the events a provider streams.

use scrollback_core::Status;
use scrollback_core::stream::{Assembler, Reply};
use scrollback_core::wire::Wire;
use serde_json::{Value, json};

use crate::table::{self, megabytes, note, rate, time};
use crate::{Fallible, measure, plain, session};

const BYTES: usize = 1_000_000;
/// What arrives at once, more or less.
const CHUNK: usize = 1_400;
/// Letters in one event: a token or two.
const PIECE: usize = 8;

/// One reply of a megabyte of events, on every wire that streams them.
pub(crate) fn assembling() -> Fallible<()> {
    let mut rows = Vec::new();
    for (wire, stream) in [
        (Wire::Anthropic, stream(anthropic)),
        (Wire::OpenaiChat, stream(openai_chat)),
        (Wire::OpenaiResponses, stream(openai_responses)),
        (Wire::Gemini, stream(gemini)),
    ] {
        let reply = assemble(wire, &stream)?;
        if reply.meta.status != Status::Complete {
            return Err(format!("the stream of {wire} has no end").into());
        }
        let events = stream.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"data:")).count();
        let taken = measure::quickest(|| assemble(wire, &stream));
        let plain = (wire == Wire::Anthropic).then(|| measure::quickest(|| plain::streamed_text(&stream)));
        rows.push(vec![
            wire.to_string(),
            megabytes(stream.len()),
            format!("{:.0} MB/s", rate(stream.len(), taken)),
            time(taken / u32::try_from(events)?),
            plain.map(|plain| format!("{:.0} MB/s", rate(stream.len(), plain))).unwrap_or_default(),
        ]);
    }
    table::print(
        "Putting a streamed reply together",
        &["wire", "events", "speed", "one event", "serde_json, its text only"],
        &rows,
    );
    note(&format!("{PIECE} letters an event, arriving in chunks of {CHUNK} bytes."));
    Ok(())
}

fn assemble(wire: Wire, stream: &[u8]) -> Fallible<Reply> {
    let mut assembler = Assembler::new(wire)?;
    for chunk in stream.chunks(CHUNK) {
        assembler.feed(chunk);
    }
    Ok(assembler.finish())
}

/// The events of a reply: those before its text, those of its text, those after.
type Events = fn(&str) -> (Vec<Value>, Value, Vec<Value>);

/// A stream of about [`BYTES`] bytes.
fn stream(events: Events) -> Vec<u8> {
    let text: Vec<char> = session::talk(|messages| messages.len() > 300).concat().chars().collect();
    let mut stream = String::new();
    let put = |event: &Value, stream: &mut String| {
        if let Some(name) = event["type"].as_str() {
            stream.extend(["event: ", name, "\n"]);
        }
        stream.extend(["data: ", &event.to_string(), "\n\n"]);
    };
    let (before, _, after) = events("");
    for event in &before {
        put(event, &mut stream);
    }
    for piece in text.chunks(PIECE).cycle() {
        if stream.len() >= BYTES {
            break;
        }
        let piece: String = piece.iter().collect();
        put(&events(&piece).1, &mut stream);
    }
    for event in &after {
        put(event, &mut stream);
    }
    stream.into_bytes()
}

fn anthropic(piece: &str) -> (Vec<Value>, Value, Vec<Value>) {
    let usage = json!({ "input_tokens": 25, "output_tokens": 1 });
    (
        vec![
            json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
                "model": "claude-fable-5-1", "content": [], "stop_reason": null, "usage": usage } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        ],
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } }),
        vec![
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
            json!({ "type": "message_stop" }),
        ],
    )
}

fn openai_chat(piece: &str) -> (Vec<Value>, Value, Vec<Value>) {
    let chunk = |delta: Value, reason: Value| {
        json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_794_700_800, "model": "gpt-4o",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
    };
    (
        vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)],
        chunk(json!({ "content": piece }), Value::Null),
        vec![chunk(json!({}), "stop".into())],
    )
}

fn openai_responses(piece: &str) -> (Vec<Value>, Value, Vec<Value>) {
    let item = |status: &str, content: Value| json!({ "id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content });
    let text = json!([{ "type": "output_text", "text": "", "annotations": [] }]);
    (
        vec![
            json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([])) }),
            json!({ "type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "part": text[0] }),
        ],
        json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
            "delta": piece }),
        vec![
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item("completed", text) }),
            json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed" } }),
        ],
    )
}

fn gemini(piece: &str) -> (Vec<Value>, Value, Vec<Value>) {
    let chunk = |part: Value, reason: Value| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        if !reason.is_null() {
            candidate["finishReason"] = reason;
        }
        json!({ "candidates": [candidate], "modelVersion": "gemini-3-pro", "responseId": "r1" })
    };
    (vec![], chunk(json!({ "text": piece }), Value::Null), vec![chunk(json!({ "text": "." }), "STOP".into())])
}
