//! `scrollback service`: the server starts when a person logs in, by what the system has for that.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrollback_agent::config;
use scrollback_store::Url;
use serde_json::{Value, json};

use super::args::{ServiceAction, ServiceArgs};
use super::machine::ClientMachine;
use super::running::{AddressState, look};
use super::setup::{server_address, write_private};
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;
use crate::store::Setup;

/// What starts programs for a person here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

/// Whether something is done, or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Apply,
    Show,
}

impl Effect {
    fn unless(print: bool) -> Effect {
        if print { Effect::Show } else { Effect::Apply }
    }
}

/// The name of the service.
const UNIT: &str = "scrollback.service";
const LABEL: &str = "dev.scrollback.server";

/// A unit: where it is written, what it says, and the commands that begin and end it.
struct ServiceUnit {
    manager: Manager,
    path: PathBuf,
    text: String,
}

pub(crate) fn run(args: &ServiceArgs, json: bool) -> Result<(), Failure> {
    let machine = ClientMachine::here()?;
    // A store in the working directory is not meant: a service has none.
    let own = config::user_store::url()
        .ok_or_else(|| Failure::new(USAGE, "no_home", "the home directory is not known: set HOME"))?;
    let setup = Setup::with_default(&args.store, || own)?;
    let unit = ServiceUnit::new(&machine, &setup)?;
    match args.action {
        ServiceAction::Install { print } => install(&unit, &setup, Effect::unless(print), json),
        ServiceAction::Remove { print } => remove(&unit, Effect::unless(print), json),
        ServiceAction::Status => status(&unit, json),
    }
}

impl ServiceUnit {
    fn new(machine: &ClientMachine, setup: &Setup) -> Result<ServiceUnit, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::io("the path of this program", &error))?;
        let command =
            [program.display().to_string(), "serve".into(), "--store".into(), absolute(machine, &setup.url)];
        // The nearest scrollback.toml of a project is not meant; that of the person is found from the home directory.
        let folder = machine.home.as_path();
        if cfg!(target_os = "macos") {
            let path = machine.home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"));
            return Ok(ServiceUnit { manager: Manager::Launchd, path, text: launchd(&command, folder) });
        }
        if cfg!(target_os = "linux") {
            let configuration = machine.variable("XDG_CONFIG_HOME").map(PathBuf::from);
            let configuration = configuration.unwrap_or_else(|| machine.home.join(".config"));
            let path = configuration.join("systemd/user").join(UNIT);
            return Ok(ServiceUnit { manager: Manager::Systemd, path, text: systemd(&command, folder) });
        }
        let message = "services are known for Linux (systemd) and macOS (launchd) only: start `scrollback serve` at login yourself";
        Err(Failure::new(FAILED, "no_service", message))
    }

    fn is_installed(&self) -> Result<bool, Failure> {
        match std::fs::read_to_string(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::io(&self.path.display().to_string(), &error)),
        }
    }

    /// The commands that start it, now and at every login.
    fn begin(&self) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => {
                words(&["systemctl --user daemon-reload", "systemctl --user enable --now scrollback.service"])
            }
            Manager::Launchd => {
                vec![vec!["launchctl".into(), "load".into(), "-w".into(), self.path.display().to_string()]]
            }
        }
    }

    /// The commands that stop it, before its file is deleted.
    fn end(&self) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => words(&["systemctl --user disable --now scrollback.service"]),
            Manager::Launchd => {
                vec![vec!["launchctl".into(), "unload".into(), "-w".into(), self.path.display().to_string()]]
            }
        }
    }
}

fn words(commands: &[&str]) -> Vec<Vec<String>> {
    commands.iter().map(|command| command.split(' ').map(String::from).collect()).collect()
}

/// A store's URL that means the same in any folder.
fn absolute(machine: &ClientMachine, url: &str) -> String {
    match Url::parse(url) {
        Ok(Url::Sqlite(path)) if path != ":memory:" => {
            format!("sqlite:{}", machine.folder.join(path).display())
        }
        _ => url.into(),
    }
}

/// The text of a systemd user unit.
fn systemd(command: &[String], folder: &Path) -> String {
    // systemd reads % and $ as its own, and splits at spaces outside quotes.
    let quoted = |word: &String| {
        format!(
            "\"{}\"",
            word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$")
        )
    };
    let command = command.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let folder = folder.display().to_string().replace('%', "%%");
    format!(
        "[Unit]\n\
         Description=Scrollback, the record of conversations with models\n\
         \n\
         [Service]\n\
         ExecStart={command}\n\
         WorkingDirectory={folder}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}

/// The text of a launchd agent.
fn launchd(command: &[String], folder: &Path) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words = command.iter().map(|word| format!("    <string>{}</string>", escaped(word)));
    let command = words.collect::<Vec<_>>().join("\n");
    let folder = escaped(&folder.display().to_string());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n  \
         <key>Label</key>\n  <string>{LABEL}</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n{command}\n  </array>\n  \
         <key>WorkingDirectory</key>\n  <string>{folder}</string>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  \
         <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n\
         </dict>\n\
         </plist>\n"
    )
}

