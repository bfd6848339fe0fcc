//! `fit`: where its mark is, that it does nothing below it, and what it does when what must stay is too large.

use scrollback_core::manager::{Fit, Keep};
use scrollback_core::request::{Fidelity, Invalid, Policy, PrepareError, prepare};
use scrollback_core::wire::{Wire, opening_tokens};
use scrollback_core::{CurationContext, CurationError, Decision, Record, json as raw_json, manager};
use serde_json::{Value, json};

use super::{
    CLAUDE, GPT, body_of, client, context, messages_of, model, ours, policy, record_all, record_of, text,
};

#[test]
fn the_high_mark_is_the_window_less_what_the_reply_may_take() {
    let of = |name: &str, output: Option<u64>, fit: Fit| {
        let cx = CurationContext { output, ..CurationContext::for_model(Some(model(name))) };
        fit.limit(&cx).unwrap()
    };
    let table = || Fit::default();
    let window = |window| Fit { window: Some(window), ..Fit::default() };
    for (what, got, wanted) in [
        ("the model's own longest reply", of(GPT, None, table()), 128_000 - 16_384),
        ("the model's own longest reply", of(CLAUDE, None, table()), 200_000 - 64_000),
        ("the request's limit", of(GPT, Some(1000), table()), 127_000),
        ("the request's limit, though it is above the model's", of(GPT, Some(20_000), table()), 108_000),
        ("at most half of the window", of(CLAUDE, Some(150_000), table()), 100_000),
        ("a window that was given", of(GPT, Some(1000), window(50_000)), 49_000),
        ("a window that was given, and the model's reply", of(GPT, None, window(20_000)), 10_000),
        ("nothing known: an eighth", of("openai-compatible:nobody", None, window(8000)), 7000),
        ("nothing known: at most 8,192", of("openai-compatible:nobody", None, window(100_000)), 91_808),
        (
            "a reserve that was given wins",
            of(GPT, Some(1000), Fit { reserve: Some(7), ..window(50_000) }),
            49_993,
        ),
    ] {
        assert_eq!(got, wanted, "{what}");
    }
}

fn talk() -> Vec<Value> {
    let mut messages = vec![json!({ "role": "system", "content": "Be brief." })];
    for n in 0..20 {
        messages.push(json!({ "role": "user", "content": format!("Question {n}: {}", text(100)) }));
        messages.push(json!({ "role": "assistant", "content": text(100) }));
    }
    messages.push(json!({ "role": "user", "content": "And now?" }));
    messages
}

#[test]
fn it_acts_one_token_above_the_mark_and_not_at_it() {
    for (name, wire) in [(GPT, Wire::OpenaiChat), (GPT, Wire::OpenaiResponses), (CLAUDE, Wire::Anthropic)] {
        let body = body_of(wire, &talk()).to_string();
        let client = client(wire, name, &body);
        let mut record = Record::new();
        client.record(&mut record, 0);
        let cx = |output| CurationContext { output: Some(output), ..context(name, wire) };
        let mut cx = cx(500);
        cx.tools = client.tools;
        let passed = policy("passthrough");
        let total = prepare(&record, &ours(wire, name), &passed, &cx).unwrap().tokens.unwrap().total;
        // Some wires want a user first: room is kept for the message that opens such a list after a cut.
        let opening = if wire.starts_with_user() { opening_tokens(cx.counter.tokenizer) } else { 0 };
        for (window, acts) in [(total + opening + 500, false), (total + 500 - 1, true)] {
            let manager = manager::parse(&format!("fit(window={window})")).unwrap();
            let policy = Policy::for_client(manager, Invalid::RepairedOrSent);
            let prepared = prepare(&record, &client.asked, &policy, &cx).unwrap();
            assert_eq!(!prepared.decisions.is_empty(), acts, "{wire}, window {window}, {total} tokens");
            assert_eq!(prepared.fidelity == Fidelity::Untouched, !acts, "{wire}");
            assert_eq!(&*prepared.body == body.as_bytes(), !acts, "{wire}");
            let left = prepared.tokens.unwrap().total;
            assert!(
                !acts || left <= (window - 500) * 3 / 5,
                "{wire}: cut to three fifths, {left} of {window}"
            );
        }
    }
}

/// A task, some talk, and a group of calls with results of these lengths.
fn results(lengths: &[usize]) -> Record {
    let mut messages = talk();
    let id = |n: usize| format!("call_{n}");
    let call = |n: usize| json!({ "id": id(n), "type": "function", "function": { "name": "read_file", "arguments": "{}" } });
    messages.push(json!({ "role": "assistant", "content": null,
        "tool_calls": (0..lengths.len()).map(call).collect::<Vec<_>>() }));
    messages.extend(
        lengths
            .iter()
            .enumerate()
            .map(|(n, length)| json!({ "role": "tool", "tool_call_id": id(n), "content": text(*length) })),
    );
    record_of(&messages)
}

