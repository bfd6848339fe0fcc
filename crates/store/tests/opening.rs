//! Opening: what is not ours, cannot be written or is too new is refused, and not one byte of it changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use crate::support::{before_sessions, block_on};
use rusqlite::Connection;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    Access, ConversationId, ConversationKind, ErrorKind, Expected, NewConversation, NewEntry, Options,
    Recipient, Records, RecordsExt, SessionId, SessionListing, Sqlite, Store, StoreError, Tenant, Url, open,
};

fn kind(path: &Path) -> Option<ErrorKind> {
    Sqlite::open(path, Time(0)).err().map(|error| error.kind())
}

async fn say(store: &dyn Store, text: &str) -> Result<u64, StoreError> {
    let anna = Recipient::parse("anna").unwrap();
    let said = NewEntry::evaluation([Entry::text(Role::User, text)], Time(0));
    store.append_for(&Tenant::default(), Time(0), &anna, Expected::Any, said).await.map(|done| done.last)
}

#[test]
fn foreign_and_newer_files_are_refused_unaltered() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("notes.txt"), "not a database, but long enough to be taken for one".repeat(9)).unwrap();
    std::fs::write(at("short"), "x").unwrap();
    let other = Connection::open(at("other.db")).unwrap();
    other.execute_batch("create table entries (id integer); insert into entries values (1)").unwrap();
    drop(other);
    drop(Sqlite::open(&at("newer.db"), Time(0)).unwrap());
    Connection::open(at("newer.db"))
        .unwrap()
        .pragma_update(None, "user_version", i64::try_from(scrollback_store::SCHEMA + 1).unwrap())
        .unwrap();
    let cases = [
        ("notes.txt", ErrorKind::ForeignFile),
        ("short", ErrorKind::ForeignFile),
        ("other.db", ErrorKind::ForeignFile),
        ("newer.db", ErrorKind::SchemaNewer),
    ];
    for (name, wanted) in cases {
        let before = std::fs::read(at(name)).unwrap();
        let error = Sqlite::open(&at(name), Time(0)).err().unwrap();
        assert_eq!(error.kind(), wanted, "{name}: {error}");
        assert_eq!(std::fs::read(at(name)).unwrap(), before, "{name} was altered");
        assert!(
            !at(&format!("{name}-wal")).exists() || name == "newer.db",
            "{name}: something was left beside it"
        );
    }
    let error = Sqlite::open(&at("newer.db"), Time(0)).err().unwrap().to_string();
    let known = scrollback_store::SCHEMA;
    let both = error.contains(&format!("schema {}", known + 1)) && error.contains(&format!("knows {known}"));
    assert!(both, "both versions are named: {error}");
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_store_and_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.db"), folder.path().join("link.db"));
    drop(Sqlite::open(&real, Time(0)).unwrap());
    std::os::unix::fs::symlink(&real, &link).unwrap();
    // The files beside the link belong to something else.
    std::fs::write(folder.path().join("link.db-wal"), "").unwrap();
    let store = Sqlite::open(&link, Time(0)).unwrap();
    block_on(say(&store, "hello")).unwrap();
    std::fs::remove_file(folder.path().join("real.db-wal")).unwrap();
    let lost = block_on(say(&store, "into nowhere")).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Io, "{lost}");
    assert!(lost.to_string().contains("removed"), "{lost}");
    drop(store);
    // What was acknowledged before is in the file.
    let store = Sqlite::open(&link, Time(0)).unwrap();
    assert_eq!(block_on(say(&store, "again")).unwrap(), 1);
}

#[test]
fn missing_folders_are_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/store.db");
    assert_eq!(kind(&path), Some(ErrorKind::OpenFailed));
    assert!(!folder.path().join("no").exists());
    assert_eq!(kind(folder.path()), Some(ErrorKind::OpenFailed), "a folder is no file");
    let read = Options { access: Access::Read, ..Options::default() };
    let missing = folder.path().join("none.db");
    assert!(Sqlite::open_with(&missing, &read, Time(0)).is_err() && !missing.exists());
}

#[test]
fn a_store_that_is_only_read_is_not_written_or_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        block_on(say(&store, "hello")).unwrap();
    }
    let read = Options { access: Access::Read, ..Options::default() };
    let store = Sqlite::open_with(&path, &read, Time(0)).unwrap();
    let refused = block_on(say(&store, "more")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    let anna = Recipient::parse("anna").unwrap();
    let store: &dyn Store = &store;
    assert_eq!(block_on(store.current(&Tenant::default(), &anna)).unwrap().unwrap().head, 1);
    let later = Options { further_steps: vec!["create table x (y)".into()], ..read };
    let error = Sqlite::open_with(&path, &later, Time(0)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

#[test]
fn a_migration_keeps_a_copy_of_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        block_on(say(&store, "hello")).unwrap();
    }
    let broken =
        Options { further_steps: vec!["create table x (y); select nonsense".into()], ..Options::default() };
    assert!(Sqlite::open_with(&path, &broken, Time(0)).is_err());
    assert_eq!(block_on(say(&Sqlite::open(&path, Time(0)).unwrap(), "still the old version")).unwrap(), 1);
    let copy = folder.path().join(format!("store.db.v{}.bak", scrollback_store::SCHEMA));
    let _ = std::fs::remove_file(&copy);
    let later = Options { further_steps: vec!["create table x (y)".into()], ..Options::default() };
    assert_eq!(
        block_on(say(&Sqlite::open_with(&path, &later, Time(0)).unwrap(), "the next version")).unwrap(),
        2
    );
    let copy = Sqlite::open(&copy, Time(0)).unwrap();
    assert_eq!(block_on(say(&copy, "the copy goes on by itself")).unwrap(), 2);
    assert_eq!(kind(&path), Some(ErrorKind::SchemaNewer));
}

