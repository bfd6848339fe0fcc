//! `scrollback search`: everything ever said.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::recall::{Handle, Tail};
use scrollback_store::{ConversationKind, Cursor, Filter, Hit, Query, Recipient};
use serde_json::json;

use super::args::SearchArgs;
use super::history::role_named;
use super::{Intent, Setup, block_on, one_line, recipient_named, short, time_named, usage};
use crate::failure::Failure;
use crate::input;

/// The name of the entry that was found.
fn handle(hit: &Hit) -> String {
    let tail = Tail::of(hit.conversation.as_str());
    tail.map_or_else(String::new, |tail| Handle::at(tail, hit.position).to_string())
}

pub(crate) fn run(args: &SearchArgs, json: bool) -> Result<(), Failure> {
    let filter = Filter {
        recipient: args.recipient.as_deref().map(recipient_named).transpose()?,
        role: args.role.as_deref().map(role_named).transpose()?,
        tool: args.tool.clone(),
        since: time_named(args.since.as_deref())?,
        until: time_named(args.until.as_deref())?,
        ..Filter::default()
    };
    let after = args.after.as_deref().map(Cursor::parse).transpose().map_err(|error| usage(&error))?;
    let setup = Setup::new(&args.store)?;
    let query = Query::parse(&args.words.join(" "));
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let found = store.search(&setup.tenant(), query, filter, args.limit, after).await?;
        let next = found.next.as_ref().map(Cursor::as_str);
        if json {
            let hits: Vec<_> = found
                .hits
                .iter()
                .map(|hit| {
                    json!({
                        "recipient": hit.recipient.as_ref().map(Recipient::as_str),
                        "conversation": hit.conversation.as_str(),
                        "position": hit.position,
                        "handle": handle(hit),
                        "session": hit.session.as_str(),
                        "kind": hit.kind.as_str(),
                        "title": hit.title,
                        "role": hit.role,
                        "created_at": hit.created_at.to_string(),
                        "snippet": hit.snippet,
                        "turn": hit.turn,
                    })
                })
                .collect();
            return input::print(&format!("{}\n", json!({ "hits": hits, "next": next })));
        }
        let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
        let mut out = String::new();
        for hit in &found.hits {
            let called = hit.recipient.as_ref().map(ToString::to_string).or_else(|| hit.title.clone());
            let name = called.unwrap_or_else(|| hit.conversation.to_string());
            let name = match hit.kind {
                ConversationKind::Main => name,
                kind => format!("{kind} · {name}"),
            };
            let (name, when) = (one_line(&name, 64), short(hit.created_at));
            let _ = writeln!(
                out,
                "{bold}{name}{Reset} {dim}{when}  {} at {}  {}{Reset}",
                hit.role,
                hit.position,
                handle(hit)
            );
            let marked =
                one_line(&hit.snippet, 400).replace('«', &bold.to_string()).replace('»', &Reset.to_string());
            let _ = writeln!(out, "  {marked}");
        }
        if found.hits.is_empty() {
            out.push_str("nothing found\n");
        }
        if let Some(next) = next {
            let _ = writeln!(out, "{dim}more: --after {next}{Reset}");
        }
        input::print_styled(&out)
    })
}
