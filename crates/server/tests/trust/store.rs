//! What the server says about its store is true.

use std::sync::Arc;

use axum::http::StatusCode;
use scrollback_agent::config::ServerSettings;
use scrollback_core::Time;
use scrollback_store::{ErrorKind, Faults, Memory, Sqlite};
use serde_json::json;

use crate::provider::{catalog, completion, saying, whole};
use crate::support::Server;

#[tokio::test]
async fn being_ready_means_that_a_write_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.db");
    let store = Arc::new(Sqlite::open(&path, Time(0)).unwrap());
    let server = Server::on(store, ServerSettings::default());
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let other = rusqlite::Connection::open(&path).unwrap();
    let sql = "select value from meta where key = 'heartbeat'";
    let beat: String = other.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(Time::parse(&beat).is_some(), "{beat}");
    // Another process holds the file: it can be read, and not written.
    other.execute_batch("begin immediate").unwrap();
    let fresh = Server::on(Arc::clone(&server.app.store), ServerSettings::default());
    let answer = fresh.get("/readyz").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert_eq!(answer.json()["type"], "urn:scrollback:problem:not_ready");
    other.execute_batch("rollback").unwrap();
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn nothing_is_asked_of_a_provider_that_is_not_durable() {
    let (base, received) = saying(|_| whole(&completion("ok"))).await;
    let store = Arc::new(Memory::new());
    let server = Server::with(Arc::clone(&store) as _, ServerSettings::default(), catalog(&base));
    let chat =
        |content: &str| json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": content }] });
    let responses = json!({ "model": "gpt-5", "input": "x" });
    // A commit whose sync failed can be read back, and is not durable for all that.
    for fault in [ErrorKind::Unknown, ErrorKind::Io, ErrorKind::Full] {
        store.fail(Faults { writes: Some(fault), ..Faults::default() });
        for (path, body) in [("/v1/chat/completions", chat("x")), ("/v1/responses", responses.clone())] {
            for _ in 0..3 {
                let answer = server.post(path, body.clone()).await;
                assert_eq!(
                    answer.status,
                    StatusCode::SERVICE_UNAVAILABLE,
                    "{fault:?} {path}: {}",
                    answer.text
                );
            }
        }
        assert_eq!(received.lock().await.len(), 0, "{fault:?}: the provider was asked");
    }
    store.fail(Faults::default());
    assert_eq!(server.post("/v1/chat/completions", chat("again")).await.status, StatusCode::OK);
    assert_eq!(received.lock().await.len(), 1);
}
