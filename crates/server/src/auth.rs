//! Who is calling.
//!
//! A key comes as `Authorization: Bearer …`, as `x-api-key`, as `x-goog-api-key` or `?key=`, or as the cookie that the lens gave for it. Only while the
//! store never had a key, and listening on this machine only, every caller is the tenant `default` and may do everything; a request
//! that another machine's proxy forwarded is not from this machine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scrollback_core::Time;
use scrollback_store::{ErrorKind, Key, StoreError, Tenant, hex};

use crate::App;
use crate::keys;
use crate::problem::HttpProblem;

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// Use the proxy.
    Proxy,
    /// Read: the lens, and what the REST API reads.
    Read,
    /// Everything.
    Admin,
}

impl KeyScope {
    /// All three.
    pub const ALL: [KeyScope; 3] = [KeyScope::Proxy, KeyScope::Read, KeyScope::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyScope::Proxy => "proxy",
            KeyScope::Read => "read",
            KeyScope::Admin => "admin",
        }
    }

    /// The scope of that name.
    pub fn named(name: &str) -> Option<KeyScope> {
        KeyScope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// Who is calling, and what they may do. An extractor: handlers that take one have been let in.
#[derive(Clone, Debug)]
pub struct ApiCaller {
    /// Whose data.
    pub tenant: Tenant,
    /// What they may do.
    pub scope: KeyScope,
    /// The key they showed; none where there are none.
    pub key: Option<Arc<Key>>,
}

impl ApiCaller {
    /// Whether their key is still one of the server's; for what goes on after the request was let in.
    pub(crate) async fn is_still_known(&self, app: &App) -> bool {
        let Ok(known) = app.keyring.keys(app, app.now()).await else { return true };
        match &self.key {
            Some(key) => known.valid.iter().any(|valid| valid.name == key.name && valid.hash == key.hash),
            None => known.never_had_any,
        }
    }

    /// An error unless they may use the proxy.
    pub fn may_call(&self) -> Result<(), HttpProblem> {
        self.may(self.scope != KeyScope::Read, "use the proxy")
    }

    /// An error unless they may read.
    pub fn may_read(&self) -> Result<(), HttpProblem> {
        self.may(self.scope != KeyScope::Proxy, "read")
    }

    /// An error unless they may change things.
    pub fn may_write(&self) -> Result<(), HttpProblem> {
        self.may(self.scope == KeyScope::Admin, "change anything")
    }

    fn may(&self, allowed: bool, what: &str) -> Result<(), HttpProblem> {
        if allowed {
            return Ok(());
        }
        let detail = format!("a key with scope {} may not {what}", self.scope.as_str());
        Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ApiCaller {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        parts.extensions.get::<ApiCaller>().cloned().ok_or_else(unknown)
    }
}

/// Finds out who calls, before any of the body is read. An unknown caller has no [`ApiCaller`]; pages that all may
/// see, such as the login, do without.
pub(crate) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match caller(&app, request.headers()).await {
        Ok(Some(caller)) if caller.key.is_none() && is_forwarded(request.headers()) => {
            let detail = "a proxy forwarded this request, and this server has no keys to tell callers apart: make one with \
                          `scrollback key add NAME`";
            return HttpProblem::new(StatusCode::FORBIDDEN, "forwarded", detail).into_response();
        }
        Ok(Some(caller)) => {
            // The first key may have been made while the server ran.
            if caller.key.is_some()
                && let Err(problem) = app.walls.stand(&app).await
            {
                return problem.into_response();
            }
            request.extensions_mut().insert(caller);
        }
        Ok(None) => {}
        Err(error) => return HttpProblem::from(error).into_response(),
    }
    next.run(request).await
}

/// Whether the database holds the server to the rows of one tenant, which callers with keys rely on.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    /// Why it does not; asked once.
    missing: tokio::sync::OnceCell<Option<String>>,
    done_without: AtomicBool,
}

