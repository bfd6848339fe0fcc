//! Recorded conversations again, call by call, under other managers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use scrollback_core::manager::{Passthrough, SharedManager};
use scrollback_core::model::ModelName;
use scrollback_core::replay::{Candidate, Figures, Needs, Tally};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Slot, Tools, json, transcript};

use crate::error::{Error, ErrorKind, Result};
use crate::messages::model_named;
use crate::shown::manager_from;

/// What managers would have sent, cost and lost.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// The model that counted and whose prices were taken.
    pub model: Option<String>,
    /// How many conversations were replayed.
    pub conversations: usize,
    /// One for each manager, over all conversations.
    pub figures: Vec<Figures>,
    /// Transcripts that could not be read: the file, the line and the problem.
    pub failed: Vec<(String, u64, String)>,
}

/// Endings of files that are looked at in folders.
const READ: [&str; 7] = ["json", "jsonl", "ndjson", "traj", "yaml", "yml", "log"];

/// One conversation to replay.
struct ReplayInput {
    slots: Vec<Slot>,
    tools: Option<Tools>,
    wire: Option<Wire>,
}

/// Replays the transcripts in these files and folders under each manager, as `scrollback simulate` does. Stops soon after
/// `wanted` becomes false; the figures are then those up to there.
pub fn simulate(
    paths: &[PathBuf],
    managers: &[String],
    model: Option<&str>,
    wanted: &AtomicBool,
) -> Result<SimulationReport> {
    let parse = |text: &String| Ok((text.clone(), manager_from(text)?));
    let managers: Vec<(String, SharedManager)> = managers.iter().map(parse).collect::<Result<_>>()?;
    let named = model.map(|name| model_named(name, None)).transpose()?;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        for file in files_of(path)? {
            match read(&file) {
                Ok(told) => all.extend(told),
                Err((line, problem)) => failed.push((file.display().to_string(), line, problem)),
            }
        }
    }
    let model = named.or_else(|| usual_model(&all));
    let cx = CurationContext::for_model(model.clone());
    let mut everything = Tally::default();
    let mut totals = vec![Tally::default(); managers.len()];
    for told in &all {
        let cx = CurationContext { tools: told.tools.clone(), wire: told.wire, ..cx.clone() };
        let needs = Needs::of(&told.slots);
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64() * 1e3;
        let run = |manager: &SharedManager| {
            let candidate = Candidate::new(manager);
            scrollback_core::replay::simulate(&told.slots, &needs, &candidate, &cx, &clock, wanted)
        };
        let passthrough: SharedManager = Arc::new(Passthrough);
        everything.add(&run(&passthrough));
        for (total, (_, manager)) in totals.iter_mut().zip(&managers) {
            total.add(&run(manager));
        }
    }
    let figures = managers.iter().zip(&totals);
    let figures = figures.map(|((name, _), tally)| tally.figures(name, Some(&everything))).collect();
    Ok(SimulationReport {
        model: model.map(|model| model.to_string()),
        conversations: all.len(),
        figures,
        failed,
    })
}

/// The model that most replies name.
fn usual_model(all: &[ReplayInput]) -> Option<ModelName> {
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for slot in all.iter().flat_map(|told| &told.slots) {
        if let Slot::Message(entry) = slot
            && let Some(model) = entry.meta.as_deref().and_then(|meta| meta.model_served.as_deref())
        {
            *counts.entry(model.into()).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
    model_named(&most.0, None).ok()
}

/// The files below a path, in order of their names. The folder of a session is one transcript.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |path: &Path, error: std::io::Error| {
        let message = format!("{}: {error}", path.display());
        Error::new(ErrorKind::Input, message).at("not_found", "")
    };
    std::fs::metadata(path).map_err(|error| failed(path, error))?;
    let (mut files, mut open) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(next) = open.pop() {
        if !next.is_dir() || next.join("agents").is_dir() {
            files.push(next);
            continue;
        }
        for entry in std::fs::read_dir(&next).map_err(|error| failed(&next, error))? {
            open.push(entry.map_err(|error| failed(&next, error))?.path());
        }
    }
    if path.is_dir() {
        let looked_at = |file: &Path| file.extension().is_some_and(|end| READ.iter().any(|one| end == *one));
        files.retain(|file| file.is_dir() || looked_at(file));
    }
    files.sort();
    Ok(files)
}

/// The conversations of a file, or the line and the problem.
fn read(file: &Path) -> std::result::Result<Vec<ReplayInput>, (u64, String)> {
    if file.is_dir() {
        return Err((0, "folders of sessions are read by `scrollback simulate`".into()));
    }
    let bytes = std::fs::read(file).map_err(|error| (0, error.to_string()))?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| (0, format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    if let Some(format) = transcript::detect(text) {
        let found =
            transcript::read(Some(format), text).map_err(|error| (error.line as u64, error.to_string()))?;
        let told = found.conversations.into_iter().map(|mut conversation| {
            let (wire, tools) = (conversation.wire(), conversation.tools.take());
            let (record, _) = conversation.into_record(None).map_err(|error| (0, error.to_string()))?;
            let wire = Some(wire).filter(|wire| *wire != Wire::Scrollback);
            Ok(ReplayInput { slots: record.slots().to_vec(), tools, wire })
        });
        return told.collect();
    }
    let body = json::check(text).map_err(|error| (0, error.to_string()))?;
    let wire = Wire::detect(body)
        .ok_or((0, "no transcript and no list of messages of a format that is known".to_string()))?;
    let parsed = wire.parse(body, &ParseOptions::default()).map_err(|error| (0, error.to_string()))?;
    let tools = parsed.tools.clone();
    let record = parsed.into_record().map_err(|error| (0, error.to_string()))?;
    let wire = Some(wire).filter(|wire| *wire != Wire::Scrollback);
    Ok(vec![ReplayInput { slots: record.slots().to_vec(), tools, wire }])
}
