//! Killed at every transaction and resumed: the same requests, the same turns, the same output, and nothing done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_agent::{Clock, FakeClock};
use scrollback_core::Time;
use scrollback_core::redact::{Options, Redactor};
use scrollback_flow::driver::{RunReport, RunStatus};
use scrollback_flow::lens::{Lens, Reveal};
use scrollback_store::{ErrorKind, Leased, Memory, Store, StoreError, Tenant};
use serde_json::{Value, json};

use crate::generated;
use crate::support::{Asked, Bench};

/// Replies are a function of the request, so that equal requests get equal replies.
fn reply(asked: &Asked, _: usize) -> Value {
    let text = asked.body["messages"].to_string();
    let calls = asked.body.get("tools").is_some() && !text.contains("tool_call_id");
    if calls {
        return json!({ "calls": [{ "name": "look", "arguments": { "at": 1 }, "id": "c1" }, { "name": "look", "arguments": { "at": 2 }, "id": "c2" }] });
    }
    // A model with little room, for flows that ask for one.
    let said = asked.body["messages"].as_array().map_or(0, Vec::len) + text.matches("\\nassistant: ").count();
    if text.contains("Little room.") && said > 6 {
        return json!({ "error": { "kind": "context_overflow", "message": "too long" } });
    }
    let hash = text.bytes().fold(17u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    json!({ "reply": format!("reply {hash:08x}") })
}

/// What a run came to, as far as two runs of one flow must agree.
#[derive(Debug, PartialEq)]
struct Outcome {
    output: Value,
    turns: Value,
    steps: BTreeMap<String, (String, Value)>,
}

/// Answers every question until the run ends. Answers are a function of the question.
async fn to_the_end(bench: &Bench, mut report: RunReport) -> RunReport {
    for _ in 0..200 {
        let Some(pause) = report.pauses.first().filter(|_| report.status == RunStatus::Paused) else { break };
        let text = format!("answer to {}", pause.message);
        report = match bench.try_answer(&report.run, Some(&pause.step), &text).await {
            Ok(report) => report,
            Err(refused) => panic!("{refused}"),
        };
    }
    report
}

async fn outcome(store: &Arc<dyn Store>, report: &RunReport) -> Outcome {
    let tenant = Tenant::default();
    let redactor = Redactor::new(&Options::default()).unwrap();
    let lens = Lens { store, tenant: &tenant, redactor: &redactor, reveal: Reveal::Everything, now: Time(0) };
    let run = store.runs(&tenant, &report.run, 1).await.unwrap().remove(0);
    let shown = lens.show(&run, None).await.unwrap();
    let strip = |talks: &Value| {
        let talks = talks.as_array().cloned().unwrap_or_default();
        talks
            .iter()
            .map(|talk| {
                let turns = talk["turns"].as_array().cloned().unwrap_or_default();
                let said: Vec<Value> =
                    turns.iter().map(|turn| json!([turn["role"], turn["content"], turn["step"]])).collect();
                let summaries: Vec<Value> = talk["summaries"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
                    .iter()
                    .map(|summary| json!([summary["covers"], summary["content"]]))
                    .collect();
                json!({ "scope": talk["scope"], "turns": said, "summaries": summaries })
            })
            .collect::<Value>()
    };
    let steps = shown["steps"].as_array().cloned().unwrap_or_default();
    let steps = steps.iter().map(|step| {
        (
            step["key"].as_str().unwrap().to_string(),
            (step["status"].as_str().unwrap().to_string(), step["output"].clone()),
        )
    });
    Outcome { output: report.output.clone(), turns: strip(&shown["conversations"]), steps: steps.collect() }
}

fn counted(asked: &[Asked]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for asked in asked {
        *counts.entry(asked.body.to_string()).or_default() += 1;
    }
    counts
}

/// A bench whose process dies after so many commits: what was written stays, and nothing more is. And its commits so far.
fn dying(store: &Arc<dyn Store>, most: usize) -> (Bench, Arc<AtomicUsize>) {
    let mut bench = Bench::on(Arc::clone(store), reply);
    let commits: Arc<AtomicUsize> = Arc::default();
    let counter = Arc::clone(&commits);
    bench.engine.before_commit = Some(Arc::new(move || {
        if counter.fetch_add(1, Ordering::SeqCst) >= most {
            return Err(StoreError::new(ErrorKind::Io, "the process is dead"));
        }
        Ok(())
    }));
    (bench, commits)
}

/// Kills a flow after each of its commits in turn, up to `most` of them, and resumes it.
async fn survives(flow: &str, most: usize) -> usize {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (bench, counted_commits) = dying(&store, usize::MAX);
    let whole = to_the_end(&bench, bench.run(flow, "go").await).await;
    assert!(matches!(whole.status, RunStatus::Done | RunStatus::Failed), "{whole:?}\n{flow}");
    let expected = outcome(&store, &whole).await;
    let requests = counted(&bench.asked());
    let commits = counted_commits.load(Ordering::SeqCst);
    let step = commits.div_ceil(most).max(1);
    for after in (1..commits).step_by(step) {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let (bench, _) = dying(&store, after);
        // Whatever it says, the process is gone.
        let begun = bench.engine.start(bench.start(flow, Some("go"))).await;
        if let Ok(report) = begun {
            let mut report = report;
            while report.status == RunStatus::Paused {
                let pause = report.pauses[0].clone();
                let text = format!("answer to {}", pause.message);
                match bench.try_answer(&report.run, Some(&pause.step), &text).await {
                    Ok(next) => report = next,
                    Err(_) => break,
                }
            }
        }
        let tenant = Tenant::default();
        let run = store.runs(&tenant, "", 2).await.unwrap().remove(0);
        if let Some(lease) = &run.lease {
            store.release(&tenant, Leased::Run(run.id.clone()), &lease.holder, Time(0)).await.unwrap();
        }
        let finished: Vec<String> = store
            .steps(&tenant, &run.id)
            .await
            .unwrap()
            .into_iter()
            .filter(|step| step.status.as_str() == "done" && step.kind == scrollback_store::StepType::Step)
            .map(|step| step.key)
            .collect();
        let second = Bench::on(Arc::clone(&store), reply);
        let clock = Arc::new(FakeClock::at(Time(9_000_000)));
        let mut second = second;
        second.engine.clock = clock as Arc<dyn Clock>;
        let run = store.runs(&tenant, "", 2).await.unwrap().remove(0);
        let resumed = match run.status.as_str() {
            "running" | "interrupted" => second
                .resume(&run.id)
                .await
                .unwrap_or_else(|refused| panic!("{refused} after {after}\n{flow}")),
            _ => second.engine.report(&run).await.unwrap(),
        };
        let ended = to_the_end(&second, resumed).await;
        let found = outcome(&store, &ended).await;
        assert_eq!(found, expected, "killed after commit {after} of {commits}\n{flow}");
        let mut all = bench.asked();
        all.extend(second.asked());
        let seen = counted(&all);
        assert_eq!(
            seen.keys().collect::<Vec<_>>(),
            requests.keys().collect::<Vec<_>>(),
            "killed after commit {after} of {commits}: other requests\n{flow}"
        );
        // What was under way is done again, and nothing else: at most one call a branch.
        let again: usize = seen.iter().map(|(body, count)| count - requests[body]).sum();
        assert!(
            again <= 3,
            "killed after commit {after} of {commits}: {again} requests were repeated\n{flow}"
        );
        let events = store.events(&tenant, &run.id, 0).await.unwrap();
        // The second process has a clock of its own.
        let later = events.iter().filter(|event| event.at >= Time(9_000_000));
        for event in later.filter(|event| event.kind == "agent.prompt") {
            let key = event.key.clone().unwrap_or_default();
            assert!(
                !finished.contains(&key),
                "killed after commit {after}: finished step {key} ran again\n{flow}"
            );
        }
    }
    commits
}

const TOOLS: &str = r#"
version: "1"
agents:
  talk: { system_prompt: Look first., tools: [{ name: look, description: looks, parameters: { type: object }, command: [cat] }] }
steps:
  - kind: loop
    name: chat
    loop: { conversation: true, max_loops: 2, body: [{ name: talk }, { kind: hitl, name: ask }] }
"#;

const OVERFLOWS: &str = r#"
version: "1"
agents: { talk: { system_prompt: Little room., mode: MODE } }
steps:
  - kind: loop
    name: chat
    loop: { conversation: true, max_loops: 9, body: [{ name: talk, input: "next {{ loop.iteration }}" }] }
"#;

/// A handful of flows in CI; `./dev trial flow` sets a number, and then every transaction of every flow is one to die after.
#[tokio::test]
async fn killed_at_every_transaction_it_ends_the_same() {
    assert!(survives(TOOLS, usize::MAX).await >= 8);
    for mode in ["chat", "prompt"] {
        // What an overflow cut off stays cut off: after a kill there is no request that there would not have been without.
        assert!(survives(&OVERFLOWS.replace("MODE", mode), usize::MAX).await >= 8, "{mode}");
    }
    let trial = std::env::var("SCROLLBACK_TRIAL_FLOWS").ok().and_then(|count| count.parse().ok());
    let (flows, most) = trial.map_or((4, 12), |count| (count, usize::MAX));
    for seed in 0..flows {
        let commits = survives(&generated::flow(seed), most).await;
        if trial.is_some() {
            println!("flow {seed}: killed after each of {commits} transactions");
        }
    }
}
