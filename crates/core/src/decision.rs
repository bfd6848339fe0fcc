//! Decisions: curation choices that must last, kept as entries of the record like anything said.

use serde::{Deserialize, Serialize};

use crate::auto::ledger::LedgerPart;
use crate::entry::Usage;
use crate::manager::truncate::Keep;
use crate::tokens::Factor;
use crate::view::notice::{names_files, without_files};

/// A run of positions, both ends included; printed as `[first, last]`.
pub type Span = (u64, u64);

/// A choice recorded so that every later view repeats it.
///
/// Positions are places in the record. Later decisions win over earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// These system entries are the lead from now on; the former lead is left out.
    Lead {
        /// The entries, in the order they shall stand.
        positions: Vec<u64>,
    },
    /// Everything before a position is left out.
    Cut {
        /// First position that stays.
        before: u64,
        /// The task at the time of the cut, kept although it lies before it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        held: Option<u64>,
        /// The manager that cut.
        by: String,
        /// The scope the cut holds for; everywhere if none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        scope: Option<String>,
        /// What else is kept although it lies before the cut: entries that a manager pins, the first steps of a trajectory.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        kept: Vec<u64>,
        /// What was owed when the cut was made, kept until the next cut although it lies before this one.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        owed: Vec<u64>,
        /// The line that views show where the cut is: what was left out.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        notice: Option<String>,
        /// What estimates were multiplied by when the cut was made; none where tokens were counted exactly or not at all.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        factor: Option<Factor>,
    },
    /// Views begin with the front, and show everything from a position on; made by `auto`.
    Plan {
        /// What stands behind the instructions, in order.
        front: Vec<PlanItem>,
        /// First position from which on everything is shown.
        tail: u64,
        /// Tokens the whole request may have.
        limit: u64,
        /// The manager that planned, with the version of its way to plan.
        by: String,
        /// The scope the plan holds for; everywhere if none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        scope: Option<String>,
        /// What estimates were multiplied by when the plan was made; none where tokens were counted exactly.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        factor: Option<Factor>,
    },
    /// The results at these positions show a placeholder.
    Clear {
        /// Positions of tool results.
        positions: Vec<u64>,
        /// What they show.
        placeholder: String,
    },
    /// The results at these positions are shortened.
    Truncate {
        /// Positions of tool results.
        positions: Vec<u64>,
        /// Characters that stay.
        max_length: usize,
        /// Which end stays.
        keep: Keep,
    },
    /// These groups are protected from every manager.
    Pin {
        /// All positions of the groups.
        positions: Vec<u64>,
    },
    /// These groups are no longer pinned.
    Unpin {
        /// All positions of the groups.
        positions: Vec<u64>,
    },
    /// One text stands for these ranges.
    Summary {
        /// What it stands for.
        covers: Vec<Span>,
        /// The summary.
        text: String,
        /// Where it stands in the view.
        place: SummaryPlace,
        /// Who wrote it: `offline`, or a model.
        by: String,
        /// What writing it cost.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        usage: Option<Usage>,
        /// Position of the summary it takes the place of.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        replaces: Option<u64>,
        /// The scope it holds for; everywhere if none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        scope: Option<String>,
    },
    /// A summary was asked for and could not be written; views are as before.
    SummaryFailed {
        /// What should have been covered.
        range: Span,
        /// Why not.
        reason: String,
    },
    /// These calls will not be answered; they are shown with an explicit interrupted result.
    Interrupted {
        /// Ids of the calls.
        call_ids: Vec<String>,
    },
    /// A client sent an entry back in a version of its own: an old result that it cleared, arguments that it normalised. The
    /// record keeps the original; views show the client's version of a result where that is shorter.
    Echo {
        /// Position of the entry.
        position: u64,
        /// Who speaks in the client's version.
        role: crate::Role,
        /// The wire of `body`.
        wire: String,
        /// The message as the client sent it.
        body: String,
    },
    /// These replies broke off, and the client asked again without them; views leave them out.
    Superseded {
        /// Positions of the replies.
        positions: Vec<u64>,
    },
    /// The provider itself cleared these results of a request (context editing), and will do so again. Views count them as the
    /// provider does; the client's own list still has them.
    ProviderEdit {
        /// The provider's name for what it did, such as `clear_tool_uses_20250919`.
        edit: String,
        /// Positions of tool results.
        positions: Vec<u64>,
    },
    /// The entry is a turn of a loop; concerns only views of that scope.
    Turn {
        /// The loop.
        scope: String,
        /// Position of the entry.
        entry: u64,
        /// Role the turn is shown with.
        role: crate::Role,
        /// The field of a structured output that is the turn's text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        field: Option<String>,
    },
}

