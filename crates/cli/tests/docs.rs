//! The documentation stays true: every command in it is run, every piece of Rust is part of an example that
//! compiles, every test that a promise names exists, and the list of rules is that of the check.
//!
//! A fenced block marked `console` holds commands, each after `$ `, and what they print. `…` alone on a line stands
//! for any number of lines, and inside a line for any text.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../core/examples/rules.rs"]
mod rules;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{folder, repository};

/// The files people read, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for folder in [repository("."), repository("docs")] {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    paths.sort();
    assert!(paths.len() >= 10, "the pages were found: {paths:?}");
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The fenced blocks of a page in one language: number of the first line, and the lines.
fn blocks<'t>(page: &'t str, language: &str) -> Vec<(usize, Vec<&'t str>)> {
    let mut found = Vec::new();
    let mut open: Option<(bool, usize, Vec<&str>)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(marked)) => open = Some((marked == language, number + 2, Vec::new())),
            (Some(_), Some(_)) => {
                found.extend(open.take().filter(|(wanted, ..)| *wanted).map(|(_, at, lines)| (at, lines)));
            }
            (Some((.., lines)), None) => lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// A folder with everything at the root of the repository, in which commands may leave files of their own.
fn root(store: &Path) -> PathBuf {
    let root = store.join("root");
    if !root.exists() {
        std::fs::create_dir(&root).unwrap();
        for entry in std::fs::read_dir(repository(".")).unwrap() {
            let path = std::fs::canonicalize(entry.unwrap().path()).unwrap();
            std::os::unix::fs::symlink(&path, root.join(path.file_name().unwrap())).unwrap();
        }
    }
    root
}

/// Runs a command line at the root of the repository, but for files it makes; what it prints on either stream, in order.
fn run(command: &str, store: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_scrollback")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(root(store))
        .env("PATH", path)
        .env("XDG_CONFIG_HOME", store)
        .env("SCROLLBACK_STORE", format!("sqlite:{}", store.join("docs.db").display()))
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Whether `…` in `wanted` can stand for something such that both lines are equal.
fn line_fits(wanted: &str, found: &str) -> bool {
    let (wanted, mut rest) = (wanted.trim_end(), found.trim_end());
    let Some((start, tail)) = wanted.split_once('…') else { return wanted == rest };
    let Some(after) = rest.strip_prefix(start) else { return false };
    rest = after;
    let mut parts: Vec<&str> = tail.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

/// Whether lines of `…` in `wanted` can stand for something such that all lines fit.
fn lines_fit(wanted: &[&str], found: &[&str]) -> bool {
    match wanted.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skip| lines_fit(rest, &found[skip..])),
        Some((line, rest)) => {
            found.split_first().is_some_and(|(first, found)| line_fits(line, first) && lines_fit(rest, found))
        }
    }
}

#[test]
fn every_command_prints_what_the_page_says() {
    let mut commands = 0;
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        // The commands of one page share a store, in the order of the page.
        let store = folder("docs");
        for (at, lines) in blocks(&page, "console") {
            assert!(lines[0].starts_with("$ "), "{}:{at}: a command comes first", path.display());
            for told in lines.chunk_by(|_, next| !next.starts_with("$ ")) {
                let command = told[0].trim_start_matches("$ ");
                assert!(command.contains("scrollback "), "{}:{at}: {command}", path.display());
                let printed = run(command, &store);
                let trim = |lines: &mut Vec<&str>| {
                    while lines.last().is_some_and(|line| line.is_empty()) {
                        lines.pop();
                    }
                };
                let (mut wanted, mut found) = (told[1..].to_vec(), printed.lines().collect::<Vec<_>>());
                trim(&mut wanted);
                trim(&mut found);
                if !lines_fit(&wanted, &found) {
                    wrong.push(format!("{}:{at}: $ {command}\n{printed}", path.display()));
                }
                commands += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} commands print something else:\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(commands >= 40, "only {commands} commands were found");
}

#[test]
fn all_rust_is_part_of_an_example() {
    let flat = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let examples: Vec<String> = ["core", "agent", "subagent", "scrollback"]
        .into_iter()
        .flat_map(|name| std::fs::read_dir(repository(&format!("crates/{name}/examples"))).unwrap())
        .map(|entry| flat(&std::fs::read_to_string(entry.unwrap().path()).unwrap()))
        .collect();
    let mut found = 0;
    for (path, page) in pages() {
        for (at, lines) in blocks(&page, "rust") {
            let code = flat(&lines.join("\n"));
            assert!(
                examples.iter().any(|example| example.contains(&code)),
                "{}:{at}: no example of the crates has this code",
                path.display()
            );
            found += 1;
        }
    }
    assert!(found >= 4, "only {found} blocks were found");
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = std::fs::read_to_string(repository("PROMISES.md")).unwrap();
    let mut found = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once(".rs::") else { continue };
        let source = std::fs::read_to_string(repository(&format!("{file}.rs")));
        let source = source.unwrap_or_else(|_| unreachable!("{file}.rs is not there"));
        assert!(source.contains(&format!("fn {test}(")), "{file}.rs has no test {test}");
        found += 1;
    }
    assert!(found >= 20, "only {found} tests are named");
}

/// Whether something is still missing.
type Check = fn() -> bool;

/// What the README says is not here yet, and how to see that it is still so.
const ABSENT: [(&str, Check); 2] = [
    ("The binary event streams of Bedrock", || {
        scrollback_core::stream::Assembler::new(scrollback_core::wire::Wire::Bedrock).is_err()
    }),
    ("Writing transcripts other than those of OpenAI fine-tuning, LangChain, ShareGPT and Strands", || {
        run("scrollback export --format codex", &folder("absent")).contains("codex")
    }),
];

