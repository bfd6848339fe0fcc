//! One random plan of operations gives the same answers on every store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write;
use std::sync::Arc;

use crate::support::{Dice, Server, block_on};
use scrollback_core::request::BodyTemplate;
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Entry, Role, Slot, Time, prefixes};
use scrollback_store::{
    ConversationId, Erase, Expected, Filter, HistorySettings, Listing, MatchScope, Memory, NewConversation,
    NewEntry, Offline, Postgres, Query, Recipient, RecordsExt, Sent, Sqlite, Status, Store, StoreError,
    Tenant, compact, hex, history,
};
use uuid::Uuid;

/// Operations in a plan.
const STEPS: usize = 60;
/// Plans in a test run: on the embedded stores, and on all three.
const PLANS: u64 = 120;
const ON_SERVER: u64 = 25;

const TEXTS: [&str; 9] = [
    "hello world",
    "Ünïcödé café",
    "東京は雨",
    "🙂 ok 🎉",
    "it's \"quoted\" -- ; drop",
    "",
    "a\tb\nc",
    "%_\\",
    "OR NOT near",
];

struct Plan<'s> {
    store: &'s dyn Store,
    tenant: Tenant,
    dice: Dice,
    ids: Vec<ConversationId>,
    made: u128,
    log: String,
}

