//! Real sessions of Claude Code and Codex in the lens: imported as a person would, looked at in a browser, with pictures of every
//! page under `target/pictures`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use scrollback_agent::config::ServerSettings;
use scrollback_store::{Memory, Store};
use serde_json::{Value, json};

use crate::browser::{root, start};
use crate::support::{Server, required};

/// Transcripts that are always there.
const OWN: [(&str, &[&str]); 3] = [
    ("codex", &["corpus/transcript/codex/rollout.jsonl"]),
    ("helpers", &["corpus/transcript/claude-code/sidechains.jsonl"]),
    ("compacted", &["corpus/transcript/claude-code/compaction.jsonl"]),
];
/// Recorded sessions, where they are: a file and the folder with the files of its sub-agents.
const RECORDED: [(&str, &str); 3] = [
    ("share", "claude-code-session-share/samples/claude-code-projects/0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"),
    ("spotter", "claude-code-spotter/fa812bfe-b295-4cca-9c2f-fdf01028cb46"),
    ("errors", "claude-code-fasthooks/sample_main_transcript"),
];

/// The file of a session, then those of its sub-agents: they belong to a session that must be there before them.
fn files_of(session: &Path) -> Vec<PathBuf> {
    let helpers = std::fs::read_dir(session.join("subagents"));
    let mut helpers: Vec<PathBuf> = helpers.into_iter().flatten().flatten().map(|file| file.path()).collect();
    helpers.sort();
    let main = session.with_extension("jsonl");
    std::iter::once(main).chain(helpers).filter(|file| file.exists()).collect()
}

/// Imports files as one session and gives its id.
async fn imported(server: &Server, name: &str, files: &[PathBuf]) -> String {
    // The transcripts of the corpus are all of one session; here each is one of its own.
    let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap().replace("5e55-1", name);
    let texts: Vec<String> = files.iter().map(read).collect();
    imported_texts(server, &texts).await
}

async fn imported_texts(server: &Server, texts: &[String]) -> String {
    let known = ids(server).await;
    for text in texts {
        let body = format!(
            "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"session.jsonl\"\r\n\r\n{text}\r\n--cut--\r\n"
        );
        let kind = Some("multipart/form-data; boundary=cut");
        let taken = server.ask(Method::POST, "/lens/import", kind, body).await;
        assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
    }
    let all = ids(server).await;
    all.into_iter().find(|id| !known.contains(id)).expect("a new session")
}

async fn ids(server: &Server) -> Vec<String> {
    let sessions = server.get("/api/sessions?limit=500").await.json();
    let all = sessions["sessions"].as_array().unwrap();
    all.iter().map(|session| session["id"].as_str().unwrap().to_string()).collect()
}

/// The pages of one session: what was said, what it cost, a call, a sub-agent.
async fn pages(server: &Server, name: &str, session: &str) -> Vec<(String, String)> {
    let found = server.get(&format!("/lens/sessions/{session}")).await.location().to_string();
    let shown = server.get(&found).await.text;
    let mut all = vec![
        (format!("{name}-session"), found.clone()),
        (format!("{name}-begin"), format!("{found}?at=0")),
        (format!("{name}-cache"), format!("/lens/sessions/{session}/cache")),
    ];
    let first = |part: &str| {
        let at = shown.find(part)?;
        Some(shown[at..].chars().take_while(|letter| !"\"?#&".contains(*letter)).collect::<String>())
    };
    all.extend(first("/lens/calls/").map(|call| (format!("{name}-call"), call)));
    let tree = server.get(&format!("/api/sessions/{session}")).await.json();
    let nodes = tree["conversations"].as_array().unwrap();
    let helper = nodes.iter().find(|node| node["conversation"]["kind"] == "sub-agent");
    all.extend(helper.map(|node| {
        let id = node["conversation"]["id"].as_str().unwrap();
        (format!("{name}-helper"), format!("/lens/conversations/{id}"))
    }));
    all
}

async fn facts() -> Value {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (_, base) = start(Arc::clone(&store)).await;
    let server = Server::on(store, ServerSettings::default());
    let mut all = vec![("list".to_string(), "/lens".to_string())];
    for (name, files) in OWN {
        let files: Vec<PathBuf> = files.iter().map(|file| root().join(file)).collect();
        let id = imported(&server, name, &files).await;
        all.extend(pages(&server, name, &id).await);
    }
    let data = root().join("../shared/data");
    for (name, session) in RECORDED {
        let files = files_of(&data.join(session));
        if files.is_empty() {
            eprintln!("notice: the recorded session {session} is not here; its pages were not looked at");
            continue;
        }
        let id = imported(&server, name, &files).await;
        all.extend(pages(&server, name, &id).await);
        let compare = format!(
            "/lens/simulate?conversation={}",
            all.iter()
                .rev()
                .find(|(name, _)| name.ends_with("-session"))
                .unwrap()
                .1
                .rsplit('/')
                .next()
                .unwrap()
        );
        if name == "errors" {
            all.push(("compare".into(), compare));
        }
    }
    let pages: serde_json::Map<String, Value> =
        all.into_iter().map(|(name, path)| (name, path.into())).collect();
    json!({ "base": base, "pages": pages, "dark": "helpers" })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_real_sessions_can_be_looked_at() {
    if required::program(&["chromium", "chromium-browser"], "pictures of real sessions").is_none() {
        return;
    }
    let facts = facts().await;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let written = folder.join("facts.json");
    std::fs::write(&written, facts.to_string()).unwrap();
    let script = root().join("tests/browser/real.py");
    let run = tokio::task::spawn_blocking(move || {
        Command::new("python3").arg(script).arg(written).arg(folder).output().unwrap()
    });
    let output = run.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

/// A sub-agent stands at the call that started it, and what a person is told of the cost is the same on every page.
#[tokio::test]
async fn sub_agents_stand_at_their_calls_and_costs_agree() {
    let server = Server::new();
    let text = std::fs::read_to_string(root().join(OWN[1].1[0])).unwrap();
    // The task that the call names is what the first sub-agent begins with.
    let text = text.replace(r#""name":"Task","input":{}"#, r#""name":"Task","input":{"prompt":"look here"}"#);
    let id = imported_texts(&server, &[text]).await;
    let main = server.get(&format!("/lens/sessions/{id}")).await.location().to_string();
    let shown = server.get(&format!("{main}?at=0")).await.text;
    assert!(shown.contains("started at #"), "the tree leads to the call: {shown}");
    assert!(shown.contains("<p class=\"helper\">"), "the call leads to the sub-agent: {shown}");
    let cost = |page: &str, label: &str| {
        let after = page.split_once(label).unwrap_or_else(|| panic!("{label} in {page}")).1;
        let from = after.find('$').unwrap();
        after[from..].chars().take_while(|letter| *letter != '<' && *letter != ' ').collect::<String>()
    };
    let in_session = cost(&shown, "Cost of the session");
    let cache = server.get(&format!("/lens/sessions/{id}/cache")).await.text;
    assert_eq!(in_session, cost(&cache, "<dt>Cost of "));
    let list = server.get("/lens").await.text;
    assert_eq!(in_session, cost(&list, "data-l=\"Cost\""));
}
