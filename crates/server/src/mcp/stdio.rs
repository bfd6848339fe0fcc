//! `scrollback mcp`: the recall tools over standard input and output, for the client that started the process.

use std::sync::Arc;

use rmcp::ServiceExt;
use scrollback_agent::Clock;
use scrollback_store::{Store, Tenant};

use super::{RecallServer, Whereabouts};

/// What the process that asks was given by its client.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// What the session is called: by the client's own id, by ours, or by a handle.
    pub session: Vec<String>,
    /// The working directory, by which the session is found where it is not named.
    pub folder: Option<String>,
    /// Whether it may pin.
    pub writes: bool,
}

/// Answers on standard output what is asked on standard input, until that ends.
pub async fn serve_stdio(
    store: Arc<dyn Store>,
    tenant: Tenant,
    clock: Arc<dyn Clock>,
    asker: Asker,
) -> Result<(), String> {
    // Who starts the process reads the store itself, so nothing is hidden from it.
    let (writes, whereabouts) = (asker.writes, Whereabouts::Process(asker));
    let server = RecallServer { store, tenant, clock, whereabouts, redactor: None, writes };
    let running = match server.serve(rmcp::transport::stdio()).await {
        Ok(running) => running,
        // A client that leaves before it has said anything is not an error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(|_| ()).map_err(|error| error.to_string())
}