impl Plan<'_> {
    fn text(&mut self) -> String {
        match self.dice.roll(12) {
            11 => "long ".repeat(2_000),
            roll => TEXTS[roll % TEXTS.len()].to_string(),
        }
    }

    fn entry(&mut self) -> Entry {
        let text = self.text();
        match self.dice.roll(7) {
            0 => Entry::text(Role::System, &text),
            1 | 2 => Entry::text(Role::User, &text),
            3 | 4 => Entry::text(Role::Assistant, &text),
            5 => Entry::calling(Some(&text), &[(["a", "b"][self.dice.roll(2)], "tool", "{\"x\":1}")]),
            _ => Entry::result(["a", "b", "c"][self.dice.roll(3)], &text),
        }
    }

    fn id(&mut self) -> ConversationId {
        let roll = self.dice.roll(self.ids.len());
        self.ids.get(roll).cloned().unwrap_or_else(|| ConversationId::from_parts(Time(0), 0))
    }

    fn fresh(&mut self) -> ConversationId {
        self.made += 1;
        ConversationId::from_parts(Time(1_000), self.made << 16 | u128::from(self.dice.0 & 0xFFFF))
    }

    fn note<T>(&mut self, what: &str, result: Result<T, StoreError>, told: impl FnOnce(T) -> String) {
        let _ = match result {
            Ok(done) => writeln!(self.log, "{what}: {}", told(done)),
            Err(error) => writeln!(self.log, "{what}: {:?} {error}", error.kind()),
        };
    }

    async fn step(&mut self, number: usize) {
        let at = Time(1_700_000_000_000 + i64::try_from(number).unwrap() * 1_000);
        let (store, tenant) = (self.store, self.tenant.clone());
        let id = self.id();
        match self.dice.roll(18) {
            0 => {
                let id = self.fresh();
                self.ids.push(id.clone());
                let name = Recipient::parse(["anna", "ben"][self.dice.roll(2)]).unwrap();
                let new = if self.dice.roll(2) == 0 {
                    NewConversation { scope: Some(scope()), ..NewConversation::with(id, &name) }
                } else {
                    NewConversation { scope: Some(scope()), ..NewConversation::new(id) }
                };
                let result = store.write(&tenant, at, |tx| _ = tx.create(new)).await;
                self.note("create", result, |_| String::new());
            }
            1..=6 => {
                let count = 1 + self.dice.roll(3);
                let entries: Vec<Entry> = (0..count).map(|_| self.entry()).collect();
                let evaluation = Uuid::from_u128(self.dice.roll(6) as u128 + 1);
                let sequence = self.dice.roll(4) as u64;
                let own = self.dice.roll(3) > 0;
                let evaluation = if own { Uuid::from_u128(1_000 + number as u128) } else { evaluation };
                let said = NewEntry::continued(entries, evaluation, if own { 0 } else { sequence }, at);
                let expected = if self.dice.roll(4) == 0 {
                    Expected::At(self.dice.roll(6) as u64)
                } else {
                    Expected::Any
                };
                let result = store.append(&tenant, at, &id, expected, said).await;
                self.note("append", result, |done| {
                    format!("{} {} {}", done.first, done.last, hex(&done.link))
                });
            }
            7 => {
                let (first, second) = (self.dice.roll(8) as u64, self.dice.roll(8) as u64);
                let decision = match self.dice.roll(5) {
                    0 => Decision::Pin { positions: vec![first, second] },
                    1 => Decision::Cut {
                        before: first,
                        held: None,
                        by: "plan".into(),
                        scope: None,
                        kept: Vec::new(),
                        owed: Vec::new(),
                        notice: None,
                        factor: None,
                    },
                    2 => Decision::Lead { positions: vec![first] },
                    3 => Decision::Clear { positions: vec![first], placeholder: "-".into() },
                    _ => Decision::Interrupted { call_ids: vec!["a".into()] },
                };
                let result = store.append(&tenant, at, &id, Expected::Any, vec![decision.into()]).await;
                self.note("decide", result, |done| format!("{} {}", done.first, hex(&done.link)));
            }
            8 => {
                let (fork, place) = (self.fresh(), self.dice.roll(8) as u64);
                let result = store.fork(&tenant, &id, place, fork.clone(), at).await;
                if result.is_ok() {
                    self.ids.push(fork);
                }
                self.note("fork", result, |row| {
                    format!("{} {} {}", row.head, row.turns, hex(&row.head_link))
                });
            }
            9 => {
                let first = self.dice.roll(6) as u64;
                let what = if self.dice.roll(5) == 0 {
                    Erase::All
                } else {
                    Erase::Positions(vec![(first, first + 1)])
                };
                let result = store.erase(&tenant, &id, what, "plan", at).await;
                self.note("erase", result, |count| format!("{count:?}"));
            }
            10 => {
                let settings = HistorySettings {
                    max_turns_before_compaction: 2,
                    recent_turns_to_keep: 1,
                    max_recent_turns: 3,
                };
                let result = compact(store, &tenant, &id, &settings, &Offline, at).await;
                self.note("compact", result, |done| format!("{done:?}"));
            }
            11 => {
                let status = Status::ALL[self.dice.roll(4)];
                let result = store.write(&tenant, at, |tx| _ = tx.status(&id, status)).await;
                self.note("status", result, |_| status.to_string());
            }
            12 => {
                let turns = self.dice.roll(4);
                let result = history(store, &tenant, &id, turns).await;
                self.note("history", result, |told| {
                    format!(
                        "{:?} {:?} {}",
                        told.render(Wire::OpenaiChat).messages,
                        told.summary,
                        told.messages
                    )
                });
            }
            13 => {
                let words =
                    ["hello", "\"hello world\"", "cafe", "東京", "long* -hello", "ok", "not near", "🎉"];
                let query = Query::parse(words[self.dice.roll(words.len())]);
                let result = store.search(&tenant, query, Filter::default(), 5, None).await;
                self.note("search", result, |found| format!("{:?} {:?}", found.hits, found.next));
            }
            14 => {
                let entries: Vec<Entry> = (0..2).map(|_| self.entry()).collect();
                let result = store.find_prefix(&tenant, &scope(), prefixes(&entries)).await;
                self.note("prefix", result, |found| format!("{found:?}"));
            }
            15 | 16 => self.send(&id, number, at).await,
            _ => {
                let result = store.pending_calls(&tenant, &id).await;
                self.note("pending", result, |calls| format!("{calls:?}"));
            }
        }
    }

    /// Writes a call that shows some of a conversation, or one that was written before again.
    async fn send(&mut self, id: &ConversationId, number: usize, at: Time) {
        let (store, tenant) = (self.store, self.tenant.clone());
        let places = store.entries(&tenant, id, 0, u64::MAX).await.unwrap_or_default();
        let mut shown = Vec::new();
        for placed in &places {
            if let (Slot::Message(entry), true) = (&placed.slot, self.dice.roll(5) > 0) {
                shown.push((placed.position, entry.as_ref()));
            }
        }
        let messages: Vec<&str> = shown.iter().map(|(_, entry)| entry.origin.raw.as_ref()).collect();
        let around = self.text().replace(['"', '\\', '\t', '\n'], "");
        let body = format!(r#"{{"messages":[{}],"around":"{around}"}}"#, messages.join(","));
        let template = BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), shown);
        let upto = places.len();
        let row = crate::session::call(id, self.dice.roll(number + 1), upto);
        let result = match self.dice.roll(6) {
            0 => store.write(&tenant, at, |tx| _ = tx.sent(row)).await,
            1 => {
                let whole = Sent { request: Some(body.into_bytes()), ..row };
                store.write(&tenant, at, |tx| _ = tx.sent(whole)).await
            }
            _ => store.write(&tenant, at, |tx| _ = tx.sent_as(row, template)).await,
        };
        self.note("send", result, |_| String::new());
    }

    /// Everything that is there at the end, and that it is as written.
    async fn end(mut self) -> String {
        let (store, tenant) = (self.store, self.tenant.clone());
        let listing = Listing { limit: 1_000, ..Listing::default() };
        let page = store.list(Some(&tenant), listing).await.unwrap();
        for (row, messages) in page.conversations {
            let _ = writeln!(self.log, "{row:?} {messages}");
            let record = store.record(&tenant, &row.id, None).await.unwrap();
            let kinds: String = record
                .slots()
                .iter()
                .map(|slot| match slot {
                    Slot::Message(_) => 'm',
                    Slot::Decision(..) => 'd',
                    Slot::Erased(_) => 'e',
                })
                .collect();
            let _ = writeln!(self.log, "{kinds} {:?}", scrollback_core::wire::neutral(&record));
            for call in store.sent(&tenant, &row.id).await.unwrap() {
                let request = call.request.map(|body| String::from_utf8(body).unwrap());
                let _ = writeln!(self.log, "{} {request:?}", call.id);
            }
            let found = store.verify(&tenant, &row.id).await.unwrap();
            assert!(found.problems.is_empty(), "{:?}\n{}", found.problems, self.log);
        }
        self.log
    }
}

