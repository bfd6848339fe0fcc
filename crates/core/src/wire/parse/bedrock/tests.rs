//! What every kind of message and block becomes.
#![allow(clippy::unwrap_used)]

use super::read_message;
use crate::block::{Block, BlockKind, CallStyle, MediaKind, MediaSource};
use crate::entry::{ContentState, Entry, Role};
use crate::json;
use crate::wire::{Body, ParseOptions, Parsed, Wire, WireError};

fn try_parse(body: &str) -> Result<Parsed, WireError> {
    Wire::Bedrock.parse(json::check(body).unwrap(), &ParseOptions::default())
}

fn parse(body: &str) -> Parsed {
    try_parse(body).unwrap()
}

/// The one entry of a message with these blocks.
fn entry(role: &str, blocks: &str) -> Entry {
    let parsed = parse(&format!(r#"[{{"role":"{role}","content":[{blocks}]}}]"#));
    assert_eq!(parsed.entries.len(), 1);
    parsed.entries.into_iter().next().unwrap()
}

fn block(role: &str, json: &str) -> Block {
    let block = entry(role, json).blocks.first().unwrap().clone();
    assert_eq!(block.raw.as_ref().unwrap().as_str(), json);
    block
}

fn roles(parsed: &Parsed) -> Vec<Role> {
    parsed.entries.iter().map(|entry| entry.role).collect()
}

#[test]
fn a_body_is_a_list_or_an_object_with_messages() {
    let list = r#"[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant"},{"role":"system","content":null}]"#;
    let parsed = parse(list);
    assert!(matches!(parsed.body, Body::List));
    assert_eq!(
        (&*parsed.indexes, roles(&parsed)),
        (&[Some(0), Some(1), Some(2)][..], vec![Role::User, Role::Assistant, Role::System])
    );
    let states: Vec<ContentState> = parsed.entries.iter().map(|entry| entry.content_state).collect();
    assert_eq!(states, [ContentState::Parts, ContentState::Absent, ContentState::Null]);
    let body = format!(r#"{{"modelId":"m","messages":{list}}}"#);
    assert!(matches!(parse(&body).body, Body::Object { raw, key: "messages" } if *raw == *body));
    let options = ParseOptions { take: Some(1), ..ParseOptions::default() };
    assert_eq!(Wire::Bedrock.parse(json::check(list).unwrap(), &options).unwrap().entries.len(), 1);
}

#[test]
fn the_system_field_is_the_first_entry() {
    let value = r#"[ {"text":"Be brief."},{"cachePoint":{"type":"default"}} ]"#;
    let parsed = parse(&format!(r#"{{"messages":[{{"role":"user","content":[]}}],"system":{value}}}"#));
    let system = parsed.entries.first().unwrap();
    assert_eq!((system.role, &*system.origin.raw), (Role::System, value));
    assert_eq!(system.content().as_deref(), Some("Be brief."));
    assert!(matches!(system.blocks.last().unwrap().kind, BlockKind::Opaque(_)));
    assert_eq!(&read_message(json::check(value).unwrap()).unwrap().blocks, &system.blocks);
    assert_eq!(parsed.entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_is_none_is_said_with_its_place() {
    let user = |content: &str| format!(r#"[{{"role":"user"}},{{"role":"user","content":{content}}}]"#);
    let cases = [
        ("null".into(), "bad_input", ""),
        ("{}".into(), "bad_input", ""),
        (r#"{"messages":""}"#.into(), "bad_input", "/messages"),
        (r#"{"messages":[],"system":"x"}"#.into(), "bad_message", "/system"),
        ("[[]]".into(), "bad_message", "/messages/0"),
        ("[{}]".into(), "bad_message", "/messages/0/role"),
        (r#"[{"role":"model"}]"#.into(), "bad_message", "/messages/0/role"),
        (user("\"x\""), "bad_message", "/messages/1/content"),
        (user("[1]"), "bad_message", "/messages/1/content/0"),
        (user(r#"[{"text":null}]"#), "bad_message", "/messages/1/content/0/text"),
        (user(r#"[{"toolUse":1}]"#), "bad_message", "/messages/1/content/0/toolUse"),
        (user(r#"[{"toolUse":{"toolUseId":1}}]"#), "bad_message", "/messages/1/content/0/toolUse/toolUseId"),
        (
            user(r#"[{"text":"a"},{"toolResult":{"content":"x"}}]"#),
            "bad_message",
            "/messages/1/content/1/toolResult/content",
        ),
        (
            user(r#"[{"toolResult":{"content":[{"text":1}]}}]"#),
            "bad_message",
            "/messages/1/content/0/toolResult/content/0/text",
        ),
        (user(r#"[{"toolUse":{"name":"a","name":"b"}}]"#), "bad_json", "/messages/1/content/0/toolUse"),
        (user(r#"[{"text":"a","text":"b"}]"#), "bad_json", "/messages/1/content/0"),
        (r#"[{"role":"user","role":"user"}]"#.into(), "bad_json", "/messages/0"),
    ];
    for (body, code, path) in cases {
        let error = try_parse(&body).unwrap_err();
        assert_eq!((error.code(), error.path()), (code, path), "{body}: {error}");
    }
    let error = try_parse(r#"[{"role":"model"}]"#).unwrap_err().to_string();
    assert!(error.contains("user, assistant or system"), "{error}");
}

#[test]
fn calls_keep_their_arguments_as_they_were_written() {
    let cases = [
        (
            r#"{"toolUse":{"toolUseId":"a","name":"f","input":{"n": 1.0}}}"#,
            r#"{"n": 1.0}"#,
            CallStyle::Function,
        ),
        (r#"{"toolUse":{"toolUseId":"a","name":"f"}}"#, "{}", CallStyle::Function),
        (
            r#"{"toolUse":{"toolUseId":"a","name":"f","input":{"__raw":"no \"json"}}}"#,
            r#"no "json"#,
            CallStyle::Function,
        ),
        (
            r#"{"toolUse":{"toolUseId":"a","name":"f","type":"server_tool_use","input":{}}}"#,
            "{}",
            CallStyle::Server,
        ),
    ];
    for (json, arguments, style) in cases {
        let BlockKind::ToolCall(call) = block("assistant", json).kind else { unreachable!() };
        assert_eq!((call.name.as_str().as_ref(), call.arguments.as_str().as_ref()), ("f", arguments));
        assert_eq!((call.call_id.unwrap().as_str().as_ref(), call.style), ("a", style));
    }
}

#[test]
fn results_keep_texts_values_and_media() {
    let content = r#"{"text":"4 \u00b0C"},{"json":{"n": 1.0}},{"image":{"format":"png","source":{"bytes":"AA=="}}},{"searchResult":{}}"#;
    let result = |more: &str| format!(r#"{{"toolResult":{{"toolUseId":"a","content":[{content}]{more}}}}}"#);
    for (more, is_error) in
        [("", None), (r#","status":"error""#, Some(true)), (r#","status":"success""#, Some(false))]
    {
        let entry = entry("user", &result(more));
        assert_eq!((entry.role, entry.tool_result().unwrap().is_error), (Role::Tool, is_error));
        assert_eq!(entry.content().as_deref(), Some("4 °C\n{\"n\": 1.0}"));
        let kinds = entry.tool_result().unwrap().content.iter().map(|block| &block.kind).collect::<Vec<_>>();
        assert!(matches!(
            kinds[..],
            [BlockKind::Text(_), BlockKind::Text(_), BlockKind::Media(_), BlockKind::Opaque(_)]
        ));
        assert_eq!(entry.content_state, ContentState::Parts);
    }
    let silent = |content: &str| entry("user", &format!(r#"{{"toolResult":{{"toolUseId":"a"{content}}}}}"#));
    assert_eq!(silent("").content_state, ContentState::Absent);
    assert_eq!(silent(r#","content":null"#).content_state, ContentState::Null);
    assert_eq!(silent(r#","content":[]"#).content_state, ContentState::Parts);
}

#[test]
fn media_is_inline_or_kept() {
    let media = |json: &str| match block("user", json).kind {
        BlockKind::Media(media) => *media,
        other => unreachable!("{other:?}"),
    };
    let encoded =
        media(r#"{"image":{"format":"jpeg","source":{"bytes":{"__bytes_encoded__":true,"data":"AA=="}}}}"#);
    assert_eq!((encoded.kind, encoded.mime.as_deref()), (MediaKind::Image, Some("image/jpeg")));
    assert!(matches!(encoded.source, Some(MediaSource::Inline(data)) if data.as_str() == "AA=="));
    let video = media(r#"{"video":{"format":"mp4","source":{"s3Location":{"uri":"s3://b/v.mp4"}}}}"#);
    assert_eq!((video.kind, video.mime.as_deref()), (MediaKind::Video, Some("video/mp4")));
    assert!(matches!(video.source, Some(MediaSource::File(uri)) if uri.as_str() == "s3://b/v.mp4"));
    for (format, mime) in [("pdf", "application/pdf"), ("txt", "text/plain"), ("csv", "text/csv")] {
        let json =
            format!(r#"{{"document":{{"format":"{format}","name":"a","source":{{"bytes":"AA=="}}}}}}"#);
        let document = media(&json);
        assert_eq!((document.kind, document.mime.as_deref()), (MediaKind::Document, Some(mime)));
        assert_eq!(document.name.unwrap().as_str(), "a");
    }
    assert_eq!(media(r#"{"audio":{"format":"wav"}}"#).kind, MediaKind::Audio);
}

#[test]
fn reasoning_is_signed_or_hidden() {
    let reasoning = |json: &str| match block("assistant", json).kind {
        BlockKind::Reasoning(reasoning) => *reasoning,
        other => unreachable!("{other:?}"),
    };
    let open = reasoning(r#"{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}}"#);
    assert_eq!(open.text.unwrap().as_str(), "hm");
    assert_eq!((open.signature.unwrap().as_str().as_ref(), open.redacted), ("s", false));
    for json in [
        r#"{"reasoningContent":{"redactedContent":"AA=="}}"#,
        r#"{"reasoningContent":{"redactedContent":{"__bytes_encoded__":true,"data":"AA=="}}}"#,
    ] {
        let hidden = reasoning(json);
        assert_eq!((hidden.encrypted.unwrap().as_str().as_ref(), hidden.redacted), ("AA==", true));
    }
}

#[test]
fn what_nobody_else_understands_is_kept() {
    for json in [
        r#"{"cachePoint":{"type":"default"}}"#,
        r#"{"guardContent":{"text":{"text":"x"}}}"#,
        r#"{"citationsContent":{}}"#,
        r#"{"searchResult":{}}"#,
        r#"{"toolAddition":{}}"#,
        r#"{"toolRemoval":{}}"#,
        r#"{"reasoningContent":{}}"#,
        r#"{"toolResult":{"toolUseId":"of the provider's own tool"}}"#,
        "{}",
    ] {
        let kind = block("assistant", json).kind;
        assert!(matches!(kind, BlockKind::Opaque(raw) if raw.as_str() == json), "{json}");
    }
}

#[test]
fn every_result_is_an_entry_and_the_rest_is_another() {
    let (a, b) = (r#"{"toolResult":{"toolUseId":"a"}}"#, r#"{"toolResult":{"toolUseId": "b"}}"#);
    let message = format!(r#"{{"role":"user", "content" : [{a}, {{"text":"x"}},{b}],"x":1.0}}"#);
    let parsed = parse(&format!(r#"[{{"role":"assistant"}},{message}]"#));
    assert_eq!(roles(&parsed), [Role::Assistant, Role::Tool, Role::Tool, Role::User]);
    assert_eq!(parsed.indexes, [Some(0), Some(1), Some(1), Some(1)]);
    let raws: Vec<&str> = parsed.entries.iter().skip(1).map(|entry| &*entry.origin.raw).collect();
    let part = |blocks: &str| format!(r#"{{"role":"user", "content" : [{blocks}],"x":1.0}}"#);
    assert_eq!(raws, [part(a), part(b), part(r#"{"text":"x"}"#)]);
    let parts: Vec<(u32, u32, Vec<u32>)> = parsed
        .entries
        .iter()
        .filter_map(|entry| entry.origin.part.as_deref())
        .map(|part| (part.number, part.of, part.indexes.clone()))
        .collect();
    assert_eq!(parts, [(1, 3, vec![0]), (2, 3, vec![2]), (3, 3, vec![1])]);
    for entry in &parsed.entries {
        let again = read_message(json::check(&entry.origin.raw).unwrap()).unwrap();
        assert_eq!((again.role, &again.blocks), (entry.role, &entry.blocks));
    }
    let whole = format!(r#"{{"content":[ {a} ],"role":"user"}}"#);
    let one = parse(&format!("[{whole}]"));
    assert_eq!((&*one.entries[0].origin.raw, one.entries[0].origin.part.is_none()), (whole.as_str(), true));
}

#[test]
fn tools_are_the_specs() {
    let body = r#"{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"cachePoint":{}},{"toolSpec":{"name":"g"}}]},"messages":[]}"#;
    assert_eq!(parse(body).tools.unwrap().names(), ["f", "g"]);
    assert!(parse(r#"{"messages":[]}"#).tools.is_none());
}