impl Decision {
    /// The same decision about other positions: what was at `p` is at `place(p)`.
    #[must_use]
    pub fn moved(mut self, place: impl Fn(u64) -> u64) -> Self {
        match &mut self {
            Decision::Lead { positions }
            | Decision::Clear { positions, .. }
            | Decision::Truncate { positions, .. }
            | Decision::Pin { positions }
            | Decision::Unpin { positions }
            | Decision::ProviderEdit { positions, .. }
            | Decision::Superseded { positions } => positions.iter_mut().for_each(|at| *at = place(*at)),
            Decision::Cut { before, held, kept, owed, .. } => {
                *before = place(*before);
                *held = held.map(&place);
                for at in kept.iter_mut().chain(owed) {
                    *at = place(*at);
                }
            }
            Decision::Plan { front, tail, .. } => {
                *tail = place(*tail);
                for item in front {
                    item.move_to(&place);
                }
            }
            Decision::Summary { covers, .. } => {
                for (first, last) in covers {
                    (*first, *last) = (place(*first), place(*last));
                }
            }
            Decision::SummaryFailed { range: (first, last), .. } => {
                (*first, *last) = (place(*first), place(*last));
            }
            Decision::Turn { entry, .. } => *entry = place(*entry),
            Decision::Echo { position, .. } => *position = place(*position),
            Decision::Interrupted { .. } => {}
        }
        self
    }
}

/// One thing at the front of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum PlanItem {
    /// An entry as it was said, by position.
    Entry(u64),
    /// A ledger that this plan brings.
    Ledger {
        /// What it keeps, group by group.
        ledger: Vec<LedgerPart>,
    },
    /// The ledger that an earlier plan brought.
    Kept {
        /// Position of that plan.
        ledger_of: u64,
    },
}

impl PlanItem {
    /// The position, if it is an entry.
    pub fn entry(&self) -> Option<u64> {
        match self {
            PlanItem::Entry(at) => Some(*at),
            PlanItem::Ledger { .. } | PlanItem::Kept { .. } => None,
        }
    }

    fn move_to(&mut self, place: &impl Fn(u64) -> u64) {
        match self {
            PlanItem::Entry(at) | PlanItem::Kept { ledger_of: at } => *at = place(*at),
            PlanItem::Ledger { ledger } => {
                for (entry, ..) in ledger.iter_mut().flat_map(|part| &mut part.lines) {
                    *entry = place(*entry);
                }
            }
        }
    }
}

impl Decision {
    /// The same plan or cut without words of one entry: its lines in ledgers, and the files that a notice of it names.
    #[must_use]
    pub(crate) fn without_words_of(mut self, position: u64) -> Self {
        match &mut self {
            Decision::Plan { front, tail, .. } => {
                for item in front {
                    let PlanItem::Ledger { ledger } = item else { continue };
                    *ledger = crate::auto::ledger::without(ledger, |entry| entry == position);
                    for part in ledger.iter_mut().filter(|part| part.lines.is_empty() && position < *tail) {
                        part.heading = without_files(&part.heading);
                    }
                }
            }
            Decision::Cut { before, notice, .. } if position < *before => {
                *notice = notice.as_deref().map(without_files);
            }
            _ => {}
        }
        self
    }

    /// Whether the decision repeats words of an entry at one of the positions that are asked for.
    pub fn repeats(&self, asked: impl Fn(u64) -> bool) -> bool {
        match self {
            Decision::Summary { covers, .. } => {
                covers.iter().any(|(first, last)| (*first..=*last).any(&asked))
            }
            Decision::Plan { front, tail, .. } => front.iter().any(|item| match item {
                PlanItem::Ledger { ledger } => {
                    ledger.iter().flat_map(|part| &part.lines).any(|(entry, ..)| asked(*entry))
                        || ledger.iter().any(|part| part.lines.is_empty() && names_files(&part.heading))
                            && (0..*tail).any(&asked)
                }
                PlanItem::Entry(_) | PlanItem::Kept { .. } => false,
            }),
            Decision::Cut { before, notice, .. } => {
                notice.as_deref().is_some_and(names_files) && (0..*before).any(&asked)
            }
            Decision::SummaryFailed { range: (first, last), .. } => (*first..=*last).any(asked),
            // It holds the whole message as the client sent it back.
            Decision::Echo { position, .. } => asked(*position),
            _ => false,
        }
    }
}

/// Where a summary stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryPlace {
    /// Right after the lead, anchored like it.
    #[default]
    System,
    /// Where the covered range began, as an assistant entry, pinned.
    Assistant,
}
