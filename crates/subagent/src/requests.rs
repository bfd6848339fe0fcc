//! The requests of a mission: made of its turns by a compression, and made smaller by the ladder when they are too large.

use std::sync::Arc;

use scrollback_agent::exchange::RequestBuilder;
use scrollback_core::manager::Passthrough;
use scrollback_core::request::{
    CallerRequest, Ladder, LadderStep, Policy, PrepareError, Prepared, RequestMessage, RequestTokens, Stated,
    prepare_items,
};
use scrollback_core::wire::Wire;
use scrollback_core::{
    CurationContext, Decision, Entry, Fidelity, ItemSource as From, Record, Role, Time, ViewItem,
};
use scrollback_lisp::Memory;
use uuid::Uuid;

use super::compression::{Compression, PromptMessage, PromptSource, Rendered, TurnLedger};
use super::input::Input;
use super::record::Positions;
use super::smaller_requests::Tightened;
use super::step::SentCall;
use super::turn::Turn;

/// What stands for a reply that says nothing, which some providers refuse.
const EMPTY: &str = "(empty reply)";
/// Entries of a picture before its first turn: instructions, what cannot be smaller, the mission.
const OPENING: u64 = 3;

/// What the requests of a mission are made of.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) strategy: Arc<dyn Compression>,
    pub(crate) input: Arc<Input>,
    pub(crate) wire: Wire,
    pub(crate) turns: Vec<Turn>,
    pub(crate) ledger: TurnLedger,
    pub(crate) memory: Memory,
    pub(crate) positions: Positions,
}

impl Requests {
    /// Counts the turns that are new.
    pub(crate) fn weigh(&mut self) {
        self.ledger.advance(&self.turns);
        self.ledger.weigh(&self.turns, &self.input, self.strategy.shown());
    }

    /// The messages of the next request.
    pub(crate) fn render(&self, tightened: &Tightened) -> Rendered {
        let Requests { strategy, ledger, turns, memory, input, .. } = self;
        let mut rendered = tightened.render(&**strategy, ledger, turns, memory, input);
        rendered.stats.tokens = Some(ledger.tokens(turns, input, strategy.shown(), &rendered));
        rendered
    }

    /// What the next request is, as it is written down.
    pub(crate) fn call(&self, record: &Record, tightened: Tightened) -> SentCall {
        let rendered = self.render(&tightened);
        self.sent(record, self.turns.len(), tightened, rendered)
    }

    /// What the call before a turn was sent, made again.
    pub(crate) fn call_before(&self, record: &Record, count: usize) -> SentCall {
        let before = self.positions.turns.get(count).map_or(record.len() as u64, |(reply, _)| *reply);
        let tightened = Tightened::of(record, &self.positions, before);
        let turns = self.turns.get(..count).unwrap_or_default();
        let rendered = tightened.to_messages(&*self.strategy, turns, &self.input);
        self.sent(record, count, tightened, rendered)
    }

    fn sent(&self, record: &Record, turns: usize, tightened: Tightened, rendered: Rendered) -> SentCall {
        let view = self.items(record, &rendered).into_iter().map(|(_, shown)| shown).collect();
        SentCall { turns, hash: rendered.hash(), stats: rendered.stats, view, tightened }
    }

    /// The entries that are sent, and where each comes from.
    fn items(&self, record: &Record, rendered: &Rendered) -> Vec<(ViewItem, RequestMessage)> {
        let item = |message: &PromptMessage| {
            let text = || super::cache::marked(message, rendered.heading, self.wire);
            let entry_at = |position: u64| {
                (From::Entry(position), RequestMessage::Entry { index: position, changed: false })
            };
            let (entry, (source, shown)) = match message.source {
                PromptSource::System => (text(), entry_at(self.positions.system.unwrap_or(0))),
                PromptSource::Mission => (text(), entry_at(self.positions.mission)),
                PromptSource::Coalesced(turns) => {
                    let replies =
                        self.positions.turns.iter().take(turns).flat_map(|(reply, told)| [*reply, *told]);
                    let covers: Vec<u64> = [self.positions.mission].into_iter().chain(replies).collect();
                    let shown = RequestMessage::Coalesced {
                        coalesced: covers.clone(),
                        strategy: self.strategy.name(),
                    };
                    (text(), (From::Summary { covers }, shown))
                }
                PromptSource::Reply(turn) => {
                    let position = self.positions.turns.get(turn).map_or(0, |(reply, _)| *reply);
                    let said = record.entry(position).filter(|entry| entry.open_calls().next().is_none());
                    let entry = match said {
                        Some(entry) if !message.text.is_empty() => Arc::clone(entry),
                        _ if message.text.is_empty() => Arc::new(Entry::text(Role::Assistant, EMPTY)),
                        _ => text(),
                    };
                    (entry, entry_at(position))
                }
                PromptSource::Feedback(turn) => {
                    (text(), entry_at(self.positions.turns.get(turn).map_or(0, |(_, told)| *told)))
                }
            };
            (ViewItem { source, entry, fidelity: Fidelity::AsSaid }, shown)
        };
        rendered.messages.iter().map(item).collect()
    }

