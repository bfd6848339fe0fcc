//! Views computed on request, and the decisions that later views repeat.

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_agent::ModelSummarizer;
use scrollback_core::recall::{BadHandle, Handle};
use scrollback_core::request::decisions;
use scrollback_core::wire::{LeftOut, RenderOptions, Wire};
use scrollback_core::{Decision, ItemSource, Record, Slot, Summaries, View, ViewItem};
use scrollback_store::recall::{self, NoAnswer, Pinning};
use scrollback_store::{
    Compaction, ConversationId, Expected, HistorySettings, Offline, RecordsExt, Summarizer, compact,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::entries::wire_named;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::printed;
use crate::{HttpProblem, quota, recorded_calls};

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post(
            "/conversations/{id}/views",
            "computeView",
            "What a call would be sent: the record through managers, with an explanation.",
            compute,
        )
        .reading()
        .fails(&[422]),
        Operation::get("/conversations/{id}/decisions", "listDecisions", "The decisions of a record.", list),
        Operation::post_as(
            StatusCode::CREATED,
            "/conversations/{id}/decisions",
            "decide",
            "Pins or unpins groups, or has older turns summarised now.",
            decide,
        )
        .fails(&[429, 502]),
    ]
}

/// Which view to compute.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewShape {
    /// Managers in any form; `passthrough` if not said.
    #[serde(default)]
    managers: Value,
    /// The model the view is for: its tokenizer counts, its window decides.
    #[serde(default)]
    model: Option<String>,
    /// Only what lies below this position; everything if not said.
    #[serde(default)]
    upto: Option<u64>,
    /// The wire of the body; that of the last message if not said.
    #[serde(default)]
    wire: Option<String>,
    /// What the request will hold beside the conversation: its tools, its instructions, the limit of the reply. They are
    /// counted, so that budgets leave room for them.
    #[serde(default)]
    #[schemars(with = "Option<std::collections::HashMap<String, Value>>")]
    request: Option<Box<RawValue>>,
    /// Record what the managers decide, because the view is about to be sent: the next view then begins as this one did. Needs
    /// a key of scope `admin`. Every item of `view` has its `message`.
    #[serde(default)]
    record: bool,
}

/// A view.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "View")]
pub(crate) struct ViewAnswer {
    /// The wire of the body.
    wire: &'static str,
    /// The position after the last entry that was looked at.
    upto: u64,
    /// What would be sent, in the wire's own form.
    #[schemars(with = "std::collections::HashMap<String, Value>")]
    body: Box<RawValue>,
    /// One item per entry of the view: `index` for an entry of the record, `synthetic` for others.
    view: Vec<Value>,
    /// What is not in the view: `index`, `manager`, `reason`, and its `group` where it has one.
    dropped: Vec<Value>,
    /// What is not as it was said: `index`, `manager`, `reason`, `from_chars`, `to_chars`.
    changed: Vec<Value>,
    /// What its reader should know.
    warnings: Vec<Value>,
    /// How many messages the record has, and how many entries the view.
    counts: CountsShape,
    /// How many tokens they have.
    tokens: TokensShape,
    /// The stretch between two cuts the view is in, if a sticky manager made it: `id` and `cut`.
    epoch: Option<Value>,
    /// What managers would have recorded.
    decisions: Vec<Value>,
    /// What the wire cannot hold.
    lost: Vec<Value>,
}

/// How many messages the record has, and how many entries the view.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Counts")]
pub(crate) struct CountsShape {
    original: usize,
    curated: usize,
}

/// Tokens of record and view, and how they were counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tokens")]
pub(crate) struct TokensShape {
    /// Of everything that was said.
    original: u64,
    /// Of the view.
    curated: usize,
    /// `exact` or `estimate`.
    method: &'static str,
    tokenizer: Value,
}

