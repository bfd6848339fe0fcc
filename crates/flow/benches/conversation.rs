//! What a conversational loop costs beside its models: preparing a history and putting it into a request, in memory and
//! with a durable store; and whether the ten-thousandth iteration costs more than the hundredth.
//!
//! `./dev bench flow`. Fails when a target is missed by more than twice. Words choose what is measured: `prepare`, `loop`,
//! `long`; all of it if none is given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use scrollback_agent::provider::Catalog;
use scrollback_core::redact::{Options, Redactor};
use scrollback_core::tokens::Tokenizer;
use scrollback_core::wire::{Body, Purpose, RenderOptions, Wire};
use scrollback_core::{CurationContext, Entry, Role, Time, manager::Passthrough, model::ModelName};
use scrollback_flow::call_history::{Parts, sheet};
use scrollback_flow::driver::{Engine, RunStart, RunStatus};
use scrollback_flow::history::AvailableTurns;
use scrollback_flow::passed_values::EntryId;
use scrollback_flow::turns::{LoopScope, Turn};
use scrollback_flow::{Bounds, Flow, FlowSettings, HistoryMode, Prompts, ReadOptions, Strategy, TurnRole};
use scrollback_store::{Memory, Store, Tenant};
use uuid::Uuid;

/// A measure, its target, and whether it was missed by more than twice.
struct Measured {
    missed: bool,
}

impl Measured {
    fn told(&mut self, what: &str, found: f64, target: f64, unit: &str) {
        let over = found / target;
        println!(
            "{what:<58} {found:>10.2} {unit:<4} target {target} {unit}{}",
            if over > 1.0 { "  MISSED" } else { "" }
        );
        self.missed |= over > 2.0;
    }
}

fn scope(turns: u64) -> LoopScope {
    let mut scope = LoopScope::default();
    for number in 0..turns {
        let role = if number % 2 == 0 { TurnRole::User } else { TurnRole::Assistant };
        let text = format!("turn {number} {}", "words that people say ".repeat(9));
        let text: String = text.chars().take(200).collect();
        let entry = EntryId { evaluation: Uuid::from_u128(u128::from(number) << 16), sequence: 0 };
        scope.mark(Arc::new(Turn::new(entry, role, None, text.into())));
    }
    scope
}

/// Collects, bounds, puts together, renders and checks one request; its size.
fn prepare(
    scope: &LoopScope,
    bounds: &Bounds,
    cx: &CurationContext,
    system: &(EntryId, Arc<Entry>),
) -> usize {
    let told = AvailableTurns { scope, own: &[], input: None };
    let kept = told.bounded(bounds, Tokenizer::O200kBase);
    let evaluation = Uuid::from_u128(7);
    let made = sheet(&Parts {
        system: Some(system.clone()),
        kept: &kept,
        input: (EntryId { evaluation, sequence: 0 }, "and now?"),
        evaluation,
        own: Vec::new(),
        exchanges: std::collections::BTreeMap::new(),
        mode: HistoryMode::Chat,
        template: None,
        seed: None,
        wire: Wire::OpenaiChat,
        tokenizer: Tokenizer::O200kBase,
    })
    .unwrap();
    let view = made.record.view(cx, &Passthrough).unwrap();
    let options = RenderOptions {
        purpose: Purpose::Send,
        model: cx.model.as_ref(),
        record: Some(&made.record),
        ..RenderOptions::default()
    };
    let around = Body::Object { raw: r#"{"model":"gpt-4o","messages":[]}"#.into(), key: "messages" };
    let items: Vec<scrollback_core::ViewItem> = view.items().collect();
    // Rendering a request is checking it by every rule of its wire.
    let checked = Wire::OpenaiChat.request(items, options, Some(&around)).take_checked().unwrap();
    assert!(checked.violations.is_empty(), "{:?}", checked.violations);
    checked.body.len()
}

/// The middle one of some durations, in microseconds: one that the machine interrupts does not count more than any other.
fn median(mut all: Vec<Duration>) -> f64 {
    all.sort_unstable();
    all[all.len() / 2].as_secs_f64() * 1e6
}

/// How long something takes that is done many times, in microseconds.
fn usual(times: usize, mut work: impl FnMut()) -> f64 {
    let mut all = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        work();
        all.push(began.elapsed());
    }
    median(all)
}

