//! Tools of MCP servers: programs that speak over their standard streams, and servers over HTTP.

mod connection;
mod content;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Call, Effects, Spec, Tool, ToolOutcome};
use crate::effects::BoxFuture;
use crate::error::{AgentError, AgentErrorKind};
use connection::Connection;

/// Longest name of a tool.
const NAME: usize = 64;
/// How many letters tell apart what would otherwise have one name.
const MARK: usize = 8;

/// An MCP server, as it is written down.
#[derive(Clone)]
pub struct McpServer {
    /// Its name, with which the names of its tools begin.
    pub name: String,
    /// How it is reached.
    pub reach: McpTransport,
    /// The tools wanted, by the names the server gives them; all of them if nothing is said.
    pub allow: Option<Vec<String>>,
    /// Variables a command gets beside `PATH`, `HOME` and `LANG`.
    pub env: Vec<String>,
    /// Where a command runs.
    pub folder: PathBuf,
    /// How long it may take to start, and how long each of its tools may take.
    pub timeout: Duration,
}

impl McpServer {
    /// A server with the usual limits, all of whose tools are wanted; a command runs in the current folder.
    pub fn new(name: impl Into<String>, reach: McpTransport) -> Self {
        McpServer {
            name: name.into(),
            reach,
            allow: None,
            env: Vec::new(),
            folder: ".".into(),
            timeout: Spec::new("", "").timeout,
        }
    }
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// It is a program, with its arguments; never a shell.
    Command(Vec<String>),
    /// It answers requests.
    Http {
        /// Where: https, unless it is on this machine.
        url: String,
        /// Headers of every request, their values ready to be sent.
        headers: Vec<(String, String)>,
    },
}

/// The tools of a server, named `server__tool`. The server runs until the last of them is dropped; if it goes away
/// earlier, a call starts it again, once.
///
/// ```no_run
/// use scrollback_agent::tool::Toolbox;
/// use scrollback_agent::tool::mcp::{McpServer, McpTransport, connect};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let command = ["files-server", "--root", "."].map(String::from).to_vec();
/// let server = McpServer { allow: Some(vec!["read_file".into()]), ..McpServer::new("files", McpTransport::Command(command)) };
/// let mut tools = Toolbox::default();
/// for tool in connect(server).await? {
///     tools.add(tool)?;
/// }
/// assert!(tools.get("files__read_file").is_some());
/// # Ok(())
/// # }
/// ```
pub async fn connect(server: McpServer) -> Result<Vec<Arc<dyn Tool>>, AgentError> {
    let bad =
        |kind, problem: String| AgentError::new(kind, format!("MCP server {:?}: {problem}", server.name));
    if server.name.is_empty() {
        return Err(bad(AgentErrorKind::ServerSetting, "an MCP server needs a name".into()));
    }
    let connection =
        Connection::new(&server).map_err(|problem| bad(AgentErrorKind::ServerSetting, problem))?;
    let listed =
        connection.tools().await.map_err(|problem| bad(AgentErrorKind::ServerUnreachable, problem))?;
    let has: BTreeSet<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    if let Some(unknown) = server.allow.iter().flatten().find(|name| !has.contains(name.as_str())) {
        let has = if has.is_empty() { "none".into() } else { has.into_iter().collect::<Vec<_>>().join(", ") };
        let problem = format!("unknown tool {unknown:?}; known: {has}");
        return Err(bad(AgentErrorKind::ServerTool, problem));
    }
    let names = names(&server.name, &has);
    let connection = Arc::new(connection);
    let mut seen = BTreeSet::new();
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for tool in &listed {
        let wanted = server.allow.as_ref().is_none_or(|allow| allow.iter().any(|name| *name == tool.name));
        let Some(name) = names.get(tool.name.as_ref()).filter(|_| wanted) else { continue };
        // A server that lists a tool twice has it once.
        if !seen.insert(name) {
            continue;
        }
        let reads = tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint == Some(true));
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let spec = Spec {
            parameters: Value::Object(tool.input_schema.as_ref().clone()),
            effects: if reads { Effects::Read } else { Effects::Write },
            timeout: server.timeout,
            ..Spec::new(name, description)
        };
        tools.push(Arc::new(McpTool {
            spec,
            tool: tool.name.to_string(),
            connection: Arc::clone(&connection),
        }));
    }
    Ok(tools)
}

/// What a model calls each tool. Names that are too long, or that would be the same once they are valid, end in letters
/// made from the server's own name for the tool, so that they do not change with the order of the list.
fn names(server: &str, tools: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let plain = |tool: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        format!("{server}__{tool}").chars().map(|c| if fits(c) { c } else { '_' }).collect()
    };
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        *uses.entry(plain(tool)).or_default() += 1;
    }
    let named = |tool: &str| {
        let name = plain(tool);
        if name.len() <= NAME && uses.get(&name) == Some(&1) {
            return name;
        }
        let mark = blake3::hash(format!("{server}__{tool}").as_bytes()).to_hex();
        let kept: String = name.chars().take(NAME - MARK - 1).collect();
        format!("{kept}_{}", mark.chars().take(MARK).collect::<String>())
    };
    tools.iter().map(|tool| ((*tool).to_string(), named(tool))).collect()
}

/// One tool of a server.
struct McpTool {
    spec: Spec,
    /// What the server calls it.
    tool: String,
    connection: Arc<Connection>,
}

impl Tool for McpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(async move {
            match self.connection.call(&self.tool, call.arguments).await {
                Ok(result) => content::outcome(result, self.spec.max_output),
                Err(problem) => ToolOutcome::Failed(problem),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_short_and_different() {
        let long = "x".repeat(80);
        let longer = "x".repeat(81);
        let tools = BTreeSet::from(["read_file", "a.b", "a/b", "größe", long.as_str(), longer.as_str()]);
        let names = names("my files", &tools);
        assert_eq!(names["read_file"], "my_files__read_file");
        assert_eq!(names["größe"], "my_files__gr__e");
        assert!(names["a.b"].starts_with("my_files__a_b_") && names["a/b"].starts_with("my_files__a_b_"));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        assert!(names.values().all(|name| name.len() <= NAME && name.chars().all(fits)), "{names:?}");
        assert_eq!(names.values().collect::<BTreeSet<_>>().len(), tools.len(), "{names:?}");
    }
}
