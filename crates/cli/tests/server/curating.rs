//! What is sent on when not everything can be.

use serde_json::{Value, json};

use crate::client::chat;
use crate::process::Server;
use crate::upstream::{Says, Then, Upstream, completion, response};

/// A model with a small window.
const SMALL: &str = "[models.\"openai:gpt-4o\"]\ncontext_window = 1000\n";

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A talk of so many turns, each some fifty tokens.
fn talk(turns: usize) -> Vec<Value> {
    let long = "lorem ipsum dolor sit amet ".repeat(6);
    let mut messages = vec![json!({ "role": "system", "content": "Be brief." })];
    for turn in 0..turns {
        messages.push(user(&format!("question {turn} {long}")));
        if turn + 1 < turns {
            messages.push(assistant(&format!("answer {turn}")));
        }
    }
    messages
}

fn sent(upstream: &Upstream) -> Vec<Vec<Value>> {
    upstream
        .received()
        .iter()
        .map(|received| received.json()["messages"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn above_the_high_mark_one_cut_is_decided_recorded_and_held() {
    let upstream = Upstream::start(|_, received| {
        let asked = received.json()["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        completion(&format!("answer {}", asked.split(' ').nth(1).unwrap()))
    });
    let server = Server::before("cut", upstream.address, SMALL);
    let mut cut_at = None;
    let mut conversation = String::new();
    for turns in 1..=34 {
        // The client keeps its own list, with the replies it was given.
        let messages = talk(turns);
        let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &Value::from(messages.clone())));
        assert_eq!(answer.status, 200, "{}", answer.text());
        conversation = answer.conversation();
        let (numbers, by) = answer.view();
        let last = sent(&upstream).pop().unwrap();
        if by == "passthrough" {
            assert_eq!((cut_at, &last), (None, &messages), "nothing changes below the mark");
        } else {
            cut_at.get_or_insert(turns);
            assert_eq!((by.as_str(), numbers[1]), ("fit", messages.len()));
            assert!(numbers[0] < numbers[1] && numbers[2] < 1000 && numbers[2] < numbers[3], "{numbers:?}");
            assert_eq!(
                (last.first(), last.last()),
                (messages.first(), messages.last()),
                "system and task stay"
            );
        }
    }
    assert!(cut_at.is_some());
    let requests = sent(&upstream);
    let after: Vec<&Vec<Value>> = requests.iter().skip(cut_at.unwrap() - 1).collect();
    let kept = after.windows(2).filter(|pair| pair[1].starts_with(&pair[0][..pair[0].len()])).count();
    assert!(
        kept * 10 >= after.len() * 7,
        "cuts are rare: {kept} of {} requests begin like the one before",
        after.len()
    );
    let decisions = server.record(&conversation).iter().filter(|(role, _)| role == "decision").count();
    assert!((1..=6).contains(&decisions), "each cut is recorded once: {decisions}");
    server.verified();
}

#[test]
fn an_overflow_is_tightened_and_tried_once_more() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 1000 tokens. However, your messages resulted in 1500 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let upstream = Upstream::start(move |_, received| {
        let messages = received.json()["messages"].as_array().unwrap().len();
        if messages > 45 { Says::Json(400, too_long.into()) } else { completion("It fits.") }
    });
    let server = Server::before("overflow", upstream.address, "");
    let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &Value::from(talk(30))));
    assert_eq!(
        (answer.status, answer.json()["choices"][0]["message"]["content"].as_str()),
        (200, Some("It fits."))
    );
    let requests = sent(&upstream);
    assert_eq!((requests.len(), requests[0].len()), (2, 60), "the first was the client's own");
    assert_eq!(requests[1].last(), requests[0].last());
    assert!(requests[1].len() < 45);
    let said = server.record(&answer.conversation());
    assert_eq!(said.len(), 62, "everything, a decision, and the reply");
    // The cut holds: the next call does not overflow again.
    let mut next = talk(30);
    next.extend([assistant("It fits."), user("and now?")]);
    assert_eq!(server.post("/v1/chat/completions", &chat("gpt-4o", &Value::from(next))).status, 200);
    assert_eq!(sent(&upstream).len(), 3);

    // A request that cannot be made smaller fails with the provider's own words.
    let upstream = Upstream::saying(Says::Json(400, too_long.into()));
    let server = Server::before("overflow-always", upstream.address, "");
    let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &json!([user("hi")])));
    assert_eq!((answer.status, answer.text().as_str()), (400, too_long));
    assert_eq!(upstream.received().len(), 1);
}

