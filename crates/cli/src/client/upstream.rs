//! Where a client would send its requests without Scrollback. That is where Scrollback has to pass them on to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Client;
use super::machine::ClientMachine;
use super::setup::format::Format;

/// Where Codex sends its requests when it is signed in with `ChatGPT`.
pub(crate) const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";

/// Base URLs that the surroundings of a client state; none where the client uses its provider's usual place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upstreams {
    /// Ends in the version, as `OpenAI`'s clients write it.
    pub(crate) openai: Option<String>,
    /// Without a version, as Anthropic's clients write it.
    pub(crate) anthropic: Option<String>,
    /// Without a version.
    pub(crate) gemini: Option<String>,
}

impl Upstreams {
    pub(crate) fn all_mut(&mut self) -> [&mut Option<String>; 3] {
        [&mut self.openai, &mut self.anthropic, &mut self.gemini]
    }
}

/// What is known about a client before it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(crate) upstreams: Upstreams,
    /// Claude Code: a settings file states the base URL, which goes before the environment.
    pub(crate) settings_state_base: bool,
    /// Codex: a provider of the person's own is chosen.
    pub(crate) codex_provider: Option<String>,
    /// opencode: the providers it can use.
    pub(crate) opencode_providers: Vec<&'static str>,
    /// Gemini CLI: how it signs in, if that was chosen.
    pub(crate) gemini_auth: Option<String>,
    /// What will not go through Scrollback, and why.
    pub(crate) notes: Vec<String>,
}

/// Looks at the surroundings of a client, or of any command.
pub(crate) fn surroundings(
    client: Option<Client>,
    machine: &ClientMachine,
    arguments: &[OsString],
) -> Surroundings {
    match client {
        Some(Client::Claude) => claude(machine),
        Some(Client::Codex) => codex(machine, arguments),
        Some(Client::Opencode) => opencode(machine),
        Some(Client::Gemini) => gemini(machine),
        Some(Client::Aider) => aider(machine),
        // Their models are asked by their makers' servers.
        Some(Client::Cursor | Client::Vscode) => Surroundings::default(),
        None => Surroundings { upstreams: of_environment(machine), ..Surroundings::default() },
    }
}

fn of_environment(machine: &ClientMachine) -> Upstreams {
    let stated = |name: &str| machine.variable(name).map(String::from);
    Upstreams {
        openai: stated("OPENAI_BASE_URL"),
        anthropic: stated("ANTHROPIC_BASE_URL"),
        gemini: stated("GOOGLE_GEMINI_BASE_URL"),
    }
}

fn claude(machine: &ClientMachine) -> Surroundings {
    let own = machine.folder.join(".claude");
    let files = [
        own.join("settings.local.json"),
        own.join("settings.json"),
        machine.configuration(Client::Claude).join("settings.json"),
    ];
    let in_settings = |name: &str| files.iter().find_map(|file| setting(file, Format::Json, &["env", name]));
    let in_file = in_settings("ANTHROPIC_BASE_URL");
    let mut notes = Vec::new();
    for (name, host) in [("CLAUDE_CODE_USE_BEDROCK", "Bedrock"), ("CLAUDE_CODE_USE_VERTEX", "Vertex AI")] {
        if machine.variable(name).is_some() || in_settings(name).is_some() {
            notes.push(format!("{name} is set: calls go to {host}, and not through Scrollback"));
        }
    }
    let settings_state_base = in_file.is_some();
    let anthropic = in_file.or_else(|| machine.variable("ANTHROPIC_BASE_URL").map(String::from));
    let upstreams = Upstreams { anthropic, ..Upstreams::default() };
    Surroundings { upstreams, settings_state_base, notes, ..Surroundings::default() }
}

fn codex(machine: &ClientMachine, arguments: &[OsString]) -> Surroundings {
    let folder = machine.configuration(Client::Codex);
    let file = folder.join("config.toml");
    let said = |keys: &[&str]| setting(&file, Format::Toml, keys);
    let mut found = Surroundings::default();
    for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
        if argument.contains("openai_base_url") || argument == "--oss" {
            let note = format!(
                "`{argument}` chooses where Codex sends its calls: they may not go through Scrollback"
            );
            found.notes.push(note);
        }
    }
    if let Some(name) = said(&["model_provider"]).filter(|name| name != "openai") {
        found.upstreams.openai = said(&["model_providers", &name, "base_url"]);
        if found.upstreams.openai.is_none() {
            found.notes.push(format!(
                "{}: the provider {name:?} has no base_url: its calls do not go through Scrollback",
                file.display()
            ));
        }
        found.codex_provider = Some(name);
        return found;
    }
    let signed_in = machine.variable("CODEX_API_KEY").is_none() && is_signed_in(&folder.join("auth.json"));
    found.upstreams.openai = said(&["openai_base_url"])
        .or_else(|| signed_in.then(|| CHATGPT.to_string()))
        .or_else(|| machine.variable("OPENAI_BASE_URL").map(String::from));
    found
}

