//! Which conversation a request belongs to.
//!
//! A client that names one (by our header, or by what it goes on from) is believed, inside its tenant. A client that names
//! its session has its lists matched with the conversations of that session, and whatever is new there becomes a
//! conversation of the session (`session_placement.rs`). All others are recognised by what they say: the longest
//! stored prefix of their list among the conversations of the same caller, compared by what entries are and not by how
//! they are spelled. Where the list goes on differently from the record, the record is forked there.

use axum::http::{HeaderMap, StatusCode};
use scrollback_core::identity::{Alignment, align, project_of, title_of};
use scrollback_core::request::{Reference, names_items};
use scrollback_core::{Link, PREFIX_START, Role, Slot, first_link};
use scrollback_store::{
    Continued, Conversation, ConversationId, ConversationKind, ForkChild, MatchScope, NewConversation,
    Session, SessionId, Tenant,
};

use super::client_request::{ClientRequest, header};
use super::prefix_cache::{Belongs, CachedRecord};
use super::provider_state::unresolved;
use super::session::{MAX_ID, RequestOrigin};
use crate::App;
use crate::problem::HttpProblem;

/// The header by which a client names its conversation.
pub(crate) const CONVERSATION: &str = "x-scrollback-conversation";
/// The header that tells a client which session its conversation belongs to.
pub(crate) const SESSION: &str = "x-scrollback-session";
/// How long a request that failed is taken for the same one when it is repeated, in milliseconds.
const REPEATED: i64 = 10 * 60 * 1000;

/// Where a request's entries go.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) conversation: ConversationId,
    pub(crate) start: Precondition,
    /// What was said so far.
    pub(crate) known: CachedRecord,
    /// Which of the request's entries are recorded already, its instructions aside.
    pub(crate) alignment: Alignment,
    /// The chain's value over the whole request, where that is what the record says with it.
    pub(crate) prefix: Option<Link>,
    /// Lists that must not be stored in the scope when the entries are: the place was guessed.
    pub(crate) unless: Vec<Link>,
}

/// What has to be there before entries can be appended.
#[derive(Clone, Debug)]
pub(crate) enum Precondition {
    /// A new conversation.
    New(Box<Beginning>),
    /// The entries follow the last one. A side call that goes on becomes something else.
    Append { promoted: Option<ConversationKind> },
    /// A fork; one of a helper where a child is described.
    Fork { parent: ConversationId, at: u64, child: Option<ForkChild> },
}

/// A conversation to be begun.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    pub(crate) conversation: NewConversation,
    /// The names by which it is found again.
    pub(crate) names: Vec<ClientName>,
    /// The session, where this is its first conversation.
    pub(crate) session: Option<Session>,
}

/// A name a client gave a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientName {
    /// What kind of name it is.
    pub(crate) source: &'static str,
    pub(crate) id: String,
}

impl ClientName {
    /// What makes a conversation with this name the only one.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.source, self.id)
    }
}

/// What tells conversations apart on the wire.
pub(crate) const BY_CLIENT: &str = "client";
pub(crate) const BY_THREAD: &str = "thread";
pub(crate) const BY_RESPONSE: &str = "response";
pub(crate) const BY_MESSAGE: &str = "message";
/// Objects at a provider that a reply gave: they stand for the conversation in which that was.
pub(super) const BY_OBJECT: &str = "object";
/// The first conversation of a sub-agent.
pub(super) const BY_AGENT: &str = "agent";
/// The name of a run of a client, which stands for the conversation begun last in it.
pub(super) const BY_RUN: &str = scrollback_store::recall::RUN;

/// How much of the history a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// All of it.
    History,
    /// Only what is new.
    News,
}

