//! `scrollback wrap`: a client runs as if it had been started by itself, and what it says is recorded.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::process::{Server, Setup};
use crate::support::{Run, folder, scrollback_in};
use crate::upstream::{Upstream, completion, message};

/// A client that says what it was given, and asks its provider one thing.
const CLIENT: &str = r#"#!/usr/bin/env python3
import json, os, sys, urllib.request
names = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "ENABLE_TOOL_SEARCH"]
told = {"arguments": sys.argv[1:], "environment": {name: os.environ.get(name) for name in names}}
base = os.environ.get("ANTHROPIC_BASE_URL")
if base:
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [{"role": "user", "content": "good day"}]}
    headers = {"content-type": "application/json", "x-api-key": "a-key-of-the-client", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(base + "/v1/messages", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    answer = opener.open(request, timeout=60)
    told["reply"] = json.load(answer)["content"][0]["text"]
    told["conversation"] = answer.headers["x-scrollback-conversation"]
print(json.dumps(told))
"#;

/// A place to run wrapped commands in: a home directory, a working directory, and a client called `claude`.
struct Place {
    home: PathBuf,
    work: PathBuf,
    variables: Vec<(String, String)>,
}

impl Place {
    /// A place where nothing answers on the configured address: on a port found free, another test might by then.
    fn new(name: &str) -> Place {
        Place::before(name, SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    /// A place where `listen` is the configured address.
    fn before(name: &str, listen: SocketAddr) -> Place {
        let root = folder(&format!("wrap-{name}"));
        let (home, work) = (root.join("home"), root.join("work"));
        for folder in [&home, &work, &home.join("bin"), &home.join(".claude")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(work.join("scrollback.toml"), format!("server = {{ listen = \"{listen}\" }}\n"))
            .unwrap();
        std::fs::write(home.join(".claude/settings.json"), "{ \"model\": \"opus\" }").unwrap();
        let place = Place { home, work, variables: Vec::new() };
        place.program("claude", CLIENT);
        place
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.home.join("bin").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Place {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let path = format!("{}:{}", self.home.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_scrollback"));
        command
            .args(args)
            .current_dir(&self.work)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", path)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    fn run(&self, args: &[&str], input: &str) -> Run {
        let mut child = self.start(args);
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.home.join(".local/share/scrollback/scrollback.db").display())
    }

    /// What the record holds, as the command line shows it.
    fn listed(&self, store: &str) -> Value {
        let run = scrollback_in(&self.work, &["list", "--json", "--store", store], b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.json()
    }
}

/// All files below a folder, but those of the record.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with(".local") {
                folders.push(path);
            } else if path.is_file() {
                found.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_wrapped_client_reaches_its_provider_through_a_record_of_the_persons_own() {
    let upstream = Upstream::saying(message("good day to you"));
    let place = Place::new("first").with("ANTHROPIC_BASE_URL", format!("http://{}", upstream.address));
    let (home, work) = (files(&place.home), files(&place.work));
    let run = place.run(&["wrap", "claude", "-p", "--json", "hello"], "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let told = run.json();
    assert_eq!(told["reply"], "good day to you");
    assert_eq!(told["arguments"], serde_json::json!(["-p", "--json", "hello"]));
    assert_ne!(told["environment"]["ANTHROPIC_BASE_URL"], format!("http://{}", upstream.address));
    let received = upstream.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].path, "/v1/messages");
    assert_eq!(received[0].header("x-api-key"), Some("a-key-of-the-client"), "its own key goes on");
    assert_eq!(received[0].json()["messages"][0]["content"], "good day");
    assert_eq!(run.stderr.lines().count(), 1, "one line about the record: {}", run.stderr);
    assert!(run.stderr.contains(&place.store()), "{}", run.stderr);
    assert_eq!(place.listed(&place.store())["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(
        (files(&place.home), files(&place.work)),
        (home, work),
        "no file of the client or the project changed"
    );
}

#[test]
fn any_command_is_given_the_variables_of_all_three_providers() {
    let place = Place::new("any");
    let run = place.run(
        &["wrap", "-q", "sh", "-c", "echo $OPENAI_BASE_URL $ANTHROPIC_BASE_URL $GOOGLE_GEMINI_BASE_URL"],
        "",
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let urls: Vec<&str> = run.stdout.split_whitespace().collect();
    let [openai, anthropic, gemini] = urls.as_slice() else { panic!("{}", run.stdout) };
    assert_eq!(*openai, format!("{anthropic}/v1"));
    assert_eq!(anthropic, gemini);
    assert!(anthropic.starts_with("http://127.0.0.1:"));
}

#[test]
fn input_output_and_exit_code_are_the_clients() {
    let place = Place::new("pass-through");
    let run = place.run(&["wrap", "-q", "sh", "-c", "cat; echo problem >&2; exit 7"], "what was typed\n");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (7, "what was typed\n", "problem\n"));
    let killed = place.run(&["wrap", "-q", "sh", "-c", "kill -KILL $$"], "");
    assert_eq!(killed.code, 128 + 9);
}

#[test]
fn signals_reach_the_client_which_decides() {
    for (signal, code) in [("TERM", 41), ("INT", 42), ("HUP", 43)] {
        let place = Place::new(&format!("signal-{signal}"));
        let script = format!("trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut child = place.start(&["wrap", "-q", "sh", "-c", &script]);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let sent =
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
fn a_server_that_answers_is_used_and_not_asked_to_ask_itself() {
    let upstream = Upstream::saying(message("from the running one"));
    let server = Server::before("wrap-running", upstream.address, "");
    let here = format!("http://{}", server.address);
    // Once with nothing stated, once as `setup` or another `wrap` around this one would leave it.
    for stated in [None, Some(here.clone())] {
        let mut place = Place::before("running", server.address);
        if let Some(url) = stated {
            place = place.with("ANTHROPIC_BASE_URL", url);
        }
        let told = place.run(&["wrap", "claude"], "").json();
        assert_eq!(told["environment"]["ANTHROPIC_BASE_URL"], here);
        assert_eq!(told["reply"], "from the running one");
        assert!(!place.home.join(".local").exists(), "no second record is begun");
    }
    assert_eq!(upstream.received().len(), 2);
}

#[test]
fn a_server_that_would_send_calls_elsewhere_is_not_used() {
    let (there, wanted) =
        (Upstream::saying(completion("no")), Upstream::saying(message("from where it belongs")));
    let server = Server::before("wrap-elsewhere", there.address, "");
    let place = Place::before("elsewhere", server.address)
        .with("ANTHROPIC_BASE_URL", format!("http://{}", wanted.address));
    let told = place.run(&["wrap", "claude"], "").json();
    assert_eq!(told["reply"], "from where it belongs");
    assert_eq!((there.connections(), wanted.received().len()), (0, 1));
}

#[test]
fn settings_of_claude_code_decide_where_calls_go_and_do_not_lead_past_the_record() {
    let upstream = Upstream::saying(message("from the gateway"));
    let place = Place::new("settings").with("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let gateway =
        serde_json::json!({ "env": { "ANTHROPIC_BASE_URL": format!("http://{}", upstream.address) } });
    std::fs::write(place.home.join(".claude/settings.json"), gateway.to_string()).unwrap();
    let told = place.run(&["wrap", "claude", "-p", "x"], "").json();
    assert_eq!(told["reply"], "from the gateway");
    let base = &told["environment"]["ANTHROPIC_BASE_URL"];
    let settings: Value = serde_json::from_str(told["arguments"][1].as_str().unwrap()).unwrap();
    assert_eq!(
        (&told["arguments"][0], &settings["env"]["ANTHROPIC_BASE_URL"]),
        (&Value::from("--settings"), base)
    );
    assert_eq!(told["arguments"][2], "-p");
}

#[test]
fn codex_is_told_by_a_flag_and_its_calls_go_where_it_is_signed_in() {
    let upstream = Upstream::saying(completion("never asked"));
    let server = Server::before("wrap-codex", upstream.address, "");
    let place = Place::before("codex", server.address);
    place.program("codex", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let arguments = |place: &Place| {
        let run = place.run(&["wrap", "codex", "exec", "hello"], "");
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout.lines().map(String::from).collect::<Vec<_>>()
    };
    let here = format!("openai_base_url=\"http://{}/v1\"", server.address);
    assert_eq!(arguments(&place), ["-c", &here, "exec", "hello"]);
    // Signed in with ChatGPT, its calls belong elsewhere than the running server would send them.
    std::fs::create_dir_all(place.home.join(".codex")).unwrap();
    std::fs::write(place.home.join(".codex/auth.json"), "{\"auth_mode\": \"chatgpt\"}").unwrap();
    let signed_in = arguments(&place);
    assert!(signed_in[1].starts_with("openai_base_url=\"http://127.0.0.1:"), "{signed_in:?}");
    assert_ne!(signed_in[1], here);
    // A provider of the person's own is the one that is sent through.
    let own = format!(
        "model_provider = \"corp\"\n[model_providers.corp]\nbase_url = \"http://{}/v1\"\n",
        upstream.address
    );
    std::fs::write(place.home.join(".codex/config.toml"), own).unwrap();
    let provider = format!("model_providers.corp.base_url=\"http://{}/v1\"", server.address);
    assert_eq!(arguments(&place)[1], provider, "the running server passes on to the same place");
}

#[test]
fn a_wrap_inside_a_wrap_records_once() {
    let upstream = Upstream::saying(message("once"));
    let place = Place::new("nested").with("ANTHROPIC_BASE_URL", format!("http://{}", upstream.address));
    let inner = env!("CARGO_BIN_EXE_scrollback");
    let run = place.run(&["wrap", "-q", inner, "wrap", "-q", "claude"], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.json()["reply"], "once");
    assert_eq!(upstream.received().len(), 1);
    assert_eq!(place.listed(&place.store())["conversations"].as_array().unwrap().len(), 1);
}

#[test]
fn a_store_that_is_named_is_the_one_that_is_written() {
    let upstream = Upstream::saying(message("noted"));
    let place = Place::new("store").with("ANTHROPIC_BASE_URL", format!("http://{}", upstream.address));
    let told = place.run(&["wrap", "--store", "sqlite:here.db", "claude"], "").json();
    assert_eq!(told["reply"], "noted");
    assert_eq!(place.listed("sqlite:here.db")["conversations"].as_array().unwrap().len(), 1);
    assert!(!place.home.join(".local").exists());
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let place = Place::new("mistakes");
    let cases: [(&[&str], &str); 6] = [
        (&["wrap", "cluade"], "did you mean `claude`?"),
        (&["wrap", "claude -p hello"], "`scrollback wrap claude -p hello`"),
        (&["wrap", "--", "-p", "hello"], "name the client first"),
        (&["wrap", "no-such-command-here"], "no command"),
        (&["wrap", "gemini-cli"], "did you mean `gemini`?"),
        (&["wrap"], "CLIENT"),
    ];
    for (args, expected) in cases {
        let run = place.run(args, "");
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
        assert!(!place.home.join(".local").exists(), "{args:?}");
    }
    std::fs::write(place.home.join(".local"), "no folder").unwrap();
    let run = place.run(&["wrap", "claude"], "");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains(".local") && run.stderr.contains("--store"), "{}", run.stderr);
}

#[test]
fn a_store_with_keys_is_not_opened_to_a_client_that_cannot_send_one() {
    let place = Place::new("keys");
    let made = scrollback_in(&place.work, &["key", "add", "ci", "--store", "sqlite:keys.db"], b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let run = place.run(&["wrap", "--store", "sqlite:keys.db", "claude"], "");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("API keys") && run.stderr.contains("--store"), "{}", run.stderr);
    let server = Server::with(
        "wrap-locked",
        &Setup {
            store: Some(format!("sqlite:{}", place.work.join("keys.db").display())),
            ..Setup::default()
        },
    );
    let locked = Place::before("locked", server.address).run(&["wrap", "claude"], "");
    assert_eq!(locked.code, 1);
    assert!(locked.stderr.contains("wants API keys"), "{}", locked.stderr);
}