/// Words by which a page denies something. They belong into the list of the README, whose rows are checked.
const DENIALS: [&str; 7] = [
    "calls no model",
    "none is called",
    "not implemented",
    "unimplemented",
    "coming soon",
    "planned for",
    "to be done",
];

/// Sentences with "yet" that are about how things stand in a run, not about what the program lacks.
const STATES: [&str; 13] = [
    "## not promised yet",
    "## not here yet",
    "published yet",
    "what is not promised yet",
    "it is not needed yet",
    "the model has not seen yet",
    "what `repair` changes afterwards is not covered yet",
    "no plan yet",
    "no segment of its group is chosen yet",
    "has no key yet",
    "what had not yet been said",
    "nothing was cut yet",
    "the one that was not continued yet",
];

/// The claims of a page that something is missing: sentences with "not", "no" or "none" before "yet".
fn denials(page: &str) -> Vec<String> {
    let text = page.to_lowercase().replace('\n', " ");
    let claims = |sentence: &&str| {
        let words: Vec<&str> = sentence.split(|c: char| !c.is_alphanumeric() && !"'_".contains(c)).collect();
        let yet = words.iter().rposition(|word| *word == "yet").unwrap_or(0);
        let denied =
            words.iter().take(yet).any(|word| ["not", "no", "none", "nothing", "never"].contains(word));
        (denied && !STATES.iter().any(|state| sentence.contains(state)))
            || DENIALS.iter().any(|words| sentence.contains(words))
    };
    text.split(['.', ';', '|', ':']).filter(claims).map(|sentence| sentence.trim().to_string()).collect()
}

#[test]
fn claims_of_absence_are_still_true() {
    let page = std::fs::read_to_string(repository("README.md")).unwrap();
    let (_, list) = page.split_once("## Not here yet").unwrap();
    let rows: Vec<&str> = list.lines().skip(1).take_while(|line| !line.starts_with("##")).collect();
    let rows: Vec<&str> = rows.iter().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(rows.len(), ABSENT.len(), "each row has a check and each check a row: {rows:?}");
    for (row, (what, is_absent)) in rows.iter().zip(ABSENT) {
        assert!(row.starts_with(what), "the row {row:?} is about {what:?}");
        assert!(is_absent(), "{what:?} exists by now: take it off the list");
    }
    for (path, page) in pages() {
        let denied = denials(&page);
        assert!(
            denied.is_empty(),
            "{}: {denied:?}: is it still true? List it in the README instead",
            path.display()
        );
    }
}

#[test]
fn what_a_page_denies_is_noticed() {
    let old = "There is no store and no server\nyet. Transcripts are only read; none is written, and\nmodels are not called yet.";
    assert_eq!(denials(old).len(), 2, "{:?}", denials(old));
    assert!(denials("A client that has no key yet is asked for one. What is there is not much.").is_empty());
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs")
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let mut paths = Vec::new();
    let mut folders = ["crates", "python", "npm"].map(|name| PathBuf::from(repository(name))).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            paths.push(path.to_string_lossy().replace("/src/", "/"));
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            }
        }
    }
    let page = std::fs::read_to_string(repository("ARCHITECTURE.md")).unwrap();
    let (mut found, mut missing) = (0, Vec::new());
    for name in page.split('`').skip(1).step_by(2) {
        let file = name.strip_suffix('/').unwrap_or(name);
        let is_path = name.ends_with('/') || is_rust(Path::new(name));
        if is_path && file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./".contains(&byte)) {
            found += 1;
            if !paths.iter().any(|path| path.ends_with(&format!("/{file}"))) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
    assert!(found > 150, "only {found} names were found");
}

#[test]
fn the_page_of_rules_is_printed_from_their_tables() {
    let page = std::fs::read_to_string(repository("docs/rules.md")).unwrap();
    let command = "cargo run -p scrollback-core --example rules > docs/rules.md";
    assert!(page == rules::page(), "docs/rules.md has drifted from the tables; {command}");
}

#[test]
fn dots_stand_for_what_is_left_out() {
    assert!(line_fits("a…c", "abc") && line_fits("…", "") && line_fits("a…b…c", "a1b2c"));
    assert!(!line_fits("a…c", "abd") && !line_fits("a", "ab"));
    assert!(lines_fit(&["a", "…", "c"], &["a", "b", "b", "c"]) && lines_fit(&["…"], &[]));
    assert!(!lines_fit(&["a"], &["a", "b"]));
}

#[test]
fn every_error_type_is_one_that_the_architecture_names() {
    let page = std::fs::read_to_string(repository("ARCHITECTURE.md")).unwrap();
    let section = page.split("## Errors\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let (mut found, mut missing) = (0, Vec::new());
    let mut folders = vec![PathBuf::from(repository("crates"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.extend(
                    (!["tests", "examples", "benches"].iter().any(|end| text.ends_with(end))).then_some(path),
                );
            } else if is_rust(&path) {
                let source = std::fs::read_to_string(&path).unwrap();
                for line in source.lines().filter(|line| line.starts_with("impl ")) {
                    let Some((before, name)) = line.split_once("Error for ") else { continue };
                    if !["impl ", "impl std::error::"].contains(&before) {
                        continue;
                    }
                    let name = name.split([' ', '<']).next().unwrap_or_default();
                    found += 1;
                    if !section.contains(&format!("`{name}`")) {
                        missing.push(format!("{name} in {text}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "use the crate's error, or give a reason in ARCHITECTURE.md: {missing:?}");
    assert!(found > 20, "only {found} error types were found");
}
