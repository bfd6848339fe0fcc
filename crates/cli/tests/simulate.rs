//! `scrollback simulate` as people and scripts meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use crate::support::{Run, folder, scrollback_in};
use serde_json::{Value, json};

/// An agent that looks up many orders and comes back to the first.
fn orders(rounds: usize) -> Value {
    let mut messages = vec![
        json!({ "role": "system", "content": "You look up orders." }),
        json!({ "role": "user", "content": "Look up every order, then cancel the first." }),
    ];
    let call = |round: usize, name: &str, arguments: Value| {
        json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": format!("call_{round}"), "type": "function", "function": { "name": name, "arguments": arguments.to_string() } },
        ] })
    };
    for round in 0..rounds {
        messages.push(call(round, "look_up", json!({ "order_id": format!("W{}", 4000 + round) })));
        let filler = "Nothing else is known about this order, which is on its way to its buyer. ".repeat(6);
        let result = json!({
            "order_id": format!("W{}", 4000 + round), "payment_id": format!("card_{}", 7000 + round), "note": filler,
            "next": format!("W{}", 4001 + round),
        });
        messages.push(
            json!({ "role": "tool", "tool_call_id": format!("call_{round}"), "content": result.to_string() }),
        );
    }
    messages.push(call(rounds, "cancel", json!({ "order_id": "W4000", "payment_id": "card_7000" })));
    Value::from(messages)
}

fn simulate(folder: &Path, args: &[&str]) -> Run {
    let mut all = vec!["simulate"];
    all.extend(args);
    scrollback_in(folder, &all, b"")
}

fn recorded(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    std::fs::create_dir_all(folder.join("logs/deep")).unwrap();
    std::fs::write(folder.join("logs/one.json"), orders(30).to_string()).unwrap();
    std::fs::write(folder.join("logs/deep/two.json"), orders(12).to_string()).unwrap();
    folder
}

#[test]
fn every_candidate_is_measured_on_every_transcript_of_a_folder() {
    let folder = recorded("simulate-folder");
    let run = simulate(
        &folder,
        &[
            "logs",
            "-m",
            "passthrough",
            "-m",
            "auto(B)",
            "-m",
            "token_budget(B)",
            "--budgets",
            "2k,4_000",
            "--model",
            "openai:gpt-4o",
            "--json",
        ],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let report = run.json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), ["model", "transcripts", "total", "failed"]);
    assert_eq!(report["model"], "openai:gpt-4o");
    assert_eq!(keys(&report["transcripts"][0]), ["file", "conversation", "calls", "managers"]);
    let files: Vec<&str> =
        report["transcripts"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["logs/deep/two.json", "logs/one.json"]);
    assert_eq!(report["transcripts"][1]["calls"], 31);
    let total = report["total"].as_array().unwrap();
    let names: Vec<&str> = total.iter().map(|one| one["manager"].as_str().unwrap()).collect();
    assert_eq!(names, ["passthrough", "auto(2k)", "auto(4k)", "token_budget(2k)", "token_budget(4k)"]);
    let wanted = [
        "manager",
        "input_tokens",
        "cache_read",
        "cache_write",
        "cost_usd",
        "cost_ratio",
        "peak",
        "cuts",
        "dropped_tokens",
        "rewritten",
        "argument_retention",
        "answer_grounding",
        "at_cut",
        "task_kept",
        "violations",
        "infeasible",
        "ms_p50",
        "ms_p99",
    ];
    assert_eq!(keys(&total[0]), wanted);
    let (all, auto, newest) = (&total[0], &total[1], &total[3]);
    assert_eq!((&all["cost_ratio"], &all["cuts"], &all["violations"]), (&json!(1.0), &json!(0), &json!(0)));
    assert!(auto["peak"].as_u64().unwrap() <= 2000 && newest["peak"].as_u64().unwrap() <= 2000);
    let kept = |one: &Value| one["at_cut"]["argument_retention"].as_f64().unwrap();
    assert!(kept(auto) > kept(newest), "auto keeps more: {} and {}", kept(auto), kept(newest));
    assert!(auto["cuts"].as_u64().unwrap() < newest["cuts"].as_u64().unwrap());
}

