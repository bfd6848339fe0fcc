//! Turns as entries of the record, and entries as turns. What is written down is enough to make every request again.

use std::time::Duration;

use scrollback_agent::runner::AttemptUsage;
use scrollback_core::model::ModelName;
use scrollback_core::tokens::Counter;
use scrollback_core::{BlockKind, Entry, Meta, Record, Role, Slot};
use scrollback_lisp::{Definition, Map as Values, Memory, Signature, Text, ToolRecord, Value};
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use super::case;
use super::compression::{Chosen, normalize};
use super::error::SubagentError;
use super::input::{Input, ToolLine};
use super::turn::{Turn, TurnError, TurnUsage, changed};

/// The whole reply: what was thought, then what was said.
pub(crate) fn raw_response(entry: &Entry) -> String {
    let thought = entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Reasoning(reasoning) => {
            let texts = reasoning.text.iter().chain(&reasoning.summaries);
            Some(texts.map(|text| text.as_str().into_owned()).collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    });
    let parts = thought.chain([said(entry)]).filter(|text| !text.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

/// What a reply says, without what was only thought.
pub(crate) fn said(entry: &Entry) -> String {
    let texts = entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) => Some(text.as_str().into_owned()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a mission begins with, beside its text.
pub(crate) struct Opening<'a> {
    pub(crate) agent: &'a str,
    pub(crate) input: &'a Input,
    pub(crate) compression: &'a Chosen,
    pub(crate) parent: Option<Uuid>,
    pub(crate) model: &'a ModelName,
}

/// The entry of the mission.
pub(crate) fn mission_entry(text: &str, opening: &Opening<'_>) -> Entry {
    let input = opening.input;
    let tool = |tool: &ToolLine| json!({ "name": tool.name, "signature": tool.signature.as_ref().map(ToString::to_string), "description": tool.description });
    let data: Map<String, Json> =
        input.data.iter().map(|(name, value)| (name.clone(), saved(value))).collect();
    let mut about = json!({
        "number": 0,
        "agent": opening.agent,
        "mission": input.mission,
        "signature": input.signature.as_ref().map(ToString::to_string),
        "tools": input.tools.iter().map(tool).collect::<Vec<_>>(),
        "data": data,
        "max_turns": input.max_turns,
        "retry_turns": input.retry_turns,
        "compression": opening.compression.to_json(),
        "model": opening.model.to_string(),
        "parent": opening.parent.map(|id| id.to_string()),
    });
    if !input.descriptions.is_empty() {
        about["descriptions"] = json!(input.descriptions);
    }
    with_turn(Entry::text(Role::User, text), about)
}

/// What a turn leaves beside its fields.
pub(crate) struct Left<'a> {
    /// The hash of what the call was sent.
    pub(crate) sent: &'a str,
    /// The hash of the instructions, and the version of what made them.
    pub(crate) system: (&'a str, &'a str),
    /// The evaluations of agents that were called.
    pub(crate) children: &'a [Uuid],
    /// Turns that the agent and those it called have used together.
    pub(crate) family_turns: usize,
    /// What the agent is called, where another one called it.
    pub(crate) called: Option<&'a str>,
    /// The end this turn brought.
    pub(crate) end: Option<&'static str>,
}

/// The entry of what a turn came to. Of the memory only what changed is written down.
pub(crate) fn turn_entry(turn: &Turn, before: &Memory, feedback: &str, left: &Left<'_>) -> Entry {
    let (memory, opaque) = changes(before, &turn.memory);
    let mut about = json!({
        "number": turn.number,
        "program": turn.program,
        "result": turn.result.as_ref().map(saved),
        "prints": turn.prints,
        "tool_calls": turn.tool_calls.iter().map(call_saved).collect::<Vec<_>>(),
        "success": turn.success(),
        "memory": memory,
        "defined": turn.defined,
        "usage": usage_saved(&turn.usage),
        "sent": left.sent,
        "system": { "hash": left.system.0, "version": left.system.1 },
    });
    if let Some(error) = &turn.error {
        about["error"] = json!({ "reason": error.reason, "message": error.message });
    }
    if !opaque.is_empty() {
        about["opaque"] = Json::Object(opaque);
    }
    if !left.children.is_empty() {
        about["children"] = left.children.iter().map(ToString::to_string).collect();
    }
    if let Some(name) = left.called {
        about["agent"] = json!(name);
    }
    if left.family_turns > turn.number {
        about["family_turns"] = json!(left.family_turns);
    }
    if let Some(end) = left.end {
        about["end"] = json!(end);
    }
    with_turn(Entry::text(Role::User, feedback), about)
}

fn with_turn(mut entry: Entry, about: Json) -> Entry {
    entry.meta = Some(Box::new(Meta { turn: Some(about), ..Meta::default() }));
    entry
}

/// The definitions that changed, and those of them that cannot be written down, as they print.
fn changes(before: &Memory, after: &Memory) -> (Json, Map<String, Json>) {
    let mut different = Memory::default();
    let names = changed(before, after).into_iter();
    let called = after
        .iter()
        .filter(|(name, definition)| before.get(name).is_some_and(|old| old.returns != definition.returns));
    let names = names.chain(called.map(|(name, _)| name.to_string()));
    for name in names {
        if let Some(definition) = after.get(&name) {
            different.insert(&name, definition.clone());
        }
    }
    let saved = different.to_json();
    let opaque = saved.skipped.iter().filter_map(|name| {
        let definition = different.get(name)?;
        let printed = definition.value.as_ref().map(ToString::to_string);
        let doc = definition.doc.as_ref().map(Text::as_str);
        Some((name.clone(), json!({ "printed": printed, "doc": doc, "returns": definition.returns })))
    });
    let opaque = opaque.collect();
    (serde_json::from_str(&saved.json).unwrap_or_default(), opaque)
}

/// A value so that it can be made again; one that cannot, as it prints.
fn saved(value: &Value) -> Json {
    match value.save() {
        Some(text) => serde_json::from_str(&text).unwrap_or_default(),
        None => json!({ "printed": value.to_string() }),
    }
}

fn restored(saved: &Json) -> Result<Value, SubagentError> {
    match saved.get("printed").and_then(Json::as_str) {
        Some(printed) => Ok(case::value(printed, "").unwrap_or_default()),
        None => Value::restore(&saved.to_string()).map_err(SubagentError::record),
    }
}

fn call_saved(call: &ToolRecord) -> Json {
    let mut object = json!({ "name": call.name, "args": saved(&Value::Map(call.args.clone())) });
    match &call.result {
        Ok(result) => object["result"] = saved(result),
        Err(error) => object["error"] = json!(error),
    }
    if let Some(duration) = call.duration {
        object["microseconds"] = json!(duration.as_micros() as u64);
    }
    object
}

fn call_restored(saved: &Json) -> Result<ToolRecord, SubagentError> {
    let args = match saved.get("args").map(restored).transpose()? {
        Some(Value::Map(args)) => args,
        _ => Values::default(),
    };
    let result = match saved.get("result") {
        Some(result) => Ok(restored(result)?),
        None => Err(text(saved, "error").unwrap_or_default()),
    };
    let duration = saved.get("microseconds").and_then(Json::as_u64).map(Duration::from_micros);
    Ok(ToolRecord { name: text(saved, "name").unwrap_or_default(), args, result, duration })
}

fn usage_saved(usage: &TurnUsage) -> Json {
    json!({
        "model": usage.model,
        "fuel": usage.fuel,
        "memory_bytes": usage.memory_bytes,
        "microseconds": usage.time.as_micros() as u64,
    })
}

fn usage_restored(saved: &Json) -> TurnUsage {
    let number = |value: &Json, name: &str| value.get(name).and_then(Json::as_u64).unwrap_or(0);
    let model = saved.get("model").cloned().unwrap_or_default();
    TurnUsage {
        model: AttemptUsage {
            input: number(&model, "input"),
            output: number(&model, "output"),
            cache_read: number(&model, "cache_read"),
            cache_write: number(&model, "cache_write"),
            cache_write_1h: number(&model, "cache_write_1h"),
            cost_usd: model.get("cost_usd").and_then(Json::as_f64),
            estimated: model.get("estimated").and_then(Json::as_bool).unwrap_or(false),
        },
        fuel: number(saved, "fuel"),
        memory_bytes: number(saved, "memory_bytes") as usize,
        time: Duration::from_micros(number(saved, "microseconds")),
    }
}

/// A mission as its record has it.
pub struct RecordedMission {
    /// Its evaluation.
    pub trace_id: Uuid,
    /// The evaluation of the agent that called it.
    pub parent_trace_id: Option<Uuid>,
    /// What the agent is called.
    pub agent: String,
    /// What it was given.
    pub input: Input,
    /// How its history was told.
    pub compression: Chosen,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// For each turn, the hash of what its call was sent.
    pub sent: Vec<String>,
    /// The end that its last turn brought.
    pub end: Option<String>,
    /// The evaluations of agents it called.
    pub children: Vec<Uuid>,
    /// Turns that it and the agents it called have used together.
    pub(crate) family_turns: usize,
    /// A reply whose program has not been run to its end: where it stands.
    pub(crate) unplayed: Option<u64>,
    /// Where the mission stands, and where the replies and their results.
    pub(crate) positions: Positions,
    pub(crate) first: u64,
    pub(crate) next_sequence: u64,
}

/// Where things stand in the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    pub(crate) system: Option<u64>,
    pub(crate) mission: u64,
    pub(crate) turns: Vec<(u64, u64)>,
}

