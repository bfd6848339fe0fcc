//! One request and its reply, on each wire.

use serde_json::json;

use crate::client::{chat, request, send};
use crate::process::{Server, Setup};
use crate::upstream::{
    Says, Then, Upstream, completion, completion_body, completion_stream, message, response,
};

#[test]
fn without_a_key_the_last_thing_said_comes_back_and_is_recorded() {
    let server = Server::start("echo");
    let answer = server
        .post("/v1/chat/completions", &chat("gpt-4o", &json!([{ "role": "user", "content": "Good day" }])));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "Good day");
    assert_eq!(answer.header("x-scrollback-model"), Some("offline:echo"));
    assert!(answer.header("x-scrollback-call").is_some());
    let (numbers, by) = answer.view();
    assert_eq!((numbers[0], numbers[1], by.as_str()), (1, 1, "passthrough"));
    assert_eq!(numbers[2], numbers[3]);
    let said = server.record(&answer.conversation());
    assert_eq!(said, [("user".into(), "Good day".into()), ("assistant".into(), "Good day".into())]);

    let body =
        r#"{"model":"claude-opus-4-8","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}"#;
    let answer = server.post("/v1/messages", body);
    assert_eq!(answer.json()["content"][0]["text"], "Hello");
    let answer = server.post("/v1/responses", r#"{"model":"gpt-5","input":"Hi"}"#);
    assert_eq!(answer.json()["output"][0]["content"][0]["text"], "Hi");
    let again =
        server.call("GET", &format!("/v1/responses/{}", answer.json()["id"].as_str().unwrap()), &[], "");
    assert_eq!(again.json(), answer.json());
    let answer = server.post(
        "/v1/messages/count_tokens",
        r#"{"model":"claude-opus-4-8","messages":[{"role":"user","content":"Hello there"}]}"#,
    );
    assert!(answer.json()["input_tokens"].as_u64().unwrap() > 2);
    assert!(
        answer.header("x-scrollback-view").is_some() && answer.header("x-scrollback-conversation").is_none()
    );
    let answer = server.call("GET", "/v1/models", &[], "");
    assert_eq!(answer.json()["data"][0]["id"], "offline:echo");
    assert_eq!(server.call("GET", "/v1/files", &[], "").code(), "no_provider");
    assert_eq!(server.verified()["conversations"], 3, "counting records nothing");
}

#[test]
fn what_was_said_goes_on_byte_for_byte_and_comes_back_so() {
    let odd = "{ \"messages\" : [ {\"content\":\"h\\u00e9 \\/ 1\", \"role\":\"user\", \"x_unknown\": 1.50} ],\n\t\"model\":\"gpt-4o\", \"seed\": 12345678901234567890 }";
    let upstream = Upstream::saying(completion("Fine."));
    let server = Server::before("bytes", upstream.address, "");
    let answer = server.call(
        "POST",
        "/v1/chat/completions",
        &[("authorization", "Bearer sk-mine"), ("openai-organization", "org")],
        odd,
    );
    assert_eq!(answer.text(), completion_body("Fine."));
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("req_1")));
    let received = upstream.received();
    assert_eq!(String::from_utf8_lossy(&received[0].body), odd);
    assert_eq!(
        received[0].header("authorization"),
        Some("Bearer sk-mine"),
        "the client's own key is passed on"
    );
    assert_eq!(received[0].header("openai-organization"), Some("org"));
    assert_eq!(received[0].header("accept-encoding"), Some("identity"));
    assert_eq!(server.record(&answer.conversation())[1].1, "Fine.");
}

