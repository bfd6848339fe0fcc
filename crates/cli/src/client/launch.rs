//! How one client is started so that it talks to a server of ours: variables and flags for this one process.

use std::ffi::OsString;

use super::Client;
use super::machine::ClientMachine;
use super::setup::format::Format;
use super::upstream::Surroundings;

/// What is added to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) variables: Vec<(String, String)>,
    /// In front of the person's own arguments.
    pub(crate) arguments: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// Gemini CLI needs to be told that it has a key, in a file of ours.
    pub(crate) gemini_defaults: bool,
}

/// Variables that send requests through a proxy of the network, which cannot reach this machine's loopback.
const NETWORK_PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// What a client is given to talk to the server at `base`, as in `http://127.0.0.1:7275`.
pub(crate) fn launch(
    client: Option<Client>,
    base: &str,
    found: &Surroundings,
    machine: &ClientMachine,
    arguments: &[OsString],
) -> Launch {
    let mut launch = Launch { notes: found.notes.clone(), ..Launch::default() };
    let versioned = format!("{base}/v1");
    match client {
        Some(Client::Claude) => claude(&mut launch, base, found, machine, arguments),
        Some(Client::Codex) => {
            let key = match &found.codex_provider {
                Some(provider) => format!("model_providers.{provider}.base_url"),
                None => "openai_base_url".into(),
            };
            launch.arguments = vec!["-c".into(), format!("{key}=\"{versioned}\"")];
            // Older versions know the variable only.
            launch.set("OPENAI_BASE_URL", &versioned);
        }
        Some(Client::Opencode) => opencode(&mut launch, base, found, machine),
        Some(Client::Gemini) => {
            launch.set("GOOGLE_GEMINI_BASE_URL", base);
            // With a base URL and no choice of its own, Gemini CLI looks for a way to sign in that it then refuses.
            launch.gemini_defaults = found.gemini_auth.is_none()
                && machine.variable("GEMINI_API_KEY").is_some()
                && machine.variable("GEMINI_CLI_SYSTEM_DEFAULTS_PATH").is_none();
        }
        Some(Client::Aider) => {
            for name in ["OPENAI_API_BASE", "OPENAI_BASE_URL"] {
                launch.set(name, &versioned);
            }
            for name in ["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"] {
                launch.set(name, base);
            }
        }
        Some(Client::Cursor | Client::Vscode) => {}
        None => {
            launch.set("OPENAI_BASE_URL", &versioned);
            launch.set("ANTHROPIC_BASE_URL", base);
            launch.set("GOOGLE_GEMINI_BASE_URL", base);
        }
    }
    if NETWORK_PROXIES.iter().any(|name| machine.variable(name).is_some()) {
        for name in ["NO_PROXY", "no_proxy"] {
            let others = machine.variable(name).map_or_else(String::new, |others| format!("{others},"));
            launch.set(name, &format!("{others}127.0.0.1,localhost"));
        }
    }
    launch
}

impl Launch {
    fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }
}

/// Names this run of a client, for the recall server that the client starts and, where its requests can carry it, for the
/// record.
pub(crate) fn name_run(launch: &mut Launch, client: Option<Client>, machine: &ClientMachine, name: &str) {
    launch.set("SCROLLBACK_SESSION", name);
    if client == Some(Client::Claude) {
        let header = format!("x-scrollback-session: {name}");
        let own = machine.variable("ANTHROPIC_CUSTOM_HEADERS").map(|own| format!("{own}\n{header}"));
        launch.set("ANTHROPIC_CUSTOM_HEADERS", &own.unwrap_or(header));
    }
}

fn claude(
    launch: &mut Launch,
    base: &str,
    found: &Surroundings,
    machine: &ClientMachine,
    arguments: &[OsString],
) {
    launch.set("ANTHROPIC_BASE_URL", base);
    // Without this Claude Code leaves its tool search off behind any base URL but its maker's.
    let usual = found.upstreams.anthropic.as_deref().is_none_or(|url| url.contains("//api.anthropic.com"));
    // Nor does it say there what kind of call each is, as it says to its maker.
    for (name, value) in [("ENABLE_TOOL_SEARCH", "true"), ("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1")] {
        if usual && machine.variable(name).is_none() {
            launch.set(name, value);
        }
    }
    if !found.settings_state_base {
        return;
    }
    // Settings files go before variables, and this flag before settings files.
    if arguments.iter().any(|argument| argument == "--settings") {
        launch.notes.push(
            "a settings file of Claude Code states ANTHROPIC_BASE_URL, and `--settings` is given: calls may not go through \
             Scrollback; put ANTHROPIC_BASE_URL into the file that `--settings` names"
                .into(),
        );
        return;
    }
    let settings = serde_json::json!({ "env": { "ANTHROPIC_BASE_URL": base } });
    launch.arguments = vec!["--settings".into(), settings.to_string()];
}

