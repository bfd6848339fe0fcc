//! AGENT.yaml: an agent as people write it down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scrollback_core::RecallWishes;
use scrollback_core::manager::{SharedManager, Sticky, StickyInner, TrajectoryWindow, parse_value};
use scrollback_core::model::ModelName;
use scrollback_core::{Time, Unfinished};
use serde_json::{Map, Value, json};

use crate::document::{self, DocumentProblem, Fields, Node, TextPosition, code, parse};
use crate::provider::{Environment, ResponseFormat, ToolChoice};
use crate::react::{Extract, React, ReactMode};
use crate::runner::{Budget, Deadline, Repair, Runner, Throttle};
use crate::tool::load::{self, AGENT_SOURCES, Declared, ReadSignature};

/// The JSON Schema of AGENT.yaml, for editors. Names of managers, and what only makes sense as a whole, are for the reader.
pub const SCHEMA: &str = include_str!("../agent.schema.json");

/// An agent as a file describes it. Everything in it was checked.
pub struct AgentFile {
    /// What it is called.
    pub name: String,
    /// The model it asks, where the file names one.
    pub model: Option<String>,
    /// Its instructions.
    pub system: Option<String>,
    /// What it may call.
    pub tools: Declared,
    /// What each call is sent of the record.
    pub history: SharedManager,
    /// How it thinks and answers.
    pub react: React,
    /// Whether the model may search and read the record by the recall tools.
    pub recall: bool,
    /// What it says about the line that a cut leaves, and about obligations.
    pub wishes: RecallWishes,
    /// The folder of the file, which paths in it are relative to.
    pub folder: PathBuf,
    tool_choice: ToolChoice,
    parallel: usize,
    limits: LimitsSection,
    throttle: Throttle,
    unfinished: Unfinished,
    repair: Repair,
}

#[derive(Clone, Copy, Default)]
struct LimitsSection {
    deadline: Option<Duration>,
    max_rounds: Option<u32>,
    budget: Option<Budget>,
}

impl AgentFile {
    /// Reads a file; everything that is wrong with it otherwise, nothing having been run.
    pub fn load(
        file: &Path,
        environment: &Environment,
        read_signature: ReadSignature,
    ) -> Result<Self, Vec<DocumentProblem>> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let message = format!("{} cannot be read: {error}", file.display());
            vec![DocumentProblem::new(code::UNKNOWN_VALUE, "", TextPosition::default(), message)]
        })?;
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        AgentFile::parse(&text, &folder, environment, read_signature)
    }

    /// Reads the text of a file in a folder.
    ///
    /// ```
    /// use std::{path::Path, sync::Arc};
    /// use scrollback_agent::{agent_file::AgentFile, provider::Environment, tool::load::ReadSignature};
    /// let environment: Environment = Arc::new(|_| None);
    /// let no_signatures: ReadSignature = |_| Err("no signatures are read here".into());
    /// let read = |text| AgentFile::parse(text, Path::new("."), &environment, no_signatures);
    /// let agent = read("name: travel\nmodel: offline:echo\n");
    /// assert_eq!(agent.map(|agent| agent.name).ok().as_deref(), Some("travel"));
    /// let wrong = read("name: travel\nmodl: offline:echo\n");
    /// let problems = wrong.err().unwrap_or_default();
    /// assert_eq!(problems[0].to_string(), "2:1: modl: unknown key; did you mean `model`?");
    /// ```
    pub fn parse(
        text: &str,
        folder: &Path,
        environment: &Environment,
        read_signature: ReadSignature,
    ) -> Result<Self, Vec<DocumentProblem>> {
        let node = parse(text).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let agent = read(&node, folder, environment, read_signature, &mut problems);
        problems.sort_by_key(|problem| problem.at);
        if problems.is_empty() { Ok(agent) } else { Err(problems) }
    }

    /// Sets a runner up as the file says; its provider, clock and listeners stay. Tools of servers come with
    /// [`Declared::connect`].
    pub fn set_up(&self, runner: &mut Runner, now: Time) {
        runner.manager = Arc::clone(&self.history);
        runner.tools = self.tools.ready.clone();
        runner.tool_choice = self.tool_choice.clone();
        runner.parallel = self.parallel;
        runner.throttle = self.throttle;
        runner.unfinished = self.unfinished;
        runner.repair = self.repair;
        runner.budget = self.limits.budget;
        runner.deadline = self.limits.deadline.and_then(|time| Deadline::after(time, now).ok());
        runner.max_rounds = self.limits.max_rounds.unwrap_or(runner.max_rounds);
    }
}

