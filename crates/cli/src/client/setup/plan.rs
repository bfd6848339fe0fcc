//! Which settings of which files send a client through Scrollback.
//!
//! The registration of the recall server belongs here too: one more [`Setting`] for each client, beside its base URL.

use std::path::PathBuf;

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

/// The settings for a server at `base`, as in `http://127.0.0.1:7275`.
pub(crate) fn wanted(client: Client, machine: &ClientMachine, base: &str) -> Result<SetupPlan, Failure> {
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
