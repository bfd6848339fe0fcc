//! Making a plan: how much of the last view stays as a prefix, which newest groups stand whole, and which lines of the rest a
//! ledger keeps. Every way is given a price in tokens, and the cheapest is taken.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use super::ledger::{Ledger, LedgerPart};
use super::notice::notice;
use super::plan::{AutoPlan, PlanUnit};
use crate::context::CurationContext;
use crate::entry::Role;
use crate::model::{ModelFacts, ModelName, facts};
use crate::need::NeedIndex;
use crate::need::score::{Moment, ONE, folders};
use crate::need::segments::{heading, segment_texts};
use crate::ranges::Ranges;
use crate::recall::Handle;
use crate::record::groups::Group;
use crate::tokens::Counter;
use crate::view::View;

/// What plans are made by. All shares are per mille.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parameters {
    /// What one missing value costs, as a share of the tokens left beside the instructions.
    need: usize,
    /// What writing to a cache costs beyond reading from it, as a share of the price of input.
    extra: u32,
    /// What reading from a cache costs, as a share of the price of input.
    read: u32,
}

impl Parameters {
    /// The parameters for a model: its own prices where the table of models has them for input and for reading, else the usual
    /// ones.
    pub(crate) fn of(need: usize, model: Option<&ModelName>) -> Self {
        let (extra, read) = model.and_then(facts).and_then(cache_prices).unwrap_or((EXTRA, READ));
        Parameters { need, extra, read }
    }
}

/// What writing costs beyond reading, and what reading costs, per mille of the price of input.
fn cache_prices(facts: ModelFacts) -> Option<(u32, u32)> {
    let input = facts.input_per_mtok.filter(|input| *input > 0.0)?;
    let share = |price: f64| (price * 1000.0 / input).round() as u32;
    let read = share(facts.cache_read_per_mtok?);
    let write = share(facts.cache_write_per_mtok.unwrap_or(input));
    Some((write.saturating_sub(read), read))
}

/// Most tokens that one missing value costs.
const NEED_MOST: u128 = 16_000;
/// What writing to a cache costs beyond reading from it, and what reading costs, for models without known prices.
const EXTRA: u32 = 1150;
const READ: u32 = 100;
/// Places at which the prefix may end that are tried.
const SPOTS: usize = 12;
/// Share of the free tokens for newest groups that stand whole.
const RECENT: usize = 120;
/// Share of the rest for older user entries that stand in place.
const USER: usize = 200;
/// Greatest part of what is left that a ledger may take.
const FILL: usize = 900;
/// Estimated tokens of a heading in a ledger.
const HEADER: u64 = 6;
/// Tokens of a ledger's entry and first line.
const LEDGER: usize = 10;
/// A ledger with less room than this left is full.
const FULL: u64 = 8;
/// Groups from which the tokens of a coming call are expected, and the least number expected.
const GROWTH_GROUPS: usize = 8;
const GROWTH_LEAST: usize = 50;

/// A view before a call, with everything a plan depends on.
pub(crate) struct Scene<'v, 'r> {
    pub(crate) view: &'v View<'r>,
    pub(crate) counter: Counter,
    pub(crate) index: &'v NeedIndex,
    /// Number of groups before the call.
    pub(crate) now: u32,
    /// Groups that must stand whole.
    pub(crate) live: Ranges,
    /// Tokens the whole request may have.
    pub(crate) limit: usize,
    /// Tokens of everything that is no group and no ledger: overhead, tools, lead and summary.
    pub(crate) fixed: usize,
    /// The same without the start of the reply.
    pub(crate) lead: usize,
    pub(crate) parameters: Parameters,
}

/// One segment that a ledger may show.
#[derive(Clone, Copy, Debug)]
struct LedgerCandidate {
    group: u32,
    /// Its place among the segments of its group.
    number: u32,
    position: u32,
    segment: u32,
    /// Estimated tokens.
    tokens: u64,
    density: u64,
}

/// Candidates in the order in which they are looked at: dense first, then new, then as they stand.
type Rank = (u64, u32, Reverse<u32>, usize);

/// One way to go on from the current view.
struct Way {
    /// Units of the current view that stay.
    kept: usize,
    tail: u32,
    /// Groups before `tail` that stand whole behind the prefix.
    added: Vec<u32>,
    /// Chosen candidates in the order of choice.
    chosen: Vec<usize>,
    price: u128,
}

