//! `scrollback wrap`: one run of a client through Scrollback, which leaves nothing behind but the record.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use scrollback_agent::StopSignal;
use scrollback_agent::config::{ServerSettings, user_store};
use scrollback_core::redact::Redactor;
use scrollback_server::{App, Listening, bind, serve};
use serde_json::json;

use super::args::WrapArgs;
use super::launch::{Launch, launch, name_run};
use super::machine::ClientMachine;
use super::running::{AddressState, Running, look, loopback};
use super::setup::is_whole_path;
use super::upstream::{Surroundings, Upstreams, surroundings};
use super::{Client, child, nearest_client, reachable};
use crate::failure::{FAILED, Failure, USAGE};
use crate::server::busy_port::holder_of;
use crate::store::args::StoreArgs;
use crate::store::{Intent, Setup};
use crate::{input, telemetry};

pub(crate) fn run(args: &WrapArgs, json: bool) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let machine = ClientMachine::here()?;
    check_program(program, &machine)?;
    let named = StoreArgs { store: args.store.clone(), tenant: None };
    let setup = Setup::anywhere(&named)?;
    let settings = setup.config.server()?;
    let client = Client::of_command(program);
    let mut found = surroundings(client, &machine, arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime", &error))?;
    let running = if args.store.is_some() {
        // Base URLs that lead to Scrollback are not the client's own, whichever server is used.
        outer_server(&mut found.upstreams);
        None
    } else {
        running(&mut found.upstreams, &settings)?
    };
    let wrapped = Wrapped {
        program,
        arguments,
        client,
        found: &found,
        machine: &machine,
        store_url: &setup.url,
        quiet: args.quiet,
        json,
    };
    let code = runtime.block_on(async {
        if let Some(running) = running {
            return wrapped.run(running.address, &running.store, Started::Before).await;
        }
        let server = Server::start(&setup, settings, &found.upstreams).await?;
        let code = wrapped.run(server.address, &server.store, Started::Now).await;
        server.end().await?;
        code
    })?;
    // Standard input may still be read by a thread that nothing can wake.
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

/// Finds mistakes in the command before a server is started for it.
fn check_program(program: &OsString, machine: &ClientMachine) -> Result<(), Failure> {
    let name = program.to_string_lossy();
    if name.starts_with('-') {
        let message = format!(
            "{name:?} comes before the client: name the client first, as in `scrollback wrap claude {name}`"
        );
        return Err(Failure::new(USAGE, "usage", message));
    }
    if Path::new(program).components().count() > 1 || machine.program(&name).is_some() {
        return Ok(());
    }
    let first = name.split_whitespace().next().unwrap_or_default();
    let hint = if first.len() < name.len() {
        format!("; without the quotes it is `scrollback wrap {name}`")
    } else if let Some(client) = Client::ALL.into_iter().find(|client| client.name() == name) {
        format!("; install {} with `{}`", client.title(), client.installed_by())
    } else if let Some(near) = nearest_client(&name) {
        format!("; did you mean `{near}`?")
    } else {
        "; write its path, or put its folder into PATH".into()
    };
    let message = format!("there is no command {name:?}{hint}");
    Err(Failure::new(USAGE, "no_command", message).with("command", name.into_owned()))
}

/// The server to use, if one answers that passes requests on to where the client would have sent them.
fn running(wanted: &mut Upstreams, settings: &ServerSettings) -> Result<Option<Running>, Failure> {
    if let Some(outer) = outer_server(wanted) {
        return Ok(Some(outer));
    }
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, scrollback_agent::config::DEFAULT_PORT));
    let address = reachable(settings.listen.unwrap_or(usual));
    match look(address) {
        AddressState::Server(running) => Ok(passes_on_to(&running, wanted).then_some(running)),
        AddressState::Locked { .. } => Err(locked(&format!("the server on {address}"))),
        AddressState::Nothing | AddressState::Other => Ok(None),
    }
}

/// The server that a base URL leads to already, from another `wrap` around this one or from `setup`. Base URLs of
/// Scrollback are taken out: requests would go round in a circle, or be recorded twice.
fn outer_server(wanted: &mut Upstreams) -> Option<Running> {
    let mut outer = None;
    for url in wanted.all_mut() {
        let Some(address) = url.as_deref().and_then(loopback) else { continue };
        // A provider on this machine is not sent a request that its client did not make.
        if holder_of(address.port()).is_some_and(|holder| holder.name != "scrollback") {
            continue;
        }
        match look(address) {
            AddressState::Server(running) => {
                *url = None;
                outer.get_or_insert(running);
            }
            AddressState::Locked { .. } => *url = None,
            AddressState::Nothing | AddressState::Other => {}
        }
    }
    outer
}

/// Whether a server passes requests on to the places that are stated.
fn passes_on_to(running: &Running, wanted: &Upstreams) -> bool {
    let same = |wanted: &Option<String>, there: &Option<String>| {
        let plain = |url: &str| url.trim_end_matches('/').to_string();
        wanted.as_deref().is_none_or(|wanted| there.as_deref().map(plain) == Some(plain(wanted)))
    };
    same(&wanted.openai, &running.openai)
        && same(&wanted.anthropic, &running.anthropic)
        && same(&wanted.gemini, &running.gemini)
}

fn locked(what: &str) -> Failure {
    let message = format!(
        "{what} wants API keys, which a client cannot send beside its provider's: name a store without keys with --store"
    );
    Failure::new(FAILED, "no_keys", message)
}

/// A server inside this process. It never takes the configured port: other clients would find it there, and lose it when
/// this command ends.
struct Server {
    address: SocketAddr,
    store: String,
    stop: StopSignal,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    telemetry: scrollback_agent::telemetry::Telemetry,
}

