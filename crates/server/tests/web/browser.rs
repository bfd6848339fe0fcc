//! The lens in a headless Chromium, by `tests/browser/lens.py`. Pictures of every page are left under `target/`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use scrollback_agent::config::ServerSettings;
use scrollback_core::{Entry, Role, Time};
use scrollback_server::runs::{AnswerRefused, PersonAnswer, Runs};
use scrollback_server::{App, KeyScope, bind, keys, serve};
use scrollback_store::{
    ConversationId, Event, Expected, Memory, NewConversation, NewEntry, Recipient, RecordsExt, Run,
    RunStatus, Sent, Step, StepStatus, StepType, Store, Tenant, new_evaluation,
};
use serde_json::{Value, json};

use crate::support::{Server, catalog, redactor, required};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A server on a port of this machine.
pub(crate) async fn start(store: Arc<dyn Store>) -> (App, String) {
    let listening = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listening.address);
    let app = App::new(store, ServerSettings::default(), catalog(), redactor(), listening.address);
    tokio::spawn(serve(app.clone(), listening, scrollback_agent::StopSignal::default()));
    (app, base)
}

/// Takes answers by writing that the run goes on.
struct Going(Arc<dyn Store>);

impl Runs for Going {
    fn answer(
        &self,
        answer: PersonAnswer,
        _: scrollback_flow::driver::StatusWatcher,
    ) -> scrollback_store::BoxFuture<'_, Result<scrollback_store::RunStatus, AnswerRefused>> {
        Box::pin(async move {
            let (tenant, store) = (answer.tenant, &self.0);
            let run = store.runs(&tenant, &answer.run, 1).await.unwrap().remove(0);
            let mut steps = store.steps(&tenant, &run.id).await.unwrap();
            let asked = steps.iter_mut().find(|step| step.status == StepStatus::Paused);
            let Some(step) = asked else { return Err(AnswerRefused::NotWaiting("it does not wait".into())) };
            step.status = StepStatus::Done;
            step.output = Some(json!(answer.text).to_string());
            step.ended_at = Some(Time(9_000));
            let lease = scrollback_store::Lease { holder: "test".into(), until: Time(32_503_680_000_000) };
            let run = Run { status: RunStatus::Running, lease: Some(lease), ..run };
            let step = step.clone();
            store.write(&tenant, Time(9_000), |tx| _ = tx.run(run).step(step)).await.unwrap();
            Ok(RunStatus::Running)
        })
    }
}

pub(crate) fn hostile() -> Vec<String> {
    std::fs::read_to_string(root().join("tests/browser/hostile.txt"))
        .unwrap()
        .lines()
        .map(String::from)
        .collect()
}