impl Scene<'_, '_> {
    /// The plan that follows on a view of these units.
    pub(crate) fn plan(&self, units: &[PlanUnit]) -> AutoPlan {
        let table = self.table();
        let folders = folders(self.view.record(), self.now);
        let moment = Moment::new(self.index, self.now, &table, folders);
        let chances = moment.chances(self.index, &table);
        let candidates = self.candidates(&chances);
        let costs: Vec<usize> = units.iter().map(|unit| self.unit_tokens(unit)).collect();
        let market =
            Market { scene: self, chances: &chances, candidates: &candidates, growth: self.growth() };
        let mut best: Option<Way> = None;
        let mut covered = Covered::new(chances.len());
        self.view.lead_groups().for_each(|group| covered.add_group(self, group));
        let (mut before, mut at) = (0, 0);
        for (turn, kept) in places(&costs).into_iter().enumerate() {
            while at < kept {
                if let Some(unit) = units.get(at) {
                    covered.add_unit(self, unit);
                }
                before += costs.get(at).copied().unwrap_or(0);
                at += 1;
            }
            let front = units.get(..kept).unwrap_or_default();
            if let Some(way) = market.way(front, before, covered.clone(), turn == 0)
                && best.as_ref().is_none_or(|best| way.price < best.price)
            {
                best = Some(way);
            }
        }
        let Some(way) = best else { return AutoPlan { front: units.to_vec(), tail: self.now } };
        self.settled(units, way, &candidates)
    }

    /// The plan of a way: its ledger is counted, and shortened while the view is over the limit.
    fn settled(&self, units: &[PlanUnit], mut way: Way, candidates: &[LedgerCandidate]) -> AutoPlan {
        let mut front = units.get(..way.kept).unwrap_or_default().to_vec();
        front.extend(way.added.iter().map(|group| PlanUnit::Group(*group)));
        let newest = self.groups_from(way.tail).map(|group| self.group_tokens(group)).sum::<usize>();
        let tokens = self.fixed + newest + front.iter().map(|unit| self.unit_tokens(unit)).sum::<usize>();
        let shown: HashSet<u32> = front
            .iter()
            .filter_map(|unit| match unit {
                PlanUnit::Group(group) => Some(*group),
                PlanUnit::Ledger(_) => None,
            })
            .collect();
        let notice = notice(self.view, &shown, way.tail);
        while !way.chosen.is_empty() {
            let ledger = self.ledger(&way.chosen, candidates, notice.clone());
            let excess = (tokens + ledger.tokens(self.counter)).saturating_sub(self.limit);
            if excess == 0 {
                front.push(PlanUnit::Ledger(Arc::new(ledger)));
                break;
            }
            let mut taken = 0;
            while taken < excess
                && let Some(last) = way.chosen.pop()
            {
                taken += candidates.get(last).map_or(0, |last| last.tokens) as usize;
            }
        }
        AutoPlan { front, tail: way.tail }
    }

    /// The identifiers that the call sees in any case: those of the lead and of the live groups.
    fn table(&self) -> HashSet<u32> {
        let groups = self.view.lead_groups().chain(self.live.iter());
        groups.filter_map(|group| self.group(group)).flat_map(|group| self.group_ids(group)).collect()
    }

    fn group(&self, index: u32) -> Option<&Group> {
        self.view.group(index)
    }

    fn group_ids<'g>(&'g self, group: &'g Group) -> impl Iterator<Item = u32> + 'g {
        group.positions().flat_map(|position| self.index.ids(position)).copied()
    }

    fn group_tokens(&self, group: u32) -> usize {
        self.view.group_tokens(self.counter, group)
    }

    fn unit_tokens(&self, unit: &PlanUnit) -> usize {
        match unit {
            PlanUnit::Group(group) => self.group_tokens(*group),
            PlanUnit::Ledger(ledger) => ledger.tokens(self.counter),
        }
    }

    /// The shown groups before the call.
    fn groups(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.view.groups().map(|(index, _)| index).filter(|index| *index < self.now)
    }

