//! Expressions and templates in a flow, and where in the file their characters stand.

use scrollback_agent::document::{DocumentProblem, Fields, Node, TextPosition, Value, code};

use super::context::{FlowReader, NameScope, TextSpot};
use crate::expression::{ExpressionErrorKind, Mention};
use crate::problem::Code;
use crate::reference::FlowName;
use crate::template::TemplateErrorKind;
use crate::{Expression, FlowTemplate};

/// An expression. `true` and `3` need no quotes.
pub(super) fn expression(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Option<Expression> {
    let node = fields.node(name)?;
    let text = match &node.value {
        Value::Text(text) | Value::Number(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        _ => {
            fields.problem_of(code::WRONG_TYPE, name, format!("must be an expression, not {}", node.kind()));
            return None;
        }
    };
    let path = fields.path(name);
    match Expression::parse(&text) {
        Ok(expression) => {
            mentions(expression.mentions(), node, &text, &path, scope, reading);
            Some(expression)
        }
        Err(error) => {
            let code = match error.kind {
                ExpressionErrorKind::Syntax => Code::ExpressionSyntax,
                ExpressionErrorKind::UnknownName => Code::UnknownName,
            };
            let at = place_in(reading.text, node.at, &text, error.at);
            let problem = DocumentProblem::new(code.as_str(), path, at, error.message);
            reading.problems.push(DocumentProblem { suggestion: error.suggestion, ..problem });
            None
        }
    }
}

/// An expression that must be there.
pub(super) fn required_expression(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Option<Expression> {
    if fields.node(name).is_none() {
        fields.missing(name);
        return None;
    }
    expression(fields, name, scope, reading)
}

/// A template over the names of a place.
pub(super) fn template(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Option<FlowTemplate> {
    let (node, template) = parsed(fields, name, reading)?;
    mentions(template.mentions(), node, template.as_str(), &fields.path(name), scope, reading);
    members(&template, node, &fields.path(name), reading);
    Some(template)
}

/// A template over the turns of a history and nothing else.
pub(super) fn history_template(
    fields: &mut Fields<'_, '_>,
    reading: &mut FlowReader<'_>,
) -> Option<FlowTemplate> {
    let name = "history_template";
    let (node, template) = parsed(fields, name, reading)?;
    let path = fields.path(name);
    let mut written =
        TextSpot { path: path.as_str().into(), text: template.as_str().into(), at: node.at, character: 0 };
    for mention in template.mentions().iter().filter(|mention| mention.name != FlowName::History) {
        written.character = mention.at;
        let spot = reading.spot_of(&written);
        let message =
            format!("`{}` means nothing here; a history template sees `history` only", mention.name);
        reading.error(Code::UnknownName, &spot, message);
    }
    members(&template, node, &path, reading);
    Some(template)
}

fn parsed<'n>(
    fields: &mut Fields<'n, '_>,
    name: &'static str,
    reading: &mut FlowReader<'_>,
) -> Option<(&'n Node, FlowTemplate)> {
    let text = fields.text(name)?;
    let node = fields.node(name)?;
    match FlowTemplate::parse(&text) {
        Ok(template) => Some((node, template)),
        Err(error) => {
            let code = match error.kind {
                TemplateErrorKind::Syntax => Code::TemplateSyntax,
                TemplateErrorKind::UnknownName => Code::UnknownName,
            };
            let at = place_in(reading.text, node.at, &text, error.at);
            let problem = DocumentProblem::new(code.as_str(), fields.path(name), at, error.message);
            reading.problems.push(DocumentProblem { suggestion: error.suggestion, ..problem });
            None
        }
    }
}

fn mentions(
    found: &[Mention],
    node: &Node,
    text: &str,
    path: &str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) {
    let mut written = TextSpot { path: path.into(), text: text.into(), at: node.at, character: 0 };
    for mention in found {
        written.character = mention.at;
        reading.mention(&mention.name, scope, &written);
    }
}

/// Turns have a role and a content.
fn members(template: &FlowTemplate, node: &Node, path: &str, reading: &mut FlowReader<'_>) {
    let known = ["role", "content"];
    let mut written =
        TextSpot { path: path.into(), text: template.as_str().into(), at: node.at, character: 0 };
    for (member, at) in template.turn_members() {
        if !known.contains(&member.as_str()) {
            written.character = *at;
            let spot = reading.spot_of(&written);
            let message = format!("a turn has no `{member}`, only `role` and `content`");
            reading.unknown(Code::UnknownName, &spot, message, member, known);
        }
    }
}

/// Where a character of a scalar stands in the file; where the scalar begins, if its spelling hides that.
pub(super) fn place_in(source: &str, start: TextPosition, scalar: &str, character: usize) -> TextPosition {
    let before: String = scalar.chars().take(character).collect();
    let (down, last) = (before.matches('\n').count(), before.rsplit('\n').next().unwrap_or_default());
    // The lines of a block are indented as its first one is.
    let indent = start.column.saturating_sub(1);
    let line = source.lines().nth((start.line + down).saturating_sub(1)).unwrap_or_default();
    let quoted = |first: Option<char>| matches!(first, Some('\'' | '"'));
    let opening =
        usize::from(down == 0 && quoted(line.chars().nth(indent)) && !quoted(scalar.chars().next()));
    let along = last.chars().count();
    // Only what stands before the character is looked at: lines can be long, and problems many.
    if line.chars().skip(indent + opening).take(along).eq(last.chars()) {
        TextPosition { line: start.line + down, column: start.column + opening + along }
    } else {
        start
    }
}