fn install(unit: &ServiceUnit, setup: &Setup, effect: Effect, json: bool) -> Result<(), Failure> {
    if effect == Effect::Show {
        let told =
            json!({ "path": unit.path.display().to_string(), "text": unit.text, "state": "would_write" });
        return input::print(&if json {
            format!("{told}\n")
        } else {
            format!("# {}\n{}", unit.path.display(), unit.text)
        });
    }
    let failed = |error: std::io::Error| Failure::io(&unit.path.display().to_string(), &error);
    let there = std::fs::read_to_string(&unit.path).ok();
    let unchanged = there.as_deref() == Some(unit.text.as_str());
    if !unchanged {
        setup.make_folder()?;
        if let Some(folder) = unit.path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        // The address of a database may hold a password.
        write_private(&unit.path, &unit.text)?;
    }
    let missed = do_all(&unit.begin());
    tell(unit, if unchanged { "unchanged" } else { "written" }, missed.as_deref(), json)
}

fn remove(unit: &ServiceUnit, effect: Effect, json: bool) -> Result<(), Failure> {
    if !unit.is_installed()? {
        return tell(unit, "not_installed", None, json);
    }
    if effect == Effect::Show {
        return tell(unit, "would_remove", None, json);
    }
    // What cannot be stopped, because nothing runs here, need not be.
    do_all(&unit.end());
    std::fs::remove_file(&unit.path)
        .map_err(|error| Failure::io(&unit.path.display().to_string(), &error))?;
    if unit.manager == Manager::Systemd {
        do_all(&words(&["systemctl --user daemon-reload"]));
    }
    tell(unit, "removed", None, json)
}

fn tell(unit: &ServiceUnit, state: &str, missed: Option<&str>, json: bool) -> Result<(), Failure> {
    let path = unit.path.display().to_string();
    if json {
        let told = json!({ "path": path, "state": state, "running": missed.is_none(), "to_do": missed });
        return input::print(&format!("{told}\n"));
    }
    let line = match state {
        "unchanged" => format!("{path} was there already"),
        "written" => format!("wrote {path}"),
        "removed" => format!("removed {path}"),
        "would_remove" => format!("{path} would be removed; nothing was changed"),
        _ => format!("there is no {path}; nothing to remove"),
    };
    input::print(&format!("{line}\n"))?;
    if let Some(command) = missed {
        input::note(&format!("it could not be started from here: run `{command}` in a session of your own"));
    }
    Ok(())
}

/// Runs commands; the first that did not work, if one did not, with those after it.
fn do_all(commands: &[Vec<String>]) -> Option<String> {
    let works = |command: &[String]| {
        let Some((program, arguments)) = command.split_first() else { return true };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let failed = commands.iter().position(|command| !works(command))?;
    let rest = commands.get(failed..).unwrap_or_default();
    Some(rest.iter().map(|command| command.join(" ")).collect::<Vec<_>>().join(" && "))
}

fn status(unit: &ServiceUnit, json: bool) -> Result<(), Failure> {
    let installed = unit.is_installed()?;
    let address = server_address()?;
    let found = look(address);
    let (server, words) = match &found {
        AddressState::Server(running) => {
            (Value::from(running.version.clone()), format!("a server answers on {address}"))
        }
        AddressState::Locked { version } => {
            (Value::from(version.clone()), format!("a server answers on {address}"))
        }
        AddressState::Other => (Value::Null, format!("something other than Scrollback answers on {address}")),
        AddressState::Nothing => (Value::Null, format!("nothing answers on {address}")),
    };
    let path = unit.path.display().to_string();
    if json {
        let told =
            json!({ "installed": installed, "path": path, "listen": address.to_string(), "server": server });
        return input::print(&format!("{told}\n"));
    }
    let first = if installed {
        format!("installed: {path}")
    } else {
        "not installed; `scrollback service install` does it".into()
    };
    input::print(&format!("{first}\n{words}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_quote_what_their_readers_would_take_for_something_else() {
        let command =
            ["/opt/a b/scrollback", "serve", "--store", "sqlite:/home/me/100%/$x.db"].map(String::from);
        let unit = systemd(&command, Path::new("/home/me"));
        let line = r#"ExecStart="/opt/a b/scrollback" "serve" "--store" "sqlite:/home/me/100%%/$$x.db""#;
        assert!(unit.contains(line), "{unit}");
        let agent = launchd(&["/opt/<x>&y".to_string()], Path::new("/home/me"));
        assert!(agent.contains("<string>/opt/&lt;x&gt;&amp;y</string>"), "{agent}");
    }
}
