//! The attacks that take no time, against the built program: `./dev trial attack` runs all of them.

use std::process::Command;

use crate::support::{repository, required};

#[test]
fn no_attack_on_the_built_program_gets_through() {
    let Some(python) = required::program(&["python3"], "attacks on the built program") else { return };
    let script = repository("tests/attack/run.py");
    let run = Command::new(python)
        .arg(script)
        .args(["--binary", env!("CARGO_BIN_EXE_scrollback"), "--short"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    let count = told.lines().filter(|line| line.starts_with("held")).count();
    assert!(run.status.success(), "{told}{}", String::from_utf8_lossy(&run.stderr));
    assert!(count >= 60, "{count} attacks were run");
}
