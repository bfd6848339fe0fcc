//! `--explain`: the view as a table people can read.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_core::tokens::{Count, entry_tokens};
use scrollback_core::{Entry, ItemSource, Reason, SUMMARY_HEADING};

use crate::args::ExplainArg;
use crate::curate::FinishedCuration;

/// Longest excerpt of a text.
const EXCERPT: usize = 44;

/// How an entry fared; decides mark and colour of its line.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    Changed,
    Dropped,
    Added,
}

/// One line of the table. Neighbours left out for the same reason are told in one line.
struct ExplainRow {
    fate: Fate,
    first: u64,
    last: u64,
    who: &'static str,
    tokens: usize,
    what: String,
}

/// Prints what was kept, changed and left out, entry by entry, and by whom.
pub(crate) fn print(curated: &FinishedCuration<'_>, which: ExplainArg) {
    // If it cannot be written, there is no one to tell.
    let _ = write(&mut anstream::stderr().lock(), curated, which);
}

fn write(out: &mut impl Write, curated: &FinishedCuration<'_>, which: ExplainArg) -> std::io::Result<()> {
    let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
    let count = curated.view.count(curated.cx);
    let record = curated.view.record();
    writeln!(
        out,
        "{bold}{} of {} messages, {} of {} tokens{Reset} {dim}({}, {}){Reset}\n",
        count.per_entry.len(),
        record.message_count(),
        thousands(count.total),
        thousands(record.tokens(curated.cx.counter) as usize + count.overhead),
        count.counter.method.name(),
        count.counter.tokenizer.name(),
    )?;
    writeln!(out, "{dim}    {:>7}  {:<10} {:>7}  what happened{Reset}", "entry", "role", "tokens")?;
    let wanted = |row: &ExplainRow| match which {
        ExplainArg::All => true,
        ExplainArg::Dropped => row.fate == Fate::Dropped,
        ExplainArg::Changed => row.fate == Fate::Changed,
    };
    for row in rows(curated, &count).into_iter().filter(wanted) {
        row.write(out)?;
    }
    let mut warnings: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for warning in curated.view.warnings() {
        warnings.entry(warning.code).or_default().extend(warning.index);
    }
    for (code, places) in warnings {
        let at = match places.as_slice() {
            [] => String::new(),
            [only] => format!(", at {only}"),
            [first, ..] => format!(", {} times, first at {first}", places.len()),
        };
        writeln!(out, "{}!   warning  {}{at}{Reset}", AnsiColor::Yellow.on_default(), in_words(code))?;
    }
    for note in &curated.loaded.notes {
        writeln!(out, "{dim}       note  {note}{Reset}")?;
    }
    if let Some(epoch) = curated.view.epoch() {
        let cut = match (epoch.id, epoch.cut) {
            (0, _) => ", nothing was cut yet".to_string(),
            (_, Some(cut)) => format!(", cut before {cut}"),
            (_, None) => String::new(),
        };
        writeln!(out, "{dim}      epoch  {}{cut}{Reset}", epoch.id)?;
    }
    writeln!(out)
}

impl ExplainRow {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (mark, colour) = match self.fate {
            Fate::Kept => (' ', Style::new()),
            Fate::Changed => ('~', AnsiColor::Yellow.on_default()),
            Fate::Dropped => ('-', AnsiColor::Red.on_default()),
            Fate::Added => ('+', AnsiColor::Green.on_default()),
        };
        let several = self.last - self.first + 1;
        let (place, who) = match self.fate {
            Fate::Added => (String::new(), self.who.to_string()),
            _ if several > 1 => (format!("{}–{}", self.first, self.last), format!("{several} entries")),
            _ => (self.first.to_string(), self.who.to_string()),
        };
        writeln!(
            out,
            "{colour}{mark}   {place:>7}  {who:<10} {:>7}  {}{Reset}",
            thousands(self.tokens),
            self.what
        )
    }
}

/// The entries of the record in order, and what the view added where it stands.
fn rows(curated: &FinishedCuration<'_>, count: &Count) -> Vec<ExplainRow> {
    let record = curated.view.record();
    let told = EntryFates::of(curated, count);
    let mut rows: Vec<ExplainRow> = Vec::new();
    for position in 0..record.len() as u64 {
        rows.extend(told.added_before(position));
        let Some(entry) = record.entry(position) else { continue };
        let row = told.row(position, entry, count);
        match rows.last_mut() {
            Some(last)
                if row.fate == Fate::Dropped && last.fate == Fate::Dropped && last.what == row.what =>
            {
                last.last = position;
                last.tokens += row.tokens;
            }
            _ => rows.push(row),
        }
    }
    rows.extend(told.added_before(record.len() as u64));
    rows
}

