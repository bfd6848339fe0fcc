//! What a server answers, as a tool's outcome.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use crate::tool::{ToolOutcome, ToolOutput, shorten};

/// Kinds of images that models take; a request with another would be refused, and so would every later one.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Largest image that models take, in base64.
const LARGEST_IMAGE: usize = 5 << 20;

/// The outcome of a call that the server answered. A text longer than `max_output` loses its middle.
pub(super) fn outcome(result: CallToolResult, max_output: usize) -> ToolOutcome {
    let mut parts: Vec<ContentPart> = result.content.into_iter().map(part).collect();
    let is_text = |part: &ContentPart| matches!(part, ContentPart::Text(_));
    let structured = result.structured_content.filter(|_| !parts.iter().any(is_text));
    let failed = result.is_error == Some(true);
    match structured {
        Some(value) if parts.is_empty() && !failed => return ToolOutcome::Done(ToolOutput::Json(value)),
        Some(value) => parts.insert(0, ContentPart::Text(value.to_string())),
        None => {}
    }
    if parts.iter().all(is_text) || failed {
        let text: Vec<String> = parts.into_iter().filter_map(ContentPart::into_text).collect();
        let text = text.join("\n");
        return match (failed, text.is_empty()) {
            (false, _) => ToolOutcome::Done(ToolOutput::Text(text)),
            (true, false) => ToolOutcome::Failed(text),
            (true, true) => ToolOutcome::Failed("the tool failed and did not say why".into()),
        };
    }
    ToolOutcome::Done(ToolOutput::Parts(parts.into_iter().map(|part| part.into_block(max_output)).collect()))
}

enum ContentPart {
    Text(String),
    Image { kind: String, data: String },
}

impl ContentPart {
    fn into_text(self) -> Option<String> {
        match self {
            ContentPart::Text(text) => Some(text),
            ContentPart::Image { .. } => None,
        }
    }

    fn into_block(self, max_output: usize) -> Value {
        match self {
            ContentPart::Text(text) => {
                json!({ "type": "text", "text": shorten(text.as_bytes(), text.len(), max_output) })
            }
            ContentPart::Image { kind, data } => {
                json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } })
            }
        }
    }
}

fn part(block: ContentBlock) -> ContentPart {
    match block {
        ContentBlock::Text(text) => ContentPart::Text(text.text),
        ContentBlock::Image(image) => bytes("image", image.mime_type, image.data),
        ContentBlock::Audio(audio) => bytes("audio", audio.mime_type, audio.data),
        ContentBlock::ResourceLink(link) => {
            let what = link.description.or(link.title).unwrap_or(link.name);
            ContentPart::Text(format!("[{}: {what}]", link.uri))
        }
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => ContentPart::Text(text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                bytes(&uri, mime_type.unwrap_or_default(), blob)
            }
            _ => unknown(),
        },
        _ => unknown(),
    }
}

fn unknown() -> ContentPart {
    ContentPart::Text("[unknown content type left out]".into())
}

/// An image as it is; of anything else that is no text, only that it was there.
fn bytes(what: &str, kind: String, data: String) -> ContentPart {
    let is_image = IMAGES.contains(&kind.as_str());
    if is_image && data.len() <= LARGEST_IMAGE && is_base64(&data) {
        return ContentPart::Image { kind, data };
    }
    let reason = match (is_image, data.len() > LARGEST_IMAGE) {
        (true, true) => "too large",
        (true, false) => "not base64",
        (false, _) => "not something a model can see",
    };
    let kind = if kind.is_empty() { String::new() } else { format!(" ({kind})") };
    ContentPart::Text(format!("[{what}{kind} was left out: {reason}]"))
}

fn is_base64(data: &str) -> bool {
    !data.is_empty() && STANDARD.decode(data).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn done(result: Value) -> ToolOutcome {
        outcome(serde_json::from_value(result).unwrap(), 1 << 10)
    }

    fn text(text: &str) -> ToolOutcome {
        ToolOutcome::Done(ToolOutput::Text(text.into()))
    }

    #[test]
    fn every_kind_of_content_becomes_something_a_model_can_see() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let block = json!({
            "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" },
        });
        let cases = [
            (json!({ "content": [] }), text("")),
            (
                json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }),
                text("a\nb"),
            ),
            (
                json!({ "content": [], "structuredContent": { "n": 1 } }),
                ToolOutcome::Done(ToolOutput::Json(json!({ "n": 1 }))),
            ),
            (
                json!({ "content": [{ "type": "text", "text": "one" }], "structuredContent": { "n": 1 } }),
                text("one"),
            ),
            (
                json!({ "content": [image], "structuredContent": { "n": 1 } }),
                ToolOutcome::Done(ToolOutput::Parts(vec![
                    json!({ "type": "text", "text": "{\"n\":1}" }),
                    block,
                ])),
            ),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } }] }),
                text("inside"),
            ),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "AAAA" } }] }),
                text("[file:///a.pdf (application/pdf) was left out: not something a model can see]"),
            ),
            (
                json!({ "content": [{ "type": "resource_link", "uri": "file:///a", "name": "a" }] }),
                text("[file:///a: a]"),
            ),
            (
                json!({ "content": [{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }] }),
                text("[audio (audio/wav) was left out: not something a model can see]"),
            ),
            (
                json!({ "content": [{ "type": "image", "data": "A!", "mimeType": "image/png" }] }),
                text("[image (image/png) was left out: not base64]"),
            ),
            (
                json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true }),
                ToolOutcome::Failed("no such file".into()),
            ),
            (
                json!({ "content": [], "structuredContent": { "code": 4 }, "isError": true }),
                ToolOutcome::Failed("{\"code\":4}".into()),
            ),
            (
                json!({ "content": [], "isError": true }),
                ToolOutcome::Failed("the tool failed and did not say why".into()),
            ),
        ];
        for (given, wanted) in cases {
            assert_eq!(done(given.clone()), wanted, "{given}");
        }
    }
}
