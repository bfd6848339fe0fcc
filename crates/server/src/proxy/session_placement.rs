//! The place of a request in a session that its client names, and what kind of conversation it begins there.
//!
//! | kind | known by |
//! |---|---|
//! | sub-agent | a header that names it, or a first message that a pending call of an agent tool has as its argument |
//! | branch | a beginning in common with a conversation of the session, a history without one, or a summary in its place |
//! | side | no tools, or a first message beside the main conversation; it becomes more when it goes on |
//! | main | the first of the others |
//!
//! Where a client says itself what kind of call it makes, that goes before what the request looks like.

use scrollback_core::identity::{Alignment, align, begins_after_compaction, first_request, title_of};
use scrollback_core::json::{self, JsonKind, Raw};
use scrollback_core::{Role, Slot, ToolCall};
use scrollback_store::{
    Conversation, ConversationId, ConversationKind, ForkChild, MatchScope, NewConversation, Session,
    SessionId,
};

use super::client_request::{ClientRequest, ToolsOffered};
use super::identity::{BY_AGENT, Beginning, Carries, ClientName, Placement, Seeking, has_reply, lists};
use super::session::{SessionClaim, StatedKind};
use crate::problem::HttpProblem;

/// Most conversations of a session that are looked through for the line of the person, written last first.
const RECENT: usize = 64;
/// Most of them that are searched for the call that started a sub-agent: lines of the person, and as many sub-agents.
const PARENTS: usize = 8;
/// Most pending calls that are looked at in each.
const PENDING: usize = 32;
/// Shortest reply, in bytes, that is looked for in a summary. A shorter one may be there by chance.
const SHORTEST_SUMMARY: usize = 40;

