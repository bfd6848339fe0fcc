//! What a session cost and why: the list, the page of cost and cache, and sessions that are only known from a transcript.

use axum::http::StatusCode;
use scrollback_core::{Entry, Time};
use scrollback_store::{
    ConversationId, Expected, NewConversation, NewEntry, Recipient, RecordsExt, Sent, Store, Tenant,
    new_evaluation,
};
use serde_json::{Value, json};

use crate::support::Server;

async fn page(server: &Server, path: &str) -> String {
    let answer = server.get(path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.text
}

/// A call to Claude: what was sent, and what its provider reported.
pub(crate) fn call(id: &ConversationId, number: i64, body: &Value, read: u64, written: u64) -> Sent {
    let usage = json!({ "input": read + written + 10, "output": 100, "cache_read": read, "cache_write": written,
        "cost_usd": 0.25, "estimated": false });
    Sent {
        id: new_evaluation().to_string(),
        conversation: id.clone(),
        run: None,
        step: None,
        evaluation: None,
        upto: number as u64,
        managers: "[]".into(),
        wire: "anthropic".into(),
        model: "anthropic:claude-sonnet-4-5".into(),
        epoch: None,
        prefix_hash: None,
        request: Some(body.to_string().into_bytes()),
        response: None,
        status: "ok".into(),
        attempt: 1,
        usage: Some(usage.to_string()),
        started_at: Time(number * 60_000),
        ended_at: Some(Time(number * 60_000 + 2_000)),
        tokens: None,
        factor: None,
        holder: None,
    }
}

/// A session whose third call offered another tool, and whose fourth edited the first message.
pub(crate) async fn broken_session(store: &dyn Store) -> ConversationId {
    let (id, tenant) = (ConversationId::new(Time(60_000)), Tenant::default());
    let body = |tools: &[&str], first: &str, turns: usize| {
        let mut messages = vec![json!({ "role": "user", "content": first })];
        messages.extend((1..turns).map(
            |turn| json!({ "role": (["user", "assistant"][turn % 2]), "content": format!("turn {turn}") }),
        ));
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
        json!({ "model": "claude-sonnet-4-5", "system": "Be brief.", "tools": tools, "messages": messages })
    };
    let calls = [
        call(&id, 1, &body(&["Read"], "fix the bug", 1), 0, 20_000),
        call(&id, 2, &body(&["Read"], "fix the bug", 3), 20_000, 1_000),
        call(&id, 3, &body(&["Read", "<b>Bash</b>"], "fix the bug", 5), 0, 22_000),
        call(&id, 4, &body(&["Read", "<b>Bash</b>"], "fix the <i>bug", 7), 5_000, 18_000),
    ];
    let said =
        [Entry::user("fix the bug"), Entry::assistant("done"), Entry::user("more"), Entry::assistant("ok")];
    let said = NewEntry::evaluation(said, Time(60_000));
    let written = store.write(&tenant, Time(60_000), |tx| {
        tx.create(NewConversation { title: Some("Fix the bug".into()), ..NewConversation::new(id.clone()) });
        tx.append(&id, Expected::At(0), said);
        for call in calls {
            tx.sent(call);
        }
    });
    written.await.unwrap();
    id
}

#[tokio::test]
async fn every_break_of_the_prefix_has_its_byte_its_cause_and_its_price() {
    let server = Server::new();
    let id = broken_session(server.app.store.as_ref()).await;
    let shown = page(&server, &format!("/lens/sessions/{id}/cache")).await;
    for part in [
        "What it cost, and why",
        "$1.00",
        "The tool list changed: added &lt;b&gt;Bash&lt;/b&gt;.",
        "The client edited message 0.",
        "The first byte that differs is byte",
        // 21,000 tokens written again at 3.75 in place of 0.30 dollars per million, and 17,000.
        "$0.0725 more",
        "$0.0587 more",
        "21,000 of 21,000",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("<b>Bash") && !shown.contains("<i>bug"));
    assert_eq!(shown.matches("class=\"broke\"").count(), 3, "two bars and the legend");
    // The list leads there, and to the call.
    let list = page(&server, "/lens").await;
    assert!(list.contains(&format!("/lens/sessions/{id}/cache")) && list.contains("$1.00"), "{list}");
    assert_eq!(
        server.get(&format!("/lens/sessions/{id}")).await.location(),
        format!("/lens/conversations/{id}")
    );
}

/// A transcript of Claude Code with a sub-agent.
fn transcript() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/transcript/claude-code/sidechains.jsonl");
    std::fs::read_to_string(path).unwrap()
}

/// The transcript, imported as a person would; the id of its session.
pub(crate) async fn imported(server: &Server) -> String {
    let taken = server.form("/lens/import", &[("text", &transcript())]).await;
    assert!(taken.text.contains("found"), "{}", taken.text);
    let sessions = server.get("/api/sessions").await.json();
    let all = sessions["sessions"].as_array().unwrap();
    let found = all.iter().find(|session| session["total"].as_u64() > Some(1));
    found.unwrap_or_else(|| panic!("{sessions}"))["id"].as_str().unwrap().to_string()
}

