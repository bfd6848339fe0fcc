//! The core stays pure: no I/O, no clock, no randomness, no threads, no runtime. Clippy refuses most doors by path
//! (`clippy.toml`); this reads the sources and the manifest, so that a new dependency does not open one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// What has no place in a pure crate, as it would be spelled.
const DOORS: [&str; 14] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::io::",
    "SystemTime",
    "Instant::now",
    "async fn",
    "tokio",
    "println!",
    "thread_rng",
    "new_v4(",
    "unsafe ",
];
/// Everything the crate may depend on.
const DEPENDENCIES: [&str; 13] = [
    "aho-corasick",
    "base64",
    "blake3",
    "bytes",
    "granit-parser",
    "jiff",
    "memchr",
    "regex",
    "serde",
    "serde_json",
    "tiktoken",
    "unicode-normalization",
    "uuid",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(sources(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn no_source_opens_a_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let all = sources(&root);
    assert!(all.len() > 20, "the sources were found");
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in
            text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for door in DOORS {
                assert!(!line.contains(door), "{}:{}: {door} in {line:?}", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn no_dependency_opens_a_door() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in section.lines().filter(|line| line.contains('=')) {
        let name = line.split(['.', ' ', '=']).next().unwrap();
        assert!(DEPENDENCIES.contains(&name), "{name} is new: is it pure? then list it here");
        assert!(line.contains('#'), "{name} has no reason beside it");
    }
}
