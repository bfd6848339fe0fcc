//! What `setup` wrote, kept so that it can be taken back: the bytes that were there before, and those that were written.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::format::Format;
use crate::client::Client;
use crate::client::machine::ClientMachine;
use crate::failure::{FAILED, Failure, INVALID};

/// One setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) keys: Vec<String>,
    pub(crate) value: String,
    /// What was there before.
    pub(crate) before: Option<String>,
}

impl Setting {
    pub(super) fn new(keys: &[&str], value: &str) -> Self {
        Setting {
            keys: keys.iter().map(|key| (*key).to_string()).collect(),
            value: value.into(),
            before: None,
        }
    }
}

/// What happens to one file.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// None if there was no file.
    pub(super) before: Option<String>,
    pub(super) after: String,
    pub(super) settings: Vec<Setting>,
    /// Folders that are made for the file, the innermost first.
    pub(super) folders: Vec<PathBuf>,
}

impl Change {
    /// Whether anything is different afterwards.
    pub(super) fn is_one(&self) -> bool {
        self.before.as_deref() != Some(self.after.as_str())
    }

    pub(super) fn setting(&self, keys: &[String]) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.keys == keys)
    }

    pub(super) fn to_json(&self) -> Value {
        let setting =
            |setting: &Setting| json!({ "setting": setting.keys.join("."), "value": setting.value });
        json!({
            "path": self.path.display().to_string(),
            "changed": self.is_one(),
            "settings": self.settings.iter().map(setting).collect::<Vec<_>>(),
        })
    }
}

/// Where the changes of one client are kept: a list, and beside it every file as it was.
pub(super) struct Journal {
    folder: PathBuf,
    list: PathBuf,
    client: Client,
}

impl Journal {
    pub(super) fn of(client: Client, machine: &ClientMachine) -> Journal {
        let configuration = machine.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let configuration = configuration.unwrap_or_else(|| machine.home.join(".config"));
        let folder = configuration.join("scrollback").join("setup");
        Journal { list: folder.join(format!("{}.json", client.name())), folder, client }
    }

    /// The backup of a file.
    fn backup(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.folder.join(format!("{}-{name}.backup", self.client.name()))
    }

    /// The changes that were made and not taken back.
    pub(super) fn read(&self) -> Result<Vec<Change>, Failure> {
        let Some(text) = read_text(&self.list)? else { return Ok(Vec::new()) };
        let bad = || {
            let message =
                format!("{}: not a list of changes; remove it to start afresh", self.list.display());
            Failure::new(INVALID, "bad_file", message)
        };
        let listed: Value = serde_json::from_str(&text).map_err(|_| bad())?;
        let files = listed.get("files").and_then(Value::as_array).ok_or_else(bad)?;
        files.iter().map(|file| self.change(file)?.ok_or_else(bad)).collect()
    }

    fn change(&self, file: &Value) -> Result<Option<Change>, Failure> {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(String::from);
        let Some(format) = file.get("format").and_then(Value::as_str).and_then(Format::named) else {
            return Ok(None);
        };
        let (Some(path), Some(after)) = (text(file, "path"), text(file, "after")) else { return Ok(None) };
        let path = PathBuf::from(path);
        let existed = file.get("existed").and_then(Value::as_bool).unwrap_or(false);
        let before = if existed { read_text(&self.backup(&path))? } else { None };
        let setting = |setting: &Value| {
            let keys = setting.get("keys")?.as_array()?.iter();
            let keys = keys.map(|key| key.as_str().map(String::from)).collect::<Option<Vec<_>>>()?;
            Some(Setting { keys, value: text(setting, "value")?, before: text(setting, "before") })
        };
        let settings = file.get("settings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let Some(settings) = settings.iter().map(setting).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let folders = file.get("folders").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let folders = folders.iter().filter_map(Value::as_str).map(PathBuf::from).collect();
        Ok(Some(Change { path, format, before, after, settings, folders }))
    }

    /// Writes changes down before they are made. A file that was changed earlier keeps its first backup, so that
    /// undoing goes all the way back.
    pub(super) fn write(&self, earlier: &[Change], changes: &[Change]) -> Result<(), Failure> {
        let own = missing_folders(&self.list);
        make_folder(&self.folder)?;
        let mut files = Vec::new();
        for change in changes {
            let first = earlier.iter().find(|old| old.path == change.path);
            let folders = first.map_or(&change.folders, |old| &old.folders).iter().chain(&own);
            let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
            // A file that was edited since cannot go back as a whole; only its settings can.
            let edited = first.is_some_and(|old| Some(&old.after) != change.before.as_ref());
            let before = first.map_or(&change.before, |old| &old.before);
            let after = if edited { "" } else { &change.after };
            if let Some(before) = before {
                write_private(&self.backup(&change.path), before)?;
            }
            let setting = |setting: &Setting| json!({ "keys": setting.keys, "value": setting.value, "before": setting.before });
            files.push(json!({
                "path": change.path.display().to_string(),
                "format": change.format.name(),
                "existed": before.is_some(),
                "folders": folders,
                "after": after,
                "settings": change.settings.iter().map(setting).collect::<Vec<_>>(),
            }));
        }
        write_private(&self.list, &format!("{:#}\n", json!({ "client": self.client.name(), "files": files })))
    }

    /// Forgets changes that were taken back, with the backups and the folders that are empty then.
    pub(super) fn forget(&self, changes: &[Change]) -> Result<(), Failure> {
        for file in changes.iter().map(|change| self.backup(&change.path)).chain([self.list.clone()]) {
            remove(&file)?;
        }
        for folder in [&self.folder].into_iter().chain(changes.iter().flat_map(|change| &change.folders)) {
            // Fails where something else is in it, which is what is wanted.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// The folders around a file that are not there, the innermost first.
pub(super) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_path_buf).collect()
}

/// The text of a file; none if there is none.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            let message = format!("{}: not UTF-8 at byte {byte}; nothing was changed", path.display());
            Failure::new(INVALID, "bad_file", message)
                .with("path", path.display().to_string())
                .with("byte", byte)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(&path.display().to_string(), &error)),
    }
}

/// Puts a text in the place of a file at once, or removes the file. A link stays a link, and rights stay as they are.
pub(super) fn replace(path: &Path, text: Option<&str>) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::io(&path.display().to_string(), error);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(text) = text else { return remove(&real) };
    if let Some(folder) = real.parent() {
        make_folder(folder)?;
    }
    let rights = std::fs::metadata(&real).ok().map(|found| found.permissions());
    let mut name = real.file_name().unwrap_or_default().to_os_string();
    name.push(".scrollback-new");
    let new = real.with_file_name(name);
    write_private(&new, text)?;
    if let Some(rights) = rights {
        std::fs::set_permissions(&new, rights).map_err(|error| failed(&error))?;
    }
    std::fs::rename(&new, &real).map_err(|error| failed(&error))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::io(&folder.display().to_string(), &error))
}

/// Writes a file that only this person can read: settings may hold keys.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::io(&path.display().to_string(), &error))
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(FAILED, "io", Failure::io(&path.display().to_string(), &error).to_string()))
        }
        _ => Ok(()),
    }
}
