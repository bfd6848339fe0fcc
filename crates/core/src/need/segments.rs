//! Entries in short segments: what a ledger is put together from.

use super::arguments::{Packer, blocks, is_short, is_unit, leaves};
use super::identifiers::identifiers;
use crate::entry::{Entry, Role};

/// Characters of a segment, about.
const WIDTH: usize = 80;
/// The same on a line of fields.
const FIELD_WIDTH: usize = 30;
/// A line that holds so many keys is a line of fields.
const FIELDS: usize = 3;

/// How an identifier stands in an entry. The highest kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdentifierKind {
    /// In the content.
    Said,
    /// Inside an argument.
    Inside,
    /// It is a whole argument, or a block of one.
    Whole,
}

/// One segment of an entry.
pub(crate) struct Segment<'s> {
    /// What a ledger shows.
    pub(crate) shown: &'s str,
    /// The text whose identifiers it holds.
    pub(crate) text: &'s str,
    /// Whether it is an argument: then its whole text is an identifier too.
    pub(crate) argument: bool,
}

/// Everything an entry says, read once.
pub(crate) struct EntrySegments {
    /// The texts joined by line breaks.
    pub(crate) content: String,
    /// The calls: keys and values of their arguments, and the bytes of those as they were said.
    calls: Vec<String>,
}

impl EntrySegments {
    pub(crate) fn of(entry: &Entry) -> Self {
        let content = entry.content().unwrap_or_default();
        let calls = entry.tool_calls().map(|call| call.arguments.as_str().into_owned()).collect();
        EntrySegments { content, calls }
    }

    /// Bytes of content and arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.content.len() + self.calls.iter().map(String::len).sum::<usize>()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Every argument: its key, and its value as one unit or in blocks. Values too short to say anything have no units.
    pub(crate) fn arguments(&self, mut argument: impl FnMut(&str, &[String])) {
        for call in &self.calls {
            for leaf in leaves(call) {
                let units = if is_short(&leaf.value) {
                    Vec::new()
                } else if is_unit(&leaf.value) {
                    vec![leaf.value.into_owned()]
                } else {
                    blocks(&leaf.value)
                };
                argument(&leaf.key, &units);
            }
        }
    }

    /// The segments in order: those of the content, then those of the arguments.
    pub(crate) fn segments(&self, mut segment: impl FnMut(Segment<'_>)) {
        for line in self.content.split('\n') {
            line_segments(line.trim(), |text| {
                segment(Segment { shown: &shown(text), text, argument: false });
            });
        }
        self.arguments(|key, units| {
            let [unit] = units else {
                for block in units {
                    segment(Segment { shown: block, text: block, argument: true });
                }
                return;
            };
            let is_block = !is_unit(unit);
            if key.is_empty() || is_block {
                segment(Segment { shown: unit, text: unit, argument: true });
            } else {
                segment(Segment { shown: &format!("{key}={unit}"), text: unit, argument: true });
            }
        });
    }
}

/// Cuts a trimmed line into segments.
fn line_segments(line: &str, mut segment: impl FnMut(&str)) {
    if line.is_empty() {
        return;
    }
    let has_fields = line.matches("\":").nth(FIELDS - 1).is_some();
    let width = if has_fields { FIELD_WIDTH } else { WIDTH };
    let most = width * 3 / 2;
    let is_long = |text: &str| text.len() > most && text.chars().nth(most).is_some();
    if !is_long(line) {
        segment(line);
        return;
    }
    let mut pieces = Vec::new();
    let mut add = |piece: &str| {
        if is_long(piece) {
            let mut packed = Packer::new(width, ' ');
            piece.split(' ').for_each(|word| packed.add(word));
            pieces.extend(packed.finish());
        } else {
            pieces.push(piece.to_string());
        }
    };
    if has_fields {
        split_fields(line, &mut add);
    } else {
        split_prose(line, &mut add);
    }
    let mut packed = Packer::new(width, ' ');
    for piece in &pieces {
        packed.add(piece);
    }
    for text in packed.finish() {
        segment(&text);
    }
}

/// Splits behind every comma that a value follows; white space between them vanishes.
fn split_fields(line: &str, piece: &mut impl FnMut(&str)) {
    let mut start = 0;
    for (comma, _) in line.match_indices(',') {
        let after = line.get(comma + 1..).unwrap_or_default();
        let value = after.trim_start();
        if value.starts_with(['"', '{', '[']) {
            piece(line.get(start..=comma).unwrap_or_default());
            start = line.len() - value.len();
        }
    }
    piece(line.get(start..).unwrap_or_default());
}

/// Splits at white space behind closing marks or before opening ones.
fn split_prose(line: &str, piece: &mut impl FnMut(&str)) {
    let (mut start, mut before, mut rest) = (0, None, line);
    while let Some(gap) = rest.find(char::is_whitespace) {
        before = rest.get(..gap).and_then(|text| text.chars().next_back()).or(before);
        let at = line.len() - rest.len() + gap;
        rest = rest.get(gap..).unwrap_or_default().trim_start();
        let end = line.len() - rest.len();
        let closes = before.is_some_and(|letter| ",;}])>.:".contains(letter));
        if closes || rest.starts_with(['"', '{', '[', '(', '<']) {
            piece(line.get(start..at).unwrap_or_default());
            start = end;
        }
        before = None;
    }
    piece(line.get(start..).unwrap_or_default());
}

/// A segment as a ledger shows it: names of fields and simple values without their quotes.
fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains("\":") { unquoted(&bare_names(text)).into() } else { text.into() }
}

