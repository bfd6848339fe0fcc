//! What the API says, as types: printed as JSON, and described in the document.

use schemars::JsonSchema;
use scrollback_core::request::RequestTokens;
use scrollback_core::{BlockKind, Decision, Role, Slot};
use scrollback_store::{Conversation, Run, Sent, StoredEntry, hex};
use serde::Serialize;
use serde_json::Value;

use crate::usage::{Spent, request_tokens};
use crate::visibility::{Basis, CallVisibility, Fate, Why};

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
#[allow(dead_code, reason = "only described here; problem.rs prints it")]
pub(crate) struct ProblemShape {
    /// Names the kind of problem and stays the same: `urn:scrollback:problem:CODE`.
    #[schemars(rename = "type")]
    kind: String,
    /// The kind in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened, and what to do next.
    detail: String,
}

/// What is known about a conversation beside its entries.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Conversation")]
pub(crate) struct ConversationShape {
    /// Its id, a ULID.
    pub(crate) id: String,
    /// Whom it is with; null for runs and for clients of the proxy.
    pub(crate) recipient: Option<String>,
    /// Unique within the tenant; `conversation:RECIPIENT` for the current one of a recipient.
    pub(crate) key: Option<String>,
    /// What people call it.
    pub(crate) title: Option<String>,
    /// `active`, `awaiting_answer`, `closed` or `idle`.
    pub(crate) status: &'static str,
    /// The session it belongs to.
    pub(crate) session: String,
    /// What it is in its session: `main`, `sub-agent`, `side` or `branch`.
    pub(crate) kind: &'static str,
    /// The conversation it was forked from or started by.
    pub(crate) parent: Option<String>,
    /// Where its own entries begin; null if it shares none with its parent.
    pub(crate) fork_position: Option<u64>,
    /// When it began.
    pub(crate) created_at: String,
    /// When something was last written.
    pub(crate) updated_at: String,
    /// Where the next entry goes.
    pub(crate) head: HeadShape,
    /// Messages, erased ones included.
    pub(crate) entries: u64,
    /// Turns.
    pub(crate) turns: u64,
    /// Turns that no summary stands for.
    pub(crate) uncovered_turns: u64,
    /// Who spoke last, user or assistant.
    pub(crate) last_role: Option<&'static str>,
    /// When they did.
    pub(crate) last_at: Option<String>,
}

/// The end of a record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Head")]
pub(crate) struct HeadShape {
    /// The next position.
    pub(crate) position: u64,
    /// The value of the hash chain at the last entry.
    pub(crate) link: String,
}

impl ConversationShape {
    pub(crate) fn of(row: &Conversation, entries: u64) -> Self {
        ConversationShape {
            id: row.id.to_string(),
            recipient: row.recipient.as_ref().map(ToString::to_string),
            key: row.key.clone(),
            title: row.title.clone(),
            status: row.status().name(),
            session: row.session.to_string(),
            kind: row.kind.as_str(),
            parent: row.parent.as_ref().map(ToString::to_string),
            fork_position: row.fork_position,
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
            head: HeadShape { position: row.head, link: hex(&row.head_link) },
            entries,
            turns: row.turns,
            uncovered_turns: row.uncovered_turns,
            last_role: row.last_role.map(Role::as_str),
            last_at: row.last_said_at.map(|at| at.to_string()),
        }
    }
}

/// What a place of a record holds.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlaceKind {
    /// Something said.
    Message,
    /// A curation choice.
    Decision,
    /// Something said that was erased; its place stays.
    Erased,
}

/// One place of a record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub(crate) struct EntryShape {
    /// Its position.
    pub(crate) position: u64,
    /// What stands there.
    pub(crate) kind: PlaceKind,
    /// Who said it.
    pub(crate) role: Option<&'static str>,
    /// The evaluation it is part of.
    pub(crate) evaluation_id: Option<String>,
    /// Its number within that.
    pub(crate) sequence: Option<u64>,
    /// When.
    pub(crate) created_at: String,
    /// The author's name, where the message has one.
    pub(crate) author: Option<String>,
    /// Its texts, joined; null where the message says nothing.
    pub(crate) text: Option<String>,
    /// Readable reasoning, joined.
    pub(crate) reasoning: Option<String>,
    /// The calls it makes.
    pub(crate) tool_calls: Vec<ToolCallShape>,
    /// The call it answers.
    pub(crate) tool_call_id: Option<String>,
    /// Whether the tool said that it failed.
    pub(crate) is_error: Option<bool>,
    /// The wire it came on.
    pub(crate) wire: Option<&'static str>,
    /// The exact JSON text of its message.
    pub(crate) raw: Option<String>,
    /// What was known about it: model, usage, stop, status.
    pub(crate) meta: Option<Value>,
    /// The decision, if it is one.
    pub(crate) decision: Option<Value>,
    /// The value of the hash chain here.
    pub(crate) link: String,
}

