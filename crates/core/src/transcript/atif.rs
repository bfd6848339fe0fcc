//! ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.7: steps of a system, a user and an agent, where the
//! agent's tool calls and their results stand in one step.

use super::chat::{self, ChatMessage, Writing, call, compact, literal};
use super::values::{each_record, first_record, has_key, has_list, id_of, other_members};
use super::{FoundMessage, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Time, Usage};
use crate::json::{JsonKind, Raw};

/// Whether the text is a trajectory that names its schema.
pub(crate) fn looks_like(text: &str) -> bool {
    let named = |file: Raw<'_>| {
        let version = file.get("schema_version").and_then(Raw::string);
        version.is_some_and(|version| version.starts_with("ATIF-")) && has_list(file, "steps")
    };
    has_key(text, "schema_version") && first_record(text).is_some_and(named)
}

/// Reads a trajectory as one conversation; what is said beside its steps stays as notes.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    each_record(text, |record, transcript| {
        let file = record.object("a trajectory")?;
        let steps = file
            .get("steps")
            .filter(|steps| steps.kind() == JsonKind::Array)
            .ok_or_else(|| record.error(record.raw, "the trajectory has no list `steps`".into()))?;
        let agent = file.get("agent");
        let model =
            agent.and_then(|agent| agent.get("model_name")?.string()).map(std::borrow::Cow::into_owned);
        let mut messages = Vec::new();
        for (index, step) in steps.elements().enumerate() {
            for found in found_in(index + 1, step, model.as_deref()) {
                messages.push(ChatMessage { found, record, from: step });
            }
        }
        let mut conversation = chat::conversation(messages, &mut transcript.failed);
        conversation.id = id_of(file.get("session_id")).or_else(|| id_of(file.get("trajectory_id")));
        conversation.tools = agent.and_then(|agent| agent.get("tool_definitions")).and_then(super::tools_of);
        conversation.notes.extend(other_members(&file, &["steps", "session_id", "trajectory_id"]));
        transcript.conversations.push(conversation);
        Ok(())
    })
}

/// The messages of one step: what was said, and for an agent's calls one result each.
fn found_in(place: usize, step: Raw<'_>, model: Option<&str>) -> Vec<FoundMessage> {
    let text = |key: &str| step.get(key).and_then(Raw::string);
    let role = match text("source").as_deref() {
        Some("agent") => "assistant",
        Some("system") => "system",
        _ => "user",
    };
    let time = text("timestamp").and_then(|time| Time::parse(&time));
    let source = Source { line: place, id: id_of(step.get("step_id")) };
    let calls: Vec<Raw<'_>> = step.get("tool_calls").into_iter().flat_map(Raw::elements).collect();
    let mut message = Writing::new().text("role", role).raw("content", &content(step.get("message")));
    if let Some(thought) = text("reasoning_content").filter(|thought| !thought.is_empty()) {
        message = message.text("reasoning_content", &thought);
    }
    if !calls.is_empty() {
        let written: Vec<String> = calls.iter().map(|call| written_call(*call)).collect();
        message = message.raw("tool_calls", &format!("[{}]", written.join(",")));
    }
    let meta = (role == "assistant").then(|| Meta {
        model_served: text("model_name")
            .map(std::borrow::Cow::into_owned)
            .or_else(|| model.map(String::from)),
        usage: step.get("metrics").map(usage),
        ..Meta::default()
    });
    let mut found = vec![FoundMessage { raw: message.end(), source: source.clone(), time, meta }];
    let results = step.get("observation").and_then(|observation| observation.get("results"));
    for (number, result) in results.into_iter().flat_map(Raw::elements).enumerate() {
        // A result that names no call answers the one at its place.
        let named = result.get("source_call_id").and_then(Raw::string);
        let id = named.or_else(|| calls.get(number)?.get("tool_call_id")?.string());
        let raw = match id {
            Some(id) => Writing::new().text("role", "tool").text("tool_call_id", &id),
            None => Writing::new().text("role", "user"),
        };
        let raw = raw.raw("content", &content(result.get("content"))).end();
        found.push(FoundMessage { raw, source: source.clone(), time, meta: None });
    }
    found
}

/// A text, or the texts of a list of parts, as a string literal; what is no text is kept as it is written.
fn content(value: Option<Raw<'_>>) -> String {
    let Some(value) = value.filter(|value| value.kind() != JsonKind::Null) else { return "\"\"".into() };
    match value.kind() {
        JsonKind::String => value.text().into(),
        JsonKind::Array => {
            let part = |part: Raw<'_>| {
                let text = part.get("text").and_then(Raw::string);
                text.map_or_else(|| part.text().to_string(), std::borrow::Cow::into_owned)
            };
            literal(&value.elements().map(part).collect::<Vec<_>>().join("\n"))
        }
        _ => literal(value.text()),
    }
}

fn written_call(raw: Raw<'_>) -> String {
    let text = |key: &str| raw.get(key).and_then(Raw::string).unwrap_or_default();
    let arguments = match raw.get("arguments") {
        Some(arguments) if arguments.kind() == JsonKind::String => arguments.text().to_string(),
        Some(arguments) => literal(&compact(arguments)),
        None => literal("{}"),
    };
    call(&text("tool_call_id"), &text("function_name"), &arguments)
}

fn usage(metrics: Raw<'_>) -> Usage {
    let number = |key: &str| metrics.get(key).and_then(|value| value.text().parse::<u64>().ok());
    let cached = number("cached_tokens");
    Usage {
        input_uncached: number("prompt_tokens").map(|input| input.saturating_sub(cached.unwrap_or(0))),
        cache_read: cached,
        output: number("completion_tokens"),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::Role;

    const FILE: &str = include_str!("../../../../corpus/transcript/atif/trajectory.json");

    #[test]
    fn steps_are_messages_with_their_calls_and_results() {
        assert!(looks_like(FILE));
        let transcript = read(FILE).unwrap();
        assert!(transcript.failed.is_empty(), "{:?}", transcript.failed);
        let conversation = &transcript.conversations[0];
        assert_eq!(conversation.id.as_deref(), Some("session-7"));
        let roles: Vec<Role> = conversation.entries.iter().map(|entry| entry.role).collect();
        assert_eq!(
            roles,
            [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::Assistant]
        );
        let ids: Vec<_> = conversation.entries.iter().filter_map(crate::Entry::tool_call_id).collect();
        assert_eq!(ids, ["call_1", "call_2"]);
        let asked = &conversation.entries[2];
        let arguments: Vec<String> =
            asked.tool_calls().map(|call| call.arguments.as_str().into_owned()).collect();
        assert_eq!(arguments, [r#"{"path":"notes.md"}"#, r#"{"path":"plan.md"}"#]);
        let meta = asked.meta.as_ref().unwrap();
        assert_eq!(meta.model_served.as_deref(), Some("claude-sonnet-4-5"));
        assert_eq!(meta.usage.as_ref().and_then(Usage::input), Some(520));
        assert!(asked.created_at.0 > 0);
        assert!(conversation.notes.iter().any(|note| note.kind == "final_metrics"));
    }

    #[test]
    fn a_trajectory_without_steps_is_named() {
        let problem = read(r#"{"schema_version":"ATIF-v1.6","agent":{}}"#).unwrap_err().problem;
        assert!(problem.contains("no list `steps`"));
    }
}
