//! The invariants of the design, over random histories that no person would write by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use crate::support::{
    Said, anchors, assert_coherent, cases, entries, history, manager_text, record_of, rendered, sticky_text,
    wishes,
};
use proptest::prelude::*;
use scrollback_core::tokens::entry_tokens;
use scrollback_core::wire::openai_chat::provider_message_to_entry;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationError, ItemSource, Reason, Record, Time, View, json, manager, settle_offline};

/// A new record of rendered messages.
fn record_from(messages: &[String]) -> Record {
    let body = format!("[{}]", messages.join(","));
    let parsed = Wire::OpenaiChat.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
    let mut record = Record::new();
    for entry in parsed.entries {
        record.append(entry).unwrap();
    }
    record
}

fn positions(view: &View<'_>) -> Vec<u64> {
    view.items()
        .filter_map(|item| match item.source {
            ItemSource::Entry(position) => Some(position),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(10_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants 2, 3, 4, 8 and 9 for any manager, any history and any wishes.
    #[test]
    fn every_view_is_coherent_anchored_bounded_pure_and_explained(
        history in history(28), text in manager_text(), wishes in wishes()
    ) {
        let cx = wishes.context();
        let manager = manager::parse(&text).unwrap();
        let mut record = record_of(&history);
        let (lead, task) = anchors(&record, &cx);
        let settled = settle_offline(&mut record, &cx, &*manager, Time::default()).unwrap();
        let view = match record.view(&cx, &*manager) {
            Ok(view) => view,
            Err(
                CurationError::BudgetTooSmall { needed, budget }
                | CurationError::WindowTooSmall { needed, window: budget },
            ) => {
                prop_assert!(needed > budget);
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        let messages = rendered(view.items());

        assert_coherent(&messages);

        let shown = positions(&view);
        if wishes.system {
            prop_assert!(shown.starts_with(&lead), "lead {lead:?} of {shown:?}");
        }
        if wishes.task {
            prop_assert!(task.is_none_or(|task| shown.contains(&task)), "task {task:?} in {shown:?}");
        }

        // Every entry once: in the view, shortened in a ledger, or left out with a reason.
        let explanation = view.explain();
        let in_ledgers = explanation.changed.iter().filter(|change| change.reason == Reason::Ledger);
        let elsewhere = explanation.dropped.iter().map(|drop| drop.index).chain(in_ledgers.map(|change| change.index));
        let mut all: Vec<u64> = shown.iter().copied().chain(elsewhere).collect();
        all.sort_unstable();
        let said: Vec<u64> = (0..record.len() as u64).filter(|at| record.entry(*at).is_some()).collect();
        prop_assert_eq!(all, said);

        // Every change is told, and only changes are.
        let told: BTreeSet<u64> = explanation.changed.iter().map(|change| change.index).collect();
        for item in view.items() {
            if let ItemSource::Entry(position) = item.source {
                prop_assert_eq!(item.is_changed(), told.contains(&position));
            }
        }

        // The count is that of the messages really sent, and no budget is exceeded.
        let recounted: usize = messages
            .iter()
            .map(|message| entry_tokens(cx.counter.tokenizer, &provider_message_to_entry(json::check(message).unwrap()).unwrap()))
            .sum::<usize>() + cx.overhead(cx.counter);
        prop_assert_eq!(view.count(&cx).total, recounted);
        prop_assert_eq!(view.len(), messages.len());
        for name in ["token_budget(", "auto(", "sticky(token_budget(", "relevant(", "fit(window="] {
            if let Some(bound) = text.strip_prefix(name).and_then(|rest| rest.split([',', ')']).next()) {
                prop_assert!(recounted <= bound.parse::<usize>().unwrap(), "{recounted} tokens in {text}");
            }
        }

        // The same again, from the same record and from a new one.
        prop_assert_eq!(&rendered(record.view(&cx, &*manager).unwrap().items()), &messages);
        let mut again = record_of(&history);
        prop_assert_eq!(settle_offline(&mut again, &cx, &*manager, Time::default()).unwrap(), settled);
        let view = again.view(&cx, &*manager).unwrap();
        prop_assert_eq!(&rendered(view.items()), &messages);
        prop_assert_eq!(view.explain(), explanation);
        // And what was said is still said.
        for (at, entry) in entries(&history).into_iter().enumerate() {
            prop_assert_eq!(&**record.entry(at as u64).unwrap(), &entry);
        }
    }

    /// The printed configuration of a manager reads back as the same configuration.
    #[test]
    fn configuration_round_trips(text in manager_text()) {
        let manager = manager::parse(&text).unwrap();
        let printed = manager.config();
        prop_assert_eq!(manager::parse_value(&printed).unwrap().config(), printed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), max_global_rejects: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant 6: while the epoch lasts, each view is a prefix of the next, byte for byte. And a record that grew
    /// entry by entry, remembering its folds and counts, gives the views of one that was read at once.
    #[test]
    fn sticky_views_only_grow_within_an_epoch(
        history in history(26), sticky in sticky_text(), truncate in prop::bool::ANY, wishes in wishes()
    ) {
        let mut cx = wishes.context();
        cx.preserve_last_n = None;
        cx.obligations = true;
        let text = if truncate { format!("[\"tool_result_truncator(20)\", {sticky:?}]") } else { sticky };
        let manager = manager::parse(&text).unwrap();
        let mut record = Record::new();
        let mut before: Option<(u64, Vec<String>)> = None;
        for (n, entry) in entries(&history).into_iter().enumerate() {
            record.append(entry).unwrap();
            let fresh = record_of(&history[..=n]);
            let (view, other) = match (record.view(&cx, &*manager), fresh.view(&cx, &*manager)) {
                (Ok(view), Ok(other)) => (view, other),
                (grown, fresh) => {
                    prop_assert_eq!(grown.map(|_| ()), fresh.map(|_| ()));
                    before = None;
                    continue;
                }
            };
            let messages = rendered(view.items());
            prop_assert_eq!(&messages, &rendered(other.items()));
            prop_assert_eq!(view.epoch(), other.epoch());
            let epoch = view.epoch().unwrap().id;
            let late = view.warnings().iter().any(|warning| warning.code == "late_result");
            // A pending call closed with a stand-in gives way to the real result.
            let pending = wishes.unfinished == scrollback_core::Unfinished::Close
                && matches!(history[n], Said::Result { .. });
            if let Some((earlier, prefix)) = &before
                && *earlier == epoch && !late && !pending {
                    prop_assert!(messages.starts_with(prefix), "epoch {epoch}: {prefix:#?} then {messages:#?}");
                }
            before = Some((epoch, messages));
        }
    }

    /// Any manager on a record that grew gives what it gives on one read at once.
    #[test]
    fn growing_changes_nothing(history in history(22), text in manager_text(), wishes in wishes()) {
        let cx = wishes.context();
        let manager = manager::parse(&text).unwrap();
        let mut record = Record::new();
        for (n, entry) in entries(&history).into_iter().enumerate() {
            record.append(entry).unwrap();
            let fresh = record_of(&history[..=n]);
            match (record.view(&cx, &*manager), fresh.view(&cx, &*manager)) {
                (Ok(grown), Ok(fresh)) => {
                    prop_assert_eq!(rendered(grown.items()), rendered(fresh.items()));
                    prop_assert_eq!(grown.explain(), fresh.explain());
                }
                (grown, fresh) => prop_assert_eq!(grown.map(|_| ()), fresh.map(|_| ())),
            }
        }
    }

    /// Two managers in a row do what the second does with the messages of the first, pins, summaries and ledgers aside. `relevant`
    /// rates by everything that was said, also by what another manager has left out.
    #[test]
    fn composing_is_curating_what_was_curated(
        history in history(24), first in manager_text(), second in manager_text(), wishes in wishes()
    ) {
        prop_assume!(![&first, &second].iter().any(|text| ["pin(", "summarize(", "auto("].iter().any(|name| text.contains(name))));
        let cx = wishes.context();
        prop_assume!(!second.contains("relevant("));
        let (one, two) = (manager::parse(&first).unwrap(), manager::parse(&second).unwrap());
        let record = record_of(&history);
        let Ok(view) = record.view(&cx, &*one) else { return Ok(()) };
        let between = record_from(&rendered(view.items()));
        let apart = between.view(&cx, &*two).map(|view| rendered(view.items()));
        let both = manager::Compose { managers: vec![one, two] };
        let together = record.view(&cx, &both).map(|view| rendered(view.items()));
        prop_assert_eq!(together, apart);
    }

    /// Curating what was curated changes nothing more.
    #[test]
    fn curating_twice_is_curating_once(history in history(28), text in manager_text(), wishes in wishes()) {
        let idempotent = !["sticky", "relevant", "summarize", "fit", "auto", "observed"].iter().any(|name| text.contains(name))
            && !text.contains(", pin(");
        prop_assume!(idempotent);
        let cx = wishes.context();
        let manager = manager::parse(&text).unwrap();
        let record = record_of(&history);
        let Ok(view) = record.view(&cx, &*manager) else { return Ok(()) };
        let once = rendered(view.items());
        let again = record_from(&once);
        prop_assert_eq!(rendered(again.view(&cx, &*manager).unwrap().items()), once);
    }
}
