//! What is special about Responses: getting one again, and making a history shorter.

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use scrollback_core::json::{self, Raw};
use scrollback_core::stream::sse::SseParser;
use scrollback_core::{Entry, Role};
use scrollback_store::Tenant;
use serde_json::{Value, json};

use super::client_request::ReplyShape;
use super::echo::Echo;
use super::identity::BY_RESPONSE;
use super::{Version, pass_through};
use crate::App;
use crate::auth::{ApiCaller, unknown};
use crate::problem::HttpProblem;

/// A response as it was given, from the record; what is not there is asked for where it may be the caller's.
pub(super) async fn get(app: &App, id: &str, request: Request) -> Result<Response, HttpProblem> {
    let caller = request.extensions().get::<ApiCaller>().cloned().ok_or_else(unknown)?;
    caller.may_call()?;
    if let Some(found) = recorded(app, &caller.tenant, id).await? {
        return Ok(([(header::CONTENT_TYPE, "application/json")], found).into_response());
    }
    pass_through::pass(app, Version::V1, request).await
}

async fn recorded(app: &App, tenant: &Tenant, id: &str) -> Result<Option<String>, HttpProblem> {
    let Some(alias) = app.store.alias(tenant, BY_RESPONSE, id).await? else { return Ok(None) };
    let calls = app.store.sent(tenant, &alias.conversation).await?;
    let answers = calls.into_iter().rev().filter_map(|call| call.response);
    Ok(answers.filter_map(|bytes| response_in(&bytes)).find(|(found, _)| found == id).map(|(_, text)| text))
}

/// The id and the text of the response that bytes hold, as a body or as the last event of a stream.
fn response_in(bytes: &[u8]) -> Option<(String, String)> {
    let named = |raw: Raw<'_>| Some((raw.get("id")?.string()?.into_owned(), raw.text().to_string()));
    if let Ok(body) = json::check_bytes(bytes) {
        return named(body);
    }
    let mut last = None;
    let mut parser = SseParser::new(bytes.len());
    parser.feed(bytes, |event| {
        let Ok(event) = event else { return };
        let response = json::check(event.data).ok().and_then(|data| named(data.get("response")?));
        last = response.or(last.take());
    });
    last
}

/// The history made short without a provider: what the user said, and one item that stands for the rest.
pub(super) fn compacted(echo: &Echo<'_>) -> Bytes {
    let users = echo.said.iter().filter(|entry| entry.role == Role::User).filter_map(Entry::content);
    let mut output: Vec<Value> = users
        .map(|text| {
            json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
        })
        .collect();
    let said = echo.said.iter().filter(|entry| entry.role == Role::Assistant).filter_map(Entry::content);
    let rest: Vec<String> = said.collect();
    output.push(json!({
        "type": "compaction", "id": format!("cmp_{}", echo.id), "encrypted_content": rest.join("\n"),
    }));
    let whole = echo.pieces(ReplyShape::Whole).concat();
    let usage =
        serde_json::from_slice::<Value>(&whole).map(|reply| reply["usage"].clone()).unwrap_or_default();
    let body = json!({
        "id": format!("resp_{}{}", super::echo::OWN_ID, echo.id), "object": "response.compaction",
        "created_at": echo.at, "output": output, "usage": usage,
    });
    Bytes::from(body.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn responses_are_found_in_bodies_and_streams() {
        let body = br#"{"id":"resp_1","object":"response","output":[]}"#;
        assert_eq!(response_in(body).unwrap().0, "resp_1");
        let stream = b"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\",\"status\":\"in_progress\"}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_2\",\"status\":\"completed\"}}\n\n";
        let (id, text) = response_in(stream).unwrap();
        assert_eq!((id.as_str(), text.as_str()), ("resp_2", r#"{"id":"resp_2","status":"completed"}"#));
        assert_eq!(response_in(b"nothing"), None);
    }
}
