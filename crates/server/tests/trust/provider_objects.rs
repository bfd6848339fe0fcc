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

/// What a provider answers at each interface: with objects that belong to whoever asked.
fn giving(request: &str) -> Value {
    if request.starts_with("POST /v1/messages") {
        return json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-8",
            "container": { "id": "container_mine", "expires_at": "2030-01-01T00:00:00Z" },
            "content": [{ "type": "text", "text": "ok" },
                { "type": "tool_use", "id": "toolu_1", "name": "f", "input": { "file_id": "file_said" } }],
            "stop_reason": "tool_use", "usage": { "input_tokens": 1, "output_tokens": 1 } });
    }
    if request.starts_with("POST /v1/chat/") {
        return crate::provider::completion("ok");
    }
    if request.starts_with("POST /v1beta/") {
        return json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "ok" }] }, "finishReason": "STOP" }] });
    }
    response()
}

#[tokio::test]
async fn a_body_names_no_object_of_another_tenant_under_the_operators_key() {
    let (base, received) = saying(|request| whole(&giving(request))).await;
    let plain = Server::new();
    let mut keys = Vec::new();
    for tenant in ["a", "b"] {
        keys.push(plain.with_key(tenant, KeyScope::Proxy).await.key().to_string());
    }
    let server = Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog(&base));
    let [anna, bert] = [0, 1].map(|at| server.clone().holding(keys[at].clone()));
    let responses = |input: Value, more: Value| {
        let mut body = json!({ "model": "gpt-5", "input": input });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1/responses", body)
    };
    let chat = |part: Value| {
        (
            "/v1/chat/completions",
            json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": [part] }] }),
        )
    };
    let messages = |part: Value, more: Value| {
        let mut body = json!({ "model": "claude-opus-4-8", "max_tokens": 9, "messages": [{ "role": "user", "content": [part] }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1/messages", body)
    };
    let text = json!({ "type": "text", "text": "x" });
    let gemini = |part: Value, more: Value| {
        let mut body = json!({ "contents": [{ "role": "user", "parts": [part] }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1beta/models/gemini-3-pro:generateContent", body)
    };
    let item = |id: &str| {
        responses(
            json!([{ "type": "item_reference", "id": id }, { "role": "user", "content": "x" }]),
            json!({}),
        )
    };
    let container = || messages(text.clone(), json!({ "container": "container_mine" }));
    // What anna was given in replies: an item, and a container.
    for (path, body) in [responses(json!("hi"), json!({})), messages(text.clone(), json!({}))] {
        let said = anna.post(path, body).await;
        assert_eq!(said.status, StatusCode::OK, "{}", said.text);
    }
    received.lock().await.clear();
    let file = json!({ "type": "document", "source": { "type": "file", "file_id": "file_said" } });
    let foreign = [
        item("m1"),
        responses(json!([{ "type": "reasoning", "id": "rs_1", "summary": [] }]), json!({})),
        responses(
            json!([{ "role": "user", "content": [{ "type": "input_file", "file_id": "file-1" }] }]),
            json!({}),
        ),
        responses(json!("x"), json!({ "tools": [{ "type": "file_search", "vector_store_ids": ["vs_1"] }] })),
        responses(json!("x"), json!({ "tools": [{ "type": "code_interpreter", "container": "cntr_1" }] })),
        responses(json!("x"), json!({ "prompt": { "id": "pmpt_1" } })),
        chat(json!({ "type": "file", "file": { "file_id": "file-1" } })),
        messages(file.clone(), json!({})),
        container(),
        gemini(json!({ "text": "x" }), json!({ "cachedContent": "cachedContents/1" })),
        gemini(
            json!({ "fileData": { "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1" } }),
            json!({}),
        ),
    ];
    for (path, body) in foreign {
        let answer = bert.post(path, body.clone()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{body}: {}", answer.text);
    }
    // A model that can be made to say an id has not given the file.
    let (path, body) = messages(file, json!({}));
    assert_eq!(anna.post(path, body).await.status, StatusCode::NOT_FOUND);
    // Tokens are counted of nothing else either.
    let (_, body) = container();
    assert_eq!(bert.post("/v1/messages/count_tokens", body).await.status, StatusCode::NOT_FOUND);
    assert_eq!(asked(&received).await, [""; 0], "the provider was asked nothing");
    for (path, body) in [
        item("m1"),
        container(),
        gemini(json!({ "fileData": { "fileUri": "https://www.youtube.com/watch?v=1" } }), json!({})),
    ] {
        let own = anna.post(path, body).await;
        assert_eq!(own.status, StatusCode::OK, "its own: {}", own.text);
    }
}

#[tokio::test]
async fn a_client_chooses_none_of_the_operators_accounts() {
    let (base, received) = saying(|request| whole(&giving(request))).await;
    let plain = Server::new();
    let anna = plain.with_key("a", KeyScope::Proxy).await.key().to_string();
    let server = Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog(&base));
    for path in ["/v1/responses", "/v1/embeddings"] {
        let request = axum::http::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", crate::support::ADDRESS)
            .header("authorization", format!("Bearer {anna}"))
            .header("openai-organization", "org-other")
            .header("openai-project", "proj_other")
            .body(axum::body::Body::from(json!({ "model": "gpt-5", "input": "x" }).to_string()))
            .unwrap();
        let answer = server.send(request).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    }
    let received = received.lock().await;
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| !request.contains("other")), "{received:?}");
}
