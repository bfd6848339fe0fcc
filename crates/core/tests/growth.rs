//! Records that grow in every way there is: entries, decisions, erasures, reported usage, results that come very late.
//! Whatever a record remembers on the way, its views are those of a record that was read at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{Said, assert_coherent, cases, entries, manager_text, rendered, said, sticky_text};
use proptest::prelude::*;
use scrollback_core::manager::{Ask, Keep};
use scrollback_core::model::ModelName;
use scrollback_core::{
    CurationContext, Decision, Entry, ItemSource, Meta, Reason, Record, Role, Status, Time, Usage, View,
    manager, summarize_offline,
};

/// Something that happens to a record.
#[derive(Clone, Debug)]
enum Step {
    Say(Said),
    /// A reply that reports so many times its estimated input, in tenths.
    Report(u8),
    /// A reply whose stream broke.
    Break(Said),
    Erase(u8),
    Pin(u8),
    Unpin(u8),
    Cut(u8, bool),
    Clear(u8),
    Truncate(u8),
    Lead(u8),
    Interrupt(u8),
    Summarise,
    FailSummary,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => said().prop_map(Step::Say),
        2 => any::<u8>().prop_map(Step::Report),
        1 => said().prop_map(Step::Break),
        1 => any::<u8>().prop_map(Step::Erase),
        1 => any::<u8>().prop_map(Step::Pin),
        1 => any::<u8>().prop_map(Step::Unpin),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(at, held)| Step::Cut(at, held)),
        1 => any::<u8>().prop_map(Step::Clear),
        1 => any::<u8>().prop_map(Step::Truncate),
        1 => any::<u8>().prop_map(Step::Lead),
        1 => (0..6u8).prop_map(Step::Interrupt),
        1 => Just(Step::Summarise),
        1 => Just(Step::FailSummary),
    ]
}

/// Positions of the group around the `n`-th message in the view, if the view shows one.
fn group_at(view: &View<'_>, n: u8) -> Option<Vec<u64>> {
    let shown: Vec<u64> = view
        .items()
        .filter_map(|item| match item.source {
            ItemSource::Entry(position) => Some(position),
            _ => None,
        })
        .collect();
    let at = *shown.get(usize::from(n) % shown.len().max(1))?;
    let record = view.record();
    let opening = |position: u64| record.entry(position).is_some_and(|entry| entry.tool_result().is_none());
    let start = shown.iter().position(|position| *position == at)?;
    let first = (0..=start).rev().find(|place| opening(shown[*place]))?;
    let end = (first + 1..shown.len()).find(|place| opening(shown[*place])).unwrap_or(shown.len());
    Some(shown[first..end].to_vec())
}

/// Does a step; decisions that do not apply are refused, and nothing is written then.
fn take(record: &mut Record, step: &Step, cx: &CurationContext) {
    let sequence = record.message_count() as u64;
    let stamp = |entry: Entry| entry.stamped(uuid::Uuid::nil(), sequence, Time::default());
    let coherent = record.view(cx, &manager::Passthrough).unwrap();
    let decision = match step {
        Step::Say(said) => {
            record.append(stamp(entries(std::slice::from_ref(said)).remove(0))).unwrap();
            return;
        }
        Step::Break(said) => {
            let mut entry = entries(std::slice::from_ref(said)).remove(0);
            entry.meta = Some(Box::new(Meta { status: Status::TruncatedUpstream, ..Meta::default() }));
            record.append(stamp(entry)).unwrap();
            return;
        }
        Step::Report(tenths) => {
            let input = record.tokens(cx.counter) * u64::from(*tenths % 40) / 10;
            let mut entry = Entry::text(Role::Assistant, "done");
            let usage = Usage { input_uncached: Some(input), ..Usage::default() };
            entry.meta = Some(Box::new(Meta { usage: Some(usage), ..Meta::default() }));
            record.append(stamp(entry)).unwrap();
            return;
        }
        Step::Erase(at) => {
            record.erase(u64::from(*at) % (record.len() as u64).max(1));
            return;
        }
        Step::Pin(at) => group_at(&coherent, *at).map(|positions| Decision::Pin { positions }),
        Step::Unpin(at) => group_at(&coherent, *at).map(|positions| Decision::Unpin { positions }),
        Step::Cut(at, held) => group_at(&coherent, *at).map(|positions| Decision::Cut {
            before: positions[0],
            held: held.then(|| group_at(&coherent, 0).unwrap()[0]),
            by: "sticky".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        }),
        Step::Clear(at) => {
            group_at(&coherent, *at).map(|positions| Decision::Clear { positions, placeholder: "-".into() })
        }
        Step::Truncate(at) => group_at(&coherent, *at).map(|positions| Decision::Truncate {
            positions,
            max_length: 3,
            keep: Keep::Head,
        }),
        Step::Lead(at) => {
            Some(Decision::Lead { positions: vec![u64::from(*at) % (record.len() as u64).max(1)] })
        }
        Step::Interrupt(id) => Some(Decision::Interrupted { call_ids: vec![format!("c{id}")] }),
        Step::Summarise => {
            let wish = manager::parse("summarize(max_entries=3, ratio=0.5)").unwrap();
            record.plan(cx, &*wish).first().map(|Ask::Summary(ask)| summarize_offline(record, ask))
        }
        Step::FailSummary => Some(Decision::SummaryFailed { range: (0, 0), reason: "blank".into() }),
    };
    if let Some(decision) = decision {
        // A summary that was asked for can always be recorded; the others may be about nothing.
        let wanted = matches!(step, Step::Summarise);
        let taken = record.decide(decision.clone(), Time::default());
        assert!(!wanted || taken.is_ok(), "{decision:?}: {taken:?}");
    }
}

