//! Headers by which a client tells this server something: those that are not known are refused, because a misspelt one would
//! otherwise change nothing and the mistake would go unnoticed.

use axum::http::HeaderMap;
use scrollback_core::nearest::nearest;

use crate::problem::HttpProblem;

/// What every header of ours begins with.
pub(crate) const OWN: &str = "x-scrollback-";
/// The headers that requests may have.
const KNOWN: [&str; 6] = [
    "x-scrollback-conversation",
    "x-scrollback-key",
    "x-scrollback-managers",
    "x-scrollback-mode",
    "x-scrollback-recipient",
    "x-scrollback-session",
];

/// An error if a request has a header of ours that there is not.
pub(super) fn check(headers: &HeaderMap) -> Result<(), HttpProblem> {
    let own = headers.keys().map(axum::http::HeaderName::as_str).filter(|name| name.starts_with(OWN));
    let Some(unknown) = own.into_iter().find(|name| !KNOWN.contains(name)) else { return Ok(()) };
    let detail = match nearest(unknown, KNOWN) {
        Some(near) => format!("unknown header `{unknown}`; did you mean `{near}`?"),
        None => format!("unknown header `{unknown}`; there are {}", KNOWN.join(", ")),
    };
    Err(HttpProblem::bad_request("unknown_header", detail).with("path", unknown))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_misspelt_header_is_told_with_the_one_that_was_meant() {
        let headers =
            |name: &'static str| HeaderMap::from_iter([(name.parse().unwrap(), "x".parse().unwrap())]);
        for known in KNOWN {
            assert!(check(&headers(known)).is_ok(), "{known}");
        }
        assert!(check(&headers("x-other")).is_ok());
        let detail = check(&headers("x-scrollback-conversaton")).unwrap_err().detail;
        assert_eq!(
            detail,
            "unknown header `x-scrollback-conversaton`; did you mean `x-scrollback-conversation`?"
        );
        let detail = check(&headers("x-scrollback-zzzzzzzzzzzzzz")).unwrap_err().detail;
        assert!(detail.contains("there are x-scrollback-conversation"), "{detail}");
    }
}
