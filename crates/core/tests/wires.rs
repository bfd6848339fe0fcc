//! What wires promise: bytes survive, views are valid, prefixes are stable, repair always ends valid.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::path::Path;

use crate::support::{Said, cases, history, manager_text, squeezed, sticky_text, wishes};
use proptest::prelude::*;
use scrollback_core::wire::check::{CheckOptions, Strictness, Violation, check};
use scrollback_core::wire::repair::repair;
use scrollback_core::wire::{ParseOptions, Parsed, RenderOptions, Wire, list_key};
use scrollback_core::{
    Entry, Fidelity, ItemSource, Record, SUMMARY_HEADING, Time, Unfinished, ViewItem, json, manager,
    settle_offline,
};
use serde_json::Value;

/// The wires that a provider speaks.
const PROVIDERS: [Wire; 5] =
    [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini, Wire::Bedrock];

fn parse(wire: Wire, body: &str) -> Parsed {
    let raw = json::check(body).unwrap();
    wire.parse(raw, &ParseOptions::default()).unwrap_or_else(|error| panic!("{wire}: {error}\n{body}"))
}

/// The entries of a body, as they are.
fn items(parsed: &Parsed) -> Vec<ViewItem> {
    (0..)
        .zip(&parsed.entries)
        .map(|(position, entry)| ViewItem {
            source: ItemSource::Entry(position),
            entry: std::sync::Arc::new(entry.clone()),
            fidelity: Fidelity::AsSaid,
        })
        .collect()
}

fn fatal(wire: Wire, body: &str) -> Vec<Violation> {
    let violations = check(wire, json::check(body).unwrap(), CheckOptions::default());
    violations.into_iter().filter(|violation| violation.is_fatal(Strictness::Strict)).collect()
}

fn assert_valid(wire: Wire, body: &str, what: &str) {
    let found = fatal(wire, body);
    assert!(found.is_empty(), "{what} on {wire}: {found:#?}\n{body}");
}