fn opencode(launch: &mut Launch, base: &str, found: &Surroundings, machine: &ClientMachine) {
    if found.opencode_providers.is_empty() {
        return;
    }
    let mut content = machine.variable("OPENCODE_CONFIG_CONTENT").unwrap_or("{}").to_string();
    for name in &found.opencode_providers {
        let keys = ["provider", name, "options", "baseURL"].map(String::from);
        match Format::Jsonc.set(&content, &keys, &opencode_base(name, base)) {
            Ok(more) => content = more,
            Err(bad) => {
                launch.notes.push(format!("OPENCODE_CONFIG_CONTENT is left as it is: {}", bad.problem));
                return;
            }
        }
    }
    launch.set("OPENCODE_CONFIG_CONTENT", &content);
}

/// The base URL of a provider in opencode, which ends in the version for each.
pub(crate) fn opencode_base(provider: &str, base: &str) -> String {
    format!("{base}/{}", if provider == "google" { "v1beta" } else { "v1" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::client::upstream::surroundings;

    const BASE: &str = "http://127.0.0.1:7275";

    fn machine(variables: &[(&str, &str)]) -> ClientMachine {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        ClientMachine { home: "/nowhere/home".into(), folder: "/nowhere/work".into(), variables }
    }

    fn told(client: Option<Client>, machine: &ClientMachine, arguments: &[&str]) -> Launch {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        launch(client, BASE, &surroundings(client, machine, &arguments), machine, &arguments)
    }

    fn variable<'l>(launch: &'l Launch, name: &str) -> Option<&'l str> {
        launch.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn each_client_is_told_in_its_own_way() {
        let here = machine(&[("ANTHROPIC_API_KEY", "k")]);
        let claude = told(Some(Client::Claude), &here, &["-p", "hello"]);
        assert_eq!(variable(&claude, "ANTHROPIC_BASE_URL"), Some(BASE));
        assert_eq!(variable(&claude, "ENABLE_TOOL_SEARCH"), Some("true"));
        assert_eq!(variable(&claude, "CLAUDE_CODE_GATEWAY_HINT_HEADERS"), Some("1"));
        assert!(claude.arguments.is_empty());
        let codex = told(Some(Client::Codex), &here, &["exec", "hello"]);
        assert_eq!(codex.arguments, ["-c", "openai_base_url=\"http://127.0.0.1:7275/v1\""]);
        let opencode = told(Some(Client::Opencode), &here, &[]);
        let content: serde_json::Value =
            serde_json::from_str(variable(&opencode, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
        assert_eq!(content["provider"]["anthropic"]["options"]["baseURL"], "http://127.0.0.1:7275/v1");
        assert_eq!(content["provider"]["openai"], serde_json::Value::Null, "there is no key for it");
        let any = told(None, &here, &[]);
        assert_eq!(variable(&any, "OPENAI_BASE_URL"), Some("http://127.0.0.1:7275/v1"));
        assert_eq!(variable(&any, "ANTHROPIC_BASE_URL"), Some(BASE));
        assert_eq!(variable(&any, "GOOGLE_GEMINI_BASE_URL"), Some(BASE));
    }

    #[test]
    fn a_run_has_a_name_for_the_tools_its_client_starts() {
        let here = machine(&[("ANTHROPIC_CUSTOM_HEADERS", "x-team: a")]);
        let mut claude = told(Some(Client::Claude), &here, &[]);
        name_run(&mut claude, Some(Client::Claude), &here, "run-1");
        assert_eq!(variable(&claude, "SCROLLBACK_SESSION"), Some("run-1"));
        let headers = variable(&claude, "ANTHROPIC_CUSTOM_HEADERS");
        assert_eq!(headers, Some("x-team: a\nx-scrollback-session: run-1"), "headers of the person stay");
        let mut codex = told(Some(Client::Codex), &here, &[]);
        name_run(&mut codex, Some(Client::Codex), &here, "run-1");
        assert_eq!(variable(&codex, "SCROLLBACK_SESSION"), Some("run-1"));
        assert_eq!(variable(&codex, "ANTHROPIC_CUSTOM_HEADERS"), None);
    }

    #[test]
    fn a_gateway_decides_itself_what_claude_code_sends_it() {
        let here = machine(&[("ANTHROPIC_BASE_URL", "https://gateway.example")]);
        for name in ["ENABLE_TOOL_SEARCH", "CLAUDE_CODE_GATEWAY_HINT_HEADERS"] {
            assert_eq!(variable(&told(Some(Client::Claude), &here, &[]), name), None);
        }
    }

    #[test]
    fn a_network_proxy_does_not_get_between() {
        let here = machine(&[("HTTP_PROXY", "http://proxy:1"), ("NO_PROXY", "intranet")]);
        let any = told(None, &here, &[]);
        assert_eq!(variable(&any, "NO_PROXY"), Some("intranet,127.0.0.1,localhost"));
        assert_eq!(variable(&any, "no_proxy"), Some("127.0.0.1,localhost"));
        assert_eq!(variable(&told(None, &machine(&[]), &[]), "NO_PROXY"), None);
    }

    #[test]
    fn flags_that_lead_elsewhere_are_said() {
        let codex = told(Some(Client::Codex), &machine(&[]), &["-c", "openai_base_url=\"http://x\""]);
        assert_eq!(codex.notes.len(), 1, "{:?}", codex.notes);
    }
}
