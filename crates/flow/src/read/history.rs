//! `history_management`: bounds, or managers.

use std::collections::BTreeSet;
use std::sync::Arc;

use scrollback_agent::document::{DocumentProblem, Fields, Node, Value, code};
use scrollback_core::manager::{ConfigError, ConfigErrorKind, Passthrough, SharedManager, parse_value};
use scrollback_core::nearest::nearest_key;

use serde_json::Value as Json;

use super::agent::of_model;
use super::callable::{NotCallable, callable_model};
use super::context::{FlowReader, Spot, key_spot, spot};
use super::step::named_agent;
use crate::model::{Agent, Bounds, HistoryManagement, Managers, Strategy};
use crate::problem::Code;
use crate::settings::{Set, SettingOrigin};

/// The keys of the mapping form.
const KEYS: [&str; 5] = ["strategy", "max_tokens", "max_turns", "summarizer_agent", "summarize_ratio"];
/// Tokens of history where no bound is configured.
const USUAL_TOKENS: u64 = 16_384;
/// The oldest share that is condensed where none is configured.
const USUAL_RATIO: f64 = 0.5;

/// Reads a loop's `history_management`.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    name: &str,
    reading: &mut FlowReader<'_>,
) -> HistoryManagement {
    let path = fields.path("history_management");
    let (node, at) = match fields.node("history_management") {
        Some(node) => (Some(node), node.at),
        None => (None, fields.at()),
    };
    let place = Spot { path, at };
    match node.map(|node| (node, form(node))) {
        None => bounds(None, &place, name, reading),
        Some((node, HistoryForm::Bounds)) => bounds(Some(node), &place, name, reading),
        Some((node, HistoryForm::Managers)) => {
            reading.decided(format!("steps.{name}.history_management"), node.to_json(), SettingOrigin::Flow);
            let manager = managers(node, &place.path, reading);
            HistoryManagement::Managers(list(manager, &place, reading))
        }
        Some((node, HistoryForm::Neither)) => {
            neither(node, &place, reading);
            bounds(None, &place, name, reading)
        }
    }
}

enum HistoryForm {
    Bounds,
    Managers,
    Neither,
}

fn form(node: &Node) -> HistoryForm {
    let keys = match &node.value {
        Value::List(_) => return HistoryForm::Managers,
        Value::Map(members) => members.iter().map(|(key, _)| key.name.as_str()),
        _ => return HistoryForm::Neither,
    };
    if keys.clone().any(|key| ["strategy", "max_tokens", "max_turns"].contains(&key)) {
        HistoryForm::Bounds
    } else if keys.clone().count() == 1 && keys.clone().any(is_manager) {
        HistoryForm::Managers
    } else {
        HistoryForm::Neither
    }
}

/// The names of managers: what the one grammar says it knows.
fn manager_names() -> Vec<&'static str> {
    parse_value(&serde_json::json!({ "": {} })).err().map(|error| error.known().to_vec()).unwrap_or_default()
}

fn is_manager(name: &str) -> bool {
    manager_names().contains(&name)
}

/// What is neither bounds nor managers.
fn neither(node: &Node, place: &Spot, reading: &mut FlowReader<'_>) {
    let Some(members) = node.as_map() else {
        let message =
            format!("must be a map of bounds, a manager, or a list of managers, not {}", node.kind());
        return reading.error(Code::WrongType, place, message);
    };
    let managers = manager_names();
    let mut unknown = false;
    for (key, _) in members.iter().filter(|(key, _)| !KEYS.contains(&key.name.as_str())) {
        unknown = true;
        let known = KEYS.iter().chain(&managers).copied();
        let near = nearest_key(&key.name, known);
        let list = if near.is_some() {
            String::new()
        } else {
            format!(" (known: {}, or a manager)", KEYS.join(", "))
        };
        let message = if is_manager(&key.name) {
            "several managers are written as a list, one a line".into()
        } else {
            format!("unknown key{list}")
        };
        let problem =
            DocumentProblem::new(code::UNKNOWN_KEY, format!("{}.{}", place.path, key.name), key.at, message);
        reading.problems.push(if is_manager(&key.name) { problem } else { problem.suggesting(near) });
    }
    if !unknown {
        let message = "needs `strategy`, `max_tokens`, `max_turns`, or the name of a manager";
        reading.error(Code::MissingKey, place, message);
    }
}

