//! What was looked up, printed as the text the model reads: lines with handles, and what to ask next.

use std::fmt::Write;

use super::handle::{Handle, Tail};
use super::request::{AroundRequest, LineRange, ReadRequest, RecallScope, Refusal, SearchRequest, Wanted};
use super::text::{exact_text, one_line};
use crate::entry::{Role, Time};
use crate::record::Slot;
use crate::tokens::Tokenizer;

/// Most tokens of one answer.
pub const MOST_TOKENS: usize = 10_000;
/// Most places of one answer.
pub const MOST_PLACES: u64 = 200;
/// Characters of a line of text; longer ones go on in the next line, so that every part of a text can be asked for.
const LINE: usize = 1_000;
/// Characters of an entry in a list.
const SHORT: usize = 240;

/// A place that was looked up.
#[derive(Clone, Debug)]
pub struct FoundPlace {
    /// Its position.
    pub position: u64,
    /// What stands there.
    pub slot: Slot,
    /// The tool whose result it is, if it is one and the tool is known.
    pub tool: Option<String>,
}

/// A place that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundHit {
    /// Its name.
    pub handle: Handle,
    /// Who spoke.
    pub role: Role,
    /// When.
    pub at: Time,
    /// The tool it calls or answers, if any.
    pub tool: Option<String>,
    /// The words around the match.
    pub snippet: String,
}

/// How much a scope holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Entries.
    pub entries: u64,
    /// Conversations.
    pub conversations: u64,
}

/// Hits in a wider scope, outside the one that was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WiderHits {
    /// The scope.
    pub scope: RecallScope,
    /// How many hits it has; of more than [`WiderHits::COUNTED`] only that there are more.
    pub hits: usize,
}

impl WiderHits {
    /// So many are counted.
    pub const COUNTED: usize = 20;
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundHits {
    /// Best first.
    pub hits: Vec<FoundHit>,
    /// Whether there are more.
    pub more: bool,
    /// How much the scope holds.
    pub extent: Extent,
    /// Hits of wider scopes; only looked for when there are none in this one.
    pub wider: Vec<WiderHits>,
    /// Whether hits have only some of the words, because none has all.
    pub some_words: bool,
    /// Whether the search stopped before it saw everything.
    pub stopped: bool,
    /// The session and project that were searched, in words.
    pub place: String,
}

/// The answer to `search`.
pub fn hits_text(request: &SearchRequest, found: &FoundHits) -> String {
    let scope = scope_words(request.scope);
    let Extent { entries, conversations } = found.extent;
    let holds = match request.scope {
        RecallScope::Conversation => format!("{entries} entries"),
        _ if conversations == 1 => format!("{entries} entries"),
        _ => format!("{entries} entries in {conversations} conversations"),
    };
    let count = found.hits.len();
    let plural = if count == 1 { "hit" } else { "hits" };
    let first = if found.more { "the first " } else { "" };
    let mut out = format!("{first}{count} {plural} in {scope} ({holds})");
    if count == 0 {
        for wider in &found.wider {
            let more = if wider.hits >= WiderHits::COUNTED { " or more" } else { "" };
            let hits = if wider.hits == 1 { "hit" } else { "hits" };
            let place = match wider.scope {
                RecallScope::Conversation | RecallScope::Session => "other conversations of this session",
                RecallScope::Project => "other sessions of this project",
                RecallScope::All => "all other sessions",
            };
            let _ = write!(out, "; {}{more} {hits} in {place}", wider.hits);
            if wider.hits > 0 {
                let _ = write!(out, ": widen with scope={}", wider.scope.as_str());
                break;
            }
        }
        if found.wider.iter().all(|wider| wider.hits == 0) {
            out.push_str(match request.wanted {
                Wanted::Words(_) => "; try fewer or other words, or wor* for the beginning of a word",
                Wanted::Pattern(_) => "; try a simpler expression, or words",
            });
        }
    } else if found.some_words {
        out.push_str("; no entry has all the words, these have some");
    }
    if found.stopped {
        out.push_str("; only the newest part was looked through: narrow with since, before, role or tool");
    }
    if found.more {
        out.push_str("; more words, role, tool or a larger limit show others");
    }
    let _ = write!(out, "\n{}", found.place);
    for hit in &found.hits {
        let _ = write!(out, "\n{} {} {}", hit.handle, minute(hit.at), who(hit.role, hit.tool.as_deref()));
        let _ = write!(out, "\n  {}", one_line(&hit.snippet, SHORT + 40));
    }
    if count > 0 {
        out.push_str("\nread a handle for the exact text");
    }
    out
}

fn scope_words(scope: RecallScope) -> &'static str {
    match scope {
        RecallScope::Session => "this session",
        RecallScope::Conversation => "this conversation",
        RecallScope::Project => "this project",
        RecallScope::All => "all sessions",
    }
}

