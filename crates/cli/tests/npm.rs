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
    // Each file by its name: what Node makes of the name of a folder differs by its version.
    let files: Vec<_> = std::fs::read_dir(root.join("npm/tests"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_string_lossy().ends_with(".test.mjs"))
        .collect();
    let done = Command::new(node)
        .arg("--test")
        .args(files)
        .current_dir(root)
        .env("SCROLLBACK_PROGRAM", env!("CARGO_BIN_EXE_scrollback"))
        .env("SCROLLBACK_TOOLS", tools)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, trouble) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}\n{trouble}");
    // Node counts what it found: no file of tests is no success.
    assert!(said.contains("pass 14") && said.contains("fail 0"), "{said}");
}
