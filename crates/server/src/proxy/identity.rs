//! Which conversation a request belongs to.
//!
//! A client that names one (by our header, its own session header, the session in Anthropic's `metadata.user_id`, or what it
//! goes on from) is believed, inside its tenant. Everybody else is recognised by what they say: the longest stored prefix of
//! their list, compared by what entries are and not by how they are spelled. Where the list goes on differently from the
//! record, the record is forked there.

use axum::http::HeaderMap;
use scrollback_core::identity::{Alignment, align};
use scrollback_core::{Link, PREFIX_START, Role, Slot, first_link};
use scrollback_store::{Conversation, ConversationId, Tenant};

use super::asked::{Asked, header};
use super::known::Known;
use crate::App;
use crate::problem::Problem;

/// The header by which a client names its conversation.
pub(crate) const CONVERSATION: &str = "x-scrollback-conversation";
/// The headers in which clients send a session of their own.
const SESSIONS: [&str; 3] = ["x-claude-code-session-id", "session-id", "x-session-id"];
/// Longest name, in bytes.
const MAX_NAME: usize = 512;

/// Where a request's entries go.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) conversation: ConversationId,
    pub(crate) start: Start,
    /// What was said so far.
    pub(crate) known: Known,
    /// Which of the request's entries are recorded already, its instructions aside.
    pub(crate) alignment: Alignment,
    /// The chain's value over the whole request, where that is what the record says with it.
    pub(crate) prefix: Option<Link>,
    /// Lists that must not be stored when the entries are: the place was guessed.
    pub(crate) unless: Vec<Link>,
}

/// What has to be there before entries can be appended.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// A new conversation, known by these names.
    New(Vec<Named>),
    /// Nothing: the entries follow the last one.
    Append,
    /// A fork.
    Fork { parent: ConversationId, at: u64 },
}

/// A name a client gave a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Who gave it.
    pub(crate) source: &'static str,
    pub(crate) id: String,
}

impl Named {
    /// What makes a conversation with this name the only one.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.source, self.id)
    }
}

/// What tells conversations apart on the wire.
pub(crate) const BY_CLIENT: &str = "client";
pub(crate) const BY_SESSION: &str = "session";
pub(crate) const BY_THREAD: &str = "thread";
pub(crate) const BY_RESPONSE: &str = "response";

/// How much of the history a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// All of it.
    History,
    /// Only what is new.
    News,
}

/// What a request carries, by its header.
pub(crate) fn carries(headers: &HeaderMap, asked: &Asked) -> Result<Carries, Problem> {
    match header(headers, "x-scrollback-mode") {
        None => Ok(Carries::History),
        Some("append") if named(headers, asked)?.is_some() => Ok(Carries::News),
        Some("append") => Err(Problem::bad_request(
            "no_conversation",
            format!("append mode needs an id: name the conversation in the header {CONVERSATION}"),
        )),
        Some(other) => {
            let detail = format!("{other:?} is no mode; x-scrollback-mode is append, or left away");
            Err(Problem::bad_request("bad_mode", detail))
        }
    }
}

/// The name a client gives its conversation, if it gives one.
fn named(headers: &HeaderMap, asked: &Asked) -> Result<Option<Named>, Problem> {
    let name = |source: &'static str, id: &str| {
        if id.is_empty() || id.len() > MAX_NAME || id.chars().any(char::is_control) {
            let detail = "the name of a conversation has 1 to 512 bytes and no control characters";
            return Err(Problem::bad_request("bad_conversation", detail));
        }
        Ok(Some(Named { source, id: id.into() }))
    };
    if let Some(given) = headers.get(CONVERSATION) {
        return name(BY_CLIENT, std::str::from_utf8(given.as_bytes()).unwrap_or_default());
    }
    if let Some(session) = SESSIONS.iter().find_map(|name| header(headers, name)) {
        return name(BY_SESSION, session);
    }
    match &asked.session {
        Some(session) => name(BY_SESSION, session),
        None => Ok(None),
    }
}

