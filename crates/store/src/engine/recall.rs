//! Looking up for recall: conversations by the end of their id, places with their tools, and searches in the scopes that the
//! tools know.

use std::collections::HashSet;

use scrollback_core::recall::found::{Extent, FoundHit, FoundHits, FoundPlace, WiderHits};
use scrollback_core::recall::{
    Handle, RecallScope, RecallTool, SearchRequest, Tail, TextPattern, Wanted as Asked,
};
use scrollback_core::{Entry, Role, Slot};

use super::lineage::{self, Lineage, LineageSegment};
use super::ranking::{self, MatchEvidence};
use super::{read, search};
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::recall::{Deadline, Here};
use crate::rows::{CallRow, EntryRow, Rows};
use crate::search::{Query, WordDemand, WordQuery};
use crate::session::{ConversationKind, Session, SessionId};
use crate::table::Scan;
use crate::words::words;

/// Most entries that are read for one search, in a few conversations and in many. The newest come first.
const NEAR: usize = 1_500;
const FAR: usize = 400;
/// Most conversations of a session that are searched.
const CONVERSATIONS: usize = 500;
/// Bytes of stored entries that one regular expression is tried on. Matching takes time that grows with the text only, so this
/// bounds it on any machine.
const BYTES: usize = 48 * 1024 * 1024;
/// Entries that are read at once.
const PAGE: usize = 256;
/// Conversations that a regular expression looks into, written last first.
const LATEST: usize = 2_000;
/// Length of a line of context in characters.
const CONTEXT: usize = 240;
/// Most conversations that have one tail; more than one only after imports.
const SAME_TAIL: usize = 4;

/// The conversations of a tenant whose ids end so.
pub(crate) async fn ending<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    tail: &Tail,
) -> Result<Vec<Conversation>, StoreError> {
    let scan = Scan::new().equal("tenant", tenant.as_str()).equal("tail", tail.last());
    let mut found = rows.scan::<Conversation>(scan.ascending(&["id"]).limit(SAME_TAIL)).await?;
    found.retain(|one| tail.is_of(one.id.as_str()));
    Ok(found)
}

/// An error if another conversation of the tenant has an id that ends in the same way: then a handle would mean both.
pub(crate) async fn tail_is_free<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<(), StoreError> {
    let Some(tail) = Tail::of(id.as_str()) else { return Ok(()) };
    if ending(rows, tenant, &tail).await?.iter().all(|one| one.id == *id) {
        return Ok(());
    }
    let message = "another conversation's id ends with the same ten characters; take a new id";
    Err(StoreError::new(ErrorKind::Exists, message))
}

/// Places of a record, each with the tool whose result it is.
pub(crate) async fn places<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    from: u64,
    below: u64,
) -> Result<Vec<FoundPlace>, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let below = below.min(conversation.head);
    if from >= below {
        return Ok(Vec::new());
    }
    let placed = read::range(rows, tenant, &lineage, from, below).await?;
    let mut found = Vec::with_capacity(placed.len());
    for place in placed {
        let tool = match &place.slot {
            Slot::Message(entry) => {
                let owner = lineage.owner(place.position).unwrap_or(id).clone();
                tool_of(rows, tenant, &owner, place.position, entry).await?
            }
            _ => None,
        };
        found.push(FoundPlace { position: place.position, slot: place.slot, tool });
    }
    Ok(found)
}

/// The tool that a result is of: as the result says, or as the call does that it answers.
async fn tool_of<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
    position: u64,
    entry: &Entry,
) -> Result<Option<String>, StoreError> {
    if entry.role != Role::Tool {
        return Ok(entry.tool_calls().next().map(|call| call.name.as_str().into_owned()));
    }
    let Some(id) = entry.tool_call_id() else { return Ok(entry.tool_name()) };
    if let Some(name) = entry.tool_name() {
        return Ok(Some(name));
    }
    let scan = Scan::new()
        .equal("conversation_id", conversation.as_str())
        .equal("call_id", id.as_str())
        .below("position", position)
        .descending(&["position"])
        .limit(1);
    let Some(call) = rows.scan::<CallRow>(scan).await?.pop() else { return Ok(None) };
    let Some((_, Slot::Message(caller))) = read::at(rows, tenant, conversation, call.position).await? else {
        return Ok(None);
    };
    let name = caller
        .tool_calls()
        .find(|call| call.call_id.as_ref().is_some_and(|own| own.as_str() == id))
        .map(|call| call.name.as_str().into_owned());
    Ok(name)
}