fn managers(node: &Node, path: &str, reading: &mut FlowReader<'_>) -> SharedManager {
    if let Some(item) = node.as_list().into_iter().flatten().find(|item| item.value == Value::Null) {
        reading.error(
            Code::WrongType,
            &Spot { path: path.into(), at: item.at },
            "a manager was expected, not nothing",
        );
        return Arc::new(Passthrough);
    }
    match parse_value(&node.to_json()) {
        Ok(manager) => manager,
        Err(error) => {
            reading.problems.push(refused(node, path, &error));
            Arc::new(Passthrough)
        }
    }
}

/// Managers, with the models that write the summaries they ask for as agents.
fn list(manager: SharedManager, place: &Spot, reading: &mut FlowReader<'_>) -> Managers {
    let mut found = BTreeSet::new();
    summarizers(&manager.config(), &mut found);
    let condenses = !found.is_empty();
    let models = found.into_iter().filter(|name| name != "offline");
    let writers = models.map(|name| (name.clone(), writer(&name, place, reading))).collect();
    Managers { manager, condenses, writers }
}

fn writer(name: &str, place: &Spot, reading: &mut FlowReader<'_>) -> Arc<Agent> {
    if let Err(NotCallable { message, suggestion }) = callable_model(name) {
        let problem = DocumentProblem::new(code::UNKNOWN_VALUE, place.path.clone(), place.at, message);
        reading.problems.push(DocumentProblem { suggestion, ..problem });
    }
    Arc::new(of_model(name, reading))
}

/// Every `summarizer` in a configuration of managers, however deep.
fn summarizers(config: &Json, names: &mut BTreeSet<String>) {
    match config {
        Json::Array(list) => list.iter().for_each(|inner| summarizers(inner, names)),
        Json::Object(members) => {
            for (name, inner) in members {
                match inner.as_str().filter(|_| name == "summarizer") {
                    Some(writer) => _ = names.insert(writer.into()),
                    None => summarizers(inner, names),
                }
            }
        }
        _ => {}
    }
}

/// What the grammar of managers says, at its place in the flow.
fn refused(node: &Node, path: &str, error: &ConfigError) -> DocumentProblem {
    let (mut here, mut path) = (node, path.to_string());
    for part in error.path().split('/').filter(|part| !part.is_empty()) {
        let inner = match (&here.value, part.parse::<usize>()) {
            (Value::List(list), Ok(number)) => list.get(number),
            _ => here.get(part),
        };
        let Some(inner) = inner else { break };
        path =
            if part.parse::<usize>().is_ok() { format!("{path}[{part}]") } else { format!("{path}.{part}") };
        here = inner;
    }
    let code = match error.kind() {
        ConfigErrorKind::UnknownManager => code::UNKNOWN_VALUE,
        ConfigErrorKind::UnknownOption => code::UNKNOWN_KEY,
        ConfigErrorKind::MissingOption => code::MISSING_KEY,
        ConfigErrorKind::BadOption => code::OUT_OF_RANGE,
        _ => code::WRONG_TYPE,
    };
    let known = error.known().iter().copied();
    let said = here.as_map().and_then(|map| map.first()).map(|(key, _)| key.name.as_str()).or(here.as_text());
    let suggestion = said.and_then(|said| nearest_key(said, known)).map(String::from);
    DocumentProblem { suggestion, ..DocumentProblem::new(code, path, here.at, error.to_string()) }
}

