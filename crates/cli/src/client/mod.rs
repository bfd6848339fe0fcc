//! Programs that talk to models, and how each of them is sent through Scrollback: for one run (`wrap`), for good
//! (`setup`), with a server that starts at login (`service`).

pub(crate) mod args;
mod child;
pub(crate) mod doctor;
mod launch;
mod machine;
pub(crate) mod running;
pub(crate) mod service;
pub(crate) mod setup;
mod upstream;
pub(crate) mod wrap;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use scrollback_core::nearest::nearest_key;

use crate::failure::{Failure, USAGE};

/// A program whose ways are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Claude,
    Codex,
    Opencode,
    Gemini,
    Aider,
    Cursor,
    Vscode,
}

impl Client {
    pub(crate) const ALL: [Client; 7] = [
        Client::Claude,
        Client::Codex,
        Client::Opencode,
        Client::Gemini,
        Client::Aider,
        Client::Cursor,
        Client::Vscode,
    ];

    /// The command, which is also what people call it here.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Opencode => "opencode",
            Client::Gemini => "gemini",
            Client::Aider => "aider",
            Client::Cursor => "cursor",
            Client::Vscode => "vscode",
        }
    }

    /// What its makers call it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Client::Claude => "Claude Code",
            Client::Codex => "Codex",
            Client::Opencode => "opencode",
            Client::Gemini => "Gemini CLI",
            Client::Aider => "aider",
            Client::Cursor => "Cursor",
            Client::Vscode => "VS Code",
        }
    }

    /// How it is installed.
    pub(crate) fn installed_by(self) -> &'static str {
        match self {
            Client::Claude => "npm install -g @anthropic-ai/claude-code",
            Client::Codex => "npm install -g @openai/codex",
            Client::Opencode => "npm install -g opencode-ai",
            Client::Gemini => "npm install -g @google/gemini-cli",
            Client::Aider => "pip install aider-chat",
            Client::Cursor => "https://cursor.com/downloads",
            Client::Vscode => "https://code.visualstudio.com",
        }
    }

    /// The client that a command starts, by the name of its file.
    pub(crate) fn of_command(command: &OsStr) -> Option<Client> {
        let name = Path::new(command).file_stem()?.to_str()?;
        Client::ALL.into_iter().find(|client| client.name() == name)
    }

    /// The client of that name; a usage error with the nearest one otherwise.
    pub(crate) fn named(name: &str) -> Result<Client, Failure> {
        let known = Client::ALL.map(Client::name);
        let found = Client::ALL.into_iter().find(|client| client.name() == name);
        found.ok_or_else(|| {
            let hint =
                nearest_client(name).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let message = format!("unknown client {name:?} (known: {}){hint}", known.join(", "));
            Failure::new(USAGE, "unknown_client", message).with("known", known.to_vec())
        })
    }
}

/// The client a mistyped word probably means; what people call the programs counts too.
fn nearest_client(word: &str) -> Option<&'static str> {
    let spoken = [
        ("claude-code", "claude"),
        ("claudecode", "claude"),
        ("gemini-cli", "gemini"),
        ("open-code", "opencode"),
    ];
    let lower = word.to_ascii_lowercase();
    let meant = spoken.into_iter().find(|(other, _)| *other == lower).map(|(_, name)| name);
    meant.or_else(|| nearest_key(&lower, Client::ALL.map(Client::name)))
}

/// The address by which this machine reaches a server: one that listens everywhere is reached on the loopback.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn clients_are_known_by_the_name_of_their_file() {
        for (command, client) in [
            ("claude", Some(Client::Claude)),
            ("/usr/local/bin/codex", Some(Client::Codex)),
            ("./gemini.js", Some(Client::Gemini)),
            ("python", None),
            ("claude-tools", None),
        ] {
            assert_eq!(Client::of_command(OsStr::new(command)), client, "{command}");
        }
    }

    #[test]
    fn a_wrong_name_finds_the_client_that_was_meant() {
        for (word, meant) in [
            ("cluade", Some("claude")),
            ("Claude", Some("claude")),
            ("claude-code", Some("claude")),
            ("codx", Some("codex")),
            ("gemini-cli", Some("gemini")),
            ("emacs", None),
        ] {
            assert_eq!(nearest_client(word), meant, "{word}");
        }
    }
}
