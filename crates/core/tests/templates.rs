//! A request that was taken apart comes back byte for byte, and shares with the record what it can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{break_list, cases, history, record_of};
use proptest::prelude::*;
use scrollback_core::manager::Passthrough;
use scrollback_core::request::{BodyPiece, BodyTemplate};
use scrollback_core::wire::{ParseOptions, Wire, list_key};
use scrollback_core::{CurationContext, Entry, Record, json};
use serde_json::Value;

/// The body again, from the record.
fn body_of(template: &BodyTemplate, record: &Record) -> Option<Vec<u8>> {
    template.body(|position| Some(Arc::clone(&record.entry(position)?.origin.raw)))
}

fn entries_of(wire: Wire, body: &str) -> Vec<Entry> {
    wire.parse(json::check(body).unwrap(), &ParseOptions::default()).unwrap().entries
}

/// Takes a body apart over entries at positions from 10 on, checks that it comes back, and gives its pieces and how many
/// bytes of it are its own.
fn taken_apart(wire: Wire, entries: &[Entry], body: &str) -> (Vec<BodyPiece>, usize) {
    let template = BodyTemplate::of(wire, body.as_bytes(), (10..).zip(entries));
    let raw = |position: u64| entries.get(position as usize - 10).map(|entry| Arc::clone(&entry.origin.raw));
    let found = template.body(raw).expect("it comes back");
    assert_eq!(std::str::from_utf8(&found).unwrap(), body);
    let own = template.pieces().iter().map(|piece| match piece {
        BodyPiece::Text(text) => text.len(),
        _ => 0,
    });
    (template.pieces().to_vec(), own.sum())
}

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[test]
fn messages_that_were_sent_as_recorded_are_one_run() {
    let list = r#"[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"x"}]"#;
    let entries = entries_of(Wire::OpenaiChat, list);
    let body = format!(r#"{{"model":"m","messages":{list},"stream":true}}"#);
    let (pieces, _) = taken_apart(Wire::OpenaiChat, &entries, &body);
    let text = |text: &str| BodyPiece::Text(text.into());
    assert_eq!(
        pieces,
        [
            text(r#"{"model":"m","messages":["#),
            BodyPiece::Run { first: 10, last: 12 },
            text(r#"],"stream":true}"#)
        ]
    );
    // A message between them that was left out, or a client's own spelling of the space between them, is no harm.
    let template = BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), (10..).zip(&entries));
    assert_eq!(template.whole().collect::<Vec<_>>(), [10, 11, 12]);
    let (pieces, _) = taken_apart(Wire::OpenaiChat, &entries, &body.replace("},{", "} ,\n{"));
    assert_eq!(pieces.len(), 7);
}

#[test]
fn cache_marks_that_moved_take_their_own_room_only() {
    let long = "what the tool found, line after line. ".repeat(50);
    let message = |marked: [&str; 2]| {
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"{long}"{}}},{{"type":"text","text":"and {long}"{}}}]}}"#,
            marked[0], marked[1]
        )
    };
    let all = [message(["", ""]), message([MARK, ""]), message(["", MARK]), message([MARK, MARK])];
    for recorded in &all {
        let entries = entries_of(Wire::Anthropic, &format!("[{recorded}]"));
        for sent in &all {
            let (_, own) =
                taken_apart(Wire::Anthropic, &entries, &format!(r#"{{"model":"m","messages":[{sent}]}}"#));
            assert!(own < 150, "{own} bytes of its own");
        }
    }
}

#[test]
fn a_message_that_became_several_entries_is_put_together_from_them() {
    let result = |id: &str| {
        let text = format!("the result of {id}. ").repeat(20);
        format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}"#)
    };
    let results: Vec<String> = (0..60).map(|number| result(&format!("toolu_{number}"))).collect();
    let content = format!(r#"{{"type":"text","text":"Here you are"}},{}"#, results.join(","));
    let list = format!(r#"[{{"role":"user","content":[{content}]}}]"#);
    let entries = entries_of(Wire::Anthropic, &list);
    assert_eq!(entries.len(), 61);
    let (_, own) = taken_apart(Wire::Anthropic, &entries, &format!(r#"{{"messages":{list}}}"#));
    assert!(own < 250, "{own} bytes of its own");
}

#[test]
fn replies_that_clients_spell_in_another_order_are_copied_block_by_block() {
    let text = "a sentence of the reply. ".repeat(30);
    let input = r#"{"a":1,"b":[1,2,3],"path":"src/main.rs","c":{"d":null}}"#;
    let call = format!(r#""id":"toolu_1","name":"read","input":{input}"#);
    let reply = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}},{{"type":"tool_use",{call}}}],"stop_reason":"tool_use"}}"#
    );
    let entries = entries_of(Wire::Anthropic, &format!("[{reply}]"));
    let echo = format!(
        r#"{{"content":[{{"text":"{text}","type":"text"}},{{"name":"read","input":{input},"type":"tool_use","id":"toolu_1"}}],"role":"assistant"}}"#
    );
    let (_, own) = taken_apart(Wire::Anthropic, &entries, &format!(r#"{{"messages":[{echo}]}}"#));
    assert!(own < 160, "{own} bytes of its own");
}

#[test]
fn what_is_long_and_not_recorded_is_a_piece_of_its_own() {
    let (tools, prompt) = ("t".repeat(5_000), "p".repeat(3_000));
    let body = |billing: u32| {
        format!(
            r#"{{"model":"m","tools":[{{"name":"{tools}"}}],"system":[{{"type":"text","text":"billing {billing}"}},{{"type":"text","text":"{prompt}"{MARK}}}],"messages":[]}}"#
        )
    };
    let long = |billing: u32| -> Vec<BodyPiece> {
        let (pieces, _) = taken_apart(Wire::Anthropic, &[], &body(billing));
        pieces
            .into_iter()
            .filter(|piece| matches!(piece, BodyPiece::Text(text) if text.len() >= 256))
            .collect()
    };
    assert_eq!(long(1).len(), 2);
    assert_eq!(long(1), long(2));
}

#[test]
fn a_body_that_is_no_json_or_has_no_list_comes_back() {
    let entries = entries_of(Wire::OpenaiChat, r#"[{"role":"user","content":"one"}]"#);
    for body in
        [b"".as_slice(), b"hello", b"\xff\xfe", b"{\"messages\":3}", b"[1,2", b" null ", b"{\"messages\":[]}"]
    {
        for wire in Wire::ALL {
            let template = BodyTemplate::of(wire, body, (0..).zip(&entries));
            assert_eq!(template.body(|_| None).as_deref(), Some(body));
        }
    }
}

#[test]
fn a_body_that_would_not_be_the_one_that_was_sent_is_none() {
    let entry = &entries_of(Wire::OpenaiChat, r#"[{"role":"user","content":"one"}]"#)[0];
    let body = format!(r#"{{"messages":[{}]}}"#, entry.origin.raw);
    let template = BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), [(u64::MAX, entry)]);
    assert_eq!(template.body(|_| Some(entry.origin.raw.as_ref().into())).as_deref(), Some(body.as_bytes()));
    assert_eq!(template.body(|_| Some(entry.origin.raw.replace("one", "two").into())), None);
    assert_eq!(template.body(|_| Some("".into())), None);
}

/// Ten thousand messages are taken apart about as quickly per byte as a hundred, also where none is what it should be.
#[test]
fn time_grows_with_the_body_and_not_faster() {
    let message = |number: usize, mark: &str| {
        let text = format!("line {number} of what the tool said. ").repeat(30);
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"{text}"{mark}}},{{"type":"text","text":"the same in every message, and long enough to be copied"}}]}}"#
        )
    };
    let time = |messages: usize| -> Duration {
        let list =
            |mark: &str| (0..messages).map(|number| message(number, mark)).collect::<Vec<_>>().join(",");
        let entries = entries_of(Wire::Anthropic, &format!("[{}]", list("")));
        let bodies = [list(""), list(MARK), list(" "), "{\"a\":1},".repeat(messages * 100) + "1"];
        let began = Instant::now();
        for body in bodies {
            taken_apart(Wire::Anthropic, &entries, &format!("{{\"messages\":[{body}]}}"));
        }
        began.elapsed()
    };
    time(100);
    let (few, many) = (time(500), time(10_000));
    assert!(many < few * 20 * 5, "500 messages: {few:?}; 10,000: {many:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(3_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// For any record, wire and body, over entries that were left out, repeated or given in another order.
    #[test]
    fn every_body_comes_back(
        history in history(24),
        wire in prop::sample::select(Wire::ALL.to_vec()),
        harm in prop::option::of((any::<usize>(), 0u8..12)),
        spelling in 0u8..4,
        shown in prop::collection::vec(0u64..24, 0..30),
        in_order in any::<bool>(),
        around in prop_oneof![Just(String::new()), "[a-é\"\\\\{\\[,:]{0,20}", Just("x".repeat(300))],
    ) {
        let record = record_of(&history);
        let cx = CurationContext::default();
        let rendered = record.view(&cx, &Passthrough).unwrap().render(wire, &cx);
        let mut body: Value = serde_json::from_str(&rendered.body(wire, None)).unwrap();
        if let Some((place, harm)) = harm {
            break_list(if body.is_array() { &mut body } else { &mut body[list_key(wire)] }, place, harm);
        }
        if let Some(members) = body.as_object_mut() {
            members.insert("metadata".into(), around.clone().into());
        }
        let body = match spelling {
            0 => body.to_string(),
            1 => serde_json::to_string_pretty(&body).unwrap(),
            2 => rendered.body(wire, None),
            // Broken off, or something else altogether.
            _ => format!("{body}{around}"),
        };
        let shown: Vec<u64> = if in_order { (0..record.len() as u64).collect() } else { shown };
        let shown = shown.into_iter().filter_map(|position| Some((position, record.entry(position)?.as_ref())));
        let template = BodyTemplate::of(wire, body.as_bytes(), shown);
        let found = body_of(&template, &record);
        prop_assert_eq!(found.as_deref().map(String::from_utf8_lossy), Some(body.as_str().into()));
        let again = BodyTemplate::from_pieces(*template.hash(), template.pieces().to_vec());
        prop_assert_eq!(again, template);
    }

    /// For bytes that are anything.
    #[test]
    fn any_bytes_come_back(body in prop::collection::vec(any::<u8>(), 0..200), history in history(4)) {
        let record = record_of(&history);
        let shown = (0..record.len() as u64).map(|position| (position, record.entry(position).unwrap().as_ref()));
        let template = BodyTemplate::of(Wire::OpenaiChat, &body, shown);
        prop_assert_eq!(body_of(&template, &record), Some(body));
    }
}
