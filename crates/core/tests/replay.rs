//! Replaying conversations: cuts as the proxy makes them, costs, and what was lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scrollback_core::manager::SharedManager;
use scrollback_core::model::ModelName;
use scrollback_core::replay::{Candidate, Needs, RepeatedCall, Seen, Tally, course, simulate};
use scrollback_core::request::{
    CallerRequest as Wanted, Carries, ClientBody, Invalid, Policy, RequestTokens, Stamp, news, prepare,
};
use scrollback_core::tokens::Calibration;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{
    CurationContext, Decision, Entry, Meta, Record, Role, Slot, Time, Usage, View, json, manager,
};
use uuid::Uuid;

fn slots(entries: Vec<Entry>) -> Vec<Slot> {
    let stamped = |(entry, sequence): (Entry, u64)| entry.stamped(Uuid::nil(), sequence, Time(0));
    entries.into_iter().zip(0..).map(stamped).map(|entry| Slot::Message(Arc::new(entry))).collect()
}

fn talk(turns: u64) -> Vec<Entry> {
    let mut entries = vec![Entry::text(Role::System, "Be brief.")];
    for turn in 0..turns {
        entries.push(Entry::text(Role::User, &format!("question {turn} {}", "word ".repeat(120))));
        entries.push(Entry::text(Role::Assistant, &format!("answer {turn}")));
    }
    entries
}

fn run(slots: &[Slot], name: &str) -> Tally {
    run_in(slots, name, &CurationContext::default())
}

fn run_in(slots: &[Slot], name: &str, cx: &CurationContext) -> Tally {
    let ticks = std::cell::Cell::new(0.0);
    let clock = || {
        ticks.set(ticks.get() + 1.0);
        ticks.get()
    };
    let candidate = Candidate { lists_lost: true, ..Candidate::new(&manager::parse(name).unwrap()) };
    simulate(slots, &Needs::of(slots), &candidate, cx, &clock, &AtomicBool::new(true))
}

/// An Anthropic conversation with a tool that grows turn by turn: the request of each call.
fn requests(turns: usize) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    let mut requests = Vec::new();
    for turn in 0..turns {
        let ask = format!(r#"{{"role":"user","content":"Read file {turn}. {}"}}"#, "please ".repeat(20));
        let call = format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"toolu_{turn}","name":"read","input":{{"path":"f{turn}"}}}}]}}"#
        );
        let result = format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{turn}","content":"{}"}}]}}"#,
            format!("line of file {turn} ").repeat(60)
        );
        let reply =
            format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"File {turn} is read."}}]}}"#);
        for (before, answer) in [(ask, call), (result, reply)] {
            messages.push(before);
            requests.push(format!(
                r#"{{"model":"claude-sonnet-4-5","max_tokens":500,"system":"Read files.","tools":[{{"name":"read","description":"{}","input_schema":{{"type":"object"}}}}],"messages":[{}]}}"#,
                "Reads a file. ".repeat(30),
                messages.join(",")
            ));
            messages.push(answer);
        }
    }
    requests
}

