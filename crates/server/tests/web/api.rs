//! Every operation of the document: each status is provoked, and each answer fits its schema.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use scrollback_agent::config::ServerSettings;
use scrollback_core::Time;
use scrollback_server::runs::{AnswerRefused, PersonAnswer, Runs};
use scrollback_server::{KeyScope, api};
use scrollback_store::{
    Event, Memory, NewConversation, RecordsExt, Run, RunStatus, Sent, Span, Step, StepStatus, Tenant, Tx,
    new_evaluation,
};
use serde_json::{Value, json};

use crate::support::{Answer, Server, exchange};

/// The document, and which of its answers were seen.
pub(crate) struct Contract {
    document: Value,
    seen: BTreeSet<(String, String, u16)>,
}

impl Contract {
    pub(crate) fn new() -> Self {
        Contract { document: api::document(), seen: BTreeSet::new() }
    }

    pub(crate) fn operations(&self) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().unwrap();
        let of = |(path, verbs): (&String, &Value)| {
            verbs.as_object().unwrap().keys().map(|verb| (path.clone(), verb.clone())).collect::<Vec<_>>()
        };
        paths.iter().flat_map(of).collect()
    }

    pub(crate) fn operation(&self, path: &str, verb: &str) -> &Value {
        &self.document["paths"][path][verb]
    }

    pub(crate) fn schema(&self, name: &str) -> &Value {
        &self.document["components"]["schemas"][name]
    }

    /// Fails unless the document says that this operation may answer so.
    pub(crate) fn check(&mut self, path: &str, verb: &str, answer: &Answer) {
        let status = answer.status.as_u16();
        let at = format!("{verb} {path} answered {status}");
        let response = &self.operation(path, verb)["responses"][status.to_string()];
        assert!(!response.is_null(), "{at}, which the document does not know: {}", answer.text);
        let response = match response["$ref"].as_str() {
            Some(_) => &self.document["components"]["responses"]["problem"],
            None => response,
        };
        let content = response["content"].as_object().unwrap();
        let kind = answer.kind().split(';').next().unwrap();
        let schema = content.get(kind).unwrap_or_else(|| panic!("{at} with content-type {kind:?}"));
        if kind.ends_with("json") && !kind.contains("ndjson") {
            let mut schema = schema["schema"].clone();
            schema["components"] = self.document["components"].clone();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let value = answer.json();
            let wrong: Vec<String> = validator
                .iter_errors(&value)
                .map(|error| format!("{} at {}", error, error.instance_path))
                .collect();
            assert!(wrong.is_empty(), "{at}: {wrong:?} in {value}");
        }
        if status >= 400 {
            let problem = answer.json();
            assert!(problem["type"].as_str().unwrap().starts_with("urn:scrollback:problem:"), "{at}");
            assert_eq!(problem["status"], status, "{at}");
        }
        self.seen.insert((path.into(), verb.into(), status));
    }
}

/// Continues runs, or refuses, by what the answer says.
struct Scripted;

impl Runs for Scripted {
    fn answer(
        &self,
        answer: PersonAnswer,
        _: scrollback_flow::driver::StatusWatcher,
    ) -> scrollback_store::BoxFuture<'_, Result<scrollback_store::RunStatus, AnswerRefused>> {
        let said = match answer.text.as_str() {
            "yes" => Ok(RunStatus::Running),
            "busy" => Err(AnswerRefused::Busy("another process is working on it".into())),
            "old" => Err(AnswerRefused::Unreadable("the stored flow cannot be read".into())),
            "late" => Err(AnswerRefused::NotWaiting("it does not wait".into())),
            _ => Err(AnswerRefused::DoesNotFit("a date is wanted".into())),
        };
        Box::pin(async move { said })
    }
}

