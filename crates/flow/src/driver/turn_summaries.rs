//! Summaries of a loop's oldest turns: written once, recorded, and used from then on.

use std::sync::Arc;

use scrollback_agent::exchange::{serve_summary, summary_instructions};
use scrollback_agent::journal::{Journal, Keeper};
use scrollback_agent::runner::{EvaluationEnd, EvaluationErrorKind, OnOverflow, Prompt};
use scrollback_agent::tool::Toolbox;
use scrollback_core::manager::SummaryAsk;
use scrollback_core::tokens::{Counter, Tokenizer};
use scrollback_core::{Decision, Entry, Record, Role, Span, SummaryPlace, Time};
use serde_json::json;
use uuid::Uuid;

use super::call::{Execution, Unanswered, side_recorder, spoken};
use super::ledger::{Batch, Ledger, LedgerItem};
use super::meter::StepMeter;
use crate::error::RunErrorKind;
use crate::history::{AvailableTurns, Condensing, shortened};
use crate::turns::{Condensed, LoopScope, role_of};
use crate::usage::RunUsage;
use crate::{Agent, HistoryManagement};

/// Characters of a token: wishes for summaries are measured in characters.
pub(super) const CHARS_PER_TOKEN: u64 = 4;

impl Execution<'_> {
    /// Condenses the oldest turns if the history exceeds its bounds. What fails leaves everything as it was.
    pub(super) async fn condense(&self) -> Result<(), Unanswered> {
        let (Some(conversation), Some(key)) = (self.conversation, &self.call.scope) else { return Ok(()) };
        // Branches of one loop see one summary: the second one finds it written.
        let _one = self.shared.condensing.lock().await;
        let bounds = match &conversation.history {
            HistoryManagement::Bounds(bounds) => bounds,
            HistoryManagement::Managers(managers) if managers.condenses => {
                return self.condense_listed(managers, key).await;
            }
            HistoryManagement::Managers(_) => return Ok(()),
        };
        let tokenizer = self.counter.tokenizer;
        let planned = self.shared.with_state(|state| {
            let scope = state.scopes().get(key)?;
            let told = AvailableTurns { scope, own: &self.call.own, input: self.call.input.entry() };
            told.plan(bounds, tokenizer)
        });
        let Some(plan) = planned else { return Ok(()) };
        let (record, ask) = asked(&plan);
        let writer = bounds.summarizer.as_ref().map(|agent| (agent, plan.text()));
        match self.summary(&record, ask, writer, (plan.ceiling, tokenizer)).await? {
            Ok((text, by)) => self.summarized(key, &plan, text, by).await,
            Err(reason) => self.summary_failed(key, plan.covers, &reason).await,
        }
    }

    /// The summary that is asked for, in so many tokens, and who wrote it: an agent that was given a text, or no one. If
    /// there is none, why.
    pub(super) async fn summary(
        &self,
        record: &Record,
        mut ask: SummaryAsk,
        writer: Option<(&Arc<Agent>, String)>,
        (ceiling, tokenizer): (u64, Tokenizer),
    ) -> Result<Result<(String, String), String>, Unanswered> {
        ask.summarizer = writer.as_ref().map_or("offline", |(agent, _)| &agent.model).into();
        let written = match writer {
            None => Err(String::new()),
            Some((agent, text)) => Box::pin(self.written(agent, &ask, text, ceiling)).await?,
        };
        // A model that wrote too much is cut short, by its own measure and by that of the wish.
        let short = |text: &str| {
            let text = shortened(text, ceiling, tokenizer);
            shortened(&text, (ask.max_chars as u64 / CHARS_PER_TOKEN).max(1), Tokenizer::Characters)
        };
        let written = written.map(|text| (short(&text), None));
        let (decision, _) = serve_summary(record, ask, |_| std::future::ready(written)).await;
        Ok(match decision {
            Decision::Summary { text, by, .. } => Ok((shortened(&text, ceiling, tokenizer), by)),
            Decision::SummaryFailed { reason, .. } => Err(reason),
            _ => Err("no summary was written".into()),
        })
    }

    /// What a model wrote about a text, or why it wrote nothing.
    async fn written(
        &self,
        agent: &Arc<Agent>,
        ask: &SummaryAsk,
        text: String,
        ceiling: u64,
    ) -> Result<Result<String, String>, Unanswered> {
        let provider = match self.shared.provider(agent) {
            Ok(provider) => provider,
            Err(error) => return Ok(Err(error.message)),
        };
        let counter = Counter::for_model(Some(&provider.describe().model));
        let short = Agent {
            max_output_tokens: ceiling,
            system_prompt: Some(agent.system_prompt.clone().unwrap_or_else(|| summary_instructions(ask))),
            ..Agent::clone(agent)
        };
        let key = format!("{}~summarize", self.call.key);
        let account = self.call.account;
        let meter = Arc::new(StepMeter::new(self.shared, &key, account, ceiling, RunUsage::default()));
        let keeper = side_recorder(self.shared, &self.shared.conversation, key, &meter, counter);
        let evaluation = Uuid::from_u128(self.call.evaluation.as_u128().rotate_left(64));
        let mut record = Record::new();
        let said = [(Role::System, short.system_prompt.clone().unwrap_or_default()), (Role::User, text)];
        for (entry, sequence) in said.iter().map(|(role, text)| Entry::text(*role, text)).zip(0..) {
            let appended = record.append(entry.stamped(evaluation, sequence, Time(0)));
            appended.map_err(|error| self.failed(RunErrorKind::StoreError, error.to_string()))?;
        }
        let mut runner = self.runner(&short, provider, Toolbox::default());
        runner.manager = Arc::new(scrollback_core::manager::Passthrough);
        // Half of a text says nothing about the whole: a summary of what is too large has failed.
        runner.overflow = OnOverflow::Fail;
        runner.meter = Some(Arc::clone(&meter) as Arc<dyn scrollback_agent::runner::UsageMeter>);
        let mut journal = Journal::elsewhere(record, Arc::clone(&keeper) as Arc<dyn Keeper>);
        let prompt = Prompt { name: "summarize".into(), ..Prompt::default() };
        let evaluated = runner.carry_on(&mut journal, &prompt, evaluation).await;
        let (batch, reply) = keeper.take();
        self.meter.add(meter.usage());
        self.shared.commit(batch).await?;
        Ok(match evaluated.ended {
            EvaluationEnd::Replied { text, .. } => Ok(reply.map_or(text, |reply| spoken(&reply))),
            EvaluationEnd::Failed(error) if error.kind == EvaluationErrorKind::Interrupted => {
                return Err(Unanswered::Stopped);
            }
            EvaluationEnd::Failed(error) => Err(error.message),
            EvaluationEnd::Paused(_) => Err("the summariser asked a question instead".into()),
        })
    }

    async fn summarized(
        &self,
        key: &Arc<str>,
        plan: &Condensing,
        text: String,
        by: String,
    ) -> Result<(), Unanswered> {
        let mut ledger = self.shared.ledger.lock().await;
        let (covers, spans) = (plan.covers, self.spans(key, plan.covers, &ledger));
        let decision = |covers: Vec<Span>| Decision::Summary {
            covers,
            text: text.clone(),
            place: SummaryPlace::Assistant,
            by: by.clone(),
            usage: None,
            replaces: None,
            scope: Some(key.to_string()),
        };
        let told = self.shared.tell(
            Some(&self.call.key),
            "history.summarized",
            json!({
                "scope": &**key, "covers": [1, covers], "by": by,
            }),
        );
        let batch = Batch {
            items: vec![LedgerItem::Decision(Box::new(decision(spans)))],
            events: vec![told],
            ..Batch::default()
        };
        ledger.commit(batch, self.shared.now(), None).await?;
        drop(ledger);
        let summary = Arc::new(Condensed::new(covers, text));
        self.shared.with_state(|state| {
            if let Some(scope) = state.scopes.get_mut(key) {
                (scope.summary, scope.failed_at) = (Some(summary), None);
            }
        });
        Ok(())
    }

    /// Notes that the oldest turns could not be condensed.
    pub(super) async fn summary_failed(
        &self,
        key: &Arc<str>,
        covers: usize,
        reason: &str,
    ) -> Result<(), Unanswered> {
        let mut ledger = self.shared.ledger.lock().await;
        let spans = self.spans(key, covers, &ledger);
        let range = (spans.first().map_or(0, |span| span.0), spans.last().map_or(0, |span| span.1));
        let reason = self.shared.teller.redact(reason);
        let told = self.shared.tell(
            Some(&self.call.key),
            "history.summarize_failed",
            json!({
                "scope": &**key, "reason": reason,
            }),
        );
        let batch = Batch {
            items: vec![LedgerItem::Decision(Box::new(Decision::SummaryFailed { range, reason }))],
            events: vec![told],
            ..Batch::default()
        };
        ledger.commit(batch, self.shared.now(), None).await?;
        drop(ledger);
        self.shared.with_state(|state| {
            if let Some(scope) = state.scopes.get_mut(key) {
                scope.failed_at = Some(scope.turns().len());
            }
        });
        Ok(())
    }

    /// Where the covered turns stand in the record: as few runs as hold none of the others.
    fn spans(&self, key: &Arc<str>, covers: usize, ledger: &Ledger) -> Vec<Span> {
        self.shared.with_state(|state| {
            let Some(scope) = state.scopes().get(key) else { return Vec::new() };
            let positions = |scope: &LoopScope, from: usize, to: usize| {
                let turns = scope.turns().get(from..to).unwrap_or_default();
                let mut found: Vec<u64> =
                    turns.iter().filter_map(|turn| ledger.position(turn.entry)).collect();
                found.sort_unstable();
                found
            };
            let others = positions(scope, covers, scope.turns().len());
            let mut spans: Vec<Span> = Vec::new();
            for position in positions(scope, 0, covers) {
                let apart = |last: u64| {
                    let next = others.partition_point(|other| *other < last);
                    others.get(next).is_some_and(|other| *other < position)
                };
                match spans.last_mut() {
                    Some((_, last)) if !apart(*last) && ledger.is_plain(*last, position) => *last = position,
                    _ => spans.push((position, position)),
                }
            }
            spans
        })
    }
}

/// A plan as a wish about a record of its turns.
fn asked(plan: &Condensing) -> (Record, SummaryAsk) {
    let mut record = Record::new();
    let mut entries = Vec::new();
    for (turn, number) in plan.turns.iter().zip(0u128..) {
        let entry = Entry::text(role_of(turn.role), &turn.text);
        entries.extend(record.append(entry.stamped(Uuid::from_u128(number), 0, Time(0))).ok());
    }
    let last = (entries.len() as u64).saturating_sub(1);
    let ask = SummaryAsk {
        covers: vec![(0, last)],
        entries,
        previous: plan.previous.clone(),
        replaces: None,
        max_chars: usize::try_from(plan.ceiling * CHARS_PER_TOKEN).unwrap_or(usize::MAX),
        place: SummaryPlace::Assistant,
        summarizer: "offline".into(),
        scope: None,
        cites: None,
    };
    (record, ask)
}
