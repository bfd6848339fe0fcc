//! Providers over a real connection: replies, refusals, and every way a stream can break.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{End, Reply, Server};
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{
    Api, Broken, Echo, Endpoint, ErrorKind, Http, Overflow, Provider, ProviderError, ReplyDelivery, Request,
    Scripted,
};
use scrollback_core::model::ModelName;
use scrollback_core::stream::{Delta, Reply as Whole};
use scrollback_core::{Entry, Status};

const CHAT: &[u8] =
    b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Good \"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"day\"},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n";

fn http(server: &Server, api: Api) -> Http {
    let base = if api == Api::Messages { server.url.trim_end_matches("/v1") } else { &server.url };
    let endpoint = Endpoint::new(base, api, Some("sk-test-key-0123456789".to_string().into())).unwrap();
    let name = if api == Api::Messages { "anthropic:claude-sonnet-5" } else { "openai:gpt-5" };
    Http::new(ModelName::parse(name).unwrap(), api, endpoint).unwrap()
}

fn request(body: &str) -> Request {
    Request { body: body.into(), delivery: ReplyDelivery::Streamed, timeout: Duration::from_secs(20) }
}

async fn reply(provider: &dyn Provider, request: Request) -> Result<Whole, Broken> {
    match provider.call(request).await {
        Ok(stream) => stream.finish().await,
        Err(error) => Err(Broken { error, partial: None }),
    }
}

async fn refused(answer: Reply) -> ProviderError {
    let server = Server::start(vec![answer]).await;
    http(&server, Api::Chat).call(request("{}")).await.unwrap_err()
}

#[tokio::test]
async fn a_streamed_reply_is_whole_and_the_body_was_sent_as_it_is() {
    let server = Server::start(vec![Reply::of(200, CHAT)]).await;
    let body = r#"{"model":"gpt-5",  "messages":[{"role":"user","content":"h\u00e9"}]}"#;
    let mut stream = http(&server, Api::Chat).call(request(body)).await.unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        pieces.push(piece);
    }
    assert_eq!(pieces[..2], [Delta::Text("Good ".into()), Delta::Text("day".into())]);
    assert!(matches!(pieces[2], Delta::Usage(_)));
    let whole = stream.finish().await.unwrap();
    assert_eq!(whole.entry().unwrap().content().as_deref(), Some("Good day"));
    assert_eq!(whole.meta.usage.unwrap().output, Some(3));
    let seen = &server.seen()[0];
    assert_eq!(seen.body, body);
    assert!(seen.head.starts_with("POST /v1/chat/completions "), "{}", seen.head);
    assert!(seen.head.contains("authorization: Bearer sk-test-key"));
}

#[tokio::test]
async fn anthropic_and_responses_are_spoken_to_in_their_own_way() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/stream");
    for (api, fixture, path) in [
        (Api::Messages, "anthropic-tool-use.sse", "POST /v1/messages "),
        (Api::Responses, "responses-text.sse", "POST /v1/responses "),
    ] {
        let stream = std::fs::read(folder.join(fixture)).unwrap();
        let server = Server::start(vec![Reply::of(200, stream)]).await;
        let whole = reply(&http(&server, api), request("{}")).await.unwrap();
        assert_eq!(whole.meta.status, Status::Complete);
        let head = server.seen()[0].head.clone();
        assert!(head.starts_with(path), "{head}");
        let key =
            if api == Api::Messages { "x-api-key: sk-test-key" } else { "authorization: Bearer sk-test-key" };
        assert!(head.contains(key), "{head}");
        assert_eq!(head.contains("anthropic-version: 2023-06-01"), api == Api::Messages);
    }
}

#[tokio::test]
async fn a_reply_in_one_piece_is_read_too() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let server = Server::start(vec![Reply::of(200, body), Reply::of(200, &body[..40])]).await;
    let provider = http(&server, Api::Chat);
    let whole = Request { delivery: ReplyDelivery::Whole, ..request("{}") };
    let read = reply(&provider, whole.clone()).await.unwrap();
    assert_eq!(read.entry().unwrap().content().as_deref(), Some("hi"));
    assert_eq!(reply(&provider, whole).await.unwrap_err().error.kind, ErrorKind::Truncated);
}

