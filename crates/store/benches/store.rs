//! What the store costs, as ratios on this machine: `cargo bench -p scrollback-store`.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, Expected, Filter, Listing, NewConversation, NewEntry, Query, Recipient, Sqlite, Store,
    Tenant, history,
};

/// Messages of the size people write.
const TEXT: usize = 500;

fn main() {
    // cargo passes `--bench`; a number chooses the size of the long run.
    let large = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    println!(
        "SQLite {}, on the disk of {}\n",
        rusqlite::version(),
        std::env::current_dir().unwrap().display()
    );
    runtime.block_on(appends(folder.path()));
    runtime.block_on(groups(folder.path()));
    runtime.block_on(sizes(folder.path()));
    runtime.block_on(loads(folder.path(), large));
}

/// A text that compresses and indexes like one.
fn text(seed: usize) -> String {
    const WORDS: [&str; 16] = [
        "order", "arrives", "tomorrow", "please", "the", "of", "invoice", "number", "thank", "you",
        "address", "is", "changed", "again", "refund", "delivery",
    ];
    let mut text = String::with_capacity(TEXT + 16);
    let mut state = seed as u64 * 0x9E37_79B9 + 1;
    while text.len() < TEXT {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
        if state >> 60 == 0 {
            text.push_str(&(state >> 40 & 0xFFF).to_string());
        }
        text.push(' ');
    }
    text.truncate(TEXT);
    text
}

