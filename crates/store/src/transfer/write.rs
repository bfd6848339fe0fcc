//! From stored conversations to texts of other tools.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::repair::repair;
use scrollback_core::wire::{Lost, RenderOptions, Wire, list_key, system_key};
use scrollback_core::{Entry, Fidelity, ItemSource, Record, Role, Slot, ViewItem, json as text};
use serde_json::{Value, json};

use crate::error::StoreResult;
use crate::id::{ConversationId, Tenant};
use crate::store::Store;

/// A conversation after those it was forked from, without those that are in `written`; they are added to it.
pub async fn with_parents(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    written: &mut BTreeSet<ConversationId>,
) -> StoreResult<Vec<ConversationId>> {
    let mut chain = vec![store.conversation(tenant, id).await?];
    while let Some(parent) = chain.last().and_then(|last| last.parent.clone()) {
        chain.push(store.conversation(tenant, &parent).await?);
    }
    Ok(chain.into_iter().rev().map(|one| one.id).filter(|id| written.insert(id.clone())).collect())
}

fn items(record: &Record) -> Vec<ViewItem> {
    let item = |(position, slot): (u64, &Slot)| match slot {
        Slot::Message(entry) => Some(ViewItem {
            source: ItemSource::Entry(position),
            entry: Arc::clone(entry),
            fidelity: Fidelity::AsSaid,
        }),
        Slot::Decision(..) | Slot::Erased(_) => None,
    };
    (0..).zip(record.slots()).filter_map(item).collect()
}

/// Everything said as one body of a wire, and what that wire cannot hold.
pub fn whole_body(record: &Record, wire: Wire) -> (String, Vec<Lost>) {
    let rendered =
        wire.render(items(record), RenderOptions { record: Some(record), ..RenderOptions::default() });
    let mut out = String::from("{");
    if let Some((key, system)) = system_key(wire).zip(rendered.system) {
        let _ = write!(out, "\"{key}\":{system},");
    }
    let _ = write!(out, "\"{}\":[{}]}}", list_key(wire), rendered.messages.join(","));
    (out, rendered.lost)
}

/// Why a record is no training example: its provider would refuse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTrainable {
    /// The rule, by its id.
    pub rule: &'static str,
    /// What is wrong and where, in one line.
    pub message: String,
}

/// A training example of `OpenAI`, repaired on request, and what the format cannot hold.
pub fn finetune(record: &Record, repairs: bool) -> Result<(String, Vec<Lost>), NotTrainable> {
    let (printed, lost) = whole_body(record, Wire::OpenaiChat);
    let raw = text::check(&printed)
        .map_err(|error| NotTrainable { rule: "OC-1", message: error.problem.clone() })?;
    let broken = check(Wire::OpenaiChat, raw, CheckOptions::default());
    let pairing = |rule: &str| ["OC-1", "OC-2", "OC-3", "OC-4", "OC-5", "OC-6"].contains(&rule);
    let Some(violation) = broken.iter().find(|violation| pairing(violation.rule)) else {
        return Ok((printed, lost));
    };
    if !repairs {
        let message = format!("{}: {} at {}", violation.rule, violation.message, violation.path);
        return Err(NotTrainable { rule: violation.rule, message });
    }
    let repaired = repair(Wire::OpenaiChat, raw, CheckOptions::default(), Strictness::Lenient).body;
    let one_line = text::check(&repaired).map(|raw| text::one_line(raw).into_owned());
    one_line
        .map(|line| (line, lost))
        .map_err(|error| NotTrainable { rule: violation.rule, message: error.problem })
}

fn langchain_role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "human",
        Role::Assistant => "ai",
        Role::Tool => "tool",
    }
}

fn langchain_calls(entry: &Entry) -> Vec<Value> {
    entry
        .tool_calls()
        .map(|call| {
            let arguments = call.arguments.as_str();
            let parsed: Value =
                serde_json::from_str(&arguments).unwrap_or_else(|_| json!({ "__raw": arguments }));
            json!({
                "name": call.name.as_str(), "args": parsed, "type": "tool_call",
                "id": call.call_id.as_ref().map(|id| id.as_str().into_owned()),
            })
        })
        .collect()
}

/// The dictionary form of `LangChain`.
pub fn langchain(record: &Record) -> Value {
    let message = |item: &ViewItem| {
        let entry = &item.entry;
        let mut data =
            json!({ "type": langchain_role(entry.role), "content": entry.content().unwrap_or_default() });
        if let Some(members) = data.as_object_mut() {
            if entry.role == Role::Assistant {
                members.insert("tool_calls".into(), langchain_calls(entry).into());
            }
            if let Some(id) = entry.tool_call_id() {
                members.insert("tool_call_id".into(), id.into());
            }
        }
        json!({ "type": langchain_role(entry.role), "data": data })
    };
    items(record).iter().map(message).collect()
}

/// The texts in the form of `ShareGPT`, and how many tool calls and results have no place in it.
pub fn sharegpt(record: &Record) -> (Value, usize) {
    let mut lost = 0;
    let mut turns = Vec::new();
    for item in items(record) {
        lost += item.entry.tool_calls().count();
        let from = match item.entry.role {
            Role::System => "system",
            Role::User => "human",
            Role::Assistant => "gpt",
            Role::Tool => {
                lost += 1;
                continue;
            }
        };
        if let Some(value) = item.entry.content().filter(|value| !value.is_empty()) {
            turns.push(json!({ "from": from, "value": value }));
        }
    }
    (json!({ "conversations": turns }), lost)
}
