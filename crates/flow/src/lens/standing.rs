//! Runs as they stand now: a run whose process is gone is interrupted, whatever its row says.

use scrollback_core::Time;
use scrollback_store::{Run, RunListing, RunPage, RunStatus, Store, StoreError, Tenant};

use crate::driver::current_status;

/// Rows read at once while runs of one status are looked for.
const ROWS: usize = 500;
/// Rows read at most for one page; the next page goes on from there.
const MOST_ROWS: usize = 10_000;

/// A page of runs with the status that each has now, those that began last first.
///
/// Whether a run that is written as running still has a process cannot be asked of the store, so runs that run or were
/// interrupted are looked for among both. A page may then have fewer runs than asked for and still name a next one.
pub async fn run_page(
    store: &dyn Store,
    tenant: &Tenant,
    listing: RunListing,
    now: Time,
) -> Result<RunPage, StoreError> {
    let Some(wanted) = listing.status.filter(|status| depends_on_the_process(*status)) else {
        let mut page = store.run_page(tenant, listing).await?;
        set_status(&mut page.runs, now);
        return Ok(page);
    };
    // A row never says that its process is gone before another process has looked; one that says so is right.
    let status = (wanted == RunStatus::Running).then_some(RunStatus::Running);
    let (mut runs, mut after, mut read) = (Vec::new(), listing.after, 0);
    loop {
        // No more rows at once than are wanted still, so that the next page begins right behind the last one shown.
        let step = RunListing { status, limit: (listing.limit - runs.len()).min(ROWS), after };
        let page = store.run_page(tenant, step).await?;
        read += page.runs.len();
        let mut found = page.runs;
        set_status(&mut found, now);
        runs.extend(found.into_iter().filter(|run| run.status == wanted));
        after = page.next;
        if after.is_none() || runs.len() >= listing.limit || read >= MOST_ROWS {
            return Ok(RunPage { runs, next: after });
        }
    }
}

/// The run of exactly that id, with the status it has now.
pub async fn run_named(
    store: &dyn Store,
    tenant: &Tenant,
    id: &str,
    now: Time,
) -> Result<Option<Run>, StoreError> {
    let found = if id.is_empty() { Vec::new() } else { store.runs(tenant, id, 1).await? };
    let mut found: Vec<Run> = found.into_iter().filter(|run| run.id == id).collect();
    set_status(&mut found, now);
    Ok(found.pop())
}

fn depends_on_the_process(status: RunStatus) -> bool {
    matches!(status, RunStatus::Running | RunStatus::Interrupted)
}

fn set_status(runs: &mut [Run], now: Time) {
    for run in runs {
        run.status = current_status(run, now);
    }
}
