//! The readers of evaluation formats on real files, against counts taken naively.
//!
//! The files are other people's and not part of this repository. Without them the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use scrollback_core::transcript::{self, Format, ReadConversation, Transcript, cassette};
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, Entry, Record, Role, manager};
use serde_json::Value;

fn data(set: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("notice: the transcripts of {set} are not here; nothing was checked");
    None
}

/// Every file of a set with that ending, with its text.
fn files(set: &str, ending: &str) -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, ending, found);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    if let Some(folder) = data(set) {
        collect(&folder, ending, &mut found);
        assert!(!found.is_empty(), "{set} has files");
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Reads a file that must be recognised and whole.
fn read(format: Format, path: &Path, text: &str) -> Transcript {
    assert_eq!(transcript::detect(text), Some(format), "{}", path.display());
    let transcript = transcript::read(None, text).unwrap();
    for conversation in &transcript.conversations {
        assert_eq!(conversation.entries.len(), conversation.sources.len());
        let mut record = Record::new();
        for entry in &conversation.entries {
            record.append(entry.clone()).unwrap();
        }
        record.view(&CurationContext::default(), &*manager::parse("passthrough").unwrap()).unwrap();
    }
    transcript
}

fn values(text: &str) -> Vec<Value> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(values)) => values,
        Ok(value) => vec![value],
        Err(_) => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    }
}

fn same(raw: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(raw).unwrap() == *value
}

fn results(conversation: &ReadConversation) -> usize {
    conversation.entries.iter().filter(|entry| entry.role == Role::Tool).count()
}

fn calls(conversation: &ReadConversation) -> usize {
    conversation.entries.iter().map(|entry| entry.tool_calls().count()).sum()
}

#[test]
fn tau_bench_runs_are_read_verbatim_whole_and_split() {
    for (path, text) in files("tau-bench", ".json") {
        let transcript = read(Format::TauBench, &path, &text);
        let runs = values(&text);
        assert!(transcript.failed.is_empty());
        assert_eq!(transcript.conversations.len(), runs.len());
        for (conversation, run) in transcript.conversations.iter().zip(&runs) {
            let messages = run["traj"].as_array().unwrap();
            assert_eq!(conversation.entries.len(), messages.len());
            assert_eq!(conversation.id, Some(format!("{}/{}", run["task_id"], run["trial"])));
            for (entry, message) in conversation.entries.iter().zip(messages) {
                assert!(same(&entry.origin.raw, message) && text.contains(entry.origin.raw.as_ref()));
            }
            let alone = transcript::read(None, &run.to_string()).unwrap();
            assert_eq!(alone.conversations[0].entries.len(), messages.len());
        }
    }
}

#[test]
fn swe_agent_histories_are_read_message_by_message() {
    for (path, text) in files("swe-agent", ".traj") {
        let transcript = read(Format::SweAgent, &path, &text);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(transcript.failed.is_empty());
        let [conversation] = &transcript.conversations[..] else { panic!("one conversation") };
        let history = value["history"].as_array().unwrap();
        assert_eq!(conversation.entries.len(), history.len());
        for (entry, message) in conversation.entries.iter().zip(history) {
            assert_eq!(entry.tool_call_id().as_deref(), message["tool_call_ids"][0].as_str());
            assert_eq!(entry.tool_calls().count(), message["tool_calls"].as_array().map_or(0, Vec::len));
            assert_eq!(entry.content().as_deref(), message["content"].as_str());
            assert_eq!(entry.meta.as_ref().unwrap().tags["agent"], message["agent"].as_str().unwrap());
        }
        assert_eq!(conversation.notes.len(), value.as_object().unwrap().len() - 1);
    }
}

#[test]
fn openhands_events_are_all_read_or_noted() {
    for (path, text) in files("openhands", ".jsonl") {
        let transcript = read(Format::Openhands, &path, &text);
        assert!(transcript.failed.is_empty());
        let outputs = values(&text);
        assert_eq!(transcript.conversations.len(), outputs.len());
        for (conversation, output) in transcript.conversations.iter().zip(&outputs) {
            let events = output["history"].as_array().unwrap();
            let called = |event: &&Value| event["tool_call_metadata"].is_object();
            let replies: BTreeSet<_> = events
                .iter()
                .filter(called)
                .map(|event| event["tool_call_metadata"]["model_response"]["id"].to_string())
                .collect();
            let answers =
                events.iter().filter(called).filter(|event| event["observation"].is_string()).count();
            let recalled =
                events.iter().filter(|event| event["action"] == "recall" || event["observation"] == "recall");
            let texts = events.iter().filter(|event| !called(event)).count() - recalled.count();
            assert_eq!(conversation.entries.len(), replies.len() + answers + texts);
            assert_eq!(results(conversation), answers);
            assert_eq!(conversation.id.as_deref(), output["instance_id"].as_str());
            let asked: BTreeSet<_> = events
                .iter()
                .filter(|event| called(event) && event["action"].is_string())
                .map(|event| event["tool_call_metadata"]["tool_call_id"].to_string())
                .collect();
            assert_eq!(calls(conversation), asked.len());
        }
    }
}

#[test]
fn inspect_samples_keep_results_that_nobody_asked_for() {
    for (path, text) in files("inspect-logs", ".json") {
        let transcript = read(Format::Inspect, &path, &text);
        let log: Value = serde_json::from_str(&text).unwrap();
        let samples = log["samples"].as_array().unwrap();
        assert_eq!(transcript.conversations.len(), samples.len());
        for (conversation, sample) in transcript.conversations.iter().zip(samples) {
            let messages = sample["messages"].as_array().unwrap();
            assert_eq!(conversation.entries.len(), messages.len());
            for (entry, message) in conversation.entries.iter().zip(messages) {
                assert_eq!(entry.tool_call_id().as_deref(), message["tool_call_id"].as_str());
                assert_eq!(entry.tool_name().as_deref(), message["function"].as_str());
                assert_eq!(
                    entry.meta.as_ref().unwrap().tags["inspect.error"],
                    message["error"]["type"].as_str().unwrap()
                );
            }
        }
    }
}

