//! What the fixtures of the corpus do not show: gates, both spellings, soundness and hostile bodies.
#![allow(clippy::unwrap_used)]

use super::super::{CheckOptions, check};
use crate::json;
use crate::model::ModelName;
use crate::wire::Wire;

/// What is found, each as `rule path`, with the gate behind it.
fn found(model: &str, body: &str) -> Vec<String> {
    let model = (!model.is_empty()).then(|| ModelName::parse(model).unwrap());
    let options = CheckOptions { model: model.as_ref(), ..CheckOptions::default() };
    let found = check(Wire::Bedrock, json::check(body).unwrap(), options);
    let gate = |gate: Option<&str>| gate.map(|gate| format!(" ({gate})")).unwrap_or_default();
    found.into_iter().map(|v| format!("{} {}{}", v.rule, v.path, gate(v.model_gate))).collect()
}

const ASK: &str = r#"{"role":"user","content":[{"text":"hi"}]}"#;
const CALL: &str = r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}"#;
const RESULT: &str = r#"{"toolResult":{"toolUseId":"a","content":[]}}"#;

#[test]
fn a_bare_list_needs_no_tool_config_and_a_request_needs_one_with_tools() {
    let list = format!(r#"[{ASK},{CALL},{{"role":"user","content":[{RESULT}]}}]"#);
    assert!(found("", &list).is_empty());
    assert_eq!(found("", &format!(r#"{{"messages":{list}}}"#)), ["BC-7 /messages/1/content/0"]);
    let config = |tools: &str| format!(r#"{{"toolConfig":{{"tools":[{tools}]}},"messages":{list}}}"#);
    assert_eq!(found("", &config("")), ["BC-7 /messages/1/content/0"]);
    assert!(found("", &config(r#"{"toolSpec":{"name":"f"}},{"cachePoint":{}}"#)).is_empty());
    assert_eq!(
        found("", &config(r#"{"toolSpec":{"name":"f.g"}}"#)),
        ["BC-6 /toolConfig/tools/0/toolSpec/name"]
    );
}

#[test]
fn a_call_at_the_end_and_a_result_at_the_start_pair_with_nothing() {
    assert_eq!(found("", &format!("[{ASK},{CALL}]")), ["BC-3 /messages/1/content/0"]);
    assert_eq!(
        found("", &format!(r#"[{{"role":"user","content":[{RESULT}]}}]"#)),
        ["BC-4 /messages/0/content/0"]
    );
}

#[test]
fn tools_the_provider_runs_need_no_answer() {
    let server = CALL.replace(r#""input""#, r#""type":"server_tool_use","input""#);
    let server = server.replace("]}", &format!(r#",{RESULT},{{"text":"done"}}]}}"#));
    assert!(found("", &format!("[{ASK},{server},{ASK}]")).is_empty());
}

#[test]
fn families_differ_on_what_may_stand_beside_results() {
    let beside = |block: &str| {
        format!(r#"[{ASK},{CALL},{{"role":"user","content":[{RESULT},{{"text":"x"}},{block}]}}]"#)
    };
    let document = beside(r#"{"document":{"name":"d"}}"#);
    let (text, file) = ("BC-8 /messages/2/content/1", "BC-8 /messages/2/content/2");
    assert_eq!(found("bedrock:mistral.mistral-large-2402-v1:0", &document), [text]);
    assert_eq!(found("bedrock:anthropic.claude-opus-5", &document), [file]);
    assert!(found("bedrock:amazon.nova-pro-v1:0", &document).is_empty());
    assert_eq!(found("", &document), [format!("{text} (Llama and Mistral)"), format!("{file} (Claude)")]);
}

#[test]
fn a_model_behind_a_profile_is_not_guessed() {
    let body = format!(r#"[{{"role":"assistant","content":[{{"text":"hi"}}]}},{ASK}]"#);
    let profile = "bedrock:arn:aws:bedrock:us-east-1:1:application-inference-profile/x1";
    assert!(found(profile, &body).is_empty());
    assert!(found("bedrock:qwen.qwen3-32b-v1:0", &body).is_empty());
    assert_eq!(found("bedrock:amazon.nova-pro-v1:0", &body), ["BC-1 /messages/0"]);
    assert_eq!(found("", &body), ["BC-1 /messages/0"]);
}

#[test]
fn too_many_and_too_large_is_said_once() {
    let many = |block: &str, times: usize| {
        format!(r#"[{{"role":"user","content":[{{"text":"x"}}{}]}}]"#, format!(",{block}").repeat(times))
    };
    let image = r#"{"image":{"source":{"bytes":"AAAA"}}}"#;
    assert!(found("", &many(image, 20)).is_empty());
    assert_eq!(found("", &many(image, 25)), ["BC-13 /messages/0/content/21"]);
    // The head of a PNG of 9000 by 1 pixels, as an SDK keeps it in a file.
    let wide = "iVBORw0KGgoAAAANSUhEUgAAIygAAAABCAIAAAA=";
    let wide =
        format!(r#"{{"image":{{"source":{{"bytes":{{"__bytes_encoded__":true,"data":"{wide}"}}}}}}}}"#);
    assert_eq!(found("", &many(&wide, 1)), ["BC-13 /messages/0/content/1"]);
}

#[test]
fn a_list_of_anything_is_survived() {
    for body in
        ["null", "[]", "{}", "[null,1,[]]", r#"{"messages":{}}"#, r#"[{"content":"x"},{"content":[1]}]"#]
    {
        assert!(found("", body).is_empty(), "{body}");
    }
    let double = r#"{"role":"user","content":[{"text":"x"},{"document":{"name":"a  b"}},{"document":{}}]}"#;
    let names = ["BC-12 /messages/0/content/1/document/name", "BC-12 /messages/0/content/2"];
    assert_eq!(found("", &format!("[{double}]")), names);
}
