//! What calls saw, call by call, from the record alone: functions over core's views, pure but for the time they take.
//!
//! [`course`] repeats recorded calls for the lens's chart; [`simulate`] asks what another manager would have sent at every
//! call of a conversation. Both grow one record from its first place to its last, so their cost is that of the views.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use schemars::JsonSchema;
use scrollback_core::manager::SharedManager;
use scrollback_core::model::{ModelFacts, facts};
use scrollback_core::needs::{Kept, Needs, Stake};
use scrollback_core::request::{
    Asked as Wanted, Carries, ClientBody, Invalid, Policy, PrepareError, RequestTokens, prepare,
};
use scrollback_core::tokens::{Calibration, entry_tokens};
use scrollback_core::wire::{Body, Wire, list_key};
use scrollback_core::{
    CurationContext, CurationError, Decision, Entry, Epoch, HistoryManager, Item, Record, Role, Slot, Source,
    Time, Usage, View, settle_offline,
};
use serde::Serialize;

/// Providers read prompts from a cache from this many tokens on, in steps of [`CACHE_STEP`].
const CACHE_FROM: u64 = 1_024;
const CACHE_STEP: u64 = 128;

/// Tokens of a view by who said them. Summaries are counted apart from what was really said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByRole {
    /// Instructions.
    pub system: u64,
    /// What users said.
    pub user: u64,
    /// What the assistant said, its calls included.
    pub assistant: u64,
    /// Results of tools.
    pub tool: u64,
    /// Summaries that stand for older entries.
    pub summary: u64,
}

impl ByRole {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.system + self.user + self.assistant + self.tool + self.summary
    }

    fn add(&mut self, item: &Item, tokens: u64) {
        let place = match (&item.source, item.entry.role) {
            (Source::Summary { .. }, _) => &mut self.summary,
            (_, Role::System) => &mut self.system,
            (_, Role::User) => &mut self.user,
            (_, Role::Assistant) => &mut self.assistant,
            (_, Role::Tool) => &mut self.tool,
        };
        *place += tokens;
    }
}

/// One call to repeat.
pub struct Asked {
    /// The view was that of the record below this position.
    pub upto: u64,
    /// Who made it.
    pub manager: Arc<dyn HistoryManager>,
    /// For which model, with which tools.
    pub cx: CurationContext,
}

/// What one call saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Tokens by who said them.
    pub tokens: ByRole,
    /// Entries in the view.
    pub entries: usize,
    /// Messages in the record at that time.
    pub of: usize,
    /// Entries that are not what was said.
    pub changed: usize,
    /// The epoch, where a sticky manager was at work.
    pub epoch: Option<Epoch>,
    /// Tokens of the entries it has in common with the call before, from the start.
    pub shared: u64,
    /// Whether something the call before had is not there any more: the prefix was broken.
    pub cut: bool,
}

/// Repeats calls, which must be in the order of `upto`. A call whose view cannot be made is told so in its place.
pub fn course(slots: &[Slot], calls: &[Asked]) -> Vec<Result<Seen, CurationError>> {
    let mut record = Record::new();
    let mut places = slots.iter();
    let mut before: Vec<Item> = Vec::new();
    let mut seen = Vec::with_capacity(calls.len());
    for call in calls {
        while (record.len() as u64) < call.upto
            && let Some(slot) = places.next()
        {
            // What the store accepted once is accepted again.
            let _ = record.take(slot.clone());
        }
        seen.push(record.view(&call.cx, call.manager.as_ref()).map(|view| {
            let (sight, items) = look(&record, &view, &call.cx, &before, |place| place);
            before = items;
            sight
        }));
    }
    seen
}

