//! What can be asked about clients on the command line.

use std::ffi::OsString;

use clap::Subcommand;

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    after_help = "CLIENT is claude, codex, opencode, gemini, aider, or any other command, which is given OPENAI_BASE_URL,
ANTHROPIC_BASE_URL and GOOGLE_GEMINI_BASE_URL. Everything after it belongs to the client: its flags, its terminal, its
signals, its exit code. No file of the client is changed.

A server that answers on the configured address is used. Otherwise one is started inside this process, on a free port of
127.0.0.1, for as long as the client runs. Its record is --store, or SCROLLBACK_STORE, or `store` of scrollback.toml, or
else ~/.local/share/scrollback/scrollback.db. Requests go on to where the client would have sent them.

Examples:
  scrollback wrap claude -p hello
  scrollback wrap codex exec 'explain this repository'
  scrollback wrap --store sqlite:team.db python app.py"
)]
pub(crate) struct WrapArgs {
    /// The store, as sqlite:PATH or postgres://…; a server of its own is started for it
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Say nothing on standard error unless something is wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The client and its arguments
    #[arg(value_name = "CLIENT", required = true, trailing_var_arg = true, allow_hyphen_values = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

#[derive(clap::Args)]
#[command(
    after_help = "Writes one setting into the client's own configuration, so that every start of it goes through the server on
the configured address (default 127.0.0.1:7275). The rest of the file stays as it is written, and a backup is kept;
--undo puts back the very bytes that were there.

  claude    settings.json: env.ANTHROPIC_BASE_URL; .claude.json: mcpServers.scrollback
  codex     config.toml: openai_base_url, mcp_servers.scrollback
  opencode  opencode.json: baseURL of each provider that has a key, mcp.scrollback
  gemini    .env: GOOGLE_GEMINI_BASE_URL; settings.json: mcpServers.scrollback
  cursor    mcp.json: mcpServers.scrollback
  vscode    mcp.json: servers.scrollback

`scrollback` there is the recall server, `scrollback mcp`, by which the client's model can search and read the record.

A setting that is there already is not overwritten without --force.

Examples:
  scrollback setup claude
  scrollback setup codex --print
  scrollback setup claude --undo"
)]
pub(crate) struct SetupArgs {
    /// claude, codex, opencode, gemini, cursor or vscode
    pub(crate) client: String,

    /// Take the settings back
    #[arg(long, conflicts_with = "force")]
    pub(crate) undo: bool,

    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) print: bool,

    /// Overwrite settings that are there already; --undo brings them back
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "The service is `scrollback serve` as a systemd user unit on Linux, or a launchd agent on macOS. It starts when
you log in, on the configured address, with the store that --store, SCROLLBACK_STORE or scrollback.toml names, or else
~/.local/share/scrollback/scrollback.db.

Examples:
  scrollback service install
  scrollback service install --print
  scrollback service status --json
  scrollback service remove"
)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    pub(crate) action: ServiceAction,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Subcommand)]
pub(crate) enum ServiceAction {
    /// Write the unit, and start it where that is possible
    Install {
        /// Show the unit, and write nothing
        #[arg(long)]
        print: bool,
    },
    /// Stop it, and delete the unit
    Remove {
        /// Show what would be done, and do nothing
        #[arg(long)]
        print: bool,
    },
    /// Say whether it is installed, and whether a server answers
    Status,
}
