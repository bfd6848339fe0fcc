//! What one call saw of a record: the fate of every entry, and who decided it.
//!
//! Where the bytes that were sent are kept, they say what was left out and what was rewritten; repeating the managers only says
//! why. Where they are not kept (erased with what they said, or only a manager is tried out), repeating has to do for both.

use std::collections::BTreeMap;

use scrollback_core::request::{Presence, RequestTokens, is_whole, seen};
use scrollback_core::wire::{LeftOut, Wire};
use scrollback_core::{CurationContext, Epoch, Fidelity, ItemSource, Record, Slot, View};

use scrollback_core::replay::RepeatedCall;

/// Who left out or changed an entry, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) manager: String,
    pub(crate) reason: &'static str,
}

/// How an entry fared in a call: sent, changed, left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was sent as it was said.
    Kept,
    /// It was sent as it was said, but with other cache marks than it is recorded with.
    MarksMoved,
    /// It was not sent again: the request refers to what its provider holds.
    Held,
    /// It was sent, but not as it was said.
    Changed(Option<Why>),
    /// It was not sent.
    Dropped(Option<Why>),
    /// It was said after the call.
    Later,
}

impl Fate {
    /// The word of its class.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Fate::Kept | Fate::MarksMoved | Fate::Held => "kept",
            Fate::Changed(_) => "changed",
            Fate::Dropped(_) => "dropped",
            Fate::Later => "later",
        }
    }
}

/// A stretch of entries that fared the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// How many messages it has; decisions between them do not count.
    pub(crate) entries: u64,
    /// Tokens of the entries as they were said.
    pub(crate) tokens: u64,
    pub(crate) fate: Fate,
}

/// The request of a recorded call.
pub(crate) struct SentBody<'a> {
    pub(crate) wire: Wire,
    pub(crate) bytes: &'a [u8],
}

/// What the fates of entries are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Basis {
    /// The bytes that were sent.
    Bytes,
    /// The managers, repeated on the record: the bytes are not kept.
    Repeated,
}

/// What one call saw.
pub(crate) struct CallVisibility {
    fates: BTreeMap<u64, Fate>,
    upto: u64,
    /// What was sent in place of entries that were rewritten.
    pub(crate) rewritten: BTreeMap<u64, String>,
    /// Texts of our own: what stands in for something else.
    pub(crate) synthetic: Vec<(String, String)>,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) entries: usize,
    pub(crate) of: usize,
    /// Tokens of the repeated view, its parts apart; none where it cannot be repeated.
    pub(crate) tokens: Option<RequestTokens>,
    /// Tokens of everything that was said, and of the tools.
    pub(crate) tokens_of: u64,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) warnings: Vec<&'static str>,
    /// What the fates are read from.
    pub(crate) basis: Basis,
    /// Why the managers could not be repeated, in words; then no reasons are known.
    pub(crate) unexplained: Option<String>,
}

impl CallVisibility {
    /// What a call saw of the record it was made from. In words, why that cannot be said: its bytes are not kept, and it cannot
    /// be repeated.
    pub(crate) fn of(
        record: &Record,
        asked: &Result<RepeatedCall, String>,
        sent: Option<&SentBody<'_>>,
        tokens: &BTreeMap<u64, u64>,
    ) -> Result<Self, String> {
        let present = sent.and_then(|sent| seen(record, sent.wire, sent.bytes));
        let repeated = match asked {
            Ok(asked) => {
                let view = record.view(&asked.cx, asked.manager.as_ref());
                view.map(|view| Repeated::of(&view, &asked.cx)).map_err(|error| error.to_string())
            }
            Err(why) => Err(why.clone()),
        };
        let said = tokens.range(..record.len() as u64).map(|(_, tokens)| tokens).sum::<u64>();
        let (repeated, unexplained) = match (repeated, &present) {
            (Ok(repeated), _) => (repeated, None),
            (Err(why), Some(_)) => (Repeated::default(), Some(why)),
            (Err(why), None) => return Err(why),
        };
        let mut sight = CallVisibility {
            fates: BTreeMap::new(),
            upto: record.len() as u64,
            rewritten: repeated.rewritten,
            synthetic: repeated.synthetic,
            stretches: Vec::new(),
            entries: repeated.entries,
            of: record.message_count(),
            tokens: repeated.tokens,
            tokens_of: said + repeated.overhead,
            epoch: repeated.epoch,
            warnings: repeated.warnings,
            basis: if present.is_some() { Basis::Bytes } else { Basis::Repeated },
            unexplained,
        };
        if let Some(present) = present {
            sight.rewritten.clear();
            sight.entries = present.values().filter(|one| **one != Presence::Absent).count();
            for (position, presence) in present {
                let why = repeated.changed.get(&position);
                if let (Presence::Rewritten { sent }, _) | (Presence::Respelled, Some((_, Some(sent)))) =
                    (&presence, why)
                {
                    sight.rewritten.insert(position, sent.clone());
                }
                let (changed, dropped) = (why.map(|(why, _)| why), repeated.dropped.get(&position));
                let fate = match fate(&presence, changed, dropped) {
                    // The client marks another place in every call. Of what it sent itself nothing was moved.
                    Fate::MarksMoved if repeated.whole => Fate::Kept,
                    fate => fate,
                };
                sight.fates.insert(position, fate);
            }
        } else {
            for (position, slot) in (0..).zip(record.slots()) {
                if !matches!(slot, Slot::Decision(..)) {
                    sight.fates.insert(position, Fate::Kept);
                }
            }
            let changed = repeated.changed.into_iter().map(|(at, (why, _))| (at, Fate::Changed(Some(why))));
            let dropped = repeated.dropped.into_iter().map(|(at, why)| (at, Fate::Dropped(Some(why))));
            sight.fates.extend(changed.chain(dropped));
        }
        sight.stretches = stretches(&sight.fates, tokens);
        Ok(sight)
    }

