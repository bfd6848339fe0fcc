//! `scrollback validate` and `scrollback init`: exit codes, documents, marked lines, configuration, bad input.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::support::{Run, folder, repository, scrollback, scrollback_in};
use serde_json::{Value, json};

const FLOW: &str = "version: '1'\nsteps:\n  - name: greet\n    template: Hello {{ input }}\n";

fn validate(folder: &Path, args: &[&str]) -> Run {
    let all: Vec<&str> = ["validate"].into_iter().chain(args.iter().copied()).collect();
    scrollback_in(folder, &all, b"")
}

#[test]
fn a_valid_flow_is_one_line_or_one_document() {
    let plain = scrollback(&["validate", "-"], FLOW);
    assert_eq!(
        (plain.code, plain.stdout.as_str(), plain.stderr.as_str()),
        (0, "- is valid: flow flow, 1 step\n", "")
    );
    let json = scrollback(&["validate", "-", "--json"], FLOW);
    assert_eq!((json.code, json.stderr.as_str()), (0, ""));
    assert_eq!(json.json(), json!({ "valid": true, "file": "-", "warnings": [], "errors": [] }));
    let folder = folder("validate-name");
    std::fs::write(folder.join("trip.yaml"), FLOW).unwrap();
    assert!(validate(&folder, &["trip.yaml"]).stdout.contains("flow trip"), "the file's name is the flow's");
}

#[test]
fn mistakes_are_told_at_their_place_and_warnings_count_when_asked() {
    let flow = "version: '1'\nsteps:\n  - name: greet\n    templat: Hello\n";
    let wrong = scrollback(&["validate", "-"], flow);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (4, ""));
    assert!(wrong.stderr.starts_with("error[unknown_key]: unknown key; did you mean `template`?\n  at -:4:5 (steps[0].templat)\n    4 |     templat: Hello\n            ^^^^^^^\n"), "{}", wrong.stderr);
    let json = scrollback(&["validate", "-", "--json"], flow).json();
    assert_eq!(json["valid"], false);
    assert_eq!(
        json["errors"],
        json!([{ "code": "unknown_key", "message": "unknown key; did you mean `template`?", "path": "steps[0].templat",
                 "line": 4, "column": 5, "suggestion": "template" }])
    );
    assert_eq!(json["warnings"][0]["code"], "default_agent");
    let warned = "version: '1'\nsteps:\n  - name: greet\n";
    let lenient = scrollback(&["validate", "-", "--json"], warned);
    assert_eq!((lenient.code, &lenient.json()["valid"]), (0, &json!(true)));
    let strict = scrollback(&["validate", "-", "--json", "--strict"], warned);
    assert_eq!((strict.code, &strict.json()["valid"]), (4, &json!(false)));
    assert_eq!(strict.json()["warnings"], lenient.json()["warnings"]);
}

#[test]
fn what_cannot_be_read_is_a_mistake_of_the_command_line() {
    let missing = scrollback(&["validate", "missing.yaml", "--json"], "");
    assert_eq!(missing.code, 2);
    assert_eq!(missing.json()["error"]["code"], "io");
    assert_eq!(scrollback(&["validate"], "").code, 2);
    assert_eq!(scrollback(&["validate", "-", "--schema"], FLOW).code, 2);
    let folder = folder("validate-bytes");
    std::fs::write(folder.join("flow.yaml"), b"version: '1'\nname: \xff\n").unwrap();
    let bytes = validate(&folder, &["flow.yaml", "--json"]);
    assert_eq!(bytes.code, 4);
    assert_eq!(
        (&bytes.json()["errors"][0]["line"], &bytes.json()["errors"][0]["column"]),
        (&json!(2), &json!(7))
    );
}

