//! Pictures that were said: only those whose bytes are in the record, and only of kinds that cannot run anything. Nothing is fetched.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use scrollback_core::{BlockKind, Entry, Media, MediaKind, MediaSource, Slot};
use scrollback_store::ConversationId;

use super::viewer::Viewer;
use crate::HttpProblem;

/// Clients pad as they like.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A picture is told by its first bytes, whatever its sender says it is.
const KINDS: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// The pictures and files of an entry in their order, those in tool results included.
pub(crate) fn media_of(entry: &Entry) -> Vec<&Media> {
    let mut all = Vec::new();
    for block in &entry.blocks {
        match &block.kind {
            BlockKind::Media(media) => all.push(&**media),
            BlockKind::ToolResult(result) => {
                for part in &result.content {
                    if let BlockKind::Media(media) = &part.kind {
                        all.push(&**media);
                    }
                }
            }
            _ => {}
        }
    }
    all
}

/// Whether a picture can be drawn.
pub(crate) fn is_drawn(media: &Media) -> bool {
    base64_of(media)
        .and_then(|text| BASE64.decode(text.get(..24)?).ok())
        .is_some_and(|bytes| kind(&bytes).is_some())
}

fn base64_of(media: &Media) -> Option<String> {
    let Some(MediaSource::Inline(text)) = &media.source else { return None };
    if media.kind != MediaKind::Image {
        return None;
    }
    let text = text.as_str();
    let bare = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,")?.1,
        None => &text,
    };
    Some(bare.to_string())
}

fn kind(bytes: &[u8]) -> Option<&'static str> {
    KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind)
}

/// The bytes of a picture with its kind.
fn picture(media: &Media) -> Option<(&'static str, Vec<u8>)> {
    let bytes = BASE64.decode(base64_of(media)?.trim()).ok()?;
    Some((kind(&bytes)?, bytes))
}

/// A picture of an entry, by its place among the entry's pictures and files.
pub(crate) async fn show(
    viewer: Viewer,
    Path((id, position, number)): Path<(String, u64, usize)>,
) -> Response {
    let found = async {
        let unknown = || HttpProblem::not_found("picture");
        let id = ConversationId::parse(&id).ok_or_else(unknown)?;
        let below = position.saturating_add(1);
        let places = viewer.store().entries(viewer.tenant(), &id, position, below).await?;
        let Some(Slot::Message(entry)) = places.first().map(|placed| &placed.slot) else {
            return Err(unknown());
        };
        media_of(entry).get(number).and_then(|media| picture(media)).ok_or_else(unknown)
    };
    match found.await {
        Ok((kind, bytes)) => {
            let mut response = bytes.into_response();
            let headers = response.headers_mut();
            let tell = HeaderValue::from_static;
            headers.insert(header::CONTENT_TYPE, tell(kind));
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, tell("nosniff"));
            headers.insert(header::CONTENT_SECURITY_POLICY, tell("default-src 'none'; sandbox"));
            headers.insert("cross-origin-resource-policy", tell("same-origin"));
            // What was said at a place never changes, unless it is erased.
            headers.insert(header::CACHE_CONTROL, tell("private, max-age=300"));
            response
        }
        Err(problem) => viewer.answer(Err(problem)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::json;
    use scrollback_core::wire::Wire;

    fn said(url: &str) -> Entry {
        let message = serde_json::json!({ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": url } }] });
        Wire::OpenaiChat.read_message(json::check(&message.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn only_pictures_that_are_pictures_are_drawn() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        for (url, drawn) in [
            (format!("data:image/png;base64,{png}"), true),
            // What it says it is does not matter.
            (format!("data:image/svg+xml;base64,{png}"), true),
            ("data:image/png;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+".into(), false),
            ("data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+".into(), false),
            ("data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==".into(), false),
            ("https://a.example/pixel.png".into(), false),
            ("data:image/png;base64,\u{e9}\u{e9}".into(), false),
        ] {
            let entry = said(&url);
            let media = media_of(&entry);
            assert_eq!(media.iter().any(|media| is_drawn(media)), drawn, "{url}");
            assert_eq!(media.first().and_then(|media| picture(media)).is_some(), drawn, "{url}");
        }
    }
}