/// Most lists that a guess leaves for the store to look for while nobody else can write.
const MAX_GUESSED: usize = 64;

/// The place for a request that names nothing, by what was said here lately. The store has the last word: it refuses to
/// write what it knows better, and then the place is to be found. Asked first, it would be asked twice for every request.
pub(crate) fn guess(
    app: &App,
    tenant: &Tenant,
    headers: &HeaderMap,
    asked: &Asked,
) -> Result<Option<Place>, Problem> {
    if asked.previous.is_some() || asked.thread.is_some() || named(headers, asked)?.is_some() {
        return Ok(None);
    }
    let wanted = lists(asked);
    let Some(last) = wanted.last().copied() else { return Ok(None) };
    let place = match app.lately.take_saying(tenant, &wanted, MAX_GUESSED) {
        Some((at, conversation, known)) => {
            let alignment = align(&known.record, asked.said(), known.record.len() as u64);
            if alignment.branches {
                app.lately.keep(tenant, &conversation, known);
                return Ok(None);
            }
            let unless = wanted.get(at + 1..).unwrap_or_default().to_vec();
            Place { conversation, start: Start::Append, known, alignment, prefix: Some(last), unless }
        }
        None => Place { prefix: Some(last), unless: wanted, ..new(app, Vec::new()) },
    };
    Ok(Some(place).filter(|place| place.unless.len() <= MAX_GUESSED))
}

/// The lists that a request could continue: the chain's value over each, the longest last. What is shared must reach into what
/// the user said: instructions alone are many conversations'.
fn lists(asked: &Asked) -> Vec<Link> {
    let user = asked.entries.iter().position(|entry| entry.role == Role::User);
    let first = user.unwrap_or(asked.entries.len());
    let links = asked.prefixes().get(first..).unwrap_or_default().iter().copied();
    let mut lists: Vec<Link> = links.filter(|link| *link != PREFIX_START).collect();
    // Entries that say nothing of their own leave the chain as it was.
    lists.dedup();
    lists
}

/// Finds the place for a request. Nothing is written.
pub(crate) async fn find(
    app: &App,
    tenant: &Tenant,
    headers: &HeaderMap,
    asked: &Asked,
    carries: Carries,
) -> Result<Place, Problem> {
    if let Some(place) = continued(app, tenant, asked).await? {
        return Ok(place);
    }
    let wanted = lists(asked);
    let last = wanted.last().copied();
    let Some(named) = named(headers, asked)? else {
        let found = app.store.find_prefix(tenant, wanted, None).await?;
        return match found {
            Some(found) => follow(app, tenant, found.conversation, asked, last).await,
            None => Ok(Place { prefix: last, ..new(app, thread(asked)) }),
        };
    };
    let Some(root) = by_name(app, tenant, &named).await? else {
        return Ok(new(app, std::iter::once(named).chain(thread(asked)).collect()));
    };
    if carries == Carries::News {
        return at_end(app, tenant, newest_fork(app, tenant, root).await?).await;
    }
    match app.store.find_prefix(tenant, wanted, Some(&root.id)).await? {
        Some(found) => follow(app, tenant, found.conversation, asked, last).await,
        None if root.head == 0 => at_end(app, tenant, root).await,
        None => fork(app, tenant, &root, 0, Alignment::default()).await,
    }
}

/// The name under which the provider's own conversation is kept.
fn thread(asked: &Asked) -> Vec<Named> {
    let thread = asked.thread.iter();
    thread.map(|id| Named { source: BY_THREAD, id: id.clone() }).collect()
}

/// The place after the response or in the provider's conversation that a request goes on from.
async fn continued(app: &App, tenant: &Tenant, asked: &Asked) -> Result<Option<Place>, Problem> {
    if let Some(previous) = &asked.previous {
        let Some(alias) = app.store.alias(tenant, BY_RESPONSE, previous).await? else { return Ok(None) };
        let conversation = app.store.conversation(tenant, &alias.conversation).await?;
        let after = alias.position.unwrap_or(conversation.head);
        let place = at_end(app, tenant, conversation.clone()).await?;
        let later = place.known.record.slots().iter().skip(after as usize);
        if later.clone().all(|slot| matches!(slot, Slot::Decision(..))) {
            return Ok(Some(place));
        }
        return fork(app, tenant, &conversation, after, Alignment::default()).await.map(Some);
    }
    let Some(thread) = thread(asked).pop() else { return Ok(None) };
    match by_name(app, tenant, &thread).await? {
        Some(conversation) => at_end(app, tenant, conversation).await.map(Some),
        None => Ok(None),
    }
}

