//! What providers hold between requests: message threads, responses and what they refer to. Asserted on the bytes that the
//! provider received and on the record.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::process::Server;
use crate::upstream::{Received, Says, Upstream, response};

/// A model with a small window, so that a few long messages are too many.
const SMALL: &str = "[models.\"anthropic:claude-opus-4-8\"]\ncontext_window = 2000\n[models.\"openai:gpt-5\"]\ncontext_window = 2000\n";

/// The beta of message threads, and whatever else a client sends.
const BETA: (&str, &str) = ("anthropic-beta", "message-threads-2026-08-12");

/// A reply of Messages with an id of its own.
fn reply(id: &str, text: &str) -> Says {
    let body = json!({
        "id": id, "type": "message", "role": "assistant", "model": "claude-opus-4-8",
        "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    Says::Json(200, body.to_string())
}

/// The error of a thread, as Anthropic documents it.
fn thread_error(status: u16, code: &str) -> Says {
    let kind = if status == 404 { "not_found_error" } else { "invalid_request_error" };
    let error = json!({ "type": kind, "message": "m", "details": { "error_code": code } });
    Says::Json(status, json!({ "type": "error", "error": error }).to_string())
}

/// A request that creates a thread, with instructions and tools.
fn create(text: &str) -> String {
    format!(
        r#"{{"model":"claude-opus-4-8","max_tokens":100, "system":[{{"type":"text","text":"Be brief.","cache_control":{{"type":"ephemeral"}}}}],"tools":[{{"name":"look","description":"Looks.","input_schema":{{"type":"object"}}}}],"messages":[{{"role":"user","content":"{text}"}}],"thread":{{"type":"create"}}}}"#
    )
}

/// A request that continues a thread: only what is new, spelled in a way of its own.
fn go_on(previous: &str, text: &str) -> String {
    format!(
        r#"{{"model":"claude-opus-4-8", "max_tokens":100,"messages":[{{"role":"user","content":"{text}"}}],"thread":{{"type":"continue","previous_message_id":"{previous}"}}}}"#
    )
}

fn messages(server: &Server, body: &str) -> Answer {
    server.call("POST", "/v1/messages?beta=true", &[BETA], body)
}

fn texts(server: &Server, answer: &Answer) -> Vec<String> {
    let record = server.record(&answer.conversation());
    record.into_iter().filter(|(role, _)| role != "decision").map(|(_, text)| text).collect()
}

/// What a request of Messages says, as plain texts.
fn said(received: &Received) -> Vec<String> {
    let body = received.json();
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        content => content[0]["text"].as_str().unwrap_or_default().to_string(),
    };
    body["messages"].as_array().unwrap().iter().map(|message| text(&message["content"])).collect()
}

#[test]
fn a_thread_is_one_conversation_and_passes_byte_for_byte() {
    let upstream = Upstream::start(|number, _| reply(&format!("msg_{number}"), &format!("answer {number}")));
    let server = Server::before("thread", upstream.address, "");
    let first = messages(&server, &create("one"));
    let second = messages(&server, &go_on("msg_0", "two"));
    let third = messages(&server, &go_on("msg_1", "three"));
    assert_eq!((second.status, third.status), (200, 200), "{}", third.text());
    assert_eq!(second.conversation(), first.conversation());
    assert_eq!(third.conversation(), first.conversation());
    let received = upstream.received();
    assert_eq!(received[0].body, create("one").into_bytes());
    assert_eq!(received[1].body, go_on("msg_0", "two").into_bytes());
    assert_eq!(received[2].body, go_on("msg_1", "three").into_bytes());
    assert_eq!(received[2].path, "/v1/messages?beta=true");
    assert_eq!(received[2].header(BETA.0), Some(BETA.1));
    let all = ["Be brief.", "one", "answer 0", "two", "answer 1", "three", "answer 2"];
    assert_eq!(texts(&server, &third), all);
    let (numbers, by) = third.view();
    assert_eq!((&numbers[..2], by.as_str()), (&[6, 6][..], "passthrough"), "the whole history is counted");
    // Going on from an older message is another branch.
    let branch = messages(&server, &go_on("msg_0", "else"));
    assert_ne!(branch.conversation(), first.conversation());
    assert_eq!(texts(&server, &branch), ["Be brief.", "one", "answer 0", "else", "answer 3"]);
    server.verified();
}

#[test]
fn a_thread_that_its_provider_lost_is_sent_whole_from_the_record() {
    let upstream = Upstream::start(|number, received| match received.json()["thread"]["type"].as_str() {
        Some("continue") if number > 1 => thread_error(404, "thread_not_found"),
        _ => reply(&format!("msg_{number}"), &format!("answer {number}")),
    });
    let server = Server::before("thread-lost", upstream.address, "");
    messages(&server, &create("one"));
    messages(&server, &go_on("msg_0", "two"));
    let third = messages(&server, &go_on("msg_1", "three"));
    assert_eq!(third.status, 200, "{}", third.text());
    assert_eq!(third.view().1, "thread");
    let received = upstream.received();
    assert_eq!(received.len(), 4, "refused once, then sent whole");
    let (sent, created) = (received[3].json(), received[0].json());
    assert_eq!(said(&received[3]), ["one", "answer 0", "two", "answer 1", "three"]);
    assert_eq!(sent["system"], created["system"], "with the marks of the request that created it");
    assert_eq!((&sent["tools"], &sent["thread"]), (&created["tools"], &json!({ "type": "create" })));
    assert_eq!(sent["max_tokens"], 100);
    let all = ["Be brief.", "one", "answer 0", "two", "answer 1", "three", "answer 3"];
    assert_eq!(texts(&server, &third), all);
    // The same after a restart, when what the thread was created with is only in the store.
    let again = Server::resumed(server, upstream.address);
    let fourth = messages(&again, &go_on("msg_3", "four"));
    assert_eq!(fourth.status, 200, "{}", fourth.text());
    let received = upstream.received();
    let last = received.last().unwrap();
    assert_eq!(said(last), ["one", "answer 0", "two", "answer 1", "three", "answer 3", "four"]);
    assert_eq!(last.json()["tools"], created["tools"]);
    assert_eq!(fourth.conversation(), third.conversation());
}

#[test]
fn a_thread_goes_on_at_a_provider_that_knows_none() {
    let upstream = Upstream::start(|number, received| {
        if received.json().get("thread").is_some() {
            let error = json!({ "type": "invalid_request_error", "message": "thread: Extra inputs are not permitted" });
            return Says::Json(400, json!({ "type": "error", "error": error }).to_string());
        }
        reply(&format!("msg_{number}"), &format!("answer {number}"))
    });
    let server = Server::before("thread-unknown", upstream.address, "");
    let first = messages(&server, &create("one"));
    assert_eq!(first.status, 200, "{}", first.text());
    let second = messages(&server, &go_on("msg_1", "two"));
    assert_eq!((second.status, second.view().1.as_str()), (200, "thread"), "{}", second.text());
    let received = upstream.received();
    assert_eq!(received.len(), 3, "it is asked with a thread once");
    assert_eq!(said(&received[2]), ["one", "answer 1", "two"]);
    let sent = received[2].json();
    assert_eq!((sent.get("thread"), &sent["tools"]), (None, &received[0].json()["tools"]));
    assert_eq!(second.conversation(), first.conversation());
}

#[test]
fn a_client_that_must_resend_gets_the_error_its_provider_documents() {
    let upstream = Upstream::start(|number, received| match received.json()["thread"]["type"].as_str() {
        Some("continue") => thread_error(404, "thread_not_found"),
        _ => reply(&format!("msg_{number}"), "answer"),
    });
    let server = Server::before("thread-resend", upstream.address, "");
    // Neither the provider nor the record has it.
    let unknown = messages(&server, &go_on("msg_elsewhere", "two"));
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["details"]["error_code"], "thread_not_found");
    assert_eq!(upstream.received().len(), 1, "nothing can be sent instead");
    // Errors that ask the client to act otherwise are the client's.
    let busy = Upstream::saying(thread_error(400, "thread_already_continued"));
    let server = Server::before("thread-busy", busy.address, "");
    let answer = messages(&server, &go_on("msg_0", "two"));
    assert_eq!(answer.json()["error"]["details"]["error_code"], "thread_already_continued");
    assert_eq!(busy.received().len(), 1);
}

