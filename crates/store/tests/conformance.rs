//! Every store passes the suite that anybody can run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::support::{Server, block_on};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, ErrorKind, Expected, Memory, NewConversation, NewEntry, Postgres, RecordsExt, Sqlite,
    Store, Tenant, conformance, open,
};

/// Runs every case; all that fail are told.
async fn passes(store: &Arc<dyn Store>) {
    let mut failed = Vec::new();
    for case in conformance::cases() {
        if let Err(error) = case.run(Arc::clone(store)).await {
            failed.push(error.to_string());
        }
    }
    let all = conformance::cases().len();
    assert!(failed.is_empty(), "{} of {all} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn memory_passes() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    block_on(passes(&store));
}

#[test]
fn sqlite_passes() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap());
    block_on(passes(&store));
}

#[test]
fn sqlite_in_memory_passes() {
    let store: Arc<dyn Store> = Arc::new(Sqlite::in_memory(Time(0)).unwrap());
    block_on(passes(&store));
}

#[test]
fn postgres_passes_and_keeps_its_walls() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    block_on(async {
        let store = Postgres::open(&url, Time(0)).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        passes(&store).await;
        walls(&url).await;
        refusals(&server).await;
    });
}

/// A query that forgets its tenant sees nothing, and with one only that tenant's rows.
async fn walls(url: &str) {
    let store = open(url, Time(0)).await.unwrap();
    let mine = Tenant::parse("walled").unwrap();
    let id = ConversationId::new(Time(0));
    store.write(&mine, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    let said = NewEntry::evaluation([Entry::text(Role::User, "secret")], Time(0));
    store.append(&mine, Time(0), &id, Expected::Any, said).await.unwrap();
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    let count = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count("select count(*) from scrollback.entries").await, 0, "no tenant, no rows");
    assert_eq!(count("select count(*) from scrollback.sent").await, 0, "nor what was sent");
    assert_eq!(count("select count(*) from scrollback.sent_parts").await, 0, "nor parts of it");
    client.batch_execute("select set_config('scrollback.tenant', 'walled', false)").await.unwrap();
    assert_eq!(count("select count(*) from scrollback.entries").await, 1);
    assert_eq!(count("select count(distinct tenant) from scrollback.conversations").await, 1);
    let stolen = client
        .execute("update scrollback.conversations set tenant = 'thief' where id = $1", &[&id.as_str()])
        .await;
    assert!(stolen.is_err(), "a row cannot be moved to another tenant");
    drop(client);
    driving.await.unwrap().unwrap();
}

/// Wrong credentials, wrong hosts, lazy servers and newer schemas are refused, without the password.
async fn refusals(server: &Server) {
    let kind =
        async |url: String| open(&url, Time(0)).await.err().map(|error| (error.kind(), error.to_string()));
    let host = server.host();
    let (found, message) = kind(format!("postgres://nobody:geheim@{host}/app")).await.unwrap();
    assert_eq!(found, ErrorKind::OpenFailed);
    assert!(!message.contains("geheim") && message.contains("nobody"), "{message}");
    let (found, _) = kind("postgres://app@127.0.0.1:1/app".into()).await.unwrap();
    assert_eq!(found, ErrorKind::OpenFailed);
    server.sql("alter role app set synchronous_commit = off");
    let (found, message) = kind(server.url()).await.unwrap();
    assert!(found == ErrorKind::OpenFailed && message.contains("synchronous_commit"), "{message}");
    assert_eq!(kind(format!("{}?synchronous_commit=off", server.url())).await, None);
    server.sql("alter role app reset synchronous_commit");
    let other = format!("{}?schema=other", server.url());
    assert_eq!(kind(other.clone()).await, None, "a schema of its own");
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client.batch_execute("update other.meta set value = '9' where key = 'schema_version'").await.unwrap();
    drop(client);
    driving.await.unwrap().unwrap();
    let (found, message) = kind(other).await.unwrap();
    assert_eq!(found, ErrorKind::SchemaNewer);
    assert!(message.contains('9') && message.contains('6'), "{message}");
}
