//! Bytes on disk.

use std::path::Path;

use rusqlite::Connection;
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{Expected, NewEntry, RecordsExt, Tenant};

use crate::{begin, entry, mark, said, sqlite};

/// Bytes of a closed file: all of it, and what full-text search takes.
fn bytes(path: &Path) -> (usize, usize) {
    let connection = Connection::open(path).unwrap();
    let sum = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
    let words = sum("select coalesce(sum(pgsize), 0) from dbstat where name like 'entries_fts%'");
    (std::fs::metadata(path).unwrap().len() as usize, words)
}

/// Bytes for each message beyond its own JSON, one append a message.
pub(crate) async fn messages(folder: &Path) {
    println!("\n  bytes a message       on disk  beyond its JSON    without search  search / JSON");
    let empty = {
        drop(sqlite(folder, "empty"));
        bytes(&folder.join("empty.db"))
    };
    for count in [1_000, 5_000, 20_000] {
        let name = format!("size{count}");
        let store = sqlite(folder, &name);
        let id = begin(store.as_ref()).await;
        let mut json = 0;
        for number in 0..count {
            json += entry(number).origin.raw.len();
            store.append(&Tenant::default(), Time(0), &id, Expected::Any, said(number)).await.unwrap();
        }
        drop(store);
        let (all, words) = bytes(&folder.join(format!("{name}.db")));
        let each = |bytes: usize| bytes as f64 / count as f64;
        let beyond = each(all - empty.0 - json - (words - empty.1));
        println!(
            "  {count:>6} messages  {:>11.0}  {:>15.0}  {beyond:>9.0} ≤ 260 {}  {:>6.2} ≤ 0.6 {}",
            each(all),
            each(all - json),
            mark(beyond <= 260.0),
            words as f64 / json as f64,
            mark(words as f64 <= json as f64 * 0.6),
        );
    }
    where_they_are(&folder.join("size20000.db"), 20_000.0);
    println!(
        "  · without search: an empty file, {} kB, is left out; it is in the two columns before",
        empty.0 / 1000
    );
}

/// What the largest tables and indexes take.
fn where_they_are(path: &Path, count: f64) {
    let connection = Connection::open(path).unwrap();
    let sql = "select name, sum(pgsize) from dbstat group by name order by 2 desc limit 9";
    let mut sizes = connection.prepare(sql).unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?));
    let named: Vec<String> = sizes
        .query_map([], read)
        .unwrap()
        .map(|row| row.map(|(name, bytes)| format!("{name} {:.0}", bytes / count)).unwrap())
        .collect();
    println!("  · of them: {}", named.join(", "));
}

/// A media file sent a hundred times is stored once.
pub(crate) async fn media(folder: &Path) {
    let store = sqlite(folder, "media");
    let id = begin(store.as_ref()).await;
    // Nothing that could be compressed.
    let mut state = 7_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize],
        )
    };
    let image: String = (0..1_000_000).map(|_| noise()).collect();
    for _ in 0..100 {
        let raw = format!(
            r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}"#
        );
        let sent = Entry::kept(Wire::OpenaiChat, Role::User, &raw, None, None).unwrap();
        let said = NewEntry::evaluation([sent], Time(0));
        store.append(&Tenant::default(), Time(0), &id, Expected::Any, said).await.unwrap();
    }
    drop(store);
    let (all, _) = bytes(&folder.join("media.db"));
    println!("\n  1 MB of media sent 100 times: {:.2} MB on disk", all as f64 / 1e6);
}