#[test]
fn an_overflow_that_is_told_inside_the_stream_is_not_shown_either() {
    let failed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"status\":\"failed\",\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"Your input exceeds the context window of this model.\"},\"output\":[]}}\n\n";
    let upstream = Upstream::start(move |number, _| match number {
        0 => Says::Events(vec![failed.into()], Then::End),
        _ => response("resp_2", "It fits."),
    });
    let server = Server::before("inside-overflow", upstream.address, "");
    let input: Vec<Value> = talk(10).into_iter().skip(1).collect();
    let answer = server
        .post("/v1/responses", &json!({ "model": "gpt-5", "stream": true, "input": input }).to_string());
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["output"][0]["content"][0]["text"], "It fits.");
    let inputs: Vec<usize> = upstream
        .received()
        .iter()
        .map(|received| received.json()["input"].as_array().unwrap().len())
        .collect();
    assert!(inputs[1] < inputs[0], "{inputs:?}");
}

#[test]
fn policies_choose_the_managers() {
    let config = "[server]\nmanagers = \"passthrough\"\n[[server.policy]]\nmodel = \"gpt-4o-mini\"\nmanagers = \"turn_window(1)\"\n";
    let upstream = Upstream::saying(completion("ok"));
    let server = Server::before("policies", upstream.address, config);
    let ask = |model: &str, headers: &[(&str, &str)]| {
        server.call("POST", "/v1/chat/completions", headers, &chat(model, &Value::from(talk(4))))
    };
    assert_eq!(ask("gpt-4o", &[]).view().1, "passthrough");
    assert_eq!(ask("gpt-4o-mini", &[]).view().1, "turn_window");
    assert_eq!(ask("gpt-4o", &[("x-scrollback-managers", "sliding_window(2)")]).view().1, "sliding_window");
    let lengths: Vec<usize> = sent(&upstream).iter().map(Vec::len).collect();
    assert_eq!(lengths, [8, 2, 3]);
    let answer = ask("gpt-4o", &[("x-scrollback-managers", "slidin_window(2)")]);
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad_managers"));
    assert!(answer.text().contains("sliding_window"), "{}", answer.text());
    assert_eq!(ask("model-nobody-knows", &[]).view().1, "passthrough", "an unknown model passes untouched");
}

/// A call without its result.
fn broken() -> Value {
    let call = json!([{ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
    json!([user("hi"), { "role": "assistant", "content": null, "tool_calls": call }, user("still there?")])
}

#[test]
fn lists_a_provider_would_refuse_are_mended_or_refused() {
    let upstream = Upstream::saying(completion("ok"));
    let server = Server::before("mended", upstream.address, "");
    assert_eq!(server.post("/v1/chat/completions", &chat("gpt-4o", &broken())).status, 200);
    // The provider judged what it was sent by its rules.
    assert_eq!(upstream.received().len(), 1);

    let upstream = Upstream::saying(completion("ok"));
    let server = Server::before("refused", upstream.address, "[server]\nrepair = \"never\"\n");
    let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &broken()));
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_messages"));
    let error = answer.json()["error"].clone();
    assert_eq!(
        (error["rule"].as_str(), error["path"].as_str()),
        (Some("OC-1"), Some("/messages/1/tool_calls/0")),
        "{error}"
    );
    assert!(upstream.received().is_empty(), "nothing was sent");
}

#[test]
fn summaries_are_written_once_and_stand() {
    let upstream = Upstream::saying(completion("ok"));
    let server = Server::before(
        "summaries",
        upstream.address,
        "[server]\nmanagers = \"summarize(max_turns=3, keep_recent=1)\"\n",
    );
    let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &Value::from(talk(6))));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(sent(&upstream)[0].len() < 11);
    assert!(answer.view().1.contains("summarize"), "{:?}", answer.view());
}
