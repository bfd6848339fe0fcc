//! Looking up what was said as models do: searches with every option of the recall tools, and the tools themselves for programs
//! that offer them to their model.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use scrollback_core::recall::{RecallRequest, RecallScope, RecallTool, Tail};
use scrollback_core::{Role, Time};
use scrollback_store::recall::{Deadline, Here, RecallReply, answer, resolve};
use scrollback_store::{ConversationId, Filter, Query, Recipient};
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::error::{Error, ErrorKind, Result};
use crate::open::Store;

/// How long one answer may take; searches end there with what they found.
const LIMIT: Duration = Duration::from_secs(5);

/// What to look for, and where. What is left out does not matter.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Words that all must be there, `"phrases"`, `prefix*`, `-without`; or a regular expression: `/error [0-9]+/`.
    pub words: String,
    /// Only what was said with this recipient.
    pub recipient: Option<String>,
    /// Only what this role said: `system`, `user`, `assistant` or `tool`.
    pub role: Option<String>,
    /// Only calls and results of this tool.
    pub tool: Option<String>,
    /// Only from this time on (RFC 3339).
    pub since: Option<String>,
    /// Only before this time (RFC 3339).
    pub before: Option<String>,
    /// From a conversation: `conversation` if not said, its `session`, its `project`, or `all`.
    pub scope: Option<String>,
    /// How many at most; none if 0.
    pub limit: usize,
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// Whom the conversation is with.
    pub recipient: Option<String>,
    /// The conversation.
    pub conversation: ConversationId,
    /// The entry.
    pub position: u64,
    /// Who said it.
    pub role: Role,
    /// When.
    pub created_at: Time,
    /// The words around the match.
    pub snippet: String,
}

impl SearchOptions {
    /// Whether it is for the store's index alone: words, in one conversation or in all of them.
    fn is_plain(&self) -> bool {
        let words = self.words.trim();
        let expression = words.len() > 2 && words.starts_with('/') && words.ends_with('/');
        !expression && self.scope.as_deref().is_none_or(|scope| scope == RecallScope::Conversation.as_str())
    }

    fn filter(&self, conversation: Option<ConversationId>) -> Result<Filter> {
        let time = |name: &str, text: &Option<String>| {
            let read = |text: &String| {
                Time::parse(text).ok_or_else(|| {
                    bad("bad_time", format!("{name} is not a time: {text:?}; write 2026-01-31T12:00:00Z"))
                })
            };
            text.as_ref().map(read).transpose()
        };
        let role = |name: &String| {
            let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
            roles.into_iter().find(|role| role.as_str() == name).ok_or_else(|| {
                bad("unknown_role", format!("unknown role {name:?}; known: system, user, assistant, tool"))
            })
        };
        Ok(Filter {
            recipient: self.recipient.as_deref().map(Recipient::parse).transpose()?,
            role: self.role.as_ref().map(role).transpose()?,
            tool: self.tool.clone(),
            since: time("since", &self.since)?,
            until: time("before", &self.before)?,
            conversation,
            ..Filter::default()
        })
    }

    /// The same as a call of the recall tool.
    fn request(&self, usual: RecallScope) -> Result<RecallRequest> {
        let arguments = json!({
            "query": self.words,
            "scope": self.scope.as_deref().unwrap_or(usual.as_str()),
            "role": self.role,
            "tool": self.tool,
            "since": self.since,
            "before": self.before,
        });
        let mut request = RecallRequest::parse(RecallTool::Search, &arguments)
            .map_err(|refusal| bad("bad_argument", refusal.to_string()))?;
        if let RecallRequest::Search(search) = &mut request {
            search.limit = self.limit;
        }
        Ok(request)
    }
}

