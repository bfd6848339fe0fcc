//! Real transcripts and recorded requests: everything reads, what was accepted passes, and every view of it is valid.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use crate::support::squeezed;
use scrollback_core::model::ModelName;
use scrollback_core::transcript::{self, Format, cassette};
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::{ParseOptions, RenderOptions, Wire};
use scrollback_core::{CurationContext, Fidelity, ItemSource, Record, ViewItem, json, manager};

/// Every file of the shared transcripts; none, with a notice, where they are absent.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    if found.is_empty() {
        println!("no transcripts at {}: nothing was tried", root.display());
    }
    found.retain(|(path, _)| !path.to_string_lossy().contains("LICENSES") && !path.ends_with("README.md"));
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_file_is_a_transcript_we_know() {
    for (path, text) in files() {
        let format = transcript::detect(&text);
        let folder = path.to_string_lossy();
        let expected = [
            ("claude-code", Format::ClaudeCode),
            ("tau-bench", Format::TauBench),
            ("swe-agent", Format::SweAgent),
            ("openhands", Format::Openhands),
            ("bfcl", Format::Bfcl),
            ("cassettes", Format::Cassette),
            ("inspect", Format::Inspect),
            ("trail", Format::Traces),
        ];
        let expected = expected.iter().find(|(sign, _)| folder.contains(sign)).map(|(_, format)| *format);
        assert_eq!(format, expected, "{}", path.display());
    }
}

/// Managers that cut, shorten, clear and summarise.
const MANAGERS: [&str; 6] = [
    "passthrough",
    "sliding_window(10)",
    "turn_window(2)",
    "sticky(token_budget(4000))",
    "compose(tool_result_truncator(200), clear_tool_results(2))",
    "summarize(max_turns=2, keep_recent=1)",
];

fn assert_views_valid(record: &Record, what: &str) -> usize {
    let mut views = 0;
    for text in MANAGERS {
        let cx =
            CurationContext { summaries: scrollback_core::Summaries::InPlace, ..CurationContext::default() };
        let Ok(view) = record.view(&cx, &*manager::parse(text).unwrap()) else { continue };
        for wire in [Wire::OpenaiChat, Wire::Anthropic, Wire::OpenaiResponses, Wire::Gemini, Wire::Bedrock] {
            let body = view.render(wire, &cx).body(wire, None);
            let fatal: Vec<_> = check(wire, json::check(&body).unwrap(), CheckOptions::default())
                .into_iter()
                .filter(|violation| violation.is_fatal(Strictness::Strict))
                .collect();
            assert!(fatal.is_empty(), "{what} under {text} on {wire}: {fatal:#?}");
            views += 1;
        }
    }
    views
}

#[test]
fn every_transcript_curates_and_renders_valid() {
    let (mut conversations, mut entries, mut views) = (0, 0, 0);
    for (path, text) in files() {
        let Ok(read) = transcript::read(None, &text) else { continue };
        for conversation in read.conversations {
            conversations += 1;
            entries += conversation.entries.len();
            // Scripts of BFCL are alike; a few of them tell as much as all.
            if conversations % 5 != 0 && path.to_string_lossy().contains("bfcl") {
                continue;
            }
            let (record, _) = conversation.into_record(None).unwrap();
            views += assert_views_valid(&record, &name(&path));
        }
    }
    println!("{conversations} conversations, {entries} entries, {views} views");
}

#[test]
fn recorded_requests_survive_byte_for_byte_and_pass_if_they_were_accepted() {
    let (mut bodies, mut accepted) = (0, 0);
    for (path, text) in files() {
        if transcript::detect(&text) != Some(Format::Cassette) {
            continue;
        }
        for request in cassette::requests(&text).unwrap() {
            let what = format!("{}: {}", name(&path), request.uri);
            let body = json::check(&request.body).unwrap();
            let Ok(parsed) = request.wire.parse(body, &ParseOptions::default()) else {
                panic!("{what}: {:?}", request.wire.parse(body, &ParseOptions::default()).err());
            };
            let items = (0..).zip(&parsed.entries).map(|(position, entry)| ViewItem {
                source: ItemSource::Entry(position),
                entry: std::sync::Arc::new(entry.clone()),
                fidelity: Fidelity::AsSaid,
            });
            let rendered = request.wire.render(items, RenderOptions::default());
            let printed = rendered.body(request.wire, Some(&parsed.body));
            assert_eq!(squeezed(&printed), squeezed(&request.body), "{what}");
            bodies += 1;
            if request.status != Some(200) {
                continue;
            }
            accepted += 1;
            let provider = match request.wire {
                Wire::Anthropic => "anthropic",
                Wire::Gemini => "gemini",
                Wire::Bedrock => "bedrock",
                _ => "openai",
            };
            let model =
                body.get("model").and_then(json::Raw::string).map(|model| format!("{provider}:{model}"));
            let model = model.and_then(|model| ModelName::parse(&model).ok());
            let options = CheckOptions { model: model.as_ref(), ..CheckOptions::default() };
            let fatal: Vec<_> = check(request.wire, body, options)
                .into_iter()
                .filter(|violation| violation.is_fatal(Strictness::Lenient))
                .collect();
            assert!(fatal.is_empty(), "{what}: {fatal:#?}");
        }
    }
    println!("{bodies} recorded bodies, {accepted} of them accepted");
}
