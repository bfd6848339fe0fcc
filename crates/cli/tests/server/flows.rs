//! Paused flows, answered over HTTP while the server that has them runs.

use serde_json::json;

use crate::process::Server;
use crate::support::scrollback_in;

const FLOW: &str = "
version: '1'
agents:
  guide: { model: offline:echo, system_prompt: Be brief. }
steps:
  - name: talk
    kind: loop
    loop:
      conversation: true
      max_loops: 2
      body:
        - { name: say, agent: guide }
        - { name: ask, kind: hitl }
";

#[test]
fn a_paused_flow_is_answered_over_http_and_goes_on() {
    let server = Server::start("answered");
    std::fs::write(server.folder.join("flow.yaml"), FLOW).unwrap();
    let args = ["run", "flow.yaml", "--input", "hello", "--json", "--store", "sqlite:record.db"];
    let paused = scrollback_in(&server.folder, &args, b"");
    assert_eq!(paused.code, 3, "{}", paused.stderr);
    let run = paused.json()["run"].as_str().unwrap().to_string();
    let answer = |text: &str| {
        let path = format!("/api/runs/{run}/answer");
        server.call(
            "POST",
            &path,
            &[("content-type", "application/json")],
            &json!({ "text": text }).to_string(),
        )
    };
    let blank = answer(" ");
    assert_eq!(
        (blank.status, blank.json()["type"].as_str()),
        (422, Some("urn:scrollback:problem:answer_does_not_fit")),
        "{blank:?}"
    );
    // 202 while the run still goes on.
    assert!(matches!(answer("to Oslo").status, 200 | 202));
    // Not before it waits again is the next answer for it.
    let waits_at = |key: &str| {
        let shown = server.command(&["lens", "show", &run]);
        shown["pauses"].as_array().unwrap().iter().any(|pause| pause["step"] == key)
    };
    while !waits_at("talk[2]/ask") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(matches!(answer("in May").status, 200 | 202));
    while server.command(&["lens", "show", &run])["status"] != "done" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // What the agent was sent after the answer: the conversation, and the answer once.
    let prompt = server.command(&["lens", "prompt", &run, "talk[2]/say"]);
    let messages = prompt["calls"][0]["messages"].as_array().unwrap().iter();
    let told: Vec<(&str, &str)> = messages
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [("system", "Be brief."), ("user", "hello"), ("assistant", "hello"), ("user", "to Oslo")]
    );
    let late = answer("again");
    assert_eq!(
        (late.status, late.json()["type"].as_str()),
        (409, Some("urn:scrollback:problem:not_waiting")),
        "{late:?}"
    );
}
