//! Reasoning items and what was made after them: OR-4, OR-5, OR-6, OR-9, OR-10, OR-14, OR-17.

use std::collections::HashSet;

use super::super::ViolationReport;
use super::item::{CheckedItem, ItemSide};
use super::request::ResponsesRequest;
use super::rules::always_reasons;
use crate::json::Raw;

/// Hexadecimal digits an id of the provider has at least; it has 48 or more today.
const ID_DIGITS: usize = 16;

/// Characters the shortest encrypted token of the known form has.
const TOKEN_CHARS: usize = 100;

/// The items between two that come from the client: what the model did in one go.
#[derive(Clone, Copy)]
struct ItemRun {
    /// Whether it answers a message, not the output of a call.
    answers_user: bool,
    reasons: bool,
    /// Whether something in it may be reasoning without looking like it.
    unclear: bool,
}

/// What can be said of an item only by those around it.
#[derive(Clone, Copy)]
struct ItemContext {
    run: usize,
    /// Whether something other than reasoning comes after it in its run.
    followed: bool,
}

/// How sure it is that an item was made after reasoning that is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    None,
    Likely,
    Sure,
}

/// The reasoning of an input, seen as a whole.
pub(super) struct Thread<'i> {
    runs: Vec<ItemRun>,
    places: Vec<ItemContext>,
    /// Ids of items that were made after reasoning which is missing now, as the request before shows.
    parted: HashSet<&'i str>,
    /// What a run without reasoning that answers the user means, if nothing else is known.
    suspicion: Suspicion,
    /// The first call of the tool loop under way, if its reasoning was lost.
    thoughtless: Option<usize>,
}

impl<'i> Thread<'i> {
    /// `before` are the items of the request before, with its reply.
    pub(super) fn of(
        items: &[CheckedItem<'_>],
        before: &'i [CheckedItem<'_>],
        request: &ResponsesRequest<'_>,
        report: &ViolationReport<'_>,
    ) -> Self {
        let (runs, places) = runs(items);
        if request.continues() {
            // The reasoning may be with the server.
            let parted = HashSet::new();
            return Thread { runs, places, parted, suspicion: Suspicion::None, thoughtless: None };
        }
        let suspicion = suspicion(&runs, request, report);
        let thoughtless = lost_thought(items, &runs, &places);
        Thread { runs, places, parted: parted(before, items), suspicion, thoughtless }
    }

    pub(super) fn check(&self, index: usize, item: &CheckedItem<'_>, report: &mut ViolationReport<'_>) {
        let path = format!("/input/{index}");
        if item.side == ItemSide::Reasoning {
            self.check_reasoning(index, item, &path, report);
        }
        if item.kind == "compaction" && item.encrypted_content.is_none() {
            let message = "the compaction has no encrypted_content, so nothing of what it stood for is left";
            report.add("OR-14", &path, message);
        }
        // A compaction is opaque: what it looks like is between the provider and itself.
        let opaque = item.kind == "compaction";
        if !opaque && item.encrypted_content.and_then(Raw::string).is_some_and(|text| !is_whole(&text)) {
            let message = "the encrypted_content is empty or cut; send it as it came or leave the item out";
            report.add("OR-9", format!("{path}/encrypted_content"), message);
        }
        if let Some(id) = item.id.as_deref().filter(|id| item.side == ItemSide::Model && is_provided(id)) {
            let message = "the item has its id but not the reasoning before it; send both or drop the id";
            match self.misses_reasoning(index, id) {
                Suspicion::None => {}
                Suspicion::Likely => report.add_unverified("OR-5", &path, message),
                Suspicion::Sure => report.add("OR-5", &path, message),
            }
        }
        if self.thoughtless == Some(index) {
            let message =
                "the tool loop under way has lost its reasoning; keep it until the user speaks again";
            report.add("OR-17", &path, message);
        }
    }

    fn check_reasoning(
        &self,
        index: usize,
        item: &CheckedItem<'_>,
        path: &str,
        report: &mut ViolationReport<'_>,
    ) {
        if self.places.get(index).is_some_and(|place| !place.followed) {
            let message = "the reasoning is not followed by what it produced; send that too or leave it out";
            if item.id.is_some() {
                report.add("OR-4", path, message);
            } else {
                // The error names the item by its id; whether one without is looked for is not known.
                report.add_unverified("OR-4", path, message);
            }
        }
        if item.summary.is_none() {
            report.add("OR-6", path, "the reasoning has no summary; add an empty list");
        }
        if item.in_progress && item.encrypted_content.is_some() {
            let message = "the reasoning was taken before it was finished; take the finished item";
            report.add("OR-10", format!("{path}/status"), message);
        }
    }

