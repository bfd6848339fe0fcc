//! Every text a person may read, in one list: `cargo test -p scrollback-cli --test cli every_text -- --nocapture` prints it,
//! file by file, to be read from top to bottom like a page. What STYLE calls riddles is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

use crate::support::repository;

/// Words and turns of phrase that readers stopped at, in texts.
const RIDDLES: [&str; 15] = [
    "whoever",
    "nobody",
    "somebody",
    "everybody",
    " mended",
    " mends",
    "stands twice",
    "is none;",
    " is no mode;",
    "stand so",
    "left away",
    "leave it away",
    "goes on from",
    "came first; it",
    "that is none",
];

/// Words that name no part of the program, in comments.
const VAGUE: [&str; 6] = ["whoever", "nobody", "somebody", "everybody", " mend ", " mended"];

/// Sources of the crates, without tests.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(repository("crates"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_string_lossy().into_owned();
            if path.is_dir()
                && !["/tests", "/benches", "/examples", "/conformance"].iter().any(|end| text.ends_with(end))
            {
                folders.push(path);
            } else if text.contains("/src/")
                && path.extension().is_some_and(|end| end == "rs")
                && !text.ends_with("/tests.rs")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text literals and comments of a source: line, text, and whether it is a literal. Escapes stay as they are written.
fn texts(source: &str) -> Vec<(usize, String, bool)> {
    let bytes = source.as_bytes();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    let end_of = |from: usize, what: &str| source[from..].find(what).map_or(source.len(), |end| from + end);
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            let end = end_of(at, "\n");
            found.push((line, source[at..end].trim_start_matches('/').to_string(), false));
            at = end;
        } else if let Some(hashes) = raw_begin(rest).filter(|_| !joins(bytes, at)) {
            let begin = at + hashes + 2;
            let end = end_of(begin, &format!("\"{}", "#".repeat(hashes)));
            found.push((line, source[begin..end].to_string(), true));
            line += source[begin..end].matches('\n').count();
            at = end + hashes + 1;
        } else if rest.starts_with('"') {
            let mut end = at + 1;
            while bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let text = &source[at + 1..end];
            found.push((line, joined(text), true));
            line += text.matches('\n').count();
            at = end + 1;
        } else if let Some(length) = character(rest) {
            at += length;
        } else {
            line += usize::from(bytes[at] == b'\n');
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// How many `#` a raw text begins with, if one begins here.
fn raw_begin(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Whether the byte before belongs to a longer name.
fn joins(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_') && bytes[at - 1] != b'b'
}

/// The length of a character literal, so that a quote in it begins no text.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let end = if inner.starts_with('\\') {
        1 + inner.get(2..)?.find('\'')? + 2
    } else {
        inner.chars().next()?.len_utf8() + 1
    };
    inner.get(..end).filter(|text| text.ends_with('\'') && text.len() > 1).map(|_| end + 1)
}

/// A text whose lines end in a backslash, as one.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_string();
    lines.fold(first, |all, line| all + line.trim_start())
}

/// Whether people read it: more than one word, and neither SQL nor JSON nor markup.
fn is_read(text: &str) -> bool {
    let begins = text.trim_start();
    let words =
        begins.split_whitespace().filter(|word| word.bytes().filter(u8::is_ascii_lowercase).count() > 2);
    let machine = ["{\"", "[{", "select ", "insert ", "update ", "delete ", "create ", "pragma ", "<"];
    words.count() >= 2 && !machine.iter().any(|begin| begins.starts_with(begin))
}

fn before_tests(source: &str) -> &str {
    source.split_once("#[cfg(test)]\nmod ").map_or(source, |(before, _)| before)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository("crates")).unwrap_or(path).display().to_string()
}

#[test]
fn every_text_that_people_read_is_plain() {
    let (mut listed, mut wrong) = (0, Vec::new());
    for path in sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        println!("# {}", shown(&path));
        for (line, text, _) in
            texts(before_tests(&source)).into_iter().filter(|(_, text, literal)| *literal && is_read(text))
        {
            println!("{line}: {}", text.replace('\n', "⏎"));
            listed += 1;
            let small = text.to_lowercase();
            // Samples of addresses, not words to people.
            let sample = text.contains("nobody@") || text.contains("nobody:");
            if let Some(riddle) = RIDDLES.iter().find(|riddle| small.contains(**riddle)).filter(|_| !sample) {
                wrong.push(format!("{}:{line}: {riddle:?} in {text:?}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "say what it is:\n{}", wrong.join("\n"));
    assert!(listed > 1_500, "only {listed} texts were found");
}

#[test]
fn comments_name_the_part_of_the_program_they_are_about() {
    let mut found = Vec::new();
    for path in sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        for (line, text, _) in texts(&source).into_iter().filter(|(.., literal)| !literal) {
            let small = text.to_lowercase();
            if VAGUE.iter().any(|word| small.contains(word)) {
                found.push(format!("{}:{line}: {}", shown(&path), text.trim()));
            }
        }
    }
    assert!(found.len() < 5, "say who or what:\n{}", found.join("\n"));
}

#[test]
fn texts_are_found_whatever_their_quotes() {
    let source = "let a = \"one two\"; // a comment\nlet b = r#\"three \"four\"\"#; let c = '\"'; let d = \"five \\\n   six\";";
    let found: Vec<(usize, String, bool)> = texts(source);
    let told: Vec<(usize, &str, bool)> =
        found.iter().map(|(line, text, literal)| (*line, text.as_str(), *literal)).collect();
    assert_eq!(
        told,
        [(1, "one two", true), (1, " a comment", false), (2, "three \"four\"", true), (2, "five six", true)]
    );
    assert!(
        is_read("there is no run") && !is_read("{\"a\": \"there is none\"}") && !is_read("select it all")
    );
}
