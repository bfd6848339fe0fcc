//! Any text is kept, on every store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::support::{Server, block_on};
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, Slot, Time};
use scrollback_store::{
    ConversationId, Expected, Memory, NewConversation, NewEntry, Postgres, RecordsExt, Sqlite, Store, Tenant,
};

/// Messages with what databases do not like, byte for byte as a provider may send them.
const MESSAGES: [(&str, Role); 5] = [
    (r#"{"role":"user","content":"a NUL \u0000 in the middle"}"#, Role::User),
    (r#"{"role":"user","content":"\u0000"}"#, Role::User),
    (
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c\u00001","type":"function","function":{"name":"f","arguments":"{\"x\":\"\\u0000\"}"}}]}"#,
        Role::Assistant,
    ),
    (
        r#"{"role":"tool","tool_call_id":"c\u00001","content":"the last character there is: \uDBFF\uDFFF"}"#,
        Role::Tool,
    ),
    (
        r#"{"role":"assistant","content":"\u001b[31m and \u0085 and \uFFFD \uFFFF","x\u0000y":1}"#,
        Role::Assistant,
    ),
];

async fn keeps(store: &dyn Store, which: &str) {
    let (tenant, id) = (Tenant::default(), ConversationId::new(Time(0)));
    store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    let entries = MESSAGES.map(|(raw, role)| Entry::kept(Wire::OpenaiChat, role, raw, None, None).unwrap());
    let said = NewEntry::evaluation(entries, Time(0));
    store
        .append(&tenant, Time(0), &id, Expected::Any, said)
        .await
        .unwrap_or_else(|error| panic!("{which}: {error}"));
    let back = store.entries(&tenant, &id, 0, u64::MAX).await.unwrap();
    assert_eq!(back.len(), MESSAGES.len(), "{which}");
    for (placed, (raw, _)) in back.iter().zip(MESSAGES) {
        let Slot::Message(entry) = &placed.slot else { panic!("{which}") };
        assert_eq!(entry.origin.raw.as_ref(), raw, "{which}");
    }
    let calls = store.pending_calls(&tenant, &id).await.unwrap();
    assert!(calls.is_empty(), "{which}: the result was paired with its call by an id with NUL");
    assert_eq!(store.verify(&tenant, &id).await.unwrap().problems, [], "{which}");
}

#[test]
fn any_text_is_kept_on_all_three_stores() {
    block_on(keeps(&Memory::new(), "memory"));
    let folder = tempfile::tempdir().unwrap();
    block_on(keeps(&Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap(), "SQLite"));
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        keeps(store.as_ref(), "PostgreSQL").await;
    });
}
