//! `scrollback list`: conversations, written last first.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::Role;
use scrollback_store::{Cursor, Listing, Recipient};
use serde_json::json;

use super::args::ListArgs;
use super::history::status_named;
use super::{Intent, Setup, block_on, one_line, short, usage};
use crate::failure::Failure;
use crate::input;

/// Columns for a recipient's name.
const NAME: usize = 32;

pub(crate) fn run(args: &ListArgs, json: bool) -> Result<(), Failure> {
    let status = args.status.as_deref().map(status_named).transpose()?;
    let after = args.after.as_deref().map(Cursor::parse).transpose().map_err(|error| usage(&error))?;
    let setup = Setup::new(&args.store)?;
    let listing = Listing { status, limit: args.limit, after, ..Listing::default() };
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let page = store.list(Some(&setup.tenant()), listing).await?;
        let next = page.next.as_ref().map(Cursor::as_str);
        if json {
            let conversations: Vec<_> = page
                .conversations
                .iter()
                .map(|(row, messages)| {
                    json!({
                        "recipient": row.recipient.as_ref().map(Recipient::as_str),
                        "conversation": row.id.as_str(),
                        "status": row.status().name(),
                        "updated_at": row.updated_at.to_string(),
                        "turns": row.turns,
                        "entries": messages,
                        "last_role": row.last_role.map(Role::as_str),
                    })
                })
                .collect();
            return input::print(&format!("{}\n", json!({ "conversations": conversations, "next": next })));
        }
        if page.conversations.is_empty() {
            return input::print("no conversations\n");
        }
        let dim = Style::new().dimmed();
        let mut out = format!(
            "{dim}{:NAME$}  {:15}  {:16}  {:>5}  {:>7}  last{Reset}\n",
            "recipient", "status", "updated", "turns", "entries"
        );
        for (row, messages) in &page.conversations {
            let name = row.recipient.as_ref().map_or_else(|| row.id.to_string(), ToString::to_string);
            let last = row.last_role.map_or("", Role::as_str);
            let _ = writeln!(
                out,
                "{:NAME$}  {:15}  {:16}  {:>5}  {messages:>7}  {last}",
                one_line(&name, NAME),
                row.status().name(),
                short(row.updated_at),
                row.turns,
            );
        }
        if let Some(next) = next {
            let _ = writeln!(out, "{dim}more: --after {next}{Reset}");
        }
        input::print_styled(&out)
    })
}
