//! Every manager at its edges: one test for each row of the managers' table, one line for each edge.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use scrollback_core::model::ModelName;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{
    CurationContext, CurationError, ItemSource, Record, Tools, View, json, manager, settle_offline,
};
use serde_json::{Value, json};

/// Messages in a shorthand, separated by spaces: `s`, `u`, `a` are plain messages, `a[x,y]` has calls, `t(x)` is a
/// result, and `=text` gives a text (`_` for a space, `*50` for fifty letters). The tool of call `x` is `f_x`.
fn messages(shorthand: &str) -> Vec<Value> {
    shorthand
        .split_whitespace()
        .map(|word| {
            let (head, text) = word.split_once('=').unwrap_or((word, "hello"));
            let text = match text.strip_prefix('*') {
                Some(count) => "x".repeat(count.parse().unwrap()),
                None => text.replace('_', " "),
            };
            let role = match &head[..1] {
                "s" => "system",
                "u" => "user",
                "a" => "assistant",
                _ => "tool",
            };
            let mut message = json!({ "role": role, "content": text });
            let ids = head[1..].trim_matches(['[', ']', '(', ')']);
            if head.contains('[') {
                let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": format!("f_{id}"), "arguments": "{}" } });
                message["content"] = Value::Null;
                message["tool_calls"] = ids.split(',').map(call).collect();
            } else if role == "tool" {
                message["tool_call_id"] = ids.into();
            }
            message
        })
        .collect()
}

fn record(shorthand: &str) -> Record {
    let body = Value::Array(messages(shorthand)).to_string();
    let mut record = Record::new();
    for entry in
        Wire::OpenaiChat.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap().entries
    {
        record.append(entry).unwrap();
    }
    record
}

fn strict() -> CurationContext {
    CurationContext { preserve_task: false, ..CurationContext::default() }
}

fn shown(view: &View<'_>) -> String {
    let positions = view.items().map(|item| match item.source {
        ItemSource::Entry(position) if item.is_changed() => format!("{position}~"),
        ItemSource::Entry(position) => position.to_string(),
        ItemSource::Summary { .. } | ItemSource::Ledger { .. } => "summary".into(),
        ItemSource::Interrupted { call_id } => format!("+{call_id}"),
    });
    positions.collect::<Vec<_>>().join(" ")
}

/// Asserts what `manager` shows of `history`, by position; `~` marks a changed entry.
#[track_caller]
fn expect_in(cx: &CurationContext, history: &str, manager: &str, wanted: &str) {
    let manager_value = manager::parse(manager).unwrap_or_else(|error| panic!("{manager}: {error}"));
    let mut record = record(history);
    settle_offline(&mut record, cx, &*manager_value, scrollback_core::Time::default()).unwrap();
    let view =
        record.view(cx, &*manager_value).unwrap_or_else(|error| panic!("{manager} on {history}: {error}"));
    assert_eq!(shown(&view), wanted, "{manager} on {history}");
}

#[track_caller]
fn expect(history: &str, manager: &str, wanted: &str) {
    expect_in(&CurationContext::default(), history, manager, wanted);
}

#[track_caller]
fn expect_strict(history: &str, manager: &str, wanted: &str) {
    expect_in(&strict(), history, manager, wanted);
}

#[test]
fn every_manager_takes_an_empty_list_no_lead_two_leads_and_a_system_entry_in_the_middle() {
    for manager in [
        "passthrough",
        "sliding_window(2)",
        "turn_window(1)",
        "token_budget(1000)",
        "tool_result_truncator",
        "clear_tool_results",
        "active_tools([f_x])",
        "pin(first=1)",
        "trajectory_window",
        "summarize",
        "relevant(1000)",
        "sticky(sliding_window(5))",
        "fit(window=1000)",
        "compose",
        "observed(passthrough)",
    ] {
        expect("", manager, "");
        expect("s s=two", manager, "0 1");
        expect("u a", manager, "0 1");
    }
    expect("s s=two u a u", "sliding_window(1)", "0 1 4");
    expect("s u a s=late a u", "sliding_window(1)", "0 5");
    expect("s u a s=late a u", "sliding_window(3)", "0 3 4 5");
}

#[test]
fn sliding_window() {
    expect("s u a u a", "sliding_window(0)", "0 3");
    expect_strict("s u a u a", "sliding_window(0)", "0");
    // A window below the newest group takes nothing from it, and no hole is skipped.
    expect_strict("s u a[x] t(x)", "sliding_window(1)", "0");
    expect_strict("s u a[x] t(x) a", "sliding_window(2)", "0 4");
    expect_strict("s u a[x] t(x) a", "sliding_window(3)", "0 2 3 4");
    expect("u a[x] t(x)", "sliding_window(1)", "0 1 2");
    let cx = CurationContext { preserve_last_n: Some(3), ..strict() };
    expect_in(&cx, "s u a a[x] t(x) a", "sliding_window(0)", "0 3 4 5");
    let cx = CurationContext { preserve_system: false, ..strict() };
    expect_in(&cx, "s u a", "sliding_window(2)", "1 2");
}

