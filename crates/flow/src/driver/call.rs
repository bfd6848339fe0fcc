//! One agent step: what it is sent, what it answers, and what is done when that does not fit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scrollback_agent::event::{ReplyReceived, SummaryWritten, Throttled};
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Delivery, ErrorKind, Provider, ResponseFormat, Sampling};
use scrollback_agent::runner::{Ended, EvaluationError, OnOverflow, Prompt, Runner, Throttle};
use scrollback_agent::tool::Toolbox;
use scrollback_agent::{EventBus, journal::Keeper};
use scrollback_core::manager::{Compose, Fit, Passthrough, SharedManager};
use scrollback_core::tokens::Counter;
use scrollback_core::{CurationContext, Decision, Entry, HistoryCurated, Role, Source as Shows, model};
use scrollback_store::{ConversationId, StoreError};
use serde_json::{Value, json};

use super::keeper::{Prompted, Stash, StepKeeper, named, numbers};
use super::ledger::{Batch, Item};
use super::meter::StepMeter;
use super::{Injection, Shared};
use crate::advance::{Call, Event, StepRow};
use crate::error::RunError;
use crate::history::{Kept, Told};
use crate::inject::{Parts, Placed, Sheet, sheet};
use crate::passed::EntryId;
use crate::turns::Scope;
use crate::usage::Usage;
use crate::{Agent, AgentStep, Conversation, HistoryManagement, Kind, Mode, Step, Strategy, ToolArtifacts};

/// How often a call that was too large is made again with less history.
const OVERFLOWS: usize = 2;

/// What came of a call, and what is to be written with it.
pub(crate) struct Called {
    pub(super) event: Event,
    pub(super) batch: Batch,
}

/// An agent step under way.
pub(crate) struct Execution<'s> {
    pub(super) shared: &'s Arc<Shared>,
    pub(super) call: &'s Call,
    pub(super) step: &'s AgentStep,
    /// The conversational loop it is in, if its history is sent.
    pub(super) conversation: Option<&'s Conversation>,
    provider: Arc<dyn Provider>,
    tools: Toolbox,
    pub(super) meter: Arc<StepMeter>,
    keeper: Arc<StepKeeper>,
    counter: Counter,
    /// Turns that are left after overflows, counted from the newest; all of them if none.
    newest: Option<usize>,
}

/// Why a step has no reply.
pub(super) enum Unanswered {
    /// Somebody asked to stop.
    Stopped,
    Failed(RunError),
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        let code = if error.code() == "busy" { "busy" } else { "store_error" };
        Unanswered::Failed(RunError { step: None, ..RunError::new(code, "", error.to_string()) })
    }
}

/// Asks an agent. Whatever happens comes back as an event.
pub(super) async fn execute(shared: Arc<Shared>, call: Call, before: Usage) -> Called {
    let flow = Arc::clone(&shared.flow);
    let (key, account) = (call.key.clone(), call.account);
    let found = find(&flow.steps, &call.step, None);
    let Some((Step { kind: Kind::Agent(step), .. }, conversation)) = found else {
        let error = RunError::new("store_error", &key, "the flow that is stored has no such step");
        return Called { event: Event::Failed { key, error, usage: before }, batch: Batch::default() };
    };
    let meter = Arc::new(StepMeter::new(&shared, &key, account, step.agent.max_output_tokens, before));
    let made = Execution::new(&shared, &call, step, conversation, &meter).await;
    let ended = match made {
        Ok(mut execution) => {
            let ended = execution.run().await;
            let (batch, _) = execution.keeper.take();
            ended.map_err(|unanswered| (unanswered, batch))
        }
        Err(unanswered) => Err((unanswered, Batch::default())),
    };
    let usage = meter.usage();
    match ended {
        Ok(mut called) => {
            if let Event::Replied { usage: used, .. } = &mut called.event {
                *used = usage;
            }
            called
        }
        Err((Unanswered::Stopped, mut batch)) => {
            batch.steps.push(StepRow { usage: Some(usage), ..running(&shared, &call) });
            Called { event: Event::Stopped { key }, batch }
        }
        Err((Unanswered::Failed(mut error), batch)) => {
            error.message = shared.teller.redact(&error.message);
            error.step = Some(key.clone());
            Called { event: Event::Failed { key, error, usage }, batch }
        }
    }
}