fn minute(at: Time) -> String {
    at.to_string().get(..16).unwrap_or_default().replace('T', " ")
}

fn who(role: Role, tool: Option<&str>) -> String {
    match (role, tool) {
        (Role::Tool, Some(tool)) => format!("result of {tool}"),
        (Role::Assistant, Some(tool)) => format!("assistant calls {tool}"),
        _ => role.as_str().into(),
    }
}

/// Who stands at a place, in words.
fn speaker(place: &FoundPlace) -> String {
    match &place.slot {
        Slot::Message(entry) => {
            let called: Vec<String> =
                entry.tool_calls().map(|call| call.name.as_str().into_owned()).collect();
            let tool = if called.is_empty() { place.tool.clone() } else { Some(called.join(", ")) };
            who(entry.role, tool.as_deref())
        }
        Slot::Decision(..) => "decision".into(),
        Slot::Erased(_) => "erased".into(),
    }
}

/// A text in lines of at most [`LINE`] characters, as they are numbered.
fn lines(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for line in text.split('\n') {
        let mut rest = line;
        while let Some((end, _)) = rest.char_indices().nth(LINE) {
            let (shown, after) = rest.split_at(end);
            all.push(shown);
            rest = after;
        }
        all.push(rest);
    }
    // A text that ends with a line break has no empty line after it.
    if all.len() > 1 && text.ends_with('\n') {
        all.pop();
    }
    all
}

/// The lines of a text that `read` asks for, with their numbers; none where it asks for the whole text.
pub fn chosen_lines(request: &ReadRequest, text: &str) -> Option<Vec<(usize, String)>> {
    let all = lines(text);
    let numbered = (1..).zip(all.iter().copied());
    let near = |number: usize, pattern: &super::TextPattern| {
        let first = number.saturating_sub(request.context + 1);
        let around = all.iter().skip(first).take(number + request.context - first);
        around.into_iter().any(|line| pattern.find(line).is_some())
    };
    let chosen = |(number, _): &(usize, &str)| match (&request.pattern, request.lines) {
        (Some(pattern), _) => near(*number, pattern),
        (None, Some(range)) => *number >= range.first && range.last.is_none_or(|last| *number <= last),
        (None, None) => true,
    };
    let asked = request.pattern.is_some() || request.lines.is_some();
    asked.then(|| numbered.filter(chosen).map(|(number, line)| (number, line.to_string())).collect())
}

/// What an answer has room for.
struct Room {
    left: usize,
}

impl Room {
    /// Takes a piece of text, if there is room for it. Counting is exact only where it matters: a token has at least one
    /// byte.
    fn take(&mut self, out: &mut String, piece: &str, exact: bool) -> bool {
        let tokens = if exact { Tokenizer::O200kBase.count(piece) + 1 } else { piece.len() };
        let fits = tokens <= self.left;
        if fits {
            self.left -= tokens;
            out.push_str(piece);
        }
        fits
    }
}