async fn compute(asking: ApiRequest, wish: ViewShape) -> Result<ViewAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let manager = recorded_calls::manager_from(&wish.managers)?;
    let wire = wish.wire.as_deref().map(wire_named).transpose()?;
    let model = wish.model.as_deref().map(|name| recorded_calls::model_named(name, wire)).transpose()?;
    if wish.record && wish.upto.is_some() {
        return Err(HttpProblem::bad_request(
            "bad_request",
            "`record` is for the record as it is now; omit `upto`",
        ));
    }
    if wish.record {
        asking.caller.may_write()?;
    }
    let record = asking.app.store.record(asking.tenant(), &id, wish.upto).await?;
    let app = asking.app.clone();
    let records = wish.record;
    let work = move || {
        let wire = wire.unwrap_or_else(|| wire_of(&record));
        let mut cx = recorded_calls::context(&app, model);
        cx.wire = Some(wire);
        if let Some(request) = &wish.request {
            let bad =
                |problem: String| HttpProblem::bad_request("bad_request", format!("`request`: {problem}"));
            let request =
                scrollback_core::json::check(request.get()).map_err(|error| bad(error.to_string()))?;
            cx.leave_room_for(wire, request).map_err(|error| bad(error.to_string()))?;
        }
        // No model is called here: what a summary would say is written offline, and nothing is recorded.
        cx.summaries = Summaries::InPlace;
        let start = if records { View::to_send(&record, &cx) } else { View::of(&record, &cx) };
        let view = manager.curate(start, &cx).map_err(|error| {
            HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string())
        })?;
        let new = if records { decisions(&record, &view, &cx) } else { Vec::new() };
        let mut told = answer(&record, &view, wire, &cx)?;
        if records {
            told.view = view.items().map(|item| with_message(item, wire)).collect();
        }
        Ok::<_, HttpProblem>((told, new))
    };
    let (told, new) = crate::blocking(work).await??;
    if !new.is_empty() {
        let now = asking.app.now();
        let new = new.into_iter().map(Into::into).collect();
        let appended = asking.app.store.append(asking.tenant(), now, &id, Expected::Any, new).await?;
        for position in appended.first..=appended.last {
            super::events::recorded(&asking.app, asking.tenant(), &id, position, "decision");
        }
    }
    Ok(told)
}

/// An item of a view with its message in the wire's own form.
fn with_message(item: ViewItem, wire: Wire) -> Value {
    let mut told = source(&item);
    let rendered = wire.render([item], RenderOptions::default());
    let read = |text: &String| serde_json::from_str::<Value>(text).ok();
    let system = || Some(json!({ "role": "system", "content": read(rendered.system.as_ref()?)? }));
    let message = rendered.messages.first().and_then(read).or_else(system);
    if let (Some(members), Some(message)) = (told.as_object_mut(), message) {
        members.insert("message".into(), message);
    }
    told
}

fn answer(
    record: &Record,
    view: &View<'_>,
    wire: Wire,
    cx: &scrollback_core::CurationContext,
) -> Result<ViewAnswer, HttpProblem> {
    let rendered = view.render(wire, cx);
    let mut explanation = view.explain();
    LeftOut::explain(&rendered.left_out, &mut explanation);
    let curated = view.count(cx);
    let original = crate::visibility::tokens(record, cx).values().sum::<u64>() + curated.overhead as u64;
    let internal =
        |what: &str| HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", what.to_string());
    let body = rendered.body(wire, None);
    let body = if body.trim_start().starts_with('[') {
        format!("{{\"{}\":{body}}}", scrollback_core::wire::list_key(wire))
    } else {
        body
    };
    Ok(ViewAnswer {
        wire: wire.name(),
        upto: record.len() as u64,
        body: RawValue::from_string(body).map_err(|_| internal("the view could not be printed"))?,
        view: view.items().map(|item| source(&item)).collect(),
        dropped: values(&explanation.dropped),
        changed: values(&explanation.changed),
        warnings: values(&view.warnings()),
        counts: CountsShape { original: record.message_count(), curated: view.len() },
        tokens: TokensShape {
            original,
            curated: curated.total,
            method: curated.counter.method.name(),
            tokenizer: serde_json::to_value(curated.counter.tokenizer).unwrap_or_default(),
        },
        epoch: view.epoch().and_then(|epoch| serde_json::to_value(epoch).ok()),
        decisions: values(view.decisions()),
        lost: rendered
            .lost
            .iter()
            .map(|lost| json!({ "index": lost.position, "path": lost.path, "what": lost.what, "reason": lost.reason }))
            .collect(),
    })
}