#[tokio::test]
async fn an_imported_session_has_the_calls_that_its_transcript_reports() {
    let server = Server::new();
    let id = imported(&server).await;
    let list = page(&server, "/lens").await;
    assert!(list.contains("imported") && list.contains("sub-agent"), "{list}");
    let cache = page(&server, &format!("/lens/sessions/{id}/cache")).await;
    assert!(cache.contains("Tokens are those that the transcript reports"), "{cache}");
    let conversation = page(&server, &format!("/lens/conversations/{id}")).await;
    assert!(
        conversation.contains("Call ") && conversation.contains("Conversations of this session"),
        "{conversation}"
    );
    // Each call has an address.
    let at = conversation.find("/lens/calls/reported-").unwrap();
    let call: String = conversation[at..].chars().take_while(|letter| *letter != '"').collect();
    assert!(page(&server, &call).await.contains("known from an imported transcript"));
    assert_eq!(server.get("/lens/calls/reported-nonsense-1").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn sessions_are_filtered_sorted_and_added_up() {
    let server = Server::new();
    let store = server.app.store.as_ref();
    broken_session(store).await;
    server.talk(json!([{ "role": "user", "content": "a talk without calls" }])).await;
    let list = page(&server, "/lens?sort=cost").await;
    let place = |text: &str| list.find(text).unwrap_or_else(|| panic!("{text}: {list}"));
    assert!(place("Fix the bug") < place("a talk without calls"));
    let turned = page(&server, "/lens?sort=-cost").await;
    assert!(turned.find("a talk without calls") < turned.find("Fix the bug"));
    assert!(turned.contains("aria-sort=\"ascending\""));
    let found = page(&server, "/lens?q=WITHOUT").await;
    assert!(found.contains("a talk without calls") && !found.contains("Fix the bug"));
    let found = page(&server, "/lens?model=sonnet").await;
    assert!(found.contains("Fix the bug") && !found.contains("a talk without calls"));
    assert!(page(&server, "/lens?errors=1").await.contains("No session matches."));
    assert!(list.contains("Cost by day (UTC)") && list.contains("1970-01-01: $1.00"));
    assert_eq!(server.get("/lens?status=nonsense").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn people_have_their_last_words_and_can_be_erased() {
    let server = Server::new();
    let ann = Recipient::parse("ann@example.org").unwrap();
    let said = [Entry::user("when do you open?"), Entry::assistant("At nine.")];
    let written = server.app.store.write(&Tenant::default(), Time(1_000), |tx| {
        tx.append_for(&ann, Expected::Any, NewEntry::evaluation(said, Time(1_000)));
    });
    written.await.unwrap();
    let list = page(&server, "/lens/people").await;
    // Secrets are hidden here as everywhere; an address is one.
    assert!(list.contains("At nine.") && list.contains("due"), "{list}");
    let shown = page(&server, "/lens/people/ann%40example.org").await;
    assert!(
        shown.contains("when do you open?") && shown.contains("/api/recipients/ann%40example.org/export")
    );
    let erase = "/lens/people/ann%40example.org/erase";
    assert_eq!(server.form(erase, &[("reason", "asked")]).await.status, StatusCode::BAD_REQUEST);
    let dry = server.form(erase, &[("dry", "1")]).await;
    assert!(dry.text.contains("2 entries in 1 conversation"), "{}", dry.text);
    assert!(page(&server, "/lens/people").await.contains("At nine."), "a dry run erases nothing");
    let done = server.form(erase, &[("sure", "erase"), ("reason", "asked")]).await;
    assert!(done.text.contains("2 entries in 1 conversation"), "{}", done.text);
    assert!(!page(&server, "/lens/people").await.contains("At nine."));
    assert_eq!(server.get("/lens/people/nobody").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn keys_and_health_are_shown_to_who_may() {
    let server = Server::new();
    assert!(page(&server, "/lens/keys").await.contains("There are no keys"));
    server
        .talk(json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "hello" }]))
        .await;
    assert!(page(&server, "/lens/health").await.contains("Not since this server started"));
    assert!(page(&server, "/lens/health/sizes").await.contains("Search index"));
    let verified = server.form("/lens/health/verify", &[]).await;
    assert!(
        verified.text.contains("whole") && verified.text.contains("2 entries in 1 conversation"),
        "{}",
        verified.text
    );
    let reader = server.with_key("default", scrollback_server::KeyScope::Read).await;
    assert_eq!(reader.get("/lens/keys").await.status, StatusCode::FORBIDDEN);
    assert_eq!(reader.form("/lens/health/verify", &[]).await.status, StatusCode::FORBIDDEN);
    let admin = server.with_key("default", scrollback_server::KeyScope::Admin).await;
    let keys = page(&admin, "/lens/keys").await;
    assert!(keys.contains("read") && keys.contains("not counted") && !keys.contains("sb_"), "{keys}");
}

#[tokio::test]
async fn candidates_are_proposed_and_say_what_would_have_been_lost() {
    let server = Server::new();
    let loaded = server.form("/lens/sample", &[]).await;
    let id = loaded.location().rsplit('/').next().unwrap().to_string();
    let shown = page(&server, &format!("/lens/simulate?conversation={id}")).await;
    for part in [
        "value=\"passthrough\"",
        "value=\"auto(",
        "Cost against retention",
        "What would have been lost",
        "Largest call",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    let lost =
        page(&server, &format!("/lens/simulate?conversation={id}&m=sliding_window(4)&m=passthrough")).await;
    assert!(
        lost.contains("Left out by") && lost.contains("class=\"handle\"") && lost.contains("sb:"),
        "{lost}"
    );
    let whole = page(&server, &format!("/lens/simulate?conversation={id}&whole=1&m=passthrough")).await;
    assert!(whole.contains("1 conversation"));
}
