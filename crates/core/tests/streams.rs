//! Streams of every wire, from `corpus/stream`: each `NAME.sse` gives the reply in `NAME.json`, however it is cut
//! into chunks, and never a complete one if it breaks off early.
//!
//! A new case is a new file: write the `.sse`, run with `UPDATE_CORPUS=1`, and read the `.json` it leaves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use scrollback_core::stream::{Assembler, Delta, Reply, StopReason, StreamLimits};
use scrollback_core::wire::Wire;
use scrollback_core::{Status, json};
use serde_json::Value;
use serde_json::value::RawValue;

struct Fixture {
    name: String,
    wire: Wire,
    stream: Vec<u8>,
    expected: PathBuf,
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/stream");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "sse"));
    paths.sort();
    assert!(paths.len() > 30, "the corpus was found");
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let wire = match name.split('-').next() {
                Some("chat") => Wire::OpenaiChat,
                Some("responses") => Wire::OpenaiResponses,
                Some("anthropic") => Wire::Anthropic,
                Some("gemini") => Wire::Gemini,
                _ => panic!("{name} begins with no wire"),
            };
            let stream = std::fs::read(&path).unwrap();
            Fixture { name, wire, stream, expected: path.with_extension("json") }
        })
        .collect()
}

fn assembled<'a>(wire: Wire, chunks: impl IntoIterator<Item = &'a [u8]>) -> Reply {
    let mut assembler = Assembler::new(wire).unwrap();
    for chunk in chunks {
        assembler.feed(chunk);
    }
    assembler.finish()
}

/// A reply as its file shows it: one member a line, the message in its exact bytes.
fn shown(reply: &Reply) -> String {
    let raw = reply.raw.as_deref().unwrap_or("null");
    let mut lines = vec![
        format!("\"status\": {}", serde_json::to_string(&reply.meta.status).unwrap()),
        format!("\"raw\": {raw}"),
        format!("\"meta\": {}", serde_json::to_string(&reply.meta).unwrap()),
    ];
    if let Some(problem) = &reply.problem {
        lines.push(format!("\"problem\": {}", serde_json::to_string(problem).unwrap()));
    }
    if !reply.notes.is_empty() {
        lines.push(format!("\"notes\": {}", serde_json::to_string(&reply.notes).unwrap()));
    }
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[test]
fn every_stream_gives_its_reply() {
    for Fixture { name, wire, stream, expected } in fixtures() {
        let shown = shown(&assembled(wire, [stream.as_slice()]));
        if std::env::var("UPDATE_CORPUS").is_ok() {
            std::fs::write(&expected, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(shown, expected, "{name}");
        assert!(serde_json::from_str::<&RawValue>(&shown).is_ok(), "{name}");
    }
}

#[test]
fn chunks_do_not_matter() {
    let mut numbers = Numbers(7);
    for Fixture { name, wire, stream, .. } in fixtures() {
        let whole = assembled(wire, [stream.as_slice()]);
        assert_eq!(assembled(wire, stream.chunks(1)), whole, "{name} byte by byte");
        for cut in 0..=stream.len() {
            let (head, tail) = stream.split_at(cut);
            assert_eq!(assembled(wire, [head, tail]), whole, "{name} cut at {cut}");
        }
        for round in 0..20 {
            let mut rest = stream.as_slice();
            let mut chunks = Vec::new();
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(1 + numbers.below(rest.len().min(200)));
                chunks.push(chunk);
                rest = after;
            }
            assert_eq!(assembled(wire, chunks), whole, "{name} in random chunks, round {round}");
        }
    }
}

/// Whether the end of a reply stands in a stream, found without the code under test: every line is an event here.
fn has_end(wire: Wire, stream: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stream);
    text.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data: ")).any(|data| {
        let event: Value = serde_json::from_str(data).unwrap_or_default();
        match wire {
            Wire::OpenaiChat => data == "[DONE]" || event["choices"][0]["finish_reason"].is_string(),
            Wire::OpenaiResponses => {
                ["response.completed", "response.incomplete"].contains(&event["type"].as_str().unwrap_or(""))
            }
            Wire::Anthropic => event["type"] == "message_stop",
            _ => {
                event["candidates"][0]["finishReason"].is_string()
                    || event["promptFeedback"]["blockReason"].is_string()
            }
        }
    })
}

