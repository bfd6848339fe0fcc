//! Recipients to get in touch with: whose conversation is due to be followed up, now or soon.

use std::collections::HashSet;

use scrollback_core::Time;

use crate::conversation::{Conversation, FollowUps};
use crate::error::StoreError;
use crate::id::Tenant;
use crate::session::ConversationKind;
use crate::store::{Listing, Store};

/// Conversations read at once.
const PAGE: usize = 500;

/// A recipient's conversation and when it is to be followed up.
#[derive(Clone, Debug)]
pub struct Due {
    /// The conversation.
    pub conversation: Conversation,
    /// Its messages.
    pub messages: u64,
    /// When it is or was due.
    pub at: Time,
}

/// A stretch of time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The first moment; the beginning of time for everything that was never followed up.
    pub from: Time,
    /// The last moment.
    pub to: Time,
}

impl Between {
    /// Everything that is due by a moment.
    pub fn until(to: Time) -> Self {
        Between { from: Time(i64::MIN), to }
    }
}

/// The recipients whose follow-up falls between two moments, the earliest first. All tenants' if none is named.
///
/// Of the conversations with one recipient the one written last counts; sub-agents and side calls are not with people.
pub async fn due(
    store: &dyn Store,
    tenant: Option<&Tenant>,
    follow_ups: &FollowUps,
    between: Between,
) -> Result<Vec<Due>, StoreError> {
    let longest = follow_ups.longest();
    let (mut found, mut seen, mut after) = (Vec::new(), HashSet::new(), None);
    loop {
        let listing = Listing { limit: PAGE, after, ..Listing::default() };
        let page = store.list(tenant, listing).await?;
        for (conversation, messages) in page.conversations {
            // Written last first, and nothing is said after the last write: from here on everything was due before.
            if conversation.updated_at.0.saturating_add(longest) < between.from.0 {
                return Ok(in_order(found));
            }
            let Some(recipient) = &conversation.recipient else { continue };
            let with_person = matches!(conversation.kind, ConversationKind::Main | ConversationKind::Branch);
            if !with_person || !seen.insert((conversation.tenant.clone(), recipient.clone())) {
                continue;
            }
            if let Some(at) = follow_ups.of(&conversation, between.to).at
                && (between.from..=between.to).contains(&at)
            {
                found.push(Due { conversation, messages, at });
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(in_order(found)),
        }
    }
}

fn in_order(mut found: Vec<Due>) -> Vec<Due> {
    found.sort_by(|one, other| (one.at, &one.conversation.id).cmp(&(other.at, &other.conversation.id)));
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Expected, Memory, NewEntry, Recipient, RecordsExt};
    use scrollback_core::{Entry, Role};

    const MINUTE: i64 = 60_000;

    async fn names(store: &Memory, between: Between) -> Vec<(String, i64)> {
        let found = due(store, None, &FollowUps::default(), between).await.unwrap();
        let name = |due: Due| (due.conversation.recipient.unwrap().to_string(), due.at.0 / MINUTE);
        found.into_iter().map(name).collect()
    }

    #[tokio::test]
    async fn those_we_answered_last_are_due_after_their_time_and_those_who_spoke_last_never() {
        let store = Memory::new();
        for (name, role, minute) in [
            ("anna", Role::Assistant, 0),
            ("bo", Role::User, 0),
            ("cy", Role::Assistant, 40),
            ("di", Role::Assistant, 5),
        ] {
            let at = Time(minute * MINUTE);
            let said = NewEntry::evaluation([Entry::text(Role::User, "hello"), Entry::text(role, "hi")], at);
            let recipient = Recipient::parse(name).unwrap();
            let store: &dyn Store = &store;
            store.append_for(&Tenant::default(), at, &recipient, Expected::Any, said).await.unwrap();
        }
        // A conversation under way is followed up after 30 minutes.
        let minute = |minute: i64| Time(minute * MINUTE);
        assert!(names(&store, Between::until(minute(29))).await.is_empty());
        assert_eq!(names(&store, Between::until(minute(35))).await, [("anna".into(), 30), ("di".into(), 35)]);
        let later = names(&store, Between { from: minute(31), to: minute(70) }).await;
        assert_eq!(later, [("di".into(), 35), ("cy".into(), 70)]);
        assert!(names(&store, Between { from: minute(71), to: minute(10_000) }).await.is_empty());
    }
}
