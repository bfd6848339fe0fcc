//! Runs, their steps, spans and events; evaluations; what was sent; the server's keys.
//!
//! These rows are written and read as they are: what they mean is the business of flows, agents and the server. Times are
//! the caller's, and values that are JSON are kept as the text they came as.

use scrollback_core::Time;
use uuid::Uuid;

use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::table::{Cells, Table, Value};

/// One execution of a flow or a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub tenant: Tenant,
    /// `flow` or `subagent`.
    pub kind: String,
    /// The name in the file.
    pub name: String,
    /// Hash of the file.
    pub hash: String,
    /// The whole text of the file.
    pub text: String,
    /// The settings in effect, as JSON.
    pub settings: Option<String>,
    /// `running`, `paused`, `interrupted`, `done` or `failed`.
    pub status: String,
    /// Its conversation.
    pub conversation: Option<ConversationId>,
    /// What it was given.
    pub input: Option<String>,
    /// What came of it.
    pub output: Option<String>,
    /// Why it failed, as JSON.
    pub error: Option<String>,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// Who works on it, and until when they may.
    pub lease: Option<Lease>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// The right to work on a run or an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who has it: text that tells one process from another.
    pub holder: String,
    /// When it ends unless it is renewed.
    pub until: Time,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The run.
    pub run: String,
    /// The step's key, unique in its run.
    pub key: String,
    /// What kind of step.
    pub kind: String,
    /// `running`, `paused`, `skipped`, `done` or `failed`.
    pub status: String,
    /// How often it was tried.
    pub attempt: u64,
    /// What it was given, as JSON.
    pub input: Option<String>,
    /// What came of it, as JSON.
    pub output: Option<String>,
    /// The evaluation it ran.
    pub evaluation: Option<Uuid>,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Why it failed, as JSON.
    pub error: Option<String>,
}

/// A stretch of time within a run, for traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its id, derived from run and key.
    pub id: String,
    /// The run.
    pub run: String,
    /// The span it is part of.
    pub parent: Option<String>,
    /// What it is called.
    pub name: String,
    /// The step it belongs to.
    pub key: Option<String>,
    /// How it ended.
    pub status: Option<String>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// What is known about it, as JSON.
    pub attributes: Option<String>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The run.
    pub run: String,
    /// Its number within the run.
    pub sequence: u64,
    /// When.
    pub at: Time,
    /// The step it is about.
    pub key: Option<String>,
    /// What happened.
    pub kind: String,
    /// What is known about it, as JSON.
    pub data: Option<String>,
}

/// One run of an agent on one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Its id.
    pub id: Uuid,
    /// The conversation it speaks in.
    pub conversation: ConversationId,
    /// Position of its first entry.
    pub first_position: Option<u64>,
    /// Position of its last entry.
    pub last_position: Option<u64>,
    /// How many entries it has.
    pub count: u64,
    /// `running`, `paused`, `done` or `failed`.
    pub status: String,
    /// Hash of system text and tools.
    pub prompt_identity: Option<String>,
    /// Who works on it, and until when they may.
    pub lease: Option<Lease>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// One model call: what it saw, and what came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: String,
    /// The conversation.
    pub conversation: ConversationId,
    /// The run it was made for.
    pub run: Option<String>,
    /// The step it was made for.
    pub step: Option<String>,
    /// The evaluation it was made for.
    pub evaluation: Option<Uuid>,
    /// The view is that of the record below this position.
    pub upto: u64,
    /// The managers, as canonical JSON.
    pub managers: String,
    /// The wire of the request.
    pub wire: String,
    /// The model asked.
    pub model: String,
    /// The epoch of the view.
    pub epoch: Option<u64>,
    /// Chain over the bytes of the rendered messages.
    pub prefix_hash: Option<Vec<u8>>,
    /// The request's bytes; kept as a blob.
    pub request: Option<Vec<u8>>,
    /// The response's bytes; kept as a blob.
    pub response: Option<Vec<u8>>,
    /// How it ended.
    pub status: String,
    /// Which attempt it was.
    pub attempt: u64,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// When it was sent.
    pub started_at: Time,
    /// When the answer ended.
    pub ended_at: Option<Time>,
}

