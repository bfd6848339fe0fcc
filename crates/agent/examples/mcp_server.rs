//! A small MCP server whose tools show what a client must live with: images, failures, crashes, slowness.
//!
//! `mcp_server [stdio|garbage|pages|modern]` speaks over its standard streams; `mcp_server http PORT` over HTTP,
//! and first prints its address. The tests of MCP tools run it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::zombie_processes)]

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};

/// How the server behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Usual,
    /// Lists its tools on pages that never end.
    Pages,
    /// Does not know the greeting of older clients.
    Modern,
}

#[derive(Clone)]
struct Tools(Mode);

fn tools() -> Vec<Tool> {
    let schema = |properties: Value| -> Arc<Map<String, Value>> {
        Arc::new(json!({ "type": "object", "properties": properties }).as_object().unwrap().clone())
    };
    let path = || schema(json!({ "path": { "type": "string" } }));
    let none = || schema(json!({}));
    vec![
        Tool::new(
            "echo",
            "Says it again",
            Arc::new(
                json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] })
                    .as_object()
                    .unwrap()
                    .clone(),
            ),
        )
        .with_annotations(ToolAnnotations::new().read_only(true)),
        Tool::new("picture", "A picture", none()),
        Tool::new("fail", "Fails", none()),
        Tool::new("sum", "Adds", none()),
        Tool::new("environment", "The names of all variables", none()),
        Tool::new("crash", "Ends the server", none()),
        Tool::new("crash_once", "Ends the server unless a file is there, which it writes", path()),
        Tool::new("slow", "Writes a file and waits; writes to it again when it is cancelled", path()),
        Tool::new("child", "Starts a program that runs on", none()),
        Tool::new("dotted.name", "Has a name that models may not call", none()),
    ]
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.0 {
            Mode::Modern => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            Mode::Usual | Mode::Pages => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let half = tools().len() / 2;
        let (tools, next) = match (self.0, cursor) {
            (Mode::Pages, _) => (Vec::new(), Some("again".to_string())),
            (_, None) => (tools().into_iter().take(half).collect(), Some("rest".to_string())),
            (_, Some(_)) => (tools().into_iter().skip(half).collect(), None),
        };
        Ok(ListToolsResult { next_cursor: next, ..ListToolsResult::with_all_items(tools) })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text_of =
            |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        let result = match request.name.as_ref() {
            "echo" => text(text_of("text")),
            "picture" => CallToolResult::success(vec![
                ContentBlock::text("a dot"),
                ContentBlock::image("iVBORw0KGgo=", "image/png"),
            ]),
            "fail" => CallToolResult::error(vec![ContentBlock::text("no such file")]),
            "sum" => {
                let mut sum = CallToolResult::success(Vec::new());
                sum.structured_content = Some(json!({ "sum": 5 }));
                sum
            }
            "environment" => {
                let names: Vec<String> =
                    std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                text(names.join(" "))
            }
            "crash" => crash(),
            "crash_once" => {
                let path = text_of("path");
                if !Path::new(&path).exists() {
                    std::fs::write(&path, "crashed").unwrap();
                    crash();
                }
                text("here again".into())
            }
            "slow" => {
                std::fs::write(text_of("path"), "started").unwrap();
                context.ct.cancelled().await;
                std::fs::write(text_of("path"), "cancelled").unwrap();
                text("too late".into())
            }
            "child" => {
                // It holds the server's pipes open, as children do.
                let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
                text(format!("{} {}", std::process::id(), child.id()))
            }
            other => return Err(ErrorData::invalid_params(format!("tool {other} is not implemented"), None)),
        };
        Ok(result.into())
    }
}

fn crash() -> ! {
    eprintln!("the disk is on fire");
    std::process::exit(3)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = match arguments.first().map(String::as_str) {
        Some("http") => return http(arguments.get(1).expect("a port").parse().expect("a port")).await,
        Some("garbage") => {
            let mut out = std::io::stdout();
            out.write_all(b"Welcome to the server!\n\xff\xfe\x00{\n{\"half\": \n[1, 2]\n\n").unwrap();
            out.flush().unwrap();
            Mode::Usual
        }
        Some("pages") => Mode::Pages,
        Some("modern") => Mode::Modern,
        _ => Mode::Usual,
    };
    let running = Tools(mode).serve(rmcp::transport::stdio()).await.expect("a client");
    let _ = running.waiting().await;
}

async fn http(port: u16) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let service = StreamableHttpService::new(
        || Ok(Tools(Mode::Usual)),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
