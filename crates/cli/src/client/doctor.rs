//! For `scrollback doctor`: whether each client that is installed goes through Scrollback, and when it last did.

use std::collections::HashMap;
use std::net::SocketAddr;

use scrollback_store::{CallListing, ConversationId, Sent, Store, Tenant};

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
    /// The newest call that the record knows to be its own.
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
            (false, false, format!("{who} uses the port; set `listen` of [server] in scrollback.toml"))
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
    let mut last = match store {
        Some(store) => last_calls(store).await,
        None => HashMap::new(),
    };
    let state = |client: Client| {
        let stated = surroundings(Some(client), &machine, &[]).upstreams;
        let urls = [stated.openai, stated.anthropic, stated.gemini];
        let through = urls.iter().flatten().any(|url| leads_to(url, server));
        ClientState { client, through, last_call: last.remove(client.name()) }
    };
    Ok(installed.map(state).collect())
}

/// The newest call of each client, by the client's name.
async fn last_calls(store: &dyn Store) -> HashMap<&'static str, String> {
    let newest = CallListing { limit: CALLS, ..CallListing::default() };
    let page = store.calls(&Tenant::default(), newest).await;
    let mut owners: HashMap<ConversationId, Option<Client>> = HashMap::new();
    let mut last = HashMap::new();
    for call in page.map(|page| page.calls).unwrap_or_default() {
        let owner = if let Some(known) = owners.get(&call.conversation) {
            *known
        } else {
            let found = owner(store, &call).await;
            owners.insert(call.conversation.clone(), found);
            found
        };
        if let Some(client) = owner {
            last.entry(client.name()).or_insert_with(|| told(&call));
        }
    }
    last
}

/// The client that made a call: by the name of its session, or else by the wire that only one client speaks.
async fn owner(store: &dyn Store, call: &Sent) -> Option<Client> {
    let tenant = Tenant::default();
    let conversation = store.conversation(&tenant, &call.conversation).await.ok()?;
    let session = store.named_session(&tenant, &conversation.session).await.ok().flatten();
    match session.as_ref().map(|session| session.client.as_str()) {
        Some("claude-code") => Some(Client::Claude),
        Some("codex") => Some(Client::Codex),
        Some("opencode") => Some(Client::Opencode),
        _ => (call.wire == "gemini").then_some(Client::Gemini),
    }
}

fn told(call: &Sent) -> String {
    format!("{} to {} ({})", short(call.started_at), call.model, call.status)
}
