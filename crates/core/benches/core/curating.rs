//! What a view costs, as the record behind it grows.

use std::hint::black_box;
use std::time::{Duration, Instant};

use scrollback_core::manager::{SharedManager, parse_list};
use scrollback_core::wire::{RenderOptions, Wire};
use scrollback_core::{CurationContext, Entry, HistoryManager, Record};

use crate::table::{self, against, note, time};
use crate::{Fallible, entries_before, measure, read, record_of, session, warm_record};

const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// The managers measured, each a list that is composed.
const MANAGERS: [&[&str]; 5] = [
    &["sliding_window(20)"],
    &["turn_window(5)"],
    &["token_budget(8000)"],
    &["sticky(token_budget(8000))"],
    &["tool_result_truncator(1000)", "sticky(token_budget(8000))"],
];

fn managers() -> Fallible<Vec<(String, SharedManager)>> {
    let parse = |texts: &&[&str]| {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        Ok((texts.join(" + "), parse_list(&texts)?))
    };
    MANAGERS.iter().map(parse).collect()
}

/// Curating the same record again and again.
pub(crate) fn one_call() -> Fallible<()> {
    let cx = CurationContext::default();
    let records = LENGTHS.iter().map(|&length| warm_record(length)).collect::<Fallible<Vec<Record>>>()?;
    let mut rows = Vec::new();
    for (name, manager) in managers()? {
        let (mut times, mut sent) = (Vec::new(), Vec::new());
        for record in &records {
            sent.push(
                Wire::OpenaiChat
                    .render(record.view(&cx, &*manager)?.items(), RenderOptions::default())
                    .messages,
            );
            times.push(measure::call(|| record.view(&cx, &*manager)));
        }
        let lengths: Vec<String> = sent.iter().map(|view| view.len().to_string()).collect();
        let equal = sent.iter().all(|view| Some(view) == sent.first());
        let view = if equal { lengths.first().cloned().unwrap_or_default() } else { lengths.join("/") };
        rows.push(figures(name, &times, Some(view)));
    }
    table::print(
        "One curate call, tokens already counted",
        &["manager", "100", "1,000", "10,000", "100,000", "10,000 / 100 ≤ 2", "< 50 µs", "entries in view"],
        &rows,
    );
    note(
        "all sessions end alike, so the views at all lengths hold the same entries; where not, all sizes are shown.",
    );
    Ok(())
}

/// Curating right after an entry was appended, as an agent does: the new entry's tokens are not counted yet.
pub(crate) fn call_after_append() -> Fallible<()> {
    const TURNS: usize = 50;
    let cx = CurationContext::default();
    let new = session::after(TURNS);
    let mut rows = Vec::new();
    for (name, manager) in managers()? {
        let mut times = Vec::new();
        for length in LENGTHS {
            let mut messages = session::before(length);
            messages.extend_from_slice(&new);
            let entries = read(&session::as_list(&messages))?;
            let (old, new) = entries.split_at(length.min(entries.len()));
            times.push(measure::long(|| mean_after_append(old, new, &cx, &*manager))?);
        }
        rows.push(figures(name, &times, None));
    }
    table::print(
        "One curate call right after an append, the new entry's tokens counted in it",
        &["manager", "100", "1,000", "10,000", "100,000", "10,000 / 100 ≤ 2", "< 50 µs"],
        &rows,
    );
    note(&format!(
        "mean over the next {} entries, so that the cuts of sticky are in it; appending is not.",
        new.len()
    ));
    Ok(())
}

fn mean_after_append(
    old: &[Entry],
    new: &[Entry],
    cx: &CurationContext,
    manager: &dyn HistoryManager,
) -> Fallible<Duration> {
    let mut record = record_of(old.to_vec())?;
    record.tokens(cx.counter);
    record.view(cx, manager)?;
    let mut curating = Duration::ZERO;
    for entry in new {
        record.append(entry.clone())?;
        let (view, taken) = measure::once(|| record.view(cx, manager));
        view?;
        curating += taken;
    }
    Ok(curating / new.len() as u32)
}

/// Times at every length, and the two targets of a call: growth, and time at 10,000 entries.
fn figures(name: String, times: &[Duration], view: Option<String>) -> Vec<String> {
    let mut row = vec![name];
    row.extend(times.iter().map(|&taken| time(taken)));
    if let [at_100, _, at_10_000, ..] = *times {
        let growth = measure::ratio(at_10_000, at_100);
        row.push(against(&format!("{growth:.2}"), growth <= 2.0));
        row.push(against("", at_10_000 < Duration::from_micros(50)));
    }
    row.extend(view);
    row
}

/// The loop of an agent, from nothing to 10,000 entries.
pub(crate) fn whole_loop() -> Fallible<()> {
    let cx = CurationContext::default();
    let (short, long) = (entries_before(1_000)?, entries_before(10_000)?);
    let mut rows = Vec::new();
    for (name, manager) in managers()? {
        let ten_short = || (0..10).map(|_| agent_loop(&short, &cx, &*manager)).sum::<Fallible<Duration>>();
        let (ten_short, long, tenth) = measure::in_turns(ten_short, || agent_loop(&long, &cx, &*manager))?;
        let short = ten_short / 10;
        let growth = tenth * 10.0;
        rows.push(vec![
            name,
            time(short),
            against(&time(long), long < Duration::from_secs(1)),
            against(&format!("{growth:.1}"), growth <= 12.0),
        ]);
    }
    table::print(
        "The whole agent loop: append and curate, entry by entry, every token counted once",
        &["manager", "1,000", "10,000 < 1 s", "10,000 / 1,000 ≤ 12"],
        &rows,
    );
    note(
        "each step also asks for the record's total, so that managers which count nothing pay for counting too.",
    );
    Ok(())
}

/// Append, curate and ask for the total, entry by entry, on a record that starts empty.
pub(crate) fn agent_loop(
    entries: &[Entry],
    cx: &CurationContext,
    manager: &dyn HistoryManager,
) -> Fallible<Duration> {
    let entries = entries.to_vec();
    let mut record = Record::new();
    let start = Instant::now();
    for entry in entries {
        record.append(entry)?;
        black_box(record.view(cx, manager)?);
        black_box(record.tokens(cx.counter));
    }
    Ok(start.elapsed())
}
