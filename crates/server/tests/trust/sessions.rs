//! Sessions of the lens: made from a key, and from nothing else.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use scrollback_core::Time;
use scrollback_server::KeyScope;
use scrollback_store::Sqlite;

use crate::support::{ADDRESS, Answer, Server};

/// Exchanges the key of a server for a cookie, with further headers.
async fn login(server: &Server, more: &[(&str, &str)]) -> HeaderMap {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri("/lens/login")
        .header(header::HOST, ADDRESS)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let body = format!("key={}&to=/lens", server.key());
    let answer = server.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    answer.headers
}

fn cookie(headers: &HeaderMap) -> String {
    headers[header::SET_COOKIE].to_str().unwrap().to_string()
}

async fn with_cookie(server: &Server, cookie: &str) -> Answer {
    let request = Request::builder()
        .uri("/lens/search?q=x")
        .header(header::HOST, ADDRESS)
        .header(header::COOKIE, cookie)
        .body(Body::empty())
        .unwrap();
    server.send(request).await
}

#[tokio::test]
async fn a_stolen_database_is_not_a_login() {
    let server = Server::new().with_key("acme", KeyScope::Admin).await;
    let cookie = cookie(&login(&server, &[]).await);
    let session = cookie.split(';').next().unwrap();
    assert_eq!(with_cookie(&server, session).await.status, StatusCode::OK);
    // Everything that the store has: names and hashes of keys.
    for key in server.app.store.keys().await.unwrap() {
        let until = server.app.now().0 / 1000 + 3600;
        let secret = blake3::derive_key("scrollback 2026 lens session", &key.hash);
        let mac = blake3::keyed_hash(&secret, format!("{}\n{until}", key.name).as_bytes());
        let forged = format!("scrollback_session={}.{until}.{}", key.name, mac.to_hex());
        assert_eq!(with_cookie(&server, &forged).await.status, StatusCode::SEE_OTHER, "{forged}");
    }
    let (name, value) = session.split_once('=').unwrap();
    for at in (0..value.len()).step_by(7) {
        let mut forged = value.to_string();
        let other = if forged.as_bytes()[at] == b'0' { "1" } else { "0" };
        forged.replace_range(at..=at, other);
        let answer = with_cookie(&server, &format!("{name}={forged}")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{forged}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    let server = Server::new().with_key("acme", KeyScope::Admin).await;
    let cookie = cookie(&login(&server, &[]).await);
    for mut key in server.app.store.keys().await.unwrap() {
        key.revoked_at = Some(server.app.now());
        server.app.store.put_key(key).await.unwrap();
    }
    let restarted = Server::on(std::sync::Arc::clone(&server.app.store), server.app.settings.clone());
    let session = cookie.split(';').next().unwrap();
    assert_eq!(with_cookie(&restarted, session).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_cookie_given_over_tls_is_never_sent_without_it() {
    let server = Server::new().with_key("acme", KeyScope::Read).await;
    let plain = cookie(&login(&server, &[]).await);
    assert!(
        plain.contains("HttpOnly") && plain.contains("SameSite=Strict") && !plain.contains("Secure"),
        "{plain}"
    );
    for by_tls in [("x-forwarded-proto", "https"), ("forwarded", "for=203.0.113.9;proto=https")] {
        assert!(cookie(&login(&server, &[by_tls]).await).ends_with("; Secure"), "{by_tls:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_of_a_store_are_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("record.db"), Time(0)).unwrap();
    let mut files = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        files += 1;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
    assert!(files >= 2, "the store and its log");
    drop(store);
}