/// Measures a view beside the one before it. Its entries are named by `position_of` their places in the record.
fn look(
    record: &Record,
    view: &View<'_>,
    cx: &CurationContext,
    before: &[Item],
    position_of: impl Fn(u64) -> u64,
) -> (Seen, Vec<Item>) {
    let mut items: Vec<Item> = view.items().collect();
    for item in &mut items {
        if let Source::Entry(place) = &mut item.source {
            *place = position_of(*place);
        }
    }
    let count = view.count(cx);
    let mut tokens = ByRole::default();
    for (item, count) in items.iter().zip(&count.per_entry) {
        tokens.add(item, *count as u64);
    }
    let same = before.iter().zip(&items).take_while(|(one, other)| says_the_same(one, other)).count();
    let shared = count.per_entry.iter().take(same).map(|count| *count as u64).sum();
    let seen = Seen {
        tokens,
        entries: items.len(),
        of: record.message_count(),
        changed: items.iter().filter(|item| item.is_changed()).count(),
        epoch: view.epoch(),
        shared,
        cut: same < before.len(),
    };
    (seen, items)
}

fn says_the_same(one: &Item, other: &Item) -> bool {
    one.source == other.source && (Arc::ptr_eq(&one.entry, &other.entry) || one.entry == other.entry)
}

/// What a manager would have sent over a whole conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// The candidate, as it was given.
    pub manager: String,
    /// Calls that were repeated.
    pub calls: u64,
    /// Tokens of all views together.
    pub input_tokens: u64,
    /// Of these, what a provider's cache would have held: the prefix shared with the call before.
    pub cache_read: u64,
    /// The rest, which is read anew and written to the cache.
    pub cache_write: u64,
    /// What it would have cost; null where the model's prices are not known.
    pub cost_usd: Option<f64>,
    /// The same in proportion to sending everything; null where a price is not known.
    pub cost_ratio: Option<f64>,
    /// The largest view, in tokens.
    pub peak: u64,
    /// How often the prefix was broken.
    pub cuts: u64,
    /// Tokens that were left out, over all calls.
    pub dropped_tokens: u64,
    /// Entries of views that were not as they were said, over all calls.
    pub rewritten: u64,
    /// Of the values in the arguments of calls that stood in the history, the share that the views still showed; null where
    /// nothing was used.
    pub argument_retention: Option<f64>,
    /// The same for identifiers, numbers and quoted names in the texts of replies.
    pub answer_grounding: Option<f64>,
    /// Both again where the manager's choice decides: calls whose view leaves something out, values that are not in the
    /// instructions, the task or the last tool group anyway.
    pub at_cut: Loss,
    /// Share of the views that hold the last user entry.
    pub task_kept: f64,
    /// Time one view took, in milliseconds: half of them took less.
    pub ms_p50: f64,
    /// The same: 99 of 100 took less.
    pub ms_p99: f64,
    /// Why the manager gave up at a call, if it did; the figures are those up to there.
    pub stopped: Option<String>,
    /// Call by call.
    pub per_call: Vec<CallFigures>,
}

/// What was still there of what replies used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Loss {
    /// Of the values in the arguments of calls; null where none was at stake.
    pub argument_retention: Option<f64>,
    /// Of the names in the texts of replies; null where none was at stake.
    pub answer_grounding: Option<f64>,
}

/// What one call would have been sent.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CallFigures {
    /// Position of the reply in the record: the call saw what lies before it.
    pub position: u64,
    /// Tokens of the view.
    pub tokens: u64,
    /// Entries in the view.
    pub entries: u64,
    /// Messages in the record at that time.
    pub of: u64,
    /// Tokens a provider's cache would have held.
    pub cache_read: u64,
    /// Whether the prefix was broken.
    pub cut: bool,
    /// Everything before this position is left out, but for what is held or pinned; null while nothing was cut.
    pub cut_before: Option<u64>,
}