fn grown_equals_fresh(steps: &[Step], text: &str, model: Option<&str>) {
    let model = model.map(|name| ModelName::parse(name).unwrap());
    let cx = CurationContext::for_model(model);
    let manager = manager::parse(text).unwrap();
    let mut record = Record::new();
    for (n, step) in steps.iter().enumerate() {
        take(&mut record, step, &cx);
        let mut fresh = Record::new();
        for step in &steps[..=n] {
            take(&mut fresh, step, &cx);
        }
        match (record.view(&cx, &*manager), fresh.view(&cx, &*manager)) {
            (Ok(grown), Ok(fresh)) => {
                let messages = rendered(grown.items());
                assert_eq!(messages, rendered(fresh.items()), "{text} after {n}");
                assert_eq!(grown.epoch(), fresh.epoch());
                assert_eq!(grown.explain(), fresh.explain());
                assert_eq!(grown.count(&cx), fresh.count(&cx));
                assert_coherent(&messages);
                let explanation = grown.explain();
                let mut all: Vec<u64> = explanation.dropped.iter().map(|drop| drop.index).collect();
                let in_ledgers = explanation.changed.iter().filter(|change| change.reason == Reason::Ledger);
                all.extend(in_ledgers.map(|change| change.index));
                all.extend(grown.items().filter_map(|item| match item.source {
                    ItemSource::Entry(position) => Some(position),
                    _ => None,
                }));
                all.sort_unstable();
                let said = |at: &u64| !matches!(record.get(*at), Some(scrollback_core::Slot::Decision(..)));
                assert_eq!(
                    all,
                    (0..record.len() as u64).filter(said).collect::<Vec<_>>(),
                    "{text} after {n}"
                );
            }
            (grown, fresh) => assert_eq!(grown.map(|_| ()), fresh.map(|_| ()), "{text} after {n}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_erasures_and_usage_never_leave_a_stale_view(
        steps in prop::collection::vec(step(), 1..24),
        text in prop_oneof![sticky_text(), manager_text()],
        estimated in any::<bool>(),
    ) {
        grown_equals_fresh(&steps, &text, estimated.then_some("anthropic:claude-sonnet-4-5"));
    }
}

#[test]
fn results_that_come_after_hundreds_of_groups_void_what_was_remembered() {
    for text in [
        "sticky(sliding_window(9), low=4)",
        "sticky(turn_window(3), low=1)",
        "sticky(token_budget(90), low=40)",
        "fit(window=90, reserve=0)",
    ] {
        let mut record = Record::new();
        let cx = CurationContext::default();
        let manager = manager::parse(text).unwrap();
        let mut said = Vec::new();
        said.push(Said::User("start".into()));
        said.push(Said::Assistant { text: None, calls: vec![(Some(1), "search")] });
        for n in 0..150 {
            said.push(Said::User(format!("question {n}")));
            said.push(Said::Assistant { text: Some("fine".into()), calls: Vec::new() });
        }
        said.push(Said::Result { id: Some(1), text: "late".into() });
        said.push(Said::User("thanks".into()));
        for (n, entry) in entries(&said).into_iter().enumerate() {
            record.append(entry).unwrap();
            if n + 4 > said.len() || n % 40 == 0 {
                let fresh = crate::support::record_of(&said[..=n]);
                let (grown, fresh) =
                    (record.view(&cx, &*manager).unwrap(), fresh.view(&cx, &*manager).unwrap());
                assert_eq!(rendered(grown.items()), rendered(fresh.items()), "{text} after {n}");
                assert_eq!(grown.epoch(), fresh.epoch(), "{text} after {n}");
            } else {
                record.view(&cx, &*manager).unwrap();
            }
        }
    }
}

#[test]
fn an_entry_that_is_shared_is_not_copied_and_keeps_the_count_it_came_with() {
    use scrollback_core::tokens::{Counter, Tokenizer};
    let said = std::sync::Arc::new(Entry::text(Role::User, "hello"));
    let mut record = Record::new();
    record.share_counted(std::sync::Arc::clone(&said), Tokenizer::O200kBase, 1234).unwrap();
    assert!(record.entry(0).is_some_and(|entry| std::sync::Arc::ptr_eq(entry, &said)));
    assert_eq!(record.tokens(Counter::for_model(None)), 1234);
    assert!(record.share(said).is_err(), "the same number of its evaluation");
}
