//! Cache marks after a cut: they belong to the request, not to the entries it shows.

use scrollback_core::request::{Fidelity, Invalid, Policy, Prepared, prepare};
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Record, Role, json as raw_json, manager};
use serde_json::{Value, json};

use super::{CLAUDE, Step, body_of, client, context, record_all, session};

const MARK: &str = "cache_control";

/// Marks the last message of an Anthropic body and the user's message before it, as Claude Code does.
pub(super) fn mark_last(body: &mut Value) {
    let Some(messages) = body["messages"].as_array_mut() else { return };
    for message in messages.iter_mut().rev().filter(|message| message["role"] == "user").take(2) {
        if let Some(text) = message["content"].as_str() {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block[MARK] = json!({ "type": "ephemeral" });
        }
    }
}

/// Which marks a client sets beside those on its messages.
#[derive(Clone, Copy)]
struct Fixed {
    tools: usize,
    system: usize,
}

/// A request as Claude Code sends it.
fn body(messages: &[Value], fixed: Fixed, on_messages: bool) -> Value {
    let mut body = body_of(Wire::Anthropic, messages);
    let hour = json!({ "type": "ephemeral", "ttl": "1h" });
    let block = |n: usize| {
        let mut block = json!({ "type": "text", "text": format!("Part {n} of the instructions.") });
        if n >= 3 - fixed.system {
            block[MARK] = hour.clone();
        }
        block
    };
    body["system"] = (0..3).map(block).collect();
    if fixed.tools > 0 {
        body["tools"][0][MARK] = hour.clone();
    }
    if on_messages {
        mark_last(&mut body);
    }
    body
}

/// Whether entries are recorded as the proxy does, or as records were written before marks were left behind.
#[derive(Clone, Copy, PartialEq)]
enum Recorded {
    Now,
    WithMarks,
}

/// Sends a long session, call by call, and returns each request with what the client had sent.
fn send(fixed: Fixed, on_messages: bool, recorded: Recorded) -> Vec<(Value, Prepared)> {
    let steps: Vec<Step> =
        (0..14).map(|n| if n == 9 { Step::Ask(200) } else { Step::Work(vec![900; 1 + n % 2]) }).collect();
    let cx = context(CLAUDE, Wire::Anthropic);
    let policy =
        Policy::for_client(manager::parse("fit(window=2000, reserve=0)").unwrap(), Invalid::RepairedOrSent);
    let mut record = Record::new();
    let (mut known, mut messages, mut sent) = (0, Vec::new(), Vec::new());
    for new in session(&steps) {
        messages.extend(new);
        let body = body(&messages, fixed, on_messages);
        let client = client(Wire::Anthropic, CLAUDE, &body.to_string());
        if recorded == Recorded::Now {
            client.record(&mut record, known);
        } else {
            let parsed = Wire::Anthropic
                .parse(raw_json::check(&body.to_string()).unwrap(), &ParseOptions::default())
                .unwrap();
            let count = record.message_count();
            for entry in parsed.entries.into_iter().skip(count) {
                record.append(entry).unwrap();
            }
        }
        known = client.said.len();
        let prepared = prepare(&record, &client.asked, &policy, &cx).unwrap();
        record_all(&mut record, &prepared.decisions);
        sent.push((body, prepared));
    }
    assert!(sent.iter().filter(|(_, prepared)| prepared.fidelity == Fidelity::Spliced).count() > 5);
    sent
}

/// Messages of a body with a mark, and the block it is on, both counted from the end.
fn marked(body: &Value) -> Vec<(usize, usize)> {
    let messages = body["messages"].as_array().unwrap();
    let mut found = Vec::new();
    for (number, message) in messages.iter().rev().enumerate() {
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        for (place, block) in blocks.iter().rev().enumerate() {
            if block.get(MARK).is_some() {
                found.push((number, place));
            }
            assert!(!block["content"].to_string().contains(MARK), "no mark inside a result");
        }
    }
    found
}

