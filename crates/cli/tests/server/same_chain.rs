//! The runner and the proxy are one path: the same history gives the same chain, the same cuts, the same counts and the same
//! bytes, and either goes on with what the other began.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use scrollback_agent::BoxFuture;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{
    Api, Catalog, Endpoint, Http, ModelInfo, ModelSettings, Provider, ProviderError, ReplyDelivery,
    ReplyStream, Request, Scripted,
};
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::{Toolbox, tool};
use scrollback_core::model::ModelName;
use scrollback_core::redact::{Options, Redactor};
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Entry, Link, Record, Role, Slot, Time, json, manager, prefixes};
use scrollback_flow::driver::{Engine, RunStart, RunStatus};
use scrollback_flow::{Flow, Prompts, ReadOptions};
use scrollback_store::{CallListing, ConversationId, Listing, Memory, Sent, Store, Tenant};
use serde_json::{Value, json as value};

use crate::client::chat;
use crate::process::{Server, Setup};
use crate::support::folder;
use crate::upstream::{Received, Says, Upstream, completion};

/// A model, how it is asked, and the small window that it is said to have.
#[derive(Clone, Copy, Debug)]
struct Asked {
    model: &'static str,
    api: Api,
    path: &'static str,
}

const CHAT: Asked = Asked { model: "openai:gpt-4o", api: Api::Chat, path: "/v1/chat/completions" };
const MESSAGES: Asked =
    Asked { model: "anthropic:claude-sonnet-4-5", api: Api::Messages, path: "/v1/messages" };
const WINDOW: u64 = 8_000;

/// One thing a user asks: the calls of each round with the results they get, and the last word.
#[derive(Clone, Debug)]
struct Turn {
    system: String,
    user: String,
    rounds: Vec<Vec<(String, String)>>,
    answer: String,
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A history: turns with and without tools, results from a word to a tenth of the window, other instructions half way.
fn history(seed: u64) -> Vec<Turn> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut number = 0;
    (0..8)
        .map(|turn| {
            let mut calls = |random: &mut Random| {
                (0..=random.below(3))
                    .map(|_| {
                        number += 1;
                        let size = [1, 40, 200, 500][random.below(4) as usize];
                        (format!("call_{number}"), format!("result {number} ") + &"alpha beta ".repeat(size))
                    })
                    .collect()
            };
            Turn {
                system: if turn < 4 {
                    "Be brief. It is Monday.".into()
                } else {
                    "Be brief. It is Tuesday.".into()
                },
                user: format!("question {turn} ") + &"why ".repeat(random.below(60) as usize),
                rounds: (0..random.below(4)).map(|_| calls(&mut random)).collect(),
                answer: format!("answer {turn}"),
            }
        })
        .collect()
}

/// What the model says, call by call.
fn replies(asked: Asked, history: &[Turn]) -> Vec<Value> {
    let mut all = Vec::new();
    for turn in history {
        for round in &turn.rounds {
            let calls: Vec<Value> = round
                .iter()
                .map(|(id, _)| match asked.api {
                    Api::Messages => value!({ "type": "tool_use", "id": id, "name": "look", "input": { "at": id } }),
                    _ => value!({ "id": id, "type": "function", "function": { "name": "look", "arguments": format!("{{\"at\":\"{id}\"}}") } }),
                })
                .collect();
            all.push(match asked.api {
                Api::Messages => value!({ "content": calls, "stop_reason": "tool_use" }),
                _ => value!({ "message": { "role": "assistant", "content": null, "tool_calls": calls }, "finish_reason": "tool_calls" }),
            });
        }
        all.push(match asked.api {
            Api::Messages => {
                value!({ "content": [{ "type": "text", "text": turn.answer }], "stop_reason": "end_turn" })
            }
            _ => value!({ "message": { "role": "assistant", "content": turn.answer }, "finish_reason": "stop" }),
        });
    }
    all
}