/// The texts of every fixture body, with wire and file name; those that are too long to be written out are left out.
fn corpus() -> Vec<(String, Wire, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let fixture = json::check(&text).unwrap();
        if fixture.get("grow").is_some() {
            continue;
        }
        let wire = Wire::named(&fixture.get("wire").unwrap().string().unwrap()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found.push((name, wire, fixture.get("body").unwrap().text().to_string()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn assert_faithful(wire: Wire, body: &str, what: &str) {
    let parsed = parse(wire, body);
    let rendered = wire.render(items(&parsed), RenderOptions::default());
    let printed = rendered.body(wire, Some(&parsed.body));
    assert_eq!(squeezed(&printed), squeezed(body), "{what}");
    assert!(rendered.lost.is_empty(), "{what}: {:?}", rendered.lost);
}

#[test]
fn every_fixture_survives_parsing_and_rendering_byte_for_byte() {
    for (name, wire, body) in corpus() {
        assert_faithful(wire, &body, &name);
    }
}

#[test]
fn spelling_survives_on_every_wire() {
    let bodies = [
        (
            Wire::OpenaiChat,
            r#"{"z":1e3,"messages":[{"content":null,"role":"assistant","tool_calls":null,"x":[1.0,{"b":"\u00e9","a":-0}]},{"role":"user","content":"","name":"\/n"}],"a":{}}"#,
        ),
        (Wire::OpenaiChat, r#"{"\u006dessages":[{"role":"user","content":"x"}],"\/":1}"#),
        (Wire::OpenaiResponses, r#"{"input":"h\u00e9","instructions":"\/s","x":1.50}"#),
        (Wire::OpenaiResponses, r#"{"input":"x","instructions":{"id":"p"}}"#),
        (
            Wire::OpenaiResponses,
            r#"{"instructions":null,"input":[{"content":[],"role":"user"},{"type":"reasoning","summary":[],"id":"rs_1","x":1E5},{"type":"function_call","arguments":"{\"a\": 1}","call_id":"c","name":"f"},{"type":"web_search_call","id":"w","y":null},{"output":null,"type":"function_call_output","call_id":"c"},{"type":"unknown_thing","q":[0.10]}]}"#,
        ),
        (
            Wire::Anthropic,
            r#"{"messages":[{"content":[{"text":"a","type":"text","n":1.0},{"tool_use_id":"t1","type":"tool_result"},{"type":"text","text":"\u0062"},{"content":[{"type":"text","text":"r"}],"type":"tool_result","tool_use_id":"t2","is_error":false}],"role":"user","k":1e1}],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]}"#,
        ),
        (
            Wire::Gemini,
            r#"{"contents":[{"parts":[{"text":"a"},{"functionResponse":{"name":"f","response":{"x":1.0}}},{"function_response":{"name":"g","response":{}}}],"role":"user"},{"role":"model","parts":[]}],"system_instruction":{"parts":[{"text":"s"}]}}"#,
        ),
        (
            Wire::Anthropic,
            r#"{"messages":[{"role":"user","c\u006fntent":[{"type":"tool_result","tool_use_id":"t"},{"type":"text","text":"a"}],"\/":1}]}"#,
        ),
        (
            Wire::Gemini,
            r#"{"contents":[{"parts":[{"text":"a"}]},{"role":"system","parts":[{"x":1}]},{"role":"model","parts":[{"text":"b"}]}]}"#,
        ),
        (
            Wire::Bedrock,
            r#"{"messages":[{"role":"user","content":[{"text":"a"},{"toolResult":{"toolUseId":"t","content":[{"json":{"n":1.0}}]}},{"cachePoint":{"type":"default"}}]},{"role":"user","content":[{"text":"b"}]}],"system":[{"text":"s"}],"q":null}"#,
        ),
    ];
    for (wire, body) in bodies {
        assert_faithful(wire, body, body);
    }
}

#[test]
fn every_broken_fixture_is_repaired_once_and_for_all() {
    for (name, wire, body) in corpus() {
        let raw = json::check(&body).unwrap();
        let options = CheckOptions::default();
        let once = repair(wire, raw, options, Strictness::Strict);
        assert!(once.left.is_empty(), "{name}: {:#?}\n{}", once.left, once.body);
        assert_valid(wire, &once.body, &name);
        let again = repair(wire, json::check(&once.body).unwrap(), options, Strictness::Strict);
        assert_eq!(again.body, once.body, "{name}: repairing twice");
        assert!(again.repairs.is_empty(), "{name}");
        if fatal(wire, &body).is_empty() {
            assert_eq!(once.body, body, "{name}: a valid body is not touched");
        } else {
            assert!(!once.repairs.is_empty(), "{name}");
        }
    }
}

/// The smallest repair there is: what must still stand afterwards, word for word, and what must be gone.
#[test]
fn repair_takes_away_no_more_than_it_must() {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let long = "x".repeat(70);
    let long_call = call.replace("ID", &long);
    let cases: [(Wire, String, &[&str], &str); 9] = [
        (Wire::Anthropic, r#"[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"functions.read:0","name":"read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions.read:0","content":"one"}]}]"#.into(), &["\"one\"", "\"read\"", "functions_read_0_"], "functions.read:0"),
        (Wire::Anthropic, r#"[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"n":1}},{"type":"tool_use","id":"a","name":"f","input":{"n":2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"first"},{"type":"tool_result","tool_use_id":"a","content":"second"}]}]"#.into(), &["{\"n\":1}", "{\"n\":2}", "first", "second"], "interrupted"),
        (Wire::Anthropic, r#"[{"role":"user","content":"go"},{"role":"assistant","content":"  "},{"role":"user","content":"still there?"}]"#.into(), &["go", "still there?"], "\"  \""),
        (Wire::OpenaiChat, format!(r#"[{long_call},{{"role":"tool","tool_call_id":"{long}","content":"here"}}]"#), &["here", "xxxx_"], &long),
        (Wire::OpenaiChat, format!(r#"[{},{{"role":"user","content":"wait"}},{{"role":"tool","tool_call_id":"a","content":"late"}}]"#, call.replace("ID", "a")), &["late", "wait"], "interrupted"),
        (Wire::OpenaiChat, format!(r#"[{},{{"role":"user","content":"wait"}}]"#, call.replace("ID", "a")), &["interrupted", "wait", "\"a\""], "\u{0}"),
        (Wire::OpenaiChat, r#"[{"role":"user","content":"x","k":1.0},{"role":"assistant","content":"y","tool_calls":[],"z":[1e2]}]"#.into(), &["\"k\":1.0", "\"z\":[1e2]", "\"y\""], "tool_calls"),
        (Wire::Gemini, r#"[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"x":1.0}}},{"text":"more"}]}]"#.into(), &["{\"x\":1.0}", "more"], "interrupted"),
        (Wire::Bedrock, r#"[{"role":"user","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]},{"role":"assistant","content":[{"text":" "},{"text":"c"}]}]"#.into(), &["\"a\"", "\"b\"", "\"c\""], "\" \""),
    ];
    for (wire, body, kept, gone) in cases {
        let repaired = repair(wire, json::check(&body).unwrap(), CheckOptions::default(), Strictness::Strict);
        assert!(repaired.left.is_empty() && !repaired.repairs.is_empty(), "{wire}: {body}");
        assert_valid(wire, &repaired.body, "repaired");
        for part in kept {
            assert!(repaired.body.contains(part), "{part} is gone from {}", repaired.body);
        }
        assert!(!repaired.body.contains(gone), "{gone} is still in {}", repaired.body);
    }
}

#[test]
fn what_is_valid_on_one_wire_is_valid_on_every_other() {
    for (name, from, body) in corpus() {
        if !fatal(from, &body).is_empty() {
            continue;
        }
        let parsed = parse(from, &body);
        for to in PROVIDERS {
            if to == from {
                continue;
            }
            let options = RenderOptions { tools: parsed.tools.as_ref(), ..RenderOptions::default() };
            let rendered = to.render(items(&parsed), options);
            // What the provider holds, or runs on its own, is not in the body.
            let elsewhere = [
                "previous_response_id",
                "\"conversation\"",
                "cachedContent",
                "\"thread\"",
                "\"async\"",
                "item_reference",
            ];
            if !elsewhere.iter().any(|sign| body.contains(sign)) {
                assert_valid(to, &rendered.body(to, None), &format!("{name} as {to}: {body}"));
            }
        }
    }
}

/// A random history as a body of a wire.
fn body_of(wire: Wire, history: &[Said]) -> String {
    let parsed = Parsed::of_chat(history);
    wire.render(items(&parsed), RenderOptions::default()).body(wire, None)
}

trait OfChat {
    fn of_chat(history: &[Said]) -> Parsed;
}

impl OfChat for Parsed {
    fn of_chat(history: &[Said]) -> Parsed {
        let body = Value::Array(history.iter().map(Said::to_json).collect()).to_string();
        parse(Wire::OpenaiChat, &body)
    }
}

fn provider() -> impl Strategy<Value = Wire> {
    prop::sample::select(PROVIDERS.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(10_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant 5: whatever was said, on whatever wire, any manager's view is valid on any wire.
    #[test]
    fn every_view_is_valid_on_every_wire(
        history in history(24), text in manager_text(), wishes in wishes(), from in provider(), to in provider()
    ) {
        let cx = wishes.context();
        let manager = manager::parse(&text).unwrap();
        let parsed = parse(from, &body_of(from, &history));
        let mut record = parsed.into_record().unwrap();
        settle_offline(&mut record, &cx, &*manager, Time::default()).unwrap();
        let Ok(view) = record.view(&cx, &*manager) else { return Ok(()) };
        let rendered = view.render(to, &cx);
        let body = rendered.body(to, None);
        assert_valid(to, &body, "view");
        assert_says_all(to, &body, &view.items().collect::<Vec<_>>());
        // Rendering leaves nothing to repair but an empty reply, which came that way.
        let repaired = rendered.repairs.iter().find(|repair| repair.rule != "OC-5");
        prop_assert!(repaired.is_none(), "{from} to {to} {text}: {repaired:?}\n{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant 6: within an epoch each request starts with the bytes of the one before.
    #[test]
    fn within_an_epoch_requests_only_grow(
        history in history(24), text in prop_oneof![Just("passthrough".to_string()), sticky_text()],
        from in provider(), to in provider()
    ) {
        let cx = crate::support::Wishes { system: true, task: true, last: None, unfinished: Unfinished::Drop }.context();
        let manager = manager::parse(&text).unwrap();
        let mut before: Option<(Option<u64>, Option<String>, Vec<String>)> = None;
        let mut record = Record::new();
        for entry in parse(from, &body_of(from, &history)).entries {
            record.append(entry).unwrap();
            let Ok(view) = record.view(&cx, &*manager) else { before = None; continue };
            let epoch = view.epoch().map(|epoch| epoch.id);
            let late = view.warnings().iter().any(|warning| warning.code == "late_result");
            let rendered = view.render(to, &cx);
            if let Some((old_epoch, system, messages)) = &before
                && *old_epoch == epoch && !late && *system == rendered.system
            {
                prop_assert!(
                    continues(messages, &rendered.messages),
                    "{from} to {to} {text}\n{messages:#?}\n{:#?}", rendered.messages
                );
            }
            before = Some((epoch, rendered.system, rendered.messages));
        }
    }

    /// Lists broken at random always become valid, and stay as they are from then on.
    #[test]
    fn broken_lists_always_become_valid(
        history in history(16), wire in provider(), harms in prop::collection::vec((any::<u16>(), 0u8..12), 0..6)
    ) {
        let mut body: Value = serde_json::from_str(&body_of(wire, &history)).unwrap();
        for (place, harm) in harms {
            crate::support::break_list(&mut body[list_key(wire)], usize::from(place), harm);
        }
        let text = body.to_string();
        let Ok(_) = wire.parse(json::check(&text).unwrap(), &ParseOptions::default()) else { return Ok(()) };
        let once = repair(wire, json::check(&text).unwrap(), CheckOptions::default(), Strictness::Strict);
        prop_assert!(once.left.is_empty(), "{wire}: {:#?}\n{}\nfrom {text}", once.left, once.body);
        assert_valid(wire, &once.body, &text);
        let again = repair(wire, json::check(&once.body).unwrap(), CheckOptions::default(), Strictness::Strict);
        prop_assert_eq!(again.body, once.body);
    }

    /// The neutral form gives back the very record.
    #[test]
    fn the_neutral_form_loses_nothing(history in history(16), from in provider(), text in manager_text()) {
        let cx = crate::support::Wishes { system: true, task: true, last: None, unfinished: Unfinished::Drop }.context();
        let mut record = parse(from, &body_of(from, &history)).into_record().unwrap();
        let _ = settle_offline(&mut record, &cx, &*manager::parse(&text).unwrap(), Time(1_000));
        let body = format!("{{\"scrollback\":1,\"entries\":[{}]}}", scrollback_core::wire::neutral(&record).join(","));
        let read = parse(Wire::Scrollback, &body).into_record().unwrap();
        prop_assert_eq!(scrollback_core::wire::neutral(&read), scrollback_core::wire::neutral(&record));
        let shown = |record: &Record| record.view(&cx, &scrollback_core::manager::Passthrough).unwrap().render(from, &cx).messages;
        prop_assert_eq!(shown(&read), shown(&record));
    }
}

/// Panics unless a request says every text of the items, and makes every call and gives every result as often.
fn assert_says_all(wire: Wire, body: &str, items: &[ViewItem]) {
    let count = |entries: &mut dyn Iterator<Item = &Entry>| {
        let (mut said, mut calls, mut results) = (String::new(), 0, 0);
        for entry in entries {
            calls += entry.tool_calls().count();
            results += usize::from(entry.tool_result().is_some());
            for text in entry.texts() {
                said.push_str(&text.as_str());
                said.push('\n');
            }
        }
        (said, calls, results)
    };
    let sent = parse(wire, body);
    let (said, calls, results) = count(&mut sent.entries.iter());
    let (_, wanted_calls, wanted_results) = count(&mut items.iter().map(|item| &*item.entry));
    assert_eq!((calls, results), (wanted_calls, wanted_results), "{wire}: {body}");
    for text in items.iter().flat_map(|item| item.entry.texts()) {
        let text = text.as_str();
        let text = text.strip_prefix(SUMMARY_HEADING).unwrap_or(&text).trim();
        assert!(said.contains(text), "{wire}: {text:?} is not in {body}");
    }
}

/// Whether a list of messages goes on where another ended: the same messages, the last of which may have grown.
fn continues(before: &[String], after: &[String]) -> bool {
    let Some((last, rest)) = before.split_last() else { return true };
    let Some(grown) = after.get(rest.len()) else { return false };
    let open = last.strip_suffix("]}").unwrap_or(last);
    after.starts_with(rest) && grown.starts_with(open)
}
