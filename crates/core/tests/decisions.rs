//! Decisions: what is recorded about a history holds for every later view.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use scrollback_core::manager::{self, Keep};
use scrollback_core::{
    AppendError, CurationContext, Decision, Entry, ItemSource, Record, Role, SummaryPlace, Time, View, json,
    settle_offline, wire::openai_chat::provider_message_to_entry,
};

fn append(record: &mut Record, message: &str) {
    let entry = provider_message_to_entry(json::check(message).unwrap()).unwrap();
    let sequence = (0..record.len() as u64).filter(|at| record.entry(*at).is_some()).count() as u64;
    record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time::default())).unwrap();
}

fn say(record: &mut Record, role: Role, text: &str) {
    append(record, &Entry::text(role, text).origin.raw.clone());
}

/// System, then `turns` turns of a question, a call with its result, and an answer.
fn agent(turns: usize) -> Record {
    let mut record = Record::new();
    say(&mut record, Role::System, "Be brief.");
    for n in 0..turns {
        say(&mut record, Role::User, &format!("question {n}"));
        append(
            &mut record,
            &format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{n}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]}}"#
            ),
        );
        append(
            &mut record,
            &format!(
                r#"{{"role":"tool","tool_call_id":"c{n}","content":"a result that is quite a bit longer than a placeholder {n}"}}"#
            ),
        );
        say(&mut record, Role::Assistant, &format!("answer {n}"));
    }
    record
}

fn view<'r>(record: &'r Record, manager: &str) -> View<'r> {
    record.view(&CurationContext::default(), &*manager::parse(manager).unwrap()).unwrap()
}

fn shown(view: &View<'_>) -> Vec<u64> {
    view.items()
        .filter_map(|item| match item.source {
            ItemSource::Entry(position) => Some(position),
            _ => None,
        })
        .collect()
}

fn decide(record: &mut Record, decision: Decision) -> Result<u64, AppendError> {
    record.decide(decision, Time::default())
}

#[test]
fn a_cut_leaves_out_what_lies_before_it_but_not_what_it_holds() {
    let mut record = agent(3);
    let cut = Decision::Cut {
        before: 6,
        held: Some(5),
        by: "sticky".into(),
        scope: None,
        kept: Vec::new(),
        owed: Vec::new(),
        notice: None,
        factor: None,
    };
    let at = decide(&mut record, cut).unwrap();
    let view = view(&record, "passthrough");
    assert_eq!(shown(&view), [0, 5, 6, 7, 8, 9, 10, 11, 12]);
    let first = &view.explain().dropped[0];
    assert_eq!(
        (first.index, first.manager.as_str(), first.reason.as_str(), first.by),
        (1, "sticky", "before_cut", Some(at))
    );
}

