//! PostgreSQL's settings are what they seem, and what others do at the same time is survived.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Server, block_on};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, ErrorKind, Expected, NewConversation, NewEntry, Postgres, Records, RecordsExt, Store,
    StoreError, Tenant,
};

fn said(text: &str) -> Vec<NewEntry> {
    NewEntry::evaluation([Entry::text(Role::User, text)], Time(0))
}

async fn begin(store: &dyn Store) -> ConversationId {
    let id = ConversationId::new(Time(0));
    let create = NewConversation::new(id.clone());
    store.write(&Tenant::default(), Time(0), |tx| _ = tx.create(create)).await.unwrap();
    id
}

async fn append(store: &dyn Store, id: &ConversationId, text: &str) -> Result<u64, StoreError> {
    store.append(&Tenant::default(), Time(0), id, Expected::Any, said(text)).await.map(|done| done.last)
}

#[test]
fn a_server_without_fsync_is_refused_unless_the_url_accepts_it() {
    let Some(server) = Server::start_with("-c fsync=off", |_| ()) else { return };
    let refused = block_on(Postgres::open(&server.url(), Time(0))).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::OpenFailed);
    assert!(refused.to_string().contains("fsync is off"), "{refused}");
    assert!(block_on(Postgres::open(&format!("{}?fsync=off", server.url()), Time(0))).is_ok());
}

#[test]
fn a_server_that_cannot_repair_torn_pages_is_refused_unless_the_url_accepts_it() {
    let Some(server) = Server::start_with("-c full_page_writes=off", |_| ()) else { return };
    let refused = block_on(Postgres::open(&server.url(), Time(0))).err().unwrap();
    assert!(refused.to_string().contains("full_page_writes is off"), "{refused}");
    block_on(async {
        let store = Postgres::open(&format!("{}?full_page_writes=off", server.url()), Time(0)).await.unwrap();
        let store: &dyn Store = &store;
        let told = store.guarantees().await.unwrap();
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["encryption", "fsync", "full_page_writes", "synchronous_commit"]);
        assert!(told.contains(&("full_page_writes".into(), "off".into())), "{told:?}");
        assert_eq!(store.missing_wall().await.unwrap(), None);
    });
}

#[test]
fn every_transaction_sets_the_durability_that_was_asked_for() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        // What is asked for holds, be it more or less than the default of the role.
        for (asked, default) in [("remote_apply", "on"), ("on", "off"), ("off", "on")] {
            server.sql(&format!("alter role app set synchronous_commit = {default}"));
            let url = format!("{}?schema=s_{asked}&synchronous_commit={asked}", server.url());
            let store = Postgres::open(&url, Time(0)).await.unwrap();
            let id = begin(&store).await;
            server.ask(
                "app",
                &format!(
                    "create function s_{asked}.note() returns trigger language plpgsql as $$ begin \
                     new.title := current_setting('synchronous_commit'); return new; end $$; \
                     create trigger note before update on s_{asked}.conversations for each row execute function s_{asked}.note()"
                ),
            );
            append(&store, &id, "hello").await.unwrap();
            let row = store.conversation(&Tenant::default(), &id).await.unwrap();
            assert_eq!(row.title.as_deref(), Some(asked));
        }
    });
}

#[test]
fn writers_under_a_serializable_default_all_succeed() {
    let Some(server) = Server::start() else { return };
    server.sql("alter role app set default_transaction_isolation = 'serializable'");
    server.sql("alter role app set default_transaction_read_only = on");
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        let id = begin(store.as_ref()).await;
        let writers = (0..8).map(|writer| {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    append(store.as_ref(), &id, &format!("{writer} {round}")).await.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        assert_eq!(store.conversation(&Tenant::default(), &id).await.unwrap().head, 80);
    });
}

/// A connection of another program, which locks rows of the store.
async fn other(server: &Server) -> tokio_postgres::Client {
    let url = format!("postgres://postgres@{}:{}/app", server.host(), server.port());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn lock(id: &ConversationId) -> String {
    format!("select 1 from scrollback.conversations where id = '{id}' for update")
}

#[test]
fn a_deadlock_is_tried_again_and_the_caller_does_not_notice() {
    let Some(server) = Server::start_with("-c deadlock_timeout=200ms", |_| ()) else { return };
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        let (first, second) = (begin(store.as_ref()).await, begin(store.as_ref()).await);
        let other = other(&server).await;
        // The other one waits so long that it is never the one that is given up.
        other
            .batch_execute(&format!("set deadlock_timeout = '60s'; begin; {}", lock(&second)))
            .await
            .unwrap();
        let (writing, of) = (Arc::clone(&store), (first.clone(), second.clone()));
        let writer = tokio::spawn(async move {
            let tx = |tx: &mut scrollback_store::Tx| {
                tx.append(&of.0, Expected::Any, said("to the first"));
                tx.append(&of.1, Expected::Any, said("to the second"));
            };
            writing.write(&Tenant::default(), Time(0), tx).await
        });
        // The writer has the first and waits for the second; now the other wants the first.
        while server.ask("app", "select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "0"
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        other.batch_execute(&lock(&first)).await.unwrap();
        other.batch_execute("commit").await.unwrap();
        writer.await.unwrap().unwrap();
        let deadlocks =
            server.ask("app", "select pg_stat_get_db_deadlocks(oid) from pg_database where datname = 'app'");
        assert_ne!(deadlocks, "", "{deadlocks}");
        for id in [&first, &second] {
            assert_eq!(store.conversation(&Tenant::default(), id).await.unwrap().head, 1);
        }
        let log = std::fs::read_to_string(server.folder().join("log")).unwrap();
        assert!(log.contains("deadlock detected"), "the deadlock did not happen");
    });
}

#[test]
fn a_statement_that_takes_too_long_is_ended_and_nothing_of_it_is_written() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let url = format!("{}?statement_timeout=200ms", server.url());
        let store = Postgres::open(&url, Time(0)).await.unwrap();
        let id = begin(&store).await;
        let other = other(&server).await;
        other.batch_execute(&format!("begin; {}", lock(&id))).await.unwrap();
        assert_eq!(append(&store, &id, "waits").await.unwrap_err().kind(), ErrorKind::Overloaded);
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(append(&store, &id, "no more").await.unwrap(), 0, "nothing of the first was written");
    });
}

#[test]
fn a_server_that_comes_back_is_reached_again_without_an_error() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        let id = begin(store.as_ref()).await;
        append(store.as_ref(), &id, "before").await.unwrap();
        server.crash();
        let (waiting, of) = (Arc::clone(&store), id.clone());
        let writer = tokio::spawn(async move { append(waiting.as_ref(), &of, "while it is away").await });
        tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(500));
            server.launch();
            server
        })
        .await
        .map(|server| (server, ()))
        .map(async |(server, ())| {
            assert_eq!(writer.await.unwrap().unwrap(), 1);
            assert_eq!(append(store.as_ref(), &id, "after").await.unwrap(), 2);
            drop(server);
        })
        .unwrap()
        .await;
    });
}
