//! Pieces into a tree.

use scrollback_core::nearest::nearest_key;

use super::path::{self, Inside, Path};
use super::scan::{Piece, Tag, What, error, pieces};
use super::{LIMITS, Node, TemplateError};
use crate::expression::Mention;
use crate::reference::{Key, Name, Reference};

/// A template, and what it names.
pub(super) struct Parsed {
    pub(super) nodes: Vec<Node>,
    pub(super) mentions: Vec<Mention>,
    pub(super) turn_members: Vec<(String, usize)>,
}

/// A block that is open.
struct Open {
    word: &'static str,
    path: Path,
    at: usize,
    /// What came before it.
    before: Vec<Node>,
    /// The part before `else`, once there was one.
    first: Option<Vec<Node>>,
}

const BLOCKS: [&str; 2] = ["each", "if"];

pub(super) fn parse(source: &str) -> Result<Parsed, TemplateError> {
    let mut open: Vec<Open> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    let mut named = Named::default();
    for piece in pieces(source)? {
        let Tag { what, at } = match piece {
            Piece::Text(text) => {
                nodes.push(Node::Text(text.into()));
                continue;
            }
            Piece::Tag(tag) => tag,
        };
        match what {
            What::Comment => {}
            What::Value(text) => nodes.push(Node::Value(named.path(&text, at, &open)?)),
            What::Open(word, text) => {
                if open.len() >= LIMITS.nesting {
                    return Err(error(
                        at,
                        format!("blocks are nested deeper than {} levels", LIMITS.nesting),
                    ));
                }
                let word = block(&word, at)?;
                let path = named.path(&text, at, &open)?;
                open.push(Open { word, path, at, before: std::mem::take(&mut nodes), first: None });
            }
            What::Else => match open.last_mut() {
                Some(block) if block.word == "if" && block.first.is_none() => {
                    block.first = Some(std::mem::take(&mut nodes));
                }
                _ => return Err(error(at, "{{else}} stands once, between {{#if …}} and {{/if}}")),
            },
            What::Close(word) => {
                let Some(block) = open.pop() else {
                    return Err(error(at, format!("{{{{/{word}}}}} closes nothing")));
                };
                if block.word != word {
                    let wanted = block.word;
                    return Err(error(at, format!("{{{{/{wanted}}}}} was expected, not {{{{/{word}}}}}")));
                }
                let inside = std::mem::replace(&mut nodes, block.before);
                nodes.push(match (block.word, block.first) {
                    ("each", _) => Node::Each(block.path, inside),
                    (_, Some(first)) => Node::If(block.path, first, inside),
                    (_, None) => Node::If(block.path, inside, Vec::new()),
                });
            }
        }
    }
    match open.pop() {
        Some(block) => {
            Err(error(block.at, format!("{{{{#{0}}}}} is never closed; write {{{{/{0}}}}}", block.word)))
        }
        None => Ok(Parsed { nodes, mentions: named.mentions, turn_members: named.turn_members }),
    }
}

fn block(word: &str, at: usize) -> Result<&'static str, TemplateError> {
    if let Some(known) = BLOCKS.into_iter().find(|known| *known == word) {
        return Ok(known);
    }
    let near = nearest_key(word, BLOCKS);
    let hint = near.map_or_else(
        || "; there are {{#each path}} and {{#if path}}".into(),
        |near| format!("; did you mean `{near}`?"),
    );
    let mut error = error(at, format!("there is no block `{word}`{hint}"));
    error.suggestion = near.map(String::from);
    Err(error)
}

/// The names that were met.
#[derive(Default)]
struct Named {
    mentions: Vec<Mention>,
    turn_members: Vec<(String, usize)>,
}

impl Named {
    fn path(&mut self, text: &str, at: usize, open: &[Open]) -> Result<Path, TemplateError> {
        let each = open.iter().rev().find(|block| block.word == "each");
        let inside = if each.is_some() { Inside::Each } else { Inside::Nothing };
        let path = path::read(text, at, inside)?;
        match &path {
            Path::Reference(Reference { name, keys }) => {
                self.mentions.push(Mention { name: name.clone(), at });
                if let (Name::History, [_, Key::Member(member), ..]) = (name, keys.as_slice()) {
                    self.turn_members.push((member.to_string(), at));
                }
            }
            Path::This(keys) => {
                let over_turns = each.is_some_and(|each| {
                    matches!(&each.path, Path::Reference(Reference { name: Name::History, keys }) if keys.is_empty())
                });
                if let (true, Some(Key::Member(member))) = (over_turns, keys.first()) {
                    self.turn_members.push((member.to_string(), at));
                }
            }
            Path::Index | Path::First | Path::Last => {}
        }
        Ok(path)
    }
}