fn values<T: Serialize>(items: &[T]) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
}

fn source(item: &scrollback_core::ViewItem) -> Value {
    match &item.source {
        ItemSource::Entry(index) if item.is_changed() => json!({ "index": index, "changed": true }),
        ItemSource::Entry(index) => json!({ "index": index }),
        ItemSource::Interrupted { call_id } => json!({ "synthetic": "interrupted", "call_id": call_id }),
        ItemSource::Ledger { of } => json!({ "synthetic": "ledger", "of": of }),
        ItemSource::Summary { covers } => json!({ "synthetic": "summary", "covers": covers }),
    }
}

/// The wire of the last message, which is what its client speaks.
pub(crate) fn wire_of(record: &Record) -> Wire {
    let last = record.slots().iter().rev().find_map(|slot| match slot {
        Slot::Message(entry) => Some(entry.origin.wire),
        _ => None,
    });
    last.unwrap_or(Wire::OpenaiChat)
}

/// The decisions of a record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decisions")]
pub(crate) struct DecisionsAnswer {
    /// In order of position.
    decisions: Vec<DecisionShape>,
}

/// A decision and its place.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decision")]
pub(crate) struct DecisionShape {
    /// Its position.
    position: u64,
    /// When it was made.
    created_at: String,
    /// What was decided: `decision` names the kind.
    decision: Value,
}

async fn list(asking: ApiRequest, _: Nothing) -> Result<DecisionsAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let places = asking.app.store.entries(asking.tenant(), &id, 0, u64::MAX).await?;
    let decisions = places.into_iter().filter_map(|placed| match &placed.slot {
        Slot::Decision(decision, at) => Some(DecisionShape {
            position: placed.position,
            created_at: at.to_string(),
            decision: printed(decision)?,
        }),
        _ => None,
    });
    Ok(DecisionsAnswer { decisions: decisions.collect() })
}

/// What to decide.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideShape {
    /// `pin`, `unpin` or `summarize`.
    decision: Kind,
    /// For `pin` and `unpin`: all positions of the groups.
    #[serde(default)]
    positions: Option<Vec<u64>>,
    /// For `pin` and `unpin`, instead of `positions`: the handle of a place in the conversation.
    #[serde(default)]
    handle: Option<String>,
    /// For `summarize`: how many of the newest turns stay as they are; 3 if not said.
    #[serde(default)]
    keep: Option<usize>,
    /// For `summarize`: the model that writes it, as in `openai:gpt-4o`; offline if not said.
    #[serde(default)]
    model: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pin,
    Unpin,
    Summarize,
}

/// The result.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decided")]
pub(crate) struct DecideAnswer {
    /// Position of the decision; null if none was needed.
    position: Option<u64>,
    /// First and last position a summary covers.
    covers: Option<(u64, u64)>,
    /// What the summary says.
    summary: Option<String>,
    /// Why nothing was decided: `under_bound`, `stale`.
    reason: Option<&'static str>,
}

