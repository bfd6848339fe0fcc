//! Replies that come piece by piece.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;

use crate::client::{connect, request, unchunk};
use crate::process::Server;
use crate::upstream::{Says, Then, Upstream, completion_stream};

const ASK: &str = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;

fn asking(number: usize) -> String {
    json!({ "model": "gpt-4o", "stream": true, "messages": [{ "role": "user", "content": format!("Hi {number}") }] }).to_string()
}

#[test]
fn a_stream_cut_into_pieces_anywhere_comes_as_it_was_sent_and_is_recorded_whole() {
    let stream = completion_stream("Grüße 😀, good day").into_bytes();
    let length = stream.len();
    let pieces = stream.clone();
    let upstream = Upstream::start(move |number, _| {
        let (before, after) = pieces.split_at(1 + number % (length - 1));
        Says::Events(vec![before.to_vec(), after.to_vec()], Then::End)
    });
    let server = Server::before("offsets", upstream.address, "");
    // Every offset, four at a time.
    std::thread::scope(|scope| {
        for lane in 0..4 {
            let (server, stream) = (&server, &stream);
            scope.spawn(move || {
                for number in (lane..length - 1).step_by(4) {
                    let answer = server.post("/v1/chat/completions", &asking(number));
                    assert_eq!((answer.status, answer.whole), (200, true));
                    assert_eq!(&answer.body, stream, "request {number}");
                }
            });
        }
    });
    let found = server.command(&["search", "good", "day", "--role", "assistant", "--limit", "1000"]);
    assert_eq!(found["hits"].as_array().unwrap().len(), length - 1, "each reply is in its record, whole");
    server.verified();
}

#[test]
fn a_stream_without_its_end_is_recorded_as_cut() {
    let stream = completion_stream("never to be finished").into_bytes();
    let cut = stream.len() * 2 / 3;
    let then = [Then::End, Then::Break];
    let begun = stream[..cut].to_vec();
    let upstream = Upstream::start(move |number, _| Says::Events(vec![begun.clone()], then[number % 2]));
    let server = Server::before("truncated", upstream.address, "");
    for (number, whole) in [(0, true), (1, false)] {
        let answer = server.post("/v1/chat/completions", &asking(number));
        assert_eq!(answer.body, stream[..cut], "the client gets what came");
        assert_eq!(answer.whole, whole, "and sees how it ended");
        let export = server.command(&["verify", "--conversation", &answer.conversation()]);
        assert_eq!((&export["ok"], &export["entries"]), (&json!(true), &json!(2)));
        let text = exported(&server, &answer.conversation());
        assert!(text.contains("truncated_upstream"), "{text}");
    }
}

fn exported(server: &Server, conversation: &str) -> String {
    let args =
        ["export", "--conversation", conversation, "--format", "scrollback", "--store", "sqlite:record.db"];
    crate::support::scrollback_in(&server.folder, &args, b"").stdout
}

#[test]
fn an_error_inside_a_reply_is_passed_on_and_recorded_as_one() {
    let half = completion_stream("half of it");
    let half = half.split("data: ").take(3).collect::<Vec<_>>().join("data: ");
    let failed = format!(
        "{half}data: {{\"error\":{{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":503}}}}\n\n"
    );
    let whole = r#"{"error":{"message":"The server had an error","type":"server_error"}}"#;
    let stream = failed.clone();
    let upstream = Upstream::start(move |number, _| match number {
        0 => Says::Events(vec![stream.clone().into_bytes()], Then::End),
        1 => Says::Json(200, whole.into()),
        _ => Says::Json(200, "this is not JSON".into()),
    });
    let server = Server::before("inside", upstream.address, "");
    let answer = server.post("/v1/chat/completions", &asking(0));
    assert_eq!((answer.status, answer.text()), (200, failed));
    let text = exported(&server, &answer.conversation());
    assert!(text.contains("\"status\":\"error\""), "{text}");
    for body in [whole, "this is not JSON"] {
        let answer = server.post("/v1/chat/completions", &asking(1));
        assert_eq!((answer.status, answer.text().as_str()), (200, body));
        assert_eq!(server.record(&answer.conversation()).len(), 1, "no reply is recorded that was none");
    }
    server.verified();
}

/// Sends a request and reads until some of the reply came.
fn leave_early(server: &Server, body: &str) {
    let mut stream = connect(server.address);
    stream.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
    let mut buffer = [0; 4096];
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("good") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
}