/// What a request carries, by its header.
pub(crate) fn carries(headers: &HeaderMap, origin: &RequestOrigin) -> Result<Carries, HttpProblem> {
    match header(headers, "x-scrollback-mode") {
        None => Ok(Carries::History),
        Some("append") if named(headers)?.is_some() || origin.session.is_some() => Ok(Carries::News),
        Some("append") => Err(HttpProblem::bad_request(
            "no_conversation",
            format!("append mode needs an id: name the conversation in the header {CONVERSATION}"),
        )),
        Some(other) => {
            let detail = format!("unknown mode {other:?}; use append, or omit the header x-scrollback-mode");
            Err(HttpProblem::bad_request("bad_mode", detail))
        }
    }
}

/// The name a client gives its conversation, if it gives one.
fn named(headers: &HeaderMap) -> Result<Option<ClientName>, HttpProblem> {
    let Some(given) = headers.get(CONVERSATION) else { return Ok(None) };
    let id = std::str::from_utf8(given.as_bytes()).unwrap_or_default();
    if id.is_empty() || id.len() > MAX_ID || id.chars().any(char::is_control) {
        let detail = "the name of a conversation has 1 to 512 bytes and no control characters";
        return Err(HttpProblem::bad_request("bad_conversation", detail));
    }
    Ok(Some(ClientName { source: BY_CLIENT, id: id.into() }))
}

/// Most lists that a guess leaves for the store to look for in the commit itself.
const MAX_GUESSED: usize = 64;

/// A request whose place is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Seeking<'s> {
    pub(crate) app: &'s App,
    pub(crate) tenant: &'s Tenant,
    pub(crate) headers: &'s HeaderMap,
    pub(crate) asked: &'s ClientRequest,
    pub(crate) origin: &'s RequestOrigin,
    pub(crate) carries: Carries,
    pub(crate) strangers: Strangers,
}

/// What becomes of a request that goes on from something which another caller was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strangers {
    /// It is refused: the provider, asked with the operator's key, would show it to anyone.
    Refused,
    /// It is a conversation of its own here. The provider decides by the caller's own credential, which may be a renewed one
    /// of the same caller.
    #[default]
    Apart,
}

