//! Which settings of which files send a client through Scrollback.
//!
//! The recall server is registered beside the base URL, as one more setting of each client that speaks MCP.

use std::path::PathBuf;

use serde_json::json;

use super::format::Format;
use super::journal::Setting;
use crate::client::launch::opencode_base;
use crate::client::machine::ClientMachine;
use crate::client::upstream::{CHATGPT, is_signed_in, opencode_file, setting, surroundings};
use crate::client::{Client, reachable};
use crate::failure::{FAILED, Failure, USAGE};

/// What a client's configuration shall say.
#[derive(Debug, Default)]
pub(crate) struct SetupPlan {
    pub(crate) files: Vec<WantedSettings>,
    /// What the person should know.
    pub(crate) notes: Vec<String>,
}

/// Settings of one file.
#[derive(Debug)]
pub(crate) struct WantedSettings {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) settings: Vec<Setting>,
}

/// The settings for a server at `base`, as in `http://127.0.0.1:7275`, and for the recall server, which reads the store that
/// this server writes, where that is known.
pub(crate) fn wanted(
    client: Client,
    machine: &ClientMachine,
    base: &str,
    store: Option<&str>,
) -> Result<SetupPlan, Failure> {
    let mut plan = through_server(client, machine, base)?;
    for file in recall(client, machine, store) {
        match plan.files.iter_mut().find(|known| known.path == file.path) {
            Some(known) => known.settings.extend(file.settings),
            None => plan.files.push(file),
        }
    }
    Ok(plan)
}

/// The command that clients start for recall: this very program, wherever it lies.
fn command() -> String {
    let own = std::env::current_exe().ok().and_then(|path| path.to_str().map(String::from));
    own.unwrap_or_else(|| "scrollback".into())
}

/// Where each client looks for servers of tools, and how it writes one down.
fn recall(client: Client, machine: &ClientMachine, store: Option<&str>) -> Vec<WantedSettings> {
    let (folder, command) = (machine.configuration(client), command());
    let arguments: Vec<&str> = match store {
        Some(store) => vec!["mcp", "--store", store],
        None => vec!["mcp"],
    };
    let server = json!({ "command": command, "args": arguments });
    let file = |path: PathBuf, format: Format, settings: Vec<Setting>| {
        vec![WantedSettings { path, format, settings }]
    };
    match client {
        Client::Claude => {
            // With a configuration folder of its own the file lies in it, else beside it.
            let path = match machine.variable("CLAUDE_CONFIG_DIR") {
                Some(folder) => PathBuf::from(folder).join(".claude.json"),
                None => machine.home.join(".claude.json"),
            };
            let server = json!({ "type": "stdio", "command": command, "args": arguments });
            file(path, Format::Json, vec![Setting::new(&["mcpServers", "scrollback"], &server.to_string())])
        }
        Client::Codex => {
            let table = |key| ["mcp_servers", "scrollback", key];
            let settings = vec![
                Setting::new(&table("command"), &command),
                Setting::new(&table("args"), &json!(arguments).to_string()),
                // Codex starts servers without the variables of its own process, but for those that are named.
                Setting::new(&table("env_vars"), "[\"SCROLLBACK_SESSION\", \"SCROLLBACK_STORE\"]"),
            ];
            file(folder.join("config.toml"), Format::Toml, settings)
        }
        Client::Opencode => {
            let started: Vec<&str> = std::iter::once(command.as_str()).chain(arguments).collect();
            let server = json!({ "type": "local", "command": started, "enabled": true });
            let settings = vec![Setting::new(&["mcp", "scrollback"], &server.to_string())];
            file(opencode_file(machine), Format::Jsonc, settings)
        }
        Client::Gemini => {
            let settings = vec![Setting::new(&["mcpServers", "scrollback"], &server.to_string())];
            file(folder.join("settings.json"), Format::Jsonc, settings)
        }
        Client::Cursor => {
            let settings = vec![Setting::new(&["mcpServers", "scrollback"], &server.to_string())];
            file(folder.join("mcp.json"), Format::Jsonc, settings)
        }
        Client::Vscode => {
            let server = json!({ "type": "stdio", "command": command, "args": arguments });
            let settings = vec![Setting::new(&["servers", "scrollback"], &server.to_string())];
            file(folder.join("mcp.json"), Format::Jsonc, settings)
        }
        Client::Aider => Vec::new(),
    }
}