impl Walls {
    /// The operator accepts that there are none.
    pub(crate) fn do_without(&self) {
        self.done_without.store(true, Ordering::Relaxed);
    }

    /// An error if there are none and the operator did not accept that.
    async fn stand(&self, app: &App) -> Result<(), HttpProblem> {
        if self.done_without.load(Ordering::Relaxed) {
            return Ok(());
        }
        let missing = self.missing.get_or_try_init(|| app.store.missing_wall()).await?;
        let Some(why) = missing else { return Ok(()) };
        let detail =
            format!("{why}: start the server with a role of its own, or accept that with --allow-superuser");
        Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "superuser", detail))
    }
}

/// Whether a proxy says that a request came from elsewhere: then a connection from this machine proves nothing.
fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-")
    })
}

/// Who calls; none if they are not known.
pub(crate) async fn caller(app: &App, headers: &HeaderMap) -> Result<Option<ApiCaller>, StoreError> {
    let now = app.now();
    let known = app.keyring.keys(app, now).await?;
    if known.never_had_any {
        let anonymous = ApiCaller { tenant: Tenant::default(), scope: KeyScope::Admin, key: None };
        return Ok(app.address.ip().is_loopback().then_some(anonymous));
    }
    let keys = &known.valid;
    let of = |key: &Arc<Key>| {
        let scope = KeyScope::named(&key.scope)?;
        Some(ApiCaller { tenant: key.tenant.clone(), scope, key: Some(Arc::clone(key)) })
    };
    // A provider's key may come in one header and ours in the other.
    let known_in = |keys: &[Arc<Key>]| {
        let found = presented(headers).find_map(|shown| keys.iter().find(|key| keys::is_of(shown, key)));
        found.and_then(of)
    };
    if let Some(caller) = known_in(keys) {
        return Ok(Some(caller));
    }
    // It may have been made a moment ago.
    if presented(headers).any(|shown| shown.starts_with(keys::PREFIX))
        && let Some(caller) = known_in(&app.keyring.newer(app, now).await?.valid)
    {
        return Ok(Some(caller));
    }
    let Some(session) = cookie(headers, COOKIE) else { return Ok(None) };
    let Some(shown) = unseal(session, secret(app).await?, now) else { return Ok(None) };
    Ok(keys.iter().find(|key| keys::is_of(&shown, key)).and_then(of))
}

/// The header with the key of Gemini's clients.
pub(crate) const GOOGLE_KEY: &str = "x-goog-api-key";

/// Takes `?key=` out of a URL that goes to a provider, and puts it where Gemini's other clients have it: a key in a URL would
/// be written into logs, and be sent on to whichever provider the path belongs to.
pub(crate) async fn take_key_from_query(mut request: Request, next: Next) -> Response {
    let to_a_provider = ["/v1/", "/v1beta/"].iter().any(|start| request.uri().path().starts_with(start));
    if let Some((uri, key)) = to_a_provider.then(|| without_key(request.uri())).flatten() {
        *request.uri_mut() = uri;
        let value = HeaderValue::from_str(&key).ok().filter(|value| !value.is_empty());
        if let (Some(mut value), None) = (value, request.headers().get(GOOGLE_KEY)) {
            value.set_sensitive(true);
            request.headers_mut().insert(GOOGLE_KEY, value);
        }
    }
    next.run(request).await
}

/// A URL without its `key`, and the key; none where it has none.
fn without_key(uri: &Uri) -> Option<(Uri, String)> {
    let query = uri.query()?;
    let key = query.split('&').find_map(|pair| pair.strip_prefix("key="))?.to_string();
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    let mut parts = uri.clone().into_parts();
    let path = uri.path();
    let left = if rest.is_empty() { path.to_string() } else { format!("{path}?{}", rest.join("&")) };
    parts.path_and_query = Some(left.parse().ok()?);
    Some((Uri::from_parts(parts).ok()?, key))
}

/// Every text that may be a key.
pub(crate) fn presented(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let plain =
        ["x-api-key", GOOGLE_KEY, "x-scrollback-key"].into_iter().flat_map(|name| headers.get_all(name));
    bearer.chain(plain.filter_map(|value| value.to_str().ok()))
}

