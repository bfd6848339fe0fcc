//! Signed reasoning, simulated: each block carries a hash of everything before it, as a provider that binds it would
//! check. No view may hold a block whose hash no longer fits, nor one whose predecessor is gone.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::support::{cases, manager_text, wishes};
use proptest::prelude::*;
use scrollback_core::model::ModelName;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Reason, json, manager};
use serde_json::{Value, json};

/// One exchange of a conversation with a model that thinks.
#[derive(Clone, Debug)]
enum Step {
    Ask(String),
    Think { text: Option<String>, calls: u8, answered: bool, ids: Ids },
}

/// How the ids of calls look.
#[derive(Clone, Copy, Debug)]
enum Ids {
    Plain,
    /// With characters that the provider refuses.
    Odd,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => "[a-e]{1,6}|[a-e]{1,6}|[a-e]{1,6}| ".prop_map(Step::Ask),
        3 => (prop::option::of("[a-e]{1,6}"), 0u8..3, prop::bool::weighted(0.9), prop::bool::weighted(0.1))
            .prop_map(|(text, calls, answered, odd)| {
                Step::Think { text, calls, answered, ids: if odd { Ids::Odd } else { Ids::Plain } }
            }),
    ];
    prop::collection::vec(step, 0..14)
}

/// The hash of a prefix, cache marks left out, in the guise of a signature.
fn signature(system: &Value, messages: &[Value]) -> String {
    let mut hasher = DefaultHasher::new();
    system.to_string().hash(&mut hasher);
    for message in messages {
        message.to_string().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// The conversation as its provider would have seen it grow, every thought signed over what came before.
fn conversation(steps: &[Step]) -> Value {
    let system = json!("Be brief.");
    let mut messages = vec![json!({ "role": "user", "content": "begin" })];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Ask(text) => messages.push(json!({ "role": "user", "content": text })),
            Step::Think { text, calls, answered, ids } => {
                let signature = signature(&system, &messages);
                let mut content =
                    vec![json!({ "type": "thinking", "thinking": "hm", "signature": signature })];
                content.extend(text.iter().map(|text| json!({ "type": "text", "text": text })));
                let between = if matches!(ids, Ids::Odd) { '.' } else { '_' };
                let ids: Vec<String> =
                    (0..*calls).map(|call| format!("toolu{between}{number}_{call}")).collect();
                content.extend(
                    ids.iter().map(|id| json!({ "type": "tool_use", "id": id, "name": "f", "input": {} })),
                );
                if content.len() == 1 {
                    content.push(json!({ "type": "text", "text": "so" }));
                }
                messages.push(json!({ "role": "assistant", "content": content }));
                if !ids.is_empty() && *answered {
                    let results: Vec<Value> = ids
                        .iter()
                        .map(|id| json!({ "type": "tool_result", "tool_use_id": id, "content": "result ".repeat(9) }))
                        .collect();
                    messages.push(json!({ "role": "user", "content": results }));
                }
            }
        }
    }
    json!({ "system": system, "messages": messages })
}

