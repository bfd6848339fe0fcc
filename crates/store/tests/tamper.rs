//! What was changed behind the store's back is noticed: by `verify`, and when it is read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use crate::support::{Dice, block_on};
use rusqlite::Connection;
use scrollback_core::{Entry, Role, Slot, Time};
use scrollback_store::{
    ConversationId, Erase, ErrorKind, Expected, HistorySettings, Listing, NewConversation, NewEntry, Offline,
    ProblemKind, RecordsExt, Sqlite, Store, Tenant, compact,
};

/// Bits flipped in a test run; the trial sets another number.
fn flips() -> usize {
    std::env::var("SCROLLBACK_TRIAL_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

/// Turns in the store, enough for most of its pages to hold entries.
const ROUNDS: i64 = 150;

/// A store with messages, large texts, calls, a summary, a fork and something erased. Closed, so that the file is whole.
fn filled(path: &Path) -> ConversationId {
    let id = ConversationId::from_parts(Time(1), 1);
    let store = Sqlite::open(path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let tenant = Tenant::default();
    block_on(async {
        store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
        for round in 0..ROUNDS {
            let call = format!("c{round}");
            let turn = [
                Entry::text(Role::User, &format!("question {round}, with some words of its own")),
                Entry::calling(None, &[(&call, "tool", "{\"city\":\"Oslo\"}")]),
                Entry::result(
                    &call,
                    &format!("result {round} {}", "padding ".repeat(if round == 5 { 900 } else { 4 })),
                ),
                Entry::text(Role::Assistant, &format!("answer {round}")),
            ];
            let said = NewEntry::evaluation(turn, Time(round));
            store.append(&tenant, Time(round), &id, Expected::Any, said).await.unwrap();
        }
        compact(store, &tenant, &id, &HistorySettings::default(), &Offline, Time(50)).await.unwrap();
        store.erase(&tenant, &id, Erase::Positions(vec![(40, 40)]), "asked", Time(60)).await.unwrap();
        let fork =
            store.fork(&tenant, &id, 30, ConversationId::from_parts(Time(2), 2), Time(70)).await.unwrap();
        let said = NewEntry::evaluation([Entry::text(Role::User, "another way")], Time(80));
        store.append(&tenant, Time(80), &fork.id, Expected::Any, said).await.unwrap();
    });
    id
}

/// Every text of every conversation, or none where the store says that something is wrong.
async fn texts(store: &dyn Store) -> Result<Vec<String>, ErrorKind> {
    let page =
        store.list(None, Listing { limit: 100, ..Listing::default() }).await.map_err(|error| error.kind())?;
    let mut texts = Vec::new();
    for (row, _) in page.conversations {
        let places = store.entries(&row.tenant, &row.id, 0, u64::MAX).await.map_err(|error| error.kind())?;
        for placed in places {
            let text = match &placed.slot {
                Slot::Message(entry) => entry.origin.raw.to_string(),
                other => format!("{other:?}"),
            };
            texts.push(format!("{} {} {} {text}", row.id, placed.position, placed.slot.created_at()));
        }
    }
    texts.sort();
    Ok(texts)
}

/// Whether `verify` finds something, or cannot even read the store.
async fn noticed(store: &dyn Store) -> bool {
    let Ok(page) = store.list(None, Listing { limit: 100, ..Listing::default() }).await else { return true };
    for (row, _) in page.conversations {
        match store.verify(&row.tenant, &row.id).await {
            Ok(found) if found.problems.is_empty() => {}
            _ => return true,
        }
    }
    false
}

#[test]
fn no_flipped_bit_is_served_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    filled(&whole);
    let bytes = std::fs::read(&whole).unwrap();
    let wanted = {
        let store = Sqlite::open(&whole, Time(0)).unwrap();
        block_on(texts(&store)).unwrap()
    };
    let mut dice = Dice(u64::from(std::process::id()) | 1);
    let seed = dice.0;
    let (mut caught, mut harmless, mut refused) = (0, 0, 0);
    for flip in 0..flips() {
        let path = folder.path().join("flipped.db");
        for ending in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.path().join(format!("flipped.db{ending}")));
        }
        let mut changed = bytes.clone();
        let at = dice.roll(changed.len());
        changed[at] ^= 1 << dice.roll(8);
        std::fs::write(&path, &changed).unwrap();
        match Sqlite::open(&path, Time(0)) {
            Err(_) => refused += 1,
            Ok(store) => {
                let (read, noticed) = block_on(async { (texts(&store).await, noticed(&store).await) });
                let Ok(texts) = read else {
                    assert!(
                        noticed,
                        "seed {seed}, flip {flip}: byte {at} cannot be read and verify finds nothing"
                    );
                    caught += 1;
                    continue;
                };
                // What is served is what was said; a flip that was not noticed hit slack or an index.
                let served: Vec<_> = texts.iter().filter(|text| !wanted.contains(text)).collect();
                assert!(
                    served.is_empty(),
                    "seed {seed}, flip {flip}: byte {at} was served as good: {served:?}"
                );
                assert!(
                    texts == wanted || noticed,
                    "seed {seed}, flip {flip}: byte {at} hides something, unnoticed"
                );
                if noticed { caught += 1 } else { harmless += 1 }
            }
        }
    }
    println!(
        "{} flips: {caught} reported, {refused} files refused, {harmless} hit nothing that is read",
        flips()
    );
    // Most of the file is what was said; the rest is indexes and slack.
    assert!(caught > flips() / 5, "the flips hit something: {caught}");
}

