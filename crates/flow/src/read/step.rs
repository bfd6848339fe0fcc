//! Steps, and the kinds that hold no loop.

use std::sync::Arc;

use scrollback_agent::document::{Fields, Node, code};
use scrollback_core::nearest::nearest_key;

use super::context::{FlowReader, NameScope, Spot, key_spot, spot};
use super::{agent, looping, name_problem, price, text};
use crate::model::{
    Agent, AgentStep, Conditional, FlowBranch, Hitl, Map, MicroDollars, OnBranchFailure, Parallel,
    QuotaLimits, Step, StepKind,
};
use crate::problem::Code;
use crate::settings::SettingOrigin;
use crate::{Expression, FlowTemplate};

const KINDS: [&str; 6] = ["step", "loop", "hitl", "parallel", "conditional", "map"];
/// Most branches or items at once: each is a connection, and a prompt in memory.
const MOST_BRANCHES: u64 = 16;
const MOST_ITEMS: u64 = 100;

/// Reads a list of steps that must have at least `least`.
pub(super) fn steps(
    node: &Node,
    path: &str,
    least: usize,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Vec<Step> {
    let Some(list) = node.as_list() else {
        let place = Spot { path: path.into(), at: node.at };
        reading.error(Code::WrongType, &place, format!("must be a list of steps, not {}", node.kind()));
        return Vec::new();
    };
    if list.len() < least {
        let place = Spot { path: path.into(), at: node.at };
        reading.error(Code::OutOfRange, &place, "needs at least one step");
    }
    list.iter()
        .enumerate()
        .map(|(number, node)| step(node, &format!("{path}[{number}]"), scope, reading))
        .collect()
}

/// Reads the list of steps under a name that must be there.
pub(super) fn required_steps(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> Vec<Step> {
    let Some(node) = fields.node(name) else {
        fields.missing(name);
        return Vec::new();
    };
    steps(node, &fields.path(name), 1, scope, reading)
}

// What cannot be read is replaced by something harmless: a flow with a problem is never run.
fn step(node: &Node, path: &str, scope: NameScope, reading: &mut FlowReader<'_>) -> Step {
    reading.map(node, path, |fields, reading| {
        let name = if node.as_map().is_some() { fields.required_text("name") } else { None };
        let name = name.unwrap_or_default();
        if node.get("name").is_some() {
            let place = spot(fields, node, "name");
            match name_problem(&name) {
                Some(problem) if !name.is_empty() => reading.error(Code::UnknownValue, &place, problem),
                _ => {}
            }
            if !name.is_empty() {
                reading.step_named(&name, &place);
            }
        }
        let when = text::expression(fields, "when", scope, reading);
        let input = text::template(fields, "input", scope, reading).unwrap_or_else(FlowTemplate::previous);
        let limits = limits(fields, reading);
        limits_of_step(limits, &name, reading);
        let word = fields.text("kind");
        let kind = match word.as_deref() {
            _ if node.as_map().is_none() => None,
            None if node.get("kind").is_some_and(|kind| kind.as_text().is_none()) => None,
            None | Some("step") => Some(plain(fields, node, &name, scope, reading)),
            Some("loop") => Some(looping::read(fields, &name, scope, reading)),
            Some("hitl") => Some(hitl(fields, node, scope, reading)),
            Some("parallel") => Some(parallel(fields, &name, scope, reading)),
            Some("conditional") => Some(conditional(fields, scope, reading)),
            Some("map") => Some(map(fields, &name, scope, reading)),
            Some(other) => {
                let message = format!("there is no kind {other:?}; there are {}", KINDS.join(", "));
                reading.unknown(Code::UnknownKind, &spot(fields, node, "kind"), message, other, KINDS);
                None
            }
        };
        if kind.is_none() {
            // Which keys there are depends on the kind.
            all_keys(fields);
        } else {
            misplaced(fields, node, word.as_deref().unwrap_or("step"), reading);
        }
        let kind = kind.unwrap_or_else(|| StepKind::Template(FlowTemplate::previous()));
        let step = Step { name, when, input, limits, kind };
        if step.limits.max_cost.is_some() {
            let limit = Spot { path: format!("{path}.limits.max_cost_usd"), at: cost_place(node) };
            price::check(&[&step], &limit, reading);
        }
        step
    })
}

fn limits_of_step(limits: QuotaLimits, name: &str, reading: &mut FlowReader<'_>) {
    if let Some(tokens) = limits.max_tokens {
        reading.decided(format!("steps.{name}.limits.max_tokens"), tokens, SettingOrigin::Flow);
    }
    if let Some(cost) = limits.max_cost {
        reading.decided(format!("steps.{name}.limits.max_cost_usd"), cost.dollars(), SettingOrigin::Flow);
    }
}

fn cost_place(node: &Node) -> scrollback_agent::document::TextPosition {
    let limits = node.get("limits").unwrap_or(node);
    limits.get("max_cost_usd").unwrap_or(limits).at
}

/// The keys of one kind each, to tell people where a key belongs.
const OF_KIND: [(&str, &[&str]); 6] = [
    ("step", &["agent", "template", "use_history", "turn_field", "recall"]),
    ("loop", &["loop"]),
    ("hitl", &["message", "input_schema", "question_turn"]),
    ("parallel", &["branches", "on_branch_failure", "max_concurrency"]),
    ("conditional", &["condition_expression", "branches", "default_branch"]),
    ("map", &["over", "body", "max_concurrency"]),
];

fn all_keys(fields: &mut Fields<'_, '_>) {
    for (_, keys) in OF_KIND {
        for key in keys {
            fields.node(key);
        }
    }
}

/// Keys that are right in another kind of step, or inside `loop`: the hint is where, not how they are spelt.
fn misplaced(fields: &mut Fields<'_, '_>, node: &Node, kind: &str, reading: &mut FlowReader<'_>) {
    let own = OF_KIND.iter().find(|(known, _)| *known == kind).map_or(&[] as &[&str], |(_, keys)| keys);
    let mut told: Vec<&str> = Vec::new();
    for key in OF_KIND.iter().flat_map(|(_, keys)| *keys).chain(&looping::KEYS).copied() {
        if own.contains(&key) || told.contains(&key) || node.get(key).is_none() {
            continue;
        }
        told.push(key);
        fields.deal_with(key);
        let kinds = OF_KIND.iter().filter(|(_, keys)| keys.contains(&key));
        let mut places: Vec<String> = kinds.map(|(kind, _)| format!("`kind: {kind}`")).collect();
        if looping::KEYS.contains(&key) {
            places.push("the key `loop` of `kind: loop`".into());
        }
        let message = match kind {
            "loop" if looping::KEYS.contains(&key) => format!("`{key}` belongs under `loop`"),
            _ => format!("`{key}` belongs to {}, and this is a `{kind}`", places.join(" or ")),
        };
        reading.error(Code::UnknownKey, &key_spot(fields, node, key), message);
    }
}

/// `limits`, of a flow or a step.
pub(super) fn limits(fields: &mut Fields<'_, '_>, reading: &mut FlowReader<'_>) -> QuotaLimits {
    let path = fields.path("limits");
    let Some(node) = fields.node("limits") else { return QuotaLimits::default() };
    reading.map(node, &path, |inner, _| {
        let max_tokens = inner.count("max_tokens", 1);
        let wanted = "a number of dollars from 0.000001 to 1000000";
        let dollars =
            inner.number_where("max_cost_usd", wanted, |dollars| (0.000_001..=1e6).contains(&dollars));
        QuotaLimits { max_tokens, max_cost: dollars.and_then(MicroDollars::from_dollars) }
    })
}

/// `kind: step`.
fn plain(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    name: &str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> StepKind {
    let template = fields.node("template").is_some();
    let rendered = text::template(fields, "template", scope, reading);
    let agent = fields.text("agent");
    let use_history = fields.flag("use_history");
    let turn_field = turn_field(fields);
    let recall = fields.flag("recall");
    if template {
        for key in
            ["agent", "use_history", "turn_field", "recall"].into_iter().filter(|key| node.get(key).is_some())
        {
            let message =
                format!("a step with `template` asks no agent, so it has no `{key}`; remove one of them");
            reading.error(Code::ConflictingKeys, &key_spot(fields, node, key), message);
        }
        return StepKind::Template(rendered.unwrap_or_else(FlowTemplate::previous));
    }
    let agent = match agent {
        Some(named) => named_agent(&named, &spot(fields, node, "agent"), reading),
        None => own_agent(name, &spot(fields, node, "name"), reading),
    };
    if use_history == Some(true) && !scope.in_conversation {
        let message = "there is no conversation here; put the step into a loop with `conversation: true`";
        reading.warn(Code::NoConversation, &spot(fields, node, "use_history"), message);
    }
    if turn_field.is_some() {
        let place = spot(fields, node, "turn_field");
        if !scope.in_conversation {
            reading.warn(
                Code::UnusedField,
                &place,
                "there is no conversation here that a turn could belong to",
            );
        } else if agent.output_schema.is_none() {
            let message =
                format!("agent {:?} has no `output_schema`, so its outputs have no fields", agent.name);
            reading.warn(Code::UnusedField, &place, message);
        }
    }
    let use_history = use_history.unwrap_or(true) && scope.in_conversation;
    let base = format!("steps.{name}");
    reading.decided_by(node, &base, "agent", agent.name.as_str());
    if scope.in_conversation {
        reading.decided_by(node, &base, "use_history", use_history);
    }
    let recall = recall.unwrap_or(agent.recall);
    StepKind::Agent(AgentStep { agent, use_history, turn_field, recall })
}

fn turn_field(fields: &mut Fields<'_, '_>) -> Option<String> {
    let field = fields.text("turn_field")?;
    if field.split('.').any(|part| part.trim().is_empty()) {
        fields.problem_of(
            code::UNKNOWN_VALUE,
            "turn_field",
            "must be names with dots between them: answer.question",
        );
        return None;
    }
    Some(field)
}

/// The agent of a name; a mistake if there is none.
pub(super) fn named_agent(named: &str, place: &Spot, reading: &mut FlowReader<'_>) -> Arc<Agent> {
    if let Some(agent) = reading.agents.get(named) {
        return Arc::clone(agent);
    }
    let known: Vec<String> =
        reading.agents.keys().take(if reading.is_full() { 0 } else { 1000 }).cloned().collect();
    let near = nearest_key(named, known.iter().map(String::as_str));
    let list = match near {
        Some(_) => String::new(),
        None if known.is_empty() => "; describe it under `agents`".into(),
        None => format!(" (known: {})", known.join(", ")),
    };
    let message = format!("there is no agent {named:?}{list}");
    reading.unknown(Code::UnknownAgent, place, message, named, known.iter().map(String::as_str));
    usual_agent(reading)
}

/// The agent of a step that names none.
fn own_agent(step: &str, place: &Spot, reading: &mut FlowReader<'_>) -> Arc<Agent> {
    if let Some(agent) = reading.agents.get(step).or_else(|| reading.agents.get("default")) {
        return Arc::clone(agent);
    }
    let agent = usual_agent(reading);
    let message = format!(
        "no agent is called {step:?} or \"default\", so {} answers without instructions",
        agent.model
    );
    reading.warn(Code::DefaultAgent, place, message);
    agent
}

fn usual_agent(reading: &mut FlowReader<'_>) -> Arc<Agent> {
    if let Some(agent) = &reading.usual {
        return Arc::clone(agent);
    }
    let agent = agent::usual(reading);
    reading.usual = Some(Arc::clone(&agent));
    agent
}

fn hitl(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> StepKind {
    let message = text::template(fields, "message", scope, reading).unwrap_or_else(FlowTemplate::previous);
    let input_schema = agent::schema(fields, "input_schema");
    let question_turn = fields.flag("question_turn").unwrap_or(false);
    if question_turn && !scope.in_conversation {
        let message = "there is no conversation here that a turn could belong to";
        reading.warn(Code::UnusedField, &spot(fields, node, "question_turn"), message);
    }
    StepKind::Hitl(Hitl { message, input_schema, question_turn })
}

/// Named lists of steps.
fn branches(
    fields: &mut Fields<'_, '_>,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
    named: BranchNames,
) -> Vec<FlowBranch> {
    let Some(node) = fields.node("branches") else {
        fields.missing("branches");
        return Vec::new();
    };
    let Some(map) = node.as_map() else {
        let message = format!("must be a map from names to lists of steps, not {}", node.kind());
        fields.problem_of(code::WRONG_TYPE, "branches", message);
        return Vec::new();
    };
    if map.is_empty() && named == BranchNames::ByName {
        fields.problem_of(code::OUT_OF_RANGE, "branches", "needs at least one branch");
    }
    let mut found = Vec::new();
    for (key, node) in map {
        let path = format!("{}.{}", fields.path("branches"), key.name);
        if let Some(problem) = name_problem(&key.name).filter(|_| named == BranchNames::ByName) {
            reading.error(Code::UnknownValue, &Spot { path: path.clone(), at: key.at }, problem);
        }
        let least = usize::from(named == BranchNames::ByName);
        found.push(FlowBranch { name: key.name.clone(), steps: steps(node, &path, least, scope, reading) });
    }
    found
}

/// What branches are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchNames {
    ByName,
    ByAnyText,
}

fn parallel(
    fields: &mut Fields<'_, '_>,
    name: &str,
    scope: NameScope,
    reading: &mut FlowReader<'_>,
) -> StepKind {
    let (node, base) = (fields.map_node(), format!("steps.{name}"));
    let branches = branches(fields, scope, reading, BranchNames::ByName);
    let wanted = fields.word("on_branch_failure", &["fail", "ignore"]).unwrap_or_else(|| "fail".into());
    let on_branch_failure = if wanted == "ignore" { OnBranchFailure::Ignore } else { OnBranchFailure::Fail };
    reading.decided_by(node, &base, "on_branch_failure", wanted);
    let usual = (branches.len() as u64).clamp(1, MOST_BRANCHES);
    let max_concurrency = fields.count_in("max_concurrency", 1..=MOST_BRANCHES).unwrap_or(usual) as usize;
    reading.decided_by(node, &base, "max_concurrency", max_concurrency);
    StepKind::Parallel(Parallel { branches, on_branch_failure, max_concurrency })
}

fn conditional(fields: &mut Fields<'_, '_>, scope: NameScope, reading: &mut FlowReader<'_>) -> StepKind {
    let condition = text::required_expression(fields, "condition_expression", scope, reading);
    let branches = branches(fields, scope, reading, BranchNames::ByAnyText);
    let default = fields.node("default_branch");
    let default_branch = default.map(|node| steps(node, &fields.path("default_branch"), 0, scope, reading));
    StepKind::Conditional(Conditional { condition: or_null(condition), branches, default_branch })
}

fn map(fields: &mut Fields<'_, '_>, name: &str, scope: NameScope, reading: &mut FlowReader<'_>) -> StepKind {
    let over = text::required_expression(fields, "over", scope, reading);
    let body = required_steps(fields, "body", NameScope { in_map: true, ..scope }, reading);
    let max_concurrency = fields.count_in("max_concurrency", 1..=MOST_ITEMS).unwrap_or(1) as usize;
    let node = fields.map_node();
    reading.decided_by(node, &format!("steps.{name}"), "max_concurrency", max_concurrency);
    StepKind::Map(Map { over: or_null(over), body, max_concurrency })
}

/// Stands for an expression that could not be read.
fn or_null(expression: Option<Expression>) -> Expression {
    expression.unwrap_or_else(Expression::null)
}
