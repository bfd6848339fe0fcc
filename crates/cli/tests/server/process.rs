//! The server as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, request, send};
use crate::support::{folder, scrollback_in};

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    store: String,
}

/// How a server is started.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    /// What stands in `scrollback.toml`.
    pub(crate) config: &'a str,
    /// Variables of the environment.
    pub(crate) variables: Vec<(&'a str, String)>,
    /// Another store than a file of its own.
    pub(crate) store: Option<String>,
}

/// The variables that say where providers are.
fn before(upstream: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("OPENAI_BASE_URL", format!("http://{upstream}/v1")),
        ("ANTHROPIC_BASE_URL", format!("http://{upstream}")),
        ("GOOGLE_GEMINI_BASE_URL", format!("http://{upstream}")),
    ]
}

impl Server {
    /// A server in a folder of its own that answers by itself.
    pub(crate) fn start(name: &str) -> Server {
        Server::with(name, &Setup::default())
    }

    /// A server whose clients' requests go to a provider at `upstream`.
    pub(crate) fn before(name: &str, upstream: SocketAddr, config: &str) -> Server {
        Server::with(name, &Setup { config, variables: before(upstream), store: None })
    }

    pub(crate) fn with(name: &str, setup: &Setup<'_>) -> Server {
        let folder = folder(&format!("server-{name}"));
        std::fs::write(folder.join("scrollback.toml"), setup.config).unwrap();
        let store = setup.store.clone().unwrap_or_else(|| "sqlite:record.db".into());
        Server::launch(&folder, &store, setup)
    }

    fn launch(folder: &Path, store: &str, setup: &Setup<'_>) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scrollback"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--store", store, "--log-format", "json"])
            .current_dir(folder)
            .env("XDG_CONFIG_HOME", folder.join("none"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("log")).unwrap());
        for name in [
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_BASE_URL",
            "ANTHROPIC_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "SCROLLBACK_STORE",
        ] {
            command.env_remove(name);
        }
        command.envs(setup.variables.iter().map(|(name, value)| (*name, value)));
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!("{error}: {line:?} {}", std::fs::read_to_string(folder.join("log")).unwrap_or_default())
        });
        let address = told["listen"].as_str().unwrap().parse().unwrap();
        Server { child, address, folder: folder.to_path_buf(), store: store.into() }
    }

    /// The same server once more, after it was killed.
    pub(crate) fn again(mut self) -> Server {
        let _ = self.child.kill();
        let _ = self.child.wait();
        Server::launch(&self.folder, &self.store, &Setup::default())
    }

    /// The same server once more, before the same provider.
    pub(crate) fn resumed(mut server: Server, upstream: SocketAddr) -> Server {
        let _ = server.child.kill();
        let _ = server.child.wait();
        Server::launch(
            &server.folder,
            &server.store,
            &Setup { variables: before(upstream), ..Setup::default() },
        )
    }

    /// Sends a request.
    pub(crate) fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(self.address, &request(method, path, headers, body.as_bytes()))
    }

    /// The lines that the server has logged about calls, once there are so many: each is written when its call has ended,
    /// which is a moment after its client has read the reply.
    pub(crate) fn calls_logged(&self, count: usize) -> Vec<Value> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let calls: Vec<Value> = lines.filter(|line| line["message"] == "call").collect();
            if calls.len() >= count || Instant::now() > until {
                return calls;
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, &[], body)
    }

    /// What the command line says about the store.
    pub(crate) fn command(&self, args: &[&str]) -> Value {
        let all: Vec<&str> = args.iter().copied().chain(["--json", "--store", &self.store]).collect();
        let run = scrollback_in(&self.folder, &all, b"");
        assert!(run.code == 0 || args[0] == "verify", "{args:?}: {}", run.stderr);
        run.json()
    }

    /// Every message of a conversation, as role and text, decisions as their name.
    pub(crate) fn record(&self, conversation: &str) -> Vec<(String, String)> {
        let all: Vec<&str> =
            vec!["export", "--conversation", conversation, "--format", "scrollback", "--store", &self.store];
        let run = scrollback_in(&self.folder, &all, b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        // A fork comes after what it was forked from, and shares what lies below its place.
        let mut record: Vec<(String, String)> = Vec::new();
        for line in run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            if line.get("scrollback").is_some() {
                record.truncate(line["fork_position"].as_u64().unwrap_or(0) as usize);
            } else {
                record.extend(said(&line));
            }
        }
        record
    }

    /// Whether the store says what was written.
    pub(crate) fn verified(&self) -> Value {
        let verified = self.command(&["verify"]);
        assert_eq!(verified["ok"], true, "{verified}");
        verified
    }
}

fn said(line: &Value) -> Option<(String, String)> {
    if let Some(decision) = line.get("decision") {
        return Some(("decision".into(), decision.to_string()));
    }
    let raw: Value = serde_json::from_str(line.get("raw")?.as_str()?).unwrap();
    Some((line["role"].as_str()?.to_string(), texts(&raw)))
}

/// Every text of a message, however it is written.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(texts).collect::<String>(),
        Value::Object(members) => {
            let inner = ["content", "parts", "text"].iter().filter_map(|key| members.get(*key));
            inner.map(texts).collect::<String>()
        }
        _ => String::new(),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
