//! `scrollback read` and `scrollback show`: what a handle or an id names.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::Slot;
use scrollback_core::recall::found::{FoundPlace, MOST_PLACES, chosen_lines};
use scrollback_core::recall::{Handle, RecallRequest, RecallTool, Tail, exact_text};
use scrollback_store::recall::{self, Deadline, Here, NoAnswer};
use scrollback_store::{Conversation, ConversationId, SessionId, Store, Tenant};
use serde_json::{Map, Value, json};

use super::args::{ReadArgs, ShowPlaceArgs};
use super::{Intent, Setup, block_on, one_line, short};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

/// Places that `show` prints of a conversation unless more are asked for.
const PLACES: u64 = 200;

/// `scrollback read HANDLE`: the same text that a model reads.
pub(crate) fn run(args: &ReadArgs, json: bool) -> Result<(), Failure> {
    let mut given = Map::new();
    given.insert("handle".into(), args.handle.as_str().into());
    for (name, value) in [("lines", &args.lines), ("pattern", &args.pattern)] {
        if let Some(value) = value {
            given.insert(name.into(), value.as_str().into());
        }
    }
    if let Some(context) = args.context {
        given.insert("context".into(), context.into());
    }
    let request = RecallRequest::parse(RecallTool::Read, &Value::Object(given))
        .map_err(|refusal| Failure::new(USAGE, "usage", refusal.to_string()))?;
    let RecallRequest::Read(read) = &request else { return Ok(()) };
    let setup = Setup::anywhere(&args.store)?;
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let tenant = setup.tenant();
        if json {
            let conversation = found(recall::resolve(&*store, &tenant, &read.handle).await)?;
            let Some((first, last)) = read.handle.positions() else {
                return show_conversation(&*store, &tenant, &conversation, PLACES, true).await;
            };
            let end = last.saturating_add(1).min(conversation.head);
            let below = end.min(first.saturating_add(MOST_PLACES));
            let places = store.places_with_tools(&tenant, &conversation.id, first, below).await?;
            if places.is_empty() {
                return Err(missing(&read.handle, conversation.head));
            }
            let mut shown = about(&conversation, &places)?;
            for (entry, place) in shown["entries"].as_array_mut().into_iter().flatten().zip(&places) {
                if let Some(lines) = chosen_lines(read, &exact_text(&place.slot)) {
                    let line = |(number, text): &(usize, String)| json!({ "number": number, "text": text });
                    entry["lines"] = lines.iter().map(line).collect();
                    entry["text"] = Value::Null;
                }
            }
            let rest = (below < end).then(|| tail(&conversation)).transpose()?;
            shown["next"] = rest.map(|tail| Handle::between(tail, below, end - 1).to_string()).into();
            return input::print(&format!("{shown}\n"));
        }
        let text = recall::look_up(&*store, &tenant, &Here::default(), &request, &Deadline::default()).await;
        input::print(&format!("{}\n", plain(&found(text)?)))
    })
}

/// `scrollback show ID|HANDLE`: a conversation, a session or an entry.
pub(crate) fn show(args: &ShowPlaceArgs, json: bool) -> Result<(), Failure> {
    let named = Named::parse(&args.what)?;
    let setup = Setup::anywhere(&args.store)?;
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let (store, tenant) = (&*store, setup.tenant());
        match named {
            Named::Handle(handle) => {
                let conversation = found(recall::resolve(store, &tenant, &handle).await)?;
                let Some((first, last)) = handle.positions() else {
                    return show_conversation(store, &tenant, &conversation, args.limit, json).await;
                };
                let below = last.saturating_add(1);
                let places = store.places_with_tools(&tenant, &conversation.id, first, below).await?;
                if places.is_empty() {
                    return Err(missing(&handle, conversation.head));
                }
                if json {
                    return input::print(&format!("{}\n", about(&conversation, &places)?));
                }
                input::print_styled(&lines(&conversation, &places)?)
            }
            Named::Id(id) => match store.conversation(&tenant, &id).await {
                Ok(conversation) => show_conversation(store, &tenant, &conversation, args.limit, json).await,
                Err(error) if error.kind() == scrollback_store::ErrorKind::NotFound => {
                    show_session(store, &tenant, &SessionId::of(&id), json).await
                }
                Err(error) => Err(error.into()),
            },
        }
    })
}

/// What was named on the command line.
enum Named {
    Handle(Handle),
    Id(ConversationId),
}

impl Named {
    fn parse(text: &str) -> Result<Self, Failure> {
        if let Some(id) = ConversationId::parse(text) {
            return Ok(Named::Id(id));
        }
        let bad = || {
            let message = format!(
                "{:?} is neither an id of 26 letters and digits nor a handle such as sb:k7q2m9x4td#412; `scrollback list` \
                 has the ids",
                one_line(text, 60)
            );
            Failure::new(USAGE, "usage", message)
        };
        text.parse().map(Named::Handle).map_err(|_| bad())
    }
}

fn found<T>(result: Result<T, NoAnswer>) -> Result<T, Failure> {
    result.map_err(|no_answer| match no_answer {
        NoAnswer::Store(error) => error.into(),
        NoAnswer::Refused(refusal) => Failure::new(FAILED, "not_found", refusal.to_string()),
    })
}

fn missing(handle: &Handle, head: u64) -> Failure {
    let message = format!("no entry at {handle}: the conversation has {head} entries");
    Failure::new(FAILED, "not_found", message)
}

