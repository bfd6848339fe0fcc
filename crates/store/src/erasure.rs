//! Erasing a person: one call for all doors, with a certificate of what is gone and of what is left where.
//!
//! A person's data are in all conversations with them, in forks of those, and in what their sessions started that is with no one
//! else. Each conversation is erased in a transaction of its own, names last, so that a call that was interrupted can be repeated.
//! What the person was called is replaced by a pseudonym: asked again by the same name, the store finds what it erased, and can
//! say whether anything is still left.

use std::collections::{BTreeMap, BTreeSet};

use scrollback_core::Time;
use serde::Serialize;

use crate::body::hex;
use crate::conversation::Conversation;
use crate::engine::erase::{Erase, ErasedCount};
use crate::error::StoreError;
use crate::id::{ConversationId, Recipient, Tenant};
use crate::pace::LongWorkStep;
use crate::search::{Filter, Query};
use crate::session::ConversationKind;
use crate::store::{Listing, Store, Which};

/// Conversations read at once.
const PAGE: usize = 500;
/// Most places elsewhere that are counted of those that name the person.
const ELSEWHERE: usize = 100;
/// Free pages given back at once: a few milliseconds of the writer.
const PAGES: u64 = 256;
/// What a pseudonym begins with.
const ERASED: &str = "erased-";
/// Letters of a pseudonym behind that.
const LETTERS: usize = 20;

/// What makes pseudonyms: a secret of the store. The same name always gives the same one, and without the secret no one can try
/// names out.
#[derive(Clone)]
pub struct Pseudonyms {
    key: [u8; 32],
}

impl Pseudonyms {
    pub(crate) fn new(secret: &str) -> Self {
        Pseudonyms {
            key: blake3::derive_key("scrollback 2026 pseudonyms of erased people", secret.as_bytes()),
        }
    }

    /// The pseudonym of a person. That of a pseudonym is itself.
    pub fn person(&self, tenant: &Tenant, person: &Recipient) -> Recipient {
        Recipient::stored(self.text(tenant, person.as_str()))
    }

    /// What takes the place of a text.
    pub fn text(&self, tenant: &Tenant, text: &str) -> String {
        let is_one =
            |rest: &str| rest.len() == LETTERS && rest.bytes().all(|letter| letter.is_ascii_hexdigit());
        if text.strip_prefix(ERASED).is_some_and(is_one) {
            return text.into();
        }
        let hash = blake3::keyed_hash(&self.key, format!("{tenant}\n{text}").as_bytes());
        let mut letters = hex(hash.as_bytes());
        letters.truncate(LETTERS);
        format!("{ERASED}{letters}")
    }
}

impl std::fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pseudonyms")
    }
}

/// Whether anything is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasureMode {
    /// It is.
    Erase,
    /// It is only said what would be.
    DryRun,
}

/// What an erasure does not reach, or has not reached yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// What is left.
    pub what: String,
    /// Where.
    pub place: String,
    /// Until when.
    pub until: String,
}

/// A conversation that was erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErasedConversation {
    /// Its id, which stays.
    pub conversation: String,
    /// What it is in its session.
    pub kind: &'static str,
    /// Places of entries in it, erased ones included.
    pub entries: u64,
}

/// What was erased of a person, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// By which name they were asked for.
    pub recipient: String,
    /// By which name the store knows them from now on; none before anyone was erased from it.
    pub pseudonym: Option<String>,
    /// Whether it is only said what would be erased.
    pub dry_run: bool,
    /// When.
    pub at: String,
    /// How many conversations.
    pub conversations: u64,
    /// How many of them are sub-agents.
    pub sub_agents: u64,
    /// Entries in them.
    pub entries: u64,
    /// What was erased, by kind.
    #[serde(flatten)]
    pub count: ErasedCount,
    /// The conversations.
    pub list: Vec<ErasedConversation>,
    /// What is left, where and until when.
    pub remains: Vec<Leftover>,
}

