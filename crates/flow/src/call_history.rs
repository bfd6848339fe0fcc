//! What one call is sent: system, history, input and the step's own exchanges, as a record made for it. Pure.
//!
//! The record of a run holds everything that was said. A call sees a sheet of it: a small record that shares the entries,
//! in the order and with the roles the call shall see them. Managers, rules and renderers work on it as on any record.

use std::collections::BTreeMap;
use std::sync::Arc;

use scrollback_core::tokens::{Tokenizer, entry_tokens};
use scrollback_core::wire::Wire;
use scrollback_core::{AppendError, Entry, Record, Role, SUMMARY_HEADING, Time};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::history::ChosenTurns;
use crate::passed_values::EntryId;
use crate::state::turns_value;
use crate::template::TooLarge;
use crate::turns::role_of;
use crate::{FlowName, FlowTemplate, HistoryMode, Names};

/// What stands around the history where agents are sent text.
const OPEN: &str = "<conversation_history>";
const CLOSE: &str = "</conversation_history>";
/// How the closing mark is escaped when it is part of a message.
const ESCAPED: &str = "<\\/conversation_history>";

/// What a message of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageSource {
    /// The instructions.
    System,
    /// A turn.
    History,
    /// What stands for older turns.
    Summary,
    /// What the step was given.
    Input,
    /// The step's own exchanges.
    Step,
}

/// One message of a sheet.
#[derive(Clone, Debug)]
pub struct SheetMessage {
    /// What it is.
    pub source: MessageSource,
    /// The entry it is, if it is one.
    pub entry: Option<EntryId>,
    /// Its tokens.
    pub tokens: usize,
    /// Whether it says something else than its entry.
    pub changed: Option<&'static str>,
}

/// What a sheet is made of.
pub struct Parts<'a> {
    /// The instructions, as the entry they are.
    pub system: Option<(EntryId, Arc<Entry>)>,
    /// What stands in front of the input.
    pub kept: &'a ChosenTurns,
    /// The input: the entry it is, and its text.
    pub input: (EntryId, &'a str),
    /// The evaluation that is asked; its entries keep their places.
    pub evaluation: Uuid,
    /// What the step has said and been told so far.
    pub own: Vec<(EntryId, Arc<Entry>)>,
    /// Tool exchanges that stand before a turn, by the turn's entry.
    pub exchanges: BTreeMap<EntryId, Vec<Arc<Entry>>>,
    /// How history reaches the agent.
    pub mode: HistoryMode,
    /// The block of text it becomes, where it is sent as text; none: the usual one.
    pub template: Option<&'a FlowTemplate>,
    /// What is put before the first turn there, and which turn that is.
    pub seed: Option<(EntryId, &'a str)>,
    /// The format of the request.
    pub wire: Wire,
    /// Who counts.
    pub tokenizer: Tokenizer,
}

/// A record made for one call.
pub struct Sheet {
    /// What managers and renderers see.
    pub record: Record,
    /// What each of its places is.
    pub places: Vec<SheetMessage>,
    /// Turns that a request may not begin with, by entry.
    pub start_rule: Vec<EntryId>,
}

impl Sheet {
    /// Whether at least one turn stands in front of the input.
    pub fn is_injected(&self) -> bool {
        self.places.iter().any(|place| {
            matches!(place.source, MessageSource::History | MessageSource::Summary)
                || place.changed == Some("injected")
        })
    }
}

/// Why a sheet cannot be made.
#[derive(Debug)]
pub enum NoSheet {
    /// The block of history is too large.
    TooLarge(TooLarge),
    /// The parts do not follow each other.
    Append(AppendError),
}

impl std::fmt::Display for NoSheet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoSheet::TooLarge(error) => error.fmt(f),
            NoSheet::Append(error) => error.fmt(f),
        }
    }
}

impl From<AppendError> for NoSheet {
    fn from(error: AppendError) -> Self {
        NoSheet::Append(error)
    }
}

/// Puts a sheet together.
pub fn sheet(parts: &Parts<'_>) -> Result<Sheet, NoSheet> {
    let room = parts.kept.len() + parts.own.len() + 2;
    let mut draft = SheetDraft {
        record: Record::with_room(room),
        places: Vec::with_capacity(room),
        tokenizer: parts.tokenizer,
    };
    let mut start_rule = Vec::new();
    if let Some((id, entry)) = &parts.system {
        draft.add(MessageSource::System, *id, parts.shown(*id, entry), None)?;
    }
    let (input, text) = parts.input;
    match parts.mode {
        HistoryMode::Chat => {
            parts.history(&mut draft, &mut start_rule)?;
            let said = Entry::text(Role::User, text);
            draft.add(MessageSource::Input, input, parts.stamped(input, said), None)?;
        }
        HistoryMode::Prompt => {
            let (block, escaped) = parts.block().map_err(NoSheet::TooLarge)?;
            let injected = !block.is_empty();
            let text = if injected { format!("{block}\n\n{text}") } else { text.into() };
            let changed = if escaped { Some("escaped") } else { injected.then_some("injected") };
            let said = parts.stamped(input, Entry::text(Role::User, &text));
            draft.add(MessageSource::Input, input, said, changed)?;
        }
    }
    for (id, entry) in &parts.own {
        draft.add(MessageSource::Step, *id, Arc::clone(entry), None)?;
    }
    Ok(Sheet { record: draft.record, places: draft.places, start_rule })
}

