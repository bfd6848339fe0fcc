//! Where a request stopped beginning like the one before it, in the order in which providers read a prompt: tools, instructions,
//! messages.
//!
//! Providers compare prompts from their start and bill everything behind the first difference anew. Cache marks are no difference:
//! a client puts them on other places in every call.

use std::collections::BTreeSet;

use crate::json::{self, JsonKind, Raw};
use crate::wire::{Wire, list_key, system_key, tools_key};

/// Bytes shown on each side of the first difference.
const AROUND: usize = 60;
/// What a cache mark is called in a request.
const MARK: &[u8] = b"\"cache_control\"";

/// The part of a request that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokenPart {
    /// The tools that are offered: which were added, removed, or described in another way.
    Tools {
        /// Names that were not there before.
        added: Vec<String>,
        /// Names that are not there any more.
        removed: Vec<String>,
        /// Names in both, with another description or at another place.
        changed: Vec<String>,
    },
    /// The instructions.
    Instructions,
    /// A message, by its index in the list.
    Message(usize),
}

/// The first difference of a request to the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixBreak {
    /// What differs.
    pub part: BrokenPart,
    /// The first byte of the later request that differs, counted from the beginning of its body.
    pub byte: usize,
    /// What stood there before, with some bytes in front; empty where the earlier request ended.
    pub before: String,
    /// What stands there now, with some bytes in front; empty where the part is gone.
    pub after: String,
}

/// The first difference of a request to the one before it; none where the later one begins with all of the earlier one.
///
/// ```
/// use scrollback_core::{replay::{BrokenPart, prefix_break}, wire::Wire};
/// let before = r#"{"system":"Be brief.","messages":[{"role":"user","content":"hi"}]}"#;
/// let after = r#"{"system":"Be terse.","messages":[{"role":"user","content":"hi"}]}"#;
/// let found = prefix_break(Wire::Anthropic, before, after);
/// assert_eq!(found.map(|found| (found.part, found.byte)), Some((BrokenPart::Instructions, 14)));
/// ```
pub fn prefix_break(wire: Wire, before: &str, after: &str) -> Option<PrefixBreak> {
    let (old, new) = (json::check(before).ok()?, json::check(after).ok()?);
    let tools = tools_key(wire);
    if let Some(at) = difference(old.get(tools), new.get(tools)) {
        let part = changed_tools(old.get(tools), new.get(tools));
        return Some(found(part, at, after, old.get(tools), new.get(tools)));
    }
    if let Some(key) = system_key(wire)
        && let Some(at) = difference(old.get(key), new.get(key))
    {
        return Some(found(BrokenPart::Instructions, at, after, old.get(key), new.get(key)));
    }
    let list = list_key(wire);
    let (olds, mut news) = (elements(old.get(list)), elements(new.get(list)).into_iter());
    for (number, old) in olds.into_iter().enumerate() {
        let new = news.next();
        if let Some(at) = difference(Some(old), new) {
            let instructs = matches!(role(old).as_deref(), Some("system" | "developer"));
            let part = if instructs { BrokenPart::Instructions } else { BrokenPart::Message(number) };
            return Some(found(part, at, after, Some(old), new));
        }
    }
    None
}

fn elements(list: Option<Raw<'_>>) -> Vec<Raw<'_>> {
    match list {
        // A Responses request may have a plain text in place of a list.
        Some(one) if one.kind() == JsonKind::String => vec![one],
        list => list.into_iter().flat_map(Raw::elements).collect(),
    }
}

fn role(message: Raw<'_>) -> Option<String> {
    Some(message.get("role")?.string()?.into_owned())
}

/// Where two values differ, as a place in each; none if they say the same.
#[derive(Clone, Copy, Debug)]
struct Difference {
    old: usize,
    new: usize,
}

fn difference(old: Option<Raw<'_>>, new: Option<Raw<'_>>) -> Option<Difference> {
    let (old, new) = match (old.filter(|raw| !is_empty(*raw)), new.filter(|raw| !is_empty(*raw))) {
        (None, None) => return None,
        (Some(old), Some(new)) => (old, new),
        _ => return Some(Difference { old: 0, new: 0 }),
    };
    if old.text() == new.text() || says_the_same(old, new) {
        return None;
    }
    let (one, other) = (Unmarked::of(old.text()), Unmarked::of(new.text()));
    let same = one.bytes.iter().zip(&other.bytes).take_while(|(one, other)| one == other).count();
    if same == one.bytes.len() && same == other.bytes.len() {
        return None;
    }
    Some(Difference { old: one.place(same, old.text()), new: other.place(same, new.text()) })
}

fn is_empty(raw: Raw<'_>) -> bool {
    matches!(raw.text(), "null" | "[]" | "\"\"")
}

/// Whether two messages differ only in that one has its text in a list of one block, as a block can bear a cache mark.
fn says_the_same(old: Raw<'_>, new: Raw<'_>) -> bool {
    let only_text = |raw: Raw<'_>| -> Option<String> {
        if raw.kind() == JsonKind::String {
            return Some(raw.string()?.into_owned());
        }
        let mut blocks = raw.elements();
        let block = blocks.next()?;
        let is_text = block.get("type")?.string()? == "text" && blocks.next().is_none();
        is_text.then(|| Some(block.get("text")?.string()?.into_owned()))?
    };
    let content = |raw: Raw<'_>| raw.get("content").and_then(only_text);
    let (one, other) = if old.kind() == JsonKind::Object {
        (content(old).zip(role(old)), content(new).zip(role(new)))
    } else {
        let whole = |raw| only_text(raw).map(|text| (text, String::new()));
        (whole(old), whole(new))
    };
    one.is_some() && one == other
}