/// An API key of the server. The key itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What people call it.
    pub name: String,
    /// Whose data it opens.
    pub tenant: Tenant,
    /// What it may do.
    pub scope: String,
    /// Hash of the key.
    pub hash: Vec<u8>,
    /// When it was made.
    pub created_at: Time,
    /// When it ceased to be valid.
    pub revoked_at: Option<Time>,
}

/// A foreign id of a conversation or an entry: import identity, response ids, what clients of the proxy call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Whose it is.
    pub tenant: Tenant,
    /// Who gave the id.
    pub source: String,
    /// The id.
    pub source_id: String,
    /// What it means.
    pub conversation: ConversationId,
    /// Which entry it means, if it means one.
    pub position: Option<u64>,
}

fn uuid(id: Option<Uuid>) -> Value {
    id.map_or(Value::Null, |id| Value::Bytes(id.as_bytes().to_vec()))
}

fn read_uuid(bytes: Option<Vec<u8>>) -> Option<Uuid> {
    bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok())
}

fn lease(holder: Option<String>, until: Option<Time>) -> Option<Lease> {
    Some(Lease { holder: holder?, until: until? })
}

fn holder(lease: Option<&Lease>) -> [Value; 2] {
    [lease.map(|lease| lease.holder.clone()).into(), lease.map(|lease| lease.until).into()]
}

impl Table for Run {
    const NAME: &'static str = "runs";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "tenant",
        "kind",
        "name",
        "hash",
        "text",
        "settings",
        "status",
        "conversation_id",
        "input",
        "output",
        "error",
        "usage",
        "lease_holder",
        "lease_until",
        "started_at",
        "ended_at",
    ];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<Value> {
        let [held_by, until] = holder(self.lease.as_ref());
        vec![
            self.id.as_str().into(),
            self.tenant.as_str().into(),
            self.kind.as_str().into(),
            self.name.as_str().into(),
            self.hash.as_str().into(),
            self.text.as_str().into(),
            self.settings.clone().into(),
            self.status.as_str().into(),
            self.conversation.as_ref().map(ConversationId::as_str).into(),
            self.input.clone().into(),
            self.output.clone().into(),
            self.error.clone().into(),
            self.usage.clone().into(),
            held_by,
            until,
            self.started_at.into(),
            self.ended_at.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Run {
            id: cells.text(),
            tenant: Tenant::stored(cells.text()),
            kind: cells.text(),
            name: cells.text(),
            hash: cells.text(),
            text: cells.text(),
            settings: cells.maybe_text(),
            status: cells.text(),
            conversation: cells.maybe_text().map(ConversationId::stored),
            input: cells.maybe_text(),
            output: cells.maybe_text(),
            error: cells.maybe_text(),
            usage: cells.maybe_text(),
            lease: lease(cells.maybe_text(), cells.maybe_time()?),
            started_at: cells.time()?,
            ended_at: cells.maybe_time()?,
        })
    }
}

impl Table for Step {
    const NAME: &'static str = "steps";
    const COLUMNS: &'static [&'static str] = &[
        "run_id",
        "key",
        "kind",
        "status",
        "attempt",
        "input",
        "output",
        "evaluation_id",
        "usage",
        "started_at",
        "ended_at",
        "error",
    ];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<Value> {
        vec![
            self.run.as_str().into(),
            self.key.as_str().into(),
            self.kind.as_str().into(),
            self.status.as_str().into(),
            self.attempt.into(),
            self.input.clone().into(),
            self.output.clone().into(),
            uuid(self.evaluation),
            self.usage.clone().into(),
            self.started_at.into(),
            self.ended_at.into(),
            self.error.clone().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Step {
            run: cells.text(),
            key: cells.text(),
            kind: cells.text(),
            status: cells.text(),
            attempt: cells.number()?,
            input: cells.maybe_text(),
            output: cells.maybe_text(),
            evaluation: read_uuid(cells.maybe_bytes()),
            usage: cells.maybe_text(),
            started_at: cells.maybe_time()?,
            ended_at: cells.maybe_time()?,
            error: cells.maybe_text(),
        })
    }
}

