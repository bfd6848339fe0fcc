//! Durable appends: against a bare commit, and by many at once.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::Connection;
use scrollback_core::Time;
use scrollback_store::{Expected, RecordsExt, Store, Tenant};

use crate::{begin, mark, median, ratio, said, text};

/// A database that is given one row and a commit, with the settings of a store.
pub(crate) enum Bare {
    File(Connection),
    Server(Box<tokio_postgres::Client>),
}

impl Bare {
    pub(crate) fn file(folder: &Path) -> Self {
        let bare = Connection::open(folder.join("bare.db")).unwrap();
        bare.pragma_update(None, "page_size", 4096).unwrap();
        bare.query_row("pragma journal_mode = wal", [], |_| Ok(())).unwrap();
        bare.pragma_update(None, "synchronous", "full").unwrap();
        bare.execute_batch("create table t (id integer primary key, body text)").unwrap();
        Bare::File(bare)
    }

    pub(crate) async fn server(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("create table t (id bigserial primary key, body text)").await.unwrap();
        Bare::Server(Box::new(client))
    }

    async fn commit(&self, number: usize) {
        let body = text(number);
        match self {
            Bare::File(file) => {
                file.prepare_cached("insert into t (body) values (?1)").unwrap().execute([body]).unwrap();
            }
            Bare::Server(client) => {
                client.execute("insert into t (body) values ($1)", &[&body]).await.unwrap();
            }
        }
    }
}

/// A durable append against a bare commit of one row with the same settings, in turns.
pub(crate) async fn appends(store: Arc<dyn Store>, bare: Bare) {
    let id = begin(store.as_ref()).await;
    let (mut commits, mut appends) = (Vec::new(), Vec::new());
    for round in 0..2_000 {
        let start = Instant::now();
        bare.commit(round).await;
        commits.push(start.elapsed());
        let said = said(round);
        let start = Instant::now();
        store.append(&Tenant::default(), Time(0), &id, Expected::Any, said).await.unwrap();
        appends.push(start.elapsed());
    }
    let (commit, append) = (median(commits), median(appends));
    let ratio = ratio(commit, append);
    println!("\n  durable append of one 500-byte entry   {append:>8.1?}");
    println!(
        "  bare commit of one row                 {commit:>8.1?}   {ratio:.2} × ≤ 1.5 {}",
        mark(ratio <= 1.5)
    );
}

/// Writers that wait together against one that waits alone, three times in turns.
pub(crate) async fn groups(mut open: impl AsyncFnMut(&str) -> Arc<dyn Store>) {
    let mut found = Vec::new();
    for run in 0..3 {
        let alone = rate(&open(&format!("alone{run}")).await, 1, 600).await;
        let together = rate(&open(&format!("together{run}")).await, 32, 200).await;
        found.push((together / alone, alone, together));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, alone, together) = found[1];
    println!("\n   1 writer                              {alone:>8.0} durable appends a second");
    println!(
        "  32 writers, one conversation each      {together:>8.0}   {ratio:.1} × ≥ 8 {}",
        mark(ratio >= 8.0)
    );
}

async fn rate(store: &Arc<dyn Store>, writers: usize, rounds: usize) -> f64 {
    let mut ids = Vec::new();
    for _ in 0..writers {
        ids.push(begin(store.as_ref()).await);
    }
    let start = Instant::now();
    let write = |id| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for round in 0..rounds {
                store.append(&Tenant::default(), Time(0), &id, Expected::Any, said(round)).await.unwrap();
            }
        })
    };
    let tasks: Vec<_> = ids.into_iter().map(write).collect();
    for task in tasks {
        task.await.unwrap();
    }
    (writers * rounds) as f64 / start.elapsed().as_secs_f64()
}
