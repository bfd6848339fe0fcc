//! What a conversational loop costs beside its models: preparing a history and putting it into a request, in memory and
//! with a durable store; and whether the ten-thousandth iteration costs more than the hundredth.
//!
//! `./dev bench flow`. Fails when a target is missed by more than twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrollback_agent::provider::Catalog;
use scrollback_core::redact::{Options, Redactor};
use scrollback_core::tokens::Tokenizer;
use scrollback_core::wire::{Body, Purpose, RenderOptions, Wire};
use scrollback_core::{CurationContext, Entry, Role, Time, manager::Passthrough, model::ModelName};
use scrollback_flow::driver::{Engine, Start, Status};
use scrollback_flow::history::Told;
use scrollback_flow::inject::{Parts, sheet};
use scrollback_flow::passed::EntryId;
use scrollback_flow::turns::{Scope, Turn};
use scrollback_flow::{Bounds, Flow, Mode, Prompts, Settings, Source, Strategy, TurnRole};
use scrollback_store::{ConversationId, Expected, Memory, NewConversation, NewEntry, Store, Tenant, Tx};
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

fn scope(turns: u64) -> Scope {
    let mut scope = Scope::default();
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
fn prepare(scope: &Scope, bounds: &Bounds, cx: &CurationContext, system: &(EntryId, Arc<Entry>)) -> usize {
    let told = Told { scope, own: &[], input: None };
    let kept = told.bounded(bounds, Tokenizer::O200kBase);
    let evaluation = Uuid::from_u128(7);
    let made = sheet(&Parts {
        system: Some(system.clone()),
        kept: &kept,
        input: (EntryId { evaluation, sequence: 0 }, "and now?"),
        evaluation,
        own: Vec::new(),
        exchanges: std::collections::BTreeMap::new(),
        mode: Mode::Chat,
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
    let items: Vec<scrollback_core::Item> = view.items().collect();
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

/// Measures a history in memory; how long it takes to prepare and inject it, in microseconds.
fn in_memory(measured: &mut Measured) -> f64 {
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
    at_100
}

const FLOW: &str = r#"
version: "1"
steps:
  - kind: loop
    name: chat
    loop:
      conversation: true
      max_loops: LOOPS
      history_management: { max_turns: 100 }
      body: [{ name: talk, input: "INPUT" }]
"#;

/// Runs a loop of echoes; when each reply came.
async fn looped(store: Arc<dyn Store>, loops: u32) -> Vec<Instant> {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let redactor = Arc::new(Redactor::new(&Options::default()).unwrap());
    let mut engine = Engine::new(store, Tenant::default(), Arc::new(Catalog::default()), redactor);
    let seen = Arc::clone(&times);
    engine.watcher = Some(Arc::new(move |told| {
        if told.kind == "step.finished" {
            seen.lock().unwrap().push(Instant::now());
        }
    }));
    let text =
        FLOW.replace("LOOPS", &loops.to_string()).replace("INPUT", &"words that people say ".repeat(9));
    let settings = Settings::default();
    let source = Source {
        stem: "bench",
        folder: Path::new("."),
        prompts: Prompts::Disk,
        settings: &settings,
        catalog: &engine.catalog,
        environment: &engine.environment,
    };
    let flow = Arc::new(Flow::read(&text, &source).unwrap().flow);
    let start = Start {
        flow,
        text,
        stem: "bench".into(),
        folder: PathBuf::from("."),
        settings,
        warnings: Vec::new(),
        input: Some("go".into()),
        id: None,
        created: None,
    };
    let report = engine.start(start).await.unwrap();
    assert_eq!(report.status, Status::Done, "{report:?}");
    Arc::try_unwrap(times)
        .map(Mutex::into_inner)
        .map_or_else(|held| held.lock().unwrap().clone(), Result::unwrap)
}

/// The disk's own time for a commit of one small entry, in microseconds.
async fn commit_time(store: &Arc<dyn Store>) -> f64 {
    let (tenant, id) = (Tenant::default(), ConversationId::new(Time(0)));
    let mut tx = Tx::new(&tenant, Time(0));
    tx.create(NewConversation::new(id.clone()));
    store.commit(tx).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        let mut tx = Tx::new(&tenant, Time(0));
        tx.append(&id, Expected::Any, NewEntry::evaluation([Entry::text(Role::User, "hello")], Time(0)));
        store.commit(tx).await.unwrap();
        all.push(began.elapsed());
    }
    median(all)
}

/// How long an iteration takes between two of them: the mean without the quickest and the slowest tenth.
fn between(times: &[Instant], from: usize, to: usize) -> f64 {
    let pairs = times[from..=to].windows(2);
    let mut all: Vec<f64> = pairs.map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1e6).collect();
    all.sort_unstable_by(f64::total_cmp);
    let kept = &all[all.len() / 10..all.len() - all.len() / 10];
    kept.iter().sum::<f64>() / kept.len() as f64
}

async fn on_disk(measured: &mut Measured, prepared: f64) {
    let memory = looped(Arc::new(Memory::new()), 100).await;
    let memory = between(&memory, 0, memory.len() - 2);
    let folder = tempfile::tempdir().unwrap();
    let number = AtomicU64::new(0);
    let path = || folder.path().join(format!("{}.db", number.fetch_add(1, Ordering::Relaxed)));
    let opened = async |path: &Path| {
        scrollback_store::open(&format!("sqlite:{}", path.display()), Time(0)).await.unwrap()
    };
    let bare = opened(&path()).await;
    let own = commit_time(&bare).await;
    let times = looped(opened(&path()).await, 100).await;
    let iteration = between(&times, 0, times.len() - 2);
    println!("{:<58} {own:>10.2} µs", "the disk's own commit");
    println!("{:<58} {memory:>10.2} µs", "an iteration in memory, runner and model included");
    println!("{:<58} {iteration:>10.2} µs", "the same with durable SQLite");
    measured.told("all of it, above the disk's own commit", (iteration - own) / 1000.0, 1.0, "ms");
    // The history's share: preparing it, and all that the store adds to the iteration.
    let share = prepared + iteration - memory - own;
    measured.told("the history's share of that", share / 1000.0, 1.0, "ms");
    let file = path();
    let times = looped(opened(&file).await, 10_000).await;
    let count = times.len();
    measured.told(
        "iterations 9,900 to 10,000 against 100 to 200, as a ratio",
        between(&times, count - 110, count - 10) / between(&times, 100, 200),
        1.5,
        "×",
    );
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len()) as f64;
    let whole = size(&file);
    let half = path();
    looped(opened(&half).await, 5_000).await;
    let (first, second) = (size(&half) / 5_000.0, (whole - size(&half)) / 5_000.0);
    println!("{:<58} {:>10.0} B", "bytes of the database a turn", whole / 10_000.0);
    measured.told("the second five thousand against the first, as a ratio", second / first, 1.2, "×");
}

fn main() {
    let mut measured = Measured { missed: false };
    let prepared = in_memory(&mut measured);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(on_disk(&mut measured, prepared));
    std::process::exit(i32::from(measured.missed));
}
