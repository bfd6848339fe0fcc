//! Quotas: room before every call, what was used after it, shares for branches, and going on with more.

use scrollback_flow::driver::{Resume, RunStatus};
use scrollback_flow::{MicroDollars, QuotaLimits};
use serde_json::json;

use crate::support::Bench;

/// Every reply uses 10 tokens in and 10 out, and may use 20 out.
fn bench() -> Bench {
    Bench::new(|asked, _| json!({ "reply": asked.last(), "usage": { "input": 10, "output": 10 } }))
}

fn flow(limits: &str, rest: &str) -> String {
    format!(
        "version: \"1\"\nlimits: {limits}\nagents: {{ default: {{ max_output_tokens: 20 }} }}\nsteps:\n{rest}"
    )
}

const LOOP: &str =
    "  - kind: loop\n    name: again\n    loop: { max_loops: 5, body: [{ name: talk, input: hi }] }\n";

#[tokio::test]
async fn a_call_without_room_is_not_made_and_the_run_goes_on_with_more() {
    let bench = bench();
    // A call reserves 8 tokens of prompt and 20 of reply, and uses 20.
    let failed = bench.run(&flow("{ max_tokens: 50 }", LOOP), "go").await;
    let error = failed.error.unwrap();
    assert_eq!(
        (failed.status, error.code.as_str(), error.step.as_deref()),
        (RunStatus::Failed, "quota_exceeded", Some("again[3]/talk"))
    );
    assert_eq!((bench.asked().len(), failed.usage.calls, failed.usage.total()), (2, 2, 40));
    assert_eq!(error.detail["limit"], json!(50));
    assert_eq!(
        (&error.detail["scope"], &error.detail["used"], &error.detail["reserved"]),
        (&json!("run"), &json!(40), &json!(0))
    );
    assert!(error.detail["requested"].as_f64().unwrap() > 10.0);
    let limits = QuotaLimits { max_tokens: Some(200), max_cost: None };
    let done = bench.engine.resume(Resume { run: failed.run, answer: None, limits }).await.unwrap();
    assert_eq!(
        (done.status, bench.asked().len(), done.usage.total()),
        (RunStatus::Done, 5, 100),
        "finished work was kept"
    );
}

#[tokio::test]
async fn limits_of_steps_and_loops_hold_inside_the_runs() {
    let bench = bench();
    let inner = "  - kind: loop\n    name: again\n    limits: { max_tokens: 45 }\n    loop: { max_loops: 5, body: [{ name: talk, input: hi }] }\n";
    let failed = bench.run(&flow("{ max_tokens: 500 }", inner), "go").await;
    assert_eq!(failed.error.unwrap().detail["scope"], json!("again"));
    assert_eq!(bench.asked().len(), 1, "two calls would need 48");
    let tight = "  - { name: one, input: hi, limits: { max_tokens: 5 } }\n";
    assert_eq!(bench.fails(&flow("{ max_tokens: 500 }", tight), "go").await, "quota_exceeded");
}

#[tokio::test]
async fn with_nothing_left_no_iteration_starts() {
    let bench =
        Bench::new(|asked, _| json!({ "reply": asked.last(), "usage": { "input": 25, "output": 25 } }));
    let failed = bench.run(&flow("{ max_tokens: 50 }", LOOP), "go").await;
    assert_eq!(failed.error.unwrap().step.as_deref(), Some("again"));
    let steps = bench.engine.store.steps(&bench.engine.tenant, &failed.run).await.unwrap();
    assert!(!steps.iter().any(|step| step.key.starts_with("again[2]")));
}

#[tokio::test]
async fn branches_share_what_is_left_evenly() {
    let fan = "  - kind: parallel\n    name: fan\n    branches:\n      a: [{ name: a1, input: hi }, { name: a2, input: hi }]\n      b: [{ name: b1, input: hi }]\n";
    // 50 each: the second call of the first branch finds 30 left of its share, enough; at 45 each it does not.
    assert_eq!(bench().run(&flow("{ max_tokens: 100 }", fan), "go").await.status, RunStatus::Done);
    let failed = bench().run(&flow("{ max_tokens: 90 }", fan), "go").await;
    assert_eq!(failed.status, RunStatus::Failed, "though its sibling has some left");
    assert_eq!(failed.error.unwrap().detail["scope"], json!("fan.a"));
}

#[tokio::test]
async fn money_is_counted_in_whole_millionths() {
    let mut bench = bench();
    let prices =
        scrollback_agent::runner::Prices { input: Some(1.0), output: Some(2.0), ..Default::default() };
    let models = [(
        "openai-compatible:x".to_string(),
        scrollback_agent::provider::ModelSettings { prices, ..Default::default() },
    )];
    bench.engine.catalog = std::sync::Arc::new(scrollback_agent::provider::Catalog::new(
        models.into(),
        std::collections::BTreeMap::new(),
    ));
    let paid = flow("{ max_cost_usd: 0.0001 }", LOOP)
        .replace("max_output_tokens: 20", "max_output_tokens: 20, model: \"openai-compatible:x\"");
    let failed = bench.run(&paid, "go").await;
    let error = failed.error.unwrap();
    assert_eq!(error.code.as_str(), "quota_exceeded");
    // Each call costs 10 + 20 millionths; the third would need some 46 and 40 are left.
    assert_eq!((failed.usage.calls, failed.usage.cost), (2, Some(MicroDollars(60))), "{error:?}");
    assert_eq!(error.detail["unit"], json!("cost_usd"));
}

#[tokio::test]
async fn a_summary_without_room_is_left_out_and_the_run_goes_on() {
    let talk = "  - kind: loop\n    name: chat\n    loop:\n      conversation: true\n      max_loops: 4\n      history_management: { strategy: summarize, max_turns: 2, summarizer_agent: sum }\n      body: [{ name: talk, input: hi }]\n";
    let flow = flow("{ max_tokens: 131 }", talk)
        .replace("agents: {", "agents: { sum: { model: \"offline:script=sum\" },");
    let bench = bench();
    let report = bench.run(&flow, "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    assert!(
        bench.asked().iter().all(|asked| asked.model != "offline:script=sum"),
        "512 tokens of reply were too many"
    );
}