/// Measures a history in memory.
fn in_memory(measured: &mut Measured) {
    let bounds = Bounds {
        strategy: Strategy::TruncateTokens,
        max_tokens: Some(16_384),
        max_turns: Some(100),
        summarizer: None,
        summarize_ratio: 0.5,
    };
    let cx = CurationContext::for_model(ModelName::parse("openai:gpt-4o").ok());
    let id = EntryId { evaluation: Uuid::from_u128(1), sequence: 0 };
    let system = (id, Arc::new(Entry::text(Role::System, "Be brief.").stamped(id.evaluation, 0, Time(0))));
    let (short, long) = (scope(100), scope(10_000));
    let at_100 = usual(2_000, || assert!(prepare(&short, &bounds, &cx, &system) > 20_000));
    let at_10_000 = usual(2_000, || assert!(prepare(&long, &bounds, &cx, &system) > 20_000));
    measured.told("history prepared and injected, 100 turns of 200 characters", at_100, 50.0, "µs");
    measured.told("the same in a history of 10,000 turns, as a ratio", at_10_000 / at_100, 1.5, "×");
}

/// The input has a number, so that no two requests are the same.
const FLOW: &str = r#"
version: "1"
agents: { default: { model: "MODEL" } }
steps:
  - kind: loop
    name: chat
    loop:
      conversation: true
      max_loops: LOOPS
      history_management: { max_turns: 100 }
      body: [{ name: talk, input: "{{ loop.iteration }}: INPUT" }]
"#;

/// Who replies.
#[derive(Clone, Copy)]
enum Model {
    /// Says something new each time, and does not read what it is sent.
    Script,
    /// Says the input again, and reads and counts all it is sent.
    Echo,
}

/// Replies of the script: more than a history holds.
const REPLIES: usize = 997;

/// Where stores lie, a commit with nothing around it is measured, and the script is.
struct Place {
    folder: tempfile::TempDir,
    bare: Connection,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bare = Connection::open(folder.path().join("bare.db")).unwrap();
        bare.pragma_update(None, "page_size", 4096).unwrap();
        bare.query_row("pragma journal_mode = wal", [], |_| Ok(())).unwrap();
        bare.pragma_update(None, "synchronous", "full").unwrap();
        bare.execute_batch("create table t (id integer primary key, body text)").unwrap();
        std::fs::write(folder.path().join("talk.yaml"), script()).unwrap();
        Place { folder, bare }
    }

    /// The disk's own time for a commit: one row, and nothing of ours.
    fn bare_commit(&self) -> Duration {
        let began = Instant::now();
        let mut insert = self.bare.prepare_cached("insert into t (body) values (?1)").unwrap();
        insert.execute(["hello"]).unwrap();
        began.elapsed()
    }

    async fn store(&self, name: &str) -> Arc<dyn Store> {
        scrollback_store::open(&format!("sqlite:{}", self.file(name).display()), Time(0)).await.unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Replies of 200 characters of words that seldom follow each other twice.
fn script() -> String {
    const WORDS: [&str; 24] = [
        "history", "of", "the", "agent", "was", "sent", "again", "because", "nobody", "had", "counted",
        "tokens", "before", "a", "window", "moved", "and", "every", "prefix", "changed", "with", "it", "so",
        "twice",
    ];
    let mut number = 1_u64;
    let mut lines = String::from("- loop: true\n");
    for _ in 0..REPLIES {
        let mut text = String::new();
        while text.len() < 200 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(WORDS[(number >> 33) as usize % WORDS.len()]);
            text.push(' ');
        }
        text.truncate(199);
        let _ = writeln!(lines, "- {{reply: \"{text}.\", usage: {{input: 5000, output: 50}}}}");
    }
    lines
}

/// Runs a loop; when each reply came.
async fn looped(place: &Place, store: Arc<dyn Store>, model: Model, loops: u32) -> Vec<Instant> {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let redactor = Arc::new(Redactor::new(&Options::default()).unwrap());
    let mut engine = Engine::new(store, Tenant::default(), Arc::new(Catalog::default()), redactor);
    let seen = Arc::clone(&times);
    engine.watcher = Some(Arc::new(move |told| {
        if told.kind == "step.finished" {
            seen.lock().unwrap().push(Instant::now());
        }
    }));
    let model = match model {
        Model::Script => "offline:script=talk.yaml",
        Model::Echo => "offline:echo",
    };
    let text = FLOW
        .replace("MODEL", model)
        .replace("LOOPS", &loops.to_string())
        .replace("INPUT", &"words that people say ".repeat(9));
    let settings = FlowSettings::default();
    let folder = place.folder.path();
    let source = ReadOptions {
        stem: "bench",
        folder,
        prompts: Prompts::Disk,
        settings: &settings,
        catalog: &engine.catalog,
        environment: &engine.environment,
    };
    let flow = Arc::new(Flow::read(&text, &source).unwrap().flow);
    let start = RunStart {
        flow,
        text,
        stem: "bench".into(),
        folder: folder.into(),
        settings,
        warnings: Vec::new(),
        input: Some("go".into()),
        recipient: None,
        id: None,
        created: None,
    };
    let report = engine.start(start).await.unwrap();
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    Arc::try_unwrap(times)
        .map(Mutex::into_inner)
        .map_or_else(|held| held.lock().unwrap().clone(), Result::unwrap)
}

