//! AGENT.yaml of a sub-agent: its mission and everything it may use, every mistake told at its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::document::{self, DocumentProblem, Fields, Node, code, parse};
use scrollback_agent::provider::{Catalog, Environment};
use scrollback_agent::runner::Throttle;
use scrollback_agent::tool::load::{self, Declared, SUBAGENT_SOURCES, SourceTool};
use scrollback_agent::tool::mcp::{McpServer, connect};
use scrollback_core::model::ModelName;
use scrollback_lisp::{Signature, Validation, Value};

use super::agent::{AgentLimits, OnMemoryLimit, SubAgent, no_signature};
use super::compression::normalize;
use super::error::{SubagentError, SubagentErrorKind};
use super::signature::{read_signature, signature_of};
use super::system_prompt::SystemPrompt;
use super::tools::{AgentTool, OutputForm};

/// Agents in files in files: more is a circle.
const NESTING: usize = 8;

/// A sub-agent as a file describes it. Everything in it was checked; tools of servers are still to be asked for.
pub struct SubagentFile {
    /// The agent, with the tools that are ready.
    pub agent: SubAgent,
    /// The model it names.
    pub model: Option<String>,
    /// The folder of the file, which paths in it are relative to.
    pub folder: PathBuf,
    /// Whether programs may search and read the record: `(tool/search …)` and the others.
    pub recall: bool,
    servers: Vec<McpServer>,
    nested: Vec<NestedFile>,
}

/// The JSON Schema of the AGENT.yaml of a sub-agent, for editors. Signatures, missions and strategies are for the reader.
pub const SCHEMA: &str = include_str!("../subagent.schema.json");

/// An agent that is a tool, in a file of its own.
struct NestedFile {
    tool: SourceTool,
    file: SubagentFile,
}

/// What is laid over a file before it is checked.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The mission instead of the file's.
    pub mission: Option<String>,
}

impl SubagentFile {
    /// Reads a file; everything that is wrong with it otherwise, nothing having been run.
    pub fn load(
        file: &Path,
        overlay: &Overlay,
        environment: &Environment,
    ) -> Result<Self, Vec<DocumentProblem>> {
        SubagentFile::load_at(file, overlay, environment, 0)
    }

    fn load_at(
        file: &Path,
        overlay: &Overlay,
        environment: &Environment,
        depth: usize,
    ) -> Result<Self, Vec<DocumentProblem>> {
        let problem = |message: String| {
            vec![DocumentProblem::new(code::UNKNOWN_VALUE, "", document::TextPosition::default(), message)]
        };
        if depth > NESTING {
            return Err(problem(format!("agents name each other's files more than {NESTING} deep")));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| problem(format!("{} cannot be read: {error}", file.display())))?;
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        SubagentFile::parse_at(&text, &folder, overlay, environment, depth)
    }

    /// Reads the text of a file in a folder.
    ///
    /// ```
    /// use std::{path::Path, sync::Arc};
    /// use scrollback_agent::provider::Environment;
    /// use scrollback_subagent::{Overlay, SubagentFile};
    /// let environment: Environment = Arc::new(|_| None);
    /// let read = |text| SubagentFile::parse(text, Path::new("."), &Overlay::default(), &environment);
    /// assert!(read("name: count\nmission: Count.\n").is_ok());
    /// let problems = read("name: count\nmision: Count.\n").err().unwrap_or_default();
    /// assert!(problems.iter().any(|problem| problem.message.contains("did you mean `mission`?")));
    /// ```
    pub fn parse(
        text: &str,
        folder: &Path,
        overlay: &Overlay,
        environment: &Environment,
    ) -> Result<Self, Vec<DocumentProblem>> {
        SubagentFile::parse_at(text, folder, overlay, environment, 0)
    }

    /// What the agent is called.
    pub fn name(&self) -> &str {
        &self.agent.name
    }

    /// How many tools it declares; a server counts as one.
    pub fn tool_count(&self) -> usize {
        self.agent.tools().len() + self.servers.len() + self.nested.len()
    }

    fn parse_at(
        text: &str,
        folder: &Path,
        overlay: &Overlay,
        environment: &Environment,
        depth: usize,
    ) -> Result<Self, Vec<DocumentProblem>> {
        let node = parse(text).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let read = read(&node, folder, overlay, environment, depth, &mut problems);
        problems.sort_by_key(|problem| problem.at);
        match read {
            Some(mut file) if problems.is_empty() => {
                file.agent.file = Some(text.into());
                Ok(file)
            }
            _ => Err(problems),
        }
    }

