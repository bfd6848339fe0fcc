//! What the runner costs beside the model: `cargo bench -p scrollback-agent`.
//!
//! Words choose tables: `memory`, `disk`, `growth`, `publish`, `delta`. With `drive URL ROUNDS` it drives a server instead, for comparison with others that drive the same one.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrollback_agent::EventBus;
use scrollback_agent::event::Throttled;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{Api, Endpoint, Http, Provider, Scripted};
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::tool;
use scrollback_core::manager::parse;
use scrollback_core::model::ModelName;
use scrollback_core::stream::Delta;
use scrollback_core::{Entry, Record, Role, Time};
use scrollback_store::{NewEntry, RecordsExt, Store, Tenant, open};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "drive") {
        runtime.block_on(drive(&args[at + 1], args[at + 2].parse().unwrap()));
        return;
    }
    let tables = ["memory", "disk", "growth", "publish", "delta"];
    let named = |name: &str| args.iter().any(|arg| arg == name);
    let all = !tables.iter().any(|name| named(name));
    runtime.block_on(async {
        if all || named("memory") {
            rounds_in_memory().await;
        }
        if all || named("disk") {
            rounds_on_disk().await;
        }
        if all || named("growth") {
            growth().await;
        }
        if all || named("publish") {
            publishing();
        }
        if all || named("delta") {
            first_delta().await;
        }
    });
}

fn runner(script: &str) -> Runner {
    let model = ModelName::parse("offline:script=bench").unwrap();
    let script = Script::parse(script).unwrap();
    with_tool(Runner::new(Arc::new(Scripted::new(model, Arc::new(script)))))
}

fn with_tool(mut runner: Runner) -> Runner {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let weather =
        tool("weather", "Weather by city", schema, |_: Value| async move { Ok(json!("22 degrees, sunny")) });
    runner.tools.add(Arc::new(weather)).unwrap();
    runner.manager = parse("sliding_window(20)").unwrap();
    runner
}

fn prompt(user: &str) -> Prompt {
    Prompt {
        name: "bench".into(),
        system: Some("Be brief.".into()),
        user: user.into(),
        response_format: None,
    }
}

/// A conversation of so many entries.
fn said(count: usize) -> Vec<Entry> {
    let id = uuid::Uuid::from_u128(1);
    let entry = |number: usize| match number {
        0 => Entry::text(Role::System, "Be brief."),
        number if number % 2 == 1 => {
            Entry::text(Role::User, &format!("question {number}, and some words about it"))
        }
        number => Entry::text(Role::Assistant, &format!("answer {number}, and some more words about it")),
    };
    (0..count).map(|number| entry(number).stamped(id, number as u64, Time(0))).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

const REPLY: &str = "- loop: true\n- {reply: fine, usage: {input: 10, output: 1}}\n";
const RUNS: usize = 200;

/// One query is one round here: the task and the reply are recorded, the view is made, checked and rendered.
async fn time_rounds(runner: &Runner, journal: &mut Journal) -> Duration {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let done = runner.run(journal, &prompt("and now?")).await;
        times.push(began.elapsed());
        assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
    }
    median(times)
}

async fn rounds_in_memory() {
    let mut found = Vec::new();
    for count in [100, 10_000] {
        let mut record = Record::new();
        for entry in said(count) {
            record.append(entry).unwrap();
        }
        let time = time_rounds(&runner(REPLY), &mut Journal::memory(record)).await;
        println!("a round in memory, on {count:>6} entries: {:>8.1} µs", time.as_secs_f64() * 1e6);
        found.push(time);
    }
    println!("  10,000 beside 100: {:.2} (target 2)\n", found[1].as_secs_f64() / found[0].as_secs_f64());
}

async fn rounds_on_disk() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut found = Vec::new();
    for count in [100, 10_000] {
        let url = format!("sqlite:{}", folder.path().join(format!("{count}.db")).display());
        let store: Arc<dyn Store> = open(&url, Time(0)).await.unwrap();
        let mut journal = Journal::begin(Arc::clone(&store), Tenant::default(), Time(0));
        // The first query creates the conversation; the rest is put behind it.
        runner(REPLY).run(&mut journal, &prompt("hello")).await;
        let id = journal.conversation().unwrap().clone();
        let entries = said(count).into_iter().skip(1).zip(0..);
        let entries = entries
            .map(|(entry, number)| NewEntry::from(entry.stamped(uuid::Uuid::from_u128(2), number, Time(0))));
        store
            .append(&Tenant::default(), Time(0), &id, scrollback_store::Expected::Any, entries.collect())
            .await
            .unwrap();
        let mut journal = Journal::open(Arc::clone(&store), Tenant::default(), id).await.unwrap();
        let time = time_rounds(&runner(REPLY), &mut journal).await;
        println!(
            "a round with SQLite, on {count:>6} entries: {:>8.2} ms (4 durable commits)",
            time.as_secs_f64() * 1e3
        );
        found.push(time);
    }
    println!("  10,000 beside 100: {:.2} (target 2)\n", found[1].as_secs_f64() / found[0].as_secs_f64());
}

