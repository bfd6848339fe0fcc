//! Turns are entries of the record, and the record is enough to make every request again and to go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_agent::journal::Journal;
use scrollback_agent::runner::CannotResumeKind;
use scrollback_agent::tool::Effects;
use scrollback_core::{Record, Role, Time};
use scrollback_store::{Store, Tenant, open};
use scrollback_subagent::compression::parse;
use scrollback_subagent::{
    AgentTool, EndReason, Host, InheritedSettings, LineKind, OutputForm, RecordedMission, SentCheck,
    SubAgent, Views, print_trace,
};
use serde_json::json;

use crate::support::{agent, ended, function, host, plain_host, programs, run, scripted, text, with};

const PROGRAMS: [&str; 6] = [
    "(def rows (tool/fetch {:page 1})) (def n (count rows))",
    "(defn twice \"Doubles; well\" [x] (* n x)) (def both (comp twice inc)) (def table {:f twice :g [1 2.5 #{:a}]}) (println \"ok\" (twice 2))",
    "(def n 10) (boom)",
    "(def both-of (both 3)) {:day (LocalDate/parse \"2024-01-15\") :k :v}",
    "(tool/fetch {:page 2})",
    "(return (+ n both-of (count (:g table))))",
];

async fn fetcher() -> SubAgent {
    let mut agent = agent("name: fetcher\nmission: 'Fetch {{what}}.'\nsignature: '(what :string) -> :int'\ndata: {what: rows, list: [1, {a: null}]}\nmax_turns: 9\n").await;
    let fetch = function("fetch", |args| match args["page"].as_u64() {
        Some(1) => Ok(json!([{ "id": 1 }, { "id": 2 }, { "id": 3 }])),
        page => Err(format!("no page {page:?}")),
    });
    agent.add_tool(AgentTool::new(fetch, None, OutputForm::Text).unwrap()).unwrap();
    agent
}

fn settings(spec: &str, model: Arc<dyn scrollback_agent::provider::Provider>) -> InheritedSettings {
    InheritedSettings { compression: Some(parse(spec).unwrap()), ..with(model) }
}

#[tokio::test]
async fn turns_are_rebuilt_from_the_record_exactly() {
    for spec in ["off", "on", "rolling_window(keep=1, slack=1)"] {
        let (host, _) = host();
        let mut journal = host.journal();
        let step = fetcher()
            .await
            .run(&BTreeMap::new(), &settings(spec, programs(&PROGRAMS)), &host, &mut journal)
            .await
            .unwrap();
        assert_eq!(ended(&step), "done 18");
        let roles: Vec<Role> = (0..journal.record().len() as u64)
            .filter_map(|at| Some(journal.record().entry(at)?.role))
            .collect();
        assert_eq!(roles.len(), 2 + 2 * 6, "instructions, mission, two entries a turn");
        let recorded = RecordedMission::of(journal.record()).unwrap();
        assert_eq!(recorded.turns.len(), step.turns.len());
        for (again, turn) in recorded.turns.iter().zip(&step.turns) {
            assert_eq!(again.to_json(), turn.to_json(), "{spec}");
        }
        assert_eq!((recorded.agent.as_str(), recorded.end.as_deref()), ("fetcher", Some("done")));
        assert_eq!(recorded.input.data, step.sent.input.data);
        for (call, hash) in step.sent.calls.iter().zip(&recorded.sent) {
            assert_eq!(&call.hash, hash, "{spec}: what was written down is what was sent");
            let turns = &recorded.turns[..call.turns];
            let memory = turns.last().map(|turn| turn.memory.clone()).unwrap_or_default();
            let rendered = recorded.compression.build().to_messages(turns, &memory, &recorded.input);
            assert_eq!(&rendered.hash(), hash, "{spec}: rendered from the record");
            assert_eq!(rendered.stats, call.stats, "{spec}");
        }
    }
}

