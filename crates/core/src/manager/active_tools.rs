use serde_json::{Value, json};

use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::view::{Reason, View};

/// Drops groups of tools that are no longer on offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveTools {
    /// The tools on offer; if none are given, those of the context.
    pub tools: Option<Vec<String>>,
}

impl HistoryManager for ActiveTools {
    fn name(&self) -> &'static str {
        "active_tools"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let Some(offered) = self.tools.as_deref().or(cx.tools.as_ref().map(crate::context::Tools::names))
        else {
            view.warn("no_tool_list", None);
            return Ok(view);
        };
        let inactive: Vec<u32> = view
            .groups()
            .filter(|(_, group)| group.has_calls())
            .filter(|(_, group)| {
                let opening = view.record().entry(group.first.into());
                !opening.is_some_and(|entry| {
                    entry.open_calls().any(|call| offered.iter().any(|name| call.name == **name))
                })
            })
            .map(|(index, _)| index)
            .collect();
        let keep = view.body().minus(&Ranges::of(inactive));
        view.keep(&keep, self.name(), Reason::InactiveTool);
        Ok(view)
    }

    fn config(&self) -> Value {
        config_of(self.name(), json!({ "tools": self.tools }))
    }
}