    fn groups_from(&self, tail: u32) -> impl Iterator<Item = u32> + '_ {
        self.groups().rev().take_while(move |index| *index >= tail)
    }

    /// Tokens that a call is expected to add.
    fn growth(&self) -> usize {
        let newest: Vec<u32> = self.groups().rev().take(GROWTH_GROUPS).collect();
        let is_reply = |group: &&u32| self.group(**group).is_some_and(|group| group.role == Role::Assistant);
        let replies = newest.iter().filter(is_reply).count().max(1);
        let tokens: usize = newest.iter().map(|group| self.group_tokens(*group)).sum();
        (tokens / replies).max(GROWTH_LEAST)
    }

    /// The segments that may be worth a line, best first; no more than could ever be shown.
    fn candidates(&self, chances: &[u32]) -> Vec<LedgerCandidate> {
        let mut found = Vec::new();
        for group_index in self.groups().filter(|group| !self.live.contains(*group)) {
            let Some(group) = self.group(group_index) else { continue };
            let mut number = 0;
            for position in group.positions() {
                let (bytes, calls) = self.index.size(position);
                let cost = self.view.record().entry_tokens(self.counter, position) as u64;
                let tokens_of_text = cost.saturating_sub(4 + 6 * calls).max(1);
                for (segment, shown) in (0..).zip(self.index.segments(position)) {
                    let value: u64 = shown.ids.iter().map(|id| chance_of(chances, *id)).sum();
                    if value > 0 {
                        let tokens = 1 + (shown.bytes * tokens_of_text).div_ceil(bytes.max(1));
                        let density = (value << 16) / (tokens + HEADER);
                        found.push(LedgerCandidate {
                            group: group_index,
                            number,
                            position,
                            segment,
                            tokens,
                            density,
                        });
                    }
                    number += 1;
                }
            }
        }
        found.sort_unstable_by_key(|one| (Reverse(one.density), Reverse(one.group), one.number));
        let mut sum = 0;
        let most = 4 * self.limit as u64;
        let enough = found.iter().position(|one| {
            sum += one.tokens + HEADER;
            sum > most
        });
        found.truncate(enough.map_or(found.len(), |at| at + 1));
        found
    }

    /// The ledger of chosen candidates: by group, in the order of the record.
    fn ledger(&self, chosen: &[usize], candidates: &[LedgerCandidate], notice: Option<LedgerPart>) -> Ledger {
        let mut lines: Vec<&LedgerCandidate> = chosen.iter().filter_map(|at| candidates.get(*at)).collect();
        lines.sort_unstable_by_key(|line| (line.group, line.number));
        let record = self.view.record();
        let mut parts: Vec<LedgerPart> = notice.into_iter().collect();
        for group in lines.chunk_by(|one, next| one.group == next.group) {
            let Some(first) = group.first().and_then(|line| self.group(line.group)).map(|group| group.first)
            else {
                continue;
            };
            let Some(opening) = record.entry(first.into()) else { continue };
            let mut named = heading(first.into(), opening);
            if let Some(tail) = self.view.recall() {
                named = format!("{named} {}", Handle::at(tail.clone(), first.into()));
            }
            let mut part = LedgerPart { heading: named, lines: Vec::new() };
            for of_entry in group.chunk_by(|one, next| one.position == next.position) {
                let Some(position) = of_entry.first().map(|line| u64::from(line.position)) else { continue };
                let Some(entry) = record.entry(position) else { continue };
                let numbers: Vec<u32> = of_entry.iter().map(|line| line.segment).collect();
                let texts = segment_texts(entry, &numbers).into_iter();
                part.lines.extend(texts.map(|(segment, text)| (position, segment, text)));
            }
            parts.push(part);
        }
        Ledger::new(parts, None)
    }
}

/// What ways to go on are weighed by.
struct Market<'s> {
    scene: &'s Scene<'s, 's>,
    chances: &'s [u32],
    candidates: &'s [LedgerCandidate],
    growth: usize,
}