/// Waits for something that will come.
fn until(what: &str, mut come: impl FnMut() -> bool) {
    for _ in 0..400 {
        if come() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{what} did not come");
}

#[test]
fn a_client_that_goes_away_ends_the_call() {
    let stream = completion_stream("good day to you all").into_bytes();
    let begun = stream[..stream.len() - 200].to_vec();
    let upstream = Upstream::saying(Says::Events(vec![begun], Then::Wait));
    let server = Server::before("leaving", upstream.address, "");
    leave_early(&server, ASK);
    until("the end of the call", || upstream.left() == 1);
    until("the record of it", || {
        let found = server.command(&["search", "good", "--role", "assistant"]);
        found["hits"].as_array().unwrap().len() == 1
    });
    let found = server.command(&["search", "good", "--role", "assistant"]);
    let text = exported(&server, found["hits"][0]["conversation"].as_str().unwrap());
    assert!(text.contains("truncated_client"), "{text}");
}

#[test]
fn a_client_that_goes_away_before_anything_came_ends_the_call_too() {
    let upstream = Upstream::saying(Says::Nothing);
    let server = Server::before("leaving-early", upstream.address, "");
    let mut stream = connect(server.address);
    stream.write_all(&request("POST", "/v1/chat/completions", &[], ASK.as_bytes())).unwrap();
    until("the call", || upstream.received().len() == 1);
    drop(stream);
    until("the end of the call", || upstream.left() == 1);
    until("what is known about it", || {
        let metrics = server.call("GET", "/metrics", &[], "").text();
        metrics.contains("scrollback_truncated_total{side=\"truncated_client\"} 1")
    });
}

#[test]
fn a_call_that_is_drained_is_recorded_to_its_end() {
    let stream = completion_stream("good day to you all").into_bytes();
    let (first, rest) = stream.split_at(stream.len() - 300);
    let (first, rest) = (first.to_vec(), rest.to_vec());
    let upstream = Upstream::start(move |_, _| {
        let slow = [first.clone(), rest.clone()];
        Says::Events(slow.to_vec(), Then::End)
    });
    let server = Server::before("draining", upstream.address, "[server]\ndrain = true\n");
    leave_early(&server, ASK);
    until("the record of it", || {
        let found = server.command(&["search", "\"you all\"", "--role", "assistant"]);
        found["hits"].as_array().unwrap().len() == 1
    });
    assert_eq!(upstream.left(), 0);
}

#[test]
fn the_end_of_a_reply_waits_until_it_is_durable() {
    // A client that has the end may continue at once, and is recognised.
    let stream = completion_stream("ok").into_bytes();
    let upstream = Upstream::saying(Says::Events(vec![stream], Then::End));
    let server = Server::before("durable", upstream.address, "");
    let mut messages = vec![json!({ "role": "user", "content": "Hi" })];
    let mut conversation = None;
    for _ in 0..20 {
        let body = json!({ "model": "gpt-4o", "stream": true, "messages": messages }).to_string();
        let mut stream = connect(server.address);
        stream.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while !seen.windows(6).any(|part| part == b"[DONE]") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0);
            seen.extend_from_slice(&buffer[..count]);
        }
        let head = String::from_utf8_lossy(&seen).into_owned();
        let named = head
            .lines()
            .find_map(|line| line.strip_prefix("x-scrollback-conversation: "))
            .unwrap()
            .to_string();
        assert_eq!(
            conversation.get_or_insert(named.clone()),
            &named,
            "one conversation, however quick the client is"
        );
        messages.push(json!({ "role": "assistant", "content": "ok" }));
        messages.push(json!({ "role": "user", "content": "more" }));
    }
    assert_eq!(server.record(&conversation.unwrap()).len(), 40);
}

#[test]
fn replies_over_kept_connections_do_not_mix() {
    let upstream = Upstream::start(|_, received| {
        let text = received.json()["messages"][0]["content"].as_str().unwrap().to_string();
        Says::Events(vec![completion_stream(&text).into_bytes()], Then::End)
    });
    let server = Server::before("kept", upstream.address, "");
    let mut stream = connect(server.address);
    for number in 0..5 {
        let body = asking(number);
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        let body = loop {
            let count = stream.read(&mut buffer).unwrap();
            seen.extend_from_slice(&buffer[..count]);
            if let Some(end) = seen.windows(4).position(|part| part == b"\r\n\r\n")
                && let (body, true) = unchunk(&seen[end + 4..])
            {
                break body;
            }
        };
        assert_eq!(String::from_utf8_lossy(&body), completion_stream(&format!("Hi {number}")));
    }
}
