//! Replies of `OpenAI` Responses.
//!
//! Items come whole with `response.output_item.done`, and those bytes are the record. The deltas before it matter only
//! when it never comes: then they are what is left of the item.

use std::collections::BTreeMap;

use super::growing::Growing;
use super::stop::Asks;
use super::usage::{self, present};
use super::{MessageDraft, ReplyMeta, number, reported, text};
use crate::json::{JsonKind, Object, Raw};

/// The output, growing item by item.
#[derive(Debug, Default)]
pub(super) struct GrowingOutput {
    /// In the order they came.
    items: BTreeMap<usize, GrowingItem>,
    /// The item at each place of the output, for hosts that say the place.
    indexes: BTreeMap<u64, usize>,
    /// The item of each id, for hosts that do not.
    ids: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
struct GrowingItem {
    index: Option<u64>,
    /// The item as it was when it was done.
    done: Option<String>,
    /// The item as it was when it began, and what was added to it since.
    begun: Growing,
    /// Its parts: of `content` or `summary`, by number.
    parts: BTreeMap<(&'static str, u64), Growing>,
}

/// Where the delta of an event goes, for items that are never done.
const DELTAS: [(&str, DeltaTarget); 6] = [
    ("response.function_call_arguments.delta", DeltaTarget::Of("arguments")),
    ("response.custom_tool_call_input.delta", DeltaTarget::Of("input")),
    (
        "response.output_text.delta",
        DeltaTarget::OfPart("content", "content_index", "\"output_text\"", "text"),
    ),
    ("response.refusal.delta", DeltaTarget::OfPart("content", "content_index", "\"refusal\"", "refusal")),
    (
        "response.reasoning_text.delta",
        DeltaTarget::OfPart("content", "content_index", "\"reasoning_text\"", "text"),
    ),
    (
        "response.reasoning_summary_text.delta",
        DeltaTarget::OfPart("summary", "summary_index", "\"summary_text\"", "text"),
    ),
];

#[derive(Clone, Copy)]
enum DeltaTarget {
    /// To a string of the item.
    Of(&'static str),
    /// To a part: the list it stands in, the key of its number, its type, the string.
    OfPart(&'static str, &'static str, &'static str, &'static str),
}

/// Items worth keeping unfinished. Calls that the provider runs itself say nothing before they are done.
const SALVAGED: [&str; 4] = ["message", "reasoning", "function_call", "custom_tool_call"];

impl MessageDraft for GrowingOutput {
    fn take(&mut self, kind: &str, event: &Object<'_>, told: &mut ReplyMeta) {
        if let Some(Ok(response)) = event.get("response").map(Raw::object) {
            read(&response, told);
        }
        match kind {
            "response.output_item.added" => {
                if let Some(raw) = event.get("item") {
                    let item = self.item(event, Some(raw));
                    // A payload that is not done yet is not whole (OR-10).
                    let members = raw.members().filter(|(key, _)| key != "encrypted_content");
                    members.for_each(|(key, value)| item.begun.set(&key, value));
                    asks(raw, told);
                }
            }
            "response.output_item.done" => {
                if let Some(raw) = event.get("item") {
                    self.item(event, Some(raw)).finish(raw);
                    asks(raw, told);
                }
            }
            "response.content_part.added" => self.part("content", "content_index", event),
            "response.reasoning_summary_part.added" => self.part("summary", "summary_index", event),
            "response.output_text.annotation.added" => {
                if let Some(annotation) = event.get("annotation") {
                    let place = ("content", number(event.get("content_index")).unwrap_or(0));
                    self.item(event, None).parts.entry(place).or_default().push("annotations", annotation);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.complete(event.get("response"), told);
                match kind {
                    "response.failed" => failed(event.get("response"), told),
                    "response.incomplete" if told.stop.is_none() => told.stop = Some("incomplete".into()),
                    _ => {}
                }
                told.ended = true;
            }
            _ => self.delta(kind, event),
        }
    }

    fn message(&self, told: &mut ReplyMeta) -> Option<String> {
        let mut items: Vec<&GrowingItem> = self.items.values().collect();
        // Those without a place stay in the order they came, after the others.
        items.sort_by_key(|item| item.index.unwrap_or(u64::MAX));
        let mut out = String::new();
        for item in items {
            let start = out.len();
            out.push(if start == 0 { '[' } else { ',' });
            if !item.write(&mut out, told) {
                out.truncate(start);
            }
        }
        out.push(']');
        (out.len() > 1).then_some(out)
    }
}

impl GrowingOutput {
    /// The item an event is about.
    fn item(&mut self, event: &Object<'_>, raw: Option<Raw<'_>>) -> &mut GrowingItem {
        let index = number(event.get("output_index"));
        let id = text(event.get("item_id")).or_else(|| text(raw.and_then(|raw| raw.get("id"))));
        self.item_at(index, id)
    }

