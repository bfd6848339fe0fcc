//! Settings in JSON, with comments or without: a syntax tree that prints what was not changed as it was written.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::format::{BadFile, place};

/// Whether comments and trailing commas are part of a file. Anything looser is a mistake that every client refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comments {
    Allowed,
    Refused,
}

fn options(comments: Comments) -> ParseOptions {
    ParseOptions {
        allow_comments: comments == Comments::Allowed,
        allow_trailing_commas: comments == Comments::Allowed,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn read(text: &str, keys: &[String], comments: Comments) -> Result<Option<String>, BadFile> {
    let root = parse(text, comments)?;
    let mut next = root.value();
    for key in keys {
        let Some(object) = next.and_then(|node| node.as_object()) else { return Ok(None) };
        next = object.get(key).and_then(|member| member.value());
    }
    Ok(next.map(|node| shown(&node)))
}

pub(super) fn set(text: &str, keys: &[String], value: &str, comments: Comments) -> Result<String, BadFile> {
    let root = parse(text, comments)?;
    let Some((last, tables)) = keys.split_last() else { return Ok(text.into()) };
    if root.value().is_some_and(|value| value.as_object().is_none()) {
        return Err(BadFile { line: 1, column: 1, problem: "expected an object { … }".into() });
    }
    let mut object = root.object_value_or_set();
    for key in tables {
        object = object.object_value_or_create(key).ok_or_else(|| {
            // The tree has no places; the name of the member is near enough to find it.
            let (line, column) = place(text, text.find(&format!("\"{key}\"")).unwrap_or_default());
            BadFile { line, column, problem: format!("`{key}` must be an object {{ … }}") }
        })?;
    }
    let value = written(value);
    match object.get(last) {
        Some(member) => member.set_value(value),
        None => {
            object.append(last, value);
        }
    }
    let mut text_after = root.to_string();
    if text.trim().is_empty() && !text_after.ends_with('\n') {
        text_after.push('\n');
    }
    Ok(text_after)
}

pub(super) fn remove(text: &str, keys: &[String], comments: Comments) -> Result<String, BadFile> {
    let root = parse(text, comments)?;
    let Some((last, tables)) = keys.split_last() else { return Ok(text.into()) };
    let Some(top) = root.object_value() else { return Ok(text.into()) };
    let mut around: Vec<CstObject> = vec![top];
    for key in tables {
        let Some(inner) = around.last().and_then(|object| object.object_value(key)) else {
            return Ok(text.into());
        };
        around.push(inner);
    }
    let mut name = last;
    let mut names = tables.iter().rev();
    while let Some(object) = around.pop() {
        if let Some(member) = object.get(name) {
            member.remove();
        }
        match names.next() {
            Some(above) if object.properties().is_empty() => name = above,
            _ => break,
        }
    }
    Ok(root.to_string())
}

fn parse(text: &str, comments: Comments) -> Result<CstRootNode, BadFile> {
    if comments == Comments::Refused && !text.trim().is_empty() {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default().to_string();
            BadFile { line: error.line(), column: error.column(), problem }
        })?;
    }
    CstRootNode::parse(text, &options(comments)).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        BadFile { line, column, problem: error.kind().to_string().replace('\n', " ").to_lowercase() }
    })
}

/// A value to be written: an object or a list where the text is one in JSON, else a string.
fn written(text: &str) -> CstInputValue {
    let structured = text.starts_with(['{', '[']).then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    structured.map_or_else(|| CstInputValue::String(text.into()), input)
}

fn input(value: Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text),
        Value::Array(items) => CstInputValue::Array(items.into_iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.into_iter().map(|(name, value)| (name, input(value))).collect())
        }
    }
}

/// The text of a string, an object or list in one line, or any other value as it is written.
fn shown(node: &CstNode) -> String {
    let string = node.as_string_lit().and_then(|text| text.decoded_value().ok());
    string.unwrap_or_else(|| {
        let text = node.to_string();
        let structured =
            text.starts_with(['{', '[']).then(|| serde_json::from_str::<Value>(&text).ok()).flatten();
        structured.map_or(text, |value| value.to_string())
    })
}
