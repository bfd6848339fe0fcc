//! Making what must stay smaller: the longest texts of some groups are cut to head and tail.

use super::View;
use super::show::Result;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::Role;
use crate::manager::truncate::Keep;
use crate::ranges::Ranges;
use crate::tokens::Counter;

/// Characters that stay of a text at the least.
pub(crate) const SHORTEST: usize = 2000;
/// How often a length is tried before the shortest is taken: the first is computed from averages and is mostly right.
const TRIES: usize = 4;

/// Whose texts may be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shorten {
    /// Results of tools.
    Results,
    /// What a user said: a pasted file, a document.
    Users,
}

/// A text that could be shorter.
struct Long {
    position: u64,
    chars: usize,
    tokens: usize,
}

impl View<'_> {
    /// The `truncate` decision after which the view has at most `limit` tokens, as far as shortening can do that.
    /// None if nothing in `groups` is long enough.
    pub(crate) fn shortening(
        &self,
        what: Shorten,
        groups: &Ranges,
        limit: usize,
        counter: Counter,
        cx: &CurationContext,
    ) -> Option<Decision> {
        let long = self.long_texts(what, groups, counter);
        if long.is_empty() {
            return None;
        }
        let mut length = fitting(&long, self.total_tokens(counter, cx).saturating_sub(limit));
        for tried in 0.. {
            if tried == TRIES {
                length = SHORTEST;
            }
            let decision = truncate_all(&long, length)?;
            let mut shorter = self.clone();
            shorter.truncate(decision.clone());
            if length == SHORTEST || shorter.total_tokens(counter, cx) <= limit {
                return Some(decision);
            }
            length = (length / 10 * 9).max(SHORTEST);
        }
        None
    }

    fn long_texts(&self, what: Shorten, groups: &Ranges, counter: Counter) -> Vec<Long> {
        let mut long = Vec::new();
        for (index, group) in self.groups_in(groups) {
            if what == Shorten::Users && group.role == Role::User {
                let Some(said) = self.record.entry(group.first.into()) else { continue };
                let chars =
                    self.rewritten_opening(group.first, said).map_or_else(|| said.chars(), |it| it.chars());
                let tokens = self.group_tokens(counter, index);
                long.push(Long { position: group.first.into(), chars, tokens });
            }
            for place in self.places(index, group) {
                let Result::Came(position) = place.result else { continue };
                let Some(said) = self.record.entry(position.into()).filter(|_| what == Shorten::Results)
                else {
                    continue;
                };
                let chars = self.rewritten(&place, said).0.chars();
                let tokens = self.result_tokens(counter, &place);
                long.push(Long { position: position.into(), chars, tokens });
            }
        }
        long.retain(|one| one.chars > SHORTEST);
        long.sort_by_key(|one| std::cmp::Reverse(one.chars));
        long
    }
}

/// The length to which the longest texts are cut so that they lose `excess` tokens, if every text's tokens are spread evenly.
fn fitting(long: &[Long], excess: usize) -> usize {
    // A hundredth more, because the mark of a cut has tokens too.
    let excess = (excess + excess / 100 + 16) as f64;
    let (mut tokens, mut density) = (0.0, 0.0);
    for (number, one) in long.iter().enumerate() {
        tokens += one.tokens as f64;
        density += one.tokens as f64 / one.chars as f64;
        let length = (tokens - excess) / density;
        let next = long.get(number + 1).map_or(SHORTEST, |next| next.chars);
        if length >= next as f64 {
            return (length as usize).max(SHORTEST);
        }
    }
    SHORTEST
}

fn truncate_all(long: &[Long], max_length: usize) -> Option<Decision> {
    let longer = long.iter().filter(|one| one.chars > max_length);
    let mut positions: Vec<u64> = longer.map(|one| one.position).collect();
    positions.sort_unstable();
    (!positions.is_empty()).then_some(Decision::Truncate { positions, max_length, keep: Keep::Both })
}
