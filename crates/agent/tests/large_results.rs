//! Agents that say nothing about their history, tools that answer with far too much, and providers that refuse what does not
//! fit their real windows: the run ends well, and the record says what was done.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrollback_agent::event::ContextTightened;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Api, Endpoint, Http, ReplyDelivery};
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::tool;
use scrollback_core::model::ModelName;
use scrollback_core::{Decision, Slot, Time};
use scrollback_store::{Memory, Store, Tenant};
use serde_json::{Value, json};

use crate::support::{Reply, Server};

/// A provider with its real window, which counts in its own way.
#[derive(Clone, Copy, Debug)]
struct Model {
    name: &'static str,
    api: Api,
    window: usize,
    /// Its tokens for a hundred words. Ours has a hundred of its own: that we count otherwise is the usual case.
    per_hundred: usize,
}

const GPT: Model = Model { name: "openai:gpt-4o", api: Api::Chat, window: 128_000, per_hundred: 100 };
const CLAUDE: Model =
    Model { name: "anthropic:claude-sonnet-4-5", api: Api::Messages, window: 200_000, per_hundred: 100 };

/// Steps that one request may be made smaller by.
const STEPS: usize = 4;

impl Model {
    /// Tokens of a request, as this provider counts them.
    fn count(self, body: &str) -> usize {
        body.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count() * self.per_hundred
            / 100
    }

    /// The refusal of a request that is too long, in the provider's own words.
    fn refusal(self, size: usize) -> String {
        let limit = self.window;
        match self.api {
            Api::Messages => json!({ "type": "error", "error": { "type": "invalid_request_error",
                "message": format!("prompt is too long: {size} tokens > {limit} maximum") } }),
            _ => json!({ "error": { "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
                "message": format!("This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens. Please reduce the length of the messages.") } }),
        }
        .to_string()
    }

    fn reply(self, calls: Option<usize>, size: usize) -> String {
        let id = calls.map(|number| format!("call_{number}"));
        match (self.api, id) {
            (Api::Messages, id) => {
                let (block, stop) = match id {
                    Some(id) => (json!({ "type": "tool_use", "id": id, "name": "read", "input": {} }), "tool_use"),
                    None => (json!({ "type": "text", "text": "Done." }), "end_turn"),
                };
                json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [block], "stop_reason": stop,
                    "usage": { "input_tokens": size, "output_tokens": 5 } })
            }
            (_, id) => {
                let (message, stop) = match id {
                    Some(id) => {
                        let call = json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } });
                        (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
                    }
                    None => (json!({ "role": "assistant", "content": "Done." }), "stop"),
                };
                json!({ "id": "chatcmpl-1", "choices": [{ "index": 0, "message": message, "finish_reason": stop }],
                    "usage": { "prompt_tokens": size, "completion_tokens": 5 } })
            }
        }
        .to_string()
    }
}

