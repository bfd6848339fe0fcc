//! Whom a proxied request is about: a header of ours, or a field of the body that the configuration trusts for it.

use axum::http::HeaderMap;
use scrollback_agent::config::RecipientField;
use scrollback_core::json::{self, Raw};
use scrollback_store::Recipient;

use super::client_request::{ClientRequest, split_user};
use crate::problem::HttpProblem;

/// The header by which a client names the recipient.
pub(super) const RECIPIENT: &str = "x-scrollback-recipient";

/// The recipient of a request, if it names one. A name that cannot be one is refused: recorded under none, the person's
/// conversation could later neither be found nor erased.
pub(super) fn of(
    headers: &HeaderMap,
    asked: &ClientRequest,
    fields: &[RecipientField],
) -> Result<Option<Recipient>, HttpProblem> {
    if let Some(given) = headers.get(RECIPIENT) {
        let bad = |detail: String| HttpProblem::bad_request("bad_recipient", detail);
        let text = std::str::from_utf8(given.as_bytes())
            .map_err(|_| bad(format!("the header {RECIPIENT} is not UTF-8")))?;
        return Recipient::parse(text).map(Some).map_err(|error| bad(error.to_string()));
    }
    if fields.is_empty() {
        return Ok(None);
    }
    let Ok(body) = json::check_bytes(&asked.body) else { return Ok(None) };
    let named = fields.iter().find_map(|field| named(body, *field));
    named.map(|text| Recipient::parse(&text)).transpose().map_err(|error| {
        HttpProblem::bad_request(
            "bad_recipient",
            format!("{error} (read from the body, see `recipient_from`)"),
        )
    })
}

/// The header's text, which may be in any script.
pub(super) fn in_header(headers: &HeaderMap) -> Option<&str> {
    headers.get(RECIPIENT).and_then(|given| std::str::from_utf8(given.as_bytes()).ok())
}

/// What a field says; none where it is not there, or holds only a session.
fn named(body: Raw<'_>, field: RecipientField) -> Option<String> {
    let text = |raw: Option<Raw<'_>>| raw?.string().map(std::borrow::Cow::into_owned);
    let found = match field {
        RecipientField::SafetyIdentifier => text(body.get("safety_identifier")),
        RecipientField::User => text(body.get("user")),
        // Some clients write their session there beside the user, and that is another one every day.
        RecipientField::MetadataUserId => {
            text(body.get("metadata").and_then(|metadata| metadata.get("user_id")))
                .map(|user| split_user(&user).people.join("/"))
        }
    };
    found.filter(|text| !text.is_empty())
}
