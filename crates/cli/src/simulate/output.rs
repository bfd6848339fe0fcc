//! A report as JSON, as CSV, and as a list of what was lost.

use std::fmt::Write;
use std::path::Path;

use scrollback::SimulationReport;
use scrollback_core::replay::{Figures, Losses};

use super::args::SimulateArgs;
use super::{page, table};
use crate::failure::Failure;
use crate::input;

/// Prints and writes everything that was asked for.
pub(crate) fn write(report: &SimulationReport, args: &SimulateArgs, json: bool) -> Result<(), Failure> {
    let mut taken = false;
    for (path, text) in [(&args.csv, csv as fn(&SimulationReport) -> String), (&args.html, page::page)] {
        let Some(path) = path else { continue };
        if path == Path::new("-") {
            taken = true;
            input::print(&text(report))?;
        } else {
            std::fs::write(path, text(report))
                .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
        }
    }
    for failed in &report.failed {
        let line = if failed.line > 0 { format!(", line {}", failed.line) } else { String::new() };
        input::note(&format!("{}{line}: {}", failed.file, failed.problem));
    }
    if taken {
        return Ok(());
    }
    if json {
        let losses = if args.lost { Losses::Listed } else { Losses::Counted };
        return input::print(&format!("{}\n", report.json(losses)));
    }
    if args.lost {
        input::print(&lost(report))?;
    }
    input::print_styled(&table::table(report))
}

/// Every lost value on a line of its own, by candidate.
fn lost(report: &SimulationReport) -> String {
    let mut out = String::new();
    for (at, manager) in report.managers.iter().enumerate() {
        let mut all = report.transcripts.iter().filter_map(|one| one.lost.get(at)).flatten().peekable();
        if all.peek().is_none() {
            continue;
        }
        let _ = writeln!(out, "{manager}");
        for lost in all {
            let value = crate::store::one_line(&lost.value, 60);
            let _ = writeln!(
                out,
                "  {value}  needed by an {} at {}, recorded at {}, {}",
                lost.needed_by, lost.call, lost.stood_at, lost.why
            );
        }
        out.push('\n');
    }
    out
}

/// The columns of the CSV, in order.
const COLUMNS: &str = "file,conversation,manager,calls,input_tokens,cache_read,cache_write,cost_usd,cost_ratio,peak,cuts,dropped_tokens,rewritten,argument_retention,answer_grounding,at_cut_argument_retention,at_cut_answer_grounding,task_kept,violations,infeasible,ms_p50,ms_p99";

/// One row for each conversation and candidate, then one for each candidate over all; those have no file.
fn csv(report: &SimulationReport) -> String {
    let mut out = format!("{COLUMNS}\n");
    for one in &report.transcripts {
        let file = one.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let id = one.id.as_str().map_or_else(|| one.id.to_string(), ToString::to_string);
        for figures in &one.figures {
            row(&mut out, &file, &id, figures);
        }
    }
    for figures in &report.figures {
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
