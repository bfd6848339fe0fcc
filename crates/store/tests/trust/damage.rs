//! Damaged pages: whatever a disk changes of a store that can be read, examining it notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Dice, Server, block_on};
use rusqlite::Connection;
use rusqlite::types::Value;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, Erase, Expected, Listing, NewConversation, NewEntry, Postgres, Recipient, RecordsExt,
    Run, RunStatus, Sqlite, Store, Tenant, Which,
};

/// Damages in a test run; the trial sets another number.
fn damages() -> usize {
    std::env::var("SCROLLBACK_TRIAL_DAMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// A store with something in every table.
async fn fill(store: &dyn Store) {
    let tenant = Tenant::default();
    for number in 0..24_i64 {
        let anna = Recipient::parse(&format!("recipient {number}")).unwrap();
        for round in 0..6_i64 {
            let large = if round == 3 { format!("large {number} ").repeat(1_200) } else { String::new() };
            let call = format!("call-{number}-{round}");
            let said = [
                Entry::text(Role::User, &format!("question {round} of {number} about orders {large}")),
                Entry::calling(None, &[(&call, "weather", "{\"city\":\"Oslo\"}")]),
                Entry::result(&call, &format!("rain and {} more", "words ".repeat(40))),
                Entry::text(Role::Assistant, "it rains, take an umbrella"),
            ];
            let said = NewEntry::evaluation(said, Time(round));
            store.append_for(&tenant, Time(round), &anna, Expected::Any, said).await.unwrap();
        }
        let id = store.current(&tenant, &anna).await.unwrap().unwrap().id;
        if number % 5 == 0 {
            store.fork(&tenant, &id, 7, ConversationId::new(Time(number)), Time(1)).await.unwrap();
            store.erase(&tenant, &id, Erase::Positions(vec![(2, 3)]), "trial", Time(2)).await.unwrap();
        }
    }
    let id = ConversationId::new(Time(0));
    store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    for number in 0..30 {
        let run = Run {
            text: format!("flow {number}: {}", "steps and more steps, ".repeat(150)),
            input: Some(format!("{{\"text\":\"{}\"}}", "words for it ".repeat(100))),
            ..run(&format!("run-{number}"))
        };
        store.write(&tenant, Time(0), |tx| _ = tx.run(run)).await.unwrap();
    }
}

fn run(id: &str) -> Run {
    Run {
        id: id.into(),
        tenant: Tenant::default(),
        kind: scrollback_store::RunKind::Flow,
        name: "a flow".into(),
        hash: "hash".into(),
        text: String::new(),
        settings: None,
        status: RunStatus::Done,
        conversation: None,
        input: None,
        output: None,
        error: None,
        usage: None,
        lease: None,
        started_at: Time(0),
        ended_at: None,
    }
}

/// Everything a query can read of a file, and whether SQLite finds its trees whole; none if it cannot be read.
fn readable(path: &Path, tables: &[String]) -> Option<Vec<Vec<Value>>> {
    let connection = Connection::open(path).ok()?;
    let whole: String = connection.query_row("pragma integrity_check(1)", [], |row| row.get(0)).ok()?;
    let mut all = vec![vec![Value::Text(whole)]];
    for table in tables {
        let mut statement = connection.prepare(&format!("select * from \"{table}\"")).ok()?;
        let columns = statement.column_count();
        let mut rows = statement.query([]).ok()?;
        while let Some(row) = rows.next().ok()? {
            all.push((0..columns).map(|column| row.get(column)).collect::<Result<_, _>>().ok()?);
        }
    }
    Some(all)
}

/// Whether anything of the store is reported as damaged, or cannot even be opened.
fn noticed(path: &Path) -> bool {
    let Ok(store) = Sqlite::open(path, Time(0)) else { return true };
    let store: &dyn Store = &store;
    block_on(async {
        let Ok(found) = store.examine().await else { return true };
        if !found.problems.is_empty() {
            return true;
        }
        let listing = Listing { which: Which::All, limit: 1_000, ..Listing::default() };
        let Ok(page) = store.list(None, listing).await else { return true };
        for (row, _) in page.conversations {
            match store.verify(&row.tenant, &row.id).await {
                Ok(found) if found.problems.is_empty() => {}
                _ => return true,
            }
        }
        false
    })
}

/// Writes noise over part of a page; which kind of damage.
fn damage(bytes: &mut [u8], page: usize, dice: &mut Dice) -> &'static str {
    let start = page * PAGE;
    let mut noise = |from: usize, length: usize, dice: &mut Dice| {
        for byte in &mut bytes[from..from + length] {
            *byte = dice.roll(256) as u8;
        }
    };
    match dice.roll(4) {
        0 => noise(start, PAGE, dice),
        1 => {
            let sector = dice.roll(PAGE / SECTOR);
            noise(start + sector * SECTOR, SECTOR, dice);
            return "a sector of noise";
        }
        2 => {
            let sector = start + dice.roll(PAGE / SECTOR) * SECTOR;
            bytes[sector..sector + SECTOR].fill(0);
            return "a sector of zeros";
        }
        _ => {
            let at = start + dice.roll(PAGE - 16);
            noise(at, 16, dice);
            return "sixteen bytes of noise";
        }
    }
    "a page of noise"
}

#[test]
fn what_stays_of_an_erased_entry_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let tenant = Tenant::default();
    let changed = |sql: &str| {
        assert!(Connection::open(&path).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
        noticed(&path)
    };
    {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let store: &dyn Store = &store;
        block_on(async {
            let anna = Recipient::parse("anna").unwrap();
            let said = ["one", "two", "three"].map(|text| Entry::text(Role::User, text));
            let said = NewEntry::evaluation(said, Time(0));
            let id =
                store.append_for(&tenant, Time(0), &anna, Expected::Any, said).await.unwrap().conversation;
            store.erase(&tenant, &id, Erase::Positions(vec![(0, 1)]), "trial", Time(2)).await.unwrap();
        });
    }
    assert!(!noticed(&path), "an undamaged store is whole");
    assert!(changed("update entries set body = replace(body, 'trial', 'trail') where kind = 2"));
    assert!(!changed("update entries set body = replace(body, 'trail', 'trial') where kind = 2"));
    assert!(changed("update entries set body = replace(body, 'reason', 'treason') where kind = 2"));
    assert!(!changed("update entries set body = replace(body, 'treason', 'reason') where kind = 2"));
    // The entry after it is erased too, and cannot tell what the chain was here.
    let prefix: Vec<u8> = Connection::open(&path)
        .unwrap()
        .query_row("select prefix_hash from entries where position = 0", [], |row| row.get(0))
        .unwrap();
    assert!(changed("update entries set prefix_hash = zeroblob(32) where position = 0"));
    let back = "update entries set prefix_hash = ?1 where position = 0";
    Connection::open(&path).unwrap().execute(back, [&prefix]).unwrap();
    assert!(!noticed(&path));
    let older = "update entries set body = '{\"erased_at\":\"1970-01-01T00:00:00.002Z\",\"reason\":\"trial\",\"bytes\":9}' where kind = 2";
    assert!(!changed(older), "what an older program erased has no digest");
}

#[test]
fn every_damage_that_can_be_read_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.db"));
    {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        block_on(fill(&store));
    }
    Connection::open(&path).unwrap().query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    assert!(!noticed(&path), "an undamaged store is whole");
    let good = std::fs::read(&path).unwrap();
    let pages = good.len() / PAGE;
    let tables: Vec<String> = {
        let connection = Connection::open(&path).unwrap();
        let sql =
            "select name from sqlite_schema where type = 'table' and name <> 'entries_fts' order by name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    std::fs::write(&copy, &good).unwrap();
    let wanted = readable(&copy, &tables);
    assert!(wanted.is_some());
    let seed = u64::from(std::process::id()) << 8 | 7;
    let (mut dice, mut done, mut unread, mut missed, mut hit) =
        (Dice(seed), 0, 0, Vec::new(), BTreeSet::new());
    while done < damages() {
        let page = dice.roll(pages);
        let mut bytes = good.clone();
        let kind = damage(&mut bytes, page, &mut dice);
        for beside in ["copy.db-wal", "copy.db-shm"] {
            let _ = std::fs::remove_file(folder.path().join(beside));
        }
        std::fs::write(&copy, &bytes).unwrap();
        if noticed(&copy) {
            done += 1;
            hit.insert(page);
            continue;
        }
        // Between the rows of a page there may be room, and free pages hold nothing: damage there changes nothing.
        std::fs::write(&copy, &bytes).unwrap();
        if readable(&copy, &tables) == wanted {
            unread += 1;
        } else {
            done += 1;
            missed.push((page, kind));
        }
    }
    println!(
        "{done} damages on {} of {pages} pages, {} missed; {unread} hit nothing that is stored",
        hit.len(),
        missed.len()
    );
    assert_eq!(missed, [], "seed {seed}");
}

#[test]
fn on_postgresql_a_changed_row_is_noticed_and_what_cannot_be_checked_is_said() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = Postgres::open(&server.url(), Time(0)).await.unwrap();
        fill(&store).await;
        let found = store.examine().await.unwrap();
        assert_eq!(found.problems, []);
        let notes = found.notes.join("\n");
        assert!(notes.contains("data_checksums is off") && notes.contains("amcheck"), "{notes}");
        server.ask("app", "create extension amcheck");
        let found = store.examine().await.unwrap();
        assert_eq!(found.problems, []);
        server.ask("app", "alter table scrollback.runs disable row level security");
        server.ask("app", "update scrollback.runs set name = 'another' where id = 'run-7'");
        let found = store.examine().await.unwrap();
        assert!(
            found.problems.iter().any(|(_, detail)| detail.contains("1 rows of runs")),
            "{:?}",
            found.problems
        );
    });
}

