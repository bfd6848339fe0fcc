//! What one commit writes, as a value: built first, then written whole or not at all.

use scrollback_core::request::BodyTemplate;
use scrollback_core::{Link, Time};

use crate::conversation::{NewConversation, Status};
use crate::entry::{Appended, Expected, NewEntry};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::precompute::Packed;
use crate::request::Layout;
use crate::run::{Alias, Evaluation, Event, Run, Sent, Span, Step};
use crate::session::{ConversationKind, MatchScope, Session, SessionId};

/// Everything one commit writes.
///
/// Nothing happens while it is built; [`Records::commit`](crate::Records::commit) writes all of it or nothing.
#[derive(Clone, Debug)]
pub struct Tx {
    pub(crate) tenant: Tenant,
    pub(crate) at: Time,
    pub(crate) ops: Vec<TxOp>,
    /// What was done for it beforehand.
    pub(crate) packed: Packed,
}

/// One thing a commit writes.
#[derive(Clone, Debug)]
pub(crate) enum TxOp {
    Unless(MatchScope, Vec<Link>),
    Unwritten(ConversationId, Time),
    Session(Session),
    Title(SessionId, String),
    Create(NewConversation),
    Kind(ConversationId, ConversationKind),
    Fork {
        parent: ConversationId,
        at: u64,
        id: ConversationId,
        child: Option<ForkChild>,
    },
    Append {
        to: AppendTarget,
        expected: Expected,
        entries: Vec<NewEntry>,
    },
    Status(ConversationId, Status),
    Alias(Alias),
    Evaluation(Evaluation),
    Run(Box<Run>),
    Step(Box<Step>),
    Span(Span),
    Event(Event),
    /// A call, and how its request is laid out if it was given as a template.
    Sent(Box<Sent>, Option<Box<Layout>>),
}

/// What a fork is where it is not a branch of its parent: a helper that was given the history of the conversation that
/// started it.
#[derive(Clone, Debug)]
pub struct ForkChild {
    /// What it is in its session.
    pub kind: ConversationKind,
    /// Whose lists of messages may continue it.
    pub scope: Option<MatchScope>,
    /// What people call it.
    pub title: Option<String>,
}

/// Where entries go.
#[derive(Clone, Debug)]
pub(crate) enum AppendTarget {
    Conversation(ConversationId),
    /// The recipient's current conversation; if there is none yet, one with this id.
    Current(Recipient, ConversationId),
}

impl AppendTarget {
    /// Whether it is named by this id.
    pub(crate) fn is(&self, conversation: &ConversationId) -> bool {
        matches!(self, AppendTarget::Conversation(id) if id == conversation)
    }
}

/// The result of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Where each append went, in order.
    pub appended: Vec<Appended>,
}

impl Tx {
    /// A commit of a tenant, at `at`: the caller's clock, never the store's.
    pub fn new(tenant: &Tenant, at: Time) -> Self {
        Tx { tenant: tenant.clone(), at, ops: Vec::new(), packed: Packed::default() }
    }

    /// When it is written, by the caller's clock.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Both commits as one: everything of this, then everything of the other.
    #[must_use]
    pub fn then(mut self, other: Tx) -> Self {
        self.ops.extend(other.ops);
        self
    }

    fn with(&mut self, op: TxOp) -> &mut Self {
        self.ops.push(op);
        self
    }

    /// Writes nothing, and fails with a conflict, if the scope has a list of messages with one of these prefixes: for a
    /// caller that expects that what follows is new, and does not want to ask first. Two commits at the same moment may
    /// both find nothing, where the database lets two write at once.
    pub fn unless_known(&mut self, scope: &MatchScope, prefixes: Vec<Link>) -> &mut Self {
        self.with(TxOp::Unless(scope.clone(), prefixes))
    }

    /// Writes nothing, and fails with a conflict, if the conversation was written or erased after this moment: for a caller that
    /// goes on from a copy of it. What was erased meanwhile would otherwise be used once more.
    pub fn unless_written_since(&mut self, conversation: &ConversationId, at: Time) -> &mut Self {
        self.with(TxOp::Unwritten(conversation.clone(), at))
    }

    /// Begins a session. One that the same caller has begun already is an error of kind `exists`.
    pub fn session(&mut self, session: Session) -> &mut Self {
        self.with(TxOp::Session(session))
    }

