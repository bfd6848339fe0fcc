//! Tools as files declare them: one list, one set of sources, for agents, sub-agents and flows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use scrollback_core::nearest::nearest;
use serde_json::Value;

use super::mcp::{McpServer, McpTransport, connect};
use super::{Command, Effects, HttpCall, HttpTool, Human, Spec, Tool, Toolbox};
use crate::document::{self, DocumentProblem, Fields, Node, code};
use crate::error::AgentError;
use crate::provider::Environment;

/// The tools that a file declares.
#[derive(Clone, Default)]
pub struct Declared {
    /// Those that are ready to be called.
    pub ready: Toolbox,
    /// Servers that have to be asked what tools they have.
    pub servers: Vec<McpServer>,
    /// What is said beside that of the tools that are ready, by name.
    pub about: BTreeMap<String, About>,
    /// Those that only a sub-agent can make something of.
    pub written: Vec<SourceTool>,
}

/// What a file says of a tool that a sub-agent wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its signature, where it has one.
    pub signature: Option<ToolSignature>,
    /// Its source.
    pub source: &'static str,
    /// Whether its answer is a text and no JSON.
    pub answers_text: bool,
}

/// A tool that is an expression, a prompt, or another agent.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceTool {
    /// What it is.
    pub spec: Spec,
    /// Its signature, where it has one.
    pub signature: Option<ToolSignature>,
    /// `lisp`, `llm` or `agent`.
    pub source: &'static str,
    /// The expression, the prompt, or the agent's file.
    pub text: String,
    /// How long it may take, where the file says so.
    pub timeout: Option<Duration>,
    /// What it may do to the world, where the file says so.
    pub effects: Option<Effects>,
    /// Where it stands: as a path, and in the text.
    pub path: String,
    /// The same in the text.
    pub at: document::TextPosition,
}

/// One of them.
enum One {
    Ready(Arc<dyn Tool>, About),
    Server(McpServer),
    Written(Box<SourceTool>),
}

/// Where tools are declared.
#[derive(Clone)]
pub struct ToolScope {
    /// The folder of the file.
    pub folder: PathBuf,
    /// Where values of headers that name a variable come from.
    pub environment: Environment,
    /// Which sources there are.
    pub sources: &'static [&'static str],
    /// Who sees to it that no secret stands there.
    pub secrets: Secrets,
    /// How the signatures of tools are read.
    pub read_signature: ReadSignature,
}

/// The signature of a tool, as far as an agent needs it: `(query :string, limit :int?) -> [:map]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSignature {
    /// The signature as text, which the same reader reads again.
    pub text: String,
    /// The names of the parameters, in order.
    pub parameters: Vec<String>,
    /// The JSON Schema of the parameters.
    pub schema: Value,
}

/// Reads the signature of a tool; why it cannot be read otherwise. The notation belongs to PTC-Lisp, which this crate does
/// not know: `scrollback_subagent::read_signature` is the one there is.
pub type ReadSignature = fn(&str) -> Result<ToolSignature, String>;

/// How secrets are kept out of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// Headers that carry them must name a variable.
    RefusedInHeaders,
    /// The reader checks the whole text of the file, unless only its owner can write it.
    NotJudgedHere,
}

/// The sources of an agent's tools.
pub const AGENT_SOURCES: &[&str] = &["command", "http", "mcp", "human"];
/// The sources of a sub-agent's tools.
pub const SUBAGENT_SOURCES: &[&str] = &["command", "http", "mcp", "lisp", "llm", "agent"];
/// Every source there is, somewhere.
const ALL_SOURCES: [&str; 7] = ["command", "http", "mcp", "human", "lisp", "llm", "agent"];