/// The session that a client calls by this id, the newest if several callers do.
pub(crate) async fn session_called<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    client_id: &str,
) -> Result<Option<Session>, StoreError> {
    let scan = Scan::new().equal("tenant", tenant.as_str()).equal("client_id", client_id);
    Ok(rows.scan::<Session>(scan.descending(&["created_at", "id"]).limit(1)).await?.pop())
}

/// The conversation of a project that was written last; of any project if none is named.
pub(crate) async fn newest_in<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    project: Option<&str>,
) -> Result<Option<Conversation>, StoreError> {
    let mut scan = Scan::new().equal("tenant", tenant.as_str());
    if let Some(project) = project {
        scan = scan.equal("project", project);
    }
    let newest = rows.scan::<Conversation>(scan.descending(&["updated_at", "id"]).limit(1)).await?.pop();
    let Some(newest) = newest else { return Ok(None) };
    if newest.kind == ConversationKind::Main {
        return Ok(Some(newest));
    }
    // A sub-agent or a side call wrote last: the person is in the main conversation of its session.
    let session: Option<Session> = rows.get(vec![newest.session.as_str().into()]).await?;
    let Some(main) = session.and_then(|session| session.main) else { return Ok(Some(newest)) };
    let main: Option<Conversation> = rows.get(vec![main.as_str().into()]).await?;
    Ok(Some(main.filter(|main| main.tenant == *tenant).unwrap_or(newest)))
}

/// Where a scope lies.
enum Within {
    /// In these places of these conversations.
    Segments(Vec<LineageSegment>),
    /// In the conversations of a project, of a recipient, or of the tenant.
    Many { project: Option<String>, recipient: Option<String> },
}

async fn within<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    here: &Here,
    scope: RecallScope,
) -> Result<Option<Within>, StoreError> {
    Ok(match scope {
        RecallScope::Conversation => match &here.conversation {
            Some(id) => {
                let conversation = lineage::conversation(rows, tenant, id).await?;
                Some(Within::Segments(Lineage::of(rows, &conversation).await?.segments))
            }
            None => None,
        },
        RecallScope::Session => match &here.session {
            Some(session) => Some(Within::Segments(of_session(rows, tenant, session).await?)),
            None => None,
        },
        RecallScope::Project => Some(match (&here.project, &here.recipient) {
            (Some(project), _) => Within::Many { project: Some(project.clone()), recipient: None },
            (None, Some(recipient)) => {
                Within::Many { project: None, recipient: Some(recipient.as_str().into()) }
            }
            (None, None) => Within::Many { project: None, recipient: None },
        }),
        RecallScope::All => Some(Within::Many { project: None, recipient: None }),
    })
}

/// What the conversations of a session hold themselves.
async fn of_session<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    session: &SessionId,
) -> Result<Vec<LineageSegment>, StoreError> {
    let conversations = super::session::recent(rows, tenant, session, CONVERSATIONS).await?;
    let segment = |one: Conversation| {
        let from = one.fork_position.unwrap_or(0);
        LineageSegment { from, below: one.head, conversation: one.id }
    };
    Ok(conversations.into_iter().map(segment).collect())
}

/// A hit on its way.
struct Match {
    score: f64,
    conversation: ConversationId,
    position: u64,
    entry: Slot,
    text: String,
}

/// What a search in one scope gave.
struct Gathered {
    matches: Vec<Match>,
    stopped: bool,
}

