//! The front door as programs use it: on real files, in new processes' shoes, with every kind of error.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::error::Error as _;
use std::process::Command;

use scrollback::serde_json::json;
use scrollback::{Append, Entry, ErrorKind, Role, Store, Time, Uuid, Wire, blocking, curate, store};

fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("chat.db").display());
    (folder, url)
}

#[tokio::test]
async fn a_conversation_goes_on_where_the_process_before_stopped() {
    let (_folder, url) = file();
    {
        let store = Store::open(&url).await.unwrap();
        let mut chat = store.conversation("anna").await.unwrap();
        assert!(chat.record().is_empty() && chat.id().is_err());
        chat.append(Entry::system("Be brief.")).await.unwrap();
        chat.append([Entry::user("What is 6 x 7?"), Entry::assistant("42")]).await.unwrap();
    }
    let store = Store::open(&url).await.unwrap();
    let mut chat = store.conversation("anna").await.unwrap();
    assert_eq!(chat.record().len(), 3);
    chat.append(Entry::user("And 7 x 8?")).await.unwrap();
    let request = chat.view("turn_window(1)").unwrap().request(Wire::Anthropic);
    assert_eq!(request.to_value()["system"], "Be brief.");
    assert_eq!(request.to_value()["messages"], json!([{ "role": "user", "content": "And 7 x 8?" }]));
    assert_eq!(chat.view("turn_window(1)").unwrap().explain().dropped.len(), 2);
    assert!(store.conversation("bert").await.unwrap().record().is_empty());
    assert!(store.tenant("other").unwrap().conversation("anna").await.unwrap().record().is_empty());
}

#[tokio::test]
async fn times_and_ids_can_be_given_and_a_repeat_writes_nothing() {
    let (_folder, url) = file();
    let store = Store::open(&url).await.unwrap();
    let mut chat = store.conversation("anna").await.unwrap();
    let evaluation = Some(Uuid::from_u128(7));
    let first = Append { at: Some(Time(1_000)), evaluation, ..Entry::user("one").into() };
    let second = Append { at: Some(Time(2_000)), evaluation, sequence: 1, ..Entry::assistant("1").into() };
    for append in [first.clone(), first, second.clone(), second] {
        chat.append(append).await.unwrap();
    }
    let said: Vec<(Role, Time, u64)> = (0..2)
        .filter_map(|position| chat.record().entry(position))
        .map(|entry| (entry.role, entry.created_at, entry.sequence))
        .collect();
    assert_eq!(said, [(Role::User, Time(1_000), 0), (Role::Assistant, Time(2_000), 1)]);
    assert_eq!(chat.record().len(), 2);
    let gap = Append { evaluation, sequence: 5, ..Entry::user("late").into() };
    let refused = chat.append(gap).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Store(store::ErrorKind::SequenceGap));
}

#[tokio::test]
async fn two_writers_of_one_conversation_see_each_other() {
    let (_folder, url) = file();
    let (one, two) = (Store::open(&url).await.unwrap(), Store::open(&url).await.unwrap());
    let mut here = one.conversation("anna").await.unwrap();
    let mut there = two.conversation("anna").await.unwrap();
    here.append(Entry::user("from here")).await.unwrap();
    there.append(Entry::user("from there")).await.unwrap();
    assert_eq!(there.record().len(), 2, "what came first is read from the store");
    here.reload().await.unwrap();
    let texts: Vec<String> = (0..2).filter_map(|position| here.record().entry(position)?.content()).collect();
    assert_eq!(texts, ["from here", "from there"]);
}

#[test]
fn the_blocking_form_does_the_same_without_a_runtime() {
    let (_folder, url) = file();
    {
        let store = blocking::Store::open(&url).unwrap();
        let mut chat = store.conversation("anna").unwrap();
        chat.append([Entry::user("one"), Entry::assistant("1")]).unwrap();
        chat.append(Entry::user("two")).unwrap();
    }
    let mut chat = blocking::Store::open(&url).unwrap().conversation("anna").unwrap();
    chat.set_model("openai:gpt-4o").unwrap();
    let view = chat.view("sliding_window(1)").unwrap();
    assert!(view.tokens() > 0);
    assert_eq!(
        view.request(Wire::OpenaiChat).to_value()["messages"],
        json!([{ "role": "user", "content": "two" }])
    );
    assert_eq!(chat.record().len(), 3);
}

#[tokio::test]
async fn the_blocking_form_refuses_where_it_would_stop_other_tasks() {
    let refused = blocking::Store::open("sqlite::memory:").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Blocking);
    assert!(refused.to_string().contains("use scrollback::Store"), "{refused}");
    let store = std::thread::spawn(|| blocking::Store::open("sqlite::memory:")).join().unwrap().unwrap();
    assert_eq!(store.conversation("anna").unwrap_err().kind(), ErrorKind::Blocking);
    drop(store);
}

