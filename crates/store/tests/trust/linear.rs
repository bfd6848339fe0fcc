//! Programs that append, read, fork and erase at the same time, some paused and some killed: what each of them was told is what
//! one order of all operations would have told it, conversation by conversation. `./dev trial linear` records more.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "order.rs"]
mod order;

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Dice, Server, block_on, victim};
use order::{Done, History, Operation};
use scrollback_core::{Slot, Time};
use scrollback_store::{ConversationId, NewConversation, RecordsExt, Store, Tenant, open};

/// Operations of a test; the trial sets another number.
fn operations() -> usize {
    std::env::var("SCROLLBACK_TRIAL_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Programs at once, and conversations they share for one round.
const CLIENTS: usize = 4;
const CONVERSATIONS: usize = 3;
/// Operations of a round: reading costs what was written, so conversations are not used for ever.
const ROUND: usize = 1_000;

fn start(url: &str, seed: usize, operations: usize, ids: &[ConversationId]) -> Child {
    let mut command = Command::new(victim().with_file_name("client"));
    command
        .args([url, &seed.to_string(), &operations.to_string()])
        .args(ids.iter().map(ConversationId::as_str));
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let _ = Command::new("kill").args([name, &child.id().to_string()]).status();
}

/// The operations one program spoke of. Of one without an end it is not known what came of it.
fn told(text: &str, into: &mut HashMap<String, History>) -> usize {
    let mut begun: HashMap<&str, (u128, Vec<&str>)> = HashMap::new();
    let mut all = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(['>', '<'])) {
        let words: Vec<&str> = line.split(' ').collect();
        // The last line of a program that was killed may be cut.
        let [way, number, at, rest @ ..] = words.as_slice() else { continue };
        let Ok(at) = at.parse::<u128>() else { continue };
        match *way {
            ">" if rest.len() > 1 => drop(begun.insert(number, (at, rest.to_vec()))),
            "<" => {
                let Some((from, what)) = begun.remove(number) else { continue };
                all.push((from, at, what, rest.to_vec()));
            }
            _ => {}
        }
    }
    let complete = all.len();
    all.extend(begun.into_values().map(|(from, what)| (from, u128::MAX, what, vec!["failed", "Unknown"])));
    for (begin, end, what, came) in all {
        let list = |text: &str| -> Vec<String> {
            if text == "-" { Vec::new() } else { text.split(',').map(String::from).collect() }
        };
        let done = match (what[0], came.as_slice()) {
            ("append", ["appended", first]) => Done::Appended(list(what[2]), first.parse().unwrap()),
            ("append", ["conflict", actual]) => Done::Conflict(list(what[2]), actual.parse().unwrap()),
            // Whether it was written shows in the end.
            ("append", _) => Done::Unknown(list(what[2])),
            ("read", ["read", values]) => Done::Read(list(values)),
            ("fork", ["forked", values]) => Done::Forked(list(values), what[2].parse().unwrap()),
            ("erase", ["erased"]) => Done::Erased(what[2].parse().unwrap()),
            ("erase", _) => Done::MaybeErased(what[2].parse().unwrap()),
            _ => continue,
        };
        into.entry(what[1].into()).or_default().operations.push(Operation { begin, end, done });
    }
    complete
}

/// Records and checks histories of a store until enough operations were completed.
fn check(url: &str, seed: u64) {
    let (mut dice, mut complete, mut round, mut kills) = (Dice(seed | 1), 0, 0, 0);
    while complete < operations() {
        round += 1;
        let store: Arc<dyn Store> = block_on(open(url, Time(0))).unwrap();
        let tenant = Tenant::default();
        let ids: Vec<ConversationId> =
            (0..CONVERSATIONS).map(|_| ConversationId::new(Time(i64::from(round)))).collect();
        for id in &ids {
            let create = NewConversation::new(id.clone());
            block_on(store.write(&tenant, Time(0), |tx| _ = tx.create(create))).unwrap();
        }
        let each = ROUND / CLIENTS;
        let mut clients: Vec<Child> =
            (0..CLIENTS).map(|client| start(url, (round as usize * 64) + client, each, &ids)).collect();
        let readers: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let mut out = client.stdout.take().unwrap();
                std::thread::spawn(move || {
                    let mut text = Vec::new();
                    let _ = std::io::Read::read_to_end(&mut out, &mut text);
                    String::from_utf8_lossy(&text).into_owned()
                })
            })
            .collect();
        // One is paused for a while, perhaps in the middle of a commit; in some rounds another is killed.
        std::thread::sleep(Duration::from_millis(20 + dice.roll(150) as u64));
        signal(&clients[0], "-STOP");
        std::thread::sleep(Duration::from_millis(dice.roll(200) as u64));
        if dice.roll(2) == 0 {
            clients[1].kill().unwrap();
            kills += 1;
        }
        signal(&clients[0], "-CONT");
        let mut histories: HashMap<String, History> = HashMap::new();
        for (reader, mut client) in readers.into_iter().zip(clients) {
            complete += told(&reader.join().unwrap(), &mut histories);
            client.wait().unwrap();
        }
        for id in &ids {
            let places = block_on(store.entries(&tenant, id, 0, u64::MAX)).unwrap();
            let mut history = histories.remove(id.as_str()).unwrap_or_default();
            let value = |slot: &Slot| match slot {
                Slot::Message(entry) => {
                    entry.texts().map(|text| text.as_str().into_owned()).collect::<String>()
                }
                Slot::Decision(..) | Slot::Erased(_) => "x".into(),
            };
            history.last = places.iter().map(|placed| value(&placed.slot)).collect();
            assert_eq!(history.wrong(), None, "seed {seed}, round {round}, conversation {id}");
            assert_eq!(block_on(store.verify(&tenant, id)).unwrap().problems, []);
        }
    }
    println!(
        "{complete} operations in {round} rounds, {kills} programs killed, {round} paused: one order explains all"
    );
}

fn seed() -> u64 {
    u64::from(std::process::id()) << 8 | 9
}

#[test]
fn every_history_on_sqlite_has_an_order() {
    let folder = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", folder.path().join("store.db").display()), seed());
}

#[test]
fn every_history_on_postgresql_has_an_order() {
    let Some(server) = Server::start() else { return };
    check(&server.url(), seed());
}
