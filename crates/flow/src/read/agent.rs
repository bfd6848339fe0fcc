//! Agents: the flow's own, and those every flow may use, merged field by field.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::config::BadConfig;
use scrollback_agent::document::{DocumentProblem, Fields, Node, NodeKey, TextPosition, Value, code};
use scrollback_agent::provider::{Catalog, Environment};
use scrollback_agent::tool::load::{self, Declared};
use serde_json::{Value as Json, json};

use super::callable::{NotCallable, callable_model};
use super::context::{FlowReader, Spot, spot};
use super::prompt::system_prompt;
use super::{Prompts, ReadOptions, name_problem};
use crate::model::{Agent, HistoryMode};
use crate::problem::Code;
use crate::settings::{FlowSettings, Located, Set, SettingOrigin};

/// The sources of a flow's tools: a person is asked by a step.
const FLOW_SOURCES: &[&str] = &["command", "http", "mcp"];
/// The model where none is named.
const OFFLINE: &str = "offline:echo";
/// Longest call, in seconds: a day.
const LONGEST: f64 = 86_400.0;
/// What an agent that does not say is like.
const OUTPUT_TOKENS: u64 = 1024;
const RETRIES: u32 = 2;
const SECONDS: f64 = 120.0;

/// Reads all agents of a flow and its configuration.
pub(super) fn agents(node: Option<&Node>, reading: &mut FlowReader<'_>) {
    let own = match node {
        Some(node) if node.as_map().is_none() => {
            let spot = Spot { path: "agents".into(), at: node.at };
            let message = format!("must be a map from names to agents, not {}", node.kind());
            reading.error(Code::WrongType, &spot, message);
            &[]
        }
        Some(node) => node.as_map().unwrap_or_default(),
        None => &[],
    };
    for (key, node) in own {
        if let Some(problem) = name_problem(&key.name) {
            let spot = Spot { path: format!("agents.{}", key.name), at: key.at };
            reading.error(Code::UnknownValue, &spot, problem);
        }
        let agent = agent(&key.name, Some(node), reading);
        reading.agents.insert(key.name.clone(), Arc::new(agent));
    }
    for name in reading.source.settings.agents.keys() {
        if !reading.agents.contains_key(name) {
            let agent = agent(name, None, reading);
            reading.agents.insert(name.clone(), Arc::new(agent));
        }
    }
}

/// Judges the agents of a configuration as if a flow without any of its own used them.
pub(crate) fn configured_agents(settings: &FlowSettings, catalog: &Catalog) -> Result<(), BadConfig> {
    let environment: Environment = Arc::new(|_| Some(String::new()));
    let (folder, prompts) = (Path::new(""), Prompts::Disk);
    let source = ReadOptions { stem: "", folder, prompts, settings, catalog, environment: &environment };
    let mut reading = FlowReader::new("", &source);
    agents(None, &mut reading);
    let bad_name = settings.agents.keys().find_map(|name| Some((name, name_problem(name)?)));
    let problem = bad_name.map(|(name, problem)| (format!("agents.{name}"), problem));
    let problem =
        problem.or_else(|| reading.problems.into_iter().next().map(|found| (found.path, found.message)));
    let Some((path, message)) = problem else { return Ok(()) };
    let mut parts = path.splitn(3, '.').skip(1);
    let (name, field) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let field = field.split(['.', '[']).next().unwrap_or_default();
    let fields = settings.agents.get(name);
    let set = fields.and_then(|fields| fields.get(field).or_else(|| fields.values().next()));
    let file = match set.map(|set| &set.from) {
        Some(SettingOrigin::File(file)) => file.clone(),
        _ => PathBuf::new(),
    };
    Err(BadConfig::in_file(&file, &format!("{path}: {message}")))
}

/// The agent of steps that find no other.
pub(super) fn usual(reading: &mut FlowReader<'_>) -> Arc<Agent> {
    let (model, folder, from) = default_model(reading);
    reading.decided("default_model", model.as_str(), from);
    Arc::new(plain("default", model, folder, reading))
}