#[test]
fn anthropic_headers_and_query_are_passed_on() {
    let upstream = Upstream::saying(message("Hello."));
    let server = Server::before("anthropic", upstream.address, "");
    let body = r#"{"model":"claude-opus-4-8","max_tokens":50,"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}"#;
    let headers =
        [("anthropic-version", "2023-06-01"), ("anthropic-beta", "a-1,b-2"), ("x-api-key", "sk-ant-x")];
    let answer = server.call("POST", "/v1/messages?beta=true", &headers, body);
    assert_eq!(answer.json()["content"][0]["text"], "Hello.");
    let received = &upstream.received()[0];
    assert_eq!(
        (received.path.as_str(), received.header("anthropic-beta")),
        ("/v1/messages?beta=true", Some("a-1,b-2"))
    );
    assert_eq!(received.header("x-api-key"), Some("sk-ant-x"));
    let roles: Vec<String> =
        server.record(&answer.conversation()).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
}

#[test]
fn a_configured_key_takes_the_place_of_the_clients_and_is_kept_nowhere() {
    let key = "sk-configured-0123456789";
    let leak = format!("{{\"error\":{{\"message\":\"bad key {key}\",\"type\":\"invalid_request_error\"}}}}");
    let upstream =
        Upstream::start(
            move |number, _| {
                if number == 0 { completion("ok") } else { Says::Json(401, leak.clone()) }
            },
        );
    let variables = vec![
        ("OPENAI_BASE_URL", format!("http://{}/v1", upstream.address)),
        ("OPENAI_API_KEY", key.to_string()),
    ];
    let server = Server::with("configured", &Setup { variables, ..Setup::default() });
    let ask = |text: &str| {
        let body = chat("gpt-4o", &json!([{ "role": "user", "content": text }]));
        server.call(
            "POST",
            "/v1/chat/completions",
            &[("authorization", "Bearer sk-of-the-client-0123456789")],
            &body,
        )
    };
    assert_eq!(ask("one").status, 200);
    assert_eq!(upstream.received()[0].header("authorization"), Some(format!("Bearer {key}").as_str()));
    assert_eq!(ask("two").status, 401);
    for file in std::fs::read_dir(&server.folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for secret in [key, "sk-of-the-client-0123456789"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "a key was kept");
        }
    }
}

#[test]
fn errors_of_the_provider_come_as_they_are_and_are_written_down() {
    let body = r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let upstream =
        Upstream::start(
            move |number, _| if number == 0 { Says::Json(429, body.into()) } else { completion("Now.") },
        );
    let server = Server::before("errors", upstream.address, "");
    let ask = || {
        server.post("/v1/chat/completions", &chat("gpt-4o", &json!([{ "role": "user", "content": "Hi" }])))
    };
    let refused = ask();
    assert_eq!((refused.status, refused.text().as_str()), (429, body));
    let answered = ask();
    assert_eq!(answered.status, 200);
    assert_eq!(answered.conversation(), refused.conversation(), "trying again is the same conversation");
    assert_eq!(server.record(&answered.conversation()).len(), 2);
    server.verified();
}

#[test]
fn a_provider_that_cannot_be_reached_or_hangs_is_told() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let server = Server::before("gone", gone, "");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "Hi" }]));
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_unreachable"));
    assert_eq!(server.record(&answer.conversation()).len(), 1, "what was said is recorded all the same");

    let upstream = Upstream::saying(Says::Nothing);
    let limits = "[server.limits]\nfirst_byte_seconds = 1\nstream_seconds = 1\n";
    let server = Server::before("hangs", upstream.address, limits);
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_timeout"));
}

#[test]
fn a_stream_that_says_nothing_any_more_is_cut() {
    let begun = completion_stream("never finished").into_bytes()[..200].to_vec();
    let upstream = Upstream::saying(Says::Events(vec![begun.clone()], Then::Wait));
    let server = Server::before("idle", upstream.address, "[server.limits]\nstream_idle_seconds = 1\n");
    let body = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;
    let answer = server.post("/v1/chat/completions", body);
    assert_eq!((answer.status, answer.whole), (200, false), "{}", answer.text());
    assert_eq!(answer.body, begun);
}

