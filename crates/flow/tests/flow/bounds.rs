//! Bounding what is sent: by turns, by tokens, by summaries, by any manager, and by what the provider takes.

use scrollback_core::Time;
use scrollback_flow::driver::RunStatus;
use serde_json::{Value, json};

use crate::support::{Asked, Bench};

fn flow(loops: u32, history: &str) -> String {
    format!(
        "version: \"1\"\nagents: {{ sum: {{ model: \"offline:script=sum\", system_prompt: Condense. }} }}\nsteps:\n  - kind: loop\n    name: chat\n    loop:\n      conversation: true\n      max_loops: {loops}\n      history_management: {history}\n      body: [{{ name: talk, input: \"next {{{{ loop.iteration }}}}\" }}]\n"
    )
}

fn bench() -> Bench {
    Bench::new(|asked, number| {
        if asked.model == "offline:script=sum" {
            json!({ "reply": format!("they talked up to {number}") })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    })
}

#[tokio::test]
async fn the_newest_turns_are_kept_by_number_and_by_tokens() {
    let by_turns = bench();
    by_turns.done(&flow(5, "{ strategy: truncate_turns, max_turns: 2 }"), "go").await;
    assert_eq!(by_turns.said()[4], ["assistant: r3", "assistant: r4", "user: next 5"]);
    let by_tokens = bench();
    by_tokens.done(&flow(5, "{ strategy: truncate_tokens, max_tokens: 13 }"), "go").await;
    assert_eq!(by_tokens.said()[4], ["assistant: r3", "assistant: r4", "user: next 5"], "six tokens each");
    let both = bench();
    both.done(&flow(5, "{ max_tokens: 100, max_turns: 1 }"), "go").await;
    assert_eq!(both.said()[4], ["assistant: r4", "user: next 5"]);
    let none = bench();
    none.done(&flow(3, "{ max_tokens: 1 }"), "go").await;
    assert_eq!(none.said()[2], ["user: next 3"], "no turn is cut; the history is empty");
}

#[tokio::test]
async fn managers_of_a_list_see_system_turns_and_input() {
    let bench = bench();
    bench.done(&flow(5, "[{ sliding_window: { window_size: 3 } }]"), "go").await;
    assert_eq!(bench.said()[4], ["assistant: r3", "assistant: r4", "user: next 5"]);
    let pinned = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    pinned.done(&flow(5, "[{ pin: { first: 1 } }, { sliding_window: { window_size: 3 } }]"), "go").await;
    assert_eq!(pinned.said()[4], ["user: go", "assistant: r3", "assistant: r4", "user: next 5"]);
}

#[tokio::test]
async fn a_summary_is_written_once_stands_first_and_is_covered_by_the_next() {
    let bench = bench();
    let report =
        bench.run(&flow(8, "{ strategy: summarize, max_turns: 4, summarizer_agent: sum }"), "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    let (sums, talks): (Vec<Asked>, Vec<Asked>) =
        bench.asked().into_iter().partition(|asked| asked.model == "offline:script=sum");
    assert!(sums.len() >= 2 && sums.len() < 6, "it is amortised: {}", sums.len());
    assert_eq!(sums[0].said()[0], "system: Condense.");
    assert!(sums[0].said()[1].starts_with("user: user: go\nassistant: r1"), "{:?}", sums[0].said());
    assert!(
        sums[1].said()[1].contains("Summary of the earlier conversation:\nthey talked up to"),
        "{:?}",
        sums[1].said()
    );
    for talk in &talks {
        let said = talk.said();
        assert!(said.len() <= 5, "bounded: {said:?}");
        assert!(said.iter().filter(|said| said.contains("Summary of the earlier")).count() <= 1);
    }
    let last = talks.last().unwrap().said();
    assert!(
        last[0].starts_with("assistant: Summary of the earlier conversation:\nthey talked up to "),
        "{last:?}"
    );
    assert_eq!(report.usage.calls as usize, bench.asked().len());
}

#[tokio::test]
async fn the_offline_summariser_needs_nobody_and_a_failing_one_harms_nobody() {
    let bench = bench();
    bench.done(&flow(6, "{ strategy: summarize, max_turns: 3 }"), "go").await;
    let last = bench.said().pop().unwrap();
    assert!(last[0].contains("- user: go") && last.len() <= 4, "{last:?}");
    let failing = Bench::new(|asked, number| {
        if asked.model == "offline:script=sum" {
            json!({ "error": { "kind": "auth", "message": "no" } })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    });
    let report =
        failing.run(&flow(6, "{ strategy: summarize, max_turns: 3, summarizer_agent: sum }"), "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    let talks: Vec<Vec<String>> =
        failing.asked().iter().filter(|asked| asked.model != "offline:script=sum").map(Asked::said).collect();
    assert_eq!(talks[5].len(), 4, "the bound holds without it: {:?}", talks[5]);
    let events = failing.engine.store.events(&failing.engine.tenant, &report.run, 0).await.unwrap();
    assert!(events.iter().any(|event| event.kind == "history.summarize_failed"));
}

#[tokio::test]
async fn after_an_overflow_the_newest_turns_that_fit_are_sent_and_the_cut_lasts() {
    let bench = Bench::new(|asked, number| {
        let turns = asked.body["messages"].as_array().map_or(0, Vec::len);
        if turns > 5 {
            json!({ "error": { "kind": "context_overflow", "message": "too long" } })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    });
    let report = bench.run(&flow(7, "{ max_turns: 100 }"), "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    let lengths: Vec<usize> = bench.said().iter().map(Vec::len).collect();
    // Five turns and the input are too many: as many stay as three quarters of the tokens have room for, and from then on
    // the history grows again.
    assert_eq!(lengths, [2, 3, 4, 5, 6, 3, 4, 5]);
    assert_eq!(bench.said()[5], ["assistant: r3", "assistant: r4", "user: next 5"]);
    assert_eq!(bench.said()[6][..2], ["assistant: r3", "assistant: r4"], "what was cut off stays cut off");
    let cut = json!({ "step": "cut", "scope": "chat", "turns": 2, "before": 5, "cut": 3 });
    assert_eq!(overflows(&bench, &report.run).await, [cut]);
    let never = Bench::new(|_, _| json!({ "error": { "kind": "context_overflow", "message": "too long" } }));
    assert_eq!(never.fails(&flow(3, "{ max_turns: 100 }"), "go").await, "context_overflow");
    assert_eq!(never.asked().len(), 2, "once with the seed, once without");
}

#[tokio::test]
async fn a_history_sent_as_text_has_fewer_turns_after_an_overflow() {
    let turns = |asked: &Asked| asked.last().matches("assistant: ").count();
    let bench = Bench::new(move |asked, number| {
        if turns(asked) > 4 {
            json!({ "error": { "kind": "context_overflow", "message": "too long" } })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    });
    let text = flow(7, "{ max_turns: 100 }").replace("agents: {", "agents: { talk: { mode: prompt },");
    let report = bench.run(&text, "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    let counts: Vec<usize> = bench.asked().iter().map(turns).collect();
    assert_eq!(counts, [0, 1, 2, 3, 4, 5, 3, 4], "the newer half of six turns, of which one is the user's");
    let cut = json!({ "step": "cut", "scope": "chat", "turns": 3, "before": 6, "cut": 3 });
    assert_eq!(overflows(&bench, &report.run).await, [cut]);
    // Without any turn left, the text is shortened; where it is short already, nothing helps.
    let never = Bench::new(|_, _| json!({ "error": { "kind": "context_overflow", "message": "too long" } }));
    assert_eq!(never.fails(&text, "go").await, "context_overflow");
    assert_eq!(never.asked().len(), 2, "once with the seed, once without");
}

#[tokio::test]
async fn every_step_of_the_ladder_is_told() {
    // The second step looks eight times; then four requests are too large.
    let bench = Bench::new(|_, number| match number {
        2..10 => json!({ "calls": [{ "name": "look", "arguments": {}, "id": format!("c{number}") }] }),
        10..14 => json!({ "error": { "kind": "context_overflow", "message": "too long" } }),
        _ => json!({ "reply": "done" }),
    });
    let long = "word ".repeat(2000);
    let flow = format!(
        "version: \"1\"\nagents: {{ talk: {{ tools: [{{ name: look, description: looks, parameters: {{ type: object }}, command: [seq, '2000'] }}] }} }}\nsteps:\n  - kind: loop\n    name: chat\n    loop: {{ conversation: true, max_loops: 2, body: [{{ name: talk, input: \"{{{{ loop.iteration }}}} {long}\" }}] }}\n"
    );
    let report = bench.run(&flow, "go").await;
    let told = overflows(&bench, &report.run).await;
    let steps: Vec<&str> = told.iter().filter_map(|told| told["step"].as_str()).collect();
    assert_eq!(steps, ["cut", "clear", "truncate", "truncate_task"], "{told:?}");
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    for told in &told[1..] {
        assert!(told["before"].as_u64() > told["after"].as_u64(), "{told}");
    }
}

/// What a run's events say about overflows.
async fn overflows(bench: &Bench, run: &str) -> Vec<Value> {
    let events = bench.engine.store.events(&bench.engine.tenant, run, 0).await.unwrap();
    let events = events.into_iter().filter(|event| event.kind == "history.overflow");
    events.map(|event| serde_json::from_str(&event.data.unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn every_request_is_kept_as_it_was_sent() {
    for mode in ["chat", "prompt"] {
        let bench = bench();
        let text = flow(9, "{ strategy: summarize, max_turns: 4, summarizer_agent: sum }");
        let text =
            text.replace("agents: {", &format!("agents: {{ talk: {{ mode: {mode}, system_prompt: Talk. }},"));
        let report = bench.run(&text, "go").await;
        let run = bench.engine.find(&report.run).await.unwrap();
        let kept = bench.engine.store.sent(&bench.engine.tenant, &run.conversation.unwrap()).await.unwrap();
        let body = |request: Option<Vec<u8>>| serde_json::from_slice(&request.unwrap()).unwrap();
        let mut kept: Vec<Value> = kept.into_iter().map(|sent| body(sent.request)).collect();
        let mut asked: Vec<Value> = bench.asked().into_iter().map(|asked| asked.body).collect();
        kept.sort_by_key(Value::to_string);
        asked.sort_by_key(Value::to_string);
        assert_eq!(kept, asked, "{mode}");
    }
}

#[tokio::test]
async fn the_calls_of_a_loop_share_what_they_have_in_common() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = scrollback_store::open(&format!("sqlite:{}", path.display()), Time(0)).await.unwrap();
    // Texts that no compression makes much smaller.
    let mut seed = 1u64;
    let mut noise = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:016x}", seed ^ (seed >> 29))
    };
    let texts: Vec<String> = (0..40).map(|_| (0..128).map(|_| noise()).collect()).collect();
    let bench = Bench::on(store, move |_, number| json!({ "reply": texts[number - 1] }));
    bench.done(&flow(40, "{ max_turns: 100 }"), "go").await;
    let sent: usize = bench.asked().iter().map(|asked| asked.body.to_string().len()).sum();
    drop(bench);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let kept: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    // Whole requests take more than what was sent, and the write-ahead log is counted too.
    assert!(kept < sent as u64, "{sent} bytes were sent, {kept} are kept");
}

#[tokio::test]
async fn the_whole_history_stays_in_the_record() {
    let bench = bench();
    let report = bench.run(&flow(6, "{ strategy: truncate_turns, max_turns: 1 }"), "go").await;
    let run = bench.engine.find(&report.run).await.unwrap();
    let record =
        bench.engine.store.record(&bench.engine.tenant, &run.conversation.unwrap(), None).await.unwrap();
    let said: Vec<Value> = record
        .slots()
        .iter()
        .filter_map(|slot| match slot {
            scrollback_core::Slot::Message(entry) => entry.content().map(Value::from),
            _ => None,
        })
        .collect();
    for turn in ["go", "r1", "r2", "r3", "r4", "r5", "r6"] {
        assert!(said.contains(&json!(turn)), "{turn}: {said:?}");
    }
}

#[tokio::test]
async fn a_list_may_summarize_and_what_it_wrote_is_used_from_then_on() {
    let managers = |more: &str| {
        format!(
            "[{{ summarize: {{ keep_recent: 2, max_entries: 4, place: assistant{more} }} }}, {{ sliding_window: {{ window_size: 6 }} }}]"
        )
    };
    let spoken = "version: \"1\"\nagents: { sum: { model: \"offline:script=sum\", system_prompt: Condense. }, talk: { system_prompt: Talk., mode: MODE } }\nsteps:\n  - kind: loop\n    name: chat\n    loop:\n      conversation: true\n      max_loops: 8\n      history_management: LIST\n      user_turn_sources: [ask]\n      body: [{ name: ask, template: \"question {{ loop.iteration }}\" }, { name: talk, input: \"{{ previous }}, please\" }]\n";
    for (mode, writer) in [
        ("chat", ", summarizer: \"offline:script=sum\""),
        ("prompt", ", summarizer: \"offline:script=sum\""),
        ("chat", ""),
        ("prompt", ""),
    ] {
        let bench = bench();
        let flow = spoken.replace("MODE", mode).replace("LIST", &managers(writer));
        let report = bench.run(&flow, "go").await;
        assert_eq!(report.status, RunStatus::Done, "{report:?}");
        let (sums, talks): (Vec<Asked>, Vec<Asked>) =
            bench.asked().into_iter().partition(|asked| asked.model == "offline:script=sum");
        let last = talks.last().unwrap().said().join("\n");
        if writer.is_empty() {
            assert!(sums.is_empty() && last.contains("- user: go"), "{mode}: {last}");
        } else {
            assert!(
                sums.len() >= 2 && sums.len() < 8,
                "{mode}: written now and then, not every time: {}",
                sums.len()
            );
            assert!(sums[0].said()[0].starts_with("system: You are given part"), "{:?}", sums[0].said());
            assert!(sums[0].said()[1].contains("user: go"), "{:?}", sums[0].said());
            assert!(
                sums[1].said()[1].contains("they talked up to"),
                "the earlier one is condensed too: {:?}",
                sums[1].said()
            );
            assert!(last.contains("they talked up to") && !last.contains("user: go\n"), "{mode}: {last}");
        }
        assert_eq!(last.matches("question 8").count(), 2, "the turn, and the input that quotes it: {last}");
        assert_eq!(report.usage.calls as usize, bench.asked().len(), "every call is counted");
        let run = bench.engine.find(&report.run).await.unwrap();
        let tenant = &bench.engine.tenant;
        let lens = scrollback_flow::lens::Lens {
            store: &bench.engine.store,
            tenant,
            redactor: &bench.engine.redactor,
            reveal: scrollback_flow::lens::Reveal::Redacted,
            now: bench.engine.clock.now(),
        };
        let shown = lens.show(&run, None).await.unwrap();
        assert!(!shown["conversations"][0]["summaries"].as_array().unwrap().is_empty(), "{shown}");
        let prompts = lens
            .prompt(&run, "chat[8]/talk", scrollback_flow::lens::WithBody::Messages)
            .await
            .unwrap()
            .unwrap();
        let call = &prompts["calls"][0];
        let sources: Vec<&str> =
            call["messages"].as_array().unwrap().iter().map(|m| m["source"].as_str().unwrap()).collect();
        assert_eq!(call["conversation_injected"], json!(true));
        if mode == "chat" {
            assert_eq!(
                sources.iter().filter(|source| **source == "summary").count(),
                1,
                "{sources:?} {call}"
            );
        }
        let trace = lens.trace(&run).await.unwrap();
        let has = |part: &str| {
            trace["spans"]
                .as_array()
                .unwrap()
                .iter()
                .any(|span| span["key"].as_str().unwrap_or("").contains(part))
        };
        assert_eq!(has("~summarize"), !writer.is_empty(), "a summariser's call has a trace of its own");
        let kinds: Vec<&str> =
            trace["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"history.summarized"), "{kinds:?}");
    }
}

#[tokio::test]
async fn a_summary_of_a_list_that_fails_harms_nobody_and_an_unknown_writer_is_refused() {
    let failing = Bench::new(|asked, number| {
        if asked.model == "offline:script=sum" {
            json!({ "error": { "kind": "auth", "message": "no" } })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    });
    let list = "[{ summarize: { ratio: 0.5, max_entries: 3, summarizer: \"offline:script=sum\" } }, { sliding_window: { window_size: 4 } }]";
    let report = failing.run(&flow(6, list), "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    let talks: Vec<Vec<String>> =
        failing.asked().iter().filter(|asked| asked.model != "offline:script=sum").map(Asked::said).collect();
    assert_eq!(talks[5].len(), 4, "the window holds without it: {:?}", talks[5]);
    let events = failing.engine.store.events(&failing.engine.tenant, &report.run, 0).await.unwrap();
    assert!(events.iter().any(|event| event.kind == "history.summarize_failed"));
    for (writer, code) in [("somebody", "out_of_range"), ("gemini:gemini-2.5-pro", "unknown_value")] {
        let problems = failing.problems(&flow(
            2,
            &format!("[{{ summarize: {{ keep_recent: 1, summarizer: \"{writer}\" }} }}]"),
        ));
        assert!(problems.contains(code), "{writer}: {problems}");
    }
}