    /// The agent with all its tools: servers are asked what they have, and agents that are tools get their models.
    pub async fn connect(self, catalog: &Catalog) -> Result<SubAgent, SubagentError> {
        let mut agent = self.agent;
        for server in self.servers {
            let tools = connect(server).await.map_err(SubagentError::server)?;
            for tool in tools {
                let tool = AgentTool::new(tool, None, OutputForm::Text).map_err(SubagentError::server)?;
                agent.add_tool(tool)?;
            }
        }
        for NestedFile { tool, file } in self.nested {
            let model = file.model.as_ref().map(|model| catalog.provider_in(model, &file.folder));
            let model = model.transpose().map_err(SubagentError::model)?;
            let mut nested = Box::pin(file.connect(catalog)).await?;
            nested.settings.model = model;
            nested.limits.mission_timeout =
                [nested.limits.mission_timeout, tool.timeout].into_iter().flatten().min();
            let description = described(&tool);
            let made = nested.as_tool(&tool.spec.name, description.as_deref())?;
            agent.add_tool(AgentTool { effects: tool.effects, ..made })?;
        }
        Ok(agent)
    }
}

fn read(
    node: &Node,
    folder: &Path,
    overlay: &Overlay,
    environment: &Environment,
    depth: usize,
    problems: &mut Vec<DocumentProblem>,
) -> Option<SubagentFile> {
    let mut fields = Fields::of(node, "", problems);
    let name = fields.text("name");
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.as_ref().is_some_and(|name| name.is_empty() || !name.chars().all(fits)) {
        fields.problem("name", "must be letters, digits, `_` or `-`");
    }
    let model = fields.text("model");
    if let Some(model) = &model
        && let Err(error) = ModelName::parse(model.split("?api=").next().unwrap_or_default())
    {
        fields.problem("model", error.to_string());
    }
    let signature = signature(&mut fields);
    let mission = match &overlay.mission {
        Some(mission) => {
            fields.node("mission");
            Some(mission.clone())
        }
        None => fields.required_text("mission"),
    };
    let agent = mission.map(|mission| SubAgent::new(&mission, signature.clone().flatten()));
    let mut agent = match agent {
        Some(Ok(agent)) => Some(agent),
        // Where the signature is wrong, nothing is known of its parameters.
        Some(Err(error)) if signature.is_none() && error.kind() == SubagentErrorKind::Placeholder => None,
        Some(Err(error)) => {
            fields.problem("mission", error.to_string());
            None
        }
        None => None,
    };
    let mut usual = SubAgent::new("-", None).ok()?;
    let draft = agent.as_mut().unwrap_or(&mut usual);
    draft.name = name.unwrap_or_else(|| "subagent".into());
    options(&mut fields, draft);
    data(&mut fields, draft);
    descriptions(&mut fields, draft);
    let place = load::ToolScope {
        folder: if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.into() },
        environment: Arc::clone(environment),
        sources: SUBAGENT_SOURCES,
        secrets: load::Secrets::RefusedInHeaders,
        read_signature,
    };
    let tools = fields.node("tools");
    let tools = tools.map(|node| load::tools(node, "tools", &place, fields.problems())).unwrap_or_default();
    let (servers, nested) = add_tools(tools, draft, folder, environment, depth, fields.problems());
    let recall = fields.flag("recall").unwrap_or(false);
    fields.end();
    Some(SubagentFile { agent: agent?, model, folder: folder.into(), recall, servers, nested })
}

/// The signature; none at all where it cannot be read.
#[allow(clippy::option_option, reason = "none is no signature, which is not the same as one that is wrong")]
fn signature(fields: &mut Fields<'_, '_>) -> Option<Option<Signature>> {
    let Some(text) = fields.text("signature") else { return Some(None) };
    match Signature::parse(&text) {
        Ok(signature) => Some(Some(signature)),
        Err(error) => {
            fields.problem("signature", error.to_string());
            None
        }
    }
}

