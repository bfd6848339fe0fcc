//! The definition of one tool across wires.

use std::borrow::Cow;

use super::tools::fit_name;
use super::{Cx, quote, schema};
use crate::json::{self, JsonKind, Raw};
use crate::wire::Wire;

/// What a definition says, whatever its wire.
struct ToolDefinition<'a> {
    name: String,
    description: Option<Raw<'a>>,
    takes: Takes<'a>,
    strict: Option<Raw<'a>>,
}

/// What a tool is called with.
enum Takes<'a> {
    /// An object, as a schema says; any object if there is none.
    Object(Option<Cow<'a, str>>),
    /// Free text, in a format or any.
    Text(Option<Raw<'a>>),
}

/// Members that some wire defines a tool with; all others are extensions.
const MODELLED: [&str; 14] = [
    "type",
    "function",
    "custom",
    "toolSpec",
    "name",
    "description",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "input_schema",
    "inputSchema",
    "strict",
    "format",
    "cache_control",
];

/// A definition of another wire in the words of this one; none if it has none, which is noted.
pub(super) fn convert(text: &str, from: Wire, place: &str, cx: &mut Cx<'_>) -> Option<String> {
    let tool = json::check(text).ok()?;
    let Some(definition) = read(from, tool).filter(|definition| holds(cx.wire, definition)) else {
        let reason = match tool.get("type").and_then(Raw::string).as_deref() {
            Some("custom") => "only OpenAI's formats define tools that take free text",
            _ => "tools that the provider runs cannot be offered by another",
        };
        cx.lose_at(place.into(), "tool", reason);
        return None;
    };
    let inner = ["function", "custom", "toolSpec"].into_iter().find_map(|key| Some((key, tool.get(key)?)));
    cx.lose_unknown(tool, &|_| place.into(), |key| MODELLED.contains(&key));
    if let Some((key, inner)) = inner {
        cx.lose_unknown(inner, &|_| format!("{place}/{key}"), |key| MODELLED.contains(&key));
    }
    let place = inner.map_or_else(|| place.to_string(), |(key, _)| format!("{place}/{key}"));
    if tool.get("cache_control").is_some() {
        cx.lose_at(format!("{place}/cache_control"), "cache_control", "cache marks differ between providers");
    }
    if definition.strict.is_some() && !matches!(cx.wire, Wire::OpenaiChat | Wire::OpenaiResponses) {
        cx.lose_at(format!("{place}/strict"), "strict", "the other format has no place for it");
    }
    let name = name(cx.wire, &definition);
    if name != definition.name {
        cx.lose_at(format!("{place}/name"), "name", "the other format takes other characters, or none");
    }
    Some(print(cx.wire, &name, &definition))
}

fn holds(wire: Wire, definition: &ToolDefinition<'_>) -> bool {
    match definition.takes {
        Takes::Object(_) => true,
        Takes::Text(_) => matches!(wire, Wire::OpenaiChat | Wire::OpenaiResponses),
    }
}

/// The name as calls of the tool have it there: Gemini takes dots and colons.
fn name(wire: Wire, definition: &ToolDefinition<'_>) -> String {
    if wire == Wire::Gemini { definition.name.clone() } else { fit_name(&definition.name) }
}

fn read(wire: Wire, tool: Raw<'_>) -> Option<ToolDefinition<'_>> {
    let kind = tool.get("type").and_then(Raw::string);
    let (inner, schema) = match (wire, kind.as_deref()) {
        (Wire::OpenaiChat, Some("custom")) => return custom(tool.get("custom")?),
        (Wire::OpenaiResponses, Some("custom")) => return custom(tool),
        (Wire::OpenaiChat, _) => {
            let inner = tool.get("function")?;
            (inner, inner.get("parameters"))
        }
        (Wire::OpenaiResponses, Some("function")) => (tool, tool.get("parameters")),
        (Wire::Anthropic, _) => (tool, Some(tool.get("input_schema")?)),
        (Wire::Gemini, _) => {
            let written = tool.get("parametersJsonSchema").or_else(|| tool.get("parameters_json_schema"));
            let own = || tool.get("parameters").map(|own| Cow::from(schema::from_gemini(own)));
            return function(tool, written.map(json::one_line).or_else(own));
        }
        (Wire::Bedrock, _) => {
            let inner = tool.get("toolSpec")?;
            (inner, inner.get("inputSchema").and_then(|schema| schema.get("json")))
        }
        (Wire::OpenaiResponses | Wire::Scrollback, _) => return None,
    };
    function(inner, schema.map(json::one_line))
}

fn function<'a>(inner: Raw<'a>, schema: Option<Cow<'a, str>>) -> Option<ToolDefinition<'a>> {
    defined(inner, Takes::Object(schema.filter(|schema| schema != "null")))
}

fn custom(inner: Raw<'_>) -> Option<ToolDefinition<'_>> {
    defined(inner, Takes::Text(inner.get("format")))
}

fn defined<'a>(inner: Raw<'a>, takes: Takes<'a>) -> Option<ToolDefinition<'a>> {
    Some(ToolDefinition {
        name: inner.get("name").and_then(Raw::string)?.into_owned(),
        description: inner.get("description").filter(|said| said.kind() == JsonKind::String),
        takes,
        strict: inner.get("strict").filter(|strict| strict.kind() != JsonKind::Null),
    })
}

fn print(wire: Wire, name: &str, tool: &ToolDefinition<'_>) -> String {
    let mut inner = format!("\"name\":{}", quote(name));
    if let Some(description) = tool.description {
        inner.push_str(",\"description\":");
        inner.push_str(&json::one_line(description));
    }
    let schema = match &tool.takes {
        Takes::Object(schema) => schema.as_deref().unwrap_or("{\"type\":\"object\"}"),
        Takes::Text(format) => return print_custom(wire, inner, *format),
    };
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => {
            inner.push_str(",\"parameters\":");
            inner.push_str(schema);
            // Responses is strict about schemas unless told otherwise; the others are not.
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

/// A tool that takes free text. The two formats that have them nest a grammar differently.
fn print_custom(wire: Wire, mut inner: String, format: Option<Raw<'_>>) -> String {
    if let Some(format) = format {
        let grammar = format.get("grammar").filter(|grammar| grammar.kind() == JsonKind::Object);
        let flat = || {
            let members: Vec<String> =
                format.members().map(|(key, value)| format!("{}:{}", quote(&key), value.text())).collect();
            members.join(",")
        };
        let written = match (wire, grammar) {
            (Wire::OpenaiResponses, Some(grammar)) => {
                let rest = grammar.text().trim_start_matches('{');
                format!("{{\"type\":\"grammar\",{rest}")
            }
            (Wire::OpenaiChat, None) if format.get("syntax").is_some() => {
                let members = flat().replacen("\"type\":\"grammar\",", "", 1);
                format!("{{\"type\":\"grammar\",\"grammar\":{{{members}}}}}")
            }
            _ => format.text().into(),
        };
        inner.push_str(",\"format\":");
        inner.push_str(&written);
    }
    if wire == Wire::OpenaiChat {
        format!("{{\"type\":\"custom\",\"custom\":{{{inner}}}}}")
    } else {
        format!("{{\"type\":\"custom\",{inner}}}")
    }
}
