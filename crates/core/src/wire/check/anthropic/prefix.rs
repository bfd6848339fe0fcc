//! Reasoning against the request before: what was signed is bound to everything in front of it. AN-30, AN-34 to
//! AN-36.

use std::collections::HashMap;

use super::super::{CheckOptions, Severity};
use super::finding::Findings;
use super::models::reads_thinking;
use super::request::{AnthropicBlock, AnthropicRequest, AnthropicRole, RoleRun, Type};
use crate::json::{JsonPiece, Raw, pieces};
use crate::model::{ModelName, Provider};

/// A block in the order the model reads them; messages of one role run together.
type PrefixUnit<'r, 'a> = (AnthropicRole, &'r AnthropicBlock<'a>);

pub(super) fn check(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    options: &CheckOptions<'_>,
    found: &mut Findings,
) {
    let (now, then) = (units(request), units(previous));
    let signed: HashMap<&str, usize> =
        then.iter().enumerate().filter_map(|(at, (_, block))| Some((block.seal()?, at))).collect();
    if signed.is_empty() {
        return;
    }
    check_order(request, &then, &signed, found);
    check_reader(request, previous, &now, &signed, options, found);
    if !newly_summarised(&now, &then) {
        check_binding(request, previous, &now, &then, &signed, found);
    }
}

fn units<'r, 'a>(request: &'r AnthropicRequest<'a>) -> Vec<PrefixUnit<'r, 'a>> {
    let messages = request.messages.iter();
    messages.flat_map(|message| message.blocks.iter().map(|block| (message.role, block))).collect()
}

/// A signed summary in front keeps what follows it valid, though what it summarises is gone.
fn newly_summarised(now: &[PrefixUnit<'_, '_>], then: &[PrefixUnit<'_, '_>]) -> bool {
    let now = summary(now);
    now.is_some() && now != summary(then)
}

fn summary<'a>(units: &[PrefixUnit<'_, 'a>]) -> Option<&'a str> {
    let (_, block) = units.first()?;
    (block.kind == Type::Compaction).then(|| block.raw.text())
}

/// Where the two requests stop being the same.
#[derive(Default)]
struct Difference {
    /// What the first difference is, if it is not only missing reasoning.
    what: Option<&'static str>,
    /// The first block now that has another prefix than it had.
    edited: usize,
    /// The first block now before which reasoning is missing.
    thinned: Option<usize>,
}

fn difference(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    now: &[PrefixUnit<'_, '_>],
    then: &[PrefixUnit<'_, '_>],
) -> Difference {
    for (key, what) in [("tools", "the tools differ"), ("system", "the system prompt differs")] {
        if !same_member(request, previous, key) {
            return Difference { what: Some(what), ..Difference::default() };
        }
    }
    let (mut at, mut past, mut thinned) = (0, 0, None);
    while let (Some((role, block)), Some((old_role, old))) = (now.get(at), then.get(past)) {
        if role == old_role && same_block(block, old) {
            at += 1;
        } else if old.is_thinking() && (block.seal() != old.seal() || old.seal().is_none()) {
            thinned = thinned.or(Some(at));
        } else {
            // A piece of reasoning that was itself changed still has its prefix.
            let itself = old.is_thinking();
            let edited = if itself { at + 1 } else { at };
            return Difference { what: Some("an earlier message differs"), edited, thinned };
        }
        past += 1;
    }
    Difference { what: None, edited: now.len(), thinned }
}

fn check_binding(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    now: &[PrefixUnit<'_, '_>],
    then: &[PrefixUnit<'_, '_>],
    signed: &HashMap<&str, usize>,
    found: &mut Findings,
) {
    let Difference { what, edited, thinned } = difference(request, previous, now, then);
    let kept = now
        .iter()
        .enumerate()
        .filter(|(_, (_, block))| block.seal().is_some_and(|seal| signed.contains_key(seal)));
    // The caller may have asked for such blocks to be dropped instead.
    let drops = drops_blocks(request);
    for (at, (_, block)) in kept {
        let (rule, message) = if let Some(what) = what.filter(|_| at >= edited) {
            (
                "AN-34",
                format!(
                    "{what} from what this thinking was signed with; leave out this block and all later thinking"
                ),
            )
        } else if thinned.is_some_and(|thinned| at >= thinned) {
            ("AN-35", "thinking that came before this block is missing; leave out this block and all later thinking".into())
        } else {
            continue;
        };
        if drops {
            found.add_as(rule, Severity::Silent, block.place, message);
        } else {
            found.add(rule, block.place, message);
        }
    }
}

fn drops_blocks(request: &AnthropicRequest<'_>) -> bool {
    let binding = request.get("thinking").and_then(|thinking| thinking.get("block_binding"));
    let behavior = binding.and_then(|binding| binding.get("prefix_mismatch_behavior")).and_then(Raw::string);
    behavior.as_deref() == Some("drop_block")
}

