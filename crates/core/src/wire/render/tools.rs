//! The field for tools, and the arguments of calls.

use std::collections::BTreeSet;

use super::{Cx, definition, quote};
use crate::block::{BlockKind, ToolCall};
use crate::json::{self, JsonKind, Raw};
use crate::view::ViewItem;
use crate::wire::Wire;
use crate::wire::parse::RAW_ARGUMENTS;

/// Deepest nesting of arguments that still fits into a message around them.
const MAX_ARGUMENT_DEPTH: usize = json::MAX_DEPTH - 16;

/// Whether arguments look like ones that were wrapped, and would be unwrapped on the way back.
fn is_wrapped(raw: Raw<'_>) -> bool {
    let mut members = raw.members();
    matches!((members.next(), members.next()), (Some((key, _)), None) if key == RAW_ARGUMENTS)
}

/// The key of a wire's field for tools.
pub(super) fn key(wire: Wire) -> &'static str {
    if wire == Wire::Bedrock { "toolConfig" } else { "tools" }
}

/// The arguments of a call as the object some wires want; wrapped if they are none.
pub(super) fn object_arguments(call: &ToolCall) -> String {
    let arguments = call.arguments.as_str();
    if let Ok(raw) = json::check(&arguments)
        && raw.kind() == JsonKind::Object
        && json::depth(raw) <= MAX_ARGUMENT_DEPTH
        && !is_wrapped(raw)
    {
        return json::one_line(raw).into_owned();
    }
    format!("{{\"{RAW_ARGUMENTS}\":{}}}", quote(&arguments))
}

/// A tool's name as providers take it: word characters and dashes, at most 64.
pub(crate) fn fit_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(fits) {
        return name.into();
    }
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let start: String = name.chars().take(55).map(|c| if fits(c) { c } else { '_' }).collect();
    format!("{start}_{}", hash.get(..8).unwrap_or_default())
}

/// The value of the wire's field for tools: what is offered, or what the history names where the wire demands it.
pub(super) fn render(body: &[ViewItem], cx: &mut Cx<'_>) -> Option<String> {
    if cx.wire == Wire::Scrollback {
        return None;
    }
    cx.position = None;
    let (mut functions, mut others) = (Vec::new(), Vec::new());
    if let Some((tools, from)) = cx.options.tools.and_then(|tools| Some((tools, tools.wire()?))) {
        for (number, definition) in tools.definitions().iter().enumerate() {
            let place = definition.place.clone().unwrap_or_else(|| format!("/{}/{number}", key(from)));
            if from == cx.wire {
                let text = definition.text.clone();
                // Gemini keeps functions in a list of their own.
                let list = if definition.name.is_some() { &mut functions } else { &mut others };
                list.push(text);
            } else {
                functions.extend(definition::convert(&definition.text, from, &place, cx));
            }
        }
    }
    // Converse wants definitions as soon as a call stands in the history.
    let ours = || body.iter().all(|item| item.entry.origin.wire == Wire::Bedrock);
    if functions.is_empty() && cx.wire == Wire::Bedrock && (cx.sends() || !ours()) {
        functions = named(body).iter().map(|name| placeholder(name)).collect();
    }
    if functions.is_empty() && others.is_empty() {
        return None;
    }
    if cx.wire == Wire::Gemini && !functions.is_empty() {
        others.insert(0, format!("{{\"functionDeclarations\":[{}]}}", functions.join(",")));
        functions.clear();
    }
    let list = functions.into_iter().chain(others).collect::<Vec<_>>().join(",");
    Some(if cx.wire == Wire::Bedrock { format!("{{\"tools\":[{list}]}}") } else { format!("[{list}]") })
}

/// The tools a history names.
fn named(body: &[ViewItem]) -> BTreeSet<String> {
    let mentions = |item: &&ViewItem| {
        item.entry.blocks.iter().any(|block| match &block.kind {
            BlockKind::ToolResult(_) => true,
            BlockKind::ToolCall(call) => call.style.is_client(),
            _ => false,
        })
    };
    let mut names = BTreeSet::new();
    for item in body.iter().filter(mentions) {
        names.extend(item.entry.tool_calls().map(|call| fit_name(&call.name.as_str())));
        if names.is_empty() {
            names.insert("unknown".into());
        }
    }
    names
}

/// A definition for a tool only known by name.
pub(crate) fn placeholder(name: &str) -> String {
    let name = quote(name);
    format!("{{\"toolSpec\":{{\"name\":{name},\"inputSchema\":{{\"json\":{{\"type\":\"object\"}}}}}}}}")
}