/// A call of a tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolCall")]
pub(crate) struct ToolCallShape {
    /// The provider's id of it.
    pub(crate) id: Option<String>,
    /// The tool.
    pub(crate) name: String,
    /// The arguments, as the text they came as.
    pub(crate) arguments: String,
}

impl EntryShape {
    pub(crate) fn of(placed: &StoredEntry) -> Self {
        let mut shape = EntryShape {
            position: placed.position,
            kind: PlaceKind::Message,
            role: None,
            evaluation_id: None,
            sequence: None,
            created_at: placed.slot.created_at().to_string(),
            author: None,
            text: None,
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            is_error: None,
            wire: None,
            raw: None,
            meta: None,
            decision: None,
            link: hex(&placed.link),
        };
        match &placed.slot {
            Slot::Message(entry) => {
                shape.role = Some(entry.role.as_str());
                shape.evaluation_id = Some(entry.evaluation_id.to_string());
                shape.sequence = Some(entry.sequence);
                shape.author = entry.author.as_ref().map(|name| name.as_str().into_owned());
                shape.text = entry.content();
                shape.reasoning = reasoning(entry);
                shape.tool_calls = entry.tool_calls().map(ToolCallShape::of).collect();
                shape.tool_call_id = entry.tool_call_id();
                shape.is_error = entry.tool_result().and_then(|result| result.is_error);
                shape.wire = Some(entry.origin.wire.name());
                shape.raw = Some(entry.origin.raw.to_string());
                shape.meta = entry.meta.as_ref().and_then(|meta| serde_json::to_value(meta).ok());
            }
            Slot::Decision(decision, _) => {
                shape.kind = PlaceKind::Decision;
                shape.decision = printed(decision);
            }
            Slot::Erased(tombstone) => {
                shape.kind = PlaceKind::Erased;
                shape.role = Some(tombstone.role.as_str());
                shape.evaluation_id = Some(tombstone.evaluation_id.to_string());
                shape.sequence = Some(tombstone.sequence);
            }
        }
        shape
    }
}

impl ToolCallShape {
    fn of(call: &scrollback_core::ToolCall) -> Self {
        ToolCallShape {
            id: call.call_id.as_ref().map(|id| id.as_str().into_owned()),
            name: call.name.as_str().into_owned(),
            arguments: call.arguments.as_str().into_owned(),
        }
    }
}

/// A decision as JSON.
pub(crate) fn printed(decision: &Decision) -> Option<Value> {
    serde_json::to_value(decision).ok()
}

