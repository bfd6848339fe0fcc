//! A file of any size is imported in the memory of a small one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::folder;

/// Megabytes of each file; the trial sets another number.
fn megabytes() -> usize {
    std::env::var("SCROLLBACK_TRIAL_MEGABYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

/// What an import may take, whatever the size of its file: the program as the tests build it, its caches, and a few pieces of 4 MB
/// on their way.
const MEMORY: usize = 60;

/// A file of lines that are made one after the other.
fn file(path: &Path, mut line: impl FnMut(usize) -> String) -> usize {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let (mut written, mut number) = (0, 0);
    while written < megabytes() * 1_000_000 {
        let line = line(number);
        written += line.len() + 1;
        number += 1;
        writeln!(out, "{line}").unwrap();
    }
    number
}

/// A text that is no other's.
fn text(number: usize) -> String {
    let mut text = String::new();
    while text.len() < 3_000 {
        let _ = write!(text, "line {} of message {number}, about an order and its refund. ", text.len());
    }
    text
}

/// Imports a file; how many entries were added, how many lines failed, and the most memory it took, in megabytes.
fn import(folder: &Path, name: &str) -> (u64, usize, usize) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["import", name, "--store", &format!("sqlite:{name}.db"), "--json"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        // The highest value so far, so nothing is missed in between.
        let now = std::fs::read_to_string(&status).unwrap_or_default();
        let line = now.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() / 1_000);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (report["added"].as_u64().unwrap(), report["failed"].as_array().unwrap().len(), peak)
}

#[test]
fn conversations_a_line_take_no_more_memory_than_a_few_of_them() {
    let folder = folder("large-lines");
    let lines = file(&folder.join("examples.jsonl"), |number| {
        let text = text(number);
        format!(
            r#"{{"messages":[{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{text}!"}}]}}"#
        )
    });
    let (added, failed, peak) = import(&folder, "examples.jsonl");
    println!("{} MB, {added} entries: {peak} MB", megabytes());
    assert_eq!((added, failed), (lines as u64 * 2, 0));
    assert!(peak < MEMORY, "{peak} MB for a file of {} MB", megabytes());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_long_conversation_takes_no_more_memory_than_a_piece_of_it() {
    let folder = folder("large-rollout");
    let lines = file(&folder.join("rollout.jsonl"), |number| {
        if number == 0 {
            return r#"{"type":"session_meta","payload":{"id":"long"}}"#.into();
        }
        let (role, part) =
            if number % 2 == 0 { ("assistant", "output_text") } else { ("user", "input_text") };
        let text = text(number);
        format!(
            r#"{{"type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"{part}","text":"{text}"}}]}}}}"#
        )
    });
    let (added, failed, peak) = import(&folder, "rollout.jsonl");
    println!("{} MB, {added} entries: {peak} MB", megabytes());
    assert_eq!((added, failed), (lines as u64 - 1, 0));
    assert!(peak < MEMORY, "{peak} MB for a file of {} MB", megabytes());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let folder = folder("large-line");
    let small = r#"{"messages":[{"role":"user","content":"hello"}]}"#;
    let mut out = std::io::BufWriter::new(std::fs::File::create(folder.join("lines.jsonl")).unwrap());
    writeln!(out, "{small}\n{small}").unwrap();
    for _ in 0..70 {
        out.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    write!(out, "\n{small}").unwrap();
    drop(out);
    let (added, failed, peak) = import(&folder, "lines.jsonl");
    assert_eq!((added, failed), (3, 1));
    assert!(peak < MEMORY + 70, "{peak} MB");
    std::fs::remove_dir_all(folder).unwrap();
}