    fn misses_reasoning(&self, index: usize, id: &str) -> Suspicion {
        match self.places.get(index).and_then(|place| self.runs.get(place.run)) {
            Some(run) if run.reasons || run.unclear => Suspicion::None,
            Some(_) if self.parted.contains(id) => Suspicion::Sure,
            Some(run) if run.answers_user => self.suspicion,
            _ => Suspicion::None,
        }
    }
}

/// Cuts the items into runs, and says where in its run each one stands.
fn runs(items: &[CheckedItem<'_>]) -> (Vec<ItemRun>, Vec<ItemContext>) {
    let start = ItemRun { answers_user: false, reasons: false, unclear: false };
    let (mut runs, mut run) = (Vec::new(), start);
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        match item.side {
            ItemSide::User | ItemSide::Output => {
                runs.push(run);
                run = ItemRun { answers_user: item.side == ItemSide::User, ..start };
            }
            ItemSide::Reasoning => run.reasons = true,
            ItemSide::Unknown => run.unclear = true,
            ItemSide::Model => {}
        }
        places.push(ItemContext { run: runs.len(), followed: false });
    }
    runs.push(run);
    let mut followed = false;
    for (item, place) in items.iter().zip(&mut places).rev() {
        place.followed = followed;
        match item.side {
            ItemSide::User | ItemSide::Output => followed = false,
            ItemSide::Model | ItemSide::Unknown => followed = true,
            ItemSide::Reasoning => {}
        }
    }
    (runs, places)
}

/// What it means that the model answered the user, it seems, without reasoning.
fn suspicion(runs: &[ItemRun], request: &ResponsesRequest<'_>, report: &ViolationReport<'_>) -> Suspicion {
    let effort = request.effort.as_deref();
    if matches!(effort, Some("none" | "minimal")) {
        return Suspicion::None;
    }
    match report.options.model {
        Some(model) if always_reasons(model) => Suspicion::Sure,
        _ if effort.is_some() || runs.iter().any(|run| run.reasons) => Suspicion::Likely,
        _ => Suspicion::None,
    }
}

/// The ids of items that came after reasoning `before`, where that reasoning is not among the items now.
fn parted<'i>(before: &'i [CheckedItem<'_>], now: &[CheckedItem<'_>]) -> HashSet<&'i str> {
    let reasoning = |item: &CheckedItem<'_>| item.side == ItemSide::Reasoning;
    let kept: HashSet<&str> =
        now.iter().filter(|item| reasoning(item)).filter_map(|item| item.id.as_deref()).collect();
    let mut found = HashSet::new();
    let mut lost = false;
    for item in before {
        match item.side {
            ItemSide::User | ItemSide::Output => lost = false,
            ItemSide::Reasoning => lost = item.id.as_deref().is_some_and(|id| !kept.contains(id)),
            ItemSide::Model if lost => found.extend(item.id.as_deref()),
            ItemSide::Model | ItemSide::Unknown => {}
        }
    }
    found
}

/// The first call after the last message of the user, if no reasoning is left there, though some is before.
fn lost_thought(items: &[CheckedItem<'_>], runs: &[ItemRun], places: &[ItemContext]) -> Option<usize> {
    let turn = items.iter().rposition(|item| item.side == ItemSide::User)?;
    let first_run = places.get(turn)?.run;
    let (earlier, current) = runs.split_at_checked(first_run)?;
    let lost = earlier.iter().any(|run| run.reasons) && !current.iter().any(|run| run.reasons || run.unclear);
    let call = items.iter().skip(turn).position(|item| item.called().is_some())?;
    lost.then_some(turn + call)
}

/// Whether an id looks like one the provider gave.
fn is_provided(id: &str) -> bool {
    ["msg_", "fc_", "ctc_"].into_iter().any(|prefix| {
        id.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= ID_DIGITS && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// Whether an opaque text can be what the provider gave: base64 of either alphabet, of a length that can be.
fn is_whole(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let known_form = text.len() >= TOKEN_CHARS && text.starts_with("gAAAA");
    let possible = !known_form || digits.len() % 4 != 1;
    possible
        && !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'))
}