#[test]
fn results_of_the_newest_group_are_shortened_where_they_alone_are_too_large() {
    for (name, wire) in [(GPT, Wire::OpenaiChat), (CLAUDE, Wire::Anthropic)] {
        let cx = context(name, wire);
        let mut record = results(&[200_000, 100, 50_000]);
        let length = record.len() as u64;
        let (asked, policy) = (ours(wire, name), policy("fit(window=10000, reserve=0)"));
        let prepared = prepare(&record, &asked, &policy, &cx).unwrap();
        let total = prepared.tokens.unwrap().total;
        assert!(total <= 10_000, "{name}: {total}");
        assert!(total > 9_000, "{name}: no more than necessary is taken, {total}");
        let truncated = prepared.decisions.iter().find_map(|decision| match decision {
            Decision::Truncate { positions, max_length, keep } => {
                Some((positions.clone(), *max_length, *keep))
            }
            _ => None,
        });
        let (positions, max_length, keep) = truncated.expect("a truncate decision");
        assert_eq!(
            (positions, keep),
            (vec![length - 3, length - 1], Keep::Both),
            "{name}: only the long ones"
        );
        assert!(max_length >= 2000, "{name}: {max_length}");
        assert!(super::cuts(&prepared.decisions), "{name}: what is old goes first");
        // Head and tail stay, of exactly that length.
        let sent = String::from_utf8(prepared.body.to_vec()).unwrap();
        assert!(sent.contains("... [truncated]"), "{name}");
        record_all(&mut record, &prepared.decisions);
        let again = prepare(&record, &asked, &policy, &cx).unwrap();
        assert_eq!((again.body, again.decisions), (prepared.body, Vec::new()), "{name}");
    }
}

#[test]
fn no_result_is_shortened_below_two_thousand_characters() {
    let wire = Wire::OpenaiChat;
    let cx = context(GPT, wire);
    let record = results(&[30_000, 30_000]);
    let prepared_in = |window: usize| {
        prepare(&record, &ours(wire, GPT), &policy(&format!("fit(window={window}, reserve=0)")), &cx)
    };
    let shortest =
        (100..2000).find(|window| prepared_in(*window).is_ok()).expect("a window that is large enough");
    let prepared = prepared_in(shortest).unwrap();
    let lengths: Vec<usize> = messages_of(wire, &prepared.body)
        .iter()
        .filter_map(|message| {
            let message: Value = serde_json::from_str(message).unwrap();
            (message["role"] == "tool").then(|| message["content"].as_str().unwrap().chars().count())
        })
        .collect();
    assert_eq!(lengths, [2000, 2000], "the smallest window, {shortest}, has the shortest texts");
    let error = prepared_in(shortest - 1).unwrap_err();
    assert!(matches!(error, PrepareError::TooLarge { .. }), "{error}");
    assert_eq!(error.code(), "context_overflow");
}

#[test]
fn instructions_that_are_too_large_are_still_an_error() {
    for (name, wire) in [(GPT, Wire::OpenaiChat), (CLAUDE, Wire::Anthropic)] {
        let cx = context(name, wire);
        let record = record_of(&[
            json!({ "role": "system", "content": text(50_000) }),
            json!({ "role": "user", "content": "Hello." }),
        ]);
        let fit = manager::parse("fit(window=5000, reserve=0)").unwrap();
        let error = record.view(&cx, &*fit).unwrap_err();
        assert!(matches!(error, CurationError::WindowTooSmall { window: 5000, .. }), "{error}");
        assert_eq!(error.code(), "budget_too_small");
        let Err(PrepareError::TooLarge { stated, tokens }) =
            prepare(&record, &ours(wire, name), &Policy::new(fit.clone()), &cx)
        else {
            panic!("{name}: it was prepared")
        };
        assert_eq!(stated.limit, Some(5000));
        assert!(tokens.instructions > 5000 && tokens.messages < 100, "{tokens:?}");
        // For a client everything is sent, and its provider answers.
        let body = body_of(
            wire,
            &[
                json!({ "role": "system", "content": text(50_000) }),
                json!({ "role": "user", "content": "Hello." }),
            ],
        )
        .to_string();
        let client = client(wire, name, &body);
        let policy = Policy::for_client(fit, Invalid::RepairedOrSent);
        let prepared = prepare(&record, &client.asked, &policy, &cx).unwrap();
        assert_eq!(&*prepared.body, body.as_bytes(), "{name}");
        assert!(raw_json::check_bytes(&prepared.body).is_ok());
    }
}

#[test]
fn a_token_budget_is_a_promise_and_fails_with_advice() {
    let cx = context(GPT, Wire::OpenaiChat);
    for text in ["token_budget(1000)", "sticky(token_budget(1000))"] {
        let error =
            prepare(&results(&[30_000]), &ours(Wire::OpenaiChat, GPT), &policy(text), &cx).unwrap_err();
        assert_eq!(error.code(), "budget_too_small", "{text}");
        assert!(error.to_string().contains("tool_result_truncator"), "{text}: {error}");
    }
}
