//! The record of a chat: turns taken back, views explained, words found again.

use std::sync::Arc;

use scrollback_agent::config::Config;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::Provider;
use scrollback_core::manager::SharedManager;
use scrollback_core::wire::Body;
use scrollback_core::{Record, Role};
use scrollback_store::{ConversationId, Recipient, Store, Tenant};

use crate::args::ExplainArg;
use crate::curate::{CurateJob, context};
use crate::explain;
use crate::failure::Failure;
use crate::load::{LoadOptions, LoadedInput};
use crate::store::now;

/// Most places that are shown of what was found: what fits a screen.
const FOUND: usize = 20;

/// Where a chat is stored, if it is.
pub(super) struct Talk {
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) tenant: Tenant,
}

impl Talk {
    /// A journal that goes on from a place of the record. The places above it stay where they are: a stored conversation is
    /// forked there, and the fork takes its place with its recipient.
    pub(super) async fn below(
        &self,
        record: &Record,
        (conversation, recipient): (Option<ConversationId>, Option<Recipient>),
        at: u64,
    ) -> Result<Journal, Failure> {
        let (Some(store), Some(id)) = (&self.store, conversation) else {
            return Ok(Journal::memory(below(record, at)?));
        };
        let (fork, now) = (ConversationId::new(now()), now());
        let current = match &recipient {
            Some(recipient) => {
                store.current(&self.tenant, recipient).await?.filter(|current| current.id == id)
            }
            None => None,
        };
        let fork = match (recipient, current) {
            (Some(recipient), Some(_)) => store.rewind(&self.tenant, &recipient, at, fork, now).await?,
            _ => store.fork(&self.tenant, &id, at, fork, now).await?,
        };
        Ok(Journal::open(Arc::clone(store), self.tenant.clone(), fork.id).await?)
    }
}

/// Where the last turn begins.
pub(super) fn last_turn(record: &Record) -> Option<u64> {
    let is_user = |position: &u64| record.entry(*position).is_some_and(|entry| entry.role == Role::User);
    (0..record.len() as u64).rev().find(is_user)
}

/// The record as it was below a position.
pub(super) fn below(record: &Record, position: u64) -> Result<Record, Failure> {
    let mut earlier = Record::new();
    for slot in record.slots().iter().take(position as usize) {
        earlier.take(slot.clone())?;
    }
    Ok(earlier)
}

/// Prints what a manager shows of a record, and what it leaves out and why.
pub(super) fn explain(
    record: Record,
    manager: &SharedManager,
    provider: &dyn Provider,
    config: &Config,
) -> Result<(), Failure> {
    let asked = provider.describe();
    let indexes = (0..record.len()).map(Some).collect();
    let loaded = LoadedInput {
        wire: asked.wire,
        transcript: None,
        record,
        indexes,
        body: Body::List,
        tools: None,
        model: None,
        notes: Vec::new(),
        one_of: None,
    };
    let job = CurateJob {
        manager: Arc::clone(manager),
        cx: context(Some(asked.model), config),
        to: None,
        how: LoadOptions::default(),
    };
    job.run(loaded, |curated| {
        explain::print(curated, ExplainArg::All);
        Ok(())
    })
}

/// The places that have all the words, the newest first.
pub(super) fn recall(record: &Record, words: &str) -> Vec<(u64, &'static str, String)> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let found = (0..record.len() as u64).rev().filter_map(|position| {
        let entry = record.entry(position)?;
        let text = entry.content()?;
        let folded = text.to_lowercase();
        let all = !words.is_empty() && words.iter().all(|word| folded.contains(word));
        all.then(|| (position, entry.role.as_str(), around(&text, &folded, &words)))
    });
    found.take(FOUND).collect()
}

/// A text from a little before the first word that was looked for.
fn around(text: &str, folded: &str, words: &[String]) -> String {
    const BEFORE: usize = 30;
    let at = words.iter().filter_map(|word| folded.find(word.as_str())).min().unwrap_or(0);
    let skip = folded.get(..at).map_or(0, |before| before.chars().count()).saturating_sub(BEFORE);
    let rest: String = text.chars().skip(skip).collect();
    if skip > 0 { format!("…{rest}") } else { rest }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn record() -> Record {
        let said = br#"[
            {"role": "user", "content": "The code word is Tangerine."},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": "What is it?"},
            {"role": "assistant", "content": "tangerine"}
        ]"#;
        LoadOptions::default().load_bytes(said, std::path::Path::new("said.json")).unwrap().record
    }

    #[test]
    fn the_last_turn_begins_where_the_user_spoke_last() {
        assert_eq!(last_turn(&record()), Some(2));
        assert_eq!(last_turn(&below(&record(), 2).unwrap()), Some(0));
        assert_eq!(last_turn(&Record::new()), None);
    }

    #[test]
    fn words_are_found_whatever_their_case_and_all_must_be_there() {
        let places = |words: &str| recall(&record(), words).iter().map(|found| found.0).collect::<Vec<_>>();
        assert_eq!(places("TANGERINE"), [3, 0]);
        assert_eq!(places("code tangerine"), [0]);
        assert_eq!(places("mandarin"), [0; 0]);
        assert_eq!(places(""), [0; 0]);
    }
}
