//! `scrollback doctor`: whether everything is set up.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Reset};
use scrollback_store::{Access, Listing, SCHEMA, Store, Url, open_for};
use serde_json::{Value, json};

use super::args::DoctorArgs;
use super::prune::bytes;
use super::{Intent, Setup, block_on, now};
use crate::failure::{FAILED, Failure};
use crate::{client, input};

/// File systems on which the locks of SQLite cannot be relied on.
const NETWORK: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs"];

struct DoctorCheck {
    name: &'static str,
    ok: bool,
    detail: String,
    /// Further members for programs.
    more: serde_json::Map<String, Value>,
}

impl DoctorCheck {
    fn new(name: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        DoctorCheck { name, ok, detail: detail.into(), more: serde_json::Map::new() }
    }

    fn to_json(&self) -> Value {
        let mut told = json!({ "name": self.name, "ok": self.ok, "detail": self.detail });
        if let Some(members) = told.as_object_mut() {
            members.extend(self.more.clone());
        }
        told
    }
}

pub(crate) fn run(args: &DoctorArgs, json: bool) -> Result<ExitCode, Failure> {
    if args.server {
        let port = client::doctor::port()?;
        return report(&[DoctorCheck::new("server", port.answers, port.detail)], json);
    }
    let (setup, mut checks) = match Setup::new(&args.store) {
        Ok(setup) => {
            let files =
                setup.config.files().iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
            let detail =
                if files.is_empty() { "no scrollback.toml; defaults".into() } else { files.join(", ") };
            (Some(setup), vec![DoctorCheck::new("configuration", true, detail)])
        }
        // A wrong configuration is what this command is for; a wrong flag is still a wrong flag.
        Err(failure) if failure.is("bad_config") => {
            let detail = failure.to_string();
            (None, vec![DoctorCheck::new("configuration", false, detail)])
        }
        Err(failure) => return Err(failure),
    };
    if let Some(setup) = &setup {
        checks.extend(block_on(async { Ok(store_checks(setup).await) })?);
        checks.push(keys(setup));
        checks.extend(clients(setup)?);
        checks.extend(block_on(async { Ok(size(setup).await) })?);
    }
    report(&checks, json)
}

fn report(checks: &[DoctorCheck], json: bool) -> Result<ExitCode, Failure> {
    let ok = checks.iter().all(|check| check.ok);
    if json {
        let checks: Vec<_> = checks.iter().map(DoctorCheck::to_json).collect();
        input::print(&format!("{}\n", json!({ "ok": ok, "checks": checks })))?;
    } else {
        let mut out = String::new();
        for check in checks {
            let (mark, colour) = if check.ok { ("ok", AnsiColor::Green) } else { ("!!", AnsiColor::Red) };
            let _ =
                writeln!(out, "{}{mark}{Reset}  {:13}  {}", colour.on_default(), check.name, check.detail);
        }
        input::print_styled(&out)?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn store_checks(setup: &Setup) -> Vec<DoctorCheck> {
    let file = match Url::parse(&setup.url) {
        Ok(Url::Sqlite(path)) => Some(PathBuf::from(path)),
        _ => None,
    };
    if let Some(path) = file.as_deref().filter(|path| !path.exists()) {
        let folder = folder_of(path);
        let ok = folder.is_dir();
        let detail = if ok {
            format!("{} will be created by the first append", path.display())
        } else {
            format!("{}: the folder does not exist", folder.display())
        };
        return vec![DoctorCheck::new("store", ok, detail), file_system(&folder)];
    }
    let opened = match open_for(&setup.url, now(), Access::Write).await {
        Err(error) if error.kind() == scrollback_store::ErrorKind::ReadOnly => {
            open_for(&setup.url, now(), Access::Read).await.map(|store| (store, "can only be read"))
        }
        other => other.map(|store| (store, "can be written")),
    };
    let mut checks = match opened {
        Ok((store, how)) => {
            let listed = store.list(None, Listing { limit: 1, ..Listing::default() }).await;
            let (ok, detail) = match listed {
                Ok(page) if page.conversations.is_empty() => {
                    (true, format!("{}, {how}, empty", store.describe()))
                }
                Ok(_) => (true, format!("{}, {how}", store.describe())),
                Err(error) => (false, error.to_string()),
            };
            let version = format!("version {SCHEMA}, as this program knows it");
            let schema = DoctorCheck::new("schema", true, version);
            let mut checks = vec![DoctorCheck::new("store", ok, detail), schema];
            checks.extend(database_server(store.as_ref()).await);
            checks
        }
        Err(error) => {
            vec![DoctorCheck::new("store", false, format!("{} ({})", error, error.code()))]
        }
    };
    if let Some(path) = file {
        checks.push(file_system(&folder_of(&path)));
    }
    checks
}

/// What the server of a database says about itself, as far as that decides whether the promises about it hold.
async fn database_server(store: &dyn Store) -> Vec<DoctorCheck> {
    let told = match store.guarantees().await {
        Ok(told) if told.is_empty() => return Vec::new(),
        Ok(told) => told,
        Err(error) => return vec![DoctorCheck::new("durability", false, error.to_string())],
    };
    let (encryption, durability): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(name, _)| name == "encryption");
    let ok = durability.iter().all(|(_, setting)| ["on", "remote_apply"].contains(&setting.as_str()));
    let named: Vec<String> = durability.iter().map(|(name, setting)| format!("{name} {setting}")).collect();
    let mut checks = vec![DoctorCheck::new("durability", ok, named.join(", "))];
    for (_, protocol) in encryption {
        let detail =
            if protocol == "off" { "none: others on the network can read along".into() } else { protocol };
        checks.push(DoctorCheck::new("encryption", true, detail));
    }
    checks.push(match store.missing_wall().await {
        Ok(None) => DoctorCheck::new("row security", true, "holds this role to one tenant's rows"),
        // Without keys there is one tenant.
        Ok(Some(why)) => {
            let has_keys = store.keys().await.is_ok_and(|keys| !keys.is_empty());
            DoctorCheck::new("row security", !has_keys, why)
        }
        Err(error) => DoctorCheck::new("row security", false, error.to_string()),
    });
    checks
}

/// How much room the store takes, by what takes it; nothing where that is not known.
async fn size(setup: &Setup) -> Option<DoctorCheck> {
    if !setup.exists() {
        return None;
    }
    let kinds = setup.open(Intent::Look).await.ok()?.sizes().await.ok()?.kinds();
    let told: Vec<String> = kinds.iter().map(|(kind, size)| format!("{kind} {}", bytes(*size))).collect();
    let mut told = told.join(", ");
    let used = kinds.iter().filter(|(kind, _)| *kind != "free").map(|(_, size)| size).sum::<u64>();
    let most = setup.config.retention().ok().and_then(|retention| retention.max_size);
    if let Some(over) = most.and_then(|most| used.checked_sub(most)).filter(|over| *over > 0) {
        let _ = write!(told, "; {} more than max_size of [retention]: scrollback prune", bytes(over));
    }
    let mut check = DoctorCheck::new("size", true, told);
    let object = kinds.iter().map(|(kind, size)| ((*kind).to_string(), Value::from(*size)));
    check.more.insert("bytes".into(), Value::Object(object.collect()));
    Some(check)
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf())
}

