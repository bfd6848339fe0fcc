//! What requests need wherever a cut lies: changes of tools, the newest instructions given in the middle, what the client says
//! about its surroundings, and the provider's own compaction.
//!
//! All of it is found when an entry is appended, so that a view need not look for it. It holds for requests on the wire that
//! the entries came on: other wires have no place for it.

use std::collections::BTreeMap;

use crate::block::BlockKind;
use crate::entry::{Entry, Role};
use crate::json::{JsonKind, Raw};
use crate::ranges::Ranges;
use crate::wire::Wire;

/// Texts of clients about their surroundings, by tag: the newest of each says how things are.
const SURROUNDINGS: [&str; 5] = [
    "environment_context",
    "user_instructions",
    "permissions instructions",
    "INSTRUCTIONS",
    "session_context",
];

/// Kinds of entries of which the newest stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Notice {
    /// A system message in the middle of the conversation.
    System,
    /// The same under the name that newer models have for it.
    Developer,
    /// A change of settings: `configuration_update`.
    Configuration,
    /// What a client says about its surroundings, by the place of its tag in the table.
    Surroundings(usize),
}

/// A group, and the wire it came on.
type GroupOnWire = (Wire, u32);

/// Where the entries of a record stand that requests need.
#[derive(Debug, Default)]
pub(crate) struct RequestPositions {
    /// Whether anything but instructions was said.
    begun: bool,
    tool_changes: Vec<GroupOnWire>,
    notices: BTreeMap<Notice, Vec<GroupOnWire>>,
    compactions: Vec<GroupOnWire>,
}

impl RequestPositions {
    /// Takes in an entry that was appended as part of a group.
    pub(crate) fn push(&mut self, group: u32, entry: &Entry) {
        let place = (entry.origin.wire, group);
        self.begun |= entry.role != Role::System;
        match entry.role {
            Role::System if !self.begun || entry.is_lead() => {}
            Role::System if changes_tools(entry) => self.tool_changes.push(place),
            Role::System => self.notices.entry(instructions(entry)).or_default().push(place),
            Role::User => {
                if let Some(tag) = surroundings(entry) {
                    self.notices.entry(Notice::Surroundings(tag)).or_default().push(place);
                }
            }
            Role::Assistant | Role::Tool => {}
        }
        if entry.role != Role::Tool && is_compaction(entry) {
            self.compactions.push(place);
        }
    }

    /// The groups that stay in every view for a wire: all changes of tools, and the newest notice of each kind.
    pub(crate) fn pins(&self, wire: Option<Wire>) -> Ranges {
        self.pins_before(wire, u32::MAX)
    }

    /// The same among the groups before a cut. What comes later changes nothing about them, so a view stays a prefix of the
    /// next.
    pub(crate) fn pins_before(&self, wire: Option<Wire>, cut: u32) -> Ranges {
        let Some(wire) = wire else { return Ranges::default() };
        if self.tool_changes.is_empty() && self.notices.is_empty() {
            return Ranges::default();
        }
        let here = |place: &&GroupOnWire| place.0 == wire && place.1 < cut;
        let newest = self.notices.values().filter_map(|places| places.iter().rev().find(here));
        let mut groups: Vec<u32> =
            self.tool_changes.iter().filter(here).chain(newest).map(|(_, group)| *group).collect();
        groups.sort_unstable();
        groups.dedup();
        Ranges::of(groups)
    }

    /// The group of the newest compaction that a provider on this wire can read. What lies before it may be left out, and
    /// nothing after it.
    pub(crate) fn boundary(&self, wire: Option<Wire>) -> Option<u32> {
        let newest = self.compactions.iter().rev().find(|place| Some(place.0) == wire)?;
        Some(newest.1)
    }
}

/// Whether a message adds or removes tools.
pub(crate) fn changes_tools(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| match &block.kind {
        BlockKind::Opaque(raw) => {
            matches!(
                word(raw.raw(), "type").as_deref(),
                Some("tool_addition" | "tool_removal" | "additional_tools")
            )
        }
        _ => false,
    })
}

fn instructions(entry: &Entry) -> Notice {
    let raw = Raw::trusted(&entry.origin.raw);
    if raw.kind() != JsonKind::Object {
        return Notice::System;
    }
    match (word(raw, "type").as_deref(), word(raw, "role").as_deref()) {
        (Some("configuration_update"), _) => Notice::Configuration,
        (_, Some("developer")) => Notice::Developer,
        _ => Notice::System,
    }
}

/// The tag with which a client begins a text about its surroundings, by its place in the table.
fn surroundings(entry: &Entry) -> Option<usize> {
    let BlockKind::Text(text) = &entry.blocks.first()?.kind else { return None };
    let text = text.as_str();
    let tag = text.trim_start().strip_prefix('<')?;
    SURROUNDINGS
        .iter()
        .position(|known| tag.strip_prefix(known).is_some_and(|rest| rest.starts_with(['>', ' '])))
}

/// Whether it holds a compaction that stands for what was said before. One without content is a failed attempt.
fn is_compaction(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| match &block.kind {
        BlockKind::Compaction(raw) => ["content", "encrypted_content"]
            .iter()
            .any(|key| raw.raw().get(key).is_some_and(|value| value.kind() != JsonKind::Null)),
        _ => false,
    })
}

fn word<'a>(raw: Raw<'a>, key: &str) -> Option<std::borrow::Cow<'a, str>> {
    raw.get(key).and_then(Raw::string)
}
