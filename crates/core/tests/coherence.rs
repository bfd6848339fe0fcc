//! One test for every row of the coherence table, named after it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::rendered;
use scrollback_core::{
    CurationContext, Decision, Entry, Fidelity, ItemSource, Meta, Record, Role, Status, Time, Unfinished,
    View, json, manager::Passthrough, wire::openai_chat::provider_message_to_entry,
};

/// A record of messages in a shorthand: `s:text`, `u:text`, `a:text`, `a[x,y]:text`, `t(x):text`.
fn record(said: &[&str]) -> Record {
    let mut record = Record::new();
    for (n, line) in said.iter().enumerate() {
        record.append(entry(line).stamped(uuid::Uuid::nil(), n as u64, Time::default())).unwrap();
    }
    record
}

fn entry(line: &str) -> Entry {
    let (head, text) = line.split_once(':').unwrap();
    let mut message = serde_json::json!({ "content": text });
    let role = match head.chars().next().unwrap() {
        's' => "system",
        'u' => "user",
        'a' => "assistant",
        _ => "tool",
    };
    message["role"] = role.into();
    let ids = head.get(1..).unwrap().trim_matches(['[', ']', '(', ')']);
    if head.contains('[') {
        let call = |id: &str| serde_json::json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } });
        message["tool_calls"] = ids.split(',').map(call).collect();
    } else if head.contains('(') {
        message["tool_call_id"] = ids.into();
    }
    provider_message_to_entry(json::check(&message.to_string()).unwrap()).unwrap()
}

fn coherent(record: &Record, unfinished: Unfinished) -> View<'_> {
    let cx = CurationContext { unfinished, ..CurationContext::default() };
    record.view(&cx, &Passthrough).unwrap()
}

fn shown(view: &View<'_>) -> Vec<String> {
    view.items()
        .map(|item| match item.source {
            ItemSource::Entry(position) => position.to_string(),
            ItemSource::Interrupted { call_id } => format!("+{call_id}"),
            ItemSource::Summary { .. } | ItemSource::Ledger { .. } => "summary".into(),
        })
        .collect()
}

fn dropped(view: &View<'_>) -> Vec<(u64, &'static str)> {
    view.explain().dropped.iter().map(|drop| (drop.index, drop.reason.as_str())).collect()
}

#[test]
fn complete_group_stands_at_the_place_of_its_call_in_record_order() {
    let record = record(&["u:q", "a[x,y]:", "t(y):2", "t(x):1", "a:done"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "2", "3", "4"]);
    assert!(view.explain().changed.is_empty() && dropped(&view).is_empty());
}

#[test]
fn results_with_another_entry_between_them_and_the_call_are_moved() {
    let record = record(&["u:q", "a[x]:", "u:and?", "t(x):1", "a:done"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "3", "2", "4"]);
    let changed = view.explain().changed;
    assert_eq!((changed[0].index, changed[0].reason.as_str()), (3, "moved"));
    assert_eq!(changed[0].from_chars, changed[0].to_chars);
    assert_eq!(view.warnings()[0].code, "late_result");
    assert_eq!(view.items().nth(2).unwrap().fidelity, Fidelity::Moved);
}

#[test]
fn orphan_is_left_out() {
    let record = record(&["t(x):0", "u:q", "t(nobody):1", "a:ok"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["1", "3"]);
    assert_eq!(dropped(&view), [(0, "orphan_result"), (2, "orphan_result")]);
}

#[test]
fn duplicate_leaves_the_first_result() {
    let record = record(&["u:q", "a[x]:", "t(x):first", "t(x):second", "a:ok"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "2", "4"]);
    assert_eq!(dropped(&view), [(3, "duplicate_result")]);
}

#[test]
fn unfinished_with_policy_drop_leaves_out_the_call_and_the_results_there_are() {
    let record = record(&["u:q", "a[x,y]:", "t(x):1", "u:next"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "3"]);
    let explained = view.explain();
    assert_eq!(dropped(&view), [(1, "unfinished_group"), (2, "unfinished_group")]);
    assert_eq!(explained.dropped[0].group.as_deref(), Some(&[1, 2][..]));
}

#[test]
fn unfinished_with_policy_close_gets_interrupted_results_in_call_order_after_the_others() {
    let record = record(&["u:q", "a[x,y,z]:", "t(y):1", "u:next"]);
    let view = coherent(&record, Unfinished::Close);
    assert_eq!(shown(&view), ["0", "1", "2", "+x", "+z", "3"]);
    assert_eq!(
        rendered(view.items())[3],
        r#"{"role":"tool","tool_call_id":"x","content":"[interrupted: no result was recorded]"}"#
    );
    assert!(dropped(&view).is_empty());
}

#[test]
fn close_falls_back_to_drop_for_calls_without_an_id() {
    let message = r#"{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let mut record = record(&["u:q"]);
    let call = provider_message_to_entry(json::check(message).unwrap()).unwrap();
    record.append(call.stamped(uuid::Uuid::nil(), 1, Time::default())).unwrap();
    let view = coherent(&record, Unfinished::Close);
    assert_eq!(shown(&view), ["0"]);
    assert_eq!(dropped(&view), [(1, "unfinished_group")]);
}

#[test]
fn id_claimed_twice_gives_two_separate_groups_and_a_warning() {
    let record = record(&["u:q", "a[x]:", "t(x):1", "a[x]:", "t(x):2", "a:ok"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "2", "3", "4", "5"]);
    let warnings = view.warnings();
    assert_eq!((warnings[0].code, warnings[0].index), ("duplicate_call_id", Some(3)));
}

#[test]
fn an_id_claimed_again_before_its_result_leaves_the_first_group_unfinished() {
    let record = record(&["u:q", "a[x]:", "a[x]:", "t(x):2"]);
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "2", "3"]);
    assert_eq!(dropped(&view), [(1, "unfinished_group")]);
}

