//! Cache marks: AN-50 to AN-56.

use super::super::CheckOptions;
use super::finding::{Findings, RequestPath};
use super::models::least_cached_prefix;
use super::prefix::same;
use super::request::{AnthropicRequest, AnthropicRole, Type};
use crate::json::{JsonKind, Raw};

/// Most marks of one request.
const MAX_MARKS: usize = 4;
/// How many blocks before a mark the provider looks for what it has kept.
const LOOKBACK: usize = 20;
/// Bytes of JSON that make about one token.
const BYTES_PER_TOKEN: usize = 4;

/// How long an entry lives; shorter sorts first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lifetime {
    FiveMinutes,
    OneHour,
}

/// Up to here the request is to be kept.
struct Mark {
    place: RequestPath,
    lifetime: Lifetime,
    /// The block it stands on, counted over all messages; none before the messages.
    block: Option<usize>,
    /// Bytes of the request up to here.
    bytes: usize,
}

pub(super) fn check(request: &AnthropicRequest<'_>, options: &CheckOptions<'_>, found: &mut Findings) {
    let mut marks = marks(request);
    check_bearers(request, found);
    add_automatic(request, &mut marks, found);
    for mark in marks.iter().skip(MAX_MARKS) {
        found.add("AN-50", mark.place, "more than four cache marks; remove this one");
    }
    let mut shortest = Lifetime::OneHour;
    for mark in &marks {
        if mark.lifetime > shortest {
            let message = "a mark for one hour after one for five minutes; lower it to `5m`";
            found.add("AN-51", mark.place, message);
        }
        shortest = shortest.min(mark.lifetime);
    }
    check_lookback(request, &marks, found);
    if let Some((mark, least)) = marks.last().zip(options.model.and_then(least_cached_prefix))
        && mark.bytes / BYTES_PER_TOKEN < least
    {
        let message =
            format!("the prefix is shorter than the {least} tokens this model keeps; nothing is kept");
        found.add("AN-54", mark.place, message);
    }
    check_warming(request, &marks, found);
}

/// All marks, in the order the provider reads them: tools, system, messages.
fn marks(request: &AnthropicRequest<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut bytes = 0;
    for key in ["tools", "system"] {
        let Some(member) = request.get(key) else { continue };
        if member.kind() != JsonKind::Array {
            bytes += member.text().len();
        }
        for (index, element) in member.elements().enumerate() {
            bytes += element.text().len();
            if let Some(mark) = mark_of(element) {
                let lifetime = lifetime(mark);
                marks.push(Mark { place: RequestPath::Element(key, index), lifetime, block: None, bytes });
            }
        }
    }
    let blocks = request.messages.iter().flat_map(|message| &message.blocks);
    for (number, block) in blocks.enumerate() {
        bytes += block.raw.text().len();
        for marked in block.inner.iter().chain([block]) {
            if let Some(mark) = marked.mark {
                let lifetime = lifetime(mark);
                marks.push(Mark { place: marked.place, lifetime, block: Some(number), bytes });
            }
        }
    }
    marks
}

