//! The report as one page of HTML that needs nothing else: curves of cost against retention, and the table.

use std::collections::BTreeMap;
use std::fmt::Write;

use scrollback::SimulationReport;
use scrollback_core::replay::{Figures, cost, kept, on_frontier};

use super::table::{cells, percent};
use crate::amounts::counted;

/// Size of the drawing, and the margin in which its axes stand.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 56.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:960px;padding:0 1rem;color:#1d2430;background:#fff}
h1{font-size:1.4rem}table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #dfe3ea}
th:first-child,td:first-child{text-align:left;font-family:ui-monospace,monospace}tr.front td{font-weight:600;background:#eef6ee}
svg{width:100%;height:auto}text{font-size:11px;fill:#5b6573}.name{fill:#1d2430}p.small{color:#5b6573;font-size:.85rem}
@media (prefers-color-scheme:dark){body{background:#14181f;color:#e6e9ef}th,td{border-color:#2b323d}tr.front td{background:#1c2b1f}.name{fill:#e6e9ef}}";

const COLOURS: [&str; 8] =
    ["#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4b5563"];

pub(crate) fn page(report: &SimulationReport) -> String {
    let calls = report.figures.iter().map(|figures| figures.calls).max().unwrap_or(0);
    let mut rows: Vec<&Figures> = report.figures.iter().collect();
    rows.sort_by(|one, other| {
        cost(one).total_cmp(&cost(other)).then_with(|| one.manager.cmp(&other.manager))
    });
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">",
    );
    let _ = write!(
        out,
        "<title>Simulation</title><style>{STYLE}</style><h1>What managers would have sent, cost and lost</h1>"
    );
    let model = report.model.as_deref().unwrap_or("no model named");
    let _ = write!(
        out,
        "<p>{}, {}, {}.</p>",
        counted(report.transcripts.len() as u64, "conversation"),
        counted(calls, "call"),
        escaped(model)
    );
    out.push_str(&curves(&rows));
    out.push_str(&table(&rows));
    out.push_str("<p class=\"small\">Cost is in proportion to sending everything. Arguments and answers: the share of the values that replies used and that views still showed, over calls whose history is above the budget, without what every view shows. Highlighted: no other is cheaper and keeps more.</p>");
    for failed in &report.failed {
        let _ = write!(
            out,
            "<p class=\"small\">Not read: {}: {}</p>",
            escaped(&failed.file),
            escaped(&failed.problem)
        );
    }
    out.push_str("</html>\n");
    out
}

/// Candidates of one kind that differ in their numbers only, as a line through their points.
fn curves(rows: &[&Figures]) -> String {
    let shown: Vec<(&Figures, f64)> = rows
        .iter()
        .filter(|row| row.cost_ratio.is_some())
        .filter_map(|row| Some((*row, kept(row)?)))
        .collect();
    let most = shown.iter().map(|(row, _)| cost(row)).fold(1.0, f64::max);
    let x = |figures: &Figures| MARGIN + (WIDTH - 2.0 * MARGIN) * cost(figures) / most;
    let y = |share: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * share;
    let mut out =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"cost against retention\">");
    for tenth in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = y(tenth);
        let _ = write!(
            out,
            "<line x1=\"{MARGIN}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#8884\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            at + 4.0,
            tenth * 100.0
        );
        let across = MARGIN + (WIDTH - 2.0 * MARGIN) * tenth;
        let _ = write!(
            out,
            "<text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.2}×</text>",
            HEIGHT - MARGIN + 18.0,
            most * tenth
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">cost, × passthrough</text><text x=\"12\" y=\"20\">kept of arguments and answers</text>",
        WIDTH / 2.0,
        HEIGHT - 12.0
    );
    let mut families: BTreeMap<String, Vec<(&Figures, f64)>> = BTreeMap::new();
    for (figures, kept) in shown {
        families.entry(family(&figures.manager)).or_default().push((figures, kept));
    }
    for (members, colour) in families.values().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> =
            members.iter().map(|(one, kept)| format!("{:.1},{:.1}", x(one), y(*kept))).collect();
        let _ = write!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
        for (one, kept) in members {
            let (across, down) = (x(one), y(*kept));
            let _ = write!(
                out,
                "<circle cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"4\" fill=\"{colour}\"><title>{0}: {1:.2}× , {2}</title></circle><text class=\"name\" x=\"{3:.1}\" y=\"{4:.1}\">{0}</text>",
                escaped(&one.manager),
                cost(one),
                percent(Some(*kept)),
                across + 7.0,
                down - 6.0
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// The manager without its numbers.
fn family(manager: &str) -> String {
    manager.chars().filter(|letter| !letter.is_ascii_digit() && *letter != 'k').collect()
}

fn table(rows: &[&Figures]) -> String {
    let mut out = String::from(
        "<table><thead><tr><th>manager<th>cost<th>tokens per call<th>cached<th>cuts<th>arguments<th>answers<th>task<th>µs per call</thead><tbody>",
    );
    for figures in rows {
        let front = if on_frontier(figures, rows) { " class=\"front\"" } else { "" };
        let _ =
            write!(out, "<tr{front}><td>{}<td>{}", escaped(&figures.manager), cells(figures).join("<td>"));
    }
    out.push_str("</tbody></table>");
    out
}

/// A text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
