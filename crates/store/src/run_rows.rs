//! Runs and what belongs to them as rows.

use scrollback_core::Time;
use uuid::Uuid;

use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::run::{Alias, Evaluation, Event, Key, KeyLimits, KeyUse, Lease, Run, Span, Step};
use crate::status::StepStatus;
use crate::table::{Cells, ColumnValue, Table};

fn uuid(id: Option<Uuid>) -> ColumnValue {
    id.map_or(ColumnValue::Null, |id| ColumnValue::Bytes(id.as_bytes().to_vec()))
}

fn read_uuid(bytes: Option<Vec<u8>>) -> Option<Uuid> {
    bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok())
}

fn lease(holder: Option<String>, until: Option<Time>) -> Option<Lease> {
    Some(Lease { holder: holder?, until: until? })
}

fn holder(lease: Option<&Lease>) -> [ColumnValue; 2] {
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

    fn cells(&self) -> Vec<ColumnValue> {
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
            kind: cells.known()?,
            name: cells.text(),
            hash: cells.text(),
            text: cells.text(),
            settings: cells.maybe_text(),
            status: cells.known()?,
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

    fn cells(&self) -> Vec<ColumnValue> {
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
            kind: cells.known()?,
            status: cells.known()?,
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

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.run.as_str().into(),
            self.id.as_str().into(),
            self.parent.clone().into(),
            self.name.as_str().into(),
            self.key.clone().into(),
            self.status.map(StepStatus::as_str).into(),
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
            status: cells.maybe_known()?,
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

    fn cells(&self) -> Vec<ColumnValue> {
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

    fn cells(&self) -> Vec<ColumnValue> {
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
            status: cells.known()?,
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
        &["name", "tenant", "scope", "key_hash", "created_at", "revoked_at", "limits"];
    const KEY: usize = 1;

    fn cells(&self) -> Vec<ColumnValue> {
        let limited = self.limits != KeyLimits::default();
        vec![
            self.name.as_str().into(),
            self.tenant.as_str().into(),
            self.scope.as_str().into(),
            ColumnValue::Bytes(self.hash.clone()),
            self.created_at.into(),
            self.revoked_at.into(),
            limited.then(|| serde_json::to_string(&self.limits).unwrap_or_default()).into(),
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
            limits: cells.json()?.unwrap_or_default(),
        })
    }
}

impl Table for KeyUse {
    const NAME: &'static str = "key_uses";
    const COLUMNS: &'static [&'static str] = &["name", "span", "began", "requests", "tokens", "microdollars"];
    const KEY: usize = 2;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![
            self.key.as_str().into(),
            self.window.as_str().into(),
            self.began.into(),
            self.requests.into(),
            self.tokens.into(),
            self.microdollars.into(),
        ]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(KeyUse {
            key: cells.text(),
            window: cells.text(),
            began: cells.time()?,
            requests: cells.number()?,
            tokens: cells.number()?,
            microdollars: cells.number()?,
        })
    }
}

impl Table for Alias {
    const NAME: &'static str = "aliases";
    const COLUMNS: &'static [&'static str] =
        &["tenant", "source", "source_id", "conversation_id", "position"];
    const KEY: usize = 3;

    fn cells(&self) -> Vec<ColumnValue> {
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