#[test]
fn a_recorded_cut_overrides_the_fold_from_there_on() {
    let mut record = agent(3);
    let cut = Decision::Cut {
        before: 5,
        held: None,
        by: "sticky".into(),
        scope: None,
        kept: Vec::new(),
        owed: Vec::new(),
        notice: None,
        factor: None,
    };
    decide(&mut record, cut).unwrap();
    let before = view(&record, "sticky(sliding_window(100))");
    assert_eq!(shown(&before), [0, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(before.epoch().unwrap().id, 1);
    assert_eq!(before.epoch().unwrap().cut, Some(5));
    // A narrower configuration does not rewrite the epoch that was paid for; it cuts when the next group arrives.
    assert_eq!(shown(&view(&record, "sticky(sliding_window(4), low=2)")), [0, 5, 6, 7, 8, 9, 10, 11, 12]);
    say(&mut record, Role::User, "next");
    let after = view(&record, "sticky(sliding_window(4), low=2)");
    assert_eq!(after.epoch().unwrap().id, 2);
    assert_eq!(shown(&after), [0, 12, 14]);
}

#[test]
fn the_cut_of_a_view_can_be_recorded_and_then_outlives_its_configuration() {
    let mut record = agent(4);
    let before = view(&record, "sticky(sliding_window(9), low=4)");
    let (seen, epoch, cut) = (shown(&before), before.epoch().unwrap(), before.cut().unwrap().clone());
    assert!(epoch.id > 0 && seen.len() < record.len());
    assert!(matches!(&cut, Decision::Cut { before, by, .. } if Some(*before) == epoch.cut && by == "sticky"));
    decide(&mut record, cut).unwrap();
    assert_eq!(shown(&view(&record, "sticky(sliding_window(100))")), seen);
    assert_eq!(shown(&view(&record, "sticky(sliding_window(9), low=4)")), seen);
    assert!(view(&record, "sliding_window(3)").cut().is_none());
}

#[test]
fn a_summary_that_is_blank_or_too_long_becomes_a_recorded_failure() {
    let record = agent(3);
    let wish = manager::parse("summarize(max_turns=1, keep_recent=1, max_chars=10)").unwrap();
    let asks = record.plan(&CurationContext::default(), &*wish);
    let manager::Ask::Summary(ask) = &asks[0];
    for text in ["", " \n", "eleven char"] {
        let decision = ask.answered(text, "me", None);
        assert!(matches!(decision, Decision::SummaryFailed { range: (1, 8), .. }), "{text:?}: {decision:?}");
    }
    assert!(matches!(ask.answered("ten chars.", "me", None), Decision::Summary { by, .. } if by == "me"));
}

#[test]
fn pins_and_unpins_hold_for_every_manager() {
    let mut record = agent(3);
    decide(&mut record, Decision::Pin { positions: vec![2, 3] }).unwrap();
    assert_eq!(shown(&view(&record, "sliding_window(1)")), [0, 2, 3, 9, 12]);
    assert!(view(&record, "clear_tool_results(0)").explain().changed.iter().all(|change| change.index != 3));
    decide(&mut record, Decision::Unpin { positions: vec![2, 3] }).unwrap();
    assert_eq!(shown(&view(&record, "sliding_window(1)")), [0, 9, 12]);
}

#[test]
fn clear_and_truncate_rewrite_only_the_results_they_name() {
    let mut record = agent(3);
    let clear =
        decide(&mut record, Decision::Clear { positions: vec![3], placeholder: "[gone]".into() }).unwrap();
    decide(&mut record, Decision::Truncate { positions: vec![7], max_length: 20, keep: Keep::Head }).unwrap();
    let view = view(&record, "passthrough");
    let texts: Vec<String> = view
        .items()
        .filter(|item| item.entry.role == Role::Tool)
        .map(|item| item.entry.content().unwrap())
        .collect();
    assert_eq!(texts[0], "[gone]");
    assert_eq!(texts[1], "a re\n... [truncated]");
    assert!(texts[2].ends_with('2'));
    let changed = view.explain().changed;
    assert_eq!(changed.len(), 2);
    assert_eq!((changed[0].manager, changed[0].by), ("clear_tool_results", Some(clear)));
    assert_eq!(changed[1].manager, "tool_result_truncator");
}

#[test]
fn a_new_lead_takes_the_place_of_the_former() {
    let mut record = agent(1);
    say(&mut record, Role::System, "Be verbose.");
    say(&mut record, Role::User, "again");
    decide(&mut record, Decision::Lead { positions: vec![5] }).unwrap();
    let view = view(&record, "sliding_window(0)");
    assert_eq!(shown(&view), [5, 6]);
    let reasons: Vec<&str> = view.explain().dropped.iter().map(|drop| drop.reason.as_str()).collect();
    assert_eq!(reasons[0], "replaced_lead");
}

#[test]
fn summaries_are_rolling_and_replace_each_other() {
    let cx = CurationContext::default();
    let manager = manager::parse("summarize(max_turns=2, keep_recent=1)").unwrap();
    let mut record = agent(3);
    let first = settle_offline(&mut record, &cx, &*manager, Time::default()).unwrap().unwrap();
    let view_text = |record: &Record| {
        let view = record.view(&cx, &*manager).unwrap();
        let item = view.items().nth(1).unwrap();
        assert!(matches!(item.source, ItemSource::Summary { .. }));
        (item.entry.role, item.entry.content().unwrap())
    };
    let (role, text) = view_text(&record);
    assert_eq!(role, Role::System);
    assert_eq!(
        text,
        "Summary of the earlier conversation:\n- user: question 0\n- assistant: answer 0\n- user: question 1\n- assistant: answer 1"
    );
    assert_eq!(shown(&view(&record, "passthrough")), [0, 9, 10, 11, 12]);
    // At the bound nothing is asked for; above it the next summary covers the old range too.
    say(&mut record, Role::User, "question 3");
    assert_eq!(settle_offline(&mut record, &cx, &*manager, Time::default()).unwrap(), None);
    say(&mut record, Role::User, "question 4");
    settle_offline(&mut record, &cx, &*manager, Time::default()).unwrap().unwrap();
    let Some(scrollback_core::Slot::Decision(decision, _)) = record.get(record.len() as u64 - 1) else {
        panic!()
    };
    let Decision::Summary { covers, replaces, .. } = decision.as_ref() else { panic!() };
    assert_eq!(*replaces, Some(first));
    assert_eq!(covers.as_slice(), [(1, 12), (14, 14)]);
    let (_, text) = view_text(&record);
    assert!(text.contains("question 0") && text.contains("question 3") && !text.contains("question 4"));
}

#[test]
fn a_summary_that_failed_is_tried_again_after_a_whole_turn() {
    let cx = CurationContext::default();
    let manager = manager::parse("summarize(max_turns=1, keep_recent=1)").unwrap();
    let mut record = agent(3);
    let asks = |record: &Record| manager.plan(&View::of(record, &cx), &cx).len();
    assert_eq!(asks(&record), 1);
    decide(&mut record, Decision::SummaryFailed { range: (1, 8), reason: "blank".into() }).unwrap();
    assert_eq!(asks(&record), 0);
    say(&mut record, Role::User, "next");
    assert_eq!(asks(&record), 0, "the turn has begun, but is not over");
    say(&mut record, Role::Assistant, "answer");
    assert_eq!(asks(&record), 1);
}

#[test]
fn scoped_cuts_and_summaries_hold_only_for_their_scope() {
    let mut record = agent(2);
    decide(
        &mut record,
        Decision::Cut {
            before: 5,
            held: None,
            by: "loop".into(),
            scope: Some("loop-1".into()),
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
    )
    .unwrap();
    assert_eq!(view(&record, "passthrough").len(), 9);
    let cx = CurationContext { scope: Some("loop-1".into()), ..CurationContext::default() };
    assert_eq!(shown(&record.view(&cx, &manager::Passthrough).unwrap()), [0, 5, 6, 7, 8]);
}

#[test]
fn decisions_about_what_is_not_there_are_rejected_and_nothing_is_written() {
    let mut record = agent(2);
    let length = record.len();
    let summary = |covers| Decision::Summary {
        covers,
        text: "t".into(),
        place: SummaryPlace::System,
        by: "offline".into(),
        usage: None,
        replaces: None,
        scope: None,
    };
    let cases = [
        Decision::Pin { positions: vec![99] },
        Decision::Pin { positions: vec![2] },
        Decision::Unpin { positions: vec![3] },
        Decision::Cut {
            before: 3,
            held: None,
            by: "sticky".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
        Decision::Cut {
            before: 5,
            held: Some(3),
            by: "sticky".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
        Decision::Cut {
            before: 99,
            held: None,
            by: "sticky".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
        Decision::Clear { positions: vec![99], placeholder: "-".into() },
        Decision::Truncate { positions: vec![99], max_length: 1, keep: Keep::Head },
        Decision::Lead { positions: vec![1] },
        summary(vec![(1, 2)]),
        summary(vec![(5, 99)]),
        summary(vec![(5, 4)]),
        Decision::Turn { scope: "x".into(), entry: 99, role: Role::User, field: None },
    ];
    for decision in cases {
        let error = decide(&mut record, decision.clone());
        assert!(matches!(error, Err(AppendError::BadDecision(_))), "{decision:?}");
        assert_eq!(record.len(), length);
    }
}

#[test]
fn decisions_read_back_from_their_json() {
    let decision = Decision::Cut {
        before: 5,
        held: Some(1),
        by: "fit".into(),
        scope: None,
        kept: Vec::new(),
        owed: Vec::new(),
        notice: None,
        factor: None,
    };
    let text = serde_json::to_string(&decision).unwrap();
    assert_eq!(text, r#"{"decision":"cut","before":5,"held":1,"by":"fit"}"#);
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    assert!(serde_json::from_str::<Decision>(r#"{"decision":"cut","before":5,"by":"x","color":1}"#).is_err());
}

#[test]
fn sequences_are_dense_within_an_evaluation() {
    let mut record = Record::new();
    let entry = |sequence| Entry::text(Role::User, "x").stamped(uuid::Uuid::nil(), sequence, Time::default());
    assert_eq!(record.append(entry(1)), Err(AppendError::SequenceGap { expected: 0, found: 1 }));
    record.append(entry(0)).unwrap();
    assert_eq!(record.append(entry(0)), Err(AppendError::SequenceGap { expected: 1, found: 0 }));
    assert_eq!(record.len(), 1);
}
