//! Conversations: one row per record.

use std::fmt;

use scrollback_core::{Link, Role, Time};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::session::{ConversationKind, MatchScope, SessionId};

/// What is known about a conversation beside its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Unique within the tenant; `conversation:{recipient}` for the current conversation of a recipient.
    pub key: Option<String>,
    /// Whom it is with; none for runs and for clients of the proxy.
    pub recipient: Option<Recipient>,
    /// The conversation it was forked from or started by.
    pub parent: Option<ConversationId>,
    /// Where its own entries begin; what lies below is the parent's. None if it shares nothing with its parent.
    pub fork_position: Option<u64>,
    /// The session it belongs to.
    pub session: SessionId,
    /// What it is in its session.
    pub kind: ConversationKind,
    /// Whose lists of messages may continue it; none where it is only written by its id.
    pub scope: Option<MatchScope>,
    /// The working directory or repository its client reported.
    pub project: Option<String>,
    /// What people call it.
    pub title: Option<String>,
    /// Where it stands; unset reads idle.
    pub status: Option<Status>,
    /// When the status was set.
    pub status_at: Option<Time>,
    /// When it began.
    pub created_at: Time,
    /// When something was last written.
    pub updated_at: Time,
    /// The next position.
    pub head: u64,
    /// The chain's value at the last entry.
    pub head_link: Link,
    /// The value of the chain over what was said.
    pub head_prefix: Link,
    /// Who spoke last, user or assistant.
    pub last_role: Option<Role>,
    /// When they did.
    pub last_said_at: Option<Time>,
    /// Turns of the record.
    pub turns: u64,
    /// Turns no summary stands for.
    pub uncovered_turns: u64,
    /// How its history is kept, where it differs from the configuration.
    pub settings: Option<HistorySettings>,
}

impl Conversation {
    /// Where it stands.
    pub fn status(&self) -> Status {
        self.status.unwrap_or(Status::Idle)
    }

    /// The conversation whose entries it shares, and below which position; none if all entries are its own.
    pub fn forked_from(&self) -> Option<(&ConversationId, u64)> {
        Some((self.parent.as_ref()?, self.fork_position?))
    }
}

/// A conversation to be begun.
#[derive(Clone, Debug)]
pub struct NewConversation {
    /// Its id.
    pub id: ConversationId,
    /// A key that is unique within the tenant.
    pub key: Option<String>,
    /// Whom it is with.
    pub recipient: Option<Recipient>,
    /// What people call it.
    pub title: Option<String>,
    /// How its history is kept.
    pub settings: Option<HistorySettings>,
    /// The conversation that started it, without sharing any entry.
    pub parent: Option<ConversationId>,
    /// The session it belongs to; none if it is one of its own.
    pub session: Option<SessionId>,
    /// What it is in its session.
    pub kind: ConversationKind,
    /// Whose lists of messages may continue it.
    pub scope: Option<MatchScope>,
    /// The working directory or repository its client reported.
    pub project: Option<String>,
}

impl NewConversation {
    /// A conversation without a recipient.
    pub fn new(id: ConversationId) -> Self {
        NewConversation {
            id,
            key: None,
            recipient: None,
            title: None,
            settings: None,
            parent: None,
            session: None,
            kind: ConversationKind::Main,
            scope: None,
            project: None,
        }
    }

    /// The current conversation of a recipient.
    pub fn with(id: ConversationId, recipient: &Recipient) -> Self {
        NewConversation {
            key: Some(recipient.key()),
            recipient: Some(recipient.clone()),
            ..NewConversation::new(id)
        }
    }
}

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Under way.
    Active,
    /// We asked something.
    AwaitingAnswer,
    /// Over.
    Closed,
    /// Nothing is going on.
    Idle,
}

impl Status {
    /// All four.
    pub const ALL: [Status; 4] = [Status::Active, Status::AwaitingAnswer, Status::Closed, Status::Idle];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::AwaitingAnswer => "awaiting_answer",
            Status::Closed => "closed",
            Status::Idle => "idle",
        }
    }

    /// The status of that name.
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When history is summarised, and how much of it is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HistorySettings {
    /// Turns above which the older ones are summarised.
    pub max_turns_before_compaction: usize,
    /// Turns kept in full then.
    pub recent_turns_to_keep: usize,
    /// Turns handed out by default.
    pub max_recent_turns: usize,
}

impl Default for HistorySettings {
    fn default() -> Self {
        HistorySettings { max_turns_before_compaction: 10, recent_turns_to_keep: 3, max_recent_turns: 10 }
    }
}