#[test]
fn a_transcript_that_cannot_be_read_is_named_and_the_rest_goes_on() {
    let folder = recorded("simulate-broken");
    std::fs::write(folder.join("logs/broken.json"), "{\"messages\": [").unwrap();
    std::fs::write(folder.join("logs/binary.json"), [0xff, 0xfe, 0x00, 0x01]).unwrap();
    let run = simulate(&folder, &["logs", "-m", "sliding_window(4)", "--json"]);
    assert_eq!(run.code, 4, "{run:?}");
    let report = run.json();
    assert_eq!(
        (report["failed"].as_array().unwrap().len(), report["transcripts"].as_array().unwrap().len()),
        (2, 2)
    );
    assert_eq!(report["failed"][1]["file"], "logs/broken.json");
    assert!(
        report["failed"][1]["problem"].as_str().is_some_and(|problem| !problem.contains("logs/")),
        "{report}"
    );
    let missing = simulate(&folder, &["nowhere", "-m", "passthrough"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (1, "error: nowhere: no such file or directory\n"));
    let unknown = simulate(&folder, &["logs", "-m", "slidin_window(4)"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn the_table_has_the_usual_field_and_says_which_one_to_take() {
    let folder = recorded("simulate-table");
    let run = simulate(&folder, &["logs", "--budgets", "2k", "--model", "openai:gpt-4o"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    for name in [
        "passthrough",
        "fit",
        "sliding_window(20)",
        "tool_result_truncator(2000)",
        "clear_tool_results(3)",
        "sticky(token_budget(2k))",
        "auto(2k)",
    ] {
        assert!(run.stdout.contains(name), "{name} is in {}", run.stdout);
    }
    let advice = run.stdout.lines().last().unwrap();
    assert!(advice.starts_with("Take ") && advice.contains("[server] managers = ["), "{advice}");
    assert!(run.stdout.lines().any(|line| line.starts_with("* ")), "{}", run.stdout);
    let unpriced = simulate(&folder, &["logs", "-m", "passthrough"]);
    assert!(unpriced.stderr.contains("no model is named: costs are relative"), "{unpriced:?}");
}

#[test]
fn the_page_needs_nothing_else_and_the_rows_of_the_csv_are_whole() {
    let folder = recorded("simulate-files");
    let run = simulate(
        &folder,
        &[
            "logs",
            "-m",
            "auto(2k)",
            "-m",
            "[\"clear_tool_results(2)\", \"fit(window=3000)\"]",
            "--html",
            "page.html",
            "--csv",
            "-",
        ],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let rows: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 2 * 2 + 2, "{}", run.stdout);
    assert!(
        rows[0].starts_with("file,conversation,manager,calls,") && rows[5].starts_with(",total,auto(2k),")
    );
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("auto(2k)"));
    for outside in ["http://", "https://", "src=", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside} is in the page");
    }
    assert!(page.contains("[&quot;clear_tool_results(2)&quot;"), "names are escaped");
}

#[test]
fn what_was_lost_is_listed_with_the_call_the_place_and_the_reason() {
    let folder = recorded("simulate-lost");
    let run =
        simulate(&folder, &["logs/one.json", "-m", "token_budget(2k)", "--lost", "--model", "openai:gpt-4o"]);
    assert_eq!(run.code, 0, "{run:?}");
    let line = run.stdout.lines().find(|line| line.contains("card_7000")).unwrap();
    assert_eq!(
        line,
        "  card_7000  needed by an argument at logs/one.json#62, recorded at logs/one.json#3, left out by token_budget (over_budget)"
    );
}

#[test]
fn without_a_path_the_conversations_of_the_store_are_replayed() {
    let folder = recorded("simulate-store");
    let imported = scrollback_in(&folder, &["import", "logs/one.json", "logs/deep/two.json"], b"");
    assert_eq!(imported.code, 0, "{imported:?}");
    let run = simulate(&folder, &["-m", "token_budget(2k)", "--lost", "--json", "--model", "openai:gpt-4o"]);
    assert_eq!(run.code, 0, "{run:?}");
    let report = run.json();
    let transcripts = report["transcripts"].as_array().unwrap();
    assert_eq!(transcripts.len(), 2);
    assert_eq!(transcripts[0]["file"], Value::Null);
    let lost = transcripts.iter().flat_map(|one| one["managers"][0]["lost"].as_array().unwrap());
    let lost: Vec<&Value> = lost.filter(|lost| lost["value"] == "card_7000").collect();
    assert!(
        lost[0]["stood_at"].as_str().is_some_and(|place| place.starts_with("sb:") && place.ends_with("#3")),
        "{lost:?}"
    );
    let one = simulate(&folder, &["-m", "passthrough", "--limit", "1", "--json"]);
    assert_eq!(one.json()["transcripts"].as_array().unwrap().len(), 1);
    let none = simulate(&folder, &["-m", "passthrough", "--since", "2999-01-01T00:00:00Z"]);
    assert!(none.stdout.contains("no calls to replay"), "{none:?}");
    let sampled = |seed: &str| {
        simulate(&folder, &["logs", "-m", "passthrough", "--sample", "1", "--seed", seed, "--json"]).json()["transcripts"][0]["file"].clone()
    };
    assert_eq!(sampled("7"), sampled("7"));
}

/// A candidate's figures in a report.
fn figures<'r>(report: &'r Value, file: &str) -> &'r Value {
    let all = report["transcripts"].as_array().unwrap();
    let found = all.iter().find(|one| one["file"].as_str().is_some_and(|name| name.ends_with(file)));
    &found.unwrap_or_else(|| panic!("{file} in {report}"))["managers"][0]
}

#[test]
fn bad_input_is_named_by_file_and_line_and_what_can_be_read_is_replayed() {
    let folder = folder("simulate-bad");
    std::fs::create_dir_all(folder.join("logs")).unwrap();
    let logs = folder.join("logs");
    // Cut in the middle of its fifth line, as by a full disk.
    let whole =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/transcript/claude-code/compaction.jsonl");
    let text = std::fs::read_to_string(whole).unwrap();
    let lines: Vec<&str> = text.lines().take(5).collect();
    let (last, before) = lines.split_last().unwrap();
    std::fs::write(logs.join("cut.jsonl"), format!("{}\n{}", before.join("\n"), &last[..last.len() / 2]))
        .unwrap();
    // Larger than is read; nothing of it lies on the disk.
    let huge = std::fs::File::create(logs.join("huge.jsonl")).unwrap();
    huge.set_len(500 << 20).unwrap();
    // A hundred thousand identifiers in one line.
    let many: Vec<String> = (0..100_000).map(|number| format!("id_{number}")).collect();
    let messages = json!([
        { "role": "user", "content": format!("Keep these: {}", many.join(" ")) },
        { "role": "assistant", "content": "I keep id_7." },
        { "role": "user", "content": "And now?" },
        { "role": "assistant", "content": "The one is id_99999." },
    ]);
    std::fs::write(logs.join("many.json"), messages.to_string()).unwrap();
    // Other writing systems.
    let scripts = json!([
        { "role": "user", "content": "請記住「訂單號」`訂單_4711`。احفظ `رقم_الطلب`. Запомни `заказ_12`. `आदेश_9` याद रखें।" },
        { "role": "assistant", "content": "好的" },
        { "role": "user", "content": "现在呢?" },
        { "role": "assistant", "content": "`訂單_4711`, `رقم_الطلب`, `заказ_12`, `आदेश_9`" },
    ]);
    std::fs::write(logs.join("scripts.json"), scripts.to_string()).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&logs, logs.join("again")).unwrap();
    let run = simulate(&folder, &["logs", "-m", "auto(4k)", "--json", "--model", "openai:gpt-4o"]);
    assert_eq!(run.code, 4, "{run:?}");
    let report = run.json();
    let failed: Vec<(&str, u64)> = report["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["file"].as_str().unwrap(), one["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(failed, [("logs/cut.jsonl", 5), ("logs/huge.jsonl", 0)]);
    let problem = report["failed"][1]["problem"].as_str().unwrap();
    assert_eq!(problem, "524288000 bytes are more than the 268435456 that are read of one file; split it");
    assert!(
        figures(&report, "cut.jsonl")["input_tokens"].as_u64().unwrap() > 0,
        "the lines before are replayed"
    );
    assert!(figures(&report, "many.json")["input_tokens"].as_u64().unwrap() > 0);
    // All four names were said and are still there.
    assert_eq!(figures(&report, "scripts.json")["answer_grounding"], 1.0);
    assert_eq!(
        report["transcripts"].as_array().unwrap().len(),
        3,
        "a link to a folder above is not followed again"
    );
}

#[test]
fn a_limit_below_what_must_stay_and_unknown_models_say_so() {
    let folder = recorded("simulate-limits");
    let tight =
        simulate(&folder, &["logs", "-m", "auto(10)", "-m", "passthrough", "--model", "openai:gpt-4o"]);
    assert_eq!(tight.code, 0, "{tight:?}");
    assert!(
        tight.stdout.contains("auto(10): 44 calls whose protected part alone is above the budget"),
        "{tight:?}"
    );
    let advice = tight.stdout.lines().last().unwrap();
    assert!(
        advice.starts_with("Take passthrough: it keeps "),
        "what never fits is not recommended: {advice}"
    );
    let unknown = simulate(&folder, &["logs", "-m", "passthrough", "--model", "openai:no-such-model"]);
    assert_eq!(unknown.code, 0, "{unknown:?}");
    assert!(
        unknown.stderr.contains("the prices of openai:no-such-model are not known: costs are relative"),
        "{unknown:?}"
    );
    let nonsense = simulate(&folder, &["logs", "-m", "passthrough", "--model", "nobody:x"]);
    assert_eq!(nonsense.code, 2, "{nonsense:?}");
}

#[test]
fn a_sample_is_drawn_from_all_conversations_of_the_store() {
    let folder = folder("simulate-sample");
    for (number, rounds) in (1..=5).zip(2..) {
        std::fs::write(folder.join(format!("{number}.json")), orders(rounds).to_string()).unwrap();
    }
    let imported = scrollback_in(&folder, &["import", "1.json", "2.json", "3.json", "4.json", "5.json"], b"");
    assert_eq!(imported.code, 0, "{imported:?}");
    let drawn = |seed: u64| {
        let seed = seed.to_string();
        let run = simulate(&folder, &["-m", "passthrough", "--sample", "1", "--seed", &seed, "--json"]);
        run.json()["transcripts"][0]["conversation"].as_str().unwrap().to_string()
    };
    let all: std::collections::BTreeSet<String> = (1..=8).map(drawn).collect();
    assert!(all.len() > 1, "eight seeds draw different conversations of five: {all:?}");
    assert_eq!(drawn(3), drawn(3));
}