/// Sends requests through `prepare` and records what it decides, as the proxy does; each reply reports a third more than
/// we estimate. The record, and the cut of each call.
fn proxied(manager: &SharedManager, cx: &CurationContext, turns: usize) -> (Vec<Slot>, Vec<Option<u64>>) {
    let policy = Policy::for_client(Arc::clone(manager), Invalid::RepairedOrSent);
    let (mut record, mut known, mut cuts) = (Record::new(), Calibration::default(), Vec::new());
    let (mut cut, mut sequence) = (None, 0);
    let all = requests(turns + 1);
    for (request, next) in all.iter().zip(all.iter().skip(1)).take(turns * 2) {
        let read = |body: &str| {
            let parsed = Wire::Anthropic.parse(json::check(body).unwrap(), &ParseOptions::default()).unwrap();
            (parsed.entries, parsed.body)
        };
        let (entries, around) = read(request);
        let (lead, said) = entries.split_at(1);
        let stamp = Stamp { evaluation: Uuid::nil(), sequence, at: Time(0) };
        let heard = record.message_count().saturating_sub(1);
        for slot in news(&record, lead, said.get(heard..).unwrap(), stamp) {
            record.take(slot).unwrap();
            sequence += 1;
        }
        let mut cx = cx.clone();
        cx.counter = cx.counter.with_factor(known.factor());
        let client = ClientBody::new(request.clone().into(), Carries::History);
        let asked = Wanted::of_client(Wire::Anthropic, cx.model.clone(), None, around, lead.to_vec(), client);
        let prepared = prepare(&record, &asked, &policy, &cx).unwrap();
        for decision in prepared.decisions {
            if let Decision::Cut { before, .. } | Decision::Plan { tail: before, .. } = decision {
                cut = Some(before);
            }
            record.decide(decision, Time(0)).unwrap();
        }
        cuts.push(cut);
        let tokens = prepared.tokens.unwrap_or_else(|| RequestTokens::of(&View::of(&record, &cx), &cx));
        let reported = tokens.counted as u64 * 4 / 3;
        known.observe(tokens.counted as u64, reported);
        let mut reply = read(next).0.into_iter().rev().find(|entry| entry.role == Role::Assistant).unwrap();
        let usage = Usage { input_uncached: Some(reported), ..Usage::default() };
        reply.meta = Some(Box::new(Meta { usage: Some(usage), ..Meta::default() }));
        record.append(reply.stamped(Uuid::nil(), sequence, Time(0))).unwrap();
        sequence += 1;
    }
    (record.slots().to_vec(), cuts)
}

#[test]
fn a_simulation_cuts_where_the_proxy_cuts() {
    let tools =
        Wire::Anthropic.parse(json::check(&requests(1)[0]).unwrap(), &ParseOptions::default()).unwrap().tools;
    let cx = CurationContext {
        tools,
        wire: Some(Wire::Anthropic),
        output: Some(500),
        windows: BTreeMap::from([("anthropic:claude-sonnet-4-5".into(), 6_000)]),
        ..CurationContext::for_model(ModelName::parse("anthropic:claude-sonnet-4-5").ok())
    };
    for name in ["fit", "fit(window=5000)", "sticky(token_budget(4000), low=2000)", "auto(4k)"] {
        let manager = manager::parse(name).unwrap();
        let (slots, cuts) = proxied(&manager, &cx, 20);
        let tally = run_in(&slots, name, &cx);
        assert_eq!(tally.stopped, None, "{name}");
        let simulated: Vec<Option<u64>> = tally.per_call.iter().map(|call| call.cut_before).collect();
        assert_eq!(simulated, cuts, "{name}");
        let mut places: Vec<u64> = cuts.into_iter().flatten().collect();
        places.dedup();
        assert!(places.len() > 1, "{name} cuts more than once: {places:?}");
        assert_eq!(tally.violations, 0, "{name}");
    }
}

#[test]
fn a_simulation_that_no_one_waits_for_ends() {
    let slots = slots(talk(20));
    let candidate = Candidate::new(&manager::parse("passthrough").unwrap());
    let cx = CurationContext::default();
    let tally = simulate(&slots, &Needs::of(&slots), &candidate, &cx, &|| 0.0, &AtomicBool::new(false));
    assert_eq!((tally.calls, tally.stopped.is_some()), (0, true));
}