/// A step of that name, and the innermost conversational loop around it.
pub(super) fn find<'f>(
    steps: &'f [Step],
    name: &str,
    around: Option<&'f Conversation>,
) -> Option<(&'f Step, Option<&'f Conversation>)> {
    steps.iter().find_map(|step| {
        if step.name == name {
            return Some((step, around));
        }
        let inner = match &step.kind {
            Kind::Loop(inner) => inner.conversation.as_ref().or(around),
            _ => around,
        };
        step.kind.bodies().into_iter().find_map(|body| find(body, name, inner))
    })
}

/// The row of a step while it runs.
fn running(shared: &Shared, call: &Call) -> StepRow {
    StepRow {
        key: call.key.clone(),
        within: call.within.clone(),
        kind: "step",
        status: "running",
        attempt: shared.with_state(|state| state.attempt(&call.key)),
        input: Some(call.input.value.as_ref().clone()),
        output: None,
        evaluation: Some(call.evaluation),
        usage: None,
        error: None,
    }
}

impl<'s> Execution<'s> {
    async fn new(
        shared: &'s Arc<Shared>,
        call: &'s Call,
        step: &'s AgentStep,
        conversation: Option<&'s Conversation>,
        meter: &Arc<StepMeter>,
    ) -> Result<Self, Unanswered> {
        let provider = shared.provider(&step.agent).map_err(Unanswered::Failed)?;
        let tools = shared.tools(&step.agent).await.map_err(Unanswered::Failed)?;
        let counter = Counter::for_model(Some(&provider.describe().model));
        let keeper = Arc::new(StepKeeper {
            shared: Arc::clone(shared),
            conversation: shared.conversation.clone(),
            key: call.key.clone(),
            row: Some(running(shared, call)),
            meter: Arc::clone(meter),
            counter,
            stash: Mutex::new(Stash::default()),
        });
        let wanted = step.use_history && shared.engine.injection == Injection::On;
        Ok(Execution {
            shared,
            call,
            step,
            conversation: conversation.filter(|_| wanted),
            provider,
            tools,
            meter: Arc::clone(meter),
            keeper,
            counter,
            newest: None,
        })
    }

    /// Who counts.
    pub(super) fn counter(&self) -> Counter {
        self.counter
    }