/// Reads a list of tools, or a map from names to tools. What is wrong is added to `problems`.
pub fn tools(node: &Node, path: &str, place: &ToolScope, problems: &mut Vec<DocumentProblem>) -> Declared {
    let mut items: Vec<(&Node, Option<&str>, String)> = Vec::new();
    if let Some(list) = node.as_list() {
        items.extend(list.iter().enumerate().map(|(number, item)| (item, None, format!("{path}[{number}]"))));
    } else if let Some(map) = node.as_map() {
        let named = |key: &str| format!("{path}.{key}");
        items.extend(map.iter().map(|(key, item)| (item, Some(key.name.as_str()), named(&key.name))));
    } else {
        let message = format!("must be a list of tools, or a map from names to tools, not {}", node.kind());
        problems.push(DocumentProblem::new(code::WRONG_TYPE, path, node.at, message));
    }
    let mut declared = Declared::default();
    for (item, named, path) in items {
        let refused = match tool(item, named, &path, place, problems) {
            Some(One::Ready(tool, about)) => {
                declared.about.insert(tool.spec().name.clone(), about);
                declared.ready.add(tool).err().map(|error| error.to_string())
            }
            Some(One::Written(written)) => {
                declared.written.push(*written);
                None
            }
            Some(One::Server(server)) => {
                let taken = declared.servers.iter().any(|other| other.name == server.name);
                let refused = taken.then(|| format!("two servers have the name {:?}", server.name));
                declared.servers.push(server);
                refused
            }
            None => None,
        };
        problems
            .extend(refused.map(|message| DocumentProblem::new(code::UNKNOWN_VALUE, path, item.at, message)));
    }
    declared
}

fn tool(
    item: &Node,
    named: Option<&str>,
    path: &str,
    place: &ToolScope,
    problems: &mut Vec<DocumentProblem>,
) -> Option<One> {
    let before = problems.len();
    let source = source(item, path, place, problems)?;
    let mut fields = Fields::of(item, path, problems);
    if source == "mcp" {
        let declared = mcp(&mut fields, named, place);
        fields.end();
        return declared.filter(|_| problems.len() == before).map(One::Server);
    }
    let says = |name: &str| item.get(name).is_some();
    let (says_timeout, says_effects) = (says("timeout"), says("effects"));
    let (spec, signature) = spec(&mut fields, named, place.read_signature);
    let mut about = About { signature: signature.clone(), source, answers_text: false };
    if matches!(source, "lisp" | "llm" | "agent") {
        let text = fields.required_text(source);
        check_written(&mut fields, item, source);
        fields.end();
        let text = text.filter(|_| problems.len() == before)?;
        let (timeout, effects) = (says_timeout.then_some(spec.timeout), says_effects.then_some(spec.effects));
        let (path, at) = (path.to_string(), item.at);
        return Some(One::Written(Box::new(SourceTool {
            spec,
            signature,
            source,
            text,
            timeout,
            effects,
            path,
            at,
        })));
    }
    let env = if source == "command" { fields.texts("env").unwrap_or_default() } else { Vec::new() };
    let made: Option<Arc<dyn Tool>> = match source {
        "command" => {
            let argv = fields.texts("command");
            if argv.as_ref().is_some_and(Vec::is_empty) {
                fields.problem_of(
                    code::OUT_OF_RANGE,
                    "command",
                    "needs a program, then its arguments: [python3, tool.py]",
                );
            }
            check_variables(&mut fields, &env, place);
            let mut command = Command::new(spec, argv.unwrap_or_default(), &place.folder, env);
            if place.sources == SUBAGENT_SOURCES {
                command.input = fields.text("input");
                about.answers_text = fields.word("output", &["json", "text"]).as_deref() == Some("text");
                check_input(&mut fields, command.input.as_deref(), signature.as_ref());
            }
            Some(Arc::new(command))
        }
        "http" => http(&mut fields, spec, place).map(|tool| Arc::new(tool) as Arc<dyn Tool>),
        _ => {
            let at = fields.path("human");
            let question = fields.node("human").and_then(|node| {
                let mut inner = Fields::of(node, at, fields.problems());
                let question = inner.required_text("question");
                inner.end();
                question
            });
            question.map(|question| Arc::new(Human::new(spec, question)) as Arc<dyn Tool>)
        }
    };
    fields.end();
    made.filter(|_| problems.len() == before).map(|tool| One::Ready(tool, about))
}

