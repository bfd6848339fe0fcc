//! Real clients through the real binary, by `tests/clients/run.py`: the short form of each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../../../tests/support/required.rs"]
mod required;

/// What a client sent reaches the provider unchanged, and one session of a client is one in the record.
#[test]
fn real_clients_work_unchanged_through_the_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("clients");
    let untested = "Claude Code, Codex, opencode and the packages of providers as clients";
    if required::file(&tools.join("installed.txt"), "the clients", untested).is_none() {
        return;
    }
    let status = Command::new("python3")
        .arg(root.join("tests/clients/run.py"))
        .args(["--short", "--again", "--binary", env!("CARGO_BIN_EXE_scrollback"), "--tools"])
        .arg(&tools)
        .arg("--keep")
        .arg(target.join("tmp/clients"))
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "the last lines above say which client and why");
}
