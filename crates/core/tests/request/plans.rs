//! `auto` through `prepare`: its plans are recorded, last, and are found again.

use proptest::prelude::*;
use scrollback_core::request::{PrepareError, Prepared, prepare};
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, LEDGER_HEADING, PlanItem, Reason, Record, Slot, manager};
use serde_json::{Value, json};

use super::{GPT, context, messages_of, ours, policy, record_all, record_of, say, session, step};
use crate::support::{assert_coherent, cases};

fn plans(prepared: &Prepared) -> usize {
    prepared.decisions.iter().filter(|decision| matches!(decision, Decision::Plan { .. })).count()
}

/// An agent that looks up orders: each round names the next, and the last asks for the first again.
fn orders(rounds: usize) -> Vec<Value> {
    let mut messages = vec![
        json!({ "role": "system", "content": "You look up orders." }),
        json!({ "role": "user", "content": "Look up every order, then cancel the first." }),
    ];
    for round in 0..rounds {
        let id = format!("call_{round}");
        let arguments = json!({ "order_id": format!("W{}", 4000 + round) }).to_string();
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": id, "type": "function", "function": { "name": "look_up", "arguments": arguments } },
        ] }));
        let filler = "Nothing else is known about this order, which is on its way to its buyer. ".repeat(6);
        let result = json!({
            "order_id": format!("W{}", 4000 + round), "payment_id": format!("card_{}", 7000 + round), "note": filler,
            "next": format!("W{}", 4001 + round),
        });
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": result.to_string() }));
    }
    messages
}

/// Makes a request after every result, and records what is decided. What each was sent, and how many plans it made.
fn walk(record: &mut Record, messages: &[Value], manager: &str) -> Vec<(Vec<String>, usize)> {
    let (cx, asked, policy) = (context(GPT, Wire::OpenaiChat), ours(Wire::OpenaiChat, GPT), policy(manager));
    let mut sent = Vec::new();
    for message in messages {
        say(record, std::slice::from_ref(message));
        if message["role"] == "tool" {
            let prepared = prepare(record, &asked, &policy, &cx).unwrap();
            record_all(record, &prepared.decisions);
            sent.push((messages_of(Wire::OpenaiChat, &prepared.body), plans(&prepared)));
        }
    }
    sent
}

#[test]
fn a_plan_is_recorded_and_views_only_grow_until_the_next() {
    let mut record = Record::new();
    let sent = walk(&mut record, &orders(40), "auto(1500)");
    let made: usize = sent.iter().map(|(_, plans)| plans).sum();
    assert!((2..15).contains(&made), "{made} plans in {} calls", sent.len());
    for (one, (next, plans)) in sent.iter().zip(sent.iter().skip(1)).map(|(one, next)| (&one.0, next)) {
        assert!(*plans == 1 || next.starts_with(one), "a call without a plan begins with the one before");
    }
    let last = &sent.last().unwrap().0;
    assert!(last.iter().any(|message| message.contains(LEDGER_HEADING)));
    assert!(last.iter().any(|message| message.contains("W4000")), "the first order is still known: {last:?}");
    let token_budget = walk(&mut Record::new(), &orders(40), "token_budget(1500)");
    assert!(!token_budget.last().unwrap().0.iter().any(|message| message.contains("W4000")));
}

#[test]
fn a_restored_record_is_shown_by_its_recorded_plan() {
    let mut record = Record::new();
    walk(&mut record, &orders(30), "auto(1500)");
    let (cx, asked, policy) =
        (context(GPT, Wire::OpenaiChat), ours(Wire::OpenaiChat, GPT), policy("auto(1500)"));
    let again = prepare(&record, &asked, &policy, &cx).unwrap();
    assert_eq!(plans(&again), 0, "what is recorded is not decided again");
    let restored = Record::restore(record.slots().to_vec()).unwrap();
    assert_eq!(prepare(&restored, &asked, &policy, &cx).unwrap().body, again.body);
    // Decisions go through JSON on their way into a store.
    let printed = record.slots().iter().map(|slot| match slot {
        Slot::Decision(decision, at) => {
            let text = serde_json::to_string(&**decision).unwrap();
            Slot::Decision(serde_json::from_str::<Decision>(&text).unwrap().into(), *at)
        }
        other => other.clone(),
    });
    let printed = Record::restore(printed.collect::<Vec<_>>()).unwrap();
    assert_eq!(prepare(&printed, &asked, &policy, &cx).unwrap().body, again.body);
}

#[test]
fn another_limit_gives_the_plan_up() {
    let mut record = Record::new();
    walk(&mut record, &orders(12), "auto(1200)");
    let (cx, asked) = (context(GPT, Wire::OpenaiChat), ours(Wire::OpenaiChat, GPT));
    let wide = prepare(&record, &asked, &policy("auto(100k)"), &cx).unwrap();
    assert_eq!((messages_of(Wire::OpenaiChat, &wide.body).len(), wide.decisions.len()), (26, 0));
    let narrow = prepare(&record, &asked, &policy("auto(800)"), &cx).unwrap();
    assert_eq!(plans(&narrow), 1);
    assert!(narrow.tokens.unwrap().total <= 800);
}

