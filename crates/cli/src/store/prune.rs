//! `scrollback prune`: what is beyond the retention goes, in steps small enough for others to write meanwhile.

use std::process::ExitCode;

use scrollback_agent::config::Retention;
use scrollback_store::prune::{PruneMode, Pruned, prune};
use serde_json::json;

use super::args::PruneArgs;
use super::{Intent, Setup, block_on, now};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

pub(crate) fn run(args: &PruneArgs, json: bool) -> Result<ExitCode, Failure> {
    let setup = Setup::new(&args.store)?;
    let retention = match (args.sent_older_than, args.conversations_older_than, args.to_size) {
        (None, None, None) => setup.config.retention()?,
        (sent_bodies, conversations, max_size) => {
            // Conversations with a person stay as long as the configuration says, if it says so.
            let recipients = conversations.and(setup.config.retention()?.recipients);
            Retention { sent_bodies, conversations, recipients, max_size }
        }
    };
    if retention.is_nothing() {
        let message = "no limit is set: give an option, or write [retention] into scrollback.toml";
        return Err(Failure::new(USAGE, "usage", message));
    }
    let (doing, intent) =
        if args.dry_run { (PruneMode::Count, Intent::Look) } else { (PruneMode::Prune, Intent::Write) };
    block_on(async {
        if !setup.exists() {
            return Err(Failure::new(FAILED, "not_found", format!("there is no store at {}", setup.url)));
        }
        let store = setup.open(intent).await?;
        let now = now();
        let done = prune(store.as_ref(), setup.named_tenant(), retention.limits(now), doing, now).await?;
        report(&done, doing, json)
    })
}

fn report(done: &Pruned, doing: PruneMode, json: bool) -> Result<ExitCode, Failure> {
    let only_counted = doing == PruneMode::Count;
    let code = if done.over > 0 && !only_counted { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
    if json {
        let told = json!({
            "dry_run": only_counted, "calls": done.calls, "conversations": done.conversations, "entries": done.entries,
            "bytes_before": done.bytes_before, "bytes_after": done.bytes_after, "over": done.over,
        });
        input::print(&format!("{told}\n"))?;
        return Ok(code);
    }
    let would = if only_counted { "would be emptied" } else { "emptied" };
    let erased = if only_counted { "would be erased" } else { "erased" };
    let in_use = if only_counted {
        bytes(done.bytes_before)
    } else {
        format!("{}, before {}", bytes(done.bytes_after), bytes(done.bytes_before))
    };
    input::print(&format!(
        "{} {would}, {} with {} {erased}\nin use: {in_use}\n",
        counted(done.calls, "call"),
        counted(done.conversations, "conversation"),
        counted(done.entries, "entry")
    ))?;
    if done.over > 0 {
        input::note(&format!(
            "{} more than the wanted size; the rest are entries, which --conversations-older-than erases",
            bytes(done.over)
        ));
    }
    Ok(code)
}

/// Bytes as people read them.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1000.0 && unit + 1 < units.len() {
        amount /= 1000.0;
        unit += 1;
    }
    let unit = units.get(unit).copied().unwrap_or_default();
    if unit == "bytes" { format!("{bytes} {unit}") } else { format!("{amount:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_people_would_use() {
        let shown = [0, 999, 1_000, 1_234_567, 20_000_000_000].map(bytes);
        assert_eq!(shown, ["0 bytes", "999 bytes", "1.0 kB", "1.2 MB", "20.0 GB"]);
    }
}
