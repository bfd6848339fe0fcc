//! Appending: consecutive positions, both chains, and what is derived from the entries, in one transaction.

use scrollback_core::{
    Decision, Entry, Link, PREFIX_START, Record, Role, Slot, Time, body_hash, first_link, link_over,
    next_prefix,
};

use super::check::{self, message};
use super::lineage::{self, Lineage};
use super::{calls, read, session};
use crate::body;
use crate::conversation::{Conversation, NewConversation, Status};
use crate::entry::{Appended, Expected, NewEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::Tenant;
use crate::precompute::Packed;
use crate::rows::{DECISION, EntryRow, MESSAGE, Rows, SummaryRow};
use crate::run::Evaluation;
use crate::session::SessionId;
use crate::tx::AppendTarget;
use uuid::Uuid;

/// Begins a conversation.
pub(crate) async fn create<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    at: Time,
    new: NewConversation,
) -> Result<Conversation, StoreError> {
    let taken: Option<Conversation> = rows.get(vec![new.id.as_str().into()]).await?;
    let same_key = match &new.key {
        Some(key) => {
            rows.lock_name(&format!("{tenant}\n{key}")).await?;
            lineage::with_key(rows, tenant, key).await?.is_some()
        }
        None => false,
    };
    if taken.is_some() || same_key {
        return Err(StoreError::new(ErrorKind::Exists, "a conversation with that id or key exists"));
    }
    super::recall::tail_is_free(rows, tenant, &new.id).await?;
    if let Some(parent) = &new.parent {
        lineage::conversation(rows, tenant, parent).await?;
    }
    let conversation = Conversation {
        head_link: first_link(new.id.as_str()),
        session: new.session.unwrap_or_else(|| SessionId::of(&new.id)),
        kind: new.kind,
        scope: new.scope,
        project: new.project,
        id: new.id,
        tenant: tenant.clone(),
        key: new.key,
        recipient: new.recipient,
        parent: new.parent,
        fork_position: None,
        title: new.title,
        status: None,
        status_at: None,
        created_at: at,
        updated_at: at,
        head: 0,
        head_prefix: PREFIX_START,
        last_role: None,
        last_said_at: None,
        turns: 0,
        uncovered_turns: 0,
        settings: new.settings,
    };
    rows.put(&conversation).await?;
    session::note_main(rows, &conversation).await?;
    Ok(conversation)
}

/// The conversation entries go to, locked; begun if the recipient has none.
pub(crate) async fn target<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    at: Time,
    to: &AppendTarget,
) -> Result<Conversation, StoreError> {
    let id = match to {
        AppendTarget::Conversation(id) => id.clone(),
        AppendTarget::Current(recipient, fresh) => {
            let key = recipient.key();
            if let Some(current) = lineage::with_key(rows, tenant, &key).await? {
                current.id
            } else {
                // Two may be about to begin it; the second waits here and then finds what the first began.
                rows.lock_name(&format!("{tenant}\n{key}")).await?;
                match lineage::with_key(rows, tenant, &key).await? {
                    Some(current) => current.id,
                    None => {
                        create(rows, tenant, at, NewConversation::with(fresh.clone(), recipient)).await?.id
                    }
                }
            }
        }
    };
    let found = rows.lock(&id).await?.filter(|found| found.tenant == *tenant);
    found.ok_or_else(|| StoreError::not_found(format!("conversation {id}")))
}

/// The places that entries become, if they can be stored.
pub(crate) fn places(entries: Vec<NewEntry>, at: Time) -> Result<Vec<Slot>, StoreError> {
    if entries.is_empty() {
        return Err(StoreError::new(ErrorKind::BadArgument, "there is nothing to append"));
    }
    let slots: Vec<Slot> = entries.into_iter().map(|entry| entry.into_slot(at)).collect();
    slots.iter().filter_map(message).try_for_each(check::storable)?;
    Ok(slots)
}

/// Appends entries, all or none, to a conversation that is locked. It is given back as it is then.
pub(crate) async fn append<R: Rows>(
    rows: &mut R,
    at: Time,
    before: Conversation,
    expected: Expected,
    slots: &[Slot],
    packed: &mut Packed,
) -> Result<(Appended, Conversation), StoreError> {
    let mut words = packed.words(slots.len());
    let mut conversation = before.clone();
    let lineage = Lineage::of(rows, &conversation).await?;
    let next = next_number(rows, &lineage, slots).await?;
    if let Some(repeat) = repeated(rows, &conversation, &lineage, slots, next).await? {
        return Ok((repeat, conversation));
    }
    if let Expected::At(position) = expected
        && position != conversation.head
    {
        return Err(StoreError::conflict(position, conversation.head));
    }
    let judged = check::follows(rows, &before.tenant, &lineage, conversation.head, slots, next).await?;
    count_turns(rows, &mut conversation, &lineage, slots).await?;
    if let Some(record) = judged {
        conversation.uncovered_turns = uncovered(&record, conversation.turns);
    }
    let first = conversation.head;
    write(rows, &mut conversation, at, slots, packed).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    for (position, slot) in (first..).zip(slots) {
        derive(rows, &conversation, &lineage, position, slot, words.pop_front()).await?;
    }
    note_evaluations(rows, first, slots).await?;
    rows.change(&before, &conversation).await?;
    let appended = Appended {
        first,
        last: conversation.head - 1,
        link: conversation.head_link,
        conversation: conversation.id.clone(),
    };
    Ok((appended, conversation))
}

