//! Images, sounds and files across wires.

use super::{Cx, formats, quote};
use crate::base64;
use crate::block::{Block, Media, MediaKind, MediaSource};
use crate::entry::Entry;

/// Bytes that travel in the message itself.
struct Inline {
    mime: String,
    base64: String,
}

/// Where the bytes are, in a form every wire can be printed from.
enum MediaBytes {
    Inline(Inline),
    Url(String),
}

fn place(media: &Media) -> Option<MediaBytes> {
    match media.source.as_ref()? {
        MediaSource::Inline(text) => {
            let text = text.as_str();
            let url = text.strip_prefix("data:").and_then(|rest| rest.split_once(','));
            Some(MediaBytes::Inline(match url {
                Some((head, data)) => match head.strip_suffix(";base64") {
                    Some(mime) => Inline { mime: mime.into(), base64: data.into() },
                    None => Inline { mime: head.into(), base64: base64::encode(&unescape_url(data)) },
                },
                None => Inline { mime: mime(media), base64: text.into_owned() },
            }))
        }
        MediaSource::Text(text) => {
            let mime = media.mime.clone().unwrap_or_else(|| "text/plain".into());
            Some(MediaBytes::Inline(Inline { mime, base64: base64::encode(text.as_str().as_bytes()) }))
        }
        MediaSource::Url(url) => Some(MediaBytes::Url(url.as_str().into_owned())),
        MediaSource::File(_) => None,
    }
}

/// The bytes of a URL's text, `%` and two digits standing for one.
fn unescape_url(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut out: Vec<u8> = pieces.next().unwrap_or_default().into();
    for piece in pieces {
        let meant = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some((byte, rest)) = meant.zip(piece.get(2..)) {
            out.push(byte);
            out.extend(rest.bytes());
        } else {
            out.push(b'%');
            out.extend(piece.bytes());
        }
    }
    out
}

/// The type as stated, else the most likely one.
fn mime(media: &Media) -> String {
    let likely = match media.kind {
        MediaKind::Image => "image/png",
        MediaKind::Audio => "audio/wav",
        MediaKind::Video => "video/mp4",
        MediaKind::Document => "application/pdf",
    };
    media.mime.clone().unwrap_or_else(|| likely.into())
}

impl Cx<'_> {
    /// Notes media that cannot be held.
    fn lose_media(&mut self, media: &Media, block: &Block, entry: &Entry) -> Option<String> {
        let what = match media.kind {
            MediaKind::Image => "image",
            MediaKind::Audio => "audio",
            MediaKind::Video => "video",
            MediaKind::Document => "document",
        };
        let reason = match media.source {
            Some(MediaSource::File(_)) => "files stored at one provider cannot be read by another",
            _ => "the other format cannot hold it here",
        };
        self.lose(entry, Some(block), what, reason);
        None
    }

    /// Notes reasoning, which never crosses providers.
    pub(super) fn lose_reasoning(&mut self, entry: &Entry, block: &Block) -> Option<String> {
        self.lose(entry, Some(block), "reasoning", "reasoning cannot be replayed to another provider");
        None
    }

    /// Notes a block only its own wire understands.
    pub(super) fn lose_opaque(&mut self, entry: &Entry, block: &Block) -> Option<String> {
        let named = block
            .raw
            .as_ref()
            .and_then(|raw| raw.raw().get("type")?.string().map(std::borrow::Cow::into_owned));
        let what = named.unwrap_or_else(|| "block".into());
        self.lose(entry, Some(block), &what, "only its own provider understands it");
        None
    }

    fn lose_detail(&mut self, media: &Media, block: &Block, entry: &Entry) {
        if media.detail.as_deref().is_some_and(|detail| detail != "auto") {
            self.lose(entry, Some(block), "detail", "the other format has no such setting");
        }
    }
}

pub(super) fn anthropic(media: &Media, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    let source = match (media.kind, place(media)) {
        (MediaKind::Image, Some(MediaBytes::Inline(inline))) => formats::image(&inline.mime)
            .map(|format| base64_source(&format!("image/{format}"), &inline.base64)),
        (MediaKind::Document, Some(MediaBytes::Inline(inline))) => document_source(&inline),
        (MediaKind::Image | MediaKind::Document, Some(MediaBytes::Url(url))) => {
            Some(format!("{{\"type\":\"url\",\"url\":{}}}", quote(&url)))
        }
        _ => None,
    };
    let Some(source) = source else { return cx.lose_media(media, block, entry) };
    cx.lose_detail(media, block, entry);
    if media.kind == MediaKind::Image {
        return Some(format!("{{\"type\":\"image\",\"source\":{source}}}"));
    }
    let title = media.name.as_ref().map_or_else(String::new, |name| format!(",\"title\":{}", name.json()));
    Some(format!("{{\"type\":\"document\",\"source\":{source}{title}}}"))
}

fn base64_source(mime: &str, data: &str) -> String {
    format!("{{\"type\":\"base64\",\"media_type\":{},\"data\":{}}}", quote(mime), quote(data))
}

/// Anthropic takes PDF as bytes and every kind of text as text.
fn document_source(inline: &Inline) -> Option<String> {
    if formats::is_pdf(&inline.mime) {
        return Some(base64_source("application/pdf", &inline.base64));
    }
    let bytes = formats::is_text(&inline.mime).then(|| base64::decode(&inline.base64)).flatten()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(format!("{{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":{}}}", quote(&text)))
}

