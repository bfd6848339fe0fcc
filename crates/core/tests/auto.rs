//! `auto` plans as its specification says: the reference's cases, the worked example, and what holds for every plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::path::Path;

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, CurationError, ItemSource, Record, ViewItem, json, manager};
use serde_json::{Value, json};

fn context() -> CurationContext {
    let model = scrollback_core::model::ModelName::parse("openai:gpt-4o").unwrap();
    CurationContext::for_model(Some(model))
}

fn append(record: &mut Record, messages: &[Value]) {
    let text = Value::from(messages.to_vec()).to_string();
    let parsed = Wire::OpenaiChat.parse(json::check(&text).unwrap(), &ParseOptions::default()).unwrap();
    for entry in parsed.entries {
        let sequence = record.message_count() as u64;
        record.append(entry.stamped(uuid::Uuid::nil(), sequence, scrollback_core::Time::default())).unwrap();
    }
}

/// A view as the cases write it: positions of whole entries, and ledgers.
fn told(items: &[ViewItem]) -> Vec<Value> {
    let one = |item: &ViewItem| match &item.source {
        ItemSource::Entry(position) => json!(position),
        ItemSource::Ledger { .. } => json!({ "ledger": item.entry.content().unwrap() }),
        other => panic!("nothing else is shown: {other:?}"),
    };
    items.iter().map(one).collect()
}

/// Plays a conversation as one that grows, and compares every call.
fn play(case: &Value, manager: &str) -> usize {
    let (id, messages) = (&case["id"], case["messages"].as_array().unwrap());
    let manager = manager::parse(manager).unwrap();
    let (mut record, mut cuts, mut had) = (Record::new(), 0, 0);
    for call in case["calls"].as_array().unwrap() {
        let at = call["at"].as_u64().unwrap() as usize;
        append(&mut record, &messages[had..at]);
        had = at;
        cuts += usize::from(call["cut"] == true);
        let (cx, tokens) = (context(), call["tokens"].as_u64().unwrap() as usize);
        match record.view(&cx, manager.as_ref()) {
            Err(CurationError::BudgetTooSmall { needed, .. }) => assert_eq!(needed, tokens, "{id} at {at}"),
            Err(other) => panic!("{id} at {at}: {other}"),
            Ok(view) => {
                let items: Vec<ViewItem> = view.items().collect();
                if let Some(wanted) = call["view"].as_array() {
                    assert_eq!(&told(&items), wanted, "{id} at {at}");
                }
                assert_eq!(items.len() as u64, call["length"].as_u64().unwrap(), "{id} at {at}: entries");
                assert_eq!(view.tokens(&cx), tokens, "{id} at {at}: tokens");
            }
        }
    }
    cuts
}

#[test]
fn the_cuts_views_ledgers_and_tokens_are_those_of_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/auto.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("no cases at {}: nothing was tried", path.display());
        return;
    };
    let (mut cuts, mut failed) = (0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let played = std::panic::catch_unwind(|| play(&case, &format!("auto({})", case["limit"])));
        match played {
            Ok(more) => cuts += more,
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "conversations that went another way");
    assert_eq!(cuts, 78);
}