#[tokio::test]
async fn refusals_have_their_kind_and_the_wait_that_was_asked_for() {
    let limited = refused(Reply::of(429, "{}").header("retry-after", "2")).await;
    assert_eq!((limited.kind, limited.retry_after), (ErrorKind::RateLimit, Some(Duration::from_secs(2))));
    let limited = refused(Reply::of(429, "{}").header("retry-after-ms", "250")).await;
    assert_eq!(limited.retry_after, Some(Duration::from_millis(250)));
    let dated = Reply::of(503, "{}")
        .header("date", "Sun, 15 Nov 2026 10:00:00 GMT")
        .header("retry-after", "Sun, 15 Nov 2026 10:00:07 GMT");
    let busy = refused(dated).await;
    assert_eq!((busy.kind, busy.retry_after), (ErrorKind::Overloaded, Some(Duration::from_secs(7))));
    let plain = refused(Reply::of(429, "{}")).await;
    assert_eq!(plain.retry_after, None);
    assert!(plain.kind.is_retry_safe());
    let too_long = r#"{"error":{"message":"maximum context length is 8192 tokens, however you requested 9000","code":"context_length_exceeded"}}"#;
    let overflow = refused(Reply::of(400, too_long)).await;
    let sizes = Overflow { limit: Some(8192), size: Some(9000) };
    assert_eq!((overflow.kind, overflow.kind.is_retry_safe()), (ErrorKind::ContextOverflow(sizes), false));
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_never_shown() {
    let error = refused(Reply::of(401, r#"{"error":{"message":"bad key sk-test-key-0123456789"}}"#)).await;
    assert_eq!(error.kind, ErrorKind::Auth);
    assert!(!format!("{error}{error:?}").contains("sk-test-key"), "{error:?}");
    let server = Server::start(Vec::new()).await;
    assert!(!format!("{:?}", http(&server, Api::Chat)).contains("sk-test-key"));
}

#[tokio::test]
async fn errors_inside_a_stream_have_their_real_kind() {
    let overloaded = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let server = Server::start(vec![Reply::of(200, *overloaded)]).await;
    let broken = reply(&http(&server, Api::Messages), request("{}")).await.unwrap_err();
    assert_eq!((broken.error.kind, broken.error.status), (ErrorKind::Overloaded, Some(529)));
}

/// The end of the reply is `[DONE]` or the reason it stopped; before it, every cut is a truncation.
#[tokio::test]
async fn a_stream_cut_at_any_byte_is_truncated_and_keeps_what_came() {
    let cuts: Vec<usize> = (0..CHAT.len()).collect();
    let replies = cuts.iter().map(|cut| Reply::of(200, &CHAT[..*cut])).collect();
    let server = Server::start(replies).await;
    let provider = http(&server, Api::Chat);
    let end = CHAT.windows(16).position(|window| window == b"\"finish_reason\":").unwrap();
    for cut in cuts {
        match reply(&provider, request("{}")).await {
            Ok(whole) => {
                assert!(cut > end, "cut at {cut}");
                assert_eq!(whole.entry().unwrap().content().as_deref(), Some("Good day"));
            }
            Err(broken) => {
                assert_eq!(broken.error.kind, ErrorKind::Truncated, "cut at {cut}");
                let said =
                    broken.partial.and_then(|partial| partial.entry().ok()?.content()).unwrap_or_default();
                assert!("Good day".starts_with(&said), "cut at {cut}: {said}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_listening_and_nobody_answering_are_told_apart() {
    let endpoint = Endpoint::new("http://127.0.0.1:1/v1", Api::Chat, None).unwrap();
    let provider = Http::new(ModelName::parse("openai:gpt-5").unwrap(), Api::Chat, endpoint).unwrap();
    let error = provider.call(request("{}")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");

    let hanging = Reply { end: End::Hanging, ..Reply::of(200, &CHAT[..40]) };
    let server = Server::start(vec![hanging]).await;
    let short = Request { timeout: Duration::from_millis(200), ..request("{}") };
    let broken = reply(&http(&server, Api::Chat), short).await.unwrap_err();
    assert_eq!(broken.error.kind, ErrorKind::Timeout, "{}", broken.error);
}

#[tokio::test]
async fn whoever_leaves_keeps_what_came() {
    let first = CHAT.windows(2).position(|window| window == b"\n\n").unwrap() + 2;
    let hanging = Reply { end: End::Hanging, ..Reply::of(200, &CHAT[..first]) };
    let server = Server::start(vec![hanging]).await;
    let mut stream = http(&server, Api::Chat).call(request("{}")).await.unwrap();
    assert_eq!(stream.next().await, Some(Delta::Text("Good ".into())));
    let partial = stream.cancel().unwrap();
    assert_eq!(partial.meta.status, Status::TruncatedClient);
    assert_eq!(partial.entry().unwrap().content().as_deref(), Some("Good "));
}

#[test]
fn keys_are_sent_over_https_only_and_never_inside_a_url() {
    let key = || Some("k".to_string().into());
    let refusal = |base: &str| Endpoint::new(base, Api::Chat, key()).unwrap_err().message;
    assert!(refusal("http://example.org/v1").contains("not https"));
    assert!(refusal("https://me:secret@example.org/v1").contains("password"));
    assert!(refusal("ftp://example.org").contains("must begin with"));
    assert!(refusal("example").contains("cannot be read"));
    assert!(Endpoint::new("http://127.0.0.1:8080/v1", Api::Chat, key()).is_ok());
    assert!(Endpoint::new("http://models.lan/v1", Api::Chat, None).is_ok());
}

fn offline() -> ModelName {
    ModelName::parse("offline:echo").unwrap()
}

async fn said(provider: &dyn Provider, body: &str) -> Result<Entry, Broken> {
    reply(provider, request(body)).await.map(|whole| whole.entry().unwrap())
}

#[tokio::test]
async fn echo_answers_with_the_last_user_text() {
    let body = r#"{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"x"},{"role":"user","content":"two"}]}"#;
    let provider = Echo::new(offline());
    assert_eq!(said(&provider, body).await.unwrap().content().as_deref(), Some("two"));
    assert_eq!(said(&provider, "{}").await.unwrap().content().as_deref(), Some(""));
    let whole = reply(&provider, request(body)).await.unwrap();
    assert_eq!(whole.meta.usage.unwrap().output, Some(1));
}

#[tokio::test]
async fn a_script_answers_line_by_line_and_says_what_it_missed() {
    let script = r#"
- reply: "Which date?"
  usage: {input: 10, output: 3}
- calls: [{name: weather, arguments: {city: Paris}}, {name: clock, arguments: "not json", id: mine}]
  text: "I look."
- error: {kind: rate_limit, retry_after: 2, message: "slow down"}
- reply: "I was about to say"
  fail_after: 12
- expect: {contains: ["Which date?"], absent: ["secret"], roles: [system, user], count: 2, tools: [weather]}
  reply: "Booked."
- expect: {contains: ["Which date?"], absent: ["secret"], roles: [system, user], count: 2, tools: [weather]}
  reply: "Booked."
"#;
    let provider = Scripted::new(offline(), Arc::new(Script::parse(script).unwrap()));
    let first = reply(&provider, request("{}")).await.unwrap();
    assert_eq!(first.meta.usage.as_ref().unwrap().input(), Some(10));
    assert_eq!(first.entry().unwrap().content().as_deref(), Some("Which date?"));
    let second = said(&provider, "{}").await.unwrap();
    let calls: Vec<(String, String)> = second
        .tool_calls()
        .map(|call| {
            (call.call_id.as_ref().unwrap().as_str().into_owned(), call.arguments.as_str().into_owned())
        })
        .collect();
    assert_eq!(calls, [("call_1".into(), r#"{"city":"Paris"}"#.into()), ("mine".into(), "not json".into())]);
    let limited = said(&provider, "{}").await.unwrap_err().error;
    assert_eq!((limited.kind, limited.retry_after), (ErrorKind::RateLimit, Some(Duration::from_secs(2))));
    let broken = said(&provider, "{}").await.unwrap_err();
    assert_eq!(broken.error.kind, ErrorKind::Truncated);
    let partial = broken.partial.unwrap().entry().unwrap();
    assert_eq!(partial.content().as_deref(), Some("I was about "));
    let expected = r#"{"tools":[{"type":"function","function":{"name":"weather"}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"Which date?"}]}"#;
    assert_eq!(said(&provider, expected).await.unwrap().content().as_deref(), Some("Booked."));
    let other =
        said(&provider, r#"{"messages":[{"role":"user","content":"secret"}]}"#).await.unwrap_err().error;
    assert_eq!(other.kind, ErrorKind::ScriptMismatch);
    for told in [
        "answer 6",
        "no \"Which date?\" in it",
        "\"secret\" is in it",
        "roles [\"user\"]",
        "1 messages",
        "tools []",
    ] {
        assert!(other.message.contains(told), "{told}: {other}");
    }
    assert_eq!(said(&provider, "{}").await.unwrap_err().error.kind, ErrorKind::ScriptExhausted);
}

#[tokio::test]
async fn a_script_may_start_again() {
    let provider =
        Scripted::new(offline(), Arc::new(Script::parse("- loop: true\n- reply: a\n- reply: b\n").unwrap()));
    let mut all = Vec::new();
    for _ in 0..5 {
        all.extend(said(&provider, "{}").await.unwrap().content());
    }
    assert_eq!(all, ["a", "b", "a", "b", "a"]);
}

#[test]
fn every_mistake_in_a_script_is_named_with_its_place() {
    let script = "- replay: hi\n- error: {kind: ratelimit, retry_after: -1}\n- {}\n- calls: [{nome: f}]\n- fail_after: -3\n  reply: x\n- 7\n";
    let problems: Vec<String> = Script::parse(script).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "1:3: [0]: an answer needs `reply`, `calls` or `error`",
        "1:3: [0].replay: unknown key; did you mean `reply`?",
        "2:17: [1].error.kind: must be one of rate_limit, overloaded, timeout, network, quota_exhausted, auth, invalid_request, context_overflow, state_lost, state_unsupported, content_filter, truncated, unknown, not \"ratelimit\"; did you mean `rate_limit`?",
        "2:41: [1].error.retry_after: must be a number above 0, not -1",
        "3:3: [2]: an answer needs `reply`, `calls` or `error`",
        "4:11: [3].calls[0]: `name` is missing",
        "4:12: [3].calls[0].nome: unknown key; did you mean `name`?",
        "5:15: [4].fail_after: must be a whole number of at least 0, not -3",
        "7:3: [5]: must be a map, not a number",
    ];
    assert_eq!(problems, expected);
    assert_eq!(
        Script::parse("reply: x").unwrap_err()[0].to_string(),
        "1:1: a script must be a list of answers, not a map"
    );
    assert!(Script::parse("- [").unwrap_err()[0].message.starts_with("not valid YAML: "));
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_in_nothing_that_is_kept() {
    let key = "sk-test-key-0123456789";
    let (first, second) = key.split_at(9);
    let event = |text: &str| {
        format!(
            "data: {{\"id\":\"{key}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
        )
    };
    let end =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    // In pieces, so that no event has all of it; and in a reply that breaks off.
    for end in [end, ""] {
        let stream = format!("{}{}{}{end}", event("your key is "), event(first), event(second));
        let server = Server::start(vec![Reply::of(200, stream.as_bytes())]).await;
        let kept = match reply(&http(&server, Api::Chat), request("{}")).await {
            Ok(whole) => whole,
            Err(broken) => broken.partial.unwrap(),
        };
        assert_eq!(kept.entry().unwrap().content().as_deref(), Some("your key is [redacted:configured]"));
        assert!(!format!("{kept:?}").contains(key), "{kept:?}");
    }
}
