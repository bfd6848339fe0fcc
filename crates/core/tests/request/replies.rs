//! What a provider said is never repaired, whatever it looks like; what clients add is.

use proptest::prelude::*;
use scrollback_core::request::{Fidelity, Invalid, Policy, prepare};
use scrollback_core::stream::Reply;
use scrollback_core::wire::Wire;
use scrollback_core::{Record, Time, json, manager};
use serde_json::{Value, json};

use super::{client, context};
use crate::support::cases;

const GPT_5: &str = "openai:gpt-5";
const CLAUDE: &str = super::CLAUDE;

fn fit() -> Policy {
    Policy::for_client(manager::parse("fit").unwrap(), Invalid::RepairedOrSent)
}

/// A record in which a client asked, and a host answered with these items or blocks.
fn answered(wire: Wire, name: &str, ask: &Value, parts: &Value) -> Record {
    let mut record = Record::new();
    client(wire, name, &ask.to_string()).record(&mut record, 0);
    let body = match wire {
        Wire::OpenaiResponses => json!({ "id": "resp_1", "status": "completed", "output": parts }),
        _ => {
            json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": parts, "stop_reason": "end_turn" })
        }
    };
    let reply = Reply::from_body(wire, json::check(&body.to_string()).unwrap());
    let sequence = record.message_count() as u64;
    record.append(reply.entry().unwrap().stamped(uuid::Uuid::nil(), sequence, Time(1))).unwrap();
    record
}

/// Ids as hosts make them: short, long, of other letters.
fn id() -> impl Strategy<Value = String> {
    prop_oneof!["msg_[0-9]{1,4}", "fc_[0-9]{1,3}", "rs_[0-9a-f]{8}", "[a-z.:/]{1,12}", "call[-.:a-z0-9]{70}"]
}

/// Reasoning as other hosts give it: with or without a summary, encrypted content of any form.
fn reasoning() -> impl Strategy<Value = Value> {
    (id(), any::<bool>(), prop::option::of("[ -~]{0,40}")).prop_map(|(id, summary, encrypted)| {
        let mut item =
            json!({ "type": "reasoning", "id": id, "content": [{ "type": "reasoning_text", "text": "hm" }] });
        if summary {
            item["summary"] = json!([]);
        }
        if let Some(encrypted) = encrypted {
            item["encrypted_content"] = json!(encrypted);
        }
        item
    })
}