    /// The same of a call that is only known from a transcript, made from the record below `upto`. What its request looked like is
    /// not known: neither its instructions and tools, nor what its client wrote in another way because the wire asks for it.
    pub(crate) fn reported(mut self, upto: u64, tokens: &BTreeMap<u64, u64>) -> Self {
        for fate in self.fates.values_mut() {
            if matches!(fate, Fate::Changed(Some(why)) if ["wire", "coherence"].contains(&why.manager.as_str()))
            {
                *fate = Fate::Kept;
            }
        }
        self.rewritten.retain(|position, _| matches!(self.fates.get(position), Some(Fate::Changed(_))));
        self.stretches = stretches(&self.fates, tokens);
        (self.upto, self.tokens) = (upto, None);
        self.tokens_of = tokens.range(..upto).map(|(_, tokens)| tokens).sum();
        self.warnings.clear();
        self
    }

    /// How every message fared, in order of position.
    pub(crate) fn fates(&self) -> impl Iterator<Item = (u64, &Fate)> {
        self.fates.iter().map(|(position, fate)| (*position, fate))
    }

    /// How the entry at a position fared.
    pub(crate) fn fate(&self, position: u64) -> &Fate {
        if position >= self.upto { &Fate::Later } else { self.fates.get(&position).unwrap_or(&Fate::Kept) }
    }
}

/// What bytes say about an entry, with the reason that repeating the managers gives for it.
fn fate(presence: &Presence, changed: Option<&Why>, dropped: Option<&Why>) -> Fate {
    match presence {
        Presence::Exact => Fate::Kept,
        // What is not compared, such as reasoning, may have been taken away on purpose. What a wire or the order of things asks
        // for is no manager's doing: a client may have done the same.
        Presence::Respelled => {
            match changed.filter(|why| !["wire", "coherence"].contains(&why.manager.as_str())) {
                Some(why) => Fate::Changed(Some(why.clone())),
                None => Fate::Kept,
            }
        }
        Presence::MarksMoved => Fate::MarksMoved,
        Presence::Held => Fate::Held,
        Presence::Rewritten { .. } => Fate::Changed(changed.cloned()),
        // Lines of it stand in a ledger.
        Presence::Absent if dropped.is_none() && changed.is_some_and(|why| why.reason == "ledger") => {
            Fate::Changed(changed.cloned())
        }
        Presence::Absent => Fate::Dropped(dropped.cloned()),
    }
}

/// What repeating the managers says about a call.
#[derive(Default)]
struct Repeated {
    /// Who changed an entry, and what was shown instead where its text was rewritten.
    changed: BTreeMap<u64, (Why, Option<String>)>,
    dropped: BTreeMap<u64, Why>,
    rewritten: BTreeMap<u64, String>,
    synthetic: Vec<(String, String)>,
    entries: usize,
    tokens: Option<RequestTokens>,
    overhead: u64,
    epoch: Option<Epoch>,
    warnings: Vec<&'static str>,
    /// Whether nothing is left out or changed: the client's own bytes were sent.
    whole: bool,
}

