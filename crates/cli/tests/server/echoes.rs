//! Clients that do not send back byte for byte what they received: one conversation, and their own bytes on the way.

use serde_json::{Value, json};

use crate::process::Server;
use crate::upstream::{Says, Upstream};

/// A reply of Messages that asks for an edit.
fn edits(number: usize) -> Says {
    let call = json!({ "type": "tool_use", "id": format!("toolu_{number}"), "name": "Edit",
        "input": { "file_path": "a.rs", "old_string": format!("{number}"), "new_string": "x" } });
    let body = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "thinking", "thinking": "hm", "signature": "s" }, call],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    Says::Json(200, body.to_string())
}

/// What Claude Code makes of a reply before it sends it back: without reasoning, with an argument that has its default.
fn normalised(reply: &Value) -> Value {
    let mut blocks: Vec<Value> = reply["content"].as_array().unwrap().clone();
    blocks.retain(|block| block["type"] != "thinking");
    for block in &mut blocks {
        block["input"]["replace_all"] = json!(false);
    }
    json!({ "role": "assistant", "content": blocks })
}

fn body(messages: &[Value]) -> String {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "system": "Edit files.", "messages": messages })
        .to_string()
}

fn result(number: usize, text: &str) -> Value {
    json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": text }] })
}

#[test]
fn six_edits_that_the_client_normalises_are_one_conversation() {
    let upstream = Upstream::start(|number, _| edits(number));
    let server = Server::before("normalised", upstream.address, "");
    let mut messages = vec![json!({ "role": "user", "content": "Fix the bug." })];
    let (mut conversations, mut sent) = (Vec::new(), Vec::new());
    for number in 0..6 {
        // From the fourth call on the client shows its oldest result in short.
        if number == 4 {
            messages[2] = result(0, "[cleared]");
        }
        // A reminder comes and goes between calls.
        let mut list = messages.clone();
        if number % 2 == 1 {
            list.push(json!({ "role": "user", "content": "<system-reminder>Be careful.</system-reminder>" }));
        }
        let request = body(&list);
        let answer = server.post("/v1/messages", &request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        conversations.push(answer.conversation());
        sent.push(request);
        messages.push(normalised(&answer.json()));
        messages.push(result(number, &format!("The file was edited, line {number} has changed.")));
    }
    conversations.dedup();
    assert_eq!(conversations.len(), 1);
    let received: Vec<String> =
        upstream.received().into_iter().map(|received| String::from_utf8(received.body).unwrap()).collect();
    assert_eq!(received, sent, "below the window the client's own bytes are sent");
    let record = server.record(&conversations[0]);
    let replies = record.iter().filter(|(role, _)| role == "assistant").count();
    assert_eq!(replies, 6, "{record:?}");
    assert!(record.iter().any(|(_, text)| text.contains("line 0 has changed")), "the original is kept");
    server.verified();
}

#[test]
fn a_request_that_failed_goes_on_in_place() {
    let upstream = Upstream::start(|number, _| match number {
        0 => {
            Says::Json(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#.into())
        }
        _ => edits(number),
    });
    let server = Server::before("in-place", upstream.address, "");
    let request = body(&[json!({ "role": "user", "content": "Fix the bug." })]);
    let headers = [("x-claude-code-session-id", "11111111-2222-3333-4444-555555555555")];
    let refused = server.call("POST", "/v1/messages", &headers, &request);
    assert_eq!(refused.status, 529);
    let answered = server.call("POST", "/v1/messages", &headers, &request);
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(refused.conversation(), answered.conversation());
    let roles: Vec<String> =
        server.record(&answered.conversation()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
}