/// The one argument that a command reads as text must be one.
fn check_input(fields: &mut Fields<'_, '_>, input: Option<&str>, signature: Option<&ToolSignature>) {
    let (Some(input), Some(signature)) = (input, signature) else { return };
    if !signature.parameters.iter().any(|name| name == input) {
        fields.problem(
            "input",
            format!(
                "{input:?} is not a parameter of the signature; there are: {}",
                signature.parameters.join(", ")
            ),
        );
    }
}

/// What would say nothing about a tool that is written in the language, or is an agent.
fn check_written(fields: &mut Fields<'_, '_>, item: &Node, source: &str) {
    if item.get("signature").is_some() && source == "agent" {
        fields.problem_of(
            code::CONFLICTING_KEYS,
            "signature",
            "the agent's file has the signature; leave it out",
        );
    }
    for (key, instead) in [("parameters", "write a `signature`"), ("max_output", "leave it out")] {
        if item.get(key).is_some() {
            let message = format!("does not apply to `{source}`; {instead}");
            fields.problem_of(code::CONFLICTING_KEYS, key, message);
        }
    }
}

/// The one source of a tool.
fn source(
    item: &Node,
    path: &str,
    place: &ToolScope,
    problems: &mut Vec<DocumentProblem>,
) -> Option<&'static str> {
    let mut problem = |code, message: String| {
        problems.push(DocumentProblem::new(code, path, item.at, message));
        None
    };
    if item.as_map().is_none() {
        return problem(code::WRONG_TYPE, format!("must be a map, not {}", item.kind()));
    }
    let given: Vec<&'static str> =
        ALL_SOURCES.into_iter().filter(|source| item.get(source).is_some()).collect();
    let known = place.sources.join(", ");
    match given.as_slice() {
        [one] if place.sources.contains(one) => Some(one),
        [one] => {
            problem(code::UNKNOWN_KEY, format!("`{one}` is not a source of tools here; there are {known}"))
        }
        [] => {
            let mut keys = item.as_map().unwrap_or_default().iter();
            let near = keys.find_map(|(key, _)| nearest(&key.name, place.sources.iter().copied()));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            problem(code::MISSING_KEY, format!("has no source; write one of {known}{hint}"))
        }
        several => problem(
            code::CONFLICTING_KEYS,
            format!("has {} sources ({}); keep one", several.len(), several.join(", ")),
        ),
    }
}

fn spec(
    fields: &mut Fields<'_, '_>,
    named: Option<&str>,
    read_signature: ReadSignature,
) -> (Spec, Option<ToolSignature>) {
    let name = match named {
        Some(name) => Some(name.to_string()),
        None => fields.required_text("name"),
    };
    let mut spec = Spec::new(name.unwrap_or_default(), fields.text("description").unwrap_or_default());
    let written = fields.node("parameters");
    if let Some(node) = written {
        let schema = node.to_json();
        match jsonschema::validator_for(&schema) {
            Ok(_) if schema.is_object() => spec.parameters = schema,
            Ok(_) => fields.problem_of(code::BAD_SCHEMA, "parameters", "must be a JSON Schema, as a map"),
            Err(error) => {
                fields.problem_of(code::BAD_SCHEMA, "parameters", format!("is not a JSON Schema: {error}"));
            }
        }
    }
    let mut declared = None;
    if let Some(text) = fields.text("signature") {
        if written.is_some() {
            fields.problem_of(
                code::CONFLICTING_KEYS,
                "signature",
                "a tool has parameters or a signature, not both",
            );
        }
        match read_signature(&text) {
            Ok(signature) => {
                spec.parameters = signature.schema.clone();
                declared = Some(signature);
            }
            Err(problem) => fields.problem("signature", problem),
        }
    }
    match fields.word("effects", &["read", "write", "once"]).as_deref() {
        Some("read") => spec.effects = Effects::Read,
        Some("once") => spec.effects = Effects::Once,
        _ => {}
    }
    if let Some(timeout) = fields.duration("timeout") {
        spec.timeout = timeout;
    }
    if let Some(bytes) = fields.count("max_output", 1) {
        spec.max_output = bytes as usize;
    }
    (spec, declared)
}