impl Store {
    /// Entries that fit, best first, in all conversations or in those with one recipient.
    pub async fn find(&self, wanted: &SearchOptions) -> Result<Vec<SearchHit>> {
        if wanted.is_plain() {
            return self.find_words(wanted, None).await;
        }
        if wanted.recipient.is_some() {
            let message =
                "expressions are searched for in all conversations, or in one: leave the recipient out";
            return Err(bad("bad_argument", message.into()));
        }
        let here = Here::nowhere("the whole store is searched");
        self.find_in(wanted, &here, &wanted.request(RecallScope::All)?).await
    }

    async fn find_words(
        &self,
        wanted: &SearchOptions,
        within: Option<ConversationId>,
    ) -> Result<Vec<SearchHit>> {
        let (filter, query) = (wanted.filter(within)?, Query::parse(&wanted.words));
        let found = self.inner.search(&self.tenant, query, filter, wanted.limit, None).await?;
        let hits = found.hits.into_iter().map(|hit| SearchHit {
            recipient: hit.recipient.map(|recipient| recipient.to_string()),
            conversation: hit.conversation,
            position: hit.position,
            role: hit.role,
            created_at: hit.created_at,
            snippet: hit.snippet,
        });
        Ok(hits.collect())
    }

    async fn find_in(
        &self,
        wanted: &SearchOptions,
        here: &Here,
        request: &RecallRequest,
    ) -> Result<Vec<SearchHit>> {
        let RecallRequest::Search(request) = request else { return Ok(Vec::new()) };
        let found = self.inner.find_for_recall(&self.tenant, here, request, &deadline()).await?;
        let mut rows: HashMap<Tail, (ConversationId, Option<Recipient>)> = HashMap::new();
        let mut hits = Vec::new();
        for hit in found.into_iter().flat_map(|found| found.hits).take(wanted.limit) {
            let Some((position, _)) = hit.handle.positions() else { continue };
            if !rows.contains_key(hit.handle.tail()) {
                let Ok(row) = resolve(self.inner.as_ref(), &self.tenant, &hit.handle).await else { continue };
                rows.insert(hit.handle.tail().clone(), (row.id, row.recipient));
            }
            let Some((conversation, recipient)) = rows.get(hit.handle.tail()) else { continue };
            hits.push(SearchHit {
                recipient: recipient.as_ref().map(ToString::to_string),
                conversation: conversation.clone(),
                position,
                role: hit.role,
                created_at: hit.at,
                snippet: hit.snippet,
            });
        }
        Ok(hits)
    }
}

impl Conversation {
    /// Entries that fit, best first: of this conversation, or of what its `scope` names.
    pub async fn find(&mut self, wanted: &SearchOptions) -> Result<Vec<SearchHit>> {
        self.refresh().await?;
        let Some(id) = self.id.clone() else { return Ok(Vec::new()) };
        let store = Store { inner: self.store.clone(), tenant: self.tenant.clone() };
        if wanted.is_plain() {
            return store.find_words(wanted, Some(id)).await;
        }
        let request = wanted.request(RecallScope::Conversation)?;
        store.find_in(wanted, &self.here(&id).await?, &request).await
    }

    /// What a recall tool answers a model that is in this conversation: text with handles. A mistake in the arguments is answered
    /// with a sentence, too, and `failed` says so.
    pub async fn recall(&mut self, tool: RecallTool, arguments: &Value) -> Result<RecallReply> {
        self.refresh().await?;
        let here = match self.id.clone() {
            Some(id) => self.here(&id).await?,
            None => Here::nowhere("nothing was said in this conversation yet"),
        };
        Ok(answer(self.store.as_ref(), &self.tenant, &here, tool, arguments, &deadline()).await)
    }

    async fn here(&self, id: &ConversationId) -> Result<Here> {
        Ok(Here::of(&self.store.conversation(&self.tenant, id).await?, ""))
    }
}

fn deadline() -> Deadline {
    let began = Instant::now();
    Deadline::new(move || began.elapsed() > LIMIT)
}

fn bad(code: &'static str, message: String) -> Error {
    Error::new(ErrorKind::Input, message).at(code, "")
}
