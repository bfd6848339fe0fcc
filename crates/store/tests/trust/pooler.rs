//! PostgreSQL behind pgbouncer in transaction mode: each transaction may meet another connection.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Server, block_on, free_port, required};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    Expected, Listing, NewEntry, Postgres, Recipient, RecordsExt, Store, Tenant, conformance,
};

struct Pooler {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start(server: &Server) -> Option<Pooler> {
        let places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(std::path::PathBuf::from);
        let Some(program) = places.iter().find(|place| place.exists()) else {
            required::missing("pgbouncer", "PostgreSQL behind a pool in transaction mode");
            return None;
        };
        let (folder, port) = (tempfile::tempdir_in("/tmp").unwrap(), free_port());
        let (socket, theirs) = (server.folder().display(), server.port());
        let settings = format!(
            "[databases]\napp = host={socket} port={theirs} dbname=app\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n\
             server_reset_query =\n"
        );
        // With `any` the user is the one of the database.
        let settings = settings.replace("dbname=app", "dbname=app user=app");
        std::fs::write(folder.path().join("pgbouncer.ini"), settings).unwrap();
        std::process::Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()).status().unwrap();
        let mut command = Server::as_its_user(program);
        command.arg("-q").arg(folder.path().join("pgbouncer.ini"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Pooler { child, port, _folder: folder };
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(pooler);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("pgbouncer does not answer");
    }

    fn url(&self) -> String {
        format!("postgres://app@127.0.0.1:{}/app", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It is the child of runuser, which hands signals on.
        let _ = std::process::Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

#[test]
fn the_store_works_behind_pgbouncer_in_transaction_mode() {
    let Some(server) = Server::start() else { return };
    let Some(pooler) = Pooler::start(&server) else { return };
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&pooler.url(), Time(0)).await.unwrap());
        let mut failed = Vec::new();
        for case in conformance::cases() {
            if let Err(error) = case.run(Arc::clone(&store)).await {
                failed.push(error.to_string());
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

#[test]
fn tenants_stay_apart_on_connections_they_share() {
    let Some(server) = Server::start() else { return };
    let Some(pooler) = Pooler::start(&server) else { return };
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&pooler.url(), Time(0)).await.unwrap());
        let writers = (0..12).map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let tenant = Tenant::parse(&format!("it's t\\{number}")).unwrap();
                let anna = Recipient::parse("anna").unwrap();
                for round in 0..10 {
                    let said =
                        NewEntry::evaluation([Entry::text(Role::User, &format!("{number}"))], Time(round));
                    store.append_for(&tenant, Time(round), &anna, Expected::Any, said).await.unwrap();
                    let page = store
                        .list(Some(&tenant), Listing { limit: 100, ..Listing::default() })
                        .await
                        .unwrap();
                    assert_eq!(page.conversations.len(), 1, "its own conversation and no other's");
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}
