//! The rows that only the engine knows, and what a database must be able to do with rows.

use std::future::Future;

use scrollback_core::recall::Tail;
use scrollback_core::recall::found::Extent;
use scrollback_core::{Link, Role, Time};

use crate::conversation::{Conversation, Status};
use crate::error::StoreError;
use crate::id::{ConversationId, Recipient, Tenant};
use crate::search::{SearchCandidate, WordQuery};
use crate::session::{ConversationKind, MatchScope, Session, SessionId};
use crate::table::{Cells, ColumnValue, Scan, Table};

/// What a database does inside one transaction.
///
/// The futures of the embedded stores are ready at once; only PostgreSQL really waits. So the engine is written once, as
/// async functions over this trait.
pub(crate) trait Rows: Send {
    /// The row with that key.
    fn get<T: Table>(
        &mut self,
        key: Vec<ColumnValue>,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send;

    /// Writes a row, in place of one with the same key.
    fn put<T: Table + Sync>(&mut self, row: &T) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes what differs between a row that is there and what it shall be. Neither the key nor anything a database keeps
    /// in another way may differ.
    fn change<T: Table + Sync>(
        &mut self,
        before: &T,
        after: &T,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many rows of a table are not what was written, by their digests.
    fn changed<T: Table>(&mut self) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Adds rows whose keys are new.
    fn add<T: Table + Sync>(&mut self, rows: &[T]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes the row with that key.
    fn remove<T: Table>(
        &mut self,
        key: Vec<ColumnValue>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The rows that meet the demands.
    fn scan<T: Table>(&mut self, scan: Scan) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// How many rows meet the demands.
    fn count<T: Table>(&mut self, scan: Scan) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The conversation, with the right to write to it until the transaction ends.
    fn lock(
        &mut self,
        conversation: &ConversationId,
    ) -> impl Future<Output = Result<Option<Conversation>, StoreError>> + Send;

    /// Keeps others who want the same name waiting until the transaction ends.
    fn lock_name(&mut self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Counts one more reference to a blob, which is kept if it is new.
    fn refer(&mut self, blob: &Blob) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Counts one reference less; a blob that nothing refers to goes. How many bytes went with it, if it did.
    fn release(
        &mut self,
        tenant: &Tenant,
        hash: &Link,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// Makes an entry findable by its words.
    fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Undoes that.
    fn unindex(
        &mut self,
        conversation: &ConversationId,
        position: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many entries and conversations there are where something is wanted.
    fn extent(&mut self, wanted: &WordQuery) -> impl Future<Output = Result<Extent, StoreError>> + Send;

    /// Entries that have all the words wanted, at most so many.
    fn find(
        &mut self,
        wanted: &WordQuery,
    ) -> impl Future<Output = Result<Vec<SearchCandidate>, StoreError>> + Send;
}

/// The word for a message, a decision or what is left of one.
pub(crate) const MESSAGE: &str = "message";
pub(crate) const DECISION: &str = "decision";
pub(crate) const TOMBSTONE: &str = "tombstone";

/// A row of `entries`, believed as far as it goes: whether it says what was written is for its hashes to tell.
#[derive(Clone, Debug)]
pub(crate) struct EntryRow {
    pub(crate) conversation: ConversationId,
    pub(crate) position: u64,
    pub(crate) kind: String,
    pub(crate) role: Option<String>,
    pub(crate) evaluation: Option<Vec<u8>>,
    pub(crate) sequence: Option<u64>,
    pub(crate) created_at: String,
    pub(crate) body: String,
    pub(crate) body_hash: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) prefix: Option<Vec<u8>>,
}

impl Table for EntryRow {
    const NAME: &'static str = "entries";
    const COLUMNS: &'static [&'static str] = &[
        "conversation_id",
        "position",
        "kind",
        "role",
        "evaluation_id",
        "sequence",
        "created_at",
        "body",
        "body_hash",
        "link",
        "prefix_hash",
    ];
    const KEY: usize = 2;
    const HASHED: bool = false;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.conversation.as_str().into(),
            self.position.into(),
            self.kind.as_str().into(),
            self.role.clone().into(),
            self.evaluation.as_deref().into(),
            self.sequence.into(),
            self.created_at.as_str().into(),
            self.body.as_str().into(),
            self.body_hash.as_slice().into(),
            self.link.as_slice().into(),
            self.prefix.as_deref().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(EntryRow {
            conversation: ConversationId::stored(cells.text()),
            position: cells.number()?,
            kind: cells.text(),
            role: cells.maybe_text(),
            evaluation: cells.maybe_bytes(),
            sequence: cells.maybe_number(),
            created_at: cells.text(),
            body: cells.text(),
            body_hash: cells.bytes(),
            link: cells.bytes(),
            prefix: cells.maybe_bytes(),
        })
    }
}

/// The word for a role, read back.
pub(crate) fn role_named(word: &str) -> Option<Role> {
    [Role::System, Role::User, Role::Assistant, Role::Tool].into_iter().find(|role| role.as_str() == word)
}

impl Table for Conversation {
    const NAME: &'static str = "conversations";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "tenant",
        "key",
        "recipient",
        "parent_id",
        "fork_position",
        "title",
        "status",
        "status_at",
        "created_at",
        "updated_at",
        "head",
        "head_link",
        "head_prefix",
        "last_role",
        "last_said_at",
        "turns",
        "uncovered_turns",
        "settings",
        "session_id",
        "kind",
        "scope",
        "tail",
        "project",
    ];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<ColumnValue> {
        let settings = self.settings.as_ref().and_then(|settings| serde_json::to_string(settings).ok());
        vec![
            self.id.as_str().into(),
            self.tenant.as_str().into(),
            self.key.clone().into(),
            self.recipient.as_ref().map(Recipient::as_str).into(),
            self.parent.as_ref().map(ConversationId::as_str).into(),
            self.fork_position.into(),
            self.title.clone().into(),
            self.status.map(Status::name).into(),
            self.status_at.into(),
            self.created_at.into(),
            self.updated_at.into(),
            self.head.into(),
            (&self.head_link).into(),
            (&self.head_prefix).into(),
            self.last_role.map(Role::as_str).into(),
            self.last_said_at.into(),
            self.turns.into(),
            self.uncovered_turns.into(),
            settings.into(),
            self.session.as_str().into(),
            self.kind.as_str().into(),
            self.scope.as_ref().map(MatchScope::as_str).into(),
            Tail::of(self.id.as_str()).map_or_else(String::new, |tail| tail.to_string()).into(),
            self.project.clone().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Conversation {
            id: ConversationId::stored(cells.text()),
            tenant: Tenant::stored(cells.text()),
            key: cells.maybe_text(),
            recipient: cells.maybe_text().map(Recipient::stored),
            parent: cells.maybe_text().map(ConversationId::stored),
            fork_position: cells.maybe_number(),
            title: cells.maybe_text(),
            status: cells.word(Status::named)?,
            status_at: cells.maybe_time()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            head: cells.number()?,
            head_link: cells.link()?,
            head_prefix: cells.link()?,
            last_role: cells.word(role_named)?,
            last_said_at: cells.maybe_time()?,
            turns: cells.number()?,
            uncovered_turns: cells.number()?,
            settings: cells.json()?,
            session: SessionId::stored(cells.text()),
            kind: cells.word(kind_named)?.unwrap_or_default(),
            scope: cells.maybe_text().map(MatchScope::stored),
            project: {
                // The tail follows from the id.
                cells.maybe_text();
                cells.maybe_text()
            },
        })
    }
}

fn kind_named(word: &str) -> Option<ConversationKind> {
    word.parse().ok()
}

impl Table for Session {
    const NAME: &'static str = "sessions";
    const COLUMNS: &'static [&'static str] =
        &["id", "tenant", "caller", "client", "client_id", "main_id", "title", "created_at"];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.id.as_str().into(),
            self.tenant.as_str().into(),
            self.caller.as_str().into(),
            self.client.as_str().into(),
            self.client_id.as_str().into(),
            self.main.as_ref().map(ConversationId::as_str).into(),
            self.title.clone().into(),
            self.created_at.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Session {
            id: SessionId::stored(cells.text()),
            tenant: Tenant::stored(cells.text()),
            caller: cells.text(),
            client: cells.text(),
            client_id: cells.text(),
            main: cells.maybe_text().map(ConversationId::stored),
            title: cells.maybe_text(),
            created_at: cells.time()?,
        })
    }
}

