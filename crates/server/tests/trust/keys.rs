//! Keys: who is let in, and who is not any more.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_server::{KeyScope, router};
use scrollback_store::{Faults, Memory};
use serde_json::json;
use tower::ServiceExt;

use crate::support::{ADDRESS, Server};

/// The same store served by a process that was just started, asked without a key.
fn restarted(server: &Server) -> Server {
    Server::on(Arc::clone(&server.app.store), ServerSettings::default()).without_key()
}

async fn revoke_all(server: &Server) {
    for mut key in server.app.store.keys().await.unwrap() {
        key.revoked_at = Some(server.app.now());
        server.app.store.put_key(key).await.unwrap();
    }
}

#[tokio::test]
async fn revoking_the_last_key_never_opens_the_server() {
    let server = Server::new();
    assert_eq!(server.get("/api/conversations").await.status, StatusCode::OK, "no key was ever made");
    let keyed = server.with_key("acme", KeyScope::Admin).await;
    assert_eq!(keyed.get("/api/conversations").await.status, StatusCode::OK);
    revoke_all(&server).await;
    let anonymous = restarted(&server);
    for path in ["/api/conversations", "/api/server", "/metrics", "/v1/models"] {
        assert_eq!(anonymous.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let body = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(anonymous.post("/v1/chat/completions", body).await.status, StatusCode::UNAUTHORIZED);
    let revoked = anonymous.holding(keyed.key().to_string());
    assert_eq!(revoked.get("/api/conversations").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_forwarded_request_is_not_anonymous() {
    let server = Server::new();
    let ask = |name: &'static str| {
        Request::builder()
            .method(Method::GET)
            .uri("/api/conversations")
            .header(header::HOST, ADDRESS)
            .header(name, "203.0.113.9")
            .body(Body::empty())
            .unwrap()
    };
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip"] {
        let answer = server.send(ask(name)).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name}");
        assert_eq!(answer.json()["type"], "urn:scrollback:problem:forwarded");
    }
    let keyed = server.with_key("acme", KeyScope::Admin).await;
    let mut forwarded = ask("x-forwarded-for");
    forwarded.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {}", keyed.key()).parse().unwrap());
    assert_eq!(keyed.send(forwarded).await.status, StatusCode::OK, "a key says who calls");
}

#[tokio::test]
async fn a_revoked_key_hears_no_more_events() {
    let server = Server::new().with_key("acme", KeyScope::Read).await;
    let request = Request::builder()
        .uri("/api/events")
        .header(header::HOST, ADDRESS)
        .header(header::AUTHORIZATION, format!("Bearer {}", server.key()))
        .body(Body::empty())
        .unwrap();
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    revoke_all(&server).await;
    // The stream of a valid key has no end, so this returns only because the key was revoked.
    let heard = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(heard.starts_with(b"event: Listening"), "{heard:?}");
}

#[tokio::test]
async fn the_first_key_made_while_a_server_runs_opens_no_missing_wall() {
    let store = Arc::new(Memory::new());
    let superuser = Faults { missing_wall: Some("the role is a superuser".into()), ..Faults::default() };
    store.fail(superuser);
    let server = Server::on(Arc::clone(&store) as _, ServerSettings::default());
    assert_eq!(server.get("/api/conversations").await.status, StatusCode::OK, "there are no tenants yet");
    let keyed = server.with_key("acme", KeyScope::Admin).await;
    for path in ["/api/conversations", "/lens", "/v1/models"] {
        let answer = keyed.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.text);
        assert!(answer.text.contains("--allow-superuser"), "{path}: {}", answer.text);
    }
    keyed.app.serve_without_walls();
    assert_eq!(keyed.get("/api/conversations").await.status, StatusCode::OK, "the operator accepted it");
}
