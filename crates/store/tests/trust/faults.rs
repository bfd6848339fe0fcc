//! Faults of the disk at every call of a recorded workload: nothing acknowledged is lost, nothing that is not durable is seen,
//! and writing goes on when the disk works again. `./dev trial faults` tries every call instead of some.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use crate::power::trace::FAILING;
use crate::power::{Disk, Step, Trace, wrong};
use crate::support::Dice;

/// What came of one run with a fault in it.
#[derive(Default)]
struct Outcome {
    acked: HashMap<(String, u64), String>,
    disk: Disk,
    refused: Vec<String>,
    /// Acknowledged after something was refused.
    later: usize,
    /// Places that could be read after a refusal and had not been acknowledged.
    unacknowledged: usize,
    failed_syncs: usize,
}

impl Outcome {
    /// Whether an append was acknowledged after the fault. A fault that hit the last append has none after it.
    fn healed(&self) -> bool {
        self.later > 0 || (self.refused.len() == 1 && self.acked.len() + 1 == FAILING)
    }
}

/// Runs the workload with a fault; none where that cannot be done here.
fn run(fault: &str) -> Option<Outcome> {
    let trace = Trace::record("failing", &["-e", fault])?;
    let (mut outcome, mut last) = (Outcome::default(), None);
    for step in &trace.steps {
        match step {
            Step::Acked(place, link) => {
                outcome.later += usize::from(!outcome.refused.is_empty());
                last = Some(place.1);
                outcome.acked.insert(place.clone(), link.clone());
            }
            Step::Refused(kind) => outcome.refused.push(kind.clone()),
            Step::Visible(seen) => outcome.unacknowledged += usize::from(*seen != last),
            Step::SyncFailed(_) => {
                outcome.failed_syncs += 1;
                outcome.disk.take(step);
            }
            step => outcome.disk.take(step),
        }
    }
    Some(outcome)
}

/// The calls of a kind that one thread of the workload makes: the fault can be put at each. The first ones make the store,
/// and are those of another thread; the last appends are left out, because writing could not be seen to heal after them.
const SYNCS: std::ops::Range<usize> = 22..34;
const WRITES: std::ops::Range<usize> = 265..480;

/// Which of the calls are tried: some of those that append, and two of those that make the store; all in a trial.
fn tried(calls: std::ops::Range<usize>, some: usize, dice: &mut Dice) -> Vec<usize> {
    if std::env::var("SCROLLBACK_TRIAL_FAULTS").is_ok() {
        return (1..calls.end).collect();
    }
    let appends: Vec<usize> = (0..some).map(|_| calls.start + dice.roll(calls.len())).collect();
    (0..2).map(|_| 1 + dice.roll(calls.start - 1)).chain(appends).collect()
}

fn dice() -> Dice {
    Dice(u64::from(std::process::id()) << 8 | 3)
}

/// What must hold after every fault.
fn holds(outcome: &Outcome, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(wrong(folder.path(), &outcome.disk.whole(), &outcome.acked), None, "{what}");
    assert_eq!(outcome.unacknowledged, 0, "{what}: something was visible that was not durable");
}

#[test]
fn after_a_failed_sync_nothing_of_it_is_visible_and_writing_heals() {
    let (mut met, mut dice) = (0, dice());
    for call in tried(SYNCS, 8, &mut dice) {
        let what = format!("sync {call}");
        let Some(outcome) = run(&format!("inject=fsync,fdatasync:error=EIO:when={call}")) else { return };
        holds(&outcome, &what);
        let folder = tempfile::tempdir().unwrap();
        // The disk without anything a failed sync may have lost.
        assert_eq!(wrong(folder.path(), &outcome.disk.synced(), &outcome.acked), None, "{what}");
        if let Some(first) = outcome.refused.first() {
            assert_eq!(first, "Unknown", "{what}");
            assert!(outcome.healed(), "{what}: nothing was acknowledged after the disk was well again");
            met += 1;
        }
    }
    assert!(met > 0, "no fault was met");
}

#[test]
fn a_sync_that_keeps_failing_acknowledges_nothing() {
    let Some(outcome) = run("inject=fsync,fdatasync:error=EIO:when=30+") else { return };
    assert!(outcome.failed_syncs > 0 && outcome.later == 0, "{} later", outcome.later);
    holds(&outcome, "from sync 30 on");
}

#[test]
fn a_full_disk_and_a_used_up_quota_are_full_and_heal() {
    let (mut met, mut dice) = (0, dice());
    for error in ["ENOSPC", "EDQUOT"] {
        for call in tried(WRITES, 5, &mut dice) {
            let what = format!("{error} at write {call}");
            let fault = format!("inject=pwrite64:error={error}:when={call}..{}", call + 5);
            let Some(outcome) = run(&fault) else { return };
            holds(&outcome, &what);
            if !outcome.refused.is_empty() {
                assert!(outcome.refused.iter().all(|kind| kind == "Full"), "{what}: {:?}", outcome.refused);
                assert!(outcome.healed(), "{what}: it did not heal");
                met += 1;
            }
        }
    }
    assert!(met > 2, "{met} faults were met");
}

#[test]
fn a_write_that_fails_at_any_call_loses_nothing_and_heals() {
    let (mut met, mut dice) = (0, dice());
    for call in tried(WRITES, 10, &mut dice) {
        let what = format!("EIO at write {call}");
        let Some(outcome) = run(&format!("inject=pwrite64:error=EIO:when={call}")) else { return };
        holds(&outcome, &what);
        if !outcome.refused.is_empty() {
            assert!(outcome.healed(), "{what}: it did not heal");
            met += 1;
        }
    }
    assert!(met > 0, "no fault was met");
}

#[test]
fn a_slow_sync_is_waited_for() {
    // Each of some syncs takes 60 ms; whatever is visible meanwhile was acknowledged before.
    let Some(outcome) = run("inject=fsync,fdatasync:delay_enter=60000:when=12..25") else { return };
    assert_eq!((outcome.refused.len(), outcome.acked.len()), (0, FAILING));
    holds(&outcome, "slow syncs");
}
