//! `auto` plans as its specification says: the reference's cases, the worked example, and what holds for every plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::path::Path;

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, CurationError, ItemSource, Record, View, ViewItem, json, manager};
use serde_json::{Value, json};

/// No model is named, so plans are made by the prices of the specification. Tokens are o200k, as in the cases.
fn context() -> CurationContext {
    CurationContext::default()
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

/// Plays a conversation as one that grows, and compares every call. Returns how often a view was cut.
fn play(case: &Value, manager: &str) -> usize {
    let (id, messages) = (&case["id"], case["messages"].as_array().unwrap());
    let manager = manager::parse(manager).unwrap();
    let (mut record, mut cuts, mut had, mut epoch) = (Record::new(), 0, 0, 0);
    let mut before: Vec<Value> = Vec::new();
    for call in case["calls"].as_array().unwrap() {
        let at = call["at"].as_u64().unwrap() as usize;
        append(&mut record, &messages[had..at]);
        had = at;
        let (cx, tokens) = (context(), call["tokens"].as_u64().unwrap() as usize);
        let view = match record.view(&cx, manager.as_ref()) {
            Ok(view) => view,
            Err(CurationError::BudgetTooSmall { needed, .. }) => {
                assert_eq!(needed, tokens, "{id} at {at}");
                manager.closest(View::of(&record, &cx), &cx)
            }
            Err(other) => panic!("{id} at {at}: {other}"),
        };
        let now = view.epoch().map_or(0, |epoch| epoch.id);
        let items: Vec<ViewItem> = view.items().collect();
        let shown = told(&items);
        // A plan that only leaves out what no call has seen yet breaks no prefix: the reference does not call it a cut.
        let is_broken = !shown.starts_with(&before);
        let is_cut = call["cut"] == true;
        assert!(
            if is_cut { now > epoch } else { !is_broken },
            "{id} at {at}: cut {is_cut}, broken {is_broken}"
        );
        cuts += usize::from(is_cut && now > epoch);
        epoch = now;
        if let Some(wanted) = call["view"].as_array() {
            assert_eq!(&shown, wanted, "{id} at {at}");
        }
        before = shown;
        assert_eq!(items.len() as u64, call["length"].as_u64().unwrap(), "{id} at {at}: entries");
        assert_eq!(view.tokens(&cx), tokens, "{id} at {at}: tokens");
    }
    cuts
}

/// A file of the data that lies beside the project and is not part of it; `SCROLLBACK_SHARED` names another folder.
fn shared(file: &str) -> std::path::PathBuf {
    let folder = std::env::var_os("SCROLLBACK_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        std::path::PathBuf::from,
    );
    folder.join(file)
}

#[test]
fn the_cuts_views_ledgers_and_tokens_are_those_of_the_reference() {
    let path = shared("cases/auto.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        // They are other projects' transcripts. The cases of our own, below, are always tried. The test harness hides what is
        // printed by macros.
        let notice =
            format!("notice: no cases at {}; left out: the plans of the reference\n", path.display());
        std::io::Write::write_all(&mut std::io::stderr(), notice.as_bytes()).unwrap();
        return;
    };
    let (mut cuts, mut failed) = (0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let played = std::panic::catch_unwind(|| play(&case, &format!("auto({}, version=1)", case["limit"])));
        match played {
            Ok(more) => cuts += more,
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "conversations that went another way");
    assert_eq!(cuts, 78);
}

/// Conversations of our own, each with what every call was shown when its version was made: a version never changes again.
///
/// `UPDATE_CORPUS=1` writes the calls of a new case; those that are there are compared.
#[test]
fn every_version_plans_today_as_it_did_when_it_was_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/auto");
    let mut cuts = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let mut case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        case["id"] = json!(file.file_stem().unwrap().to_string_lossy());
        let manager = case["manager"].as_str().unwrap().to_string();
        if case["calls"].is_null() && std::env::var_os("UPDATE_CORPUS").is_some() {
            let calls = shown(&case, &manager);
            let wanted = json!({ "manager": manager, "messages": case["messages"], "calls": calls });
            std::fs::write(&file, serde_json::to_string_pretty(&wanted).unwrap() + "\n").unwrap();
            case["calls"] = calls.into();
        }
        cuts += play(&case, &manager);
    }
    assert!(cuts >= 6, "{cuts} cuts in all cases");
}

/// What every call of a conversation is shown, as cases write it.
fn shown(case: &Value, manager: &str) -> Vec<Value> {
    let (messages, manager) = (case["messages"].as_array().unwrap(), manager::parse(manager).unwrap());
    let (mut record, mut had, mut calls, mut epoch) = (Record::new(), 0, Vec::new(), 0);
    let cx = context();
    for at in (1..messages.len()).filter(|at| messages[*at]["role"] == "assistant") {
        append(&mut record, &messages[had..at]);
        had = at;
        let view = record.view(&cx, manager.as_ref()).unwrap();
        let items: Vec<ViewItem> = view.items().collect();
        let now = view.epoch().map_or(0, |epoch| epoch.id);
        let mut call =
            json!({ "at": at, "cut": now > epoch, "tokens": view.tokens(&cx), "length": items.len() });
        if now > epoch {
            call["view"] = told(&items).into();
        }
        epoch = now;
        calls.push(call);
    }
    calls
}
