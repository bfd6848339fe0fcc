//! Runs over real connections, on each of the three interfaces: what is sent, and what becomes of refusals.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Reply, Server};
use scrollback_agent::event::{ContextTightened, Throttled};
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Api, Catalog, Endpoint, Http, ModelSettings, ResponseFormat, ToolChoice};
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::{Toolbox, tool};
use scrollback_core::Record;
use scrollback_core::model::ModelName;
use serde_json::{Value, json};

fn events(list: &[(&str, Value)]) -> Vec<u8> {
    let event = |(name, data): &(&str, Value)| match *name {
        "" => format!("data: {data}\n\n"),
        name => format!("event: {name}\ndata: {data}\n\n"),
    };
    list.iter().map(event).collect::<String>().into_bytes()
}

/// A reply that calls `weather`, or one that says a text, as each interface streams it.
fn streamed(api: Api, calls: bool) -> Reply {
    let arguments = "{\"city\":\"Paris\"}";
    let body = match (api, calls) {
        (Api::Chat, true) => {
            let call = json!({ "index": 0, "id": "c1", "type": "function", "function": { "name": "weather", "arguments": arguments } });
            let mut body = events(&[
                (
                    "",
                    json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": [call] } }] }),
                ),
                (
                    "",
                    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }], "usage": { "prompt_tokens": 10, "completion_tokens": 5 } }),
                ),
            ]);
            body.extend_from_slice(b"data: [DONE]\n\n");
            body
        }
        (Api::Chat, false) => {
            let mut body = events(&[
                (
                    "",
                    json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "Sunny." }, "finish_reason": "stop" }] }),
                ),
                ("", json!({ "choices": [], "usage": { "prompt_tokens": 20, "completion_tokens": 3 } })),
            ]);
            body.extend_from_slice(b"data: [DONE]\n\n");
            body
        }
        (Api::Responses, calls) => {
            let item = if calls {
                json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": arguments, "status": "completed" })
            } else {
                json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{ "type": "output_text", "text": "Sunny.", "annotations": [] }] })
            };
            let response = json!({ "id": "resp_1", "status": "completed", "output": [item], "usage": { "input_tokens": 10, "output_tokens": 5 } });
            events(&[
                (
                    "response.created",
                    json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
                ),
                (
                    "response.output_item.added",
                    json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                ),
                (
                    "response.output_item.done",
                    json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
                ),
                ("response.completed", json!({ "type": "response.completed", "response": response })),
            ])
        }
        (Api::Messages, calls) => {
            let (block, delta, stop) = if calls {
                (
                    json!({ "type": "tool_use", "id": "c1", "name": "weather", "input": {} }),
                    json!({ "type": "input_json_delta", "partial_json": arguments }),
                    "tool_use",
                )
            } else {
                (
                    json!({ "type": "text", "text": "" }),
                    json!({ "type": "text_delta", "text": "Sunny." }),
                    "end_turn",
                )
            };
            events(&[
                (
                    "message_start",
                    json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": { "input_tokens": 10, "output_tokens": 1 } } }),
                ),
                (
                    "content_block_start",
                    json!({ "type": "content_block_start", "index": 0, "content_block": block }),
                ),
                ("content_block_delta", json!({ "type": "content_block_delta", "index": 0, "delta": delta })),
                ("content_block_stop", json!({ "type": "content_block_stop", "index": 0 })),
                (
                    "message_delta",
                    json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 5 } }),
                ),
                ("message_stop", json!({ "type": "message_stop" })),
            ])
        }
    };
    Reply::of(200, body).header("content-type", "text/event-stream")
}

fn runner(server: &Server, api: Api) -> Runner {
    let base = if api == Api::Messages { server.url.trim_end_matches("/v1") } else { &server.url };
    let endpoint = Endpoint::new(base, api, Some("sk-test-key".to_string().into())).unwrap();
    let name = if api == Api::Messages { "anthropic:claude-sonnet-4-5" } else { "openai:gpt-4o" };
    let http = Http::new(ModelName::parse(name).unwrap(), api, endpoint).unwrap();
    let mut runner = Runner::new(Arc::new(http));
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let weather =
        tool("weather", "Weather by city", schema, |_: Value| async move { Ok(json!("22 degrees, sunny")) });
    runner.tools.add(Arc::new(weather)).unwrap();
    runner
}