/// The next number of the evaluation that the first message belongs to; 0 where there is none.
async fn next_number<R: Rows>(rows: &mut R, lineage: &Lineage, slots: &[Slot]) -> Result<u64, StoreError> {
    match slots.iter().find_map(message) {
        Some(first) => lineage.next_sequence(rows, first.evaluation_id.as_bytes()).await,
        None => Ok(0),
    }
}

/// Moves the evaluations that are known forward to what was appended of them.
async fn note_evaluations<R: Rows>(rows: &mut R, first: u64, slots: &[Slot]) -> Result<(), StoreError> {
    let mut said: Vec<(Uuid, u64, u64, u64)> = Vec::new();
    for (position, entry) in (first..).zip(slots).filter_map(|(at, slot)| Some((at, message(slot)?))) {
        match said.iter_mut().find(|(id, ..)| *id == entry.evaluation_id) {
            Some((_, _, last, count)) => (*last, *count) = (position, *count + 1),
            None => said.push((entry.evaluation_id, position, position, 1)),
        }
    }
    for (id, first, last, count) in said {
        let Some(mut known) = rows.get::<Evaluation>(vec![id.as_bytes().as_slice().into()]).await? else {
            continue;
        };
        known.first_position.get_or_insert(first);
        known.last_position = Some(last);
        known.count += count;
        rows.put(&known).await?;
    }
    Ok(())
}

/// Where the same block stands already, if it was appended before: its answer was lost, and is given again. Only numbers
/// below the next one of the evaluation are taken.
async fn repeated<R: Rows>(
    rows: &mut R,
    conversation: &Conversation,
    lineage: &Lineage,
    slots: &[Slot],
    next: u64,
) -> Result<Option<Appended>, StoreError> {
    let Some((place, entry)) = (0..).zip(slots).find_map(|(place, slot)| Some((place, message(slot)?)))
    else {
        return Ok(None);
    };
    if entry.sequence >= next {
        return Ok(None);
    }
    let evaluation = entry.evaluation_id.as_bytes();
    let Some(row) = lineage.numbered(rows, evaluation, entry.sequence).await? else { return Ok(None) };
    let conflict = |at: u64| {
        let message =
            format!("this sequence of the evaluation is already recorded at {at} with different content");
        Err(StoreError::new(ErrorKind::Conflict, message))
    };
    let Some(first) = row.position.checked_sub(place) else { return conflict(row.position) };
    let below = first + slots.len() as u64;
    if below > conversation.head {
        return conflict(row.position);
    }
    let stored = read::range(rows, &conversation.tenant, lineage, first, below).await?;
    for (placed, slot) in stored.iter().zip(slots) {
        if !body::says_the_same(&placed.slot, slot) {
            return conflict(placed.position);
        }
    }
    let last = stored.last().map_or(first, |placed| placed.position);
    let link = stored.last().map_or(conversation.head_link, |placed| placed.link);
    Ok(Some(Appended { conversation: conversation.id.clone(), first, last, link }))
}

/// Counts the turns the entries begin. What stands before the first user entry belongs to the first turn.
async fn count_turns<R: Rows>(
    rows: &mut R,
    conversation: &mut Conversation,
    lineage: &Lineage,
    slots: &[Slot],
) -> Result<(), StoreError> {
    // Only the first turn may have begun without a user, and only another user asks about it.
    let asks =
        conversation.turns == 1 && slots.iter().filter_map(message).any(|entry| entry.role == Role::User);
    let mut user_spoke = conversation.turns > 1
        || asks && !lineage.newest(rows, 1, |scan| scan.is("role", "user")).await?.is_empty();
    for entry in slots.iter().filter_map(message) {
        let begins = match entry.role {
            Role::User => {
                let greeted = !user_spoke && conversation.turns == 1;
                user_spoke = true;
                !greeted
            }
            Role::System => conversation.turns == 0 && conversation.head_prefix != PREFIX_START,
            Role::Assistant | Role::Tool => conversation.turns == 0,
        };
        if begins {
            conversation.turns += 1;
            conversation.uncovered_turns += 1;
        }
    }
    Ok(())
}