#[tokio::test]
async fn errors_say_their_kind_and_keep_their_source() {
    let refused = Store::open("mysql://localhost").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Store(store::ErrorKind::BadUrl));
    assert!(refused.source().unwrap().downcast_ref::<store::StoreError>().is_some());

    let store = Store::open("sqlite::memory:").await.unwrap();
    assert_eq!(
        store.conversation("").await.unwrap_err().kind(),
        ErrorKind::Store(store::ErrorKind::BadArgument)
    );
    let mut chat = store.conversation("anna").await.unwrap();
    chat.append(Entry::user("hello")).await.unwrap();
    let refused = chat.view("sliding_widow(20)").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Manager);
    assert!(refused.to_string().contains("sliding_window"), "{refused}");
    assert_eq!(chat.view("token_budget(1)").unwrap_err().kind(), ErrorKind::View);
    assert_eq!(chat.set_model("").unwrap_err().kind(), ErrorKind::Model);
    assert_eq!(curate("[{", "passthrough").unwrap_err().kind(), ErrorKind::Messages);
}

#[test]
fn a_request_is_curated_with_everything_around_its_messages() {
    let request = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}],"temperature":0.20}"#;
    let curated = curate(request, "turn_window(1)").unwrap();
    assert_eq!(curated.wire, Wire::OpenaiChat);
    assert!(curated.request.as_str().contains(r#""temperature":0.20"#), "{}", curated.request);
    assert_eq!(curated.request.to_value()["messages"], json!([{ "role": "user", "content": "two" }]));
}

#[test]
fn a_program_that_depends_on_it_builds_no_command_line_and_no_server() {
    let tree = |more: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "-p", "scrollback", "-e", "normal", "--prefix", "none"])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let has = |tree: &str, name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let (usual, all) = (tree(&[]), tree(&["--all-features"]));
    for name in ["clap", "axum", "scrollback-cli", "scrollback-server", "rustyline", "maud"] {
        assert!(!has(&all, name), "{name} is built");
    }
    for name in ["tokio-postgres", "reqwest", "scrollback-agent"] {
        assert!(!has(&usual, name) && has(&all, name), "{name} belongs to a feature");
    }
    assert!(has(&usual, "rusqlite") && !has(&tree(&["--no-default-features"]), "rusqlite"));
}

#[test]
fn a_simulation_reads_folders_and_tells_every_transcript_and_lost_value() {
    use scrollback::core::replay::{CompareOptions, Field, Losses};
    use scrollback::{SimulationOptions, simulate};
    let folder = tempfile::tempdir().unwrap();
    let talk = |order: usize| {
        let call =
            json!({ "id": "c1", "type": "function", "function": { "name": "find", "arguments": "{}" } });
        let clock =
            json!({ "id": "c2", "type": "function", "function": { "name": "clock", "arguments": "{}" } });
        let late = json!({ "order": format!("W{order}") }).to_string();
        let last =
            json!({ "id": "c3", "type": "function", "function": { "name": "cancel", "arguments": late } });
        json!([
            { "role": "user", "content": "Find my order." },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "c1", "content": format!("It is W{order}. {}", "word ".repeat(400)) },
            { "role": "assistant", "content": null, "tool_calls": [clock] },
            { "role": "tool", "tool_call_id": "c2", "content": "noon" },
            { "role": "assistant", "content": "I found it." },
            { "role": "user", "content": "word ".repeat(300) },
            { "role": "assistant", "content": null, "tool_calls": [last] },
        ])
    };
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    std::fs::write(folder.path().join("one.json"), talk(4711).to_string()).unwrap();
    std::fs::write(folder.path().join("deep/two.json"), talk(4712).to_string()).unwrap();
    std::fs::write(folder.path().join("broken.json"), "[{\n\"role\": ").unwrap();
    let options = SimulationOptions {
        field: Field { managers: vec!["token_budget(B)".into()], budgets: vec![500] },
        how: CompareOptions { losses: Losses::Listed, ..CompareOptions::default() },
        ..SimulationOptions::default()
    };
    let wanted = std::sync::atomic::AtomicBool::new(true);
    let told = simulate(&[folder.path().to_path_buf()], &options, &wanted).unwrap();
    assert_eq!(told.managers, ["token_budget(500)"]);
    assert_eq!((told.transcripts.len(), told.figures[0].calls), (2, 8));
    let lost: Vec<&str> =
        told.transcripts.iter().flat_map(|one| &one.lost[0]).map(|lost| lost.value.as_str()).collect();
    assert_eq!(lost, ["W4712", "W4711"], "in the order of files");
    assert!(told.transcripts[1].lost[0].first().is_some_and(|lost| lost.stood_at.ends_with("one.json#2")));
    assert_eq!((told.failed.len(), told.failed[0].line), (1, 2));
    let usual = simulate(&[folder.path().join("one.json")], &SimulationOptions::default(), &wanted).unwrap();
    let known = ["passthrough", "sliding_window(20)", "tool_result_truncator(2000)", "clear_tool_results(3)"];
    assert_eq!(usual.managers, known, "no budget is below so short a history, and no model has a window");
}
