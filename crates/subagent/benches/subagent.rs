//! What a sub-agent costs beside its model: `cargo bench -p scrollback-agent --bench subagent`.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrollback_agent::provider::Scripted;
use scrollback_agent::provider::script::Script;
use scrollback_core::model::ModelName;
use scrollback_lisp::{Definition, Memory, ToolRecord, Value};
use scrollback_subagent::compression::{
    Compression, RollingWindow, SingleUserCoalesced, TurnLedger, Uncompressed,
};
use scrollback_subagent::{Host, InheritedSettings, Input, SubAgent, ToolLine, Turn, TurnUsage};
use serde_json::json;

fn main() {
    rendering();
    growth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(mission());
}

/// So many turns with twenty calls each, every one of which defines something.
fn turns(count: usize) -> Vec<Turn> {
    let mut memory = Memory::default();
    let result =
        Value::read("[{\"id\" 1 \"title\" \"a title of some length\"} {\"id\" 2} {\"id\" 3} {\"id\" 4}]")
            .unwrap();
    let Value::Map(args) = Value::read("{\"query\" \"some words\" \"limit\" 10}").unwrap() else {
        return Vec::new();
    };
    (0..count)
        .map(|at| {
            let name = format!("found-{}", at % 50);
            memory.insert(
                &name,
                Definition { value: Some(result.clone()), run: at as u64 + 1, ..Definition::default() },
            );
            let call = |_| ToolRecord {
                name: "search".into(),
                args: args.clone(),
                result: Ok(result.clone()),
                duration: None,
            };
            Turn {
                number: at + 1,
                raw_response:
                    "I search for it.\n```clojure\n(def found (tool/search {:query \"some words\"}))\n```"
                        .into(),
                program: Some("(def found (tool/search {:query \"some words\"}))".into()),
                result: Some(result.clone()),
                prints: if at % 3 == 0 { vec![format!("row {at}")] } else { Vec::new() },
                tool_calls: (0..20).map(call).collect(),
                memory: memory.clone(),
                error: None,
                usage: TurnUsage::default(),
                defined: vec![name],
            }
        })
        .collect()
}

fn input() -> Input {
    Input {
        mission: "Find it.".into(),
        tools: vec![ToolLine {
            name: "search".into(),
            signature: None,
            description: Some("Searches".into()),
        }],
        system: "You solve a mission.".into(),
        max_turns: 2000,
        ..Input::default()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn timed(runs: usize, mut work: impl FnMut()) -> Duration {
    median(
        (0..runs)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed()
            })
            .collect(),
    )
}

/// A thousand turns at once: from nothing, and with what is already known about them.
fn rendering() {
    let (turns, input) = (turns(1000), input());
    let memory = turns.last().map(|turn| turn.memory.clone()).unwrap_or_default();
    let strategies: [(&str, Arc<dyn Compression>, Duration); 3] = [
        ("single_user_coalesced", Arc::new(SingleUserCoalesced::default()), Duration::from_millis(10)),
        ("rolling_window", Arc::new(RollingWindow::default()), Duration::from_millis(10)),
        ("off", Arc::new(Uncompressed::default()), Duration::from_millis(100)),
    ];
    for (name, strategy, target) in strategies {
        let fresh = timed(21, || {
            let mut ledger = TurnLedger::default();
            ledger.advance(&turns);
            std::hint::black_box(strategy.render(&ledger, &turns, &memory, &input));
        });
        println!("{name}: 1000 turns x 20 calls rendered in {fresh:?} (target {target:?})");
    }
}

/// What one more turn costs, early and late.
fn growth() {
    let input = input();
    for count in [10, 100, 1000] {
        let turns = turns(count);
        let memory = turns.last().map(|turn| turn.memory.clone()).unwrap_or_default();
        let strategy = SingleUserCoalesced::default();
        let mut ledger = TurnLedger::default();
        ledger.advance(&turns[..count - 1]);
        let next = timed(101, || {
            let mut ledger = ledger.clone();
            let began = Instant::now();
            ledger.advance(&turns);
            std::hint::black_box(strategy.render(&ledger, &turns, &memory, &input));
            std::hint::black_box(began);
        });
        println!(
            "turn {count}: {next:?} (the same for the same 50 definitions, however many turns went before)"
        );
    }
}

/// A whole mission of five turns against a script.
async fn mission() {
    let replies =
        ["(def a 1)", "(def b (+ a 1))", "(println a b)", "(defn f [x] (* x b))", "(return (f 21))"];
    let script: Vec<serde_json::Value> = [json!({ "loop": true })]
        .into_iter()
        .chain(replies.iter().map(|program| json!({ "reply": format!("```clojure\n{program}\n```"), "usage": { "input": 1, "output": 1 } })))
        .collect();
    let script = Arc::new(Script::parse(&json!(script).to_string()).unwrap());
    let model = ModelName::parse("offline:script=bench").unwrap();
    let settings = InheritedSettings {
        model: Some(Arc::new(Scripted::new(model, script))),
        ..InheritedSettings::default()
    };
    let agent = SubAgent::new("Compute.", None).unwrap();
    let host = Arc::new(Host::default());
    let mut times = Vec::new();
    for _ in 0..101 {
        let began = Instant::now();
        let step = agent.run(&BTreeMap::new(), &settings, &host, &mut host.journal()).await.unwrap();
        times.push(began.elapsed());
        assert_eq!(step.outcome.map(|value| value.to_string()).ok().as_deref(), Some("42"));
    }
    println!("a mission of 5 turns: {:?} (target 5ms)", median(times));
}