#[tokio::test]
async fn the_record_keeps_what_was_said_and_no_summary() {
    let (host, bodies) = host();
    let mut journal = host.journal();
    let model = programs(&PROGRAMS);
    fetcher().await.run(&BTreeMap::new(), &settings("on", model), &host, &mut journal).await.unwrap();
    let record: &Record = journal.record();
    let said = |at: u64| record.entry(at).unwrap().content().unwrap();
    assert_eq!(said(2), format!("```clojure\n{}\n```", PROGRAMS[0]), "replies are kept as they came");
    assert_eq!(
        said(3),
        "Stored: n, rows\n\nTurns left: 8",
        "what came of them as the uncompressed form tells it"
    );
    let coalesced = text(&bodies, 1, 1);
    let all = (0..record.len() as u64).filter_map(|at| record.entry(at)?.content());
    assert!(all.into_iter().all(|content| content != coalesced), "a summary is a view, never an entry");
    let meta = record.entry(3).unwrap().meta.as_ref().unwrap().turn.clone().unwrap();
    assert!(
        meta["system"]["hash"].as_str().is_some_and(|hash| hash.len() == 64)
            && meta["system"]["version"] == "1"
    );
    assert!(!meta.to_string().contains("PTC-Lisp"), "the instructions are not stored with every turn");
}

fn stored_host(store: &Arc<dyn Store>) -> (Arc<Host>, crate::support::Bodies) {
    let (mut host, bodies) = plain_host();
    host.store = Some((Arc::clone(store), Tenant::default()));
    (Arc::new(host), bodies)
}

#[tokio::test]
async fn stopped_after_any_reply_it_goes_on_with_the_same_requests() {
    for spec in ["off", "on", "rolling_window(keep=1, slack=1)"] {
        let (host, whole) = host();
        run(&fetcher().await, &settings(spec, programs(&PROGRAMS)), &host).await;
        let whole = whole.lock().unwrap().clone();
        for replies in 0..PROGRAMS.len() {
            let store = open("sqlite::memory:", Time(0)).await.unwrap();
            let (host, _) = stored_host(&store);
            let mut journal = host.journal();
            // The script ends early, as if the process had.
            let model = programs(&PROGRAMS[..replies]);
            let step = fetcher()
                .await
                .run(&BTreeMap::new(), &settings(spec, model), &host, &mut journal)
                .await
                .unwrap();
            assert_eq!(step.end(), EndReason::LlmError);
            let run = store.runs(&Tenant::default(), "", 9).await.unwrap().remove(0);
            assert_eq!((run.kind.as_str(), run.status.as_str()), ("subagent", "failed"));
            let (host, bodies) = stored_host(&store);
            let id = run.conversation.clone().unwrap();
            let mut journal = Journal::open(Arc::clone(&store), Tenant::default(), id).await.unwrap();
            let rest = settings(spec, programs(&PROGRAMS[replies..]));
            let step = fetcher().await.resume(Some(run), &rest, &host, &mut journal).await.unwrap();
            assert_eq!(ended(&step), "done 18", "{spec}: resumed after {replies} replies");
            assert_eq!(
                *bodies.lock().unwrap(),
                whole[replies..],
                "{spec}: the same requests after {replies}"
            );
            assert_eq!(step.turns.len(), 6);
            let run = store.runs(&Tenant::default(), "", 9).await.unwrap().remove(0);
            assert_eq!((run.status.as_str(), run.output.as_deref()), ("done", Some("18")));
            let again = fetcher().await.resume(Some(run), &rest, &host, &mut journal).await.err().unwrap();
            assert_eq!(again.kind(), CannotResumeKind::NothingToResume);
        }
    }
}