#[test]
fn responses_go_on_from_the_record() {
    let upstream =
        Upstream::start(|number, _| response(&format!("resp_{number}"), &format!("answer {number}")));
    let server = Server::before("responses", upstream.address, "");
    let first = server.post("/v1/responses", r#"{"model":"gpt-5","instructions":"Be brief.","input":"one"}"#);
    let second =
        server.post("/v1/responses", r#"{"model":"gpt-5","previous_response_id":"resp_0","input":"two"}"#);
    assert_eq!(second.conversation(), first.conversation());
    let texts: Vec<String> = server.record(&first.conversation()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Be brief.", "one", "answer 0", "two", "answer 1"]);
    assert_eq!(upstream.received()[1].json()["previous_response_id"], "resp_0", "the provider has it too");
    let (numbers, _) = second.view();
    assert_eq!(numbers[0], 4, "the history counts: {numbers:?}");
    // Going on from an older response is another branch.
    let branch =
        server.post("/v1/responses", r#"{"model":"gpt-5","previous_response_id":"resp_0","input":"else"}"#);
    assert_ne!(branch.conversation(), first.conversation());
    let texts: Vec<String> =
        server.record(&branch.conversation()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Be brief.", "one", "answer 0", "else", "answer 2"]);
    // A provider's own conversation is one of ours.
    let held = |text: &str| {
        server.post(
            "/v1/responses",
            &json!({ "model": "gpt-5", "conversation": "conv_1", "input": text }).to_string(),
        )
    };
    assert_eq!(held("a").conversation(), held("b").conversation());
    let again = server.call("GET", "/v1/responses/resp_1", &[], "");
    assert_eq!(again.json()["output"][0]["content"][0]["text"], "answer 1");
    assert_eq!(upstream.received().len(), 5, "it came from the record");
}

#[test]
fn other_requests_are_passed_on_and_never_elsewhere() {
    let upstream = Upstream::saying(Says::Json(200, r#"{"data":[]}"#.into()));
    let server = Server::before("other", upstream.address, "");
    let answer = server.call("GET", "/v1/files?limit=2", &[], "");
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"data":[]}"#));
    assert_eq!(server.post("/v1/embeddings", r#"{"input":"x"}"#).status, 200);
    let received = upstream.received();
    assert_eq!(received[0].path, "/v1/files?limit=2");
    assert_eq!(received[1].body, br#"{"input":"x"}"#);
    let escapes = [
        "/v1/../admin",
        "/v1//evil.example/x",
        "/v1/%2e%2e/x",
        "/v1/a%2fb",
        "/v1/x@evil.example",
        "/v1/a\\b",
        "/v1/.",
        "http://evil.example/v1/files",
    ];
    for path in escapes {
        let answer =
            send(server.address, &request("GET", path, &[("x-forwarded-host", "evil.example")], b""));
        assert_ne!(answer.status, 502, "{path}: another host was asked");
    }
    let body = r#"{"model":"gpt-4o","api_base":"http://evil.example","base_url":"http://evil.example/v1","host":"evil.example","messages":[{"role":"user","content":"see http://169.254.169.254/latest"}]}"#;
    for (headers, status) in [
        // Without keys a forwarded request is refused: it does not come from this machine.
        ([("x-forwarded-host", "evil.example"), ("x-forwarded-proto", "http")], 403),
        ([("forwarded", "host=evil.example"), ("x-original-url", "http://evil.example/")], 403),
        ([("proxy-connection", "evil.example"), ("x-base-url", "http://evil.example/v1")], 200),
    ] {
        let answer =
            send(server.address, &request("POST", "/v1/chat/completions", &headers, body.as_bytes()));
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    // Whatever a request says, the provider that is configured is asked, below its own base.
    for received in upstream.received() {
        assert_eq!(received.header("host"), Some(upstream.address.to_string().as_str()));
        assert!(received.path.starts_with("/v1/") && !received.path.contains(".."), "{}", received.path);
    }
}