/// A number as SQLite writes the key of a row.
fn key(number: i64) -> Vec<u8> {
    let mut rest = number;
    let mut bytes = vec![(rest & 0x7f) as u8];
    while rest > 0x7f {
        rest >>= 7;
        bytes.insert(0, 0x80 | (rest & 0x7f) as u8);
    }
    bytes
}

#[test]
fn verifying_rows_that_are_out_of_order_ends_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (tenant, anna) = (Tenant::default(), Recipient::parse("anna").unwrap());
    let id = block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let store: &dyn Store = &store;
        let said = NewEntry::evaluation((0..4).map(|_| Entry::text(Role::User, "hello")), Time(0));
        store.append_for(&tenant, Time(0), &anna, Expected::Any, said).await.unwrap().conversation
    });
    let connection = Connection::open(&path).unwrap();
    let places: Vec<i64> = {
        let mut found = connection.prepare("select place from entries order by place").unwrap();
        found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    drop(connection);
    let good = std::fs::read(&path).unwrap();
    // The last row takes the key of the second, wherever that key stands.
    let (from, to) = (key(places[3]), key(places[1]));
    let stands = (0..good.len() - from.len()).filter(|at| good[*at..].starts_with(&from)).collect::<Vec<_>>();
    assert!(!stands.is_empty());
    for at in stands {
        let mut bad = good.clone();
        bad[at..at + from.len()].copy_from_slice(&to);
        std::fs::write(&path, bad).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (path, tenant, id) = (path.clone(), tenant.clone(), id.clone());
        std::thread::spawn(move || {
            // A file that is not opened at all was noticed too.
            let found = Sqlite::open(&path, Time(0)).map_or(1, |store| {
                let store: &dyn Store = &store;
                block_on(async {
                    let of_one = store.verify(&tenant, &id).await.map_or(1, |found| found.problems.len());
                    of_one + store.examine().await.unwrap().problems.len()
                })
            });
            let _ = tell.send(found);
        });
        let found = told.recv_timeout(std::time::Duration::from_secs(60)).expect("verifying ends");
        assert!(found > 0, "at byte {at}");
    }
}