/// The items of one reply of a Responses host, and the results of its calls.
fn items() -> impl Strategy<Value = (Vec<Value>, Vec<Value>)> {
    let call = (id(), id()).prop_map(|(id, call)| {
        json!({ "type": "function_call", "id": id, "call_id": call, "name": "look", "arguments": "{}" })
    });
    let message = id().prop_map(|id| {
        json!({ "type": "message", "id": id, "role": "assistant", "content": [{ "type": "output_text", "text": "so" }] })
    });
    (prop::option::of(reasoning()), prop::option::of(message), prop::collection::vec(call, 0..3))
        .prop_filter("a reply says something", |(_, message, calls)| message.is_some() || !calls.is_empty())
        .prop_map(|(reasoning, message, mut calls)| {
            calls.dedup_by(|one, other| one["call_id"] == other["call_id"]);
            let outputs = calls.iter().map(|call| {
                json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "found" })
            });
            let outputs = outputs.collect();
            (reasoning.into_iter().chain(message).chain(calls).collect(), outputs)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    /// A client that sends a host's own items back is passed on byte for byte; and where the list has to be printed anew, the
    /// items are still what the host said.
    #[test]
    fn what_a_host_said_goes_back_as_it_came((said, outputs) in items(), store in any::<bool>()) {
        let ask = json!({ "model": "gpt-5", "input": [{ "role": "user", "content": "look" }], "store": store });
        let mut record = answered(Wire::OpenaiResponses, GPT_5, &ask, &json!(said));
        let mut input = vec![ask["input"][0].clone()];
        input.extend(said.iter().cloned().chain(outputs.iter().cloned()));
        input.push(json!({ "role": "user", "content": "and now?" }));
        let body = json!({ "model": "gpt-5", "input": input, "store": store }).to_string();
        let next = client(Wire::OpenaiResponses, GPT_5, &body);
        next.record(&mut record, 2);
        let cx = context(GPT_5, Wire::OpenaiResponses);
        let prepared = prepare(&record, &next.asked, &fit(), &cx).unwrap();
        prop_assert_eq!(prepared.fidelity, Fidelity::Untouched, "{:?}", prepared.repairs);
        prop_assert_eq!(&prepared.body[..], body.as_bytes());
        let printed = next.asked.from_record(scrollback_core::request::Threads::Kept).unwrap();
        let printed = prepare(&record, &printed, &fit(), &cx).unwrap();
        let sent: Value = serde_json::from_slice(&printed.body).unwrap();
        let sent = sent["input"].as_array().unwrap();
        for item in &said {
            prop_assert!(sent.contains(item), "{} is missing in {:?}; {:?}", item, sent, printed.repairs);
        }
    }

    /// What the client adds is repaired beside it, and the host's own items stay.
    #[test]
    fn what_a_client_adds_is_repaired((said, outputs) in items()) {
        let ask = json!({ "model": "gpt-5", "input": [{ "role": "user", "content": "look" }] });
        let mut record = answered(Wire::OpenaiResponses, GPT_5, &ask, &json!(said));
        let mut input = vec![ask["input"][0].clone()];
        input.extend(said.iter().cloned().chain(outputs.iter().cloned()));
        // Reasoning of the client's own invention, and an output that answers nothing.
        input.push(json!({ "type": "reasoning", "id": "rs_made_up", "summary": [], "encrypted_content": "cut of" }));
        input.push(json!({ "type": "function_call_output", "call_id": "never_called", "output": "x" }));
        input.push(json!({ "role": "user", "content": "and now?" }));
        let body = json!({ "model": "gpt-5", "input": input }).to_string();
        let next = client(Wire::OpenaiResponses, GPT_5, &body);
        next.record(&mut record, 2);
        let prepared = prepare(&record, &next.asked, &fit(), &context(GPT_5, Wire::OpenaiResponses)).unwrap();
        let sent: Value = serde_json::from_slice(&prepared.body).unwrap();
        let sent = sent["input"].as_array().unwrap();
        prop_assert!(!sent.iter().any(|item| item["id"] == "rs_made_up" || item["call_id"] == "never_called"), "{:?}", sent);
        for item in &said {
            prop_assert!(sent.contains(item), "{} is missing in {:?}", item, sent);
        }
    }

    /// The same for a host of Messages: thoughts without a signature, ids of other letters.
    #[test]
    fn blocks_of_a_host_go_back_as_they_came(tool in id(), signature in prop::option::of("[ -~]{0,20}")) {
        let mut thought = json!({ "type": "thinking", "thinking": "hm" });
        if let Some(signature) = signature {
            thought["signature"] = json!(signature);
        }
        let said = json!([thought, { "type": "tool_use", "id": tool, "name": "look", "input": {} }]);
        let tools = json!([{ "name": "look", "input_schema": { "type": "object" } }]);
        let ask = json!({ "model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools, "messages": [{ "role": "user", "content": "look" }] });
        let mut record = answered(Wire::Anthropic, CLAUDE, &ask, &said);
        let messages = json!([
            ask["messages"][0], { "role": "assistant", "content": said },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": tool, "content": "found" }] },
        ]);
        let body = json!({ "model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools, "messages": messages }).to_string();
        let next = client(Wire::Anthropic, CLAUDE, &body);
        next.record(&mut record, 2);
        let prepared = prepare(&record, &next.asked, &fit(), &context(CLAUDE, Wire::Anthropic)).unwrap();
        prop_assert_eq!(prepared.fidelity, Fidelity::Untouched, "{:?}", prepared.repairs);
        prop_assert_eq!(&prepared.body[..], body.as_bytes());
    }
}

/// The same items from a client that no provider ever answered with them are repaired as before.
#[test]
fn rules_hold_for_what_no_provider_said() {
    let input = json!([
        { "role": "user", "content": "look" },
        { "type": "reasoning", "id": "rs_1", "encrypted_content": "not one!" },
        { "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": "so" }] },
        { "role": "user", "content": "and now?" },
    ]);
    let next = client(Wire::OpenaiResponses, GPT_5, &json!({ "model": "gpt-5", "input": input }).to_string());
    let mut record = Record::new();
    next.record(&mut record, 0);
    let prepared = prepare(&record, &next.asked, &fit(), &context(GPT_5, Wire::OpenaiResponses)).unwrap();
    assert_eq!(prepared.fidelity, Fidelity::Repaired);
    let rules: Vec<&str> = prepared.repairs.iter().map(|repair| repair.rule).collect();
    assert!(rules.contains(&"OR-9") && rules.contains(&"OR-18"), "{rules:?}");
}