/// Runs an agent that calls its tool so many times, and says what came of it.
async fn run(model: Model, results: usize, result: String) {
    let answered = AtomicUsize::new(0);
    let server = Server::answering(move |body| {
        let size = model.count(body);
        if size > model.window {
            return Reply::of(400, model.refusal(size));
        }
        let number = answered.fetch_add(1, Ordering::SeqCst);
        Reply::of(200, model.reply((number < results).then_some(number), size))
            .header("content-type", "application/json")
    })
    .await;
    let base = if model.api == Api::Messages { server.url.trim_end_matches("/v1") } else { &server.url };
    let endpoint = Endpoint::new(base, model.api, Some("sk-test-key".to_string().into())).unwrap();
    let mut runner =
        Runner::new(Arc::new(Http::new(ModelName::parse(model.name).unwrap(), model.api, endpoint).unwrap()));
    runner.delivery = ReplyDelivery::Whole;
    let read = tool("read", "Reads a page", json!({ "type": "object" }), move |_: Value| {
        let result = result.clone();
        async move { Ok(json!(result)) }
    });
    runner.tools.add(Arc::new(read)).unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&steps);
    runner.bus.subscribe::<ContextTightened>(move |told| {
        kept.lock().unwrap().push(told.event.step);
        Ok(())
    });
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut journal = Journal::begin(Arc::clone(&store), Tenant::default(), Time(1));
    let conversation = journal.conversation().unwrap().clone();
    let system = Some("Read everything, then say Done.".into());
    let prompt =
        Prompt { name: "reader".into(), system, user: "Begin with page one.".into(), ..Prompt::default() };
    let done = runner.run(&mut journal, &prompt).await;
    let steps = steps.lock().unwrap().clone();
    let case = format!("{model:?}, {results} results, steps {steps:?}");
    assert!(
        matches!(&done.ended, EvaluationEnd::Replied { text, .. } if text == "Done."),
        "{case}: {:?}",
        done.ended
    );

    // Everything that was said is there, and every step is a decision that another process reads.
    let record = store.record(&Tenant::default(), &conversation, None).await.unwrap();
    assert_eq!(record.message_count(), 2 + 2 * results + 1, "{case}");
    let decided: Vec<&str> = record
        .slots()
        .iter()
        .filter_map(|slot| match slot {
            Slot::Decision(decision, _) => match decision.as_ref() {
                Decision::Cut { by, .. } if by == "overflow" => Some("cut"),
                Decision::Clear { .. } => Some("clear"),
                Decision::Truncate { .. } => Some("truncate"),
                other => panic!("{case}: {other:?}"),
            },
            _ => None,
        })
        .collect();
    let told: Vec<&str> = steps.iter().map(|step| step.trim_end_matches("_task")).collect();
    assert_eq!(decided, told, "{case}");
    assert!(!decided.is_empty(), "{case}: there was too much, and nothing was done about it");

    // No request is refused more often than there are steps, and what was decided holds for the next one.
    let (mut in_a_row, mut refused) = (0, 0);
    for seen in server.seen() {
        let is_refused = model.count(&seen.body) > model.window;
        in_a_row = if is_refused { in_a_row + 1 } else { 0 };
        refused += usize::from(is_refused);
        assert!(in_a_row <= STEPS, "{case}");
        assert!(seen.body.contains("Begin with page one."), "{case}: the task is never lost");
    }
    assert!(refused <= decided.len(), "{case}: {refused} refused");
    // Each attempt has its row, with the bytes that were sent and how it ended.
    let rows = store.sent(&Tenant::default(), &conversation).await.unwrap();
    let bodies: Vec<String> =
        rows.iter().map(|row| String::from_utf8(row.request.clone().unwrap_or_default()).unwrap()).collect();
    let seen: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert!(bodies == seen, "{case}: {} rows, {} requests", bodies.len(), seen.len());
    assert_eq!(
        rows.iter().filter(|row| row.status.as_str() == "context_overflow").count(),
        refused,
        "{case}"
    );
}

/// So many words, a token each.
fn words(count: usize) -> String {
    "word ".repeat(count)
}

#[tokio::test]
async fn many_large_results_end_well_without_a_history_option() {
    // A dozen results of ten thousand tokens are more than the windows where the provider counts more than we do.
    run(Model { per_hundred: 115, ..GPT }, 12, words(10_000)).await;
    run(Model { per_hundred: 180, ..CLAUDE }, 12, words(10_000)).await;
    // Where both count alike it takes a few more.
    run(GPT, 20, words(10_000)).await;
    run(CLAUDE, 26, words(10_000)).await;
}

#[tokio::test]
async fn one_result_of_three_megabytes_ends_well_without_a_history_option() {
    run(GPT, 1, words(600_000)).await;
    run(CLAUDE, 1, words(600_000)).await;
    run(Model { per_hundred: 180, ..CLAUDE }, 2, words(600_000)).await;
}