fn through_server(client: Client, machine: &ClientMachine, base: &str) -> Result<SetupPlan, Failure> {
    let folder = machine.configuration(client);
    let found = surroundings(Some(client), machine, &[]);
    match client {
        Client::Claude => {
            let path = folder.join("settings.json");
            let settings = vec![Setting::new(&["env", "ANTHROPIC_BASE_URL"], base)];
            // Behind another base URL Claude Code leaves its tool search off, unless it is told.
            let mut settings = settings;
            if setting(&path, Format::Json, &["env", "ENABLE_TOOL_SEARCH"])
                .is_none_or(|value| value == "true")
            {
                settings.push(Setting::new(&["env", "ENABLE_TOOL_SEARCH"], "true"));
            }
            Ok(SetupPlan {
                files: vec![WantedSettings { path, format: Format::Json, settings }],
                notes: found.notes,
            })
        }
        Client::Codex => codex(machine, base, found.notes),
        Client::Opencode => {
            let provider = |name: &&str| {
                Setting::new(&["provider", name, "options", "baseURL"], &opencode_base(name, base))
            };
            let settings: Vec<Setting> = found.opencode_providers.iter().map(provider).collect();
            if settings.is_empty() {
                let message = "opencode has no key for anthropic, openai or google yet: run `opencode auth login` first";
                return Err(Failure::new(FAILED, "no_provider", message));
            }
            let path = opencode_file(machine);
            Ok(SetupPlan {
                files: vec![WantedSettings { path, format: Format::Jsonc, settings }],
                notes: found.notes,
            })
        }
        Client::Gemini => {
            let env = WantedSettings {
                path: folder.join(".env"),
                format: Format::Dotenv,
                settings: vec![Setting::new(&["GOOGLE_GEMINI_BASE_URL"], base)],
            };
            let mut files = vec![env];
            // With a base URL and no choice of its own, Gemini CLI looks for a way to sign in that it then refuses.
            if found.gemini_auth.as_deref().is_none_or(|kind| kind == "gemini-api-key") {
                files.push(WantedSettings {
                    path: folder.join("settings.json"),
                    format: Format::Jsonc,
                    settings: vec![Setting::new(&["security", "auth", "selectedType"], "gemini-api-key")],
                });
            }
            Ok(SetupPlan { files, notes: found.notes })
        }
        Client::Aider => {
            let message =
                "aider has no configuration that covers every provider: use `scrollback wrap aider`";
            Err(Failure::new(USAGE, "no_setup", message))
        }
        Client::Cursor | Client::Vscode => {
            let note = format!(
                "{} asks models through its maker's own servers: its calls are not recorded, and the recall server searches \
                 what other clients recorded",
                client.title()
            );
            Ok(SetupPlan { files: Vec::new(), notes: vec![note] })
        }
    }
}

fn codex(machine: &ClientMachine, base: &str, mut notes: Vec<String>) -> Result<SetupPlan, Failure> {
    let folder = machine.configuration(Client::Codex);
    let path = folder.join("config.toml");
    if let Some(name) = setting(&path, Format::Toml, &["model_provider"]).filter(|name| name != "openai") {
        let message = format!(
            "{}: model_provider is {name:?}, a provider of your own: set base_url of [model_providers.{name}] to \
             \"{base}/v1\", or use `scrollback wrap codex`",
            path.display()
        );
        return Err(Failure::new(FAILED, "own_provider", message));
    }
    if is_signed_in(&folder.join("auth.json")) {
        notes.push(format!(
            "Codex is signed in with ChatGPT: write [providers.openai] base_url = \"{CHATGPT}\" into scrollback.toml and \
             start the server again, so that its calls go there"
        ));
    }
    let settings = vec![Setting::new(&["openai_base_url"], &format!("{base}/v1"))];
    Ok(SetupPlan { files: vec![WantedSettings { path, format: Format::Toml, settings }], notes })
}

/// Whether a base URL of a client leads to a server.
pub(crate) fn leads_to(url: &str, server: std::net::SocketAddr) -> bool {
    crate::client::running::loopback(url)
        .is_some_and(|address| address.port() == server.port() && reachable(server).ip().is_loopback())
}