/// Repeats every call of a conversation under a manager: each reply of the assistant was the answer to one.
///
/// Each request is made as the proxy makes it, and what it decided is recorded before the next one, so the cuts are those
/// that the proxy would make. What managers decided then is not repeated, because it may have been another manager; what people
/// and clients decided is: pins, new instructions, interrupted calls. Summaries are written offline. Where a reply reports its
/// input and the simulated request was cut where the recorded one was, estimates are corrected by it.
///
/// `needs` are those of the same conversation. Ends early where it is not `wanted` any more.
pub fn simulate(
    slots: &[Slot],
    needs: &Needs,
    name: &str,
    manager: &SharedManager,
    cx: &CurationContext,
    wanted: &AtomicBool,
) -> Figures {
    let wire = cx.wire.unwrap_or_else(|| spoken(slots));
    let cx = CurationContext { wire: Some(wire), ..cx.clone() };
    let mut run = Simulation::new(name, needs, manager, cx, wire);
    for (position, slot) in (0..).zip(slots) {
        if !wanted.load(Ordering::Relaxed) {
            run.figures.stopped = Some("nobody waits for it".into());
            break;
        }
        if let Slot::Message(entry) = slot
            && entry.role == Role::Assistant
            && run.record.message_count() > 0
            && let Err(error) = run.call(position, entry)
        {
            run.figures.stopped = Some(error.to_string());
            break;
        }
        run.hear(position, slot);
    }
    run.finish()
}

/// The wire of the last message.
fn spoken(slots: &[Slot]) -> Wire {
    let last = slots.iter().rev().find_map(|slot| match slot {
        Slot::Message(entry) => Some(entry.origin.wire),
        _ => None,
    });
    last.filter(|wire| *wire != Wire::Scrollback).unwrap_or(Wire::OpenaiChat)
}

/// A request that is made from the record alone, for a client whose settings are not known.
fn wanted_of(wire: Wire, cx: &CurationContext) -> Wanted {
    let key = list_key(wire);
    let around = Body::Object { raw: format!("{{\"{key}\":[]}}").into(), key };
    let client = ClientBody { bytes: Bytes::new(), carries: Carries::News, refers: false };
    Wanted::of_client(wire, cx.model.clone(), None, around, Vec::new(), client)
}

struct Simulation<'n> {
    figures: Figures,
    needs: &'n Needs,
    policy: Policy,
    asked: Wanted,
    cx: CurationContext,
    calibration: Calibration,
    /// What was said so far, and what the manager decided about it.
    record: Record,
    /// Where each place of the record stands in the conversation, and the other way round. They differ where the decisions do.
    positions: Vec<u64>,
    places: BTreeMap<u64, u64>,
    /// The newest cut of the manager, and the newest one in the conversation.
    cut: Option<u64>,
    cut_then: Option<u64>,
    kept_of_used: Kept,
    kept_at_cut: Kept,
    /// How long each view took, in milliseconds.
    times: Vec<f64>,
    before: Vec<Item>,
    /// Position of what the user said last.
    task: Option<u64>,
    kept: u64,
    output: u64,
    /// Tokens of everything said so far, entry by entry, as counted without a factor.
    said: Vec<usize>,
}

impl<'n> Simulation<'n> {
    fn new(name: &str, needs: &'n Needs, manager: &SharedManager, cx: CurationContext, wire: Wire) -> Self {
        let figures = Figures {
            manager: name.into(),
            calls: 0,
            input_tokens: 0,
            cache_read: 0,
            cache_write: 0,
            cost_usd: None,
            cost_ratio: None,
            peak: 0,
            cuts: 0,
            dropped_tokens: 0,
            rewritten: 0,
            argument_retention: None,
            answer_grounding: None,
            at_cut: Loss::default(),
            task_kept: 1.0,
            ms_p50: 0.0,
            ms_p99: 0.0,
            stopped: None,
            per_call: Vec::new(),
        };
        let asked = wanted_of(wire, &cx);
        // A manager that gives up ends the simulation with its reason; everything else is sent, as the proxy sends it.
        let policy = Policy { invalid: Invalid::RepairedOrSent, ..Policy::new(Arc::clone(manager)) };
        Simulation {
            figures,
            needs,
            policy,
            asked,
            cx,
            calibration: Calibration::default(),
            record: Record::new(),
            positions: Vec::new(),
            places: BTreeMap::new(),
            cut: None,
            cut_then: None,
            kept_of_used: Kept::default(),
            kept_at_cut: Kept::default(),
            times: Vec::new(),
            before: Vec::new(),
            task: None,
            kept: 0,
            output: 0,
            said: Vec::new(),
        }
    }