impl Repeated {
    fn of(view: &View<'_>, cx: &CurationContext) -> Self {
        let mut explanation = view.explain();
        LeftOut::explain(&view.render(cx.wire.unwrap_or(Wire::OpenaiChat), cx).left_out, &mut explanation);
        let mut repeated = Repeated {
            entries: view.len(),
            tokens: Some(RequestTokens::of(view, cx)),
            overhead: cx.overhead(cx.counter) as u64,
            epoch: view.epoch(),
            warnings: view.warnings().into_iter().map(|warning| warning.code).collect(),
            whole: is_whole(view),
            ..Repeated::default()
        };
        for item in view.items() {
            let text = || item.entry.content().unwrap_or_default();
            match &item.source {
                ItemSource::Entry(position) if item.fidelity == Fidelity::Rewritten => {
                    repeated.rewritten.insert(*position, text());
                }
                ItemSource::Entry(_) => {}
                ItemSource::Ledger { of } if of.is_empty() => {
                    repeated.synthetic.push(("says what was left out".into(), text()));
                }
                ItemSource::Ledger { of } => {
                    repeated.synthetic.push((format!("chosen lines of {} entries", of.len()), text()));
                }
                ItemSource::Summary { covers } => {
                    repeated.synthetic.push((format!("summary of {} entries", covers.len()), text()));
                }
                ItemSource::Interrupted { call_id } => {
                    repeated.synthetic.push((format!("stands in for the result of {call_id}"), text()));
                }
            }
        }
        for changed in explanation.changed {
            let why = Why { manager: changed.manager.into(), reason: changed.reason.as_str() };
            let in_ledger = (!changed.lines.is_empty()).then(|| changed.lines.join("\n"));
            let shown = repeated.rewritten.get(&changed.index).cloned().or(in_ledger);
            repeated.changed.insert(changed.index, (why, shown));
        }
        for dropped in explanation.dropped {
            let why = Why { manager: dropped.manager, reason: dropped.reason.as_str() };
            repeated.dropped.insert(dropped.index, why);
        }
        repeated
    }
}

/// Neighbours that fared the same, joined.
fn stretches(fates: &BTreeMap<u64, Fate>, tokens: &BTreeMap<u64, u64>) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for (&position, fate) in fates {
        let more = tokens.get(&position).copied().unwrap_or(0);
        match joined.last_mut() {
            Some(last) if last.fate == *fate => {
                last.last = position;
                last.entries += 1;
                last.tokens += more;
            }
            _ => joined.push(Stretch {
                first: position,
                last: position,
                entries: 1,
                tokens: more,
                fate: fate.clone(),
            }),
        }
    }
    joined
}

/// Tokens of every message of a record.
pub(crate) fn tokens(record: &Record, cx: &CurationContext) -> BTreeMap<u64, u64> {
    let message = |(position, slot): (u64, &Slot)| match slot {
        Slot::Message(entry) => {
            Some((position, scrollback_core::tokens::entry_tokens(cx.counter.tokenizer, entry) as u64))
        }
        _ => None,
    };
    (0..).zip(record.slots()).filter_map(message).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::{Entry, Role, Time, manager};
    use uuid::Uuid;

    #[test]
    fn every_entry_has_a_fate_and_neighbours_are_joined() {
        let mut record = Record::new();
        let mut say = |entry: Entry| {
            let sequence = record.len() as u64;
            record.append(entry.stamped(Uuid::nil(), sequence, Time(0))).unwrap();
        };
        say(Entry::text(Role::System, "Be brief."));
        for turn in 0..4 {
            say(Entry::text(Role::User, &format!("question {turn}")));
            say(Entry::text(Role::Assistant, "answer"));
        }
        let cx = CurationContext::default();
        let counted = tokens(&record, &cx);
        let asked = |manager: &str| {
            Ok(RepeatedCall {
                upto: 9,
                manager: manager::parse(manager).unwrap(),
                cx: CurationContext::default(),
            })
        };
        let sight = CallVisibility::of(&record, &asked("turn_window(2)"), None, &counted).unwrap();
        assert_eq!((sight.entries, sight.of), (5, 9));
        let older = Some(Why { manager: "turn_window".into(), reason: "older_turn" });
        let told: Vec<_> =
            sight.stretches.iter().map(|one| (one.first, one.last, one.fate.class())).collect();
        assert_eq!(told, [(0, 0, "kept"), (1, 4, "dropped"), (5, 8, "kept")]);
        assert_eq!(sight.fate(2), &Fate::Dropped(older.clone()));
        assert_eq!(sight.fate(9), &Fate::Later);
        assert!((sight.tokens.unwrap().total as u64) < sight.tokens_of);
        assert_eq!(sight.stretches[1].tokens, (1..=4).map(|at| counted[&at]).sum::<u64>());

        // The bytes decide, and the managers only say why.
        let body = br#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"question 1"},{"role":"assistant","content":"answer"},{"role":"user","content":"question 2"},{"role":"assistant","content":"answer"},{"role":"user","content":"question 3"},{"role":"assistant","content":"answer"}]}"#;
        let sent = SentBody { wire: Wire::OpenaiChat, bytes: body };
        let sight = CallVisibility::of(&record, &asked("turn_window(2)"), Some(&sent), &counted).unwrap();
        assert_eq!((sight.entries, sight.of), (7, 9));
        assert_eq!((sight.fate(2), sight.fate(3)), (&Fate::Dropped(older), &Fate::Kept));
        let forgotten = Err("its managers cannot be read".to_string());
        let sight = CallVisibility::of(&record, &forgotten, Some(&sent), &counted).unwrap();
        assert_eq!(sight.fate(2), &Fate::Dropped(None), "without a reason the statement stands");
        assert_eq!(sight.unexplained.as_deref(), Some("its managers cannot be read"));
        assert!(CallVisibility::of(&record, &forgotten, None, &counted).is_err());
    }
}