/// A sheet while it is put together.
struct SheetDraft {
    record: Record,
    places: Vec<SheetMessage>,
    tokenizer: Tokenizer,
}

impl SheetDraft {
    fn add(
        &mut self,
        source: MessageSource,
        id: EntryId,
        entry: Arc<Entry>,
        changed: Option<&'static str>,
    ) -> Result<(), NoSheet> {
        let tokens = entry_tokens(self.tokenizer, &entry);
        self.put(SheetMessage { source, entry: Some(id), tokens, changed }, entry)
    }

    fn put(&mut self, place: SheetMessage, entry: Arc<Entry>) -> Result<(), NoSheet> {
        self.record.share_counted(entry, self.tokenizer, place.tokens)?;
        self.places.push(place);
        Ok(())
    }
}

impl Parts<'_> {
    /// An entry of this evaluation keeps its place in it; any other stands alone.
    fn stamped(&self, id: EntryId, entry: Entry) -> Arc<Entry> {
        Arc::new(if id.evaluation == self.evaluation {
            entry.stamped(id.evaluation, id.sequence, Time(0))
        } else {
            entry.stamped(id.apart(), 0, Time(0))
        })
    }

    fn shown(&self, id: EntryId, entry: &Arc<Entry>) -> Arc<Entry> {
        if id.evaluation == self.evaluation {
            return Arc::clone(entry);
        }
        self.stamped(id, Entry::clone(entry))
    }

    /// One message per turn, with its own role.
    fn history(&self, draft: &mut SheetDraft, start_rule: &mut Vec<EntryId>) -> Result<(), NoSheet> {
        let mut begun = !self.wire.starts_with_user();
        if let Some(summary) = &self.kept.summary {
            let (text, place) = if begun {
                (Arc::clone(summary.spoken().message()), summary.spoken().tokens(draft.tokenizer))
            } else {
                // The list begins with a user, who names what follows.
                let heading = Entry::text(Role::User, SUMMARY_HEADING);
                let apart = Uuid::from_u128(1);
                let heading = Arc::new(heading.stamped(apart, 0, Time(0)));
                let tokens = entry_tokens(draft.tokenizer, &heading);
                draft.put(
                    SheetMessage { source: MessageSource::Summary, entry: None, tokens, changed: None },
                    heading,
                )?;
                let text = Arc::new(Entry::text(Role::Assistant, &summary.text).stamped(apart, 1, Time(0)));
                let tokens = entry_tokens(draft.tokenizer, &text);
                (text, tokens)
            };
            begun = true;
            draft.put(
                SheetMessage { source: MessageSource::Summary, entry: None, tokens: place, changed: None },
                text,
            )?;
        }
        for turn in &self.kept.turns {
            begun |= turn.role == crate::TurnRole::User;
            if !begun {
                start_rule.push(turn.entry);
                continue;
            }
            for entry in self.exchanges.get(&turn.entry).into_iter().flatten() {
                let tokens = entry_tokens(draft.tokenizer, entry);
                let place = SheetMessage {
                    source: MessageSource::History,
                    entry: Some(turn.entry),
                    tokens,
                    changed: None,
                };
                draft.put(place, Arc::clone(entry))?;
            }
            let tokens = turn.spoken().tokens(draft.tokenizer);
            let place = SheetMessage {
                source: MessageSource::History,
                entry: Some(turn.entry),
                tokens,
                changed: None,
            };
            draft.put(place, Arc::clone(turn.spoken().message()))?;
        }
        // The input may be a turn itself: what led to it still stands before it.
        for entry in self.exchanges.get(&self.input.0).into_iter().flatten() {
            let tokens = entry_tokens(draft.tokenizer, entry);
            let place = SheetMessage { source: MessageSource::History, entry: None, tokens, changed: None };
            draft.put(place, Arc::clone(entry))?;
        }
        Ok(())
    }

    /// The history as text, and whether a closing mark in it had to be written otherwise.
    fn block(&self) -> Result<(String, bool), TooLarge> {
        if self.kept.is_empty() {
            return Ok((String::new(), false));
        }
        let summary = self
            .kept
            .summary
            .iter()
            .map(|summary| (Role::Assistant, format!("{SUMMARY_HEADING}\n{}", summary.text)));
        let turns = self.kept.turns.iter().map(|turn| {
            let prefix = self.seed.filter(|(seed, _)| *seed == turn.entry).map_or("", |(_, prefix)| prefix);
            (role_of(turn.role), format!("{prefix}{}", turn.text))
        });
        let turns: Vec<(Role, String)> = summary.chain(turns).collect();
        let Some(template) = self.template else {
            let escaped = turns.iter().any(|(_, text)| text.contains(CLOSE));
            let lines =
                turns.iter().map(|(role, text)| format!("{role}: {}\n", text.replace(CLOSE, ESCAPED)));
            return Ok((format!("{OPEN}\n{}{CLOSE}", lines.collect::<String>()), escaped));
        };
        let history = turns_value(turns.iter().map(|(role, text)| (role.as_str(), text.as_str())));
        let text = template.render(&TurnsName(history), &mut |_| {})?;
        Ok((text.trim_end_matches('\n').into(), false))
    }
}

