//! What the store costs, as ratios on this machine: `cargo bench -p scrollback-store`. Words choose tables: `append`, `size`,
//! `load`, `many`, `search`, `postgres`. A missed target fails nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod loads;
mod sizes;
#[path = "../../tests/support/mod.rs"]
mod support;
mod writes;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, Expected, NewConversation, NewEntry, Postgres, RecordsExt, Sqlite, Store, Tenant,
};

/// Bytes of a message: about what people write.
pub(crate) const TEXT: usize = 500;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |word: &str| words.is_empty() || words.iter().any(|given| given == word);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    println!("SQLite {}", rusqlite::version());
    runtime.block_on(async {
        if wanted("append") {
            let bare = writes::Bare::file(folder.path());
            writes::appends(sqlite(folder.path(), "one"), bare).await;
            writes::groups(async |name: &str| sqlite(folder.path(), name)).await;
        }
        if wanted("size") {
            sizes::messages(folder.path()).await;
            sizes::media(folder.path()).await;
        }
        if wanted("load") {
            loads::lengths(sqlite(folder.path(), "lengths"), 100_000).await;
        }
        if wanted("many") {
            loads::conversations(folder.path()).await;
        }
        if wanted("search") {
            loads::search(folder.path()).await;
        }
        if wanted("postgres")
            && let Some(server) = support::Server::start()
        {
            println!("\nPostgreSQL");
            let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
            writes::appends(Arc::clone(&store), writes::Bare::server(&server.url()).await).await;
            writes::groups(async |_: &str| Arc::clone(&store)).await;
            loads::lengths(store, 20_000).await;
        }
    });
}

pub(crate) fn sqlite(folder: &Path, name: &str) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(&folder.join(format!("{name}.db")), Time(0)).unwrap())
}

/// A text that compresses and indexes like one.
pub(crate) fn text(seed: usize) -> String {
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

/// What is said at a place: people and assistants in turns.
pub(crate) fn entry(number: usize) -> Entry {
    let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
    Entry::text(role, &text(number))
}

pub(crate) fn said(number: usize) -> Vec<NewEntry> {
    NewEntry::evaluation([entry(number)], Time(1_700_000_000_000 + i64::try_from(number).unwrap()))
}

pub(crate) async fn begin(store: &dyn Store) -> ConversationId {
    let id = ConversationId::new(Time(0));
    let new = NewConversation::new(id.clone());
    store.write(&Tenant::default(), Time(0), |tx| _ = tx.create(new)).await.unwrap();
    id
}

/// A conversation of that many entries, written in blocks.
pub(crate) async fn filled(store: &dyn Store, length: usize) -> ConversationId {
    let id = begin(store).await;
    for block in (0..length).collect::<Vec<_>>().chunks(1_000) {
        let said =
            NewEntry::evaluation(block.iter().map(|number| entry(*number)).collect::<Vec<_>>(), Time(0));
        store.append(&Tenant::default(), Time(0), &id, Expected::Any, said).await.unwrap();
    }
    id
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The median time of some work.
pub(crate) async fn timed<T>(rounds: usize, mut work: impl AsyncFnMut() -> T) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work().await;
        times.push(start.elapsed());
    }
    median(times)
}

pub(crate) fn ratio(one: Duration, other: Duration) -> f64 {
    other.as_secs_f64() / one.as_secs_f64()
}

/// Whether a target is met.
pub(crate) fn mark(met: bool) -> &'static str {
    if met { "✓" } else { "✗" }
}

/// One line of a table: what grew, the two times, their ratio and whether it is small enough.
pub(crate) fn line(name: &str, small: Duration, large: Duration, target: f64) {
    let ratio = ratio(small, large);
    println!("  {name:34} {small:>10.1?} {large:>10.1?}   {ratio:.2} × ≤ {target} {}", mark(ratio <= target));
}