#[test]
fn a_stream_without_its_end_is_never_complete() {
    for Fixture { name, wire, stream, .. } in fixtures() {
        let (mut complete, mut broken) = (0, 0);
        for cut in 0..=stream.len() {
            let head = &stream[..cut];
            let reply = assembled(wire, [head]);
            let whole = reply.meta.status == Status::Complete;
            assert!(!whole || has_end(wire, head), "{name} cut at {cut} is {:?}", reply.meta);
            assert!(reply.raw.as_deref().is_none_or(|raw| json::check(raw).is_ok()), "{name} cut at {cut}");
            if !whole {
                let mut assembler = Assembler::new(wire).unwrap();
                assembler.feed(head);
                assert_ne!(assembler.so_far().meta.status, Status::Complete, "{name} cut at {cut}");
                let status = assembler.finish_cancelled().meta.status;
                assert!(matches!(status, Status::TruncatedClient | Status::Error), "{name} cut at {cut}");
            }
            if whole { complete += 1 } else { broken += 1 }
        }
        assert!(
            broken > 0 && (complete > 0) == (assembled(wire, [&*stream]).meta.status == Status::Complete)
        );
    }
}

#[test]
fn replies_are_entries_whose_cut_calls_wait_for_nobody() {
    for Fixture { name, wire, stream, .. } in fixtures() {
        let reply = assembled(wire, [stream.as_slice()]);
        if reply.raw.is_none() {
            continue;
        }
        let entry = reply.entry().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(entry.meta.as_deref(), Some(&reply.meta), "{name}");
        assert_eq!(Some(entry.origin.raw.as_ref()), reply.raw.as_deref(), "{name}");
        assert_eq!(entry.role, scrollback_core::Role::Assistant, "{name}");
        if name.contains("truncated") && name.contains("tool") {
            let whole = entry.tool_calls().filter(|call| json::check(&call.arguments.as_str()).is_ok());
            assert_eq!(entry.open_calls().count(), whole.count(), "{name}");
        }
        if name == "chat-truncated" {
            let open: Vec<_> = entry.open_calls().filter_map(|call| call.call_id.clone()).collect();
            assert_eq!(open.len(), 1, "the cut call is not waited for");
            assert_eq!(open[0], *"call_1");
        }
    }
}

#[test]
fn bodies_give_the_message_in_its_own_bytes() {
    let cases = [
        (
            Wire::OpenaiChat,
            r#"{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-5.4","choices":[{"index":0,"message":{"role": "assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
            r#"{"role": "assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null}"#,
            "tool_calls",
        ),
        (
            Wire::OpenaiResponses,
            r#"{"id":"resp_1","status":"completed","error":null,"model":"gpt-5.6","output":[ {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}],"usage":{"input_tokens":9,"output_tokens":3}}"#,
            r#"[ {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]"#,
            "tool_calls",
        ),
        (
            Wire::Anthropic,
            r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text", "text":"\u00e9"}],"stop_reason":"max_tokens","usage":{"input_tokens":9,"output_tokens":3}}"#,
            r#"{"role":"assistant","content":[{"type":"text", "text":"\u00e9"}]}"#,
            "length",
        ),
        (
            Wire::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}}"#,
            r#"{"parts":[{"text":"a"},{"text":"b"}],"role":"model"}"#,
            "stop",
        ),
        (
            Wire::Gemini,
            r#"[{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}]},{"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}}]"#,
            r#"{"role":"model","parts":[{"text":"ab"}]}"#,
            "stop",
        ),
        (
            Wire::Bedrock,
            r#"{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":9,"outputTokens":3}}"#,
            r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]}"#,
            "tool_calls",
        ),
    ];
    for (wire, body, raw, stop) in cases {
        let reply = Reply::from_body(wire, json::check(body).unwrap());
        assert_eq!(reply.raw.as_deref(), Some(raw));
        assert_eq!(
            (reply.meta.status, reply.meta.stop.as_ref().map(StopReason::as_str), reply.problem.clone()),
            (Status::Complete, Some(stop), None)
        );
        let usage = reply.meta.usage.unwrap();
        assert_eq!((usage.input(), usage.output), (Some(9), Some(3)), "{wire}");
    }
}