/// What is known about the entries, by position.
struct EntryFates {
    sent: BTreeMap<u64, usize>,
    dropped: BTreeMap<u64, String>,
    changed: BTreeMap<u64, String>,
    /// What the view added, by the position it stands before.
    added: BTreeMap<u64, Vec<(&'static str, usize, String)>>,
}

impl EntryFates {
    fn of(curated: &FinishedCuration<'_>, count: &Count) -> Self {
        let mut told = EntryFates {
            sent: BTreeMap::new(),
            dropped: BTreeMap::new(),
            changed: BTreeMap::new(),
            added: BTreeMap::new(),
        };
        let mut next = 0;
        for (item, &tokens) in curated.view.items().zip(&count.per_entry) {
            match item.source {
                ItemSource::Entry(position) => {
                    told.sent.insert(position, tokens);
                    next = position + 1;
                }
                ItemSource::Interrupted { call_id } => {
                    let what = format!("call {} never got a result", excerpt(&call_id));
                    told.added.entry(next).or_default().push(("closed", tokens, what));
                }
                ItemSource::Ledger { of } => {
                    let lines = item.entry.content().unwrap_or_default().lines().count();
                    let what = format!("{lines} lines of {} entries", of.len());
                    told.added.entry(next).or_default().push(("ledger", tokens, what));
                }
                ItemSource::Summary { covers } => {
                    let text = item.entry.content().unwrap_or_default();
                    let text = text.strip_prefix(SUMMARY_HEADING).unwrap_or(&text);
                    let what = format!("stands for {} entries: {}", covers.len(), excerpt(text.trim()));
                    let place = covers.first().copied().unwrap_or(next);
                    told.added.entry(place).or_default().push(("summary", tokens, what));
                }
            }
        }
        let explanation = curated.explanation();
        for drop in explanation.dropped {
            told.dropped.insert(drop.index, format!("left out by {}: {}", drop.manager, phrase(drop.reason)));
        }
        for change in explanation.changed {
            let sizes = match change.reason {
                Reason::Moved | Reason::BoundReasoning | Reason::BlankText | Reason::Repaired => {
                    String::new()
                }
                _ => {
                    format!(", {} → {} characters", thousands(change.from_chars), thousands(change.to_chars))
                }
            };
            let what = format!("{} by {}{sizes}", phrase(change.reason), change.manager);
            told.changed
                .entry(change.index)
                .and_modify(|earlier| {
                    earlier.push_str("; ");
                    earlier.push_str(&what);
                })
                .or_insert(what);
        }
        told
    }

    fn added_before(&self, position: u64) -> impl Iterator<Item = ExplainRow> {
        let added = self.added.get(&position).map(Vec::as_slice).unwrap_or_default();
        added.iter().map(move |(who, tokens, what)| ExplainRow {
            fate: Fate::Added,
            first: position,
            last: position,
            who,
            tokens: *tokens,
            what: what.clone(),
        })
    }

    fn row(&self, position: u64, entry: &Entry, count: &Count) -> ExplainRow {
        let (fate, what) = match (self.dropped.get(&position), self.changed.get(&position)) {
            (Some(why), _) => (Fate::Dropped, why.clone()),
            (None, Some(how)) => (Fate::Changed, how.clone()),
            (None, None) => (Fate::Kept, said(entry)),
        };
        let tokens = self.sent.get(&position).copied();
        let tokens = tokens.unwrap_or_else(|| entry_tokens(count.counter.tokenizer, entry));
        ExplainRow { fate, first: position, last: position, who: entry.role.as_str(), tokens, what }
    }
}

/// The start of what an entry says, or the calls it makes.
fn said(entry: &Entry) -> String {
    if let Some(text) = entry.content().filter(|text| !text.is_empty()) {
        excerpt(&text)
    } else {
        let calls: Vec<String> =
            entry.tool_calls().map(|call| format!("{}(…)", call.name.as_str())).collect();
        excerpt(&calls.join(", "))
    }
}

/// A warning in words.
fn in_words(code: &str) -> &str {
    match code {
        "duplicate_call_id" => "an id was used for a second call",
        "late_result" => "a result came after other entries had followed its call",
        "no_tool_list" => "active_tools did nothing: no tools are known (--tools)",
        other => other,
    }
}

/// A reason in words.
fn phrase(reason: Reason) -> &'static str {
    match reason {
        Reason::OrphanResult => "a result without a call",
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
        Reason::Planned => "not in the plan",
        Reason::Ledger => "lines of it are in the ledger",
        Reason::ReplacedLead => "another lead took its place",
        Reason::Superseded => "broke off, and was asked for again",
        Reason::ChangedByClient => "the client sent a shorter version back",
        Reason::Compacted => "covered by the provider's own compaction",
        Reason::ClearedByProvider => "cleared by the provider",
        Reason::LeftOut => "excluded by request",
        Reason::BoundReasoning => "reasoning left out, which was signed over what has changed,",
        Reason::BlankText => "blank text left out, which the provider refuses,",
        Reason::Unsupported => "the provider's format cannot say any of it",
        Reason::Repaired => "repaired to keep the provider's rules",
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
