//! Callers of one tenant: each goes on with its own conversations only.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_core::{Slot, Time};
use scrollback_server::{KeyScope, keys};
use scrollback_store::{Listing, Memory, Store, Tenant};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::provider::{Then, catalog, saying, whole};
use crate::support::{ADDRESS, Answer, Server};

/// Every reply has an id of its own: that of the first is 1.
fn answer(request: &str, number: usize) -> Value {
    if request.starts_with("POST /v1/messages") {
        return json!({ "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-opus-4-8",
            "content": [{ "type": "text", "text": "ok" }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 1, "output_tokens": 1 } });
    }
    json!({ "id": format!("resp_{number}"), "object": "response", "status": "completed", "model": "gpt-5", "output": [
        { "type": "message", "role": "assistant", "id": "m1", "status": "completed",
          "content": [{ "type": "output_text", "text": "ok", "annotations": [] }] }] })
}

/// A provider that counts its replies.
fn counted() -> impl Fn(&str) -> (String, Then) + Send + Sync + 'static {
    let replies = AtomicUsize::new(0);
    move |request| whole(&answer(request, replies.fetch_add(1, Ordering::SeqCst) + 1))
}

/// Headers of a request, and its path and body.
type Headers<'h> = &'h [(&'h str, &'h str)];
type Asked = (&'static str, Value);
/// What is tried: how the first person asks, how the second one goes on, and with what they are refused.
type Case<'h> = (&'static str, Headers<'h>, Asked, Headers<'h>, Asked, Option<StatusCode>);

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
async fn what_another_caller_was_answered_is_never_joined_and_stays_the_providers_to_judge() {
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
    let cases: [Case<'_>; 5] = [
        ("a response", &[], responses(json!({})), &[], previous(), None),
        ("a response in a session", &anna_session, responses(json!({})), &[], previous(), None),
        (
            "a response to another recipient",
            &named,
            responses(json!({})),
            &bert,
            previous(),
            Some(StatusCode::BAD_REQUEST),
        ),
        (
            "a conversation",
            &[],
            responses(json!({ "conversation": "conv_1" })),
            &[],
            responses(json!({ "conversation": "conv_1" })),
            None,
        ),
        (
            "a thread",
            &[],
            thread(json!({ "type": "create" })),
            &[],
            thread(json!({ "type": "continue", "previous_message_id": "msg_1" })),
            None,
        ),
    ];
    for (what, first_headers, (path, first), headers, (_, next), refused) in cases {
        let (base, received) = saying(counted()).await;
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let server = Server::with(Arc::clone(&store), ServerSettings::default(), catalog(&base));
        let said = ask(&server, "anna", first_headers, path, &first).await;
        assert_eq!(said.status, StatusCode::OK, "{what}: {}", said.text);
        let before = recorded(&*store).await;
        assert_eq!(before, ["mine|ok"], "{what}");
        let other = ask(&server, "bert", headers, path, &next).await;
        assert_eq!(other.status, refused.unwrap_or(StatusCode::OK), "{what}: {}", other.text);
        let mut after = before.clone();
        // The caller's own credential goes to the provider, which knows whose it is; here it is a conversation of its own.
        after.extend(refused.is_none().then(|| "mine|ok".to_string()));
        assert_eq!(recorded(&*store).await, after, "{what}: nothing is joined");
        assert_eq!(received.lock().await.len(), after.len(), "{what}: a refused request asks no provider");
        let own = ask(&server, "anna", first_headers, path, &next).await;
        assert_eq!(own.status, StatusCode::OK, "{what}, its own: {}", own.text);
        after[0] = "mine|ok|mine|ok".into();
        after.sort();
        assert_eq!(recorded(&*store).await, after, "{what}: it goes on");
    }
}

#[tokio::test]
async fn under_the_operators_key_a_caller_goes_on_from_nothing_that_another_was_answered() {
    let (base, received) = saying(counted()).await;
    let plain = Server::new();
    let tenant = Tenant::parse("shared").unwrap();
    let mut shown = Vec::new();
    for name in ["one", "two"] {
        let (kept, text) = keys::new(name, &tenant, KeyScope::Proxy, Time(0)).unwrap();
        plain.app.store.put_key(kept).await.unwrap();
        shown.push(text);
    }
    let server = Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog(&base));
    let [one, two] = [0, 1].map(|at| server.clone().holding(shown[at].clone()));
    let begun = one.post("/v1/responses", json!({ "model": "gpt-5", "input": "mine" })).await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
    let next = json!({ "model": "gpt-5", "input": "mine", "previous_response_id": "resp_1" });
    let stolen = two.post("/v1/responses", next.clone()).await;
    assert_eq!(stolen.status, StatusCode::BAD_REQUEST, "{}", stolen.text);
    assert_eq!(received.lock().await.len(), 1, "the provider was not asked");
    let own = one.post("/v1/responses", next).await;
    assert_eq!(own.status, StatusCode::OK, "{}", own.text);
}

#[tokio::test]
async fn tokens_of_no_other_tenants_thread_are_counted() {
    let (base, received) = saying(counted()).await;
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