/// `"name": ` becomes `name=`.
fn bare_names(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        out.push_str(before);
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = after.find(|letter: char| !word(letter)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if let Some(value) = behind.strip_prefix("\":").filter(|_| starts) {
            out.push_str(name);
            out.push('=');
            rest = value.trim_start();
        } else {
            out.push('"');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Drops the quotes around texts that have no marks of JSON inside.
fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        out.push_str(before);
        let end = after.find(['"', '\\', ',', '{', '}', '[', ']', '\n']);
        let inside = end.filter(|end| after.get(*end..).is_some_and(|text| text.starts_with('"')));
        if let Some(end) = inside {
            out.push_str(after.get(..end).unwrap_or_default());
            rest = after.get(end + 1..).unwrap_or_default();
        } else {
            out.push('"');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The fields of a tool result: each name with its value, as texts.
pub(crate) fn fields(content: &str, mut field: impl FnMut(&str, &str)) {
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = content;
    while let Some((_, after)) = rest.split_once('"') {
        rest = after;
        let end = after.find(|letter: char| !word(letter)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let Some(value) = behind.strip_prefix("\":").filter(|_| !name.is_empty()) else { continue };
        let value = value.trim_start();
        let quoted = value.strip_prefix('"').and_then(|inside| {
            let end = inside.find(['"', '\n'])?;
            let text = inside.get(..end)?;
            let fits = !text.is_empty() && text.chars().nth(80).is_none();
            (fits && inside.get(end..)?.starts_with('"')).then(|| (text, inside.get(end + 1..)))
        });
        let (found, further) = quoted.unwrap_or_else(|| {
            let plain = |letter: char| word(letter) || matches!(letter, '.' | '+' | '-');
            let end = value.find(|letter| !plain(letter)).unwrap_or(value.len());
            (value.get(..end).unwrap_or_default(), value.get(end..))
        });
        if !found.is_empty() {
            field(name, found.trim());
            rest = further.unwrap_or_default();
        }
    }
}

/// Calls `found` with every identifier of an entry and how it stands there; an identifier may be given more than once.
pub(crate) fn entry_identifiers(reading: &EntrySegments, mut found: impl FnMut(&str, IdentifierKind)) {
    for name in identifiers(&reading.content) {
        found(name, IdentifierKind::Said);
    }
    reading.arguments(|_, units| {
        for unit in units {
            for name in identifiers(unit) {
                found(name, IdentifierKind::Inside);
            }
            found(unit, IdentifierKind::Whole);
        }
    });
}

/// The texts of some segments of an entry, by number.
pub(crate) fn segment_texts(entry: &Entry, numbers: &[u32]) -> Vec<(u32, String)> {
    let (mut number, mut texts) = (0, Vec::new());
    EntrySegments::of(entry).segments(|segment| {
        if numbers.contains(&number) {
            texts.push((number, segment.shown.to_string()));
        }
        number += 1;
    });
    texts
}

/// What a ledger calls a group: its number and the tools it called, or who spoke.
pub(crate) fn heading(position: u64, entry: &Entry) -> String {
    let mut names: Vec<String> = Vec::new();
    for call in entry.tool_calls() {
        let name = call.name.as_str();
        if !names.iter().any(|known| *known == name) {
            names.push(name.into_owned());
        }
    }
    if names.is_empty() {
        let role = match entry.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        names.push(role.into());
    }
    format!("#{position} {}", names.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(entry: &Entry) -> Vec<String> {
        let mut told = Vec::new();
        EntrySegments::of(entry).segments(|segment| told.push(segment.shown.to_string()));
        told
    }

    #[test]
    fn fields_are_cut_apart_and_lose_their_quotes() {
        let result = r#"{"name": {"first_name": "Mia", "last_name": "Li"}, "payment_methods": {"certificate_4856383": {"source": "certificate", "id": "x"}}, "reservations": ["NO6JO3", "AIXC49"]}"#;
        let wanted = [
            "{name={first_name=Mia,",
            "last_name=Li},",
            "payment_methods=",
            "{certificate_4856383=",
            "{source=certificate,",
            "id=x}},",
            "reservations=[NO6JO3,",
            "\"AIXC49\"]}",
        ];
        assert_eq!(told(&Entry::result("c1", result)), wanted);
    }

    #[test]
    fn prose_is_cut_at_its_marks_and_short_lines_stay() {
        let sentence = "The first half of this sentence is rather long, and the second half of it is even longer (it goes on); so it is cut.";
        let text = format!("  short line \n\n{sentence} More.");
        let wanted = [
            "short line",
            "The first half of this sentence is rather long,",
            "and the second half of it is even longer (it goes on); so it is cut. More.",
        ];
        assert_eq!(told(&Entry::text(Role::User, &text)), wanted);
    }

    #[test]
    fn arguments_are_segments_with_their_keys() {
        let call =
            Entry::calling(Some("Look."), &[("c1", "read", r#"{"path":"src/lib.rs","n":1,"raw":"a\n b"}"#)]);
        assert_eq!(told(&call), ["Look.", "path=src/lib.rs", "raw=a\n b"]);
        assert_eq!(heading(7, &call), "#7 read");
    }

    #[test]
    fn the_fields_of_a_result_have_names_and_values() {
        let mut told = Vec::new();
        fields(r#"{"id": "W1 ", "n": -1.5, "none": {"x":"y"}, "long": "", "ok":true}"#, |name, value| {
            told.push(format!("{name}={value}"));
        });
        assert_eq!(told, ["id=W1", "n=-1.5", "x=y", "ok=true"]);
    }
}
