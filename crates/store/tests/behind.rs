//! What SQLite's threads do after all callers were answered: words are put into the index, the log into the file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use crate::support::{before_parts, block_on};
use rusqlite::Connection;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    Access, ConversationId, Erase, Expected, Filter, NewConversation, NewEntry, Options, Query, Records,
    RecordsExt, Sqlite, Store, Tenant,
};

async fn begin(store: &dyn Store) -> ConversationId {
    let id = ConversationId::new(Time(1));
    let begun =
        store.write(&Tenant::default(), Time(1), |tx| _ = tx.create(NewConversation::new(id.clone()))).await;
    begun.unwrap();
    id
}

async fn say(store: &dyn Store, id: &ConversationId, text: &str) {
    let said = NewEntry::evaluation([Entry::text(Role::User, text)], Time(1));
    store.append(&Tenant::default(), Time(1), id, Expected::Any, said).await.unwrap();
}

/// The positions at which a query finds something.
async fn found(store: &dyn Store, query: &str) -> Vec<u64> {
    let query = Query::parse(query);
    let hits = store.search(&Tenant::default(), query, Filter::default(), 1000, None).await.unwrap();
    let mut positions: Vec<u64> = hits.hits.iter().map(|hit| hit.position).collect();
    positions.sort_unstable();
    positions
}

fn count(path: &Path, table: &str) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn words_are_found_while_they_wait_for_the_index_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let id = begin(&store).await;
        for number in 0..40 {
            say(&store, &id, &format!("everywhere number{number} Überall")).await;
            assert_eq!(found(&store, &format!("number{number}")).await, [number], "at once");
        }
        assert_eq!(found(&store, "everywhere uberall").await, (0..40).collect::<Vec<_>>());
        assert_eq!(found(&store, "number3*").await, [3, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
        assert_eq!(found(&store, "number3* -number30").await.len(), 10);
        // One that is in the index and one that waits.
        let what = Erase::Positions(vec![(2, 2), (38, 38)]);
        store.erase(&Tenant::default(), &id, what, "test", Time(2)).await.unwrap();
        assert_eq!(found(&store, "everywhere").await.len(), 38);
        assert!(found(&store, "number38").await.is_empty() && found(&store, "number2").await.is_empty());
    });
    let waiting = count(&path, "waiting");
    assert!((1..32).contains(&waiting), "{waiting} wait");
    // A read-only connection finds both, too.
    let read = Options { access: Access::Read, ..Options::default() };
    let store = Sqlite::open_with(&path, &read, Time(0)).unwrap();
    assert_eq!(block_on(found(&store, "everywhere")).len(), 38);
    assert_eq!(count(&path, "waiting"), waiting);
}

#[test]
fn words_that_another_process_left_waiting_are_put_into_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (first, second) = (0..20, 20..60);
    let id = block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let id = begin(&store).await;
        for number in first {
            say(&store, &id, &format!("everywhere number{number}")).await;
        }
        id
    });
    assert_eq!(count(&path, "waiting"), 20);
    // Schema 3 kept the words of those that wait.
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(&before_parts("", 3)).unwrap();
    raw.execute_batch(
        "create table waiting_words (place integer primary key, words text not null);
         insert into waiting_words select place, 'stale' from waiting;
         drop table waiting; pragma user_version = 3;",
    )
    .unwrap();
    drop(raw);
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        for number in second {
            say(&store, &id, &format!("everywhere number{number}")).await;
        }
        assert_eq!(found(&store, "everywhere").await, (0..60).collect::<Vec<_>>());
        assert_eq!(found(&store, "number1*").await.len(), 11);
    });
    assert_eq!(count(&path, "waiting where (place & 4294967295) < 20"), 0, "those of the other process wait");
}

#[test]
fn the_log_is_put_away_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let id = begin(&store).await;
        let size = || std::fs::metadata(&path).unwrap().len();
        let before = size();
        // Fewer pages than those after which a commit would do it.
        let mut number = 0;
        while size() == before && number < 2_000 {
            say(&store, &id, &format!("message {number} {}", "and more ".repeat(20))).await;
            number += 1;
        }
        assert!(number >= 100 && size() > before, "{number} commits, {} bytes", size());
        assert!(store.verify(&Tenant::default(), &id).await.unwrap().problems.is_empty());
    });
}
