//! Two agents on one conversation: the second waits or is told who works on it, and a dead holder holds nothing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{scripted, scrollback_in};

const AGENT: &str = "name: slow\nmodel: offline:script=script.yaml\ntools:\n  - name: wait\n    description: waits\n    parameters: { type: object }\n    command: [sh, -c, 'touch begun; while [ ! -e go ]; do sleep 0.05; done; echo done']\n";
const SCRIPT: &str = "- {calls: [{name: wait, arguments: {}, id: a}]}\n- {reply: finished}\n";

fn agent(folder: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["agent", "agent.yaml", "go", "--recipient", "anna"])
        .args(more)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn until(folder: &Path, file: &str) {
    for _ in 0..1_200 {
        if folder.join(file).exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("{file} never came");
}

#[test]
fn the_second_agent_is_told_who_works_or_waits() {
    let folder = scripted("busy", "agent.yaml", AGENT, SCRIPT);
    let first = agent(&folder, &[]);
    until(&folder, "begun");
    let refused =
        scrollback_in(&folder, &["agent", "agent.yaml", "me too", "--recipient", "anna", "--json"], b"");
    let error = &refused.json()["error"];
    assert_eq!((refused.code, error["code"].as_str()), (1, Some("busy")), "{refused:?}");
    assert!(error["holder"].as_str().unwrap().contains(&format!("/{}/", first.id())), "{error}");
    assert!(refused.stderr.contains(&format!("process {}", first.id())), "{refused:?}");
    let chat = scrollback_in(&folder, &["chat", "agent.yaml", "--recipient", "anna"], b"and me\n");
    assert!(chat.code == 1 && chat.stderr.contains("--wait waits"), "{chat:?}");
    let waiting = agent(&folder, &["--wait"]);
    std::fs::write(folder.join("go"), "").unwrap();
    for child in [first, waiting] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let record = scrollback_in(&folder, &["history", "anna", "--all", "--json"], b"").json();
    let replies =
        record["messages"].as_array().unwrap().iter().filter(|one| one["content"] == "finished").count();
    assert_eq!(replies, 2, "one after the other: {record}");
}

#[test]
fn a_holder_that_was_killed_and_not_yet_collected_holds_nothing() {
    let folder = scripted("busy-zombie", "agent.yaml", AGENT, SCRIPT);
    let mut first = agent(&folder, &[]);
    until(&folder, "begun");
    first.kill().unwrap();
    // Not waited for: the process is a zombie until this test collects it.
    std::fs::write(folder.join("go"), "").unwrap();
    let mut second = Default::default();
    for _ in 0..200 {
        second =
            scrollback_in(&folder, &["agent", "agent.yaml", "next", "--recipient", "anna", "--json"], b"")
                .code;
        if second == 0 {
            break;
        }
        // The signal may not have arrived yet.
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(second, 0, "the lease of a dead process blocks no one");
    first.wait().unwrap();
}