/// What views are made by where the file says nothing.
fn usual_history() -> SharedManager {
    let window = TrajectoryWindow::default();
    let (high, low) = (window.max_steps, window.max_steps * 3 / 5);
    Arc::new(Sticky { inner: StickyInner::TrajectoryWindow(window), high, low })
}

fn read(
    node: &Node,
    folder: &Path,
    environment: &Environment,
    read_signature: ReadSignature,
    problems: &mut Vec<DocumentProblem>,
) -> AgentFile {
    let mut fields = Fields::of(node, "", problems);
    let name = fields.required_text("name").unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if node.get("name").is_some() && (name.is_empty() || !name.chars().all(fits)) {
        fields.problem("name", "must be letters, digits, `_` or `-`");
    }
    let model = fields.text("model");
    if let Some(model) = &model
        && let Err(error) = ModelName::parse(model.split("?api=").next().unwrap_or_default())
    {
        fields.problem("model", error.to_string());
    }
    let system = system(&mut fields, folder);
    let place = load::ToolScope {
        folder: if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.into() },
        environment: Arc::clone(environment),
        sources: AGENT_SOURCES,
        secrets: load::Secrets::NotJudgedHere,
        read_signature,
    };
    let tools = fields.node("tools");
    let tools = tools.map(|node| load::tools(node, "tools", &place, fields.problems())).unwrap_or_default();
    let recall = fields.flag("recall").unwrap_or(false);
    let wishes = RecallWishes {
        notice: fields.flag("notice"),
        obligations: fields.flag("obligations"),
        ..RecallWishes::default()
    };
    let history = history(&mut fields);
    let mut react = react(&mut fields);
    react.output = output(&mut fields);
    let tool_choice = tool_choice(&mut fields, &tools);
    let parallel = fields.count("parallel_tools", 1).unwrap_or(1) as usize;
    let limits = limits(&mut fields);
    let throttle = throttle(&mut fields);
    let unfinished = match fields.word("unfinished", &["drop", "close"]).as_deref() {
        Some("close") => Unfinished::Close,
        _ => Unfinished::Drop,
    };
    let repair = match fields.word("repair", &["auto", "never"]).as_deref() {
        Some("never") => Repair::Never,
        _ => Repair::Auto,
    };
    fields.end();
    AgentFile {
        name,
        model,
        system,
        tools,
        history,
        react,
        recall,
        wishes,
        folder: folder.into(),
        tool_choice,
        parallel,
        limits,
        throttle,
        unfinished,
        repair,
    }
}

/// Instructions: a text, or the file that holds it.
fn system(fields: &mut Fields<'_, '_>, folder: &Path) -> Option<String> {
    let node = fields.node("system")?;
    if let Some(text) = node.as_text() {
        return Some(text.trim_end().to_string());
    }
    let path = fields.path("system");
    let mut inner = Fields::of(node, path, fields.problems());
    let file = inner.required_text("file");
    inner.end();
    let file = folder.join(file?);
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(text.trim_end().to_string()),
        Err(error) => {
            fields.problem("system", format!("the file {} cannot be read: {error}", file.display()));
            None
        }
    }
}

fn history(fields: &mut Fields<'_, '_>) -> SharedManager {
    let Some(node) = fields.node("history") else { return usual_history() };
    match parse_value(&node.to_json()) {
        Ok(manager) => manager,
        Err(error) => {
            let at = if error.path().is_empty() { String::new() } else { format!("{}: ", error.path()) };
            fields.problem("history", format!("{at}{error}"));
            usual_history()
        }
    }
}

fn react(fields: &mut Fields<'_, '_>) -> React {
    let mut react = React::default();
    let path = fields.path("react");
    let Some(node) = fields.node("react") else { return react };
    let mut inner = Fields::of(node, path, fields.problems());
    if inner.word("mode", &["native", "text"]).as_deref() == Some("text") {
        react.mode = ReactMode::Text;
    }
    if let Some(count) = inner.count("max_iterations", 1) {
        react.max_iterations = u32::try_from(count).unwrap_or(u32::MAX);
    }
    react.extract = match inner.word("extract", &["auto", "always", "never"]).as_deref() {
        Some("always") => Extract::Always,
        Some("never") => Extract::Never,
        _ => Extract::Auto,
    };
    inner.end();
    react
}

/// The kinds of fields an answer may have, and what they are in JSON Schema.
const FIELD_KINDS: [(&str, &str); 6] = [
    ("text", "string"),
    ("list", "array"),
    ("number", "number"),
    ("integer", "integer"),
    ("flag", "boolean"),
    ("map", "object"),
];