/// Every conversation of a plan may be continued by every list.
fn scope() -> MatchScope {
    MatchScope::caller("plan")
}

async fn run(store: &dyn Store, seed: u64, name: &str) -> String {
    let tenant = Tenant::parse(&format!("plan {seed} {name}")).unwrap();
    let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    // Ids are unique in a store, also across tenants.
    let mut plan =
        Plan { store, tenant, dice, ids: Vec::new(), made: u128::from(seed) << 32, log: String::new() };
    for number in 0..STEPS {
        plan.step(number).await;
    }
    plan.end().await
}

#[test]
fn a_random_plan_gives_the_same_answers_on_every_store() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let sqlite: Arc<dyn Store> =
            Arc::new(Sqlite::open(&folder.path().join("plans.db"), Time(0)).unwrap());
        let postgres: Option<Arc<dyn Store>> = match &server {
            Some(server) => Some(Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap())),
            None => None,
        };
        for seed in 1..=PLANS {
            let wanted = run(memory.as_ref(), seed, "x").await;
            let found = run(sqlite.as_ref(), seed, "x").await;
            assert_same(seed, "SQLite", &wanted, &found);
            if let Some(postgres) = postgres.as_ref().filter(|_| seed <= ON_SERVER) {
                assert_same(seed, "PostgreSQL", &wanted, &run(postgres.as_ref(), seed, "x").await);
            }
        }
    });
}

fn assert_same(seed: u64, name: &str, wanted: &str, found: &str) {
    let differs = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    if let Some((wanted, found)) = differs {
        panic!("seed {seed}: {name} answers differently:\n{wanted}\n{found}");
    }
    assert_eq!(wanted.lines().count(), found.lines().count(), "seed {seed}: {name}");
}
