//! A server on a store in memory, asked without a network.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_agent::provider::Catalog;
use scrollback_core::Time;
use scrollback_core::redact::{Options, Redactor};
use scrollback_server::{App, KeyScope, keys, router};
use scrollback_store::{Memory, Store, Tenant};
use serde_json::Value;
use tower::ServiceExt;

#[path = "../../../../tests/support/required.rs"]
pub(crate) mod required;

pub(crate) const ADDRESS: &str = "127.0.0.1:7275";

/// A server, and who asks it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) app: App,
    router: axum::Router,
    key: Option<String>,
}

/// What was answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn kind(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> &str {
        self.headers.get(header::LOCATION).map_or("", |to| to.to_str().unwrap())
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Server::on(Arc::new(Memory::new()), ServerSettings::default())
    }

    pub(crate) fn on(store: Arc<dyn Store>, settings: ServerSettings) -> Self {
        Server::with(store, settings, catalog())
    }

    pub(crate) fn with(store: Arc<dyn Store>, settings: ServerSettings, catalog: Catalog) -> Self {
        let address: SocketAddr = ADDRESS.parse().unwrap();
        let app = App::new(store, settings, catalog, redactor(), address);
        Server { router: router(app.clone()), app, key: None }
    }

    /// The same server, asked with a key of a scope; a new one, of a tenant.
    pub(crate) async fn with_key(&self, tenant: &str, scope: KeyScope) -> Self {
        let tenant = Tenant::parse(tenant).unwrap();
        let name = format!("key-{}", scrollback_store::new_evaluation().simple());
        let (kept, shown) = keys::new(&name, &tenant, scope, Time(0)).unwrap();
        self.app.store.put_key(kept).await.unwrap();
        // Keys are remembered for a moment; a server that was just started knows none.
        let fresh = Server::on(Arc::clone(&self.app.store), self.app.settings.clone());
        Server { key: Some(shown), ..fresh }
    }

    /// The same server, asked with a key that it knows.
    pub(crate) fn holding(self, key: String) -> Self {
        Server { key: Some(key), ..self }
    }

    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap()
    }

    /// The same server, asked without a key.
    pub(crate) fn without_key(&self) -> Self {
        Server { key: None, ..self.clone() }
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        kind: Option<&str>,
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, ADDRESS);
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        // A stream of events has no end: its beginning says enough.
        let live = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        let bytes = if live { axum::body::Bytes::new() } else { to_bytes(body, usize::MAX).await.unwrap() };
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some("application/json"), body.to_string()).await
    }

    /// Posts a form, as a page of this server does.
    pub(crate) async fn form(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let body: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}={}", coded(value))).collect();
        self.ask(Method::POST, path, Some("application/x-www-form-urlencoded"), body.join("&")).await
    }

    /// A conversation with these messages; its id.
    pub(crate) async fn talk(&self, messages: Value) -> String {
        let made = self.post("/api/conversations", serde_json::json!({})).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        let id = made.json()["id"].as_str().unwrap().to_string();
        let said = self
            .post(&format!("/api/conversations/{id}/entries"), serde_json::json!({ "messages": messages }))
            .await;
        assert_eq!(said.status, StatusCode::CREATED, "{}", said.text);
        id
    }
}

pub(crate) fn coded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

pub(crate) fn catalog() -> Catalog {
    Catalog::new(BTreeMap::new(), BTreeMap::new()).with_environment(|_| None)
}

pub(crate) fn redactor() -> Redactor {
    Redactor::new(&Options::default()).unwrap()
}

/// A tool exchange and two turns, as a client would send them.
pub(crate) fn exchange() -> Value {
    serde_json::json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "What is the weather in Paris?" },
        { "role": "assistant", "content": "I look it up.", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\":\"Paris\"}" } }] },
        { "role": "tool", "tool_call_id": "c1", "content": "18 degrees and sunny" },
        { "role": "assistant", "content": "18 degrees and sunny." },
        { "role": "user", "content": "And tomorrow?" },
        { "role": "assistant", "content": "I do not know." }
    ])
}
