//! Power loss: what a disk may hold after the current is cut, at any moment of a recorded run, is still a store that has
//! everything acknowledged before that moment.
//!
//! A victim is traced once; every write, sync and acknowledgement is known in order. A disk that lost power has what was
//! synced, and of the rest any part: some writes whole, some half, some not, whatever came first. A killed process leaves
//! all of it. Both are made from the trace, file by file, and opened.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/trace.rs"]
pub(crate) mod trace;

use std::collections::HashMap;
use std::path::Path;

use crate::support::{Dice, block_on};
use scrollback_core::Time;
use scrollback_store::{Listing, Sqlite, Store, hex};
pub(crate) use trace::{Disk, Step, Trace};

/// Power losses in a test run; the trial sets another number.
fn losses() -> usize {
    std::env::var("SCROLLBACK_TRIAL_LOSSES").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Opens what a disk holds; what is missing or wrong of what was acknowledged.
pub(crate) fn wrong(folder: &Path, disk: &Disk, acked: &HashMap<(String, u64), String>) -> Option<String> {
    disk.write(folder);
    let file = folder.join(trace::FILE);
    if acked.is_empty() && !file.exists() {
        return None;
    }
    let store = match Sqlite::open(&file, Time(0)) {
        Ok(store) => store,
        Err(error) => return Some(format!("cannot be opened: {error}")),
    };
    block_on(async {
        let store: &dyn Store = &store;
        let page = match store.list(None, Listing { limit: 1_000, ..Listing::default() }).await {
            Ok(page) => page,
            Err(error) => return Some(format!("cannot be listed: {error}")),
        };
        let mut links = HashMap::new();
        for (row, _) in &page.conversations {
            let found = store.verify(&row.tenant, &row.id).await.unwrap();
            if let Some(problem) = found.problems.first() {
                return Some(format!("{problem:?}"));
            }
            for placed in store.entries(&row.tenant, &row.id, 0, u64::MAX).await.unwrap() {
                links.insert((row.id.to_string(), placed.position), hex(&placed.link));
            }
        }
        let lost = acked.iter().find(|(place, link)| links.get(*place) != Some(*link));
        lost.map(|(place, _)| format!("{place:?} was acknowledged and is lost"))
    })
}

#[test]
fn a_process_that_ends_at_any_write_loses_nothing_it_acknowledged() {
    let Some(trace) = Trace::record("few", &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut disk, mut acked, mut ends) = (Disk::default(), HashMap::new(), 0);
    for (number, step) in trace.steps.iter().enumerate() {
        match step {
            Step::Acked(place, link) => drop(acked.insert(place.clone(), link.clone())),
            step => {
                disk.take(step);
                let problem = wrong(folder.path(), &disk.whole(), &acked);
                assert_eq!(problem, None, "after step {number} of {}", trace.steps.len());
                ends += 1;
            }
        }
    }
    println!("{ends} ends, {} acknowledged appends", acked.len());
    assert!(acked.len() == trace::FEW && ends > 100, "{} {ends}", acked.len());
}

/// Steps in which a file comes to be.
const MAKING: usize = 30;

/// Cuts the power at random moments; how many disks were not as they should be, and the first of them.
fn cut(trace: &Trace, times: usize, dice: &mut Dice) -> (usize, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut bad, mut first) = (0, None);
    for number in 0..times {
        // Every fourth time while the file is being made: a few steps, each of another kind.
        let moment = dice.roll(if number % 4 == 0 { MAKING } else { trace.steps.len() });
        let (mut disk, mut acked) = (Disk::default(), HashMap::new());
        for step in trace.steps.iter().take(moment) {
            match step {
                Step::Acked(place, link) => drop(acked.insert(place.clone(), link.clone())),
                step => disk.take(step),
            }
        }
        if let Some(problem) = wrong(folder.path(), &disk.after_power_loss(dice), &acked) {
            bad += 1;
            first.get_or_insert(format!("cut {number} at step {moment}: {problem}"));
        }
    }
    (bad, first)
}

#[test]
fn a_power_loss_at_any_moment_loses_nothing_that_was_acknowledged() {
    let Some(trace) = Trace::record("one", &[]) else { return };
    let seed = u64::from(std::process::id()) << 8 | 5;
    let (bad, first) = cut(&trace, losses(), &mut Dice(seed));
    println!("{} power losses over {} steps", losses(), trace.steps.len());
    assert_eq!((bad, first), (0, None), "seed {seed}");
    // The same eye sees what is lost when commits are not synced.
    let lazy = Trace::record("one", &["lazy"]).unwrap();
    let (bad, _) = cut(&lazy, 50, &mut Dice(seed));
    assert!(bad > 20, "the control lost something in only {bad} of 50");
}
