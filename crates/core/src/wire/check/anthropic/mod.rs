//! Anthropic Messages: rules AN-1 to AN-57.
//!
//! A request is taken apart once ([`request`]); each file then looks for the rules of one idea and notes what it
//! finds ([`finding`]). A rule is looked for only as far as a body can show it, and never where the provider is
//! known to be more patient than its documentation: server tools may still be running, a compaction request may
//! end on the assistant, a continued thread holds only what is new.

mod caching;
mod finding;
mod list;
mod models;
mod pairing;
mod prefix;
mod request;
mod rules;
mod size;
mod thinking;

use self::finding::Findings;
pub(in crate::wire) use self::models::refuses_system_messages;
use self::request::AnthropicRequest;
pub(super) use self::rules::{RULES, UNSEEN};
use super::ViolationReport;
use crate::json::Raw;

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut ViolationReport<'_>) {
    let request = AnthropicRequest::read(body);
    let mut found = Findings::default();
    list::check(&request, &mut found);
    pairing::check(&request, &mut found);
    size::check(body, &request, &report.options, &mut found);
    thinking::check(&request, &report.options, &mut found);
    caching::check(&request, &report.options, &mut found);
    if let Some(previous) = report.options.previous {
        // What a thread holds is kept by the provider: there is nothing here to compare.
        let previous = AnthropicRequest::read(previous);
        if request.continues_thread() {
            list::check_thread(&request, &previous, &mut found);
        } else {
            prefix::check(&request, &previous, &report.options, &mut found);
            caching::check_changes(&request, &previous, &mut found);
        }
    }
    found.report(report);
}
