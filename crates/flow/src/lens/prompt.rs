//! What the model calls of a step were really sent: the request that went out, and where each message came from.

use std::collections::BTreeMap;

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Entry, Role, json as core_json};
use scrollback_store::{Run, Sent};
use serde_json::{Value, json};

use super::{Lens, Reveal, Talk, positions, read, talks, text_of};
use crate::driver::{RunRefused, name_of};
use crate::passed_values::EntryId;

/// Whether the request's body is part of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithBody {
    /// Only its messages.
    #[default]
    Messages,
    /// All of it.
    Whole,
}

impl Lens<'_> {
    /// The calls of a step, by name or key, oldest first; none if the run has no such step.
    pub async fn prompt(&self, run: &Run, step: &str, body: WithBody) -> Result<Option<Value>, RunRefused> {
        let events = self.store.events(self.tenant, &run.id, 0).await?;
        let steps = self.store.steps(self.tenant, &run.id).await?;
        let is_it = |key: &str| key == step || name_of(key) == step && !key.contains('~');
        let record = self.record(run).await?;
        let (places, talks) = (positions(&record), talks(&record));
        let sent = match &run.conversation {
            Some(id) => self.store.sent(self.tenant, id).await?,
            None => Vec::new(),
        };
        let sent: BTreeMap<&str, &Sent> = sent.iter().map(|sent| (sent.id.as_str(), sent)).collect();
        let mut calls = Vec::new();
        for event in events.iter().filter(|event| event.kind == "agent.prompt") {
            let Some(key) = event.key.as_deref().filter(|key| is_it(key)) else { continue };
            let data = read(event.data.as_deref());
            let request =
                data["sent"].as_str().and_then(|id| sent.get(id)).and_then(|sent| sent.request.as_deref());
            let talk = data["scope"].as_str().and_then(|scope| talks.get(scope));
            let told = TracedRequest { data: &data, talk, places: &places };
            calls.push(self.call(key, &told, request, body));
        }
        let known = calls.is_empty().then(|| steps.iter().any(|row| is_it(&row.key)));
        Ok((known != Some(false)).then(|| json!({ "run": run.id, "step": step, "calls": calls })))
    }

    fn call(&self, key: &str, told: &TracedRequest<'_>, request: Option<&[u8]>, body: WithBody) -> Value {
        let data = told.data;
        let text = request.map(String::from_utf8_lossy).unwrap_or_default();
        let entries = parsed(&text, data["wire"].as_str().unwrap_or_default());
        let mut redactions: BTreeMap<&str, usize> = BTreeMap::new();
        let messages: Vec<Value> = told
            .sources(&entries)
            .into_iter()
            .zip(&entries)
            .map(|((source, entry), said)| {
                let whole = content(said);
                let found = self.redactor.text(&whole);
                for (kind, count) in found.counts() {
                    *redactions.entry(kind).or_default() += count;
                }
                let shown = if self.reveal == Reveal::Everything { &whole } else { found.text.as_ref() };
                json!({ "role": said.role, "content": shown, "source": source, "entry": entry })
            })
            .collect();
        let injected = data["conversation_injected"] == json!(true);
        let mut call = json!({
            "key": key,
            "call": data["call"],
            "attempt": data["attempt"],
            "model": data["model"],
            "wire": data["wire"],
            "mode": data["mode"],
            "conversation_injected": injected,
            "badge": injected.then_some("conversation injected"),
            "messages": messages,
            "left_out": told.left_out(),
            "tokens": data["tokens"],
            "request_hash": data["request_hash"],
            "redactions": redactions,
        });
        if let Some(members) = call.as_object_mut().filter(|_| body == WithBody::Whole) {
            let whole = serde_json::from_str(&text).unwrap_or(Value::Null);
            members.insert("request".into(), self.shown_value(whole));
        }
        call
    }
}

/// What a trace says about a request.
struct TracedRequest<'a> {
    data: &'a Value,
    talk: Option<&'a Talk>,
    places: &'a BTreeMap<EntryId, u64>,
}

