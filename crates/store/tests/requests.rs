//! What model calls were sent takes little room, comes back byte for byte, and goes when what it held is erased.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Read;
use std::path::Path;

use crate::session::{self, Calls, Session, call, run};
use crate::support::{Server, before_parts, block_on};
use rusqlite::Connection;
use scrollback_core::request::BodyTemplate;
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, Erase, ErrorKind, Expected, Memory, NewConversation, NewEntry, Postgres, ProblemKind,
    Records, RecordsExt, RunRecords, Sent, Sqlite, Store, Tenant, open,
};

fn id() -> ConversationId {
    ConversationId::from_parts(Time(1), 1)
}

/// Forty calls: 60 KB of tools, results of up to 20 KB.
fn forty() -> Session {
    Session::new(11, 60_000, 20_000)
}

/// Bytes of a store's file once everything unused is out of it.
fn vacuumed(path: &Path) -> u64 {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("pragma wal_checkpoint(truncate); vacuum; pragma wal_checkpoint(truncate)")
        .unwrap();
    drop(connection);
    std::fs::metadata(path).unwrap().len()
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn forty_calls_take_little_more_room_than_the_last_request() {
    let folder = tempfile::tempdir().unwrap();
    let [with, without, whole] = ["with", "without", "whole"].map(|name| folder.path().join(name));
    let sent = block_on(async {
        let store = Sqlite::open(&with, Time(0)).unwrap();
        let sent = run(&store, &id(), forty(), 40, Calls::Written).await;
        assert!((store.sent(&Tenant::default(), &id()).await.unwrap()) == sent, "every request comes back");
        for wanted in &sent {
            assert!(store.call(&Tenant::default(), &wanted.id).await.unwrap() == *wanted, "{}", wanted.id);
        }
        assert_eq!(store.verify(&Tenant::default(), &id()).await.unwrap().problems, []);
        run(&Sqlite::open(&without, Time(0)).unwrap(), &id(), forty(), 40, Calls::LeftOut).await;
        run(&Sqlite::open(&whole, Time(0)).unwrap(), &id(), forty(), 40, Calls::Whole).await;
        sent
    });
    let sizes: Vec<u64> = sent.iter().map(|call| call.request.as_ref().unwrap().len() as u64).collect();
    let (last, all) = (*sizes.last().unwrap(), sizes.iter().sum::<u64>());
    let (with_calls, entries) = (vacuumed(&with), vacuumed(&without));
    let added = with_calls - entries;
    let ratio = |bytes: u64| bytes as f64 / last as f64;
    println!(
        "40 requests of {all} bytes together, the last of {last}: the entries take {entries} bytes, the calls {added}, \
         which is {:.2} x the last request, and {:.2} x if each is a blob of its own ({} bytes of lists, {} of parts, {} of new blobs)",
        ratio(added),
        ratio(vacuumed(&whole) - entries),
        number(&with, "select sum(length(template)) from sent"),
        number(&with, "select sum(length(items)) from sent_parts"),
        number(&with, "select sum(length(bytes)) from blobs")
            - number(&without, "select sum(length(bytes)) from blobs"),
    );
    assert!(all > 15 * last, "the session grows");
    assert!(added * 10 <= last * 13, "{added} bytes for a last request of {last}");
}

#[test]
fn requests_are_the_same_on_every_store_and_in_copies_of_it() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let tenant = Tenant::default();
    block_on(async {
        let mut stores: Vec<(&str, Box<dyn Store>)> = vec![
            ("memory", Box::new(Memory::new())),
            ("sqlite", Box::new(Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap())),
        ];
        if let Some(server) = &server {
            stores.push(("postgres", Box::new(Postgres::open(&server.url(), Time(0)).await.unwrap())));
        }
        for (name, store) in stores {
            let sent = run(store.as_ref(), &id(), Session::new(5, 9_000, 3_000), 25, Calls::Written).await;
            assert!(store.sent(&tenant, &id()).await.unwrap() == sent, "{name}");
            let path = folder.path().join(format!("{name}.copy.db"));
            store.backup(&path).await.unwrap();
            let copy = open(&format!("sqlite:{}", path.display()), Time(0)).await.unwrap();
            assert!(copy.sent(&tenant, &id()).await.unwrap() == sent, "the copy of {name}");
            assert_eq!(copy.verify(&tenant, &id()).await.unwrap().problems, []);
        }
    });
}

#[test]
fn what_a_call_adds_does_not_grow_with_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let rows = |calls: usize| {
        let _ = std::fs::remove_file(&path);
        let store = Sqlite::open(&path, Time(0)).unwrap();
        block_on(run(&store, &id(), Session::new(3, 300, 300), calls, Calls::Written));
        drop(store);
        number(&path, "select sum(length(template)) from sent")
            + number(&path, "select coalesce(sum(length(items)), 0) from sent_parts")
    };
    let (first, all) = (rows(100), rows(300));
    println!("100 calls: {first} bytes of lists and parts; 300 calls: {all}");
    assert!(all < first * 5, "100 calls: {first} bytes, 300 calls: {all}");
}