/// A call of a tool and the entry that answered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallRow {
    pub(crate) conversation: ConversationId,
    pub(crate) call_id: String,
    pub(crate) position: u64,
    pub(crate) result_position: Option<u64>,
}

impl Table for CallRow {
    const NAME: &'static str = "calls";
    const COLUMNS: &'static [&'static str] = &["conversation_id", "call_id", "position", "result_position"];
    const KEY: usize = 3;
    const HASHED: bool = false;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.conversation.as_str().into(),
            self.call_id.as_str().into(),
            self.position.into(),
            self.result_position.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(CallRow {
            conversation: ConversationId::stored(cells.text()),
            call_id: cells.text(),
            position: cells.number()?,
            result_position: cells.maybe_number(),
        })
    }
}

/// A copy of a summary decision, for quick reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryRow {
    pub(crate) conversation: ConversationId,
    pub(crate) position: u64,
    pub(crate) covers_from: u64,
    pub(crate) covers_to: u64,
    pub(crate) text: String,
    pub(crate) by: String,
    pub(crate) created_at: Time,
}

impl Table for SummaryRow {
    const NAME: &'static str = "summaries";
    const COLUMNS: &'static [&'static str] =
        &["conversation_id", "position", "covers_from", "covers_to", "text", "by", "created_at"];
    const KEY: usize = 2;
    const HASHED: bool = false;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.conversation.as_str().into(),
            self.position.into(),
            self.covers_from.into(),
            self.covers_to.into(),
            self.text.as_str().into(),
            self.by.as_str().into(),
            self.created_at.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(SummaryRow {
            conversation: ConversationId::stored(cells.text()),
            position: cells.number()?,
            covers_from: cells.number()?,
            covers_to: cells.number()?,
            text: cells.text(),
            by: cells.text(),
            created_at: cells.time()?,
        })
    }
}