/// A conversation in which everything that can be a text is hostile; its id and the id of its call.
async fn hostile_talk(store: &dyn Store) -> (ConversationId, String) {
    let (tenant, payloads) = (Tenant::default(), hostile());
    let id = ConversationId::new(Time(5_000));
    let mut entries = vec![Entry::text(Role::System, &payloads[0])];
    for (number, payload) in payloads.iter().enumerate() {
        let call = format!("{payload}{number}");
        entries.push(Entry::text(Role::User, payload));
        let arguments = json!({ payload: payload }).to_string();
        entries.push(Entry::calling(Some(payload), &[(call.as_str(), payload.as_str(), arguments.as_str())]));
        entries.push(Entry::result(&call, &format!("{payload}\n{}", payload.repeat(40))));
    }
    let body = json!({ "model": payloads[2], payloads[3].clone(): payloads[4], "messages": payloads.iter().map(|text| json!({ "role": "user", "content": text })).collect::<Vec<_>>() });
    let call = Sent {
        id: new_evaluation().to_string(),
        conversation: id.clone(),
        run: Some(payloads[5].clone()),
        step: Some(payloads[6].clone()),
        evaluation: None,
        upto: 40,
        managers: "\"sliding_window(6)\"".into(),
        wire: "openai-chat".into(),
        model: payloads[7].clone(),
        epoch: None,
        prefix_hash: None,
        request: Some(body.to_string().into_bytes()),
        response: Some(payloads.join("\n").into_bytes()),
        status: scrollback_store::CallStatus::Failed(payloads[8].clone().into()),
        attempt: 2,
        usage: None,
        started_at: Time(5_000),
        ended_at: Some(Time(6_000)),
        tokens: None,
        factor: None,
        holder: None,
    };
    let mut earlier = call.clone();
    earlier.id = new_evaluation().to_string();
    earlier.started_at = Time(4_000);
    earlier.request = Some(
        json!({ "model": payloads[9], "messages": [{ "role": "user", "content": payloads[10] }] })
            .to_string()
            .into_bytes(),
    );
    let name = call.id.clone();
    let said = NewEntry::evaluation(entries, Time(5_000));
    let written = store.write(&tenant, Time(5_000), |tx| {
        tx.create(NewConversation { title: Some(payloads[11].clone()), ..NewConversation::new(id.clone()) });
        tx.append(&id, Expected::At(0), said).sent(earlier).sent(call);
        // A recipient has no control characters; anything else it may have.
        let ann = Recipient::parse("ann").unwrap();
        let asked = [Entry::text(Role::User, "when do you open?"), Entry::text(Role::Assistant, "At nine.")];
        tx.append_for(&ann, Expected::Any, NewEntry::evaluation(asked, Time(5_000)));
        let recipient = Recipient::parse("\"><img src=x onerror=window.hit=1>{{7*7}}").unwrap();
        tx.append_for(
            &recipient,
            Expected::Any,
            NewEntry::evaluation([Entry::text(Role::User, "hello")], Time(5_000)),
        );
    });
    written.await.unwrap();
    (id, name)
}

fn step(run: &str, key: &str, status: &str, began: i64, ended: Option<i64>) -> Step {
    Step {
        run: run.into(),
        key: key.into(),
        kind: if key.contains("ask") { StepType::Hitl } else { StepType::Step },
        status: status.parse().unwrap(),
        attempt: 1,
        input: Some(json!("Which date would you like to travel on?").to_string()),
        output: None,
        evaluation: None,
        usage: Some(json!({ "input_tokens": 900, "total_tokens": 1_012 }).to_string()),
        started_at: Some(Time(began)),
        ended_at: ended.map(Time),
        error: None,
    }
}

/// A call that a step of a run made.
fn prompt(conversation: &ConversationId, run: &str, step: &str, body: &Value) -> Sent {
    Sent {
        id: new_evaluation().to_string(),
        conversation: conversation.clone(),
        run: Some(run.into()),
        step: Some(step.into()),
        evaluation: None,
        upto: 0,
        managers: "[]".into(),
        wire: "openai-chat".into(),
        model: "offline:echo".into(),
        epoch: None,
        prefix_hash: None,
        request: Some(body.to_string().into_bytes()),
        response: None,
        status: "ok".into(),
        attempt: 1,
        usage: None,
        started_at: Time(5_000),
        ended_at: Some(Time(6_000)),
        tokens: None,
        factor: None,
        holder: None,
    }
}

