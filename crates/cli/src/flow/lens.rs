//! `scrollback lens`: runs, and what every model call of theirs really saw.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_core::Time;
use scrollback_core::redact::Redactor;
use scrollback_flow::MicroDollars;
use scrollback_flow::driver::{Engine, RunStatus};
use scrollback_flow::lens::{Lens, Listing, Reveal, WithBody};
use serde_json::Value;

use super::args::{
    LensAction, LensArgs, LensListArgs, LensPromptArgs, LensRunArgs, LensTraceArgs, StatusArg,
};
use crate::amounts::{counted, dollars};
use crate::failure::{Failure, USAGE};
use crate::input;
use crate::store::{Intent, Setup, block_on, now, one_line, width};

/// How a document is shown to people.
type DocumentPrinter = Box<dyn Fn(&Value) -> String>;

/// Lines of a text that are shown before the rest is folded.
const FOLD: usize = 20;

pub(crate) fn run(args: &LensArgs, json: bool) -> Result<ExitCode, Failure> {
    let setup = Setup::new(&args.store)?;
    let redactor = Redactor::new(&setup.config.redaction())
        .map_err(|error| Failure::new(USAGE, "bad_config", error.to_string()))?;
    let redactor = Arc::new(redactor);
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let tenant = setup.tenant();
        let catalog = Arc::new(setup.config.catalog());
        let engine = Engine::new(Arc::clone(&store), tenant.clone(), catalog, Arc::clone(&redactor));
        let lens = |of: Option<&LensRunArgs>| Lens {
            store: &store,
            tenant: &tenant,
            redactor: &redactor,
            reveal: if of.is_some_and(|of| of.reveal) { Reveal::Everything } else { Reveal::Redacted },
            now: now(),
        };
        let (document, text): (Value, DocumentPrinter) = match &args.action {
            None => (lens(None).list(&listing(&args.list)).await?, Box::new(list)),
            Some(LensAction::List(wanted)) => (lens(None).list(&listing(wanted)).await?, Box::new(list)),
            Some(LensAction::Show(of)) => {
                let run = engine.find(&of.run).await?;
                let flow = engine.flow_of(&run).ok();
                let full = of.full;
                let document = lens(Some(of)).show(&run, flow.as_ref()).await?;
                (document, Box::new(move |document| show(document, full)))
            }
            Some(LensAction::Trace(LensTraceArgs { of, export })) => {
                let run = engine.find(&of.run).await?;
                if *export {
                    let events = lens(Some(of)).exported(&run).await?;
                    let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
                    input::print(&lines.concat())?;
                    return Ok(ExitCode::SUCCESS);
                }
                (lens(Some(of)).trace(&run).await?, Box::new(trace))
            }
            Some(LensAction::Prompt(LensPromptArgs { of, step, wire })) => {
                let run = engine.find(&of.run).await?;
                let body = if *wire { WithBody::Whole } else { WithBody::Messages };
                let found = lens(Some(of)).prompt(&run, step, body).await?;
                let document = found.ok_or_else(|| {
                    let message =
                        format!("run {} has no step {step:?}; `scrollback lens show` lists them", run.id);
                    Failure::new(USAGE, "unknown_step", message)
                })?;
                let full = of.full;
                (document, Box::new(move |document| prompt(document, full)))
            }
        };
        if json {
            input::print(&format!("{document}\n"))?;
        } else {
            input::print_styled(&text(&document))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn listing(args: &LensListArgs) -> Listing {
    let status = args.status.map(|status| match status {
        StatusArg::Running => RunStatus::Running,
        StatusArg::Paused => RunStatus::Paused,
        StatusArg::Interrupted => RunStatus::Interrupted,
        StatusArg::Done => RunStatus::Done,
        StatusArg::Failed => RunStatus::Failed,
    });
    Listing { status, flow: args.flow.clone(), limit: args.limit }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The colour of a status.
fn style(status: &str) -> Style {
    match status {
        "done" => AnsiColor::Green.on_default(),
        "failed" => AnsiColor::Red.on_default(),
        "paused" | "interrupted" => AnsiColor::Yellow.on_default(),
        _ => Style::new(),
    }
}

fn clock(time: &str) -> String {
    Time::parse(time).map_or_else(|| time.to_string(), crate::store::to_the_second)
}

/// How long something took, if it is over.
fn lasted(from: &str, to: &str) -> String {
    let milliseconds = Time::parse(from).zip(Time::parse(to)).map(|(from, to)| to.0.saturating_sub(from.0));
    match milliseconds {
        None => String::new(),
        Some(short @ ..10_000) => format!(", {short} ms"),
        Some(long) => format!(", {} s", long / 1000),
    }
}

fn list(document: &Value) -> String {
    let runs = items(document, "runs");
    if runs.is_empty() {
        return "no runs yet; begin one with `scrollback run FLOW.yaml`\n".into();
    }
    let mut out = String::new();
    let name = runs.iter().map(|run| text(run, "flow").chars().count()).max().unwrap_or(0).min(32);
    for run in runs {
        let status = text(run, "status");
        let usage = run.get("usage").cloned().unwrap_or_default();
        let _ = writeln!(
            out,
            "{}  {}  {:name$}  {}{status:11}{Reset}  {:>10}  {:>14}",
            text(run, "run"),
            clock(text(run, "created_at")),
            one_line(text(run, "flow"), name.max(1)),
            style(status),
            counted(number(run, "steps"), "step"),
            counted(number(&usage, "total_tokens"), "token"),
        );
    }
    out
}

fn show(document: &Value, full: bool) -> String {
    let mut out = String::new();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let status = text(document, "status");
    let _ = writeln!(
        out,
        "{bold}run {}{Reset}  flow {}  {}{status}{Reset}",
        text(document, "run"),
        text(document, "flow"),
        style(status)
    );
    let usage = document.get("usage").cloned().unwrap_or_default();
    let cost = usage.get("cost_usd").and_then(Value::as_f64).and_then(MicroDollars::from_dollars);
    let _ = writeln!(
        out,
        "{dim}begun {}, {}, {}, {}{}{Reset}",
        clock(text(document, "created_at")),
        match number(document, "resumes") {
            0 => "never resumed".into(),
            1 => "resumed once".into(),
            times => format!("resumed {times} times"),
        },
        counted(number(&usage, "calls"), "call"),
        counted(number(&usage, "total_tokens"), "token"),
        cost.filter(|cost| cost.0 > 0).map_or_else(String::new, |cost| format!(", {}", dollars(cost))),
    );
    if let Some(error) = document.get("error").filter(|error| !error.is_null()) {
        let red = AnsiColor::Red.on_default();
        let _ = writeln!(out, "{red}{} [{}]{Reset}", text(error, "message"), text(error, "code"));
    }
    for pause in items(document, "pauses") {
        let yellow = AnsiColor::Yellow.on_default();
        let _ = writeln!(
            out,
            "{yellow}waits at {}:{Reset} {}",
            text(pause, "step"),
            one_line(text(pause, "message"), width())
        );
    }
    let _ = writeln!(out, "\n{bold}steps{Reset}");
    for step in items(document, "steps") {
        let badge = if step.get("conversation_injected") == Some(&Value::Bool(true)) {
            "  [conversation injected]"
        } else {
            ""
        };
        let status = text(step, "status");
        let depth = text(step, "key").matches('/').count();
        let _ = writeln!(
            out,
            "{:indent$}{}{status:7}{Reset}  {}  {dim}{}{Reset}{badge}",
            "",
            style(status),
            text(step, "key"),
            text(step, "kind"),
            indent = 2 + 2 * depth,
        );
    }
    for talk in items(document, "conversations") {
        let _ = writeln!(out, "\n{bold}conversation {}{Reset}", text(talk, "scope"));
        for turn in items(talk, "turns") {
            message(&mut out, text(turn, "role"), text(turn, "content"), "", full);
        }
        for summary in items(talk, "summaries") {
            let covers = summary.get("covers").cloned().unwrap_or_default();
            let _ = writeln!(out, "  {dim}a summary stands for turns {covers}:{Reset}");
            message(&mut out, "assistant", text(summary, "content"), "", full);
        }
    }
    if let Some(output) = document.get("output").filter(|output| !output.is_null()) {
        let output = output.as_str().map_or_else(|| output.to_string(), String::from);
        let _ = writeln!(out, "\n{bold}output{Reset}");
        message(&mut out, "", &output, "", full);
    }
    out
}

/// A text with who says it, folded where it is long.
fn message(out: &mut String, role: &str, content: &str, mark: &str, full: bool) {
    let dim = Style::new().dimmed();
    let lines: Vec<&str> = content.lines().collect();
    let shown = if full { lines.len() } else { lines.len().min(FOLD) };
    let who = if role.is_empty() { String::new() } else { format!("{role}: ") };
    for (number, line) in lines.iter().take(shown).enumerate() {
        let before = if number == 0 { who.clone() } else { " ".repeat(who.chars().count()) };
        let clean: String = line.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
        let mark = if number == 0 { mark } else { "" };
        let _ = writeln!(out, "  {dim}{before}{Reset}{clean}{dim}{mark}{Reset}");
    }
    if lines.is_empty() {
        let _ = writeln!(out, "  {dim}{who}{mark}{Reset}");
    }
    if shown < lines.len() {
        let _ =
            writeln!(out, "  {dim}… {} more (--full){Reset}", counted((lines.len() - shown) as u64, "line"));
    }
}

fn trace(document: &Value) -> String {
    let mut out = String::new();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let spans = items(document, "spans");
    let _ = writeln!(out, "{bold}run {}{Reset}", text(document, "run"));
    let depth = |span: &Value| {
        let mut depth = 0;
        let mut parent = text(span, "parent");
        while let Some(found) = spans.iter().find(|other| !parent.is_empty() && text(other, "id") == parent) {
            depth += 1;
            parent = text(found, "parent");
            if depth > 64 {
                break;
            }
        }
        depth
    };
    for span in spans {
        let status = text(span, "status");
        let _ = writeln!(
            out,
            "{:indent$}{}  {}{status}{Reset}  {dim}{}{}{Reset}",
            "",
            text(span, "name"),
            style(status),
            clock(text(span, "started_at")),
            lasted(text(span, "started_at"), text(span, "ended_at")),
            indent = 2 + 2 * depth(span),
        );
    }
    let _ = writeln!(out, "\n{bold}events{Reset}");
    for event in items(document, "events") {
        let data = event.get("data").cloned().unwrap_or_default();
        let line = format!(
            "{:>5}  {}  {}  {data}",
            number(event, "sequence"),
            text(event, "type"),
            text(event, "key")
        );
        let _ = writeln!(out, "{}", one_line(&line, width()));
    }
    out
}

fn prompt(document: &Value, full: bool) -> String {
    let mut out = String::new();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let calls = items(document, "calls");
    if calls.is_empty() {
        let _ = writeln!(out, "{} asked no model", text(document, "step"));
    }
    for call in calls {
        let tokens = call.get("tokens").cloned().unwrap_or_default();
        let exact = if tokens.get("exact") == Some(&Value::Bool(true)) { "" } else { "about " };
        let badge = call.get("badge").and_then(Value::as_str).map_or_else(String::new, |badge| {
            format!("  {}[{badge}]{Reset}", AnsiColor::Cyan.on_default().bold())
        });
        let _ = writeln!(
            out,
            "{bold}{}{Reset}  call {}  {}  {exact}{}{badge}",
            text(call, "key"),
            number(call, "call"),
            text(call, "model"),
            counted(number(&tokens, "total"), "token"),
        );
        for said in items(call, "messages") {
            let mark = format!("  ({})", text(said, "source"));
            message(&mut out, text(said, "role"), text(said, "content"), &mark, full);
        }
        let left = items(call, "left_out");
        if !left.is_empty() {
            let first = left.first().cloned().unwrap_or_default();
            let _ = writeln!(
                out,
                "  {dim}left out: {}, first by {} ({}){Reset}",
                if left.len() == 1 { "1 entry".into() } else { format!("{} entries", left.len()) },
                text(&first, "manager"),
                text(&first, "reason"),
            );
        }
        if let Some(request) = call.get("request") {
            let _ = writeln!(out, "  {dim}request:{Reset} {request}");
        }
        out.push('\n');
    }
    out
}
