//! The figures of wires, streams and transcripts, printed beside their targets: `./dev bench wire`, or
//! `cargo bench -p scrollback-core --bench wire`.
//!
//! Nothing fails because of time: a missed target is a ✗ for a person to look at. `-- check stream` prints only those
//! tables. `-- --export DIR` writes what `bench/convert.py` needs instead.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the core reads no clock and no file; this measures it

mod export;
mod lists;
#[path = "../core/measure.rs"]
#[allow(dead_code)]
mod measure;
mod plain;
mod requests;
#[path = "../core/session.rs"]
#[allow(dead_code)]
mod session;
mod streams;
#[path = "../core/table.rs"]
#[allow(dead_code)]
mod table;
mod transcripts;

use std::error::Error;
use std::path::Path;

use scrollback_core::wire::Wire;

type Fallible<T> = Result<T, Box<dyn Error>>;

type Table = (&'static str, fn() -> Fallible<()>);

/// The tables in order, each with the word that asks for it alone.
const TABLES: [Table; 5] = [
    ("bytes", requests::reading_and_printing),
    ("check", requests::checking),
    ("convert", requests::converting),
    ("stream", streams::assembling),
    ("transcript", transcripts::reading),
];

/// The wires that a provider speaks.
const PROVIDERS: [Wire; 5] =
    [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini, Wire::Bedrock];

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--export") {
        let directory = arguments.get(at + 1).filter(|next| !next.starts_with('-'));
        return export::write(Path::new(directory.ok_or("--export needs a directory")?));
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --benches` comes here, where tables are not wanted.
        return Ok(());
    }
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|word| TABLES.iter().all(|(known, _)| known != **word)) {
        let known: Vec<&str> = TABLES.iter().map(|(known, _)| *known).collect();
        return Err(format!("no table {unknown:?}; there are: {}", known.join(", ")).into());
    }
    println!(
        "Scrollback's wires on a generated conversation: people talk, and now and then a tool is asked."
    );
    println!("One thread, the quickest of 101 runs. ✓ and ✗ are about the target in the column's head.");
    for (word, table) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == word) {
            table()?;
        }
    }
    Ok(())
}
