//! What every kind of content and part becomes.
#![allow(clippy::unwrap_used)]

use super::super::at::At;
use super::{read_message, read_system};
use crate::block::{Block, BlockKind, MediaKind, MediaSource};
use crate::entry::{ContentState, Entry, Role};
use crate::json;
use crate::wire::{Body, ParseOptions, Parsed, Wire, WireError};

fn try_parse(body: &str) -> Result<Parsed, WireError> {
    Wire::Gemini.parse(json::check(body).unwrap(), &ParseOptions::default())
}

fn parse(body: &str) -> Parsed {
    try_parse(body).unwrap()
}

/// The one entry of a content with these parts.
fn entry(role: &str, parts: &str) -> Entry {
    let parsed = parse(&format!(r#"[{{"role":"{role}","parts":[{parts}]}}]"#));
    assert_eq!(parsed.entries.len(), 1);
    parsed.entries.into_iter().next().unwrap()
}

fn block(role: &str, part: &str) -> Block {
    let block = entry(role, part).blocks.first().unwrap().clone();
    assert_eq!(block.raw.as_ref().unwrap().as_str(), part);
    block
}

fn roles(parsed: &Parsed) -> Vec<Role> {
    parsed.entries.iter().map(|entry| entry.role).collect()
}

fn ids(parsed: &Parsed) -> Vec<Option<String>> {
    let of = |entry: &Entry| match entry.role {
        Role::Tool => vec![entry.tool_call_id()],
        _ => {
            entry.tool_calls().map(|call| call.call_id.as_ref().map(|id| id.as_str().into_owned())).collect()
        }
    };
    parsed.entries.iter().flat_map(of).collect()
}

#[test]
fn a_body_is_a_list_or_an_object_with_contents() {
    let list = r#"[ {"role":"user","parts":[{"text":"hi"}]},{"parts":[]} , {"role":"model"},{"role":null,"parts":null}]"#;
    let parsed = parse(list);
    assert!(matches!(parsed.body, Body::List));
    assert_eq!(parsed.indexes, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(roles(&parsed), [Role::User, Role::User, Role::Assistant, Role::User]);
    let states: Vec<ContentState> = parsed.entries.iter().map(|entry| entry.content_state).collect();
    assert_eq!(states, [ContentState::Parts, ContentState::Parts, ContentState::Absent, ContentState::Null]);
    assert_eq!(parsed.entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let body = format!(r#"{{"model":"m","contents":{list}}}"#);
    let parsed = parse(&body);
    assert!(matches!(&parsed.body, Body::Object { raw, key: "contents" } if **raw == *body));
    let options = ParseOptions { take: Some(2), ..ParseOptions::default() };
    assert_eq!(Wire::Gemini.parse(json::check(list).unwrap(), &options).unwrap().entries.len(), 2);
}

#[test]
fn the_system_instruction_is_the_first_entry() {
    for key in ["systemInstruction", "system_instruction"] {
        let value = r#"{ "role":"user", "parts":[{"text":"Be brief."}] }"#;
        let parsed = parse(&format!(r#"{{"contents":[{{"parts":[{{"text":"hi"}}]}}],"{key}":{value}}}"#));
        let system = parsed.entries.first().unwrap();
        assert_eq!((system.role, &*system.origin.raw, system.sequence), (Role::System, value, 0));
        assert_eq!(system.content().as_deref(), Some("Be brief."));
        assert_eq!((parsed.entries.len(), parsed.entries.last().unwrap().sequence), (2, 1));
    }
    let single = r#"{"parts":{"text":"Be brief."}}"#;
    let system = read_system(json::check(single).unwrap(), &At::Body).unwrap();
    assert_eq!((system.role, system.content().as_deref()), (Role::System, Some("Be brief.")));
}

#[test]
fn what_is_none_is_said_with_its_place() {
    let user = |parts: &str| format!(r#"[{{}},{{"role":"user","parts":{parts}}}]"#);
    let cases = [
        ("1".into(), "bad_input", ""),
        ("{}".into(), "bad_input", ""),
        (r#"{"contents":{}}"#.into(), "bad_input", "/contents"),
        ("[1]".into(), "bad_message", "/contents/0"),
        (r#"[{"role":1}]"#.into(), "bad_message", "/contents/0/role"),
        (r#"[{"role":"tool"}]"#.into(), "bad_message", "/contents/0/role"),
        (user("\"x\""), "bad_message", "/contents/1/parts"),
        (user("[1]"), "bad_message", "/contents/1/parts/0"),
        (user(r#"[{"text":1}]"#), "bad_message", "/contents/1/parts/0/text"),
        (user(r#"[{"functionCall":1}]"#), "bad_message", "/contents/1/parts/0/functionCall"),
        (user(r#"[{"function_call":{"id":1}}]"#), "bad_message", "/contents/1/parts/0/function_call/id"),
        (
            user(r#"[{"text":"a"},{"functionResponse":[]}]"#),
            "bad_message",
            "/contents/1/parts/1/functionResponse",
        ),
        (
            user(r#"[{"functionResponse":{"parts":1}}]"#),
            "bad_message",
            "/contents/1/parts/0/functionResponse/parts",
        ),
        (user(r#"[{"text":"a","text":"b"}]"#), "bad_json", "/contents/1/parts/0"),
        (r#"[{"parts":[],"parts":[]}]"#.into(), "bad_json", "/contents/0"),
        (r#"{"contents":[],"systemInstruction":1}"#.into(), "bad_message", "/systemInstruction"),
    ];
    for (body, code, path) in cases {
        let error = try_parse(&body).unwrap_err();
        assert_eq!((error.code(), error.path()), (code, path), "{body}: {error}");
    }
    let error = try_parse(r#"[{"role":"tool"}]"#).unwrap_err().to_string();
    assert!(error.contains("user, model, function or system"), "{error}");
}

#[test]
fn texts_and_thoughts_are_told_apart() {
    let BlockKind::Text(text) = block("model", r#"{"text":"a\u00e9","thoughtSignature":"c2ln"}"#).kind else {
        unreachable!()
    };
    assert_eq!(text.as_str(), "aé");
    let part = r#"{"thought":true,"text":"hm","thought_signature":"c2ln"}"#;
    let BlockKind::Reasoning(thought) = block("model", part).kind else { unreachable!() };
    assert_eq!(thought.text.unwrap().as_str(), "hm");
    assert_eq!(thought.signature.unwrap().as_str(), "c2ln");
    let plain = block("model", r#"{"thought":false,"text":"hm"}"#);
    assert!(matches!(plain.kind, BlockKind::Text(_)));
}

#[test]
fn calls_keep_their_arguments_as_they_were_written() {
    let cases = [
        (r#"{"functionCall":{"name":"f","args":{"n": 1.0}}}"#, r#"{"n": 1.0}"#),
        (r#"{"function_call":{"name":"f"}}"#, "{}"),
        (r#"{"functionCall":{"name":"f","args":{"__raw":"{\"a\":"}}}"#, r#"{"a":"#),
        (r#"{"functionCall":{"name":"f","args":{"__raw":"x","y":1}}}"#, r#"{"__raw":"x","y":1}"#),
        (r#"{"functionCall":{"name":"f","args":{"__raw":1}}}"#, r#"{"__raw":1}"#),
    ];
    for (part, arguments) in cases {
        let BlockKind::ToolCall(call) = block("model", part).kind else { unreachable!() };
        assert_eq!((call.name.as_str().as_ref(), call.arguments.as_str().as_ref()), ("f", arguments));
    }
    let signed = r#"{"functionCall":{"id":"c1","name":"f"},"thoughtSignature":"c2ln"}"#;
    let BlockKind::ToolCall(call) = block("model", signed).kind else { unreachable!() };
    assert_eq!(call.signature.unwrap().as_str(), "c2ln");
    assert_eq!(call.call_id.unwrap().as_str(), "c1");
}

#[test]
fn responses_say_what_their_one_key_says() {
    use ContentState::{Absent, Null, Text};
    let cases = [
        (r#""response":{"output":"4 \u00b0C"}"#, Some("4 °C"), None, Text),
        (r#""response":{"result":"x"}"#, Some("x"), None, Text),
        (r#""response":{"error":"no such city"}"#, Some("no such city"), Some(true), Text),
        (r#""response":{"output":"a","error":"b"}"#, Some(r#"{"output":"a","error":"b"}"#), None, Text),
        (r#""response":{"output": 4.0}"#, Some(r#"{"output": 4.0}"#), None, Text),
        (r#""response":{}"#, Some("{}"), None, Text),
        (r#""response":"bare""#, Some("bare"), None, Text),
        (r#""response":null"#, None, None, Null),
        (r#""name":"f""#, None, None, Absent),
    ];
    for (inner, said, is_error, state) in cases {
        let entry = entry("user", &format!(r#"{{"functionResponse":{{"id":"c1",{inner}}}}}"#));
        assert_eq!(entry.role, Role::Tool, "{inner}");
        assert_eq!(entry.tool_result().unwrap().is_error, is_error, "{inner}");
        assert_eq!((entry.content().as_deref(), entry.content_state), (said, state), "{inner}");
        assert_eq!(entry.tool_call_id().as_deref(), Some("c1"));
    }
    let media = r#"{"function_response":{"name":"f","response":{"output":"see"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"x":1}]}}"#;
    let entry = entry("function", media);
    let result = entry.tool_result().unwrap();
    assert!(matches!(
        &*result.content,
        [
            Block { kind: BlockKind::Text(_), raw: None, .. },
            Block { kind: BlockKind::Media(_), raw: Some(_), .. },
            Block { kind: BlockKind::Opaque(_), .. }
        ]
    ));
    assert_eq!((entry.tool_name().as_deref(), entry.content_state), (Some("f"), ContentState::Parts));
}

#[test]
fn media_is_inline_open_or_kept() {
    let media = |part: &str| match block("user", part).kind {
        BlockKind::Media(media) => *media,
        other => unreachable!("{other:?}"),
    };
    let image = media(r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}}"#);
    assert_eq!((image.kind, image.mime.as_deref()), (MediaKind::Image, Some("image/png")));
    assert!(matches!(image.source, Some(MediaSource::Inline(data)) if data.as_str() == "AA=="));
    let sound = media(r#"{"inline_data":{"mime_type":"audio/wav","data":"AA=="}}"#);
    assert_eq!(sound.kind, MediaKind::Audio);
    let place =
        |uri: &str| media(&format!(r#"{{"fileData":{{"fileUri":"{uri}","mimeType":"video/mp4"}}}}"#)).source;
    assert!(matches!(place("https://www.youtube.com/watch?v=x"), Some(MediaSource::Url(_))));
    assert!(matches!(place("gs://bucket/a.mp4"), Some(MediaSource::File(_))));
    let kept = place("https://generativelanguage.googleapis.com/v1beta/files/a");
    assert!(matches!(kept, Some(MediaSource::File(_))));
    let file = media(
        r#"{"file_data":{"file_uri":"gs://b/a.pdf","mime_type":"application/pdf","display_name":"a.pdf"}}"#,
    );
    assert_eq!((file.kind, file.name.unwrap().as_str().as_ref()), (MediaKind::Document, "a.pdf"));
}

#[test]
fn what_nobody_else_understands_is_kept() {
    for part in [
        r#"{"executableCode":{"language":"PYTHON","code":"1"}}"#,
        r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}"#,
        r#"{"toolCall":{"id":"x"}}"#,
        r#"{"toolResponse":{}}"#,
        r#"{"thoughtSignature":"c2ln"}"#,
        r#"{"somethingNew":[1]}"#,
        "{}",
    ] {
        assert!(
            matches!(block("model", part).kind, BlockKind::Opaque(raw) if raw.as_str() == part),
            "{part}"
        );
    }
}

#[test]
fn every_response_is_an_entry_and_the_rest_is_another() {
    let responses = [r#"{"functionResponse":{"id":"a"}}"#, r#"{"function_response":{"id":"b"}}"#];
    let [a, b] = responses;
    let content = format!(r#"{{ "parts": [{{"text":"x"}}, {a} ,{b},{{"text":"y"}}], "role":"user" }}"#);
    let parsed = parse(&format!(r#"[{{"role":"model"}},{content}]"#));
    assert_eq!(roles(&parsed), [Role::Assistant, Role::Tool, Role::Tool, Role::User]);
    assert_eq!(parsed.indexes, [Some(0), Some(1), Some(1), Some(1)]);
    let raws: Vec<&str> = parsed.entries.iter().skip(1).map(|entry| &*entry.origin.raw).collect();
    let part = |parts: &str| format!(r#"{{ "parts": [{parts}], "role":"user" }}"#);
    assert_eq!(raws, [part(a), part(b), part(r#"{"text":"x"},{"text":"y"}"#)]);
    let parts: Vec<(u32, u32, Vec<u32>)> = parsed
        .entries
        .iter()
        .filter_map(|entry| entry.origin.part.as_deref())
        .map(|part| (part.number, part.of, part.indexes.clone()))
        .collect();
    assert_eq!(parts, [(1, 3, vec![1]), (2, 3, vec![2]), (3, 3, vec![0, 3])]);
    for entry in &parsed.entries {
        let again = read_message(json::check(&entry.origin.raw).unwrap()).unwrap();
        assert_eq!((again.role, &again.blocks), (entry.role, &entry.blocks));
    }
    let whole = format!(r#"{{"role":"user","parts":[ {a} ]}}"#);
    let one = parse(&format!("[{whole}]"));
    assert_eq!((&*one.entries[0].origin.raw, one.entries[0].origin.part.is_none()), (whole.as_str(), true));
}

const CALLS: &str = r#"{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]}"#;

#[test]
fn calls_without_ids_are_paired_by_name_and_order() {
    let responses = r#"{"parts":[{"functionResponse":{"name":"g"}},{"functionResponse":{"name":"f"}},{"functionResponse":{"name":"f"}},{"functionResponse":{"name":"h"}}]}"#;
    let ask = r#"{"parts":[{"text":"hi"}]}"#;
    let parsed = parse(&format!("[{ask},{CALLS},{responses},{CALLS},{ask}]"));
    let some = |id: &str| Some(id.to_string());
    assert_eq!(
        ids(&parsed),
        [
            some("sb_1_0"),
            some("sb_1_1"),
            some("sb_1_2"),
            some("sb_1_1"),
            some("sb_1_0"),
            some("sb_1_2"),
            None,
            some("sb_6_0"),
            some("sb_6_1"),
            some("sb_6_2")
        ]
    );
    assert_eq!(parsed.notes.len(), 1);
    let system = parse(&format!(r#"{{"systemInstruction":{{"parts":[]}},"contents":[{CALLS}]}}"#));
    assert_eq!(ids(&system).first(), Some(&some("sb_1_0")), "positions count the system entry");
}

#[test]
fn ids_that_are_there_are_not_given_twice() {
    let calls = r#"{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}]}"#;
    let mixed = r#"{"parts":[{"functionResponse":{"name":"f"}},{"functionResponse":{"id":"a","name":"f"}}]}"#;
    let parsed = parse(&format!("[{calls},{mixed}]"));
    assert_eq!(ids(&parsed).into_iter().flatten().collect::<Vec<_>>(), ["a", "b", "b", "a"]);
    let named = r#"{"parts":[{"functionResponse":{"id":"b","name":"f"}},{"functionResponse":{"id":"a","name":"f"}}]}"#;
    assert!(parse(&format!("[{calls},{named}]")).notes.is_empty());
}

#[test]
fn tools_are_the_functions_declared() {
    let body = r#"{"tools":[{"functionDeclarations":[{"name":"f",
        "description":"a b"},{"name":"g"}]},{"googleSearch":{}},{"function_declarations":[{"name":"h"}]}],"contents":[]}"#;
    let tools = parse(body).tools.unwrap();
    assert_eq!(tools.names(), ["f", "g", "h"]);
    assert!(parse(r#"{"contents":[]}"#).tools.is_none());
}
