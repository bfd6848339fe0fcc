//! The table on the terminal: one row per candidate, and which one to take.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::replay::Figures;

use super::SimulationReport;

pub(crate) fn table(report: &SimulationReport<'_>) -> String {
    let calls = report.total.iter().map(|figures| figures.calls).max().unwrap_or(0);
    if calls == 0 {
        return "no calls to replay: no reply of an assistant was found\n".into();
    }
    let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
    let conversations = report.gathered.conversations.len();
    let model = report.model.as_deref().unwrap_or("no model named");
    let mut out = format!("{conversations} conversations, {calls} calls, {model}\n\n");
    let mut rows: Vec<&Figures> = report.total.iter().collect();
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
        "\n{dim}cost: × passthrough. arguments, answers: kept of what replies used, where the manager's choice decides.\n*: no other is cheaper and keeps more.{Reset}"
    );
    for figures in &rows {
        if let Some(why) = &figures.stopped {
            let _ = writeln!(out, "{dim}{}: stopped at a call: {why}{Reset}", figures.manager);
        }
        if figures.infeasible > 0 {
            let _ = writeln!(
                out,
                "{dim}{}: {} calls whose protected part alone is above the budget{Reset}",
                figures.manager, figures.infeasible
            );
        }
    }
    out.push_str(&advice(&rows));
    out
}

/// In words, which candidate to take.
fn advice(rows: &[&Figures]) -> String {
    let Some(best) = best(rows) else { return String::new() };
    let cost = best
        .cost_ratio
        .map_or_else(String::new, |ratio| format!(" at {ratio:.2} × the cost of sending everything"));
    let kept = match (best.at_cut.argument_retention, best.at_cut.answer_grounding) {
        (None, None) => "nothing was at stake".to_string(),
        (arguments, answers) => {
            format!(
                "it keeps {} of the arguments and {} of the answers",
                percent(arguments),
                percent(answers)
            )
        }
    };
    format!(
        "\nTake {0}: {kept}{cost}. Paste: -m '{0}', or in scrollback.toml: [server] managers = [{1}]\n",
        best.manager,
        serde_json::Value::from(best.manager.as_str())
    )
}

/// The candidate with the lowest sum of cost and loss, both as shares of sending everything.
fn best<'f>(rows: &[&'f Figures]) -> Option<&'f Figures> {
    let weighed = |figures: &Figures| cost(figures) + (1.0 - kept(figures));
    let able = rows.iter().filter(|figures| figures.stopped.is_none() && figures.calls > 0);
    able.min_by(|one, other| weighed(one).total_cmp(&weighed(other))).copied()
}

/// Whether no other candidate is cheaper and keeps more.
pub(crate) fn on_frontier(one: &Figures, all: &[&Figures]) -> bool {
    one.stopped.is_none()
        && !all.iter().any(|other| {
            let (cheaper, keeps) = (cost(other) - cost(one), kept(other) - kept(one));
            other.stopped.is_none() && cheaper <= 0.0 && keeps >= 0.0 && (cheaper < 0.0 || keeps > 0.0)
        })
}

/// What it costs in proportion to sending everything; more than anything where that is not known.
pub(crate) fn cost(figures: &Figures) -> f64 {
    figures.cost_ratio.unwrap_or(f64::MAX)
}

/// How much it keeps where its choice decides: the mean of what is known.
pub(crate) fn kept(figures: &Figures) -> f64 {
    let shares = [figures.at_cut.argument_retention, figures.at_cut.answer_grounding];
    let known: Vec<f64> = shares.into_iter().flatten().collect();
    if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 }
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
