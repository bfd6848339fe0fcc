//! What an agent does, told while it does it.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use anstyle::{AnsiColor, Reset, Style};
use scrollback_agent::EventBus;
use scrollback_agent::event::{ConversationRecorded, Throttled, ToolInvoked};
use scrollback_core::{Entry, Role};

use crate::store::{one_line, width};

/// Prints one line per iteration, and one for what goes wrong on the way.
pub(super) fn follow(bus: &EventBus) {
    let iteration = AtomicU32::new(0);
    bus.subscribe::<ConversationRecorded>(move |told| {
        let entry = &told.event.recorded.entry;
        if entry.role == Role::Assistant {
            let number = iteration.fetch_add(1, Ordering::Relaxed) + 1;
            line(&format!("{number:>3}  {}", shown(entry)), Style::new().dimmed());
        }
        Ok(())
    });
    bus.subscribe::<ToolInvoked>(|told| {
        if told.event.is_error {
            let text = format!("     {} failed: {}", told.event.name, told.event.result);
            line(&text, AnsiColor::Yellow.on_default());
        }
        Ok(())
    });
    follow_throttling(bus);
}

/// Prints what each tool answered, in one line; failures have theirs already.
pub(crate) fn follow_results(bus: &EventBus) {
    bus.subscribe::<ToolInvoked>(|told| {
        if !told.event.is_error {
            let text = format!("     {} → {}", told.event.name, told.event.result);
            line(&text, AnsiColor::Cyan.on_default().dimmed());
        }
        Ok(())
    });
}

/// Prints a line when a request has to wait.
pub(crate) fn follow_throttling(bus: &EventBus) {
    bus.subscribe::<Throttled>(|told| {
        let Throttled { attempt, kind, delay, .. } = told.event;
        let text = format!("     attempt {attempt}: {kind}; trying again in {:.1} s", *delay as f64 / 1000.0);
        line(&text, AnsiColor::Yellow.on_default());
        Ok(())
    });
}

/// Ends the line after each text that was printed as it came.
pub(crate) fn end_lines(bus: &EventBus, end: impl Fn() + Send + Sync + 'static) {
    bus.subscribe::<ConversationRecorded>(move |told| {
        let entry = &told.event.recorded.entry;
        if entry.role == Role::Assistant && entry.content().is_some_and(|text| !text.is_empty()) {
            end();
        }
        Ok(())
    });
}

/// What the model said or did, in one line.
fn shown(entry: &Entry) -> String {
    let calls: Vec<String> = entry
        .tool_calls()
        .map(|call| format!("{}({})", call.name.as_str(), call.arguments.as_str()))
        .collect();
    let text = entry.content().unwrap_or_default();
    let thought = entry.meta.as_ref().is_some_and(|meta| meta.step.is_some());
    match calls.as_slice() {
        [] if thought => format!("({text})"),
        [] => format!("answer: {text}"),
        calls if text.is_empty() => calls.join(", "),
        calls => format!("{}  ({text})", calls.join(", ")),
    }
}

pub(crate) fn line(text: &str, style: Style) {
    // If it cannot be written, there is no one to tell.
    let _ = writeln!(anstream::stderr().lock(), "{style}{}{Reset}", one_line(text, width()));
}
