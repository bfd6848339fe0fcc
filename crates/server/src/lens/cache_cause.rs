//! Why one call's prompt no longer began as that of the call before: gathers the evidence from the store.

use std::collections::BTreeMap;

use scrollback_core::model::ModelName;
use scrollback_core::{CurationContext, Slot};
use scrollback_store::{Conversation, ConversationId, Sent};

use super::cache_account::{CallAccount, Cause, Evidence, about_where, cause, lifetime};
use super::viewer::Viewer;
use crate::HttpProblem;
use crate::known_calls::{compacted_until, is_reported, known_calls};
use crate::usage::Spent;

/// Forks of forks that are followed to the calls they inherit.
const ANCESTORS: usize = 32;

/// Explains breaks, and remembers the records it read for that.
#[derive(Default)]
pub(crate) struct Explainer {
    records: BTreeMap<ConversationId, Vec<(u64, Slot)>>,
    tokens: BTreeMap<ConversationId, Vec<(u64, u64)>>,
}

/// Why a prompt broke, and about which entry, where only that can be estimated.
pub(crate) struct Explanation {
    pub(crate) cause: Cause,
    /// The entry in which what was read from the cache ended.
    pub(crate) about: Option<u64>,
}

impl Explainer {
    /// Why the prompt of a call no longer began as that of the call before.
    pub(crate) async fn explain(
        &mut self,
        viewer: &Viewer,
        id: &ConversationId,
        account: &CallAccount<'_>,
        before: &Sent,
    ) -> Result<Explanation, HttpProblem> {
        let call = account.call;
        if !self.records.contains_key(id) {
            let places = viewer.store().entries(viewer.tenant(), id, 0, u64::MAX).await?;
            let slots = places.into_iter().map(|placed| (placed.position, placed.slot)).collect();
            self.records.insert(id.clone(), slots);
        }
        let slots = self.records.get(id).map_or(&[][..], Vec::as_slice);
        let below = |upto: u64| slots.partition_point(|(position, _)| *position < upto);
        let mut between =
            slots.get(below(before.upto)..below(call.upto + 1)).map(<[_]>::to_vec).unwrap_or_default();
        // Imports write compactions behind everything that was said.
        between.extend(
            slots
                .iter()
                .skip(below(call.upto + 1))
                .filter(|(_, slot)| match slot {
                    Slot::Decision(decision, _) if is_reported(call) => {
                        compacted_until(decision).is_some_and(|last| (before.upto..call.upto).contains(&last))
                    }
                    _ => false,
                })
                .cloned(),
        );
        let between = between.as_slice();
        let reply = is_reported(before).then(|| between.first().map(|(_, slot)| slot)).flatten();
        let (before, call) = (whole(viewer, before).await?, whole(viewer, call).await?);
        let cause = cause(&Evidence {
            before: &before,
            call: &call,
            between,
            idle_ms: account.idle_ms,
            lifetime_ms: lifetime(&before, reply),
        });
        if cause.place.is_some() || cause.position.is_some() {
            return Ok(Explanation { cause, about: None });
        }
        if !self.tokens.contains_key(id) {
            let counted = counted(viewer, id, &call.model).await?;
            self.tokens.insert(id.clone(), counted);
        }
        let said = self.tokens.get(id).map_or(&[][..], Vec::as_slice);
        let said: Vec<(u64, u64)> = said.iter().copied().filter(|(at, _)| *at < before.upto).collect();
        let read = account.spent.map_or(0, |spent| spent.cache_read);
        let input = Spent::of(&before).map_or(0, |spent| spent.input);
        let about = about_where(read, input, &said);
        Ok(Explanation { cause, about })
    }
}

/// The calls of a conversation behind those of what it was forked from, and how many of them are not its own.
pub(crate) async fn with_inherited(
    viewer: &Viewer,
    conversation: &Conversation,
) -> Result<(Vec<Sent>, usize), HttpProblem> {
    let mut calls = known_calls(&viewer.app, conversation).await?;
    let own = calls.len();
    let (mut child, mut below) = (conversation.clone(), u64::MAX);
    for _ in 0..ANCESTORS {
        let Some((parent, at)) = child.forked_from() else { break };
        below = below.min(at);
        let parent = viewer.store().conversation(viewer.tenant(), parent).await?;
        let mut earlier = known_calls(&viewer.app, &parent).await?;
        earlier.retain(|call| call.upto < below);
        earlier.append(&mut calls);
        (calls, child) = (earlier, parent);
    }
    let inherited = calls.len() - own;
    Ok((calls, inherited))
}

/// A call with the bytes that were sent.
async fn whole(viewer: &Viewer, call: &Sent) -> Result<Sent, HttpProblem> {
    if is_reported(call) || call.request.is_some() {
        Ok(call.clone())
    } else {
        Ok(viewer.store().call(viewer.tenant(), &call.id).await?)
    }
}

/// Tokens of every entry of a conversation.
async fn counted(viewer: &Viewer, id: &ConversationId, model: &str) -> Result<Vec<(u64, u64)>, HttpProblem> {
    let record = viewer.store().record(viewer.tenant(), id, None).await?;
    let model = ModelName::parse(model).ok();
    crate::blocking(move || {
        let cx = CurationContext::for_model(model);
        crate::visibility::tokens(&record, &cx).into_iter().collect()
    })
    .await
}
