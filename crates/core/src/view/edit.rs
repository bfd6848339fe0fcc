//! Rewriting of tool results, described once and applied to an entry when it is read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::block::{Block, BlockKind, Media, MediaSource};
use crate::entry::{ContentState, Entry, Role};
use crate::manager::truncate::{DEFAULT_SUFFIX, Keep, truncate};
use crate::ranges::Ranges;
use crate::recall::Handle;
use crate::text::Text;

/// What happens to the texts of a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rewrite {
    /// Long texts are shortened.
    Truncate { max_length: usize, suffix: Arc<str>, keep: Keep },
    /// The content becomes a placeholder, if that is shorter.
    Clear { placeholder: Arc<str> },
    /// The content becomes a note that the provider cleared it, if that is shorter.
    ByProvider,
    /// The content becomes what the client sent back in its place, if that is shorter.
    Echo { text: Arc<str> },
}

impl Rewrite {
    /// What a recorded `truncate` does to a text.
    pub(crate) fn truncate_to(max_length: usize, keep: Keep) -> Self {
        Rewrite::Truncate { max_length, suffix: DEFAULT_SUFFIX.into(), keep }
    }

    /// The same where the model can read what is left out: the placeholder then says how much that is, and its handle.
    pub(crate) fn apply_with(&self, entry: &Entry, handle: Option<&Handle>) -> Option<Entry> {
        match (self, handle) {
            (Rewrite::Clear { .. }, Some(handle)) => {
                let lines = entry.content().map_or(0, |text| text.lines().count());
                let lines = if lines == 1 { "1 line".into() } else { format!("{lines} lines") };
                let placeholder = format!("[result left out: {lines}, read {handle}]").into();
                Rewrite::Clear { placeholder }.apply(entry)
            }
            (Rewrite::ByProvider, Some(handle)) => {
                let placeholder = format!("[cleared by the provider, read {handle}]").into();
                Rewrite::Clear { placeholder }.apply(entry)
            }
            (Rewrite::Truncate { max_length, suffix, keep }, Some(handle)) => {
                let suffix: Arc<str> = match &**suffix {
                    DEFAULT_SUFFIX => format!("\n... [truncated, read {handle}]").into(),
                    own => format!("{own} [read {handle}]").into(),
                };
                Rewrite::Truncate { max_length: *max_length, suffix, keep: *keep }.apply(entry)
            }
            _ => self.apply(entry),
        }
    }

    /// The rewritten entry; none when it stays as it is.
    pub(crate) fn apply(&self, entry: &Entry) -> Option<Entry> {
        if entry.role == Role::User {
            return self.apply_to_user(entry);
        }
        let result = entry.tool_result()?;
        let (content, state): (Box<[Block]>, _) = match self {
            Rewrite::Clear { placeholder } | Rewrite::Echo { text: placeholder } => {
                (instead(entry, placeholder)?, ContentState::Text)
            }
            Rewrite::ByProvider => (instead(entry, CLEARED_BY_PROVIDER)?, ContentState::Text),
            Rewrite::Truncate { max_length, suffix, keep } => {
                let shorten = |text: &str| truncate(text, *max_length, suffix, *keep);
                (shortened_texts(&result.content, shorten)?, entry.content_state)
            }
        };
        let mut rewritten = entry.clone();
        rewritten.content_state = state;
        for block in &mut *rewritten.blocks {
            if let BlockKind::ToolResult(result) = &mut block.kind {
                result.content = content;
                break;
            }
        }
        Some(rewritten)
    }

    /// The same for what a user said: long texts, documents among them, are shortened. Nothing of it is ever cleared.
    fn apply_to_user(&self, entry: &Entry) -> Option<Entry> {
        let Rewrite::Truncate { max_length, suffix, keep } = self else { return None };
        let blocks = shortened_texts(&entry.blocks, |text| truncate(text, *max_length, suffix, *keep))?;
        Some(Entry { blocks, ..entry.clone() })
    }

    pub(crate) fn reason(&self) -> super::Reason {
        match self {
            Rewrite::Truncate { .. } => super::Reason::Truncated,
            Rewrite::Clear { .. } => super::Reason::Cleared,
            Rewrite::Echo { .. } => super::Reason::ChangedByClient,
            Rewrite::ByProvider => super::Reason::ClearedByProvider,
        }
    }
}

/// What stands for a result that a provider cleared.
const CLEARED_BY_PROVIDER: &str = "[cleared by the provider]";

/// A text in the place of a result; none if that would not be shorter.
fn instead(entry: &Entry, text: &str) -> Option<Box<[Block]>> {
    (entry.chars() > text.chars().count()).then(|| Box::from([Block::text(text)]))
}

/// Blocks with their long texts shortened; none if all of them stay as they are.
fn shortened_texts(blocks: &[Block], shorten: impl Fn(&str) -> Option<String>) -> Option<Box<[Block]>> {
    let mut changed = false;
    let mut rewrite = |block: &Block| {
        let kind = match &block.kind {
            BlockKind::Text(text) => {
                shorten(&text.as_str()).map(|short| BlockKind::Text(Text::from(short.as_str())))
            }
            BlockKind::Media(media) => match &media.source {
                Some(MediaSource::Text(text)) => shorten(&text.as_str()).map(|short| {
                    let source = Some(MediaSource::Text(Text::from(short.as_str())));
                    BlockKind::Media(Box::new(Media { source, ..Media::clone(media) }))
                }),
                _ => None,
            },
            _ => None,
        };
        changed |= kind.is_some();
        kind.map_or_else(|| block.clone(), |kind| Block { kind, ..block.clone() })
    };
    let blocks: Box<[Block]> = blocks.iter().map(&mut rewrite).collect();
    changed.then_some(blocks)
}

/// Which entries an edit reaches.
#[derive(Clone, Debug)]
pub(crate) enum EditScope {
    /// All results of groups outside `exempt`.
    All { exempt: Ranges },
    /// Results before `mark`, of tools that are not excluded, outside `exempt`.
    Before { mark: Mark, exclude_tools: Arc<[String]>, exempt: Ranges },
    /// The result it is recorded for.
    Decided,
    /// The entries at these positions: results, or what a user said.
    Listed(Ranges),
}

/// A place among the results of a view: result number `result` of `group`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mark {
    pub(crate) group: u32,
    pub(crate) result: u32,
}

/// One rewriting of a view, named for the explanation.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) rewrite: Rewrite,
    pub(crate) reach: EditScope,
    pub(crate) manager: &'static str,
    /// The decision that asked for it, if one did.
    pub(crate) by: Option<u64>,
    /// Stands for the rewrite in keys of remembered counts.
    pub(crate) signature: u64,
}

impl Edit {
    pub(crate) fn new(rewrite: Rewrite, reach: EditScope, manager: &'static str) -> Self {
        let signature = signature(&rewrite);
        Edit { rewrite, reach, manager, by: None, signature }
    }

    /// A rewriting that was recorded at position `at`.
    pub(crate) fn decided(rewrite: Rewrite, manager: &'static str, at: u64) -> Self {
        Edit { by: Some(at), ..Edit::new(rewrite, EditScope::Decided, manager) }
    }
}

/// The same number for equal values, on every machine and in every run.
pub(crate) fn signature(value: &impl Hash) -> u64 {
    // `DefaultHasher::new` has fixed keys, unlike the hasher of a `HashMap`.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