    /// The request as the ladder sees it: the mission is the task, each turn that is told is an exchange with a tool, and what
    /// it printed or came to is the result. Turns before the cut are told by what they defined, which nothing makes smaller.
    fn picture(&self, tightened: &Tightened) -> Option<Record> {
        let rendered = self.render(tightened);
        let (turns, input) = (tightened.turns(&self.turns), tightened.input(&self.input));
        let mission = input.mission.trim();
        let mut results: Vec<(Option<&str>, String)> = vec![(None, String::new()); turns.len()];
        let mut room = self.strategy.shown().println_limit;
        for (turn, result) in turns.iter().zip(&mut results).rev() {
            let shown = turn.prints.len().min(room);
            room -= shown;
            result.1 = turn.prints.get(turn.prints.len() - shown..).unwrap_or_default().join("\n");
        }
        let mut rest = String::new();
        for message in &rendered.messages {
            match message.source {
                PromptSource::Reply(turn) => {
                    results.get_mut(turn).into_iter().for_each(|result| result.0 = Some(&message.text));
                }
                PromptSource::Feedback(turn) => {
                    results.get_mut(turn).into_iter().for_each(|result| result.1.clone_from(&message.text));
                }
                PromptSource::Mission | PromptSource::Coalesced(_) => {
                    rest = message.text.replacen(mission, "", 1);
                }
                PromptSource::System => {}
            }
        }
        for turn in turns.iter().skip(tightened.cut) {
            for print in turn.prints.iter().filter(|print| !print.is_empty()) {
                rest = rest.replacen(print.as_str(), "", 1);
            }
        }
        let system = rendered.messages.first().map_or("", |message| &message.text);
        let mut entries = vec![
            Entry::text(Role::System, system),
            Entry::text(Role::System, &rest),
            Entry::text(Role::User, mission),
        ];
        for (at, (reply, result)) in results.into_iter().enumerate().skip(tightened.cut) {
            let id = format!("turn_{at}");
            entries.push(Entry::calling(reply, &[(&id, "program", "{}")]));
            entries.push(Entry::result(&id, &result));
        }
        let mut picture = Record::new();
        for (entry, sequence) in entries.into_iter().zip(0..) {
            picture.append(entry.stamped(Uuid::nil(), sequence, Time(0))).ok()?;
        }
        Some(picture)
    }

    /// Where in the record a place of the picture is.
    fn place(&self, record: &Record, tightened: &Tightened, at: u64) -> u64 {
        let Some(behind) = at.checked_sub(OPENING) else { return self.positions.mission };
        let turn = self.positions.turns.get(tightened.cut + (behind / 2) as usize);
        turn.map_or(record.len() as u64, |(reply, told)| if behind % 2 == 0 { *reply } else { *told })
    }
}

/// How the next request of a mission is made.
pub(crate) struct NextTurn {
    pub(crate) requests: Arc<Requests>,
    pub(crate) asked: CallerRequest,
    pub(crate) policy: Arc<Policy>,
    pub(crate) own: CurationContext,
}

impl NextTurn {
    fn items(&self, record: &Record) -> (Vec<ViewItem>, Vec<RequestMessage>) {
        let tightened = Tightened::of(record, &self.requests.positions, record.len() as u64);
        self.requests.items(record, &self.requests.render(&tightened)).into_iter().unzip()
    }
}

impl RequestBuilder for NextTurn {
    fn make(&self, record: &Record, _: &CurationContext) -> Result<Prepared, PrepareError> {
        let (items, shown) = self.items(record);
        prepare_items(items, shown, record.message_count(), &self.asked, &self.policy, &self.own)
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn smaller(
        &self,
        ladder: &mut Ladder,
        record: &Record,
        _: &CurationContext,
        stated: Stated,
        tokens: usize,
    ) -> Option<(LadderStep, Decision)> {
        let tightened = Tightened::of(record, &self.requests.positions, record.len() as u64);
        let picture = self.requests.picture(&tightened)?;
        // What the newest turn came to is what the model is to answer: it is shortened, never left out.
        let cx = CurationContext { preserve_last_n: Some(1), ..self.own.clone() };
        let (step, decision) = ladder.next(&picture, &Passthrough, &cx, stated, tokens)?;
        Some((step, decision.moved(|at| self.requests.place(record, &tightened, at))))
    }

    fn tokens(&self, record: &Record, _: &CurationContext) -> usize {
        RequestTokens::of_items(&self.items(record).0, &self.own).total
    }
}
