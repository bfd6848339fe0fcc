//! Tool definitions and arguments across wires.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Cx, quote, schema};
use crate::block::{BlockKind, ToolCall};
use crate::json::{self, Kind, Raw};
use crate::view::Item;
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
        && raw.kind() == Kind::Object
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

/// What a definition says, whatever its wire.
struct Definition<'a> {
    name: String,
    description: Option<Raw<'a>>,
    schema: Option<Cow<'a, str>>,
    strict: Option<Raw<'a>>,
}

/// The value of the wire's field for tools, converted from another wire, or made up where the wire demands one.
pub(super) fn render(body: &[Item], cx: &mut Cx<'_>) -> Option<String> {
    if cx.wire == Wire::Scrollback {
        return None;
    }
    let offered = cx.options.tools.and_then(|tools| Some((tools, tools.wire()?)));
    let mut printed = Vec::new();
    if let Some((tools, from)) = offered {
        if from == cx.wire {
            return None;
        }
        cx.position = None;
        for (number, text) in tools.definitions().iter().enumerate() {
            let Ok(raw) = json::check(text) else { continue };
            match read(from, raw) {
                Some(definition) => printed.push(print(cx.wire, &definition)),
                None => cx.lose_at(
                    format!("/{}/{number}", key(from)),
                    "tool",
                    "tools that the provider runs cannot be offered by another",
                ),
            }
        }
    }
    // Converse wants definitions as soon as a call stands in the history.
    let ours = || body.iter().all(|item| item.entry.origin.wire == Wire::Bedrock);
    if printed.is_empty() && cx.wire == Wire::Bedrock && (cx.sends() || !ours()) {
        let mentions = |item: &&Item| {
            item.entry.blocks.iter().any(|block| {
                matches!(&block.kind, BlockKind::ToolResult(_))
                    || matches!(&block.kind, BlockKind::ToolCall(call) if call.style.is_client())
            })
        };
        let mut names: BTreeSet<String> = BTreeSet::new();
        for item in body.iter().filter(mentions) {
            names.extend(item.entry.tool_calls().map(|call| fit_name(&call.name.as_str())));
            if names.is_empty() {
                names.insert("unknown".into());
            }
        }
        printed = names.iter().map(|name| placeholder(name)).collect();
    }
    if printed.is_empty() {
        return None;
    }
    let list = printed.join(",");
    Some(match cx.wire {
        Wire::Gemini => format!("[{{\"functionDeclarations\":[{list}]}}]"),
        Wire::Bedrock => format!("{{\"tools\":[{list}]}}"),
        _ => format!("[{list}]"),
    })
}

/// A definition for a tool only known by name.
pub(crate) fn placeholder(name: &str) -> String {
    let name = quote(name);
    format!("{{\"toolSpec\":{{\"name\":{name},\"inputSchema\":{{\"json\":{{\"type\":\"object\"}}}}}}}}")
}

fn read(wire: Wire, tool: Raw<'_>) -> Option<Definition<'_>> {
    let (inner, schema) = match wire {
        Wire::OpenaiChat => {
            let inner = tool.get("function")?;
            (inner, inner.get("parameters"))
        }
        Wire::OpenaiResponses => {
            if tool.get("type").and_then(Raw::string).as_deref() != Some("function") {
                return None;
            }
            (tool, tool.get("parameters"))
        }
        Wire::Anthropic => (tool, Some(tool.get("input_schema")?)),
        Wire::Gemini => {
            let written = tool.get("parametersJsonSchema").or_else(|| tool.get("parameters_json_schema"));
            let own = || tool.get("parameters").map(|own| Cow::from(schema::from_gemini(own)));
            return definition(tool, written.map(json::one_line).or_else(own));
        }
        Wire::Bedrock => {
            let inner = tool.get("toolSpec")?;
            (inner, inner.get("inputSchema").and_then(|schema| schema.get("json")))
        }
        Wire::Scrollback => return None,
    };
    definition(inner, schema.map(json::one_line))
}

fn definition<'a>(inner: Raw<'a>, schema: Option<Cow<'a, str>>) -> Option<Definition<'a>> {
    Some(Definition {
        name: inner.get("name").and_then(Raw::string)?.into_owned(),
        description: inner.get("description").filter(|said| said.kind() == json::Kind::String),
        schema: schema.filter(|schema| schema != "null"),
        strict: inner.get("strict"),
    })
}

fn print(wire: Wire, tool: &Definition<'_>) -> String {
    // Gemini takes names with dots and colons, and calls keep theirs there.
    let name = if wire == Wire::Gemini { tool.name.clone() } else { fit_name(&tool.name) };
    let mut inner = format!("\"name\":{}", quote(&name));
    if let Some(description) = tool.description {
        inner.push_str(",\"description\":");
        inner.push_str(&json::one_line(description));
    }
    let schema = tool.schema.as_deref().unwrap_or("{\"type\":\"object\"}");
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => {
            inner.push_str(",\"parameters\":");
            inner.push_str(schema);
            // Responses is strict about schemas unless told otherwise; nobody else is.
            let lax = (wire == Wire::OpenaiResponses).then_some("false");
            if let Some(strict) = tool.strict.map(Raw::text).or(lax) {
                inner.push_str(",\"strict\":");
                inner.push_str(strict);
            }
            if wire == Wire::OpenaiChat {
                format!("{{\"type\":\"function\",\"function\":{{{inner}}}}}")
            } else {
                format!("{{\"type\":\"function\",{inner}}}")
            }
        }
        Wire::Anthropic => format!("{{{inner},\"input_schema\":{schema}}}"),
        Wire::Gemini => format!("{{{inner},\"parametersJsonSchema\":{schema}}}"),
        _ => format!("{{\"toolSpec\":{{{inner},\"inputSchema\":{{\"json\":{schema}}}}}}}"),
    }
}
