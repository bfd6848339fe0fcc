//! Many writers on one conversation: dense, in the order of real time, and every reader sees a prefix.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Server, block_on};
use scrollback_core::{Entry, Link, Role, Time};
use scrollback_store::{
    ConversationId, Expected, Memory, NewConversation, NewEntry, Postgres, RecordsExt, Sqlite, Store, Tenant,
};

const WRITERS: usize = 16;

/// When an append began and ended by a common counter, and where it went.
struct Seen {
    began: u64,
    ended: u64,
    position: u64,
    link: Link,
}

async fn writers(store: Arc<dyn Store>, appends: usize) {
    let (tenant, id) = (Tenant::default(), ConversationId::new(Time(0)));
    store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    let (clock, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let write = |number: usize| {
        let (store, tenant, id, clock) = (Arc::clone(&store), tenant.clone(), id.clone(), Arc::clone(&clock));
        tokio::spawn(async move {
            let mut seen = Vec::with_capacity(appends / WRITERS);
            for round in 0..appends / WRITERS {
                let said =
                    NewEntry::evaluation([Entry::text(Role::User, &format!("{number} {round}"))], Time(0));
                let began = clock.fetch_add(1, Ordering::SeqCst);
                let appended = store.append(&tenant, Time(0), &id, Expected::Any, said).await.unwrap();
                let ended = clock.fetch_add(1, Ordering::SeqCst);
                seen.push(Seen { began, ended, position: appended.first, link: appended.link });
            }
            seen
        })
    };
    let read = |_| {
        let (store, tenant, id, done) = (Arc::clone(&store), tenant.clone(), id.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut links: Vec<Link> = Vec::new();
            loop {
                let last = done.load(Ordering::SeqCst);
                // Reading again from a little before the end shows whether what was seen stays.
                let from = links.len().saturating_sub(10);
                let places = store.entries(&tenant, &id, from as u64, u64::MAX).await.unwrap();
                for (position, placed) in (from..).zip(&places) {
                    assert_eq!(placed.position, position as u64, "a hole");
                    match links.get(position) {
                        Some(link) => assert_eq!(*link, placed.link, "what was seen changed"),
                        None => links.push(placed.link),
                    }
                }
                assert!(from + places.len() >= links.len(), "what was seen is gone");
                if last {
                    return links;
                }
                // Readers that never rest would leave nothing to the writers.
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        })
    };
    let writing: Vec<_> = (0..WRITERS).map(write).collect();
    let reading: Vec<_> = (0..2).map(read).collect();
    let mut seen: Vec<Seen> = Vec::new();
    for writer in writing {
        seen.extend(writer.await.unwrap());
    }
    done.store(true, Ordering::SeqCst);
    seen.sort_by_key(|seen| seen.position);
    for (position, seen) in seen.iter().enumerate() {
        assert_eq!(seen.position, position as u64, "dense, each once");
    }
    // If one ended before another began, it stands first: nothing may have ended before an entry above it began.
    let mut latest_begin = 0;
    for seen in &seen {
        assert!(
            seen.ended > latest_begin,
            "position {} was acknowledged before an earlier one began",
            seen.position
        );
        latest_begin = latest_begin.max(seen.began);
    }
    for reader in reading {
        let links = reader.await.unwrap();
        assert_eq!(links.len(), seen.len());
        assert!(links.iter().zip(&seen).all(|(link, seen)| *link == seen.link));
    }
    let found = store.verify(&tenant, &id).await.unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn sixteen_writers_append_twenty_thousand_times_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap());
    block_on(writers(store, 20_000));
}

#[test]
fn sixteen_writers_in_memory() {
    block_on(writers(Arc::new(Memory::new()), 4_000));
}

#[test]
fn sixteen_writers_on_a_server() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        writers(store, 1_600).await;
    });
}

#[test]
fn two_stores_on_one_file_write_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (one, two) = (Sqlite::open(&path, Time(0)).unwrap(), Sqlite::open(&path, Time(0)).unwrap());
    let stores: [Arc<dyn Store>; 2] = [Arc::new(one), Arc::new(two)];
    let (tenant, id) = (Tenant::default(), ConversationId::new(Time(0)));
    block_on(async {
        stores[0]
            .write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone())))
            .await
            .unwrap();
        let write = |number: usize| {
            let (store, tenant, id) = (Arc::clone(&stores[number % 2]), tenant.clone(), id.clone());
            tokio::spawn(async move {
                for round in 0..40 {
                    let said = NewEntry::evaluation(
                        [Entry::text(Role::User, &format!("{number} {round}"))],
                        Time(0),
                    );
                    store.append(&tenant, Time(0), &id, Expected::Any, said).await.unwrap();
                }
            })
        };
        let writing: Vec<_> = (0..8).map(write).collect();
        for writer in writing {
            writer.await.unwrap();
        }
        assert_eq!(stores[1].conversation(&tenant, &id).await.unwrap().head, 320);
        assert_eq!(stores[1].verify(&tenant, &id).await.unwrap().problems, []);
    });
}