/// Every thought in a request must be signed over exactly what stands before it there.
fn assert_bound(system: Option<&str>, messages: &[String]) -> usize {
    let system: Value = system.map_or(Value::Null, |system| serde_json::from_str(system).unwrap());
    let messages: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    let mut thoughts = 0;
    for (index, message) in messages.iter().enumerate() {
        for block in
            message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "thinking")
        {
            thoughts += 1;
            assert_eq!(
                block["signature"],
                signature(&system, &messages[..index]),
                "message {index} of {messages:#?}"
            );
        }
    }
    thoughts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(3_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_view_keeps_reasoning_that_its_provider_would_refuse(steps in steps(), text in manager_text(), wishes in wishes()) {
        let body = conversation(&steps).to_string();
        let parsed = Wire::Anthropic.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
        let record = parsed.into_record().unwrap();
        for model in [None, Some(ModelName::parse("anthropic:claude-fable-5-2").unwrap())] {
            let cx = CurationContext { summaries: scrollback_core::Summaries::InPlace, model, ..wishes.context() };
            let Ok(view) = record.view(&cx, &*manager::parse(&text).unwrap()) else { continue };
            let rendered = view.render(Wire::Anthropic, &cx);
            assert_bound(rendered.system.as_deref(), &rendered.messages);
            // What is gone is told.
            let kept = rendered.messages.iter().filter(|message| message.contains("\"thinking\"")).count();
            let shown = view.items().filter(|item| item.entry.origin.raw.contains("\"thinking\"")).count();
            let told = rendered.left_out.iter().filter(|left| left.reason == Reason::BoundReasoning).count();
            prop_assert_eq!(kept + told, shown);
            // The check, told what was sent before, finds nothing either.
            let options = CheckOptions { previous: Some(json::check(&body).unwrap()), ..CheckOptions::default() };
            let after = rendered.body(Wire::Anthropic, None);
            let broken: Vec<_> = check(Wire::Anthropic, json::check(&after).unwrap(), options)
                .into_iter()
                .filter(|violation| matches!(violation.rule, "AN-34" | "AN-35"))
                .collect();
            prop_assert!(broken.is_empty(), "{broken:#?}");
        }
    }
}

#[test]
fn reasoning_of_models_that_do_not_bind_it_stays() {
    let steps = vec![Step::Think { text: Some("a".into()), calls: 1, answered: true, ids: Ids::Plain }; 4];
    let body = conversation(&steps).to_string();
    let parsed = Wire::Anthropic.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
    let record = parsed.into_record().unwrap();
    let model = ModelName::parse("anthropic:claude-sonnet-4-5").unwrap();
    let cx = CurationContext { model: Some(model), ..CurationContext::default() };
    let view = record.view(&cx, &*manager::parse("clear_tool_results(1)").unwrap()).unwrap();
    let rendered = view.render(Wire::Anthropic, &cx);
    let thoughts = rendered.messages.iter().filter(|message| message.contains("\"thinking\"")).count();
    assert_eq!(thoughts, 4);
    assert!(rendered.left_out.is_empty());
}

#[test]
fn an_unchanged_conversation_keeps_every_thought() {
    let steps =
        vec![Step::Think { text: None, calls: 2, answered: true, ids: Ids::Plain }, Step::Ask("b".into())];
    let body = conversation(&steps).to_string();
    let parsed = Wire::Anthropic.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
    let record = parsed.into_record().unwrap();
    let cx = CurationContext::default();
    let view = record.view(&cx, &*manager::parse("passthrough").unwrap()).unwrap();
    let rendered = view.render(Wire::Anthropic, &cx);
    assert_eq!(assert_bound(rendered.system.as_deref(), &rendered.messages), 1);
}

#[test]
fn repair_drops_reasoning_from_the_edit_on() {
    let steps = vec![Step::Think { text: Some("a".into()), calls: 1, answered: true, ids: Ids::Plain }; 3];
    let before = conversation(&steps);
    let mut after = before.clone();
    after["messages"][2]["content"][0]["content"] = json!("shortened");
    let (before, after) = (before.to_string(), after.to_string());
    let model = ModelName::parse("anthropic:claude-fable-5-2").unwrap();
    let options = CheckOptions {
        model: Some(&model),
        previous: Some(json::check(&before).unwrap()),
        ..CheckOptions::default()
    };
    let broken = check(Wire::Anthropic, json::check(&after).unwrap(), options);
    assert!(broken.iter().any(|violation| violation.rule == "AN-34"), "{broken:#?}");
    let repaired = scrollback_core::wire::repair::repair(
        Wire::Anthropic,
        json::check(&after).unwrap(),
        options,
        Strictness::Lenient,
    );
    assert!(repaired.left.is_empty(), "{:#?}", repaired.left);
    assert_eq!(repaired.body.matches("\"thinking\":").count(), 1, "{}", repaired.body);
    let parsed =
        Wire::Anthropic.parse(json::check(&repaired.body).unwrap(), &ParseOptions::default()).unwrap();
    assert_eq!(parsed.entries.len(), 8);
}
