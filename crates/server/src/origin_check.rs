//! Whose page sent a request, and for whom it was meant.
//!
//! A server on this machine can be reached by any page a browser shows, if the page's name is made to point here (DNS
//! rebinding) or if it just posts (cross-site requests). Both are told by headers that pages cannot forge.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::HttpProblem;

/// Refuses requests that were meant for another host or sent by another site's page.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let small = fits(request.headers(), app.settings.limits.header_bytes);
    let on_loopback = app.address.ip().is_loopback();
    let mut response = match small.and_then(|()| allowed(on_loopback, request.method(), request.headers())) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in SECURITY_HEADERS {
        // Pages of the lens have a policy of their own.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// What every response says to browsers: its type is what it says, and it is neither run, framed nor read by other sites.
const SECURITY_HEADERS: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The connection's own limit is a rough one; this one is exact.
fn fits(headers: &HeaderMap, most: usize) -> Result<(), HttpProblem> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes <= most {
        return Ok(());
    }
    let detail = format!("the headers have {bytes} bytes, more than {most}");
    Err(HttpProblem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", detail))
}

fn allowed(on_loopback: bool, method: &Method, headers: &HeaderMap) -> Result<(), HttpProblem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let one = hosts.next().is_none();
    let Some(host) = host.filter(|_| one) else {
        return Err(HttpProblem::bad_request("bad_host", "exactly one Host header is required"));
    };
    // A server that listens on other addresses has keys, which no other site's page has.
    if on_loopback && !is_local(host) {
        let detail = format!("this server answers for localhost, not for {host:?}");
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "bad_host", detail));
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let cross_site = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    let foreign = match headers.get(header::ORIGIN) {
        None => cross_site,
        // Pages of the lens send no referrer, and then browsers call the origin of a form null; which site it came from they
        // still say, and no page can say it for them.
        Some(origin) if origin == "null" => text("sec-fetch-site") != Some("same-origin"),
        Some(origin) => origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"))
            .is_none_or(|(_, authority)| !authority.eq_ignore_ascii_case(host)),
    };
    // Following a link from another page only looks; what it finds is behind a strict cookie.
    let navigates = *method == Method::GET
        && text("sec-fetch-mode") == Some("navigate")
        && headers.get(header::ORIGIN).is_none();
    if foreign && !navigates {
        let detail = "cross-site requests are refused";
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "cross_origin", detail));
    }
    Ok(())
}

/// Whether a host, with or without a port, is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || is_port(port) => name,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_this_machine_is_meant() {
        for good in
            ["localhost", "LOCALHOST:7275", "127.0.0.1", "127.0.0.1:7275", "[::1]:7275", "127.9.9.9:1"]
        {
            assert!(allowed(true, &Method::GET, &headers(&[("host", good)])).is_ok(), "{good}");
        }
        let bad = [
            "evil.example",
            "evil.example:7275",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "127.0.0.1@evil.example",
            "localhost:80:80",
            "[::1].evil",
            "169.254.169.254",
            "",
            "2130706433",
        ];
        for bad in bad {
            assert!(allowed(true, &Method::GET, &headers(&[("host", bad)])).is_err(), "{bad}");
        }
        assert!(allowed(true, &Method::GET, &HeaderMap::new()).is_err());
        assert!(allowed(false, &Method::GET, &headers(&[("host", "scrollback.example")])).is_ok());
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:7275");
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[("origin", "http://127.0.0.1:7275")], true),
            (&[("origin", "http://127.0.0.1:9999")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "null")], false),
            (&[("origin", "null"), ("sec-fetch-site", "cross-site")], false),
            (&[("origin", "null"), ("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true),
            (&[("sec-fetch-site", "same-origin")], true),
        ];
        for (more, fine) in cases {
            let mut all = vec![host];
            all.extend(more.iter().map(|(name, value)| (*name, *value)));
            let all: HeaderMap =
                all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            let all: HeaderMap = all;
            assert_eq!(allowed(true, &Method::GET, &all).is_ok(), fine, "{more:?}");
        }
    }
}