fn tail(conversation: &Conversation) -> Result<Tail, Failure> {
    Ok(recall::tail_of(&conversation.id)?)
}

/// A conversation and some of its places, for programs.
fn about(conversation: &Conversation, places: &[FoundPlace]) -> Result<Value, Failure> {
    let tail = tail(conversation)?;
    let place = |place: &FoundPlace| {
        let (kind, role) = match &place.slot {
            Slot::Message(entry) => ("message", Some(entry.role)),
            Slot::Decision(..) => ("decision", None),
            Slot::Erased(tombstone) => ("erased", Some(tombstone.role)),
        };
        json!({
            "handle": Handle::at(tail.clone(), place.position).to_string(),
            "position": place.position,
            "kind": kind,
            "role": role,
            "tool": place.tool,
            "created_at": place.slot.created_at().to_string(),
            "text": exact_text(&place.slot),
        })
    };
    Ok(json!({
        "handle": Handle::conversation(tail.clone()).to_string(),
        "conversation": conversation.id.as_str(),
        "session": conversation.session.as_str(),
        "kind": conversation.kind.as_str(),
        "title": conversation.title,
        "recipient": conversation.recipient.as_ref().map(scrollback_store::Recipient::as_str),
        "project": conversation.project,
        "head": conversation.head,
        "entries": places.iter().map(place).collect::<Vec<_>>(),
    }))
}

/// The same for people.
fn lines(conversation: &Conversation, places: &[FoundPlace]) -> Result<String, Failure> {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let tail = tail(conversation)?;
    let mut out = String::new();
    for place in places {
        let who = match &place.slot {
            Slot::Message(entry) => entry.role.as_str(),
            Slot::Decision(..) => "decision",
            Slot::Erased(_) => "erased",
        };
        let tool = place.tool.as_deref().map(|tool| format!(" {}", one_line(tool, 60))).unwrap_or_default();
        let (handle, when) = (Handle::at(tail.clone(), place.position), short(place.slot.created_at()));
        let _ = writeln!(out, "{bold}{who}{tool}{Reset} {dim}{when}  {handle}{Reset}");
        for line in plain(&exact_text(&place.slot)).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    Ok(out)
}

async fn show_conversation(
    store: &dyn Store,
    tenant: &Tenant,
    conversation: &Conversation,
    limit: u64,
    json: bool,
) -> Result<(), Failure> {
    let from = conversation.head.saturating_sub(limit);
    let places = store.places_with_tools(tenant, &conversation.id, from, conversation.head).await?;
    if json {
        return input::print(&format!("{}\n", about(conversation, &places)?));
    }
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let name =
        conversation.title.clone().or_else(|| conversation.recipient.as_ref().map(ToString::to_string));
    let name = one_line(&name.unwrap_or_else(|| conversation.id.to_string()), 80);
    let handle = Handle::conversation(tail(conversation)?);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{bold}{name}{Reset} {dim}{} {handle}  {}{Reset}",
        conversation.kind,
        counted(conversation.head, "entry")
    );
    if from > 0 {
        let before = Handle::between(tail(conversation)?, 0, from - 1);
        let _ = writeln!(out, "{dim}{from} earlier: scrollback show '{before}', or --limit{Reset}");
    }
    out.push_str(&lines(conversation, &places)?);
    input::print_styled(&out)
}

async fn show_session(store: &dyn Store, tenant: &Tenant, id: &SessionId, json: bool) -> Result<(), Failure> {
    let tree = store.session_tree(tenant, id).await.map_err(|error| {
        if error.kind() != scrollback_store::ErrorKind::NotFound {
            return error.into();
        }
        let message = format!("there is no conversation and no session {id}; `scrollback list` has the ids");
        Failure::new(FAILED, "not_found", message)
    })?;
    let name =
        |one: &Conversation| Tail::of(one.id.as_str()).map(|tail| Handle::conversation(tail).to_string());
    if json {
        let lines = tree.lines();
        let conversations = lines.iter().map(|line| {
            json!({
                "handle": name(line.conversation),
                "conversation": line.conversation.id.as_str(),
                "kind": line.conversation.kind.as_str(),
                "title": line.conversation.title,
                "depth": line.depth,
                "messages": line.messages,
            })
        });
        let shown = json!({
            "session": id.as_str(), "title": tree.title(), "total": tree.total,
            "conversations": conversations.collect::<Vec<_>>(),
        });
        return input::print(&format!("{shown}\n"));
    }
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let mut out = format!(
        "{bold}{}{Reset} {dim}session {id}{Reset}\n",
        one_line(tree.title().unwrap_or("session"), 80)
    );
    for line in tree.lines() {
        let kind = line.conversation.kind.as_str();
        let title = one_line(line.conversation.title.as_deref().unwrap_or_default(), 60);
        let handle = name(line.conversation).unwrap_or_default();
        let _ = writeln!(
            out,
            "{}{kind} {dim}{handle}  {}{Reset} {title}",
            "  ".repeat(line.depth + 1),
            counted(line.messages, "message")
        );
    }
    input::print_styled(&out)
}

/// A text that moves no cursor and changes no colour: of control characters only line breaks and tabs are printed.
fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() && !"\n\t".contains(letter) { '\u{fffd}' } else { letter })
        .collect()
}