fn sent_body(prepared: &Prepared) -> Value {
    let raw = raw_json::check_bytes(&prepared.body).unwrap();
    let options = CheckOptions::default();
    let fatal =
        check(Wire::Anthropic, raw, options).into_iter().find(|found| found.is_fatal(Strictness::Lenient));
    assert_eq!(fatal, None);
    serde_json::from_str(raw.text()).unwrap()
}

#[test]
fn after_a_cut_the_newest_mark_is_on_the_last_message_and_one_on_what_was_sent_before() {
    for recorded in [Recorded::Now, Recorded::WithMarks] {
        for fixed in [Fixed { tools: 0, system: 2 }, Fixed { tools: 1, system: 1 }] {
            for (body, prepared) in send(fixed, true, recorded) {
                if prepared.fidelity != Fidelity::Spliced {
                    continue;
                }
                let sent = sent_body(&prepared);
                // The instructions and the tools are the client's own, byte for byte.
                let raw = raw_json::check_bytes(&prepared.body).unwrap();
                assert_eq!(raw.get("tools").unwrap().text(), body["tools"].to_string());
                assert_eq!(raw.get("system").unwrap().text(), body["system"].to_string());
                assert!(
                    prepared.body.windows(MARK.len()).filter(|part| part == &MARK.as_bytes()).count() <= 4
                );
                // The end of what the call before had sent: the message before the newest reply.
                let messages = sent["messages"].as_array().unwrap();
                let reply = messages.iter().rposition(|message| message["role"] == "assistant");
                let stable =
                    reply.and_then(|reply| reply.checked_sub(1)).map(|at| (messages.len() - 1 - at, 0));
                let wanted: Vec<(usize, usize)> = std::iter::once((0, 0)).chain(stable).collect();
                assert_eq!(marked(&sent), wanted, "{sent:#}");
            }
        }
    }
}

#[test]
fn where_there_is_no_room_for_both_the_older_mark_goes() {
    for (fixed, wanted) in [(Fixed { tools: 1, system: 2 }, 1), (Fixed { tools: 1, system: 3 }, 0)] {
        // A client with more than four marks would be refused, so one that fills them all marks no message.
        let on_messages = wanted > 0;
        for (_, prepared) in send(fixed, on_messages, Recorded::Now) {
            if prepared.fidelity == Fidelity::Spliced {
                let marks = marked(&sent_body(&prepared));
                assert_eq!(marks.len(), wanted);
                assert!(marks.iter().all(|mark| *mark == (0, 0)), "{marks:?}");
            }
        }
    }
}

#[test]
fn a_client_without_marks_on_its_messages_gets_none() {
    for fixed in [Fixed { tools: 0, system: 0 }, Fixed { tools: 1, system: 1 }] {
        for (body, prepared) in send(fixed, false, Recorded::Now) {
            let sent = sent_body(&prepared);
            assert_eq!(marked(&sent), []);
            assert_eq!(sent["system"], body["system"]);
            assert_eq!(sent["tools"], body["tools"]);
        }
    }
}

#[test]
fn a_mark_of_the_call_in_which_an_entry_was_first_seen_is_not_in_the_record() {
    let body = body(&session(&[Step::Work(vec![10])]).concat(), Fixed { tools: 1, system: 1 }, true);
    let mut record = Record::new();
    client(Wire::Anthropic, CLAUDE, &body.to_string()).record(&mut record, 0);
    let raw = |at: u64| record.entry(at).map(|entry| (entry.role, entry.origin.raw.to_string()));
    let said: Vec<(Role, String)> = (0..record.len() as u64).filter_map(raw).collect();
    assert_eq!(said.len(), 4, "the instructions, a question, a reply, a result");
    for (role, text) in said {
        assert!(role == Role::System || !text.contains(MARK), "{text}");
    }
}
