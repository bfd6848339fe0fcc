//! Searches end, and nothing waits behind them.

use std::sync::Arc;

use axum::http::StatusCode;
use scrollback_agent::config::ServerSettings;
use scrollback_core::{Entry, Time};
use scrollback_server::KeyScope;
use scrollback_store::{Expected, Filter, NewEntry, Query, Recipient, RecordsExt, Sqlite, Store, Tenant};
use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn nothing_waits_behind_searches_and_those_that_were_left_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&folder.path().join("record.db"), Time(0)).unwrap());
    let (tenant, anna) = (Tenant::parse("acme").unwrap(), Recipient::parse("anna").unwrap());
    let text = "lantern ".repeat(4_000);
    for _ in 0..10 {
        let said = NewEntry::evaluation((0..20).map(|_| Entry::user(&text)), Time(0));
        store.append_for(&tenant, Time(0), &anna, Expected::Any, said).await.unwrap();
    }
    let server = Server::on(Arc::clone(&store), ServerSettings::default());
    let keyed = server.with_key("acme", KeyScope::Admin).await;
    // Far more searches than there are threads for them, each of which reads every entry.
    let search = || store.search(&tenant, Query::parse("lantern"), Filter::default(), 1, None);
    let mut searches: Vec<_> = (0..40).map(|_| search()).collect();
    let body = json!({ "model": "offline:echo", "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(keyed.post("/v1/chat/completions", body).await.status, StatusCode::OK);
    assert_eq!(keyed.get("/api/conversations").await.status, StatusCode::OK);
    // The last in line is not done: what was answered above did not wait for it.
    let last = searches.pop().unwrap();
    let first = futures_ready(last).await;
    assert!(first.is_none(), "the searches took no time; the test needs more to search");
    // All of them are left. The next one is served although none of them was finished.
    drop(searches);
    assert_eq!(search().await.unwrap().hits.len(), 1);
}

/// The result of an answer if it is there already.
async fn futures_ready<T>(
    mut answer: scrollback_store::BoxFuture<'_, scrollback_store::StoreResult<T>>,
) -> Option<T> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match answer.as_mut().poll(cx) {
            std::task::Poll::Ready(result) => result.ok(),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