    /// Sets the title of a session that a client named. Nothing is written about another.
    pub fn title(&mut self, session: &SessionId, title: &str) -> &mut Self {
        self.with(TxOp::Title(session.clone(), title.into()))
    }

    /// Sets what a conversation is in its session.
    pub fn kind(&mut self, conversation: &ConversationId, kind: ConversationKind) -> &mut Self {
        self.with(TxOp::Kind(conversation.clone(), kind))
    }

    /// Begins a conversation.
    pub fn create(&mut self, conversation: NewConversation) -> &mut Self {
        self.with(TxOp::Create(conversation))
    }

    /// Forks a conversation: what lies below `at` is shared, what comes is its own.
    pub fn fork(&mut self, parent: &ConversationId, at: u64, id: ConversationId) -> &mut Self {
        self.with(TxOp::Fork { parent: parent.clone(), at, id, child: None })
    }

    /// Forks a conversation for a helper that goes on from its history.
    pub fn fork_as(
        &mut self,
        parent: &ConversationId,
        at: u64,
        id: ConversationId,
        child: ForkChild,
    ) -> &mut Self {
        self.with(TxOp::Fork { parent: parent.clone(), at, id, child: Some(child) })
    }

    /// Appends to a conversation.
    pub fn append(
        &mut self,
        conversation: &ConversationId,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> &mut Self {
        let to = AppendTarget::Conversation(conversation.clone());
        self.with(TxOp::Append { to, expected, entries })
    }

    /// Appends to the current conversation of a recipient, which begins with its first entry.
    pub fn append_for(
        &mut self,
        recipient: &Recipient,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> &mut Self {
        let to = AppendTarget::Current(recipient.clone(), ConversationId::new(self.at));
        self.with(TxOp::Append { to, expected, entries })
    }

    /// Sets where a conversation stands.
    pub fn status(&mut self, conversation: &ConversationId, status: Status) -> &mut Self {
        self.with(TxOp::Status(conversation.clone(), status))
    }

    /// Writes down a foreign id.
    pub fn alias(&mut self, alias: Alias) -> &mut Self {
        self.with(TxOp::Alias(alias))
    }

    /// Writes an evaluation, in place of what was written about it before.
    pub fn evaluation(&mut self, evaluation: Evaluation) -> &mut Self {
        self.with(TxOp::Evaluation(evaluation))
    }

    /// Writes a run, in place of what was written about it before. Its lease stays as it is.
    pub fn run(&mut self, run: Run) -> &mut Self {
        self.with(TxOp::Run(Box::new(run)))
    }

    /// Writes a step, in place of what was written about it before.
    pub fn step(&mut self, step: Step) -> &mut Self {
        self.with(TxOp::Step(Box::new(step)))
    }

    /// Writes a span, in place of what was written about it before.
    pub fn span(&mut self, span: Span) -> &mut Self {
        self.with(TxOp::Span(span))
    }

    /// Writes an event.
    pub fn event(&mut self, event: Event) -> &mut Self {
        self.with(TxOp::Event(event))
    }

    /// Writes what a model call saw, in place of what was written about it before. A request or response that is not given
    /// again stays.
    pub fn sent(&mut self, sent: Sent) -> &mut Self {
        self.with(TxOp::Sent(Box::new(sent), None))
    }

    /// Writes what a model call saw, as [`sent`](Tx::sent) does, with a request that is kept as what it shares with the
    /// record. `sent.request` is not looked at.
    ///
    /// The positions in the template are those of the call's conversation, and must be there when this is written:
    /// entries may be appended before it in the same commit.
    pub fn sent_as(&mut self, sent: Sent, template: BodyTemplate) -> &mut Self {
        self.with(TxOp::Sent(Box::new(sent), Some(Box::new(Layout::of(template)))))
    }

    /// Writes calls; the last of them with its request as a template, where there is one.
    pub fn calls(&mut self, mut calls: Vec<Sent>, template: Option<BodyTemplate>) -> &mut Self {
        let last = template.and_then(|template| Some((template, calls.pop()?)));
        for call in calls {
            self.sent(call);
        }
        match last {
            Some((template, call)) => self.sent_as(call, template),
            None => self,
        }
    }
}
