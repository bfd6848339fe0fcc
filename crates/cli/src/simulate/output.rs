//! A report as JSON, as CSV, and as a list of what was lost.

use std::fmt::Write;
use std::path::Path;

use scrollback_core::replay::Figures;
use serde_json::{Value, json};

use super::SimulationReport;
use super::args::SimulateArgs;
use super::sources::SourceConversation;
use super::{page, table};
use crate::failure::Failure;
use crate::input;

/// Prints and writes everything that was asked for.
pub(crate) fn write(report: &SimulationReport<'_>, args: &SimulateArgs, json: bool) -> Result<(), Failure> {
    let mut taken = false;
    for (path, text) in [(&args.csv, csv as fn(&SimulationReport<'_>) -> String), (&args.html, page::page)] {
        let Some(path) = path else { continue };
        if path == Path::new("-") {
            taken = true;
            input::print(&text(report))?;
        } else {
            std::fs::write(path, text(report))
                .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
        }
    }
    for failed in &report.gathered.failed {
        let line = if failed.line > 0 { format!(", line {}", failed.line) } else { String::new() };
        input::note(&format!("{}{line}: {}", failed.file, failed.problem));
    }
    if taken {
        return Ok(());
    }
    if json {
        return input::print(&format!("{}\n", to_json(report, args.lost)));
    }
    if args.lost {
        input::print(&lost(report))?;
    }
    input::print_styled(&table::table(report))
}

fn to_json(report: &SimulationReport<'_>, lists_lost: bool) -> Value {
    let transcripts: Vec<Value> = report
        .conversations()
        .map(|(conversation, replayed)| {
            let mut managers: Vec<Value> = report.figures(replayed).iter().map(Figures::json).collect();
            if lists_lost {
                for (one, tally) in managers.iter_mut().zip(&replayed.tallies) {
                    let lost: Vec<Value> =
                        tally.lost.iter().map(|lost| lost_json(conversation, lost)).collect();
                    if let Some(members) = one.as_object_mut() {
                        members.insert("lost".into(), Value::from(lost));
                    }
                }
            }
            json!({
                "file": conversation.file.as_ref().map(|file| file.display().to_string()),
                "conversation": conversation.id,
                "calls": replayed.everything.calls,
                "managers": managers,
            })
        })
        .collect();
    let failed: Vec<Value> = report
        .gathered
        .failed
        .iter()
        .map(|failed| json!({ "file": failed.file, "line": failed.line, "problem": failed.problem }))
        .collect();
    let total: Vec<Value> = report.total.iter().map(Figures::json).collect();
    json!({ "model": report.model, "transcripts": transcripts, "total": total, "failed": failed })
}

fn lost_json(conversation: &SourceConversation, lost: &scrollback_core::replay::Lost) -> Value {
    json!({
        "value": lost.value,
        "needed_by": lost.needed_by,
        "call": conversation.place(lost.call),
        "stood_at": conversation.place(lost.stood_at),
        "why": lost.why,
    })
}

/// Every lost value on a line of its own, by candidate.
fn lost(report: &SimulationReport<'_>) -> String {
    let mut out = String::new();
    for (at, entrant) in report.entrants.iter().enumerate() {
        let all = report.conversations().flat_map(|(conversation, replayed)| {
            let lost = replayed.tallies.get(at).into_iter().flat_map(|tally| &tally.lost);
            lost.map(move |lost| (conversation, lost))
        });
        let mut any = false;
        for (conversation, lost) in all {
            if !any {
                let _ = writeln!(out, "{}", entrant.name);
                any = true;
            }
            let value = crate::store::one_line(&lost.value, 60);
            let (call, stood) = (conversation.place(lost.call), conversation.place(lost.stood_at));
            let _ = writeln!(
                out,
                "  {value}  needed by an {} at {call}, stood at {stood}, {}",
                lost.needed_by, lost.why
            );
        }
        if any {
            out.push('\n');
        }
    }
    out
}

/// The columns of the CSV, in order.
const COLUMNS: &str = "file,conversation,manager,calls,input_tokens,cache_read,cache_write,cost_usd,cost_ratio,peak,cuts,dropped_tokens,rewritten,argument_retention,answer_grounding,at_cut_argument_retention,at_cut_answer_grounding,task_kept,violations,infeasible,ms_p50,ms_p99";

/// One row for each conversation and candidate, then one for each candidate over all; those have no file.
fn csv(report: &SimulationReport<'_>) -> String {
    let mut out = format!("{COLUMNS}\n");
    for (conversation, replayed) in report.conversations() {
        let file = conversation.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let id = conversation.id.as_str().map_or_else(|| conversation.id.to_string(), ToString::to_string);
        for figures in report.figures(replayed) {
            row(&mut out, &file, &id, &figures);
        }
    }
    for figures in &report.total {
        row(&mut out, "", "total", figures);
    }
    out
}

fn row(out: &mut String, file: &str, conversation: &str, figures: &Figures) {
    let share = |share: Option<f64>| share.map(|share| format!("{share:.4}")).unwrap_or_default();
    let cells = [
        quoted(file),
        quoted(conversation),
        quoted(&figures.manager),
        figures.calls.to_string(),
        figures.input_tokens.to_string(),
        figures.cache_read.to_string(),
        figures.cache_write.to_string(),
        figures.cost_usd.map(|cost| format!("{cost:.6}")).unwrap_or_default(),
        share(figures.cost_ratio),
        figures.peak.to_string(),
        figures.cuts.to_string(),
        figures.dropped_tokens.to_string(),
        figures.rewritten.to_string(),
        share(figures.argument_retention),
        share(figures.answer_grounding),
        share(figures.at_cut.argument_retention),
        share(figures.at_cut.answer_grounding),
        share(Some(figures.task_kept)),
        figures.violations.to_string(),
        figures.infeasible.to_string(),
        format!("{:.4}", figures.ms_p50),
        format!("{:.4}", figures.ms_p99),
    ];
    let _ = writeln!(out, "{}", cells.join(","));
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into() }
}