impl Market<'_> {
    /// The best way that keeps these units, which have `before` tokens; none if what must stay does not fit beside them.
    fn way(&self, front: &[PlanUnit], before: usize, covered: Covered, is_first: bool) -> Option<Way> {
        let scene = self.scene;
        let inside: HashSet<u32> = front
            .iter()
            .filter_map(|unit| match unit {
                PlanUnit::Group(group) => Some(*group),
                PlanUnit::Ledger(_) => None,
            })
            .collect();
        let live = scene.live.iter().filter(|group| !inside.contains(group));
        let mut used = scene.fixed + before + live.map(|group| scene.group_tokens(group)).sum::<usize>();
        if used > scene.limit && !is_first {
            return None;
        }
        let tail = self.newest(&inside, &mut used);
        let added = self.in_place(&inside, tail, &mut used);
        let mut covered = covered;
        let whole = added.iter().copied().chain(scene.groups_from(tail));
        whole.for_each(|group| covered.add_group(scene, group));
        used += LEDGER;
        let start = CutStart { kept: before + scene.lead, used, tail, inside };
        let (chosen, price) = self.choose(&start, &mut covered);
        Some(Way { kept: front.len(), tail, added, chosen, price })
    }

    /// The first of the newest groups that stand whole: live ones, and others within their share of what is free.
    fn newest(&self, inside: &HashSet<u32>, used: &mut usize) -> u32 {
        let scene = self.scene;
        let most = *used + RECENT * scene.limit.saturating_sub(*used) / 1000;
        let mut tail = scene.now;
        for group in scene.groups().rev() {
            if inside.contains(&group) {
                break;
            }
            if !scene.live.contains(group) {
                let cost = scene.group_tokens(group);
                if *used + cost > most {
                    break;
                }
                *used += cost;
            }
            tail = group;
        }
        tail
    }

    /// What stands whole behind the prefix: live groups, and older user entries within their share of what is free.
    fn in_place(&self, inside: &HashSet<u32>, tail: u32, used: &mut usize) -> Vec<u32> {
        let scene = self.scene;
        let most = *used + USER * scene.limit.saturating_sub(*used) / 1000;
        let mut added = Vec::new();
        let older = scene.groups().rev().filter(|group| *group < tail && !inside.contains(group));
        for index in older {
            if scene.live.contains(index) {
                added.push(index);
                continue;
            }
            if scene.group(index).is_none_or(|group| group.role != Role::User) {
                continue;
            }
            let cost = scene.group_tokens(index);
            if *used + cost <= most {
                *used += cost;
                added.push(index);
            }
        }
        added.reverse();
        added
    }

    /// Chooses lines while they are worth more than they cost; the choices up to the lowest price, and that price.
    fn choose(&self, start: &CutStart, covered: &mut Covered) -> (Vec<usize>, u128) {
        let scene = self.scene;
        let room = (FILL * scene.limit.saturating_sub(start.used) / 1000) as u64;
        let total: u64 = self.chances.iter().map(|chance| u64::from(*chance)).sum();
        let mut missing = total.saturating_sub(covered.sum(self.chances));
        let fits = |one: &LedgerCandidate| one.group < start.tail && !start.inside.contains(&one.group);
        let ranked = self.candidates.iter().enumerate().filter(|(_, one)| fits(one));
        let mut heap: BinaryHeap<Rank> =
            ranked.map(|(at, one)| (one.density, one.group, Reverse(one.number), at)).collect();
        let (mut chosen, mut headed, mut taken) = (Vec::new(), HashSet::new(), 0_u64);
        let mut best = (0, self.price(start, missing, 0));
        while let Some((_, group, number, at)) = heap.pop() {
            let Some(one) = self.candidates.get(at) else { continue };
            let cost = one.tokens + if headed.contains(&group) { 0 } else { HEADER };
            let ids = scene.index.segment_ids(one.position, one.segment);
            let value: u64 =
                ids.iter().filter(|id| !covered.has(**id)).map(|id| chance_of(self.chances, *id)).sum();
            if value == 0 {
                continue;
            }
            let density = (value << 16) / cost;
            if heap.peek().is_some_and(|top| density < top.0) {
                heap.push((density, group, number, at));
                continue;
            }
            if taken + cost > room {
                if room.saturating_sub(taken) < FULL {
                    break;
                }
                continue;
            }
            taken += cost;
            missing = missing.saturating_sub(value);
            for id in ids {
                covered.add(*id);
            }
            headed.insert(group);
            chosen.push(at);
            let price = self.price(start, missing, taken);
            if price < best.1 {
                best = (chosen.len(), price);
            }
        }
        chosen.truncate(best.0);
        (chosen, best.1)
    }

    /// What a way costs in tokens per call: what coming calls will miss, writing what is not cached, and reading.
    fn price(&self, start: &CutStart, missing: u64, taken: u64) -> u128 {
        let scene = self.scene;
        let (limit, growth) = (scene.limit as u128, self.growth as u128);
        let size = start.used as u128 + u128::from(taken);
        let free = limit.saturating_sub(scene.lead as u128);
        let need = (scene.parameters.need as u128 * free / 1000).min(NEED_MOST);
        let misses = need * u128::from(missing) * 1000 / u128::from(ONE);
        let new = size.saturating_sub(start.kept as u128);
        let writes =
            u128::from(scene.parameters.extra) * new * growth / growth.max(limit.saturating_sub(size)).max(1);
        let reads = u128::from(scene.parameters.read) * (size + limit) / 2;
        misses + writes + reads
    }
}