/// The answer to `read`: the places asked for, or those of them that fit. `head` is where the record ends.
pub fn places_text(
    request: &ReadRequest,
    tail: &Tail,
    head: u64,
    places: &[FoundPlace],
) -> Result<String, Refusal> {
    let Some((_, last)) = request.handle.positions() else {
        let end = head.saturating_sub(1);
        return Err(Refusal::new(format!(
            "{} names a whole conversation of {head} entries; ask outline for it, or read a part such as {}",
            request.handle,
            Handle::between(tail.clone(), 0, end.min(9))
        )));
    };
    let Some(newest) = places.last().map(|place| place.position) else {
        return Err(Refusal::new(match head {
            0 => format!("no entry at {}: the conversation is empty", request.handle),
            _ => format!(
                "no entry at {}: the conversation ends at {}",
                request.handle,
                Handle::at(tail.clone(), head - 1)
            ),
        }));
    };
    let texts: Vec<(String, String)> = places
        .iter()
        .map(|place| {
            let handle = Handle::at(tail.clone(), place.position);
            let head = format!("{handle} {} {}", minute(place.slot.created_at()), speaker(place));
            (head, exact_text(&place.slot))
        })
        .collect();
    if let Some(pattern) = &request.pattern {
        return Ok(matching_text(request, pattern, &texts));
    }
    let bytes: usize = texts.iter().map(|(head, text)| head.len() + text.len() + 8 * lines(text).len()).sum();
    let exact = bytes > MOST_TOKENS;
    let mut room = Room { left: MOST_TOKENS - 120 };
    let mut out = String::new();
    for ((head, text), place) in texts.iter().zip(places) {
        let all = lines(text);
        let LineRange { first: from, last: to } = request.lines.unwrap_or(LineRange { first: 1, last: None });
        let handle = Handle::at(tail.clone(), place.position);
        if from > all.len() {
            return Err(Refusal::new(format!(
                "{handle} has {} lines; ask for lines 1-{}",
                all.len(),
                all.len()
            )));
        }
        let upto = to.unwrap_or(all.len()).min(all.len());
        let count = if all.len() == 1 { "1 line".into() } else { format!("{} lines", all.len()) };
        if !room.take(&mut out, &format!("{head} ({count})\n"), exact) {
            let _ = write!(out, "next: read {}", Handle::between(tail.clone(), place.position, last));
            return Ok(out);
        }
        for number in from..=upto {
            let line = all.get(number - 1).copied().unwrap_or_default();
            if !room.take(&mut out, &format!("{number:>5}  {line}\n"), exact) {
                let _ = write!(out, "cut here; next: read {handle} with lines={number}-{upto}");
                if place.position < last {
                    let _ = write!(out, ", then {}", Handle::between(tail.clone(), place.position + 1, last));
                }
                return Ok(out);
            }
        }
        if upto < all.len() {
            let _ = writeln!(out, "next: lines={}-{}", upto + 1, all.len());
        }
    }
    if newest < last && newest + 1 < head {
        let _ = writeln!(out, "next: read {}", Handle::between(tail.clone(), newest + 1, last.min(head - 1)));
    } else if newest < last {
        let _ = writeln!(out, "the conversation ends here");
    }
    out.truncate(out.trim_end_matches('\n').len());
    Ok(out)
}

