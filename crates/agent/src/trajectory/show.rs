//! Steps as models and people read them.

use scrollback_core::ViewItem;
use scrollback_core::manager::ToolResultTruncator;
use serde::Serialize;
use serde_json::Value;

use super::{Step, StepKind, steps_of_view};

/// Longest observation in a prompt, in characters.
const OBSERVATION: usize = 2000;

/// Steps of one role that follow each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepMessage {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    /// The steps.
    pub content: Vec<StepPart>,
}

/// A step as part of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepPart {
    /// Its kind, by its short word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it says.
    pub text: String,
    /// The tool and its arguments, or what it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_data: Option<Value>,
    /// What ties a result to its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

/// Steps as messages: those of one role that follow each other become one.
pub fn messages_view(steps: &[Step]) -> Vec<StepMessage> {
    let mut messages: Vec<StepMessage> = Vec::new();
    for step in steps {
        let role = step.kind.role();
        let part = StepPart {
            kind: step.kind.short(),
            text: step.content.clone(),
            tool_data: step.tool_data.clone(),
            tool_use_id: step.tool_use_id.clone(),
        };
        match messages.last_mut().filter(|message| message.role == role) {
            Some(message) => message.content.push(part),
            None => messages.push(StepMessage { role, content: vec![part] }),
        }
    }
    messages
}

/// Whether the last query is among the lines of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Current {
    /// It is given apart.
    #[default]
    Excluded,
    /// It is.
    Included,
}

/// A view as a text, one line per step; empty if there is nothing to tell.
pub fn context_prompt(items: impl IntoIterator<Item = ViewItem>, current: Current) -> String {
    let steps = steps_of_view(items);
    let last = steps.iter().rposition(|step| step.kind == StepKind::UserQuery);
    let shown = steps.iter().enumerate().filter(|(at, _)| current == Current::Included || Some(*at) != last);
    lines(shown.map(|(_, step)| step))
}

/// The steps since the last query, that query included, as a text with one line per step.
pub fn recent_for_extract(items: impl IntoIterator<Item = ViewItem>) -> String {
    let steps = steps_of_view(items);
    let last = steps.iter().rposition(|step| step.kind == StepKind::UserQuery).unwrap_or(0);
    lines(steps.iter().skip(last))
}

fn lines<'s>(steps: impl Iterator<Item = &'s Step>) -> String {
    steps.map(line).collect::<Vec<_>>().join("\n")
}

fn line(step: &Step) -> String {
    let text = one_line(&step.content);
    match step.kind {
        StepKind::UserQuery => format!("User: {text}"),
        StepKind::Thought => format!("Thought: {text}"),
        StepKind::ToolCall => {
            let data = step.tool_data.as_ref();
            let name = data.and_then(|data| data.get("name")?.as_str()).unwrap_or_default();
            let args = data.and_then(|data| data.get("args")).map_or_else(String::new, |args| match args {
                Value::String(raw) => one_line(raw),
                parsed => parsed.to_string(),
            });
            format!("Action: {name}({args})")
        }
        StepKind::ToolResult => format!("Observation: {}", cut(&text)),
        StepKind::FinalAnswer => format!("Answer: {text}"),
        StepKind::Summary => format!("Summary: {text}"),
    }
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A text within the limit, as the truncator would cut it.
fn cut(text: &str) -> String {
    if text.chars().count() <= OBSERVATION {
        return text.into();
    }
    let suffix = ToolResultTruncator::default().suffix;
    let kept = OBSERVATION.saturating_sub(suffix.chars().count());
    text.chars().take(kept).chain(suffix.chars()).collect()
}
