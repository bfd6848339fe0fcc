//! `scrollback mcp`: the recall tools for the client that started this process.

use std::sync::Arc;

use scrollback_agent::SystemClock;
use scrollback_server::mcp::{Asker, serve_stdio};

use super::args::McpArgs;
use crate::failure::{FAILED, Failure};
use crate::store::{Intent, Setup, block_on};

/// Names the session of the client that started us; `wrap` and `setup` see to it where the client allows.
const SESSION: &str = "SCROLLBACK_SESSION";

pub(crate) fn run(args: &McpArgs) -> Result<(), Failure> {
    let setup = Setup::anywhere(&args.store)?;
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let folder = match &args.folder {
        Some(folder) => Some(folder.clone()),
        None => std::env::current_dir().ok(),
    };
    let asker = Asker {
        session: args.session.clone().into_iter().chain(set(SESSION)).collect(),
        folder: folder.and_then(|folder| folder.to_str().map(String::from)),
        writes: setup.config.recall_writes(),
    };
    // What the client says while it starts may come before its first request is recorded, so the store is made if need be.
    setup.make_folder()?;
    block_on(async {
        let store = match setup.open(Intent::Write).await {
            Ok(store) => store,
            Err(_) => setup.open(Intent::Look).await?,
        };
        let served = serve_stdio(store, setup.tenant(), Arc::new(SystemClock), asker).await;
        served.map_err(|error| {
            Failure::new(FAILED, "mcp", format!("the client's side of the pipe failed: {error}"))
        })
    })
}