impl RecordedMission {
    /// Rebuilds the newest mission of a record.
    pub fn of(record: &Record) -> Result<Self, SubagentError> {
        let entries = (0_u64..).zip(record.slots()).filter_map(|(at, slot)| match slot {
            Slot::Message(entry) => Some((at, &**entry)),
            _ => None,
        });
        let all: Vec<(u64, &Entry)> = entries.collect();
        let newest = all.iter().rev().find(|(_, entry)| number(entry) == Some(0)).copied();
        let Some((at, mission)) = newest else {
            return Err(SubagentError::record("there is no mission in it"));
        };
        // An earlier mission of the record may have said the same instructions; they are not repeated.
        let system =
            all.iter().rev().find(|(place, entry)| *place < at && entry.role == Role::System).copied();
        let id = mission.evaluation_id;
        let own: Vec<(u64, &Entry)> =
            all.into_iter().filter(|(_, entry)| entry.evaluation_id == id).collect();
        RecordedMission::read((at, mission), system, &own)
    }

    fn read(
        (mission_at, mission): (u64, &Entry),
        system: Option<(u64, &Entry)>,
        own: &[(u64, &Entry)],
    ) -> Result<Self, SubagentError> {
        let about = turn_of(mission);
        let mut recorded = RecordedMission {
            trace_id: mission.evaluation_id,
            parent_trace_id: text(&about, "parent").and_then(|id| id.parse().ok()),
            agent: text(&about, "agent").unwrap_or_default(),
            input: input(&about, system.and_then(|(_, entry)| entry.content()).unwrap_or_default())?,
            compression: normalize(about.get("compression").unwrap_or(&Json::Null))
                .map_err(SubagentError::record)?,
            turns: Vec::new(),
            sent: Vec::new(),
            end: None,
            children: Vec::new(),
            family_turns: 0,
            unplayed: None,
            positions: Positions { system: system.map(|(at, _)| at), mission: mission_at, turns: Vec::new() },
            first: own.first().map_or(0, |(at, _)| *at),
            next_sequence: own.last().map_or(0, |(_, entry)| entry.sequence + 1),
        };
        let mut memory = Memory::default();
        let mut reply: Option<(u64, &Entry)> = None;
        for (at, entry) in own {
            if entry.role == Role::Assistant && entry.status() == scrollback_core::Status::Complete {
                reply = Some((*at, entry));
            } else if number(entry).is_some_and(|number| number > 0) {
                let Some((reply_at, said)) = reply.take() else {
                    return Err(SubagentError::record("a turn has no reply"));
                };
                recorded.positions.turns.push((reply_at, *at));
                recorded.take(&turn_of(entry), said, &mut memory)?;
            }
        }
        recorded.unplayed = reply.map(|(at, _)| at);
        recorded.family_turns += usize::from(recorded.unplayed.is_some());
        Ok(recorded)
    }

