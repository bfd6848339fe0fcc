//! Scripts that were written for an earlier version: its commands, flags, codes of errors and JSON keys exist still, or the
//! changelog names them with their replacement.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{repository, scrollback};

/// The lines of a list of what 0.1.0 had.
fn listed(name: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(repository(&format!("corpus/compatibility/{name}-0.1.0.txt"))).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect()
}

/// Whether the changelog names something that is gone.
fn is_told(name: &str) -> bool {
    std::fs::read_to_string(repository("CHANGELOG.md")).unwrap().contains(&format!("`{name}`"))
}

/// Whether a command takes a flag that its help does not list.
fn is_taken(command: &[&str], flag: &str) -> bool {
    let with_value = format!("{flag}=1");
    [flag, &with_value].iter().any(|flag| scrollback(&[command, &[*flag, "--help"]].concat(), "").code == 0)
}

#[test]
fn every_command_and_flag_of_the_version_before_exists() {
    let (mut found, mut gone) = (0, Vec::new());
    for line in listed("commands") {
        let (flags, command): (Vec<&str>, Vec<&str>) =
            line.split(' ').skip(1).partition(|word| word.starts_with('-'));
        let told = scrollback(&[&command[..], &["--help"]].concat(), "");
        if told.code != 0 {
            gone.push(command.join(" "));
            continue;
        }
        let words: BTreeSet<&str> =
            told.stdout.split(|c: char| c.is_whitespace() || ",[]=".contains(c)).collect();
        for flag in flags {
            found += 1;
            if !words.contains(flag) && !is_taken(&command, flag) && !is_told(flag) {
                gone.push(format!("{} {flag}", command.join(" ")));
            }
        }
    }
    assert!(gone.is_empty(), "scripts use these: {gone:?}");
    assert!(found > 200, "only {found} flags were compared");
}

#[test]
fn every_code_of_an_error_of_the_version_before_is_documented() {
    let page = std::fs::read_to_string(repository("docs/errors.md")).unwrap();
    let codes = listed("error-codes");
    let gone: Vec<&String> =
        codes.iter().filter(|code| !page.contains(&format!("`{code}`")) && !is_told(code)).collect();
    assert!(gone.is_empty() && codes.len() > 100, "scripts act on these: {gone:?}");
}

/// The names of all properties below a schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                found.extend(properties.keys().cloned());
            }
            members.values().for_each(|member| keys(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_json_key_of_the_version_before_is_printed_still() {
    let schema: Value = serde_json::from_str(
        &std::fs::read_to_string(repository("crates/flow/documents.schema.json")).unwrap(),
    )
    .unwrap();
    for line in listed("json-keys") {
        let (name, wanted) = line.split_once(' ').unwrap();
        let mut found = BTreeSet::new();
        keys(&schema["$defs"][name], &mut found);
        let gone: Vec<&str> =
            wanted.split(' ').filter(|key| !found.contains(*key) && !is_told(key)).collect();
        assert!(gone.is_empty(), "{name} had these: {gone:?}");
    }
}
