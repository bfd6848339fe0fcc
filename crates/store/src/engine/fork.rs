//! Forks: a record that goes on from a place of another, without copying anything.

use scrollback_core::{Link, PREFIX_START, Role, Time, first_link};

use super::commit;
use super::lineage::{self, Lineage};
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::rows::{EntryRow, MESSAGE, Rows, TOMBSTONE};
use crate::session::ConversationKind;
use crate::table::Scan;

/// Forks a conversation: what lies below `at` is shared, what comes is its own.
pub(crate) async fn fork<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    parent: &ConversationId,
    at: u64,
    id: ConversationId,
    now: Time,
) -> Result<Conversation, StoreError> {
    let parent = lineage::conversation(rows, tenant, parent).await?;
    if at > parent.head {
        let message = format!("the conversation ends at {}: it cannot be forked at {at}", parent.head);
        return Err(StoreError::new(ErrorKind::BadArgument, message));
    }
    let taken: Option<Conversation> = rows.get(vec![id.as_str().into()]).await?;
    if taken.is_some() {
        return Err(StoreError::new(ErrorKind::Exists, "a conversation with that id exists"));
    }
    super::recall::tail_is_free(rows, tenant, &id).await?;
    let fork = Conversation {
        id,
        key: None,
        parent: Some(parent.id.clone()),
        fork_position: Some(at),
        kind: ConversationKind::Branch,
        status: None,
        status_at: None,
        created_at: now,
        updated_at: now,
        ..parent.clone()
    };
    // At the end everything is known already; elsewhere it is found out as it was there.
    let fork = if at == parent.head { fork } else { as_it_was(rows, &parent, fork, at).await? };
    rows.put(&fork).await?;
    Ok(fork)
}

/// A fork with the head, the speakers and the turns that its parent had below `at`.
async fn as_it_was<R: Rows>(
    rows: &mut R,
    parent: &Conversation,
    fork: Conversation,
    at: u64,
) -> Result<Conversation, StoreError> {
    let lineage = Lineage::below(rows, parent, at).await?;
    let root = lineage.segments.first().map_or(&parent.id, |segment| &segment.conversation);
    let head_link: Link = match lineage.newest(rows, 1, |scan| scan).await?.first() {
        Some(last) => {
            last.link.as_slice().try_into().map_err(|_| StoreError::damaged("a link cannot be read"))?
        }
        None => first_link(root.as_str()),
    };
    let said = lineage.newest(rows, 1, |scan| scan.present("prefix_hash")).await?;
    let prefix = said.first().and_then(|row| row.prefix.as_deref()?.try_into().ok());
    let spoke = spoke_last(rows, &lineage).await?;
    let turns = turns_below(rows, parent, &lineage, at, !said.is_empty()).await?;
    Ok(Conversation {
        head: at,
        head_link,
        head_prefix: prefix.unwrap_or(PREFIX_START),
        last_role: spoke.as_ref().map(|(role, _)| *role),
        last_said_at: spoke.map(|(_, when)| when),
        turns: turns.0,
        uncovered_turns: turns.1,
        ..fork
    })
}

/// The turns below a place of a conversation, and those of them that no summary stands for. Counted from the end where the
/// same summary was in force: forks are made there, and a long record is not counted through.
async fn turns_below<R: Rows>(
    rows: &mut R,
    parent: &Conversation,
    lineage: &Lineage,
    at: u64,
    spoken: bool,
) -> Result<(u64, u64), StoreError> {
    let whole = Lineage::of(rows, parent).await?;
    let summary = lineage.summary(rows).await?;
    let same = whole.summary(rows).await?.map(|row| row.position) == summary.as_ref().map(|row| row.position);
    if parent.turns > 1 && same && at > parent.head / 2 {
        let above = |scan: Scan| scan.is("role", "user").from("position", at);
        let later = whole.count(rows, above).await?;
        if later < parent.turns && later <= parent.uncovered_turns {
            return Ok((parent.turns - later, parent.uncovered_turns - later));
        }
    }
    let users = lineage.count(rows, |scan| scan.is("role", "user")).await?;
    let turns = if users == 0 && spoken { 1 } else { users };
    let covered = match summary {
        Some(summary) => {
            let of_summary = |scan: Scan| {
                let from = scan.is("role", "user").from("position", summary.covers_from);
                from.below("position", summary.covers_to + 1)
            };
            lineage.count(rows, of_summary).await?
        }
        None => 0,
    };
    Ok((turns, turns.saturating_sub(covered)))
}

/// The last user or assistant entry.
async fn spoke_last<R: Rows>(rows: &mut R, lineage: &Lineage) -> Result<Option<(Role, Time)>, StoreError> {
    let mut last: Option<EntryRow> = None;
    for role in ["user", "assistant"] {
        let found = lineage.newest(rows, 1, |scan| scan.is("role", role)).await?.pop();
        if found.as_ref().map(|row| row.position) > last.as_ref().map(|row| row.position) {
            last = found;
        }
    }
    let spoken = last.filter(|row| [MESSAGE, TOMBSTONE].contains(&row.kind.as_str()));
    Ok(spoken.and_then(|row| {
        Some((crate::rows::role_named(row.role.as_deref()?)?, Time::parse(&row.created_at)?))
    }))
}

/// Makes a fork at `at` the current conversation of a recipient. The old one stays, without its key.
pub(crate) async fn rewind<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    recipient: &Recipient,
    at: u64,
    id: ConversationId,
    now: Time,
) -> Result<Conversation, StoreError> {
    let current = lineage::with_key(rows, tenant, &recipient.key()).await?;
    let current = current.ok_or_else(|| StoreError::not_found(format!("conversation with {recipient}")))?;
    let mut current = commit::locked(rows, tenant, &current.id).await?;
    let mut fork = fork(rows, tenant, &current.id, at, id, now).await?;
    current.key = None;
    rows.put(&current).await?;
    fork.key = Some(recipient.key());
    fork.status = current.status;
    fork.status_at = current.status_at;
    rows.put(&fork).await?;
    Ok(fork)
}

/// Where a list of messages is found, or as much of it as is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    /// The conversation that has it.
    pub conversation: Conversation,
    /// The position after it.
    pub position: u64,
    /// How many of the hashes asked for it covers: up to and including the one that was found.
    pub covered: usize,
}

impl Continued {
    /// Whether nothing was said after it, so that the list goes on where the conversation ends.
    pub fn is_at_end(&self, hashes: &[Link]) -> bool {
        self.covered.checked_sub(1).and_then(|last| hashes.get(last)) == Some(&self.conversation.head_prefix)
    }
}

/// A conversation and where it stands in the tree of its forks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The conversation.
    pub conversation: ConversationId,
    /// What it was forked from.
    pub parent: Option<ConversationId>,
    /// Where.
    pub fork_position: Option<u64>,
    /// Its next position.
    pub head: u64,
}

/// The whole tree a conversation is part of, its root first.
pub(crate) async fn branches<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<Branch>, StoreError> {
    let one = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &one).await?;
    let root = lineage.segments.first().map_or(&one.id, |segment| &segment.conversation).clone();
    let mut tree = vec![lineage::conversation(rows, tenant, &root).await?];
    tree.extend(lineage::descendants(rows, &root).await?);
    let branch = |row: Conversation| Branch {
        conversation: row.id,
        parent: row.parent,
        fork_position: row.fork_position,
        head: row.head,
    };
    Ok(tree.into_iter().map(branch).collect())
}