fn options(fields: &mut Fields<'_, '_>, agent: &mut SubAgent) {
    if let Some(turns) = fields.count("max_turns", 1) {
        agent.max_turns = turns as usize;
    }
    if let Some(turns) = fields.count("retry_turns", 0) {
        agent.retry_turns = turns as usize;
    }
    if let Some(decimals) = fields.count("float_precision", 0) {
        agent.float_precision = Some(decimals.min(17) as u32);
    }
    let words = Validation::ALL.map(|(word, _)| word);
    if let Some(word) = fields.word("signature_validation", &words) {
        let named = Validation::ALL.into_iter().find(|(known, _)| *known == word);
        agent.validation = named.map_or(Validation::Enabled, |(_, mode)| mode);
    }
    if let Some(node) = fields.node("compression") {
        match normalize(&node.to_json()) {
            Ok(chosen) => agent.settings.compression = Some(chosen),
            Err(error) => fields.problem("compression", error.to_string()),
        }
    }
    agent.settings.system_prompt = system_prompt(fields);
    agent.settings.llm_retry = llm_retry(fields);
    limits(fields, &mut agent.limits);
    let path = fields.path("limits");
    if let Some(node) = fields.node("limits") {
        let mut inner = Fields::of(node, path, fields.problems());
        limits(&mut inner, &mut agent.limits);
        if let Some(fuel) = inner.count("fuel", 1) {
            agent.limits.fuel = fuel;
        }
        inner.end();
    }
}

/// Limits, which may stand under `limits` or beside it.
fn limits(fields: &mut Fields<'_, '_>, limits: &mut AgentLimits) {
    if let Some(time) = fields.duration("timeout") {
        limits.timeout = time;
    }
    if let Some(time) = fields.duration("mission_timeout") {
        limits.mission_timeout = Some(time);
    }
    if let Some(bytes) = fields.bytes("memory_limit") {
        limits.memory_limit = bytes as usize;
    }
    match fields.word("on_memory_limit", &["fail_turn", "stop"]).as_deref() {
        Some("stop") => limits.on_memory_limit = OnMemoryLimit::Stop,
        Some(_) => limits.on_memory_limit = OnMemoryLimit::FailTurn,
        None => {}
    }
    if let Some(turns) = fields.count("turn_budget", 1) {
        limits.turn_budget = Some(turns as usize);
    }
    if let Some(depth) = fields.count("max_depth", 1) {
        limits.max_depth = Some(depth as usize);
    }
}