pub(super) fn gemini(media: &Media, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    let part = match place(media) {
        Some(MediaBytes::Inline(inline)) => format!(
            "{{\"inlineData\":{{\"mimeType\":{},\"data\":{}}}}}",
            quote(&inline.mime),
            quote(&inline.base64)
        ),
        Some(MediaBytes::Url(url)) => {
            format!("{{\"fileData\":{{\"mimeType\":{},\"fileUri\":{}}}}}", quote(&mime(media)), quote(&url))
        }
        None => return cx.lose_media(media, block, entry),
    };
    cx.lose_detail(media, block, entry);
    cx.lose_name(entry, block, media.name.is_none());
    Some(part)
}

pub(super) fn bedrock(media: &Media, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    let spoken_by_user = entry.role != crate::entry::Role::Assistant;
    let Some(MediaBytes::Inline(inline)) = place(media).filter(|_| spoken_by_user) else {
        return cx.lose_media(media, block, entry);
    };
    let (word, format) = match media.kind {
        MediaKind::Image => ("image", formats::image(&inline.mime)),
        MediaKind::Video => ("video", formats::video(&inline.mime)),
        MediaKind::Document => ("document", formats::document(&inline.mime)),
        MediaKind::Audio => ("audio", None),
    };
    let Some(format) = format else { return cx.lose_media(media, block, entry) };
    cx.lose_detail(media, block, entry);
    let name = if media.kind == MediaKind::Document {
        format!("\"name\":{},", quote(&document_name(media, &inline, block, entry, cx)))
    } else {
        String::new()
    };
    let bytes = quote(&inline.base64);
    Some(format!("{{\"{word}\":{{\"format\":\"{format}\",{name}\"source\":{{\"bytes\":{bytes}}}}}}}"))
}

/// A document's name with only the characters the wire takes, and unlike any other in the request.
fn document_name(media: &Media, inline: &Inline, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let given = media.name.as_ref().map(|name| name.as_str().into_owned());
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | ' ' | '(' | ')' | '[' | ']');
    let mut name: String = given.as_deref().unwrap_or("document").chars().filter(allowed).take(150).collect();
    while name.contains("  ") {
        name = name.replace("  ", " ");
    }
    if name.trim().is_empty() {
        name = "document".into();
    }
    if cx.documents.contains(&name) {
        let hash = blake3::hash(inline.base64.as_bytes()).to_hex();
        name = format!("{name}-{}-{}", hash.get(..8).unwrap_or_default(), cx.documents.len());
    }
    cx.documents.insert(name.clone());
    cx.lose_name(entry, block, given.is_none_or(|given| given == name));
    name
}

pub(super) fn openai_chat(media: &Media, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    let place = place(media);
    match (media.kind, place) {
        (MediaKind::Image, Some(MediaBytes::Inline(inline))) => Some(format!(
            "{{\"type\":\"image_url\",\"image_url\":{{\"url\":{}{}}}}}",
            quote(&data_url(&inline)),
            detail(media)
        )),
        (MediaKind::Image, Some(MediaBytes::Url(url))) => Some(format!(
            "{{\"type\":\"image_url\",\"image_url\":{{\"url\":{}{}}}}}",
            quote(&url),
            detail(media)
        )),
        (MediaKind::Audio, Some(MediaBytes::Inline(inline))) => {
            let Some(format) = formats::audio(&inline.mime) else {
                return cx.lose_media(media, block, entry);
            };
            let data = quote(&inline.base64);
            Some(format!(
                "{{\"type\":\"input_audio\",\"input_audio\":{{\"data\":{data},\"format\":\"{format}\"}}}}"
            ))
        }
        (MediaKind::Document, Some(MediaBytes::Inline(inline))) => Some(format!(
            "{{\"type\":\"file\",\"file\":{{\"filename\":{},\"file_data\":{}}}}}",
            quote(&file_name(media, &inline)),
            quote(&data_url(&inline))
        )),
        _ => cx.lose_media(media, block, entry),
    }
}

pub(super) fn openai_responses(
    media: &Media,
    block: &Block,
    entry: &Entry,
    cx: &mut Cx<'_>,
) -> Option<String> {
    match (media.kind, place(media)) {
        (MediaKind::Image, Some(place)) => {
            let url = match place {
                MediaBytes::Inline(inline) => data_url(&inline),
                MediaBytes::Url(url) => url,
            };
            // The setting may be left out on the wire, but not by the types of the provider's own package.
            let detail = quote(media.detail.as_deref().unwrap_or("auto"));
            Some(format!("{{\"type\":\"input_image\",\"image_url\":{},\"detail\":{detail}}}", quote(&url)))
        }
        (MediaKind::Document, Some(MediaBytes::Inline(inline))) => Some(format!(
            "{{\"type\":\"input_file\",\"filename\":{},\"file_data\":{}}}",
            quote(&file_name(media, &inline)),
            quote(&data_url(&inline))
        )),
        (MediaKind::Document, Some(MediaBytes::Url(url))) => {
            cx.lose_name(entry, block, media.name.is_none());
            Some(format!("{{\"type\":\"input_file\",\"file_url\":{}}}", quote(&url)))
        }
        _ => cx.lose_media(media, block, entry),
    }
}

/// The file's name, or one with the ending of its type.
fn file_name(media: &Media, inline: &Inline) -> String {
    match &media.name {
        Some(name) => name.as_str().into_owned(),
        None => format!("document.{}", formats::document(&inline.mime).unwrap_or("bin")),
    }
}

fn data_url(inline: &Inline) -> String {
    format!("data:{};base64,{}", inline.mime, inline.base64)
}

fn detail(media: &Media) -> String {
    media.detail.as_ref().map_or_else(String::new, |detail| format!(",\"detail\":{}", quote(detail)))
}
