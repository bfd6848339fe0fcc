//! `OpenAI` Responses: rules OR-1 to OR-22.
//!
//! The input is a flat list of items that refer to each other by ids, and part of it may be held by the server. What
//! cannot be seen is taken to be in order.

mod calls;
mod ids;
mod item;
mod reasoning;
mod request;
mod rules;

use self::calls::Calls;
use self::ids::Ids;
use self::item::CheckedItem;
use self::reasoning::Thread;
use self::request::ResponsesRequest;
use super::body::overflow;
use super::{Severity, ViolationReport};
use crate::json::Raw;
use crate::wire::Wire;

pub(super) use self::rules::RULES;

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut ViolationReport<'_>) {
    let request = ResponsesRequest::read(body);
    let before = report.options.previous.map(ResponsesRequest::read);
    let items = items(request.input);
    let said_before = items_of(before.as_ref());
    let held: &[CheckedItem<'_>] = if request.continues() { &said_before } else { &[] };

    let calls = Calls::of(&items, &request);
    let thread = Thread::of(&items, &said_before, &request, report);
    let mut ids = Ids::new(held, &request);
    calls.check_held(held, report);
    for (index, item) in items.iter().enumerate() {
        calls.check(index, item, report);
        thread.check(index, item, report);
        ids.check(index, item, report);
        if item.kind == "compaction_trigger" && index + 1 < items.len() {
            report.add(
                "OR-15",
                format!("/input/{index}"),
                "items follow the compaction_trigger; put it last",
            );
        }
        if item.is_reply() && item.phase.is_none() {
            let message = "the assistant message has no phase; send the one it came with";
            report.add("OR-16", format!("/input/{index}"), message);
        }
    }
    request.check(before.as_ref(), report);
    if let Some((tokens, window)) = overflow(Wire::OpenaiResponses, body, &report.options) {
        let too_much = format!("{tokens} tokens do not fit into the window of {window}");
        if request.truncates {
            let message = format!("{too_much}; items are dropped from the front");
            report.add_as("OR-19", Severity::Silent, "/input", message);
        } else {
            report.add("OR-19", "/input", format!("{too_much}; leave items out"));
        }
    }
}

fn items_of<'a>(request: Option<&ResponsesRequest<'a>>) -> Vec<CheckedItem<'a>> {
    items(request.and_then(|request| request.input))
}

/// The items of an input; none if it is a text.
fn items(input: Option<Raw<'_>>) -> Vec<CheckedItem<'_>> {
    input.into_iter().flat_map(Raw::elements).map(CheckedItem::read).collect()
}