/// What the tool `search` finds. None if the scope means nothing here, because no session is known.
pub(crate) async fn find<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    here: &Here,
    request: &SearchRequest,
    deadline: &Deadline,
) -> Result<Option<FoundHits>, StoreError> {
    let Some(place) = within(rows, tenant, here, request.scope).await? else { return Ok(None) };
    let extent = extent(rows, tenant, &place).await?;
    let mut some_words = false;
    let asked = Search { here, request, deadline };
    let mut gathered = gather(rows, tenant, &place, &asked, WordDemand::All).await?;
    let mut wider = Vec::new();
    if gathered.matches.is_empty() && !deadline.is_over() {
        let mut scope = request.scope;
        while let Some(next) = scope.wider() {
            scope = next;
            let Some(place) = within(rows, tenant, here, scope).await? else { continue };
            let found = gather(rows, tenant, &place, &asked, WordDemand::All).await?;
            let hits = shown(rows, tenant, found.matches, request, WiderHits::COUNTED).await?.0.len();
            wider.push(WiderHits { scope, hits });
            if hits > 0 || deadline.is_over() {
                break;
            }
        }
        if wider.iter().all(|wider| wider.hits == 0) && matches!(request.wanted, Asked::Words(_)) {
            gathered = gather(rows, tenant, &place, &asked, WordDemand::Any).await?;
            some_words = !gathered.matches.is_empty();
        }
    }
    let (hits, more) = shown(rows, tenant, gathered.matches, request, request.limit).await?;
    let stopped = gathered.stopped || deadline.is_over();
    Ok(Some(FoundHits { hits, more, extent, wider, some_words, stopped, place: here.named.clone() }))
}

async fn extent<R: Rows>(rows: &mut R, tenant: &Tenant, place: &Within) -> Result<Extent, StoreError> {
    match place {
        Within::Segments(segments) => Ok(Extent {
            entries: segments.iter().map(|segment| segment.below.saturating_sub(segment.from)).sum(),
            conversations: segments.len() as u64,
        }),
        Within::Many { .. } => {
            rows.extent(&wanted(tenant, place, Vec::new(), Vec::new(), WordDemand::All)).await
        }
    }
}

fn wanted(
    tenant: &Tenant,
    place: &Within,
    all: Vec<crate::search::Demanded>,
    none: Vec<crate::search::Demanded>,
    words: WordDemand,
) -> WordQuery {
    let (conversations, project, recipient) = match place {
        Within::Segments(segments) => {
            (Some(segments.iter().map(|segment| segment.conversation.to_string()).collect()), None, None)
        }
        Within::Many { project, recipient } => (None, project.clone(), recipient.clone()),
    };
    let limit = if conversations.is_some() { NEAR } else { FAR };
    WordQuery {
        tenant: tenant.clone(),
        all,
        none,
        recipient,
        conversations,
        project,
        status: None,
        words,
        limit,
    }
}

/// A search, who asks for it, and until when.
struct Search<'s> {
    here: &'s Here,
    request: &'s SearchRequest,
    deadline: &'s Deadline,
}

/// What matches in one scope, best first.
async fn gather<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    place: &Within,
    search: &Search<'_>,
    demand: WordDemand,
) -> Result<Gathered, StoreError> {
    let request = search.request;
    let mut gathered = match &request.wanted {
        Asked::Words(text) => by_words(rows, tenant, place, search, &Query::parse(text), demand).await?,
        Asked::Pattern(pattern) => by_pattern(rows, tenant, place, search, pattern).await?,
    };
    // Who looks for words in its own session misses what its view has left out, and that is the older part. Expressions are
    // tried on the newest entries first, and may stop there.
    let oldest_first = matches!((place, &request.wanted), (Within::Segments(_), Asked::Words(_)));
    gathered.matches.sort_by(|a, b| {
        let at = |one: &Match| (one.entry.created_at(), one.position);
        let by_time = if oldest_first { at(a).cmp(&at(b)) } else { at(b).cmp(&at(a)) };
        b.score.total_cmp(&a.score).then(by_time).then_with(|| a.conversation.cmp(&b.conversation))
    });
    Ok(gathered)
}

