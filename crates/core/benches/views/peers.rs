//! Conversations for other programs, and the views they made of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use scrollback_core::replay::{ForeignView, Needs, Tally, judge};
use scrollback_core::tokens::entry_tokens;
use scrollback_core::{CurationContext, Entry, Fidelity, ItemSource, Role, Slot, ViewItem};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sets::{Conversation, Set};
use crate::{Fallible, append};

/// The views of one other program, by conversation.
pub(crate) struct Peer {
    pub(crate) manager: String,
    pub(crate) budget: Option<u64>,
    views: HashMap<String, Vec<(u64, Vec<PeerMessage>)>>,
}

/// One message of a view: an entry as it was said, or a text that is not.
#[derive(Deserialize)]
#[serde(untagged)]
enum PeerMessage {
    Whole(u64),
    Changed { at: Option<u64>, role: String, text: String },
}

#[derive(Deserialize)]
struct PeerLine {
    set: String,
    manager: String,
    budget: Option<u64>,
    conversation: String,
    views: Vec<(u64, Vec<PeerMessage>)>,
}

/// Writes every conversation as a line: messages in the form of `OpenAI`'s chat, their positions and tokens, and the positions of
/// the replies.
pub(crate) fn export(file: &Path, set: &Set, conversations: &[Conversation]) -> Fallible<()> {
    let counter = CurationContext::default().counter.tokenizer;
    for conversation in conversations {
        let (mut messages, mut replies) = (Vec::new(), Vec::new());
        for (position, slot) in conversation.slots.iter().enumerate() {
            let Slot::Message(entry) = slot else { continue };
            if entry.role == Role::Assistant && !messages.is_empty() {
                replies.push(position);
            }
            messages.push(
                json!({ "at": position, "tokens": entry_tokens(counter, entry), "message": chat(entry) }),
            );
        }
        let line = json!({ "set": set.name, "budgets": set.budgets, "conversation": conversation.name, "messages": messages, "replies": replies });
        append(file, &format!("{line}\n"))?;
    }
    Ok(())
}

fn chat(entry: &Entry) -> Value {
    let content = entry.content().unwrap_or_default();
    let calls: Vec<Value> = entry
        .tool_calls()
        .map(|call| {
            let id = call.call_id.as_ref().map(|id| id.as_str().into_owned());
            json!({ "id": id, "type": "function", "function": { "name": call.name.as_str(), "arguments": call.arguments.as_str() } })
        })
        .collect();
    match entry.role {
        Role::Tool => json!({ "role": "tool", "tool_call_id": entry.tool_call_id(), "content": content }),
        role if calls.is_empty() => json!({ "role": role.as_str(), "content": content }),
        role => json!({ "role": role.as_str(), "content": content, "tool_calls": calls }),
    }
}

/// The views of a set that other programs made.
pub(crate) fn read(file: &Path, set: &str) -> Fallible<Vec<Peer>> {
    let mut peers: Vec<Peer> = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let line: PeerLine = serde_json::from_str(line)?;
        if line.set != set {
            continue;
        }
        let at = peers.iter().position(|peer| peer.manager == line.manager).unwrap_or_else(|| {
            peers.push(Peer { manager: line.manager.clone(), budget: line.budget, views: HashMap::new() });
            peers.len() - 1
        });
        if let Some(peer) = peers.get_mut(at) {
            peer.views.insert(line.conversation, line.views);
        }
    }
    Ok(peers)
}

impl Peer {
    /// Its views of a conversation, measured; none if it made none, because it failed or took too long.
    pub(crate) fn judged(
        &self,
        conversation: &Conversation,
        needs: &Needs,
        cx: &CurationContext,
    ) -> Option<Tally> {
        let views = self.views.get(&conversation.name)?.iter();
        let views: Vec<ForeignView> = views
            .map(|(position, shown)| ForeignView {
                position: *position,
                items: shown.iter().filter_map(|shown| item(shown, &conversation.slots)).collect(),
            })
            .collect();
        Some(judge(&conversation.slots, needs, &views, self.budget, cx))
    }
}

fn item(shown: &PeerMessage, slots: &[Slot]) -> Option<ViewItem> {
    let entry = |at: u64| match slots.get(at as usize) {
        Some(Slot::Message(entry)) => Some(Arc::clone(entry)),
        _ => None,
    };
    Some(match shown {
        PeerMessage::Whole(at) => {
            ViewItem { source: ItemSource::Entry(*at), entry: entry(*at)?, fidelity: Fidelity::AsSaid }
        }
        PeerMessage::Changed { at: Some(at), text, .. } if entry(*at)?.role == Role::Tool => {
            let id = entry(*at)?.tool_call_id().unwrap_or_default();
            ViewItem {
                source: ItemSource::Entry(*at),
                entry: Arc::new(Entry::result(&id, text)),
                fidelity: Fidelity::Rewritten,
            }
        }
        PeerMessage::Changed { at, role, text } => {
            let role = match role.as_str() {
                "system" => Role::System,
                "assistant" => Role::Assistant,
                "tool" => Role::Tool,
                _ => Role::User,
            };
            let source = at.map_or(ItemSource::Summary { covers: Vec::new() }, ItemSource::Entry);
            ViewItem { source, entry: Arc::new(Entry::text(role, text)), fidelity: Fidelity::Rewritten }
        }
    })
}