#[test]
fn the_schema_is_the_file_that_ships() {
    let schema = scrollback(&["validate", "--schema"], "");
    assert_eq!(schema.code, 0);
    assert_eq!(schema.stdout, std::fs::read_to_string(repository("crates/flow/flow.schema.json")).unwrap());
    assert_eq!(schema.json()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn secrets_are_neither_accepted_nor_shown() {
    let flow = std::fs::read_to_string(repository("corpus/flows/broken/secret_in_flow.yaml")).unwrap();
    for args in [&["validate", "-"][..], &["validate", "-", "--json"]] {
        let run = scrollback(args, &flow);
        assert_eq!(run.code, 4);
        let said = run.stdout + &run.stderr;
        assert!(
            said.contains("secret_in_flow") && !said.contains("Zx8Zx8") && !said.contains("hunter2"),
            "{said}"
        );
    }
    let key = format!("sk-ant-api03-{}", "Qw7".repeat(14));
    let quoted = format!("version: '1'\nsteps: [{{name: a, agent: {key}}}]\n");
    let run = scrollback(&["validate", "-", "--json"], &quoted);
    assert!(run.code == 4 && !run.stdout.contains(&key), "{}", run.stdout);
}

#[test]
fn the_configuration_is_judged_and_merged() {
    let outer = folder("validate-config");
    let inner = outer.join("project");
    std::fs::create_dir_all(outer.join("none/scrollback")).unwrap();
    std::fs::create_dir_all(&inner).unwrap();
    let flow = "version: '1'\nsteps:\n  - {name: editor}\n  - {kind: loop, name: l, loop: {conversation: true, body: [{name: a, agent: editor}]}}\n";
    std::fs::write(inner.join("flow.yaml"), flow).unwrap();
    let run = |project: &str, user: &str| {
        std::fs::write(inner.join("scrollback.toml"), project).unwrap();
        std::fs::create_dir_all(inner.join("none/scrollback")).unwrap();
        std::fs::write(inner.join("none/scrollback/scrollback.toml"), user).unwrap();
        validate(&inner, &["flow.yaml", "--effective", "--json", "--strict"])
    };
    let merged = run(
        "[flow]\nmax_loops = 7\n[agents.editor]\nmax_output_tokens = 50\n[models.\"openai:gpt-4o\"]\nmode = 'prompt'",
        "[flow]\nmax_loops = 8\ndefault_model = 'openai:gpt-4o'\n[flow.history]\nmax_turns = 4\n[agents.editor]\nmax_output_tokens = 60\nsystem_prompt = 'Be brief.'",
    );
    assert_eq!(merged.code, 0, "{merged:?}");
    let listed = merged.json();
    let value = |setting: &str| {
        let found =
            listed["effective"].as_array().unwrap().iter().find(|one| one["setting"] == setting).cloned();
        let found = found.unwrap_or(Value::Null);
        let source = found["source"]
            .as_str()
            .unwrap_or_default()
            .rsplit("validate-config/")
            .next()
            .unwrap_or_default()
            .to_string();
        (found["value"].clone(), source)
    };
    let (project, user) = ("project/scrollback.toml", "project/none/scrollback/scrollback.toml");
    assert_eq!(value("steps.l.max_loops"), (json!(7), project.into()));
    assert_eq!(value("agents.editor.max_output_tokens"), (json!(50), project.into()));
    assert_eq!(value("agents.editor.model"), (json!("openai:gpt-4o"), user.into()));
    assert_eq!(value("agents.editor.mode"), (json!("prompt"), project.into()));
    assert_eq!(value("steps.l.history_management.max_turns"), (json!(4), user.into()));
    for (wrong, says) in [
        ("[flow]\nmax_loop = 3", "did you mean `max_loops`?"),
        ("[flow]\nmax_loops = 0", "[flow] max_loops: must be at least 1"),
        ("[flow]\ndefault_model = 'gpt-4o'", "openai:gpt-4o"),
        ("[flow.history]\nstrategy = 'sumarize'", "did you mean `summarize`?"),
        ("[flow.history]\nsummarize_ratio = 1.0", "between 0 and 1"),
        ("[flow.limits]\nmax_cost_usd = -1.0", "max_cost_usd"),
        (
            "[agents.editor]\nmodell = 'offline:echo'",
            "agents.editor.modell: unknown key; did you mean `model`?",
        ),
        ("[agents.editor]\nmax_retries = 99", "from 0 to 10"),
        ("[agents.'two words']\nstream = true", "a name begins"),
    ] {
        let refused = run(wrong, "");
        assert_eq!(refused.code, 2, "{wrong}: {refused:?}");
        assert_eq!(refused.json()["error"]["code"], "bad_config");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_string();
        assert!(message.contains(says) && message.contains("project/scrollback.toml"), "{wrong}: {message}");
    }
}

#[test]
fn what_init_writes_validates_without_a_warning() {
    for template in ["chat", "pipeline", "review"] {
        for model in ["offline:echo", "openai:gpt-4o", "openai-compatible:my \"model\""] {
            let folder = folder("init");
            let made = scrollback_in(
                &folder,
                &["init", "new", "--template", template, "--model", model, "--json"],
                b"",
            );
            assert_eq!(made.code, 0, "{made:?}");
            assert_eq!(made.json()["created"], json!(["new/flow.yaml", "new/scrollback.toml"]));
            assert!(made.json()["next"][0].as_str().unwrap().starts_with("cd new && scrollback validate"));
            let flow = std::fs::read_to_string(folder.join("new/flow.yaml")).unwrap();
            assert!(flow.contains("conversation: true") && flow.contains("history_management:"), "{flow}");
            let checked = validate(&folder.join("new"), &["flow.yaml", "--strict", "--effective", "--json"]);
            assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{template} {checked:?}");
            assert!(checked.stdout.contains(&json!(model).to_string()), "{}", checked.stdout);
        }
    }
}

#[test]
fn init_writes_over_nothing_unless_told_to() {
    let folder = folder("init-twice");
    assert_eq!(scrollback_in(&folder, &["init", "--yes"], b"").code, 0);
    std::fs::write(folder.join("flow.yaml"), "mine").unwrap();
    std::fs::remove_file(folder.join("scrollback.toml")).unwrap();
    let again = scrollback_in(&folder, &["init", "--yes", "--json"], b"");
    assert_eq!((again.code, again.json()["error"]["code"].as_str()), (1, Some("exists")));
    assert_eq!(std::fs::read_to_string(folder.join("flow.yaml")).unwrap(), "mine");
    assert!(!folder.join("scrollback.toml").exists(), "all or nothing");
    let forced = scrollback_in(&folder, &["init", "--force"], b"");
    assert_eq!(forced.code, 0, "without a terminal nothing is asked");
    assert!(std::fs::read_to_string(folder.join("flow.yaml")).unwrap().starts_with('#'));
    assert_eq!(scrollback_in(&folder, &["init", "x", "--model", "gpt-9000"], b"").code, 2);
    assert_eq!(scrollback_in(&folder, &["init", "x", "--template", "poem"], b"").code, 2);
    assert!(!folder.join("x").exists());
}

#[test]
fn every_example_is_valid() {
    let mut found = 0;
    for entry in std::fs::read_dir(repository("examples/flows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".script.yaml") || path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let run = validate(path.parent().unwrap(), &[&name, "--json"]);
        assert_eq!(run.code, 0, "{name}: {}", run.stdout);
        let warnings = run.json()["warnings"].as_array().unwrap().len();
        // These two are as they were first proposed, with what that leaves open.
        let as_proposed = ["goal.yaml", "clarify.yaml"].contains(&name.as_str());
        assert_eq!(warnings > 0, as_proposed, "{name}: {}", run.stdout);
        found += 1;
    }
    assert!(found >= 12, "{found}");
}
