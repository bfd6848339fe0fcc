//! A view as a value of its own: what is sent, what it says about itself, and the decisions behind it recorded.
#![cfg_attr(not(feature = "store"), allow(dead_code))] // conversations are what needs most of it

use scrollback_core::model::ModelName;
use scrollback_core::request::decisions;
use scrollback_core::wire::{LeftOut, RenderOptions, Wire, list_key};
use scrollback_core::{
    CurationContext, Decision, ItemSource, Record, Slot, Summaries, View, ViewItem, json as text, manager,
};
use serde_json::{Value, json};

#[cfg(feature = "store")]
use crate::conversation::Conversation;
use crate::error::{Error, ErrorKind, Result};
use crate::messages::{model_named, wire_for};

/// What a view is made with.
#[derive(Clone, Debug, Default)]
pub struct ViewOptions {
    /// The manager, as text or as JSON.
    pub manager: String,
    /// The format of the request; that of the model or of the last message if none.
    pub wire: Option<Wire>,
    /// The model that is called.
    pub model: Option<String>,
    /// What the request holds beside the conversation, as a JSON object: its tools, its instructions, the limit of the reply.
    /// They are counted, so that budgets leave room for them.
    pub request: Option<String>,
}

/// What one call is sent.
#[derive(Clone, Debug)]
pub struct SentView {
    /// The request: its model where one was named, and everything that is the conversation.
    pub body: String,
    /// The format of the request.
    pub wire: Wire,
    /// It is a view of the record below this position.
    pub upto: u64,
    /// How many messages the record has, and how many entries the view.
    pub entries: (usize, usize),
    /// Tokens of the view.
    pub tokens: usize,
    /// Whether they are counted by the model's own tokenizer.
    pub exact: bool,
}

/// The manager that a text names: in the form of the command line, or as JSON.
pub(crate) fn manager_from(text: &str) -> Result<manager::SharedManager> {
    let is_json = text.trim_start().starts_with(['{', '[', '"']);
    match serde_json::from_str::<Value>(text) {
        Ok(value) if is_json => Ok(manager::parse_value(&value)?),
        _ => Ok(manager::parse(text)?),
    }
}

struct ViewSetting {
    manager: manager::SharedManager,
    wire: Wire,
    model: Option<ModelName>,
    cx: CurationContext,
}

fn setting(record: &Record, wanted: &ViewOptions) -> Result<ViewSetting> {
    let manager = manager_from(&wanted.manager)?;
    let model = wanted.model.as_deref().map(|name| model_named(name, wanted.wire)).transpose()?;
    let wire = wanted.wire.unwrap_or_else(|| {
        model.as_ref().map_or_else(|| last_wire(record), |model| wire_for(model.provider()))
    });
    let mut cx = CurationContext::for_model(model.clone());
    cx.wire = Some(wire);
    cx.summaries = Summaries::InPlace;
    if let Some(request) = &wanted.request {
        let request = text::check(request)
            .map_err(|error| Error::new(ErrorKind::Input, error).at("bad_request", "/request"))?;
        cx.leave_room_for(wire, request)?;
    }
    Ok(ViewSetting { manager, wire, model, cx })
}

/// The wire of the last message.
fn last_wire(record: &Record) -> Wire {
    let last = record.slots().iter().rev().find_map(|slot| match slot {
        Slot::Message(entry) => Some(entry.origin.wire),
        _ => None,
    });
    last.filter(|wire| *wire != Wire::Scrollback).unwrap_or(Wire::OpenaiChat)
}

#[cfg(feature = "store")]
impl Conversation {
    /// What the next call is sent. What others wrote is read first, and what the manager decides is recorded, so that the next
    /// view begins as this one did.
    pub async fn send(&mut self, wanted: &ViewOptions) -> Result<SentView> {
        self.refresh().await?;
        let (sent, decided) = sent(&self.record, wanted)?;
        self.decide(decided).await?;
        Ok(sent)
    }

    /// What [`send`](Self::send) answered for the record below a position, explained: which manager left out or changed what,
    /// and for each entry of the view where it comes from. JSON in the form of `POST /api/conversations/{id}/views`.
    pub async fn explain(&self, wanted: &ViewOptions, upto: u64) -> Result<Value> {
        if upto == self.record.len() as u64 {
            return explained(&self.record, wanted);
        }
        let Some(id) = &self.id else { return explained(&Record::new(), wanted) };
        let record = self.store.record(&self.tenant, id, Some(upto)).await?;
        explained(&record, wanted)
    }
}

fn sent(record: &Record, wanted: &ViewOptions) -> Result<(SentView, Vec<Decision>)> {
    let setting = setting(record, wanted)?;
    let view = setting.manager.curate(View::to_send(record, &setting.cx), &setting.cx)?;
    let decided = decisions(record, &view, &setting.cx);
    let counted = view.count(&setting.cx);
    let sent = SentView {
        body: body_of(&view, &setting),
        wire: setting.wire,
        upto: record.len() as u64,
        entries: (record.message_count(), view.len()),
        tokens: counted.total,
        exact: counted.counter.method.name() == "exact",
    };
    Ok((sent, decided))
}

/// The request with its model.
fn body_of(view: &View<'_>, setting: &ViewSetting) -> String {
    let body = view.render(setting.wire, &setting.cx).body(setting.wire, None);
    let body = if body.trim_start().starts_with('[') {
        format!("{{\"{}\":{body}}}", list_key(setting.wire))
    } else {
        body
    };
    match (&setting.model, body.strip_prefix('{')) {
        (Some(model), Some(rest)) => format!("{{\"model\":{},{rest}", Value::from(model.model())),
        _ => body,
    }
}

fn explained(record: &Record, wanted: &ViewOptions) -> Result<Value> {
    let setting = setting(record, wanted)?;
    let view = setting.manager.curate(View::to_send(record, &setting.cx), &setting.cx)?;
    let rendered = view.render(setting.wire, &setting.cx);
    let mut explanation = view.explain();
    LeftOut::explain(&rendered.left_out, &mut explanation);
    let items: Vec<Value> = view.items().map(|item| described(item, setting.wire)).collect();
    Ok(json!({
        "dropped": explanation.dropped,
        "changed": explanation.changed,
        "view": items,
        "warnings": view.warnings(),
    }))
}

/// Where an entry of a view comes from, and its message where that is not what was said.
pub(crate) fn described(item: ViewItem, wire: Wire) -> Value {
    let mut told = match &item.source {
        ItemSource::Entry(index) if item.is_changed() => json!({ "index": index, "changed": true }),
        ItemSource::Entry(index) => json!({ "index": index }),
        ItemSource::Interrupted { call_id } => json!({ "synthetic": "interrupted", "call_id": call_id }),
        ItemSource::Ledger { of } => json!({ "synthetic": "ledger", "of": of }),
        ItemSource::Summary { covers } => json!({ "synthetic": "summary", "covers": covers }),
    };
    let rendered = wire.render([item], RenderOptions::default());
    let read = |text: &String| serde_json::from_str::<Value>(text).ok();
    let system = || Some(json!({ "role": "system", "content": read(rendered.system.as_ref()?)? }));
    let message = rendered.messages.first().and_then(read).or_else(system);
    if let (Some(members), Some(message)) = (told.as_object_mut(), message) {
        members.insert("message".into(), message);
    }
    told
}
