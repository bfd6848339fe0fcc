//! Relevance call by call: what coming replies are likely to need, what the question asks for, and what is new.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};

use serde_json::{Value, json};

use super::token_budget::room_beside;
use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::entry::Entry;
use crate::error::CurationError;
use crate::need::score::{Moment, folders};
use crate::ranges::Ranges;
use crate::record::groups::Group;
use crate::view::{Reason, View};

/// Keeps what matters to the current question, not only what is recent, within a number of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevant {
    /// Tokens of the whole request.
    pub max_tokens: usize,
    /// What counts how much.
    pub weights: Weights,
    /// Tokens left free for the reply.
    pub reserve: usize,
}

/// How need, match and recency are weighed against each other. Each is a number from 0 to 1 for every group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// What coming replies are likely to need of it that no better group shows, for each token it takes.
    pub need: f64,
    /// Share of the question's words, rare ones counting more.
    pub matching: f64,
    /// Place in the history, newest highest.
    pub recency: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { need: 1.0, matching: 0.6, recency: 0.4 }
    }
}

impl HistoryManager for Relevant {
    fn name(&self) -> &'static str {
        "relevant"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let limit = self.max_tokens.saturating_sub(self.reserve);
        let mut room = room_beside(&mut view, cx, limit)?;
        let protected = view.protected();
        let open: usize =
            view.body().minus(&protected).iter().map(|index| view.group_tokens(cx.counter, index)).sum();
        if open > room {
            let notice = view.notice_room(limit, cx.counter);
            if let Some(left) = room.checked_sub(notice) {
                room = left;
            } else {
                view.wish_notice(Some(false));
            }
        }
        let mut needs = GroupNeeds::of(&view, &protected, self.weights.need);
        let groups: Vec<RatedGroup> =
            self.groups(&view).into_iter().filter(|group| !protected.contains(group.index)).collect();
        let tokens = |index: u32| view.group_tokens(cx.counter, index);
        let most =
            groups.iter().map(|group| needs.density(group.index, tokens(group.index))).fold(0.0, f64::max);
        let share = |needs: &GroupNeeds, index: u32| {
            if most > 0.0 { needs.density(index, tokens(index)) / most } else { 0.0 }
        };
        let rank = |needs: &GroupNeeds, group: &RatedGroup| GroupRank {
            score: self.weights.need * share(needs, group.index) + group.score,
            index: group.index,
        };
        let fixed: BTreeMap<u32, f64> = groups.iter().map(|group| (group.index, group.score)).collect();
        let mut heap: BinaryHeap<GroupRank> = groups.iter().map(|group| rank(&needs, group)).collect();
        let mut chosen = Vec::new();
        while let Some(best) = heap.pop() {
            // What better groups show already is not needed again, so a score can only have fallen.
            let score = fixed.get(&best.index).copied().unwrap_or(0.0);
            let now = rank(&needs, &RatedGroup { index: best.index, score });
            if heap.peek().is_some_and(|next| now < *next) {
                heap.push(now);
                continue;
            }
            if let Some(left) = room.checked_sub(tokens(best.index)) {
                room = left;
                needs.show(best.index);
                chosen.push(best.index);
            }
        }
        chosen.sort_unstable();
        view.keep(&Ranges::of(chosen), self.name(), Reason::LessRelevant);
        Ok(view)
    }

    fn budget(&self, _: &CurationContext) -> Option<usize> {
        Some(self.max_tokens.saturating_sub(self.reserve))
    }

    fn config(&self) -> Value {
        let weights = json!({ "need": self.weights.need, "match": self.weights.matching, "recency": self.weights.recency });
        config_of(
            self.name(),
            json!({ "max_tokens": self.max_tokens, "weights": weights, "reserve": self.reserve }),
        )
    }
}

/// A group, and how much of its score does not depend on others.
struct RatedGroup {
    index: u32,
    score: f64,
}

/// The order in which groups are taken: the highest score, the newer one where they are equal.
#[derive(PartialEq)]
struct GroupRank {
    score: f64,
    index: u32,
}

