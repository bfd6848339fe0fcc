//! Reading: what is needed of a long conversation, of a file with many, and what search finds.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use scrollback_core::Time;
use scrollback_store::{
    ConversationId, Expected, Filter, Listing, NewEntry, Query, Recipient, RecordsExt, Sqlite, Store, Tenant,
    Tx, history,
};

use crate::{entry, filled, line, mark, said, sqlite, timed};

/// A long conversation against one of a hundred entries.
pub(crate) async fn lengths(store: Arc<dyn Store>, long: usize) {
    let (store, tenant) = (store.as_ref(), Tenant::default());
    let mut times = Vec::new();
    let mut last = None;
    for length in [100, long] {
        let id = &filled(store, length).await;
        let head = length as u64;
        let tail = timed(300, async || store.entries(&tenant, id, head - 20, head).await.unwrap()).await;
        let fifty = timed(300, async || store.entries(&tenant, id, head - 50, head).await.unwrap()).await;
        let turns = timed(300, async || history(store, &tenant, id, 10).await.unwrap()).await;
        let alone = timed(300, async || store.conversation(&tenant, id).await.unwrap()).await;
        let pending = timed(300, async || store.pending_calls(&tenant, id).await.unwrap()).await;
        let fork = async |at: u64| {
            let fork =
                async || store.fork(&tenant, id, at, ConversationId::new(Time(9)), Time(9)).await.unwrap();
            timed(50, fork).await
        };
        times.push([tail, fifty, turns, alone, pending, fork(head).await, fork(head - 10).await]);
        last = Some(id.clone());
    }
    println!("\n  {:34} {:>10} {long:>10}", "entries in the conversation", 100);
    let names = [
        "last 20 entries",
        "last 50 entries",
        "last 10 turns",
        "head",
        "pending calls",
        "fork at the end",
        "fork 10 before",
    ];
    for (place, name) in names.iter().enumerate() {
        line(name, times[0][place], times[1][place], 1.5);
    }
    let start = Instant::now();
    let found = store.verify(&tenant, &last.unwrap()).await.unwrap();
    assert!(found.problems.is_empty());
    let rate = long as f64 / start.elapsed().as_secs_f64();
    println!("  verify {rate:>37.0} entries a second ≥ 100000 {}", mark(rate >= 100_000.0));
}

/// Conversations with recipients, two entries each.
async fn many(store: &dyn Store, from: usize, below: usize) {
    for block in (from..below).collect::<Vec<_>>().chunks(1_000) {
        let begun = |tx: &mut Tx| {
            for number in block {
                let recipient = Recipient::parse(&format!("recipient {number}")).unwrap();
                tx.append_for(&recipient, Expected::Any, said(*number));
            }
        };
        store.write(&Tenant::default(), Time(i64::try_from(block[0]).unwrap()), begun).await.unwrap();
    }
}

/// A file with many conversations against one with few.
pub(crate) async fn conversations(folder: &Path) {
    let tenant = Tenant::default();
    let opened = sqlite(folder, "many");
    let store = opened.as_ref();
    let id = &filled(store, 1_000).await;
    let mut loads = Vec::new();
    let mut pages = Vec::new();
    let mut made = 0;
    for count in [0, 1_000, 10_000, 100_000] {
        many(store, made, count).await;
        made = count;
        let tail = timed(300, async || store.entries(&tenant, id, 980, 1_000).await.unwrap()).await;
        let turns = timed(300, async || history(store, &tenant, id, 10).await.unwrap()).await;
        let head = timed(300, async || store.conversation(&tenant, id).await.unwrap()).await;
        let pending = timed(300, async || store.pending_calls(&tenant, id).await.unwrap()).await;
        loads.push([tail, turns, head, pending]);
        let listing = || Listing { limit: 50, ..Listing::default() };
        pages.push(timed(300, async || store.list(Some(&tenant), listing()).await.unwrap()).await);
    }
    println!("\n  {:34} {:>10} {:>10}", "conversations in the file", 1, 10_001);
    for (place, name) in ["last 20 entries", "last 10 turns", "head", "pending calls"].iter().enumerate() {
        line(name, loads[0][place], loads[2][place], 1.5);
    }
    println!("\n  {:34} {:>10} {:>10}", "conversations in the file", 1_001, 100_001);
    line("list of 50", pages[1], pages[3], 2.0);
    drop(opened);
    let path = folder.join("many.db");
    let open = timed(20, async || Sqlite::open(&path, Time(0)).unwrap()).await;
    println!("  opening the file {open:>38.1?} ≤ 20 ms {}", mark(open.as_millis() < 20));
}

/// A large file against a smaller one.
pub(crate) async fn search(folder: &Path) {
    let tenant = Tenant::default();
    let opened = sqlite(folder, "search");
    let store = opened.as_ref();
    let queries = [
        ("a word in twenty entries", "rareword"),
        ("two words that are everywhere", "refund invoice"),
        ("a phrase", "\"thank you the\""),
        ("a word and a beginning", "refund 77*"),
    ];
    let (mut times, mut made) = (Vec::new(), 0);
    for count in [100_000, 1_000_000] {
        for conversation in (made..count).collect::<Vec<_>>().chunks(1_000) {
            let mut entries: Vec<_> = conversation.iter().map(|number| entry(*number)).collect();
            if conversation[0] % (count / 20) == 0 {
                entries.push(scrollback_core::Entry::text(scrollback_core::Role::User, "a rareword in it"));
            }
            let recipient = Recipient::parse(&format!("r{}", conversation[0])).unwrap();
            let said = NewEntry::evaluation(entries, Time(i64::try_from(conversation[0]).unwrap()));
            store.append_for(&tenant, Time(0), &recipient, Expected::Any, said).await.unwrap();
        }
        made = count;
        let mut of_size = Vec::new();
        for (_, query) in queries {
            let find = async || {
                store.search(&tenant, Query::parse(query), Filter::default(), 20, None).await.unwrap()
            };
            of_size.push(timed(7, find).await);
        }
        times.push(of_size);
    }
    println!("\n  {:34} {:>10} {:>10}", "search in entries", 100_000, 1_000_000);
    for (place, (name, _)) in queries.iter().enumerate() {
        line(name, times[0][place], times[1][place], 4.0);
    }
}