fn mark_of(element: Raw<'_>) -> Option<Raw<'_>> {
    element.get("cache_control").filter(|mark| mark.kind() != JsonKind::Null)
}

fn lifetime(mark: Raw<'_>) -> Lifetime {
    match mark.get("ttl").and_then(Raw::string).as_deref() {
        Some("1h") => Lifetime::OneHour,
        _ => Lifetime::FiveMinutes,
    }
}

/// A mark on the whole request stands for one on its last block.
fn add_automatic(request: &AnthropicRequest<'_>, marks: &mut Vec<Mark>, found: &mut Findings) {
    let Some(automatic) = request.get("cache_control") else { return };
    let lifetime = lifetime(automatic);
    let place = RequestPath::Member("cache_control");
    let blocks = || request.messages.iter().flat_map(|message| &message.blocks);
    let last = blocks().count().checked_sub(1);
    match blocks().next_back().and_then(|block| block.mark) {
        Some(mark) if self::lifetime(mark) != lifetime => {
            let message = "the last block has a mark with another lifetime; make them the same";
            found.add("AN-51", place, message);
        }
        Some(_) => {}
        None => {
            let bytes = blocks().map(|block| block.raw.text().len()).sum::<usize>()
                + ["tools", "system"]
                    .map(|key| request.get(key).map_or(0, |value| value.text().len()))
                    .iter()
                    .sum::<usize>();
            marks.push(Mark { place, lifetime, block: last, bytes });
        }
    }
}

/// AN-52: what no mark may stand on.
fn check_bearers(request: &AnthropicRequest<'_>, found: &mut Findings) {
    for (index, tool) in request.get("tools").into_iter().flat_map(Raw::elements).enumerate() {
        let deferred = tool.get("defer_loading").is_some_and(|value| value.text() == "true");
        if deferred && mark_of(tool).is_some() {
            let message = "a cache mark on a tool that is loaded later; move it to another tool";
            found.add("AN-52", RequestPath::Element("tools", index), message);
        }
    }
    let empty = |text: Option<Raw<'_>>| text.is_some_and(|text| text.text() == "\"\"");
    for (index, block) in request.get("system").into_iter().flat_map(Raw::elements).enumerate() {
        if empty(block.get("text")) && mark_of(block).is_some() {
            found.add(
                "AN-52",
                RequestPath::Element("system", index),
                "a cache mark on an empty text; remove it",
            );
        }
    }
    for block in request.messages.iter().flat_map(|message| &message.blocks) {
        if block.mark.is_none() {
            continue;
        }
        if block.is_thinking() {
            found.add("AN-52", block.place, "a cache mark on thinking; move it to the next block");
        } else if block.kind == Type::Text && empty(block.text) {
            found.add("AN-52", block.place, "a cache mark on an empty text; remove it");
        }
    }
}

/// AN-53: what the request before kept ends where the latest answer begins; from there on, marks must be close.
fn check_lookback(request: &AnthropicRequest<'_>, marks: &[Mark], found: &mut Findings) {
    let Some(latest) = request.turns.iter().rfind(|turn| turn.role == AnthropicRole::Assistant) else {
        return;
    };
    let sent = request.messages.get(..latest.messages.start).unwrap_or_default();
    let sent: usize = sent.iter().map(|message| message.blocks.len()).sum();
    let Some(mut kept) = sent.checked_sub(1) else { return };
    for mark in marks {
        let Some(block) = mark.block.filter(|block| *block > kept) else { continue };
        if block - kept > LOOKBACK {
            let message = "more than 20 blocks after what was kept before; mark a block in between";
            found.add("AN-53", mark.place, message);
        }
        kept = block;
    }
}

/// AN-56: a request that only fills the cache.
fn check_warming(request: &AnthropicRequest<'_>, marks: &[Mark], found: &mut Findings) {
    if request.get("max_tokens").map(Raw::text) != Some("0") {
        return;
    }
    let kind = |key: &str| request.get(key).and_then(|value| value.get("type")).and_then(Raw::string);
    let hindered = request.get("stream").map(Raw::text) == Some("true")
        || kind("thinking").as_deref() == Some("enabled")
        || matches!(kind("tool_choice").as_deref(), Some("any" | "tool"))
        || request.get("output_config").is_some_and(|config| config.get("format").is_some());
    let message = if hindered {
        "with no tokens to answer, leave out `stream`, manual thinking, forced tools and output formats"
    } else if marks.is_empty() {
        "with no tokens to answer and no cache mark, the request does nothing; mark what to keep"
    } else {
        return;
    };
    found.add("AN-56", RequestPath::Member("max_tokens"), message);
}

/// AN-55: what changed since the request before, so that what was kept cannot be used.
pub(super) fn check_changes(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    found: &mut Findings,
) {
    if request.get("cache_control").is_none() && marks(request).is_empty() {
        return;
    }
    let changes = [
        ("model", "\"\"", "another model than before; nothing that was kept is used"),
        ("tools", "[]", "the tools changed; nothing that was kept is used"),
        ("system", "\"\"", "the system prompt changed; what was kept from there on is not used"),
        ("tool_choice", r#"{"type":"auto"}"#, "the tool choice changed; kept messages are not used"),
        ("thinking", r#"{"type":"disabled"}"#, "thinking changed; kept messages are not used"),
    ];
    for (key, absent, message) in changes {
        let value = |request: &AnthropicRequest<'_>| request.get(key).map_or(absent, Raw::text).to_owned();
        let (now, then) = (value(request), value(previous));
        if !same(Raw::trusted(&now), Raw::trusted(&then)) {
            found.add("AN-55", RequestPath::Member(key), message);
        }
    }
}
