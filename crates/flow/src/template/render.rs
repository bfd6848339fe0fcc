//! Trees into text, in one pass and within bounds.

use std::borrow::Cow;

use serde_json::Value;

use super::path::Path;
use super::{LIMITS, TemplateNode, TooLarge};
use crate::expression::{as_text, is_true};
use crate::reference::{Names, follow};

pub(super) fn render(
    nodes: &[TemplateNode],
    names: &dyn Names,
    on_missing: &mut dyn FnMut(&str),
) -> Result<String, TooLarge> {
    let mut writer = TemplateWriter { names, on_missing, out: String::new(), steps: LIMITS.steps };
    writer.nodes(nodes, None)?;
    Ok(writer.out)
}

/// The item that an `each` is at.
#[derive(Clone, Copy)]
struct EachItem<'i> {
    value: &'i Value,
    index: usize,
    count: usize,
}

struct TemplateWriter<'n, 'm> {
    names: &'n dyn Names,
    on_missing: &'m mut dyn FnMut(&str),
    out: String,
    steps: u64,
}

impl TemplateWriter<'_, '_> {
    // The depth is that of the template, which its parser limits.
    fn nodes(&mut self, nodes: &[TemplateNode], item: Option<EachItem<'_>>) -> Result<(), TooLarge> {
        for node in nodes {
            self.steps = self.steps.checked_sub(1).ok_or(TooLarge)?;
            match node {
                TemplateNode::Text(text) => self.push(text)?,
                TemplateNode::Value(path) => match value(self.names, path, item) {
                    Some(value) if value.is_null() => {}
                    Some(value) => self.push(&as_text(&value))?,
                    None => (self.on_missing)(&path.shown()),
                },
                TemplateNode::If(path, then, otherwise) => {
                    let holds = value(self.names, path, item).is_some_and(|value| is_true(&value));
                    self.nodes(if holds { then } else { otherwise }, item)?;
                }
                TemplateNode::Each(path, body) => match value(self.names, path, item) {
                    Some(Cow::Borrowed(Value::Array(list))) => self.each(list, body)?,
                    Some(Cow::Owned(Value::Array(list))) => self.each(&list, body)?,
                    Some(other) if other.is_null() => {}
                    _ => (self.on_missing)(&path.shown()),
                },
            }
        }
        Ok(())
    }

    fn each(&mut self, list: &[Value], body: &[TemplateNode]) -> Result<(), TooLarge> {
        for (index, value) in list.iter().enumerate() {
            self.steps = self.steps.checked_sub(1).ok_or(TooLarge)?;
            self.nodes(body, Some(EachItem { value, index, count: list.len() }))?;
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), TooLarge> {
        if self.out.len().saturating_add(text.len()) > LIMITS.bytes {
            return Err(TooLarge);
        }
        self.out.push_str(text);
        Ok(())
    }
}

/// What a path stands for.
fn value<'v>(names: &'v dyn Names, path: &Path, item: Option<EachItem<'v>>) -> Option<Cow<'v, Value>> {
    match path {
        Path::Reference(reference) => reference.value(names),
        Path::This(keys) => follow(Cow::Borrowed(item?.value), keys),
        Path::Index => Some(Cow::Owned(item?.index.into())),
        Path::First => Some(Cow::Owned((item?.index == 0).into())),
        Path::Last => Some(Cow::Owned((item?.index + 1 == item?.count).into())),
    }
}
