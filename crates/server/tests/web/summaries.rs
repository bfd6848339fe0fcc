//! Summaries on request: written offline, or by a model that is named.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use scrollback_agent::config::ServerSettings;
use scrollback_agent::provider::Catalog;
use scrollback_core::Time;
use scrollback_server::{KeyScope, keys};
use scrollback_store::{Memory, Tenant};
use serde_json::{Value, json};

use crate::api::{Contract, concrete};
use crate::support::Server;

#[tokio::test]
async fn older_turns_are_summarised_on_request() {
    let server = Server::new();
    let turns: Vec<Value> = (0..6)
        .flat_map(|turn| {
            [
                json!({ "role": "user", "content": format!("question {turn}") }),
                json!({ "role": "assistant", "content": "yes" }),
            ]
        })
        .collect();
    let id = server.talk(json!(turns)).await;
    let path = format!("/api/conversations/{id}/decisions");
    let done = server.post(&path, json!({ "decision": "summarize", "keep": 2 })).await.json();
    assert_eq!(done["covers"], json!([0, 7]));
    assert!(done["summary"].as_str().unwrap().contains("question 0"));
    let again = server.post(&path, json!({ "decision": "summarize", "keep": 2 })).await.json();
    assert_eq!(again["reason"], "under_bound");
    let all = server.get(&path).await.json();
    assert_eq!(all["decisions"][0]["decision"]["decision"], "summary");
}

/// A provider that answers every request so; where it is, and what it was asked.
fn provider(status: &'static str, body: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
    let into = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while !is_whole(&request) {
                let count = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..count]);
            }
            let kind = if body.starts_with("data:") { "text/event-stream" } else { "application/json" };
            into.lock().unwrap().push(String::from_utf8(request).unwrap());
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
            stream
                .write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
                .unwrap();
        }
    });
    (address, asked)
}

/// Whether a request has as much of a body as it said.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lengths = head
        .lines()
        .filter_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    lengths.next().is_none_or(|length: usize| body.len() >= length)
}

/// A server whose models are at an address.
fn asking(provider: SocketAddr) -> Server {
    let variables = move |name: &str| match name {
        "OPENAI_BASE_URL" => Some(format!("http://{provider}/v1")),
        "OPENAI_API_KEY" => Some("sk-server".to_string()),
        _ => None,
    };
    let catalog = Catalog::new(BTreeMap::new(), BTreeMap::new()).with_environment(variables);
    Server::with(Arc::new(Memory::new()), ServerSettings::default(), catalog)
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_are_written_by_a_model_that_is_named() {
    let mut contract = Contract::new();
    let path = "/api/conversations/{id}/decisions";
    let turns: Vec<Value> = (0..6)
        .flat_map(|turn| {
            [
                json!({ "role": "user", "content": format!("question {turn}") }),
                json!({ "role": "assistant", "content": "yes" }),
            ]
        })
        .collect();
    let wish = json!({ "decision": "summarize", "keep": 2, "model": "openai:gpt-4o?api=chat" });
    let reply = "data: {\"id\":\"c\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Four questions, all answered yes.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (address, asked) = provider("200 OK", reply);
    let server = asking(address);
    let id = server.talk(json!(turns)).await;
    let done = server.post(&concrete(path, &id), wish.clone()).await;
    contract.check(path, "post", &done);
    assert_eq!(done.json()["summary"], "Four questions, all answered yes.", "{}", done.text);
    {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].contains("question 3") && !asked[0].contains("question 4"), "{}", asked[0]);
        assert!(asked[0].to_ascii_lowercase().contains("authorization: bearer sk-server"));
    }
    let decided = server.get(&concrete(path, &id)).await.json();
    assert_eq!(decided["decisions"][0]["decision"]["by"], "openai:gpt-4o", "{decided}");

    // A model that refuses, an unknown one, and a file of this machine.
    let (address, _) =
        provider("401 Unauthorized", r#"{"error":{"message":"no such key","type":"invalid_request_error"}}"#);
    let server = asking(address);
    let id = server.talk(json!(turns)).await;
    let failed = server.post(&concrete(path, &id), wish.clone()).await;
    assert_eq!(
        (failed.status, failed.json()["type"].as_str()),
        (StatusCode::BAD_GATEWAY, Some("urn:scrollback:problem:summary_failed"))
    );
    contract.check(path, "post", &failed);
    for model in ["nobody:x", "anthropic:claude-opus-4-8", "offline:script=/etc/passwd"] {
        let wish = json!({ "decision": "summarize", "keep": 2, "model": model });
        let refused = server.post(&concrete(path, &id), wish).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{model}: {}", refused.text);
        contract.check(path, "post", &refused);
    }
    // That it failed is recorded, and nothing else.
    let decided = server.get(&concrete(path, &id)).await.json();
    let kinds: Vec<&Value> =
        decided["decisions"].as_array().unwrap().iter().map(|one| &one["decision"]["decision"]).collect();
    assert_eq!(kinds, ["summary_failed"]);

    // A key that may ask only so much.
    let (mut kept, shown) = keys::new("little", &Tenant::default(), KeyScope::Admin, Time(0)).unwrap();
    kept.limits.requests_per_minute = Some(1);
    server.app.store.put_key(kept).await.unwrap();
    let server = Server::on(Arc::clone(&server.app.store), ServerSettings::default()).holding(shown);
    let wish = json!({ "decision": "summarize", "keep": 2, "model": "offline:echo" });
    let (first, second) = (
        server.post(&concrete(path, &id), wish.clone()).await,
        server.post(&concrete(path, &id), wish).await,
    );
    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::TOO_MANY_REQUESTS));
    contract.check(path, "post", &second);
}
