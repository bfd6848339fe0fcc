//! The store of a person, for commands that are run anywhere: a file in the working directory would end up in projects.

use std::path::PathBuf;

/// The folder of a person's store; none where the home directory is not known.
pub fn folder() -> Option<PathBuf> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
    Some(home.join(".local").join("share").join("scrollback"))
}

/// The URL of a person's store.
pub fn url() -> Option<String> {
    folder().map(|folder| format!("sqlite:{}", folder.join("scrollback.db").display()))
}
