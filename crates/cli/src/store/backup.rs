//! `scrollback backup` and `scrollback restore`: copies that were checked, one that follows the store, and back again.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use scrollback_store::{Access, Follow, Saved, Url, open_for, restore};
use serde_json::json;

use super::args::{BackupArgs, RestoreArgs};
use super::verify::Total;
use super::{Intent, Setup, block_on, now, time_named};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

pub(crate) fn run(args: &BackupArgs, json: bool) -> Result<ExitCode, Failure> {
    let setup = Setup::new(&args.store)?;
    match (&args.file, &args.follow) {
        (Some(file), None) => block_on(copy(&setup, file, args.verify, json)),
        (None, Some(folder)) => follow(&setup, folder, args, json),
        _ => {
            let message = "name a file to copy the store to, or a folder with --follow";
            Err(Failure::new(USAGE, "usage", message))
        }
    }
}

/// A copy as the store is at one moment, while writers go on.
async fn copy(setup: &Setup, file: &Path, verify: bool, json: bool) -> Result<ExitCode, Failure> {
    let store = setup.open(Intent::Look).await?;
    store.backup(file).await?;
    if verify {
        return checked(file, json).await;
    }
    let shown = file.display().to_string();
    input::print(&if json {
        format!("{}\n", json!({ "ok": true, "file": shown }))
    } else {
        format!("{shown}\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a copy and checks all of it, as `verify` does.
async fn checked(file: &Path, json: bool) -> Result<ExitCode, Failure> {
    let copy = open_for(&format!("sqlite:{}", file.display()), now(), Access::Write).await?;
    let mut total = Total::default();
    total.check_all(copy.as_ref(), None, false).await?;
    total.examine(copy.as_ref()).await?;
    total.print(json, false)
}

fn follow(setup: &Setup, folder: &Path, args: &BackupArgs, json: bool) -> Result<ExitCode, Failure> {
    let Ok(Url::Sqlite(path)) = Url::parse(&setup.url) else {
        let message = "--follow is for stores in a SQLite file; PostgreSQL has its own continuous archiving";
        return Err(Failure::new(USAGE, "usage", message));
    };
    if !setup.exists() {
        return Err(setup.not_there());
    }
    let every = Duration::from_millis(args.every.max(10));
    let mut follow = Follow::start(Path::new(&path), folder)?;
    loop {
        let at = now();
        let saved = follow.step(at)?;
        let (what, pages) = match saved {
            Saved::Nothing => ("nothing", 0),
            Saved::Snapshot(pages) => ("snapshot", pages),
            Saved::Segment(pages) => ("segment", pages),
        };
        if saved != Saved::Nothing || args.once {
            input::print(&if json {
                format!("{}\n", json!({ "saved": what, "pages": pages, "at": at.to_string() }))
            } else {
                format!("{at} {what}, {pages} pages\n")
            })?;
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(every);
    }
}

pub(crate) fn run_restore(args: &RestoreArgs, json: bool) -> Result<ExitCode, Failure> {
    let until = time_named(args.until.as_deref())?;
    let restored = restore(&args.folder, &args.to, until)?;
    input::note(&format!(
        "{} as of {}, {} after its snapshot",
        args.to.display(),
        restored.at,
        counted(u64::from(restored.segments), "segment")
    ));
    block_on(async {
        let code = checked(&args.to, json).await?;
        if code != ExitCode::SUCCESS {
            return Err(Failure::new(FAILED, "damaged", "the restored store failed verification"));
        }
        Ok(code)
    })
}