#[test]
fn conversations_of_schema_5_become_sessions_with_their_forks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let ids: Vec<ConversationId> = (0..4).map(|at| ConversationId::new(Time(at))).collect();
    let tenant = Tenant::default();
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let store: &dyn Store = &store;
        for id in [&ids[0], &ids[3]] {
            let said = NewEntry::evaluation([Entry::text(Role::User, "hello")], Time(0));
            let begin = |tx: &mut scrollback_store::Tx| {
                tx.create(NewConversation::new(id.clone())).append(id, Expected::At(0), said);
            };
            store.write(&tenant, Time(0), begin).await.unwrap();
        }
        store.fork(&tenant, &ids[0], 1, ids[1].clone(), Time(1)).await.unwrap();
        store.fork(&tenant, &ids[1], 1, ids[2].clone(), Time(2)).await.unwrap();
    });
    // The same file as the last version wrote it.
    let older = Connection::open(&path).unwrap();
    let back = "update meta set value = '5' where key = 'schema_version'; pragma user_version = 5;";
    older.execute_batch(&before_sessions("")).unwrap();
    older.execute_batch(back).unwrap();
    drop(older);
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        for (id, root, kind) in [
            (&ids[0], &ids[0], ConversationKind::Main),
            (&ids[1], &ids[0], ConversationKind::Branch),
            (&ids[2], &ids[0], ConversationKind::Branch),
            (&ids[3], &ids[3], ConversationKind::Main),
        ] {
            let found = store.conversation(&tenant, id).await.unwrap();
            assert_eq!((found.session, found.kind, found.scope), (SessionId::of(root), kind, None));
            assert!(store.verify(&tenant, id).await.unwrap().problems.is_empty());
        }
        let page = store.sessions(None, SessionListing { limit: 9, after: None }).await.unwrap();
        let listed: Vec<u64> = page.sessions.iter().map(|tree| tree.total).collect();
        assert_eq!(listed, [3, 1]);
    });
}

#[test]
fn urls_are_read_before_anything_is_opened() {
    for bad in ["", "store.db", "mysql://x", "sqlite:", "postgres:x", "SQLITE:x"] {
        let error = Url::parse(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadUrl, "{bad}: {error}");
        assert_eq!(block_on(open(bad, Time(0))).err().unwrap().kind(), ErrorKind::BadUrl);
    }
    assert_eq!(Url::parse("sqlite:///tmp/x.db").unwrap(), Url::Sqlite("/tmp/x.db".into()));
}

#[test]
fn a_backup_is_a_store_and_is_made_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(async {
        for from in ["sqlite", "memory"] {
            let url = if from == "sqlite" { format!("sqlite:{}", path.display()) } else { "memory:".into() };
            let store = open(&url, Time(0)).await.unwrap();
            for number in 0..50 {
                say(store.as_ref(), &format!("message {number}")).await.unwrap();
            }
            let copy = folder.path().join(format!("{from}.copy.db"));
            let (copied, written) = tokio::join!(store.backup(&copy), async {
                for number in 0..20 {
                    say(store.as_ref(), &format!("meanwhile {number}")).await.unwrap();
                }
            });
            copied.unwrap();
            let () = written;
            assert_eq!(store.backup(&copy).await.unwrap_err().kind(), ErrorKind::Exists);
            let copy = open(&format!("sqlite:{}", copy.display()), Time(0)).await.unwrap();
            let anna = Recipient::parse("anna").unwrap();
            let row = copy.current(&Tenant::default(), &anna).await.unwrap().unwrap();
            assert!((50..=70).contains(&row.head), "{}", row.head);
            assert_eq!(copy.verify(&Tenant::default(), &row.id).await.unwrap().problems, []);
            let query = scrollback_store::Query::parse("\"message 7\"");
            let hits = copy
                .search(&Tenant::default(), query, scrollback_store::Filter::default(), 9, None)
                .await
                .unwrap();
            assert_eq!(hits.hits.len(), 1);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    use std::process::Command;
    let folder = tempfile::tempdir().unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(folder.path()).status();
    if !mount.is_ok_and(|status| status.success()) {
        crate::support::required::missing("the right to mount a small disk", "what a full disk does");
        return;
    }
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, Time(0)).unwrap();
    // Text that does not shrink, so that it fills the disk.
    let mut dice = crate::support::Dice(7);
    let mut noise = || (0..3_000).map(|_| char::from(b'a' + dice.roll(26) as u8)).collect::<String>();
    let mut acked = 0;
    let refused = loop {
        match block_on(say(&store, &noise())) {
            Ok(last) => acked = last,
            Err(error) => break error,
        }
        assert!(acked < 10_000, "the disk never filled");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    let store_dyn: &dyn Store = &store;
    let anna = Recipient::parse("anna").unwrap();
    let row = block_on(store_dyn.current(&Tenant::default(), &anna)).unwrap().unwrap();
    assert_eq!(row.head, acked + 1, "everything acknowledged is there");
    assert!(
        Command::new("mount").args(["-o", "remount,size=8m"]).arg(folder.path()).status().unwrap().success()
    );
    assert_eq!(block_on(say(&store, "room again")).unwrap(), acked + 1);
    assert_eq!(block_on(store_dyn.verify(&Tenant::default(), &row.id)).unwrap().problems, []);
    drop(store);
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
}