/// Rounds of one evaluation, each with a call; both lengths in turns, so that a busy moment meets both.
async fn growth() {
    // The tokenizer is loaded by the first that counts.
    calling(10).await;
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        short.push(calling(100).await);
        long.push(calling(1000).await);
    }
    let (short, long) = (median(short), median(long));
    println!("  100 rounds with a call each: {:>8.1} ms", short.as_secs_f64() * 1e3);
    println!(" 1000 rounds with a call each: {:>8.1} ms", long.as_secs_f64() * 1e3);
    println!("  1,000 beside 100: {:.1} (target 12)\n", long.as_secs_f64() / short.as_secs_f64());
}

async fn calling(rounds: u32) -> Duration {
    let mut runner = runner(
        "- loop: true\n- {calls: [{name: weather, arguments: {city: Paris}}], usage: {input: 10, output: 1}}\n",
    );
    runner.max_rounds = rounds;
    let began = Instant::now();
    runner.run(&mut Journal::memory(Record::new()), &prompt("go")).await;
    began.elapsed()
}

fn publishing() {
    let bus = EventBus::default();
    let heard = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let heard = Arc::clone(&heard);
        bus.subscribe::<Throttled>(move |_| {
            heard.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
    }
    let event = Throttled { attempt: 1, kind: "rate_limit", delay: 1, retry_after: None };
    let began = Instant::now();
    for _ in 0..100_000 {
        bus.publish("s", &event);
    }
    let each = began.elapsed().as_secs_f64() / 1e5;
    assert_eq!(heard.load(Ordering::Relaxed), 1_000_000);
    println!("an event told to 10 handlers: {:.2} µs (target 5)\n", each * 1e6);
}

/// From the moment the server has written a piece to the moment the sink has it.
async fn first_delta() {
    let mut times = Vec::new();
    for _ in 0..50 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let written = Arc::new(Mutex::new(None));
        let note = Arc::clone(&written);
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 65536];
            let _ = stream.read(&mut buffer).await.unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            let piece = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
            *note.lock().unwrap() = Some(Instant::now());
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            stream.write_all(b"data: [DONE]\n\n").await.unwrap();
        });
        let arrived = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&arrived);
        let mut runner = Runner::new(http(&url));
        runner.sink = Some(Arc::new(move |delta| {
            if let Delta::Text(_) = delta {
                keep.lock().unwrap().get_or_insert_with(Instant::now);
            }
        }));
        let done = runner.run(&mut Journal::memory(Record::new()), &prompt("hello")).await;
        assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
        server.await.unwrap();
        let (from, to) = (written.lock().unwrap().unwrap(), arrived.lock().unwrap().unwrap());
        times.push(to - from);
    }
    println!(
        "the first piece of a reply is handed on after {:.0} µs (target 1,000)",
        median(times).as_secs_f64() * 1e6
    );
}

fn http(url: &str) -> Arc<dyn Provider> {
    let endpoint = Endpoint::new(url, Api::Chat, Some("sk-bench".to_string().into())).unwrap();
    let model = ModelName::parse("openai:gpt-4o").unwrap();
    Arc::new(Http::new(model, Api::Chat, endpoint).unwrap())
}

/// Drives a server for so many rounds and says how long it took and what it needed.
async fn drive(url: &str, rounds: u32) {
    let mut runner = with_tool(Runner::new(http(url)));
    runner.max_rounds = rounds + 1;
    let mut journal = Journal::memory(Record::new());
    let began = Instant::now();
    let done = runner.run(&mut journal, &prompt("What is the weather?")).await;
    let seconds = began.elapsed().as_secs_f64();
    assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: f64 = peak.and_then(|kilobytes| kilobytes.trim().parse().ok()).unwrap_or(0.0);
    println!(
        "{}",
        json!({ "seconds": seconds, "megabytes": peak / 1024.0, "entries": journal.record().len() })
    );
}