#[test]
fn turn_window() {
    expect("s a=greeting u a u a", "turn_window(2)", "0 1 2 3 4 5");
    expect("s a=greeting u a u a", "turn_window(1)", "0 4 5");
    expect_strict("a a a", "turn_window(1)", "0 1 2");
    expect_strict("a a a", "turn_window(0)", "");
    // A group belongs to the turn of its call.
    expect("u a[x] u=more t(x) a", "turn_window(1)", "2 4");
}

#[test]
fn token_budget() {
    // By o200k: "hello" is 1 token, so a plain message is 5, and the request 3 more.
    expect("s u a u", "token_budget(18)", "0 2 3");
    expect("s u a u", "token_budget(17)", "0 3");
    expect("s u a u", "token_budget(13)", "0 3");
    expect("s u a u", "token_budget(20, reserve=2)", "0 2 3");
    let record = record("s u a u");
    let budget = manager::parse("token_budget(12)").unwrap();
    let error = record.view(&CurationContext::default(), &*budget).unwrap_err();
    assert_eq!(error, CurationError::BudgetTooSmall { needed: 13, budget: 12 });
    // The first group that does not fit ends the walk: no holes.
    expect("u a a=*400 a u", "token_budget(50)", "3 4");
    // Tools on offer are part of the request.
    let tools = Tools::defined(
        scrollback_core::wire::Wire::OpenaiChat,
        vec!["f".into()],
        vec![r#"{"type":"function"}"#.into()],
    );
    let cx = CurationContext { tools: Some(tools), ..CurationContext::default() };
    let error = record.view(&cx, &*manager::parse("token_budget(13)").unwrap()).unwrap_err();
    assert!(matches!(error, CurationError::BudgetTooSmall { needed: 24..=26, budget: 13 }), "{error:?}");
}

#[test]
fn tool_result_truncator() {
    expect("u=*9000 a[x] t(x)=*2000 a=*9000", "tool_result_truncator", "0 1 2 3");
    expect("u a[x] t(x)=*2001 a", "tool_result_truncator", "0 1 2~ 3");
    // Truncation before a count changes what is counted.
    expect("u a[x] t(x)=*4000 a u", "compose(tool_result_truncator(10), token_budget(60))", "0 1 2~ 3 4");
    expect("u a[x] t(x)=*4000 a u", "compose(token_budget(60), tool_result_truncator(10))", "3 4");
}

#[test]
fn clear_tool_results() {
    let rounds = "u a[x] t(x)=*50 a[y] t(y)=*50 a[z] t(z)=*50 a";
    expect(rounds, "clear_tool_results(1)", "0 1 2~ 3 4~ 5 6 7");
    expect(rounds, "clear_tool_results(0)", "0 1 2~ 3 4~ 5 6~ 7");
    expect(rounds, "clear_tool_results(1, exclude_tools=[f_z])", "0 1 2~ 3 4 5 6 7");
    expect(rounds, "clear_tool_results(9)", "0 1 2 3 4 5 6 7");
    // Results the model has not seen yet stay, and so do those no longer than the placeholder.
    expect("u a[x] t(x)=*50 a[y] t(y)=*50", "clear_tool_results(0)", "0 1 2~ 3 4");
    expect_strict("u a[x] t(x)=*50 a[y] t(y)=*50", "clear_tool_results(0)", "0 1 2~ 3 4");
    expect("u a[x] t(x)=*21 a[y] t(y)=*22 a", "clear_tool_results(0)", "0 1 2 3 4~ 5");
    // Pinned groups are neither cleared nor counted.
    expect(rounds, "[\"pin(first=2)\", \"clear_tool_results(0)\"]", "0 1 2 3 4~ 5 6~ 7");
    // Of parallel results some may be cleared and some not.
    expect("u a[x,y,z] t(x)=*50 t(y)=*50 t(z)=*50 a", "clear_tool_results(2)", "0 1 2~ 3 4 5");
}

#[test]
fn active_tools() {
    expect("u a[x] t(x) a[y] t(y) a", "active_tools([f_y])", "0 3 4 5");
    expect("u a[x,y] t(x) t(y) a", "active_tools([f_y])", "0 1 2 3 4");
    expect("u a[x] t(x)", "active_tools([f_y])", "0 1 2");
    expect_strict("u a[x] t(x)", "active_tools([])", "0");
    let cx = CurationContext { tools: Some(Tools::named(vec!["f_y".into()])), ..CurationContext::default() };
    expect_in(&cx, "u a[x] t(x) a", "active_tools", "0 3");
    let unknown = record("u a[x] t(x) a");
    let view = unknown.view(&CurationContext::default(), &*manager::parse("active_tools").unwrap()).unwrap();
    assert_eq!(view.warnings()[0].code, "no_tool_list");
}

#[test]
fn pin() {
    expect("s u a u a u", "[\"pin(first=2)\", \"sliding_window(1)\"]", "0 1 2 5");
    expect_strict("s u a[x] t(x) u", "[\"pin(first=2)\", \"sliding_window(0)\"]", "0 1 2 3");
    expect_strict(
        "u a[x] t(x) a u",
        "[\"pin(where={\\\"tool\\\": \\\"f_x\\\"})\", \"sliding_window(0)\"]",
        "1 2",
    );
    expect_strict(
        "u=one a=two u=one a",
        r#"[{"pin":{"where":{"role":"user","contains":"one"}}},{"sliding_window":0}]"#,
        "0 2",
    );
    // What an earlier manager dropped stays dropped.
    expect("u a u a u", "[\"sliding_window(1)\", \"pin(first=2)\", \"sliding_window(0)\"]", "4");
    // Pinned groups are not rewritten.
    expect(
        "u a[x] t(x)=*99 a[y] t(y)=*99 a",
        "[\"pin(first=2)\", \"tool_result_truncator(5)\"]",
        "0 1 2 3 4~ 5",
    );
}

#[test]
fn trajectory_window() {
    // Steps: u 1, a[x] 1 + t 1, a 1. First one, last one, and what fits between.
    let steps = "u=q a[x] t(x) a u a[y] t(y) a";
    expect(steps, "trajectory_window(8)", "0 1 2 3 4 5 6 7");
    expect(steps, "trajectory_window(7, preserve_first=1, preserve_last=1)", "0 3 4 5 6 7");
    expect(steps, "trajectory_window(3, preserve_first=1, preserve_last=2)", "0 4 5 6 7");
    expect_strict(steps, "trajectory_window(3, preserve_first=2, preserve_last=0)", "0 1 2");
    expect_strict("u a u a", "trajectory_window(1)", "0");
}

#[test]
fn summarize() {
    let turns = "s u=one a=1 u=two a=2 u=three a=3";
    expect(turns, "summarize(max_turns=3)", "0 1 2 3 4 5 6");
    expect(turns, "summarize(max_turns=2, keep_recent=1)", "0 summary 5 6");
    expect(turns, "summarize(max_turns=2, keep_recent=1, place=assistant)", "0 summary 5 6");
    expect(turns, "summarize(max_turns=2)", "0 1 2 3 4 5 6");
    expect(turns, "summarize(max_turns=2, keep_recent=0)", "0 summary 5");
    expect(turns, "summarize(max_entries=5, ratio=0.5)", "0 summary 4 5 6");
    expect(turns, "summarize(max_entries=6, ratio=0.5)", "0 1 2 3 4 5 6");
    expect(turns, "summarize(max_tokens=10, ratio=0.01)", "0 summary 2 3 4 5 6");
    // A protected group is never covered, and the summary never dropped.
    expect(turns, "[\"pin(first=1)\", \"summarize(max_turns=2, keep_recent=1)\"]", "0 summary 1 5 6");
    expect(turns, "[\"summarize(max_turns=2, keep_recent=1)\", \"sliding_window(0)\"]", "0 summary 5");
    expect(
        turns,
        "[\"summarize(max_turns=2, keep_recent=1, place=assistant)\", \"sliding_window(0)\"]",
        "0 summary 5",
    );
}

#[test]
fn relevant() {
    let talk =
        "s=Be_brief. u=my_passport_is_X123 a=noted u=nice_weather_today a=yes_indeed u=which_passport?";
    expect(talk, "relevant(38, weights={\"match\": 1, \"recency\": 0})", "0 1 2 4 5");
    expect(talk, "relevant(32, weights={\"match\": 1, \"recency\": 0})", "0 1 4 5");
    expect(talk, "relevant(32, weights={\"match\": 0, \"recency\": 1})", "0 3 4 5");
    // A group that does not fit is skipped, not the end.
    expect("u=alpha_*  a=*900 u=alpha", "relevant(30)", "0 2");
    expect("u a", "relevant(1000)", "0 1");
}

#[test]
fn sticky() {
    expect("u a u a u", "sticky(sliding_window(4), low=2)", "3 4");
    expect("u a u a u a u", "sticky(sliding_window(4), low=2)", "3 4 5 6");
    expect("u=one a u=two a u=three a", "sticky(turn_window(2), low=1)", "4 5");
    // The held task counts: 3 + system 5 + held 5 + newest 5.
    expect("s u a u a", "sticky(token_budget(23), low=14)", "0 3 4");
    expect("s u a u a u", "sticky(token_budget(23), low=14)", "0 3 4 5");
    expect(
        "u a[x] t(x) a[y] t(y) a",
        "sticky(trajectory_window(5, preserve_first=1, preserve_last=1), low=3)",
        "0 5",
    );
    let record = record("s u=*40 a u");
    let sticky = manager::parse("sticky(token_budget(12))").unwrap();
    let error = record.view(&CurationContext::default(), &*sticky).unwrap_err();
    assert_eq!(error, CurationError::BudgetTooSmall { needed: 13, budget: 12 });
    // The task of the time of the cut is held for as long as the epoch lasts.
    expect("u=task a a a a", "sticky(sliding_window(3), low=1)", "0 3 4");
}

#[test]
fn fit() {
    // Past the window the cut goes to the low mark, three fifths, at once.
    expect("s u a u", "fit(window=18, reserve=0)", "0 3");
    expect("s u a u", "fit(window=23, reserve=0)", "0 1 2 3");
    let view_of = |cx: &CurationContext, text: &str| {
        let record = record("s u a u");
        record
            .view(cx, &*manager::parse(text).unwrap())
            .map(|view| (shown(&view), view.explain().dropped.first().map(|drop| drop.manager.clone())))
    };
    assert_eq!(
        view_of(&CurationContext::default(), "fit(window=18, reserve=0)").unwrap().1.as_deref(),
        Some("fit")
    );
    assert_eq!(
        view_of(&CurationContext::default(), "fit").unwrap_err(),
        CurationError::UnknownModel { model: None }
    );
    let gpt = CurationContext::for_model(Some(ModelName::parse("openai:gpt-4o").unwrap()));
    assert_eq!(view_of(&gpt, "fit").unwrap().0, "0 1 2 3");
    let nobody = || Some(ModelName::parse("openai-compatible:nobody").unwrap());
    let error = view_of(&CurationContext::for_model(nobody()), "fit").unwrap_err();
    assert_eq!(error, CurationError::UnknownModel { model: Some("openai-compatible:nobody".into()) });
    let mut configured = CurationContext::for_model(nobody());
    configured.windows.insert("openai-compatible:nobody".into(), 1000);
    assert_eq!(view_of(&configured, "fit").unwrap().0, "0 1 2 3");
}

#[test]
fn compose() {
    expect("s u a u a u a", "[\"turn_window(2)\", \"sliding_window(1)\"]", "0 5 6");
    expect("s u a", "[]", "0 1 2");
    expect("s u a u", "compose(compose(turn_window(1)), passthrough)", "0 3");
}

#[test]
fn observed() {
    let history = record("s u a[x] t(x)=*3000 a u");
    let manager = manager::parse(
        "observed([\"tool_result_truncator(100)\", \"sliding_window(4)\"], prompt_name=answer)",
    )
    .unwrap();
    let view = history.view(&CurationContext::default(), &*manager).unwrap();
    let event = serde_json::to_value(&view.events()[0]).unwrap();
    assert_eq!(event["event"], "HistoryCurated");
    assert_eq!(event["prompt_name"], "answer");
    assert_eq!((&event["original_count"], &event["curated_count"]), (&json!(6), &json!(5)));
    assert_eq!((&event["dropped"], &event["changed"]), (&json!(1), &json!(1)));
    assert_eq!(event["strategy"], "compose");
    assert_eq!(event["tokens_after"], json!(view.count(&CurationContext::default()).total));
    assert!(event["tokens_before"].as_u64() > event["tokens_after"].as_u64());
    assert_eq!(event["session_id"], Value::Null);
    let empty = Record::new();
    let view =
        empty.view(&CurationContext::default(), &*manager::parse("observed(passthrough)").unwrap()).unwrap();
    assert_eq!(view.events()[0].original_count, 0);
}

#[test]
fn a_factor_scales_estimates_and_leaves_exact_counts_alone() {
    use scrollback_core::tokens::Factor;
    use scrollback_core::{Entry, Role};
    let mut record = Record::new();
    record.append(Entry::text(Role::User, &"word ".repeat(100))).unwrap();
    let total = |model: &str, factor: f64| {
        let mut cx = CurationContext::for_model(Some(ModelName::parse(model).unwrap()));
        cx.counter = cx.counter.with_factor(Factor::of(factor));
        record.view(&cx, &manager::Passthrough).unwrap().count(&cx).per_entry[0]
    };
    let estimate = total("anthropic:claude-sonnet-4-5", 1.0);
    assert_eq!(total("anthropic:claude-sonnet-4-5", 2.0), estimate * 2);
    assert_eq!(total("openai:gpt-4o", 2.0), total("openai:gpt-4o", 1.0));
}
