//! Problems of a flow as people see them: the message, the place, and the line with a mark under it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_agent::document::{self, TextPosition};
use scrollback_core::redact::Redactor;
use scrollback_flow::FlowProblem;

use super::load::LoadedFlow;

/// Longest line that is shown; a mark under a longer one is hard to find.
const LONGEST: usize = 300;

/// A problem of any document as people see it.
struct MarkedProblem<'p> {
    code: &'p str,
    message: &'p str,
    path: &'p str,
    at: TextPosition,
}

/// Problems of an agent's file, told as those of flows are.
pub(crate) fn document_problems(
    text: &str,
    file: &Path,
    redactor: &Redactor,
    problems: &[document::DocumentProblem],
) -> String {
    let (text, file) = (masked(text, redactor), file.display().to_string());
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for problem in problems {
        let message = redactor.text(&problem.message).text;
        let mark =
            MarkedProblem { code: problem.code, message: &message, path: &problem.path, at: problem.at };
        show(&mut out, &lines, &file, &mark, "error", AnsiColor::Red.on_default().bold());
    }
    out
}

/// Prints problems on standard error, in the order of the file.
pub(crate) fn problems(loaded: &LoadedFlow, errors: &[FlowProblem], warnings: &[FlowProblem]) {
    let text = masked(&loaded.text, &loaded.redactor);
    let lines: Vec<&str> = text.lines().collect();
    let file = loaded.file.display().to_string();
    let red = AnsiColor::Red.on_default().bold();
    let yellow = AnsiColor::Yellow.on_default().bold();
    let mut out = String::new();
    for (list, word, style) in [(errors, "error", red), (warnings, "warning", yellow)] {
        for problem in list {
            let (message, path) = (&problem.message, &problem.path);
            let mark = MarkedProblem { code: problem.code.as_str(), message, path, at: problem.at };
            show(&mut out, &lines, &file, &mark, word, style);
        }
    }
    // A reader that left does not change what is wrong.
    let _ = write!(anstream::stderr(), "{out}");
}

fn show(out: &mut String, lines: &[&str], file: &str, problem: &MarkedProblem<'_>, word: &str, style: Style) {
    let dim = Style::new().dimmed();
    let (line, column) = (problem.at.line, problem.at.column);
    let message = problem.message.replace(['\n', '\r'], " ");
    let _ = writeln!(out, "{style}{word}[{}]{Reset}: {message}", problem.code);
    let path = if problem.path.is_empty() { String::new() } else { format!(" ({})", problem.path) };
    let _ = writeln!(out, "{dim}  at {file}:{line}:{column}{path}{Reset}");
    let shown = lines.get(line.saturating_sub(1)).filter(|line| line.chars().count() <= LONGEST);
    if let Some(shown) = shown.filter(|_| line > 0 && column > 0) {
        let margin = format!("{line:>5} | ");
        let before: String =
            shown.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let pad = " ".repeat(margin.chars().count());
        let marks = "^".repeat(width(shown, column));
        let _ = writeln!(out, "{dim}{margin}{Reset}{shown}\n{pad}{before}{style}{marks}{Reset}");
    }
}

/// How much of a line is marked: the word at the column, or one character.
fn width(line: &str, column: usize) -> usize {
    let word = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    line.chars().skip(column - 1).take_while(word).count().max(1)
}

/// The same text with stars where secrets are, so that everything stands where it stood.
fn masked(text: &str, redactor: &Redactor) -> String {
    let found = redactor.text(text);
    let mut out = String::with_capacity(text.len());
    let mut shown = 0;
    for span in &found.spans {
        out.push_str(text.get(shown..span.start).unwrap_or_default());
        let secret = text.get(span.start..span.end).unwrap_or_default();
        out.extend(secret.chars().map(|c| if c == '\n' { c } else { '*' }));
        shown = span.end;
    }
    out.push_str(text.get(shown..).unwrap_or_default());
    out
}