impl Eq for GroupRank {}

impl Ord for GroupRank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for GroupRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What coming replies are likely to need, by the score of `auto`, and where it stands.
#[derive(Default)]
struct GroupNeeds {
    chances: Vec<u32>,
    /// The identifiers of each group.
    ids: BTreeMap<u32, Vec<u32>>,
    shown: HashSet<u32>,
}

impl GroupNeeds {
    /// Nothing is needed where need has no weight.
    fn of(view: &View<'_>, protected: &Ranges, weight: f64) -> Self {
        if weight <= 0.0 {
            return GroupNeeds::default();
        }
        let record = view.record();
        let mut index = record.cache.take_index(record.len());
        index.advance(record, record.len());
        let of_group = |group: u32| -> Vec<u32> {
            let positions = view.group(group).into_iter().flat_map(Group::positions);
            positions.flat_map(|position| index.ids(position).iter().copied()).collect()
        };
        let table: HashSet<u32> = view.lead_groups().chain(protected.iter()).flat_map(of_group).collect();
        let now = record.groups.all.len() as u32;
        let moment = Moment::new(&index, now, &table, folders(record, now));
        let chances = moment.chances(&index, &table);
        let ids = view.groups().map(|(group, _)| (group, of_group(group))).collect();
        record.cache.keep_index(index);
        GroupNeeds { chances, ids, shown: table }
    }

    /// The chances of what a group would show that is not shown yet, for each of its tokens.
    fn density(&self, group: u32, tokens: usize) -> f64 {
        let mut counted = HashSet::new();
        let new = self.ids.get(&group).into_iter().flatten().filter(|id| !self.shown.contains(id));
        let chance = |id: &u32| u64::from(self.chances.get(*id as usize).copied().unwrap_or(0));
        let value: u64 = new.filter(|id| counted.insert(**id)).map(chance).sum();
        value as f64 / tokens.max(1) as f64
    }

    fn show(&mut self, group: u32) {
        self.shown.extend(self.ids.get(&group).into_iter().flatten());
    }
}

impl Relevant {
    /// The body's groups, each with what its words and its place are worth.
    fn groups(&self, view: &View<'_>) -> Vec<RatedGroup> {
        let words_of = |index: u32| {
            let mut words = BTreeSet::new();
            for item in view.group_items(index) {
                add_words(&item.entry, &mut words);
            }
            words
        };
        let query = view.last_user().map(words_of).unwrap_or_default();
        let groups: Vec<(u32, Vec<String>)> = view
            .groups()
            .map(|(index, _)| {
                (index, words_of(index).into_iter().filter(|word| query.contains(word)).collect())
            })
            .collect();
        let mut having: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, shared) in &groups {
            for word in shared {
                *having.entry(word).or_default() += 1;
            }
        }
        let n = groups.len() as f64;
        let idf = |word: &str| (1.0 + n / (1.0 + having.get(word).copied().unwrap_or(0) as f64)).ln();
        let whole: f64 = query.iter().map(|word| idf(word)).sum();
        let scored = groups.iter().enumerate().map(|(place, (index, shared))| {
            let matching =
                if whole > 0.0 { shared.iter().map(|word| idf(word)).sum::<f64>() / whole } else { 0.0 };
            let recency = (place as f64 + 1.0) / n;
            RatedGroup {
                index: *index,
                score: self.weights.matching * matching + self.weights.recency * recency,
            }
        });
        scored.collect()
    }
}

/// Words are runs of three or more letters or digits, in lower case, of texts, call names and arguments.
fn add_words(entry: &Entry, words: &mut BTreeSet<String>) {
    let mut add = |text: &str| {
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if word.chars().nth(2).is_some() {
                words.insert(word.to_lowercase());
            }
        }
    };
    for text in entry.texts() {
        add(&text.as_str());
    }
    for call in entry.tool_calls() {
        add(&call.name.as_str());
        add(&call.arguments.as_str());
    }
}
