//! What a provider said is never repaired.
//!
//! Rules about ids, signatures and encrypted content say what one provider's own replies look like. Another host of the same
//! wire may give others, and takes them back as it gave them. So these rules do not apply to what the record knows as the
//! provider's own reply, whatever it looks like. They do apply to what clients add or change.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::check::Violation;
use super::{Wire, list_key, responses_items as items};
use crate::entry::{Entry, Role, Status};
use crate::json::{JsonKind, Raw};

/// Members that hold an id by which providers tell items and calls apart.
const IDS: [&str; 4] = ["id", "call_id", "tool_call_id", "tool_use_id"];
/// Members that only the provider can read.
const OPAQUE: [&str; 4] = ["encrypted_content", "signature", "data", "thoughtSignature"];

impl Entry {
    /// Whether it came as the reply of a provider, and was not sent by a client.
    pub(crate) fn is_reply(&self) -> bool {
        let came = |meta: &crate::entry::Meta| {
            meta.response_id.is_some() || meta.provider.is_some() || meta.model_served.is_some()
        };
        self.role == Role::Assistant && self.meta.as_deref().is_some_and(came)
    }
}

/// What the rules about ids, signatures and encrypted content look at in the replies of a provider.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// How often each id was given, and whether reasoning stands before it.
    ids: HashMap<String, ReplyText>,
    /// What only the provider can read.
    opaque: HashSet<String>,
    /// Parts of replies that are whole, in a spelling that no client changes.
    parts: HashSet<[u8; 32]>,
    /// Those of them that are part of a reply without reasoning.
    unreasoned: HashSet<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReplyText {
    times: usize,
    reasoned: bool,
    /// Whether the reply it is part of is whole.
    whole: bool,
}

impl Replies {
    /// The replies among some entries, as far as they came on this wire.
    pub(crate) fn of<'e>(wire: Wire, entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut all = Replies::default();
        for entry in entries.filter(|entry| entry.is_reply() && entry.origin.wire == wire) {
            let whole = entry.status() == Status::Complete;
            let parts = parts_of(wire, Raw::trusted(&entry.origin.raw));
            let mut reasoned = false;
            for part in &parts {
                all.take(*part, whole, reasoned);
                reasoned |= is_reasoning(*part);
            }
            if whole && !reasoned {
                all.unreasoned.extend(parts.into_iter().map(spelled));
            }
        }
        all
    }

    fn take(&mut self, part: Raw<'_>, whole: bool, reasoned: bool) {
        for (key, value) in part.members() {
            let Some(text) = value.string() else { continue };
            if IDS.contains(&key.as_ref()) {
                let given = self.ids.entry(text.into_owned()).or_default();
                given.times += 1;
                given.reasoned |= reasoned;
                given.whole |= whole;
            } else if OPAQUE.contains(&key.as_ref()) {
                self.opaque.insert(text.into_owned());
            }
        }
        if whole {
            self.parts.insert(spelled(part));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.opaque.is_empty() && self.parts.is_empty()
    }

    /// Whether a reply has this id.
    pub(crate) fn gave(&self, id: &str) -> bool {
        self.ids.contains_key(id)
    }

    /// The violations in a body that are not about what a provider said.
    pub(crate) fn without_exempt(
        &self,
        wire: Wire,
        body: Raw<'_>,
        mut found: Vec<Violation>,
    ) -> Vec<Violation> {
        let judged = Judged::new(wire, body);
        found.retain(|violation| !self.exempt(violation, &judged));
        found
    }

    /// Whether a rule does not apply at a place, because a provider said what stands there.
    pub(crate) fn exempt(&self, violation: &Violation, body: &Judged<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(part) = body.part(&violation.path) else { return false };
        let given = |key: &str| self.ids.get(part.get(key)?.string()?.as_ref()).copied();
        let any = || IDS.iter().find_map(|key| given(key));
        let sealed = || {
            OPAQUE.iter().any(|key| word(part, key).is_some_and(|text| self.opaque.contains(text.as_ref())))
        };
        match violation.rule {
            // What a host's ids look like, and how long they are.
            "OR-18" | "OR-11" | "OC-7" | "AN-8" | "BC-6" => any().is_some(),
            "OR-8" => given("id").is_some() && word(part, "type").as_deref() != Some("item_reference"),
            // A reply that has no reasoning before an item needs none.
            "OR-5" => given("id").is_some_and(|given| !given.reasoned),
            // A host may give one id to several items.
            "OR-7" | "AN-6" | "BC-5" => any().is_some_and(|given| given.times > 1),
            // A provider that did not think before its call does not ask for a thought when the result comes.
            "AN-32" => {
                given("id").is_some_and(|given| !given.reasoned) || self.unreasoned.contains(&spelled(part))
            }
            "OR-9" | "OR-10" => sealed(),
            // Reasoning of another form, or that led to nothing. One that broke off is another matter.
            "OR-4" | "OR-6" => {
                given("id").is_some_and(|given| given.whole)
                    || sealed()
                    || self.parts.contains(&spelled(part))
            }
            "AN-30" | "AN-31" | "AN-33" | "AN-42" | "GE-6" | "OC-15" => self.parts.contains(&spelled(part)),
            _ => false,
        }
    }
}

