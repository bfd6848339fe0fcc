//! Every document of the commands about flows against its schema, and what people see of secrets.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Run, scripted, scrollback, scrollback_in};
use serde_json::{Value, json};

const FLOW: &str = r#"
version: "1"
name: trip
agents:
  clarify: { model: "offline:script=script.yaml", system_prompt: Ask one question. }
steps:
  - kind: loop
    name: chat
    loop:
      conversation: true
      history_management: { strategy: summarize, max_turns: 2 }
      max_loops: 5
      exit_expression: "output == 'stop'"
      body: [{ name: clarify }, { kind: hitl, name: ask, input_schema: { type: string, pattern: "^[a-z ]+$" } }]
  - { kind: conditional, name: route, condition_expression: "input", branches: { go: [{ name: fine, template: fine }] } }
"#;

/// Schemas as the command prints them, each asked for once.
#[derive(Default)]
struct Schemas(BTreeMap<String, jsonschema::Validator>);

impl Schemas {
    /// Judges a document, and that the schema asks for every member the document has at the top.
    fn fits(&mut self, name: &str, document: &Value) {
        let schema = self.0.entry(name.into()).or_insert_with(|| {
            let printed = scrollback(&["schema", name], "");
            assert_eq!(printed.code, 0, "{printed:?}");
            jsonschema::draft202012::new(&printed.json()).unwrap()
        });
        let wrong: Vec<String> =
            schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{document}");
        for key in document.as_object().unwrap().keys() {
            let mut less = document.clone();
            less.as_object_mut().unwrap().remove(key);
            let optional = matches!((name, key.as_str()), ("error", "errors") | ("validate", "effective"))
                || name == "event" && key == "run" && document["type"] != "run.created";
            assert_eq!(schema.is_valid(&less), optional, "{name} without {key}");
        }
    }
}

#[test]
fn every_document_fits_the_schema_that_describes_it() {
    let mut schemas = Schemas::default();
    let mut fits = |name: &str, document: &Value| schemas.fits(name, document);
    let folder = scripted("documents", "flow.yaml", FLOW, "- loop: true\n- reply: Which date?\n");
    let document = |args: &[&str]| -> Value {
        let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        scrollback_in(&folder, &all, b"").json()
    };
    let listed = document(&["schema"]);
    let names: Vec<&str> =
        listed["schemas"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "flow",
            "run",
            "validate",
            "lens-list",
            "lens-show",
            "lens-trace",
            "lens-prompt",
            "init",
            "event",
            "error",
            "agent",
            "subagent"
        ]
    );
    let misspelt = scrollback_in(&folder, &["schema", "lens-shwo", "--json"], b"");
    assert_eq!((misspelt.code, misspelt.json()["error"]["code"].as_str()), (2, Some("unknown_schema")));
    assert!(misspelt.stderr.contains("did you mean `lens-show`?"), "{}", misspelt.stderr);
    fits("error", &misspelt.json());

    fits("validate", &document(&["validate", "flow.yaml", "--effective"]));
    std::fs::write(folder.join("broken.yaml"), "version: 1\nsteps: [{ nme: a }, 3]\n").unwrap();
    fits("validate", &document(&["run", "broken.yaml", "--input", "go"]));
    fits("init", &document(&["init", "new"]));
    let run = ["run", "flow.yaml", "--input", "go", "--id", "trip", "--progress", "json", "--json"];
    let begun = scrollback_in(&folder, &run, b"");
    assert_eq!(begun.code, 3, "{begun:?}");
    fits("run", &begun.json());
    let lines: Vec<Value> = begun
        .stderr
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.iter().any(|line| line["type"] == "run.created" && line["run"] == "trip"), "{lines:?}");
    let prompt = lines.iter().find(|line| line["type"] == "agent.prompt").unwrap();
    assert_eq!(
        prompt["data"]["messages"],
        json!([{ "role": "system", "content": "Ask one question." }, { "role": "user", "content": "go" }])
    );
    for line in &lines {
        fits("event", line);
    }
    fits("error", &document(&["resume", "trip"]));
    let refused = document(&["resume", "trip", "--input", "IN MAY"]);
    assert_eq!(refused["errors"][0]["path"], "");
    fits("error", &refused);
    for answer in ["in may", "for two", "stop"] {
        fits("run", &document(&["resume", "trip", "--input", answer]));
        fits("lens-show", &document(&["lens", "show", "trip"]));
    }
    fits("lens-list", &document(&["lens", "list"]));
    fits("lens-trace", &document(&["lens", "trace", "trip"]));
    fits("lens-prompt", &document(&["lens", "prompt", "trip", "clarify", "--wire"]));
    let exported = scrollback_in(&folder, &["lens", "trace", "trip", "--export"], b"");
    let events: Vec<Value> =
        exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompts = events.iter().filter(|event| event["type"] == "agent.prompt");
    assert_eq!(prompts.filter(|event| event["data"]["messages"].is_array()).count(), 3);
    assert!(events.iter().all(|event| event["run"] == "trip"));
    for event in &events {
        fits("event", event);
    }
    std::fs::write(folder.join("script.yaml"), "- {error: {kind: auth, message: no}}\n").unwrap();
    fits("run", &document(&["run", "flow.yaml", "--id", "fails", "--input", "go"]));
    fits("lens-show", &document(&["lens", "show", "fails"]));
}

