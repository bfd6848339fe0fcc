//! A provider that does what a test says, and judges every request by the rules of its wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scrollback_core::json;
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use serde_json::Value;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn wire(&self) -> Option<Wire> {
        match self.path.split('?').next()? {
            "/v1/chat/completions" => Some(Wire::OpenaiChat),
            "/v1/responses" => Some(Wire::OpenaiResponses),
            "/v1/messages" => Some(Wire::Anthropic),
            path if path.ends_with("enerateContent") => Some(Wire::Gemini),
            _ => None,
        }
    }

    /// What its provider would refuse it for.
    fn broken_rules(&self) -> Vec<String> {
        let Some(wire) = self.wire() else { return Vec::new() };
        let body = json::check_bytes(&self.body).unwrap();
        let found = check(wire, body, CheckOptions::default());
        found.iter().filter(|one| one.is_fatal(Strictness::Lenient)).map(|one| format!("{one:?}")).collect()
    }
}

/// What a provider answers.
#[derive(Clone)]
pub(crate) enum Says {
    /// A status and a JSON body.
    Json(u16, String),
    /// Pieces of an event stream, and what follows the last.
    Events(Vec<Vec<u8>>, Then),
    /// Pieces of a JSON text, and what follows the last.
    Pieces(Vec<Vec<u8>>, Then),
    /// A status, and that what was asked for is at another place.
    Elsewhere(u16, String),
    /// Nothing, for ever.
    Nothing,
}

/// What follows the last piece of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The end.
    End,
    /// The connection breaks.
    Break,
    /// Nothing, until the client is gone.
    Wait,
}

/// A provider.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

/// What is said to each request, by its number and what it is.
type Saying = dyn Fn(usize, &Received) -> Says + Send + Sync;

struct State {
    received: Mutex<Vec<Received>>,
    broken: Mutex<Vec<String>>,
    /// Connections that were opened.
    connections: AtomicUsize,
    /// Clients that went away while they were answered.
    left: Mutex<usize>,
    says: Box<Saying>,
}

impl Upstream {
    /// A provider that answers each request by its number and what it is.
    pub(crate) fn start(says: impl Fn(usize, &Received) -> Says + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            received: Mutex::default(),
            broken: Mutex::default(),
            connections: AtomicUsize::new(0),
            left: Mutex::default(),
            says: Box::new(says),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                state.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Upstream { address, state }
    }

    /// A provider that always answers the same.
    pub(crate) fn saying(says: Says) -> Upstream {
        Upstream::start(move |_, _| says.clone())
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        let broken = self.state.broken.lock().unwrap();
        assert!(broken.is_empty(), "the provider would have refused: {broken:?}");
        self.state.received.lock().unwrap().clone()
    }

    /// The same, by a host with rules of its own.
    pub(crate) fn received_unjudged(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// How many connections were opened, whatever came over them.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// How many clients went away while they were answered.
    pub(crate) fn left(&self) -> usize {
        *self.state.left.lock().unwrap()
    }
}

fn serve(mut stream: TcpStream, state: &State) {
    stream.set_nodelay(true).unwrap();
    while let Some(received) = receive(&mut stream) {
        let number = {
            let mut all = state.received.lock().unwrap();
            all.push(received.clone());
            all.len() - 1
        };
        state.broken.lock().unwrap().extend(received.broken_rules());
        if !answer(&mut stream, (state.says)(number, &received), state) {
            return;
        }
    }
}

fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_string();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&buffer[..count]);
    }
    Some(Received { path, headers, body })
}

/// Answers; whether the connection can be used again.
fn answer(stream: &mut TcpStream, says: Says, state: &State) -> bool {
    match says {
        Says::Json(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\nx-request-id: req_1\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_ok()
        }
        Says::Elsewhere(status, place) => {
            let head =
                format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).is_ok()
        }
        Says::Nothing => {
            wait_for_the_end(stream);
            *state.left.lock().unwrap() += 1;
            false
        }
        Says::Events(pieces, then) => in_pieces(stream, "text/event-stream", pieces, then, state),
        Says::Pieces(pieces, then) => in_pieces(stream, "application/json", pieces, then, state),
    }
}

fn in_pieces(stream: &mut TcpStream, kind: &str, pieces: Vec<Vec<u8>>, then: Then, state: &State) -> bool {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    for piece in pieces {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        if stream.write_all(&chunk).is_err() {
            *state.left.lock().unwrap() += 1;
            return false;
        }
    }
    match then {
        Then::End => stream.write_all(b"0\r\n\r\n").is_ok(),
        Then::Break => false,
        Then::Wait => {
            wait_for_the_end(stream);
            *state.left.lock().unwrap() += 1;
            false
        }
    }
}

fn wait_for_the_end(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer), Ok(count) if count > 0) {}
}

/// A reply of Chat Completions.
pub(crate) fn completion(text: &str) -> Says {
    Says::Json(200, completion_body(text))
}

pub(crate) fn completion_body(text: &str) -> String {
    serde_json::json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    })
    .to_string()
}

/// A reply of Messages.
pub(crate) fn message(text: &str) -> Says {
    let body = serde_json::json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-8",
        "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    Says::Json(200, body.to_string())
}

/// A reply of Responses.
pub(crate) fn response(id: &str, text: &str) -> Says {
    let body = serde_json::json!({
        "id": id, "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5", "error": null,
        "output": [{ "id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] }],
        "usage": { "input_tokens": 10, "output_tokens": 5, "total_tokens": 15 },
    });
    Says::Json(200, body.to_string())
}

/// A stream of Chat Completions, as one text.
pub(crate) fn completion_stream(text: &str) -> String {
    let mut stream = String::new();
    let event = |delta: Value, reason: Value| {
        let choice = serde_json::json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        let chunk = serde_json::json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": choice });
        format!("data: {chunk}\n\n")
    };
    stream.push_str(&event(serde_json::json!({ "role": "assistant", "content": "" }), Value::Null));
    for word in text.split_inclusive(' ') {
        stream.push_str(&event(serde_json::json!({ "content": word }), Value::Null));
    }
    stream.push_str(&event(serde_json::json!({}), serde_json::json!("stop")));
    stream.push_str("data: [DONE]\n\n");
    stream
}