/// A model as an agent without instructions of its own.
pub(super) fn of_model(model: &str, reading: &FlowReader<'_>) -> Agent {
    plain(model, model.into(), reading.source.folder.into(), reading)
}

fn plain(name: &str, model: String, folder: PathBuf, reading: &FlowReader<'_>) -> Agent {
    let mode = mode(None, &model, reading).0;
    Agent {
        name: name.into(),
        model,
        folder,
        system_prompt: None,
        mode,
        stream: true,
        max_output_tokens: OUTPUT_TOKENS,
        temperature: None,
        top_p: None,
        max_retries: RETRIES,
        timeout: Duration::from_secs_f64(SECONDS),
        output_schema: None,
        tools: Declared::default(),
        recall: false,
    }
}

/// The layers of one agent: what the flow says, then what the configuration says.
struct Layers<'r> {
    own: Option<&'r Node>,
    configured: Option<&'r BTreeMap<String, Set<Located<Json>>>>,
    folder: &'r Path,
}

impl Layers<'_> {
    /// Who says what a field is, and the folder of paths in it.
    fn origin(&self, field: &str) -> (SettingOrigin, PathBuf) {
        if self.own.is_some_and(|node| node.get(field).is_some()) {
            return (SettingOrigin::Flow, self.folder.into());
        }
        match self.configured.and_then(|fields| fields.get(field)) {
            Some(set) => (set.from.clone(), set.value.folder.clone()),
            None => (SettingOrigin::BuiltIn, self.folder.into()),
        }
    }

    /// One map of all fields, the stronger layer's where both have one.
    fn merged(&self) -> Node {
        let at = self.own.map_or_else(TextPosition::default, |node| node.at);
        if let Some(own) = self.own.filter(|node| node.as_map().is_none()) {
            return own.clone();
        }
        let mut members = self.own.and_then(Node::as_map).unwrap_or_default().to_vec();
        for (field, set) in self.configured.into_iter().flatten() {
            if !members.iter().any(|(key, _)| key.name == *field) {
                let key = NodeKey { name: field.clone(), at: TextPosition::default() };
                members.push((key, Node::from(&set.value.said)));
            }
        }
        Node { value: Value::Map(members), at }
    }
}

fn agent(name: &str, own: Option<&Node>, reading: &mut FlowReader<'_>) -> Agent {
    let layers =
        Layers { own, configured: reading.source.settings.agents.get(name), folder: reading.source.folder };
    let node = layers.merged();
    let path = format!("agents.{name}");
    reading.map(&node, &path, |fields, reading| {
        let (model, folder, from) = model(fields, &node, &layers, reading);
        reading.decided(format!("{path}.model"), model.as_str(), from);
        let (_, prompt_folder) = layers.origin("system_prompt");
        let own_prompt = layers.own.is_some_and(|node| node.get("system_prompt").is_some());
        let system_prompt = system_prompt(fields, &node, &prompt_folder, own_prompt, reading);
        let wanted = fields.word("mode", &["auto", "chat", "prompt"]);
        let said = wanted.as_deref().filter(|word| *word != "auto");
        let (mode, configured) = mode(said, &model, reading);
        let from = match (said, configured) {
            (None, Some(origin)) => origin,
            _ => layers.origin("mode").0,
        };
        reading.decided(format!("{path}.mode"), json!(mode), from);
        let mut decided = |field: &str, value: Json| {
            reading.decided(format!("{path}.{field}"), value, layers.origin(field).0);
        };
        let stream = fields.flag("stream").unwrap_or(true);
        decided("stream", stream.into());
        let max_output_tokens = fields.count("max_output_tokens", 1).unwrap_or(OUTPUT_TOKENS);
        decided("max_output_tokens", max_output_tokens.into());
        let mut number = |field| fields.number_where(field, "a number", |_| true);
        let (temperature, top_p) = (number("temperature"), number("top_p"));
        for (field, value) in [("temperature", temperature), ("top_p", top_p)] {
            if let Some(value) = value {
                decided(field, value.into());
            }
        }
        let max_retries = fields.count_in("max_retries", 0..=10).map_or(RETRIES, |count| count as u32);
        decided("max_retries", max_retries.into());
        let wanted = "a number of seconds above 0 and up to 86400";
        let timeout = fields.number_where("timeout", wanted, |seconds| seconds > 0.0 && seconds <= LONGEST);
        let timeout = timeout.unwrap_or(SECONDS);
        decided("timeout", timeout.into());
        let output_schema = schema(fields, "output_schema");
        let tools = tools(fields, layers.origin("tools").1, reading);
        let recall = fields.flag("recall").unwrap_or(false);
        Agent {
            name: name.into(),
            model,
            folder,
            system_prompt,
            mode,
            stream,
            max_output_tokens,
            temperature,
            top_p,
            max_retries,
            timeout: Duration::from_secs_f64(timeout),
            output_schema,
            tools,
            recall,
        }
    })
}