fn with_key(folder: &Path, key: &str, args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(args)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .env("OPENAI_API_KEY", key)
        .env("MY_GATEWAY_KEY", "a gateway's own words")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_key_of_the_environment_may_stand_in_no_flow_and_is_shown_nowhere() {
    let folder =
        scripted("documents-keys", "flow.yaml", FLOW, "- loop: true\n- reply: I saw quiet-harbour-9 there\n");
    let key = "quiet-harbour-9";
    // In the flow it is refused, whatever it looks like, and not quoted.
    for (text, said) in [(key, true), ("a gateway's own words", false)] {
        std::fs::write(
            folder.join("open.yaml"),
            FLOW.replace("Ask one question.", &format!("\"Use {text}.\"")),
        )
        .unwrap();
        let checked = with_key(&folder, key, &["validate", "open.yaml", "--json"]);
        assert_eq!(checked.code == 4, said, "{checked:?}");
        assert!(
            !said || checked.json()["errors"][0]["code"] == "secret_in_flow" && !checked.stdout.contains(key)
        );
    }
    std::fs::write(
        folder.join("scrollback.toml"),
        "[providers.openai-compatible]\nkey_env = \"MY_GATEWAY_KEY\"\n",
    )
    .unwrap();
    assert_eq!(
        with_key(&folder, key, &["validate", "open.yaml"]).code,
        4,
        "keys the configuration names count"
    );
    // A word that is short is no key.
    assert_eq!(with_key(&folder, "trip", &["validate", "flow.yaml"]).code, 0);
    // What people say and models reply is kept and sent as it is, and shown without it.
    let mut shown = Vec::new();
    for how in ["plain", "json"] {
        shown.push(with_key(
            &folder,
            key,
            &["run", "flow.yaml", "--input", "use quiet-harbour-9", "--id", how, "--progress", how],
        ));
    }
    shown.push(with_key(&folder, key, &["resume", "plain", "--input", "ANSWER quiet-harbour-9"]));
    shown.push(with_key(&folder, key, &["resume", "plain"]));
    shown.push(with_key(&folder, key, &["resume", "plain", "--input", "and so on"]));
    for json in [&[][..], &["--json"]] {
        for args in [
            &["lens", "list"][..],
            &["lens", "show", "plain", "--full"],
            &["lens", "trace", "plain"],
            &["lens", "prompt", "plain", "clarify", "--wire"],
        ] {
            shown.push(with_key(&folder, key, &[args, json].concat()));
        }
    }
    for run in &shown {
        assert!(!(run.stdout.clone() + &run.stderr).contains(key), "{run:?}");
    }
    assert!(shown.iter().any(|run| run.stdout.contains("[redacted:configured]")));
    let revealed =
        with_key(&folder, key, &["lens", "prompt", "plain", "clarify", "--wire", "--reveal", "--json"]);
    assert!(
        revealed.json()["calls"][0]["request"].to_string().contains("use quiet-harbour-9"),
        "what was sent: {revealed:?}"
    );
}