/// The cookie that the lens gives for a key.
pub const COOKIE: &str = "scrollback_session";
/// How long it lasts.
const SESSION_SECONDS: i64 = 12 * 60 * 60;

/// Whether a request came over TLS, as far as can be known: this server speaks none itself, a proxy in front of it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It did.
    Tls,
    /// It did not, or nothing says so.
    Plain,
}

impl Transport {
    /// What the headers of a request say.
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let forwarded = text("forwarded").to_ascii_lowercase();
        let stated =
            forwarded.split([';', ',']).any(|pair| matches!(pair.trim(), "proto=https" | "proto=\"https\""));
        let by_proxy = text("x-forwarded-proto").split(',').next().unwrap_or_default().trim();
        if stated || by_proxy.eq_ignore_ascii_case("https") { Transport::Tls } else { Transport::Plain }
    }
}

/// Exchanges a key for the value of a `Set-Cookie` header; none if there is no such key.
pub async fn login(app: &App, shown: &str, transport: Transport) -> Result<Option<String>, StoreError> {
    let now = app.now();
    let keys = app.keyring.keys(app, now).await?;
    let shown = shown.trim();
    if !keys.valid.iter().any(|key| keys::is_of(shown, key)) {
        return Ok(None);
    }
    let until = now.0 / 1000 + SESSION_SECONDS;
    let Some(value) = seal(shown, secret(app).await?, until) else {
        return Err(StoreError::new(ErrorKind::Io, "this machine provides no random numbers"));
    };
    let secure = if transport == Transport::Tls { "; Secure" } else { "" };
    Ok(Some(format!(
        "{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}{secure}"
    )))
}

/// The random secret of the store, which all servers on it share.
async fn secret(app: &App) -> Result<&str, StoreError> {
    let read = || async {
        let mut random = [0; 32];
        getrandom::fill(&mut random)
            .map_err(|_| StoreError::new(ErrorKind::Io, "this machine provides no random numbers"))?;
        app.store.secret(hex(&random)).await
    };
    app.secret.get_or_try_init(read).await.map(String::as_str)
}

/// The value of a `Set-Cookie` header that ends a session.
pub fn logout() -> String {
    format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// A session: the key itself, sealed by the secret of the store, until a time. A stolen database has the secret and only hashes of
/// keys, so no session can be made from it; a session alone shows nothing of the key.
fn seal(shown: &str, secret: &str, until: i64) -> Option<String> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).ok()?;
    let nonce = hex(&nonce);
    let sealed: String = hex(&covered(shown.as_bytes(), secret, &nonce, until));
    let proof = proof(secret, until, &nonce, &sealed);
    Some(format!("{until}.{nonce}.{sealed}.{}", proof.to_hex()))
}

/// The key in a session; none if it was not made with this secret, or has ended. Revoking the key ends it too.
fn unseal(session: &str, secret: &str, now: Time) -> Option<String> {
    let parts: Vec<&str> = session.split('.').collect();
    let [until, nonce, sealed, stated] = parts.as_slice() else { return None };
    let until: i64 = until.parse().ok()?;
    // The comparison of hashes is in constant time.
    let proven = blake3::Hash::from_hex(stated).ok()? == proof(secret, until, nonce, sealed);
    if !proven || until <= now.0 / 1000 {
        return None;
    }
    String::from_utf8(covered(&unhex(sealed)?, secret, nonce, until)).ok()
}

/// Bytes under a stream of others that only the secret gives, or what such bytes cover.
fn covered(bytes: &[u8], secret: &str, nonce: &str, until: i64) -> Vec<u8> {
    let key = blake3::derive_key("scrollback 2026 lens session seal", secret.as_bytes());
    let mut stream = vec![0; bytes.len()];
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(format!("{until}\n{nonce}").as_bytes()).finalize_xof().fill(&mut stream);
    bytes.iter().zip(stream).map(|(byte, cover)| byte ^ cover).collect()
}