    fn take(&mut self, about: &Json, said: &Entry, memory: &mut Memory) -> Result<(), SubagentError> {
        let changes = about.get("memory").cloned().unwrap_or_else(|| json!({}));
        memory.extend_json(&changes.to_string()).map_err(SubagentError::record)?;
        for (name, opaque) in about.get("opaque").and_then(Json::as_object).into_iter().flatten() {
            memory.insert(
                name,
                Definition {
                    value: Some(restored(opaque)?),
                    doc: text(opaque, "doc").map(Text::from),
                    returns: text(opaque, "returns").map(Into::into),
                    run: 0,
                },
            );
        }
        let list = |name: &str| about.get(name).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let texts = |name: &str| list(name).iter().filter_map(Json::as_str).map(String::from).collect();
        let error = about.get("error").map(|error| TurnError {
            reason: text(error, "reason").unwrap_or_default(),
            message: text(error, "message").unwrap_or_default(),
        });
        self.turns.push(Turn {
            number: self.turns.len() + 1,
            raw_response: raw_response(said),
            program: text(about, "program"),
            result: about.get("result").filter(|saved| !saved.is_null()).map(restored).transpose()?,
            prints: texts("prints"),
            tool_calls: list("tool_calls").iter().map(call_restored).collect::<Result<_, _>>()?,
            memory: memory.clone(),
            error,
            usage: about.get("usage").map(usage_restored).unwrap_or_default(),
            defined: texts("defined"),
        });
        self.sent.push(text(about, "sent").unwrap_or_default());
        self.children.extend(list("children").iter().filter_map(|id| id.as_str()?.parse::<Uuid>().ok()));
        let used = about.get("family_turns").and_then(Json::as_u64).map(|turns| turns as usize);
        self.family_turns = used.unwrap_or(self.turns.len());
        self.end = text(about, "end");
        Ok(())
    }