/// A run that waits, one that failed, and one whose every text is hostile.
async fn runs(store: &dyn Store) {
    let (tenant, payloads) = (Tenant::default(), hostile());
    let run = |id: &str, name: &str, status: &str| Run {
        id: id.into(),
        tenant: Tenant::default(),
        kind: scrollback_store::RunKind::Flow,
        name: name.into(),
        hash: "00".into(),
        text: "name: trip\nsteps:\n  - name: chat\n    kind: loop\n".into(),
        settings: None,
        status: status.parse().unwrap(),
        conversation: None,
        input: Some("A week in Lisbon".into()),
        output: None,
        error: None,
        usage: Some(json!({ "total_tokens": 4_210, "cost_usd": 0.0123 }).to_string()),
        lease: None,
        started_at: Time(1_000),
        ended_at: (status == "failed").then_some(Time(4_000)),
    };
    let event = |run: &str, sequence: u32, key: Option<&str>, kind: &str, data: Value| Event {
        run: run.into(),
        sequence: sequence.into(),
        at: Time(1_000 + i64::from(sequence)),
        key: key.map(Into::into),
        kind: kind.into(),
        data: Some(data.to_string()),
    };
    let mut retried = step("trip-failed", "draft", "failed", 1_000, Some(4_000));
    retried.attempt = 3;
    retried.error =
        Some(json!({ "code": "provider_error", "message": "the provider is overloaded" }).to_string());
    let mut nasty = step("hostile", &payloads[12], "failed", 1_000, Some(2_000));
    (nasty.error, nasty.output) = (
        Some(payloads[14].clone()),
        Some(json!({ payloads[15].clone(): [payloads[13], payloads[16]] }).to_string()),
    );
    let record = ConversationId::new(Time(1_000));
    let asked = json!({ "messages": [{ "role": "system", "content": "Plan trips." }, { "role": "user", "content": "A week in Lisbon" }, { "role": "assistant", "content": "When?" }, { "role": "user", "content": "In May" }] });
    let nasty_asked = json!({ "messages": payloads.iter().map(|text| json!({ "role": "user", "content": text })).collect::<Vec<_>>() });
    let calls = [
        prompt(&record, "trip-paused", "chat[2]/clarify", &asked),
        prompt(&record, "hostile", &payloads[12], &nasty_asked),
    ];
    let mut bad = run("hostile", &payloads[17], "failed");
    (bad.input, bad.output, bad.error, bad.text) = (
        Some(payloads.join("\n")),
        Some(payloads[19].clone()),
        Some(payloads[20].clone()),
        payloads.join("\n"),
    );
    let written = store.write(&tenant, Time(1_000), |tx| {
        let [first, second] = calls;
        tx.create(NewConversation::new(record.clone())).sent(first).sent(second);
        let with_record = |run: Run| Run { conversation: Some(record.clone()), ..run };
        tx.run(with_record(run("trip-paused", "trip", "paused")))
            .run(run("trip-failed", "newsletter", "failed"))
            .run(with_record(bad));
        tx.step(step("trip-paused", "greet", "done", 1_000, Some(1_700))).step(step(
            "trip-paused",
            "chat",
            "running",
            1_700,
            None,
        ));
        tx.step(step("trip-paused", "chat[1]/clarify", "done", 1_700, Some(3_100)));
        tx.step(step("trip-paused", "chat[1]/ask", "done", 3_100, Some(5_000)));
        tx.step(step("trip-paused", "chat[2]/clarify", "done", 5_000, Some(6_400)));
        tx.step(step("trip-paused", "chat[2]/ask", "paused", 6_400, None)).step(retried).step(nasty);
        tx.event(event("trip-paused", 0, None, "run.started", json!({})));
        tx.event(event(
            "trip-paused",
            1,
            Some("chat[2]/clarify"),
            "agent.prompt",
            json!({ "conversation_injected": true }),
        ));
        tx.event(event(
            "hostile",
            0,
            Some(&payloads[21]),
            &payloads[22],
            json!({ payloads[23].clone(): payloads[24] }),
        ));
    });
    written.await.unwrap();
}

