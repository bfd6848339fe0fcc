//! Sessions: a client's own unit of work, and the conversations it holds.

use std::fmt;
use std::str::FromStr;

use scrollback_core::Time;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::search::Cursor;

/// The id of a session. A conversation whose client named no session is a session of its own, with its forks; that
/// session has the id of the first of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Box<str>);

impl SessionId {
    /// A new id of that time.
    pub fn new(at: Time) -> Self {
        SessionId::of(&ConversationId::new(at))
    }

    /// The session that a conversation is by itself.
    pub fn of(conversation: &ConversationId) -> Self {
        SessionId(conversation.as_str().into())
    }

    /// Reads an id: 26 letters and digits of a ULID.
    pub fn parse(text: &str) -> Option<Self> {
        ConversationId::parse(text).as_ref().map(SessionId::of)
    }

    /// The 26 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: String) -> Self {
        SessionId(text.into())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a conversation is in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConversationKind {
    /// What the person sees.
    #[default]
    Main,
    /// A helper with a history of its own.
    SubAgent,
    /// A one-off call of the client itself: a title, a topic, a quota.
    Side,
    /// The client rewrote its own history.
    Branch,
}

impl ConversationKind {
    /// All four.
    pub const ALL: [ConversationKind; 4] = [
        ConversationKind::Main,
        ConversationKind::SubAgent,
        ConversationKind::Side,
        ConversationKind::Branch,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ConversationKind::Main => "main",
            ConversationKind::SubAgent => "sub-agent",
            ConversationKind::Side => "side",
            ConversationKind::Branch => "branch",
        }
    }
}

impl FromStr for ConversationKind {
    type Err = StoreError;

    fn from_str(word: &str) -> Result<Self, StoreError> {
        let found = ConversationKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        found.ok_or_else(|| {
            let message =
                format!("unknown kind of conversation `{word}`; use main, sub-agent, side or branch");
            StoreError::new(ErrorKind::BadArgument, message)
        })
    }
}

impl fmt::Display for ConversationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whose lists of messages may continue a conversation: one session's, one sub-agent's of a session, or one caller's.
/// A list is never matched across two of them, so that the data of two callers is never mixed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchScope(Box<str>);

impl MatchScope {
    /// Lists of a caller that names no session. The caller is known by a fingerprint.
    pub fn caller(fingerprint: &str) -> Self {
        MatchScope(format!("caller:{fingerprint}").into())
    }

    /// Lists of a session, and of one of its sub-agents where the client names it.
    pub fn session(session: &SessionId, agent: Option<&str>) -> Self {
        match agent {
            Some(agent) => MatchScope(format!("session:{session}/{agent}").into()),
            None => MatchScope(format!("session:{session}").into()),
        }
    }

    /// How it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: String) -> Self {
        MatchScope(text.into())
    }
}

/// A session that a client named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id here.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// A fingerprint of the caller. Two callers with the same id of a session have two sessions.
    pub caller: String,
    /// Which client named it.
    pub client: String,
    /// The client's own id of it.
    pub client_id: String,
    /// The conversation the person sees; none while there were only side calls and sub-agents.
    pub main: Option<ConversationId>,
    /// The answer of the client's own title call.
    pub title: Option<String>,
    /// When it began.
    pub created_at: Time,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionListing {
    /// How many.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// A session with its conversations.
#[derive(Clone, Debug)]
pub struct SessionTree {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What the client said about it; none for a conversation that is a session of its own.
    pub named: Option<Session>,
    /// Its conversations as they began, each with the number of its messages: at most
    /// [`SESSION_CONVERSATIONS`](crate::SESSION_CONVERSATIONS).
    pub conversations: Vec<(Conversation, u64)>,
    /// How many conversations it has in all.
    pub total: u64,
    /// When something was last written in any of them.
    pub updated_at: Time,
}

/// One line of a session's tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeLine<'t> {
    /// How deep it stands; the main conversation is at 0.
    pub depth: usize,
    /// The conversation.
    pub conversation: &'t Conversation,
    /// How many messages it has.
    pub messages: u64,
}

impl SessionTree {
    /// The main conversation, or else the first one.
    pub fn root(&self) -> Option<&Conversation> {
        let main = self.named.as_ref().and_then(|session| session.main.as_ref());
        let all = || self.conversations.iter().map(|(conversation, _)| conversation);
        main.and_then(|main| all().find(|one| one.id == *main))
            .or_else(|| all().find(|one| one.kind == ConversationKind::Main))
            .or_else(|| all().next())
    }

    /// What people call it: the client's own title, or else that of the main conversation.
    pub fn title(&self) -> Option<&str> {
        let given = self.named.as_ref().and_then(|session| session.title.as_deref());
        given.or_else(|| self.root()?.title.as_deref())
    }

    /// Its conversations as a tree, parents before what they started. What names no parent stands below the main one.
    pub fn lines(&self) -> Vec<TreeLine<'_>> {
        let Some(root) = self.root() else { return Vec::new() };
        let known = |id: &ConversationId| self.conversations.iter().any(|(one, _)| one.id == *id);
        let parent_of = |one: &Conversation| {
            (one.id != root.id).then(|| {
                let parent = one.parent.as_ref().filter(|parent| known(parent));
                parent.unwrap_or(&root.id).clone()
            })
        };
        let mut children: std::collections::BTreeMap<ConversationId, Vec<usize>> =
            std::collections::BTreeMap::new();
        let mut open = Vec::new();
        for (at, (one, _)) in self.conversations.iter().enumerate() {
            match parent_of(one) {
                Some(parent) => children.entry(parent).or_default().push(at),
                None => open.push((0, at)),
            }
        }
        let mut lines = Vec::with_capacity(self.conversations.len());
        while let Some((depth, at)) = open.pop() {
            let Some((conversation, messages)) = self.conversations.get(at) else { continue };
            lines.push(TreeLine { depth, conversation, messages: *messages });
            let below = children.remove(&conversation.id).unwrap_or_default();
            open.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
        }
        lines
    }
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// Written last first.
    pub sessions: Vec<SessionTree>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_as_itself() {
        for kind in ConversationKind::ALL {
            assert_eq!(kind.as_str().parse::<ConversationKind>().ok(), Some(kind));
        }
        assert!("root".parse::<ConversationKind>().is_err());
    }

    #[test]
    fn scopes_of_two_callers_and_two_sessions_differ() {
        let ids = [SessionId::new(Time(1)), SessionId::new(Time(2))];
        let scopes = [
            MatchScope::caller("a"),
            MatchScope::caller("b"),
            MatchScope::session(&ids[0], None),
            MatchScope::session(&ids[0], Some("a")),
            MatchScope::session(&ids[1], None),
        ];
        let distinct: std::collections::BTreeSet<_> = scopes.iter().collect();
        assert_eq!(distinct.len(), scopes.len());
    }
}
