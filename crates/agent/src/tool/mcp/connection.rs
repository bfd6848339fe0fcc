//! The connection to a server: opened, used by all its tools, and opened once more when the server has gone.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientLifecycleMode, RoleClient, ServiceError, serve_client_with_lifecycle};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::program::Program;
use super::{McpServer, McpTransport};
use crate::net::{Follow, client, headers, innermost, safe_url, within};

/// How many pages of tools are read: more than any server has; an endless list is noticed.
const PAGES: usize = 100;
/// How often a broken stream is asked for again, and how long after it broke: together four seconds.
const STREAM_RETRIES: usize = 4;
const STREAM_DELAY: Duration = Duration::from_millis(250);

/// A server and what is open to it.
pub(super) struct Connection {
    name: String,
    way: Way,
    timeout: Duration,
    link: Mutex<Option<Arc<OpenConnection>>>,
}

/// How to reach a server, checked.
enum Way {
    Command { program: String, arguments: Vec<String>, folder: PathBuf, env: Vec<String> },
    Http { client: Client, config: StreamableHttpClientTransportConfig },
}

/// What is open to a server.
struct OpenConnection {
    service: RunningService<RoleClient, ClientConfig>,
    program: Option<Program>,
}

/// What keeps a server from answering.
enum Trouble {
    /// It is not there any more.
    Gone(String),
    /// It is there and will not.
    Refused(String),
}

impl Connection {
    /// A connection that is not open yet; what is wrong with the server's description otherwise.
    pub(super) fn new(server: &McpServer) -> Result<Self, String> {
        let way = match &server.reach {
            McpTransport::Command(argv) => {
                let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
                Way::Command {
                    program: program.clone(),
                    arguments: arguments.to_vec(),
                    folder: server.folder.clone(),
                    env: server.env.clone(),
                }
            }
            McpTransport::Http { url, headers: named } => {
                let url = safe_url(url)?;
                let client = client(within(&url, Follow::Whole)).map_err(|error| error.to_string())?;
                let headers = headers(named)?.into_iter().filter_map(|(name, value)| Some((name?, value)));
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers.collect());
                let mut retries = ExponentialBackoff::default();
                (retries.max_times, retries.base_duration) = (Some(STREAM_RETRIES), STREAM_DELAY);
                config.retry_config = Arc::new(retries);
                Way::Http { client, config }
            }
        };
        Ok(Connection { name: server.name.clone(), way, timeout: server.timeout, link: Mutex::default() })
    }

    /// All tools of the server.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, String> {
        let link = self.link_after(None).await?;
        let listing = async {
            let mut tools = Vec::new();
            let mut page = PaginatedRequestParams::default();
            for _ in 0..PAGES {
                let listed = link.service.list_tools(Some(page)).await.map_err(OpenConnection::trouble);
                let listed = match listed {
                    Ok(listed) => listed,
                    Err(trouble) => return Err(link.explain(trouble).await.into_text()),
                };
                tools.extend(listed.tools);
                let Some(next) = listed.next_cursor else { return Ok(tools) };
                page = PaginatedRequestParams::default().with_cursor(Some(next));
            }
            Err(format!("its list of tools has more than {PAGES} pages"))
        };
        tokio::time::timeout(self.timeout, listing).await.unwrap_or_else(|_| Err(self.late()))
    }

    /// Calls a tool. A server that has gone is started once more for it.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, String> {
        let held = self.link.lock().await.clone().filter(|link| link.is_open());
        if let Some(link) = &held {
            match link.call(tool, arguments.clone()).await {
                Err(Trouble::Gone(_)) => {}
                Err(Trouble::Refused(problem)) => return Err(problem),
                Ok(result) => return Ok(result),
            }
        }
        let gone = |problem: String| format!("lost the connection to MCP server {}: {problem}", self.name);
        let link = self.link_after(held).await.map_err(gone)?;
        link.call(tool, arguments).await.map_err(|trouble| match trouble {
            Trouble::Gone(problem) => gone(problem),
            Trouble::Refused(problem) => problem,
        })
    }

    /// A link that is not the one lost: what another call has opened meanwhile, or a new one.
    async fn link_after(&self, lost: Option<Arc<OpenConnection>>) -> Result<Arc<OpenConnection>, String> {
        let mut held = self.link.lock().await;
        let is_lost = |link: &Arc<OpenConnection>| lost.as_ref().is_some_and(|lost| Arc::ptr_eq(lost, link));
        if let Some(link) = held.as_ref().filter(|link| link.is_open() && !is_lost(link)) {
            return Ok(Arc::clone(link));
        }
        // What is left of the old one ends before a new one starts.
        *held = None;
        drop(lost);
        let link = Arc::new(self.open().await?);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Starts the server if it is a program, and greets it: in the way all servers understood until 2026, then, if it
    /// refuses that, in the way of those that came later.
    async fn open(&self) -> Result<OpenConnection, String> {
        let refusal = match self.greet(ClientLifecycleMode::Initialize).await {
            Ok(link) => return Ok(link),
            Err(Trouble::Gone(problem)) => return Err(problem),
            Err(Trouble::Refused(problem)) => problem,
        };
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        // Of two refusals the first says more: it may be about a key that is missing.
        self.greet(ClientLifecycleMode::Discover { preferred_versions }).await.map_err(|_| refusal)
    }

    async fn greet(&self, lifecycle: ClientLifecycleMode) -> Result<OpenConnection, Trouble> {
        let me = Implementation::new("scrollback", env!("CARGO_PKG_VERSION"));
        let me = ClientConfig::new(ClientCapabilities::default(), me);
        let (greeted, program) = match &self.way {
            Way::Command { program, arguments, folder, env } => {
                let (program, stdout, stdin) =
                    Program::start((program, arguments), folder, env).map_err(Trouble::Gone)?;
                let greeting = serve_client_with_lifecycle(me, (stdout, stdin), lifecycle);
                (tokio::time::timeout(self.timeout, greeting).await, Some(program))
            }
            Way::Http { client, config } => {
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config.clone());
                let greeting = serve_client_with_lifecycle(me, transport, lifecycle);
                (tokio::time::timeout(self.timeout, greeting).await, None)
            }
        };
        let problem = match greeted {
            Ok(Ok(service)) => return Ok(OpenConnection { service, program }),
            Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
                return Err(Trouble::Refused(format!("it refused the connection: {}", error.message)));
            }
            Ok(Err(ClientInitializeError::TransportError { error, .. })) => cause(error.error.as_ref()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => self.late(),
        };
        Err(Trouble::Gone(with_last_words(problem, program.as_ref()).await))
    }

    fn late(&self) -> String {
        format!("no answer within {} s", self.timeout.as_secs_f32())
    }
}