    /// Takes in what stands at a position of the conversation.
    fn hear(&mut self, position: u64, slot: &Slot) {
        match slot {
            Slot::Message(entry) => {
                self.said.push(entry_tokens(self.cx.counter.tokenizer, entry));
                if entry.role == Role::User {
                    self.task = Some(position);
                }
                self.places.insert(position, self.record.len() as u64);
                // What the store accepted once is accepted again.
                let _ = self.record.take(slot.clone());
            }
            Slot::Erased(_) => {
                self.places.insert(position, self.record.len() as u64);
                let _ = self.record.take(slot.clone());
            }
            Slot::Decision(decision, at) => match decision.as_ref() {
                Decision::Lead { .. }
                | Decision::Pin { .. }
                | Decision::Unpin { .. }
                | Decision::Interrupted { .. }
                | Decision::Echo { .. }
                | Decision::Superseded { .. }
                | Decision::Turn { .. } => {
                    let place = |position| self.places.get(&position).copied().unwrap_or(position);
                    let moved = decision.as_ref().clone().moved(place);
                    let _ = self.record.decide(moved, *at);
                }
                Decision::Cut { before, .. } => self.cut_then = Some(*before),
                Decision::Clear { .. }
                | Decision::Truncate { .. }
                | Decision::Summary { .. }
                | Decision::SummaryFailed { .. } => {}
            },
        }
        self.positions.resize(self.record.len(), position);
    }

    /// Makes the request that a reply answered, and records what it decided.
    fn call(&mut self, position: u64, reply: &Entry) -> Result<(), PrepareError> {
        self.cx.counter = self.cx.counter.with_factor(self.calibration.factor());
        let cx = &self.cx;
        let began = Instant::now();
        // A summary that cannot be recorded leaves the view as it was.
        let _ = settle_offline(&mut self.record, cx, &*self.policy.manager, Time(0));
        self.positions.resize(self.record.len(), position);
        let view = self.record.view(cx, &*self.policy.manager).map_err(PrepareError::Curation)?;
        self.times.push(began.elapsed().as_secs_f64() * 1e3);
        let position_of = |place: u64| self.positions.get(place as usize).copied().unwrap_or(position);
        let (seen, items) = look(&self.record, &view, cx, &self.before, position_of);
        let prepared = prepare(&self.record, &self.asked, &self.policy, cx)?;
        for decision in &prepared.decisions {
            if let Decision::Cut { before, .. } = decision {
                self.cut = Some(position_of(*before));
            }
        }
        let factor = cx.counter.factor;
        let said: usize = self.said.iter().map(|tokens| factor.apply(*tokens)).sum();
        let whole = (said + cx.overhead(cx.counter)) as u64;
        let holds = |at: u64| items.iter().any(|item| item.source == Source::Entry(at));
        self.kept += u64::from(self.task.is_none_or(holds));
        let tokens = seen.tokens.total() + cx.overhead(cx.counter) as u64;
        self.kept_of_used += self.needs.kept(position, &items, Stake::All);
        if whole > tokens || seen.changed > 0 {
            self.kept_at_cut += self.needs.kept(position, &items, Stake::Chosen);
        }
        let cached = if seen.shared < CACHE_FROM { 0 } else { seen.shared / CACHE_STEP * CACHE_STEP };
        let figures = &mut self.figures;
        figures.calls += 1;
        figures.input_tokens += tokens;
        figures.cache_read += cached;
        figures.cache_write += tokens - cached.min(tokens);
        figures.peak = figures.peak.max(tokens);
        figures.cuts += u64::from(seen.cut);
        figures.dropped_tokens += whole.saturating_sub(tokens);
        figures.rewritten += seen.changed as u64;
        figures.per_call.push(CallFigures {
            position,
            tokens,
            entries: seen.entries as u64,
            of: seen.of as u64,
            cache_read: cached,
            cut: seen.cut,
            cut_before: self.cut,
        });
        self.output += entry_tokens(cx.counter.tokenizer, reply) as u64;
        self.before = items;
        self.learn(prepared.tokens, reply);
        for decision in prepared.decisions {
            // A cut over what is no whole number of groups is not recorded; the next view finds it again.
            let _ = self.record.decide(decision, Time(0));
        }
        self.positions.resize(self.record.len(), position);
        Ok(())
    }