/// The turns of a record that its summary does not stand for.
pub(crate) fn uncovered(record: &Record, turns: u64) -> u64 {
    let mut covers = Vec::new();
    for slot in record.slots() {
        if let Slot::Decision(decision, _) = slot
            && let Decision::Summary { covers: spans, scope: None, .. } = decision.as_ref()
        {
            covers.clone_from(spans);
        }
    }
    let covered = |at: u64| covers.iter().any(|(first, last)| (*first..=*last).contains(&at));
    let is_user = |slot: &Slot| match slot {
        Slot::Message(entry) => entry.role == Role::User,
        Slot::Erased(tombstone) => tombstone.role == Role::User,
        Slot::Decision(..) => false,
    };
    let users = (0..).zip(record.slots()).filter(|(_, slot)| is_user(slot));
    let covered_users = users.filter(|(at, _)| covered(*at)).count() as u64;
    turns.saturating_sub(covered_users)
}

/// Writes the rows of the entries and moves the head of the conversation.
async fn write<R: Rows>(
    rows: &mut R,
    conversation: &mut Conversation,
    at: Time,
    slots: &[Slot],
    packed: &mut Packed,
) -> Result<(), StoreError> {
    let mut written = Vec::with_capacity(slots.len());
    for slot in slots {
        let position = conversation.head;
        let hash = body_hash(position, slot);
        let link = link_over(&conversation.head_link, position, slot, &hash);
        let prefix = message(slot).and_then(|entry| next_prefix(&conversation.head_prefix, entry));
        let body = body::write(slot);
        for (hash, bytes) in &body.large {
            rows.refer(&packed.blob(&conversation.tenant, *hash, bytes)).await?;
        }
        written.push(row(conversation, position, slot, body.text, [&hash, &link], prefix));
        conversation.head += 1;
        conversation.head_link = link;
        conversation.head_prefix = prefix.unwrap_or(conversation.head_prefix);
        if let Some(entry) = message(slot) {
            heard(conversation, at, entry);
        }
    }
    conversation.updated_at = at;
    rows.add(&written).await
}

/// Who spoke last, and what that does to the status.
fn heard(conversation: &mut Conversation, at: Time, entry: &Entry) {
    if matches!(entry.role, Role::User | Role::Assistant) {
        conversation.last_role = Some(entry.role);
        conversation.last_said_at = Some(entry.created_at);
    }
    if entry.role == Role::User && matches!(conversation.status(), Status::Closed | Status::Idle) {
        conversation.status = Some(Status::Active);
        conversation.status_at = Some(at);
    }
}

pub(crate) fn row(
    conversation: &Conversation,
    position: u64,
    slot: &Slot,
    body: String,
    [hash, link]: [&Link; 2],
    prefix: Option<Link>,
) -> EntryRow {
    let entry = message(slot);
    let tombstone = match slot {
        Slot::Erased(tombstone) => Some(tombstone.as_ref()),
        _ => None,
    };
    let kind = match slot {
        Slot::Message(_) => MESSAGE,
        Slot::Decision(..) => DECISION,
        Slot::Erased(_) => crate::rows::TOMBSTONE,
    };
    let evaluation = entry.map(|entry| entry.evaluation_id).or(tombstone.map(|erased| erased.evaluation_id));
    EntryRow {
        conversation: conversation.id.clone(),
        position,
        kind: kind.into(),
        role: entry
            .map(|entry| entry.role)
            .or(tombstone.map(|erased| erased.role))
            .map(|role| role.as_str().into()),
        evaluation: evaluation.map(|id| id.as_bytes().to_vec()),
        sequence: entry.map(|entry| entry.sequence).or(tombstone.map(|erased| erased.sequence)),
        created_at: slot.created_at().to_string(),
        body,
        body_hash: hash.to_vec(),
        link: link.to_vec(),
        prefix: prefix.map(|prefix| prefix.to_vec()),
    }
}

/// Writes what follows from an entry: calls, summaries, and words, which may have been found already.
pub(crate) async fn derive<R: Rows>(
    rows: &mut R,
    conversation: &Conversation,
    lineage: &Lineage,
    position: u64,
    slot: &Slot,
    words: Option<String>,
) -> Result<(), StoreError> {
    match slot {
        Slot::Message(entry) => calls::note(rows, lineage, &conversation.id, position, entry).await?,
        Slot::Decision(decision, at) => {
            if let Some(summary) = summary_row(conversation, position, decision, *at) {
                rows.put(&summary).await?;
            }
        }
        Slot::Erased(_) => {}
    }
    let words = words.unwrap_or_else(|| read::words(slot));
    if !words.is_empty() {
        rows.index(&conversation.id, position, &words).await?;
    }
    Ok(())
}

/// The copy of a summary decision that is quick to find; only what holds everywhere has one.
pub(crate) fn summary_row(
    conversation: &Conversation,
    position: u64,
    decision: &Decision,
    at: Time,
) -> Option<SummaryRow> {
    let Decision::Summary { covers, text, by, scope: None, .. } = decision else { return None };
    Some(SummaryRow {
        conversation: conversation.id.clone(),
        position,
        covers_from: covers.first().map_or(0, |span| span.0),
        covers_to: covers.last().map_or(0, |span| span.1),
        text: text.clone(),
        by: by.clone(),
        created_at: at,
    })
}
