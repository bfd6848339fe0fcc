//! One of several programs that use a store at the same time, and says what it did: the recorded histories whose order
//! `tests/trust/linear.rs` checks.
//!
//! `client URL SEED OPERATIONS CONVERSATION…` prints a line when an operation begins and one when it has ended, each with its
//! number and the time in nanoseconds.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use scrollback_core::{Entry, Role, Slot, Time};
use scrollback_store::{
    ConversationId, Erase, ErrorKind, Expected, NewEntry, RecordsExt, Store, StoreError, StoredEntry, Tenant,
    open,
};

/// Operations at once in one process: what they write is committed together.
const AT_ONCE: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, seed, operations, conversations @ ..] = args.as_slice() else {
        unreachable!("client URL SEED OPERATIONS CONVERSATION…")
    };
    let (seed, operations): (u64, usize) = (seed.parse().unwrap(), operations.parse().unwrap());
    let conversations: Vec<ConversationId> =
        conversations.iter().map(|id| ConversationId::parse(id).unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(url, Time(0)).await.unwrap();
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|task| {
                let dice = Dice((seed * 16 + task as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
                let (store, conversations) = (Arc::clone(&store), conversations.clone());
                let numbers = (task..operations).step_by(AT_ONCE).map(move |at| seed * 1_000_000 + at as u64);
                tokio::spawn(work(store, conversations, dice, numbers.collect()))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides.max(1)
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

async fn work(store: Arc<dyn Store>, conversations: Vec<ConversationId>, mut dice: Dice, numbers: Vec<u64>) {
    let tenant = Tenant::default();
    // What was seen of each conversation last.
    let mut heads = vec![0; conversations.len()];
    for number in numbers {
        let which = dice.roll(conversations.len() as u64) as usize;
        let id = &conversations[which];
        let begins = |what: String| say(&format!("> {number} {} {what}", now()));
        let done = match dice.roll(100) {
            0..60 => {
                let values: Vec<String> = (0..=dice.roll(3)).map(|at| format!("v{number}-{at}")).collect();
                // Some only if no one wrote since they looked.
                let expected = if dice.roll(6) == 0 { Expected::At(heads[which]) } else { Expected::Any };
                begins(format!("append {id} {}", values.join(",")));
                let said = values.iter().map(|value| Entry::text(Role::User, value));
                let said = NewEntry::evaluation(said.collect::<Vec<_>>(), Time(1));
                store.append(&tenant, Time(1), id, expected, said).await.map(|done| {
                    heads[which] = done.last + 1;
                    format!("appended {}", done.first)
                })
            }
            60..90 => {
                begins(format!("read {id}"));
                store.entries(&tenant, id, 0, u64::MAX).await.map(|places| {
                    heads[which] = places.len() as u64;
                    format!("read {}", values(&places))
                })
            }
            90..96 => {
                let at = dice.roll(heads[which] + 1);
                begins(format!("fork {id} {at}"));
                forked(store.as_ref(), &tenant, id, at).await
            }
            _ if heads[which] > 0 => {
                let position = dice.roll(heads[which]);
                begins(format!("erase {id} {position}"));
                let what = Erase::Positions(vec![(position, position)]);
                store.erase(&tenant, id, what, "trial", Time(1)).await.map(|_| "erased".into())
            }
            _ => continue,
        };
        let ended = match done {
            Ok(done) => done,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let actual = error.heads().map_or(0, |(_, actual)| actual);
                heads[which] = actual;
                format!("conflict {actual}")
            }
            Err(error) => format!("failed {:?}", error.kind()),
        };
        say(&format!("< {number} {} {ended}", now()));
    }
}

async fn forked(
    store: &dyn Store,
    tenant: &Tenant,
    parent: &ConversationId,
    at: u64,
) -> Result<String, StoreError> {
    let fork = store.fork(tenant, parent, at, ConversationId::new(Time(1)), Time(1)).await?;
    let places = store.entries(tenant, &fork.id, 0, u64::MAX).await?;
    Ok(format!("forked {}", values(&places)))
}

/// What entries say; `x` where one was erased.
fn values(places: &[StoredEntry]) -> String {
    let value = |placed: &StoredEntry| match &placed.slot {
        Slot::Message(entry) => entry.texts().map(|text| text.as_str().into_owned()).collect(),
        Slot::Decision(..) | Slot::Erased(_) => "x".to_string(),
    };
    let values: Vec<String> = places.iter().map(value).collect();
    if values.is_empty() { "-".into() } else { values.join(",") }
}
