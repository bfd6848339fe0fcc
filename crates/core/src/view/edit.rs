//! Rewriting of tool results, described once and applied to an entry when somebody looks at it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::block::{Block, BlockKind};
use crate::entry::{ContentState, Entry};
use crate::manager::truncate::{Keep, truncate};
use crate::ranges::Ranges;
use crate::text::Text;

/// What happens to the texts of a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rewrite {
    /// Long texts are shortened.
    Truncate { max_length: usize, suffix: Arc<str>, keep: Keep },
    /// The content becomes a placeholder, if that is shorter.
    Clear { placeholder: Arc<str> },
}

impl Rewrite {
    /// The rewritten entry; none when it stays as it is.
    pub(crate) fn apply(&self, entry: &Entry) -> Option<Entry> {
        let result = entry.tool_result()?;
        let (content, state): (Box<[Block]>, _) = match self {
            Rewrite::Clear { placeholder } => {
                let text: usize = entry.chars();
                if text <= placeholder.chars().count() {
                    return None;
                }
                (Box::from([Block::text(placeholder)]), ContentState::Text)
            }
            Rewrite::Truncate { max_length, suffix, keep } => {
                let mut changed = false;
                let content = result
                    .content
                    .iter()
                    .map(|block| {
                        let BlockKind::Text(text) = &block.kind else { return block.clone() };
                        match truncate(&text.as_str(), *max_length, suffix, *keep) {
                            Some(short) => {
                                changed = true;
                                Block { kind: BlockKind::Text(Text::from(short.as_str())), ..block.clone() }
                            }
                            None => block.clone(),
                        }
                    })
                    .collect();
                if !changed {
                    return None;
                }
                (content, entry.content_state)
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

    pub(crate) fn reason(&self) -> super::Reason {
        match self {
            Rewrite::Truncate { .. } => super::Reason::Truncated,
            Rewrite::Clear { .. } => super::Reason::Cleared,
        }
    }
}

/// Which results an edit reaches.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// All results of groups outside `exempt`.
    All { exempt: Ranges },
    /// Results before `mark`, of tools that are not excluded, outside `exempt`.
    Before { mark: Mark, exclude_tools: Arc<[String]>, exempt: Ranges },
    /// The result it is recorded for.
    Decided,
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
    pub(crate) reach: Reach,
    pub(crate) manager: &'static str,
    /// The decision that asked for it, if one did.
    pub(crate) by: Option<u64>,
    /// Stands for the rewrite in keys of remembered counts.
    pub(crate) signature: u64,
}

impl Edit {
    pub(crate) fn new(rewrite: Rewrite, reach: Reach, manager: &'static str) -> Self {
        let signature = signature(&rewrite);
        Edit { rewrite, reach, manager, by: None, signature }
    }

    /// A rewriting that was recorded at position `at`.
    pub(crate) fn decided(rewrite: Rewrite, manager: &'static str, at: u64) -> Self {
        Edit { by: Some(at), ..Edit::new(rewrite, Reach::Decided, manager) }
    }
}

/// The same number for equal values, on every machine and in every run.
pub(crate) fn signature(value: &impl Hash) -> u64 {
    // `DefaultHasher::new` has fixed keys, unlike the hasher of a `HashMap`.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
