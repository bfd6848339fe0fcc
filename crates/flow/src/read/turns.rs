//! Which steps of a conversational loop become turns: decided by position, before anything runs.

use std::collections::BTreeMap;

use scrollback_agent::document::{DocumentProblem, Fields, Node, code};
use serde_json::json;

use super::context::{FlowReader, Spot, key_spot, spot};
use crate::model::{HistoryMode, Step, StepKind, TurnRole, TurnSources};
use crate::problem::Code;

/// Where assistant turns come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AiSource {
    Last,
    AllAgents,
    NamedSteps,
}

/// Reads `ai_turn_source`, `named_steps` and `user_turn_sources` of a loop whose body was read.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    name: &str,
    body: &[Step],
    reading: &mut FlowReader<'_>,
) -> TurnSources {
    let scope = in_scope(body);
    let word = fields.word("ai_turn_source", &["last", "all_agents", "named_steps"]);
    let word = word.unwrap_or_else(|| "last".into());
    let ai = match word.as_str() {
        "all_agents" => AiSource::AllAgents,
        "named_steps" => AiSource::NamedSteps,
        _ => AiSource::Last,
    };
    let base = format!("steps.{name}");
    reading.decided_by(node, &base, "ai_turn_source", word);
    let by_list = |user: &UserSources<'_>| ai == AiSource::NamedSteps || user.named_steps;
    let user = user_sources(fields, node, &scope, reading);
    let written = node.get("user_turn_sources").map_or_else(|| json!(["hitl"]), Node::to_json);
    reading.decided_by(node, &base, "user_turn_sources", written);
    let named = named_steps(fields, node, &scope, by_list(&user), reading);
    let assistants: Vec<&str> = match ai {
        AiSource::Last => last(fields, node, body, &scope, reading),
        AiSource::AllAgents => names(scope.iter().filter(|step| matches!(step.kind, StepKind::Agent(_)))),
        // Where both roles use the list, what an agent says is the assistant's.
        AiSource::NamedSteps => names(named.iter().filter(|step| !user.named_steps || speaks(step))),
    };
    let mut users = names(user.steps.iter());
    if user.hitl {
        users.extend(names(scope.iter().filter(|step| matches!(step.kind, StepKind::Hitl(_)))));
    }
    if user.named_steps {
        let splits = ai == AiSource::NamedSteps;
        users.extend(names(named.iter().filter(|step| !splits || !speaks(step))));
    }
    let mut roles: BTreeMap<String, TurnRole> =
        assistants.into_iter().map(|name| (name.to_string(), TurnRole::Assistant)).collect();
    for name in users {
        if roles.insert(name.into(), TurnRole::User) == Some(TurnRole::Assistant) {
            let place = reading.steps.get(name).cloned();
            let place = place.unwrap_or_else(|| spot(fields, node, "user_turn_sources"));
            let message =
                format!("{name:?} is chosen for assistant turns and for user turns; it makes user turns");
            reading.warn(Code::TwoRoles, &place, message);
        }
    }
    TurnSources { roles }
}

fn names<'s>(steps: impl Iterator<Item = &'s &'s Step>) -> Vec<&'s str> {
    steps.map(|step| step.name.as_str()).collect()
}

/// Whether a step's output is what an agent said: an agent's own, or that of a conversation.
fn speaks(step: &Step) -> bool {
    match &step.kind {
        StepKind::Agent(_) => true,
        StepKind::Loop(inner) => inner.conversation.is_some(),
        _ => false,
    }
}

// The depth of all that follows is that of the file, which its reader limits.

/// The steps of a loop's scope: all inside its body, but not what is inside a conversation of its own.
fn in_scope(body: &[Step]) -> Vec<&Step> {
    let mut found = Vec::new();
    for step in body {
        found.push(step);
        let own_scope = matches!(&step.kind, StepKind::Loop(inner) if inner.conversation.is_some());
        if !own_scope {
            for inner in step.kind.bodies() {
                found.extend(in_scope(inner));
            }
        }
    }
    found
}

/// How history reaches the agents that are sent it.
pub(super) fn modes(body: &[Step]) -> Vec<HistoryMode> {
    let scope = in_scope(body);
    let modes = scope.iter().filter_map(|step| match &step.kind {
        StepKind::Agent(step) if step.use_history => Some(step.agent.mode),
        _ => None,
    });
    modes.collect()
}

/// The steps of the list, which must be there if it is `used`.
fn named_steps<'s>(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    scope: &[&'s Step],
    used: bool,
    reading: &mut FlowReader<'_>,
) -> Vec<&'s Step> {
    let written = text_list(fields, "named_steps");
    match &written {
        None if used && node.get("named_steps").is_none() => fields.missing("named_steps"),
        Some(list) if used && list.is_empty() => {
            fields.problem_of(code::OUT_OF_RANGE, "named_steps", "needs the name of at least one step");
        }
        Some(_) if !used => {
            let message = "neither `ai_turn_source` nor `user_turn_sources` says `named_steps`";
            reading.warn(Code::UnusedField, &key_spot(fields, node, "named_steps"), message);
        }
        _ => {}
    }
    let mut found = Vec::new();
    for (name, place) in written.unwrap_or_default() {
        match scope.iter().find(|step| step.name == name) {
            Some(step) => found.push(*step),
            None => no_step(&name, &place, scope, &[], reading),
        }
    }
    found
}

