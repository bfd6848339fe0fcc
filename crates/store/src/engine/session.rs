//! Sessions: beginning and finding them, and finding the conversation that a list of messages continues.

use scrollback_core::{Link, PREFIX_START, Time};

use super::fork::Continued;
use super::list;
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::rows::{EntryRow, Rows};
use crate::search::Cursor;
use crate::session::{
    ConversationKind, MatchScope, Session, SessionId, SessionListing, SessionPage, SessionTree,
};
use crate::table::Scan;

/// Most conversations that are listed of one session. A client may start thousands of sub-agents; people read the first.
pub const SESSION_CONVERSATIONS: usize = 500;

/// Most entries with the same prefix that are looked at. Many conversations begin with the same words; the newest are the
/// ones that go on. A conversation that ends with the prefix is found by an index of its own, however many there are.
const CANDIDATES: usize = 64;

/// The session that a client named.
pub(crate) async fn named<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    caller: &str,
    client: &str,
    client_id: &str,
) -> Result<Option<Session>, StoreError> {
    let scan = Scan::new()
        .equal("tenant", tenant.as_str())
        .equal("caller", caller)
        .equal("client", client)
        .equal("client_id", client_id)
        .limit(1);
    Ok(rows.scan::<Session>(scan).await?.pop())
}

/// The session of that id that a client named.
pub(crate) async fn of_id<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &SessionId,
) -> Result<Option<Session>, StoreError> {
    let found: Option<Session> = rows.get(vec![id.as_str().into()]).await?;
    Ok(found.filter(|found| found.tenant == *tenant))
}

/// Begins a session.
pub(crate) async fn begin<R: Rows>(rows: &mut R, new: Session) -> Result<(), StoreError> {
    let Session { tenant, caller, client, client_id, .. } = &new;
    rows.lock_name(&format!("session\n{tenant}\n{caller}\n{client}\n{client_id}")).await?;
    let taken: Option<Session> = rows.get(vec![new.id.as_str().into()]).await?;
    if taken.is_some() || named(rows, tenant, caller, client, client_id).await?.is_some() {
        return Err(StoreError::new(ErrorKind::Exists, "the session has begun already"));
    }
    rows.put(&new).await
}

/// Writes a session that was exported, unless it is here already.
pub(crate) async fn restore<R: Rows>(rows: &mut R, session: Session) -> Result<(), StoreError> {
    match begin(rows, session).await {
        Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
        done => done,
    }
}

/// Takes the title of a conversation's session away: it may repeat what was erased.
pub(crate) async fn forget_title<R: Rows>(rows: &mut R, one: &Conversation) -> Result<(), StoreError> {
    match of_id(rows, &one.tenant, &one.session).await? {
        Some(session) if session.title.is_some() => rows.put(&Session { title: None, ..session }).await,
        _ => Ok(()),
    }
}

/// Sets the title of a session. The last one counts: clients find a better one when they know more. A conversation that is
/// a session of its own has no row for it, and keeps the title it has.
pub(crate) async fn entitle<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &SessionId,
    title: String,
) -> Result<(), StoreError> {
    match of_id(rows, tenant, id).await? {
        Some(found) => rows.put(&Session { title: Some(title), ..found }).await,
        None => Ok(()),
    }
}

/// Notes the main conversation of a session, if it has none yet.
pub(crate) async fn note_main<R: Rows>(rows: &mut R, one: &Conversation) -> Result<(), StoreError> {
    // A conversation that is a session of its own has no row.
    if one.kind != ConversationKind::Main || one.session.as_str() == one.id.as_str() {
        return Ok(());
    }
    match of_id(rows, &one.tenant, &one.session).await? {
        Some(session) if session.main.is_none() => {
            rows.put(&Session { main: Some(one.id.clone()), ..session }).await
        }
        _ => Ok(()),
    }
}

/// Where a list of messages is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Among {
    /// In the conversations of a scope.
    Scope(MatchScope),
    /// In the conversations of a session, whatever their scope.
    Session(SessionId),
}

impl Among {
    /// The conversations that end with a list, the one written last first.
    fn ending(&self, hash: &Link) -> Scan {
        let scan = match self {
            Among::Scope(scope) => Scan::new().equal("scope", scope.as_str()),
            Among::Session(session) => Scan::new().equal("session_id", session.as_str()),
        };
        scan.equal("head_prefix", hash.as_slice()).descending(&["updated_at", "id"]).limit(1)
    }

    fn has(&self, one: &Conversation) -> bool {
        match self {
            Among::Scope(scope) => one.scope.as_ref() == Some(scope),
            Among::Session(session) => one.session == *session,
        }
    }
}

