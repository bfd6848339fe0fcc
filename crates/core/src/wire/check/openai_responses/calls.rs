//! Calls and their outputs, paired by `call_id` wherever they stand: OR-1, OR-2, OR-11.

use std::collections::HashSet;

use super::super::ViolationReport;
use super::super::body::longer_than;
use super::item::CheckedItem;
use super::request::ResponsesRequest;

/// Most characters of a `call_id`.
const CALL_ID_CHARS: usize = 64;

/// What is called and what is answered, anywhere in the input.
pub(super) struct Calls<'i> {
    made: HashSet<&'i str>,
    answered: HashSet<&'i str>,
    /// Whether a call could be where it cannot be seen: held by the server, referred to, compacted.
    hidden: bool,
}

impl<'i> Calls<'i> {
    pub(super) fn of(items: &'i [CheckedItem<'_>], request: &ResponsesRequest<'_>) -> Self {
        let hides = |item: &CheckedItem<'_>| matches!(item.kind.as_ref(), "item_reference" | "compaction");
        Calls {
            made: items.iter().filter_map(CheckedItem::called).collect(),
            answered: items.iter().filter_map(CheckedItem::answers).collect(),
            hidden: request.continues() || items.iter().any(hides),
        }
    }

    pub(super) fn check(&self, index: usize, item: &CheckedItem<'_>, report: &mut ViolationReport<'_>) {
        if let Some(id) = item.called() {
            if !item.is_async && !self.answers(item, id) {
                let message = "the call has no output; add one or leave the call out";
                report.add("OR-1", format!("/input/{index}"), message);
            }
            check_length(index, id, report);
        }
        // The output of a local shell may name the item instead of the call, which is not judged.
        let answered = item.answers().filter(|_| item.call_id.is_some());
        if let Some(id) = answered.filter(|id| !self.made.contains(id)) {
            if !self.hidden {
                let message = "the output has no call in the input; leave it out or send the call too";
                report.add("OR-2", format!("/input/{index}"), message);
            }
            check_length(index, id, report);
        }
    }

    fn answers(&self, call: &CheckedItem<'_>, call_id: &str) -> bool {
        let by_id = || {
            call.kind == "local_shell_call" && call.id.as_deref().is_some_and(|id| self.answered.contains(id))
        };
        self.answered.contains(call_id) || by_id()
    }

    /// Calls of the request before, which the server holds, and which nothing answers now.
    pub(super) fn check_held(&self, held: &[CheckedItem<'_>], report: &mut ViolationReport<'_>) {
        let answered: HashSet<&str> = held.iter().filter_map(CheckedItem::answers).collect();
        let open = |item: &CheckedItem<'_>| {
            !item.is_async
                && item.called().is_some_and(|id| !answered.contains(id) && !self.answers(item, id))
        };
        if held.iter().any(open) {
            let message = "a call the server holds has no output; send one";
            report.add("OR-1", "/input", message);
        }
    }
}

fn check_length(index: usize, id: &str, report: &mut ViolationReport<'_>) {
    if longer_than(CALL_ID_CHARS, id) {
        let message = "the call_id is longer than 64 characters; shorten it";
        report.add("OR-11", format!("/input/{index}/call_id"), message);
    }
}