/// Where user turns come from.
struct UserSources<'s> {
    hitl: bool,
    named_steps: bool,
    steps: Vec<&'s Step>,
}

fn user_sources<'s>(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    scope: &[&'s Step],
    reading: &mut FlowReader<'_>,
) -> UserSources<'s> {
    let mut sources = UserSources { hitl: false, named_steps: false, steps: Vec::new() };
    if node.get("user_turn_sources").is_none() {
        fields.node("user_turn_sources");
        sources.hitl = true;
        return sources;
    }
    for (word, place) in text_list(fields, "user_turn_sources").unwrap_or_default() {
        match word.as_str() {
            "hitl" => sources.hitl = true,
            "named_steps" => sources.named_steps = true,
            name => match scope.iter().find(|step| step.name == name) {
                Some(step) => sources.steps.push(step),
                None => no_step(name, &place, scope, &["hitl", "named_steps"], reading),
            },
        }
    }
    sources
}

/// A list of texts, with the place of each.
fn text_list(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<Vec<(String, Spot)>> {
    let list = fields.list(name)?;
    let path = fields.path(name);
    let mut found = Vec::new();
    for (number, item) in list.iter().enumerate() {
        let place = Spot { path: format!("{path}[{number}]"), at: item.at };
        let Some(text) = item.as_text() else {
            let message = format!("must be the name of a step, not {}", item.kind());
            fields.problems().push(DocumentProblem::new(code::WRONG_TYPE, place.path, place.at, message));
            continue;
        };
        found.push((text.to_string(), place));
    }
    Some(found)
}

fn no_step(name: &str, place: &Spot, scope: &[&Step], words: &[&str], reading: &mut FlowReader<'_>) {
    let elsewhere = reading.steps.contains_key(name);
    let message = if elsewhere {
        format!("step {name:?} is not inside this loop, or is inside a conversation of its own")
    } else {
        format!("there is no step {name:?} in this loop")
    };
    let known = scope.iter().map(|step| step.name.as_str()).chain(words.iter().copied());
    reading.unknown(Code::UnknownStep, place, message, name, known);
}

/// The steps whose outputs are the assistant turns of `ai_turn_source: last`.
fn last<'s>(
    fields: &Fields<'_, '_>,
    node: &Node,
    body: &'s [Step],
    scope: &[&Step],
    reading: &mut FlowReader<'_>,
) -> Vec<&'s str> {
    let mut found = LastStep::default();
    look_back(body, None, &mut found);
    let place_of = |step: &Step, reading: &FlowReader<'_>| {
        reading.steps.get(&step.name).cloned().unwrap_or_else(|| spot(fields, node, "body"))
    };
    for step in &found.silent {
        let candidates: Vec<String> =
            scope.iter().filter(|step| speaks(step)).map(|step| format!("{:?}", step.name)).collect();
        let hint = if candidates.is_empty() {
            "no step of this loop could".into()
        } else {
            format!("write `ai_turn_source: named_steps` and choose from: {}", candidates.join(", "))
        };
        let message =
            format!("{:?} is the last step of the loop and makes no assistant turn; {hint}", step.name);
        let place = place_of(step, reading);
        reading.warn(Code::LastNotAgent, &place, message);
    }
    for step in &found.skippable {
        let message = format!("if `when` skips {:?}, the iteration has no assistant turn", step.name);
        let place = place_of(step, reading);
        reading.warn(Code::LastMaySkip, &place, message);
    }
    found.speaking.iter().map(|step| step.name.as_str()).collect()
}

/// What looking for the last step found.
#[derive(Default)]
struct LastStep<'s> {
    speaking: Vec<&'s Step>,
    silent: Vec<&'s Step>,
    skippable: Vec<&'s Step>,
}

/// Finds the last step that is not a person's. `condition` is a step around these that may be skipped.
fn look_back<'s>(steps: &'s [Step], condition: Option<&'s Step>, found: &mut LastStep<'s>) {
    let Some(step) = steps.iter().rev().find(|step| !waits_only(step)) else { return };
    let condition = if step.when.is_some() { Some(step) } else { condition };
    let speaks = match &step.kind {
        StepKind::Agent(_) => {
            found.speaking.push(step);
            true
        }
        StepKind::Loop(inner) if inner.conversation.is_some() => {
            found.silent.push(step);
            false
        }
        StepKind::Template(_) | StepKind::Hitl(_) => {
            found.silent.push(step);
            false
        }
        StepKind::Loop(_) | StepKind::Parallel(_) | StepKind::Conditional(_) | StepKind::Map(_) => {
            for body in step.kind.bodies() {
                look_back(body, condition, found);
            }
            false
        }
    };
    let told = |step: &Step| found.skippable.iter().any(|other| other.name == step.name);
    if let Some(condition) = condition.filter(|step| speaks && !told(step)) {
        found.skippable.push(condition);
    }
}

/// Whether a step does nothing but wait for people.
fn waits_only(step: &Step) -> bool {
    let bodies = step.kind.bodies();
    match &step.kind {
        StepKind::Hitl(_) => true,
        _ => {
            bodies.iter().any(|body| !body.is_empty())
                && bodies.iter().all(|body| body.iter().all(waits_only))
        }
    }
}