/// The one name a history template knows.
struct TurnsName(Value);

impl Names for TurnsName {
    fn value(&self, name: &FlowName) -> Option<std::borrow::Cow<'_, Value>> {
        (*name == FlowName::History).then_some(std::borrow::Cow::Borrowed(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TurnRole;
    use crate::turns::{Condensed, Turn};

    fn entry(sequence: u64) -> EntryId {
        EntryId { evaluation: Uuid::from_u128(99 << 64), sequence }
    }

    fn kept(roles: &[TurnRole], summary: Option<&str>) -> ChosenTurns {
        let turns = roles.iter().zip(0..).map(|(role, number)| {
            Arc::new(Turn::new(entry(number), *role, None, format!("turn {number}").into()))
        });
        let summary = summary.map(|text| Arc::new(Condensed::new(1, text.into())));
        ChosenTurns { turns: turns.collect(), summary, ..ChosenTurns::default() }
    }

    fn made(kept: &ChosenTurns, wire: Wire) -> Sheet {
        let parts = Parts {
            system: None,
            kept,
            input: (EntryId { evaluation: Uuid::from_u128(7), sequence: 0 }, "now"),
            evaluation: Uuid::from_u128(7),
            own: Vec::new(),
            exchanges: BTreeMap::new(),
            mode: HistoryMode::Chat,
            template: None,
            seed: None,
            wire,
            tokenizer: Tokenizer::Characters,
        };
        sheet(&parts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn said(sheet: &Sheet) -> Vec<String> {
        let entries = (0..sheet.places.len() as u64).filter_map(|position| sheet.record.entry(position));
        entries.map(|entry| format!("{}: {}", entry.role, entry.content().unwrap_or_default())).collect()
    }

    #[test]
    fn where_a_list_begins_with_a_user_leading_replies_are_left_out() {
        use TurnRole::{Assistant, User};
        let history = kept(&[Assistant, Assistant, User, Assistant], None);
        let chat = made(&history, Wire::OpenaiChat);
        assert_eq!((said(&chat).len(), chat.start_rule.len(), chat.is_injected()), (5, 0, true));
        let anthropic = made(&history, Wire::Anthropic);
        assert_eq!(said(&anthropic), ["user: turn 2", "assistant: turn 3", "user: now"]);
        assert_eq!(anthropic.start_rule, [entry(0), entry(1)]);
        let none = made(&kept(&[Assistant], None), Wire::Anthropic);
        assert_eq!((said(&none).len(), none.is_injected()), (1, false));
    }

    #[test]
    fn a_summary_that_comes_first_is_introduced_where_it_must_be() {
        let history = kept(&[TurnRole::Assistant], Some("they met"));
        let chat = said(&made(&history, Wire::OpenaiChat));
        assert_eq!(chat[0], format!("assistant: {SUMMARY_HEADING}\nthey met"));
        let anthropic = said(&made(&history, Wire::Anthropic));
        assert_eq!(anthropic[..2], [format!("user: {SUMMARY_HEADING}"), "assistant: they met".into()]);
        assert_eq!(anthropic.len(), 4, "what follows it stays");
    }

    #[test]
    fn places_share_the_turns_and_know_their_tokens() {
        let history = kept(&[TurnRole::User], None);
        let sheet = made(&history, Wire::OpenaiChat);
        let turn = &history.turns[0];
        let shared = sheet.record.entry(0).is_some_and(|entry| Arc::ptr_eq(entry, turn.spoken().message()));
        assert!(shared, "no text is copied");
        assert_eq!(sheet.places[0].tokens, turn.spoken().tokens(Tokenizer::Characters));
    }
}