    /// The item at a place or of an id; the place counts more, since some hosts change ids on the way.
    fn item_at(&mut self, index: Option<u64>, id: Option<String>) -> &mut GrowingItem {
        let by_index = index.and_then(|index| self.indexes.get(&index));
        let placeless = |place: &&usize| self.items.get(place).is_some_and(|item| item.index.is_none());
        let by_id =
            id.as_ref().and_then(|id| self.ids.get(id)).filter(|place| index.is_none() || placeless(place));
        let place = by_index.or(by_id).copied().unwrap_or(self.items.len());
        if let Some(id) = id {
            self.ids.insert(id, place);
        }
        if let Some(index) = index {
            self.indexes.insert(index, place);
        }
        let item = self.items.entry(place).or_default();
        item.index = item.index.or(index);
        item
    }

    fn part(&mut self, list: &'static str, key: &str, event: &Object<'_>) {
        if let Some(part) = event.get("part") {
            let number = number(event.get(key)).unwrap_or(0);
            self.item(event, None).parts.insert((list, number), Growing::of(part));
        }
    }

    fn delta(&mut self, kind: &str, event: &Object<'_>) {
        let Some((_, piece)) = DELTAS.iter().find(|(known, _)| *known == kind) else { return };
        let Some(delta) = event.get("delta") else { return };
        let item = self.item(event, None);
        match *piece {
            DeltaTarget::Of(key) => item.begun.join(key, delta),
            DeltaTarget::OfPart(list, key, class, text) => {
                let number = number(event.get(key)).unwrap_or(0);
                let part = item.parts.entry((list, number)).or_default();
                if part.is_empty() {
                    part.set("type", Raw::trusted(class));
                }
                part.join(text, delta);
            }
        }
    }

    /// Fills in what only the last event has: hosts may leave out the events of items.
    fn complete(&mut self, response: Option<Raw<'_>>, told: &mut ReplyMeta) {
        let output = response.and_then(|response| response.get("output"));
        for (index, raw) in output.into_iter().flat_map(Raw::elements).enumerate() {
            let id = text(raw.get("id"));
            let known = id.as_ref().is_some_and(|id| self.ids.contains_key(id));
            let item = self.item_at((!known).then_some(index as u64), id);
            if item.done.is_none() {
                item.finish(raw);
                asks(raw, told);
            }
        }
    }
}

impl GrowingItem {
    fn finish(&mut self, raw: Raw<'_>) {
        self.done = Some(raw.text().into());
        self.begun = Growing::default();
        self.parts.clear();
    }

    /// Writes the item, or what there is of it; false if that is nothing.
    fn write(&self, out: &mut String, told: &mut ReplyMeta) -> bool {
        if let Some(done) = &self.done {
            out.push_str(done);
            return true;
        }
        let kind = self.begun.text("type").unwrap_or_default();
        if !SALVAGED.contains(&kind.as_str()) {
            if !self.begun.is_empty() {
                told.note("an unfinished item of the provider's own tools was left out of the message");
            }
            return false;
        }
        let mut item = self.begun.clone();
        if kind != "reasoning" {
            item.set("status", Raw::trusted("\"incomplete\""));
        }
        for list in ["summary", "content"] {
            let parts: Vec<String> = self
                .parts
                .range((list, 0)..=(list, u64::MAX))
                .map(|(_, part)| {
                    let mut out = String::new();
                    part.write(&mut out);
                    out
                })
                .collect();
            if !parts.is_empty() {
                item.set(list, Raw::trusted(&format!("[{}]", parts.join(","))));
            }
        }
        item.write(out);
        true
    }
}

/// Whether an item is for the client to answer.
fn asks(item: Raw<'_>, told: &mut ReplyMeta) {
    let kind = text(item.get("type"));
    if matches!(kind.as_deref(), Some("function_call" | "custom_tool_call")) {
        told.asks = Asks::ForTools;
    }
}

/// Reads what a response says about itself.
fn read(response: &Object<'_>, told: &mut ReplyMeta) {
    told.names(response.get("id"), response.get("model"));
    if let Some(usage) = present(response.get("usage")) {
        told.usage = usage::openai(usage).or(told.usage.take());
    }
    let reason = response.get("incomplete_details").and_then(|details| text(details.get("reason")));
    let status = text(response.get("status")).filter(|status| !UNFINISHED.contains(&status.as_str()));
    if let Some(status) = status {
        told.stop = Some(reason.filter(|_| status == "incomplete").unwrap_or(status));
    }
}

/// The words for a response that is still being made.
const UNFINISHED: [&str; 2] = ["queued", "in_progress"];

/// A response that failed: its error, or the fact.
fn failed(response: Option<Raw<'_>>, told: &mut ReplyMeta) {
    let error = reported(response.and_then(|response| response.get("error")));
    told.fail(error.unwrap_or(Raw::trusted("\"the response failed\"")));
}

/// The output of a whole response.
pub(super) fn body(response: &Object<'_>, told: &mut ReplyMeta) -> Option<String> {
    read(response, told);
    match told.stop.as_deref() {
        // A response of the background that was stopped, or is still being made.
        Some("cancelled") => told.ended = false,
        None => told.ended = response.get("status").is_none(),
        Some("failed") => told.fail(Raw::trusted("\"the response failed\"")),
        Some(_) => {}
    }
    let output = response.get("output").filter(|output| output.kind() == JsonKind::Array)?;
    output.elements().for_each(|item| asks(item, told));
    output.elements().next().map(|_| output.text().into())
}
