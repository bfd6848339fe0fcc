use std::sync::Arc;

use serde_json::{Value, json};

use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::View;
use crate::view::edit::{Edit, EditScope, Mark, Rewrite};

/// Old tool results show a short placeholder; calls, and what the tools of the task answered, stay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClearToolResults {
    /// Newest results that stay whole.
    pub keep_recent: usize,
    /// Tools whose results are never cleared, nor counted.
    pub exclude_tools: Vec<String>,
    /// What a cleared result shows.
    pub placeholder: String,
}

impl Default for ClearToolResults {
    fn default() -> Self {
        ClearToolResults {
            keep_recent: 3,
            exclude_tools: Vec::new(),
            placeholder: "[tool result cleared]".into(),
        }
    }
}

impl ClearToolResults {
    /// Clears every eligible result before `mark`.
    pub(crate) fn clear_before(&self, view: &mut View<'_>, mark: Mark) {
        if mark == Mark::default() {
            return;
        }
        let rewrite = Rewrite::Clear { placeholder: self.placeholder.as_str().into() };
        let exempt = view.pinned().union(view.task()).union(view.owed());
        let exclude_tools: Arc<[String]> = self.exclude_tools.clone().into();
        view.edit(Edit::new(
            rewrite,
            EditScope::Before { mark, exclude_tools, exempt },
            "clear_tool_results",
        ));
    }

    /// The results of a group that count, as numbers within it.
    pub(crate) fn eligible(&self, view: &View<'_>, index: u32) -> Vec<u32> {
        let Some(group) = view.group(index).filter(|_| !view.pinned().contains(index)) else {
            return Vec::new();
        };
        if self.exclude_tools.is_empty() {
            return (0..group.calls).collect();
        }
        let tools = view.record().result_tools(group);
        (0..)
            .zip(tools)
            .filter(|(_, tool)| !self.exclude_tools.contains(tool))
            .map(|(result, _)| result)
            .collect()
    }
}

impl HistoryManager for ClearToolResults {
    fn name(&self) -> &'static str {
        "clear_tool_results"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let mut left = self.keep_recent;
        let mut mark = None;
        let tool_groups = view.groups().rev().filter(|(_, group)| group.has_calls()).map(|(index, _)| index);
        'walk: for index in tool_groups {
            for result in self.eligible(&view, index).into_iter().rev() {
                if left == 0 {
                    mark = Some(Mark { group: index, result: result + 1 });
                    break 'walk;
                }
                left -= 1;
            }
        }
        if let Some(mark) = mark {
            self.clear_before(&mut view, mark);
        }
        Ok(view)
    }

    fn config(&self) -> Value {
        let options = json!({ "keep_recent": self.keep_recent, "exclude_tools": self.exclude_tools, "placeholder": self.placeholder });
        config_of(self.name(), options)
    }
}