/// Whether Codex is signed in with `ChatGPT`, as opposed to with an API key. Only the kind is looked at.
pub(crate) fn is_signed_in(file: &Path) -> bool {
    let Some(auth) = std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
    else {
        return false;
    };
    match auth.get("auth_mode").and_then(Value::as_str) {
        Some(mode) => mode.eq_ignore_ascii_case("chatgpt"),
        None => {
            auth.get("tokens").is_some_and(Value::is_object)
                && auth.get("OPENAI_API_KEY").is_none_or(Value::is_null)
        }
    }
}

/// The providers of opencode that Scrollback can stand before: their name there, and variables that hold a key.
const OPENCODE: [(&str, &[&str]); 3] = [
    ("anthropic", &["ANTHROPIC_API_KEY"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("google", &["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"]),
];

/// The configuration file of opencode that is there, or the one that would be made.
pub(crate) fn opencode_file(machine: &ClientMachine) -> PathBuf {
    let folder = machine.configuration(Client::Opencode);
    let usual = folder.join("opencode.json");
    let known = [folder.join("opencode.jsonc"), usual.clone(), folder.join("config.json")];
    known.into_iter().find(|file| file.exists()).unwrap_or(usual)
}

fn opencode(machine: &ClientMachine) -> Surroundings {
    let file = opencode_file(machine);
    let data =
        machine.variable("XDG_DATA_HOME").map_or_else(|| machine.home.join(".local/share"), PathBuf::from);
    let keys = std::fs::read(data.join("opencode").join("auth.json")).unwrap_or_default();
    let keys: Value = serde_json::from_slice(&keys).unwrap_or_default();
    let mut found = Surroundings::default();
    for (name, variables) in OPENCODE {
        let base = setting(&file, Format::Jsonc, &["provider", name, "options", "baseURL"]);
        let has_key =
            variables.iter().any(|name| machine.variable(name).is_some()) || keys.get(name).is_some();
        let configured = base.is_some() || setting(&file, Format::Jsonc, &["provider", name]).is_some();
        // A provider that is only configured is offered without a key; so none is added that was not there.
        if has_key || configured {
            found.opencode_providers.push(name);
        }
        match name {
            "anthropic" => found.upstreams.anthropic = base.map(|base| without_end(&base, "/v1")),
            "openai" => found.upstreams.openai = base,
            _ => found.upstreams.gemini = base.map(|base| without_end(&base, "/v1beta")),
        }
    }
    if found.opencode_providers.is_empty() {
        let note = "opencode has no key for anthropic, openai or google: models of other providers do not go through Scrollback";
        found.notes.push(note.into());
    }
    found
}

fn gemini(machine: &ClientMachine) -> Surroundings {
    let folder = machine.configuration(Client::Gemini);
    let from_file = || {
        let here =
            machine.folder.ancestors().flat_map(|folder| [folder.join(".gemini/.env"), folder.join(".env")]);
        let mut files = here.chain([folder.join(".env"), machine.home.join(".env")]);
        // The client reads the first file there is, and no other.
        let file = files.find(|file| file.is_file())?;
        setting(&file, Format::Dotenv, &["GOOGLE_GEMINI_BASE_URL"])
    };
    let gemini = machine.variable("GOOGLE_GEMINI_BASE_URL").map(String::from).or_else(from_file);
    let chosen = setting(&folder.join("settings.json"), Format::Jsonc, &["security", "auth", "selectedType"]);
    let mut notes = Vec::new();
    if let Some(other) = chosen.as_deref().filter(|kind| *kind != "gemini-api-key" && *kind != "gateway") {
        notes.push(format!("Gemini CLI signs in by {other:?}: only calls with an API key go through Scrollback (choose one with /auth)"));
    }
    let upstreams = Upstreams { gemini, ..Upstreams::default() };
    Surroundings { upstreams, gemini_auth: chosen, notes, ..Surroundings::default() }
}

fn aider(machine: &ClientMachine) -> Surroundings {
    let first =
        |names: [&str; 2]| names.into_iter().find_map(|name| machine.variable(name)).map(String::from);
    let upstreams = Upstreams {
        openai: first(["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
        anthropic: first(["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"]),
        gemini: None,
    };
    Surroundings { upstreams, ..Surroundings::default() }
}

/// A setting of a client's file; none where the file is not there or cannot be read, which its client will say.
pub(crate) fn setting(file: &Path, format: Format, keys: &[&str]) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_string()).collect();
    format.read(&text, &keys).ok().flatten().filter(|value| !value.is_empty())
}

fn without_end(url: &str, end: &str) -> String {
    let url = url.trim_end_matches('/');
    url.strip_suffix(end).unwrap_or(url).to_string()
}
