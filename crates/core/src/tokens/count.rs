//! Tokens of entries and views: the strings a model reads, plus the constants of the format around them.

use super::{Counter, Detail, IMAGE_HEAD, Tokenizer, data_url_head, image_size, image_tokens};
use crate::block::{Block, BlockKind, Media, MediaKind, MediaSource};
use crate::entry::Entry;

/// Tokens of a request beside its messages and tools: the start of the reply.
pub const OVERHEAD: usize = 3;
/// Tokens of a message beside its texts, and of a call beside its name and arguments.
const PER_MESSAGE: usize = 3;
/// Tokens of a name beside its text.
const PER_NAME: usize = 1;
/// Tokens of media whose size says nothing: sound, video, files that are not text.
const OTHER_MEDIA: usize = 1600;

/// Tokens of a list of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// All of it.
    pub total: usize,
    /// Entry by entry.
    pub per_entry: Vec<usize>,
    /// What a request has beside its entries.
    pub overhead: usize,
    /// How it was counted.
    pub counter: Counter,
}

/// Tokens of one entry. Call ids are not counted; "exact" means exact for the strings and constants counted here.
pub fn entry_tokens(tokenizer: Tokenizer, entry: &Entry) -> usize {
    let author = entry.author.as_ref().map_or(0, |name| PER_NAME + tokenizer.count(&name.as_str()));
    let blocks: usize = entry.blocks.iter().map(|block| block_tokens(tokenizer, block)).sum();
    PER_MESSAGE + tokenizer.count(entry.role.as_str()) + author + blocks
}

fn block_tokens(tokenizer: Tokenizer, block: &Block) -> usize {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Refusal(text) => tokenizer.count(&text.as_str()),
        BlockKind::Reasoning(reasoning) => {
            let texts = reasoning.text.iter().chain(&reasoning.summaries);
            texts.map(|text| tokenizer.count(&text.as_str())).sum()
        }
        BlockKind::ToolCall(call) => {
            PER_MESSAGE + tokenizer.count(&call.name.as_str()) + tokenizer.count(&call.arguments.as_str())
        }
        // Results nest one level deep: their content is texts, media and opaque parts.
        BlockKind::ToolResult(result) => result
            .content
            .iter()
            .map(|inner| match &inner.kind {
                BlockKind::ToolResult(_) => 0,
                _ => block_tokens(tokenizer, inner),
            })
            .sum(),
        BlockKind::Media(media) => media_tokens(media),
        BlockKind::Compaction(raw) | BlockKind::Opaque(raw) => tokenizer.count(raw.as_str()),
    }
}

fn media_tokens(media: &Media) -> usize {
    if media.kind == MediaKind::Image {
        let detail = if media.detail.as_deref() == Some("low") { Detail::Low } else { Detail::High };
        return image_tokens(media.size.or_else(|| inline_size(media)), detail);
    }
    match &media.source {
        Some(MediaSource::Inline(data)) => {
            let data = data.as_str();
            let (mime, encoded) = match data.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
                Some((mime, encoded)) => (mime, encoded),
                None => (media.mime.as_deref().unwrap_or_default(), data.as_ref()),
            };
            if mime.starts_with("text/") { encoded.len() * 3 / 4 / 4 } else { OTHER_MEDIA }
        }
        Some(MediaSource::Text(text)) => text.as_str().len() / 4,
        _ => OTHER_MEDIA,
    }
}

fn inline_size(media: &Media) -> Option<(u32, u32)> {
    let Some(MediaSource::Inline(data)) = &media.source else { return None };
    let data = data.as_str();
    // Some wires hold the bytes without an address in front of them.
    let head = match data_url_head(&data, IMAGE_HEAD) {
        Some((_, head)) => head,
        None => crate::base64::head(&data, IMAGE_HEAD),
    };
    image_size(&head)
}
