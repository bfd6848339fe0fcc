//! How a check looks into a body, the same for every wire.

use std::borrow::Cow;

use super::{CheckOptions, Size, Wire};
use crate::context::CurationContext;
use crate::json::{Elements, JsonKind, Raw};
use crate::model::facts;
use crate::tokens::{Counter, entry_tokens};
use crate::wire::ParseOptions;

/// The elements under several keys of a body, which is walked through once; those of a bare list are the first.
pub(super) fn lists<'a, const N: usize>(body: Raw<'a>, keys: [&str; N]) -> [Elements<'a>; N] {
    let mut found = [None; N];
    if let (JsonKind::Array, Some(first)) = (body.kind(), found.first_mut()) {
        *first = Some(body);
    }
    for (key, value) in body.members() {
        let place = keys.iter().position(|wanted| *wanted == key).and_then(|at| found.get_mut(at));
        if let Some(place) = place {
            // The first one, if a key appears twice.
            place.get_or_insert(value);
        }
    }
    found.map(|list| list.unwrap_or(Raw::NULL).elements())
}

/// The text under `key` of an object; none if it is missing or no text.
pub(super) fn text<'a>(object: Raw<'a>, key: &str) -> Option<Cow<'a, str>> {
    object.get(key).and_then(Raw::string)
}

/// Whether a text is longer than `limit` characters; most are known not to be by their bytes.
pub(super) fn longer_than(limit: usize, text: &str) -> bool {
    text.len() > limit && text.chars().nth(limit).is_some()
}

/// Whether a value is a text longer than `limit` characters, read only if it can be.
pub(super) fn is_longer_than(limit: usize, value: Raw<'_>) -> bool {
    value.text().len() > limit && value.string().is_some_and(|text| longer_than(limit, &text))
}

/// What a body costs and what the model's window holds, when it costs more than that.
pub(super) fn overflow(wire: Wire, body: Raw<'_>, options: &CheckOptions<'_>) -> Option<(usize, usize)> {
    let model = options.model.filter(|_| options.size == Size::Counted)?;
    let window = usize::try_from(facts(model)?.context_window).ok()?;
    // A token is at least one byte: most bodies need no counting.
    if body.text().len() <= window {
        return None;
    }
    let parsed = wire.parse(body, &ParseOptions::default()).ok()?;
    let counter = Counter::for_model(Some(model));
    let cx = CurationContext { tools: parsed.tools, ..CurationContext::for_model(Some(model.clone())) };
    let tokens: usize = parsed.entries.iter().map(|entry| entry_tokens(counter.tokenizer, entry)).sum();
    let total = tokens + cx.overhead(cx.counter);
    (total > window).then_some((total, window))
}
