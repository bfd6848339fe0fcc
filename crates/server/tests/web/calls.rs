//! The page of a call: the provider's cache, the bodies, the time to the first byte, other attempts; pictures that were said.

use axum::http::{StatusCode, header};
use scrollback_store::{ConversationId, RecordsExt, Sent, Store, Tenant};
use serde_json::{Value, json};

use crate::cost::{broken_session, call};
use crate::support::Server;

async fn page(server: &Server, path: &str) -> String {
    let answer = server.get(path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.text
}

/// The ids of the calls of a conversation, the oldest first.
async fn calls(server: &Server, id: &str) -> Vec<String> {
    let calls = server.get(&format!("/api/conversations/{id}/calls?limit=100")).await.json();
    let mut ids: Vec<String> =
        calls["calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap().into()).collect();
    ids.reverse();
    ids
}

#[tokio::test]
async fn a_call_says_how_far_the_cache_was_read_and_who_broke_it() {
    let server = Server::new();
    let id = broken_session(server.app.store.as_ref()).await;
    let ids = calls(&server, id.as_str()).await;
    let [first, second, _, fourth] = ids.as_slice() else { panic!("{ids:?}") };
    assert!(page(&server, &format!("/lens/calls/{first}")).await.contains("nothing was cached yet"));
    let kept = page(&server, &format!("/lens/calls/{second}")).await;
    assert!(kept.contains("The cache had what it should have had after"), "{kept}");
    // Almost all of the prompt was read, so that ends in its last message but one, or the last.
    assert!(
        kept.contains("The part that was read ends about at byte") && kept.contains("in message"),
        "{kept}"
    );
    let broken = page(&server, &format!("/lens/calls/{fourth}")).await;
    for part in [
        "the prefix broke",
        "The client edited message 0.",
        "The first byte that differs is byte",
        "17,000",
        "$0.0587 more",
        "Expected, after call 3",
    ] {
        assert!(broken.contains(part), "{part}: {broken}");
    }
    assert!(!broken.contains("<i>bug"));
}

#[tokio::test]
async fn a_body_can_be_searched_and_a_stream_is_shown_as_its_message() {
    let server = Server::new();
    let ask = json!({ "model": "gpt-4o", "stream": true, "messages": [{ "role": "user", "content": "a <b>needle</b> in hay" }] });
    let answered = server.post("/v1/chat/completions", ask).await;
    assert!(answered.text.starts_with("data:"), "{}", answered.text);
    let id = answered.headers["x-scrollback-call"].to_str().unwrap().to_string();
    let shown = page(&server, &format!("/lens/calls/{id}")).await;
    assert!(
        shown.contains("this is the message they add up to") && shown.contains("First byte after"),
        "{shown}"
    );
    let row = server.get(&format!("/api/calls/{id}")).await.json();
    assert!(row["usage"]["first_byte_ms"].is_u64(), "{row}");
    let found = page(&server, &format!("/lens/calls/{id}/request?find=NEEDLE")).await;
    assert!(found.contains("<mark>needle</mark>") && !found.contains("<b>needle"), "{found}");
    assert_eq!(server.get(&format!("/lens/calls/{id}/secret")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn attempts_at_one_request_lead_to_each_other() {
    let server = Server::new();
    let store: &dyn Store = server.app.store.as_ref();
    let id = ConversationId::parse(&server.talk(json!([{ "role": "user", "content": "hi" }])).await).unwrap();
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let failed = Sent { status: "rate_limit".into(), usage: None, ..call(&id, 1, &body, 0, 0) };
    let again = Sent { attempt: 2, started_at: scrollback_core::Time(70_000), ..call(&id, 1, &body, 0, 0) };
    let other = call(&id, 2, &body, 0, 0);
    let names = [failed.id.clone(), again.id.clone(), other.id.clone()];
    let written = store.write(&Tenant::default(), scrollback_core::Time(1), |tx| {
        tx.sent(failed).sent(again).sent(other);
    });
    written.await.unwrap();
    let shown = page(&server, &format!("/lens/calls/{}", names[1])).await;
    assert!(
        shown.contains("Attempts at this request")
            && shown.contains(&format!("<a href=\"/lens/calls/{}\">attempt 1</a>", names[0]))
            && shown.contains("<strong>attempt 2</strong>"),
        "{shown}"
    );
    assert!(!page(&server, &format!("/lens/calls/{}", names[2])).await.contains("Attempts at this request"));
}

#[tokio::test]
async fn pictures_are_drawn_from_the_record_and_nothing_else_is() {
    let server = Server::new();
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let picture = |url: String| json!({ "type": "image_url", "image_url": { "url": url } });
    let said: Value = json!([{ "role": "user", "content": [
        { "type": "text", "text": "What is this?" },
        picture(format!("data:image/png;base64,{png}")),
        picture("data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+".into()),
        picture("https://elsewhere.example/pixel.png".into()),
    ] }]);
    let id = server.talk(said).await;
    let shown = page(&server, &format!("/lens/conversations/{id}")).await;
    let place = format!("/lens/conversations/{id}/entries/0/media");
    assert!(
        shown.contains(&format!("<img src=\"{place}/0\"")) && shown.matches("<img").count() == 1,
        "{shown}"
    );
    let drawn = server.get(&format!("{place}/0")).await;
    assert_eq!((drawn.status, drawn.kind()), (StatusCode::OK, "image/png"));
    assert_eq!(drawn.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert!(drawn.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("sandbox"));
    for other in ["1", "2", "3"] {
        assert_eq!(server.get(&format!("{place}/{other}")).await.status, StatusCode::NOT_FOUND, "{other}");
    }
}