/// The conversation a name stands for: its id, or what a client called it.
async fn by_name(app: &App, tenant: &Tenant, named: &Named) -> Result<Option<Conversation>, Problem> {
    if named.source == BY_CLIENT
        && let Some(id) = ConversationId::parse(&named.id)
        && let Ok(conversation) = app.store.conversation(tenant, &id).await
    {
        return Ok(Some(conversation));
    }
    match app.store.alias(tenant, named.source, &named.id).await? {
        Some(alias) => Ok(Some(app.store.conversation(tenant, &alias.conversation).await?)),
        None => Ok(None),
    }
}

/// The conversation or the fork of it that was written last.
async fn newest_fork(app: &App, tenant: &Tenant, root: Conversation) -> Result<Conversation, Problem> {
    let tree = app.store.branches(tenant, &root.id).await?;
    let mut family = vec![root.id.clone()];
    let mut newest = root;
    // Parents come before their forks.
    for branch in tree {
        if branch.parent.is_some_and(|parent| family.contains(&parent)) {
            family.push(branch.conversation.clone());
            let fork = app.store.conversation(tenant, &branch.conversation).await?;
            if (fork.updated_at, &fork.id) > (newest.updated_at, &newest.id) {
                newest = fork;
            }
        }
    }
    Ok(newest)
}

/// The place in a conversation where a list goes on that has a beginning in common with it.
async fn follow(
    app: &App,
    tenant: &Tenant,
    conversation: Conversation,
    asked: &Asked,
    prefix: Option<Link>,
) -> Result<Place, Problem> {
    let place = at_end(app, tenant, conversation.clone()).await?;
    let alignment = align(&place.known.record, asked.said(), place.known.record.len() as u64);
    if !alignment.branches {
        return Ok(Place { alignment, prefix, ..place });
    }
    app.lately.keep(tenant, &place.conversation, place.known);
    let place = fork(app, tenant, &conversation, alignment.after, alignment).await?;
    Ok(Place { prefix, ..place })
}

fn new(app: &App, names: Vec<Named>) -> Place {
    let conversation = ConversationId::new(app.now());
    let link = first_link(conversation.as_str());
    let known = Known::new(scrollback_core::Record::new(), link, app.now());
    Place {
        conversation,
        start: Start::New(names),
        known,
        alignment: Alignment::default(),
        prefix: None,
        unless: Vec::new(),
    }
}

async fn at_end(app: &App, tenant: &Tenant, conversation: Conversation) -> Result<Place, Problem> {
    let known = app.lately.take(&conversation);
    let Conversation { id, head, head_link, updated_at, .. } = conversation;
    let known = match known {
        Some(known) => known,
        None => Known::new(app.store.record(tenant, &id, Some(head)).await?, head_link, updated_at),
    };
    let start = Start::Append;
    let alignment = Alignment::default();
    Ok(Place { conversation: id, start, known, alignment, prefix: None, unless: Vec::new() })
}

async fn fork(
    app: &App,
    tenant: &Tenant,
    parent: &Conversation,
    at: u64,
    alignment: Alignment,
) -> Result<Place, Problem> {
    let record = app.store.record(tenant, &parent.id, Some(at)).await?;
    let start = Start::Fork { parent: parent.id.clone(), at };
    // The link is learnt when the first entry is appended.
    let known = Known::new(record, parent.head_link, parent.updated_at);
    let conversation = ConversationId::new(app.now());
    Ok(Place { conversation, start, known, alignment, prefix: None, unless: Vec::new() })
}