impl Server {
    async fn start(
        setup: &Setup,
        settings: ServerSettings,
        upstreams: &Upstreams,
    ) -> Result<Server, Failure> {
        let redactor = Redactor::new(&setup.config.redaction())
            .map_err(|error| Failure::new(USAGE, "bad_config", format!("[redact]: {error}")))?;
        setup.make_folder()?;
        let store = setup.open(Intent::Write).await?;
        if store.keys().await?.iter().any(|key| key.revoked_at.is_none()) {
            return Err(locked(&format!("the store {}", store.describe())));
        }
        let described = store.describe();
        let listening: Listening = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .map_err(|error| Failure::io("cannot listen on 127.0.0.1", &error))?;
        let address = listening.address;
        let telemetry = telemetry::start(&setup.config)?;
        let app = App::new(store, settings, catalog(setup, upstreams), redactor, address);
        app.send_spans_to(telemetry.clone());
        let stop = StopSignal::default();
        let served = tokio::spawn(serve(app, listening, stop.clone()));
        Ok(Server { address, store: described, stop, served, telemetry })
    }

    /// Lets replies under way be written down, and ends.
    async fn end(self) -> Result<(), Failure> {
        self.stop.stop();
        let served = self.served.await;
        telemetry::end(&self.telemetry).await;
        match served {
            Ok(served) => served.map_err(|error| Failure::io("threads to serve connections", &error)),
            Err(_) => {
                Err(Failure::new(FAILED, "internal", "the server inside this process ended with a panic"))
            }
        }
    }
}

/// The usual places of the providers.
const USUAL: [(&str, &str); 3] = [
    ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
];
/// Keys that the client has too, and sends itself if it wants them sent.
const KEYS_OF_CLIENTS: [&str; 4] =
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// The providers as the client would have found them: its own places before those of scrollback.toml, and its own keys. The
/// usual places are stated, so that a client with a wrong key hears so from its provider and not from `offline:echo`.
fn catalog(setup: &Setup, upstreams: &Upstreams) -> scrollback_agent::provider::Catalog {
    let stated = [&upstreams.openai, &upstreams.anthropic, &upstreams.gemini];
    let places: Vec<(&str, Option<String>)> = USUAL
        .iter()
        .zip(stated)
        .zip(["openai", "anthropic", "gemini"])
        .map(|(((name, usual), stated), provider)| {
            let usual = (!setup.config.has_base_url(provider)).then(|| (*usual).to_string());
            (*name, stated.clone().or(usual))
        })
        .collect();
    setup.config.catalog().with_environment(move |name| {
        if let Some((_, place)) = places.iter().find(|(known, _)| *known == name) {
            return place.clone();
        }
        if KEYS_OF_CLIENTS.contains(&name) { None } else { std::env::var(name).ok() }
    })
}

/// Whether the server was there before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Started {
    Before,
    Now,
}

/// One run of a command.
struct Wrapped<'w> {
    program: &'w OsString,
    arguments: &'w [OsString],
    client: Option<Client>,
    found: &'w Surroundings,
    machine: &'w ClientMachine,
    /// The store of a server that is started here.
    store_url: &'w str,
    quiet: bool,
    json: bool,
}

/// A name for this run that no other has.
fn run_name() -> String {
    scrollback_store::ConversationId::new(crate::store::now()).as_str().to_lowercase()
}

impl Wrapped<'_> {
    async fn run(&self, server: SocketAddr, store: &str, started: Started) -> Result<u8, Failure> {
        let base = format!("http://{server}");
        let mut told: Launch = launch(self.client, &base, self.found, self.machine, self.arguments);
        name_run(&mut told, self.client, self.machine, &run_name());
        // A tool that the client starts reads the record where the server writes it.
        match started {
            Started::Now => told.variables.push(("SCROLLBACK_STORE".into(), self.store_url.into())),
            Started::Before if is_whole_path(store) => {
                told.variables.push(("SCROLLBACK_STORE".into(), store.into()));
            }
            Started::Before => {}
        }
        if told.gemini_defaults {
            let file = gemini_defaults()?;
            told.variables.push(("GEMINI_CLI_SYSTEM_DEFAULTS_PATH".into(), file.display().to_string()));
        }
        self.tell(&base, store, started, &told.notes);
        let mut command = Command::new(self.program);
        command.args(&told.arguments).args(self.arguments).envs(told.variables);
        let name = self.program.to_string_lossy();
        child::run(&mut command).await.map_err(|error| child::cannot_start(&name, &error))
    }

    /// Says once, before the client has the terminal, where the record is. Standard output is the client's.
    fn tell(&self, base: &str, store: &str, started: Started, notes: &[String]) {
        if self.json {
            let told = json!({
                "client": self.client.map(Client::name),
                "server": base,
                "store": store,
                "started": started == Started::Now,
                "notes": notes,
            });
            eprintln!("{told}");
        } else if !self.quiet {
            input::note(&format!("recorded in {store}; what each call saw: {base}/"));
            for note in notes {
                input::note(note);
            }
        }
    }
}

/// A file of ours that tells Gemini CLI, below every setting of its own, to sign in with the key it has.
fn gemini_defaults() -> Result<PathBuf, Failure> {
    let file = user_store::folder().map(|folder| folder.join("gemini-defaults.json"));
    let file =
        file.ok_or_else(|| Failure::new(USAGE, "no_home", "the home directory is not known: set HOME"))?;
    let wanted = "{ \"security\": { \"auth\": { \"selectedType\": \"gemini-api-key\" } } }\n";
    let failed = |error: std::io::Error| Failure::io(&file.display().to_string(), &error);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(&file, wanted).map_err(failed)?;
    Ok(file)
}