#[test]
fn a_change_of_any_column_is_named() {
    use ProblemKind::{
        BlobChanged, BlobMissing, BodyChanged, HeadMismatch, IndexStale, LinkBroken, MissingPosition,
        SequenceGap,
    };
    let changes: [(&str, &[ProblemKind]); 20] = [
        (
            "update entries set body = replace(body, 'question 3', 'question 4') where position = 12",
            &[BodyChanged],
        ),
        ("update entries set body = '{}' where position = 12", &[BodyChanged]),
        ("update entries set role = 'assistant' where position = 12", &[BodyChanged]),
        ("update entries set kind = 'decision' where position = 12", &[BodyChanged]),
        ("update entries set created_at = '1999-01-01T00:00:00.000Z' where position = 12", &[BodyChanged]),
        ("update entries set evaluation_id = zeroblob(16) where position = 12", &[BodyChanged, SequenceGap]),
        ("update entries set sequence = 77 where position = 12", &[BodyChanged, SequenceGap]),
        ("update entries set body_hash = zeroblob(32) where position = 12", &[BodyChanged]),
        ("update entries set link = zeroblob(32) where position = 12", &[LinkBroken]),
        ("update entries set prefix_hash = zeroblob(32) where position = 12", &[LinkBroken]),
        ("update entries set place = place + 888 where position = 12", &[MissingPosition]),
        ("delete from entries where position = 12", &[MissingPosition]),
        ("delete from entries where position = 599", &[MissingPosition]),
        ("update conversations set fork_position = 31 where parent_id is not null", &[]),
        ("update conversations set head_link = zeroblob(32) where parent_id is null", &[HeadMismatch]),
        ("update conversations set head = 3 where parent_id is null", &[HeadMismatch]),
        ("update calls set result_position = null where position = 13", &[IndexStale]),
        ("delete from calls where position = 13", &[IndexStale]),
        ("delete from blobs", &[BlobMissing]),
        ("update blobs set bytes = zeroblob(9)", &[BlobChanged]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    let id = filled(&whole);
    for (number, (sql, wanted)) in changes.iter().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        std::fs::copy(&whole, &path).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
        drop(connection);
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let store: &dyn Store = &store;
        if wanted.is_empty() {
            // What is changed about the fork is found there.
            assert!(block_on(noticed(store)), "{sql}");
        }
        let found = block_on(store.verify(&Tenant::default(), &id)).unwrap();
        let kinds: Vec<ProblemKind> = found.problems.iter().map(|problem| problem.problem).collect();
        assert!(wanted.iter().all(|kind| kinds.contains(kind)), "{sql}: {:?}", found.problems);
    }
}

#[test]
fn derived_tables_can_be_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let id = filled(&path);
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "delete from calls; delete from entries_fts where rowid > 0; update summaries set text = 'x'",
        )
        .unwrap();
    drop(connection);
    let store = Sqlite::open(&path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let tenant = Tenant::default();
    block_on(async {
        assert!(!store.verify(&tenant, &id).await.unwrap().problems.is_empty());
        assert!(store.reindex(&tenant, &id).await.unwrap() > 0);
        assert_eq!(store.verify(&tenant, &id).await.unwrap().problems, []);
        let query = scrollback_store::Query::parse("\"question 9\"");
        let found = store.search(&tenant, query, scrollback_store::Filter::default(), 9, None).await.unwrap();
        assert_eq!(found.hits.len(), 1);
        assert_eq!(store.reindex(&tenant, &id).await.unwrap(), 0, "nothing more to do");
    });
}

#[test]
fn what_was_erased_is_gone_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let (tenant, id) = (Tenant::default(), ConversationId::new(Time(0)));
    let holds = |needle: &str| {
        let hay: Vec<u8> = ["", "-wal"]
            .iter()
            .flat_map(|ending| {
                std::fs::read(folder.path().join(format!("store.db{ending}"))).unwrap_or_default()
            })
            .collect();
        hay.windows(needle.len()).any(|window| window == needle.as_bytes())
    };
    block_on(async {
        store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
        let said = NewEntry::evaluation(
            [Entry::text(Role::User, "zanzibarquux"), Entry::text(Role::User, "stays")],
            Time(0),
        );
        store.append(&tenant, Time(0), &id, Expected::Any, said).await.unwrap();
        assert!(holds("zanzibarquux"));
        store.erase(&tenant, &id, Erase::Positions(vec![(0, 0)]), "asked", Time(1)).await.unwrap();
        assert!(!holds("zanzibarquux") && holds("stays"));
    });
}
