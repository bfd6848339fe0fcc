//! A person in a browser answers a flow that another process began: real binary, real pages, real form.

use std::process::Command;

use crate::process::Server;
use crate::support::{repository, required, scrollback_in};

const FLOW: &str = "
version: '1'
name: trip
agents:
  guide: { model: 'offline:echo' }
steps:
  - { name: ask, kind: hitl, message: 'Where to, and when?' }
  - { name: say, agent: guide, input: 'You said: {{ steps.ask.output }}' }
";

#[test]
fn a_paused_flow_is_answered_in_a_browser_and_the_page_shows_how_it_ends() {
    let untested = "answering a paused flow in a browser";
    if required::program(&["chromium", "chromium-browser"], untested).is_none() {
        return;
    }
    let server = Server::start("browser");
    std::fs::write(server.folder.join("trip.yaml"), FLOW).unwrap();
    let args = ["run", "trip.yaml", "--input", "hello", "--json", "--store", "sqlite:record.db"];
    let paused = scrollback_in(&server.folder, &args, b"");
    assert_eq!(paused.code, 3, "{}", paused.stderr);
    let run = paused.json()["run"].as_str().unwrap().to_string();
    let output = Command::new("python3")
        .arg(repository("tests/browser/answer.py"))
        .args([&format!("http://{}", server.address), &run])
        .arg(server.folder.join("pictures"))
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&told));
    let shown = server.command(&["lens", "show", &run]);
    assert_eq!(shown["status"], "done", "{shown}");
    // What the model was sent after the answer came.
    let prompt = server.command(&["lens", "prompt", &run, "say"]);
    let messages = prompt["calls"][0]["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_str().unwrap();
    assert_eq!(last, "You said: to Oslo, on the 14th of May");
}