/// A JSON text without its cache marks and without the whitespace between its parts.
struct Unmarked {
    bytes: Vec<u8>,
    /// The place of each byte in the text.
    places: Vec<u32>,
}

impl Unmarked {
    fn of(text: &str) -> Self {
        let source = text.as_bytes();
        let mut out = Unmarked { bytes: Vec::with_capacity(source.len()), places: Vec::new() };
        let mut at = 0;
        while let Some(&byte) = source.get(at) {
            match byte {
                b'"' => {
                    let end = string_end(source, at);
                    if source.get(at..end) == Some(MARK)
                        && let Some(value) = after_colon(source, end)
                    {
                        at = out.skip(source, value);
                        continue;
                    }
                    for place in at..end {
                        out.push(source, place);
                    }
                    at = end;
                }
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                _ => {
                    out.push(source, at);
                    at += 1;
                }
            }
        }
        out
    }

    fn push(&mut self, source: &[u8], place: usize) {
        self.bytes.extend(source.get(place));
        self.places.push(place as u32);
    }

    /// Leaves out the value of a mark and the comma beside it; where what follows begins.
    fn skip(&mut self, source: &[u8], value: usize) -> usize {
        let end = value_end(source, value);
        if self.bytes.last() == Some(&b',') {
            self.bytes.pop();
            self.places.pop();
            return end;
        }
        let next = space_end(source, end);
        if source.get(next) == Some(&b',') { next + 1 } else { end }
    }

    /// The place in the text of a byte; the end of the text behind the last one.
    fn place(&self, byte: usize, text: &str) -> usize {
        self.places.get(byte).map_or(text.len(), |place| *place as usize)
    }
}