fn http(fields: &mut Fields<'_, '_>, spec: Spec, place: &ToolScope) -> Option<HttpTool> {
    let at = fields.path("http");
    let node = fields.node("http")?;
    let mut inner = Fields::of(node, at, fields.problems());
    let method = inner.text("method").unwrap_or_else(|| "GET".into());
    let url = inner.required_text("url");
    let headers = headers(&mut inner, place);
    inner.end();
    let call = HttpCall { method, url: url?, headers };
    match HttpTool::new(spec, &call) {
        Ok(tool) => Some(tool),
        Err(problem) => {
            fields.problem("http", problem);
            None
        }
    }
}

/// Headers that carry secrets. The text of a file is kept with its runs, so no secret may stand in it.
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];

/// Headers; a value `env:NAME` is that of a variable, which must be there.
fn headers(fields: &mut Fields<'_, '_>, place: &ToolScope) -> Vec<(String, String)> {
    let Some(node) = fields.node("headers") else { return Vec::new() };
    let Some(map) = node.as_map() else {
        fields.problem("headers", format!("must be a map from names to values, not {}", node.kind()));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in map {
        let Some(text) = value.as_text() else {
            fields.problem("headers", format!("{}: must be a text, not {}", key.name, value.kind()));
            continue;
        };
        let value = match text.strip_prefix("env:") {
            Some(name) => {
                let Some(value) = (place.environment)(name) else {
                    fields.problem("headers", format!("{}: the variable {name} is not set", key.name));
                    continue;
                };
                value
            }
            None if place.secrets == Secrets::RefusedInHeaders
                && SECRET_HEADERS.iter().any(|secret| key.name.eq_ignore_ascii_case(secret)) =>
            {
                let message =
                    format!("{}: secrets do not belong in files; name a variable: `env:NAME`", key.name);
                fields.problem("headers", message);
                continue;
            }
            None => text.to_string(),
        };
        found.push((key.name.clone(), value));
    }
    found
}

fn check_variables(fields: &mut Fields<'_, '_>, env: &[String], place: &ToolScope) {
    for name in env.iter().filter(|name| (place.environment)(name).is_none()) {
        fields.problem("env", format!("the variable {name} is not set"));
    }
}

fn mcp(fields: &mut Fields<'_, '_>, named: Option<&str>, place: &ToolScope) -> Option<McpServer> {
    let allow = fields.texts("allow");
    let timeout = fields.duration("timeout");
    let env = fields.texts("env").unwrap_or_default();
    check_variables(fields, &env, place);
    let at = fields.path("mcp");
    let node = fields.node("mcp")?;
    let mut inner = Fields::of(node, at, fields.problems());
    let name = match named {
        Some(name) => Some(inner.text("name").unwrap_or_else(|| name.into())),
        None => inner.required_text("name"),
    };
    let command = inner.texts("command");
    let url = inner.text("url");
    let headers = headers(&mut inner, place);
    let reach = match (command, url) {
        (None, None) => {
            inner.problem_of(code::MISSING_KEY, "", "needs `command` or `url`");
            None
        }
        (Some(_), Some(_)) => {
            inner.problem_of(code::CONFLICTING_KEYS, "", "has `command` and `url`; keep one");
            None
        }
        (Some(command), None) => {
            if command.is_empty() {
                inner.problem_of(code::OUT_OF_RANGE, "command", "needs a program, then its arguments");
            }
            Some(McpTransport::Command(command))
        }
        (None, Some(url)) => Some(McpTransport::Http { url, headers }),
    };
    inner.end();
    let usual = McpServer::new(name?, reach?);
    let timeout = timeout.unwrap_or(usual.timeout);
    Some(McpServer { allow, env, folder: place.folder.clone(), timeout, ..usual })
}

impl Declared {
    /// All tools, those of servers included: each server is started or reached, and asked what it has.
    pub async fn connect(self) -> Result<Toolbox, AgentError> {
        let mut tools = self.ready;
        for server in self.servers {
            for tool in connect(server).await? {
                tools.add(tool)?;
            }
        }
        Ok(tools)
    }
}
