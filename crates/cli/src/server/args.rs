//! What can be asked of the server on the command line.

use clap::{Subcommand, ValueEnum};

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    after_help = "One process and one port: existing clients work unchanged with another base URL. Without a provider's key
requests are answered by offline:echo, so that everything can be tried at once.

Examples:
  scrollback serve
  scrollback serve --listen 127.0.0.1:9000 --store postgres://localhost/scrollback
  OPENAI_BASE_URL=http://127.0.0.1:7275/v1 python app.py
  ANTHROPIC_BASE_URL=http://127.0.0.1:7275 claude"
)]
pub(crate) struct ServeArgs {
    /// Where to listen; else `listen` of `[server]`, else 127.0.0.1:7275. Other machines need an API key
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Serve with keys although the PostgreSQL role bypasses row-level security, the second wall between tenants
    #[arg(long)]
    pub(crate) allow_superuser: bool,

    /// How log lines are written, on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// How log lines are written.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  scrollback key add laptop
  scrollback key add ci --tenant acme --scope proxy --rpm 60 --usd-per-day 5
  scrollback key list
  scrollback key rotate laptop
  scrollback key revoke laptop")]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(subcommand)]
    pub(crate) action: KeyAction,
}

#[derive(Subcommand)]
pub(crate) enum KeyAction {
    /// Make a key. It is shown once, and kept as a hash
    Add(AddArgs),
    /// List the keys, without the keys themselves
    List,
    /// Make a second key for the same purpose, with scope, tenant and limits of the first, which stays valid until it is
    /// revoked
    Rotate {
        /// The name of the key
        name: String,
    },
    /// Make a key invalid
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct AddArgs {
    /// What people call it: letters, digits, - _ . @
    pub(crate) name: String,

    /// What it may do: use the proxy, read, or everything
    #[arg(long, value_name = "SCOPE", default_value = "proxy")]
    pub(crate) scope: ScopeArg,

    /// Requests a minute it may make
    #[arg(long, value_name = "N", value_parser = crate::input::count)]
    pub(crate) rpm: Option<u64>,

    /// Tokens a minute it may use
    #[arg(long, value_name = "N", value_parser = crate::input::count)]
    pub(crate) tpm: Option<u64>,

    /// Dollars a day it may spend, where prices are known
    #[arg(long, value_name = "X")]
    pub(crate) usd_per_day: Option<f64>,
}

/// What a key may do.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Use the proxy
    Proxy,
    /// Read: the lens, and what the REST API reads
    Read,
    /// Everything
    Admin,
}

#[derive(clap::Args)]
#[command(
    after_help = "The tools are search, read, around and outline; all of them only read. The session is the one that --session or
SCROLLBACK_SESSION names (a client's own id, ours, or a handle), else the newest in the working directory; every answer says
which it was. `scrollback setup CLIENT` registers this command with a client.

Examples:
  scrollback mcp
  scrollback mcp --store sqlite:team.db --tenant team
  claude mcp add scrollback -- scrollback mcp"
)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// The session that `session` and `conversation` mean
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// The working directory by which a session is found; the process's own if not given
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<std::path::PathBuf>,
}
