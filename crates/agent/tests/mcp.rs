//! Tools of a real MCP server, and everything that can go wrong with one.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrollback_agent::tool::mcp::{McpServer, McpTransport, connect};
use scrollback_agent::tool::{Call, Effects, Tool, ToolOutcome, ToolOutput, Toolbox};
use scrollback_agent::{AgentError, AgentErrorKind};
use serde_json::{Value, json};

use crate::support::mcp_server::program;

fn server(arguments: &[&str]) -> McpServer {
    let argv = std::iter::once(program()).chain(arguments.iter().copied()).map(String::from).collect();
    McpServer { timeout: Duration::from_secs(20), ..McpServer::new("test", McpTransport::Command(argv)) }
}

async fn tools(server: McpServer) -> Toolbox {
    let mut tools = Toolbox::default();
    for tool in connect(server).await.unwrap() {
        tools.add(tool).unwrap();
    }
    tools
}

async fn refused(server: McpServer) -> AgentError {
    match connect(server).await {
        Err(error) => error,
        Ok(_) => panic!("the server is fine"),
    }
}

fn call(tool: &dyn Tool, arguments: &Value) -> impl Future<Output = ToolOutcome> {
    tool.call(Call { id: "call_7".into(), arguments: arguments.as_object().unwrap().clone() })
}

async fn run(tools: &Toolbox, name: &str, arguments: Value) -> ToolOutcome {
    call(tools.get(name).unwrap().as_ref(), &arguments).await
}

fn text(text: &str) -> ToolOutcome {
    ToolOutcome::Done(ToolOutput::Text(text.into()))
}

fn failure(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Failed(problem) => problem,
        other => panic!("{other:?}"),
    }
}

/// Waits for other processes to get somewhere.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn runs(pid: &str) -> bool {
    // A zombie has ended; only its parent does not know yet.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

/// The same server over HTTP, until it is dropped.
struct Http {
    child: Child,
    port: u16,
}

impl Http {
    fn start(port: u16) -> Self {
        let mut child =
            Command::new(program()).args(["http", &port.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().unwrap().parse().unwrap();
        Http { child, port }
    }

    fn server(&self) -> McpServer {
        let url = format!("http://127.0.0.1:{}/", self.port);
        let headers = vec![("x-key".to_string(), "secret".to_string())];
        McpServer {
            timeout: Duration::from_secs(20),
            ..McpServer::new("web", McpTransport::Http { url, headers })
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_tools_of_all_pages_are_listed_and_can_be_called() {
    let tools = tools(server(&["stdio"])).await;
    let names: Vec<&str> = tools.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"test__echo"));
    assert_eq!(names.last(), Some(&"test__dotted_name"));
    assert_eq!(names.len(), 10);
    let echo = tools.get("test__echo").unwrap().spec();
    assert_eq!(echo.description, "Says it again");
    assert_eq!(echo.parameters["required"], json!(["text"]));
    assert_eq!(echo.effects, Effects::Read);
    assert_eq!(tools.get("test__fail").unwrap().spec().effects, Effects::Write);

    assert_eq!(run(&tools, "test__echo", json!({ "text": "good morning" })).await, text("good morning"));
    assert_eq!(
        run(&tools, "test__sum", json!({})).await,
        ToolOutcome::Done(ToolOutput::Json(json!({ "sum": 5 })))
    );
    let image = json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" });
    let parts = vec![json!({ "type": "text", "text": "a dot" }), json!({ "type": "image", "source": image })];
    assert_eq!(run(&tools, "test__picture", json!({})).await, ToolOutcome::Done(ToolOutput::Parts(parts)));
    assert_eq!(failure(run(&tools, "test__fail", json!({})).await), "no such file");
    // The server's own name is used for the call, and what it refuses is a result.
    let problem = failure(run(&tools, "test__dotted_name", json!({})).await);
    assert_eq!(problem, "tool dotted.name is not implemented");
}

#[tokio::test]
async fn only_allowed_tools_are_had_and_unknown_ones_are_told() {
    let allow = |names: &[&str]| McpServer {
        allow: Some(names.iter().map(|name| (*name).to_string()).collect()),
        ..server(&["stdio"])
    };
    let tools = tools(allow(&["fail", "dotted.name"])).await;
    let names: Vec<&str> = tools.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["test__fail", "test__dotted_name"]);

    let error = refused(allow(&["fail", "read_file"])).await;
    assert_eq!(error.kind(), AgentErrorKind::ServerTool);
    assert_eq!(
        error.to_string(),
        "MCP server \"test\": unknown tool \"read_file\"; known: child, crash, crash_once, \
         dotted.name, echo, environment, fail, picture, slow, sum"
    );
}

#[tokio::test]
async fn a_server_that_crashes_in_a_call_is_started_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let tools = tools(server(&["stdio"])).await;
    let path = folder.path().join("crashed");
    assert_eq!(run(&tools, "test__crash_once", json!({ "path": path })).await, text("here again"));
    assert_eq!(run(&tools, "test__echo", json!({ "text": "x" })).await, text("x"));
}

#[tokio::test]
async fn calls_at_once_all_outlive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let tools = tools(server(&["stdio"])).await;
    let path = json!({ "path": folder.path().join("crashed") });
    let (one, other) = tokio::join!(
        run(&tools, "test__crash_once", path.clone()),
        run(&tools, "test__crash_once", path.clone())
    );
    assert_eq!((one, other), (text("here again"), text("here again")));
}

