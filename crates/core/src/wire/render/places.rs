//! Where blocks stood in the texts they came in.

use std::cell::RefCell;
use std::sync::Arc;

use crate::block::{Block, BlockKind};
use crate::entry::Entry;
use crate::json::{JsonKind, Raw, escape_pointer};
use crate::text::{RawJson, Text};

/// Finds blocks by their spans. The longest list of the entry looked at last is taken apart once, so that finding many
/// of its blocks does not cost its length each time.
#[derive(Default)]
pub(super) struct Places {
    last: RefCell<Option<List>>,
}

/// A list of an entry's text, its elements by span, in order.
struct List {
    source: Arc<str>,
    path: String,
    elements: Vec<(u32, u32)>,
}

impl Places {
    /// JSON pointer of a block within the text of its entry's message.
    pub(super) fn locate(&self, entry: &Entry, block: &Block) -> String {
        let text = match &block.kind {
            BlockKind::Text(Text::Raw(raw) | Text::Json(raw)) | BlockKind::Refusal(Text::Raw(raw)) => {
                Some(raw)
            }
            BlockKind::Reasoning(reasoning) => match &reasoning.text {
                Some(Text::Raw(raw)) => Some(raw),
                _ => None,
            },
            _ => None,
        };
        let Some(span) = block.raw.as_deref().or(text).map(RawJson::span) else { return String::new() };
        let path = self.pointer(&entry.origin.raw, span);
        match &entry.origin.part {
            Some(part) => renumber(&path, &part.indexes),
            None => path,
        }
    }

    /// The pointer of the value that covers `span` exactly, or of the nearest one around it.
    fn pointer(&self, source: &Arc<str>, span: (u32, u32)) -> String {
        let mut known = self.last.borrow_mut();
        let list = match &mut *known {
            Some(list) if Arc::ptr_eq(&list.source, source) => list,
            other => other.insert(List::of(source)),
        };
        match list.element(span) {
            Some((number, element)) => {
                let path = format!("{}/{number}", list.path);
                descend(path, element, source, span)
            }
            None => descend(String::new(), Raw::trusted(source), source, span),
        }
    }
}

impl List {
    /// The list of blocks in a message, or the list that the whole text is.
    fn of(source: &Arc<str>) -> Self {
        let whole = Raw::trusted(source);
        let blocks = ["content", "parts"].into_iter().find_map(|key| {
            let list = whole.get(key).filter(|list| list.kind() == JsonKind::Array)?;
            Some((format!("/{key}"), list))
        });
        let (path, list) = blocks.unwrap_or((String::new(), whole));
        let elements = match list.kind() {
            JsonKind::Array => list.elements().map(|element| element.span_in(source)).collect(),
            _ => Vec::new(),
        };
        List { source: Arc::clone(source), path, elements }
    }

    /// The element around a span.
    fn element(&self, span: (u32, u32)) -> Option<(usize, Raw<'_>)> {
        let number = self.elements.partition_point(|(start, _)| *start <= span.0).checked_sub(1)?;
        let (start, end) = *self.elements.get(number)?;
        let text = self.source.get(start as usize..end as usize)?;
        (span.1 <= end).then(|| (number, Raw::trusted(text)))
    }
}

/// Goes down from `value`, which stands at `path`, to the value that covers `span`.
fn descend(mut path: String, mut value: Raw<'_>, source: &str, span: (u32, u32)) -> String {
    let covers = |child: Raw<'_>| {
        let (start, end) = child.span_in(source);
        start <= span.0 && span.1 <= end
    };
    while value.span_in(source) != span {
        let next = match value.kind() {
            JsonKind::Array => value
                .elements()
                .enumerate()
                .find(|(_, child)| covers(*child))
                .map(|(number, child)| (number.to_string(), child)),
            JsonKind::Object => value
                .members()
                .find(|(_, child)| covers(*child))
                .map(|(key, child)| (escape_pointer(&key).into_owned(), child)),
            _ => None,
        };
        let Some((step, child)) = next else { break };
        path.push('/');
        path.push_str(&step);
        value = child;
    }
    path
}

/// The same pointer in the whole message, of which the entry is a part.
fn renumber(path: &str, indexes: &[u32]) -> String {
    let mut steps: Vec<String> = path.split('/').map(str::to_string).collect();
    if let Some(step) = steps.get_mut(2)
        && let Some(index) = step.parse::<usize>().ok().and_then(|number| indexes.get(number))
    {
        *step = index.to_string();
    }
    steps.join("/")
}