    /// Corrects estimates by what a reply reports about the request that was really sent, where it is the one simulated here.
    fn learn(&mut self, tokens: Option<RequestTokens>, reply: &Entry) {
        let Some(tokens) = tokens.filter(|tokens| !tokens.exact && self.cut == self.cut_then) else { return };
        let Some(meta) = reply.meta.as_deref() else { return };
        let asked = meta.model_asked.as_deref().zip(self.cx.model.as_ref());
        let is_another =
            asked.is_some_and(|(asked, model)| asked != model.model() && asked != model.to_string());
        if let Some(reported) = meta.usage.as_ref().and_then(Usage::input).filter(|_| !is_another) {
            self.calibration.hear(tokens.counted as u64, reported);
        }
    }

    fn finish(mut self) -> Figures {
        let mut figures = self.figures;
        self.times.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let at = (self.times.len() as f64 * part) as usize;
            self.times.get(at.min(self.times.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        (figures.ms_p50, figures.ms_p99) = (quantile(0.5), quantile(0.99));
        let whole = Loss::of(&self.kept_of_used);
        figures.argument_retention = whole.argument_retention;
        figures.answer_grounding = whole.answer_grounding;
        figures.at_cut = Loss::of(&self.kept_at_cut);
        if figures.calls > 0 {
            figures.task_kept = self.kept as f64 / figures.calls as f64;
        }
        let prices = self.cx.model.as_ref().and_then(facts);
        figures.cost_usd = prices.and_then(|prices| cost(&prices, &figures, self.output));
        figures
    }
}

impl Loss {
    fn of(kept: &Kept) -> Self {
        Loss { argument_retention: kept.arguments.ratio(), answer_grounding: kept.answer.ratio() }
    }
}

/// What the calls would have cost; none if a price is not known.
fn cost(prices: &ModelFacts, figures: &Figures, output: u64) -> Option<f64> {
    let input = prices.input_per_mtok?;
    let read = prices.cache_read_per_mtok.unwrap_or(input);
    let write = prices.cache_write_per_mtok.unwrap_or(input);
    let sum = figures.cache_read as f64 * read
        + figures.cache_write as f64 * write
        + output as f64 * prices.output_per_mtok?;
    Some(sum / 1e6)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::model::ModelName;
    use scrollback_core::request::{Stamp, news};
    use scrollback_core::wire::ParseOptions;
    use scrollback_core::{Meta, json, manager};
    use uuid::Uuid;

    fn talk(turns: u64) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut push = |entry: Entry| {
            let sequence = slots.len() as u64;
            slots.push(Slot::Message(Arc::new(entry.stamped(Uuid::nil(), sequence, Time(0)))));
        };
        push(Entry::text(Role::System, "Be brief."));
        for turn in 0..turns {
            push(Entry::text(Role::User, &format!("question {turn} {}", "word ".repeat(120))));
            push(Entry::text(Role::Assistant, &format!("answer {turn}")));
        }
        slots
    }

    fn run(slots: &[Slot], name: &str) -> Figures {
        run_while(slots, name, &AtomicBool::new(true))
    }

    fn run_while(slots: &[Slot], name: &str, wanted: &AtomicBool) -> Figures {
        let manager = manager::parse(name).unwrap();
        simulate(slots, &Needs::of(slots), name, &manager, &CurationContext::default(), wanted)
    }

    /// An Anthropic conversation with a tool that grows turn by turn: the messages after each reply.
    fn requests(turns: usize) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        let mut requests = Vec::new();
        for turn in 0..turns {
            let ask = format!(r#"{{"role":"user","content":"Read file {turn}. {}"}}"#, "please ".repeat(20));
            let call = format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"toolu_{turn}","name":"read","input":{{"path":"f{turn}"}}}}]}}"#
            );
            let result = format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{turn}","content":"{}"}}]}}"#,
                format!("line of file {turn} ").repeat(60)
            );
            let reply = format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"File {turn} is read."}}]}}"#
            );
            for (before, answer) in [(ask, call), (result, reply)] {
                messages.push(before);
                requests.push(format!(
                    r#"{{"model":"claude-sonnet-4-5","max_tokens":500,"system":"Read files.","tools":[{{"name":"read","description":"{}","input_schema":{{"type":"object"}}}}],"messages":[{}]}}"#,
                    "Reads a file. ".repeat(30),
                    messages.join(",")
                ));
                messages.push(answer);
            }
        }
        requests
    }

    /// Sends requests through `prepare` and records what it decides, as the proxy does; each reply reports a third more than
    /// we estimate. The record, and the cut of each call.
    fn proxied(manager: &SharedManager, cx: &CurationContext, turns: usize) -> (Vec<Slot>, Vec<Option<u64>>) {
        let policy = Policy::for_client(Arc::clone(manager), Invalid::RepairedOrSent);
        let (mut record, mut known, mut cuts) = (Record::new(), Calibration::default(), Vec::new());
        let (mut cut, mut sequence) = (None, 0);
        let all = requests(turns + 1);
        for (request, next) in all.iter().zip(all.iter().skip(1)).take(turns * 2) {
            let read = |body: &str| {
                let parsed =
                    Wire::Anthropic.parse(json::check(body).unwrap(), &ParseOptions::default()).unwrap();
                (parsed.entries, parsed.body)
            };
            let (entries, around) = read(request);
            let (lead, said) = entries.split_at(1);
            let stamp = Stamp { evaluation: Uuid::nil(), sequence, at: Time(0) };
            let heard = record.message_count().saturating_sub(1);
            for slot in news(&record, lead, said.get(heard..).unwrap(), stamp) {
                record.take(slot).unwrap();
                sequence += 1;
            }
            let mut cx = cx.clone();
            cx.counter = cx.counter.with_factor(known.factor());
            let client =
                ClientBody { bytes: request.clone().into(), carries: Carries::History, refers: false };
            let asked =
                Wanted::of_client(Wire::Anthropic, cx.model.clone(), None, around, lead.to_vec(), client);
            let prepared = prepare(&record, &asked, &policy, &cx).unwrap();
            for decision in prepared.decisions {
                if let Decision::Cut { before, .. } = decision {
                    cut = Some(before);
                }
                record.decide(decision, Time(0)).unwrap();
            }
            cuts.push(cut);
            let tokens = prepared.tokens.unwrap_or_else(|| RequestTokens::of(&View::of(&record, &cx), &cx));
            let reported = tokens.counted as u64 * 4 / 3;
            known.hear(tokens.counted as u64, reported);
            let mut reply =
                read(next).0.into_iter().rev().find(|entry| entry.role == Role::Assistant).unwrap();
            let usage = Usage { input_uncached: Some(reported), ..Usage::default() };
            reply.meta = Some(Box::new(Meta { usage: Some(usage), ..Meta::default() }));
            record.append(reply.stamped(Uuid::nil(), sequence, Time(0))).unwrap();
            sequence += 1;
        }
        (record.slots().to_vec(), cuts)
    }

    #[test]
    fn a_simulation_cuts_where_the_proxy_cuts() {
        let tools = Wire::Anthropic
            .parse(json::check(&requests(1)[0]).unwrap(), &ParseOptions::default())
            .unwrap()
            .tools;
        let cx = CurationContext {
            tools,
            wire: Some(Wire::Anthropic),
            output: Some(500),
            windows: BTreeMap::from([("anthropic:claude-sonnet-4-5".into(), 6_000)]),
            ..CurationContext::for_model(ModelName::parse("anthropic:claude-sonnet-4-5").ok())
        };
        for name in ["fit", "fit(window=5000)", "sticky(token_budget(4000), low=2000)"] {
            let manager = manager::parse(name).unwrap();
            let (slots, cuts) = proxied(&manager, &cx, 20);
            let figures = simulate(&slots, &Needs::of(&slots), name, &manager, &cx, &AtomicBool::new(true));
            assert_eq!(figures.stopped, None, "{name}");
            let simulated: Vec<Option<u64>> = figures.per_call.iter().map(|call| call.cut_before).collect();
            assert_eq!(simulated, cuts, "{name}");
            let mut places: Vec<u64> = cuts.into_iter().flatten().collect();
            places.dedup();
            assert!(places.len() > 1, "{name} cuts more than once: {places:?}");
        }
    }

    #[test]
    fn a_simulation_that_nobody_waits_for_ends() {
        assert_eq!(run_while(&talk(20), "passthrough", &AtomicBool::new(false)).calls, 0);
    }

    #[test]
    fn passthrough_never_breaks_the_prefix_and_a_window_always_does() {
        let slots = talk(20);
        let (all, window) = (run(&slots, "passthrough"), run(&slots, "sliding_window(4)"));
        assert_eq!((all.calls, all.cuts, all.dropped_tokens), (20, 0, 0));
        assert!(all.cache_read > 0 && all.cache_read + all.cache_write == all.input_tokens);
        assert!(window.cuts >= 17, "a window moves with every turn: {}", window.cuts);
        assert!(window.peak < all.peak && window.dropped_tokens > 0);
        assert!((window.task_kept - 1.0).abs() < f64::EPSILON);
        let sticky = run(&slots, "sticky(sliding_window(12), low=4)");
        assert!(sticky.cuts > 0 && sticky.cuts < window.cuts, "sticky cuts rarely: {}", sticky.cuts);
        assert!(sticky.dropped_tokens > 0 && sticky.input_tokens + sticky.dropped_tokens == all.input_tokens);
        assert_eq!(all.per_call.len(), 20);
        assert_eq!(all.per_call[3].position, 8);
    }

    #[test]
    fn what_a_manager_loses_is_told() {
        let mut slots = talk(6);
        let sequence = slots.len() as u64;
        let asked = Entry::calling(None, &[("c1", "look", r#"{"at":"question 0","for":"answer 5"}"#)]);
        slots.push(Slot::Message(Arc::new(asked.stamped(Uuid::nil(), sequence, Time(0)))));
        let all = run(&slots, "passthrough");
        assert_eq!((all.argument_retention, all.at_cut.argument_retention), (Some(1.0), None));
        // The newest answer is in the last two turns, the oldest question is not.
        let window = run(&slots, "turn_window(2)");
        assert_eq!((window.argument_retention, window.at_cut.argument_retention), (Some(0.5), Some(0.5)));
        assert!(all.ms_p50 > 0.0 && all.ms_p99 >= all.ms_p50);
    }

    #[test]
    fn a_manager_that_gives_up_says_so_and_keeps_its_figures() {
        let tight = run(&talk(3), "token_budget(5)");
        assert!(tight.stopped.is_some_and(|why| why.contains("budget")));
        assert_eq!(tight.calls, 0);
    }

    #[test]
    fn a_course_counts_tokens_by_role_and_sees_the_cut() {
        let slots = talk(3);
        let asked = |upto, manager: &str| Asked {
            upto,
            manager: manager::parse(manager).unwrap(),
            cx: CurationContext::default(),
        };
        let seen =
            course(&slots, &[asked(2, "passthrough"), asked(4, "passthrough"), asked(6, "turn_window(1)")]);
        let seen: Vec<Seen> = seen.into_iter().map(Result::unwrap).collect();
        assert_eq!(seen.iter().map(|seen| seen.entries).collect::<Vec<_>>(), [2, 4, 2]);
        assert_eq!(seen.iter().map(|seen| seen.cut).collect::<Vec<_>>(), [false, false, true]);
        assert!(seen[0].tokens.user > seen[0].tokens.system && seen[0].tokens.assistant == 0);
        assert_eq!(seen[1].shared, seen[0].tokens.total());
        assert_eq!(seen[2].of, 6);
    }
}
