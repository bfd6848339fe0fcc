//! The offline summariser: extractive and deterministic, without a model.

use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::{Role, Time};
use crate::manager::{Ask, HistoryManager, SummaryAsk};
use crate::record::{AppendError, Record};

/// Longest line of a summary, in characters.
const LINE: usize = 160;

/// Writes the summary a manager asked for and returns it as the decision to record.
///
/// Each user or assistant entry with text becomes one line; tool details are skipped. When the lines do not fit, the
/// first one (usually the task) and the newest ones stay.
pub fn summarize_offline(record: &Record, ask: &SummaryAsk) -> Decision {
    let mut lines: Vec<String> =
        ask.previous.iter().flat_map(|text| text.lines()).map(String::from).collect();
    for &position in &ask.entries {
        let Some(entry) =
            record.entry(position).filter(|entry| matches!(entry.role, Role::User | Role::Assistant))
        else {
            continue;
        };
        let text = entry.content().unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            lines.push(cut_line(format!("- {}: {text}", entry.role)));
        }
    }
    if lines.is_empty() {
        lines.push("(no text)".into());
    }
    ask.answered(&fit_lines(&lines, ask.max_chars), "offline", None)
}

/// Records what `manager` asks for before a view is made, summaries being written offline, and returns the position
/// of what was recorded. At most one summary is written per call; a manager that wants more asks again at the next.
pub fn settle_offline(
    record: &mut Record,
    cx: &CurationContext,
    manager: &dyn HistoryManager,
    at: Time,
) -> Result<Option<u64>, AppendError> {
    let Some(Ask::Summary(ask)) = record.plan(cx, manager).into_iter().next() else {
        return Ok(None);
    };
    let decision = summarize_offline(record, &ask);
    record.decide(decision, at).map(Some)
}

fn cut_line(line: String) -> String {
    if line.chars().count() <= LINE {
        return line;
    }
    line.chars().take(LINE - 3).chain("...".chars()).collect()
}

/// The lines within `max_chars`: all of them; else the first, a note, and the newest; else what fits of the first.
fn fit_lines(lines: &[String], max_chars: usize) -> String {
    let whole = lines.join("\n");
    if whole.chars().count() <= max_chars {
        return whole;
    }
    let Some((first, rest)) = lines.split_first() else { return String::new() };
    let lengths: Vec<usize> = rest.iter().map(|line| line.chars().count() + 1).collect();
    let mut newest: usize = lengths.iter().sum();
    for (omitted, length) in (1..=rest.len()).zip(&lengths) {
        newest -= length;
        let note = format!("- ({omitted} lines omitted)");
        if first.chars().count() + 1 + note.len() + newest <= max_chars {
            let kept = rest.get(omitted..).unwrap_or_default();
            return [first.as_str(), &note]
                .into_iter()
                .chain(kept.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join("\n");
        }
    }
    first.chars().take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_the_middle_is_omitted_first() {
        assert_eq!(cut_line("x".repeat(160)).len(), 160);
        let cut = cut_line("x".repeat(161));
        assert!(cut.len() == 160 && cut.ends_with("xxx..."));

        let lines: Vec<String> =
            ["- user: one", "- a: two", "- b: three", "- c: four"].map(String::from).into();
        let whole = lines.join("\n");
        assert_eq!(fit_lines(&lines, whole.len()), whole);
        assert_eq!(fit_lines(&lines, whole.len() - 1), "- user: one\n- (3 lines omitted)");
        assert_eq!(fit_lines(&lines, 30), "- user: one");
        assert_eq!(fit_lines(&lines, 6), "- user");
        let many: Vec<String> = (0..50).map(|n| format!("- user: line number {n}")).collect();
        let short = fit_lines(&many, 200);
        assert!(short.starts_with("- user: line number 0\n- (") && short.ends_with("number 49"), "{short}");
        assert!(short.len() <= 200);
        let kept = short.lines().count() - 2;
        assert!(short.contains(&format!("({} lines omitted)", 49 - kept)));
    }
}