#[test]
fn the_explanation_has_the_lines_that_the_ledger_kept() {
    let mut record = Record::new();
    let sent = walk(&mut record, &orders(20), "auto(1500)");
    let view = record.view(&context(GPT, Wire::OpenaiChat), &*manager::parse("auto(1500)").unwrap()).unwrap();
    let explanation = view.explain();
    let kept: Vec<_> = explanation.changed.iter().filter(|change| change.reason == Reason::Ledger).collect();
    assert!(
        !kept.is_empty() && kept.iter().all(|change| change.manager == "auto" && !change.lines.is_empty())
    );
    let contents = sent.last().unwrap().0.iter().map(|message| {
        serde_json::from_str::<Value>(message).unwrap()["content"].as_str().unwrap_or_default().to_string()
    });
    let ledgers =
        contents.filter(|content| content.starts_with(LEDGER_HEADING)).collect::<Vec<_>>().join("\n");
    for line in kept.iter().flat_map(|change| &change.lines) {
        assert!(ledgers.contains(line), "{line} is in {ledgers}");
    }
    assert!(explanation.dropped.iter().all(|drop| drop.manager == "auto" && drop.reason == Reason::Planned));
    assert!(kept.iter().all(|change| change.by.is_some()), "the decision is named");
}

#[test]
fn an_erased_entry_is_in_no_ledger_any_more() {
    let mut record = Record::new();
    walk(&mut record, &orders(20), "auto(1500)");
    let ledgers = |record: &Record| {
        let plans = record.slots().iter().filter_map(|slot| match slot {
            Slot::Decision(decision, _) => match &**decision {
                Decision::Plan { front, .. } => Some(front.clone()),
                _ => None,
            },
            _ => None,
        });
        plans.flatten().filter(|item| matches!(item, PlanItem::Ledger { .. })).collect::<Vec<_>>()
    };
    let lines = |record: &Record| -> Vec<(u64, String)> {
        let parts = ledgers(record).into_iter().flat_map(|item| match item {
            PlanItem::Ledger { ledger } => ledger,
            _ => Vec::new(),
        });
        parts.flat_map(|part| part.lines).map(|(entry, _, text)| (entry, text)).collect()
    };
    let (erased, word) = lines(&record).first().cloned().unwrap();
    assert!(record.erase(erased));
    assert!(lines(&record).iter().all(|(entry, _)| *entry != erased), "{word} is gone from every plan");
    let (cx, asked, policy) =
        (context(GPT, Wire::OpenaiChat), ours(Wire::OpenaiChat, GPT), policy("auto(1500)"));
    let sent = prepare(&record, &asked, &policy, &cx).unwrap();
    let sent = messages_of(Wire::OpenaiChat, &sent.body).join("\n");
    assert!(!sent.contains(&format!("#{erased} ")), "no heading is left of it");
    // A plan that is made anew does not know the entry either.
    say(&mut record, &orders(20)[4..]);
    let manager = manager::parse("auto(900)").unwrap();
    let view = record.view(&cx, &*manager).unwrap();
    assert!(view.explain().changed.iter().all(|change| change.index != erased));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    /// Never over the limit, no broken pairs, task and lead kept, byte-stable between plans, and the recorded plan is the one
    /// that would be made again.
    #[test]
    fn plans_hold_in_random_sessions(
        steps in prop::collection::vec(step(600), 1..60), limit in 600..3000_usize,
    ) {
        let (cx, asked) = (context(GPT, Wire::OpenaiChat), ours(Wire::OpenaiChat, GPT));
        let policy = policy(&format!("auto({limit}, need=4000)"));
        let mut record = Record::new();
        say(&mut record, &[json!({ "role": "system", "content": "Work on the files." })]);
        let (mut before, mut task): (Option<Vec<String>>, Option<Value>) = (None, None);
        for messages in session(&steps) {
            say(&mut record, &messages);
            task = messages.iter().rfind(|message| message["role"] == "user").cloned().or(task);
            let prepared = match prepare(&record, &asked, &policy, &cx) {
                Ok(prepared) => prepared,
                Err(PrepareError::Curation(_) | PrepareError::Invalid { .. }) => {
                    before = None;
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            prop_assert!(prepared.tokens.unwrap().total <= limit);
            let sent = messages_of(Wire::OpenaiChat, &prepared.body);
            assert_coherent(&sent);
            let values: Vec<Value> = sent.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            prop_assert_eq!(&values[0]["content"], "Work on the files.", "the lead is kept");
            prop_assert!(task.iter().all(|task| values.contains(task)), "the task is kept");
            let planned = plans(&prepared);
            if let Some(before) = before.as_ref().filter(|_| planned == 0) {
                prop_assert!(sent.starts_with(before), "views only grow between plans");
            }
            let untouched = record_of_slots(&record);
            prop_assert_eq!(&prepare(&untouched, &asked, &policy, &cx).unwrap().body, &prepared.body);
            record_all(&mut record, &prepared.decisions);
            let again = prepare(&record, &asked, &policy, &cx).unwrap();
            prop_assert_eq!((&again.body, plans(&again)), (&prepared.body, 0));
            before = Some(sent);
        }
    }
}

/// The same record, read again by another index with another hash seed.
fn record_of_slots(record: &Record) -> Record {
    Record::restore(record.slots().to_vec()).unwrap()
}

#[test]
fn a_budget_below_what_must_stay_says_what_is_needed() {
    let record = record_of(&orders(3));
    let error =
        prepare(&record, &ours(Wire::OpenaiChat, GPT), &policy("auto(60)"), &context(GPT, Wire::OpenaiChat));
    let error = error.err().unwrap();
    assert_eq!(error.code(), "budget_too_small");
}
