//! Real agent sessions, every prefix of each: no view may break what the design promises.
//!
//! The transcripts are other people's and not part of this repository. Without them the test says so and passes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, CurationError, ItemSource, Record, Role, View, json, manager};
use serde_json::{Value, json};

const MANAGERS: [&str; 8] = [
    "passthrough",
    "sliding_window(20)",
    "turn_window(2)",
    "token_budget(6000)",
    "sticky(token_budget(6000))",
    "compose(tool_result_truncator(1000), sticky(sliding_window(30)))",
    "sticky(clear_tool_results(8), low=3)",
    "trajectory_window(40, preserve_first=2, preserve_last=10)",
];

fn data(set: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("notice: the transcripts of {set} are not here; nothing was checked");
    None
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Lists of chat messages, whatever they are wrapped in.
fn tau_bench(folder: &Path) -> Vec<(String, Vec<Value>)> {
    let mut transcripts = Vec::new();
    for path in files(folder, ".json") {
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(value) = serde_json::from_str::<Value>(&text) else { continue };
        let runs = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for (number, run) in runs.iter().enumerate() {
            if let Some(messages) = run["traj"].as_array() {
                transcripts.push((format!("{} #{number}", path.display()), messages.clone()));
            }
        }
    }
    transcripts
}

/// The lines of a Claude Code session in file order as chat messages: enough of a reader to test with.
fn claude_code(folder: &Path) -> Vec<(String, Vec<Value>)> {
    files(folder, ".jsonl").into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut messages: Vec<Value> = vec![json!({ "role": "system", "content": "You are a coding agent." })];
        let mut last_id = Value::Null;
        for line in text.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let message = &line["message"];
            let blocks = match &message["content"] {
                Value::String(text) => vec![json!({ "type": "text", "text": text })],
                Value::Array(blocks) => blocks.clone(),
                _ => continue,
            };
            let joins = line["type"] == "assistant" && message["id"] == last_id && !last_id.is_null();
            last_id = if line["type"] == "assistant" { message["id"].clone() } else { Value::Null };
            match line["type"].as_str() {
                Some("assistant") => {
                    if !joins {
                        messages.push(json!({ "role": "assistant", "content": null }));
                    }
                    let reply = messages.last_mut().unwrap();
                    for block in blocks {
                        match block["type"].as_str() {
                            Some("text") => reply["content"] = block["text"].clone(),
                            Some("tool_use") => {
                                let call = json!({ "id": block["id"], "type": "function",
                                    "function": { "name": block["name"], "arguments": block["input"].to_string() } });
                                match reply["tool_calls"].as_array_mut() {
                                    Some(calls) => calls.push(call),
                                    None => reply["tool_calls"] = json!([call]),
                                }
                            }
                            _ => {}
                        }
                    }
                }
                Some("user") => {
                    for block in blocks {
                        match block["type"].as_str() {
                            Some("tool_result") => {
                                let text = block["content"].as_str().map_or_else(|| block["content"].to_string(), String::from);
                                messages.push(json!({ "role": "tool", "tool_call_id": block["tool_use_id"], "content": text }));
                            }
                            Some("text") => messages.push(json!({ "role": "user", "content": block["text"] })),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        (path.display().to_string(), messages)
    }).collect()
}

/// Appends message by message and looks at every view on the way.
fn walk(name: &str, messages: &[Value]) -> usize {
    let body = Value::Array(messages.to_vec()).to_string();
    let parsed = Wire::OpenaiChat.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
    let cx = CurationContext::default();
    let managers: Vec<_> = MANAGERS.iter().map(|text| (*text, manager::parse(text).unwrap())).collect();
    let mut record = Record::new();
    let mut task = None;
    let mut views = 0;
    for entry in parsed.entries {
        let role = entry.role;
        let position = record.append(entry).unwrap();
        if role == Role::User {
            task = Some(position);
        }
        for (text, manager) in &managers {
            match record.view(&cx, &**manager) {
                Ok(view) => {
                    check(&view, &cx, text, task)
                        .unwrap_or_else(|problem| panic!("{name}, after {position}, {text}: {problem}"));
                }
                // One exchange alone may be larger than the budget; then that is said.
                Err(CurationError::BudgetTooSmall { needed, budget }) => assert!(needed > budget),
                Err(other) => panic!("{other}"),
            }
            views += 1;
        }
    }
    views
}

fn check(view: &View<'_>, cx: &CurationContext, manager: &str, task: Option<u64>) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut system = false;
    let mut has_task = task.is_none();
    for item in view.items() {
        system |= item.entry.role == Role::System;
        has_task |= task.is_some_and(|task| item.source == ItemSource::Entry(task));
        if let Some(id) = item.entry.tool_call_id() {
            let at =
                open.iter().position(|call| *call == id).ok_or(format!("result {id} without its call"))?;
            open.swap_remove(at);
        } else if !open.is_empty() {
            return Err(format!("calls {open:?} without their results"));
        }
        open.extend(
            item.entry.open_calls().filter_map(|call| Some(call.call_id.as_ref()?.as_str().into_owned())),
        );
    }
    if !open.is_empty() || !system || !has_task {
        return Err(format!("open calls {open:?}, system there: {system}, task there: {has_task}"));
    }
    if manager.contains("token_budget(6000)") {
        let tokens = view.count(cx).total;
        if tokens > 6000 {
            return Err(format!("{tokens} tokens"));
        }
    }
    Ok(())
}

fn walk_all(set: &str, transcripts: &[(String, Vec<Value>)]) {
    let views: usize = transcripts.iter().map(|(name, messages)| walk(name, messages)).sum();
    assert!(!transcripts.is_empty() && views > 0, "{set} has transcripts");
    eprintln!("{set}: {} transcripts, {views} views, none broken", transcripts.len());
}

#[test]
fn tau_bench_prefixes() {
    if let Some(folder) = data("tau-bench") {
        // Their lists begin with a system message of their own.
        walk_all("tau-bench", &tau_bench(&folder));
    }
}

#[test]
fn claude_code_prefixes() {
    for set in ["claude-code-spotter", "claude-code-session-share", "claude-code-fasthooks"] {
        if let Some(folder) = data(set) {
            walk_all(set, &claude_code(&folder));
        }
    }
}
