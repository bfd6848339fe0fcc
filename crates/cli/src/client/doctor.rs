//! For `scrollback doctor`: whether each client that is installed goes through Scrollback, and when it last did.

use std::net::SocketAddr;

use scrollback_store::{CallListing, Sent, Store, Tenant};

use super::Client;
use super::machine::ClientMachine;
use super::running::{AddressState, look};
use super::setup::{leads_to, server_address};
use super::upstream::surroundings;
use crate::failure::Failure;
use crate::server::busy_port::holder_of;
use crate::store::short;

/// How many of the newest calls are looked at.
const CALLS: usize = 500;

/// One client.
pub(crate) struct ClientState {
    pub(crate) client: Client,
    /// Whether its configuration leads to the server.
    pub(crate) through: bool,
    /// The newest call on the wire that only it speaks here.
    pub(crate) last_call: Option<String>,
}

/// What is on the configured port.
pub(crate) struct PortState {
    pub(crate) address: SocketAddr,
    pub(crate) answers: bool,
    pub(crate) ok: bool,
    pub(crate) detail: String,
}

/// Looks at the configured port.
pub(crate) fn port() -> Result<PortState, Failure> {
    let address = server_address()?;
    let (answers, ok, detail) = match look(address) {
        AddressState::Server(running) => {
            (true, true, format!("a server answers, version {}, {}", running.version, running.store))
        }
        AddressState::Locked { version } => {
            (true, true, format!("a server answers, version {version}, with keys"))
        }
        AddressState::Nothing => {
            (false, true, "free; `scrollback serve` or `scrollback wrap CLIENT` uses it".into())
        }
        AddressState::Other => {
            let who = holder_of(address.port()).map_or_else(
                || "another program".into(),
                |holder| format!("{} (process {})", holder.name, holder.id),
            );
            (false, false, format!("{who} has the port; set `listen` of [server] in scrollback.toml"))
        }
    };
    Ok(PortState { address, answers, ok, detail: format!("{address}: {detail}") })
}

/// The clients that are installed here.
pub(crate) async fn clients(
    server: SocketAddr,
    store: Option<&dyn Store>,
) -> Result<Vec<ClientState>, Failure> {
    let machine = ClientMachine::here()?;
    let installed = Client::ALL.into_iter().filter(|client| machine.program(client.name()).is_some());
    let calls = match store {
        Some(store) => {
            let newest = CallListing { limit: CALLS, ..CallListing::default() };
            store.calls(&Tenant::default(), newest).await.map(|page| page.calls).unwrap_or_default()
        }
        None => Vec::new(),
    };
    let state = |client: Client| {
        let stated = surroundings(Some(client), &machine, &[]).upstreams;
        let urls = [stated.openai, stated.anthropic, stated.gemini];
        let through = urls.iter().flatten().any(|url| leads_to(url, server));
        let last_call = calls.iter().find(|call| wire(client) == Some(call.wire.as_str())).map(told);
        ClientState { client, through, last_call }
    };
    Ok(installed.map(state).collect())
}

/// The wire by which a client's calls are told from those of others in the record; none for clients that speak several.
fn wire(client: Client) -> Option<&'static str> {
    match client {
        Client::Claude => Some("anthropic"),
        Client::Codex => Some("openai-responses"),
        Client::Gemini => Some("gemini"),
        Client::Opencode | Client::Aider => None,
    }
}

fn told(call: &Sent) -> String {
    format!("on its wire {} to {} ({})", short(call.started_at), call.model, call.status)
}
