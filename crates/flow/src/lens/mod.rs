//! Runs as people and programs look at them: from what is stored, and from nothing else.
//!
//! Texts come without the secrets in them, unless the caller asks for them ([`Reveal::Everything`]). Whole texts are
//! redacted before anything is cut.

mod prompt;
mod show;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scrollback_core::redact::Redactor;
use scrollback_core::{Decision, Entry, Record, Role, Slot, Time};
use scrollback_store::{Event, Run, Sent, Span, Step, Store, Tenant};
use serde_json::{Value, json};

use crate::driver::{RunRefused, RunStatus, current_status};
use crate::passed_values::EntryId;
use crate::turns::field_text;
use crate::usage::RunUsage;
pub use prompt::WithBody;
pub(crate) use prompt::messages;
pub use standing::{run_named, run_page};

/// Whether secrets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reveal {
    /// They are taken out.
    #[default]
    Redacted,
    /// Everything is shown as it was said.
    Everything,
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Only those that stand so.
    pub status: Option<RunStatus>,
    /// Only those of this flow or agent.
    pub flow: Option<String>,
    /// How many.
    pub limit: usize,
}

/// Looks at the runs of one tenant.
pub struct Lens<'a> {
    /// Where they are.
    pub store: &'a Arc<dyn Store>,
    /// Whose they are.
    pub tenant: &'a Tenant,
    /// What takes secrets out.
    pub redactor: &'a Redactor,
    /// Whether it does.
    pub reveal: Reveal,
    /// The time, which tells runs under way from those whose process died.
    pub now: Time,
}

/// Runs read at once while those that are wanted are looked for.
const PAGE: usize = 10_000;

impl Lens<'_> {
    /// The newest runs, as a document.
    pub async fn list(&self, listing: &Listing) -> Result<Value, RunRefused> {
        let all = listing.status.is_none() && listing.flow.is_none();
        let found = self.store.runs(self.tenant, "", if all { listing.limit } else { PAGE }).await?;
        let wanted = found.into_iter().filter(|run| {
            listing.status.is_none_or(|status| current_status(run, self.now) == status)
                && listing.flow.as_ref().is_none_or(|flow| run.name == *flow)
        });
        let mut runs = Vec::new();
        for run in wanted.take(listing.limit) {
            let steps = self.store.steps(self.tenant, &run.id).await?;
            runs.push(json!({
                "run": run.id,
                "flow": run.name,
                "status": current_status(&run, self.now),
                "created_at": run.started_at.to_string(),
                "updated_at": updated(&run, &steps).to_string(),
                "steps": steps.len(),
                "usage": usage(&run, &steps),
            }));
        }
        Ok(json!({ "runs": runs }))
    }

    /// The events of a run for elsewhere, one object each: as in the trace, with the run's id, and with each prompt the
    /// messages that were sent.
    pub async fn exported(&self, run: &Run) -> Result<Vec<Value>, RunRefused> {
        let sent = match &run.conversation {
            Some(id) => self.store.sent(self.tenant, id).await?,
            None => Vec::new(),
        };
        let sent: BTreeMap<&str, &Sent> = sent.iter().map(|sent| (sent.id.as_str(), sent)).collect();
        let mut events = Vec::new();
        for event in self.store.events(self.tenant, &run.id, 0).await? {
            let mut shown = self.event(&event);
            let request = shown["data"]["sent"].as_str().and_then(|id| sent.get(id).copied());
            if let Some((sent, body)) = request.and_then(|sent| Some((sent, sent.request.as_deref()?)))
                && event.kind == "agent.prompt"
            {
                shown["data"]["messages"] = self.shown_value(messages(body, &sent.wire));
            }
            shown["run"] = json!(run.id);
            events.push(shown);
        }
        Ok(events)
    }

    fn event(&self, event: &Event) -> Value {
        json!({
            "sequence": event.sequence,
            "time": event.at.to_string(),
            "key": event.key,
            "type": event.kind,
            "data": self.shown_value(read(event.data.as_deref())),
        })
    }

    /// Spans and events of a run, as a document.
    pub async fn trace(&self, run: &Run) -> Result<Value, RunRefused> {
        let time = |time: Option<Time>| time.map(|time| time.to_string());
        let spans: Vec<Value> = outside_in(self.store.spans(self.tenant, &run.id).await?)
            .into_iter()
            .map(|span| {
                json!({
                    "id": span.id,
                    "parent": span.parent,
                    "name": span.name,
                    "key": span.key,
                    "status": span.status,
                    "started_at": span.started_at.to_string(),
                    "ended_at": time(span.ended_at),
                    "attributes": self.shown_value(read(span.attributes.as_deref())),
                })
            })
            .collect();
        let events: Vec<Value> = self
            .store
            .events(self.tenant, &run.id, 0)
            .await?
            .into_iter()
            .map(|event| self.event(&event))
            .collect();
        Ok(json!({ "run": run.id, "spans": spans, "events": events }))
    }

    /// A text as it is shown.
    fn shown(&self, text: &str) -> String {
        match self.reveal {
            Reveal::Everything => text.into(),
            Reveal::Redacted => self.redactor.text(text).text.into_owned(),
        }
    }

    /// A value as it is shown.
    fn shown_value(&self, value: Value) -> Value {
        match self.reveal {
            Reveal::Everything => value,
            Reveal::Redacted => self.redactor.value(&value),
        }
    }

    /// What was said in a run.
    async fn record(&self, run: &Run) -> Result<Record, RunRefused> {
        Ok(match &run.conversation {
            Some(id) => self.store.record(self.tenant, id, None).await?,
            None => Record::new(),
        })
    }
}

