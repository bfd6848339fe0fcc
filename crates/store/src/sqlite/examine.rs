//! Examining a file: every page of it by SQLite, its schema, and whether the index of words says what the entries say.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use rusqlite::Connection;
use scrollback_core::Time;

use super::connection::{SqliteSession, failed};
use super::open::{self, Location, Options};
use crate::engine::examine::Examined;
use crate::engine::verify::ProblemKind;
use crate::error::StoreError;

/// How many problems of pages are reported: a broken file has more than a person would read.
const TOLD: u32 = 100;

/// Examines a file, on a connection of its own.
pub(super) fn examine(path: &Path) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    let connection = open::examiner(path)?;
    found.take("the file", pages(&connection))?;
    found.take("the schema", schema(&connection))?;
    found.take("the index of words", words(connection))?;
    Ok(found)
}

fn texts(connection: &Connection, sql: &str) -> Result<Vec<String>, StoreError> {
    let read = || {
        let mut statement = connection.prepare(sql)?;
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    };
    read().map_err(|error| failed(&error))
}

/// Every page: the trees, what each index says about its table, free pages, and the index of words.
fn pages(connection: &Connection) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    for line in texts(connection, &format!("pragma integrity_check({TOLD})"))? {
        if line != "ok" {
            found.problem(ProblemKind::PageDamaged, line.replace('\n', " "));
        }
    }
    Ok(found)
}

/// The tables and indexes are those of this version, and so is what the planner is told about them.
fn schema(connection: &Connection) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    let fresh = open::writer(&Location::Memory, &Options::default(), Time(0))?;
    let questions = [
        "select json_array(type, name, tbl_name, sql) from sqlite_schema",
        "select json_array(tbl, idx, stat) from sqlite_stat1",
    ];
    for question in questions {
        let there: HashSet<String> = texts(connection, question)?.into_iter().collect();
        for wanted in texts(&fresh, question)? {
            if !there.contains(&wanted) {
                let what: String = wanted.chars().take(60).collect();
                found.problem(ProblemKind::PageDamaged, format!("the schema lacks {what}"));
            }
        }
    }
    let versions = "select json_array(value, (select user_version from pragma_user_version)) from meta \
                    where key = 'schema_version'";
    let same = |text: &String| {
        serde_json::from_str::<(String, u64)>(text).is_ok_and(|(said, is)| said == is.to_string())
    };
    if !texts(connection, versions)?.first().is_some_and(same) {
        found.problem(
            ProblemKind::PageDamaged,
            "the version of the schema is written down twice, and differs",
        );
    }
    Ok(found)
}

/// The index of words says what the entries say. Both sides are added up, so that a store of any size takes little memory.
fn words(connection: Connection) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    connection
        .execute_batch("create virtual table temp.indexed using fts5vocab(main, entries_fts, instance)")
        .map_err(|error| failed(&error))?;
    let indexed = sum_of_index(&connection).map_err(|error| failed(&error))?;
    let waiting = places(&connection, "select place from waiting")?;
    let mut session = SqliteSession::new(connection);
    let mut wanted = 0_u128;
    for place in places(&session.connection, "select place from entries where kind < 2")? {
        if waiting.contains(&place) {
            continue;
        }
        let words = session.words_at(place)?;
        let terms: HashSet<&str> = words.split_whitespace().collect();
        wanted = terms.into_iter().fold(wanted, |sum, term| sum.wrapping_add(weight(term, place)));
    }
    if indexed != wanted {
        found.problem(ProblemKind::IndexStale, "the index of words disagrees with the entries");
    }
    Ok(found)
}

fn places(connection: &Connection, sql: &str) -> Result<BTreeSet<i64>, StoreError> {
    let read = || {
        let mut statement = connection.prepare(sql)?;
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<BTreeSet<i64>>>()
    };
    read().map_err(|error| failed(&error))
}

fn sum_of_index(connection: &Connection) -> rusqlite::Result<u128> {
    let mut statement = connection.prepare("select term, doc from temp.indexed")?;
    let mut rows = statement.query([])?;
    let mut sum = 0_u128;
    while let Some(row) = rows.next()? {
        let term = String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned();
        sum = sum.wrapping_add(weight(&term, row.get(1)?));
    }
    Ok(sum)
}

/// A number for a word at a place; two sums are equal only if they are of the same words.
fn weight(term: &str, place: i64) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&place.to_le_bytes()).update(term.as_bytes());
    hasher.finalize().as_bytes().first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}