impl Table for Span {
    const NAME: &'static str = "spans";
    const COLUMNS: &'static [&'static str] =
        &["run_id", "id", "parent_id", "name", "key", "status", "started_at", "ended_at", "attributes"];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<Value> {
        vec![
            self.run.as_str().into(),
            self.id.as_str().into(),
            self.parent.clone().into(),
            self.name.as_str().into(),
            self.key.clone().into(),
            self.status.clone().into(),
            self.started_at.into(),
            self.ended_at.into(),
            self.attributes.clone().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Span {
            run: cells.text(),
            id: cells.text(),
            parent: cells.maybe_text(),
            name: cells.text(),
            key: cells.maybe_text(),
            status: cells.maybe_text(),
            started_at: cells.time()?,
            ended_at: cells.maybe_time()?,
            attributes: cells.maybe_text(),
        })
    }
}

impl Table for Event {
    const NAME: &'static str = "events";
    const COLUMNS: &'static [&'static str] = &["run_id", "sequence", "at", "key", "kind", "data"];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<Value> {
        vec![
            self.run.as_str().into(),
            self.sequence.into(),
            self.at.into(),
            self.key.clone().into(),
            self.kind.as_str().into(),
            self.data.clone().into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Event {
            run: cells.text(),
            sequence: cells.number()?,
            at: cells.time()?,
            key: cells.maybe_text(),
            kind: cells.text(),
            data: cells.maybe_text(),
        })
    }
}

impl Table for Evaluation {
    const NAME: &'static str = "evaluations";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "conversation_id",
        "first_position",
        "last_position",
        "count",
        "status",
        "prompt_identity",
        "lease_holder",
        "lease_until",
        "started_at",
        "ended_at",
    ];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<Value> {
        let [held_by, until] = holder(self.lease.as_ref());
        vec![
            uuid(Some(self.id)),
            self.conversation.as_str().into(),
            self.first_position.into(),
            self.last_position.into(),
            self.count.into(),
            self.status.as_str().into(),
            self.prompt_identity.clone().into(),
            held_by,
            until,
            self.started_at.into(),
            self.ended_at.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Evaluation {
            id: read_uuid(cells.maybe_bytes()).unwrap_or_default(),
            conversation: ConversationId::stored(cells.text()),
            first_position: cells.maybe_number(),
            last_position: cells.maybe_number(),
            count: cells.number()?,
            status: cells.text(),
            prompt_identity: cells.maybe_text(),
            lease: lease(cells.maybe_text(), cells.maybe_time()?),
            started_at: cells.time()?,
            ended_at: cells.maybe_time()?,
        })
    }
}

impl Table for Key {
    const NAME: &'static str = "keys";
    const COLUMNS: &'static [&'static str] =
        &["name", "tenant", "scope", "key_hash", "created_at", "revoked_at"];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<Value> {
        vec![
            self.name.as_str().into(),
            self.tenant.as_str().into(),
            self.scope.as_str().into(),
            Value::Bytes(self.hash.clone()),
            self.created_at.into(),
            self.revoked_at.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Key {
            name: cells.text(),
            tenant: Tenant::stored(cells.text()),
            scope: cells.text(),
            hash: cells.bytes(),
            created_at: cells.time()?,
            revoked_at: cells.maybe_time()?,
        })
    }
}

impl Table for Alias {
    const NAME: &'static str = "aliases";
    const COLUMNS: &'static [&'static str] =
        &["tenant", "source", "source_id", "conversation_id", "position"];
    const KEY: usize = 3;

    fn cells(&self) -> Vec<Value> {
        vec![
            self.tenant.as_str().into(),
            self.source.as_str().into(),
            self.source_id.as_str().into(),
            self.conversation.as_str().into(),
            self.position.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Alias {
            tenant: Tenant::stored(cells.text()),
            source: cells.text(),
            source_id: cells.text(),
            conversation: ConversationId::stored(cells.text()),
            position: cells.maybe_number(),
        })
    }
}
