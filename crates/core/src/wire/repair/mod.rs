//! From a list its provider would refuse to one it accepts, changing as little as possible.
//!
//! Three means, tried in this order until the check finds nothing: an edit of the very place a rule complains about
//! (`repair/edits.rs`), reading the whole list into a record and printing its coherent view, and leaving out what still
//! offends. Each is a function of the body alone, so repairing is deterministic, and a body that passes is not touched.

mod edits;

use std::collections::HashSet;

use serde::Serialize;

use super::check::{self, CheckOptions, Strictness, Violation, rules};
use super::render::{self, Own};
use super::replies::{Judged, Replies};
use super::{ParseOptions, Purpose, RenderOptions, Wire, list_key};
use crate::context::{CurationContext, Unfinished};
use crate::json::{self, Edit, Edits, JsonKind, Raw};
use crate::manager::Passthrough;

/// Rounds after which whatever still offends is given up. Each round ends one kind of trouble; more than a handful
/// happens only in lists made to be hard.
const MAX_ROUNDS: usize = 40;

/// Rules about how much a model can read.
const OVERFLOW: [&str; 3] = ["OC-13", "OR-19", "AN-21"];

/// Something that was done to make a list valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// The rule that was broken.
    pub rule: &'static str,
    /// Where, in the body that was given.
    pub path: String,
    /// What was done.
    pub action: &'static str,
}

impl Repair {
    fn of(wire: Wire, violation: &Violation) -> Self {
        let rule = rules(wire).iter().find(|rule| rule.id == violation.rule);
        let action = rule.map(|rule| rule.repair).filter(|repair| !repair.is_empty()).unwrap_or("left out");
        Repair { rule: violation.rule, path: violation.path.clone(), action }
    }
}

/// A body, repaired.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The body; the very text that was given if nothing was wrong.
    pub body: String,
    /// What was done, in order.
    pub repairs: Vec<Repair>,
    /// What could not be repaired: empty unless the problem lies outside the messages.
    pub left: Vec<Violation>,
}

/// Makes a body valid for its provider.
pub fn repair(wire: Wire, body: Raw<'_>, options: CheckOptions<'_>, strictness: Strictness) -> Repaired {
    repair_if(wire, body, options, &Replies::default(), &|violation| violation.is_fatal(strictness))
}

/// Makes a body pass as far as `matters` says. What a provider said in one of the `replies` stays as it is.
pub(crate) fn repair_if(
    wire: Wire,
    body: Raw<'_>,
    options: CheckOptions<'_>,
    replies: &Replies,
    matters: &dyn Fn(&Violation) -> bool,
) -> Repaired {
    let listed = as_object(wire, body);
    let mut text = listed.clone().unwrap_or_else(|| body.text().to_string());
    let unwrapped = |text: String| if listed.is_some() { as_list(wire, text) } else { text };
    let mut repairs: Vec<Repair> = Vec::new();
    let mut rerendered = false;
    for round in 0..MAX_ROUNDS {
        let Ok(body) = json::check(&text) else { break };
        // A bare list is judged as one: it cannot hold what stands beside messages.
        let judged = if listed.is_some() { only_list(wire, body) } else { body };
        let whole = Judged::new(wire, body);
        let broken: Vec<Violation> = check::check(wire, judged, options)
            .into_iter()
            .filter(|violation| matters(violation) && !replies.exempt(violation, &whole))
            .collect();
        if broken.is_empty() {
            return Repaired { body: unwrapped(text), repairs, left: Vec::new() };
        }
        let local = edits::local(wire, body, &broken, replies);
        if round == 0 {
            repairs = broken.iter().map(|violation| Repair::of(wire, violation)).collect();
            repairs.dedup();
        }
        let next = if !local.is_empty() {
            rerendered = false;
            json::edit(body, &local)
        } else if !rerendered && let Some(next) = rerender(wire, judged, &broken, options, replies) {
            rerendered = true;
            next
        } else {
            rerendered = false;
            json::edit(body, &offending(wire, &broken))
        };
        if next == text {
            return Repaired { body: unwrapped(text), repairs, left: broken };
        }
        text = next;
    }
    let left = json::check(&text).map(|body| check::check(wire, body, options)).unwrap_or_default();
    Repaired {
        body: unwrapped(text),
        repairs,
        left: left.into_iter().filter(|violation| matters(violation)).collect(),
    }
}

