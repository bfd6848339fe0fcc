//! The packages for npm, by Node's own test runner: `npx scrollback`, and `scrollback/ai` in the real AI SDK.
#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(missing_docs)]
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../../../tests/support/required.rs"]
mod required;

const UNTESTED: &str = "the packages for npm";

#[test]
fn the_packages_for_npm_pass_their_tests_with_the_real_ai_sdk() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("clients");
    let found = required::file(&tools.join("installed.txt"), "the clients", UNTESTED);
    let Some(node) = found.and_then(|_| required::program(&["node"], UNTESTED)) else { return };
    let done = Command::new(node)
        .args(["--test", "npm/tests/"])
        .current_dir(root)
        .env("SCROLLBACK_PROGRAM", env!("CARGO_BIN_EXE_scrollback"))
        .env("SCROLLBACK_TOOLS", tools)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, trouble) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}\n{trouble}");
    // Node counts what it found: no file of tests is no success.
    assert!(said.contains("pass 9") && said.contains("fail 0"), "{said}");
}
