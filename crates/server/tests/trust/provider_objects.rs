//! What tenants keep at a provider under the operator's key.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use scrollback_agent::config::ServerSettings;
use scrollback_agent::provider::Catalog;
use scrollback_server::KeyScope;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::support::Server;

type Received = Arc<Mutex<Vec<String>>>;

/// A provider that answers everything, and what it was asked.
async fn provider() -> (String, Received) {
    let received = Received::default();
    let seen = Arc::clone(&received);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answer(stream, &seen).await;
        }
    });
    (format!("http://{address}/v1"), received)
}

/// Reads one request, notes its first line, and answers it.
async fn answer(mut stream: TcpStream, seen: &Received) {
    let mut bytes = Vec::new();
    let head = loop {
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break String::from_utf8_lossy(&bytes).into_owned();
        }
    };
    let words: Vec<&str> = head.split(' ').take(2).collect();
    seen.lock().await.push(words.join(" "));
    let body = json!({
        "id": "resp_mine", "object": "response", "status": "completed", "model": "gpt-5", "output": [
            { "type": "message", "role": "assistant", "id": "m1", "status": "completed",
              "content": [{ "type": "output_text", "text": "ok", "annotations": [] }] }] })
    .to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_tenant_reaches_only_its_own_objects_under_the_operators_key() {
    let (base, received) = provider().await;
    let catalog = Catalog::new(BTreeMap::new(), BTreeMap::new()).with_environment(move |name| match name {
        "OPENAI_API_KEY" => Some("sk-operator-0123456789abcdef".into()),
        "OPENAI_BASE_URL" => Some(base.clone()),
        _ => None,
    });
    let plain = Server::new();
    let anna = plain.with_key("a", KeyScope::Proxy).await.key().to_string();
    let bert = plain.with_key("b", KeyScope::Proxy).await.key().to_string();
    let server = Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog);
    let (anna, bert) = (server.clone().holding(anna), server.holding(bert));
    let said = anna.post("/v1/responses", json!({ "model": "gpt-5", "input": "hi" })).await;
    assert_eq!(said.status, StatusCode::OK, "{}", said.text);
    received.lock().await.clear();
    for (method, path) in [
        (Method::GET, "/v1/responses/resp_mine"),
        (Method::DELETE, "/v1/responses/resp_mine"),
        (Method::GET, "/v1/responses/resp_mine/input_items"),
        (Method::POST, "/v1/responses/resp_mine/cancel"),
        (Method::GET, "/v1/responses"),
        (Method::GET, "/v1/files"),
        (Method::GET, "/v1/files/file-1/content"),
        (Method::GET, "/v1/batches"),
        (Method::POST, "/v1/conversations"),
        (Method::GET, "/v1/conversations/conv_1/items"),
        (Method::GET, "/v1/models/..%2ffiles"),
        (Method::POST, "/v1/embeddings/../files"),
    ] {
        let answer = bert.ask(method.clone(), path, None, "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}: {}", answer.text);
    }
    for named in [json!("conv_1"), json!({ "id": "conv_1" })] {
        let body = json!({ "model": "gpt-5", "input": "x", "conversation": named });
        assert_eq!(bert.post("/v1/responses", body).await.status, StatusCode::NOT_FOUND);
    }
    let body = json!({ "model": "gpt-5", "input": "x", "previous_response_id": "resp_mine" });
    assert_eq!(bert.post("/v1/responses", body).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(*received.lock().await, [""; 0], "the provider was asked nothing");
    let deleted = anna.ask(Method::DELETE, "/v1/responses/resp_mine", None, "").await;
    assert_eq!(deleted.status, StatusCode::OK, "its own: {}", deleted.text);
    assert_eq!(bert.post("/v1/embeddings", json!({ "input": "x" })).await.status, StatusCode::OK);
    assert_eq!(*received.lock().await, ["DELETE /v1/responses/resp_mine", "POST /v1/embeddings"]);
}