impl OpenConnection {
    fn is_open(&self) -> bool {
        !self.service.peer().is_transport_closed()
    }

    async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallToolResult, Trouble> {
        let call = CallToolRequestParams::new(tool.to_string()).with_arguments(arguments);
        match self.service.call_tool(call).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.explain(OpenConnection::trouble(error)).await),
        }
    }

    fn trouble(error: ServiceError) -> Trouble {
        match error {
            ServiceError::TransportClosed => Trouble::Gone("the connection was closed".into()),
            ServiceError::TransportSend(error) => {
                let problem = cause(error.error.as_ref());
                if answered(error.error.as_ref()) {
                    Trouble::Refused(problem)
                } else {
                    Trouble::Gone(problem)
                }
            }
            ServiceError::McpError(error) => Trouble::Refused(error.message.into_owned()),
            error => Trouble::Refused(error.to_string()),
        }
    }

    /// The same trouble with what the program said, if it is one.
    async fn explain(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Gone(problem) => Trouble::Gone(with_last_words(problem, self.program.as_ref()).await),
            refused @ Trouble::Refused(_) => refused,
        }
    }
}

impl Trouble {
    fn into_text(self) -> String {
        match self {
            Trouble::Gone(problem) | Trouble::Refused(problem) => problem,
        }
    }
}

async fn with_last_words(problem: String, program: Option<&Program>) -> String {
    let Some(program) = program else { return problem };
    match program.last_words().await {
        Some(said) => format!("{problem}: {said}"),
        None => problem,
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// The cause behind all others, which says most and repeats nothing of the request.
fn cause(error: &(dyn Error + 'static)) -> String {
    match (error.downcast_ref::<HttpError>(), error.source()) {
        (Some(HttpError::Client(error)), _) => innermost(error).to_string(),
        (_, Some(inner)) => cause(inner),
        (_, None) => error.to_string(),
    }
}

/// Whether a server that is there gave a bad answer, so that asking again would not help.
fn answered(error: &(dyn Error + 'static)) -> bool {
    let bad_answer = matches!(
        error.downcast_ref::<HttpError>(),
        Some(
            HttpError::HttpStatus(_)
                | HttpError::AuthRequired(_)
                | HttpError::InsufficientScope(_)
                | HttpError::UnexpectedServerResponse(_)
                | HttpError::UnexpectedContentType(_)
                | HttpError::Deserialize(_)
        )
    );
    bad_answer || error.source().is_some_and(answered)
}