impl HistorySettings {
    /// The same settings, if they can be meant: at least one turn is kept, and fewer than trigger a summary.
    pub fn checked(self) -> Result<Self, StoreError> {
        let (keep, max) = (self.recent_turns_to_keep, self.max_turns_before_compaction);
        if keep < 1 || keep >= max {
            let message = format!(
                "recentTurnsToKeep must be at least 1 and below maxTurnsBeforeCompaction ({max}), not {keep}"
            );
            return Err(StoreError::new(ErrorKind::BadArgument, message));
        }
        Ok(self)
    }
}

/// How long after the assistant's last word a follow-up is due, by status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUps {
    /// Minutes while we wait for an answer.
    pub awaiting_answer: u64,
    /// Minutes while active.
    pub active: u64,
    /// Minutes while idle.
    pub idle: u64,
    /// Minutes once closed.
    pub closed: u64,
}

impl Default for FollowUps {
    fn default() -> Self {
        FollowUps { awaiting_answer: 10, active: 30, idle: 120, closed: 240 }
    }
}

/// Whether a follow-up is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp {
    /// Whether it is time.
    pub due: bool,
    /// When it is or was; none if never, because the user spoke last or nothing was said.
    pub at: Option<Time>,
}

impl FollowUps {
    /// The longest of the times, in milliseconds.
    pub(crate) fn longest(&self) -> i64 {
        let minutes = [self.awaiting_answer, self.active, self.idle, self.closed].into_iter().max();
        i64::try_from(minutes.unwrap_or_default().saturating_mul(60_000)).unwrap_or(i64::MAX)
    }

    /// Whether a conversation is due at `now`.
    pub fn of(&self, conversation: &Conversation, now: Time) -> FollowUp {
        let minutes = match conversation.status() {
            Status::AwaitingAnswer => self.awaiting_answer,
            Status::Active => self.active,
            Status::Idle => self.idle,
            Status::Closed => self.closed,
        };
        let wait = i64::try_from(minutes.saturating_mul(60_000)).unwrap_or(i64::MAX);
        let spoke = conversation.last_said_at.filter(|_| conversation.last_role == Some(Role::Assistant));
        let at = spoke.map(|said| Time(said.0.saturating_add(wait)));
        FollowUp { due: at.is_some_and(|at| at <= now), at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(status: Option<Status>, last_role: Option<Role>) -> Conversation {
        Conversation {
            id: ConversationId::from_parts(Time(0), 0),
            session: SessionId::of(&ConversationId::from_parts(Time(0), 0)),
            kind: ConversationKind::Main,
            scope: None,
            project: None,
            tenant: Tenant::default(),
            key: None,
            recipient: None,
            parent: None,
            fork_position: None,
            title: None,
            status,
            status_at: None,
            created_at: Time(0),
            updated_at: Time(0),
            head: 1,
            head_link: [0; 32],
            head_prefix: [0; 32],
            last_role,
            last_said_at: last_role.map(|_| Time(1_000)),
            turns: 1,
            uncovered_turns: 1,
            settings: None,
        }
    }

    #[test]
    fn a_follow_up_is_due_at_its_minute_and_not_a_second_before() {
        let table = [
            (Some(Status::AwaitingAnswer), 10),
            (Some(Status::Active), 30),
            (Some(Status::Idle), 120),
            (None, 120),
            (Some(Status::Closed), 240),
        ];
        for (status, minutes) in table {
            let conversation = conversation(status, Some(Role::Assistant));
            let at = Time(1_000 + minutes * 60_000);
            let follow_ups = FollowUps::default();
            assert_eq!(follow_ups.of(&conversation, at), FollowUp { due: true, at: Some(at) }, "{status:?}");
            assert!(!follow_ups.of(&conversation, Time(at.0 - 1_000)).due, "{status:?}");
        }
    }

    #[test]
    fn nobody_follows_up_on_the_users_last_word_or_on_silence() {
        for role in [Some(Role::User), None] {
            let never = FollowUps::default().of(&conversation(None, role), Time(i64::MAX));
            assert_eq!(never, FollowUp { due: false, at: None });
        }
    }

    #[test]
    fn settings_keep_at_least_one_turn_and_fewer_than_the_bound() {
        let settings = |keep, max| HistorySettings {
            recent_turns_to_keep: keep,
            max_turns_before_compaction: max,
            ..HistorySettings::default()
        };
        assert!(HistorySettings::default().checked().is_ok() && settings(1, 2).checked().is_ok());
        assert!(settings(0, 10).checked().is_err() && settings(3, 3).checked().is_err());
    }
}
