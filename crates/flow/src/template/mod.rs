//! Templates: Handlebars' syntax without its helpers. What is inserted is never read again, and nothing is escaped.
//!
//! `{{ path }}`, `{{#each path}}…{{ this.x }} {{ @index }} {{ @first }} {{ @last }}…{{/each}}`,
//! `{{#if path}}…{{else}}…{{/if}}`, `{{! comment }}`, `\{{`. A line that holds only a block tag yields no line.

mod parse;
mod path;
mod render;
mod scan;

use std::fmt;

use crate::expression::Mention;
use crate::reference::{Names, Reference};
use path::Path;

/// How far templates may go.
pub(crate) struct TemplateLimits {
    /// Largest output, in bytes: no model takes more.
    pub bytes: usize,
    /// Deepest nesting of blocks.
    pub nesting: usize,
    /// Most tags and texts that one rendering passes, blocks in blocks being passed again and again.
    pub steps: u64,
}

pub(crate) const LIMITS: TemplateLimits = TemplateLimits { bytes: 4 << 20, nesting: 32, steps: 4_000_000 };

/// A template that was read.
///
/// ```
/// use std::borrow::Cow;
/// use scrollback_flow::{FlowName, FlowTemplate, Names};
/// use serde_json::{Value, json};
///
/// struct Turns(Value);
/// impl Names for Turns {
///     fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>> {
///         (*name == FlowName::History).then_some(Cow::Borrowed(&self.0))
///     }
/// }
///
/// let template = FlowTemplate::parse("{{#each history}}\n{{ this.role }}: {{ this.content }}\n{{/each}}\n")?;
/// let turns = Turns(json!([{"role": "user", "content": "{{ input }} & <b>"}]));
/// assert_eq!(template.render(&turns, &mut |_| {})?, "user: {{ input }} & <b>\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FlowTemplate {
    source: Box<str>,
    nodes: Vec<TemplateNode>,
    mentions: Vec<Mention>,
    turn_members: Vec<(String, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
enum TemplateNode {
    Text(Box<str>),
    Value(Path),
    Each(Path, Vec<TemplateNode>),
    If(Path, Vec<TemplateNode>, Vec<TemplateNode>),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Which kind it is.
    pub kind: TemplateErrorKind,
    /// What is wrong, and what to do.
    pub message: String,
    /// The character it is at, from 0.
    pub at: usize,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

/// The kinds of [`TemplateError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// It does not follow the grammar, or is too deep.
    Syntax,
    /// A name that there is not.
    UnknownName,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

/// A rendering that would have become too large, or taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TemplateLimits { bytes, steps, .. } = LIMITS;
        write!(
            f,
            "a template gives more than {bytes} bytes, or goes through more than {steps} tags and texts"
        )
    }
}

impl std::error::Error for TooLarge {}

impl FlowTemplate {
    /// Reads a template.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let parsed = parse::parse(source)?;
        Ok(FlowTemplate {
            source: source.into(),
            nodes: parsed.nodes,
            mentions: parsed.mentions,
            turn_members: parsed.turn_members,
        })
    }

    /// The template `{{ previous }}`.
    pub fn previous() -> Self {
        let name = crate::FlowName::Previous;
        let reference = Reference { name: name.clone(), keys: Vec::new() };
        FlowTemplate {
            source: "{{ previous }}".into(),
            nodes: vec![TemplateNode::Value(Path::Reference(reference))],
            mentions: vec![Mention { name, at: 2 }],
            turn_members: Vec::new(),
        }
    }

    /// Its text where names stand for this. Each path that is missing renders as nothing and is told.
    pub fn render(&self, names: &dyn Names, on_missing: &mut dyn FnMut(&str)) -> Result<String, TooLarge> {
        render::render(&self.nodes, names, on_missing)
    }

    /// The reference, if the template is exactly one and nothing else: its value is then passed on as what it is.
    pub fn as_single_reference(&self) -> Option<&Reference> {
        match self.nodes.as_slice() {
            [TemplateNode::Value(Path::Reference(reference))] => Some(reference),
            _ => None,
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// The names in it, in order.
    pub fn mentions(&self) -> &[Mention] {
        &self.mentions
    }

    /// Members of turns that it names, and the characters they are at.
    pub(crate) fn turn_members(&self) -> &[(String, usize)] {
        &self.turn_members
    }
}
