//! `scrollback erase`: everything that was said with a person, in all conversations with them and the sub-agents of their
//! sessions, in one call and one report.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write as _};

use scrollback_store::erasure::{Certificate, ErasureMode, erase_recipient};
use scrollback_store::{ErrorKind, Recipient, Store, Tenant};

use super::args::ErasePersonArgs;
use super::{Intent, Setup, block_on, now, recipient_named};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

pub(crate) fn run(args: &ErasePersonArgs, json: bool) -> Result<(), Failure> {
    let recipient = recipient_named(&args.recipient)?;
    let setup = Setup::new(&args.store)?;
    let tenant = setup.tenant();
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let would = certify(store.as_ref(), &tenant, &recipient, &args.reason, ErasureMode::DryRun).await?;
        if args.dry_run {
            return tell(&would, json);
        }
        if !args.yes {
            confirm(&would, json)?;
        }
        let done = certify(store.as_ref(), &tenant, &recipient, &args.reason, ErasureMode::Erase).await?;
        tell(&done, json)
    })
}

/// Erases a person, or says what would be erased.
pub(super) async fn certify(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    reason: &str,
    mode: ErasureMode,
) -> Result<Certificate, Failure> {
    match erase_recipient(store, tenant, recipient, reason, mode, now()).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = format!("there is no conversation with {:?}", recipient.as_str());
            Err(Failure::new(FAILED, "not_found", message))
        }
        other => Ok(other?),
    }
}

/// Asks on a terminal; elsewhere nothing is erased without `--yes`.
fn confirm(would: &Certificate, json: bool) -> Result<(), Failure> {
    let refused = |message: &str| Err(Failure::new(USAGE, "usage", message));
    if json || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return refused(
            "what is erased cannot be brought back; say --yes to do it, or --dry-run to see what it is",
        );
    }
    let mut err = anstream::stderr();
    let _ = write!(
        err,
        "{} with {} will be erased and cannot be brought back. Type the recipient to go on: ",
        counted(would.conversations, "conversation"),
        counted(would.entries, "entry")
    )
    .and_then(|()| err.flush());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| Failure::io("standard input", &error))?;
    if line.trim_end_matches(['\r', '\n']) == would.recipient {
        Ok(())
    } else {
        refused("that is another name; nothing was erased")
    }
}

/// Prints a certificate.
pub(super) fn tell(certificate: &Certificate, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string(certificate)
            .map_err(|error| Failure::new(FAILED, "internal", error.to_string()))?;
        return input::print(&format!("{text}\n"));
    }
    let Certificate { count, .. } = certificate;
    let conversations = counted(certificate.conversations, "conversation");
    let mut out = String::new();
    if certificate.dry_run {
        for one in &certificate.list {
            let _ = writeln!(out, "{}  {:9}  {}", one.conversation, one.kind, counted(one.entries, "entry"));
        }
        let _ =
            writeln!(out, "{conversations} with {} would be erased", counted(certificate.entries, "entry"));
    } else {
        let _ = writeln!(
            out,
            "{conversations}: {} erased, {} and {} emptied, {} touched",
            counted(count.erased, "message"),
            counted(count.sent, "model call"),
            counted(count.runs, "run"),
            counted(count.forks, "fork")
        );
        let others = [
            (count.summaries, "summary"),
            (count.decisions, "decision"),
            (count.steps, "step"),
            (count.spans, "span"),
            (count.events, "event"),
            (count.words, "search entry"),
            (count.blobs, "large text or file"),
            (count.names, "name"),
            (count.under_way, "call under way"),
            (count.free_pages, "free page"),
        ];
        let others: Vec<String> = others
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| format!("{noun}: {number}"))
            .collect();
        if !others.is_empty() {
            let _ = writeln!(out, "also gone: {}", others.join(", "));
        }
        if let Some(pseudonym) = &certificate.pseudonym {
            let _ = writeln!(out, "known from now on as {pseudonym}");
        }
        if count.pending {
            out.push_str("pending: erase again to learn whether it is done\n");
        }
    }
    input::print(&out)?;
    for left in &certificate.remains {
        input::note(&format!("left: {} ({}), until {}", left.what, left.place, left.until));
    }
    Ok(())
}