    fn agent(&self) -> &'s Agent {
        &self.step.agent
    }

    /// Asks until there is a reply that fits.
    async fn run(&mut self) -> Result<Called, Unanswered> {
        let (mut overflows, mut asked_again) = (0, false);
        let runner = self.runner(&self.agent().clone(), Arc::clone(&self.provider), self.tools.clone());
        let prompt = self.prompt();
        loop {
            self.condense().await?;
            let sheet = self.prepare().await?;
            let sent = self.sent_turns();
            let mut journal = Journal::elsewhere(sheet.record, Arc::clone(&self.keeper) as Arc<dyn Keeper>);
            let evaluated = runner.carry_on(&mut journal, &prompt, self.call.evaluation).await;
            let error = match evaluated.ended {
                Ended::Replied { .. } => None,
                Ended::Failed(error) if error.code == "bad_output" => None,
                Ended::Failed(error) => Some(error),
                Ended::Paused(question) => {
                    let message = format!("a tool asks a person ({}); use a hitl step", question.text);
                    return Err(self.failed("tool_errors", message));
                }
            };
            if let Some(error) = error {
                let overflowed = matches!(error.provider, Some(ErrorKind::ContextOverflow(_)));
                if overflowed && overflows < OVERFLOWS && sent > 0 {
                    overflows += 1;
                    self.tighten(sent).await?;
                    continue;
                }
                return Err(self.unanswered(&error));
            }
            let (batch, reply) = self.keeper.take();
            let Some(reply) = reply else {
                return Err(self.failed("provider_error", "the model did not reply".into()));
            };
            let text = spoken(&reply);
            match meaning(&text, self.agent().output_schema.as_ref()) {
                Ok(value) => return Ok(self.replied(batch, reply, &text, value)),
                Err(problem) if asked_again => {
                    self.keep(batch, reply).await?;
                    let message = format!("the reply does not fit output_schema, twice: {problem}");
                    return Err(self.failed("output_invalid", message));
                }
                Err(problem) => {
                    asked_again = true;
                    self.ask_again(batch, reply, &problem).await?;
                }
            }
        }
    }

    /// The reply that ends the step, with everything that is written with it.
    fn replied(&self, mut batch: Batch, reply: Entry, text: &str, value: Value) -> Called {
        let entry = EntryId { evaluation: reply.evaluation_id, sequence: reply.sequence };
        batch.items.push(Item::Entry(Box::new(reply)));
        let event = Event::Replied {
            key: self.call.key.clone(),
            entry,
            text: text.into(),
            value,
            usage: Usage::default(),
        };
        Called { event, batch }
    }

    /// Writes down a reply that was none.
    async fn keep(&self, mut batch: Batch, reply: Entry) -> Result<(), Unanswered> {
        batch.items.push(Item::Entry(Box::new(reply)));
        Ok(self.shared.commit(batch).await?)
    }

    /// Says what was wrong with a reply, as part of the step's own exchange.
    async fn ask_again(&self, mut batch: Batch, reply: Entry, problem: &str) -> Result<(), Unanswered> {
        let id = EntryId { evaluation: reply.evaluation_id, sequence: reply.sequence + 1 };
        let text = format!(
            "Your answer does not fit what was asked for: {problem}. Answer again with only the JSON value."
        );
        batch.items.push(Item::Entry(Box::new(reply)));
        batch.items.push(Item::said(id, Role::User, &text, self.shared.now()));
        batch.steps.push(StepRow { usage: Some(self.meter.usage()), ..running(self.shared, self.call) });
        Ok(self.shared.commit(batch).await?)
    }

    /// The sheet of the next request; what it shows for the first time waits to become part of the record.
    async fn prepare(&mut self) -> Result<Sheet, Unanswered> {
        let agent = self.agent();
        let evaluation = self.call.evaluation;
        let now = self.shared.now();
        let ledger = self.shared.ledger.lock().await;
        let mut own = ledger.entries_of(evaluation);
        let mut items = Vec::new();
        let mut next = 0;
        let said = |role: Role, text: &str, next: &mut u64, items: &mut Vec<Item>| {
            let id = EntryId { evaluation, sequence: *next };
            *next += 1;
            items.push(Item::said(id, role, text, now));
            (id, Arc::new(Entry::text(role, text).stamped(evaluation, id.sequence, now)))
        };
        let system = match agent.system_prompt.as_deref().filter(|text| !text.trim().is_empty()) {
            None => None,
            Some(_) if own.first().is_some_and(|(_, entry)| entry.role == Role::System) => {
                next += 1;
                Some(own.remove(0))
            }
            Some(text) => match ledger.system(text) {
                Some(found) => Some(found),
                None => Some(said(Role::System, text, &mut next, &mut items)),
            },
        };
        let text = self.call.input.text().into_owned();
        let input = match self.call.input.entry() {
            Some(entry) => entry,
            None if own.first().is_some_and(|(_, entry)| entry.role == Role::User) => own.remove(0).0,
            None => said(Role::User, &text, &mut next, &mut items).0,
        };
        let (kept, prompted) = self.kept(&ledger);
        let exchanges = self.exchanges(&kept, &ledger);
        let upto = ledger.record().len() as u64;
        drop(ledger);
        let conversation = self.conversation;
        let info = self.provider.describe();
        let made = sheet(Parts {
            system,
            kept: &kept,
            input: (input, &text),
            evaluation,
            own,
            exchanges,
            mode: agent.mode,
            template: conversation.and_then(|conversation| conversation.history_template.as_ref()),
            seed: self.seed().zip(conversation.map(|conversation| conversation.seed.prefix.as_str())),
            wire: info.wire,
            tokenizer: self.counter.tokenizer,
        });
        let mut made = made.map_err(|error| self.failed("context_too_large", error.to_string()))?;
        self.stand_for(&mut made);
        let mut stash = self.keeper.stash();
        let mut left_out = prompted.left_out.clone();
        left_out.extend(
            made.start_rule
                .iter()
                .map(|entry| json!({ "entry": named(*entry), "manager": "wire", "reason": "start_rule" })),
        );
        stash.shown = Prompted { left_out, ..prompted };
        stash.places.clone_from(&made.places);
        stash.upto = upto;
        // What waits from an attempt before is said only once.
        if stash.batch.items.is_empty() {
            stash.batch.items = items;
        }
        Ok(made)
    }

    /// Shows what a manager of a list had written, instead of the turns it stands for.
    fn stand_for(&self, sheet: &mut Sheet) {
        let (Some(key), Mode::Chat) = (&self.call.scope, self.agent().mode) else { return };
        let listed =
            self.shared.with_state(|state| state.scopes().get(key).and_then(|scope| scope.listed.clone()));
        let Some(listed) = listed.filter(|_| self.conversation.is_some()) else { return };
        let shown = (0u64..).zip(&sheet.places).filter(|(_, place)| {
            place.source == crate::inject::Source::History
                && place.entry.is_some_and(|entry| listed.entries.contains(&entry))
        });
        let covers: Vec<(u64, u64)> = shown.map(|(position, _)| (position, position)).collect();
        let decision = Decision::Summary {
            covers,
            text: listed.text.clone(),
            place: listed.place,
            by: listed.by.clone(),
            usage: None,
            replaces: None,
            scope: None,
        };
        if sheet.record.decide(decision, self.shared.now()).is_ok() {
            sheet.places.push(Placed {
                source: crate::inject::Source::Step,
                entry: None,
                tokens: 0,
                changed: None,
            });
        }
    }

    fn seed(&self) -> Option<EntryId> {
        let scope = self.call.scope.as_ref()?;
        self.shared.with_state(|state| state.scopes().get(scope).and_then(|scope| scope.seed))
    }

    /// How many messages of history the sheet has.
    fn sent_turns(&self) -> usize {
        let stash = self.keeper.stash();
        let injected = stash.places.iter().any(|place| place.changed.is_some());
        let shown = stash.places.iter().filter(|place| {
            matches!(place.source, crate::inject::Source::History | crate::inject::Source::Summary)
        });
        let turns: usize = stash.shown.turns.iter().map(|(first, last)| last + 1 - first).sum();
        if injected { turns.max(1) } else { shown.count() }
    }

    /// What stands in front of the input, and what traces say about it.
    fn kept(&self, ledger: &super::ledger::Ledger) -> (Kept, Prompted) {
        let mode = self.agent().mode;
        let none = Prompted { mode, ..Prompted::default() };
        let (Some(conversation), Some(key)) = (self.conversation, &self.call.scope) else {
            return (Kept::default(), none);
        };
        let _ = ledger;
        let tokenizer = self.counter.tokenizer;
        self.shared.with_state(|state| {
            let empty = Scope::default();
            let scope = state.scopes().get(key).unwrap_or(&empty);
            let told = Told { scope, own: &self.call.own, input: self.call.input.entry() };
            let mut kept = match &conversation.history {
                HistoryManagement::Bounds(bounds) => told.bounded(bounds, tokenizer),
                HistoryManagement::Managers(manager) if mode == Mode::Prompt => {
                    self.curated(told.everything(), manager)
                }
                HistoryManagement::Managers(_) => told.everything(),
            };
            if let Some(newest) = self.newest {
                kept = kept.newest(newest);
            }
            let turns = numbers(&kept, Some(scope));
            let mut left_out = Vec::new();
            let covered = kept.summary.as_ref().map_or(0, |summary| summary.covers);
            if covered > 0 {
                left_out
                    .push(json!({ "turns": [1, covered], "manager": "summarize", "reason": "summarized" }));
            }
            if kept.left_out > 0 {
                let (manager, reason) = match &conversation.history {
                    HistoryManagement::Bounds(bounds) if bounds.strategy == Strategy::TruncateTurns => {
                        (bounds.strategy.word(), "older_turn")
                    }
                    HistoryManagement::Bounds(bounds) => (bounds.strategy.word(), "over_budget"),
                    HistoryManagement::Managers(manager) => (manager.name(), "left_out"),
                };
                let last = turns.first().map_or(scope.turns().len(), |(first, _)| first - 1);
                if last > covered {
                    left_out
                        .push(json!({ "turns": [covered + 1, last], "manager": manager, "reason": reason }));
                }
                let data = json!({
                    "strategy": manager, "turns": kept.turns.len(), "left_out": kept.left_out,
                    "newest_too_large": kept.newest_too_large,
                });
                self.shared.note(&self.call.key, "history.curated", data);
            }
            let numbered: usize = turns.iter().map(|(first, last)| last + 1 - first).sum();
            let prompted = Prompted {
                mode,
                scope: Some(Arc::clone(key)),
                branch: kept.turns.len() - numbered,
                turns,
                left_out,
                total: scope.turns().len() + self.call.own.len(),
            };
            (kept, prompted)
        })
    }

    /// Which turns managers of a list leave, where the history is sent as text.
    fn curated(&self, kept: Kept, manager: &SharedManager) -> Kept {
        let info = self.provider.describe();
        let made = sheet(Parts {
            system: None,
            kept: &kept,
            input: (EntryId { evaluation: self.call.evaluation, sequence: 0 }, &self.call.input.text()),
            evaluation: self.call.evaluation,
            own: Vec::new(),
            exchanges: BTreeMap::new(),
            mode: Mode::Chat,
            template: None,
            seed: None,
            wire: info.wire,
            tokenizer: self.counter.tokenizer,
        });
        let cx = self.context();
        let Ok(made) = made else { return kept };
        let Ok(view) = made.record.view(&cx, &**manager) else { return kept };
        let shown: Vec<EntryId> = view
            .items()
            .filter_map(|item| match item.source {
                Shows::Entry(position) => made.places.get(position as usize)?.entry,
                _ => None,
            })
            .collect();
        let before = kept.turns.len();
        let turns: Vec<_> = kept.turns.into_iter().filter(|turn| shown.contains(&turn.entry)).collect();
        Kept { left_out: before - turns.len(), turns, ..Kept::default() }
    }

    fn context(&self) -> CurationContext {
        let info = self.provider.describe();
        let mut cx = CurationContext::for_model(Some(info.model));
        cx.wire = Some(info.wire);
        cx.windows = self.shared.engine.catalog.windows();
        cx
    }

    /// Tool exchanges that stand before the turns they led to, where the loop wants them.
    fn exchanges(&self, kept: &Kept, ledger: &super::ledger::Ledger) -> BTreeMap<EntryId, Vec<Arc<Entry>>> {
        let wanted = self.conversation.is_some_and(|conversation| {
            conversation.tool_artifacts == ToolArtifacts::Include && self.agent().mode == Mode::Chat
        });
        if !wanted {
            return BTreeMap::new();
        }
        let of_turn = |entry: EntryId| {
            let said = ledger.entries_of(entry.evaluation);
            let exchange = said.into_iter().filter(|(id, said)| {
                id.sequence < entry.sequence
                    && (said.role == Role::Tool || said.open_calls().next().is_some())
            });
            let mut apart = entry.apart().as_u128();
            let entries = exchange.map(|(_, said)| {
                apart = apart.wrapping_add(1 << 64);
                let alone = Entry { meta: None, ..Entry::clone(&said) };
                Arc::new(alone.stamped(uuid::Uuid::from_u128(apart), 0, said.created_at))
            });
            entries.collect::<Vec<_>>()
        };
        kept.turns.iter().map(|turn| (turn.entry, of_turn(turn.entry))).collect()
    }

    /// Leaves only the newer half of the turns in what was too large, for good.
    async fn tighten(&mut self, sent: usize) -> Result<(), Unanswered> {
        let keep = sent / 2;
        self.newest = Some(keep);
        let Some(key) = &self.call.scope else { return Ok(()) };
        let (first, cut) = self.shared.with_state(|state| {
            let Some(scope) = state.scopes.get_mut(key) else { return (None, 0) };
            let in_branch = self.call.own.len();
            let marked = keep.saturating_sub(in_branch);
            // The input is among the turns and is not one of those sent.
            let taken = self.call.input.entry().is_some_and(|input| scope.is_marked(input));
            let newest = scope.turns().iter().enumerate().rev();
            let newest = newest.filter(|(_, turn)| !taken || Some(turn.entry) != self.call.input.entry());
            let first = newest.take(marked).last().map(|(number, turn)| (number, turn.entry));
            let cut = first.map_or(scope.turns().len(), |(number, _)| number);
            scope.cut = scope.cut.max(cut);
            (first.map(|(_, entry)| entry), cut)
        });
        let mut ledger = self.shared.ledger.lock().await;
        let before =
            first.and_then(|entry| ledger.position(entry)).unwrap_or_else(|| ledger.record().len() as u64);
        let decision =
            Decision::Cut { before, held: None, by: "overflow".into(), scope: Some(key.to_string()) };
        let mut batch = Batch { items: vec![Item::Decision(Box::new(decision))], ..Batch::default() };
        let data = json!({ "scope": &**key, "turns": keep, "before": sent, "cut": cut });
        batch.events.push(self.shared.tell(Some(&self.call.key), "history.overflow", data));
        ledger.commit(batch, self.shared.now(), None).await?;
        Ok(())
    }

    /// Who asks, as the agent is described.
    pub(super) fn runner(&self, agent: &Agent, provider: Arc<dyn Provider>, tools: Toolbox) -> Runner {
        let engine = &self.shared.engine;
        let mut runner = Runner::new(provider);
        runner.manager = self.manager(agent, &runner);
        runner.tools = tools;
        runner.clock = Arc::clone(&engine.clock);
        runner.random = Arc::clone(&engine.random);
        runner.catalog = Arc::clone(&engine.catalog);
        runner.stop = engine.stop.clone();
        runner.delivery = if agent.stream { Delivery::Streamed } else { Delivery::Whole };
        runner.overflow = OnOverflow::Fail;
        runner.call_timeout = agent.timeout;
        runner.sampling = Sampling {
            max_output_tokens: Some(agent.max_output_tokens),
            temperature: agent.temperature,
            top_p: agent.top_p,
        };
        runner.meter = Some(Arc::clone(&self.meter) as Arc<dyn scrollback_agent::runner::Meter>);
        runner.throttle = throttle(agent.max_retries);
        runner.preview = engine.preview.as_ref().map(|preview| {
            let (preview, key) = (Arc::clone(preview), self.call.key.clone());
            Arc::new(move |delta: &scrollback_core::stream::Delta| preview(&key, delta))
                as scrollback_agent::runner::Sink
        });
        let bus = EventBus::new(Arc::clone(&engine.clock));
        self.listen(&bus);
        runner.bus = Arc::new(bus);
        runner
    }

    /// Managers of a list, then whatever fits the model's window.
    fn manager(&self, agent: &Agent, runner: &Runner) -> SharedManager {
        let info = runner.provider.describe();
        let known = self.shared.engine.catalog.windows().contains_key(&info.model.to_string())
            || model::facts(&info.model).is_some();
        let fit: Option<SharedManager> = known.then(|| {
            let fit = Fit { model: None, window: None, reserve: Some(agent.max_output_tokens) };
            Arc::new(fit) as SharedManager
        });
        let listed = match self.conversation.map(|conversation| &conversation.history) {
            Some(HistoryManagement::Managers(manager)) if agent.mode == Mode::Chat => {
                Some(Arc::clone(manager))
            }
            _ => None,
        };
        match (listed, fit) {
            (Some(listed), Some(fit)) => Arc::new(Compose { managers: vec![listed, fit] }),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Arc::new(Passthrough),
        }
    }

    /// What the runner tells is told as part of the run.
    fn listen(&self, bus: &EventBus) {
        let note = |kind: &'static str| {
            let (shared, key) = (Arc::clone(self.shared), self.call.key.clone());
            move |data: Value| shared.note(&key, kind, data)
        };
        let curated = note("history.curated");
        bus.subscribe::<HistoryCurated>(move |told| {
            if told.event.dropped > 0 || told.event.changed > 0 {
                curated(json!(told.event));
            }
            Ok(())
        });
        let responded = note("agent.response");
        bus.subscribe::<ReplyReceived>(move |told| {
            responded(json!(told.event));
            Ok(())
        });
        let retried = note("agent.retry");
        bus.subscribe::<Throttled>(move |told| {
            retried(json!(told.event));
            Ok(())
        });
        let summarized = note("history.summarized");
        bus.subscribe::<SummaryWritten>(move |told| {
            summarized(json!({ "by": told.event.by }));
            Ok(())
        });
    }

    fn prompt(&self) -> Prompt {
        let agent = self.agent();
        let schema = agent.output_schema.clone();
        // Providers take objects at the top; other values are asked for in words and judged here.
        let object = schema.filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
        Prompt {
            name: self.call.step.clone(),
            system: agent.system_prompt.clone(),
            user: String::new(),
            response_format: object.map(|schema| ResponseFormat { name: "output".into(), schema }),
        }
    }

    pub(super) fn failed(&self, code: &str, message: String) -> Unanswered {
        Unanswered::Failed(RunError::new(code, &self.call.key, message))
    }

    /// Why there is no reply, in the words of flows.
    fn unanswered(&self, error: &EvaluationError) -> Unanswered {
        if let Some(breach) = self.meter.breach().filter(|_| error.code == "quota_exceeded") {
            return Unanswered::Failed(RunError::quota(&self.call.key, &breach));
        }
        let failed = |code: &str| RunError::new(code, &self.call.key, error.message.clone());
        Unanswered::Failed(match (error.code.as_str(), error.provider) {
            ("interrupted", _) => return Unanswered::Stopped,
            ("budget_too_small", _) => failed("context_too_large"),
            ("tool_errors" | "too_many_rounds", _) => failed(&error.code),
            (_, Some(ErrorKind::ContextOverflow(_))) => failed("context_overflow"),
            (_, Some(ErrorKind::Timeout)) => failed("timeout"),
            (_, Some(ErrorKind::Truncated)) => failed("stream_cut"),
            (_, Some(kind)) => failed("provider_error").with(json!({ "kind": kind.as_str() })),
            ("invalid_request" | "no_reply", None) => {
                failed("provider_error").with(json!({ "kind": "invalid_request" }))
            }
            _ => failed("store_error"),
        })
    }
}