#[tokio::test]
async fn a_server_that_always_crashes_gives_failures_and_no_hang() {
    let tools = tools(server(&["stdio"])).await;
    for _ in 0..3 {
        let problem = failure(run(&tools, "test__crash", json!({})).await);
        assert_eq!(
            problem,
            "lost the connection to MCP server test: the connection was closed: exit code 3: the disk is on fire"
        );
    }
    // Whatever else it has still works.
    assert_eq!(run(&tools, "test__echo", json!({ "text": "x" })).await, text("x"));
}

#[tokio::test]
async fn a_program_that_is_no_server_is_told_with_what_it_said() {
    let sh = |script: &str| {
        McpServer::new("bad", McpTransport::Command(["sh", "-c", script].map(String::from).to_vec()))
    };
    let told = |error: &AgentError| (error.kind(), error.to_string());
    let (kind, problem) = told(&refused(sh("echo no root given >&2; exit 7")).await);
    assert_eq!(kind, AgentErrorKind::ServerUnreachable);
    assert!(problem.ends_with("exit code 7: no root given"), "{problem}");
    let slow = McpServer { timeout: Duration::from_millis(500), ..sh("echo thinking >&2; exec sleep 1000") };
    let (kind, problem) = told(&refused(slow).await);
    assert_eq!(kind, AgentErrorKind::ServerUnreachable);
    assert_eq!(problem, "MCP server \"bad\": no answer within 0.5 s: thinking");
    let error =
        json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32600, "message": "a key is missing" } });
    let (kind, problem) = told(&refused(sh(&format!("read line; echo '{error}'; cat"))).await);
    assert_eq!(kind, AgentErrorKind::ServerUnreachable);
    assert_eq!(problem, "MCP server \"bad\": it refused the connection: a key is missing");

    let missing = McpServer::new("bad", McpTransport::Command(vec!["/no/such/program".into()]));
    let (kind, problem) = told(&refused(missing).await);
    assert_eq!(kind, AgentErrorKind::ServerUnreachable);
    assert!(problem.contains("\"/no/such/program\" cannot be started"), "{problem}");
    let empty = McpServer::new("bad", McpTransport::Command(Vec::new()));
    assert_eq!(refused(empty).await.kind(), AgentErrorKind::ServerSetting);
}

#[tokio::test]
async fn a_server_inherits_nothing_but_what_it_lists() {
    // Cargo sets both of these for its tests.
    let server = McpServer { env: vec!["CARGO_PKG_NAME".into()], ..server(&["stdio"]) };
    let tools = tools(server).await;
    let ToolOutcome::Done(said) = run(&tools, "test__environment", json!({})).await else { panic!() };
    let said = said.into_text();
    assert!(said.split(' ').any(|name| name == "CARGO_PKG_NAME"), "{said}");
    let expected = ["PATH", "HOME", "LANG", "CARGO_PKG_NAME"];
    assert!(said.split(' ').all(|name| expected.contains(&name)), "{said}");
}