#[test]
fn bodies_that_are_errors_say_which() {
    let cases = [
        (
            Wire::OpenaiChat,
            r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            "invalid_request_error",
            Some(401),
        ),
        (
            Wire::OpenaiChat,
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            "BadRequestError",
            Some(400),
        ),
        (Wire::OpenaiChat, r#"{"id":"x","choices":[]}"#, "no_reply", None),
        (
            Wire::OpenaiResponses,
            r#"{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}"#,
            "server_error",
            Some(500),
        ),
        (
            Wire::Anthropic,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
            "rate_limit_error",
            Some(429),
        ),
        (
            Wire::Gemini,
            r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}"#,
            "RESOURCE_EXHAUSTED",
            Some(429),
        ),
        (
            Wire::Gemini,
            r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
            "INVALID_ARGUMENT",
            Some(400),
        ),
        (Wire::Bedrock, r#"{"message":"Too many requests"}"#, "error", None),
        (Wire::Scrollback, "[]", "no_reply", None),
    ];
    for (wire, body, kind, status) in cases {
        let reply = Reply::from_body(wire, json::check(body).unwrap());
        let problem = reply.problem.unwrap_or_else(|| panic!("{body} is an error"));
        assert_eq!((problem.kind.as_str(), problem.status), (kind, status), "{body}");
        assert_eq!((reply.raw, reply.meta.status), (None, Status::Error), "{body}");
    }
    let unfinished = r#"{"id":"resp_1","status":"in_progress","error":null,"output":[]}"#;
    let reply = Reply::from_body(Wire::OpenaiResponses, json::check(unfinished).unwrap());
    assert_eq!((reply.meta.status, reply.problem), (Status::TruncatedUpstream, None));
}

#[test]
fn what_is_too_large_or_not_utf8_is_reported_and_left_out() {
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let stream = format!("{}{}{}data: [DONE]\n\n", chunk("a"), chunk(&"b".repeat(500)), chunk("c"));
    let limits = StreamLimits { event_bytes: 300, ..StreamLimits::default() };
    let mut assembler = Assembler::with_limits(Wire::OpenaiChat, limits).unwrap();
    assembler.feed(stream.as_bytes());
    let reply = assembler.finish();
    assert_eq!(reply.raw.as_deref(), Some(r#"{"role":"assistant","content":"ac"}"#));
    assert_eq!(reply.meta.status, Status::TruncatedUpstream);
    assert_eq!(reply.problem.unwrap().kind, "malformed_stream");

    let limits = StreamLimits { stream_bytes: chunk("a").len() + 10, ..StreamLimits::default() };
    let mut assembler = Assembler::with_limits(Wire::OpenaiChat, limits).unwrap();
    assembler.feed(stream.as_bytes());
    let reply = assembler.finish();
    assert_eq!(reply.raw.as_deref(), Some(r#"{"role":"assistant","content":"a"}"#));
    assert!(reply.problem.unwrap().message.contains("larger than the limit"));

    let mut bytes = format!("{}data: [DONE]\n\n", chunk("a?")).into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    let reply = assembled(Wire::OpenaiChat, [&*bytes]);
    assert_eq!((reply.raw, reply.meta.status), (None, Status::TruncatedUpstream));
    assert!(reply.problem.unwrap().message.contains("UTF-8"));
}

#[test]
fn wires_without_an_event_stream_have_no_assembler() {
    for wire in Wire::ALL {
        let has_stream = !matches!(wire, Wire::Bedrock | Wire::Scrollback);
        assert_eq!(Assembler::new(wire).is_ok(), has_stream, "{wire}");
    }
}

/// Deltas into one text, one call's arguments and one message part: half the stream takes half the work, so a piece is
/// added without copying what came before. The bound is loose; copying would miss it by orders of magnitude.
#[test]
fn long_streams_cost_their_length() {
    let events = [
        (
            Wire::OpenaiChat,
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \",\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"[1],\"}}]}}]}\n\n",
        ),
        (
            Wire::Anthropic,
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n",
        ),
        (Wire::Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"word \"}]}}]}\n\n"),
        (
            Wire::OpenaiResponses,
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"word \"}\n\n",
        ),
    ];
    let begun = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[]}}\n\n";
    for (wire, event) in events {
        let mut assembler = Assembler::new(wire).unwrap();
        assembler.feed(begun.as_bytes());
        for _ in 0..200_000 {
            assembler.feed(event.as_bytes());
        }
        assert!(assembler.finish().raw.unwrap().len() > 1_000_000, "{wire}");
    }
}

#[test]
fn mutated_streams_never_panic() {
    let fixtures = fixtures();
    let mut numbers = Numbers(2026);
    for _ in 0..5_000 {
        let fixture = &fixtures[numbers.below(fixtures.len())];
        let mut stream = fixture.stream.clone();
        for _ in 0..=numbers.below(4) {
            mutate(&mut stream, &fixtures, &mut numbers);
        }
        let wire = if numbers.below(10) == 0 { Wire::ALL[numbers.below(4)] } else { fixture.wire };
        let reply = assembled(wire, [&*stream]);
        let raw = reply.raw.as_deref().unwrap_or("null");
        assert!(json::check(raw).is_ok(), "{raw}");
        let cut = numbers.below(stream.len() + 1);
        assert_eq!(assembled(wire, [&stream[..cut], &stream[cut..]]), reply, "the same in two chunks");
        let _ = reply.entry();
        if let Ok(body) = json::check_bytes(&stream[cut..]) {
            let _ = Reply::from_body(wire, body);
        }
    }
}

fn mutate(stream: &mut Vec<u8>, fixtures: &[Fixture], numbers: &mut Numbers) {
    const TOKENS: [&str; 14] = [
        "null",
        "{}",
        "[]",
        "\"\"",
        "\n\n",
        "\r",
        "data: ",
        "data: [DONE]\n\n",
        "\\ud800",
        "1e99",
        "\u{feff}",
        "\"index\":9,",
        "\"type\":\"error\",",
        "{\"text\":",
    ];
    let at = numbers.below(stream.len() + 1);
    let end = at + numbers.below((stream.len() - at).min(40) + 1);
    match numbers.below(6) {
        0 => drop(stream.drain(at..end)),
        1 => drop(stream.splice(at..end, TOKENS[numbers.below(TOKENS.len())].bytes())),
        2 => drop(stream.splice(at..at, stream[at..end].to_vec())),
        3 => stream.truncate(at),
        4 => {
            let other = &fixtures[numbers.below(fixtures.len())].stream;
            drop(stream.splice(at..end, other[numbers.below(other.len())..].iter().copied()));
        }
        _ => {
            if let Some(byte) = stream.get_mut(at) {
                *byte = numbers.next() as u8;
            }
        }
    }
}

/// The same numbers on every machine (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// What a watcher saw of a reply: its text, and each call with its arguments.
fn watched(wire: Wire, stream: &[u8]) -> (String, Vec<(String, String)>) {
    let mut assembler = Assembler::new(wire).unwrap();
    let (mut text, mut calls) = (String::new(), Vec::<(u64, String, String)>::new());
    for chunk in stream.chunks(7) {
        assembler.watch(chunk, |delta| match delta {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::CallStarted { index, name, .. } => calls.push((index, name, String::new())),
            Delta::CallArguments { index, text } => {
                // Calls that the provider runs do not begin for us.
                if let Some(call) = calls.iter_mut().rfind(|call| call.0 == index) {
                    call.2.push_str(&text);
                }
            }
            Delta::Reasoning(_) | Delta::Usage(_) => {}
        });
    }
    (text, calls.into_iter().map(|(_, name, arguments)| (name, arguments)).collect())
}

#[test]
fn whoever_watches_sees_the_text_and_the_calls_of_the_reply() {
    let mut seen = 0;
    for fixture in fixtures() {
        let reply = assembled(fixture.wire, [fixture.stream.as_slice()]);
        let Ok(entry) = reply.entry() else { continue };
        // Without indexes there is no way to tell whose arguments come.
        if reply.meta.status != Status::Complete || fixture.name.ends_with("without-places") {
            continue;
        }
        let (text, calls) = watched(fixture.wire, &fixture.stream);
        let whole: String = entry.texts().map(|text| text.as_str().into_owned()).collect();
        let names: Vec<String> = entry
            .tool_calls()
            .filter(|call| call.style.is_client())
            .map(|call| call.name.as_str().into_owned())
            .collect();
        // Some replies come as one event, which cannot be watched growing.
        if !text.is_empty() {
            assert_eq!(text, whole, "{}", fixture.name);
        }
        if !calls.is_empty() {
            assert_eq!(
                calls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
                names,
                "{}",
                fixture.name
            );
            for (call, (_, arguments)) in entry.tool_calls().zip(&calls) {
                let said = call.arguments.as_str();
                assert!(arguments.is_empty() || *said == *arguments, "{}: {arguments}", fixture.name);
            }
        }
        seen += usize::from(!text.is_empty() || !calls.is_empty());
    }
    assert!(seen > 15, "only {seen} replies could be watched");
}
