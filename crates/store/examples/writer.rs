//! A process that writes until it is killed, and says what was acknowledged: the victim of the crash trials.
//!
//! `writer MODE FILE SEED [lazy]` prints a line for each acknowledgement, after it was given: `acked CONVERSATION POSITION
//! LINK`, `compacted`, `erased POSITION` or `migrated`. In the mode `failing` it goes on when an append fails, and says
//! `refused KIND` and `visible POSITION`, the last one it can read; the modes `one` and `few` have one writer, which ends by
//! itself. FILE may be the URL of a store. `writer follow FILE SEED FOLDER` backs the file up into the folder: one step for each line that it
//! reads, after which it says `saved TIME`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    Durability, Erase, ErrorKind, Expected, Follow, HistorySettings, NewEntry, Offline, Options, Recipient,
    RecordsExt, Sqlite, Store, Tenant, compact, hex, open,
};

/// Writers at once: what they write is committed together.
const WRITERS: usize = 6;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, mode, file, seed, rest @ ..] = args.as_slice() else {
        unreachable!("writer MODE FILE SEED [lazy]")
    };
    let seed: i64 = seed.parse().unwrap();
    if let ("follow", [folder]) = (mode.as_str(), rest) {
        let mut follow = Follow::start(Path::new(file), Path::new(folder)).unwrap();
        for (at, _) in (seed..).zip(std::io::stdin().lines()) {
            follow.step(Time(at)).unwrap();
            say(&format!("saved {at}"));
        }
        return;
    }
    let durability = if rest.iter().any(|word| word == "lazy") { Durability::Lazy } else { Durability::Full };
    let further_steps = if mode == "migrate" { vec![step()] } else { Vec::new() };
    let options = Options { durability, further_steps, ..Options::default() };
    say("opening");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store: Arc<dyn Store> = if file.starts_with("postgres:") {
        runtime.block_on(open(file, Time(seed))).unwrap()
    } else {
        Arc::new(Sqlite::open_with(Path::new(file), &options, Time(seed)).unwrap())
    };
    if mode == "migrate" {
        say("migrated");
        return;
    }
    let writers = if rounds(mode) == i64::MAX { WRITERS } else { 1 };
    runtime.block_on(async {
        let tasks: Vec<_> = (0..writers)
            .map(|number| tokio::spawn(work(Arc::clone(&store), mode.clone(), number, seed)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Appends of one writer.
fn rounds(mode: &str) -> i64 {
    match mode {
        "few" => 12,
        "failing" => 30,
        "one" => 60,
        _ => i64::MAX,
    }
}

/// A step that takes a while: rewrites every entry into a table of its own.
fn step() -> String {
    "create table copies as select * from entries; create index copies_link on copies (link); drop table copies; \
     create table later (id integer primary key);"
        .into()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

async fn work(store: Arc<dyn Store>, mode: String, number: usize, seed: i64) {
    let tenant = Tenant::default();
    // Half of the writers share a conversation.
    let recipient = Recipient::parse(&format!("r{}", number / 2)).unwrap();
    let settings =
        HistorySettings { max_turns_before_compaction: 4, recent_turns_to_keep: 2, max_recent_turns: 4 };
    for round in 0..rounds(&mode) {
        let at = Time(seed + round);
        let large = if round % 7 == 3 { "large ".repeat(1_000) } else { String::new() };
        let turn = [
            Entry::text(Role::User, &format!("question {round} {large}")),
            Entry::calling(None, &[(&format!("c{number}-{seed}-{round}"), "tool", "{}")]),
            Entry::result(&format!("c{number}-{seed}-{round}"), "result"),
        ];
        let said = NewEntry::evaluation(turn, at);
        let done = match store.append_for(&tenant, at, &recipient, Expected::Any, said).await {
            Err(error) if mode == "failing" => {
                say(&format!("refused {:?}", error.kind()));
                let current = store.current(&tenant, &recipient).await.ok().flatten();
                let last = current.map_or("none".into(), |current| (current.head - 1).to_string());
                say(&format!("visible {last}"));
                continue;
            }
            done => done.unwrap(),
        };
        say(&format!("acked {} {} {}", done.conversation, done.last, hex(&done.link)));
        if mode == "compact" || mode == "erase" {
            let outcome = compact(store.as_ref(), &tenant, &done.conversation, &settings, &Offline, at).await;
            // Another writer may have erased or summarised what this one planned to cover.
            if let Err(error) = &outcome {
                assert!(matches!(error.kind(), ErrorKind::BadDecision | ErrorKind::Stale), "{error}");
            }
            say("compacted");
        }
        if mode == "erase" && round % 3 == 2 {
            let what = Erase::Positions(vec![(done.first, done.first)]);
            store.erase(&tenant, &done.conversation, what, "trial", at).await.unwrap();
            say(&format!("erased {} {}", done.conversation, done.first));
        }
    }
}
