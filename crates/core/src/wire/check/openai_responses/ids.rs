//! The ids of items: OR-7, OR-8, OR-18.

use std::collections::HashSet;

use super::super::ViolationReport;
use super::item::{CheckedItem, ItemSide};
use super::request::{ResponsesRequest, StoreSetting};

/// A short number behind the prefix was made up by a client; the provider's ids are longer.
const OWN_DIGITS: usize = 6;

/// The ids that were met so far.
pub(super) struct Ids<'i> {
    seen: HashSet<&'i str>,
    held: HashSet<&'i str>,
    store: StoreSetting,
}

impl<'i> Ids<'i> {
    /// `held` are the items of the request before, if the server holds them.
    pub(super) fn new(held: &'i [CheckedItem<'_>], request: &ResponsesRequest<'_>) -> Self {
        let held = held.iter().filter_map(|item| item.id.as_deref()).collect();
        Ids { seen: HashSet::new(), held, store: request.store }
    }

    pub(super) fn check(
        &mut self,
        index: usize,
        item: &'i CheckedItem<'_>,
        report: &mut ViolationReport<'_>,
    ) {
        let Some(id) = item.id.as_deref() else { return };
        let path = format!("/input/{index}");
        if !self.seen.insert(id) {
            report.add("OR-7", &path, "an item with this id stands before; leave one of them out");
        } else if self.held.contains(id) {
            report.add("OR-7", &path, "the server holds an item with this id already; send only what is new");
        }
        if self.store == StoreSetting::Off {
            let bare = item.encrypted_content.is_none() && !item.has_content();
            if item.kind == "item_reference" {
                let message = "nothing is stored, so the reference leads nowhere; send the item itself";
                report.add("OR-8", &path, message);
            } else if item.side == ItemSide::Reasoning && bare {
                let message = "nothing is stored, so the id does not stand for reasoning; send its encrypted_content or leave it out";
                report.add("OR-8", &path, message);
            }
        }
        if is_own(id) {
            let message =
                "the id can collide with one of the provider's; drop it or use a prefix of your own";
            report.add("OR-18", format!("{path}/id"), message);
        }
    }
}

/// `msg_4`: the form of the provider's ids, with a number of one's own.
fn is_own(id: &str) -> bool {
    id.split_once('_').is_some_and(|(prefix, number)| {
        // Items of other kinds have no id but the provider's.
        matches!(prefix, "msg" | "fc")
            && (1..=OWN_DIGITS).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
