//! A commit: each thing it writes, in order.

use scrollback_core::Time;

use super::{append, fork, large, sent, session};
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::rows::Rows;
use crate::run::{Evaluation, Event, KeyUse, Lease, Run};
use crate::table::{Scan, Table};
use crate::tx::{Committed, Tx, TxOp};

/// Writes all of a commit. The caller's transaction makes it all or nothing.
pub(crate) async fn commit<R: Rows>(rows: &mut R, tx: Tx) -> Result<Committed, StoreError> {
    let Tx { tenant, at, ops, mut packed } = tx;
    let mut committed = Committed::default();
    let mut ours = Ours::default();
    let mut told = EventBatch::default();
    for op in ops {
        match op {
            TxOp::Unless(scope, prefixes) => {
                if session::is_known(rows, &tenant, scope, &prefixes).await? {
                    return Err(StoreError::new(ErrorKind::Conflict, "these messages are known already"));
                }
            }
            TxOp::Unwritten(id, since) => {
                if ours.conversation(rows, &tenant, &id).await?.updated_at != since {
                    return Err(StoreError::new(
                        ErrorKind::Conflict,
                        "the conversation was written meanwhile",
                    ));
                }
            }
            TxOp::Create(new) => ours.conversation = Some(append::create(rows, &tenant, at, new).await?),
            TxOp::Session(new) => {
                own(&tenant, &new.tenant)?;
                session::begin(rows, new).await?;
            }
            TxOp::Title(id, title) => session::entitle(rows, &tenant, &id, title).await?,
            TxOp::Kind(id, kind) => {
                let conversation = ours.conversation(rows, &tenant, &id).await?;
                conversation.kind = kind;
                rows.put(&*conversation).await?;
                session::note_main(rows, conversation).await?;
            }
            TxOp::Fork { parent, at: place, id, child } => {
                let mut forked = fork::fork(rows, &tenant, &parent, place, id, at).await?;
                if let Some(child) = child {
                    (forked.kind, forked.scope, forked.title) = (child.kind, child.scope, child.title);
                    rows.put(&forked).await?;
                }
                ours.conversation = Some(forked);
            }
            TxOp::Append { to, expected, entries } => {
                let slots = append::places(entries, at)?;
                let before = match ours.conversation.take().filter(|ours| to.is(&ours.id)) {
                    Some(before) => before,
                    None => append::target(rows, &tenant, at, &to).await?,
                };
                let (appended, after) =
                    append::append(rows, at, before, expected, &slots, &mut packed).await?;
                committed.appended.push(appended);
                ours.conversation = Some(after);
            }
            TxOp::Status(id, status) => {
                let conversation = ours.conversation(rows, &tenant, &id).await?;
                conversation.status = Some(status);
                conversation.status_at = Some(at);
                rows.put(&*conversation).await?;
            }
            TxOp::Alias(alias) => {
                own(&tenant, &alias.tenant)?;
                rows.put(&alias).await?;
            }
            TxOp::Evaluation(mut evaluation) => {
                ours.conversation(rows, &tenant, &evaluation.conversation).await?;
                let before: Option<Evaluation> =
                    rows.get(vec![evaluation.id.as_bytes().as_slice().into()]).await?;
                if let Some(before) = before {
                    // Who holds it and what was appended is known better here.
                    evaluation.first_position = before.first_position.or(evaluation.first_position);
                    evaluation.last_position = before.last_position.max(evaluation.last_position);
                    evaluation.count = before.count.max(evaluation.count);
                    evaluation.lease = before.lease.or(evaluation.lease);
                }
                rows.put(&evaluation).await?;
            }
            TxOp::Run(mut run) => {
                own(&tenant, &run.tenant)?;
                let before: Option<Run> = rows.get(vec![run.id.as_str().into()]).await?;
                if let Some(before) = &before {
                    own(&tenant, &before.tenant)?;
                }
                run.lease = before.as_ref().and_then(|before| before.lease.clone()).or(run.lease.take());
                large::put_away(rows, &tenant, run.as_mut(), before).await?;
                rows.put(run.as_ref()).await?;
            }
            TxOp::Step(mut step) => {
                ours.run(rows, &tenant, &step.run).await?;
                let before = rows.get(step.key()).await?;
                large::put_away(rows, &tenant, step.as_mut(), before).await?;
                rows.put(step.as_ref()).await?;
            }
            TxOp::Span(mut span) => {
                ours.run(rows, &tenant, &span.run).await?;
                let before = rows.get(span.key()).await?;
                large::put_away(rows, &tenant, &mut span, before).await?;
                rows.put(&span).await?;
            }
            TxOp::Event(event) => {
                ours.run(rows, &tenant, &event.run).await?;
                told.take(rows, &tenant, event).await?;
            }
            TxOp::Sent(call, layout) => {
                let conversation = ours.conversation(rows, &tenant, &call.conversation).await?;
                sent::put(rows, conversation, *call, layout.as_deref(), &mut packed).await?;
            }
        }
    }
    told.write(rows).await?;
    Ok(committed)
}

/// The conversation, with the right to write to it.
pub(crate) async fn locked<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Conversation, StoreError> {
    let found = rows.lock(id).await?.filter(|found| found.tenant == *tenant);
    found.ok_or_else(|| StoreError::not_found(format!("conversation {id}")))
}

fn own(tenant: &Tenant, of: &Tenant) -> Result<(), StoreError> {
    if tenant == of { Ok(()) } else { Err(StoreError::not_found("such row in this tenant")) }
}

/// What was found to be of the tenant. Most commits write many rows of one run and one conversation.
#[derive(Default)]
struct Ours {
    run: Option<String>,
    /// As it is after what was written so far; it is locked against other writers.
    conversation: Option<Conversation>,
}