/// Drops the ids of Responses items that a view parted from the reasoning they were made after (OR-5). Items that were so before
/// stay as they came.
pub fn drop_parted_ids(messages: &mut Vec<String>, before: &[String], options: CheckOptions<'_>) {
    let list = |messages: &[String]| format!("[{}]", messages.join(","));
    let parted = |text: &str| -> Vec<usize> {
        let Ok(body) = json::check(text) else { return Vec::new() };
        let found = check::check(Wire::OpenaiResponses, body, options);
        let place = |violation: Violation| violation.path.split('/').nth(2)?.parse().ok();
        found.into_iter().filter(|violation| violation.rule == "OR-5").filter_map(place).collect()
    };
    let text = list(messages);
    let found = parted(&text);
    let Ok(body) = json::check(&text) else { return };
    if found.is_empty() {
        return;
    }
    let id = |item: Raw<'_>| item.get("id").and_then(Raw::string).map(std::borrow::Cow::into_owned);
    let whole = list(before);
    let known: HashSet<String> = match json::check(&whole) {
        Ok(items) => {
            let items: Vec<Raw<'_>> = items.elements().collect();
            parted(&whole).into_iter().filter_map(|at| id(*items.get(at)?)).collect()
        }
        Err(_) => HashSet::new(),
    };
    let drops: HashSet<usize> = found.into_iter().collect();
    let print = |(at, item): (usize, Raw<'_>)| {
        let drops = drops.contains(&at) && id(item).is_some_and(|id| !known.contains(&id));
        if drops {
            json::edit(item, &Edits::from([("/id".into(), Edit::Remove)]))
        } else {
            item.text().into()
        }
    };
    *messages = body.elements().enumerate().map(print).collect();
}

/// The coherent view of the list, every unanswered call closed.
fn rerender(
    wire: Wire,
    body: Raw<'_>,
    broken: &[Violation],
    options: CheckOptions<'_>,
    replies: &Replies,
) -> Option<String> {
    let parsed = wire.parse(body, &ParseOptions::default()).ok()?;
    let around = parsed.body.clone();
    let tools = parsed.tools.clone();
    let record = parsed.into_record().ok()?;
    let cx = CurationContext {
        unfinished: Unfinished::Close,
        ..CurationContext::for_model(options.model.cloned())
    };
    let overflows = broken.iter().any(|violation| OVERFLOW.contains(&violation.rule));
    let fitted = overflows.then(|| record.view(&cx, &*crate::manager::parse("fit").ok()?).ok()).flatten();
    let view = fitted.or_else(|| record.view(&cx, &Passthrough).ok())?;
    let manual_thinking = around.asks_for_manual_thinking();
    let options = RenderOptions {
        purpose: Purpose::Send,
        model: options.model,
        tools: tools.as_ref(),
        manual_thinking,
        record: Some(&record),
    };
    let own = Own::Repaired { edited: None, replies: Some(replies) };
    let rendered = render::render(wire, view.items().collect(), options, own);
    let next = rendered.body(wire, Some(&around));
    let next = json::check(&next).map(|raw| json::one_line(raw).into_owned()).ok()?;
    let next = as_object(wire, Raw::trusted(&next)).unwrap_or(next);
    (next != as_object(wire, body).unwrap_or_else(|| json::one_line(body).into_owned())).then_some(next)
}

/// Leaves out the smallest thing around each place that still offends: a block of a message, else the message.
fn offending(wire: Wire, broken: &[Violation]) -> Edits {
    let list = format!("/{}/", list_key(wire));
    let mut edits = Edits::new();
    for violation in broken {
        let Some(rest) = violation.path.strip_prefix(&list) else {
            // Around the messages there is nothing smaller than the member itself.
            if !violation.path.is_empty() {
                edits.insert(violation.path.clone(), Edit::Remove);
            }
            continue;
        };
        let steps: Vec<&str> = rest.split('/').collect();
        let kept = match steps.as_slice() {
            [message, key @ ("content" | "parts" | "tool_calls"), block, ..] => {
                format!("{list}{message}/{key}/{block}")
            }
            [message, ..] => format!("{list}{message}"),
            [] => continue,
        };
        edits.insert(kept, Edit::Remove);
    }
    // A message goes with its blocks.
    let messages: HashSet<String> =
        edits.keys().filter(|path| path.matches('/').count() == 2).cloned().collect();
    let message = |path: &str| path.split('/').take(3).collect::<Vec<_>>().join("/");
    edits.retain(|path, _| messages.contains(path) || !messages.contains(&message(path)));
    edits
}

/// A bare list under the key its wire keeps messages under, so that pointers lead into it.
fn as_object(wire: Wire, body: Raw<'_>) -> Option<String> {
    (body.kind() == JsonKind::Array).then(|| format!("{{\"{}\":{}}}", list_key(wire), body.text()))
}

/// The bare list again, if nothing had to be put beside it.
fn as_list(wire: Wire, text: String) -> String {
    match json::check(&text) {
        Ok(body) => only_list(wire, body).text().to_string(),
        Err(_) => text,
    }
}

/// The list, if there is nothing else in the object.
fn only_list(wire: Wire, body: Raw<'_>) -> Raw<'_> {
    let mut members = body.members();
    match (members.next(), members.next()) {
        (Some((key, list)), None) if key == list_key(wire) => list,
        _ => body,
    }
}