/// A provider that says these one after the other, and reports a token for every four bytes.
fn provider(asked: Asked, history: &[Turn]) -> Upstream {
    let replies = replies(asked, history);
    Upstream::start(move |number, received| {
        let mut reply = replies[number].clone();
        let size = received.body.len() / 4;
        let body = if asked.api == Api::Messages {
            let more = value!({ "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "stop_sequence": null, "usage": { "input_tokens": size, "output_tokens": 5 } });
            reply.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            reply
        } else {
            reply["index"] = value!(0);
            value!({ "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 1, "model": "gpt-4o",
                "choices": [reply], "usage": { "prompt_tokens": size, "completion_tokens": 5, "total_tokens": size + 5 } })
        };
        Says::Json(200, body.to_string())
    })
}

fn runner(asked: Asked, upstream: SocketAddr, managers: &str, window: u64, history: &[Turn]) -> Runner {
    let base = match asked.api {
        Api::Messages => format!("http://{upstream}"),
        _ => format!("http://{upstream}/v1"),
    };
    let endpoint = Endpoint::new(&base, asked.api, Some("sk-test".to_string().into())).unwrap();
    let http = Http::new(ModelName::parse(asked.model).unwrap(), asked.api, endpoint).unwrap();
    let mut runner = Runner::new(Arc::new(http));
    runner.delivery = ReplyDelivery::Whole;
    runner.manager = manager::parse(managers).unwrap();
    let settings = ModelSettings { context_window: Some(window), ..ModelSettings::default() };
    runner.catalog =
        Arc::new(Catalog::new([(asked.model.to_string(), settings)].into(), BTreeMap::default()));
    let results: BTreeMap<String, String> =
        history.iter().flat_map(|turn| turn.rounds.iter().flatten().cloned()).collect();
    let schema =
        value!({ "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"] });
    let look = tool("look", "Looks something up", schema, move |wanted: Value| {
        let result = results[wanted["at"].as_str().unwrap()].clone();
        async move { Ok(value!(result)) }
    });
    runner.tools.add(Arc::new(look)).unwrap();
    runner
}

async fn run(runner: &Runner, journal: &mut Journal, turns: &[Turn]) {
    for turn in turns {
        let prompt = Prompt {
            name: "same".into(),
            system: Some(turn.system.clone()),
            user: turn.user.clone(),
            ..Prompt::default()
        };
        let done = runner.run(journal, &prompt).await;
        assert!(
            matches!(&done.ended, EvaluationEnd::Replied { text, .. } if *text == turn.answer),
            "{:?}",
            done.ended
        );
    }
}

/// What can be compared of a conversation and of what was sent for it.
#[derive(Debug, PartialEq)]
struct Told {
    chain: Vec<Link>,
    head: Link,
    decisions: Vec<String>,
    tokens: Vec<Option<String>>,
    /// Instructions and messages, as bytes.
    said: Vec<String>,
    roles: Vec<String>,
}

fn said(received: &[Received]) -> Vec<String> {
    received
        .iter()
        .map(|received| {
            let body = json::check_bytes(&received.body).unwrap();
            let part =
                |key: &str| body.get(key).map(|raw| json::one_line(raw).into_owned()).unwrap_or_default();
            format!("{} {}", part("system"), part("messages"))
        })
        .collect()
}

async fn told(store: &dyn Store, conversation: &ConversationId, received: &[Received]) -> Told {
    let tenant = Tenant::default();
    let record: Record = store.record(&tenant, conversation, None).await.unwrap();
    let (mut entries, mut decisions): (Vec<Entry>, Vec<String>) = Default::default();
    for slot in record.slots() {
        match slot {
            Slot::Message(entry) => entries.push(Entry::clone(entry)),
            Slot::Decision(decision, _) => decisions.push(serde_json::to_string(decision.as_ref()).unwrap()),
            Slot::Erased(_) => panic!("nothing was erased"),
        }
    }
    let rows = store.sent(&tenant, conversation).await.unwrap();
    for (row, received) in rows.iter().zip(received) {
        let kept = String::from_utf8_lossy(row.request.as_deref().unwrap_or_default()).into_owned();
        assert_eq!(kept, String::from_utf8_lossy(&received.body), "the row has the bytes that were sent");
    }
    Told {
        chain: prefixes(&entries),
        head: store.conversation(&tenant, conversation).await.unwrap().head_prefix,
        decisions,
        tokens: rows.into_iter().map(|row| row.tokens).collect(),
        said: said(received),
        roles: entries.iter().map(|entry| entry.role.as_str().to_string()).collect(),
    }
}

/// For each reply in a record: its position, and the position before which the request for it was cut.
type CutsByCall = Vec<(u64, Option<u64>)>;

fn cuts_by_call(record: &Record) -> CutsByCall {
    let mut newest = None;
    let mut calls = Vec::new();
    for (position, slot) in (0..).zip(record.slots()) {
        match slot {
            Slot::Decision(decision, _) => {
                if let Decision::Cut { before, .. } = decision.as_ref() {
                    newest = Some(*before);
                }
            }
            Slot::Message(entry) if entry.role == Role::Assistant => calls.push((position, newest)),
            _ => {}
        }
    }
    calls
}

/// The same as `/api/simulate` predicts it.
fn simulated_cuts(simulation: &Value) -> CutsByCall {
    let figures = &simulation["managers"][0];
    assert_eq!(figures["stopped"], Value::Null, "{figures}");
    let calls = figures["per_call"].as_array().unwrap();
    calls.iter().map(|call| (call["position"].as_u64().unwrap(), call["cut_before"].as_u64())).collect()
}

/// A store that a server writes to as well.
async fn open(url: &str) -> Arc<dyn Store> {
    scrollback_store::open(url, Time(1)).await.unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A server before a provider, with a configuration and a store.
fn server(name: &str, upstream: &Upstream, config: &str, store: Option<String>) -> Server {
    let variables = vec![
        ("OPENAI_BASE_URL", format!("http://{}/v1", upstream.address)),
        ("ANTHROPIC_BASE_URL", format!("http://{}", upstream.address)),
    ];
    Server::with(name, &Setup { config, variables, store })
}

fn same(asked: Asked, seed: u64, managers: &str) {
    let history = history(seed);
    let case = format!("{} {managers}, seed {seed}", asked.model);
    // What a client sends that keeps all of its own list: as an agent does that leaves nothing out.
    let upstream = provider(asked, &history);
    let all = runner(asked, upstream.address, "passthrough", 1_000_000, &history);
    block_on(run(&all, &mut Journal::memory(Record::new()), &history));
    let client = upstream.received();

    let upstream = provider(asked, &history);
    let cutting = runner(asked, upstream.address, managers, WINDOW, &history);
    let by_runner = block_on(async {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let mut journal = Journal::begin(Arc::clone(&store), Tenant::default(), Time(1));
        run(&cutting, &mut journal, &history).await;
        told(&*store, journal.conversation().unwrap(), &upstream.received()).await
    });

    let upstream = provider(asked, &history);
    let config = format!(
        "[server]\nmanagers = \"{managers}\"\n[models.\"{}\"]\ncontext_window = {WINDOW}\n",
        asked.model
    );
    let name = format!("same-{}-{seed}-{}", asked.model.replace(':', "-"), managers.len());
    let server = server(&name, &upstream, &config, None);
    let mut conversations = Vec::new();
    for request in &client {
        let answer = server.post(asked.path, std::str::from_utf8(&request.body).unwrap());
        assert_eq!(answer.status, 200, "{case}: {}", answer.text());
        conversations.push(answer.conversation());
    }
    conversations.dedup();
    assert_eq!(conversations.len(), 1, "{case}: one conversation, no fork");
    let (by_proxy, recorded_cuts) = block_on(async {
        let store = open(&format!("sqlite:{}", server.folder.join("record.db").display())).await;
        let id = ConversationId::parse(&conversations[0]).unwrap();
        let record = store.record(&Tenant::default(), &id, None).await.unwrap();
        (told(&*store, &id, &upstream.received()).await, cuts_by_call(&record))
    });
    let wish = value!({ "conversation": conversations[0], "managers": [managers] });
    let json = [("content-type", "application/json")];
    let answer = server.call("POST", "/api/simulate", &json, &wish.to_string());
    assert_eq!(answer.status, 200, "{case}: {}", answer.text());
    assert_eq!(
        simulated_cuts(&answer.json()),
        recorded_cuts,
        "{case}: the simulation cuts where the proxy did"
    );

    assert_eq!(by_runner.roles, by_proxy.roles, "{case}");
    assert_eq!(by_runner.chain, by_proxy.chain, "{case}");
    assert_eq!(by_runner.head, by_proxy.head, "{case}");
    assert_eq!(by_runner.decisions, by_proxy.decisions, "{case}");
    assert_eq!(by_runner.tokens, by_proxy.tokens, "{case}");
    for (call, (runner, proxy)) in by_runner.said.iter().zip(&by_proxy.said).enumerate() {
        assert_eq!(runner, proxy, "{case}, call {call}");
    }
    assert_eq!(by_runner.said.len(), by_proxy.said.len(), "{case}");
    // There was something to compare.
    let cuts = by_runner.decisions.iter().filter(|decision| decision.contains("\"cut\"")).count();
    let leads = by_runner.decisions.iter().filter(|decision| decision.contains("\"lead\"")).count();
    assert!(cuts > 0 && leads > 0, "{case}: {:?}", by_runner.decisions);
    println!("{case}: {} calls, {cuts} cuts, {leads} other instructions", client.len());
}

#[test]
fn runner_and_proxy_make_the_same_of_the_same_chat_history() {
    for seed in 1..=4 {
        same(CHAT, seed, "fit");
        same(CHAT, seed, "sticky(token_budget(4500))");
    }
}

#[test]
fn runner_and_proxy_make_the_same_of_the_same_messages_history() {
    for seed in 1..=4 {
        same(MESSAGES, seed, "fit");
        same(MESSAGES, seed, "sticky(token_budget(4500))");
    }
}

/// How many conversations a store has.
async fn conversations(store: &dyn Store) -> usize {
    store
        .list(Some(&Tenant::default()), Listing { limit: 100, ..Listing::default() })
        .await
        .unwrap()
        .conversations
        .len()
}

#[test]
fn the_proxy_goes_on_with_what_the_runner_began_and_the_runner_with_what_the_proxy_began() {
    for (name, runner_first) in [("handed-on-runner", true), ("handed-on-proxy", false)] {
        let folder = folder(&format!("{name}-store"));
        let url = format!("sqlite:{}", folder.join("shared.db").display());
        let asked = Arc::new(Mutex::new(0));
        let upstream = Upstream::start(move |_, _| {
            let mut number = asked.lock().unwrap();
            *number += 1;
            completion(&format!("answer {number}"))
        });
        let long = "lorem ipsum dolor sit amet ".repeat(40);
        let mut list = vec![value!({ "role": "system", "content": "Be brief." })];
        let (mut known, mut bodies): (Option<String>, usize) = (None, 0);
        for turn in 1..=12 {
            list.push(value!({ "role": "user", "content": format!("question {turn} {long}") }));
            if (turn % 2 == 1) == runner_first {
                let user = list.last().unwrap()["content"].as_str().unwrap().to_string();
                let turn = Turn {
                    system: "Be brief.".into(),
                    user,
                    rounds: Vec::new(),
                    answer: format!("answer {turn}"),
                };
                let mut runner = runner(CHAT, upstream.address, "fit", 2_000, &[]);
                runner.tools = Toolbox::default();
                let conversation = block_on(async {
                    let store = open(&url).await;
                    let mut journal = match &known {
                        Some(id) => {
                            let id = ConversationId::parse(id).unwrap();
                            Journal::open(store, Tenant::default(), id).await.unwrap()
                        }
                        None => Journal::begin(store, Tenant::default(), Time(1)),
                    };
                    run(&runner, &mut journal, &[turn]).await;
                    journal.conversation().unwrap().to_string()
                });
                assert_eq!(*known.get_or_insert_with(|| conversation.clone()), conversation);
            } else {
                let config = "[models.\"openai:gpt-4o\"]\ncontext_window = 2000\n";
                let server = server(name, &upstream, config, Some(url.clone()));
                // The runner is another caller: what it said is continued by its id.
                let named = known.as_deref().map(|id| ("x-scrollback-conversation", id));
                let body = chat("gpt-4o", &Value::from(list.clone()));
                let answer = server.call("POST", CHAT.path, named.as_slice(), &body);
                assert_eq!(answer.status, 200, "{}", answer.text());
                let conversation = answer.conversation();
                assert_eq!(
                    *known.get_or_insert_with(|| conversation.clone()),
                    conversation,
                    "{name}, turn {turn}"
                );
            }
            list.push(value!({ "role": "assistant", "content": format!("answer {turn}") }));
            bodies += 1;
            assert_eq!(upstream.received().len(), bodies);
        }
        let (told, count) = block_on(async {
            let store = open(&url).await;
            let id = ConversationId::parse(known.as_deref().unwrap()).unwrap();
            (told(&*store, &id, &upstream.received()).await, conversations(&*store).await)
        });
        assert_eq!(count, 1, "{name}: no fork");
        assert_eq!(told.roles.len(), list.len(), "{name}");
        let cuts: Vec<&String> =
            told.decisions.iter().filter(|decision| decision.contains("\"cut\"")).collect();
        assert!(!cuts.is_empty(), "{name}: {:?}", told.decisions);
        // What either cut stays cut for the other: a list is the one before with more behind it, but where a cut was made.
        let received = upstream.received();
        let lists: Vec<Vec<Value>> =
            received.iter().map(|received| received.json()["messages"].as_array().unwrap().clone()).collect();
        let breaks = lists.windows(2).filter(|pair| !pair[1].starts_with(&pair[0])).count();
        assert_eq!(breaks, cuts.len(), "{name}: {:?}", told.decisions);
    }
}

/// A provider that keeps what it is asked and answers with a long text.
struct Listening {
    model: ModelName,
    heard: Arc<Mutex<Vec<String>>>,
    store: Arc<dyn Store>,
    /// Whether the store had a row about each request, with its bytes, when the request came.
    announced: Arc<Mutex<Vec<bool>>>,
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.model.fmt(f)
    }
}

impl Provider for Listening {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: self.model.clone(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        let mut heard = self.heard.lock().unwrap();
        heard.push(request.body.to_string());
        let text = format!("thought {} ", heard.len()) + &"gamma delta ".repeat(150);
        let script = Script::parse(&value!([{ "reply": text }]).to_string()).unwrap();
        let scripted = Scripted::new(self.model.clone(), Arc::new(script));
        Box::pin(async move {
            let announced = calls(&*self.store).await.last().is_some_and(|call| {
                call.status == scrollback_store::CallStatus::Sent
                    && call.request.as_deref() == Some(request.body.as_bytes())
            });
            self.announced.lock().unwrap().push(announced);
            scripted.call(request).await
        })
    }
}

const THINKING: &str = r#"
version: "1"
agents:
  think: { model: "openai:gpt-4o", system_prompt: Think on., max_output_tokens: 500 }
steps:
  - kind: loop
    name: thoughts
    loop:
      conversation: true
      max_loops: 14
      body:
        - { name: think }
"#;

/// Every call that a store knows, oldest first, with its bytes.
async fn calls(store: &dyn Store) -> Vec<Sent> {
    let what = CallListing { conversation: None, limit: 100, after: None };
    let mut all = Vec::new();
    for call in store.calls(&Tenant::default(), what).await.unwrap().calls.iter().rev() {
        all.push(store.call(&Tenant::default(), &call.id).await.unwrap());
    }
    all
}

/// What the agent of a flow was sent, and what the store knew and knows about it.
struct Flowed {
    heard: Vec<String>,
    announced: Vec<bool>,
    kept: Vec<Option<Vec<u8>>>,
}

/// Runs a flow whose model has such a window.
fn flow(window: u64) -> Flowed {
    let settings = ModelSettings { context_window: Some(window), ..ModelSettings::default() };
    let catalog = Catalog::new([("openai:gpt-4o".to_string(), settings)].into(), BTreeMap::default());
    let redactor = Arc::new(Redactor::new(&Options::default()).unwrap());
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut engine = Engine::new(Arc::clone(&store), Tenant::default(), Arc::new(catalog), redactor);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let announced: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (log, rows, own) = (Arc::clone(&heard), Arc::clone(&announced), Arc::clone(&store));
    engine.providers = Arc::new(move |name: &str, _: &std::path::Path| {
        Ok(Arc::new(Listening {
            model: ModelName::parse(name).unwrap(),
            heard: Arc::clone(&log),
            store: Arc::clone(&own),
            announced: Arc::clone(&rows),
        }) as Arc<dyn Provider>)
    });
    let (folder, settings) = (std::path::PathBuf::from("."), scrollback_flow::FlowSettings::default());
    let source = ReadOptions {
        stem: "same",
        folder: &folder,
        prompts: Prompts::Disk,
        settings: &settings,
        catalog: &engine.catalog,
        environment: &engine.environment,
    };
    let read = Flow::read(THINKING, &source).unwrap_or_else(|problems| panic!("{problems}"));
    let start = RunStart {
        flow: Arc::new(read.flow),
        text: THINKING.into(),
        stem: "same".into(),
        folder: folder.clone(),
        settings: settings.clone(),
        warnings: Vec::new(),
        input: Some("What is time?".into()),
        recipient: None,
        id: None,
        created: None,
    };
    let kept = block_on(async {
        let report = engine.start(start).await.unwrap_or_else(|refused| panic!("{refused}"));
        assert_eq!(report.status, RunStatus::Done, "{report:?}");
        calls(&*store).await.into_iter().map(|call| call.request).collect()
    });
    let (heard, announced) = (heard.lock().unwrap().clone(), announced.lock().unwrap().clone());
    Flowed { heard, announced, kept }
}

#[test]
fn a_flow_sends_what_the_proxy_would_send_of_the_same_sheet() {
    const SMALL: u64 = 3_000;
    let (whole, cut) = (flow(1_000_000).heard, flow(SMALL).heard);
    assert_eq!((whole.len(), cut.len()), (14, 14));
    let upstream = Upstream::saying(completion("ok"));
    let config = format!("[models.\"openai:gpt-4o\"]\ncontext_window = {SMALL}\n");
    let server = server("same-flow", &upstream, &config, None);
    let mut shorter = 0;
    for (number, (whole, cut)) in whole.iter().zip(&cut).enumerate() {
        // A flow makes a new sheet for every call: so each is a conversation of its own here.
        let name = format!("sheet-{number}");
        let headers =
            [("x-scrollback-conversation", name.as_str()), ("x-scrollback-managers", "fit(reserve=500)")];
        let whole = whole.replacen("\"stream\":true,\"stream_options\":{\"include_usage\":true},", "", 1);
        let answer = server.call("POST", CHAT.path, &headers, &whole);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = upstream.received().pop().unwrap();
        let by_flow = Received { body: cut.clone().into_bytes(), ..sent.clone() };
        assert_eq!(said(&[by_flow]), said(&[sent]), "call {number}");
        shorter += usize::from(cut.matches("\"role\"").count() < whole.matches("\"role\"").count());
    }
    assert!(shorter > 3, "only {shorter} requests did not fit the window");
}

#[test]
fn a_flow_keeps_the_bytes_of_every_request() {
    let Flowed { heard, kept, .. } = flow(3_000);
    let heard: Vec<Option<Vec<u8>>> = heard.into_iter().map(|body| Some(body.into_bytes())).collect();
    assert!(kept == heard);
}

#[test]
fn a_flow_writes_down_what_it_sends_before_it_asks() {
    let Flowed { announced, .. } = flow(3_000);
    assert_eq!(announced, vec![true; announced.len()]);
}