/// How long an iteration takes between two of them, in microseconds: the mean without the quickest and the slowest tenth.
fn between(times: &[Instant], from: usize, to: usize) -> f64 {
    let pairs = times[from..=to].windows(2);
    let mut all: Vec<f64> = pairs.map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1e6).collect();
    all.sort_unstable_by(f64::total_cmp);
    let kept = &all[all.len() / 10..all.len() - all.len() / 10];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// How often the short loops are run, in turns with commits of nothing but a row: the disk has slow and fast minutes.
const ROUNDS: usize = 15;

/// What one round found, in microseconds.
#[derive(Clone, Copy)]
struct Round {
    bare: f64,
    memory: f64,
    durable: f64,
    echo: f64,
}

async fn short(measured: &mut Measured, place: &Place) {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut bare: Vec<Duration> = (0..50).map(|_| place.bare_commit()).collect();
        let whole = |times: Vec<Instant>| between(&times, 0, times.len() - 2);
        let durable =
            whole(looped(place, place.store(&format!("{round}.db")).await, Model::Script, 100).await);
        bare.extend((0..50).map(|_| place.bare_commit()));
        let memory = whole(looped(place, Arc::new(Memory::new()), Model::Script, 100).await);
        let echo =
            whole(looped(place, place.store(&format!("{round}-echo.db")).await, Model::Echo, 100).await);
        rounds.push(Round { bare: median(bare), memory, durable, echo });
    }
    let middle = |what: fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(what).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!("{:<58} {:>10.2} µs", "the disk's own commit of one row", middle(|round| round.bare));
    println!("{:<58} {:>10.2} µs", "an iteration in memory", middle(|round| round.memory));
    println!("{:<58} {:>10.2} µs", "the same with durable SQLite", middle(|round| round.durable));
    let above = middle(|round| round.durable - round.bare);
    measured.told("which is above the disk's own commit", above / 1000.0, 1.0, "ms");
    let above = middle(|round| round.echo - round.bare);
    measured.told("the same with a model that reads and counts the request", above / 1000.0, 1.0, "ms");
}

/// Iterations at either end of what is compared.
const WINDOW: usize = 500;

async fn long(measured: &mut Measured, place: &Place) {
    let times = looped(place, place.store("long.db").await, Model::Script, 10_000).await;
    let count = times.len();
    let late = between(&times, count - 10 - WINDOW, count - 10);
    // Of another run right after it, so that both are of the same minute.
    let times = looped(place, place.store("half.db").await, Model::Script, 5_000).await;
    let early = between(&times, 100, 100 + WINDOW);
    println!("{:<58} {late:>10.2} µs", "iterations up to the ten-thousandth");
    println!("{:<58} {early:>10.2} µs", "iterations from the hundredth on, of a run right after it");
    measured.told("the first of these against the second, as a ratio", late / early, 1.5, "×");
    let size = |name: &str| std::fs::metadata(place.file(name)).map_or(0, |meta| meta.len()) as f64;
    let (first, second) = (size("half.db") / 5_000.0, (size("long.db") - size("half.db")) / 5_000.0);
    println!("{:<58} {:>10.0} B", "bytes of the database a turn", size("long.db") / 10_000.0);
    measured.told("the second five thousand against the first, as a ratio", second / first, 1.2, "×");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |word: &str| words.is_empty() || words.iter().any(|given| given == word);
    let mut measured = Measured { missed: false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = Place::new();
    if wanted("prepare") {
        in_memory(&mut measured);
    }
    if wanted("loop") {
        runtime.block_on(short(&mut measured, &place));
    }
    if wanted("long") {
        runtime.block_on(long(&mut measured, &place));
    }
    std::process::exit(i32::from(measured.missed));
}
