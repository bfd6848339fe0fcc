//! The figures of the core, printed beside their targets: `./dev bench core`, or
//! `cargo bench -p scrollback-core --bench core`.
//!
//! Nothing fails because of time: a missed target is a ✗ for a person to look at. `-- call loop` prints only those
//! tables. `-- --export DIR` writes what `bench/compare.py` needs instead.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the core reads no clock and no file; this measures it

mod curating;
mod export;
mod heap;
#[allow(dead_code)] // the benchmark of wires has use for the rest
mod measure;
mod naive;
mod planning;
#[allow(dead_code)]
mod session;
mod table;
mod volume;

use std::error::Error;
use std::path::Path;

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Entry, Record, json};

type Fallible<T> = Result<T, Box<dyn Error>>;

type Table = (&'static str, fn() -> Fallible<()>);

/// The tables in order, each with the word that asks for it alone.
const TABLES: [Table; 9] = [
    ("call", curating::one_call),
    ("append", curating::call_after_append),
    ("loop", curating::whole_loop),
    ("plan", planning::plans),
    ("naive", naive::compare),
    ("tokens", volume::counting),
    ("again", volume::counting_again),
    ("wire", volume::wire),
    ("memory", volume::memory),
];

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
    describe_session()?;
    for (word, table) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == word) {
            table()?;
        }
    }
    Ok(())
}

fn describe_session() -> Fallible<()> {
    let messages = session::before(10_000);
    let tokens = warm_record(messages.len())?.tokens(CurationContext::default().counter) as usize;
    println!("Scrollback core on a generated agent session:");
    println!(
        "{} bytes of JSON and {} tokens (o200k_base) an entry on average, {} entries a turn.",
        session::as_list(&messages).len() / messages.len(),
        tokens / messages.len(),
        session::ENTRIES_PER_TURN,
    );
    println!(
        "One thread; a short call is the median of 101 samples, a long one of 5. ✓ and ✗ are about the target in the column's head."
    );
    Ok(())
}

fn read(list: &str) -> Fallible<Vec<Entry>> {
    Ok(Wire::OpenaiChat.parse(json::check(list)?, &ParseOptions::default())?.entries)
}

/// The entries of a session so long.
fn entries_before(length: usize) -> Fallible<Vec<Entry>> {
    read(&session::as_list(&session::before(length)))
}

fn record_of(entries: Vec<Entry>) -> Fallible<Record> {
    let mut record = Record::new();
    for entry in entries {
        record.append(entry)?;
    }
    Ok(record)
}

/// The record of a session so long, its tokens counted.
fn warm_record(length: usize) -> Fallible<Record> {
    let record = record_of(entries_before(length)?)?;
    record.tokens(CurationContext::default().counter);
    Ok(record)
}