/// A large text or file, kept once in each tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) tenant: Tenant,
    pub(crate) hash: Link,
    /// Bytes before they were compressed.
    pub(crate) size: u64,
    /// Compressed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) refs: u64,
}

impl Table for Blob {
    const NAME: &'static str = "blobs";
    const COLUMNS: &'static [&'static str] = &["tenant", "hash", "size", "bytes", "refs"];
    const KEY: usize = 2;
    const HASHED: bool = false;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.tenant.as_str().into(),
            (&self.hash).into(),
            self.size.into(),
            self.bytes.as_slice().into(),
            self.refs.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Blob {
            tenant: Tenant::stored(cells.text()),
            hash: cells.link()?,
            size: cells.number()?,
            bytes: cells.bytes(),
            refs: cells.number()?,
        })
    }
}

/// A stretch of what requests of one conversation are made of, kept once: see `request.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartRow {
    pub(crate) conversation: ConversationId,
    pub(crate) hash: Link,
    pub(crate) items: String,
    /// How many calls and other parts name it.
    pub(crate) refs: u64,
}

impl Table for PartRow {
    const NAME: &'static str = "sent_parts";
    const COLUMNS: &'static [&'static str] = &["conversation_id", "hash", "items", "refs"];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.conversation.as_str().into(),
            (&self.hash).into(),
            self.items.as_str().into(),
            self.refs.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(PartRow {
            conversation: ConversationId::stored(cells.text()),
            hash: cells.link()?,
            items: cells.text(),
            refs: cells.number()?,
        })
    }
}

/// A row of `sent`. A response is a blob, named by its hash. A request is a list of what it is made of, or a blob where an
/// older version wrote it or the caller gave nothing but bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SentRow {
    pub(crate) tenant: Tenant,
    pub(crate) sent: crate::run::Sent,
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) response: Option<Vec<u8>>,
    pub(crate) template: Option<String>,
    /// Hash of the whole request, where there is a template.
    pub(crate) request_hash: Option<Vec<u8>>,
}

impl Table for SentRow {
    const NAME: &'static str = "sent";
    const COLUMNS: &'static [&'static str] = &[
        "conversation_id",
        "id",
        "run_id",
        "step",
        "evaluation_id",
        "upto",
        "managers",
        "wire",
        "model",
        "epoch",
        "prefix_hash",
        "request",
        "response",
        "status",
        "attempt",
        "usage",
        "started_at",
        "ended_at",
        "tenant",
        "template",
        "request_hash",
        "tokens",
        "factor",
        "holder",
    ];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<ColumnValue> {
        let sent = &self.sent;
        vec![
            sent.conversation.as_str().into(),
            sent.id.as_str().into(),
            sent.run.clone().into(),
            sent.step.clone().into(),
            sent.evaluation.map_or(ColumnValue::Null, |id| ColumnValue::Bytes(id.as_bytes().to_vec())),
            sent.upto.into(),
            sent.managers.as_str().into(),
            sent.wire.as_str().into(),
            sent.model.as_str().into(),
            sent.epoch.into(),
            sent.prefix_hash.as_deref().into(),
            self.request.as_deref().into(),
            self.response.as_deref().into(),
            sent.status.as_str().into(),
            sent.attempt.into(),
            sent.usage.clone().into(),
            sent.started_at.into(),
            sent.ended_at.into(),
            self.tenant.as_str().into(),
            self.template.clone().into(),
            self.request_hash.as_deref().into(),
            sent.tokens.clone().into(),
            // As text: the shortest that reads back as the same number.
            sent.factor.map(|factor| factor.to_string()).into(),
            sent.holder.clone().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        let (conversation, id) = (ConversationId::stored(cells.text()), cells.text());
        let (run, step) = (cells.maybe_text(), cells.maybe_text());
        let evaluation = cells.maybe_bytes().and_then(|bytes| uuid::Uuid::from_slice(&bytes).ok());
        let upto = cells.number()?;
        let (managers, wire, model) = (cells.text(), cells.text(), cells.text());
        let (epoch, prefix_hash) = (cells.maybe_number(), cells.maybe_bytes());
        let (request, response) = (cells.maybe_bytes(), cells.maybe_bytes());
        let mut sent = crate::run::Sent {
            id,
            conversation,
            run,
            step,
            evaluation,
            upto,
            managers,
            wire,
            model,
            epoch,
            prefix_hash,
            request: None,
            response: None,
            status: cells.text().into(),
            attempt: cells.number()?,
            usage: cells.maybe_text(),
            started_at: cells.time()?,
            ended_at: cells.maybe_time()?,
            tokens: None,
            factor: None,
            holder: None,
        };
        let tenant = Tenant::stored(cells.text());
        let (template, request_hash) = (cells.maybe_text(), cells.maybe_bytes());
        sent.tokens = cells.maybe_text();
        sent.factor = cells.maybe_text().and_then(|text| text.parse().ok());
        sent.holder = cells.maybe_text();
        Ok(SentRow { tenant, sent, request, response, template, request_hash })
    }
}
