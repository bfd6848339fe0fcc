//! A provider that does what a test says.

use std::collections::BTreeMap;
use std::sync::Arc;

use scrollback_agent::provider::Catalog;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// The operator's key.
pub(crate) const OPERATORS: &str = "sk-operator-0123456789abcdef";

/// Requests as they arrived: head and body.
pub(crate) type Received = Arc<Mutex<Vec<String>>>;

/// What a provider answers to the head and body of a request, as bytes on the connection, and whether it then falls silent.
type Says = dyn Fn(&str) -> (String, Then) + Send + Sync;

/// What follows an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The connection ends.
    End,
    /// Nothing, until the other side ends it.
    Wait,
}

/// A provider, and what it was asked.
pub(crate) async fn saying(
    says: impl Fn(&str) -> (String, Then) + Send + Sync + 'static,
) -> (String, Received) {
    let (received, says): (Received, Arc<Says>) = (Received::default(), Arc::new(says));
    let seen = Arc::clone(&received);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&seen), Arc::clone(&says)));
        }
    });
    (format!("http://{address}/v1"), received)
}

async fn answer(mut stream: TcpStream, seen: Received, says: Arc<Says>) {
    let mut bytes = Vec::new();
    let request = loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break String::from_utf8_lossy(&bytes).into_owned();
        }
    };
    seen.lock().await.push(request.clone());
    let (answer, then) = says(&request);
    let _ = stream.write_all(answer.as_bytes()).await;
    if then == Then::Wait {
        let _ = stream.read_buf(&mut bytes).await;
    }
}

/// A JSON answer.
pub(crate) fn whole(body: &Value) -> (String, Then) {
    spelled(&body.to_string())
}

/// A JSON answer in this very spelling.
pub(crate) fn spelled(body: &str) -> (String, Then) {
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    (format!("{head}content-length: {length}\r\n\r\n{body}"), Then::End)
}

/// Events, one for each text.
pub(crate) fn events(texts: &[&str], then: Then) -> (String, Then) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let event = |text: &&str| {
        let delta = json!({ "content": text });
        let chunk = json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
        format!("data: {chunk}\n\n")
    };
    let mut body = texts.iter().map(event).collect::<Vec<_>>().concat();
    if then == Then::End {
        let last = json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o",
            "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        body = format!("{body}data: {last}\n\ndata: [DONE]\n\n");
    }
    (format!("{head}{body}"), then)
}

/// A whole answer of a chat.
pub(crate) fn completion(text: &str) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 } })
}

/// Models of that provider, under the operator's key, whatever interface they are asked by.
pub(crate) fn catalog(base: &str) -> Catalog {
    let base = base.to_string();
    let root = base.trim_end_matches("/v1").to_string();
    Catalog::new(BTreeMap::new(), BTreeMap::new()).with_environment(move |name| match name {
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" | "GEMINI_API_KEY" => Some(OPERATORS.into()),
        "OPENAI_BASE_URL" => Some(base.clone()),
        "ANTHROPIC_BASE_URL" | "GOOGLE_GEMINI_BASE_URL" => Some(root.clone()),
        _ => None,
    })
}