fn prompt() -> Prompt {
    Prompt {
        name: "test".into(),
        system: Some("Be brief.".into()),
        user: "Paris?".into(),
        response_format: None,
    }
}

#[tokio::test]
async fn each_interface_is_spoken_as_it_wants_to_be() {
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        let server = Server::start(vec![streamed(api, true), streamed(api, false)]).await;
        let mut runner = runner(&server, api);
        runner.tool_choice = ToolChoice::Tool("weather".into());
        let mut journal = Journal::memory(Record::new());
        let asked = Prompt {
            response_format: Some(ResponseFormat { name: "any".into(), schema: json!({}) }),
            ..prompt()
        };
        let done = runner.run(&mut journal, &asked).await;
        // The reply is no object, which is an answer to the wrong question; the requests are what matters here.
        assert!(
            matches!(&done.ended, EvaluationEnd::Failed(error) if error.code() == "bad_output"),
            "{api:?}: {:?}",
            done.ended
        );
        assert_eq!(journal.record().len(), 5, "{api:?}");
        let bodies: Vec<Value> =
            server.seen().iter().map(|seen| serde_json::from_str(&seen.body).unwrap()).collect();
        let [first, second] = bodies.as_slice() else { panic!("{bodies:?}") };
        assert_eq!((first["model"].is_string(), &first["stream"]), (true, &json!(true)));
        let parameters =
            json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        match api {
            Api::Chat => {
                assert_eq!(first["tools"][0]["function"]["parameters"], parameters);
                assert_eq!(first["tool_choice"]["function"]["name"], "weather");
                assert_eq!(second["tool_choice"], "auto");
                assert_eq!(first["response_format"]["type"], "json_schema");
                assert_eq!(first["messages"][0], json!({ "role": "system", "content": "Be brief." }));
                assert_eq!(
                    second["messages"][3],
                    json!({ "role": "tool", "tool_call_id": "c1", "content": "22 degrees, sunny" })
                );
            }
            Api::Responses => {
                assert_eq!(first["tools"][0]["parameters"], parameters);
                assert_eq!(first["tool_choice"], json!({ "type": "function", "name": "weather" }));
                assert_eq!(
                    (&first["store"], &first["text"]["format"]["type"]),
                    (&json!(false), &json!("json_schema"))
                );
                let input = second["input"].as_array().unwrap();
                assert!(
                    input.iter().any(|item| item["type"] == "function_call" && item["call_id"] == "c1"),
                    "{second}"
                );
                assert!(
                    input.iter().any(|item| item["type"] == "function_call_output"
                        && item["output"] == "22 degrees, sunny"),
                    "{second}"
                );
            }
            Api::Messages => {
                assert_eq!(first["tools"][0]["input_schema"], parameters);
                assert_eq!(first["tool_choice"], json!({ "type": "tool", "name": "weather" }));
                assert_eq!((&first["system"], &first["max_tokens"]), (&json!("Be brief."), &json!(32_000)));
                assert_eq!(first["output_config"]["format"]["type"], "json_schema");
                assert_eq!(second["messages"][1]["content"][0]["type"], "tool_use");
                assert_eq!(second["messages"][2]["content"][0]["tool_use_id"], "c1");
            }
        }
        // What was sent before is sent again byte for byte, and more behind it.
        let sent = server.seen();
        let key = if api == Api::Responses { "\"input\":" } else { "\"messages\":" };
        let list =
            |body: &str| body.split_once(key).unwrap().1.trim_end_matches(['}', ']', '\n']).to_string();
        let (one, two) = (list(&sent[0].body), list(&sent[1].body));
        assert!(two.starts_with(&one), "{api:?}:\n{one}\n{two}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_provider_says() {
    let limited = Reply::of(429, r#"{"error":{"message":"slow down","type":"requests"}}"#)
        .header("retry-after-ms", "30");
    let server = Server::start(vec![limited, streamed(Api::Chat, false)]).await;
    let mut runner = runner(&server, Api::Chat);
    runner.throttle = scrollback_agent::runner::Throttle::new(
        3,
        Duration::from_millis(1),
        Duration::from_millis(5),
        Duration::from_secs(5),
    )
    .unwrap();
    let waits = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&waits);
    runner.bus.subscribe::<Throttled>(move |told| {
        kept.lock().unwrap().push((told.event.kind, told.event.delay, told.event.retry_after));
        Ok(())
    });
    let done = runner.run(&mut Journal::memory(Record::new()), &prompt()).await;
    assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
    assert_eq!(*waits.lock().unwrap(), [("rate_limit", 30, Some(30))]);
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test]
async fn a_provider_that_refuses_long_bodies_is_sent_shorter_ones() {
    const LIMIT: usize = 9_000;
    let calls = AtomicUsize::new(0);
    let server = Server::answering(move |body| {
        if body.len() > LIMIT {
            let message = format!("prompt is too long: {} tokens > {} maximum", body.len() / 4, LIMIT / 4);
            let error =
                json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } });
            return Reply::of(400, error.to_string());
        }
        streamed(Api::Messages, calls.fetch_add(1, Ordering::SeqCst) < 8)
    })
    .await;
    let mut runner = runner(&server, Api::Messages);
    let long = "word ".repeat(500);
    runner.tools = Toolbox::default();
    let weather = tool("weather", "Weather by city", json!({ "type": "object" }), move |_: Value| {
        let long = long.clone();
        async move { Ok(json!(long)) }
    });
    runner.tools.add(Arc::new(weather)).unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&steps);
    runner.bus.subscribe::<ContextTightened>(move |told| {
        kept.lock().unwrap().push(told.event.step);
        Ok(())
    });
    let mut journal = Journal::memory(Record::new());
    let done = runner.run(&mut journal, &prompt()).await;
    assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?} {steps:?}", done.ended);
    let steps = steps.lock().unwrap();
    assert!(steps.len() >= 2 && steps[0] == "cut", "{steps:?}");
    let refused = server.seen().iter().filter(|seen| seen.body.len() > LIMIT).count();
    assert!(refused > 0 && refused <= steps.len(), "{refused} refused, {steps:?}");
    assert_eq!(journal.record().message_count(), 2 + 8 * 2 + 1, "the record is whole");
    assert!(server.seen().last().unwrap().body.contains("Paris?"), "the task is never lost");
}

