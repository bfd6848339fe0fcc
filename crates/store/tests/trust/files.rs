//! The file is the file: removed, renamed, made by many at once.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};

use crate::support::{block_on, victim};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ErrorKind, Expected, Listing, NewEntry, Recipient, RecordsExt, Sqlite, Store, StoreError, Tenant,
};

async fn say(store: &dyn Store, text: &str) -> Result<u64, StoreError> {
    let anna = Recipient::parse("anna").unwrap();
    let said = NewEntry::evaluation([Entry::text(Role::User, text)], Time(0));
    store.append_for(&Tenant::default(), Time(0), &anna, Expected::Any, said).await.map(|done| done.last)
}

#[test]
fn a_file_that_is_renamed_or_deleted_is_noticed_before_anything_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("store.db"), folder.path().join("away.db"));
    let store = Sqlite::open(&path, Time(0)).unwrap();
    assert_eq!(block_on(say(&store, "hello")).unwrap(), 0);
    std::fs::rename(&path, &away).unwrap();
    for _ in 0..2 {
        let refused = block_on(say(&store, "into nowhere")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert!(refused.to_string().contains("removed or replaced"), "{refused}");
    }
    // Another file of its name is not it.
    std::fs::write(&path, "").unwrap();
    assert_eq!(block_on(say(&store, "into another")).unwrap_err().kind(), ErrorKind::Io);
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(block_on(say(&store, "back again")).unwrap(), 1, "it heals by itself");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(block_on(say(&store, "into nowhere")).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_log_without_its_file_is_refused_and_never_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.db"));
    let log = |of: &std::path::Path| std::path::PathBuf::from(format!("{}-wal", of.display()));
    let store = Sqlite::open(&path, Time(0)).unwrap();
    block_on(say(&store, "only in the log")).unwrap();
    let bytes = std::fs::read(log(&path)).unwrap();
    assert!(bytes.len() > 4096);
    std::fs::write(log(&copy), &bytes).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::write(&copy, "").unwrap();
        }
        let refused = Sqlite::open(&copy, Time(0)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::OpenFailed);
        assert!(refused.to_string().contains("copy.db-wal"), "{refused}");
        assert_eq!(std::fs::read(log(&copy)).unwrap(), bytes, "not one byte of the log is touched");
        assert_eq!(copy.exists(), empty, "no file is made beside it");
    }
    std::fs::copy(&path, &copy).unwrap();
    let found = Sqlite::open(&copy, Time(0)).unwrap();
    assert_eq!(block_on(say(&found, "found again")).unwrap(), 1, "with its file the log holds what was said");
}

#[test]
fn twelve_processes_that_create_a_store_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let file = folder.path().join(format!("{round}.db"));
        let start = |number: usize| {
            let mut command = Command::new(victim());
            command.args(["few", file.to_str().unwrap(), &format!("{}", number * 1000)]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..12).map(start).collect();
        for child in children {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "round {round}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        let store = Sqlite::open(&file, Time(0)).unwrap();
        let store: &dyn Store = &store;
        let page = block_on(store.list(None, Listing { limit: 10, ..Listing::default() })).unwrap();
        let heads: u64 = page.conversations.iter().map(|(row, _)| row.head).sum();
        assert_eq!(heads, 12 * 12 * 3, "round {round}: everything all of them said");
    }
}
