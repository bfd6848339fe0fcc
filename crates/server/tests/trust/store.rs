//! What the server says about its store is true.

use std::sync::Arc;

use axum::http::StatusCode;
use scrollback_agent::config::ServerSettings;
use scrollback_core::Time;
use scrollback_store::Sqlite;

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