impl Seeking<'_> {
    /// The place for a request that names nothing, by what was said here recently. The store has the last word: it refuses
    /// to write what it knows better, and then the place is to be found. Asked first, it would be asked twice for every
    /// request.
    pub(crate) fn guess(&self) -> Result<Option<Placement>, HttpProblem> {
        let Seeking { app, asked, .. } = *self;
        if asked.refers.is_some()
            || names_items(asked.wire(), &asked.around)
            || self.origin.session.is_some()
            || named(self.headers)?.is_some()
        {
            return Ok(None);
        }
        let wanted = lists(asked);
        let Some(last) = wanted.last().copied() else { return Ok(None) };
        let scope = MatchScope::caller(&self.origin.caller);
        let replied =
            has_reply(asked).then(|| app.lately.take_saying(self.tenant, &scope, &wanted, MAX_GUESSED));
        let place = match replied.flatten() {
            Some((at, conversation, known)) => {
                let alignment = align(&known.record, asked.said(), known.record.len() as u64);
                if alignment.branches {
                    app.lately.keep(self.tenant, &conversation, known);
                    return Ok(None);
                }
                let unless = wanted.get(at + 1..).unwrap_or_default().to_vec();
                let start = Precondition::Append { promoted: None };
                let prefix = Some(last).filter(|_| alignment.left_out.is_none());
                Placement { conversation, start, known, alignment, prefix, unless }
            }
            None => Placement { prefix: Some(last), unless: wanted, ..self.new_of_caller(Vec::new()) },
        };
        Ok(Some(place).filter(|place| place.unless.len() <= MAX_GUESSED))
    }

    /// Finds the place for a request. Nothing is written.
    pub(crate) async fn find(&self) -> Result<Placement, HttpProblem> {
        if let Some(place) = self.continued().await? {
            return Ok(place);
        }
        if let Some(named) = named(self.headers)? {
            return self.in_named(named).await;
        }
        match &self.origin.session {
            Some(claim) => self.in_session(claim).await,
            None => self.of_caller().await,
        }
    }

    /// The place of a request that names nothing: among the conversations of its caller.
    async fn of_caller(&self) -> Result<Placement, HttpProblem> {
        let wanted = lists(self.asked);
        let last = wanted.last().copied();
        let scope = MatchScope::caller(&self.origin.caller);
        let found = self.app.store.find_prefix(self.tenant, &scope, wanted.clone()).await?;
        // First messages start conversations, unless they repeat a request that has no reply yet.
        let repeats = |found: &Continued| {
            let age = self.app.now().0.saturating_sub(found.conversation.updated_at.0);
            found.is_at_end(&wanted) && age <= REPEATED
        };
        match found.filter(|found| has_reply(self.asked) || repeats(found)) {
            Some(found) => self.follow(found.conversation, last).await,
            None => Ok(Placement { prefix: last, ..self.new_of_caller(self.free_thread().await?) }),
        }
    }

    /// The place in the conversation that a client names, or in a fork of it.
    async fn in_named(&self, named: ClientName) -> Result<Placement, HttpProblem> {
        let Some(root) = self.by_name(&named).await? else {
            let conversation = self.new_conversation();
            let all = std::iter::once(named).chain(self.free_thread().await?).collect();
            return Ok(self.new_place(Beginning { conversation, names: all, session: None }));
        };
        if let (Some(asked), Some(recorded)) = (&self.origin.recipient, &root.recipient)
            && asked != recorded
        {
            let detail = "this conversation is with another recipient; name another conversation";
            return Err(HttpProblem::new(StatusCode::CONFLICT, "other_recipient", detail));
        }
        if self.carries == Carries::News {
            let newest = self.newest_fork(root).await?;
            return self.at_end(newest).await;
        }
        let wanted = lists(self.asked);
        let last = wanted.last().copied();
        match self.app.store.find_in_session(self.tenant, &root.session, wanted).await? {
            Some(found) => self.follow(found.conversation, last).await,
            None if root.head == 0 => self.at_end(root).await,
            None => self.fork(&root, 0, Alignment::default(), None).await,
        }
    }

    /// A new conversation with the recipient of the request, if it has one.
    pub(super) fn new_conversation(&self) -> NewConversation {
        NewConversation { recipient: self.origin.recipient.clone(), ..NewConversation::new(self.new_id()) }
    }

    /// The name under which the provider's own conversation is kept.
    fn thread(&self) -> Vec<ClientName> {
        match &self.asked.refers {
            Some(Reference::Conversation(id)) => vec![ClientName { source: BY_THREAD, id: id.clone() }],
            _ => Vec::new(),
        }
    }

    /// The same, if no conversation has it yet: another caller's stays with the conversation it names.
    async fn free_thread(&self) -> Result<Vec<ClientName>, HttpProblem> {
        let mut names = Vec::new();
        for name in self.thread() {
            if self.app.store.alias(self.tenant, name.source, &name.id).await?.is_none() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The place after the reply or in the provider's conversation that a request goes on from.
    async fn continued(&self) -> Result<Option<Placement>, HttpProblem> {
        let Seeking { app, tenant, asked, .. } = *self;
        if let Some(ClientName { source, id }) = previous(asked) {
            let Some(alias) = app.store.alias(tenant, source, &id).await? else { return Ok(None) };
            let conversation = app.store.conversation(tenant, &alias.conversation).await?;
            if !self.may_continue(&conversation).await? {
                return Ok(None);
            }
            let after = alias.position.unwrap_or(conversation.head);
            let place = self.at_end(conversation.clone()).await?;
            let later = place.known.record.slots().iter().skip(after as usize);
            if later.clone().all(|slot| matches!(slot, Slot::Decision(..))) {
                return Ok(Some(place));
            }
            return self.fork(&conversation, after, Alignment::default(), None).await.map(Some);
        }
        let Some(thread) = self.thread().pop() else { return Ok(None) };
        match self.by_name(&thread).await? {
            Some(conversation) if self.may_continue(&conversation).await? => {
                self.at_end(conversation).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether what a request goes on from is the caller's own: ids of a provider are no secrets, and a caller that continues is
    /// sent the history where the provider has lost it. An error if it is another recipient's, or a stranger's who shares the
    /// operator's key.
    async fn may_continue(&self, found: &Conversation) -> Result<bool, HttpProblem> {
        let Seeking { app, tenant, origin, strangers, .. } = *self;
        let is_own = match &found.scope {
            // Begun under a name, which is believed inside its tenant.
            None => true,
            Some(scope) if *scope == MatchScope::caller(&origin.caller) => true,
            Some(_) => {
                let session = app.store.named_session(tenant, &found.session).await?;
                session.is_some_and(|session| session.caller == origin.caller)
            }
        };
        let other_recipient = matches!((&origin.recipient, &found.recipient), (Some(asked), Some(recorded)) if asked != recorded);
        match &self.asked.refers {
            Some(reference) if other_recipient || (!is_own && strangers == Strangers::Refused) => {
                Err(unresolved(reference))
            }
            _ => Ok(is_own),
        }
    }

    /// The conversation a name stands for: its id, or what a client called it.
    pub(super) async fn by_name(&self, named: &ClientName) -> Result<Option<Conversation>, HttpProblem> {
        let Seeking { app, tenant, .. } = *self;
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

    /// The conversation or the fork of it that was written last. Forks that were given to sub-agents are not meant.
    pub(super) async fn newest_fork(&self, root: Conversation) -> Result<Conversation, HttpProblem> {
        let Seeking { app, tenant, .. } = *self;
        let tree = app.store.branches(tenant, &root.id).await?;
        let mut family = vec![root.id.clone()];
        let mut newest = root;
        // Parents come before their forks.
        for branch in tree {
            if branch.parent.is_some_and(|parent| family.contains(&parent)) {
                let fork = app.store.conversation(tenant, &branch.conversation).await?;
                if fork.kind == ConversationKind::SubAgent {
                    continue;
                }
                family.push(branch.conversation);
                if (fork.updated_at, &fork.id) > (newest.updated_at, &newest.id) {
                    newest = fork;
                }
            }
        }
        Ok(newest)
    }

    /// The place in a conversation where a list goes on that has a beginning in common with it.
    pub(super) async fn follow(
        &self,
        conversation: Conversation,
        prefix: Option<Link>,
    ) -> Result<Placement, HttpProblem> {
        let place = self.at_end(conversation.clone()).await?;
        let upto = place.known.record.len() as u64;
        let alignment = align(&place.known.record, self.asked.said(), upto);
        // A list that names items instead of sending them is not what the record says with it.
        // Nor is one that leaves a reply out.
        let prefix = prefix.filter(|_| !names_items(self.asked.wire(), &self.asked.around));
        let prefix = prefix.filter(|_| alignment.left_out.is_none());
        if !alignment.branches {
            return Ok(Placement { alignment, prefix, ..place });
        }
        self.give_back(place);
        let place = self.fork(&conversation, alignment.after, alignment, None).await?;
        Ok(Placement { prefix, ..place })
    }

    /// Keeps what was read of a conversation for the next request there.
    pub(super) fn give_back(&self, place: Placement) {
        if matches!(place.start, Precondition::Append { .. }) {
            self.app.lately.keep(self.tenant, &place.conversation, place.known);
        }
    }

    pub(super) fn new_id(&self) -> ConversationId {
        ConversationId::new(self.app.now())
    }

    /// A new conversation of a caller that names no session.
    fn new_of_caller(&self, names: Vec<ClientName>) -> Placement {
        let scope = MatchScope::caller(&self.origin.caller);
        let new = NewConversation { scope: Some(scope), ..self.new_conversation() };
        self.new_place(Beginning { conversation: new, names, session: None })
    }

    /// The place at the beginning of a new conversation, which gets the first words of the person as its title.
    pub(super) fn new_place(&self, mut beginning: Beginning) -> Placement {
        let new = &mut beginning.conversation;
        new.title = title_of(self.asked.said());
        new.project = project_of(&self.asked.entries);
        if let Some(run) = self.origin.run.as_ref().filter(|_| new.kind == ConversationKind::Main) {
            beginning.names.push(ClientName { source: BY_RUN, id: run.clone() });
        }
        let new = &mut beginning.conversation;
        let (conversation, scope) = (new.id.clone(), new.scope.clone());
        let session = new.session.clone().unwrap_or_else(|| SessionId::of(&new.id));
        let link = first_link(conversation.as_str());
        let belongs = Belongs { session, scope };
        let known = CachedRecord::new(scrollback_core::Record::new(), link, self.app.now(), belongs);
        let start = Precondition::New(Box::new(beginning));
        Placement {
            conversation,
            start,
            known,
            alignment: Alignment::default(),
            prefix: None,
            unless: Vec::new(),
        }
    }

    pub(super) async fn at_end(&self, conversation: Conversation) -> Result<Placement, HttpProblem> {
        let known = self.app.lately.take(&conversation);
        let belongs = Belongs::of(&conversation);
        let Conversation { id, head, head_link, updated_at, .. } = conversation;
        let known = if let Some(known) = known {
            known
        } else {
            let record = self.app.store.record(self.tenant, &id, Some(head)).await?;
            CachedRecord::new(record, head_link, updated_at, belongs)
        };
        let start = Precondition::Append { promoted: None };
        let alignment = Alignment::default();
        Ok(Placement { conversation: id, start, known, alignment, prefix: None, unless: Vec::new() })
    }

    pub(super) async fn fork(
        &self,
        parent: &Conversation,
        at: u64,
        alignment: Alignment,
        child: Option<ForkChild>,
    ) -> Result<Placement, HttpProblem> {
        let record = self.app.store.record(self.tenant, &parent.id, Some(at)).await?;
        let mut belongs = Belongs::of(parent);
        if let Some(child) = &child {
            belongs.scope.clone_from(&child.scope);
        }
        let start = Precondition::Fork { parent: parent.id.clone(), at, child };
        // The link is learnt when the first entry is appended.
        let known = CachedRecord::new(record, parent.head_link, parent.updated_at, belongs);
        Ok(Placement {
            conversation: self.new_id(),
            start,
            known,
            alignment,
            prefix: None,
            unless: Vec::new(),
        })
    }
}

impl Placement {
    /// The same place, in a conversation that becomes something else in its session by going on.
    pub(super) fn promoted(mut self, to: Option<ConversationKind>) -> Placement {
        if let Precondition::Append { promoted } = &mut self.start {
            *promoted = to;
        }
        self
    }
}

/// The lists that a request could continue: the chain's value over each, the longest last. What is shared must reach into what
/// the user said: instructions alone are many conversations'.
pub(super) fn lists(asked: &ClientRequest) -> Vec<Link> {
    let user = asked.entries.iter().position(|entry| entry.role == Role::User);
    let first = user.unwrap_or(asked.entries.len());
    let links = asked.prefixes().get(first..).unwrap_or_default().iter().copied();
    let mut lists: Vec<Link> = links.filter(|link| *link != PREFIX_START).collect();
    // Entries that say nothing of their own leave the chain as it was.
    lists.dedup();
    lists
}

/// The reply that a request goes on from, by its provider's id.
pub(crate) fn previous(asked: &ClientRequest) -> Option<ClientName> {
    let (source, id) = match asked.refers.as_ref()? {
        Reference::Response(id) => (BY_RESPONSE, id),
        Reference::Message(id) => (BY_MESSAGE, id),
        Reference::Conversation(_) => return None,
    };
    Some(ClientName { source, id: id.clone() })
}

/// Whether a list has anything that a model said, so that it is more than first messages.
pub(super) fn has_reply(asked: &ClientRequest) -> bool {
    asked.said().iter().any(|entry| entry.role == Role::Assistant)
}
