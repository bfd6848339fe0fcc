//! What planning costs: the index as the record grows, a call without a plan, and a plan.

use std::time::Duration;

use scrollback_core::manager::{self, SharedManager};
use scrollback_core::{CurationContext, Decision, Entry, Time};

use crate::table::{self, against, note, time};
use crate::{Fallible, entries_before, heap, measure, record_of, session, warm_record};

/// Entries of the long record.
const LONG: usize = 10_000;
/// Entries that are appended to it one by one.
const MORE: usize = 200;

/// Keeping the index, calls without a plan beside those of `sticky`, one plan, and the memory of the index.
pub(crate) fn plans() -> Fallible<()> {
    let cx = CurationContext::default();
    let rows = vec![appends(&cx)?, calls(&cx)?, one_plan(&cx)?, memory(&cx)?];
    table::print("Planning with auto, at 10,000 entries", &["what", "figure", "target"], &rows);
    note(
        "reading an entry into the index is part of the first call that sees it; its tokens are counted before.",
    );
    Ok(())
}

/// A record, and entries to append to it.
fn grown() -> Fallible<(Vec<Entry>, Vec<Entry>)> {
    let mut entries = entries_before(LONG + MORE)?;
    let more = entries.split_off(LONG.min(entries.len()));
    Ok((entries, more))
}

/// Mean time a call takes right after an append, where nothing has to be planned.
fn after_append(manager: &SharedManager, cx: &CurationContext) -> Fallible<Duration> {
    let (old, more) = grown()?;
    let mut record = record_of(old)?;
    record.tokens(cx.counter);
    record.view(cx, &**manager)?;
    let (count, mut taken) = (more.len() as u32, Duration::ZERO);
    for entry in more {
        record.append(entry)?;
        record.tokens(cx.counter);
        let (view, took) = measure::once(|| record.view(cx, &**manager).map(|view| view.len()));
        view?;
        taken += took;
    }
    Ok(taken / count.max(1))
}

fn appends(cx: &CurationContext) -> Fallible<Vec<String>> {
    let (auto, sticky) =
        (manager::parse("auto(100_000k)")?, manager::parse("sticky(token_budget(100_000k))")?);
    let with_index = measure::long(|| after_append(&auto, cx))?;
    let without = measure::long(|| after_append(&sticky, cx))?;
    let index = with_index.saturating_sub(without);
    let bytes = session::as_list(&session::before(1_000)).len() / 1_000;
    let per_1500 = index.mul_f64(1500.0 / bytes as f64);
    let figure = format!("{} for {bytes} bytes, {} for 1.5 kB", time(index), time(per_1500));
    Ok(vec![
        "reading an entry".into(),
        figure,
        against("< 50 µs for 1.5 kB", per_1500 < Duration::from_micros(50)),
    ])
}

fn calls(cx: &CurationContext) -> Fallible<Vec<String>> {
    let record = warm_record(LONG)?;
    let (auto, sticky) =
        (manager::parse("auto(100_000k)")?, manager::parse("sticky(token_budget(100_000k))")?);
    record.view(cx, &*auto)?;
    let auto = measure::call(|| record.view(cx, &*auto).map(|view| view.tokens(cx)));
    let sticky = measure::call(|| record.view(cx, &*sticky).map(|view| view.tokens(cx)));
    let growth = measure::ratio(auto, sticky);
    let figure = format!("{} beside {} of sticky, {growth:.2}", time(auto), time(sticky));
    Ok(vec!["a call without a plan".into(), figure, against("≤ 1.2 × sticky", growth <= 1.2)])
}

fn one_plan(cx: &CurationContext) -> Fallible<Vec<String>> {
    let mut record = warm_record(LONG)?;
    // A plan for another limit is given up: the next view makes one plan over everything.
    let stale = Decision::Plan {
        front: Vec::new(),
        tail: 0,
        limit: 1,
        by: "auto/1".into(),
        scope: None,
        factor: None,
    };
    record.decide(stale, Time(0))?;
    let auto = manager::parse("auto(32k)")?;
    record.view(cx, &*auto)?;
    let taken = measure::quickest(|| record.view(cx, &*auto).map(|view| view.len()));
    Ok(vec![
        "a plan over everything".into(),
        time(taken),
        against("< 25 ms", taken < Duration::from_millis(25)),
    ])
}

fn memory(cx: &CurationContext) -> Fallible<Vec<String>> {
    let record = warm_record(LONG)?;
    let json = session::as_list(&session::before(LONG)).len();
    let auto = manager::parse("auto(100_000k)")?;
    let before = heap::live_bytes();
    record.view(cx, &*auto)?;
    let index = heap::live_bytes().saturating_sub(before);
    let share = index as f64 / json as f64;
    let figure = format!("{index} bytes, {share:.2} × the record's JSON");
    Ok(vec!["memory of the index".into(), figure, against("≤ 1.0 ×", share <= 1.0)])
}