/// Retries as many as wanted, with the usual waits.
fn throttle(retries: u32) -> Throttle {
    let seconds = Duration::from_secs;
    let made = Throttle::new(retries + 1, Duration::from_millis(500), seconds(8), seconds(30));
    made.unwrap_or_default()
}

/// The text of a reply, as the model wrote it: text blocks only.
pub(crate) fn spoken(entry: &Entry) -> String {
    use scrollback_core::BlockKind;
    let texts = entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) => Some(text.as_str().into_owned()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a reply means: itself, or the JSON value that was asked for.
fn meaning(text: &str, schema: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = schema else { return Ok(Value::from(text)) };
    let bare = text.trim();
    let fenced = bare
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .map(|inner| inner.split_once('\n').map_or(inner, |(_, json)| json));
    let value = serde_json::from_str::<Value>(fenced.unwrap_or(bare).trim());
    let value = value.map_err(|error| format!("it is no JSON value: {error}"))?;
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    let problem = validator.iter_errors(&value).next().map(|error| {
        let path = error.instance_path.to_string();
        if path.is_empty() { error.to_string() } else { format!("at {path}: {error}") }
    });
    problem.map_or(Ok(value), Err)
}

/// The conversation a keeper writes to, for calls that are no step.
pub(super) fn aside(
    shared: &Arc<Shared>,
    conversation: &ConversationId,
    key: String,
    meter: &Arc<StepMeter>,
    counter: Counter,
) -> Arc<StepKeeper> {
    Arc::new(StepKeeper {
        shared: Arc::clone(shared),
        conversation: conversation.clone(),
        key,
        row: None,
        meter: Arc::clone(meter),
        counter,
        stash: Mutex::new(Stash::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_its_text_or_the_value_that_was_asked_for() {
        assert_eq!(meaning(" {\"a\":1} ", None), Ok(Value::from(" {\"a\":1} ")));
        let schema =
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } } });
        assert_eq!(meaning(" {\"a\":1} ", Some(&schema)), Ok(json!({ "a": 1 })));
        assert_eq!(meaning("```json\n{\"a\":1}\n```", Some(&schema)), Ok(json!({ "a": 1 })));
        assert!(meaning("a = 1", Some(&schema)).is_err_and(|why| why.contains("no JSON")));
        assert!(meaning("{\"a\":\"x\"}", Some(&schema)).is_err_and(|why| why.contains("/a")));
        assert_eq!(meaning("[1, 2]", Some(&json!({ "type": "array" }))), Ok(json!([1, 2])));
    }
}