async fn by_words<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    place: &Within,
    search: &Search<'_>,
    query: &Query,
    demand: WordDemand,
) -> Result<Gathered, StoreError> {
    let Search { here, request, deadline } = search;
    let mut gathered = Gathered { matches: Vec::new(), stopped: false };
    if query.is_empty() {
        return Ok(gathered);
    }
    let (all, none) = query.demands();
    let wanted = wanted(tenant, place, all, none, demand);
    let candidates = rows.find(&wanted).await?;
    gathered.stopped = candidates.len() >= wanted.limit;
    let mut evidence = Vec::new();
    for candidate in candidates {
        if deadline.is_over() {
            gathered.stopped = true;
            break;
        }
        if let Within::Segments(segments) = place
            && !segments.iter().any(|one| {
                one.conversation == candidate.conversation
                    && (one.from..one.below).contains(&candidate.position)
            })
        {
            continue;
        }
        let found = match read::at(rows, tenant, &candidate.conversation, candidate.position).await {
            // Damage elsewhere must not hide what is whole.
            Err(error) if error.kind() == ErrorKind::Damaged => None,
            other => other?,
        };
        let Some((_, slot)) = found.filter(|(_, slot)| passes(slot, request)) else { continue };
        let Some(text) = read::searchable(&slot).map(|text| here.text(text)) else { continue };
        let role = role_of(&slot);
        let Some(found) = MatchEvidence::of(query, &words(&text), role, demand) else { continue };
        evidence.push(found);
        let (conversation, position) = (candidate.conversation, candidate.position);
        gathered.matches.push(Match { score: 0.0, conversation, position, entry: slot, text });
    }
    for (found, score) in gathered.matches.iter_mut().zip(ranking::scores(&evidence, demand)) {
        found.score = score;
    }
    Ok(gathered)
}

/// Entries are looked through newest first, until enough match or the bound of one search is reached.
async fn by_pattern<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    place: &Within,
    search: &Search<'_>,
    pattern: &TextPattern,
) -> Result<Gathered, StoreError> {
    let Search { here, request, deadline } = search;
    let segments = match place {
        Within::Segments(segments) => segments.clone(),
        Within::Many { project, recipient } => {
            latest(rows, tenant, project.as_deref(), recipient.as_deref()).await?
        }
    };
    let mut gathered = Gathered { matches: Vec::new(), stopped: false };
    let (mut left, enough) = (BYTES, 4 * request.limit.max(WiderHits::COUNTED));
    for segment in segments {
        let mut below = segment.below;
        while below > segment.from {
            if left == 0 || deadline.is_over() {
                gathered.stopped = true;
                return Ok(gathered);
            }
            let scan = Scan::new()
                .equal("conversation_id", segment.conversation.as_str())
                .from("position", segment.from)
                .below("position", below)
                .descending(&["position"])
                .limit(PAGE);
            let page = rows.scan::<EntryRow>(scan).await?;
            let Some(last) = page.last() else { break };
            below = last.position;
            left = left.saturating_sub(page.iter().map(|row| row.body.len()).sum());
            let placed = match read::places(rows, tenant, &page).await {
                Err(error) if error.kind() == ErrorKind::Damaged => continue,
                other => other?,
            };
            for placed in placed {
                if !passes(&placed.slot, request) {
                    continue;
                }
                let Some(text) = read::searchable(&placed.slot).map(|text| here.text(text)) else { continue };
                left = left.saturating_sub(text.len());
                if pattern.find(&text).is_none() {
                    continue;
                }
                let score = pattern.count(&text, 5) as f64;
                let (conversation, position) = (segment.conversation.clone(), placed.position);
                gathered.matches.push(Match { score, conversation, position, entry: placed.slot, text });
            }
            if gathered.matches.len() >= enough {
                gathered.stopped = true;
                return Ok(gathered);
            }
        }
    }
    Ok(gathered)
}