/// The servers and their pages; where they are is written for the script.
async fn facts() -> Value {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (app, base) = start(Arc::clone(&store)).await;
    app.continue_runs_with(Arc::new(Going(Arc::clone(&store))));
    let asking = Server::on(Arc::clone(&store), ServerSettings::default());
    let sample = asking.form("/lens/sample", &[]).await.location().to_string();
    let calls =
        asking.get(&format!("/api/conversations/{}/calls", sample.rsplit('/').next().unwrap())).await.json();
    let call = calls["calls"][5]["id"].as_str().unwrap().to_string();
    let (nasty, nasty_call) = hostile_talk(store.as_ref()).await;
    runs(store.as_ref()).await;
    let broken = crate::cost::broken_session(store.as_ref()).await;
    let imported = crate::cost::imported(&asking).await;
    let axe = axe();
    let huge = asking.talk(json!([{ "role": "user", "content": "<b>5 MB</b> ".repeat(5_000_000 / 12) }, { "role": "assistant", "content": "That is long." }])).await;
    let long: Vec<Value> = (0..10_000).map(|number| json!({ "role": (["user", "assistant"][number % 2]), "content": format!("message {number}") })).collect();
    let long = asking.talk(json!(long)).await;
    let live = asking.talk(crate::support::exchange()).await;
    let (_, empty) = start(Arc::new(Memory::new())).await;
    let locked: Arc<dyn Store> = Arc::new(Memory::new());
    let (kept, key) = keys::new("reader", &Tenant::default(), KeyScope::Read, Time(0)).unwrap();
    locked.put_key(kept).await.unwrap();
    let (_, keyed) = start(locked).await;
    let id = sample.rsplit('/').next().unwrap();
    json!({
        "axe": axe, "base": base, "empty": empty, "keyed": keyed, "key": key, "live": live,
        "pages": {
            "list": "/lens", "conversation": format!("{sample}?call=14"), "call": format!("/lens/calls/{call}"),
            "tried": format!("{sample}?m=tool_result_truncator(200)"),
            "runs": "/lens/runs", "run": "/lens/runs/trip-paused", "run_failed": "/lens/runs/trip-failed",
            "search": "/lens/search?q=wheel", "import": "/lens/import", "matched": "/lens/search?q=%2Fwhee%5Bl%5D%2F",
            "entry": format!("{sample}/entries/2"), "body": format!("/lens/calls/{call}/request?find=wheel"),
            "simulate": format!("/lens/simulate?conversation={id}&m=passthrough&m=sliding_window(12)&m=sticky(token_budget(4200),low=2400)&model=openai:gpt-4o"),
            "cache": format!("/lens/sessions/{broken}/cache"), "broken": format!("/lens/conversations/{broken}"),
            "session": format!("/lens/conversations/{imported}"), "session_cache": format!("/lens/sessions/{imported}/cache"),
            "people": "/lens/people", "person": "/lens/people/ann", "keys": "/lens/keys", "health": "/lens/health",
            "hostile_person": format!("/lens/people/{}", crate::support::coded("\"><img src=x onerror=window.hit=1>{{7*7}}")),
            "nothing": "/lens/search?q=nothingofthekind", "live": format!("/lens/conversations/{live}"),
            "long": format!("/lens/conversations/{long}"), "huge": format!("/lens/conversations/{huge}"), "huge_entry": format!("/lens/conversations/{huge}/entries/0"),
            "hostile": format!("/lens/conversations/{nasty}?at=0"), "hostile_end": format!("/lens/conversations/{nasty}"), "hostile_call": format!("/lens/calls/{nasty_call}"), "hostile_run": "/lens/runs/hostile",
            "hostile_search": "/lens/search?q=%22%3E%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E+window",
        },
    })
}

/// axe-core, where it is installed.
fn axe() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let script = target.join("browser/node_modules/axe-core/axe.min.js");
    required::file(&script, "axe-core", "whether everyone can use the pages of the lens")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_works_in_a_browser_and_hostile_texts_do_nothing() {
    if required::program(&["chromium", "chromium-browser"], "the lens in a browser").is_none() {
        return;
    }
    let facts = facts().await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lens");
    std::fs::create_dir_all(&folder).unwrap();
    let written = folder.join("facts.json");
    std::fs::write(&written, facts.to_string()).unwrap();
    let script = root().join("tests/browser/lens.py");
    let run = tokio::task::spawn_blocking(move || {
        Command::new("python3").arg(script).arg(written).arg(folder.join("pictures")).output().unwrap()
    });
    let output = run.await.unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