#[test]
fn bfcl_scripts_and_answers_are_joined() {
    let all = files("bfcl-multiturn", ".json");
    let is_answer = |path: &Path| path.to_string_lossy().contains("possible_answer");
    for (path, script) in all.iter().filter(|(path, _)| !is_answer(path)) {
        let (answer_path, answer) =
            all.iter().find(|(other, _)| is_answer(other) && other.file_name() == path.file_name()).unwrap();
        let said = values(script);
        let right: BTreeMap<_, _> = values(answer)
            .into_iter()
            .map(|value| (value["id"].to_string(), value["ground_truth"].clone()))
            .collect();
        let turns = |value: &Value| {
            value.as_array().unwrap().iter().map(|turn| turn.as_array().unwrap().len()).collect::<Vec<_>>()
        };

        let alone = read(Format::Bfcl, path, script);
        assert_eq!(alone.conversations.len(), said.len());
        let answers = read(Format::Bfcl, answer_path, answer);
        assert_eq!(answers.conversations.len(), right.len());

        let both = transcript::read(None, &format!("{script}\n{answer}")).unwrap();
        assert!(both.failed.is_empty());
        assert_eq!(both.conversations.len(), said.len());
        let mut whole = 0;
        for ((conversation, alone), value) in both.conversations.iter().zip(&alone.conversations).zip(&said) {
            let (asked, expected) = (turns(&value["question"]), turns(&right[&value["id"].to_string()]));
            let groups = expected.iter().filter(|calls| **calls > 0).count();
            assert_eq!(alone.entries.len(), asked.iter().sum::<usize>());
            assert_eq!(conversation.entries.len(), asked.iter().sum::<usize>() + groups);
            assert_eq!(calls(conversation), expected.iter().sum::<usize>());
            let raw = conversation.entries.iter().flat_map(Entry::tool_calls);
            whole += raw.filter(|call| call.arguments.as_str().contains("__raw")).count();
        }
        // Only calls with an argument that has no name stay whole.
        let unnamed = right
            .values()
            .flat_map(|turns| turns.as_array().unwrap())
            .flat_map(|turn| turn.as_array().unwrap());
        let unnamed = unnamed.filter(|call| {
            let inside = call.as_str().unwrap().split_once('(').unwrap().1;
            inside.starts_with(|c: char| matches!(c, '\'' | '"' | '[') || c.is_ascii_digit())
        });
        assert_eq!(whole, unnamed.count());
    }
}

/// Requests by address, from the lines of the file.
fn addresses(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("    uri: ")).collect()
}

#[test]
fn cassettes_give_every_request_to_a_provider() {
    let known = [
        ("/chat/completions", Wire::OpenaiChat),
        ("/responses", Wire::OpenaiResponses),
        ("/v1/messages", Wire::Anthropic),
        (":generateContent", Wire::Gemini),
    ];
    let mut found = 0;
    for (path, text) in files("pydantic-ai-cassettes", ".yaml") {
        assert_eq!(transcript::detect(&text), Some(Format::Cassette), "{}", path.display());
        let recorded = cassette::requests(&text).unwrap();
        for (ending, wire) in known {
            let sent = addresses(&text)
                .into_iter()
                .filter(|uri| uri.split('?').next().unwrap().ends_with(ending))
                .count();
            let got =
                recorded.iter().filter(|request| request.uri.split('?').next().unwrap().ends_with(ending));
            assert_eq!(got.clone().count(), sent, "{}", path.display());
            assert!(got.clone().all(|request| request.wire == wire));
        }
        for request in &recorded {
            assert!(serde_json::from_str::<Value>(&request.body).unwrap().is_object());
            assert!(request.status.is_some());
        }
        found += recorded.len();
    }
    eprintln!("cassettes: {found} requests");
}

#[test]
fn cassettes_of_chat_are_read_with_their_answers() {
    for (path, text) in files("pydantic-ai-cassettes", ".yaml") {
        let chat: Vec<_> = cassette::requests(&text)
            .unwrap()
            .into_iter()
            .filter(|request| request.wire == Wire::OpenaiChat)
            .collect();
        let Ok(transcript) = transcript::read(None, &text) else {
            assert!(chat.is_empty(), "{}", path.display());
            continue;
        };
        let conversations: Vec<_> = transcript
            .conversations
            .iter()
            .filter(|conversation| {
                conversation.entries.iter().any(|entry| entry.origin.wire == Wire::OpenaiChat)
            })
            .collect();
        assert_eq!(conversations.len(), chat.len(), "{}", path.display());
        for (conversation, request) in conversations.into_iter().zip(chat) {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            let messages = body["messages"].as_array().unwrap();
            for (entry, message) in conversation.entries.iter().zip(messages) {
                assert!(same(&entry.origin.raw, message));
            }
            let streamed = body["stream"] == true;
            let answered =
                request.status == Some(200) && !streamed && request.uri.ends_with("/chat/completions");
            assert_eq!(
                conversation.entries.len(),
                messages.len() + usize::from(answered),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn cassettes_of_every_wire_are_read() {
    for (path, text) in files("pydantic-ai-cassettes", ".yaml") {
        let transcript = transcript::read(None, &text).unwrap();
        assert_eq!(transcript.failed, [], "{}", path.display());
    }
}