/// The bounds of a loop: its own, or else the configuration's, or else the usual one.
fn bounds(node: Option<&Node>, place: &Spot, name: &str, reading: &mut FlowReader<'_>) -> HistoryManagement {
    let own = match node {
        Some(node) => reading.map(node, &place.path, own),
        None => Own::default(),
    };
    let configured = reading.source.settings.history.clone();
    let strategy = chosen(own.strategy, configured.strategy, Strategy::default());
    // A loop that writes a bound gets none from elsewhere.
    let writes_bound = own.max_tokens.is_some() || own.max_turns.is_some();
    let lower = |set: Option<Set<u64>>| if writes_bound { None } else { set };
    let mut max_tokens = optional(own.max_tokens, lower(configured.max_tokens));
    let max_turns = optional(own.max_turns, lower(configured.max_turns));
    if max_tokens.is_none() && max_turns.is_none() {
        max_tokens = Some(Set { value: USUAL_TOKENS, from: SettingOrigin::BuiltIn });
    }
    if strategy.value == Strategy::TruncateTurns && max_turns.is_none() && !own.bad_turns {
        reading.error(Code::MissingKey, place, "`max_turns` is missing, which `truncate_turns` needs");
    }
    let summarize_ratio = chosen(own.summarize_ratio, configured.summarize_ratio, USUAL_RATIO);
    let summarizer_agent = optional(own.summarizer_agent, configured.summarizer_agent);
    let condenses = strategy.value == Strategy::Summarize;
    for key in own.only_for_summaries.iter().filter(|_| !condenses) {
        let message = format!("`strategy: {}` writes no summaries", strategy.value.word());
        reading.warn(Code::UnusedField, key, message);
    }
    let at = own.summarizer_place.unwrap_or_else(|| place.clone());
    let from_loop = summarizer_agent.as_ref().is_some_and(|set| set.from == SettingOrigin::Flow);
    // The configured one concerns loops that summarise; a loop's own must exist in any case.
    let summarizer = summarizer_agent.as_ref().filter(|_| condenses || from_loop);
    let summarizer = summarizer.map(|set| named_agent(&set.value, &at, reading));
    let base = format!("steps.{name}.history_management");
    reading.decided(format!("{base}.strategy"), strategy.value.word(), strategy.from);
    for (key, set) in [("max_tokens", &max_tokens), ("max_turns", &max_turns)] {
        if let Some(set) = set {
            reading.decided(format!("{base}.{key}"), set.value, set.from.clone());
        }
    }
    if condenses {
        let agent = summarizer_agent.map(|set| (set.value, set.from));
        let (agent, from) = agent.unwrap_or_else(|| ("offline".into(), SettingOrigin::BuiltIn));
        reading.decided(format!("{base}.summarizer_agent"), agent, from);
        reading.decided(format!("{base}.summarize_ratio"), summarize_ratio.value, summarize_ratio.from);
    }
    HistoryManagement::Bounds(Bounds {
        strategy: strategy.value,
        max_tokens: max_tokens.map(|set| set.value),
        max_turns: max_turns.map(|set| set.value),
        summarizer,
        summarize_ratio: summarize_ratio.value,
    })
}

/// What a loop itself says.
#[derive(Default)]
struct Own {
    strategy: Option<Strategy>,
    max_tokens: Option<u64>,
    max_turns: Option<u64>,
    /// Whether it gave turns that are none: one mistake is enough.
    bad_turns: bool,
    summarizer_agent: Option<String>,
    summarizer_place: Option<Spot>,
    summarize_ratio: Option<f64>,
    only_for_summaries: Vec<Spot>,
}

fn own(fields: &mut Fields<'_, '_>, _: &mut FlowReader<'_>) -> Own {
    let node = fields.map_node();
    let strategy = fields.word("strategy", &Strategy::WORDS).and_then(|word| Strategy::named(&word));
    let max_tokens = fields.count("max_tokens", 1);
    let max_turns = fields.count("max_turns", 1);
    let summarizer_agent = fields.text("summarizer_agent");
    let wanted = "a number between 0 and 1, both excluded";
    let summarize_ratio = fields.number_where("summarize_ratio", wanted, |ratio| ratio > 0.0 && ratio < 1.0);
    let there = ["summarizer_agent", "summarize_ratio"].into_iter().filter(|key| node.get(key).is_some());
    Own {
        strategy,
        max_tokens,
        max_turns,
        bad_turns: max_turns.is_none() && node.get("max_turns").is_some(),
        summarizer_place: summarizer_agent.as_ref().map(|_| spot(fields, node, "summarizer_agent")),
        summarizer_agent,
        summarize_ratio,
        only_for_summaries: there.map(|key| key_spot(fields, node, key)).collect(),
    }
}

fn optional<T>(own: Option<T>, configured: Option<Set<T>>) -> Option<Set<T>> {
    own.map(|value| Set { value, from: SettingOrigin::Flow }).or(configured)
}

fn chosen<T>(own: Option<T>, configured: Option<Set<T>>, usual: T) -> Set<T> {
    optional(own, configured).unwrap_or(Set { value: usual, from: SettingOrigin::BuiltIn })
}