fn said(number: usize) -> Vec<NewEntry> {
    let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
    NewEntry::evaluation([Entry::text(role, &text(number))], Time(0))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn begin(store: &dyn Store) -> ConversationId {
    let id = ConversationId::new(Time(0));
    store
        .write(&Tenant::default(), Time(0), |tx| _ = tx.create(NewConversation::new(id.clone())))
        .await
        .unwrap();
    id
}

/// A durable append against a bare commit of one row with the same settings.
async fn appends(folder: &Path) {
    let bare = Connection::open(folder.join("bare.db")).unwrap();
    bare.query_row("pragma journal_mode = wal", [], |_| Ok(())).unwrap();
    bare.pragma_update(None, "synchronous", "full").unwrap();
    bare.execute_batch("create table t (id integer primary key, body text)").unwrap();
    let opened: Arc<dyn Store> = Arc::new(Sqlite::open(&folder.join("one.db"), Time(0)).unwrap());
    let store = opened.as_ref();
    let id = begin(store).await;
    let (mut commits, mut appends) = (Vec::new(), Vec::new());
    for round in 0..400 {
        let start = Instant::now();
        bare.execute("insert into t (body) values (?1)", [text(round)]).unwrap();
        commits.push(start.elapsed());
        let said = said(round);
        let start = Instant::now();
        store.append(&Tenant::default(), Time(0), &id, Expected::Any, said).await.unwrap();
        appends.push(start.elapsed());
    }
    let (commit, append) = (median(commits), median(appends));
    let ratio = append.as_secs_f64() / commit.as_secs_f64();
    println!("durable append of one 500-byte entry   {append:>10.1?}");
    println!("bare commit of one row                 {commit:>10.1?}   ratio {ratio:.2} (target 1.5)\n");
}

/// Writers that wait together against one that waits alone.
async fn groups(folder: &Path) {
    let mut rates = Vec::new();
    for writers in [1_usize, 32] {
        let store: Arc<dyn Store> =
            Arc::new(Sqlite::open(&folder.join(format!("group{writers}.db")), Time(0)).unwrap());
        let rounds: usize = if writers == 1 { 300 } else { 100 };
        let start = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let id = begin(store.as_ref()).await;
                    for round in 0..rounds {
                        store
                            .append(&Tenant::default(), Time(0), &id, Expected::Any, said(round))
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = (writers * rounds) as f64 / start.elapsed().as_secs_f64();
        println!("{writers:>2} writers, one conversation each       {rate:>8.0} durable appends a second");
        rates.push(rate);
    }
    println!("{:39}ratio {:.1} (target 8)\n", "", rates[1] / rates[0]);
}

/// Bytes on disk for each message, beyond its own text.
async fn sizes(folder: &Path) {
    for messages in [1_000_usize, 5_000] {
        let path = folder.join(format!("size{messages}.db"));
        let (mut raw, indexed);
        {
            let opened: Arc<dyn Store> = Arc::new(Sqlite::open(&path, Time(0)).unwrap());
            let store = opened.as_ref();
            let id = begin(store).await;
            raw = 0;
            for batch in (0..messages).collect::<Vec<_>>().chunks(100) {
                let entries: Vec<Entry> =
                    batch.iter().map(|number| Entry::text(Role::User, &text(*number))).collect();
                raw += entries.iter().map(|entry| entry.origin.raw.len()).sum::<usize>();
                let said = NewEntry::evaluation(entries, Time(0));
                store.append(&Tenant::default(), Time(0), &id, Expected::Any, said).await.unwrap();
            }
        }
        let connection = Connection::open(&path).unwrap();
        indexed = connection
            .query_row("select coalesce(sum(length(block)), 0) from entries_fts_data", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap() as usize;
        drop(connection);
        let size = std::fs::metadata(&path).unwrap().len() as usize;
        let beyond = (size.saturating_sub(raw).saturating_sub(indexed)) as f64 / messages as f64;
        println!(
            "{messages:>5} messages: {:>5} bytes each on disk; {beyond:.0} beyond the text, {:.2} of the text for search",
            size / messages,
            indexed as f64 / raw as f64
        );
    }
    println!();
}

async fn timed<T>(rounds: usize, mut work: impl AsyncFnMut() -> T) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work().await;
        times.push(start.elapsed());
    }
    median(times)
}

/// Reading what is needed of a long conversation against a short one, and the whole file.
async fn loads(folder: &Path, large: usize) {
    let tenant = Tenant::default();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&folder.join("loads.db"), Time(0)).unwrap());
    let store = store.as_ref();
    let mut ids = Vec::new();
    for size in [100, large] {
        let id = begin(store).await;
        for batch in (0..size).collect::<Vec<_>>().chunks(1_000) {
            let entries = batch.iter().map(|number| {
                let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
                Entry::text(role, &text(*number))
            });
            let said = NewEntry::evaluation(entries.collect::<Vec<_>>(), Time(0));
            store.append(&tenant, Time(0), &id, Expected::Any, said).await.unwrap();
        }
        ids.push(id);
    }
    let row = |name: &str, short: Duration, long: Duration, target: &str| {
        let ratio = long.as_secs_f64() / short.as_secs_f64();
        println!("{name:34} {short:>10.1?} {long:>10.1?}   ratio {ratio:.2} ({target})");
    };
    println!("{:34} {:>10} {:>10}", "one conversation of", 100, large);
    let mut times = Vec::new();
    for id in &ids {
        let head = store.conversation(&tenant, id).await.unwrap().head;
        let last = timed(200, async || store.entries(&tenant, id, head - 20, head).await.unwrap()).await;
        let turns = timed(200, async || history(store, &tenant, id, 10).await.unwrap()).await;
        let alone = timed(200, async || store.conversation(&tenant, id).await.unwrap()).await;
        let pending = timed(200, async || store.pending_calls(&tenant, id).await.unwrap()).await;
        let fork = timed(50, async || {
            store.fork(&tenant, id, head, ConversationId::new(Time(9)), Time(9)).await.unwrap()
        })
        .await;
        times.push([last, turns, alone, pending, fork]);
    }
    for (place, name) in
        ["last 20 entries", "last 10 turns", "head", "pending calls", "fork"].iter().enumerate()
    {
        row(name, times[0][place], times[1][place], "target 1.5");
    }
    let start = Instant::now();
    store.verify(&tenant, &ids[1]).await.unwrap();
    println!(
        "verify {:>37.0} entries a second (target 100000)",
        large as f64 / start.elapsed().as_secs_f64()
    );
    let search = timed(20, async || {
        store.search(&tenant, Query::parse("refund invoice 77*"), Filter::default(), 20, None).await.unwrap()
    })
    .await;
    println!("search of {large} entries {search:>21.1?}");

    println!("\n{:34} {:>10} {:>10}", "conversations in the file", "few", "10000");
    let few = timed(200, async || {
        store.list(Some(&tenant), Listing { limit: 50, ..Listing::default() }).await.unwrap()
    })
    .await;
    let head = timed(200, async || history(store, &tenant, &ids[0], 10).await.unwrap()).await;
    for hundred in 0..100 {
        let begun = |tx: &mut scrollback_store::Tx| {
            for number in 0..100 {
                let recipient = Recipient::parse(&format!("r{hundred}.{number}")).unwrap();
                tx.append_for(&recipient, Expected::Any, said(1));
            }
        };
        store.write(&tenant, Time(hundred), begun).await.unwrap();
    }
    let many = timed(200, async || {
        store.list(Some(&tenant), Listing { limit: 50, ..Listing::default() }).await.unwrap()
    })
    .await;
    let after = timed(200, async || history(store, &tenant, &ids[0], 10).await.unwrap()).await;
    row("list of 50", few, many, "target 2");
    row("last 10 turns of one", head, after, "target 1.5");
    let path = folder.join("loads.db");
    let open = timed(20, async || Sqlite::open(&path, Time(0)).unwrap()).await;
    println!("opening the file {open:>27.1?} (target 20 ms)");
}
