//! What the fixtures of the corpus do not show: gates, both spellings, soundness and hostile bodies.
#![allow(clippy::unwrap_used)]

use super::super::{CheckOptions, check};
use crate::json;
use crate::model::ModelName;
use crate::wire::Wire;

/// What is found, each as `rule severity path`, with the gate's mark behind it.
fn found(model: &str, body: &str) -> Vec<String> {
    let model = (!model.is_empty()).then(|| ModelName::parse(model).unwrap());
    let options = CheckOptions { model: model.as_ref(), ..CheckOptions::default() };
    let found = check(Wire::Gemini, json::check(body).unwrap(), options);
    let mark = |gated: bool| if gated { " gated" } else { "" };
    found
        .into_iter()
        .map(|v| format!("{} {} {}{}", v.rule, v.severity, v.path, mark(v.model_gate.is_some())))
        .collect()
}

const ASK: &str = r#"{"parts":[{"text":"hi"}]}"#;
const CALL: &str = r#"{"role":"model","parts":[{"function_call":{"name":"f"},"thought_signature":"c2ln"}]}"#;
const ANSWER: &str = r#"{"role":"user","parts":[{"function_response":{"name":"f","response":{}}}]}"#;

#[test]
fn both_spellings_and_a_bare_list_are_read() {
    assert!(found("gemini:gemini-3.6-flash", &format!("[{ASK},{CALL},{ANSWER}]")).is_empty());
    assert_eq!(
        found("", &format!("[{CALL}]")),
        ["GE-2 R /contents/0", "GE-3 R /contents/0", "GE-5 R /contents/0 gated"]
    );
    let text = r#"{"parts":[{"function_response":{"name":"f","response":[1]}}]}"#;
    let wrong = "GE-11 R /contents/2/parts/0/function_response/response";
    assert_eq!(found("", &format!(r#"{{"contents":[{ASK},{CALL},{text}]}}"#)), [wrong]);
}

#[test]
fn what_a_cache_holds_is_not_missed() {
    let cached = |list: &str| format!(r#"{{"cached_content":"c","tools":[],"contents":[{list}]}}"#);
    assert!(found("", &cached(ANSWER)).is_empty());
    assert!(found("", &cached(&format!("{CALL},{ANSWER}"))).is_empty());
    assert_eq!(found("", &format!("[{ANSWER}]")), ["GE-2 R /contents/0"]);
}

#[test]
fn what_older_models_accept_is_not_refused() {
    let old_role = ANSWER.replace("user", "function");
    let body = format!("[{ASK},{CALL},{old_role}]");
    assert_eq!(found("gemini:gemini-2.5-pro", &body), ["GE-1 Q /contents/2/role"]);
    assert_eq!(found("gemini:gemini-3.6-flash", &body), ["GE-1 R /contents/2/role"]);
    let begun = format!(r#"[{ASK},{{"role":"model","parts":[{{"text":"It"}}]}}]"#);
    assert!(found("gemini:gemini-3.5-flash", &begun).is_empty());
    assert_eq!(found("gemini:gemini-3.5-flash-lite", &begun), ["GE-5 R /contents/1"]);
    let beside = |parts: &str| format!(r#"[{ASK},{CALL},{{"role":"user","parts":[{parts}]}}]"#);
    let response = r#"{"functionResponse":{"name":"f","response":{}}}"#;
    let behind = beside(&format!(r#"{response},{{"text":"a"}}"#));
    assert_eq!(found("gemini:gemini-2.5-pro", &behind), ["GE-4 Q /contents/2/parts/1"]);
    assert_eq!(found("", &behind), ["GE-4 R /contents/2/parts/1"]);
    assert_eq!(found("", &beside(&format!(r#"{{"text":"a"}},{response}"#))), ["GE-4 R /contents/2/parts/0"]);
    assert!(found("", &beside(&format!(r#"{response},{{"newKind":1}}"#))).is_empty());
}

#[test]
fn only_the_current_turn_needs_signatures() {
    let unsigned = CALL.replace("thought_signature", "other");
    let body = format!("[{ASK},{unsigned},{ANSWER},{unsigned},{ANSWER}]");
    assert_eq!(
        found("gemini:gemini-3-pro", &body),
        ["GE-6 R /contents/1/parts/0", "GE-6 R /contents/3/parts/0"]
    );
    assert!(found("gemini:gemini-2.5-pro", &body).is_empty());
    let over = format!("[{ASK},{unsigned},{ANSWER},{ASK}]");
    assert!(found("gemini:gemini-3-pro", &over).is_empty());
}

#[test]
fn a_list_of_anything_is_survived() {
    for body in ["null", "[]", "{}", "[null,1,[]]", r#"{"contents":{}}"#, r#"[{"parts":{}},{"parts":[1]}]"#] {
        assert!(found("", body).iter().all(|line| line.starts_with("GE-14")), "{body}");
    }
    assert_eq!(found("", r#"[{"parts":[{}]}]"#), ["GE-10 R /contents/0/parts/0"]);
}
