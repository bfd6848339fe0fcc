//! Traces on the terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_subagent::{LineKind, Step, Views, print_trace};

use crate::failure::Failure;
use crate::input;

/// Prints what a mission did; colours only on a terminal.
pub(super) fn print(step: &Step, views: Views) -> Result<(), Failure> {
    let mut out = String::new();
    for line in print_trace(&step.turns, &step.sent, views) {
        let style = match line.kind {
            LineKind::Heading => Style::new().bold(),
            LineKind::Failed => AnsiColor::Red.on_default().bold(),
            LineKind::Label => AnsiColor::Cyan.on_default(),
            LineKind::Plain => Style::new(),
        };
        // What models and tools say must not move the cursor.
        let text: String = line.text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        let _ = writeln!(out, "{style}{text}{Reset}");
    }
    input::print_styled(&out)
}
