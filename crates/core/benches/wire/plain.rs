//! What a program without us does with the same bytes: `serde_json`, into its tree of values or into types.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Fallible;

/// A body read into a tree and printed again.
pub(crate) fn tree(body: &str) -> Fallible<String> {
    Ok(serde_json::to_string(&serde_json::from_str::<Value>(body)?)?)
}

/// A body of `openai-chat` read into types as an SDK has them, and printed again. What the types do not name is lost.
pub(crate) fn typed(body: &str) -> Fallible<String> {
    Ok(serde_json::to_string(&serde_json::from_str::<Request>(body)?)?)
}

/// The text of an Anthropic stream, put together from its events.
pub(crate) fn streamed_text(stream: &[u8]) -> Fallible<String> {
    let mut text = String::new();
    for line in std::str::from_utf8(stream)?.lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data)?;
        text.push_str(event["delta"]["text"].as_str().unwrap_or_default());
    }
    Ok(text)
}

/// Every line of a text, or all of it, as a tree; how many there were.
pub(crate) fn values(text: &str) -> Fallible<usize> {
    let mut count = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        std::hint::black_box(value?);
        count += 1;
    }
    Ok(count)
}

#[derive(Deserialize, Serialize)]
struct Request {
    messages: Vec<Message>,
}

#[derive(Deserialize, Serialize)]
struct Message {
    role: String,
    content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Call>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Value>),
}

#[derive(Deserialize, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Deserialize, Serialize)]
struct Function {
    name: String,
    arguments: String,
}
