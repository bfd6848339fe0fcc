//! Requests as providers want them: everything around the messages.

use scrollback_core::Tools;
use scrollback_core::json::quote;
use scrollback_core::model::{Provider, facts};
use scrollback_core::wire::{Body, Wire};
use serde_json::{Value, json};

use super::{ModelInfo, ReplyDelivery};
use crate::tool::Spec;

/// Output asked for where the provider wants a number and its model's limit is not known.
const USUAL_OUTPUT: u64 = 4096;
/// Most output asked for: longer replies need a stream that no gateway breaks off.
const MOST_OUTPUT: u64 = 32_000;

/// Which tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It decides.
    #[default]
    Auto,
    /// Any of them, at least one.
    Required,
    /// None of them.
    None,
    /// This one.
    Tool(String),
}

/// The shape a reply shall have: JSON that fits a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseFormat {
    /// What the schema is called.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
}

/// What is asked of a model beside the messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes<'a> {
    pub(crate) tools: &'a [&'a Spec],
    pub(crate) choice: ToolChoice,
    pub(crate) format: Option<&'a ResponseFormat>,
    pub(crate) delivery: ReplyDelivery,
    pub(crate) sampling: Sampling,
}

/// Sampling settings that differ from the model's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Longest reply, in tokens.
    pub max_output_tokens: Option<u64>,
    /// How freely words are chosen.
    pub temperature: Option<f64>,
    /// Among how much of the likely words.
    pub top_p: Option<f64>,
}

/// The tools as a provider's request defines them, so that their tokens are counted and groups of others can be dropped.
pub(crate) fn tools(wire: Wire, specs: &[&Spec]) -> Tools {
    let names = specs.iter().map(|spec| spec.name.clone()).collect();
    let definitions = specs.iter().map(|spec| definition(wire, spec).to_string()).collect();
    Tools::defined(wire, names, definitions)
}

/// Tokens a request allows its reply; none where it says nothing about it.
pub(crate) fn output_limit(model: &ModelInfo, sampling: Sampling) -> Option<u64> {
    let usual = || {
        let most = facts(&model.model).and_then(|facts| facts.max_output);
        most.unwrap_or(USUAL_OUTPUT).min(MOST_OUTPUT)
    };
    sampling.max_output_tokens.or_else(|| (model.wire == Wire::Anthropic).then(usual))
}

/// A request without messages; they are put at its end, so that one request begins as the one before.
pub(crate) fn around(model: &ModelInfo, wishes: &Wishes<'_>) -> Body {
    let wire = model.wire;
    let mut members = vec![("model", json!(model.model.model()))];
    if wishes.delivery == ReplyDelivery::Streamed {
        members.push(("stream", json!(true)));
    }
    match wire {
        Wire::Anthropic => {
            members.push(("max_tokens", json!(output_limit(model, wishes.sampling))));
        }
        Wire::OpenaiResponses => {
            // The record is ours; what the provider would keep is asked for instead.
            members.push(("store", json!(false)));
            members.push(("include", json!(["reasoning.encrypted_content"])));
        }
        _ if wishes.delivery == ReplyDelivery::Streamed => {
            members.push(("stream_options", json!({ "include_usage": true })));
        }
        _ => {}
    }
    drawn(model, wishes.sampling, &mut members);
    if !wishes.tools.is_empty() {
        let tools: Vec<Value> = wishes.tools.iter().map(|spec| definition(wire, spec)).collect();
        members.push(("tools", json!(tools)));
        members.push(("tool_choice", choice(wire, &wishes.choice)));
    }
    if let Some((key, value)) = wishes.format.map(|format| response_format(wire, format)) {
        members.push((key, value));
    }
    let key = if wire == Wire::OpenaiResponses { "input" } else { "messages" };
    let written: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    Body::Object { raw: format!("{{{},{}:[]}}", written.join(","), quote(key)).into(), key }
}

/// How replies shall be drawn, in the words of the provider.
fn drawn(model: &ModelInfo, sampling: Sampling, members: &mut Vec<(&'static str, Value)>) {
    let longest = match (model.wire, model.model.provider()) {
        // It has a number in any case.
        (Wire::Anthropic, _) => None,
        (Wire::OpenaiResponses, _) => Some("max_output_tokens"),
        // Not every compatible host knows the newer name.
        (_, Provider::OpenAiCompatible) => Some("max_tokens"),
        _ => Some("max_completion_tokens"),
    };
    if let Some((key, tokens)) = longest.zip(sampling.max_output_tokens) {
        members.push((key, json!(tokens)));
    }
    members.extend(sampling.temperature.map(|value| ("temperature", json!(value))));
    members.extend(sampling.top_p.map(|value| ("top_p", json!(value))));
}

fn definition(wire: Wire, spec: &Spec) -> Value {
    let Spec { name, description, parameters, .. } = spec;
    match wire {
        Wire::Anthropic => json!({ "name": name, "description": description, "input_schema": parameters }),
        Wire::OpenaiResponses => {
            json!({ "type": "function", "name": name, "description": description, "parameters": parameters })
        }
        _ => {
            let function = json!({ "name": name, "description": description, "parameters": parameters });
            json!({ "type": "function", "function": function })
        }
    }
}

fn choice(wire: Wire, choice: &ToolChoice) -> Value {
    match (wire, choice) {
        (Wire::Anthropic, ToolChoice::Auto) => json!({ "type": "auto" }),
        (Wire::Anthropic, ToolChoice::Required) => json!({ "type": "any" }),
        (Wire::Anthropic, ToolChoice::None) => json!({ "type": "none" }),
        (Wire::Anthropic, ToolChoice::Tool(name)) => json!({ "type": "tool", "name": name }),
        (_, ToolChoice::Auto) => json!("auto"),
        (_, ToolChoice::Required) => json!("required"),
        (_, ToolChoice::None) => json!("none"),
        (Wire::OpenaiResponses, ToolChoice::Tool(name)) => json!({ "type": "function", "name": name }),
        (_, ToolChoice::Tool(name)) => json!({ "type": "function", "function": { "name": name } }),
    }
}

fn response_format(wire: Wire, format: &ResponseFormat) -> (&'static str, Value) {
    let ResponseFormat { name, schema } = format;
    match wire {
        Wire::Anthropic => {
            ("output_config", json!({ "format": { "type": "json_schema", "schema": schema } }))
        }
        Wire::OpenaiResponses => {
            ("text", json!({ "format": { "type": "json_schema", "name": name, "schema": schema } }))
        }
        _ => {
            let named = json!({ "name": name, "schema": schema });
            ("response_format", json!({ "type": "json_schema", "json_schema": named }))
        }
    }
}