async fn decide(asking: ApiRequest, wish: DecideShape) -> Result<DecideAnswer, HttpProblem> {
    let (id, now) = (asking.conversation()?, asking.app.now());
    if let (Kind::Pin | Kind::Unpin, Some(handle), None, None, None) =
        (wish.decision, &wish.handle, &wish.positions, wish.keep, &wish.model)
    {
        return pin_handle(asking, &id, wish.decision, handle).await;
    }
    if wish.handle.is_some() {
        let detail = "`handle` is for `pin` and `unpin`, without `positions`, `keep` and `model`";
        return Err(HttpProblem::bad_request("bad_request", detail));
    }
    let decision = match (wish.decision, wish.positions, wish.keep, wish.model) {
        (Kind::Pin, Some(positions), None, None) => Decision::Pin { positions },
        (Kind::Unpin, Some(positions), None, None) => Decision::Unpin { positions },
        (Kind::Summarize, None, keep, model) => {
            return summarize(asking, keep.unwrap_or(3), model.as_deref()).await;
        }
        (Kind::Summarize, Some(_), _, _) => {
            return Err(HttpProblem::bad_request(
                "bad_request",
                "`summarize` takes `keep` and `model`, not `positions`",
            ));
        }
        (Kind::Pin | Kind::Unpin, ..) => {
            return Err(HttpProblem::bad_request(
                "bad_request",
                "`pin` and `unpin` take `positions` or `handle`, and nothing else",
            ));
        }
    };
    let appended =
        asking.app.store.append(asking.tenant(), now, &id, Expected::Any, vec![decision.into()]).await?;
    super::events::recorded(&asking.app, asking.tenant(), &id, appended.first, "decision");
    Ok(DecideAnswer { position: Some(appended.first), covers: None, summary: None, reason: None })
}

/// Pins the groups that a handle names, or pins them no longer.
async fn pin_handle(
    asking: ApiRequest,
    id: &ConversationId,
    kind: Kind,
    handle: &str,
) -> Result<DecideAnswer, HttpProblem> {
    let no_such_handle = |detail: String| HttpProblem::new(StatusCode::NOT_FOUND, "no_such_handle", detail);
    let handle: Handle = handle.parse().map_err(|error: BadHandle| no_such_handle(error.to_string()))?;
    if !handle.tail().is_of(id.as_str()) {
        return Err(HttpProblem::bad_request("bad_request", format!("{handle} is in another conversation")));
    }
    let pinning = if matches!(kind, Kind::Unpin) { Pinning::Unpin } else { Pinning::Pin };
    let (store, now) = (asking.app.store.as_ref(), asking.app.now());
    match recall::pin(store, asking.tenant(), &handle, pinning, now).await {
        Ok((id, _, position)) => {
            super::events::recorded(&asking.app, asking.tenant(), &id, position, "decision");
            Ok(DecideAnswer { position: Some(position), covers: None, summary: None, reason: None })
        }
        Err(NoAnswer::Store(error)) => Err(error.into()),
        Err(refused) => Err(no_such_handle(refused.to_string())),
    }
}

/// Older turns become a summary, written by a model or offline.
async fn summarize(
    asking: ApiRequest,
    keep: usize,
    model: Option<&str>,
) -> Result<DecideAnswer, HttpProblem> {
    let (id, now) = (asking.conversation()?, asking.app.now());
    let writer: Box<dyn Summarizer> = match model {
        None | Some("offline") => Box::new(Offline),
        Some(name) => {
            let model = recorded_calls::provider_named(&asking.app, name)?;
            // A model costs, as any other request does.
            quota::admit(&asking.app, &asking.caller).await?;
            Box::new(ModelSummarizer::new(model))
        }
    };
    let settings = HistorySettings {
        max_turns_before_compaction: keep + 1,
        recent_turns_to_keep: keep,
        ..HistorySettings::default()
    };
    let done = compact(asking.app.store.as_ref(), asking.tenant(), &id, &settings, &*writer, now).await?;
    let nothing = |reason| DecideAnswer { position: None, covers: None, summary: None, reason: Some(reason) };
    match done {
        Compaction::Done { covers, text, position } => {
            super::events::recorded(&asking.app, asking.tenant(), &id, position, "decision");
            Ok(DecideAnswer {
                position: Some(position),
                covers: Some(covers),
                summary: Some(text),
                reason: None,
            })
        }
        Compaction::UnderBound => Ok(nothing("under_bound")),
        Compaction::Stale => Ok(nothing("stale")),
        Compaction::Failed(why) => Err(HttpProblem::new(StatusCode::BAD_GATEWAY, "summary_failed", why)),
    }
}
