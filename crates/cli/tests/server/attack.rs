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

#[test]
fn the_page_on_security_says_what_was_tried_and_that_nothing_got_through() {
    let page = std::fs::read_to_string(repository("docs/security.md")).unwrap();
    let (_, rest) = page.split_once("<!-- attacks -->").unwrap();
    let (table, _) = rest.split_once("<!-- end of attacks -->").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 60, "{} attacks are listed", rows.len());
    let through: Vec<&&str> = rows.iter().filter(|row| row.contains("(got through)")).collect();
    assert!(through.is_empty(), "{through:#?}");
}
