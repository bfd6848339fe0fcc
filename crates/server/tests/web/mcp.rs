//! The recall tools over HTTP: both eras of the protocol, the keys and tenants of the REST API.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_server::KeyScope;
use scrollback_store::Sqlite;
use serde_json::{Value, json};

use crate::support::{ADDRESS, Answer, Server, coded, exchange};

/// One message of the protocol, with headers of its own.
async fn send(server: &Server, key: Option<&str>, headers: &[(&str, &str)], message: &Value) -> Answer {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri("/mcp")
        .header(header::HOST, ADDRESS)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(Body::from(message.to_string())).unwrap()).await
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

fn text(answer: &Answer) -> String {
    let answer = answer.json();
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
}

const OLD: [(&str, &str); 1] = [("mcp-protocol-version", "2025-06-18")];

#[tokio::test]
async fn a_client_of_2025_finds_and_reads_what_was_said() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let begun = send(&server, None, &[], &hello).await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
    assert_eq!(begun.json()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(begun.json()["result"]["serverInfo"]["name"], "scrollback");
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} });
    let listed = send(&server, None, &OLD, &list).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["search", "read", "around", "outline"]);
    for tool in &tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    }
    let within = [OLD[0], ("x-scrollback-session", id.as_str())];
    let found = text(&send(&server, None, &within, &call("search", &json!({ "query": "sunny" }))).await);
    assert!(found.contains("in this session (7 entries)") && found.contains("result of weather"), "{found}");
    let handle = found.split_whitespace().find(|word| word.starts_with("sb:") && word.contains('#')).unwrap();
    let read = text(&send(&server, None, &OLD, &call("read", &json!({ "handle": handle }))).await);
    assert!(read.contains("18 degrees and sunny"), "{read}");
    // A caller who names no session is told so, and how to go on.
    let unknown = send(&server, None, &OLD, &call("search", &json!({ "query": "sunny" }))).await;
    assert_eq!(unknown.json()["result"]["isError"], true);
    assert!(text(&unknown).contains("scope=project or scope=all"), "{}", text(&unknown));
    // The same place by REST, and as a link of the lens.
    let rest = server.get(&format!("/api/entries/{}", coded(handle))).await;
    assert_eq!((rest.status, &rest.json()["conversation"]), (StatusCode::OK, &Value::from(id.as_str())));
    assert_eq!(rest.json()["entries"].as_array().map(Vec::len), Some(1));
    let link = server.get(&format!("/lens/handles/{}", coded(handle))).await;
    assert!(link.location().starts_with(&format!("/lens/conversations/{id}?at=")), "{}", link.location());
}

#[tokio::test]
async fn a_client_of_2026_needs_no_handshake() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let ask = |method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    };
    let headers = |method: &'static str| [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    let found =
        send(&server, None, &headers("server/discover"), &ask("server/discover", json!({}))).await.json();
    let versions = found["result"]["supportedVersions"].to_string();
    assert!(versions.contains("2026-07-28") && versions.contains("2025-06-18"), "{found}");
    let params = json!({ "name": "search", "arguments": { "query": "sunny", "scope": "all" } });
    let named = [
        headers("tools/call")[0],
        headers("tools/call")[1],
        ("mcp-name", "search"),
        ("x-scrollback-session", id.as_str()),
    ];
    let answer = send(&server, None, &named, &ask("tools/call", params)).await;
    assert!(text(&answer).contains("hits in all sessions"), "{}", answer.text);
}

#[tokio::test]
async fn mcp_takes_keys_that_may_read_and_never_shows_another_tenant() {
    let server = Server::new();
    let ours = server.with_key("ours", KeyScope::Admin).await;
    let id = ours.talk(exchange()).await;
    let theirs = ours.with_key("theirs", KeyScope::Read).await;
    let proxy = ours.with_key("ours", KeyScope::Proxy).await;
    let search = call("search", &json!({ "query": "sunny", "scope": "all" }));
    let within = [OLD[0], ("x-scrollback-session", id.as_str())];
    // Each is a server of its own that knows all keys made so far.
    let refused = send(&proxy, Some(proxy.key()), &within, &search).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert_eq!(send(&proxy, None, &within, &search).await.status, StatusCode::UNAUTHORIZED);
    let found = text(&send(&proxy, Some(ours.key()), &within, &search).await);
    assert!(found.contains("18 degrees"), "{found}");
    let handle = found.split_whitespace().find(|word| word.starts_with("sb:") && word.contains('#')).unwrap();
    for asked in [
        search.clone(),
        call("read", &json!({ "handle": handle })),
        call("outline", &json!({ "handle": handle })),
    ] {
        let answer = send(&proxy, Some(theirs.key()), &within, &asked).await;
        assert!(!answer.text.contains("18 degrees") && !answer.text.contains("Paris"), "{}", answer.text);
    }
    let rest = theirs.get(&format!("/api/entries/{}", coded(handle))).await;
    assert_eq!(
        (rest.status, &rest.json()["type"]),
        (StatusCode::NOT_FOUND, &Value::from("urn:scrollback:problem:no_such_handle"))
    );
}

#[tokio::test]
async fn huge_queries_and_a_store_that_goes_away_are_answered_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, scrollback_core::Time(0)).unwrap();
    let server = Server::on(Arc::new(store), ServerSettings::default());
    server.talk(exchange()).await;
    let huge = send(&server, None, &OLD, &call("search", &json!({ "query": "x".repeat(1_000_000) }))).await;
    assert_eq!(huge.json()["result"]["isError"], true);
    assert!(text(&huge).contains("give a few words") && huge.text.len() < 1_000, "{}", text(&huge));
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("drop table entries_fts; alter table conversations rename to gone").unwrap();
    drop(raw);
    let away = send(&server, None, &OLD, &call("search", &json!({ "query": "sunny", "scope": "all" }))).await;
    assert_eq!(away.json()["result"]["isError"], true, "{}", away.text);
    assert!(text(&away).contains("the record cannot be read now"), "{}", text(&away));
}
