//! The documentation of the language is printed from its tables, and every example in it holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::support::{eval, repository};
use scrollback_lisp::{builtins, reference};

/// Runs `program ; => value`.
fn check(example: &str) {
    let (program, value) = example.split_once(" ; => ").unwrap_or_else(|| panic!("no value: {example}"));
    assert_eq!(eval(program), value, "{program}");
}

#[test]
fn every_example_of_every_builtin_gives_what_it_says() {
    let examples: Vec<&str> =
        builtins().iter().map(|(_, builtin)| builtin.example).filter(|text| !text.is_empty()).collect();
    for example in &examples {
        check(example);
    }
    assert!(examples.len() > 300, "only {} examples", examples.len());
}

#[test]
fn every_example_in_the_guide_gives_what_it_says() {
    let page = std::fs::read_to_string(repository("docs/lisp.md")).unwrap();
    let mut examples = 0;
    for line in page.lines().filter(|line| line.contains(" ; => ")) {
        check(line.trim());
        examples += 1;
    }
    assert!(examples > 20, "only {examples} examples");
}

#[test]
fn the_page_for_people_is_printed_from_the_table() {
    let page = std::fs::read_to_string(repository("docs/lisp-reference.md")).unwrap();
    assert!(page == reference::for_people(), "run scrollback lisp reference > docs/lisp-reference.md");
}

#[test]
fn the_text_for_models_is_short_and_names_what_there_is() {
    let text = reference::for_models();
    assert!(text.len() <= 4096, "{} bytes", text.len());
    for name in
        ["reduce", "group-by", "sum-by", "str", "re-find", "json/parse-string", "where", "return", "pmap"]
    {
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn no_name_is_in_the_table_twice() {
    let mut names: Vec<&str> = builtins().iter().map(|(_, builtin)| builtin.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}
