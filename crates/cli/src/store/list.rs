//! `scrollback list`: sessions with their conversations as trees, or conversations; written last first.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::{Role, Time};
use scrollback_store::{
    Between, Conversation, ConversationId, Cursor, Due, Listing, Recipient, SessionListing, SessionPage,
    SessionTree, due,
};
use serde_json::{Value, json};

use super::args::ListArgs;
use super::history::status_named;
use super::{Intent, Setup, block_on, now, one_line, short, time_width, usage};
use crate::failure::Failure;
use crate::input;

/// Columns for a recipient's name or a title.
const NAME: usize = 40;

pub(crate) fn run(args: &ListArgs, json: bool) -> Result<(), Failure> {
    let status = args.status.as_deref().map(status_named).transpose()?;
    let after = args.after.as_deref().map(Cursor::parse).transpose().map_err(|error| usage(&error))?;
    let setup = Setup::new(&args.store)?;
    if args.due {
        return due_list(&setup, args, json);
    }
    if args.tree || !json && args.status.is_none() {
        let listing = SessionListing { limit: args.limit, after };
        return block_on(async {
            let store = setup.open(Intent::Look).await?;
            let page = store.sessions(Some(&setup.tenant()), listing).await?;
            if json {
                input::print(&format!("{}\n", sessions(&page)))
            } else {
                input::print_styled(&trees(&page))
            }
        });
    }
    let listing = Listing { status, limit: args.limit, after, ..Listing::default() };
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let page = store.list(Some(&setup.tenant()), listing).await?;
        let next = page.next.as_ref().map(Cursor::as_str);
        if json {
            let conversations: Vec<_> =
                page.conversations.iter().map(|(row, messages)| conversation(row, *messages)).collect();
            return input::print(&format!("{}\n", json!({ "conversations": conversations, "next": next })));
        }
        if page.conversations.is_empty() {
            return input::print("no conversations\n");
        }
        let (dim, when) = (Style::new().dimmed(), time_width());
        let mut out = format!(
            "{dim}{:NAME$}  {:15}  {:when$}  {:>5}  {:>7}  last{Reset}\n",
            "recipient", "status", "updated", "turns", "entries"
        );
        for (row, messages) in &page.conversations {
            let name = row.recipient.as_ref().map_or_else(|| row.id.to_string(), ToString::to_string);
            let last = row.last_role.map_or("", Role::as_str);
            let _ = writeln!(
                out,
                "{:NAME$}  {:15}  {:when$}  {:>5}  {messages:>7}  {last}",
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

/// Recipients to get in touch with, the earliest first.
fn due_list(setup: &Setup, args: &ListArgs, json: bool) -> Result<(), Failure> {
    let (now, follow_ups) = (now(), setup.config.follow_ups());
    let within = args.within.map_or(0, |span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    let between = Between::until(Time(now.0.saturating_add(within)));
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let mut found = due(store.as_ref(), Some(&setup.tenant()), &follow_ups, between).await?;
        let hidden = found.len().saturating_sub(args.limit);
        found.truncate(args.limit);
        if json {
            let row = |due: &Due| {
                let mut shown = conversation(&due.conversation, due.messages);
                if let Some(members) = shown.as_object_mut() {
                    members.insert(
                        "follow_up".into(),
                        json!({ "due": due.at <= now, "at": due.at.to_string() }),
                    );
                }
                shown
            };
            let rows: Vec<Value> = found.iter().map(row).collect();
            return input::print(&format!(
                "{}\n",
                json!({ "conversations": rows, "next": null, "more": hidden })
            ));
        }
        if found.is_empty() {
            return input::print("no follow-ups are due\n");
        }
        let dim = Style::new().dimmed();
        let when = time_width();
        let mut out =
            format!("{dim}{:NAME$}  {:15}  {:when$}  {:>5}{Reset}\n", "recipient", "status", "due", "turns");
        for due in &found {
            let row = &due.conversation;
            let name = row.recipient.as_ref().map_or_else(|| row.id.to_string(), ToString::to_string);
            let _ = writeln!(
                out,
                "{:NAME$}  {:15}  {:when$}  {:>5}",
                one_line(&name, NAME),
                row.status().name(),
                short(due.at),
                row.turns
            );
        }
        if hidden > 0 {
            let _ = writeln!(out, "{dim}and {hidden} more (--limit){Reset}");
        }
        input::print_styled(&out)
    })
}

/// A conversation for programs.
fn conversation(row: &Conversation, messages: u64) -> Value {
    json!({
        "recipient": row.recipient.as_ref().map(Recipient::as_str),
        "conversation": row.id.as_str(),
        "session": row.session.as_str(),
        "kind": row.kind.as_str(),
        "parent": row.parent.as_ref().map(ConversationId::as_str),
        "title": row.title,
        "status": row.status().name(),
        "updated_at": row.updated_at.to_string(),
        "turns": row.turns,
        "entries": messages,
        "last_role": row.last_role.map(Role::as_str),
    })
}

/// A page of sessions for programs.
fn sessions(page: &SessionPage) -> Value {
    let session = |tree: &SessionTree| {
        let conversations: Vec<Value> = tree
            .lines()
            .iter()
            .map(|line| {
                let mut shown = conversation(line.conversation, line.messages);
                if let Some(members) = shown.as_object_mut() {
                    members.insert("depth".into(), json!(line.depth));
                }
                shown
            })
            .collect();
        json!({
            "session": tree.id.as_str(),
            "client": tree.named.as_ref().map(|named| named.client.as_str()),
            "client_id": tree.named.as_ref().map(|named| named.client_id.as_str()),
            "title": tree.title(),
            "updated_at": tree.updated_at.to_string(),
            "total": tree.total,
            "conversations": conversations,
        })
    };
    let next = page.next.as_ref().map(Cursor::as_str);
    json!({ "sessions": page.sessions.iter().map(session).collect::<Vec<_>>(), "next": next })
}

/// A page of sessions for people: a line for each, and below it what the session holds beside its main conversation.
fn trees(page: &SessionPage) -> String {
    if page.sessions.is_empty() {
        return "no conversations\n".into();
    }
    let (dim, when) = (Style::new().dimmed(), time_width());
    let mut out = format!(
        "{dim}{:NAME$}  {:15}  {:when$}  {:>5}  {:>7}  last{Reset}\n",
        "session", "status", "updated", "turns", "entries"
    );
    for tree in &page.sessions {
        for line in tree.lines() {
            let row = line.conversation;
            let recipient = row.recipient.as_ref().map(ToString::to_string);
            let title = if line.depth == 0 { tree.title() } else { row.title.as_deref() };
            let name = recipient.or_else(|| title.map(String::from)).unwrap_or_else(|| row.id.to_string());
            let name = match line.depth {
                0 => name,
                depth => format!("{:indent$}{} · {name}", "", row.kind, indent = depth * 2),
            };
            let updated = if line.depth == 0 { tree.updated_at } else { row.updated_at };
            let _ = writeln!(
                out,
                "{:NAME$}  {:15}  {:when$}  {:>5}  {:>7}  {}",
                one_line(&name, NAME),
                row.status().name(),
                short(updated),
                row.turns,
                line.messages,
                row.last_role.map_or("", Role::as_str),
            );
        }
        let hidden = tree.total.saturating_sub(tree.conversations.len() as u64);
        if hidden > 0 {
            let _ = writeln!(out, "{dim}  and {hidden} more conversations{Reset}");
        }
    }
    if let Some(next) = &page.next {
        let _ = writeln!(out, "{dim}more: --after {}{Reset}", next.as_str());
    }
    out
}
