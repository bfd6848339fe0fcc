//! Loops, and what makes them conversations.

use scrollback_agent::document::{Fields, Node};

use super::context::{FlowReader, NameScope, Spot, key_spot, spot};
use super::{history, step, text, turns};
use crate::model::{
    Exit, HistoryMode, Loop, LoopMemory, OnMaxLoops, Seed, SeedFrom, Step, StepKind, ToolArtifacts,
};
use crate::problem::Code;
use crate::settings::SettingOrigin;
use crate::{Expression, FlowTemplate};

/// The largest `max_loops`.
const MOST_LOOPS: u64 = 100_000;
/// Iterations where the flow does not say how many.
const USUAL_LOOPS: u32 = 5;
/// Every key of a loop.
pub(super) const KEYS: [&str; 12] = [
    "body",
    "max_loops",
    "exit_expression",
    "on_max_loops",
    "conversation",
    "history_management",
    "ai_turn_source",
    "named_steps",
    "user_turn_sources",
    "history_template",
    "init",
    "tool_artifacts",
];
/// Those that mean something in conversations only.
const OF_CONVERSATIONS: [&str; 7] = [
    "history_management",
    "ai_turn_source",
    "named_steps",
    "user_turn_sources",
    "history_template",
    "init",
    "tool_artifacts",
];

/// Reads the step's key `loop`.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    name: &str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> StepKind {
    let path = fields.path("loop");
    let Some(node) = fields.node("loop") else {
        fields.missing("loop");
        let body = Vec::new();
        return StepKind::Loop(Box::new(Loop {
            body,
            max_loops: USUAL_LOOPS,
            exit: None,
            conversation: None,
        }));
    };
    reading.map(node, &path, |fields, reading| {
        let conversational = fields.flag("conversation").unwrap_or(false);
        let inside =
            NameScope { in_loop: true, in_conversation: scope.in_conversation || conversational, ..scope };
        let max_loops = max_loops(fields, name, reading);
        let exit = exit(fields, node, name, inside, reading);
        reading.decided_by(node, &format!("steps.{name}"), "conversation", conversational);
        let body = step::required_steps(fields, "body", inside, reading);
        let conversation = if conversational {
            Some(conversation(fields, node, name, &body, inside, reading))
        } else {
            for key in OF_CONVERSATIONS {
                if fields.node(key).is_some() {
                    let message = format!("`{key}` needs `conversation: true` in this loop");
                    reading.error(Code::NeedsConversation, &key_spot(fields, node, key), message);
                }
            }
            None
        };
        StepKind::Loop(Box::new(Loop { body, max_loops, exit, conversation }))
    })
}

fn max_loops(fields: &mut Fields<'_, '_>, name: &str, reading: &mut FlowReader<'_>) -> u32 {
    let own = fields.count_in("max_loops", 1..=MOST_LOOPS).map(|count| count as u32);
    let (count, from) = match (own, &reading.source.settings.max_loops) {
        (Some(count), _) => (count, SettingOrigin::Flow),
        (None, Some(set)) => (set.value, set.from.clone()),
        (None, None) => (USUAL_LOOPS, SettingOrigin::BuiltIn),
    };
    reading.decided(format!("steps.{name}.max_loops"), count, from);
    count
}

fn exit(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    name: &str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Option<Exit> {
    let expression = text::expression(fields, "exit_expression", scope, reading);
    let wanted = fields.word("on_max_loops", &["fail", "continue"]);
    if node.get("exit_expression").is_none() {
        if wanted.is_some() {
            let message = "without `exit_expression` the loop runs `max_loops` times and is done";
            reading.warn(Code::UnusedField, &key_spot(fields, node, "on_max_loops"), message);
        }
        return None;
    }
    let wanted = wanted.unwrap_or_else(|| "fail".into());
    let on_max_loops = if wanted == "continue" { OnMaxLoops::Continue } else { OnMaxLoops::Fail };
    reading.decided_by(node, &format!("steps.{name}"), "on_max_loops", wanted);
    Some(Exit { expression: expression.unwrap_or_else(Expression::null), on_max_loops })
}

fn conversation(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    name: &str,
    body: &[Step],
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> LoopMemory {
    let history = history::read(fields, name, reading);
    let turns = turns::read(fields, node, name, body, reading);
    let history_template = text::history_template(fields, reading);
    let modes = turns::modes(body);
    if history_template.is_some() && !modes.contains(&HistoryMode::Prompt) {
        let message = "no agent of this loop is prompt-only, so it is never sent; `mode: prompt` makes an agent prompt-only";
        reading.warn(Code::TemplateUnused, &key_spot(fields, node, "history_template"), message);
    }
    let seed = seed(fields, scope, reading);
    let wanted = fields.word("tool_artifacts", &["omit", "include"]).unwrap_or_else(|| "omit".into());
    let tool_artifacts = if wanted == "include" { ToolArtifacts::Include } else { ToolArtifacts::Omit };
    reading.decided_by(node, &format!("steps.{name}"), "tool_artifacts", wanted);
    if tool_artifacts == ToolArtifacts::Include && !modes.is_empty() && !modes.contains(&HistoryMode::Chat) {
        let message = "tool exchanges are sent as messages only, and every agent of this loop is prompt-only";
        reading.warn(Code::UnusedField, &spot(fields, node, "tool_artifacts"), message);
    }
    LoopMemory { history, turns, history_template, seed, tool_artifacts }
}

/// `init.history.start_with`.
fn seed(fields: &mut Fields<'_, '_>, scope: NameScope, reading: &mut FlowReader<'_>) -> Seed {
    let usual = || Seed { from: SeedFrom::Input, prefix: String::new() };
    let path = fields.path("init");
    let Some(init) = fields.node("init") else { return usual() };
    reading.map(init, &path, |fields, reading| {
        let path = fields.path("history");
        let Some(history) = fields.node("history") else {
            fields.missing("history");
            return usual();
        };
        reading.map(history, &path, |fields, reading| {
            let path = fields.path("start_with");
            let Some(node) = fields.node("start_with") else {
                fields.missing("start_with");
                return usual();
            };
            reading.map(node, &path, |fields, reading| start_with(fields, node, scope, reading))
        })
    })
}

fn start_with(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Seed {
    let from_input = fields.flag("from_initial_input");
    let prefix = fields.text("prefix").unwrap_or_default();
    let text: Option<FlowTemplate> = text::template(fields, "text", scope, reading);
    if node.get("text").is_some() && from_input == Some(true) {
        let place: Spot = key_spot(fields, node, "text");
        let message = "a history starts with `text` or `from_initial_input: true`, not both; remove one";
        reading.error(Code::ConflictingKeys, &place, message);
    }
    let from = match (text, from_input) {
        (Some(text), _) => SeedFrom::Text(text),
        (None, Some(false)) => SeedFrom::Nothing,
        (None, _) => SeedFrom::Input,
    };
    Seed { from, prefix }
}