#[tokio::test]
async fn server_and_children_end_with_the_last_tool() {
    let mut tools = connect(server(&["stdio"])).await.unwrap();
    let child = tools.iter().position(|tool| tool.spec().name == "test__child").unwrap();
    let last = tools.swap_remove(child);
    let ToolOutcome::Done(pids) = call(last.as_ref(), &json!({})).await else { panic!() };
    let pids = pids.into_text();
    let pids: Vec<&str> = pids.split(' ').collect();
    drop(tools);
    assert!(pids.iter().all(|pid| runs(pid)), "others went, the last tool is still here");
    drop(last);
    eventually("all have ended", || !pids.iter().any(|pid| runs(pid))).await;
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_does_not_hide_that_the_server_is_gone() {
    let tools = tools(server(&["stdio"])).await;
    let ToolOutcome::Done(pids) = run(&tools, "test__child", json!({})).await else { panic!() };
    let problem = failure(run(&tools, "test__crash", json!({})).await);
    assert!(problem.starts_with("lost the connection to MCP server test"), "{problem}");
    let pids = pids.into_text();
    eventually("the child has ended", || !pids.split(' ').any(runs)).await;
}

#[tokio::test]
async fn garbage_on_standard_output_is_passed_over() {
    let tools = tools(server(&["garbage"])).await;
    assert_eq!(run(&tools, "test__echo", json!({ "text": "x" })).await, text("x"));
}

#[tokio::test]
async fn an_endless_list_of_tools_ends() {
    let error = refused(server(&["pages"])).await;
    assert_eq!(error.to_string(), "MCP server \"test\": its list of tools has more than 100 pages");
}

#[tokio::test]
async fn a_server_that_only_knows_the_newer_greeting_is_greeted_that_way() {
    let tools = tools(server(&["modern"])).await;
    assert_eq!(run(&tools, "test__echo", json!({ "text": "x" })).await, text("x"));
}

async fn is_cancelled_when_nobody_waits(server: McpServer) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("state");
    let tools = connect(server).await.unwrap();
    let slow = tools.iter().find(|tool| tool.spec().name.ends_with("__slow")).map(Arc::clone).unwrap();
    let arguments = json!({ "path": path });
    let state = || std::fs::read_to_string(&path).unwrap_or_default();
    tokio::select! {
        outcome = call(slow.as_ref(), &arguments) => panic!("{outcome:?}"),
        () = eventually("the call has begun", || state() == "started") => {}
    }
    eventually("the server was told", || state() == "cancelled").await;
    let echo = tools.iter().find(|tool| tool.spec().name.ends_with("__echo")).unwrap();
    assert_eq!(call(echo.as_ref(), &json!({ "text": "x" })).await, text("x"));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    is_cancelled_when_nobody_waits(server(&["stdio"])).await;
}

#[tokio::test]
async fn a_call_over_http_that_nobody_waits_for_is_cancelled() {
    let http = Http::start(0);
    is_cancelled_when_nobody_waits(http.server()).await;
}

#[tokio::test]
async fn a_server_over_http_is_reached_again_after_it_was_gone() {
    let http = Http::start(0);
    let port = http.port;
    let tools = tools(http.server()).await;
    assert_eq!(tools.specs().len(), 10);
    assert_eq!(run(&tools, "web__echo", json!({ "text": "x" })).await, text("x"));
    assert_eq!(failure(run(&tools, "web__fail", json!({})).await), "no such file");
    drop(http);
    for _ in 0..2 {
        let problem = failure(run(&tools, "web__echo", json!({ "text": "x" })).await);
        assert!(problem.starts_with("lost the connection to MCP server web: "), "{problem}");
        assert!(problem.contains("refused") && !problem.contains("secret"), "{problem}");
    }
    // The new one does not know the old one's sessions.
    let _again = Http::start(port);
    assert_eq!(run(&tools, "web__echo", json!({ "text": "x" })).await, text("x"));
}

#[tokio::test]
async fn a_server_over_http_that_dies_in_a_call_gives_a_failure() {
    let http = Http::start(0);
    let tools = tools(http.server()).await;
    let problem = failure(run(&tools, "web__crash", json!({})).await);
    assert!(problem.starts_with("lost the connection to MCP server web: "), "{problem}");
}

#[tokio::test]
async fn servers_over_http_must_be_safe() {
    let at = |url: &str, header: &str| {
        let headers = vec![(header.to_string(), "secret".to_string())];
        McpServer::new("web", McpTransport::Http { url: url.into(), headers })
    };
    for (url, header, wanted) in [
        ("http://example.org/mcp", "x-key", "must be https, unless it is on this machine"),
        ("not a url", "x-key", "relative URL without a base"),
        ("https://example.org/mcp", "no header", "\"no header\" is not a valid header"),
    ] {
        let error = refused(at(url, header)).await;
        assert_eq!(error.kind(), AgentErrorKind::ServerSetting);
        assert_eq!(error.to_string(), format!("MCP server \"web\": {wanted}"));
    }
    let error = refused(at("http://127.0.0.1:1/", "x-key")).await;
    assert_eq!(error.kind(), AgentErrorKind::ServerUnreachable);
    assert!(error.to_string().contains("refused"), "{error}");
}
