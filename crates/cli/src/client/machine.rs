//! What a command finds on the machine it runs on: variables, folders, files of clients. Read once, so that what follows
//! from it is a plain function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Client;
use crate::failure::{Failure, USAGE};

/// The surroundings of one command.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientMachine {
    pub(crate) home: PathBuf,
    /// The working directory.
    pub(crate) folder: PathBuf,
    pub(crate) variables: BTreeMap<String, String>,
}

impl ClientMachine {
    /// This machine, as this process sees it.
    pub(crate) fn here() -> Result<ClientMachine, Failure> {
        let no_home = || {
            let message = "the home directory is not known: set HOME";
            Failure::new(USAGE, "no_home", message)
        };
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).ok_or_else(no_home)?;
        let folder = std::env::current_dir().map_err(|error| Failure::io("the working directory", &error))?;
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Ok(ClientMachine { home, folder, variables: std::env::vars_os().filter_map(text).collect() })
    }

    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The folder a variable names, or else one in the home directory.
    fn folder_of(&self, variable: &str, usual: &str) -> PathBuf {
        self.variable(variable).map_or_else(|| self.home.join(usual), PathBuf::from)
    }

    /// The folder with what a client remembers.
    pub(crate) fn configuration(&self, client: Client) -> PathBuf {
        match client {
            Client::Claude => self.folder_of("CLAUDE_CONFIG_DIR", ".claude"),
            Client::Codex => self.folder_of("CODEX_HOME", ".codex"),
            Client::Opencode => self.folder_of("XDG_CONFIG_HOME", ".config").join("opencode"),
            Client::Gemini => self.home.join(".gemini"),
            Client::Aider => self.home.clone(),
            Client::Cursor => self.home.join(".cursor"),
            Client::Vscode if cfg!(target_os = "macos") => {
                self.home.join("Library/Application Support/Code/User")
            }
            Client::Vscode => self.folder_of("XDG_CONFIG_HOME", ".config").join("Code").join("User"),
        }
    }

    /// Where a command is, as the shell would find it.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variable("PATH")?;
        std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| is_executable(file))
    }
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    ["", "exe", "cmd", "bat"].iter().any(|ending| file.with_extension(ending).is_file())
}
