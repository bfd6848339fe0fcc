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
use scrollback_core::recall::RecallTool;
use scrollback_store::recall::{Deadline, Here, RecallReply, answer};
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
}

impl RecallServer {
    async fn reply(&self, tool: RecallTool, arguments: &Value) -> RecallReply {
        let here = match self.whereabouts.here(&*self.store, &self.tenant).await {
            Ok(here) => here,
            Err(error) => {
                let away = scrollback_store::recall::NoAnswer::Store(error);
                return RecallReply { text: away.to_string(), failed: true };
            }
        };
        let (clock, until) = (Arc::clone(&self.clock), self.clock.now().0 + LIMIT.as_millis() as i64);
        let deadline = Deadline::new(move || clock.now().0 >= until);
        answer(&*self.store, &self.tenant, &here, tool, arguments, &deadline).await
    }
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
        Ok(ListToolsResult::with_all_items(RecallTool::ALL.map(listed).to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        RecallTool::named(name).map(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = RecallTool::named(&request.name) else {
            let known = RecallTool::ALL.map(RecallTool::name).join(", ");
            return Err(ErrorData::invalid_params(format!("unknown tool; there are {known}"), None));
        };
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let RecallReply { text, failed } = self.reply(tool, &arguments).await;
        let content = vec![ContentBlock::text(text)];
        let result = if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
        Ok(result.into())
    }
}
