//! What one client may take: time, memory and threads.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::{ServerLimits, ServerSettings};
use scrollback_server::KeyScope;
use scrollback_store::Memory;
use serde_json::json;

use crate::support::{ADDRESS, Server};

fn limited(limits: ServerLimits) -> Server {
    Server::on(std::sync::Arc::new(Memory::new()), ServerSettings { limits, ..ServerSettings::default() })
}

fn chat(content: &str) -> String {
    json!({ "model": "offline:echo", "messages": [{ "role": "user", "content": content }] }).to_string()
}

/// A body that sends some bytes and then falls silent.
struct Silent(Option<Bytes>);

impl http_body::Body for Silent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(bytes) => std::task::Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
            None => std::task::Poll::Pending,
        }
    }
}

#[tokio::test]
async fn an_unknown_caller_holds_almost_nothing() {
    let server = Server::new().with_key("acme", KeyScope::Admin).await.without_key();
    let body = format!("key={}", "x".repeat(9 << 10));
    let kind = Some("application/x-www-form-urlencoded");
    let answer = server.ask(Method::POST, "/lens/login", kind, body).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    // Other bodies are not read at all.
    for path in ["/v1/chat/completions", "/api/import", "/lens/import", "/v1/anything"] {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, ADDRESS)
            .body(Body::new(Silent(Some(Bytes::from_static(b"{")))))
            .unwrap();
        let status = server.send(request).await.status;
        assert!(matches!(status, StatusCode::UNAUTHORIZED | StatusCode::SEE_OTHER), "{path}: {status}");
    }
}

#[tokio::test]
async fn a_body_that_falls_silent_is_cut_off_however_quick_it_was_before() {
    let limits = ServerLimits { body_grace: Duration::from_millis(200), ..ServerLimits::default() };
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/chat/completions")
        .header(header::HOST, ADDRESS)
        // At a kilobyte a second, so much earns more than an hour of silence.
        .body(Body::new(Silent(Some(Bytes::from(vec![b' '; 4 << 20])))))
        .unwrap();
    assert_eq!(limited(limits).send(request).await.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn bodies_share_one_budget_of_memory() {
    let server = limited(ServerLimits { memory_bytes: 1 << 20, ..ServerLimits::default() });
    let answer = server.ask(Method::POST, "/v1/chat/completions", None, chat(&"x".repeat(400 << 10))).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert!(answer.headers.contains_key(header::RETRY_AFTER));
    assert!(answer.text.contains("memory"), "{}", answer.text);
    for _ in 0..20 {
        let answer =
            server.ask(Method::POST, "/v1/chat/completions", None, chat(&"x".repeat(50 << 10))).await;
        assert_eq!(answer.status, StatusCode::OK, "what was taken is given back: {}", answer.text);
    }
}

#[tokio::test]
async fn tokens_of_large_requests_are_estimated_and_said_to_be() {
    let server = Server::new();
    for (size, estimated) in [(1 << 10, false), (600 << 10, true)] {
        let answer =
            server.ask(Method::POST, "/v1/chat/completions", None, chat(&"ab ".repeat(size / 3))).await;
        let usage = answer.json()["usage"].clone();
        assert_eq!(usage["estimated"] == json!(true), estimated, "{usage}");
    }
}

#[tokio::test]
async fn an_export_takes_its_share_of_the_memory() {
    let server = limited(ServerLimits { memory_bytes: 1 << 20, ..ServerLimits::default() });
    for _ in 0..10 {
        server.talk(json!([{ "role": "user", "content": "word ".repeat(10 << 10) }])).await;
    }
    for path in ["/api/export?all=true", "/api/export?all=true&format=openai-chat"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {} bytes", answer.text.len());
    }
    let listed = server.get("/api/conversations?limit=1").await.json();
    let id = listed["conversations"][0]["id"].as_str().unwrap().to_string();
    for _ in 0..20 {
        let answer = server.get(&format!("/api/export?conversation={id}")).await;
        assert_eq!(answer.status, StatusCode::OK, "what was taken is given back: {}", answer.text);
    }
}