/// A body that was checked, whose parts are found quickly.
pub(crate) struct Judged<'a> {
    wire: Wire,
    body: Raw<'a>,
    messages: OnceCell<Vec<Raw<'a>>>,
}

impl<'a> Judged<'a> {
    pub(crate) fn new(wire: Wire, body: Raw<'a>) -> Self {
        Judged { wire, body, messages: OnceCell::new() }
    }

    /// The item, block, call or message that a path leads to or into.
    fn part(&self, path: &str) -> Option<Raw<'a>> {
        let mut steps = path.split('/').skip(1);
        if steps.next()? != list_key(self.wire) {
            return None;
        }
        let messages = self.messages.get_or_init(|| {
            let list = if self.body.kind() == JsonKind::Array {
                Some(self.body)
            } else {
                self.body.get(list_key(self.wire))
            };
            list.into_iter().flat_map(Raw::elements).collect()
        });
        let message = *messages.get(steps.next()?.parse::<usize>().ok()?)?;
        let inner = steps.next().filter(|key| matches!(*key, "content" | "parts" | "tool_calls"));
        let block = inner.and_then(|key| message.get(key)?.elements().nth(steps.next()?.parse().ok()?));
        Some(block.unwrap_or(message))
    }
}

/// The parts that a provider gave one after the other: items, or blocks of a message.
fn parts_of(wire: Wire, raw: Raw<'_>) -> Vec<Raw<'_>> {
    if wire == Wire::OpenaiResponses {
        return items(raw);
    }
    let lists = ["content", "parts", "tool_calls"].into_iter().filter_map(|key| raw.get(key));
    let inner = lists.flat_map(Raw::elements);
    std::iter::once(raw).chain(inner).collect()
}

/// Whether a part is reasoning, in the words of any wire.
fn is_reasoning(part: Raw<'_>) -> bool {
    matches!(word(part, "type").as_deref(), Some("reasoning" | "thinking" | "redacted_thinking"))
}

fn word<'a>(part: Raw<'a>, key: &str) -> Option<Cow<'a, str>> {
    part.get(key).and_then(Raw::string)
}

/// A part in a spelling that does not depend on the client: without what clients add and leave out, keys in order.
fn spelled(part: Raw<'_>) -> [u8; 32] {
    let mut members: Vec<(Cow<'_, str>, Cow<'_, str>)> = part
        .members()
        .filter(|(key, value)| {
            !matches!(key.as_ref(), "cache_control" | "status") && value.kind() != JsonKind::Null
        })
        .map(|(key, value)| (key, value.string().unwrap_or_else(|| crate::json::one_line(value))))
        .collect();
    members.sort();
    let mut hash = blake3::Hasher::new();
    for (key, value) in members {
        for text in [key, value] {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
    }
    *hash.finalize().as_bytes()
}
