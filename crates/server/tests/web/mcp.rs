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

/// A key of a provider, as people paste them.
const SECRET: &str = concat!("sk", "-ant-", "api03-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T");

#[tokio::test]
async fn keys_that_may_read_find_and_see_no_secrets_and_no_search_tells_them() {
    let server = Server::new();
    let admin = server.with_key("ours", KeyScope::Admin).await;
    let id = admin
        .talk(json!([
            { "role": "user", "content": format!("deploy with {SECRET} please") },
            { "role": "assistant", "content": "", "tool_calls": [{ "id": "c1", "type": "function",
                "function": { "name": "deploy", "arguments": format!("{{\"path\":\"deploy.toml\",\"key\":\"{SECRET}\"}}") } }] },
            { "role": "tool", "tool_call_id": "c1", "content": format!("used {SECRET}\ndone") },
            { "role": "assistant", "content": format!("Shall I forget {SECRET}?") }
        ]))
        .await;
    let reader = admin.with_key("ours", KeyScope::Read).await;
    let within = [OLD[0], ("x-scrollback-session", id.as_str())];
    let ask = async |key: &Server, tool: &str, arguments: Value| {
        text(&send(&reader, Some(key.key()), &within, &call(tool, &arguments)).await)
    };
    let found = ask(&admin, "search", json!({ "query": "deploy" })).await;
    assert!(found.contains("api03"), "who administers sees everything: {found}");
    let handle = found.split_whitespace().find(|word| word.starts_with("sb:") && word.contains('#')).unwrap();
    let conversation = handle.split_once('#').unwrap().0;
    for (tool, arguments) in [
        ("search", json!({ "query": "deploy" })),
        ("search", json!({ "query": "/deploy with .*/" })),
        ("read", json!({ "handle": format!("{conversation}#0-3") })),
        ("read", json!({ "handle": format!("{conversation}#0-3"), "pattern": "/.*/" })),
        ("around", json!({ "handle": format!("{conversation}#1") })),
        ("outline", json!({})),
    ] {
        let shown = ask(&reader, tool, arguments.clone()).await;
        assert!(!shown.contains("api03") && !shown.contains("0a1B2c"), "{tool} {arguments}: {shown}");
        assert!(shown.contains("session sb:"), "{tool} {arguments} names the session: {shown}");
        assert!(ask(&admin, tool, arguments.clone()).await.contains("session sb:"), "{tool} {arguments}");
    }
    assert!(ask(&reader, "read", json!({ "handle": handle })).await.contains("[redacted:"));
    for (query, hits) in
        [("/sk-ant-api03-0a/", false), ("sk-ant-api03*", false), ("/forget \\[redacted/", true)]
    {
        let shown = ask(&reader, "search", json!({ "query": query })).await;
        assert_eq!(shown.starts_with("1 hit"), hits, "{query}: {shown}");
    }
    let all = ask(&admin, "search", json!({ "query": "/sk-ant-api03-0a/" })).await;
    assert!(!all.starts_with("0 hits"), "{all}");
    let refused = ask(&reader, "read", json!({ "handle": format!("{conversation}#99") })).await;
    assert!(refused.contains("session sb:"), "refusals name the session: {refused}");
}

#[tokio::test]
async fn a_tool_that_pins_is_offered_where_writing_is_allowed_and_to_keys_that_may_write() {
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} });
    let plain = Server::new();
    assert!(!send(&plain, None, &OLD, &list).await.text.contains("\"pin\""));
    let settings = ServerSettings { recall_writes: true, ..ServerSettings::default() };
    let server = Server::on(Arc::new(scrollback_store::Memory::new()), settings);
    let admin = server.with_key("ours", KeyScope::Admin).await;
    let id = admin.talk(exchange()).await;
    let reader = admin.with_key("ours", KeyScope::Read).await;
    assert!(!send(&reader, Some(reader.key()), &OLD, &list).await.text.contains("\"pin\""));
    let listed = send(&reader, Some(admin.key()), &OLD, &list).await.json();
    let pin = &listed["result"]["tools"][4];
    assert_eq!(
        (pin["name"].as_str(), pin["annotations"]["readOnlyHint"].as_bool()),
        (Some("pin"), Some(false))
    );
    let tail = id.to_lowercase();
    let handle = format!("sb:{}#3", &tail[tail.len() - 10..]);
    let asked = call("pin", &json!({ "handle": handle }));
    let refused = send(&reader, Some(reader.key()), &OLD, &asked).await;
    assert!(
        refused.json()["error"]["message"].as_str().unwrap_or_default().contains("unknown tool"),
        "{}",
        refused.text
    );
    let done = text(&send(&reader, Some(admin.key()), &OLD, &asked).await);
    assert_eq!(done, format!("{handle}: 2 entries pinned"));
    // The call and its result are pinned together; REST shows the decision, and takes it back by the same handle.
    let path = format!("/api/conversations/{id}/decisions");
    let decided = admin.get(&path).await.json();
    assert_eq!(decided["decisions"][0]["decision"]["positions"], json!([2, 3]), "{decided}");
    let back = admin.post(&path, json!({ "decision": "unpin", "handle": handle })).await;
    assert_eq!(back.status, StatusCode::CREATED, "{}", back.text);
    assert_eq!(admin.get(&path).await.json()["decisions"][1]["decision"]["decision"], "unpin");
    let elsewhere = admin.post(&path, json!({ "decision": "pin", "handle": "sb:0000000000#1" })).await;
    assert_eq!(elsewhere.status, StatusCode::BAD_REQUEST, "{}", elsewhere.text);
    let none = text(
        &send(&reader, Some(admin.key()), &OLD, &call("pin", &json!({ "handle": "sb:0000000000#1" }))).await,
    );
    assert!(none.contains("no such handle"), "{none}");
}