/// Every blob and part of a store, unpacked.
fn texts(path: &Path) -> Vec<Vec<u8>> {
    let connection = Connection::open(path).unwrap();
    let mut blobs = connection.prepare("select bytes from blobs").unwrap();
    let blobs = blobs.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let unpacked = |bytes: Vec<u8>| {
        let mut text = Vec::new();
        flate2::read::DeflateDecoder::new(&*bytes).read_to_end(&mut text).unwrap();
        text
    };
    let mut found: Vec<Vec<u8>> = blobs.map(|bytes| unpacked(bytes.unwrap())).collect();
    for sql in ["select template from sent where template is not null", "select items from sent_parts"] {
        let mut rows = connection.prepare(sql).unwrap();
        let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        found.extend(rows.map(|text| text.unwrap().into_bytes()));
    }
    found.push(std::fs::read(path).unwrap());
    found
}

#[test]
fn nothing_that_was_erased_stays_in_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (tenant, id) = (Tenant::default(), id());
    let secret = "zanzibarquux";
    let holds =
        || texts(&path).iter().any(|text| text.windows(secret.len()).any(|part| part == secret.as_bytes()));
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let store: &dyn Store = &store;
        let calls = run(store, &id, Session::new(7, 3_000, 6_000), 12, Calls::Written).await;
        let head = store.conversation(&tenant, &id).await.unwrap().head;
        let said = Entry::text(Role::User, &format!("{secret} {}", "and more that was said ".repeat(300)));
        let entries = NewEntry::continued([said.clone()], uuid::Uuid::from_u128(900), 0, Time(1));
        store.append(&tenant, Time(1), &id, Expected::Any, entries).await.unwrap();
        // Once as it was said, once in a spelling of the client's own, short and long.
        let raw = said.origin.raw.as_ref();
        let bodies = [
            format!(r#"{{"messages":[{raw}]}}"#),
            format!(r#"{{"messages":[{{"content":"{secret}","role":"user"}}]}}"#),
            format!(
                r#"{{"messages":[{{"content":"{secret}{}","role":"user"}}]}}"#,
                "another text ".repeat(900)
            ),
        ];
        for (number, body) in bodies.iter().enumerate() {
            let template = BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), [(head, &said)]);
            let row = call(&id, 500 + number, head as usize + 1);
            store.write(&tenant, Time(1), |tx| _ = tx.sent_as(row, template)).await.unwrap();
        }
        assert!(holds());
        let what = Erase::Positions(vec![(head, head)]);
        assert_eq!(store.erase(&tenant, &id, what, "asked", Time(2)).await.unwrap().sent, 3);
        assert!(!holds(), "a copy of what was erased is left");
        let left = store.sent(&tenant, &id).await.unwrap();
        assert!(left[..calls.len()] == calls, "what held nothing of it stays");
        assert_eq!(store.verify(&tenant, &id).await.unwrap().problems, []);
        store.erase(&tenant, &id, Erase::All, "asked", Time(2)).await.unwrap();
        assert!(store.sent(&tenant, &id).await.unwrap().iter().all(|call| call.request.is_none()));
    });
    let left = |table: &str| number(&path, &format!("select count(*) from {table}"));
    assert_eq!((left("sent_parts"), left("blobs")), (0, 0), "everything was let go of");
}

#[test]
fn damage_to_a_request_is_refused_and_named() {
    use ProblemKind::{BlobChanged, BlobMissing, MissingPosition, RequestChanged};
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    let tenant = Tenant::default();
    let sent = {
        let store = Sqlite::open(&whole, Time(0)).unwrap();
        block_on(run(&store, &id(), Session::new(7, 3_000, 2_000), 12, Calls::Written))
    };
    let changes = [
        ("update sent set request_hash = zeroblob(32)", RequestChanged),
        ("update sent set request_hash = null", RequestChanged),
        ("update sent set template = replace(template, '{', '')", RequestChanged),
        ("update sent set template = '[[0,99999999]]'", MissingPosition),
        ("update sent set template = '[[0,0],[1,1]]'", RequestChanged),
        ("update sent_parts set items = replace(items, '1', '2')", BlobChanged),
        ("delete from sent_parts", BlobMissing),
        ("delete from blobs where size > 2500 and size < 4000", BlobMissing),
        ("update blobs set bytes = zeroblob(9)", BlobChanged),
        ("update entries set body = replace(body, 'toolu', 'tooly')", RequestChanged),
        ("delete from entries where position = 1", MissingPosition),
    ];
    for (number, (sql, wanted)) in changes.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        std::fs::copy(&whole, &path).unwrap();
        assert!(Connection::open(&path).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
        let store = Sqlite::open(&path, Time(0)).unwrap();
        block_on(async {
            let last = &sent.last().unwrap().id;
            let error = store.call(&tenant, last).await.expect_err(sql);
            assert_eq!(error.kind(), ErrorKind::Damaged, "{sql}: {error}");
            assert_eq!(store.sent(&tenant, &id()).await.unwrap_err().kind(), ErrorKind::Damaged, "{sql}");
            let found = store.verify(&tenant, &id()).await.unwrap().problems;
            let named = |detail: &str| detail.contains("model call") && detail.contains(last.as_str());
            assert!(
                found.iter().any(|problem| problem.problem == wanted && named(&problem.detail)),
                "{sql}: {found:?}"
            );
        });
    }
}