#[test]
fn the_window_holds_for_the_whole_thread_and_not_for_what_is_new() {
    let upstream = Upstream::start(|number, _| reply(&format!("msg_{number}"), &format!("answer {number}")));
    let server = Server::before("thread-window", upstream.address, SMALL);
    let long = |word: &str| format!("{word} {}", "many words ".repeat(200));
    messages(&server, &create(&long("one")));
    // Our estimates come to half of what they were at most, because this provider reports few tokens.
    for turn in 0..12 {
        let answer = messages(&server, &go_on(&format!("msg_{turn}"), &long(&format!("turn {turn}"))));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let received = upstream.received();
    let cut: Vec<&Received> =
        received.iter().skip(1).filter(|received| received.json()["thread"]["type"] == "create").collect();
    assert!(!cut.is_empty(), "the list grew over the window and was sent whole, cut");
    for received in cut {
        let body = received.json();
        assert_eq!(body["system"], upstream.received()[0].json()["system"]);
        assert_eq!(body["tools"][0]["name"], "look");
        assert!(received.body.len() < 2000 * 8, "{} bytes", received.body.len());
        assert!(said(received).last().unwrap().starts_with("turn"));
    }
    // The cut is held.
    let (numbers, _) = messages(&server, &go_on("msg_12", "short")).view();
    assert!(numbers[0] < numbers[1], "{numbers:?}");
}

#[test]
fn counting_tokens_of_a_thread_counts_all_of_it() {
    let upstream = Upstream::start(|number, received| {
        if received.path.contains("count_tokens") {
            return Says::Json(200, json!({ "input_tokens": received.body.len() }).to_string());
        }
        reply(&format!("msg_{number}"), "answer")
    });
    let server = Server::before("thread-count", upstream.address, "");
    messages(&server, &create("one"));
    let answer = server.call("POST", "/v1/messages/count_tokens", &[BETA], &go_on("msg_0", "two"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let received = upstream.received();
    assert_eq!(said(&received[1]), ["one", "answer", "two"]);
    let sent = received[1].json();
    assert_eq!((sent.get("thread"), sent["tools"][0]["name"].as_str()), (None, Some("look")));
    // Nothing was recorded by counting.
    let second = messages(&server, &go_on("msg_0", "two"));
    assert_eq!(texts(&server, &second), ["Be brief.", "one", "answer", "two", "answer"]);
}

#[test]
fn the_window_holds_for_the_whole_chain_of_responses() {
    let upstream =
        Upstream::start(|number, _| response(&format!("resp_{number}"), &format!("answer {number}")));
    let server = Server::before("responses-window", upstream.address, SMALL);
    let long = |word: &str| format!("{word} {}", "many words ".repeat(200));
    let ask = |previous: Option<usize>, text: &str| {
        let mut body = json!({ "model": "gpt-5", "instructions": "Be brief.", "input": text, "max_output_tokens": 100, "prompt_cache_key": "k1" });
        if let Some(previous) = previous {
            body["previous_response_id"] = json!(format!("resp_{previous}"));
        }
        server.post("/v1/responses", &body.to_string())
    };
    ask(None, &long("one"));
    for turn in 0..6 {
        let answer = ask(Some(turn), &long(&format!("turn {turn}")));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let received = upstream.received();
    let short = |received: &&Received| received.json().get("previous_response_id").is_none();
    let whole: Vec<&Received> = received.iter().skip(1).filter(short).collect();
    assert!(!whole.is_empty(), "over the window the list is cut and sent whole");
    for received in whole {
        let body = received.json();
        assert!(body["input"].as_array().unwrap().len() > 1);
        assert_eq!((&body["prompt_cache_key"], &body["instructions"]), (&json!("k1"), &json!("Be brief.")));
        assert!(received.body.len() < 2000 * 6, "{} bytes", received.body.len());
    }
}

#[test]
fn a_response_that_its_provider_lost_is_sent_whole_from_the_record() {
    let upstream = Upstream::start(|number, received| {
        if let Some(id) = received.json()["previous_response_id"].as_str() {
            let message = format!("Previous response with id '{id}' not found.");
            let error = json!({ "message": message, "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found" });
            return Says::Json(400, json!({ "error": error }).to_string());
        }
        response(&format!("resp_{number}"), &format!("answer {number}"))
    });
    let server = Server::before("responses-lost", upstream.address, "");
    let body = json!({ "model": "gpt-5", "store": false, "input": "one" });
    let first = server.post("/v1/responses", &body.to_string());
    let body = json!({ "model": "gpt-5", "store": false, "previous_response_id": "resp_0", "input": "two" });
    let second = server.post("/v1/responses", &body.to_string());
    assert_eq!((second.status, second.view().1.as_str()), (200, "thread"), "{}", second.text());
    assert_eq!(second.conversation(), first.conversation());
    let received = upstream.received();
    let sent = received[2].json();
    assert_eq!(sent.get("previous_response_id"), None);
    assert_eq!(sent["input"].as_array().unwrap().len(), 3, "{sent}");
    // One that neither has is the provider's to refuse, in its own words.
    let body = json!({ "model": "gpt-5", "previous_response_id": "resp_elsewhere", "input": "two" });
    let unknown = server.post("/v1/responses", &body.to_string());
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "previous_response_not_found"));
    assert_eq!(upstream.received().len(), 4);
}

#[test]
fn items_that_are_only_named_are_sent_where_the_provider_keeps_none() {
    let upstream = Upstream::start(|number, _| {
        let output = json!([
            { "type": "reasoning", "id": "rs_host", "summary": [], "encrypted_content": "of no known form!" },
            { "type": "function_call", "id": "fc_host", "call_id": "c1", "name": "look", "arguments": "{}", "status": "completed" },
        ]);
        if number == 0 {
            let body = json!({ "id": "resp_0", "object": "response", "status": "completed", "model": "gpt-5", "output": output });
            return Says::Json(200, body.to_string());
        }
        response(&format!("resp_{number}"), "done")
    });
    let server = Server::before("item-reference", upstream.address, "");
    let ask = json!({ "role": "user", "content": "look" });
    let body = json!({ "model": "gpt-5", "store": false, "input": [ask] });
    let first = server.post("/v1/responses", &body.to_string());
    let output = json!({ "type": "function_call_output", "call_id": "c1", "output": "found" });
    let named = |id: &str| json!({ "type": "item_reference", "id": id });
    let input = json!([ask, named("rs_host"), named("fc_host"), output]);
    let body = json!({ "model": "gpt-5", "store": false, "input": input });
    let second = server.post("/v1/responses", &body.to_string());
    assert_eq!((second.status, second.view().1.as_str()), (200, "thread"), "{}", second.text());
    assert_eq!(second.conversation(), first.conversation());
    let sent = upstream.received_unjudged()[1].json();
    let kinds: Vec<&str> = sent["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap_or("message"))
        .collect();
    assert_eq!(kinds, ["message", "reasoning", "function_call", "function_call_output"], "{sent}");
    assert_eq!(sent["input"][1]["encrypted_content"], "of no known form!");
    // Where the provider keeps items, the names are passed on as they are.
    let body = json!({ "model": "gpt-5", "input": input }).to_string();
    let third = server.post("/v1/responses", &body);
    assert_eq!(third.status, 200, "{}", third.text());
    assert_eq!(upstream.received_unjudged()[2].body, body.into_bytes());
}

#[test]
fn what_a_provider_cleared_is_recorded_as_its_decision() {
    let upstream = Upstream::start(|number, _| {
        let mut body = json!({
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-opus-4-8",
            "content": [{ "type": "text", "text": "so" }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 10, "output_tokens": 5 },
        });
        body["context_management"] = json!({ "applied_edits": [{ "type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": 900 }] });
        Says::Json(200, body.to_string())
    });
    let server = Server::before("cleared", upstream.address, "");
    let call = |n: usize| json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": format!("t{n}"), "name": "look", "input": {} }] });
    let result = |n: usize| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("t{n}"), "content": "many words ".repeat(300) }] });
    let mut messages = json!([{ "role": "user", "content": "look" }, call(0), result(0), call(1), result(1)]);
    let body = |messages: &Value| {
        json!({
            "model": "claude-opus-4-8", "max_tokens": 100, "messages": messages,
            "tools": [{ "name": "look", "input_schema": { "type": "object" } }],
            "context_management": { "edits": [{ "type": "clear_tool_uses_20250919" }] },
        })
        .to_string()
    };
    let first = server.post("/v1/messages", &body(&messages));
    assert_eq!(first.status, 200, "{}", first.text());
    let decisions = |answer: &Answer| {
        let record = server.record(&answer.conversation());
        record.into_iter().filter(|(role, _)| role == "decision").map(|(_, text)| text).collect::<Vec<_>>()
    };
    let recorded = decisions(&first);
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert!(recorded[0].contains("provider_edit"), "{recorded:?}");
    messages.as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "so" }] }),
        json!({ "role": "user", "content": "on" }),
    ]);
    let second = server.post("/v1/messages", &body(&messages));
    assert_eq!(upstream.received()[1].body, body(&messages).into_bytes(), "the client's own list is sent");
    let (before, after) = (first.view().0[2], second.view().0[2]);
    assert!(after + 200 < before, "{after} after {before}: it is not paid for twice");
    assert_eq!(decisions(&second).len(), 1, "nothing new was cleared");
}