/// Erases a person from the store. An error of kind `not_found` if there is no conversation with them, and never was.
pub async fn erase_recipient(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    reason: &str,
    mode: ErasureMode,
    now: Time,
) -> Result<Certificate, StoreError> {
    let known = store.pseudonyms().await?.map(|pseudonyms| pseudonyms.person(tenant, recipient));
    let theirs = conversations_of(store, tenant, recipient, known.as_ref()).await?;
    if theirs.is_empty() {
        return Err(StoreError::not_found(format!("conversation with {:?}", recipient.as_str())));
    }
    let list: Vec<ErasedConversation> = theirs
        .values()
        .map(|(row, entries)| ErasedConversation {
            conversation: row.id.to_string(),
            kind: row.kind.as_str(),
            entries: *entries,
        })
        .collect();
    let helpers = theirs.values().filter(|(row, _)| row.kind == ConversationKind::SubAgent);
    let mut certificate = Certificate {
        recipient: recipient.to_string(),
        pseudonym: known.map(|known| known.to_string()),
        dry_run: mode == ErasureMode::DryRun,
        at: now.to_string(),
        conversations: list.len() as u64,
        sub_agents: helpers.count() as u64,
        entries: list.iter().map(|one| one.entries).sum(),
        count: ErasedCount::default(),
        list,
        remains: Vec::new(),
    };
    if mode == ErasureMode::DryRun {
        certificate.count.erased = certificate.entries;
        certificate.remains = elsewhere(store, tenant, recipient, &theirs).await?;
        return Ok(certificate);
    }
    let sessions: BTreeSet<_> = theirs.values().map(|(row, _)| row.session.clone()).collect();
    let mut named_by_clients = false;
    for session in &sessions {
        named_by_clients |= store.named_session(tenant, session).await?.is_some();
    }
    // Those at work have the words in memory, and go on.
    let at_work = at_work(store, tenant, theirs.keys(), now).await?;
    let ids: Vec<ConversationId> = theirs.keys().cloned().collect();
    let mut count = store.erase_each(tenant, ids, Erase::Person(recipient.clone()), reason, now).await?;
    loop {
        let step = LongWorkStep::begin();
        let shrunk = store.shrink(PAGES).await?;
        count.free_pages += shrunk.given;
        if shrunk.given == 0 || shrunk.left == 0 {
            break;
        }
        step.rest().await;
    }
    certificate.pseudonym =
        store.pseudonyms().await?.map(|pseudonyms| pseudonyms.person(tenant, recipient).to_string());
    let mut remains = vec![Leftover {
        what: "copies made earlier: backups, the folder of `backup --follow`, exports".into(),
        place: "where they were put".into(),
        until: "they are deleted; erase again after a restore".into(),
    }];
    remains.extend(elsewhere(store, tenant, recipient, &theirs).await?);
    if count.pending {
        remains.push(Leftover {
            what: "copies of the erased rows".into(),
            place: "the database's own files and its log".into(),
            until: "no one reads an older state any more; they go by themselves, and the same call says when"
                .into(),
        });
    }
    if named_by_clients {
        remains.push(Leftover {
            what: "ids that clients gave their sessions, in lines about calls; no word of what was said"
                .into(),
            place: "the log of the server".into(),
            until: "it is rotated away".into(),
        });
    }
    if at_work > 0 {
        remains.push(Leftover {
            what: format!("{at_work} agents at work on these conversations; what they say next is recorded"),
            place: "this store".into(),
            until: "they are done and the person is erased again".into(),
        });
    }
    remains.extend(store.leftovers());
    certificate.count = count;
    certificate.remains = remains;
    Ok(certificate)
}

type Theirs = BTreeMap<ConversationId, (Conversation, u64)>;

/// The conversations with a person, by their name and by their pseudonym; the forks of them and what their sessions started,
/// as far as it is with no one else.
async fn conversations_of(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    pseudonym: Option<&Recipient>,
) -> Result<Theirs, StoreError> {
    let mut found = Theirs::new();
    for name in [Some(recipient), pseudonym].into_iter().flatten() {
        listed(store, tenant, Which::With(name.clone()), &mut found, |_| true).await?;
    }
    let theirs = |row: &Conversation| {
        row.recipient.as_ref().is_none_or(|other| other == recipient || Some(other) == pseudonym)
    };
    let sessions: BTreeSet<_> = found.values().map(|(row, _)| row.session.clone()).collect();
    for session in sessions {
        listed(store, tenant, Which::InSession(session), &mut found, theirs).await?;
    }
    Ok(found)
}

async fn listed(
    store: &dyn Store,
    tenant: &Tenant,
    which: Which,
    found: &mut Theirs,
    wanted: impl Fn(&Conversation) -> bool,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let listing = Listing { which: which.clone(), limit: PAGE, after, ..Listing::default() };
        let page = store.list(Some(tenant), listing).await?;
        let rows = page.conversations.into_iter().filter(|(row, _)| wanted(row));
        found.extend(rows.map(|(row, entries)| (row.id.clone(), (row, entries))));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// How many agents hold an evaluation of these conversations.
async fn at_work(
    store: &dyn Store,
    tenant: &Tenant,
    ids: impl Iterator<Item = &ConversationId>,
    now: Time,
) -> Result<usize, StoreError> {
    let mut held = 0;
    for id in ids {
        let evaluations = store.evaluations(tenant, id).await?;
        held +=
            evaluations.iter().filter(|one| one.lease.as_ref().is_some_and(|held| held.until > now)).count();
    }
    Ok(held)
}

/// Texts of others that name the person: no program can tell whether those are theirs.
async fn elsewhere(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    theirs: &Theirs,
) -> Result<Vec<Leftover>, StoreError> {
    let name = recipient.as_str();
    let query = Query::parse(&format!("\"{}\"", name.replace('"', " ")));
    let hits = store.search(tenant, query, Filter::default(), ELSEWHERE, None).await?.hits;
    let hits = hits.iter().filter(|hit| !theirs.contains_key(&hit.conversation)).count();
    if hits == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![Leftover {
        what: format!("{hits} entries of other conversations that have the words {name:?}"),
        place: format!("found by: scrollback search '\"{name}\"'"),
        until: "they are erased one by one: scrollback history NAME erase --positions".into(),
    }])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_has_one_pseudonym_in_each_tenant_and_store() {
        let (one, other) = (Pseudonyms::new("one"), Pseudonyms::new("other"));
        let (tenant, second) = (Tenant::default(), Tenant::parse("second").unwrap());
        let anna = one.text(&tenant, "anna");
        assert_eq!((anna.len(), anna.starts_with("erased-")), (27, true), "{anna}");
        assert_eq!(one.text(&tenant, "anna"), anna);
        assert_eq!(one.text(&tenant, &anna), anna, "a pseudonym stands for itself");
        for different in [one.text(&tenant, "ann"), one.text(&second, "anna"), other.text(&tenant, "anna")] {
            assert_ne!(different, anna);
        }
        assert_eq!(format!("{one:?}"), "Pseudonyms");
    }
}
