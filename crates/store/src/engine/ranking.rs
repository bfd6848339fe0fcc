//! How well entries match the words of a search by recall.

use scrollback_core::Role;

use super::search::places;
use crate::search::{Query, Term, WordDemand};
use crate::words::TextWord;

/// An entry of this many words is neither short nor long.
const USUAL_LENGTH: f64 = 60.0;
/// What it counts that all words stand together, beside what the words count alone, which is at most 2.2.
const TOGETHER: f64 = 2.0;
/// What it counts that an entry is the result of a tool: there a value is first seen, elsewhere it is repeated.
const RESULT: f64 = 0.25;
/// Scores within one step are equally good: then the place of the entry decides, not a word more or less.
const STEP: f64 = 0.25;

/// How a text matches a query.
#[derive(Clone, Debug, Default)]
pub(super) struct MatchEvidence {
    /// Of each term, how often it occurs.
    times: Vec<usize>,
    /// 1 where all terms follow each other, less the further apart they are.
    nearness: f64,
    /// Words of the text.
    length: usize,
    is_result: bool,
}

impl MatchEvidence {
    /// None if the text does not match.
    pub(super) fn of(query: &Query, text: &[TextWord], role: Role, demand: WordDemand) -> Option<Self> {
        if query.none.iter().any(|term| places(term, text).next().is_some()) {
            return None;
        }
        let found: Vec<Vec<usize>> = query.all.iter().map(|term| places(term, text).collect()).collect();
        let times: Vec<usize> = found.iter().map(Vec::len).collect();
        let matches = match demand {
            WordDemand::All => times.iter().all(|times| *times > 0),
            WordDemand::Any => times.iter().any(|times| *times > 0),
        };
        let evidence = || MatchEvidence {
            times,
            nearness: nearness(&query.all, &found),
            length: text.len(),
            is_result: role == Role::Tool,
        };
        matches.then(evidence)
    }

    /// Several mentions count more, in a long text less, and most of all that the words stand close together: who looks for
    /// some words usually remembers them from one line.
    fn score_of_all(&self) -> f64 {
        let length = 0.25 + 0.75 * (1.0 + self.length as f64 / USUAL_LENGTH).log2();
        let often: f64 =
            self.times.iter().map(|times| *times as f64).map(|n| n * 2.2 / (n + 1.2 * length)).sum();
        let score = often / self.times.len().max(1) as f64 + TOGETHER * self.nearness + self.result();
        (score / STEP).round()
    }

    /// Words that few entries have count more than words of many.
    fn score_of_some(&self, rarity: &[f64]) -> f64 {
        let present = self.times.iter().zip(rarity).filter(|(times, _)| **times > 0);
        let words: f64 = present.map(|(_, rarity)| rarity).sum();
        words + self.nearness + self.result()
    }

    fn result(&self) -> f64 {
        if self.is_result { RESULT } else { 0.0 }
    }
}

/// How good each of the entries is that one search found.
pub(super) fn scores(found: &[MatchEvidence], demand: WordDemand) -> Vec<f64> {
    if demand == WordDemand::All {
        return found.iter().map(MatchEvidence::score_of_all).collect();
    }
    let terms = found.first().map_or(0, |one| one.times.len());
    let rarity: Vec<f64> = (0..terms)
        .map(|term| {
            let having =
                found.iter().filter(|one| one.times.get(term).is_some_and(|times| *times > 0)).count();
            let (all, having) = (found.len() as f64, having as f64);
            (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    found.iter().map(|one| one.score_of_some(&rarity)).collect()
}

/// How close together the terms stand that occur, and less where some do not.
fn nearness(terms: &[Term], found: &[Vec<usize>]) -> f64 {
    let present: Vec<(&Term, &Vec<usize>)> =
        terms.iter().zip(found).filter(|(_, own)| !own.is_empty()).collect();
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, (_, own)) in present.iter().enumerate() {
        places.extend(own.iter().map(|at| (*at, number)));
    }
    places.sort_unstable();
    let mut last: Vec<Option<usize>> = vec![None; present.len()];
    let mut best = usize::MAX;
    for (at, number) in places {
        if let Some(place) = last.get_mut(number) {
            *place = Some(at);
        }
        let first = last.iter().try_fold(usize::MAX, |first, place| place.map(|place| first.min(place)));
        if let Some(first) = first {
            best = best.min(at - first);
        }
    }
    if best == usize::MAX {
        return 0.0;
    }
    // Of a phrase, its own words are no distance.
    let own: usize = present.iter().map(|(term, _)| term.words.len()).sum::<usize>().saturating_sub(1);
    let share = present.len() as f64 / terms.len().max(1) as f64;
    share / (1.0 + best.saturating_sub(own) as f64 / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    fn ranks(query: &str, texts: &[(&str, Role)], demand: WordDemand) -> Vec<usize> {
        let query = Query::parse(query);
        let found = texts.iter().map(|(text, role)| MatchEvidence::of(&query, &words(text), *role, demand));
        let scores = scores(&found.map(Option::unwrap_or_default).collect::<Vec<_>>(), demand);
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order
            .sort_by(|a, b| scores.get(*b).partial_cmp(&scores.get(*a)).unwrap_or(std::cmp::Ordering::Equal));
        order
    }

    #[test]
    fn words_that_stand_together_rank_above_words_far_apart() {
        let filler = "other ".repeat(50);
        let apart = format!("port {filler} staging");
        let together = format!("{filler} staging port {filler} {filler}");
        let said = Role::User;
        assert_eq!(ranks("staging port", &[(&apart, said), (&together, said)], WordDemand::All), [1, 0]);
        assert_eq!(
            ranks("staging port", &[(&apart, said), ("the port of staging", said)], WordDemand::All),
            [1, 0]
        );
    }

    #[test]
    fn results_rank_above_what_repeats_them() {
        let line = "the staging port is open";
        assert_eq!(
            ranks("staging port", &[(line, Role::Assistant), (line, Role::Tool)], WordDemand::All),
            [1, 0]
        );
    }

    #[test]
    fn a_rare_word_counts_more_than_common_ones_where_not_all_are_there() {
        let said = Role::User;
        let texts = [
            ("the port of call", said),
            ("the heron", said),
            ("the port of it", said),
            ("the end of it", said),
        ];
        assert_eq!(ranks("the heron staging", &texts, WordDemand::Any).first(), Some(&1));
    }

    #[test]
    fn words_that_must_not_be_there_decide() {
        let not = MatchEvidence::of(
            &Query::parse("port -staging"),
            &words("staging port"),
            Role::User,
            WordDemand::Any,
        );
        assert!(not.is_none());
    }
}