#[tokio::test]
async fn any_base_url_with_the_same_interface_will_do() {
    let server = Server::start(vec![streamed(Api::Chat, false)]).await;
    let settings = ModelSettings {
        base_url: Some(server.url.clone()),
        key_env: Some("LOCAL_KEY".into()),
        ..ModelSettings::default()
    };
    let catalog =
        Catalog::new([("openai-compatible:qwen3:8b".to_string(), settings)].into(), BTreeMap::default())
            .with_environment(|name| (name == "LOCAL_KEY").then(|| "local-secret".to_string()));
    let provider = catalog.provider_named("openai-compatible:qwen3:8b").unwrap();
    assert!(!format!("{provider:?}").contains("local-secret"));
    let done = Runner::new(provider).run(&mut Journal::memory(Record::new()), &prompt()).await;
    assert!(
        matches!(&done.ended, EvaluationEnd::Replied { text, .. } if text == "Sunny."),
        "{:?}",
        done.ended
    );
    let seen = &server.seen()[0];
    assert!(seen.head.to_ascii_lowercase().contains("authorization: bearer local-secret"), "{}", seen.head);
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap()["model"], "qwen3:8b");
    let missing = Catalog::default().with_environment(|_| None);
    for (model, says) in [
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("openai-compatible:x", "base_url"),
        ("openai:gpt-4o?api=soap", "chat or responses"),
        ("bedrock:amazon.nova-pro-v1:0", "cannot be called"),
        ("offline:scrpt=x", "script"),
    ] {
        let error = missing.provider_named(model).unwrap_err().to_string();
        assert!(error.contains(says), "{model}: {error}");
    }
}
