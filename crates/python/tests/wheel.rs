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

use scrollback::blocking::Store;
use scrollback::core::Slot;
use scrollback::{Entry, Wire, read_messages};

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

/// The Python with the newest wheel in it; none if either is missing, or the wheel is older than the code.
fn python_with_the_wheel() -> Option<PathBuf> {
    let python = target().join("venv-wheel/bin/python");
    let python = required::file(&python, "the environment of the Python package", UNTESTED)?;
    let stamp = required::file(&target().join("wheels/built"), "the wheel (./dev wheel)", UNTESTED)?;
    let built = std::fs::metadata(&stamp).unwrap().modified().unwrap();
    // Everything that is compiled into the wheel, or packed into it.
    let sources = [
        "python/scrollback",
        "crates/python/src",
        "crates/scrollback/src",
        "crates/store/src",
        "crates/core/src",
        "crates/core/data",
    ];
    let files = ["Cargo.lock", "Cargo.toml", "pyproject.toml", "crates/python/Cargo.toml"];
    let changed = |file: &str| std::fs::metadata(root().join(file)).unwrap().modified().unwrap() > built;
    if sources.iter().any(|folder| newest(&root().join(folder)) > built) || files.into_iter().any(changed) {
        required::missing("a wheel of this code (./dev wheel)", UNTESTED);
        return None;
    }
    Some(python)
}

/// Written by Python first, with a call whose arguments and numbers are spelled in a way of their own.
const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"track","arguments":"{\"id\":  7}"}}],"n":1.50}"#;

#[test]
fn rust_and_python_write_one_conversation_in_turns() {
    let Some(python) = python_with_the_wheel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shared.db").display());
    let in_python = |code: &str| {
        let begin =
            "import sys; from scrollback import Store; chat = Store(sys.argv[1]).conversation('anna')\n";
        let done = Command::new(&python)
            .args(["-c", &format!("{begin}{code}"), &url, CALL])
            .env_remove("PYTHONPATH")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    in_python("chat.append({'role': 'user', 'content': 'Grüße 👋'}); chat.append(sys.argv[2])");

    let store = Store::open(&url).unwrap();
    let mut chat = store.conversation("anna").unwrap();
    let Slot::Message(second) = &chat.record().slots()[1] else { panic!("a message") };
    assert_eq!(second.origin.raw.to_string(), CALL, "Rust has what Python wrote, byte for byte");
    let result = r#"{"role":"tool","tool_call_id":"c1","content":"in transit"}"#;
    for entry in read_messages(result, None).unwrap() {
        chat.append(entry).unwrap();
    }
    chat.append(Entry::assistant("On its way.")).unwrap();

    let told = in_python(
        "shown = chat.view('passthrough', wire='anthropic').messages\n\
         print([entry.text for entry in chat.entries()][2:], shown[2]['content'][0]['tool_use_id'])\n\
         chat.append({'role': 'user', 'content': 'thanks'})",
    );
    assert_eq!(told, "['in transit', 'On its way.'] c1\n");
    chat.reload().unwrap();
    assert_eq!(chat.record().len(), 5);
    let body = chat.view("turn_window(1)").unwrap().request(Wire::OpenaiChat).to_value();
    assert_eq!(body["messages"][0]["content"], "thanks");
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn the_wheel_passes_its_tests_in_a_fresh_environment() {
    let Some(python) = python_with_the_wheel() else { return };
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