fn string_end(source: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = source.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

fn space_end(source: &[u8], mut at: usize) -> usize {
    while source.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Where the value behind a key begins; none if what ended here is no key.
fn after_colon(source: &[u8], end: usize) -> Option<usize> {
    let colon = space_end(source, end);
    (source.get(colon) == Some(&b':')).then(|| space_end(source, colon + 1))
}

fn value_end(source: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while let Some(byte) = source.get(at) {
        match byte {
            b'"' => {
                at = string_end(source, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return if depth == 1 { at + 1 } else { at },
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    source.len()
}

fn found(
    part: BrokenPart,
    at: Difference,
    body: &str,
    old: Option<Raw<'_>>,
    new: Option<Raw<'_>>,
) -> PrefixBreak {
    let start = new.map_or(body.len(), |new| new.span_in(body).0 as usize);
    let around =
        |raw: Option<Raw<'_>>, at: usize| raw.map_or_else(String::new, |raw| excerpt(raw.text(), at));
    PrefixBreak { part, byte: start + at.new, before: around(old, at.old), after: around(new, at.new) }
}

/// What stands around a byte, whole characters only.
fn excerpt(text: &str, at: usize) -> String {
    let start = (0..=at.saturating_sub(AROUND / 2)).rev().find(|&start| text.is_char_boundary(start));
    let end = (at + AROUND).min(text.len());
    let end = (end..=text.len()).find(|&end| text.is_char_boundary(end));
    text.get(start.unwrap_or(0)..end.unwrap_or(text.len())).unwrap_or_default().to_string()
}

/// Which tools were added, removed, or changed.
fn changed_tools(old: Option<Raw<'_>>, new: Option<Raw<'_>>) -> BrokenPart {
    let listed = |list: Option<Raw<'_>>| -> Vec<(String, String)> {
        let tools = list.into_iter().flat_map(Raw::elements);
        let named = tools.filter_map(|tool| {
            let own = tool.get("name").or_else(|| tool.get("function")?.get("name"));
            let name = own.or_else(|| tool.get("type"))?.string()?.into_owned();
            Some((name, String::from_utf8_lossy(&Unmarked::of(tool.text()).bytes).into_owned()))
        });
        named.collect()
    };
    let (old, new) = (listed(old), listed(new));
    let names =
        |list: &[(String, String)]| list.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (names(&old), names(&new));
    let unlike = |(name, text): &&(String, String)| {
        before.contains(name) && !old.iter().any(|(known, said)| known == name && said == text)
    };
    let mut changed: Vec<String> = new.iter().filter(unlike).map(|(name, _)| name.clone()).collect();
    if before == after && changed.is_empty() {
        // The same tools in another order.
        let moved = old.iter().zip(&new).filter(|((one, _), (other, _))| one != other);
        changed = moved.map(|(_, (name, _))| name.clone()).collect();
    }
    BrokenPart::Tools {
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
        changed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn body(tools: &str, system: &str, messages: &str) -> String {
        format!(r#"{{"model":"m","messages":[{messages}],"system":{system},"tools":[{tools}]}}"#)
    }

    #[test]
    fn a_request_that_grew_and_moved_its_marks_is_not_broken() {
        let marked =
            r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}"#;
        let plain = r#"{"role":"user","content":"hi"}"#;
        let long = r#"{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"ho"}]}"#;
        let long_marked = r#"{"role":"user","content":[{"type":"text","text":"hi"},{"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text", "text":"ho"}]}"#;
        let tool = r#"{"name":"a","cache_control":{"type":"ephemeral"}}"#;
        let more = r#"{"role":"assistant","content":"ok"}"#;
        for (one, other) in [(marked, plain), (plain, marked), (long, long_marked), (long_marked, long)] {
            let before = body(tool, r#""s""#, one);
            let after = body(r#"{"name":"a"}"#, r#""s""#, &format!("{other},{more}"));
            assert_eq!(prefix_break(Wire::Anthropic, &before, &after), None, "{one} {other}");
        }
    }

    #[test]
    fn the_first_part_in_the_order_of_reading_is_named_with_its_byte() {
        let before = body(r#"{"name":"a"},{"name":"b"}"#, r#""brief""#, r#"{"role":"user","content":"1"}"#);
        let after = body(r#"{"name":"a"},{"name":"c"}"#, r#""terse""#, r#"{"role":"user","content":"2"}"#);
        let found = prefix_break(Wire::Anthropic, &before, &after).unwrap();
        assert_eq!(
            found.part,
            BrokenPart::Tools { added: vec!["c".into()], removed: vec!["b".into()], changed: vec![] }
        );
        assert_eq!(&after[found.byte..=found.byte], "c");

        let before =
            body("", r#""s""#, r#"{"role":"user","content":"first é"},{"role":"user","content":"x"}"#);
        let after =
            body("", r#""s""#, r#"{"role":"user","content":"first é"},{"role":"user","content":"y"}"#);
        let found = prefix_break(Wire::Anthropic, &before, &after).unwrap();
        assert_eq!((found.part, &after[found.byte..=found.byte]), (BrokenPart::Message(1), "y"));
        assert!(found.before.contains('x') && found.after.contains('y'));
    }

    #[test]
    fn what_is_gone_ends_the_request() {
        let one = r#"{"role":"user","content":"1"}"#;
        let two = r#"{"role":"user","content":"2"}"#;
        let found =
            prefix_break(Wire::Anthropic, &body("", "null", &format!("{one},{two}")), &body("", "null", one));
        let found = found.unwrap();
        assert_eq!((found.part, found.after.as_str()), (BrokenPart::Message(1), ""));
        let chat = |system: &str| format!(r#"{{"messages":[{{"role":"system","content":"{system}"}}]}}"#);
        let found = prefix_break(Wire::OpenaiChat, &chat("a"), &chat("b"));
        assert_eq!(found.map(|found| found.part), Some(BrokenPart::Instructions));
        assert_eq!(prefix_break(Wire::OpenaiChat, "nonsense", &chat("b")), None);
    }

    #[test]
    fn tools_in_another_order_are_named() {
        let (one, other) = (r#"{"name":"a"},{"name":"b"}"#, r#"{"name":"b"},{"name":"a"}"#);
        let found = prefix_break(Wire::Anthropic, &body(one, "null", ""), &body(other, "null", "")).unwrap();
        assert!(matches!(found.part, BrokenPart::Tools { changed, .. } if changed == ["b", "a"]));
    }
}
