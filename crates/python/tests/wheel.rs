//! The Python package as people get it: the built wheel in a fresh environment, never the source tree.
//!
//! `./dev wheel` builds the wheel, and `./dev setup` the environment with the frameworks. `cargo test` runs what is in
//! `python/tests` there; where either is missing or older than the code, that is said as for every other tool.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "../../../tests/support/required.rs"]
mod required;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const UNTESTED: &str = "the Python package";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// When the newest file below a folder was written.
fn newest(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        let written =
            if path.is_dir() { newest_in(&path) } else { entry.metadata().unwrap().modified().unwrap() };
        newest = newest.max(written);
    }
    newest
}

fn newest_in(folder: &Path) -> SystemTime {
    let skipped = folder.ends_with("tests") || folder.ends_with("__pycache__");
    if skipped { SystemTime::UNIX_EPOCH } else { newest(folder) }
}

#[test]
fn the_wheel_passes_its_tests_in_a_fresh_environment() {
    let python = target().join("venv-wheel/bin/python");
    let Some(python) = required::file(&python, "the environment of the Python package", UNTESTED) else {
        return;
    };
    let stamp = target().join("wheels/built");
    let Some(stamp) = required::file(&stamp, "the wheel (./dev wheel)", UNTESTED) else { return };
    let built = std::fs::metadata(&stamp).unwrap().modified().unwrap();
    let sources = ["python/scrollback", "crates/python/src", "crates/scrollback/src"];
    if sources.iter().any(|folder| newest(&root().join(folder)) > built) {
        required::missing("a wheel of this code (./dev wheel)", UNTESTED);
        return;
    }
    let done = Command::new(python)
        .args([
            "-X",
            "dev",
            "-m",
            "pytest",
            "-q",
            "-p",
            "pytest_asyncio.plugin",
            "-p",
            "no:cacheprovider",
            "python/tests",
        ])
        .current_dir(root())
        .env("SCROLLBACK_PROGRAM", target().join("debug/scrollback"))
        // What the frameworks bring along for pytest takes longer to load than the tests take.
        .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        .env_remove("PYTHONPATH")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}