#[test]
fn an_entry_of_the_group_was_erased_and_the_whole_group_is_left_out() {
    let mut record = record(&["u:q", "a[x,y]:", "t(x):secret", "t(y):fine", "a:ok"]);
    assert!(record.erase(2));
    assert!(!record.erase(2), "there is nothing left to erase");
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "4"]);
    assert_eq!(dropped(&view), [(1, "erased"), (2, "erased"), (3, "erased")]);
    assert!(!rendered(view.items()).concat().contains("secret"));
    assert_eq!(record.message_count(), 5);
}

#[test]
fn an_erased_orphan_and_an_erased_task_are_explained_too() {
    let mut record = record(&["u:first", "a:ok", "t(x):lost", "u:second"]);
    record.erase(2);
    record.erase(3);
    let cx = CurationContext::default();
    let window = scrollback_core::manager::parse("sliding_window(0)").unwrap();
    let view = record.view(&cx, &*window).unwrap();
    assert_eq!(shown(&view), ["0"], "the task is the last user entry that is left");
    assert_eq!(dropped(&view), [(1, "outside_window"), (2, "erased"), (3, "erased")]);
}

fn broken(line: &str, arguments: &str) -> Entry {
    let call = serde_json::json!({ "id": "x", "type": "function", "function": { "name": "f", "arguments": arguments } });
    let whole =
        serde_json::json!({ "id": "y", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let text = if line.is_empty() { serde_json::Value::Null } else { line.into() };
    let calls = if line == "both" { vec![whole, call] } else { vec![call] };
    let message = serde_json::json!({ "role": "assistant", "content": text, "tool_calls": calls });
    let mut entry = provider_message_to_entry(json::check(&message.to_string()).unwrap()).unwrap();
    entry.meta = Some(Box::new(Meta { status: Status::TruncatedUpstream, ..Meta::default() }));
    entry
}

#[test]
fn stream_broke_before_a_call_was_complete_so_the_call_counts_as_not_made() {
    let mut record = record(&["u:q"]);
    record
        .append(broken("I will look", "{\"path\":").stamped(uuid::Uuid::nil(), 1, Time::default()))
        .unwrap();
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(rendered(view.items())[1], r#"{"role":"assistant","content":"I will look"}"#);
    assert_eq!(view.explain().changed[0].reason.as_str(), "truncated");
}

#[test]
fn stream_broke_after_one_whole_call_and_that_call_still_needs_its_result() {
    let mut record = record(&["u:q"]);
    record.append(broken("both", "{\"pa").stamped(uuid::Uuid::nil(), 1, Time::default())).unwrap();
    assert_eq!(shown(&coherent(&record, Unfinished::Drop)), ["0"]);
    record.append(entry("t(y):1").stamped(uuid::Uuid::nil(), 2, Time::default())).unwrap();
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "2"]);
    let messages = rendered(view.items());
    assert!(messages[1].contains(r#""id":"y""#) && !messages[1].contains(r#""id":"x""#), "{}", messages[1]);
}

#[test]
fn stream_broke_and_an_entry_left_with_nothing_is_left_out() {
    let mut record = record(&["u:q"]);
    record.append(broken("", "{\"path\":").stamped(uuid::Uuid::nil(), 1, Time::default())).unwrap();
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0"]);
    assert_eq!(dropped(&view), [(1, "truncated")]);
}

#[test]
fn an_unfinished_group_that_completes_later_appears_at_its_calls_place() {
    let mut record = record(&["u:q", "a[x]:", "u:hello?"]);
    assert_eq!(shown(&coherent(&record, Unfinished::Drop)), ["0", "2"]);
    record.append(entry("t(x):1").stamped(uuid::Uuid::nil(), 3, Time::default())).unwrap();
    let view = coherent(&record, Unfinished::Drop);
    assert_eq!(shown(&view), ["0", "1", "3", "2"]);
    assert_eq!(view.warnings()[0].code, "late_result");
}

#[test]
fn calls_a_decision_calls_interrupted_are_shown_closed() {
    let mut record = record(&["u:q", "a[x]:", "u:go on"]);
    record.decide(Decision::Interrupted { call_ids: vec!["x".into()] }, Time::default()).unwrap();
    assert_eq!(shown(&coherent(&record, Unfinished::Drop)), ["0", "1", "+x", "2"]);
}

#[test]
fn the_lead_is_the_unbroken_run_of_system_entries_of_the_coherent_list() {
    let record = record(&["t(x):0", "s:one", "s:two", "u:q", "s:three", "a:ok"]);
    let cx = CurationContext { preserve_task: false, ..CurationContext::default() };
    let nothing = scrollback_core::manager::parse("sliding_window(0)").unwrap();
    assert_eq!(shown(&record.view(&cx, &*nothing).unwrap()), ["1", "2"]);
    let cx = CurationContext { preserve_system: false, preserve_task: false, ..CurationContext::default() };
    assert!(record.view(&cx, &*nothing).unwrap().is_empty());
    assert_eq!(record.entry(1).unwrap().role, Role::System);
}