/// The readable reasoning of an entry.
pub(crate) fn reasoning(entry: &scrollback_core::Entry) -> Option<String> {
    let mut texts = Vec::new();
    for block in &entry.blocks {
        if let BlockKind::Reasoning(thought) = &block.kind {
            texts
                .extend(thought.text.iter().chain(&thought.summaries).map(|text| text.as_str().into_owned()));
        }
    }
    texts.retain(|text| !text.is_empty());
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Tokens of a request, its parts counted apart.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RequestTokens")]
pub(crate) struct RequestTokensShape {
    /// Of the instructions: the system entries it begins with.
    instructions: usize,
    /// Of the definitions of tools.
    tools: usize,
    /// Of everything else that is said in it.
    messages: usize,
    /// Of the whole request: the parts, and the start of the reply.
    total: usize,
    /// `exact` where the model's own vocabulary counted, else `estimate`.
    method: &'static str,
    /// What estimates were multiplied by, learnt from what the provider reported before.
    factor: f64,
}

impl RequestTokensShape {
    fn of(tokens: RequestTokens) -> Self {
        RequestTokensShape {
            instructions: tokens.instructions,
            tools: tokens.tools,
            messages: tokens.messages,
            total: tokens.total,
            method: if tokens.exact { "exact" } else { "estimate" },
            factor: tokens.factor.value(),
        }
    }
}

/// What a request held of the entries recorded before it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CallEntries")]
pub(crate) struct CallEntriesShape {
    /// `bytes` where this is read from the request as it was sent; `repeated` where that is not kept, and the managers were
    /// repeated on the record.
    basis: Basis,
    /// How many messages the request held.
    sent: usize,
    /// How many messages were recorded.
    of: usize,
    /// Those that were sent, but not as recorded.
    rewritten: Vec<FateShape>,
    /// Those that were not sent.
    dropped: Vec<FateShape>,
    /// Positions of those that were sent as recorded but for their cache marks.
    marks_moved: Vec<u64>,
    /// Positions of those that were not sent again because the request refers to what its provider holds.
    held: Vec<u64>,
}

/// An entry that was not sent as it is recorded.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CallEntry")]
pub(crate) struct FateShape {
    /// Its position.
    index: u64,
    /// Which manager did it; null where that is not known.
    manager: Option<String>,
    /// Why; null where that is not known.
    reason: Option<&'static str>,
}

impl CallEntriesShape {
    pub(crate) fn of(sight: &CallVisibility) -> Self {
        let mut shape = CallEntriesShape {
            basis: sight.basis,
            sent: sight.entries,
            of: sight.of,
            rewritten: Vec::new(),
            dropped: Vec::new(),
            marks_moved: Vec::new(),
            held: Vec::new(),
        };
        let told = |index, why: &Option<Why>| FateShape {
            index,
            manager: why.as_ref().map(|why| why.manager.clone()),
            reason: why.as_ref().map(|why| why.reason),
        };
        for (index, fate) in sight.fates() {
            match fate {
                Fate::Kept | Fate::Later => {}
                Fate::MarksMoved => shape.marks_moved.push(index),
                Fate::Held => shape.held.push(index),
                Fate::Changed(why) => shape.rewritten.push(told(index, why)),
                Fate::Dropped(why) => shape.dropped.push(told(index, why)),
            }
        }
        shape
    }
}

/// A model call, without what was sent and what came back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Call")]
pub(crate) struct CallShape {
    /// Its id.
    pub(crate) id: String,
    /// The conversation.
    pub(crate) conversation: String,
    /// The run it was made for.
    pub(crate) run: Option<String>,
    /// The step it was made for.
    pub(crate) step: Option<String>,
    /// The evaluation it was made for.
    pub(crate) evaluation: Option<String>,
    /// It saw a view of the record below this position.
    pub(crate) upto: u64,
    /// The managers that made the view.
    pub(crate) managers: Value,
    /// The wire of the request.
    pub(crate) wire: String,
    /// The model asked.
    pub(crate) model: String,
    /// The epoch of the view, if a sticky manager made it.
    pub(crate) epoch: Option<u64>,
    /// Chain over the bytes of the messages.
    pub(crate) prefix_hash: Option<String>,
    /// How it ended: `sent` while it is under way, `ok`, or what went wrong.
    pub(crate) status: String,
    /// Which attempt it was.
    pub(crate) attempt: u64,
    /// What it used.
    pub(crate) usage: Option<Spent>,
    /// Tokens of the request as counted here before its provider answered, its parts apart; null where they were not counted.
    pub(crate) request_tokens: Option<RequestTokensShape>,
    /// Input tokens as the provider reported them, cached ones included; null where it reported nothing.
    pub(crate) reported_input: Option<u64>,
    /// When it was sent.
    pub(crate) started_at: String,
    /// When the answer ended.
    pub(crate) ended_at: Option<String>,
    /// How long it took.
    pub(crate) milliseconds: Option<u64>,
}

impl CallShape {
    pub(crate) fn of(call: &Sent) -> Self {
        let managers = serde_json::from_str(&call.managers);
        let spent = Spent::of(call);
        CallShape {
            id: call.id.clone(),
            conversation: call.conversation.to_string(),
            run: call.run.clone(),
            step: call.step.clone(),
            evaluation: call.evaluation.map(|id| id.to_string()),
            upto: call.upto,
            managers: managers.unwrap_or_else(|_| Value::String(call.managers.clone())),
            wire: call.wire.clone(),
            model: call.model.clone(),
            epoch: call.epoch,
            prefix_hash: call.prefix_hash.as_deref().map(hex),
            status: call.status.to_string(),
            attempt: call.attempt,
            usage: spent,
            request_tokens: request_tokens(call).map(RequestTokensShape::of),
            reported_input: spent.filter(|spent| !spent.estimated).map(|spent| spent.input),
            started_at: call.started_at.to_string(),
            ended_at: call.ended_at.map(|at| at.to_string()),
            milliseconds: call.ended_at.map(|at| (at.0 - call.started_at.0).max(0) as u64),
        }
    }
}

/// A run, without its steps.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunShape {
    /// Its id.
    pub(crate) id: String,
    /// `flow` or `subagent`.
    pub(crate) kind: String,
    /// The name in its file.
    pub(crate) name: String,
    /// `running`, `paused`, `interrupted`, `done` or `failed`.
    pub(crate) status: String,
    /// Its conversation.
    pub(crate) conversation: Option<String>,
    /// What it was given.
    pub(crate) input: Option<String>,
    /// Its output.
    pub(crate) output: Option<String>,
    /// Why it failed.
    pub(crate) error: Option<Value>,
    /// What it used.
    pub(crate) usage: Option<Value>,
    /// When it began.
    pub(crate) started_at: String,
    /// When it ended.
    pub(crate) ended_at: Option<String>,
}

impl RunShape {
    pub(crate) fn of(run: &Run) -> Self {
        RunShape {
            id: run.id.clone(),
            kind: run.kind.to_string(),
            name: run.name.clone(),
            status: run.status.to_string(),
            conversation: run.conversation.as_ref().map(ToString::to_string),
            input: run.input.clone(),
            output: run.output.clone(),
            error: value(run.error.as_deref()),
            usage: value(run.usage.as_deref()),
            started_at: run.started_at.to_string(),
            ended_at: run.ended_at.map(|at| at.to_string()),
        }
    }
}

/// JSON that is kept as text; other text is given as it is.
pub(crate) fn value(text: Option<&str>) -> Option<Value> {
    text.map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into())))
}
