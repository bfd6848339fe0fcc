//! Pieces into a tree.

use scrollback_core::nearest::nearest_key;

use super::path::{self, Inside, Path};
use super::scan::{Tag, TemplatePiece, What, error, pieces};
use super::{LIMITS, TemplateError, TemplateNode};
use crate::expression::Mention;
use crate::reference::{FlowName, PathKey, Reference};

/// A template, and what it names.
pub(super) struct ParsedTemplate {
    pub(super) nodes: Vec<TemplateNode>,
    pub(super) mentions: Vec<Mention>,
    pub(super) turn_members: Vec<(String, usize)>,
}

/// A block that is open.
struct OpenBlock {
    word: &'static str,
    path: Path,
    at: usize,
    /// What came before it.
    before: Vec<TemplateNode>,
    /// The part before `else`, once there was one.
    first: Option<Vec<TemplateNode>>,
}

const BLOCKS: [&str; 2] = ["each", "if"];

pub(super) fn parse(source: &str) -> Result<ParsedTemplate, TemplateError> {
    let mut open: Vec<OpenBlock> = Vec::new();
    let mut nodes: Vec<TemplateNode> = Vec::new();
    let mut named = MetNames::default();
    for piece in pieces(source)? {
        let Tag { what, at } = match piece {
            TemplatePiece::Text(text) => {
                nodes.push(TemplateNode::Text(text.into()));
                continue;
            }
            TemplatePiece::Tag(tag) => tag,
        };
        match what {
            What::Comment => {}
            What::Value(text) => nodes.push(TemplateNode::Value(named.path(&text, at, &open)?)),
            What::Open(word, text) => {
                if open.len() >= LIMITS.nesting {
                    return Err(error(
                        at,
                        format!("blocks are nested deeper than {} levels", LIMITS.nesting),
                    ));
                }
                let word = block(&word, at)?;
                let path = named.path(&text, at, &open)?;
                open.push(OpenBlock { word, path, at, before: std::mem::take(&mut nodes), first: None });
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
                    ("each", _) => TemplateNode::Each(block.path, inside),
                    (_, Some(first)) => TemplateNode::If(block.path, first, inside),
                    (_, None) => TemplateNode::If(block.path, inside, Vec::new()),
                });
            }
        }
    }
    match open.pop() {
        Some(block) => {
            Err(error(block.at, format!("{{{{#{0}}}}} is never closed; write {{{{/{0}}}}}", block.word)))
        }
        None => Ok(ParsedTemplate { nodes, mentions: named.mentions, turn_members: named.turn_members }),
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
struct MetNames {
    mentions: Vec<Mention>,
    turn_members: Vec<(String, usize)>,
}

impl MetNames {
    fn path(&mut self, text: &str, at: usize, open: &[OpenBlock]) -> Result<Path, TemplateError> {
        let each = open.iter().rev().find(|block| block.word == "each");
        let inside = if each.is_some() { Inside::Each } else { Inside::Nothing };
        let path = path::read(text, at, inside)?;
        match &path {
            Path::Reference(Reference { name, keys }) => {
                self.mentions.push(Mention { name: name.clone(), at });
                if let (FlowName::History, [_, PathKey::Member(member), ..]) = (name, keys.as_slice()) {
                    self.turn_members.push((member.to_string(), at));
                }
            }
            Path::This(keys) => {
                let over_turns = each.is_some_and(|each| {
                    matches!(&each.path, Path::Reference(Reference { name: FlowName::History, keys }) if keys.is_empty())
                });
                if let (true, Some(PathKey::Member(member))) = (over_turns, keys.first()) {
                    self.turn_members.push((member.to_string(), at));
                }
            }
            Path::Index | Path::First | Path::Last => {}
        }
        Ok(path)
    }
}
