//! What browsers may do here for pages of other sites.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};

use crate::support::{ADDRESS, Server};

#[tokio::test]
async fn only_get_navigations_from_other_sites_are_let_in() {
    let server = Server::new();
    for (method, status) in [(Method::GET, StatusCode::OK), (Method::POST, StatusCode::FORBIDDEN)] {
        let request = Request::builder()
            .method(method)
            .uri("/api/conversations")
            .header(header::HOST, ADDRESS)
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "navigate")
            .body(Body::empty())
            .unwrap();
        assert_eq!(server.send(request).await.status, status);
    }
}

#[tokio::test]
async fn every_response_has_security_headers() {
    let server = Server::new();
    for path in
        ["/healthz", "/api/conversations", "/api/conversations/none", "/v1/models", "/nowhere", "/lens"]
    {
        let answer = server.get(path).await;
        for name in ["x-content-type-options", "content-security-policy", "referrer-policy"] {
            assert!(answer.headers.contains_key(name), "{path} has no {name}");
        }
    }
}
