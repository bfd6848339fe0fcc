//! What is passed on without being understood is counted and limited like everything else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_agent::exchange::Prices;
use scrollback_agent::provider::{Catalog, ModelSettings};
use scrollback_core::Time;
use scrollback_server::{KeyScope, keys, router};
use scrollback_store::{KeyLimits, KeyUse, Store, Tenant};
use serde_json::json;
use tower::ServiceExt;

use crate::provider::{OPERATORS, Received, saying, whole};
use crate::support::{ADDRESS, Server};

const DAY: i64 = 24 * 3_600_000;

/// A server with a key of these limits, in front of a provider that says that each request took a million tokens; one of its
/// models has a price, of a dollar.
async fn limited(limits: KeyLimits) -> (Server, Received) {
    let answer = json!({ "object": "list", "data": [{ "embedding": [0.5] }], "usage": { "prompt_tokens": 1_000_000, "total_tokens": 1_000_000 } });
    let (base, received) = saying(move |_| whole(&answer)).await;
    let prices = Prices { input: Some(1.0), output: Some(1.0), ..Prices::default() };
    let settings = ModelSettings { prices, ..ModelSettings::default() };
    let models = BTreeMap::from([("openai:priced".to_string(), settings)]);
    let catalog = Catalog::new(models, BTreeMap::new()).with_environment(move |name| match name {
        "OPENAI_API_KEY" => Some(OPERATORS.into()),
        "OPENAI_BASE_URL" => Some(base.clone()),
        _ => None,
    });
    let plain = Server::new();
    let (mut kept, shown) =
        keys::new("limited", &Tenant::parse("acme").unwrap(), KeyScope::Proxy, Time(0)).unwrap();
    kept.limits = limits;
    plain.app.store.put_key(kept).await.unwrap();
    (Server::with(Arc::clone(&plain.app.store), ServerSettings::default(), catalog).holding(shown), received)
}

async fn used(store: &dyn Store) -> Option<KeyUse> {
    store.key_uses().await.unwrap().into_iter().find(|used| used.key == "limited" && used.window == "day")
}

#[tokio::test]
async fn what_is_passed_on_is_counted_and_refused_when_the_limit_is_used_up() {
    let paths = ["/v1/embeddings", "/v1/completions", "/v1/images/generations"];
    let dollars = KeyLimits { microdollars_per_day: Some(2_500_000), ..KeyLimits::default() };
    let tokens = KeyLimits { tokens_per_minute: Some(2_500_000), ..KeyLimits::default() };
    for limits in [dollars, tokens] {
        let (server, received) = limited(limits).await;
        let mut statuses = Vec::new();
        for path in paths.iter().cycle().take(5) {
            statuses
                .push(server.post(path, json!({ "model": "priced", "input": "x" })).await.status.as_u16());
            // A reply is counted after its last byte was handed on.
            let wanted = statuses.iter().filter(|status| **status == 200).count() as u64 * 1_000_000;
            while used(&*server.app.store).await.is_none_or(|used| used.tokens < wanted) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        assert_eq!(statuses, [200, 200, 200, 429, 429]);
        assert_eq!(received.lock().await.len(), 3, "the provider was not asked again");
        let used = used(&*server.app.store).await.unwrap();
        assert_eq!((used.tokens, used.microdollars), (3_000_000, 3_000_000));
        assert_eq!(used.began.0 % DAY, 0);
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_charged_all_the_same() {
    let (server, _) = limited(KeyLimits { tokens_per_minute: Some(2_500_000), ..KeyLimits::default() }).await;
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/embeddings")
        .header(header::HOST, ADDRESS)
        .header(header::AUTHORIZATION, format!("Bearer {}", server.key()))
        .body(Body::from(json!({ "model": "priced", "input": "x" }).to_string()))
        .unwrap();
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    drop(response);
    while used(&*server.app.store).await.is_none_or(|used| used.tokens == 0) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(used(&*server.app.store).await.unwrap().tokens, 1_000_000);
}

#[tokio::test]
async fn a_key_limited_in_dollars_buys_nothing_whose_price_is_not_known() {
    let (server, received) =
        limited(KeyLimits { microdollars_per_day: Some(1), ..KeyLimits::default() }).await;
    for (path, body) in [
        ("/v1/embeddings", json!({ "model": "unpriced", "input": "x" }).to_string()),
        ("/v1/embeddings", json!({ "input": "x" }).to_string()),
        ("/v1/audio/transcriptions", "--boundary: no JSON".to_string()),
    ] {
        let answer = server.ask(Method::POST, path, None, body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}: {}", answer.text);
        assert_eq!(answer.json()["error"]["code"], "no_price");
    }
    assert_eq!(received.lock().await.len(), 0);
    let free = server.post("/v1/moderations", json!({ "input": "x" })).await;
    assert_eq!(free.status, StatusCode::OK, "{}", free.text);
}

#[tokio::test]
async fn a_limited_key_has_nothing_done_in_the_background() {
    let (server, received) =
        limited(KeyLimits { tokens_per_minute: Some(1_000), ..KeyLimits::default() }).await;
    let body = json!({ "model": "gpt-5", "input": "x", "background": true });
    let answer = server.post("/v1/responses", body).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    assert_eq!(answer.json()["error"]["code"], "not_counted");
    assert_eq!(received.lock().await.len(), 0);
}
