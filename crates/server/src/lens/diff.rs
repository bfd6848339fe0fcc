//! The difference between two requests, message by message.

use scrollback_core::json::{self, Raw};
use scrollback_core::wire::{Wire, list_key};

/// Largest table of an exact comparison; above it what lies between the common ends counts as replaced.
const TABLE: usize = 1_000_000;

/// A request as a list of messages and the fields around it.
pub(crate) struct DiffSide<'a> {
    /// The messages, verbatim.
    pub(crate) messages: Vec<&'a str>,
    /// The other fields, verbatim.
    pub(crate) fields: Vec<(String, &'a str)>,
}

impl<'a> DiffSide<'a> {
    /// Reads the bytes that were sent.
    pub(crate) fn read(wire: Wire, text: &'a str) -> Option<Self> {
        let body = json::check(text).ok()?;
        let key = list_key(wire);
        let list = body.get(key);
        let messages = list.map(|list| list.elements().map(Raw::text).collect()).unwrap_or_default();
        let others = body.members().filter(|(name, _)| name.as_ref() != key || list.is_none());
        Some(DiffSide {
            messages,
            fields: others.map(|(name, value)| (name.into_owned(), value.text())).collect(),
        })
    }
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine<'a> {
    /// So many messages are the same, from these places on.
    Same(usize),
    /// Was there before.
    Gone(usize, &'a str),
    /// Is there now.
    New(usize, &'a str),
}

/// What became of the messages of one request in the next.
pub(crate) fn messages<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<DiffLine<'a>> {
    let start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (old, new) = (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let old = old.get(..old.len() - end).unwrap_or_default();
    let new = new.get(..new.len() - end).unwrap_or_default();
    let mut lines = Vec::new();
    same(&mut lines, start);
    if old.len().saturating_mul(new.len()) > TABLE {
        lines.extend((start..).zip(old).map(|(at, text)| DiffLine::Gone(at, text)));
        lines.extend((start..).zip(new).map(|(at, text)| DiffLine::New(at, text)));
    } else {
        between(&mut lines, start, old, new);
    }
    same(&mut lines, end);
    lines
}

fn same(lines: &mut Vec<DiffLine<'_>>, count: usize) {
    match lines.last_mut() {
        _ if count == 0 => {}
        Some(DiffLine::Same(before)) => *before += count,
        _ => lines.push(DiffLine::Same(count)),
    }
}

/// The longest common part, by the usual table.
fn between<'a>(lines: &mut Vec<DiffLine<'a>>, start: usize, old: &[&'a str], new: &[&'a str]) {
    let across = new.len() + 1;
    let mut table = vec![0u32; (old.len() + 1) * across];
    let at = |row: usize, column: usize| row * across + column;
    let cell = |table: &[u32], row: usize, column: usize| table.get(at(row, column)).copied().unwrap_or(0);
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let best = if one == other {
                cell(&table, row + 1, column + 1) + 1
            } else {
                cell(&table, row + 1, column).max(cell(&table, row, column + 1))
            };
            if let Some(place) = table.get_mut(at(row, column)) {
                *place = best;
            }
        }
    }
    let (mut row, mut column) = (0, 0);
    loop {
        match (old.get(row), new.get(column)) {
            (Some(one), Some(other)) if one == other => {
                same(lines, 1);
                (row, column) = (row + 1, column + 1);
            }
            (Some(one), other)
                if other.is_none() || cell(&table, row + 1, column) >= cell(&table, row, column + 1) =>
            {
                lines.push(DiffLine::Gone(start + row, one));
                row += 1;
            }
            (_, Some(other)) => {
                lines.push(DiffLine::New(start + column, other));
                column += 1;
            }
            _ => break,
        }
    }
}

/// Fields that differ: name, before, after.
pub(crate) fn fields<'a>(
    before: &DiffSide<'a>,
    after: &DiffSide<'a>,
) -> Vec<(String, Option<&'a str>, Option<&'a str>)> {
    let find = |request: &DiffSide<'a>, name: &str| {
        request.fields.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    };
    let mut names: Vec<&String> = before.fields.iter().chain(&after.fields).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let told = names.into_iter().map(|name| (name.clone(), find(before, name), find(after, name)));
    told.filter(|(_, one, other)| one != other).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_that_grew_shows_what_is_new() {
        assert_eq!(messages(&["a", "b"], &["a", "b", "c"]), [DiffLine::Same(2), DiffLine::New(2, "c")]);
        assert_eq!(messages(&["a"], &["a"]), [DiffLine::Same(1)]);
        assert_eq!(messages(&[], &[]), []);
    }

    #[test]
    fn a_cut_shows_what_is_gone_and_keeps_what_stayed() {
        let (before, after) = (["s", "1", "2", "3"], ["s", "3", "4"]);
        let lines = messages(&before, &after);
        assert_eq!(
            lines,
            [
                DiffLine::Same(1),
                DiffLine::Gone(1, "1"),
                DiffLine::Gone(2, "2"),
                DiffLine::Same(1),
                DiffLine::New(2, "4")
            ]
        );
        let changed = messages(&["s", "long", "x"], &["s", "short", "x"]);
        assert_eq!(
            changed,
            [DiffLine::Same(1), DiffLine::Gone(1, "long"), DiffLine::New(1, "short"), DiffLine::Same(1)]
        );
    }

    #[test]
    fn lists_too_long_for_the_table_are_still_compared() {
        let before: Vec<String> = (0..1_500).map(|n| format!("a{n}")).collect();
        let after: Vec<String> = (0..1_500).map(|n| format!("b{n}")).collect();
        let (before, after): (Vec<&str>, Vec<&str>) =
            (before.iter().map(String::as_str).collect(), after.iter().map(String::as_str).collect());
        assert_eq!(messages(&before, &after).len(), 3_000);
    }

    #[test]
    fn fields_are_compared_by_name() {
        let (one, two) =
            (r#"{"model":"a","messages":[1],"temperature":1}"#, r#"{"messages":[1,2],"model":"b"}"#);
        let (one, two) =
            (DiffSide::read(Wire::OpenaiChat, one).unwrap(), DiffSide::read(Wire::OpenaiChat, two).unwrap());
        assert_eq!((one.messages.len(), two.messages.len()), (1, 2));
        let told = fields(&one, &two);
        assert_eq!(told.len(), 2);
        assert_eq!(told[1], ("temperature".into(), Some("1"), None));
    }
}
