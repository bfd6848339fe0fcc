//! The arguments of a call as leaves, and long leaves as blocks.

use std::borrow::Cow;

use crate::json::{self, JsonKind, Raw};

/// Shorter values are everywhere and say nothing.
const SHORTEST: usize = 3;
/// A longer value is cut into blocks.
pub(crate) const BLOCK: usize = 600;

/// A value at the end of a path through the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf<'a> {
    /// The nearest key above it; empty where there is none.
    pub(crate) key: Cow<'a, str>,
    /// A string without white space around it, or any other value as JSON text.
    pub(crate) value: Cow<'a, str>,
}

/// The leaves of a call's arguments, in order. Text that is not JSON is one leaf without a key.
pub(crate) fn leaves(arguments: &str) -> Vec<Leaf<'_>> {
    let Ok(raw) = json::check(arguments) else {
        return vec![Leaf { key: Cow::Borrowed(""), value: Cow::Borrowed(arguments) }];
    };
    let mut found = Vec::new();
    // What is still to be walked, the next value last.
    let mut open: Vec<(Cow<'_, str>, Raw<'_>)> = vec![(Cow::Borrowed(""), raw)];
    while let Some((key, value)) = open.pop() {
        match value.kind() {
            JsonKind::Object => {
                let at = open.len();
                open.extend(value.members());
                if let Some(added) = open.get_mut(at..) {
                    added.reverse();
                }
            }
            JsonKind::Array => {
                let at = open.len();
                open.extend(value.elements().map(|element| (key.clone(), element)));
                if let Some(added) = open.get_mut(at..) {
                    added.reverse();
                }
            }
            JsonKind::String => {
                let value = match value.string().unwrap_or_default() {
                    Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
                    Cow::Owned(text) => Cow::Owned(text.trim().to_string()),
                };
                found.push(Leaf { key, value });
            }
            JsonKind::Null | JsonKind::Bool | JsonKind::Number => {
                found.push(Leaf { key, value: Cow::Borrowed(value.text()) });
            }
        }
    }
    found
}

/// Whether a value has too few characters to say anything.
pub(crate) fn is_short(value: &str) -> bool {
    value.chars().nth(SHORTEST - 1).is_none()
}

/// Whether a value is one unit; a longer one is cut into [`blocks`].
pub(crate) fn is_unit(value: &str) -> bool {
    value.len() <= BLOCK || value.chars().nth(BLOCK).is_none()
}

/// A long value in paragraphs, packed together up to [`BLOCK`] characters. A longer paragraph is packed line by line, and a
/// longer line stands alone.
pub(crate) fn blocks(value: &str) -> Vec<String> {
    let mut packed = Packer::new(BLOCK, '\n');
    for paragraph in paragraphs(value) {
        if is_unit(paragraph) {
            packed.add(paragraph);
        } else {
            paragraph.split('\n').for_each(|line| packed.add(line));
        }
    }
    let blocks = packed.finish().into_iter().map(|block| block.trim_matches('\n').to_string());
    blocks.filter(|block| !block.trim().is_empty()).collect()
}

/// Split before every empty line: at each line break that another one follows.
fn paragraphs(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find("\n\n") else {
            rest = None;
            return Some(text);
        };
        rest = text.get(end + 1..);
        text.get(..end)
    })
}

/// Joins pieces as long as the result stays within a number of characters.
pub(super) struct Packer {
    most: usize,
    joint: char,
    current: Option<(String, usize)>,
    done: Vec<String>,
}

impl Packer {
    pub(super) fn new(most: usize, joint: char) -> Self {
        Packer { most, joint, current: None, done: Vec::new() }
    }

    pub(super) fn add(&mut self, piece: &str) {
        let length = piece.chars().count();
        match &mut self.current {
            Some((text, chars)) if *chars + 1 + length <= self.most => {
                text.push(self.joint);
                text.push_str(piece);
                *chars += 1 + length;
            }
            current => self.done.extend(current.replace((piece.to_string(), length)).map(|(text, _)| text)),
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        self.done.extend(self.current.map(|(text, _)| text));
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(arguments: &str) -> Vec<(String, String)> {
        leaves(arguments).into_iter().map(|leaf| (leaf.key.into(), leaf.value.into())).collect()
    }

    #[test]
    fn leaves_have_the_nearest_key_and_stand_in_order() {
        let arguments = r#"{"a":" x ","b":{"c":[1,{"d":true},"e\n"]},"f":null}"#;
        let wanted = [("a", "x"), ("c", "1"), ("d", "true"), ("c", "e"), ("f", "null")];
        assert_eq!(told(arguments), wanted.map(|(key, value)| (key.to_string(), value.to_string())));
        assert_eq!(told("ls -l"), [(String::new(), "ls -l".to_string())]);
    }

    #[test]
    fn long_values_are_packed_by_paragraph_and_then_by_line() {
        let paragraph = "line of code\n".repeat(20);
        let value = format!("{paragraph}\n{paragraph}\n{paragraph}");
        let cut = blocks(&value);
        assert_eq!(cut.len(), 2, "two paragraphs of 260 characters fit a block: {cut:?}");
        assert!(cut.iter().all(|block| block.chars().count() <= BLOCK && !block.starts_with('\n')));
        let long = "x".repeat(700);
        assert_eq!(blocks(&format!("short\n{long}\nend")), ["short", long.as_str(), "end"]);
    }
}