#[test]
fn passthrough_never_breaks_the_prefix_and_a_window_always_does() {
    let slots = slots(talk(20));
    let (all, window) = (run(&slots, "passthrough"), run(&slots, "sliding_window(4)"));
    assert_eq!((all.calls, all.cuts, all.dropped_tokens), (20, 0, 0));
    assert!(all.cache_read > 0 && all.cache_read + all.cache_write == all.input_tokens);
    assert!(window.cuts >= 17, "a window moves with every turn: {}", window.cuts);
    assert!(window.peak < all.peak && window.dropped_tokens > 0);
    assert_eq!(window.task_kept, window.calls);
    let sticky = run(&slots, "sticky(sliding_window(12), low=4)");
    assert!(sticky.cuts > 0 && sticky.cuts < window.cuts, "sticky cuts rarely: {}", sticky.cuts);
    assert!(sticky.dropped_tokens > 0 && sticky.input_tokens + sticky.dropped_tokens == all.input_tokens);
    assert_eq!((all.per_call.len(), all.per_call[3].position), (20, 8));
    let figures = sticky.figures("sticky", Some(&all));
    assert_eq!(figures.cost_usd, None, "no model, no prices");
    assert!(figures.cost_ratio.is_some() && figures.ms_p50 > 0.0);
}

#[test]
fn what_a_manager_loses_is_told_with_the_place_and_the_reason() {
    let mut entries = talk(6);
    entries.push(Entry::calling(None, &[("c1", "look", r#"{"at":"question 0","for":"answer 5"}"#)]));
    let slots = slots(entries);
    let all = run(&slots, "passthrough").figures("all", None);
    assert_eq!((all.argument_retention, all.at_cut.argument_retention), (Some(1.0), Some(1.0)));
    // The newest answer is in the last two turns, the oldest question is not.
    let window = run(&slots, "turn_window(2)");
    let figures = window.figures("window", None);
    assert_eq!((figures.argument_retention, figures.at_cut.argument_retention), (Some(0.5), Some(0.5)));
    let lost = &window.lost[0];
    assert_eq!((lost.value.as_str(), lost.call, lost.stood_at), ("question 0", 13, 1));
    assert_eq!((lost.needed_by, lost.why.as_str()), ("argument", "left out by turn_window (older_turn)"));
}

#[test]
fn a_budget_below_what_must_stay_is_infeasible_and_costs_what_must_stay() {
    let tight = run(&slots(talk(3)), "token_budget(5)");
    assert_eq!((tight.calls, tight.infeasible, tight.stopped), (3, 3, None));
    assert_eq!(tight.kept_at_cut.arguments.of, 0);
    assert!(tight.input_tokens > 0 && tight.input_tokens < run(&slots(talk(3)), "passthrough").input_tokens);
    let unknown = run(&slots(talk(3)), "fit");
    assert!(unknown.stopped.is_some_and(|why| why.contains("model")));
}

#[test]
fn a_cache_forgets_what_was_not_used_for_its_lifetime() {
    let timed = |gap: i64| {
        let mut at = 1_700_000_000_000;
        let stamped = talk(12).into_iter().zip(0..).map(|(entry, sequence)| {
            at += gap / 2;
            Slot::Message(Arc::new(entry.stamped(Uuid::nil(), sequence, Time(at))))
        });
        run(&stamped.collect::<Vec<_>>(), "passthrough").cache_read
    };
    assert!(timed(60_000) > 0);
    assert_eq!(timed(3_600_000), 0);
}

#[test]
fn a_course_counts_tokens_by_role_and_sees_the_cut() {
    let slots = slots(talk(3));
    let asked = |upto, manager: &str| RepeatedCall {
        upto,
        manager: manager::parse(manager).unwrap(),
        cx: CurationContext::default(),
    };
    let seen =
        course(&slots, &[asked(2, "passthrough"), asked(4, "passthrough"), asked(6, "turn_window(1)")]);
    let seen: Vec<Seen> = seen.into_iter().map(Result::unwrap).collect();
    assert_eq!(seen.iter().map(|seen| seen.entries).collect::<Vec<_>>(), [2, 4, 2]);
    assert_eq!(seen.iter().map(|seen| seen.cut).collect::<Vec<_>>(), [false, false, true]);
    assert!(seen[0].tokens.user > seen[0].tokens.system && seen[0].tokens.assistant == 0);
    assert_eq!(seen[1].shared, seen[0].tokens.total());
    assert_eq!(seen[2].of, 6);
}
