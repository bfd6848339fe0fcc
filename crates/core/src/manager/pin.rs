use serde_json::{Value, json};

use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::entry::{Entry, Role};
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::record::groups::Group;
use crate::view::View;

/// Protects groups from every later manager. What an earlier one dropped stays dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pin {
    /// The groups that hold this many entries at the start of the body.
    pub first: usize,
    /// The groups that hold this many entries at its end.
    pub last: usize,
    /// The groups with an entry like this.
    pub matching: Option<Where>,
}

/// What an entry must be like, in every point that is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Where {
    /// Its role.
    pub role: Option<Role>,
    /// A tool it calls, or whose result it is.
    pub tool: Option<String>,
    /// A text in it.
    pub contains: Option<String>,
}

impl Where {
    fn meets(&self, entry: &Entry, tool: Option<&String>) -> bool {
        self.role.is_none_or(|role| role == entry.role)
            && self.tool.as_ref().is_none_or(|wanted| {
                tool == Some(wanted) || entry.tool_calls().any(|call| call.name == **wanted)
            })
            && self
                .contains
                .as_ref()
                .is_none_or(|wanted| entry.texts().any(|text| text.as_str().contains(wanted.as_str())))
    }

    fn meets_group(&self, view: &View<'_>, index: u32, group: &Group) -> bool {
        let tools = if self.tool.is_some() { view.record().result_tools(group) } else { Vec::new() };
        // The opening entry comes first, then the results in the order of their tools.
        let tools = std::iter::once(None).chain(tools.iter().map(Some)).chain(std::iter::repeat(None));
        view.group_items(index).iter().zip(tools).any(|(item, tool)| self.meets(&item.entry, tool))
    }
}

impl HistoryManager for Pin {
    fn name(&self) -> &'static str {
        "pin"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let mut pinned = covering(self.first, view.groups());
        pinned.extend(covering(self.last, view.groups().rev()));
        if let Some(wanted) = &self.matching {
            pinned.extend(
                view.groups()
                    .filter(|(index, group)| wanted.meets_group(&view, *index, group))
                    .map(|(index, _)| index),
            );
        }
        view.pin(&Ranges::of(pinned));
        Ok(view)
    }

    fn config(&self) -> Value {
        let matching = self.matching.as_ref().map(|wanted| {
            let mut options =
                json!({ "role": wanted.role, "tool": wanted.tool, "contains": wanted.contains });
            if let Some(options) = options.as_object_mut() {
                options.retain(|_, value| !value.is_null());
            }
            options
        });
        config_of(self.name(), json!({ "first": self.first, "last": self.last, "where": matching }))
    }
}

/// The fewest groups from the front of `groups` that hold `entries` entries.
fn covering<'g>(entries: usize, groups: impl Iterator<Item = (u32, &'g Group)>) -> Vec<u32> {
    let mut held = 0;
    groups
        .map_while(|(index, group)| {
            let wanted = held < entries;
            held += group.len();
            wanted.then_some(index)
        })
        .collect()
}
