//! Tenants take turns, and clocks that jump lock no key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use scrollback_agent::config::{ServerLimits, ServerSettings};
use scrollback_core::Time;
use scrollback_server::{KeyScope, keys};
use scrollback_store::{KeyLimits, KeyUse, Store, Tenant};
use serde_json::{Value, json};

use crate::provider::{catalog, completion, saying, whole};
use crate::support::Server;

fn chat(content: &str) -> Value {
    json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": content }] })
}

/// Waits until so many calls of a tenant are written down, which they are before they are asked.
async fn written(store: &dyn Store, tenant: &str, count: usize) {
    let tenant = Tenant::parse(tenant).unwrap();
    while store.recent_calls(&tenant, "openai:gpt-4o", 100).await.unwrap().len() < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tenant_that_floods_does_not_keep_others_from_their_provider() {
    let open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&open);
    let (base, received) = saying(move |_| {
        // The thread is given up meanwhile: it may be the one that watches connections and clocks for all others.
        tokio::task::block_in_place(|| {
            while !opened.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        whole(&completion("ok"))
    })
    .await;
    let plain = Server::new();
    let flood = plain.with_key("flood", KeyScope::Proxy).await.key().to_string();
    let quiet = plain.with_key("quiet", KeyScope::Proxy).await.key().to_string();
    // One request at a time, so that the order in which they are asked is the order of their turns.
    let limits = ServerLimits { upstream_requests: 1, ..ServerLimits::default() };
    let settings = ServerSettings { limits, ..ServerSettings::default() };
    let server = Server::with(Arc::clone(&plain.app.store), settings, catalog(&base));
    let (flood, quiet) = (server.clone().holding(flood), server.holding(quiet));
    let mut asked = Vec::new();
    for number in 0..20 {
        let flood = flood.clone();
        asked.push(tokio::spawn(async move {
            flood.post("/v1/chat/completions", chat(&format!("flood {number}"))).await
        }));
    }
    written(&*plain.app.store, "flood", 20).await;
    asked.push(tokio::spawn(async move { quiet.post("/v1/chat/completions", chat("quiet")).await }));
    written(&*plain.app.store, "quiet", 1).await;
    // The call of the quiet tenant has been written, and takes its place in the line right after.
    tokio::time::sleep(Duration::from_millis(50)).await;
    open.store(true, Ordering::SeqCst);
    for answer in asked {
        assert_eq!(answer.await.unwrap().status, StatusCode::OK);
    }
    let order = received.lock().await;
    let place = order.iter().position(|request| request.contains("\"quiet\"")).unwrap();
    assert!(place <= 2, "after {place} requests of the other tenant");
}

#[tokio::test]
async fn a_clock_that_jumped_ahead_locks_no_key() {
    let server = Server::new();
    let tenant = Tenant::parse("acme").unwrap();
    let (mut kept, shown) = keys::new("limited", &tenant, KeyScope::Proxy, Time(0)).unwrap();
    kept.limits = KeyLimits { requests_per_minute: Some(2), ..KeyLimits::default() };
    server.app.store.put_key(kept).await.unwrap();
    // A clock that was a year ahead has counted requests for then.
    let year = 365 * 24 * 3_600_000;
    let ahead = |window: &str| KeyUse {
        key: "limited".into(),
        window: window.into(),
        began: Time(server.app.now().0 + year),
        requests: 1_000,
        ..KeyUse::default()
    };
    server.app.store.charge(vec![ahead("minute"), ahead("day")]).await.unwrap();
    let server = Server::on(Arc::clone(&server.app.store), ServerSettings::default()).holding(shown);
    let body = json!({ "model": "offline:echo", "messages": [{ "role": "user", "content": "hi" }] });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(server.post("/v1/chat/completions", body.clone()).await.status);
    }
    assert_eq!(
        statuses,
        [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS],
        "the limit still holds"
    );
}

#[test]
fn the_name_of_all_tenants_is_no_tenants_name() {
    assert!(Tenant::parse("*").is_err());
    assert!(Tenant::parse("**").is_ok());
}