/// The lines that match, with those around them.
fn matching_text(request: &ReadRequest, pattern: &super::TextPattern, texts: &[(String, String)]) -> String {
    let mut room = Room { left: MOST_TOKENS - 120 };
    let (mut out, mut total, mut cut) = (String::new(), 0, false);
    for (head, text) in texts {
        let all = lines(text);
        let hits: Vec<usize> = all
            .iter()
            .enumerate()
            .filter(|(_, line)| pattern.find(line).is_some())
            .map(|(at, _)| at)
            .collect();
        total += hits.len();
        if hits.is_empty() || cut {
            continue;
        }
        cut |= !room.take(&mut out, &format!("{head} ({} of {} lines match)\n", hits.len(), all.len()), true);
        let mut shown_to = 0;
        for at in hits {
            let (from, upto) =
                (at.saturating_sub(request.context).max(shown_to), (at + request.context + 1).min(all.len()));
            if shown_to > 0 && from > shown_to {
                cut = cut || !room.take(&mut out, "       …\n", true);
            }
            for number in from..upto {
                let line = all.get(number).copied().unwrap_or_default();
                cut = cut || !room.take(&mut out, &format!("{:>5}  {line}\n", number + 1), true);
            }
            shown_to = upto.max(shown_to);
        }
    }
    if total == 0 {
        return format!(
            "no line of {} matches {:?}; read it without a pattern",
            request.handle,
            one_line(pattern.as_str(), 80)
        );
    }
    if cut {
        out.push_str("cut here; ask for fewer lines of context or a narrower pattern");
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// The answer to `around`.
pub fn around_text(
    request: &AroundRequest,
    tail: &Tail,
    head: u64,
    places: &[FoundPlace],
) -> Result<String, Refusal> {
    if places.is_empty() {
        return Err(Refusal::new(format!(
            "no entry at {}: the conversation has {head} entries",
            request.handle
        )));
    }
    let (first, last) = request.handle.positions().unwrap_or((0, 0));
    let mut out = String::new();
    let mut room = Room { left: MOST_TOKENS - 120 };
    for place in places {
        let mark = if (first..=last).contains(&place.position) { "> " } else { "  " };
        let handle = Handle::at(tail.clone(), place.position);
        let text = one_line(&exact_text(&place.slot), SHORT);
        let when = minute(place.slot.created_at());
        let line = format!("{mark}{handle} {when} {}\n    {text}\n", speaker(place));
        if !room.take(&mut out, &line, true) {
            let _ = writeln!(out, "cut here; next: around {handle} with before=0");
            break;
        }
    }
    out.push_str("read a handle for the exact text");
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value)]
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::entry::Entry;
    use crate::recall::{RecallRequest, RecallTool};

    fn tail() -> Tail {
        Tail::parse("k7q2m9x4td").unwrap()
    }

    fn place(position: u64, entry: Entry) -> FoundPlace {
        FoundPlace { position, slot: Slot::Message(Arc::new(entry)), tool: None }
    }

    fn read(arguments: serde_json::Value, places: &[FoundPlace]) -> Result<String, Refusal> {
        let RecallRequest::Read(request) = RecallRequest::parse(RecallTool::Read, &arguments)? else {
            panic!()
        };
        places_text(&request, &tail(), 500, places)
    }

    #[test]
    fn a_long_text_is_read_to_its_end_in_pieces_that_fit() {
        let whole: Vec<String> =
            (0..4_000).map(|number| format!("line {number} of the log: value={}", number * 7919)).collect();
        let places = [place(412, Entry::result("c", &whole.join("\n")))];
        let (mut lines, mut next, mut calls) = (Vec::new(), Some("1-".to_string()), 0);
        while let Some(range) = next.take() {
            let shown = read(json!({ "handle": "sb:k7q2m9x4td#412", "lines": range }), &places).unwrap();
            assert!(Tokenizer::O200kBase.count(&shown) <= MOST_TOKENS, "at most ten thousand tokens");
            lines.extend(
                shown
                    .lines()
                    .filter_map(|line| Some(line.get(7..)?.to_string()))
                    .filter(|line| line.starts_with("line ")),
            );
            next = shown
                .split("lines=")
                .nth(1)
                .map(|range| range.split([',', '\n']).next().unwrap().to_string());
            calls += 1;
            assert!(calls < 50, "the pieces come to an end");
        }
        assert_eq!(lines, whole, "nothing is missing and nothing comes twice");
        assert!(calls > 1);
    }

    #[test]
    fn one_huge_line_is_read_in_parts() {
        let text: String = (0..60_000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
        let places = [place(3, Entry::result("c", &text))];
        let shown = read(json!({ "handle": "sb:k7q2m9x4td#3", "lines": "2-3" }), &places).unwrap();
        let part: String = shown.lines().skip(1).take(2).map(|line| line.get(7..).unwrap()).collect();
        assert_eq!(part, text.get(1_000..3_000).unwrap());
        assert!(shown.ends_with("next: lines=4-60"), "{}", shown.lines().last().unwrap());
    }

    #[test]
    fn patterns_show_their_lines_with_context() {
        let places = [place(3, Entry::result("c", "a\nb\nneedle here\nd\ne\nf\ng\nneedle\nh"))];
        let shown =
            read(json!({ "handle": "sb:k7q2m9x4td#3", "pattern": "NEEDLE", "context": 1 }), &places).unwrap();
        let numbers: Vec<&str> = shown.lines().skip(1).map(|line| line.get(..5).unwrap().trim()).collect();
        assert_eq!(numbers, ["2", "3", "4", "", "7", "8", "9"]);
        let none = read(json!({ "handle": "sb:k7q2m9x4td#3", "pattern": "/z+/" }), &places).unwrap();
        assert!(none.starts_with("no line of sb:k7q2m9x4td#3 matches"), "{none}");
    }

    #[test]
    fn what_is_not_there_says_where_the_conversation_ends() {
        let error = read(json!({ "handle": "sb:k7q2m9x4td#900" }), &[]).unwrap_err().to_string();
        assert!(error.contains("ends at sb:k7q2m9x4td#499"), "{error}");
        let whole = read(json!({ "handle": "sb:k7q2m9x4td" }), &[]).unwrap_err().to_string();
        assert!(whole.contains("outline") && whole.contains("sb:k7q2m9x4td#0-9"), "{whole}");
        let past =
            read(json!({ "handle": "sb:k7q2m9x4td#3", "lines": "9-" }), &[place(3, Entry::user("one"))]);
        assert!(past.unwrap_err().to_string().contains("has 1 lines"), "no such line");
    }

    #[test]
    fn an_empty_search_says_what_was_searched_and_where_to_look_next() {
        let RecallRequest::Search(request) =
            RecallRequest::parse(RecallTool::Search, &json!({ "query": "pen" })).unwrap()
        else {
            panic!();
        };
        let found = FoundHits {
            hits: Vec::new(),
            more: false,
            extent: Extent { entries: 412, conversations: 1 },
            wider: vec![WiderHits { scope: RecallScope::Project, hits: 3 }],
            some_words: false,
            stopped: false,
            place: "session sb:k7q2m9x4td".into(),
        };
        assert_eq!(
            hits_text(&request, &found),
            "0 hits in this session (412 entries); 3 hits in other sessions of this project: widen with scope=project\n\
             session sb:k7q2m9x4td"
        );
    }
}
