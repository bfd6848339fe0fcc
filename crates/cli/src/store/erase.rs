//! `scrollback erase`: everything that was said with a person, in all conversations with them and the sub-agents of their
//! sessions, in one call and one report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write as _};

use scrollback_store::{
    Conversation, ConversationId, Cursor, Erase, Filter, Listing, Query, Recipient, Store, Tenant, Which,
};
use serde_json::{Value, json};

use super::args::ErasePersonArgs;
use super::{Intent, Setup, block_on, now, one_line, recipient_named, short};
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

/// Conversations read at once.
const PAGE: usize = 500;
/// Most places elsewhere that are counted of those that name the person.
const ELSEWHERE: usize = 100;

pub(crate) fn run(args: &ErasePersonArgs, json: bool) -> Result<(), Failure> {
    let recipient = recipient_named(&args.recipient)?;
    let setup = Setup::new(&args.store)?;
    let tenant = setup.tenant();
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let theirs = theirs(store.as_ref(), &tenant, &recipient).await?;
        if theirs.is_empty() {
            let message = format!("there is no conversation with {:?}", recipient.as_str());
            return Err(Failure::new(FAILED, "not_found", message));
        }
        if args.dry_run {
            return tell(&recipient, &theirs, None, &[], json);
        }
        if !args.yes {
            confirm(&recipient, &theirs, json)?;
        }
        let mut done = Done::default();
        for (row, _) in theirs.values() {
            let count = store.erase(&tenant, &row.id, Erase::All, &args.reason, now()).await?;
            done.erased += count.erased;
            done.sent += count.sent;
            done.forks += count.forks;
            done.runs += count.runs;
            done.pending |= count.pending;
        }
        let mut remains = remains(store.as_ref(), &tenant, &recipient, &theirs).await?;
        if done.pending {
            remains.push(
                "copies are left in the log while others read; they go with the next checkpoint".into(),
            );
        }
        tell(&recipient, &theirs, Some(&done), &remains, json)
    })
}

/// What was erased.
#[derive(Default)]
struct Done {
    erased: u64,
    sent: u64,
    forks: u64,
    runs: u64,
    pending: bool,
}

type Theirs = BTreeMap<ConversationId, (Conversation, u64)>;

/// The conversations with a recipient, and what their sessions started that is with no one else.
async fn theirs(store: &dyn Store, tenant: &Tenant, recipient: &Recipient) -> Result<Theirs, Failure> {
    let (mut found, mut after): (Theirs, Option<Cursor>) = (BTreeMap::new(), None);
    loop {
        let which = Which::With(recipient.clone());
        let page =
            store.list(Some(tenant), Listing { which, limit: PAGE, after, ..Listing::default() }).await?;
        found.extend(page.conversations.into_iter().map(|(row, messages)| (row.id.clone(), (row, messages))));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut sessions: Vec<_> = found.values().map(|(row, _)| row.session.clone()).collect();
    sessions.sort();
    sessions.dedup();
    for session in sessions {
        let tree = store.session_tree(tenant, &session).await?;
        for line in tree.lines() {
            let row = line.conversation;
            if row.recipient.as_ref().is_none_or(|other| other == recipient) {
                found.entry(row.id.clone()).or_insert_with(|| (row.clone(), line.messages));
            }
        }
    }
    Ok(found)
}

/// Asks on a terminal; elsewhere nothing is erased without `--yes`.
fn confirm(recipient: &Recipient, theirs: &Theirs, json: bool) -> Result<(), Failure> {
    let refused = |message: &str| Err(Failure::new(USAGE, "usage", message));
    if json || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return refused(
            "what is erased cannot be brought back; say --yes to do it, or --dry-run to see what it is",
        );
    }
    let entries: u64 = theirs.values().map(|(_, messages)| messages).sum();
    let mut err = anstream::stderr();
    let _ = write!(
        err,
        "{} conversations with {entries} entries will be erased and cannot be brought back. Type the recipient to go on: ",
        theirs.len()
    )
    .and_then(|()| err.flush());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| Failure::io("standard input", &error))?;
    if line.trim_end_matches(['\r', '\n']) == recipient.as_str() {
        Ok(())
    } else {
        refused("that is another name; nothing was erased")
    }
}

/// What an erasure does not reach, in sentences.
async fn remains(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    theirs: &Theirs,
) -> Result<Vec<String>, Failure> {
    let name = recipient.as_str();
    let query = Query::parse(&format!("\"{}\"", name.replace('"', " ")));
    let hits = store.search(tenant, query, Filter::default(), ELSEWHERE, None).await?.hits;
    let elsewhere = hits.iter().filter(|hit| !theirs.contains_key(&hit.conversation)).count();
    let mut remains =
        vec!["copies made earlier (backups, exports) are not reached: erase again after a restore".into()];
    if elsewhere > 0 {
        remains.push(format!(
            "{elsewhere} entries of other conversations have the words {name:?}: scrollback search '\"{name}\"'"
        ));
    }
    if store.describe().starts_with("postgres") {
        remains.push("the bytes are gone once PostgreSQL has vacuumed (vacuum full)".into());
    }
    Ok(remains)
}

fn tell(
    recipient: &Recipient,
    theirs: &Theirs,
    done: Option<&Done>,
    remains: &[String],
    json: bool,
) -> Result<(), Failure> {
    let entries: u64 = theirs.values().map(|(_, messages)| messages).sum();
    if json {
        let row = |(row, messages): &(Conversation, u64)| json!({ "conversation": row.id.as_str(), "kind": row.kind.as_str(), "entries": messages });
        let rows: Vec<Value> = theirs.values().map(row).collect();
        let told = json!({
            "recipient": recipient.as_str(), "dry_run": done.is_none(), "conversations": rows,
            "erased": done.map_or(0, |done| done.erased), "sent": done.map_or(0, |done| done.sent),
            "forks": done.map_or(0, |done| done.forks), "runs": done.map_or(0, |done| done.runs),
            "pending": done.is_some_and(|done| done.pending), "remains": remains,
        });
        return input::print(&format!("{told}\n"));
    }
    let mut out = String::new();
    match done {
        None => {
            for (row, messages) in theirs.values() {
                let title = one_line(row.title.as_deref().unwrap_or_default(), 40);
                let _ = writeln!(
                    out,
                    "{}  {:9}  {}  {messages:>5} entries  {title}",
                    row.id,
                    row.kind,
                    short(row.updated_at)
                );
            }
            let _ = writeln!(out, "{} conversations with {entries} entries would be erased", theirs.len());
        }
        Some(Done { erased, sent, forks, runs, pending: _ }) => {
            let _ = writeln!(
                out,
                "{} conversations: {erased} messages erased, {sent} model calls and {runs} runs emptied, {forks} forks touched",
                theirs.len()
            );
        }
    }
    input::print(&out)?;
    for line in remains {
        input::note(line);
    }
    Ok(())
}