impl Seeking<'_> {
    /// The place of a request in the session it names.
    pub(super) async fn in_session(&self, claim: &SessionClaim) -> Result<Placement, HttpProblem> {
        let Some(session) = self.session(claim).await? else {
            let session = self.new_session(claim);
            let mut beginning = self.beginning(&session, claim, first_kind(self.asked, claim), None);
            beginning.session = Some(session);
            let prefix = lists(self.asked).last().copied();
            return Ok(Placement { prefix, ..self.new_place(beginning) });
        };
        if self.carries == Carries::News {
            if let Some(newest) = self.written_last(&session, claim).await? {
                return self.at_end(newest).await;
            }
            let kind = first_kind(self.asked, claim);
            return Ok(self.new_place(self.beginning(&session, claim, kind, None)));
        }
        let wanted = lists(self.asked);
        let last = wanted.last().copied();
        let scope = MatchScope::session(&session.id, claim.agent.as_deref());
        if let Some(found) = self.app.store.find_prefix(self.tenant, &scope, wanted).await? {
            let place = self.follow(found.conversation.clone(), last).await?;
            if self.is_beside(&found.conversation, claim) {
                let (after, alignment) = (place.alignment.after, place.alignment.clone());
                self.give_back(place);
                return self.beside(&found.conversation, after, alignment).await;
            }
            if continues(&found.conversation, self.asked, claim, &place.alignment) {
                let promoted = promoted(&found.conversation, &session, self.asked, claim);
                return Ok(place.promoted(promoted));
            }
            self.give_back(place);
        }
        let place = match &claim.agent {
            Some(agent) => self.start_agent(&session, claim, agent).await?,
            None => self.start_unnamed(&session, claim).await?,
        };
        Ok(Placement { prefix: last, ..place })
    }

    /// The session that a client names. A sub-agent may name the one that started it instead.
    async fn session(&self, claim: &SessionClaim) -> Result<Option<Session>, HttpProblem> {
        let (store, caller) = (&self.app.store, &self.origin.caller);
        let named = store.session(self.tenant, caller, claim.client.as_str(), &claim.id).await?;
        if named.is_some() || claim.agent.is_none() {
            return Ok(named);
        }
        let Some(parent) = self.of_agent(claim, &claim.id).await? else { return Ok(None) };
        Ok(store.named_session(self.tenant, &parent.session).await?)
    }

    fn new_session(&self, claim: &SessionClaim) -> Session {
        Session {
            id: SessionId::new(self.app.now()),
            tenant: self.tenant.clone(),
            caller: self.origin.caller.clone(),
            client: claim.client.as_str().into(),
            client_id: claim.id.clone(),
            main: None,
            title: None,
            created_at: self.app.now(),
        }
    }

    /// A new conversation of a session.
    fn beginning(
        &self,
        session: &Session,
        claim: &SessionClaim,
        kind: ConversationKind,
        parent: Option<ConversationId>,
    ) -> Beginning {
        let conversation = NewConversation {
            parent,
            session: Some(session.id.clone()),
            kind,
            scope: Some(MatchScope::session(&session.id, claim.agent.as_deref())),
            ..self.new_conversation()
        };
        let agent = claim.agent.iter().map(|agent| self.agent_name(claim, agent));
        Beginning { conversation, names: agent.collect(), session: None }
    }

    /// The name by which the conversation of a sub-agent is found again. Two callers never share one.
    fn agent_name(&self, claim: &SessionClaim, agent: &str) -> ClientName {
        let id = format!("{}/{}/{agent}", self.origin.caller, claim.client.as_str());
        ClientName { source: BY_AGENT, id }
    }

    /// The first conversation of a sub-agent.
    async fn of_agent(&self, claim: &SessionClaim, agent: &str) -> Result<Option<Conversation>, HttpProblem> {
        self.by_name(&self.agent_name(claim, agent)).await
    }

    /// The conversation that a client means which sends only what is new.
    async fn written_last(
        &self,
        session: &Session,
        claim: &SessionClaim,
    ) -> Result<Option<Conversation>, HttpProblem> {
        if let Some(agent) = &claim.agent {
            let own = self.of_agent(claim, agent).await?;
            return Ok(own.filter(|own| own.session == session.id));
        }
        let recent = self.app.store.session_conversations(self.tenant, &session.id, RECENT).await?;
        let root = match &session.main {
            Some(main) => Some(self.app.store.conversation(self.tenant, main).await?),
            None => recent.into_iter().find(|one| one.kind != ConversationKind::SubAgent),
        };
        match root {
            Some(root) => self.newest_fork(root).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where a sub-agent begins, or begins again.
    async fn start_agent(
        &self,
        session: &Session,
        claim: &SessionClaim,
        agent: &str,
    ) -> Result<Placement, HttpProblem> {
        if let Some(own) = self.of_agent(claim, agent).await?.filter(|own| own.session == session.id) {
            return self.fork(&own, 0, Alignment::default(), None).await;
        }
        let named = match &claim.parent {
            Some(parent) => self.of_agent(claim, parent).await?.filter(|one| one.session == session.id),
            None => None,
        };
        let parent = match (named, &session.main) {
            (Some(parent), _) => Some(parent),
            (None, Some(main)) => Some(self.app.store.conversation(self.tenant, main).await?),
            (None, None) => None,
        };
        if let Some(parent) = &parent
            && let Some(place) = self.with_history_of(parent, session, claim).await?
        {
            return Ok(place);
        }
        let parent = parent.map(|parent| parent.id);
        Ok(self.new_place(self.beginning(session, claim, ConversationKind::SubAgent, parent)))
    }

    /// The place of a sub-agent that was given the history of the conversation that started it.
    async fn with_history_of(
        &self,
        parent: &Conversation,
        session: &Session,
        claim: &SessionClaim,
    ) -> Result<Option<Placement>, HttpProblem> {
        let Some(scope) = parent.scope.as_ref().filter(|_| has_reply(self.asked)) else { return Ok(None) };
        let found = self.app.store.find_prefix(self.tenant, scope, lists(self.asked)).await?;
        let Some(found) = found else { return Ok(None) };
        let place = self.at_end(found.conversation.clone()).await?;
        let upto = place.known.record.len() as u64;
        let alignment = align(&place.known.record, self.asked.said(), upto);
        self.give_back(place);
        let covered = self.asked.said().get(..alignment.covered).unwrap_or_default();
        if !covered.iter().any(|entry| entry.role == Role::Assistant) {
            return Ok(None);
        }
        let child = ForkChild {
            kind: ConversationKind::SubAgent,
            scope: Some(MatchScope::session(&session.id, claim.agent.as_deref())),
            title: title_of(self.asked.said().get(alignment.covered..).unwrap_or_default()),
        };
        self.fork(&found.conversation, alignment.after, alignment, Some(child)).await.map(Some)
    }

    /// Where a list begins that no conversation of the session has, and that no sub-agent is named for.
    async fn start_unnamed(&self, session: &Session, claim: &SessionClaim) -> Result<Placement, HttpProblem> {
        let begin = |kind, parent| self.new_place(self.beginning(session, claim, kind, parent));
        let recent = self.app.store.session_conversations(self.tenant, &session.id, RECENT).await?;
        // What a sub-agent says is no line of the person's.
        let scope = MatchScope::session(&session.id, None);
        let (mut lines, others): (Vec<Conversation>, Vec<Conversation>) =
            recent.into_iter().partition(|one| {
                matches!(one.kind, ConversationKind::Main | ConversationKind::Branch)
                    && one.scope.as_ref() == Some(&scope)
            });
        if let Some(main) = session.main.as_ref().filter(|_| lines.is_empty()) {
            let main = self.app.store.conversation(self.tenant, main).await?;
            lines.push(self.newest_fork(main).await?);
        }
        let may_be_agent = matches!(claim.stated, None | Some(StatedKind::SubAgent));
        if may_be_agent && let Some(parent) = self.spawner(&lines, &others).await? {
            return Ok(begin(ConversationKind::SubAgent, Some(parent)));
        }
        let (Some(main), Some(line)) = (&session.main, lines.first()) else {
            return Ok(begin(first_kind(self.asked, claim), None));
        };
        let rewritten = match claim.stated {
            Some(StatedKind::Main) => true,
            Some(StatedKind::SubAgent) => {
                return Ok(begin(ConversationKind::SubAgent, Some(line.id.clone())));
            }
            Some(StatedKind::Side) => false,
            None => {
                let offers_tools = self.asked.tools_offered == ToolsOffered::Some;
                has_reply(self.asked) && offers_tools || self.is_compacted(line).await?
            }
        };
        if rewritten {
            return self.fork(line, 0, Alignment::default(), None).await;
        }
        Ok(begin(ConversationKind::Side, Some(main.clone())))
    }

    /// Whether a client says that it asks something beside a conversation whose history it sends.
    fn is_beside(&self, found: &Conversation, claim: &SessionClaim) -> bool {
        claim.stated == Some(StatedKind::Side)
            && found.kind != ConversationKind::Side
            && has_reply(self.asked)
    }

    /// A side call with the history of a conversation, which goes on without it.
    async fn beside(
        &self,
        found: &Conversation,
        after: u64,
        alignment: Alignment,
    ) -> Result<Placement, HttpProblem> {
        let title = title_of(self.asked.said().get(alignment.covered..).unwrap_or_default());
        let child = ForkChild { kind: ConversationKind::Side, scope: found.scope.clone(), title };
        self.fork(found, after, alignment, Some(child)).await
    }

    /// The conversation that waits for the answer of an agent tool with just this first message. Lines of the person are
    /// asked first, however many sub-agents wrote after them.
    async fn spawner(
        &self,
        lines: &[Conversation],
        others: &[Conversation],
    ) -> Result<Option<ConversationId>, HttpProblem> {
        let Some(request) = first_request(self.asked.said()).filter(|_| !has_reply(self.asked)) else {
            return Ok(None);
        };
        let agents = others.iter().filter(|one| one.kind == ConversationKind::SubAgent);
        for one in lines.iter().take(PARENTS).chain(agents.take(PARENTS)) {
            let pending = self.app.store.pending_calls(self.tenant, &one.id).await?;
            let mut positions: Vec<u64> = pending.iter().rev().map(|call| call.position).collect();
            positions.dedup();
            for position in positions.into_iter().take(PENDING) {
                let made = self.app.store.entries(self.tenant, &one.id, position, position + 1).await?;
                let spawns = made.iter().any(|placed| match &placed.slot {
                    Slot::Message(entry) => entry.tool_calls().any(|call| starts_agent(call, &request)),
                    _ => false,
                });
                if spawns {
                    return Ok(Some(one.id.clone()));
                }
            }
        }
        Ok(None)
    }

    /// Whether a list begins with a summary in place of what a conversation says: with words that clients use for it, or
    /// with the last reply of the conversation in its first message.
    async fn is_compacted(&self, line: &Conversation) -> Result<bool, HttpProblem> {
        if begins_after_compaction(self.asked.said()) {
            return Ok(true);
        }
        let Some(request) = first_request(self.asked.said()) else { return Ok(false) };
        let from = line.head.saturating_sub(4);
        let last = self.app.store.entries(self.tenant, &line.id, from, line.head).await?;
        let reply = last.iter().rev().find_map(|placed| match &placed.slot {
            Slot::Message(entry) if entry.role == Role::Assistant => entry.content(),
            _ => None,
        });
        Ok(reply.is_some_and(|text| {
            let text = text.trim();
            text.len() >= SHORTEST_SUMMARY && request.contains(text)
        }))
    }
}

/// What the first conversation of a session is. A call without tools that carries no history may be a side call: it is the
/// main conversation once it goes on.
fn first_kind(asked: &ClientRequest, claim: &SessionClaim) -> ConversationKind {
    match claim.stated {
        _ if claim.agent.is_some() => ConversationKind::SubAgent,
        Some(StatedKind::Main) => ConversationKind::Main,
        Some(StatedKind::SubAgent) => ConversationKind::SubAgent,
        None if asked.tools_offered == ToolsOffered::Some || has_reply(asked) => ConversationKind::Main,
        Some(StatedKind::Side) | None => ConversationKind::Side,
    }
}

/// Whether a list that has a beginning in common with a conversation goes on with it, or only begins with the same words:
/// a client asks for a title with the words of the person, and the main call begins with them too.
fn continues(
    found: &Conversation,
    asked: &ClientRequest,
    claim: &SessionClaim,
    alignment: &Alignment,
) -> bool {
    let offers_tools = match claim.stated {
        Some(StatedKind::Main) => true,
        Some(StatedKind::Side) => false,
        Some(StatedKind::SubAgent) | None => asked.tools_offered == ToolsOffered::Some,
    };
    match found.kind {
        _ if has_reply(asked) => true,
        ConversationKind::Side => !offers_tools && !alignment.branches,
        ConversationKind::Main => offers_tools,
        ConversationKind::SubAgent | ConversationKind::Branch => true,
    }
}

/// What a side call becomes that goes on: the main conversation where there is none, and with tools a line of its own.
fn promoted(
    found: &Conversation,
    session: &Session,
    asked: &ClientRequest,
    claim: &SessionClaim,
) -> Option<ConversationKind> {
    let stays = claim.stated == Some(StatedKind::Side);
    if found.kind != ConversationKind::Side || !has_reply(asked) || stays {
        return None;
    }
    match (&session.main, asked.tools_offered) {
        (None, _) => Some(ConversationKind::Main),
        (Some(_), ToolsOffered::Some) => Some(ConversationKind::Branch),
        (Some(_), ToolsOffered::None) => None,
    }
}

/// Whether a call starts an agent with this first message: clients call such tools `Agent`, `Task`, `spawn_agent` and the like.
fn starts_agent(call: &ToolCall, request: &str) -> bool {
    let name = call.name.as_str().to_lowercase();
    if !["agent", "task", "delegate"].iter().any(|word| name.contains(word)) {
        return false;
    }
    let arguments = call.arguments.as_str();
    let Ok(arguments) = json::check(&arguments) else { return false };
    arguments.kind() == JsonKind::Object
        && arguments.members().any(|(_, value)| {
            Raw::string(value).is_some_and(|text| !text.trim().is_empty() && text.trim() == request)
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::Entry;

    #[test]
    fn an_agent_tool_starts_an_agent_with_its_argument() {
        let call = |name: &str, arguments: &str| {
            let entry = Entry::calling(None, &[("c", name, arguments)]);
            entry.tool_calls().any(|call| starts_agent(call, "Look around"))
        };
        assert!(call("Agent", r#"{"description":"x","prompt":"Look around"}"#));
        assert!(call("spawn_agent", r#"{"message":" Look around\n"}"#));
        assert!(!call("Bash", r#"{"command":"Look around"}"#));
        assert!(!call("Task", r#"{"prompt":"Look elsewhere"}"#));
        assert!(!call("Task", "not json"));
    }
}