/// What the conversations of many hold themselves, written last first.
async fn latest<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    project: Option<&str>,
    recipient: Option<&str>,
) -> Result<Vec<LineageSegment>, StoreError> {
    let mut scan = Scan::new().equal("tenant", tenant.as_str());
    if let Some(project) = project {
        scan = scan.equal("project", project);
    }
    if let Some(recipient) = recipient {
        scan = scan.equal("recipient", recipient);
    }
    let found = rows.scan::<Conversation>(scan.descending(&["updated_at", "id"]).limit(LATEST)).await?;
    let segment = |one: Conversation| LineageSegment {
        from: one.fork_position.unwrap_or(0),
        below: one.head,
        conversation: one.id,
    };
    Ok(found.into_iter().map(segment).collect())
}

/// Who said it; a summary is the system's.
fn role_of(slot: &Slot) -> Role {
    match slot {
        Slot::Message(entry) => entry.role,
        _ => Role::System,
    }
}

/// The demands on role and time.
fn passes(slot: &Slot, request: &SearchRequest) -> bool {
    let at = slot.created_at();
    request.role.is_none_or(|wanted| wanted == role_of(slot))
        && request.since.is_none_or(|since| at >= since)
        && request.before.is_none_or(|before| at < before)
}

/// The best matches as hits, without calls and results of recall itself, and whether there are more.
async fn shown<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    matches: Vec<Match>,
    request: &SearchRequest,
    limit: usize,
) -> Result<(Vec<FoundHit>, bool), StoreError> {
    let (mut hits, mut same) = (Vec::new(), HashSet::new());
    for found in matches {
        let (mut tool, mut role) = (None, Role::System);
        if let Slot::Message(entry) = &found.entry {
            role = entry.role;
            tool = tool_of(rows, tenant, &found.conversation, found.position, entry).await?;
            let recall = tool.as_deref().and_then(RecallTool::called).is_some();
            let only = entry.tool_calls().all(|call| RecallTool::called(&call.name.as_str()).is_some());
            if recall && only {
                continue;
            }
            if let Some(wanted) = &request.tool
                && tool.as_ref() != Some(wanted)
                && !entry.tool_calls().any(|call| call.name == **wanted)
            {
                continue;
            }
        } else if request.tool.is_some() {
            continue;
        }
        // The same text again, as clients repeat it in branches, is no further hit.
        if !same.insert((role, blake3::hash(found.text.as_bytes()))) {
            continue;
        }
        if hits.len() == limit {
            return Ok((hits, true));
        }
        let snippet = match &request.wanted {
            Asked::Words(text) => search::snippet(&Query::parse(text), &found.text, CONTEXT),
            Asked::Pattern(pattern) => marked(pattern, &found.text),
        };
        let tail = Tail::of(found.conversation.as_str())
            .ok_or_else(|| StoreError::damaged("the id of a conversation cannot be read"))?;
        let handle = Handle::at(tail, found.position);
        hits.push(FoundHit { handle, role, at: found.entry.created_at(), tool, snippet });
    }
    Ok((hits, false))
}

/// The text around the first match of a pattern, with the match marked.
fn marked(pattern: &TextPattern, text: &str) -> String {
    let Some((start, end)) = pattern.find(text) else { return String::new() };
    let before = text.get(..start).unwrap_or_default();
    let from = before.char_indices().rev().nth(79).map_or(0, |(at, _)| at);
    let matched: String = text.get(start..end).unwrap_or_default().chars().take(120).collect();
    let after: String = text.get(end..).unwrap_or_default().chars().take(80).collect();
    format!("{}{}«{matched}»{after}", if from > 0 { "…" } else { "" }, before.get(from..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_of_expressions_are_shown_in_their_surroundings() {
        let pattern = TextPattern::parse("/v[0-9]+/").ok();
        let shown = pattern.map(|pattern| marked(&pattern, &format!("{} v42 after", "x".repeat(200))));
        assert_eq!(shown.as_deref().map(|shown| shown.ends_with("«v42» after")), Some(true));
    }
}
