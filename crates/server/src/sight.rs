//! What one call saw of a record: the fate of every entry, and who decided it.

use std::collections::BTreeMap;

use scrollback_core::wire::{LeftOut, Wire};
use scrollback_core::{CurationContext, Epoch, Fidelity, HistoryManager, Record, Slot, Source};

/// What became of an entry in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was sent as it was said.
    Kept,
    /// It was sent, but not as it was said or not where.
    Changed { manager: String, reason: &'static str },
    /// It was not sent.
    Dropped { manager: String, reason: &'static str },
    /// It was said after the call.
    Later,
}

impl Fate {
    /// The word of its class.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Changed { .. } => "changed",
            Fate::Dropped { .. } => "dropped",
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

/// What one call saw.
pub(crate) struct Sight {
    fates: BTreeMap<u64, Fate>,
    upto: u64,
    /// What was sent in place of entries that were rewritten.
    pub(crate) rewritten: BTreeMap<u64, String>,
    /// Texts of our own: what stands in for something else.
    pub(crate) synthetic: Vec<(String, String)>,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) entries: usize,
    pub(crate) of: usize,
    pub(crate) tokens: u64,
    pub(crate) tokens_of: u64,
    /// How tokens were counted: `exact` or `estimate`.
    pub(crate) method: &'static str,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) warnings: Vec<&'static str>,
}

impl Sight {
    /// Repeats a call on the record it saw. In words, why that cannot be done.
    pub(crate) fn of(
        record: &Record,
        manager: &dyn HistoryManager,
        cx: &CurationContext,
        tokens: &BTreeMap<u64, u64>,
    ) -> Result<Self, String> {
        let view = record.view(cx, manager).map_err(|error| error.to_string())?;
        let mut explanation = view.explain();
        LeftOut::explain(&view.render(cx.wire.unwrap_or(Wire::OpenaiChat), cx).left_out, &mut explanation);
        let mut fates = BTreeMap::new();
        for (position, slot) in (0..).zip(record.slots()) {
            if !matches!(slot, Slot::Decision(..)) {
                fates.insert(position, Fate::Kept);
            }
        }
        for changed in explanation.changed {
            fates.insert(
                changed.index,
                Fate::Changed { manager: changed.manager.into(), reason: changed.reason.as_str() },
            );
        }
        for dropped in explanation.dropped {
            fates.insert(
                dropped.index,
                Fate::Dropped { manager: dropped.manager, reason: dropped.reason.as_str() },
            );
        }
        let count = view.count(cx);
        let (mut rewritten, mut synthetic) = (BTreeMap::new(), Vec::new());
        for item in view.items() {
            let text = || item.entry.content().unwrap_or_default();
            match &item.source {
                Source::Entry(position) if item.fidelity == Fidelity::Rewritten => {
                    rewritten.insert(*position, text());
                }
                Source::Entry(_) => {}
                Source::Summary { covers } => {
                    synthetic.push((format!("summary of {} entries", covers.len()), text()));
                }
                Source::Interrupted { call_id } => {
                    synthetic.push((format!("stands in for the result of {call_id}"), text()));
                }
            }
        }
        // What was said, not what earlier decisions left of it.
        let whole = tokens.range(..record.len() as u64).map(|(_, tokens)| tokens).sum::<u64>()
            + count.overhead as u64;
        Ok(Sight {
            stretches: stretches(&fates, tokens),
            fates,
            upto: record.len() as u64,
            rewritten,
            synthetic,
            entries: view.len(),
            of: record.message_count(),
            tokens: count.total as u64,
            tokens_of: whole,
            method: count.counter.method.name(),
            epoch: view.epoch(),
            warnings: view.warnings().into_iter().map(|warning| warning.code).collect(),
        })
    }

    /// What became of the entry at a position.
    pub(crate) fn fate(&self, position: u64) -> &Fate {
        if position >= self.upto { &Fate::Later } else { self.fates.get(&position).unwrap_or(&Fate::Kept) }
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
        let sight =
            Sight::of(&record, manager::parse("turn_window(2)").unwrap().as_ref(), &cx, &counted).unwrap();
        assert_eq!((sight.entries, sight.of), (5, 9));
        let told: Vec<_> =
            sight.stretches.iter().map(|one| (one.first, one.last, one.fate.class())).collect();
        assert_eq!(told, [(0, 0, "kept"), (1, 4, "dropped"), (5, 8, "kept")]);
        assert_eq!(sight.fate(2), &Fate::Dropped { manager: "turn_window".into(), reason: "older_turn" });
        assert_eq!(sight.fate(9), &Fate::Later);
        assert!(sight.tokens < sight.tokens_of);
        assert_eq!(sight.stretches[1].tokens, (1..=4).map(|at| counted[&at]).sum::<u64>());
    }
}