fn run(tenant: &Tenant) -> (Run, Step, Span, Event) {
    let run = Run {
        id: "run00000000000001".into(),
        tenant: tenant.clone(),
        kind: scrollback_store::RunKind::Flow,
        name: "trip".into(),
        hash: "00".into(),
        text: "steps: []".into(),
        settings: None,
        status: RunStatus::Paused,
        conversation: None,
        input: Some("Paris".into()),
        output: None,
        error: None,
        usage: Some("{\"total_tokens\":12}".into()),
        lease: None,
        started_at: Time(1_000),
        ended_at: None,
    };
    let step = Step {
        run: run.id.clone(),
        key: "chat[1]/ask".into(),
        kind: scrollback_store::StepType::Hitl,
        status: StepStatus::Paused,
        attempt: 1,
        input: Some("\"Which date?\"".into()),
        output: None,
        evaluation: None,
        usage: None,
        started_at: Some(Time(1_000)),
        ended_at: None,
        error: None,
    };
    let span = Span {
        id: "s1".into(),
        run: run.id.clone(),
        parent: None,
        name: "invoke_workflow".into(),
        key: None,
        status: None,
        started_at: Time(1_000),
        ended_at: None,
        attributes: Some("{}".into()),
    };
    let event = Event {
        run: run.id.clone(),
        sequence: 0,
        at: Time(1_000),
        key: None,
        kind: "run.started".into(),
        data: None,
    };
    (run, step, span, event)
}

/// A store with one of everything; the id of the conversation and of its call.
pub(crate) async fn filled(server: &Server, tenant: &Tenant) -> (String, String) {
    let id = server.talk(exchange()).await;
    let conversation = scrollback_store::ConversationId::parse(&id).unwrap();
    let call = Sent {
        id: new_evaluation().to_string(),
        conversation,
        run: None,
        step: None,
        evaluation: Some(new_evaluation()),
        upto: 6,
        managers: "\"passthrough\"".into(),
        wire: "openai-chat".into(),
        model: "openai:gpt-4o".into(),
        epoch: None,
        prefix_hash: Some(vec![1; 32]),
        request: Some(b"{\"model\":\"gpt-4o\",\"messages\":[]}".to_vec()),
        response: None,
        status: "done".into(),
        attempt: 1,
        usage: Some(
            "{\"input\":10,\"output\":2,\"cache_read\":0,\"cache_write\":0,\"estimated\":false}".into(),
        ),
        started_at: Time(2_000),
        ended_at: Some(Time(2_500)),
        tokens: None,
        factor: None,
        holder: None,
    };
    let name = call.id.clone();
    let (run, step, span, event) = run(tenant);
    let written = server.app.store.write(tenant, Time(3_000), |tx| {
        tx.sent(call).run(run).step(step).span(span).event(event);
    });
    written.await.unwrap();
    (id, name)
}

pub(crate) fn concrete(path: &str, id: &str) -> String {
    path.replace("{id}", id).replace("{recipient}", id)
}

/// A query or body that the operation takes.
fn valid(path: &str, verb: &str, id: &str) -> (String, Option<Value>) {
    let none = String::new;
    match (verb, path) {
        ("post", "/api/conversations") => (none(), Some(json!({ "title": "A talk" }))),
        ("post", "/api/conversations/{id}/entries") => {
            (none(), Some(json!({ "messages": [{ "role": "user", "content": "hello" }] })))
        }
        ("post", "/api/conversations/{id}/fork") => (none(), Some(json!({ "at": 2 }))),
        ("post", "/api/conversations/{id}/erase") => {
            (none(), Some(json!({ "positions": [6, 6], "reason": "asked" })))
        }
        ("post", "/api/conversations/{id}/status" | "/api/recipients/{recipient}/status") => {
            (none(), Some(json!({ "status": "closed" })))
        }
        ("post", "/api/conversations/{id}/views") => (
            none(),
            Some(
                json!({ "managers": ["tool_result_truncator(4)", { "turn_window": 1 }], "model": "openai:gpt-4o" }),
            ),
        ),
        ("post", "/api/conversations/{id}/decisions") => {
            (none(), Some(json!({ "decision": "pin", "positions": [1] })))
        }
        ("post", "/api/runs/{id}/answer") => (none(), Some(json!({ "text": "yes" }))),
        ("post", "/api/simulate") => {
            (none(), Some(json!({ "conversation": id, "managers": ["passthrough", "turn_window(1)"] })))
        }
        ("post", "/api/recipients/{recipient}/erase") => (none(), Some(json!({ "all": true }))),
        ("get", "/api/recipients") => ("?due=1h".into(), None),
        ("get", "/api/search") => ("?q=paris".into(), None),
        ("get", "/api/export") => (format!("?conversation={id}"), None),
        _ => (none(), None),
    }
}