#[tokio::test]
async fn a_program_that_was_cut_short_is_run_again_but_not_what_may_happen_once() {
    let store = open("sqlite::memory:", Time(0)).await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let mailer = |sent: &Arc<AtomicUsize>, stop: Option<scrollback_agent::StopSignal>| {
        let sent = Arc::clone(sent);
        async move {
            let mut agent = agent("name: mailer\nmission: Notify.\ncompression: on\n").await;
            let mail = scrollback_agent::tool::tool(
                "mail",
                "",
                json!({ "type": "object" }),
                move |_: serde_json::Value| {
                    sent.fetch_add(1, Ordering::SeqCst);
                    let stop = stop.clone();
                    async move {
                        if let Some(stop) = stop {
                            stop.stop();
                            std::future::pending::<()>().await;
                        }
                        Ok(json!(true))
                    }
                },
            );
            let mail = mail.with(|spec| spec.effects = Effects::Once);
            agent.add_tool(AgentTool::new(Arc::new(mail), None, OutputForm::Text).unwrap()).unwrap();
            agent
        }
    };
    let (host, _) = stored_host(&store);
    let mut journal = host.journal();
    let cut = mailer(&sent, Some(host.stop.clone())).await;
    let step = cut
        .run(&BTreeMap::new(), &with(programs(&["(tool/mail {:to \"a\"})"])), &host, &mut journal)
        .await
        .unwrap();
    assert_eq!((step.end(), step.turns.len()), (EndReason::Cancelled, 0), "cut short in the tool");
    let (host, bodies) = stored_host(&store);
    let run = store.runs(&Tenant::default(), "", 9).await.unwrap().remove(0);
    let mut journal =
        Journal::open(store, Tenant::default(), run.conversation.clone().unwrap()).await.unwrap();
    let step = mailer(&sent, None)
        .await
        .resume(Some(run), &with(programs(&["(return 1)"])), &host, &mut journal)
        .await
        .unwrap();
    assert_eq!(ended(&step), "done 1");
    assert_eq!(sent.load(Ordering::SeqCst), 1, "the mail was sent once");
    assert!(
        text(&bodies, 0, 1)
            .contains("mail({:to \"a\"}) => error: [interrupted: no result was recorded]  ; turn 1 failed")
    );
}

