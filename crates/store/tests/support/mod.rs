//! What the tests of the store share: a PostgreSQL server of their own, and a generator of plans.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

#[path = "../../../../tests/support/required.rs"]
pub mod required;

/// A PostgreSQL server in a temporary folder, on a socket there; gone when dropped.
pub struct Server {
    folder: TempDir,
    bin: PathBuf,
    options: String,
    /// Where it listens beside its socket, on this machine only.
    port: u16,
}

/// Where the server's programs are installed; the newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

impl Server {
    /// Starts a server; none, with a notice, if there is no PostgreSQL to be had.
    pub fn start() -> Option<Server> {
        Server::start_with("", |_| ())
    }

    /// The same with further options, and with files that are made in its folder first.
    pub fn start_with(options: &str, prepare: impl FnOnce(&Path)) -> Option<Server> {
        let Some(bin) = programs() else {
            required::missing("PostgreSQL", "everything that needs a server of it");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("scrollback-pg").tempdir_in("/tmp").unwrap();
        prepare(folder.path());
        let options = options.replace("FOLDER", folder.path().to_str().unwrap());
        let server = Server { folder, bin, options, port: free_port() };
        if is_root() {
            // The server refuses to run as root, so the folder becomes its user's.
            assert!(
                Command::new("chown")
                    .args(["-R", "postgres"])
                    .arg(server.folder.path())
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let data = server.data();
        let data = data.to_str().unwrap();
        server.run(
            "initdb",
            &["-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        );
        server.launch();
        server.sql("create role app login");
        server.sql("create database app owner app");
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let path = self.bin.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, args: &[&str]) {
        let output = self.command(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the server again after it was stopped.
    pub fn launch(&self) {
        let (data, log) = (self.data(), self.folder.path().join("log"));
        let socket = self.folder.path().to_str().unwrap();
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={socket} -c max_connections=60 \
             -c fsync=on {}",
            self.port, self.options
        );
        let (data, log) = (data.to_str().unwrap(), log.to_str().unwrap());
        let args = ["start", "-w", "-t", "60", "-D", data, "-l", log, "-o", &options];
        // Its output would hold the pipe of the test open.
        let status =
            self.command("pg_ctl").args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{}", std::fs::read_to_string(log).unwrap_or_default());
    }

    /// Stops the server as a power failure would: nothing is flushed, connections break.
    pub fn crash(&self) {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-D", self.data().to_str().unwrap()]);
    }

    /// Runs SQL as the server's owner.
    pub fn sql(&self, sql: &str) {
        let (socket, port) = (self.folder.path().to_str().unwrap(), self.port.to_string());
        self.run("psql", &["-q", "-h", socket, "-p", &port, "-U", "postgres", "-d", "postgres", "-c", sql]);
    }

    /// What a query answers, in a database, as the server's owner.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let (socket, port) = (self.folder.path().to_str().unwrap(), self.port.to_string());
        let args = ["-qtA", "-h", socket, "-p", &port, "-U", "postgres", "-d", database, "-c", sql];
        let output = self.command("psql").args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    /// The folder of its programs.
    pub fn programs(&self) -> &Path {
        &self.bin
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder, in which its socket and its log are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The user of the system it runs as, for programs that refuse root too.
    pub fn as_its_user(program: &Path) -> Command {
        if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            return command;
        }
        Command::new(program)
    }

    /// The URL of the database, for a role that is no superuser, so that row-level security holds for it.
    pub fn url(&self) -> String {
        format!("postgres://app@{}:{}/app", self.host(), self.port)
    }

    pub fn host(&self) -> String {
        self.folder.path().to_str().unwrap().replace('/', "%2F")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.data();
        let _ = self
            .command("pg_ctl")
            .args(["stop", "-m", "immediate", "-D", data.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // As root the folder's files belong to another user, and go all the same.
        let _ = std::fs::remove_dir_all(&data);
    }
}

/// A port that is free now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A small generator of numbers: the same seed, the same plan.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

/// What takes a store back to how it was before requests were kept in parts.
pub fn before_parts(schema: &str, version: usize) -> String {
    let columns = ["tenant", "template", "request_hash", "tokens", "factor", "holder"];
    let drop_columns =
        columns.map(|column| format!("alter table {schema}sent drop column {column};")).concat();
    let sessions = before_sessions(schema);
    format!(
        "{sessions} drop index {schema}sent_model; drop index {schema}sent_open; drop table {schema}sent_parts; {drop_columns}
         update {schema}meta set value = '{version}' where key = 'schema_version';"
    )
}

/// SQL that takes a store back to the version before rows had digests.
pub fn before_digests(schema: &str) -> String {
    let tables = [
        "conversations",
        "sessions",
        "evaluations",
        "runs",
        "steps",
        "spans",
        "events",
        "sent",
        "sent_parts",
        "aliases",
        "keys",
        "key_uses",
    ];
    tables.map(|table| format!("alter table {schema}{table} drop column digest;")).concat()
}

/// SQL that takes a store back to the version before there were handles.
pub fn before_recall(schema: &str) -> String {
    let digests = before_digests(schema);
    format!(
        "{digests} drop index {schema}conversations_tail; drop index {schema}conversations_project; \
         drop index {schema}sessions_named; alter table {schema}conversations drop column tail; \
         alter table {schema}conversations drop column project;"
    )
}

/// SQL that takes a store back to the version before there were sessions.
pub fn before_sessions(schema: &str) -> String {
    let recall = before_recall(schema);
    let columns = ["session_id", "kind", "scope"];
    let drop_columns =
        columns.map(|column| format!("alter table {schema}conversations drop column {column};")).concat();
    format!(
        "{recall} drop index {schema}conversations_session; drop index {schema}conversations_scope; \
         drop table {schema}sessions; {drop_columns}"
    )
}

/// Runs async code in a test.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// The process that writes and is killed, built with the tests.
pub fn victim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/writer");
    assert!(path.exists(), "{} is not built: cargo build -p scrollback-store --examples", path.display());
    path
}

/// A path inside a folder, as text.
pub fn inside(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_string()
}