/// A stored value; null if absent.
fn read(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// When something last happened to a run.
fn updated(run: &Run, steps: &[Step]) -> Time {
    let times = steps.iter().filter_map(|step| step.ended_at.or(step.started_at));
    times.chain(run.ended_at).max().unwrap_or(run.started_at)
}

/// What a run used: its steps know best, while it is under way too.
fn usage(run: &Run, steps: &[Step]) -> Value {
    let used = steps.iter().filter_map(|step| serde_json::from_str::<RunUsage>(step.usage.as_deref()?).ok());
    let summed = used.fold(RunUsage::default(), RunUsage::and);
    if summed.calls == 0 {
        let whole = run.usage.as_deref().and_then(|text| serde_json::from_str::<RunUsage>(text).ok());
        return json!(whole.unwrap_or_default());
    }
    json!(summed)
}

/// One turn of a stored conversation.
struct Marked {
    role: Role,
    text: String,
    entry: u64,
    evaluation: uuid::Uuid,
    /// Where the mark stands.
    at: u64,
}

/// A stored conversation: every turn in order, and what stands for the oldest.
#[derive(Default)]
struct Talk {
    turns: Vec<Marked>,
    /// Position, first and last turn from 1, text.
    summaries: Vec<(u64, (usize, usize), String)>,
}

/// The conversations of a record, by scope.
fn talks(record: &Record) -> BTreeMap<String, Talk> {
    let mut talks: BTreeMap<String, Talk> = BTreeMap::new();
    for (at, slot) in (0u64..).zip(record.slots()) {
        let Slot::Decision(decision, _) = slot else { continue };
        match &**decision {
            Decision::Turn { scope, entry, role, field } => {
                let Some(said) = record.entry(*entry) else { continue };
                let text = text_of(said, field.as_deref());
                let turn = Marked { role: *role, text, entry: *entry, evaluation: said.evaluation_id, at };
                talks.entry(scope.clone()).or_default().turns.push(turn);
            }
            Decision::Summary { covers, text, scope: Some(scope), .. } => {
                let talk = talks.entry(scope.clone()).or_default();
                let covered =
                    |entry: u64| covers.iter().any(|(first, last)| (*first..=*last).contains(&entry));
                let numbers = (1..).zip(&talk.turns).filter(|(_, turn)| turn.at < at && covered(turn.entry));
                let numbers: Vec<usize> = numbers.map(|(number, _)| number).collect();
                if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
                    talk.summaries.push((at, (*first, *last), text.clone()));
                }
            }
            _ => {}
        }
    }
    talks
}

/// What a turn says: the text of its entry, or of one field of it.
fn text_of(entry: &Entry, field: Option<&str>) -> String {
    let text = crate::driver::spoken(entry);
    let of_field = field.and_then(|path| {
        let value: Value = serde_json::from_str(text.trim()).ok()?;
        field_text(&value, path)
    });
    of_field.unwrap_or(text)
}

/// Where entries stand, by evaluation and place.
fn positions(record: &Record) -> BTreeMap<EntryId, u64> {
    let said = (0u64..).zip(record.slots()).filter_map(|(at, slot)| match slot {
        Slot::Message(entry) => {
            Some((EntryId { evaluation: entry.evaluation_id, sequence: entry.sequence }, at))
        }
        _ => None,
    });
    said.collect()
}

/// Spans in the order they began, each after the one it is part of.
fn outside_in(spans: Vec<Span>) -> Vec<Span> {
    let mut inside: BTreeMap<Option<String>, Vec<Span>> = BTreeMap::new();
    let known: BTreeSet<String> = spans.iter().map(|span| span.id.clone()).collect();
    for span in spans {
        let parent = span.parent.clone().filter(|parent| known.contains(parent));
        inside.entry(parent).or_default().push(span);
    }
    let mut ordered = Vec::new();
    let take = |inside: &mut BTreeMap<Option<String>, Vec<Span>>, parent: Option<String>| {
        let mut found = inside.remove(&parent).unwrap_or_default();
        found.sort_by(|one, other| (other.started_at, &other.key).cmp(&(one.started_at, &one.key)));
        found
    };
    let mut next = take(&mut inside, None);
    while let Some(span) = next.pop() {
        next.extend(take(&mut inside, Some(span.id.clone())));
        ordered.push(span);
    }
    ordered
}

/// The steps of a run in the order they began.
fn in_order(mut steps: Vec<Step>, events: &[Event]) -> Vec<Step> {
    let mut started: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events.iter().filter(|event| matches!(event.kind.as_str(), "step.started" | "step.skipped"))
    {
        if let Some(key) = &event.key {
            started.entry(key).or_insert(event.sequence);
        }
    }
    steps.sort_by_key(|step| started.get(step.key.as_str()).copied().unwrap_or(u64::MAX));
    steps
}
