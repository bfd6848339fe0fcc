//! `subagent ab`: strategies compared, by running tasks or by rendering what was recorded.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use scrollback_subagent::ab::{Mean, ReplayedMission, StrategySummary, TrialTask, compare, replay};
use scrollback_subagent::compression::Chosen;
use scrollback_subagent::{Host, InheritedSettings, Overlay, RecordedMission};
use serde_json::json;

use super::args::AbArgs;
use super::{compression_named, connected, load, model, stored};
use crate::agent::on_interrupt;
use crate::failure::{FAILED, Failure, INVALID};
use crate::input;
use crate::store::args::StoreArgs;
use crate::store::{Intent, Setup, block_on, one_line, width};

/// Facts that are listed of each strategy; `--json` has all of them.
const LISTED: usize = 10;

pub(super) fn run(args: &AbArgs, store: &StoreArgs, json: bool) -> Result<ExitCode, Failure> {
    let texts =
        if args.compression.is_empty() { vec!["off".into(), "on".into()] } else { args.compression.clone() };
    let strategies: Vec<(String, Chosen)> = texts
        .into_iter()
        .map(|text| compression_named(&text).map(|chosen| (text, chosen)))
        .collect::<Result<_, _>>()?;
    let setup = Setup::new(store)?;
    if !args.replay.is_empty() {
        return replayed(args, &setup, &strategies, json);
    }
    let (Some(file), Some(tasks)) = (&args.file, &args.tasks) else {
        return Err(super::usage("name an AGENT.yaml and --tasks, or --replay"));
    };
    let loaded = load(file, &Overlay::default(), &setup.config.redaction())?;
    let text = String::from_utf8_lossy(&input::read(tasks)?).into_owned();
    let tasks = TrialTask::read_all(&text)
        .map_err(|error| Failure::new(INVALID, "bad_task", error.to_string()).about(tasks))?;
    let catalog = Arc::new(setup.config.catalog());
    let settings = InheritedSettings {
        model: model(args.model.as_deref(), &loaded, &catalog)?,
        ..InheritedSettings::default()
    };
    let host = Arc::new(Host { catalog: Arc::clone(&catalog), ..Host::default() });
    on_interrupt(&host.stop);
    block_on(async {
        let agent = connected(loaded, &catalog).await?;
        let mut summaries = Vec::new();
        for (text, chosen) in &strategies {
            let compared =
                compare(&agent, &tasks, (text, chosen), args.repeat as usize, &settings, &host).await;
            summaries
                .push(compared.map_err(|error| Failure::new(INVALID, "invalid_data", error.to_string()))?);
        }
        if json {
            let told = json!({ "tasks": tasks.len(), "repeat": args.repeat, "strategies": summaries });
            input::print(&format!("{told}\n"))?;
        } else {
            input::print(&table(&summaries))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn replayed(
    args: &AbArgs,
    setup: &Setup,
    strategies: &[(String, Chosen)],
    json: bool,
) -> Result<ExitCode, Failure> {
    block_on(async {
        let store = Some((setup.open(Intent::Look).await?, setup.tenant()));
        let host = Host { store, ..Host::default() };
        let mut all = Vec::new();
        for id in &args.replay {
            let (run, journal) = stored(&host, id).await?;
            let recorded = RecordedMission::of(journal.record())
                .map_err(|error| Failure::new(FAILED, "bad_record", format!("run {}: {error}", run.id)))?;
            let rendered: Vec<ReplayedMission> =
                strategies.iter().map(|(text, chosen)| replay(&recorded, (text, chosen))).collect();
            all.push((run.id, rendered));
        }
        if json {
            let runs: Vec<serde_json::Value> =
                all.iter().map(|(run, rendered)| json!({ "run": run, "strategies": rendered })).collect();
            input::print(&format!("{}\n", json!({ "replay": runs })))?;
        } else {
            let text: String = all.iter().map(|(run, rendered)| lost(run, rendered)).collect();
            input::print(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A row per strategy.
fn table(summaries: &[StrategySummary]) -> String {
    let mut rows = vec![
        ["compression", "right", "turns", "calls", "repeated", "tokens in", "tokens out", "cache", "ms"]
            .map(String::from)
            .to_vec(),
    ];
    for summary in summaries {
        rows.push(vec![
            summary.compression.clone(),
            format!("{}/{}", summary.right, summary.runs),
            number(summary.turns),
            number(summary.tool_calls),
            summary.repeated_calls.to_string(),
            number(summary.tokens_in),
            number(summary.tokens_out),
            number(summary.cache_read),
            number(summary.milliseconds),
        ]);
    }
    let mut out = aligned(&rows);
    let first = summaries.first();
    for summary in summaries.iter().skip(1) {
        if let Some(first) = first.filter(|first| first.total_tokens_in > 0) {
            let saved = 100.0 - summary.total_tokens_in as f64 * 100.0 / first.total_tokens_in as f64;
            let _ = writeln!(
                out,
                "{} has {saved:.0}% fewer input tokens than {}",
                summary.compression, first.compression
            );
        }
    }
    for (summary, wrong) in
        summaries.iter().flat_map(|summary| summary.wrong.iter().map(move |wrong| (summary, wrong)))
    {
        let _ = writeln!(
            out,
            "{}",
            one_line(
                &format!("wrong under {}: task {}: {}", summary.compression, wrong.task, wrong.why),
                width()
            )
        );
    }
    out
}

fn number(mean: Mean) -> String {
    match mean.interval {
        Some((low, _)) => format!("{:.1}±{:.1}", mean.mean, mean.mean - low),
        None => format!("{:.1}", mean.mean),
    }
}

/// What each strategy would have sent of a run, and left out.
fn lost(run: &str, rendered: &[ReplayedMission]) -> String {
    let mut out = format!("run {run}\n");
    let mut rows =
        vec![["  compression", "calls", "tokens", "uncompressed", "facts lost"].map(String::from).to_vec()];
    for one in rendered {
        rows.push(vec![
            format!("  {}", one.compression),
            one.calls.to_string(),
            one.tokens.to_string(),
            one.tokens_uncompressed.to_string(),
            one.facts_lost.len().to_string(),
        ]);
    }
    out.push_str(&aligned(&rows));
    let facts =
        rendered.iter().flat_map(|one| one.facts_lost.iter().take(LISTED).map(move |fact| (one, fact)));
    for (one, fact) in facts {
        let text =
            format!("  {} loses the {} of turn {}: {}", one.compression, fact.kind, fact.turn, fact.text);
        let _ = writeln!(out, "{}", one_line(&text, width()));
    }
    out
}

/// Columns as wide as their widest cell; all but the first to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let wide = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}
