//! Searching and reading by recall, beside SQLite's FTS5 used directly and ripgrep over the same text, in one run.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use scrollback_core::recall::{Handle, RecallTool, Tail};
use scrollback_core::{Entry, Time};
use scrollback_store::recall::{Deadline, Here, answer};
use scrollback_store::{
    ConversationId, Expected, NewConversation, NewEntry, RecordsExt, Sqlite, Store, Tenant,
};
use serde_json::json;

/// Entries of one conversation.
const EACH: usize = 1_000;
const QUERIES: usize = 400;
const WORDS: [&str; 40] = [
    "parser",
    "request",
    "returns",
    "error",
    "connection",
    "closed",
    "headers",
    "value",
    "warning",
    "unused",
    "variable",
    "deploy",
    "staging",
    "port",
    "token",
    "cache",
    "prefix",
    "window",
    "budget",
    "retry",
    "timeout",
    "stream",
    "buffer",
    "commit",
    "branch",
    "merge",
    "review",
    "test",
    "failed",
    "passed",
    "module",
    "import",
    "export",
    "schema",
    "index",
    "query",
    "record",
    "view",
    "manager",
    "session",
];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

fn text(dice: &mut Dice, number: usize) -> String {
    let mut text = format!("entry{number} ");
    for _ in 0..30 {
        text.push_str(WORDS[dice.roll(WORDS.len())]);
        text.push(' ');
    }
    let id = dice.roll(50_000);
    text + &format!("id{id:05}")
}

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{name:<58} {:>9.3} {:>9.3} {:>9.3}", at(50), at(99), at(100));
}

fn main() {
    let entries: usize = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap();
        let store: &dyn Store = &store;
        let tenant = Tenant::default();
        let direct = Connection::open(folder.path().join("direct.db")).unwrap();
        direct.execute_batch("create virtual table said using fts5 (words); begin").unwrap();
        let mut plain = std::io::BufWriter::new(std::fs::File::create(folder.path().join("said.txt")).unwrap());
        let mut dice = Dice(0x5eed);
        let mut ids = Vec::new();
        for conversation in 0..entries.div_ceil(EACH) {
            let id = ConversationId::new(Time(i64::try_from(conversation).unwrap()));
            let project = Some(format!("/srv/{}", conversation % 20));
            let new = NewConversation { project, ..NewConversation::new(id.clone()) };
            let said: Vec<String> = (0..EACH).map(|number| text(&mut dice, conversation * EACH + number)).collect();
            for said in &said {
                writeln!(plain, "{said}").unwrap();
                direct.prepare_cached("insert into said values (?1)").unwrap().execute([said]).unwrap();
            }
            let said = NewEntry::evaluation(said.iter().map(|said| Entry::user(said)).collect::<Vec<_>>(), Time(1));
            store.write(&tenant, Time(1), |tx| _ = tx.create(new)).await.unwrap();
            store.append(&tenant, Time(1), &id, Expected::Any, said).await.unwrap();
            ids.push(id);
        }
        plain.flush().unwrap();
        direct.execute_batch("commit").unwrap();
        println!("{entries} entries in {} conversations, {QUERIES} queries each; milliseconds\n", ids.len());
        println!("{:<58} {:>9} {:>9} {:>9}", "", "p50", "p99", "most");
        let queries: Vec<String> = (0..QUERIES)
            .map(|number| match number % 3 {
                0 => format!("id{:05}", dice.roll(50_000)),
                1 => format!("{} id{:05}", WORDS[dice.roll(WORDS.len())], dice.roll(50_000)),
                _ => format!("entry{} {}", dice.roll(entries), WORDS[dice.roll(WORDS.len())]),
            })
            .collect();
        let common: Vec<String> =
            (0..QUERIES).map(|_| format!("{} {}", WORDS[dice.roll(WORDS.len())], WORDS[dice.roll(WORDS.len())])).collect();
        for (name, queries, scope) in [
            ("recall search, rare words, scope all", &queries, "all"),
            ("recall search, rare words, scope project", &queries, "project"),
            ("recall search, two common words, scope session", &common, "session"),
            ("recall search, two common words, scope all", &common, "all"),
        ] {
            let mut times = Vec::new();
            for query in queries {
                let id = &ids[dice.roll(ids.len())];
                let here = Here::of(&store.conversation(&tenant, id).await.unwrap(), "");
                let began = Instant::now();
                let arguments = json!({ "query": query, "scope": scope });
                let found = answer(store, &tenant, &here, RecallTool::Search, &arguments, &Deadline::default()).await;
                times.push(began.elapsed());
                assert!(!found.failed, "{}", found.text);
            }
            row(name, times);
        }
        let mut times = Vec::new();
        for _ in 0..QUERIES {
            let handle = Handle::at(Tail::of(ids[dice.roll(ids.len())].as_str()).unwrap(), dice.roll(EACH) as u64);
            let began = Instant::now();
            let arguments = json!({ "handle": handle.to_string() });
            let read = answer(store, &tenant, &Here::default(), RecallTool::Read, &arguments, &Deadline::default()).await;
            times.push(began.elapsed());
            assert!(!read.failed, "{}", read.text);
        }
        row("recall read", times);
        for (name, queries) in [("rare words", &queries), ("two common words", &common)] {
            let mut times = Vec::new();
            for query in queries {
                let began = Instant::now();
                let sql = "select rowid, snippet(said, 0, '«', '»', '…', 20) from said where said match ?1 order by rank limit 10";
                let mut statement = direct.prepare_cached(sql).unwrap();
                let mut rows = statement.query([query]).unwrap();
                while rows.next().unwrap().is_some() {}
                times.push(began.elapsed());
            }
            row(&format!("FTS5 directly, {name}, everything, by rank"), times);
        }
        let mut times = Vec::new();
        for query in queries.iter().step_by(20) {
            let word = query.split(' ').next_back().unwrap();
            let began = Instant::now();
            let run = Command::new("rg")
                .args(["-m", "10", "-F", word])
                .arg(folder.path().join("said.txt"))
                .stdout(Stdio::null())
                .status();
            if run.is_err() {
                println!("ripgrep is not installed");
                return;
            }
            times.push(began.elapsed());
        }
        row("ripgrep over the text, one rare word", times);
    });
}
