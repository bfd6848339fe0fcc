//! Missions whose requests are too large for their provider: they become smaller by the same steps as everywhere, each step is a
//! decision of the record, and the mission ends well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrollback_agent::event::ContextTightened;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Api, Catalog, Endpoint, Http, ModelSettings, Provider};
use scrollback_core::model::ModelName;
use scrollback_core::tokens::{Counter, entry_tokens};
use scrollback_core::{Decision, Entry, Record, Role, Slot, Time};
use scrollback_store::{Memory, Store, Tenant};
use scrollback_subagent::compression::parse;
use scrollback_subagent::{
    AgentTool, EndReason, Host, InheritedSettings, OutputForm, RecordedMission, SentCheck, Step, SubAgent,
};
use serde_json::json;

use crate::http::{Reply, Server};
use crate::support::{agent, ended, function, plain_host, with};

/// Steps that one request may be made smaller by.
const STEPS: usize = 4;

/// A provider that refuses more than so many words, says why as providers do, and otherwise answers with the next program.
struct Refusing {
    most: usize,
    programs: Vec<String>,
    /// The answer that fails for another reason, once.
    breaks_at: Option<usize>,
}

fn words(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count()
}

impl Refusing {
    async fn start(self) -> Server {
        let (answered, broken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Server::answering(move |body| {
            let (size, limit) = (words(body), self.most);
            if size > limit {
                let message = format!(
                    "This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens. Please reduce the length of the messages."
                );
                let error = json!({ "error": { "type": "invalid_request_error", "param": "messages",
                    "code": "context_length_exceeded", "message": message } });
                return Reply::of(400, error.to_string());
            }
            let number = answered.load(Ordering::SeqCst);
            if self.breaks_at == Some(number) && broken.fetch_add(1, Ordering::SeqCst) == 0 {
                return Reply::of(401, json!({ "error": { "message": "no" } }).to_string());
            }
            answered.fetch_add(1, Ordering::SeqCst);
            let text = format!("```clojure\n{}\n```", self.programs[number]);
            let chunk = json!({ "id": "chatcmpl-1", "choices": [{ "index": 0,
                "delta": { "role": "assistant", "content": text }, "finish_reason": null }] });
            let end = json!({ "id": "chatcmpl-1", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
            Reply::of(200, format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
                .header("content-type", "text/event-stream")
        })
        .await
    }
}

fn model(server: &Server) -> Arc<dyn Provider> {
    let endpoint = Endpoint::new(&server.url, Api::Chat, Some("sk-test-key".to_string().into())).unwrap();
    Arc::new(Http::new(ModelName::parse("openai:gpt-4o").unwrap(), Api::Chat, endpoint).unwrap())
}

/// An agent whose tool answers with so many words.
async fn reader(mission: &str, page: usize) -> SubAgent {
    let yaml = format!("name: reader\nmission: '{mission}'\nsignature: '() -> :int'\nmax_turns: 12\n");
    let mut agent = agent(&yaml).await;
    let read =
        function("page", move |args| Ok(json!(format!("page {} ", args["n"]) + &"lorem ".repeat(page))));
    agent.add_tool(AgentTool::new(read, None, OutputForm::Text).unwrap()).unwrap();
    agent
}

/// A mission that prints so many pages, one a turn, and then returns.
fn pages(count: usize) -> Vec<String> {
    let page = |n| format!("(def page{n} (tool/page {{:n {n}}})) (println page{n})");
    (1..=count).map(page).chain(["(return 7)".to_string()]).collect()
}

/// The steps that are decisions of the record.
fn decided(record: &Record) -> Vec<&'static str> {
    let step = |slot: &Slot| match slot {
        Slot::Decision(decision, _) => match decision.as_ref() {
            Decision::Cut { by, .. } if by == "overflow" => Some("cut"),
            Decision::Clear { .. } => Some("clear"),
            Decision::Truncate { .. } => Some("truncate"),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    record.slots().iter().filter_map(step).collect()
}

/// Everything that must hold of a mission that was too large and ended well.
async fn check(
    case: &str,
    step: &Step,
    server: &Server,
    most: usize,
    journal: &Journal,
    store: &dyn Store,
    steps: &[&str],
) {
    assert_eq!(ended(step), "done 7", "{case}, {steps:?}");
    let conversation = journal.conversation().unwrap();
    let record = store.record(&Tenant::default(), conversation, None).await.unwrap();
    let told: Vec<&str> = steps.iter().map(|step| step.trim_end_matches("_task")).collect();
    assert_eq!(decided(&record), told, "{case}");
    assert!(!told.is_empty(), "{case}: nothing was too large");
    let (mut in_a_row, mut refused) = (0, 0);
    for seen in server.seen() {
        in_a_row = if words(&seen.body) > most { in_a_row + 1 } else { 0 };
        refused += usize::from(in_a_row > 0);
        assert!(in_a_row <= STEPS, "{case}: {steps:?}");
        assert!(seen.body.contains("Read the pages"), "{case}: the mission is never lost");
    }
    let rows = store.sent(&Tenant::default(), conversation).await.unwrap();
    let kept: Vec<&str> = rows
        .iter()
        .map(|row| std::str::from_utf8(row.request.as_deref().unwrap_or_default()).unwrap())
        .collect();
    let seen = server.seen();
    assert!(
        kept.iter().copied().eq(seen.iter().map(|seen| seen.body.as_str())),
        "{case}: every attempt has its row"
    );
    assert_eq!(
        rows.iter().filter(|row| row.status.as_str() == "context_overflow").count(),
        refused,
        "{case}"
    );
    // What is written down about the calls is what was sent in the end, and the record is enough to make it again.
    let recorded = RecordedMission::of(&record).unwrap();
    for (call, hash) in step.sent.calls.iter().zip(&recorded.sent) {
        assert_eq!(&call.hash, hash, "{case}");
        assert_eq!(step.sent.again(call, &step.turns).1, SentCheck::Same, "{case}");
    }
}

/// Runs a mission against a provider that takes so many words.
async fn run(
    strategy: &str,
    agent: &SubAgent,
    most: usize,
    programs: Vec<String>,
    host: Host,
) -> Vec<&'static str> {
    let server = Refusing { most, programs, breaks_at: None }.start().await;
    let steps: Arc<Mutex<Vec<&str>>> = Arc::default();
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let host = Host { store: Some((Arc::clone(&store), Tenant::default())), ..host };
    let kept = Arc::clone(&steps);
    host.bus.subscribe::<ContextTightened>(move |told| {
        assert!(told.event.after < told.event.before, "{:?}", told.event);
        kept.lock().unwrap().push(told.event.step);
        Ok(())
    });
    let host = Arc::new(host);
    let settings = InheritedSettings { compression: Some(parse(strategy).unwrap()), ..with(model(&server)) };
    let mut journal = Journal::begin(Arc::clone(&store), Tenant::default(), Time(1));
    let step = agent.run(&BTreeMap::new(), &settings, &host, &mut journal).await.unwrap();
    let steps = steps.lock().unwrap().clone();
    check(strategy, &step, &server, most, &journal, &*store, &steps).await;
    steps
}

const STRATEGIES: [&str; 3] = ["off", "on", "rolling_window(keep=2, slack=1)"];

/// Everything that is sent before the first turn.
async fn opening_body(agent: &SubAgent) -> String {
    let (host, bodies) = plain_host();
    let host = Arc::new(host);
    crate::support::run(agent, &with(crate::support::programs(&["(return 7)"])), &host).await;
    bodies.lock().unwrap()[0].to_string()
}

/// Its words, which are what the provider of these tests counts.
async fn opening(agent: &SubAgent) -> usize {
    words(&opening_body(agent).await)
}

/// Its tokens, which are what we count.
async fn opening_tokens(agent: &SubAgent) -> u64 {
    let model = ModelName::parse("openai:gpt-4o").unwrap();
    let entry = Entry::text(Role::User, &opening_body(agent).await);
    entry_tokens(Counter::for_model(Some(&model)).tokenizer, &entry) as u64
}

#[tokio::test]
async fn many_printed_pages_are_cut_by_turns_and_the_mission_ends_well() {
    for strategy in STRATEGIES {
        let agent = reader("Read the pages.", 900).await;
        let most = opening(&agent).await + 2600;
        let steps = run(strategy, &agent, most, pages(8), plain_host().0).await;
        assert!(steps.contains(&"cut"), "{strategy}: {steps:?}");
    }
}

#[tokio::test]
async fn one_page_that_is_larger_than_the_window_is_shortened() {
    // One text that is printed has at most 2,000 graphemes; a turn may print many.
    let agent = reader("Read the pages.", 900).await;
    let most = opening(&agent).await + 1500;
    let page = format!("(def page (tool/page {{:n 1}})) {}", "(println page) ".repeat(15));
    let programs = vec![page, "(return 7)".to_string()];
    let steps = run("on", &agent, most, programs, plain_host().0).await;
    assert!(steps.contains(&"truncate"), "{steps:?}");
}

#[tokio::test]
async fn a_mission_that_is_larger_than_the_window_is_shortened() {
    let small = opening(&reader("Read the pages.", 10).await).await;
    for strategy in STRATEGIES {
        let mission = format!("Read the pages. {} Then return 7.", "dolor ".repeat(20_000));
        let agent = reader(&mission, 10).await;
        let steps = run(strategy, &agent, small + 2000, pages(2), plain_host().0).await;
        assert_eq!(steps, ["truncate_task"], "{strategy}");
    }
}

#[tokio::test]
async fn our_own_finding_takes_the_same_steps_before_anybody_is_asked() {
    let agent = reader("Read the pages.", 1200).await;
    let window = opening_tokens(&agent).await + 2000;
    for strategy in STRATEGIES {
        let settings = ModelSettings { context_window: Some(window), ..ModelSettings::default() };
        let catalog = Catalog::new([("openai:gpt-4o".to_string(), settings)].into(), BTreeMap::default());
        let host = Host { catalog: Arc::new(catalog), ..plain_host().0 };
        let steps = run(strategy, &agent, usize::MAX, pages(8), host).await;
        assert!(!steps.is_empty(), "{strategy}");
    }
}

#[tokio::test]
async fn a_mission_that_was_interrupted_after_a_step_goes_on_as_it_was() {
    for strategy in STRATEGIES {
        let agent = reader("Read the pages.", 900).await;
        let most = opening(&agent).await + 1300;
        let server = Refusing { most, programs: pages(8), breaks_at: Some(6) }.start().await;
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let host = Arc::new(Host { store: Some((Arc::clone(&store), Tenant::default())), ..plain_host().0 });
        let settings =
            InheritedSettings { compression: Some(parse(strategy).unwrap()), ..with(model(&server)) };
        let mut journal = Journal::begin(Arc::clone(&store), Tenant::default(), Time(1));
        let broken = agent.run(&BTreeMap::new(), &settings, &host, &mut journal).await.unwrap();
        assert!(
            broken.outcome.as_ref().is_err_and(|fail| fail.reason == EndReason::LlmError),
            "{strategy}: {}",
            ended(&broken)
        );
        assert!(!decided(journal.record()).is_empty(), "{strategy}");
        let step = agent.resume(None, &settings, &host, &mut journal).await.unwrap();
        assert_eq!(ended(&step), "done 7", "{strategy}");
        for (number, call) in step.sent.calls.iter().enumerate() {
            assert_eq!(step.sent.again(call, &step.turns).1, SentCheck::Same, "{strategy}, call {number}");
        }
    }
}