impl Ours {
    /// An error if a run belongs to another holder, or to none.
    async fn run<R: Rows>(&mut self, rows: &mut R, tenant: &Tenant, id: &str) -> Result<(), StoreError> {
        if self.run.as_deref() == Some(id) {
            return Ok(());
        }
        let run: Option<Run> = rows.get(vec![id.into()]).await?;
        let run = run.ok_or_else(|| StoreError::not_found(format!("run {id}")))?;
        own(tenant, &run.tenant)?;
        self.run = Some(id.into());
        Ok(())
    }

    /// The same of a conversation, which is locked against other writers from then on.
    async fn conversation<R: Rows>(
        &mut self,
        rows: &mut R,
        tenant: &Tenant,
        id: &ConversationId,
    ) -> Result<&mut Conversation, StoreError> {
        let known = match self.conversation.take().filter(|known| known.id == *id) {
            Some(known) => known,
            None => locked(rows, tenant, id).await?,
        };
        Ok(self.conversation.insert(known))
    }
}

/// Events that are written together, at the end of a commit: nothing else depends on them.
#[derive(Default)]
struct EventBatch {
    /// The run they are of, and the number of its newest event.
    of: Option<(String, Option<u64>)>,
    events: Vec<Event>,
}

impl EventBatch {
    /// Takes an event. One that is there already, because its commit is repeated, is written in its place.
    async fn take<R: Rows>(
        &mut self,
        rows: &mut R,
        tenant: &Tenant,
        mut event: Event,
    ) -> Result<(), StoreError> {
        let newest = match &self.of {
            Some((run, newest)) if *run == event.run => *newest,
            _ => {
                self.write(rows).await?;
                let scan = Scan::new().equal("run_id", event.run.as_str());
                let newest = rows.scan::<Event>(scan.descending(&["sequence"]).limit(1)).await?.pop();
                newest.map(|newest| newest.sequence)
            }
        };
        if newest.is_some_and(|newest| event.sequence <= newest) {
            self.write(rows).await?;
            let before = rows.get(event.key()).await?;
            large::put_away(rows, tenant, &mut event, before).await?;
            return rows.put(&event).await;
        }
        large::put_away(rows, tenant, &mut event, None).await?;
        self.of = Some((event.run.clone(), Some(event.sequence)));
        self.events.push(event);
        Ok(())
    }

    async fn write<R: Rows>(&mut self, rows: &mut R) -> Result<(), StoreError> {
        if self.events.is_empty() {
            return Ok(());
        }
        rows.add(&std::mem::take(&mut self.events)).await
    }
}

/// Adds to what keys were used for. The rows are locked by name, so that no addition is lost.
pub(crate) async fn charge<R: Rows>(rows: &mut R, uses: Vec<KeyUse>) -> Result<Vec<KeyUse>, StoreError> {
    let mut totals = Vec::with_capacity(uses.len());
    for mut used in uses {
        rows.lock_name(&format!("use\n{}\n{}", used.key, used.window)).await?;
        let before: Option<KeyUse> = rows.get(used.key()).await?;
        // A clock that is a little behind adds to the stretch of those that are not. A stretch that begins later than the next
        // one was written by a clock that had jumped ahead: it would hold the key's counts until then.
        let ahead = |before: &KeyUse| before.began.0.saturating_sub(used.began.0);
        let counts = |before: &KeyUse| (0..=span_of(&used.window)).contains(&ahead(before));
        if let Some(before) = before.filter(counts) {
            used.began = before.began;
            used.requests = used.requests.saturating_add(before.requests);
            used.tokens = used.tokens.saturating_add(before.tokens);
            used.microdollars = used.microdollars.saturating_add(before.microdollars);
        }
        rows.put(&used).await?;
        totals.push(used);
    }
    Ok(totals)
}

/// Milliseconds of a stretch by its name.
fn span_of(window: &str) -> i64 {
    const MINUTE: i64 = 60_000;
    if window == "minute" { MINUTE } else { 24 * 60 * MINUTE }
}

/// What a lease is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// A run, by id.
    Run(String),
    /// An evaluation.
    Evaluation(uuid::Uuid),
}

/// Takes or renews a lease at `now`. Another holder's lease that has not ended is an error, unless its holder is known dead.
pub(crate) async fn lease<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    what: &Leased,
    wanted: Option<Lease>,
    dead: &[String],
    me: &str,
    now: Time,
) -> Result<(), StoreError> {
    let may = |held: Option<&Lease>| match held {
        Some(held) if held.holder != me && held.until > now && !dead.contains(&held.holder) => {
            Err(StoreError::new(
                ErrorKind::Busy,
                format!("{} is working on this until {}", held.holder, held.until),
            ))
        }
        _ => Ok(()),
    };
    match what {
        Leased::Run(id) => {
            rows.lock_name(&format!("run\n{id}")).await?;
            let run: Option<Run> = rows.get(vec![id.as_str().into()]).await?;
            let run = run.filter(|run| run.tenant == *tenant);
            let mut run = run.ok_or_else(|| StoreError::not_found(format!("run {id}")))?;
            may(run.lease.as_ref())?;
            run.lease = wanted;
            rows.put(&run).await
        }
        Leased::Evaluation(id) => {
            rows.lock_name(&format!("evaluation\n{id}")).await?;
            let found: Option<Evaluation> = rows.get(vec![id.as_bytes().as_slice().into()]).await?;
            let mut found = found.ok_or_else(|| StoreError::not_found(format!("evaluation {id}")))?;
            super::lineage::conversation(rows, tenant, &found.conversation).await?;
            may(found.lease.as_ref())?;
            found.lease = wanted;
            rows.put(&found).await
        }
    }
}