fn llm_retry(fields: &mut Fields<'_, '_>) -> Option<Throttle> {
    let path = fields.path("llm_retry");
    let node = fields.node("llm_retry")?;
    let mut inner = Fields::of(node, path, fields.problems());
    let attempts = inner.count("attempts", 1).map_or(3, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let mut time = |name, usual| Duration::from_millis(inner.count(name, 1).unwrap_or(usual));
    let (base, cap, total) = (time("base_ms", 1000), time("cap_ms", 8000), time("total_ms", 30_000));
    inner.end();
    Throttle::new(attempts, base, cap, total).ok()
}

/// Instructions: a text instead of the usual ones, or what comes before and after.
fn system_prompt(fields: &mut Fields<'_, '_>) -> Option<SystemPrompt> {
    let node = fields.node("system_prompt")?;
    let prompt = if let Some(text) = node.as_text() {
        SystemPrompt { replacement: Some(text.trim_end().into()), ..SystemPrompt::default() }
    } else {
        let path = fields.path("system_prompt");
        let mut inner = Fields::of(node, path, fields.problems());
        let prompt = SystemPrompt {
            prefix: inner.text("prefix"),
            suffix: inner.text("suffix"),
            replacement: inner.text("replacement"),
        };
        inner.end();
        prompt
    };
    if prompt.generate().contains("{{") {
        let message = "has {{…}}, but instructions are the same on every turn; put what changes into the mission or the data";
        fields.problem("system_prompt", message);
    }
    Some(prompt)
}

fn data(fields: &mut Fields<'_, '_>, agent: &mut SubAgent) {
    let Some(node) = fields.node("data") else { return };
    let Some(map) = node.as_map() else {
        fields.problem("data", format!("must be a map from names to values, not {}", node.kind()));
        return;
    };
    for (key, node) in map {
        let value = Value::from_json(&node.to_json().to_string()).unwrap_or_default();
        if let Err(error) = agent.add_data(&key.name, value) {
            fields.problem("data", error.to_string());
        }
    }
}

/// What names of data, and of what is returned, mean.
fn descriptions(fields: &mut Fields<'_, '_>, agent: &mut SubAgent) {
    let Some(node) = fields.node("descriptions") else { return };
    let Some(map) = node.as_map() else {
        fields.problem("descriptions", format!("must be a map from names to texts, not {}", node.kind()));
        return;
    };
    for (key, node) in map {
        let Some(text) = node.as_text() else {
            fields.problem("descriptions", format!("{}: must be a text, not {}", key.name, node.kind()));
            continue;
        };
        agent.descriptions.insert(key.name.clone(), text.into());
    }
}

/// Adds the tools that are ready; what is still to be asked for otherwise.
fn add_tools(
    declared: Declared,
    agent: &mut SubAgent,
    folder: &Path,
    environment: &Environment,
    depth: usize,
    problems: &mut Vec<DocumentProblem>,
) -> (Vec<McpServer>, Vec<NestedFile>) {
    let Declared { ready, servers, about, written } = declared;
    let mut nested = Vec::new();
    for spec in ready.specs() {
        let said = about.get(&spec.name).cloned().unwrap_or_default();
        let form = match (said.source, said.answers_text) {
            ("command", false) => OutputForm::Json,
            ("http", _) => OutputForm::Either,
            _ => OutputForm::Text,
        };
        let Some(tool) = ready.get(&spec.name) else { continue };
        let made = signature_of(said.signature.as_ref()).and_then(|signature| {
            AgentTool::new(Arc::clone(tool), signature, form).map_err(|error| error.to_string())
        });
        if let Err(message) = made.and_then(|tool| agent.add_tool(tool).map_err(|error| error.to_string())) {
            let path = format!("tools.{}", spec.name);
            problems.push(DocumentProblem::new(
                code::UNKNOWN_VALUE,
                path,
                document::TextPosition::default(),
                message,
            ));
        }
    }
    for tool in written {
        let problem =
            |message: String| DocumentProblem::new(code::UNKNOWN_VALUE, &tool.path, tool.at, message);
        if tool.source == "agent" {
            match nested_file(&tool, folder, environment, depth) {
                Ok(file) => nested.push(NestedFile { tool, file }),
                Err(messages) => problems.extend(messages.into_iter().map(problem)),
            }
            continue;
        }
        let made = make(&tool).and_then(|made| agent.add_tool(made).map_err(|error| error.to_string()));
        problems.extend(made.err().map(problem));
    }
    (servers, nested)
}

fn described(tool: &SourceTool) -> Option<String> {
    Some(tool.spec.description.clone()).filter(|text| !text.is_empty())
}

/// A tool that is an expression or a prompt.
fn make(tool: &SourceTool) -> Result<AgentTool, String> {
    let (name, description) = (&tool.spec.name, described(tool));
    let signature = signature_of(tool.signature.as_ref())?;
    if tool.source == "lisp" {
        let made = AgentTool::lisp(name, signature, description, &tool.text)
            .map_err(|error| format!("lisp: {}", error.text()))?;
        return Ok(AgentTool { timeout: tool.timeout, effects: tool.effects, ..made });
    }
    let Some(signature) = signature else {
        return Err("a prompt needs a signature, as in \"(text :string) -> {label :keyword}\"".into());
    };
    let made = SubAgent::llm_tool(name, &tool.text, signature, description.as_deref(), tool.timeout)
        .map_err(|error| error.to_string())?;
    Ok(AgentTool { effects: tool.effects, ..made })
}

/// An agent that is a tool.
fn nested_file(
    tool: &SourceTool,
    folder: &Path,
    environment: &Environment,
    depth: usize,
) -> Result<SubagentFile, Vec<String>> {
    let path = folder.join(&tool.text);
    let told = |problem: &DocumentProblem| match problem.at.line {
        0 => problem.message.clone(),
        _ => format!("{}:{problem}", tool.text),
    };
    let file = SubagentFile::load_at(&path, &Overlay::default(), environment, depth + 1);
    let file = file.map_err(|found| found.iter().map(told).collect::<Vec<_>>())?;
    if file.agent.signature().is_none() {
        return Err(vec![no_signature(&file.agent.name).to_string()]);
    }
    Ok(file)
}
