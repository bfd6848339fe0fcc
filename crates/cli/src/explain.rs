//! `--explain`: the view as a table people can read.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_core::tokens::{Count, entry_tokens};
use scrollback_core::{Reason, SUMMARY_HEADING, Source};

use crate::curate::Curated;

/// Longest excerpt of a text.
const EXCERPT: usize = 44;

/// One line of the table; neighbours with the same fate are told in one line.
struct Row {
    first: u64,
    last: u64,
    role: &'static str,
    /// Tokens as sent, or as recorded for what is left out.
    tokens: usize,
    fate: Fate,
    excerpt: String,
}

#[derive(PartialEq)]
enum Fate {
    Kept,
    Changed(String),
    Dropped(String),
}

/// Prints what was kept, changed and left out, entry by entry, and by whom.
pub(crate) fn print(curated: &Curated<'_>) {
    let mut out = anstream::stderr().lock();
    let _ = write(&mut out, curated);
}

fn write(out: &mut impl Write, curated: &Curated<'_>) -> std::io::Result<()> {
    let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
    let count = curated.view.count(curated.cx);
    let record = curated.view.record();
    let original = record.tokens(curated.cx.counter) as usize + count.overhead;
    writeln!(
        out,
        "{bold}{} of {} messages, {} of {} tokens{Reset} {dim}({}, {}){Reset}\n",
        count.per_entry.len(),
        record.message_count(),
        thousands(count.total),
        thousands(original),
        count.counter.method.name(),
        count.counter.tokenizer.name(),
    )?;
    writeln!(out, "{dim}    {:>7}  {:<10} {:>7}  what happened{Reset}", "entry", "role", "tokens")?;
    for row in rows(curated, &count) {
        let (mark, colour, what) = match &row.fate {
            Fate::Kept => ("  ", Style::new(), row.excerpt.clone()),
            Fate::Changed(why) => ("~ ", AnsiColor::Yellow.on_default(), why.clone()),
            Fate::Dropped(why) => ("- ", AnsiColor::Red.on_default(), why.clone()),
        };
        let place = if row.first == row.last {
            row.first.to_string()
        } else {
            format!("{}–{}", row.first, row.last)
        };
        let who = if row.first == row.last {
            row.role.to_string()
        } else {
            format!("{} entries", row.last - row.first + 1)
        };
        writeln!(out, "{colour}{mark}  {place:>7}  {who:<10} {:>7}  {what}{Reset}", thousands(row.tokens))?;
    }
    let added = AnsiColor::Green.on_default();
    for item in curated.view.items() {
        match item.source {
            Source::Summary { covers } => {
                let text = item.entry.content().unwrap_or_default();
                let text = text.strip_prefix(SUMMARY_HEADING).unwrap_or(&text);
                let what = format!("stands for {} entries: {}", covers.len(), excerpt(text.trim()));
                writeln!(out, "{added}+   summary  {what}{Reset}")?;
            }
            Source::Interrupted { call_id } => {
                writeln!(out, "{added}+    closed  call {} never got a result{Reset}", excerpt(&call_id))?;
            }
            Source::Entry(_) => {}
        }
    }
    for warning in curated.view.warnings() {
        let at = warning.index.map(|index| format!(" at {index}")).unwrap_or_default();
        writeln!(out, "{}!   warning  {}{at}{Reset}", AnsiColor::Yellow.on_default(), warning.code)?;
    }
    if let Some(epoch) = curated.view.epoch() {
        let cut = epoch.cut.map(|cut| format!(", cut before {cut}")).unwrap_or_default();
        writeln!(out, "{dim}    epoch  {}{cut}{Reset}", epoch.id)?;
    }
    writeln!(out)
}

fn rows(curated: &Curated<'_>, count: &Count) -> Vec<Row> {
    let record = curated.view.record();
    let sent: BTreeMap<u64, usize> = curated
        .view
        .items()
        .zip(&count.per_entry)
        .filter_map(|(item, tokens)| match item.source {
            Source::Entry(position) => Some((position, *tokens)),
            _ => None,
        })
        .collect();
    let explanation = curated.view.explain();
    let dropped: BTreeMap<u64, _> = explanation.dropped.iter().map(|drop| (drop.index, drop)).collect();
    let mut changed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for change in &explanation.changed {
        let sizes = match change.reason {
            Reason::Moved => String::new(),
            _ => format!(", {} → {} characters", thousands(change.from_chars), thousands(change.to_chars)),
        };
        changed.entry(change.index).or_default().push(format!(
            "{} by {}{sizes}",
            phrase(change.reason),
            change.manager
        ));
    }
    let mut rows: Vec<Row> = Vec::new();
    for position in 0..record.len() as u64 {
        let Some(entry) = record.entry(position) else { continue };
        let fate = match (dropped.get(&position), changed.remove(&position)) {
            (Some(drop), _) => {
                Fate::Dropped(format!("left out by {}: {}", drop.manager, phrase(drop.reason)))
            }
            (None, Some(told)) => Fate::Changed(told.join("; ")),
            (None, None) => Fate::Kept,
        };
        let calls: Vec<String> =
            entry.tool_calls().map(|call| format!("{}(…)", call.name.as_str())).collect();
        let text = entry.content().filter(|text| !text.is_empty()).unwrap_or_else(|| calls.join(", "));
        let tokens =
            sent.get(&position).copied().unwrap_or_else(|| entry_tokens(count.counter.tokenizer, entry));
        match rows.last_mut() {
            Some(row) if row.fate == fate && matches!(fate, Fate::Dropped(_)) => {
                row.last = position;
                row.tokens += tokens;
            }
            _ => rows.push(Row {
                first: position,
                last: position,
                role: entry.role.as_str(),
                tokens,
                fate,
                excerpt: excerpt(&text),
            }),
        }
    }
    rows
}

/// A reason in words.
fn phrase(reason: Reason) -> &'static str {
    match reason {
        Reason::OrphanResult => "a result nobody called for",
        Reason::DuplicateResult => "a second result for one call",
        Reason::UnfinishedGroup => "a call whose results are not all there",
        Reason::Erased => "erased",
        Reason::Truncated => "shortened",
        Reason::Moved => "moved to its call",
        Reason::OutsideWindow => "outside the window",
        Reason::OlderTurn => "in an older turn",
        Reason::OverBudget => "over the budget",
        Reason::Cleared => "cleared",
        Reason::InactiveTool => "its tool is not on offer",
        Reason::Summarized => "covered by the summary",
        Reason::LessRelevant => "matters less to the question",
        Reason::BeforeCut => "before the cut",
        Reason::ReplacedLead => "another lead took its place",
        Reason::LeftOut => "not wanted",
    }
}

/// The start of a text on one line, control characters shown and not sent to the terminal.
fn excerpt(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(EXCERPT)
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect();
    if text.chars().nth(EXCERPT).is_some() {
        out.push('…');
    }
    out
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