/// The file system a folder is on, where the system tells.
fn file_system(folder: &Path) -> DoctorCheck {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.replace("\\040", " "), fields.next()?.to_string()))
    };
    let nearest = mounts
        .lines()
        .filter_map(of)
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    let (ok, detail) = match nearest {
        Some((_, kind)) if NETWORK.contains(&kind.as_str()) => {
            (false, format!("{kind}: a network file system, on which two processes can damage the store"))
        }
        Some((_, kind)) => (true, format!("{kind}, local")),
        None => (true, "not known here".into()),
    };
    DoctorCheck::new("file system", ok, detail)
}

/// What is on the port, and whether the clients that are installed go there.
fn clients(setup: &Setup) -> Result<Vec<DoctorCheck>, Failure> {
    let port = client::doctor::port()?;
    let mut checks = vec![DoctorCheck::new("port", port.ok, port.detail)];
    let found = block_on(async {
        let store = if setup.exists() { setup.open(Intent::Look).await.ok() } else { None };
        client::doctor::clients(port.address, store.as_deref()).await
    })?;
    for state in found {
        let name = state.client.name();
        let way = match (state.through, port.answers) {
            (true, true) => "goes through Scrollback".to_string(),
            (true, false) => format!(
                "is set up for {}, where no server answers: start `scrollback serve`, or `scrollback setup {name} --undo`",
                port.address
            ),
            (false, _) => format!(
                "does not go through Scrollback; `scrollback wrap {name}` or `scrollback setup {name}` does it"
            ),
        };
        let last = state.last_call.as_ref().map_or_else(String::new, |call| format!("; last call {call}"));
        let mut check = DoctorCheck::new(name, !state.through || port.answers, format!("{way}{last}"));
        check.more.insert("through".into(), state.through.into());
        check.more.insert("last_call".into(), state.last_call.into());
        checks.push(check);
    }
    Ok(checks)
}

/// Which provider keys are there; never what they are.
fn keys(setup: &Setup) -> DoctorCheck {
    let told = |name: String| {
        let set = std::env::var_os(&name).is_some_and(|value| !value.is_empty());
        format!("{name} {}", if set { "is set" } else { "is not set" })
    };
    let detail = setup.config.key_names().into_iter().map(told).collect::<Vec<_>>().join(", ");
    DoctorCheck::new("keys", true, detail)
}
