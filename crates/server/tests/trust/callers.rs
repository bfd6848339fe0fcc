//! Callers of one tenant: each goes on with its own conversations only.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_core::Slot;
use scrollback_server::KeyScope;
use scrollback_store::{Listing, Memory, Store, Tenant};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::provider::{catalog, saying, whole};
use crate::support::{ADDRESS, Answer, Server};

fn answer(request: &str) -> Value {
    if request.starts_with("POST /v1/messages") {
        return json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-8",
            "content": [{ "type": "text", "text": "ok" }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 1, "output_tokens": 1 } });
    }
    json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": [
        { "type": "message", "role": "assistant", "id": "m1", "status": "completed",
          "content": [{ "type": "output_text", "text": "ok", "annotations": [] }] }] })
}

/// Headers of a request, and its path and body.
type Headers<'h> = &'h [(&'h str, &'h str)];
type Asked = (&'static str, Value);

/// Asks as a person behind a gateway: with a token of their own, and what else the gateway writes.
async fn ask(server: &Server, person: &str, more: &[(&str, &str)], path: &str, body: &Value) -> Answer {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, ADDRESS)
        .header(header::CONTENT_TYPE, "application/json")
        .header("anthropic-version", "2023-06-01")
        .header(header::AUTHORIZATION, format!("Bearer eyJ-{person}-0123456789abcdef"));
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    server.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The texts that stand in the conversations of the store.
async fn recorded(store: &dyn Store) -> Vec<String> {
    let tenant = Tenant::default();
    let page = store.list(Some(&tenant), Listing { limit: 50, ..Listing::default() }).await.unwrap();
    let mut texts = Vec::new();
    for (conversation, _) in page.conversations {
        let record = store.record(&tenant, &conversation.id, None).await.unwrap();
        let said = record.slots().iter().filter_map(|slot| match slot {
            Slot::Message(entry) => entry.content(),
            _ => None,
        });
        texts.push(said.collect::<Vec<_>>().join("|"));
    }
    texts.sort();
    texts
}

#[tokio::test]
async fn a_caller_goes_on_from_nothing_that_another_was_answered() {
    let responses = |more: Value| {
        let mut body = json!({ "model": "gpt-5", "input": "mine", "user": "gateway" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1/responses", body)
    };
    let thread = |thread: Value| {
        let body = json!({ "model": "claude-opus-4-8", "max_tokens": 9, "metadata": { "user_id": "gateway" },
            "messages": [{ "role": "user", "content": "mine" }], "thread": thread });
        ("/v1/messages", body)
    };
    let anna_session = [("session-id", "s1"), ("thread-id", "s1")];
    let named = [("x-scrollback-conversation", "c1"), ("x-scrollback-recipient", "anna")];
    let bert = [("x-scrollback-recipient", "bert")];
    let previous = || responses(json!({ "previous_response_id": "resp_1" }));
    let cases: [(&str, Headers<'_>, Asked, Headers<'_>, Asked, StatusCode); 5] = [
        ("a response", &[], responses(json!({})), &[], previous(), StatusCode::BAD_REQUEST),
        (
            "a response in a session",
            &anna_session,
            responses(json!({})),
            &[],
            previous(),
            StatusCode::BAD_REQUEST,
        ),
        (
            "a response to another recipient",
            &named,
            responses(json!({})),
            &bert,
            previous(),
            StatusCode::BAD_REQUEST,
        ),
        (
            "a conversation",
            &[],
            responses(json!({ "conversation": "conv_1" })),
            &[],
            responses(json!({ "conversation": "conv_1" })),
            StatusCode::NOT_FOUND,
        ),
        (
            "a thread",
            &[],
            thread(json!({ "type": "create" })),
            &[],
            thread(json!({ "type": "continue", "previous_message_id": "msg_1" })),
            StatusCode::NOT_FOUND,
        ),
    ];
    for (what, first_headers, (path, first), headers, (_, next), refused) in cases {
        let (base, received) = saying(|request| whole(&answer(request))).await;
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let server = Server::with(Arc::clone(&store), ServerSettings::default(), catalog(&base));
        let said = ask(&server, "anna", first_headers, path, &first).await;
        assert_eq!(said.status, StatusCode::OK, "{what}: {}", said.text);
        let before = recorded(&*store).await;
        assert_eq!(before, ["mine|ok"], "{what}");
        for path in [path, "/v1/messages/count_tokens"] {
            if path.ends_with("count_tokens") && what != "a thread" {
                continue;
            }
            let stolen = ask(&server, "bert", headers, path, &next).await;
            assert_eq!(stolen.status, refused, "{what}: {}", stolen.text);
        }
        assert_eq!(recorded(&*store).await, before, "{what}: nothing was written");
        assert_eq!(received.lock().await.len(), 1, "{what}: the provider was not asked");
        let own = ask(&server, "anna", first_headers, path, &next).await;
        assert_eq!(own.status, StatusCode::OK, "{what}, its own: {}", own.text);
        assert_eq!(recorded(&*store).await, ["mine|ok|mine|ok"], "{what}: it goes on");
    }
}

#[tokio::test]
async fn tokens_of_no_other_tenants_thread_are_counted() {
    let (base, received) = saying(|request| whole(&answer(request))).await;
    let plain = Server::new();
    let [anna, bert] =
        [plain.with_key("a", KeyScope::Proxy).await, plain.with_key("b", KeyScope::Proxy).await];
    let server = Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog(&base));
    let body = |thread: Value| {
        json!({ "model": "claude-opus-4-8", "max_tokens": 9, "thread": thread,
            "messages": [{ "role": "user", "content": "x" }] })
    };
    let begun = server
        .clone()
        .holding(anna.key().into())
        .post("/v1/messages", body(json!({ "type": "create" })))
        .await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
    let on = body(json!({ "type": "continue", "previous_message_id": "msg_1" }));
    let counted = server.holding(bert.key().into()).post("/v1/messages/count_tokens", on).await;
    assert_eq!(counted.status, StatusCode::NOT_FOUND, "{}", counted.text);
    assert_eq!(received.lock().await.len(), 1, "the provider was not asked");
}
