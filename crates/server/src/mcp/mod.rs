//! The recall tools as a server of the Model Context Protocol: over standard input and output for `scrollback mcp`, and over
//! HTTP at `/mcp`.
//!
//! The protocol is `rmcp`'s. Over HTTP every request stands for itself, whatever version a client speaks, so any server that
//! shares the store can answer it. What a tool answers is decided in the store's `recall`.

mod http;
mod stdio;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use scrollback_agent::Clock;
use scrollback_core::recall::{BadHandle, Handle, RecallTool};
use scrollback_core::redact::Redactor;
use scrollback_store::recall::{self, Deadline, Here, Pinning, RecallReply, answer};
use scrollback_store::{Store, StoreError, Tenant};
use serde_json::Value;

pub(crate) use http::router;
pub use stdio::{Asker, serve_stdio};

/// How long one call of a tool may take. Searches end there with what they found.
const LIMIT: Duration = Duration::from_secs(5);

/// What clients show of the server, and tell their model.
const INSTRUCTIONS: &str = "Everything that was said in your sessions is kept, also what is no longer in your context: messages, \
     tool calls and their full results. When a detail is missing, search for two or three words near it, then read the handle \
     (sb:…#N). Nothing found: widen with scope=project or scope=all.";

/// The protocol versions that are answered, oldest first.
const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// How the session of a caller is found, each time it calls: sessions begin while a client runs.
#[derive(Clone, Debug)]
enum Whereabouts {
    /// By what a request over HTTP says.
    Named(Vec<String>),
    /// By what a client's process was given.
    Process(Asker),
}

impl Whereabouts {
    async fn here(&self, store: &dyn Store, tenant: &Tenant) -> Result<Here, StoreError> {
        let (names, folder) = match self {
            Whereabouts::Named(names) => (names.as_slice(), None),
            Whereabouts::Process(asker) => (asker.session.as_slice(), asker.folder.as_deref()),
        };
        for name in names {
            if let Some(here) = Here::called(store, tenant, name).await? {
                return Ok(here);
            }
        }
        if let Some(folder) = folder
            && let Some(here) = Here::in_folder(store, tenant, folder).await?
        {
            return Ok(here);
        }
        Ok(Here::nowhere(match (names, folder) {
            ([], None) => "the client named none",
            ([], Some(_)) => "none is recorded for this working directory",
            _ => "the one the client named is not recorded yet",
        }))
    }
}

/// A server of the recall tools for one caller.
#[derive(Clone)]
struct RecallServer {
    store: Arc<dyn Store>,
    tenant: Tenant,
    clock: Arc<dyn Clock>,
    whereabouts: Whereabouts,
    /// What takes secrets out of texts, for callers who may not see them.
    redactor: Option<Arc<Redactor>>,
    /// Whether the caller may pin.
    writes: bool,
}

impl RecallServer {
    async fn reply(&self, tool: RecallTool, arguments: &Value) -> RecallReply {
        let here = match self.whereabouts.here(&*self.store, &self.tenant).await {
            Ok(here) => match &self.redactor {
                Some(redactor) => here.seen_through(Arc::clone(redactor)),
                None => here,
            },
            Err(error) => {
                let away = scrollback_store::recall::NoAnswer::Store(error);
                return RecallReply { text: away.to_string(), failed: true };
            }
        };
        let (clock, until) = (Arc::clone(&self.clock), self.clock.now().0 + LIMIT.as_millis() as i64);
        let deadline = Deadline::new(move || clock.now().0 >= until);
        answer(&*self.store, &self.tenant, &here, tool, arguments, &deadline).await
    }

    /// Pins what a handle names, or pins it no longer.
    async fn pin(&self, arguments: &Value) -> RecallReply {
        let refused = |text: String| RecallReply { text, failed: true };
        let given = |name: &str| arguments.get(name).filter(|value| !value.is_null());
        let Some(handle) = given("handle").and_then(Value::as_str) else {
            return refused("`handle` is missing; give one such as sb:k7q2m9x4td#412".into());
        };
        let handle: Handle = match handle.parse() {
            Ok(handle) => handle,
            Err(error) => return refused(BadHandle::to_string(&error)),
        };
        let pinning = match given("pinned") {
            None | Some(Value::Bool(true)) => Pinning::Pin,
            Some(Value::Bool(false)) => Pinning::Unpin,
            Some(_) => return refused("`pinned` must be true or false".into()),
        };
        let done = recall::pin(&*self.store, &self.tenant, &handle, pinning, self.clock.now()).await;
        match done {
            Ok((_, positions, _)) => {
                let word = if pinning == Pinning::Pin { "pinned" } else { "no longer pinned" };
                let entries = if positions.len() == 1 { "entry" } else { "entries" };
                let text = format!("{handle}: {} {entries} {word}", positions.len());
                RecallReply { text, failed: false }
            }
            Err(no_answer) => refused(no_answer.to_string()),
        }
    }
}

/// The name of the tool that pins, offered where the configuration allows writing.
const PIN: &str = "pin";

/// The tool that pins, as the protocol lists it.
fn pin_tool() -> Tool {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "handle": { "type": "string", "description": "A handle such as sb:k7q2m9x4td#412" },
            "pinned": { "type": "boolean", "description": "false to pin it no longer; true if not given" }
        },
        "required": ["handle"],
        "additionalProperties": false
    });
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => serde_json::Map::new(),
    };
    let about = "Keep what a handle names in your context for good: it is no longer left out or shortened.";
    let annotations =
        ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false);
    Tool::new(PIN, about, Arc::new(schema)).with_annotations(annotations)
}

/// A tool as the protocol lists it.
fn listed(tool: RecallTool) -> Tool {
    let schema = match tool.schema() {
        Value::Object(schema) => schema,
        _ => serde_json::Map::new(),
    };
    let annotations =
        ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(tool.name(), tool.description(), Arc::new(schema)).with_annotations(annotations)
}

impl ServerHandler for RecallServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("scrollback", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        VERSIONS.to_vec().into()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let pin = self.writes.then(pin_tool);
        Ok(ListToolsResult::with_all_items(RecallTool::ALL.map(listed).into_iter().chain(pin).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let pin = || (self.writes && name == PIN).then(pin_tool);
        RecallTool::named(name).map(listed).or_else(pin)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let RecallReply { text, failed } = match RecallTool::named(&request.name) {
            Some(tool) => self.reply(tool, &arguments).await,
            None if self.writes && request.name == PIN => self.pin(&arguments).await,
            None => {
                let known = RecallTool::ALL.map(RecallTool::name).join(", ");
                return Err(ErrorData::invalid_params(format!("unknown tool; there are {known}"), None));
            }
        };
        let content = vec![ContentBlock::text(text)];
        let result = if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
        Ok(result.into())
    }
}