fn output(fields: &mut Fields<'_, '_>) -> Option<ResponseFormat> {
    let node = fields.node("output")?;
    let path = fields.path("output");
    let mut inner = Fields::of(node, path.clone(), fields.problems());
    let declared = inner.node("fields");
    let schema = inner.node("schema");
    let schema = match (declared, schema) {
        (Some(declared), None) => fields_schema(declared, &format!("{path}.fields"), inner.problems()),
        (None, Some(schema)) => {
            let schema = schema.to_json();
            if let Err(error) = jsonschema::validator_for(&schema) {
                inner.problem("schema", format!("is not a JSON Schema: {error}"));
            }
            schema
        }
        (Some(_), Some(_)) => {
            inner.problem("", "has `fields` and `schema`; keep one");
            Value::Null
        }
        (None, None) => {
            inner.problem("", "needs `fields` or `schema`");
            Value::Null
        }
    };
    inner.end();
    Some(ResponseFormat { name: "output".into(), schema })
}

fn fields_schema(node: &Node, path: &str, problems: &mut Vec<DocumentProblem>) -> Value {
    let mut properties = Map::new();
    let Some(map) = node.as_map().filter(|map| !map.is_empty()) else {
        let message = format!("must be a map from names to kinds, not {}", node.kind());
        problems.push(DocumentProblem::new(code::WRONG_TYPE, path, node.at, message));
        return Value::Null;
    };
    for (key, kind) in map {
        let word = kind.as_text().unwrap_or_default();
        if let Some((_, json_kind)) = FIELD_KINDS.iter().find(|(known, _)| *known == word) {
            properties.insert(key.name.clone(), json!({ "type": json_kind }));
            continue;
        }
        let known: Vec<&str> = FIELD_KINDS.iter().map(|(known, _)| *known).collect();
        let message = format!("must be one of {}", known.join(", "));
        problems.push(DocumentProblem::new(
            code::UNKNOWN_VALUE,
            format!("{path}.{}", key.name),
            kind.at,
            message,
        ));
    }
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn tool_choice(fields: &mut Fields<'_, '_>, tools: &Declared) -> ToolChoice {
    let Some(node) = fields.node("tool_choice") else { return ToolChoice::Auto };
    if node.as_map().is_none() {
        return match fields.word("tool_choice", &["auto", "required", "none"]).as_deref() {
            Some("required") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            _ => ToolChoice::Auto,
        };
    }
    let path = fields.path("tool_choice");
    let mut inner = Fields::of(node, path, fields.problems());
    let name = inner.required_text("name");
    inner.end();
    let Some(name) = name else { return ToolChoice::Auto };
    let of_server = tools.servers.iter().any(|server| name.starts_with(&format!("{}__", server.name)));
    if tools.ready.get(&name).is_none() && !of_server {
        let known: Vec<String> = tools.ready.specs().iter().map(|spec| spec.name.clone()).collect();
        fields.problem("tool_choice", format!("unknown tool {name:?}; known: {}", known.join(", ")));
    }
    ToolChoice::Tool(name)
}

fn limits(fields: &mut Fields<'_, '_>) -> LimitsSection {
    let path = fields.path("limits");
    let Some(node) = fields.node("limits") else { return LimitsSection::default() };
    let mut inner = Fields::of(node, path, fields.problems());
    let deadline = inner.positive("deadline_s").map(Duration::from_secs_f64);
    if deadline.is_some_and(|deadline| Deadline::after(deadline, Time(0)).is_err()) {
        inner.problem("deadline_s", "must be more than 1 second");
    }
    let max_rounds = inner.count("max_rounds", 1).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let tokens = ["input_tokens", "output_tokens", "total_tokens"].map(|name| inner.count(name, 1));
    let cost = inner.positive("cost_usd");
    let [input, output, total] = tokens;
    let any = tokens.iter().any(Option::is_some) || cost.is_some();
    let budget = if any { Budget::new(input, output, total, cost).ok() } else { None };
    inner.end();
    LimitsSection { deadline, max_rounds, budget }
}

fn throttle(fields: &mut Fields<'_, '_>) -> Throttle {
    let path = fields.path("throttle");
    let Some(node) = fields.node("throttle") else { return Throttle::default() };
    let mut inner = Fields::of(node, path, fields.problems());
    let attempts = inner.count("attempts", 1).map_or(5, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let mut time = |name, usual| Duration::from_millis(inner.count(name, 1).unwrap_or(usual));
    let (base, cap, total) = (time("base_ms", 500), time("cap_ms", 8000), time("total_ms", 30_000));
    inner.end();
    Throttle::new(attempts, base, cap, total).unwrap_or_default()
}

/// Where in the file a problem is, as people and programs are told.
impl From<&document::DocumentProblem> for Value {
    fn from(problem: &document::DocumentProblem) -> Self {
        json!({ "path": problem.path, "line": problem.at.line, "column": problem.at.column, "message": problem.message })
    }
}