/// Where a way begins: its prefix, and what stands whole beside it.
struct CutStart {
    /// Tokens of the prefix.
    kept: usize,
    /// Tokens of everything but the lines of the ledger.
    used: usize,
    tail: u32,
    inside: HashSet<u32>,
}

/// The identifiers that a view shows.
#[derive(Clone)]
struct Covered(Vec<bool>);

impl Covered {
    fn new(identifiers: usize) -> Self {
        Covered(vec![false; identifiers])
    }

    fn add(&mut self, id: u32) {
        if let Some(covered) = self.0.get_mut(id as usize) {
            *covered = true;
        }
    }

    fn has(&self, id: u32) -> bool {
        self.0.get(id as usize).copied().unwrap_or(false)
    }

    fn add_group(&mut self, scene: &Scene<'_, '_>, group: u32) {
        let Some(group) = scene.group(group) else { return };
        scene.group_ids(group).for_each(|id| self.add(id));
    }

    fn add_unit(&mut self, scene: &Scene<'_, '_>, unit: &PlanUnit) {
        match unit {
            PlanUnit::Group(group) => self.add_group(scene, *group),
            PlanUnit::Ledger(ledger) => {
                for (position, segment, _) in ledger.lines() {
                    let ids = scene.index.segment_ids(*position as u32, *segment);
                    for id in ids {
                        self.add(*id);
                    }
                }
            }
        }
    }

    fn sum(&self, chances: &[u32]) -> u64 {
        self.0
            .iter()
            .zip(chances)
            .filter(|(covered, _)| **covered)
            .map(|(_, chance)| u64::from(*chance))
            .sum()
    }
}

fn chance_of(chances: &[u32], id: u32) -> u64 {
    chances.get(id as usize).copied().unwrap_or(0).into()
}

/// How many units may stay, at most [`SPOTS`] ways, spread evenly over their tokens.
fn places(costs: &[usize]) -> Vec<usize> {
    let mut sums = vec![0_u128];
    for cost in costs.iter().take(costs.len().saturating_sub(1)) {
        sums.push(sums.last().copied().unwrap_or(0) + *cost as u128);
    }
    let span = sums.last().copied().unwrap_or(0);
    let steps = SPOTS as u128 - 1;
    let nearest = |spot: u128| {
        let distance = |sum: u128| (sum * steps).abs_diff(span * spot);
        (0..).zip(&sums).min_by_key(|(at, sum)| (distance(**sum), *at)).map_or(0, |(at, _): (usize, _)| at)
    };
    let mut places: Vec<usize> = (0..SPOTS as u128).map(nearest).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Tokens of a request that are no group and no ledger, and the same without the start of the reply.
pub(crate) fn fixed_tokens(view: &View<'_>, counter: Counter, cx: &CurationContext) -> (usize, usize) {
    let fixed = cx.overhead(counter) + cx.opening(counter) + view.anchored_tokens(counter);
    (fixed, fixed - counter.factor.apply(crate::tokens::OVERHEAD).min(fixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_the_cache_are_those_of_the_model() {
        let of = |name: &str| {
            let model = ModelName::parse(name).ok();
            let known = Parameters::of(1250, model.as_ref());
            (known.extra, known.read)
        };
        assert_eq!(of("anthropic:claude-sonnet-4-5"), (1150, 100));
        assert_eq!(of("openai:gpt-4o"), (500, 500), "reading costs half, and writing nothing extra");
        assert_eq!(of("openai:no-such-model"), (1150, 100));
        assert_eq!(
            cache_prices(ModelFacts { input_per_mtok: Some(0.0), ..free() }),
            None,
            "free models have no relation"
        );
        assert_eq!(Parameters::of(1250, None), Parameters { need: 1250, extra: 1150, read: 100 });
    }

    fn free() -> ModelFacts {
        ModelFacts {
            context_window: 1000,
            max_output: None,
            input_per_mtok: None,
            output_per_mtok: Some(0.0),
            cache_read_per_mtok: Some(0.0),
            cache_write_per_mtok: None,
        }
    }
}