/// AN-30: reasoning of the latest answer comes back as it was, and in its order.
fn check_order(
    request: &AnthropicRequest<'_>,
    then: &[PrefixUnit<'_, '_>],
    signed: &HashMap<&str, usize>,
    found: &mut Findings,
) {
    let Some(latest) = request.turns.iter().rfind(|turn| turn.role == AnthropicRole::Assistant) else {
        return;
    };
    let calls: HashMap<&str, usize> = then
        .iter()
        .enumerate()
        .filter(|(_, (_, block))| block.kind == Type::Call)
        .filter_map(|(at, (_, block))| Some((block.id.as_deref()?, at)))
        .collect();
    let stood = |block: &AnthropicBlock<'_>| match block.kind {
        Type::Call => block.id.as_deref().and_then(|id| calls.get(id)).copied(),
        _ => block.seal().and_then(|seal| signed.get(seal)).copied(),
    };
    let places = known_places(request, latest, stood);
    let mut least_after = places
        .iter()
        .rev()
        .scan(usize::MAX, |least, (_, at)| {
            let after = *least;
            *least = after.min(*at);
            Some(after)
        })
        .collect::<Vec<_>>();
    least_after.reverse();
    let mut most_before = 0;
    for ((block, at), after) in places.into_iter().zip(least_after) {
        if block.is_thinking() {
            let changed = then.get(at).is_some_and(|(_, old)| !same_block(block, old));
            if changed {
                found.add("AN-30", block.place, "this thinking was changed; send it back as it came");
            } else if at < most_before || at > after {
                found.add(
                    "AN-30",
                    block.place,
                    "this thinking was moved; send the answer's blocks in their order",
                );
            }
        }
        most_before = most_before.max(at);
    }
}

/// The blocks of a turn that stood in the request before, and where.
fn known_places<'r, 'a>(
    request: &'r AnthropicRequest<'a>,
    turn: &RoleRun,
    stood: impl Fn(&AnthropicBlock<'_>) -> Option<usize>,
) -> Vec<(&'r AnthropicBlock<'a>, usize)> {
    request.blocks(turn).filter_map(|block| Some((block, stood(block)?))).collect()
}

/// AN-36: another model may not be able to read what this one thought.
fn check_reader(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    now: &[PrefixUnit<'_, '_>],
    signed: &HashMap<&str, usize>,
    options: &CheckOptions<'_>,
    found: &mut Findings,
) {
    let provider = options.model.map_or(Provider::Anthropic, ModelName::provider);
    let named = |request: &AnthropicRequest<'_>| {
        let model = request.get("model").and_then(Raw::string)?;
        ModelName::parse(&format!("{provider}:{model}")).ok()
    };
    let (Some(reader), Some(writer)) = (named(request), named(previous)) else { return };
    if reader == writer || reads_thinking(&reader, &writer) {
        return;
    }
    for (_, block) in now {
        if block.seal().is_some_and(|seal| signed.contains_key(seal)) {
            found.add(
                "AN-36",
                block.place,
                "another model thought this; the model asked now is not shown it",
            );
        }
    }
}

fn same_member(request: &AnthropicRequest<'_>, previous: &AnthropicRequest<'_>, key: &str) -> bool {
    match (request.get(key), previous.get(key)) {
        (Some(now), Some(then)) => same(now, then),
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => matches!(one.text(), "[]" | "\"\""),
    }
}

fn same_block(one: &AnthropicBlock<'_>, other: &AnthropicBlock<'_>) -> bool {
    // A text alone means the same as a block with that text.
    if one.kind == Type::Text && other.kind == Type::Text && !one.has_more && !other.has_more {
        return one.text.map(Raw::text) == other.text.map(Raw::text);
    }
    // Most differences show without reading the whole block.
    one.kind == other.kind && one.seal() == other.seal() && same(one.raw, other.raw)
}

/// Whether two values are the same to the provider: white space between tokens and cache marks do not count.
pub(super) fn same(one: Raw<'_>, other: Raw<'_>) -> bool {
    one.text() == other.text() || bare(one) == bare(other)
}

/// A value without white space between its tokens, and without the cache marks in it.
fn bare(raw: Raw<'_>) -> String {
    let mut out = String::with_capacity(raw.text().len());
    let mut depth = 0_usize;
    // The depth of the mark that is being left out.
    let mut leaving: Option<usize> = None;
    let mut literal: Option<&str> = None;
    for piece in pieces(raw) {
        let between = match piece {
            JsonPiece::String(text) => {
                literal = leaving.is_none().then_some(text);
                out.push_str(literal.unwrap_or_default());
                continue;
            }
            JsonPiece::Between(between) => between,
        };
        for c in between.chars().filter(|c| !c.is_ascii_whitespace()) {
            match c {
                ':' if literal == Some("\"cache_control\"") && leaving.is_none() => {
                    out.truncate(out.len() - "\"cache_control\"".len());
                    if out.ends_with(',') {
                        out.pop();
                    }
                    leaving = Some(depth);
                }
                '{' | '[' => depth += 1,
                '}' | ']' => {
                    leaving = leaving.filter(|left| *left < depth);
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            literal = None;
            let ends = c == ',' && leaving == Some(depth);
            if ends {
                leaving = None;
            }
            if leaving.is_none() && !(ends && out.ends_with('{')) {
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json;

    #[test]
    fn cache_marks_and_space_do_not_count() {
        let cases = [
            (r#"{"a": 1, "cache_control": {"type": "ephemeral"}}"#, r#"{"a":1}"#),
            (r#"{"cache_control":{"ttl":"1h","x":[{}]},"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"cache_control":null,"b":[ ]}"#, r#"{"a":1,"b":[]}"#),
            (r#"{"cache_control":1}"#, "{}"),
            (
                r#"[{"k":"cache_control"},{"k":{"cache_control":{},"j":"a b"}}]"#,
                r#"[{"k":"cache_control"},{"k":{"j":"a b"}}]"#,
            ),
            (r#"[{"a":{"cache_control":[1,2]},"b":2}]"#, r#"[{"a":{},"b":2}]"#),
            (r#""a  b""#, r#""a  b""#),
        ];
        for (text, expected) in cases {
            assert_eq!(bare(json::check(text).unwrap()), expected, "{text}");
        }
        assert!(!same(json::check(r#"["a b"]"#).unwrap(), json::check(r#"["a  b"]"#).unwrap()));
    }
}