fn model(
    fields: &mut Fields<'_, '_>,
    node: &Node,
    layers: &Layers<'_>,
    reading: &mut FlowReader<'_>,
) -> (String, PathBuf, SettingOrigin) {
    let Some(model) = fields.text("model") else { return default_model(reading) };
    let place = spot(fields, node, "model");
    if let Err(NotCallable { message, suggestion }) = callable_model(&model) {
        let problem = DocumentProblem::new(code::UNKNOWN_VALUE, place.path, place.at, message);
        reading.problems.push(DocumentProblem { suggestion, ..problem });
    }
    let (from, folder) = layers.origin("model");
    (model, folder, from)
}

fn default_model(reading: &FlowReader<'_>) -> (String, PathBuf, SettingOrigin) {
    match &reading.source.settings.default_model {
        Some(set) => (set.value.said.clone(), set.value.folder.clone(), set.from.clone()),
        None => (OFFLINE.into(), reading.source.folder.into(), SettingOrigin::BuiltIn),
    }
}

/// How history reaches a model, and who says so if not the agent.
fn mode(said: Option<&str>, model: &str, reading: &FlowReader<'_>) -> (HistoryMode, Option<SettingOrigin>) {
    match said {
        Some("prompt") => (HistoryMode::Prompt, None),
        Some(_) => (HistoryMode::Chat, None),
        None => match reading.source.settings.modes.get(model) {
            Some(set) => (set.value, Some(set.from.clone())),
            None => (HistoryMode::Chat, None),
        },
    }
}

/// A JSON Schema, as a map.
pub(super) fn schema(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<Json> {
    let node = fields.node(name)?;
    if node.as_map().is_none() {
        fields.problem_of(
            code::WRONG_TYPE,
            name,
            format!("must be a JSON Schema, as a map, not {}", node.kind()),
        );
        return None;
    }
    let schema = node.to_json();
    if let Err(error) = jsonschema::validator_for(&schema) {
        fields.problem_of(code::BAD_SCHEMA, name, format!("is not a JSON Schema: {error}"));
        return None;
    }
    Some(schema)
}

fn tools(fields: &mut Fields<'_, '_>, folder: PathBuf, reading: &mut FlowReader<'_>) -> Declared {
    let Some(node) = fields.node("tools") else { return Declared::default() };
    if node.as_list().is_none() {
        fields.problem_of(code::WRONG_TYPE, "tools", format!("must be a list of tools, not {}", node.kind()));
        return Declared::default();
    }
    let place = load::ToolScope {
        folder: if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder },
        environment: Arc::clone(reading.source.environment),
        sources: FLOW_SOURCES,
        secrets: load::Secrets::NotJudgedHere,
        read_signature: scrollback_subagent::read_signature,
    };
    load::tools(node, &fields.path("tools"), &place, &mut reading.problems)
}
