//! What holds for every request, over random histories. Proptest prints the seed and the smallest case of a failure.

use proptest::prelude::*;
use scrollback_core::request::{Fidelity, Invalid, Policy, PrepareError, prepare};
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::{CurationError, Record, json, manager};
use serde_json::json;

use super::{body_of, client, context, messages_of, model_for, ours, record_all, session, step, unmarked};
use crate::support::{Said, cases, entries, history, manager_text, record_of as record_said, wishes};

/// Wires that a provider speaks.
const WIRES: [Wire; 5] =
    [Wire::Anthropic, Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Gemini, Wire::Bedrock];
/// Wires of the clients that the proxy serves.
const CLIENTS: [Wire; 3] = [Wire::Anthropic, Wire::OpenaiChat, Wire::OpenaiResponses];
/// Rules about how a list ends, or that there is one: the caller has to keep them, and is told if it did not.
const CALLERS: [&str; 7] = ["AN-12", "AN-13", "AN-21", "GE-5", "OC-12", "OC-13", "OR-19"];

fn model_on(wire: Wire) -> &'static str {
    match wire {
        Wire::Gemini => "gemini:gemini-2.5-pro",
        Wire::Bedrock => "bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0",
        _ => model_for(wire),
    }
}

/// Managers that record what they decide, alone and in lists.
fn deciding() -> impl Strategy<Value = String> {
    let fit = || (60..400usize).prop_map(|n| format!("fit(window={n}, reserve=0)"));
    let sticky = || {
        (60..300usize)
            .prop_flat_map(|high| (Just(high), 20..=high))
            .prop_map(|(high, low)| format!("sticky(token_budget({high}), low={low})"))
    };
    let one = || prop_oneof![fit(), sticky()];
    prop_oneof![
        2 => fit(),
        2 => sticky(),
        1 => one().prop_map(|last| format!("compose(tool_result_truncator(40, keep=both), {last})")),
        1 => one().prop_map(|last| format!("compose(clear_tool_results(1, placeholder=\"-\"), {last})")),
        1 => one().prop_map(|last| format!("compose(turn_window(2), {last})")),
        1 => one().prop_map(|last| format!("compose(sliding_window(9), active_tools([search]), {last})")),
        1 => (fit(), sticky()).prop_map(|(first, last)| format!("compose({first}, {last})")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    /// The same record, request, policy and context give the same bytes, and the provider's rules allow them.
    #[test]
    fn requests_are_pure_and_valid(
        history in history(24), text in manager_text(), wishes in wishes(), wire in prop::sample::select(WIRES.to_vec())
    ) {
        let name = model_on(wire);
        let mut cx = wishes.context();
        (cx.wire, cx.model) = (Some(wire), Some(super::model(name)));
        let (record, again) = (record_said(&history), record_said(&history));
        let first = prepare(&record, &ours(wire, name), &super::policy(&text), &cx);
        let second = prepare(&again, &ours(wire, name), &super::policy(&text), &cx);
        let prepared = match (first, second) {
            (Ok(first), Ok(second)) => {
                prop_assert_eq!(&first.body, &second.body);
                prop_assert_eq!(&first.decisions, &second.decisions);
                prop_assert_eq!(first.tokens, second.tokens);
                prop_assert_eq!(first.prefix_hash, second.prefix_hash);
                first
            }
            (Err(first), Err(second)) => {
                prop_assert_eq!(&first, &second);
                match first {
                    PrepareError::Invalid { broken, message } => {
                        prop_assert!(broken.iter().all(|(rule, _)| CALLERS.contains(rule)), "{}", message);
                    }
                    PrepareError::Curation(CurationError::BudgetTooSmall { .. }) | PrepareError::TooLarge { .. } => {}
                    other => panic!("{other}"),
                }
                return Ok(());
            }
            (first, second) => panic!("{first:?} and then {second:?}"),
        };
        let body = json::check_bytes(&prepared.body).unwrap();
        let options = CheckOptions { model: cx.model.as_ref(), ..CheckOptions::default() };
        let fatal: Vec<_> = check(wire, body, options).into_iter().filter(|found| found.is_fatal(Strictness::Lenient)).collect();
        prop_assert!(fatal.is_empty(), "{:#?}", fatal);
    }

    /// Once what was decided is recorded, preparing again decides nothing more and gives the same bytes.
    #[test]
    fn recording_the_decisions_changes_nothing(
        mut history in history(20), text in deciding(), wishes in wishes(), wire in prop::sample::select(WIRES.to_vec())
    ) {
        if text.contains("compose(") {
            // See `what_stays_before_a_cut_still_stays_once_the_cut_is_recorded`.
            let mut first = true;
            history.retain(|said| std::mem::take(&mut first) || !matches!(said, Said::System(_)));
        }
        let name = model_on(wire);
        let mut cx = wishes.context();
        (cx.wire, cx.model) = (Some(wire), Some(super::model(name)));
        let (asked, policy) = (ours(wire, name), super::policy(&text));
        let mut record = Record::new();
        for (n, entry) in entries(&history).into_iter().enumerate() {
            record.append(entry).unwrap();
            let Ok(first) = prepare(&record, &asked, &policy, &cx) else { continue };
            record_all(&mut record, &first.decisions);
            let second = prepare(&record, &asked, &policy, &cx).unwrap();
            prop_assert_eq!(&second.decisions, &[], "after {}", n);
            prop_assert_eq!(&first.body, &second.body, "after {}", n);
            prop_assert_eq!(first.tokens, second.tokens);
        }
    }
}

/// What a manager of the list pinned and the first steps of a trajectory lie before the cut and stay: the decision names them.
#[test]
fn what_stays_before_a_cut_still_stays_once_the_cut_is_recorded() {
    for text in [
        "compose(pin(first=1), fit(window=400, reserve=0))",
        "compose(pin(where={\"contains\":\"passport\"}), sticky(token_budget(400)))",
        "sticky(trajectory_window(4, preserve_first=1, preserve_last=1), low=2)",
    ] {
        let mut record = super::record_of(&[json!({ "role": "user", "content": "my passport" })]);
        for n in 0..12 {
            super::say(
                &mut record,
                &[
                    json!({ "role": "assistant", "content": super::text(200), "tool_calls": [{ "id": format!("c{n}"),
                        "type": "function", "function": { "name": "search", "arguments": "{}" } }] }),
                    json!({ "role": "tool", "tool_call_id": format!("c{n}"), "content": "found" }),
                    json!({ "role": "user", "content": format!("go on {n}") }),
                ],
            );
        }
        let wire = Wire::OpenaiChat;
        let cx = context(super::GPT, wire);
        let (asked, policy) = (ours(wire, super::GPT), super::policy(text));
        let first = prepare(&record, &asked, &policy, &cx).unwrap();
        assert!(super::cuts(&first.decisions), "{text}");
        record_all(&mut record, &first.decisions);
        let second = prepare(&record, &asked, &policy, &cx).unwrap();
        assert_eq!(messages_of(wire, &first.body), messages_of(wire, &second.body), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    /// Below the mark a client's bytes are sent as they came, spaces and spelling included.
    #[test]
    fn below_the_mark_a_clients_bytes_are_sent_unchanged(
        steps in prop::collection::vec(step(2000), 0..12), wire in prop::sample::select(CLIENTS.to_vec()), marked in any::<bool>()
    ) {
        let name = model_for(wire);
        let mut record = Record::new();
        let mut messages = vec![json!({ "role": "system", "content": "Be brief." })];
        let mut known = 0;
        for new in session(&steps) {
            messages.extend(new);
            let mut body = body_of(wire, &messages);
            if marked && wire == Wire::Anthropic {
                super::marks::mark_last(&mut body);
            }
            let spelled = serde_json::to_string_pretty(&body).unwrap().replace("a.rs", "\\u0061.rs");
            let client = client(wire, name, &spelled);
            client.record(&mut record, known);
            known = client.said.len();
            for text in ["fit", "fit(window=150000)", "sticky(token_budget(140000))", "passthrough", "[]"] {
                let policy = Policy::for_client(manager::parse(text).unwrap(), Invalid::RepairedOrSent);
                let prepared = prepare(&record, &client.asked, &policy, &context(name, wire)).unwrap();
                prop_assert_eq!(prepared.fidelity, Fidelity::Untouched, "{}", text);
                prop_assert_eq!(&*prepared.body, spelled.as_bytes(), "{}", text);
                prop_assert_eq!(&prepared.decisions, &[], "{}", text);
                prop_assert_eq!(&prepared.repairs, &[], "{}", text);
            }
        }
    }

    /// Between two cuts the messages of one call are those the next one begins with, cache marks aside.
    #[test]
    fn within_an_epoch_every_request_begins_with_the_one_before(
        steps in prop::collection::vec(step(1200), 1..24), wire in prop::sample::select(CLIENTS.to_vec()), is_client in any::<bool>()
    ) {
        let name = model_for(wire);
        let cx = context(name, wire);
        let mut record = Record::new();
        let mut messages = vec![json!({ "role": "system", "content": "Be brief." })];
        let mut known = 0;
        let mut before: Option<(u64, Vec<String>)> = None;
        for new in session(&steps) {
            messages.extend(new.iter().cloned());
            let mut body = body_of(wire, &messages);
            if wire == Wire::Anthropic {
                super::marks::mark_last(&mut body);
            }
            let client = client(wire, name, &body.to_string());
            client.record(&mut record, known);
            known = client.said.len();
            let asked = if is_client { client.asked } else { ours(wire, name) };
            let policy = Policy::for_client(manager::parse("fit(window=2500, reserve=0)").unwrap(), Invalid::RepairedOrSent);
            let prepared = prepare(&record, &asked, &policy, &cx).unwrap();
            record_all(&mut record, &prepared.decisions);
            let epoch = prepared.epoch.unwrap().id;
            let sent = unmarked(wire, &prepared);
            if let Some((earlier, prefix)) = before.filter(|(earlier, _)| *earlier == epoch) {
                prop_assert!(sent.starts_with(&prefix), "epoch {}: {:#?} then {:#?}", earlier, prefix, sent);
            }
            // The epoch as it is numbered once the cut is recorded.
            let epoch = prepare(&record, &asked, &policy, &cx).unwrap().epoch.unwrap().id;
            before = Some((epoch, sent));
        }
    }
}