    /// The definitions after the last turn.
    pub fn memory(&self) -> Memory {
        self.turns.last().map(|turn| turn.memory.clone()).unwrap_or_default()
    }
}

fn input(about: &Json, system: String) -> Result<Input, SubagentError> {
    let signature = |value: &Json| -> Result<Option<Signature>, SubagentError> {
        let text = text(value, "signature");
        text.map(|text| Signature::parse(&text)).transpose().map_err(SubagentError::record)
    };
    let mut tools = Vec::new();
    for tool in about.get("tools").and_then(Json::as_array).into_iter().flatten() {
        tools.push(ToolLine {
            name: text(tool, "name").unwrap_or_default(),
            signature: signature(tool)?,
            description: text(tool, "description"),
        });
    }
    let mut input =
        Input { mission: text(about, "mission").unwrap_or_default(), tools, system, ..Input::default() };
    input.signature = signature(about)?;
    for (name, saved) in about.get("data").and_then(Json::as_object).into_iter().flatten() {
        input.data.insert(name.clone(), restored(saved)?);
    }
    for (name, text) in about.get("descriptions").and_then(Json::as_object).into_iter().flatten() {
        input.descriptions.insert(name.clone(), text.as_str().unwrap_or_default().into());
    }
    let count = |name: &str| about.get(name).and_then(Json::as_u64).map(|count| count as usize);
    input.max_turns = count("max_turns").unwrap_or(input.max_turns);
    input.retry_turns = count("retry_turns").unwrap_or(0);
    let model = text(about, "model").and_then(|model| ModelName::parse(&model).ok());
    input.counter = Counter::for_model(model.as_ref());
    Ok(input)
}

fn turn_of(entry: &Entry) -> Json {
    entry.meta.as_ref().and_then(|meta| meta.turn.clone()).unwrap_or_default()
}

fn number(entry: &Entry) -> Option<u64> {
    entry.meta.as_ref()?.turn.as_ref()?.get("number")?.as_u64()
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(String::from)
}