/// The conversations among some that say a list of messages, and the position after it. Those where nothing follows come
/// first, and of those the newest.
async fn saying<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    among: &Among,
    hash: &Link,
) -> Result<Option<(Conversation, u64)>, StoreError> {
    let said = Scan::new().equal("prefix_hash", hash.as_slice());
    let said = said.descending(&["conversation_id", "position"]).limit(CANDIDATES);
    let rows_saying = rows.scan::<EntryRow>(said).await?;
    if rows_saying.is_empty() {
        return Ok(None);
    }
    let ending = rows.scan::<Conversation>(among.ending(hash)).await?.pop();
    if let Some(found) = ending.filter(|found| found.tenant == *tenant) {
        let head = found.head;
        return Ok(Some((found, head)));
    }
    let mut best: Option<(Conversation, u64)> = None;
    for row in rows_saying {
        let found: Option<Conversation> = rows.get(vec![row.conversation.as_str().into()]).await?;
        let ours = |found: &Conversation| found.tenant == *tenant && among.has(found);
        let Some(found) = found.filter(ours) else { continue };
        let newer =
            best.as_ref().is_none_or(|(best, _)| (best.updated_at, &best.id) < (found.updated_at, &found.id));
        if newer {
            best = Some((found, row.position + 1));
        }
    }
    Ok(best)
}

/// Whether a scope has a list of messages with one of these prefixes. The longest, which few have, is looked for first.
pub(crate) async fn is_known<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    scope: MatchScope,
    hashes: &[Link],
) -> Result<bool, StoreError> {
    Ok(find_prefix(rows, tenant, &Among::Scope(scope), hashes).await?.is_some())
}

/// The longest stored prefix of a list of messages, by its chain. Of several conversations the one that was not
/// continued yet, and of those the one written last.
pub(crate) async fn find_prefix<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    among: &Among,
    hashes: &[Link],
) -> Result<Option<Continued>, StoreError> {
    for (at, hash) in hashes.iter().enumerate().rev().filter(|(_, hash)| **hash != PREFIX_START) {
        if let Some((conversation, position)) = saying(rows, tenant, among, hash).await? {
            return Ok(Some(Continued { conversation, position, covered: at + 1 }));
        }
    }
    Ok(None)
}

/// A page of sessions, written last first. A session is listed where its newest conversation is.
pub(crate) async fn page<R: Rows>(
    rows: &mut R,
    tenant: Option<&Tenant>,
    what: &SessionListing,
) -> Result<SessionPage, StoreError> {
    let mut after = what.after.as_ref().map(list::read_cursor).transpose()?;
    let (mut sessions, mut more) = (Vec::new(), true);
    let mut last: Option<(Time, ConversationId)> = None;
    let limit = what.limit.max(1);
    while more {
        let values = after.as_ref().map(|(at, id)| vec![(*at).into(), id.as_str().into()]);
        let wanted = limit + 1;
        let mut scan = Scan::new();
        if let Some(tenant) = tenant {
            scan = scan.equal("tenant", tenant.as_str());
        }
        let scan = scan.descending(&["updated_at", "id"]).after(values).limit(wanted);
        let found = rows.scan::<Conversation>(scan).await?;
        more = found.len() == wanted;
        after = found.last().map(|last| (last.updated_at, last.id.clone()));
        for row in found {
            if newest(rows, &row.session).await?.is_none_or(|newest| newest.id != row.id) {
                continue;
            }
            if sessions.len() == limit {
                let next = last.map(|(at, id)| Cursor(format!("{}.{id}", at.0)));
                return Ok(SessionPage { sessions, next });
            }
            last = Some((row.updated_at, row.id.clone()));
            sessions.push(tree(rows, &row.tenant, &row.session).await?);
        }
    }
    Ok(SessionPage { sessions, next: None })
}

async fn newest<R: Rows>(rows: &mut R, id: &SessionId) -> Result<Option<Conversation>, StoreError> {
    let scan = Scan::new().equal("session_id", id.as_str());
    Ok(rows.scan::<Conversation>(scan.descending(&["updated_at", "id"]).limit(1)).await?.pop())
}

/// The conversations of a session that were written last, at most so many.
pub(crate) async fn recent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &SessionId,
    limit: usize,
) -> Result<Vec<Conversation>, StoreError> {
    let scan = Scan::new().equal("session_id", id.as_str()).descending(&["updated_at", "id"]).limit(limit);
    let mut found = rows.scan::<Conversation>(scan).await?;
    found.retain(|one| one.tenant == *tenant);
    Ok(found)
}

/// A session with its conversations.
pub(crate) async fn tree<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &SessionId,
) -> Result<SessionTree, StoreError> {
    let missing = || StoreError::not_found(format!("session {id}"));
    let all = || Scan::new().equal("session_id", id.as_str()).equal("tenant", tenant.as_str());
    let newest = newest(rows, id).await?.filter(|newest| newest.tenant == *tenant).ok_or_else(missing)?;
    let total = rows.count::<Conversation>(all()).await?;
    let first = all().ascending(&["id"]).limit(SESSION_CONVERSATIONS);
    let mut conversations = Vec::new();
    for row in rows.scan::<Conversation>(first).await? {
        let messages = list::messages(rows, &row).await?;
        conversations.push((row, messages));
    }
    Ok(SessionTree {
        named: of_id(rows, tenant, id).await?,
        id: id.clone(),
        tenant: tenant.clone(),
        conversations,
        total,
        updated_at: newest.updated_at,
    })
}
