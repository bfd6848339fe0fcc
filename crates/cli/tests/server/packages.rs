//! The providers' own Python packages as clients. `./dev setup` installs them.

use std::path::PathBuf;
use std::process::Command;

use crate::process::Server;
use crate::support::{repository, required};
use crate::upstream::{Says, Then, Upstream, completion, completion_stream, message, response};

fn python() -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_scrollback")).ancestors().nth(2)?.to_path_buf();
    let python = target.join("venv-sdk/bin/python");
    required::file(&python, "the providers' Python packages", "the packages as clients")
}

fn run(python: &PathBuf, server: &Server, script: &str, key: &str) {
    let output = Command::new(python)
        .arg(repository(script))
        .env("OPENAI_BASE_URL", format!("http://{}/v1", server.address))
        .env("ANTHROPIC_BASE_URL", format!("http://{}", server.address))
        .env("OPENAI_API_KEY", key)
        .env("ANTHROPIC_API_KEY", key)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

#[test]
fn the_packages_work_unchanged_without_a_provider() {
    let Some(python) = python() else { return };
    let server = Server::start("packages-echo");
    run(&python, &server, "tests/sdk/echo.py", "none");
    server.verified();
}

#[test]
fn the_packages_work_unchanged_before_a_provider() {
    let Some(python) = python() else { return };
    let upstream = Upstream::start(|number, received| {
        let streams = received.json()["stream"] == true;
        match received.path.split('?').next().unwrap() {
            "/v1/chat/completions" if streams => {
                let bytes = completion_stream("Good day to you").into_bytes();
                Says::Events(bytes.chunks(37).map(<[u8]>::to_vec).collect(), Then::End)
            }
            "/v1/chat/completions" => completion("Good day to you"),
            "/v1/messages" if streams => Says::Events(vec![MESSAGE_STREAM.as_bytes().to_vec()], Then::End),
            "/v1/messages" => message("Good day to you"),
            "/v1/responses" => response(&format!("resp_{number}"), "Good day to you"),
            other => Says::Json(404, format!("{{\"error\":{{\"message\":\"no {other}\"}}}}")),
        }
    });
    let server = Server::before("packages", upstream.address, "");
    run(&python, &server, "tests/sdk/provider.py", "sk-of-the-client");
    let received = upstream.received();
    assert!(received.len() >= 6);
    let openai = received.iter().find(|one| one.path == "/v1/chat/completions").unwrap();
    assert_eq!(openai.header("authorization"), Some("Bearer sk-of-the-client"));
    let anthropic = received.iter().find(|one| one.path.starts_with("/v1/messages")).unwrap();
    let key = anthropic.header("x-api-key").or(anthropic.header("authorization")).unwrap();
    assert!(key.ends_with("sk-of-the-client"), "{key}");
    server.verified();
}

/// A stream of Messages, with thinking and a call.
const MESSAGE_STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Good day "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"to you"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;
