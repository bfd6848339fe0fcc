//! What tenants keep at a provider under the operator's key.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use scrollback_agent::config::ServerSettings;
use scrollback_server::KeyScope;
use serde_json::{Value, json};

use crate::provider::{Received, catalog, saying, whole};
use crate::support::Server;

fn response() -> Value {
    json!({
        "id": "resp_mine", "object": "response", "status": "completed", "model": "gpt-5", "output": [
            { "type": "message", "role": "assistant", "id": "m1", "status": "completed",
              "content": [{ "type": "output_text", "text": "ok", "annotations": [] }] }] })
}

/// The methods and paths a provider was asked.
async fn asked(received: &Received) -> Vec<String> {
    let first = |request: &String| request.split(' ').take(2).collect::<Vec<_>>().join(" ");
    received.lock().await.iter().map(first).collect()
}

#[tokio::test]
async fn a_tenant_reaches_only_its_own_objects_under_the_operators_key() {
    let (base, received) = saying(|_| whole(&response())).await;
    let catalog = catalog(&base);
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
    assert_eq!(asked(&received).await, [""; 0], "the provider was asked nothing");
    let deleted = anna.ask(Method::DELETE, "/v1/responses/resp_mine", None, "").await;
    assert_eq!(deleted.status, StatusCode::OK, "its own: {}", deleted.text);
    assert_eq!(bert.post("/v1/embeddings", json!({ "input": "x" })).await.status, StatusCode::OK);
    assert_eq!(asked(&received).await, ["DELETE /v1/responses/resp_mine", "POST /v1/embeddings"]);
}