async fn ask(server: &Server, path: &str, verb: &str, query: &str, body: Option<&Value>) -> Answer {
    let method = if verb == "get" { Method::GET } else { Method::POST };
    let address = format!("{path}{query}");
    match body {
        Some(body) => server.ask(method, &address, Some("application/json"), body.to_string()).await,
        None => server.ask(method, &address, None, Body::from("[]")).await,
    }
}

#[tokio::test]
async fn every_operation_and_status_of_the_document_is_as_it_says() {
    let mut contract = Contract::new();
    let server = Server::new();
    server.app.continue_runs_with(Arc::new(Scripted));
    let tenant = Tenant::default();
    let (id, call) = filled(&server, &tenant).await;
    server.post("/api/conversations", json!({ "recipient": "mara" })).await;
    let named = |path: &str| match path {
        _ if path.starts_with("/api/calls/") => call.clone(),
        _ if path.starts_with("/api/runs/") => "run00000000000001".to_string(),
        _ if path.starts_with("/api/recipients/") => "mara".to_string(),
        _ => id.clone(),
    };
    // What is well, and what is not found.
    for (path, verb) in contract.operations() {
        let (query, body) = valid(&path, &verb, &id);
        let answer = ask(&server, &concrete(&path, &named(&path)), &verb, &query, body.as_ref()).await;
        assert!(answer.status.is_success(), "{verb} {path}: {}", answer.text);
        contract.check(&path, &verb, &answer);
        if path.contains('{') {
            for unknown in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "..%2f", "%00"] {
                let answer = ask(&server, &concrete(&path, unknown), &verb, &query, body.as_ref()).await;
                assert_eq!(
                    answer.status,
                    StatusCode::NOT_FOUND,
                    "{verb} {path} of {unknown}: {}",
                    answer.text
                );
                contract.check(&path, &verb, &answer);
            }
        }
        // A name the operation does not know is never ignored.
        let wrong = body.as_ref().map(|_| json!({ "nonsense": 1 }));
        let query = if wrong.is_some() { "" } else { "?nonsense=1" };
        let answer = ask(&server, &concrete(&path, &named(&path)), &verb, query, wrong.as_ref()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{verb} {path}: {}", answer.text);
        contract.check(&path, &verb, &answer);
        if body.is_some() {
            let plain =
                server.ask(Method::POST, &concrete(&path, &named(&path)), Some("text/plain"), "{}").await;
            contract.check(&path, &verb, &plain);
            assert_eq!(plain.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
    }
    refusals(&mut contract, &server, &id).await;
    for (path, verb) in contract.operations() {
        strangers(&mut contract, &path, &verb, &id).await;
    }
    let documented = contract.document["paths"].as_object().unwrap().iter().flat_map(|(path, verbs)| {
        verbs.as_object().unwrap().iter().flat_map(move |(verb, operation)| {
            operation["responses"]
                .as_object()
                .unwrap()
                .keys()
                .map(move |status| (path.clone(), verb.clone(), status.parse().unwrap()))
        })
    });
    // A store that fails is tried in `a_store_that_fails_is_told_as_such`, a model in `summaries_are_written_by_a_model_that_is_named`.
    let here = |status: u16| !matches!(status, 429 | 502 | 503);
    let missing: Vec<_> = documented.filter(|one| here(one.2) && !contract.seen.contains(one)).collect();
    assert!(missing.is_empty(), "documented and never seen: {missing:?}");
}

/// What single operations refuse.
async fn refusals(contract: &mut Contract, server: &Server, id: &str) {
    let mut refused = Vec::new();
    let made = json!({ "recipient": "anna" });
    refused.push(("/api/conversations", "post", String::new(), Some(made.clone()), 201));
    refused.push(("/api/conversations", "post", String::new(), Some(made), 409));
    let late = json!({ "messages": [{ "role": "user", "content": "x" }], "expect": 0 });
    refused.push(("/api/conversations/{id}/entries", "post", String::new(), Some(late), 409));
    let tight = json!({ "managers": { "token_budget": 1 } });
    refused.push(("/api/conversations/{id}/views", "post", String::new(), Some(tight), 422));
    for (text, status) in [("busy", 409), ("late", 409), ("old", 409), ("Mars", 422)] {
        refused.push(("/api/runs/{id}/answer", "post", String::new(), Some(json!({ "text": text })), status));
    }
    refused.push(("/api/export", "get", "?conversation=01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), None, 404));
    let nowhere = json!({ "conversation": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "managers": ["passthrough"] });
    refused.push(("/api/simulate", "post", String::new(), Some(nowhere), 404));
    let long: Vec<Value> = (0..5_001).map(|_| json!({ "role": "user", "content": "x" })).collect();
    refused.push((
        "/api/simulate",
        "post",
        String::new(),
        Some(json!({ "messages": long, "managers": ["passthrough"] })),
        422,
    ));
    for (path, verb, query, body, status) in refused {
        let id = if path.starts_with("/api/runs") { "run00000000000001" } else { id };
        let answer = ask(server, &concrete(path, id), verb, &query, body.as_ref()).await;
        assert_eq!(answer.status.as_u16(), status, "{verb} {path}: {}", answer.text);
        contract.check(path, verb, &answer);
    }
    let nobody = Server::new();
    filled(&nobody, &Tenant::default()).await;
    let answer = nobody.post("/api/runs/run00000000000001/answer", json!({ "text": "yes" })).await;
    assert_eq!(answer.status, StatusCode::NOT_IMPLEMENTED);
    contract.check("/api/runs/{id}/answer", "post", &answer);
    let many = Server::new();
    let mut begun = Tx::new(&Tenant::default(), Time(0));
    for number in 0..1_001 {
        begun.create(NewConversation::new(scrollback_store::ConversationId::from_parts(
            Time(number),
            number as u128,
        )));
    }
    many.app.store.commit(begun).await.unwrap();
    let answer = many.get("/api/export?all=true").await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    contract.check("/api/export", "get", &answer);
}

/// Callers who are not known, or may not, and bodies that are too large.
async fn strangers(contract: &mut Contract, path: &str, verb: &str, id: &str) {
    let keyed = Server::new().with_key("default", KeyScope::Proxy).await;
    let (query, body) = valid(path, verb, id);
    let path_of = concrete(path, id);
    let unknown = ask(&keyed.without_key(), &path_of, verb, &query, body.as_ref()).await;
    assert_eq!(unknown.status, StatusCode::UNAUTHORIZED, "{verb} {path}");
    contract.check(path, verb, &unknown);
    let proxy = ask(&keyed, &path_of, verb, &query, body.as_ref()).await;
    assert_eq!(proxy.status, StatusCode::FORBIDDEN, "{verb} {path}");
    contract.check(path, verb, &proxy);
    if contract.operation(path, verb)["requestBody"].is_null() {
        return;
    }
    let mut settings = ServerSettings::default();
    settings.limits.body_bytes = 16;
    let small = Server::on(Arc::new(Memory::new()), settings);
    let large = small
        .ask(Method::POST, &path_of, Some("application/json"), format!("{{\"x\":\"{}\"}}", "y".repeat(64)))
        .await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE, "{verb} {path}: {}", large.text);
    contract.check(path, verb, &large);
    let request =
        |body: Body| Request::post(&path_of).header(header::HOST, crate::support::ADDRESS).body(body);
    let mut packed = request(Body::from("{}")).unwrap();
    packed.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("compress"));
    let packed = small.send(packed).await;
    assert_eq!(packed.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{verb} {path}: {}", packed.text);
    contract.check(path, verb, &packed);
    let mut settings = ServerSettings::default();
    settings.limits.body_grace = Duration::from_millis(1);
    let hasty = Server::on(Arc::new(Memory::new()), settings);
    let slow = hasty.send(request(Body::new(Never)).unwrap()).await;
    assert_eq!(slow.status, StatusCode::REQUEST_TIMEOUT, "{verb} {path}: {}", slow.text);
    contract.check(path, verb, &slow);
}

/// A body that never comes.
struct Never;

impl http_body::Body for Never {
    type Data = axum::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn a_read_key_reads_and_changes_nothing() {
    let admin = Server::new().with_key("default", KeyScope::Admin).await;
    let id = admin.talk(exchange()).await;
    let reader = admin.with_key("default", KeyScope::Read).await;
    assert_eq!(reader.get(&format!("/api/conversations/{id}")).await.status, StatusCode::OK);
    let view = reader.post(&format!("/api/conversations/{id}/views"), json!({})).await;
    assert_eq!(view.status, StatusCode::OK, "a view changes nothing");
    for (path, body) in [
        ("entries", json!({ "messages": [] })),
        ("erase", json!({ "all": true })),
        ("fork", json!({ "at": 1 })),
    ] {
        let answer = reader.post(&format!("/api/conversations/{id}/{path}"), body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn nothing_of_one_tenant_is_seen_by_another() {
    let ours = Server::new().with_key("ours", KeyScope::Admin).await;
    let (id, call) = filled(&ours, &Tenant::parse("ours").unwrap()).await;
    let theirs = ours.with_key("theirs", KeyScope::Admin).await;
    let contract = Contract::new();
    for (path, verb) in contract.operations() {
        let (query, body) = valid(&path, &verb, &id);
        let name = if path.starts_with("/api/calls") { &call } else { &id };
        let run = "run00000000000001".to_string();
        let name = if path.starts_with("/api/runs") { &run } else { name };
        let answer = ask(&theirs, &concrete(&path, name), &verb, &query, body.as_ref()).await;
        let told = format!("{verb} {path}: {}", answer.text);
        if path.contains('{') || path == "/api/export" || path == "/api/simulate" {
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{told}");
        } else {
            assert!(
                !answer.text.contains(&id) && !answer.text.contains(&call) && !answer.text.contains("Paris"),
                "{told}"
            );
        }
    }
    let found = theirs.get("/api/search?q=paris").await.json();
    assert_eq!(found["hits"], json!([]));
    // What was asked, and the call that looked it up.
    assert_eq!(ours.get("/api/search?q=paris").await.json()["hits"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_view_is_what_a_call_would_be_sent_and_says_why_the_rest_is_not() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let view = server
        .post(&format!("/api/conversations/{id}/views"), json!({ "managers": "turn_window(1)" }))
        .await
        .json();
    assert_eq!(
        view["body"]["messages"],
        json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "And tomorrow?" },
            { "role": "assistant", "content": "I do not know." }
        ])
    );
    assert_eq!(view["counts"], json!({ "original": 7, "curated": 3 }));
    let dropped: Vec<(u64, &str)> = view["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["index"].as_u64().unwrap(), one["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(dropped, [(1, "older_turn"), (2, "older_turn"), (3, "older_turn"), (4, "older_turn")]);
    let other = server
        .post(&format!("/api/conversations/{id}/views"), json!({ "wire": "anthropic", "upto": 5 }))
        .await
        .json();
    assert_eq!(other["body"]["system"], "Be brief.");
    assert_eq!(other["wire"], "anthropic");
    let pinned = server
        .post(
            &format!("/api/conversations/{id}/decisions"),
            json!({ "decision": "pin", "positions": [2, 3] }),
        )
        .await;
    assert_eq!(pinned.json()["position"], 7);
    let view = server
        .post(&format!("/api/conversations/{id}/views"), json!({ "managers": "turn_window(1)" }))
        .await
        .json();
    assert_eq!(view["counts"]["curated"], 5, "what was pinned stays");
    let unknown = server
        .post(&format!("/api/conversations/{id}/views"), json!({ "managers": "slidin_window(3)" }))
        .await;
    assert_eq!(unknown.json()["type"], "urn:scrollback:problem:unknown_manager");
    assert!(unknown.json()["known"].as_array().unwrap().contains(&json!("sliding_window")));
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repeat() {
    let server = Server::new();
    for number in 0..7 {
        server.talk(json!([{ "role": "user", "content": format!("talk {number}") }])).await;
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/conversations?limit=3{after}")).await.json();
        seen.extend(page["conversations"].as_array().unwrap().iter().map(|one| one["id"].clone()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
    let id = seen[0].as_str().unwrap();
    let many: Vec<Value> = (0..20).map(|_| json!({ "role": "user", "content": "more" })).collect();
    server.post(&format!("/api/conversations/{id}/entries"), json!({ "messages": many })).await;
    let (mut positions, mut from) = (Vec::new(), 0);
    loop {
        let page = server.get(&format!("/api/conversations/{id}/entries?from={from}&limit=8")).await.json();
        positions
            .extend(page["entries"].as_array().unwrap().iter().map(|one| one["position"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(positions, (0..21).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_export_is_imported_again_as_it_was_and_only_once() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let export = server.get(&format!("/api/export?conversation={id}")).await.text;
    let other = Server::new();
    let first = other.ask(Method::POST, "/api/import?name=a", None, export.clone()).await.json();
    assert_eq!((&first["added"], &first["skipped"], &first["failed"]), (&json!(7), &json!(0), &json!([])));
    let again = other.ask(Method::POST, "/api/import?name=a", None, export.clone()).await.json();
    assert_eq!((&again["added"], &again["skipped"]), (&json!(0), &json!(7)));
    assert_eq!(other.get(&format!("/api/export?conversation={id}")).await.text, export);
    let dry = Server::new();
    let told = dry.ask(Method::POST, "/api/import?dry_run=true", None, export).await.json();
    assert_eq!(told["added"], 7);
    assert_eq!(dry.get("/api/conversations").await.json()["conversations"], json!([]));
    let body = server.get(&format!("/api/export?conversation={id}&format=anthropic")).await.text;
    let taken = dry.ask(Method::POST, "/api/import", None, body).await.json();
    assert_eq!(taken["conversations"], 1, "{taken}");
    let broken = dry.ask(Method::POST, "/api/import", None, "neither this nor that").await.json();
    assert_eq!(broken["failed"][0]["line"], 0);
}

#[tokio::test]
async fn what_is_written_is_told_to_those_who_listen() {
    use axum::http::{Request, header};
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let request = Request::builder()
        .uri(format!("/api/events?conversation={id}"))
        .header(header::HOST, crate::support::ADDRESS);
    let response = scrollback_server::router(server.app.clone())
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first.as_ref(), b"event: Listening\ndata: {\"event\":\"Listening\"}\n\n");
    server
        .post(
            &format!("/api/conversations/{id}/entries"),
            json!({ "messages": [{ "role": "user", "content": "a secret" }] }),
        )
        .await;
    let told = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let told = String::from_utf8(told.to_vec()).unwrap();
    assert!(told.starts_with("event: ConversationRecorded\ndata: {"), "{told}");
    assert!(told.contains(&format!("\"conversation\":\"{id}\"")), "{told}");
    assert!(told.contains("\"position\":7,\"role\":\"user\""), "{told}");
    assert!(!told.contains("a secret"), "events never hold the text");
    // What another process writes to the same store is found by looking.
    let other = Server::on(Arc::clone(&server.app.store), ServerSettings::default());
    other
        .post(
            &format!("/api/conversations/{id}/entries"),
            json!({ "messages": [{ "role": "user", "content": "more" }] }),
        )
        .await;
    let told = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&told).contains("\"position\":8"), "{told:?}");
}

#[tokio::test]
async fn a_run_that_another_process_ends_is_told() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let (server, tenant) = (Server::new(), Tenant::default());
    filled(&server, &tenant).await;
    let request = Request::get("/api/events").header(header::HOST, crate::support::ADDRESS);
    let response =
        scrollback_server::router(server.app.clone()).oneshot(request.body(Body::empty()).unwrap());
    let mut body = response.await.unwrap().into_body();
    let mut next = async || {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        String::from_utf8(frame.to_vec()).unwrap()
    };
    assert!(next().await.starts_with("event: Listening\n"));
    let run = server.app.store.runs(&tenant, "run00000000000001", 1).await.unwrap().remove(0);
    let ended = Run { status: RunStatus::Done, ..run };
    server.app.store.write(&tenant, Time(9), |tx| _ = tx.run(ended)).await.unwrap();
    let told = next().await;
    assert!(
        told.starts_with("event: RunChanged\n")
            && told.contains("\"run\":\"run00000000000001\",\"status\":\"done\""),
        "{told}"
    );
}

#[tokio::test]
async fn a_run_whose_process_is_gone_is_interrupted_on_every_page() {
    let server = Server::new();
    let tenant = Tenant::default();
    let (run, ..) = run(&tenant);
    let gone = Run { status: RunStatus::Running, lease: None, ..run };
    server.app.store.write(&tenant, Time(0), |tx| _ = tx.run(gone)).await.unwrap();
    let shown = server.get("/api/runs/run00000000000001").await.json();
    assert_eq!(shown["status"], "interrupted");
    for (status, found) in [("interrupted", 1), ("running", 0), ("paused", 0)] {
        let listed = server.get(&format!("/api/runs?status={status}")).await.json();
        assert_eq!(listed["runs"].as_array().unwrap().len(), found, "{status}");
        let page = server.get(&format!("/lens/runs?status={status}")).await;
        assert_eq!(page.text.contains("run00000000000001"), found == 1, "{status}");
    }
}

#[tokio::test]
async fn a_store_that_fails_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = scrollback_store::open(&format!("sqlite:{}", path.display()), Time(0)).await.unwrap();
    let server = Server::on(store, ServerSettings::default());
    let (id, call) = filled(&server, &Tenant::default()).await;
    server.app.continue_runs_with(Arc::new(Scripted));
    let mut contract = Contract::new();
    let damage = rusqlite::Connection::open(&path).unwrap();
    damage.execute_batch("pragma foreign_keys = off; drop table entries_fts; drop table sent; drop table runs; drop table conversations; drop table aliases;").unwrap();
    for (path, verb) in contract.operations() {
        // Neither reads a conversation.
        if path == "/api/events" || path == "/api/server" {
            continue;
        }
        let (query, body) = valid(&path, &verb, &id);
        let name = if path.starts_with("/api/calls") { &call } else { &id };
        let answer = match path.as_str() {
            "/api/import" => server.ask(Method::POST, "/api/import", None, exchange().to_string()).await,
            _ => ask(&server, &concrete(&path, name), &verb, &query, body.as_ref()).await,
        };
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{verb} {path}: {}", answer.text);
        contract.check(&path, &verb, &answer);
    }
}

#[tokio::test]
async fn the_document_is_served_and_names_every_operation_once() {
    let server = Server::new();
    let shown = server.get("/api/openapi.json").await;
    assert_eq!((shown.status, shown.kind()), (StatusCode::OK, "application/json"));
    assert_eq!(shown.json(), api::document());
    let contract = Contract::new();
    let operations = contract.operations();
    let name = |(path, verb): &(String, String)| {
        contract.operation(path, verb)["operationId"].as_str().unwrap().to_string()
    };
    let names: BTreeSet<String> = operations.iter().map(name).collect();
    assert_eq!(names.len(), operations.len());
    assert!(
        server.get("/api/nonsense").await.text.contains("openapi.json"),
        "a wrong place says where the right ones are"
    );
    let verb = server.ask(Method::DELETE, "/api/conversations", None, Body::empty()).await;
    assert_eq!(verb.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn the_page_about_the_api_lists_every_operation() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    let contract = Contract::new();
    let mut rows = 0;
    for (path, verb) in contract.operations() {
        let row = format!(
            "| `{} {path}` | {} |",
            verb.to_uppercase(),
            contract.operation(&path, &verb)["summary"].as_str().unwrap()
        );
        assert!(page.contains(&row), "docs/api.md lacks the row\n{row}");
        rows += 1;
    }
    assert_eq!(
        page.matches("| `GET /api").count() + page.matches("| `POST /api").count(),
        rows,
        "and no other"
    );
}

#[tokio::test]
async fn a_simulation_without_managers_compares_the_usual_field_and_says_which_to_take() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    let told =
        server.post("/api/simulate", json!({ "conversation": id, "budgets": [300, 2000] })).await.json();
    let names = |told: &Value| -> Vec<String> {
        let managers = told["managers"].as_array().unwrap();
        managers.iter().map(|one| one["manager"].as_str().unwrap().to_string()).collect()
    };
    let field = names(&told);
    assert_eq!(field[0], "passthrough");
    assert!(
        field.contains(&"auto(300)".into()) && field.contains(&"sticky(token_budget(2k))".into()),
        "{field:?}"
    );
    assert!(told["advice"].is_string() && told["frontier"].is_array(), "{told}");
    let wish =
        json!({ "conversation": id, "managers": ["auto(B)", { "turn_window": 1 }], "budgets": [300, 500] });
    let given = server.post("/api/simulate", wish).await.json();
    assert_eq!(names(&given), ["auto(300)", "auto(500)", "{\"turn_window\":1}"]);
}