async fn write_whole(store: &dyn Store, tenant: &Tenant) -> Sent {
    store.write(tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id()))).await.unwrap();
    let said = NewEntry::evaluation([Entry::text(Role::User, "hello")], Time(0));
    store.append(tenant, Time(0), &id(), Expected::Any, said).await.unwrap();
    let row = Sent {
        request: Some(b"the whole request".to_vec()),
        response: Some(b"the reply".to_vec()),
        holder: None,
        ..call(&id(), 1, 1)
    };
    store.write(tenant, Time(0), |tx| _ = tx.sent(row.clone())).await.unwrap();
    row
}

/// A call of an older version can be read, is found by its model, and stays what it is when it is written again.
async fn reads_old(store: &dyn Store, tenant: &Tenant, old: &Sent) {
    assert_eq!(store.call(tenant, &old.id).await.unwrap(), *old);
    let listed = Sent { request: None, response: None, ..old.clone() };
    assert_eq!(store.recent_calls(tenant, &old.model, 9).await.unwrap(), std::slice::from_ref(&listed));
    assert_eq!(store.recent_calls(&Tenant::parse("other").unwrap(), &old.model, 9).await.unwrap(), []);
    let again = Sent { status: "ok".into(), holder: Some("process".into()), ..listed };
    store.write(tenant, Time(0), |tx| _ = tx.sent(again.clone())).await.unwrap();
    let wanted = Sent { request: old.request.clone(), response: old.response.clone(), ..again };
    assert_eq!(store.sent(tenant, &id()).await.unwrap(), [wanted]);
    assert_eq!(store.verify(tenant, &id()).await.unwrap().problems, []);
}

#[test]
fn a_file_of_the_version_before_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let tenant = Tenant::parse("mine").unwrap();
    let old = block_on(write_whole(&Sqlite::open(&path, Time(0)).unwrap(), &tenant));
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&before_parts("", 4)).unwrap();
    connection.pragma_update(None, "user_version", 4).unwrap();
    drop(connection);
    block_on(reads_old(&Sqlite::open(&path, Time(0)).unwrap(), &tenant, &old));
    assert!(folder.path().join("store.db.v4.bak").exists());
}

#[test]
fn a_database_of_the_version_before_is_brought_up_to_date() {
    let Some(server) = Server::start() else { return };
    let tenant = Tenant::parse("mine").unwrap();
    block_on(async {
        let old = write_whole(&Postgres::open(&server.url(), Time(0)).await.unwrap(), &tenant).await;
        let (client, connection) =
            tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        client.batch_execute(&before_parts("scrollback.", 2)).await.unwrap();
        drop(client);
        driving.await.unwrap().unwrap();
        reads_old(&Postgres::open(&server.url(), Time(0)).await.unwrap(), &tenant, &old).await;
    });
}

#[test]
fn recent_and_open_calls_are_found_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(Sqlite::open(&path, Time(0)).unwrap());
    let connection = Connection::open(&path).unwrap();
    let plan = |sql: &str| -> String {
        let mut explained = connection.prepare(&format!("explain query plan {sql}")).unwrap();
        let steps = explained.query_map([], |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let recent = plan(
        "select * from sent where tenant = 'a' and model = 'b' order by started_at desc, id desc limit 20",
    );
    assert_eq!(recent, "SEARCH sent USING INDEX sent_model (tenant=? AND model=?)");
    let open = plan("select * from sent where status = 'sent' order by started_at");
    assert_eq!(open, "SCAN sent USING INDEX sent_open");
}

/// The session is what its tests need: marks that move, three results in one message, replies in another order.
#[test]
fn the_session_is_what_clients_send() {
    let mut session = Session::new(1, 1_000, 1_000);
    let mut bodies = Vec::new();
    for _ in 0..5 {
        bodies.push(session.ask().1);
        session.reply();
    }
    let marks = |body: &String| body.split("\"system\"").next().unwrap().matches("cache_control").count();
    assert_eq!(bodies.iter().map(marks).collect::<Vec<_>>(), [1, 2, 2, 2, 2]);
    assert_eq!(bodies[4].matches("toolu_0003_2").count(), 2);
    assert!(bodies.iter().all(|body| scrollback_core::json::check(body).is_ok()));
    let text = session::prose(&mut session.dice, 100);
    assert!(text.len() < 130);
}
