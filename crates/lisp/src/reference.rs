//! The reference of the language, written from its tables: one for people, one short enough for a system prompt.

use std::fmt::Write;

use crate::builtin::{Family, table};
use crate::compile::special_forms;

/// How models go wrong most, and what the language does about it.
const HABITS: &str = "\
Habits: one fenced block per reply; def what you will need later; println what you want to read; use only literal keys;\n\
check for nil before you compute; (return v) when done, (fail reason) if it cannot be done; an error discards the\n\
definitions of its program.\n";

/// Where the language is not Clojure.
const DIVERGENCES: &str = "\
Not as in Clojure: / gives floats; integers never overflow; every sequence is a vector; maps and sets are sorted by key;\n\
(:k m) also finds \"k\" and folds - and _; (= 1 1.0) is true; subs clamps; nth and get out of range give nil; contains? on a\n\
vector tests membership; split takes a literal string; sort takes :asc or :desc; first, last and nth on a map are errors.\n\
Absent: macros, try/catch, atoms, lazy or infinite sequences, transducers, ns/require, randomness, files.\n";

/// The whole reference in Markdown.
pub fn for_people() -> String {
    let mut out = String::from(
        "# Language reference\n\n\
         Printed from the tables of `scrollback-lisp` by `scrollback lisp reference`; a test keeps it that way. The guide is\n\
         [PTC-Lisp](lisp.md). `x?` is optional, `x …` may be repeated. Every example is run by the test suite.\n\n\
         ## Special forms\n\n",
    );
    for (_, shape) in special_forms() {
        let _ = writeln!(out, "- `{shape}`");
    }
    let mut last = None;
    for (family, builtin) in table() {
        if last != Some(*family) {
            let _ = write!(out, "\n## {}\n\n| call | gives | example |\n|---|---|---|\n", family.title());
            last = Some(*family);
        }
        let cell = |text: &str| text.replace('|', "\\|");
        let example =
            if builtin.example.is_empty() { String::new() } else { format!("`{}`", cell(builtin.example)) };
        let _ = writeln!(out, "| `{}` | {} | {example} |", cell(&builtin.usage()), cell(builtin.doc));
    }
    let _ = write!(out, "\n## In short\n\n{DIVERGENCES}\n{HABITS}");
    out
}

/// The reference for a system prompt: names by family, no more than 4 KB.
pub fn for_models() -> String {
    let mut out = String::from(
        "PTC-Lisp: eager, deterministic Clojure subset. data/x is input, (tool/x {:k v}) calls a tool, bare x is a definition,\n\
         builtin, tool or data, in this order; *1 is the last value.\nForms:",
    );
    for (name, _) in special_forms() {
        let _ = write!(out, " {name}");
    }
    out.push('\n');
    let mut last: Option<Family> = None;
    for (family, builtin) in table() {
        // Methods that repeat a function, and spellings of one, would only cost tokens.
        if is_repetition(builtin.doc) || special_forms().iter().any(|(name, _)| *name == builtin.name) {
            continue;
        }
        if last != Some(*family) {
            let _ = write!(out, "{}{}:", if last.is_some() { "\n" } else { "" }, family.title());
            last = Some(*family);
        }
        let _ = write!(out, " {}", builtin.name);
    }
    let _ = write!(out, "\n{DIVERGENCES}{HABITS}");
    out
}

fn is_repetition(doc: &str) -> bool {
    doc.starts_with("the same as")
}