#[tokio::test]
async fn turns_of_agents_that_were_called_count_after_an_interruption_too() {
    let store = open("sqlite::memory:", Time(0)).await.unwrap();
    let helper = agent("name: helper\nmission: 'Say {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    let mut boss = agent("name: boss\nmission: Ask.\nturn_budget: 3\n").await;
    boss.add_tool(helper.as_tool("helper", None).unwrap()).unwrap();
    let (host, _) = stored_host(&store);
    let model = programs(&["(tool/helper {:n 1})", "(return data/n)"]);
    let step = boss.run(&BTreeMap::new(), &with(model), &host, &mut host.journal()).await.unwrap();
    assert_eq!((step.end(), step.turns.len(), step.children.len()), (EndReason::LlmError, 1, 1));
    let (host, bodies) = stored_host(&store);
    let run = store.runs(&Tenant::default(), "", 9).await.unwrap().remove(0);
    let id = run.conversation.clone().unwrap();
    let mut journal = Journal::open(Arc::clone(&store), Tenant::default(), id).await.unwrap();
    let step = boss.resume(Some(run), &with(programs(&["2", "3"])), &host, &mut journal).await.unwrap();
    assert_eq!(step.end(), EndReason::TurnBudgetExhausted, "{}", ended(&step));
    assert_eq!(bodies.lock().unwrap().len(), 1, "one of three turns was left");
}

#[tokio::test]
async fn another_agent_does_not_go_on_with_the_mission() {
    let store = open("sqlite::memory:", Time(0)).await.unwrap();
    let (host, _) = stored_host(&store);
    let mut journal = host.journal();
    fetcher().await.run(&BTreeMap::new(), &with(programs(&["1"])), &host, &mut journal).await.unwrap();
    let other = agent("mission: Something else.\n").await;
    let refused = other.resume(None, &with(programs(&["1"])), &host, &mut journal).await.err().unwrap();
    assert_eq!(refused.kind(), CannotResumeKind::PromptChanged);
    let refused =
        other.resume(None, &with(programs(&["1"])), &host, &mut host.journal()).await.err().unwrap();
    assert_eq!(refused.kind(), CannotResumeKind::NothingToResume);
}

#[tokio::test]
async fn a_second_mission_in_a_record_is_told_apart_from_the_first() {
    let (host, bodies) = host();
    let mut journal = host.journal();
    let first = agent("mission: One.\n").await;
    first
        .run(&BTreeMap::new(), &with(programs(&["(def x 1)", "(return x)"])), &host, &mut journal)
        .await
        .unwrap();
    let second = agent("mission: Two.\n").await;
    let cut =
        second.run(&BTreeMap::new(), &with(programs(&["(def y 2)"])), &host, &mut journal).await.unwrap();
    assert_eq!((cut.end(), cut.turns.len()), (EndReason::LlmError, 1));
    assert_eq!(
        bodies.lock().unwrap()[2]["messages"].as_array().unwrap().len(),
        2,
        "nothing of the first is sent"
    );
    let step = second.resume(None, &with(programs(&["(return y)"])), &host, &mut journal).await.unwrap();
    assert_eq!(ended(&step), "done 2");
    assert!(step.memory.get("x").is_none());
}

#[tokio::test]
async fn traces_show_turns_and_what_was_really_sent() {
    let (host, bodies) = host();
    let model = scripted(
        &json!([
            { "reply": "I look.\n```clojure\n(println (count (tool/fetch {:page 1})))\n```" },
            { "reply": "```clojure\n(boom)\n```" },
            { "reply": "```clojure\n(return 3)\n```" },
        ])
        .to_string(),
    );
    let step = run(&fetcher().await, &settings("on", model), &host).await;
    let lines = |views: Views| -> Vec<String> {
        print_trace(&step.turns, &step.sent, views).into_iter().map(|line| line.text).collect()
    };
    let turns = lines(Views { turns: true, ..Views::default() });
    assert_eq!(
        turns[..7],
        [
            "turn 1  ok  0.0 s  1 call",
            "  program",
            "    (println (count (tool/fetch {:page 1})))",
            "  calls",
            "    fetch({:page 1}) => [{\"id\" 1} {\"id\" 2} {\"id\" 3}]",
            "  output",
            "    3",
        ]
        .map(String::from)
    );
    assert!(
        turns.contains(&"turn 2  failed  0.0 s  0 calls".into())
            && turns.contains(&"    unbound_var: undefined variable: boom".into())
    );
    let raw = lines(Views { raw: true, ..Views::default() }).join("\n");
    assert!(raw.contains("    I look.") && raw.contains("  system\n    You solve a mission"), "{raw}");
    let compressed = lines(Views { compressed: true, ..Views::default() }).join("\n");
    let sent = text(&bodies, 2, 1).lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
    assert!(compressed.contains(&sent), "{compressed}");
    let usage = lines(Views { usage: true, ..Views::default() }).join("\n");
    assert!(usage.contains("tokens before compression") && usage.contains("o200k_base, exact"), "{usage}");
    assert!(usage.contains("1 of 1 tool calls and 1 of 1 prints shown"), "{usage}");

    let mut forged = step.sent.clone();
    forged.input.mission = "Something else.".into();
    let (_, check) = forged.again(&forged.calls[1], &step.turns);
    assert_eq!(check, SentCheck::Different);
    let told = print_trace(&step.turns, &forged, Views { compressed: true, ..Views::default() });
    assert!(told.iter().any(|line| line.kind == LineKind::Failed && line.text.contains("MISMATCH")));
    forged.calls.clear();
    assert_eq!(print_trace(&[], &forged, Views::default()).len(), 1, "one line says that there is nothing");
}
