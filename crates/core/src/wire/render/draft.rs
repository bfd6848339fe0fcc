//! A message being put together from the blocks of one or more entries.

use std::sync::Arc;

use crate::entry::{Entry, Role};
use crate::json::{self, Raw};

/// A message in the making.
pub(super) struct Draft {
    /// Who speaks, in entries' words; results are told apart until the message is printed.
    pub(super) role: Role,
    /// The message the blocks came in, whose other members are kept.
    pub(super) shell: Option<Arc<str>>,
    pub(super) blocks: Vec<BlockSlot>,
    /// Whether the message is still exactly its shell.
    pub(super) whole: bool,
    /// Whether all of it came on this wire, in one message, and is unchanged.
    pub(super) own: bool,
    /// Whether it is one text of another wire, to be printed as plainly as it came.
    pub(super) plain: bool,
    /// Which part of its message was added last, and of how many.
    pub(super) part: Option<(u32, u32)>,
    /// The entries it is made of.
    pub(super) sources: Vec<u64>,
}

/// A block of a draft.
pub(super) struct BlockSlot {
    /// Where it stood in its message.
    pub(super) at: u32,
    pub(super) json: String,
    pub(super) is_result: bool,
    pub(super) is_call: bool,
}

impl Draft {
    pub(super) fn of(entry: &Entry, blocks: Vec<BlockSlot>) -> Self {
        let part = entry.origin.part.as_ref().map(|part| (part.number, part.of));
        Draft {
            role: entry.role,
            shell: None,
            blocks,
            whole: false,
            own: false,
            plain: false,
            part,
            sources: Vec::new(),
        }
    }

    /// A message of our own.
    pub(super) fn ours(role: Role, block: String) -> Self {
        let slot = BlockSlot { at: 0, json: block, is_result: false, is_call: false };
        Draft {
            role,
            shell: None,
            blocks: vec![slot],
            whole: false,
            own: false,
            plain: true,
            part: None,
            sources: Vec::new(),
        }
    }

    /// Whether `next` is the part of the same message that comes after this one.
    pub(super) fn continues(&self, next: &Draft) -> bool {
        match (self.part, next.part) {
            (Some((last, of)), Some((number, of_next))) => number == last + 1 && of == of_next,
            _ => false,
        }
    }

    /// Adds what `next` says.
    pub(super) fn join(&mut self, next: Draft) {
        let parts = self.continues(&next);
        self.part = if parts { next.part } else { None };
        self.whole = false;
        self.own &= next.own && parts;
        self.plain = false;
        if self.role == Role::Tool {
            self.role = next.role;
        }
        self.shell = self.shell.take().or(next.shell);
        self.blocks.extend(next.blocks);
        self.sources.extend(next.sources);
    }

    /// Puts the blocks back where they stood, if all parts of the message are there.
    pub(super) fn reorder(&mut self, results_first: bool) {
        if self.part.is_some_and(|(number, of)| number == of) {
            self.blocks.sort_by_key(|slot| slot.at);
        }
        if results_first {
            self.blocks.sort_by_key(|slot| !slot.is_result);
        }
    }

    /// The message as JSON.
    pub(super) fn print(&self, role: &str, key: &str) -> String {
        if let (true, Some(shell)) = (self.whole, &self.shell) {
            return json::one_line(Raw::trusted(shell)).into_owned();
        }
        let mut list = String::from("[");
        for (number, slot) in self.blocks.iter().enumerate() {
            if number > 0 {
                list.push(',');
            }
            list.push_str(&slot.json);
        }
        list.push(']');
        let Some(shell) = &self.shell else { return format!("{{\"role\":\"{role}\",\"{key}\":{list}}}") };
        let mut out = String::from("{");
        for (name, value) in Raw::trusted(shell).spelled_members() {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(name.text());
            out.push(':');
            if json::unescape(name.text()) == key {
                out.push_str(&list);
            } else {
                out.push_str(&json::one_line(value));
            }
        }
        out.push('}');
        out
    }
}