fn proof(secret: &str, until: i64, nonce: &str, sealed: &str) -> blake3::Hash {
    let key = blake3::derive_key("scrollback 2026 lens session proof", secret.as_bytes());
    blake3::keyed_hash(&key, format!("{until}\n{nonce}\n{sealed}").as_bytes())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// An unknown caller.
pub(crate) fn unknown() -> HttpProblem {
    let detail = "this server requires an API key; send it as Authorization: Bearer sb_… (`scrollback key add` makes one)";
    HttpProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// The keys that are valid, read again when they may have changed.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    known: Mutex<Option<(Time, Keys)>>,
    /// Held while the keys are read for a key that is unknown: callers with wrong keys wait for one reading together.
    reading: tokio::sync::Mutex<()>,
    /// When the use of each key was noted.
    noted: Mutex<HashMap<String, Time>>,
}

type Keys = Arc<KnownKeys>;

/// What the store says about keys.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    /// Those that are not revoked.
    valid: Vec<Arc<Key>>,
    /// Whether no key was ever made. Revoked keys keep their rows, so revoking the last key does not open the server.
    never_had_any: bool,
}

/// How long the keys are remembered, in milliseconds: so late may a revoked key still be used.
const REMEMBERED: i64 = 1000;
/// The time between two readings for keys that are unknown, in milliseconds. The request waits, so that a new key works at once.
const READ_AGAIN: i64 = 50;

impl Keyring {
    /// Whether the use of a key was not noted for some time, in milliseconds; from now on it is.
    pub(crate) fn is_first_use(&self, name: &str, now: Time, span: i64) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = noted.get(name).is_some_and(|at| (0..span).contains(&(now.0 - at.0)));
        if !lately {
            noted.insert(name.into(), now);
        }
        !lately
    }

    /// The keys that are valid.
    pub(crate) async fn keys(&self, app: &App, now: Time) -> Result<Keys, StoreError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, keys)) = &known
            && (0..REMEMBERED).contains(&(now.0 - read_at.0))
        {
            return Ok(Arc::clone(keys));
        }
        // While the store is away, those who were known stay known.
        self.read(app, now).await.or_else(|error| known.map(|(_, keys)| keys).ok_or(error))
    }

    /// The keys as they are now, for one that is not among those that are remembered. Readings are spaced, so that wrong keys do
    /// not make the store busy.
    async fn newer(&self, app: &App, arrived: Time) -> Result<Keys, StoreError> {
        let _turn = self.reading.lock().await;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, keys)) = known {
            if read_at > arrived {
                return Ok(keys);
            }
            let wait = (read_at.0 + READ_AGAIN - app.now().0).clamp(0, READ_AGAIN);
            tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        }
        self.read(app, app.now()).await
    }

    async fn read(&self, app: &App, now: Time) -> Result<Keys, StoreError> {
        let read = app.store.keys().await?;
        let never_had_any = read.is_empty();
        let valid = read.into_iter().filter(|key| key.revoked_at.is_none()).map(Arc::new).collect();
        let keys = Arc::new(KnownKeys { valid, never_had_any });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sessions_hold_for_their_secret_and_their_time() {
        let session = seal("sb_0123456789", "secret", 100).unwrap();
        assert!(!session.contains("sb_"));
        assert_eq!(unseal(&session, "secret", Time(99_000)).as_deref(), Some("sb_0123456789"));
        assert_eq!(unseal(&session, "secret", Time(100_000)), None, "it has ended");
        assert_eq!(unseal(&session, "another", Time(0)), None);
        let longer = session.replacen("100.", "900.", 1);
        assert_eq!(unseal(&longer, "secret", Time(0)), None, "its time is part of the proof");
        for broken in ["", "....", "1.2.3.4", "100.aa.zz.bb", &session[1..]] {
            assert_eq!(unseal(broken, "secret", Time(0)), None, "{broken:?}");
        }
    }
}