impl TracedRequest<'_> {
    /// Where each message of the request comes from, and the entry it is.
    fn sources(&self, entries: &[Entry]) -> Vec<(&'static str, Option<u64>)> {
        let count = |name: &str| self.data[name].as_u64().unwrap_or(0) as usize;
        let own = count("own");
        let named = |source: &str| {
            let listed = self.data["entries"].as_array().into_iter().flatten();
            listed.filter(|entry| entry["source"] == source).find_map(|entry| self.position(&entry["entry"]))
        };
        let leading = entries.iter().take_while(|entry| entry.role == Role::System).count();
        let listed = self.data["entries"].as_array().into_iter().flatten();
        let systems = listed.filter(|entry| entry["source"] == "system").count();
        let input = entries.len().saturating_sub(own + 1);
        // A message per turn; tool exchanges that stand among them are none.
        let is_turn = |entry: &Entry| entry.role != Role::Tool && entry.tool_calls().next().is_none();
        let history = entries.get(leading..input).unwrap_or_default();
        let turns = history.iter().filter(|entry| is_turn(entry)).count();
        let mut numbers = self.turns().into_iter();
        let branch = count("branch");
        let summary = turns.saturating_sub(numbers.len() + branch);
        let own_entries = self.own(own);
        let mut seen = 0;
        entries
            .iter()
            .enumerate()
            .map(|(number, entry)| {
                if number < leading {
                    // A summary may stand among the instructions.
                    if number < systems { ("system", named("system")) } else { ("summary", None) }
                } else if number == input {
                    ("input", named("input"))
                } else if number > input {
                    ("step", own_entries.get(number - input - 1).copied().flatten())
                } else if !is_turn(entry) {
                    ("history", None)
                } else {
                    seen += 1;
                    if seen <= summary { ("summary", None) } else { ("history", numbers.next()) }
                }
            })
            .collect()
    }

    /// The entries of the turns that were sent.
    fn turns(&self) -> Vec<u64> {
        let turns = self.talk.map(|talk| talk.turns.as_slice()).unwrap_or_default();
        let runs = self.data["turns"].as_array().into_iter().flatten();
        runs.flat_map(|run| {
            let end = |place: usize| run.get(place).and_then(Value::as_u64).unwrap_or(0) as usize;
            let sent = turns.get(end(0).saturating_sub(1)..end(1)).unwrap_or_default();
            sent.iter().map(|turn| turn.entry).collect::<Vec<_>>()
        })
        .collect()
    }

    /// The step's own exchanges: what its evaluation said after its input.
    fn own(&self, count: usize) -> Vec<Option<u64>> {
        let first = self.data["own_from"].as_str().and_then(id_of);
        let Some(first) = first else { return vec![None; count] };
        let entry = |number: usize| EntryId { sequence: first.sequence + number as u64, ..first };
        (0..count).map(|number| self.places.get(&entry(number)).copied()).collect()
    }

    fn position(&self, named: &Value) -> Option<u64> {
        self.places.get(&id_of(named.as_str()?)?).copied()
    }

    /// What was not sent, entry by entry, with who left it out and why.
    fn left_out(&self) -> Vec<Value> {
        let turns = self.talk.map(|talk| talk.turns.as_slice()).unwrap_or_default();
        let mut left = Vec::new();
        for run in self.data["left_out"].as_array().into_iter().flatten() {
            let tell = |entry: Option<u64>| json!({ "entry": entry, "manager": run["manager"], "reason": run["reason"] });
            match run["turns"].as_array().map(Vec::as_slice) {
                Some([first, last]) => {
                    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
                    let gone = turns.get(number(first).saturating_sub(1)..number(last)).unwrap_or_default();
                    left.extend(gone.iter().map(|turn| tell(Some(turn.entry))));
                }
                _ => left.push(tell(self.position(&run["entry"]))),
            }
        }
        left
    }
}

fn id_of(named: &str) -> Option<EntryId> {
    let (evaluation, sequence) = named.split_once('/')?;
    Some(EntryId { evaluation: evaluation.parse().ok()?, sequence: sequence.parse().ok()? })
}

/// The messages of a request as roles and texts, secrets included.
pub(crate) fn messages(request: &[u8], wire: &str) -> Value {
    let entries = parsed(&String::from_utf8_lossy(request), wire);
    entries.iter().map(|said| json!({ "role": said.role, "content": content(said) })).collect()
}

/// The messages of a request.
fn parsed(text: &str, wire: &str) -> Vec<Entry> {
    let wire = Wire::named(wire).unwrap_or(Wire::OpenaiChat);
    let body = core_json::check(text).ok().and_then(|raw| wire.parse(raw, &ParseOptions::default()).ok());
    body.map_or_else(Vec::new, |body| body.entries)
}

/// What a message says: its text, and the calls and results in it.
fn content(entry: &Entry) -> String {
    let mut parts = Vec::new();
    let text = if entry.tool_result().is_some() {
        entry.content().unwrap_or_default()
    } else {
        text_of(entry, None)
    };
    if !text.is_empty() {
        parts.push(text);
    }
    parts.extend(
        entry.tool_calls().map(|call| format!("{}({})", call.name.as_str(), call.arguments.as_str())),
    );
    parts.join("\n")
}
