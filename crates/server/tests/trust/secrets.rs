//! Secrets: who sees them, and where they are kept.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use scrollback_agent::config::ServerSettings;
use scrollback_server::KeyScope;
use serde_json::json;

use crate::provider::{OPERATORS, catalog, completion, events, saying, spelled, whole};
use crate::support::{Server, coded};

fn secret() -> String {
    format!("sk-ant-api03-{}", "aB3dE5fG7h".repeat(9))
}

/// A server with one conversation that holds a secret in every kind of text, and a key of each scope.
async fn server() -> (Server, Server, String) {
    let plain = Server::new();
    let admin = plain.with_key("acme", KeyScope::Admin).await;
    let secret = secret();
    // The secret is cut by every snippet: it stands before and behind the word that is looked for.
    let text = format!("{} lighthouse {secret} {}", "word ".repeat(12), "more ".repeat(60));
    let id = admin
        .talk(json!([
            { "role": "user", "content": text },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c1", "type": "function",
              "function": { "name": "look", "arguments": json!({ "token": secret }).to_string() } }] },
            { "role": "tool", "tool_call_id": "c1", "content": format!("lighthouse {secret}") },
        ]))
        .await;
    let read = admin.with_key("acme", KeyScope::Read).await;
    (admin, read, id)
}

#[tokio::test]
async fn secrets_are_hidden_from_those_who_may_not_reveal_them() {
    let (_, read, id) = server().await;
    let call = json!({ "managers": ["passthrough"] });
    let mut answers = Vec::new();
    for path in [
        "/api/search?q=lighthouse".to_string(),
        "/lens/search?q=lighthouse".into(),
        format!("/lens/conversations/{id}"),
        format!("/api/conversations/{id}/entries"),
        format!("/api/export?conversation={id}"),
        format!("/api/export?conversation={id}&format=openai-chat"),
    ] {
        answers.push((path.clone(), read.get(&path).await));
    }
    answers.push(("views".into(), read.post(&format!("/api/conversations/{id}/views"), call).await));
    for (path, answer) in answers {
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        // No part of it either: snippets are cut after they are redacted.
        for part in ["sk-ant", "aB3dE5fG7haB3d"] {
            assert!(!answer.text.contains(part), "{path}: {}", answer.text);
        }
        assert!(answer.text.contains("[redacted:"), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn no_search_tells_how_a_secret_begins() {
    let (admin, read, _) = server().await;
    for words in ["sk-ant-api03*", "\"sk ant\"", "api03", "aB3dE5fG7haB3d*"] {
        for path in ["/api/search", "/lens/search"] {
            let answer = read.get(&format!("{path}?q={}", coded(words))).await;
            assert!(!answer.text.contains("lighthouse"), "{path} {words}: {}", answer.text);
        }
    }
    let found = admin.get(&format!("/api/search?q={}", coded("sk-ant-api03*"))).await;
    assert!(found.text.contains("lighthouse"), "an administrator finds it: {}", found.text);
}

#[tokio::test]
async fn revealing_takes_an_administrator() {
    let (admin, read, id) = server().await;
    let path = format!("/api/conversations/{id}/entries?limit=2&reveal=1");
    assert_eq!(read.get(&path).await.status, StatusCode::FORBIDDEN);
    let shown = admin.get(&path).await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    assert!(shown.text.contains(&secret()));
    let page = read.get(&format!("/lens/conversations/{id}?reveal=1")).await;
    assert!(!page.text.contains("sk-ant"), "{}", page.text);
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_not_kept() {
    let theirs = "sk-theirs-0123456789abcdef";
    let escaped = OPERATORS.replacen('o', "\\u006f", 1);
    let echo = format!("your key is {OPERATORS}, and {theirs}");
    let (base, _) = saying(move |request| {
        if request.contains("\"stream\":true") {
            // Cut in two, so that no piece of the stream has all of it.
            let (first, second) = OPERATORS.split_at(9);
            return events(&["your key is ", first, second, "."], crate::provider::Then::End);
        }
        if request.contains("escaped") {
            return spelled(&completion("KEY").to_string().replace("KEY", &escaped));
        }
        let mut body = completion(&echo);
        body["model"] = json!(format!("gpt-4o-{OPERATORS}"));
        body["id"] = json!(OPERATORS);
        whole(&body)
    })
    .await;
    let plain = Server::new();
    let key = plain.with_key("acme", KeyScope::Admin).await.key().to_string();
    let server =
        Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog(&base)).holding(key);
    for (content, stream) in [("hello", false), ("hello again", true), ("escaped", false)] {
        let body = json!({ "model": "gpt-4o", "stream": stream, "messages": [{ "role": "user", "content": content }] });
        let request = axum::http::Request::builder()
            .method(Method::POST)
            .uri("/v1/chat/completions")
            .header("host", crate::support::ADDRESS)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", server.key()))
            .header("x-api-key", theirs)
            .body(axum::body::Body::from(body.to_string()))
            .unwrap();
        let answer = server.send(request).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    }
    let listed = server.get("/api/conversations?limit=10").await.json();
    let conversations = listed["conversations"].as_array().unwrap().clone();
    assert_eq!(conversations.len(), 3);
    for conversation in conversations {
        let id = conversation["id"].as_str().unwrap();
        let mut kept = server.get(&format!("/api/conversations/{id}/entries")).await.text;
        assert!(kept.contains("assistant"), "the reply is recorded: {kept}");
        for call in
            server.get(&format!("/api/conversations/{id}/calls")).await.json()["calls"].as_array().unwrap()
        {
            kept.push_str(&server.get(&format!("/api/calls/{}", call["id"].as_str().unwrap())).await.text);
        }
        for key in [OPERATORS, theirs, "perator-0123456789abcdef"] {
            assert!(!kept.contains(key), "{kept}");
        }
    }
}
