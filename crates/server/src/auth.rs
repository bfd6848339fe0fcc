//! Who is calling.
//!
//! A key comes as `Authorization: Bearer …`, as `x-api-key`, or as the cookie that the lens gave for it. Without any key in
//! the store, and listening on this machine only, everybody is the tenant `default` and may do everything.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scrollback_core::Time;
use scrollback_store::{Key, StoreError, Tenant};

use crate::App;
use crate::keys;
use crate::problem::Problem;

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Use the proxy.
    Proxy,
    /// Read: the lens, and what the REST API reads.
    Read,
    /// Everything.
    Admin,
}

impl Scope {
    /// All three.
    pub const ALL: [Scope; 3] = [Scope::Proxy, Scope::Read, Scope::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Proxy => "proxy",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }

    /// The scope of that name.
    pub fn named(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// Who is calling, and what they may do. An extractor: handlers that take one have been let in.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose data.
    pub tenant: Tenant,
    /// What they may do.
    pub scope: Scope,
    /// The key they showed; none where there are none.
    pub key: Option<Arc<Key>>,
}

impl Caller {
    /// An error unless they may use the proxy.
    pub fn may_call(&self) -> Result<(), Problem> {
        self.may(self.scope != Scope::Read, "use the proxy")
    }

    /// An error unless they may read.
    pub fn may_read(&self) -> Result<(), Problem> {
        self.may(self.scope != Scope::Proxy, "read")
    }

    /// An error unless they may change things.
    pub fn may_write(&self) -> Result<(), Problem> {
        self.may(self.scope == Scope::Admin, "change anything")
    }

    fn may(&self, allowed: bool, what: &str) -> Result<(), Problem> {
        if allowed {
            return Ok(());
        }
        let detail = format!("a key with scope {} may not {what}", self.scope.as_str());
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(unknown)
    }
}

/// Finds out who calls, before any of the body is read. Whoever is not known has no [`Caller`]; pages that everybody may
/// see, such as the login, do without.
pub(crate) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match caller(&app, request.headers()).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
        }
        Ok(None) => {}
        Err(error) => return Problem::from(error).into_response(),
    }
    next.run(request).await
}

/// Who calls; none if they are not known.
pub(crate) async fn caller(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, StoreError> {
    let now = app.now();
    let keys = app.keyring.keys(app, now).await?;
    if keys.is_empty() {
        let anonymous = Caller { tenant: Tenant::default(), scope: Scope::Admin, key: None };
        return Ok(app.address.ip().is_loopback().then_some(anonymous));
    }
    let of = |key: &Arc<Key>| {
        let scope = Scope::named(&key.scope)?;
        Some(Caller { tenant: key.tenant.clone(), scope, key: Some(Arc::clone(key)) })
    };
    // A provider's key may come in one header and ours in the other.
    let shown = presented(headers).find_map(|shown| keys.iter().find(|key| keys::is_of(shown, key)));
    if let Some(key) = shown {
        return Ok(of(key));
    }
    let session =
        cookie(headers, COOKIE).and_then(|session| keys.iter().find(|key| holds(session, key, now)));
    Ok(session.and_then(of))
}

/// Every text that may be a key.
pub(crate) fn presented(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let plain = ["x-api-key", "x-scrollback-key"].into_iter().flat_map(|name| headers.get_all(name));
    bearer.chain(plain.filter_map(|value| value.to_str().ok()))
}

/// The cookie that the lens gives for a key.
pub const COOKIE: &str = "scrollback_session";
/// How long it lasts.
const SESSION_SECONDS: i64 = 12 * 60 * 60;

/// Exchanges a key for the value of a `Set-Cookie` header; none if there is no such key.
pub async fn login(app: &App, shown: &str) -> Result<Option<String>, StoreError> {
    let now = app.now();
    let keys = app.keyring.keys(app, now).await?;
    let Some(key) = keys.iter().find(|key| keys::is_of(shown.trim(), key)) else { return Ok(None) };
    let until = now.0 / 1000 + SESSION_SECONDS;
    let value = format!("{}.{until}.{}", key.name, mac(key, until));
    Ok(Some(format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}")))
}

/// The value of a `Set-Cookie` header that ends a session.
pub fn logout() -> String {
    format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// Whether a session was given for this key and has not ended. Revoking the key ends it too.
fn holds(session: &str, key: &Key, now: Time) -> bool {
    // Names may hold dots; the time and the proof do not.
    let mut parts = session.rsplitn(3, '.');
    let (Some(proof), Some(until), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Ok(until) = until.parse::<i64>() else { return false };
    let proven = blake3::hash(proof.as_bytes()) == blake3::hash(mac(key, until).as_bytes());
    name == key.name && until > now.0 / 1000 && proven
}

/// What only this server can say about a key: made with the hash that is kept, which is never shown.
fn mac(key: &Key, until: i64) -> String {
    let secret = blake3::derive_key("scrollback 2026 lens session", &key.hash);
    blake3::keyed_hash(&secret, format!("{}\n{until}", key.name).as_bytes()).to_hex().to_string()
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Somebody who is not known.
pub(crate) fn unknown() -> Problem {
    let detail = "this server wants one of its keys; send it as Authorization: Bearer sb_… (`scrollback key add` makes one)";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// The keys that are valid, read again when they may have changed.
#[derive(Debug, Default)]
pub(crate) struct Keyring(Mutex<Option<(Time, Keys)>>);

type Keys = Arc<Vec<Arc<Key>>>;

/// How long the keys are remembered, in milliseconds: so late may a revoked key still be used.
const REMEMBERED: i64 = 1000;

impl Keyring {
    /// The keys that are valid.
    pub(crate) async fn keys(&self, app: &App, now: Time) -> Result<Keys, StoreError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, keys)) = &known
            && (0..REMEMBERED).contains(&(now.0 - read_at.0))
        {
            return Ok(Arc::clone(keys));
        }
        let read = match app.store.keys().await {
            Ok(read) => read,
            // While the store is away, those who were known stay known.
            Err(error) => return known.map(|(_, keys)| keys).ok_or(error),
        };
        let valid = read.into_iter().filter(|key| key.revoked_at.is_none());
        let keys = Arc::new(valid.map(Arc::new).collect::<Vec<_>>());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
        Ok(keys)
    }
}
