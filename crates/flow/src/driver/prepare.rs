//! What a call is shown: which turns, in front of which input, and what is done when that is too much.

use std::collections::BTreeMap;
use std::sync::Arc;

use scrollback_core::tokens::entry_tokens;
use scrollback_core::{CurationContext, Decision, Entry, ItemSource as Shows, Role, Time};
use serde_json::json;

use super::call::{Execution, Unanswered};
use super::ledger::{Ledger, LedgerItem};
use super::recorder::{Durable, Prompted, named, numbers};
use crate::call_history::{MessageSource, Parts, Sheet, SheetMessage, sheet};
use crate::error::RunErrorKind;
use crate::history::{AvailableTurns, ChosenTurns};
use crate::passed_values::EntryId;
use crate::turns::{Condensed, Listed, LoopScope};
use crate::{HistoryManagement, HistoryMode, Managers, Strategy, ToolArtifacts};

/// Tokens of the marks around a history that is sent as text, and of the request around that.
const AROUND: usize = 48;

impl Execution<'_> {
    /// The sheet of the next request; what it shows for the first time waits to become part of the record.
    pub(super) async fn prepare(&self) -> Result<Sheet, Unanswered> {
        let agent = self.agent();
        let evaluation = self.call.evaluation;
        let now = self.shared.now();
        let ledger = self.shared.ledger.lock().await;
        let mut own = ledger.entries_of(evaluation);
        let mut items = Vec::new();
        let mut next = 0;
        let said = |role: Role, text: &str, next: &mut u64, items: &mut Vec<LedgerItem>| {
            let id = EntryId { evaluation, sequence: *next };
            *next += 1;
            items.push(LedgerItem::said(id, role, text, now));
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
        let beside = system.iter().map(|(_, entry)| entry).chain(own.iter().map(|(_, entry)| entry));
        let beside: usize = beside.map(|entry| entry_tokens(self.counter.tokenizer, entry)).sum();
        let (kept, prompted) = self.kept(beside + self.counter.tokenizer.count(&text));
        let exchanges = self.exchanges(&kept, &ledger);
        let upto = ledger.record().len() as u64;
        drop(ledger);
        let conversation = self.conversation;
        let info = self.provider.describe();
        let made = sheet(&Parts {
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
        let mut made = made.map_err(|error| self.failed(RunErrorKind::ContextTooLarge, error.to_string()))?;
        if agent.mode == HistoryMode::Chat {
            self.stand_for(&mut made);
        }
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
        let Some(listed) = self.listed() else { return };
        let shown = (0u64..).zip(&sheet.places).filter(|(_, place)| {
            place.source == MessageSource::History
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
            sheet.places.push(SheetMessage {
                source: MessageSource::Step,
                entry: None,
                tokens: 0,
                changed: None,
            });
        }
    }

    /// What a manager of the loop's list had written.
    fn listed(&self) -> Option<Arc<Listed>> {
        let key = self.call.scope.as_ref().filter(|_| self.conversation.is_some())?;
        self.shared.with_state(|state| state.scopes().get(key)?.listed.clone())
    }

    fn seed(&self) -> Option<EntryId> {
        let scope = self.call.scope.as_ref()?;
        self.shared.with_state(|state| state.scopes().get(scope).and_then(|scope| scope.seed))
    }

    /// What stands in front of the input, and what traces say about it.
    fn kept(&self, beside: usize) -> (ChosenTurns, Prompted) {
        let mode = self.agent().mode;
        let none = Prompted { mode, ..Prompted::default() };
        let (Some(conversation), Some(key)) = (self.conversation, &self.call.scope) else {
            return (ChosenTurns::default(), none);
        };
        let tokenizer = self.counter.tokenizer;
        let mut kept = self.shared.with_state(|state| {
            let empty = LoopScope::default();
            let scope = state.scopes().get(key).unwrap_or(&empty);
            let told = AvailableTurns { scope, own: &self.call.own, input: self.call.input.entry() };
            match &conversation.history {
                HistoryManagement::Bounds(bounds) => told.bounded(bounds, tokenizer),
                HistoryManagement::Managers(_) => told.everything(),
            }
        });
        if let HistoryManagement::Managers(managers) = &conversation.history
            && mode == HistoryMode::Prompt
        {
            kept = self.curated(managers, kept);
        }
        self.shared.with_state(|state| {
            let empty = LoopScope::default();
            let scope = state.scopes().get(key).unwrap_or(&empty);
            if let Some(room) = self.room(beside).filter(|_| mode == HistoryMode::Prompt) {
                kept = kept.within(room, tokenizer);
            }
            let turns = numbers(&kept, scope);
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
                    HistoryManagement::Managers(managers) => (managers.manager.name(), "left_out"),
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
                summary: kept.summary.is_some(),
                left_out,
                total: scope.turns().len() + self.call.own.len(),
            };
            (kept, prompted)
        })
    }

    /// Tokens that are left for a history sent as text, where the model's window is known: it is one message, which no
    /// manager can make smaller.
    fn room(&self, beside: usize) -> Option<usize> {
        let model = self.provider.describe().model;
        let stated = self.shared.engine.catalog.windows().get(&model.to_string()).copied();
        let window =
            stated.or_else(|| scrollback_core::model::facts(&model).map(|facts| facts.context_window))?;
        let limit = window.saturating_sub(self.agent().max_output_tokens) as usize;
        Some(limit.saturating_sub(beside + AROUND))
    }

    /// What managers of a list leave of a history that is sent as text.
    fn curated(&self, managers: &Managers, kept: ChosenTurns) -> ChosenTurns {
        let Some(made) = self.draft(&kept) else { return kept };
        let Ok(view) = made.record.view(&self.context(), &*managers.manager) else { return kept };
        let mut shown: Vec<EntryId> = Vec::new();
        let mut summary = None;
        for item in view.items() {
            match item.source {
                Shows::Entry(position) => {
                    shown.extend(made.places.get(position as usize).and_then(|it| it.entry));
                }
                Shows::Summary { .. } => summary = self.listed(),
                // A history that is sent as text has no place for a ledger.
                Shows::Interrupted { .. } | Shows::Ledger { .. } => {}
            }
        }
        let before = kept.turns.len();
        let turns: Vec<_> = kept.turns.into_iter().filter(|turn| shown.contains(&turn.entry)).collect();
        let covered = summary.as_ref().map_or(0, |summary| summary.entries.len());
        ChosenTurns {
            left_out: before.saturating_sub(turns.len() + covered),
            turns,
            summary: summary.map(|summary| Arc::new(Condensed::new(covered, summary.text.clone()))),
            ..ChosenTurns::default()
        }
    }

    /// The whole of what a call would be sent as messages, for managers to look at before it is made.
    pub(super) fn draft(&self, kept: &ChosenTurns) -> Option<Sheet> {
        let (evaluation, info) = (self.call.evaluation, self.provider.describe());
        let system = self.agent().system_prompt.as_deref().filter(|text| !text.trim().is_empty());
        let first = EntryId { evaluation, sequence: 0 };
        let said =
            |text: &str| (first, Arc::new(Entry::text(Role::System, text).stamped(evaluation, 0, Time(0))));
        let input = EntryId { evaluation, sequence: u64::from(system.is_some()) };
        let made = sheet(&Parts {
            system: system.map(said),
            kept,
            input: (input, &self.call.input.text()),
            evaluation,
            own: Vec::new(),
            exchanges: BTreeMap::new(),
            mode: HistoryMode::Chat,
            template: None,
            seed: None,
            wire: info.wire,
            tokenizer: self.counter.tokenizer,
        });
        let mut made = made.ok()?;
        self.stand_for(&mut made);
        Some(made)
    }

    pub(super) fn context(&self) -> CurationContext {
        let info = self.provider.describe();
        let mut cx = CurationContext::for_model(Some(info.model));
        cx.wire = Some(info.wire);
        self.shared.engine.catalog.configure(&mut cx);
        cx
    }

    /// Tool exchanges that stand before the turns they led to, where the loop wants them.
    fn exchanges(&self, kept: &ChosenTurns, ledger: &Ledger) -> BTreeMap<EntryId, Vec<Arc<Entry>>> {
        let wanted = self.conversation.is_some_and(|conversation| {
            conversation.tool_artifacts == ToolArtifacts::Include && self.agent().mode == HistoryMode::Chat
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
        let input = self.call.input.entry().filter(|input| {
            let scope = self.call.scope.as_ref();
            self.shared.with_state(|state| {
                scope.and_then(|scope| state.scopes().get(scope)).is_some_and(|scope| scope.is_marked(*input))
            })
        });
        kept.turns.iter().map(|turn| turn.entry).chain(input).map(|entry| (entry, of_turn(entry))).collect()
    }

    /// The turns that a history sent as text has, as numbers from 0, if the loop can have fewer of them.
    ///
    /// Such a history is one message, of which the ladder could only shorten the text. Fewer turns come first.
    pub(super) fn turns_in_text(&self) -> Option<Vec<usize>> {
        let stash = self.keeper.stash();
        let shown = &stash.shown;
        if shown.mode != HistoryMode::Prompt || shown.turns.is_empty() && !shown.summary {
            return None;
        }
        Some(shown.turns.iter().flat_map(|(first, last)| first - 1..*last).collect())
    }

    /// Leaves the newer half of those turns, for good.
    pub(super) async fn halve(&self, turns: &[usize]) -> Result<(), Unanswered> {
        let Some(key) = &self.call.scope else { return Ok(()) };
        let kept = turns.get(turns.len().div_ceil(2)..).unwrap_or_default();
        let first = self.shared.with_state(|state| {
            let turns = state.scopes().get(key)?.turns();
            Some(turns.get(*kept.first()?)?.entry)
        });
        let durable = {
            let mut stash = self.keeper.stash();
            let cut = self.keeper.cut(&mut stash, key, first, kept.len());
            Durable { batch: std::mem::take(&mut stash.batch), cut: Some(cut) }
        };
        Ok(self.keeper.commit(durable).await?)
    }
}
