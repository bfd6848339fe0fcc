//! The table on the terminal: one row per candidate, and which one to take.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback::SimulationReport;
use scrollback_core::replay::{Figures, cost, on_frontier};

use crate::amounts::counted;

pub(crate) fn table(report: &SimulationReport) -> String {
    let calls = report.figures.iter().map(|figures| figures.calls).max().unwrap_or(0);
    if calls == 0 {
        return "no calls to replay: no reply of an assistant was found\n".into();
    }
    let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
    let conversations = report.transcripts.len();
    let model = report.model.as_deref().unwrap_or("no model named");
    let mut out =
        format!("{}, {}, {model}\n\n", counted(conversations as u64, "conversation"), counted(calls, "call"));
    let mut rows: Vec<&Figures> = report.figures.iter().collect();
    rows.sort_by(|one, other| {
        cost(one).total_cmp(&cost(other)).then_with(|| one.manager.cmp(&other.manager))
    });
    let width = rows.iter().map(|row| row.manager.chars().count()).max().unwrap_or(0).max(7);
    let _ = writeln!(
        out,
        "{dim}  {:width$}  {:>6}  {:>11}  {:>6}  {:>5}  {:>9}  {:>8}  {:>5}  {:>8}{Reset}",
        "manager", "cost", "tokens/call", "cached", "cuts", "arguments", "answers", "task", "µs/call"
    );
    for figures in &rows {
        let marked = on_frontier(figures, &rows);
        let (mark, style) = if marked { ("*", bold) } else { (" ", Style::new()) };
        let [cost, tokens, cached, cuts, arguments, answers, task, micros] = cells(figures);
        let _ = writeln!(
            out,
            "{style}{mark} {:width$}  {cost:>6}  {tokens:>11}  {cached:>6}  {cuts:>5}  {arguments:>9}  {answers:>8}  {task:>5}  \
             {micros:>8}{Reset}",
            figures.manager,
        );
    }
    let _ = writeln!(
        out,
        "\n{dim}cost: × passthrough. arguments, answers: share of the values used by replies that was still visible at cuts.\n*: no other is cheaper and keeps more.{Reset}"
    );
    for figures in &rows {
        if let Some(why) = &figures.stopped {
            let _ = writeln!(out, "{dim}{}: stopped at a call: {why}{Reset}", figures.manager);
        }
        if figures.infeasible > 0 {
            let _ = writeln!(
                out,
                "{dim}{}: {} whose protected part alone is above the budget{Reset}",
                figures.manager,
                counted(figures.infeasible, "call")
            );
        }
    }
    out.push_str(&advice(report));
    out
}

/// In words, which candidate to take, and what to paste.
fn advice(report: &SimulationReport) -> String {
    let Some(advice) = report.advice() else { return String::new() };
    let paste = advice.manager.map_or_else(String::new, |manager| {
        let listed = serde_json::Value::from(manager.as_str());
        format!(" Paste: -m '{manager}', or in scrollback.toml: [server] managers = [{listed}]")
    });
    format!("\n{}{paste}\n", advice.reason)
}

pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".into(), |share| format!("{:.0} %", share * 100.0))
}

/// What a row says of a candidate after its name, in the terminal and on the page.
pub(super) fn cells(figures: &Figures) -> [String; 8] {
    let cached = figures.cache_read as f64 / figures.input_tokens.max(1) as f64;
    [
        figures.cost_ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}×")),
        (figures.input_tokens / figures.calls.max(1)).to_string(),
        percent(Some(cached)),
        figures.cuts.to_string(),
        percent(figures.at_cut.argument_retention),
        percent(figures.at_cut.answer_grounding),
        percent(Some(figures.task_kept)),
        format!("{:.0}", figures.ms_p50 * 1e3),
    ]
}
