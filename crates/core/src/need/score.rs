//! The chance that a coming reply needs an identifier, as a fraction of 24 bits.
//!
//! The weights were learned on public transcripts of agents; a weighted sum of features goes through a logistic function made
//! of a table and shifts.

use std::collections::HashSet;

use super::identifiers::identifiers;
use super::index::{IdentifierUse, NeedIndex};
use super::segments::EntrySegments;
use crate::entry::Role;
use crate::record::Record;

/// The logarithm's table: 2 to the power of i/16, times 2^16.
const POW: [u64; 16] = [
    65_536, 68_438, 71_468, 74_632, 77_936, 81_386, 84_990, 88_752, 92_682, 96_785, 101_070, 105_545,
    110_218, 115_098, 120_194, 125_515,
];
/// One, as chances are written.
pub(crate) const ONE: u64 = 1 << 24;
/// The weighted sum is clamped to this, either way.
const MOST: i64 = 16_384;
/// Characters from which a text with spaces or line breaks is a block.
const BLOCK: usize = 60;
/// Groups of an identifier that count for its link.
const LINKED: usize = 8;

/// Groups whose calls say which folders are in use.
const FOLDER_GROUPS: u32 = 6;
/// Longer paths are not looked at for folders.
const LONGEST_PATH: usize = 200;

/// Weights in 1/1024 of a natural unit, in the order in which the features are named.
mod weight {
    pub(super) const BIAS: i64 = -2798;
    pub(super) const GAP: i64 = -53;
    pub(super) const GROUPS: i64 = -48;
    pub(super) const ARGUMENT: i64 = -445;
    pub(super) const SAID: i64 = 1378;
    pub(super) const CROWD: i64 = -11;
    pub(super) const LINK: i64 = 10;
    pub(super) const PATH: i64 = -808;
    pub(super) const NUMBER: i64 = -1538;
    pub(super) const SPACE: i64 = -746;
    pub(super) const CAMEL: i64 = 671;
    pub(super) const DOT: i64 = -455;
    pub(super) const BLOCK: i64 = -994;
    pub(super) const LEAF: i64 = 1177;
    pub(super) const LEAVES: i64 = 23;
    pub(super) const OPEN: i64 = 932;
    pub(super) const SAID_GAP: i64 = -7;
    pub(super) const GROUPS_SAID: i64 = 51;
    pub(super) const FRESH: i64 = -527;
    pub(super) const SIBLING: i64 = 780;
    pub(super) const KEY: i64 = -1128;
    pub(super) const FIELD: i64 = 1260;
    pub(super) const DIGIT: i64 = 512;
}

/// About 16 times the logarithm of base 2, rounded down; 0 for 0 and 1.
pub(crate) fn lg(number: u64) -> u64 {
    let Some(exponent) = number.checked_ilog2() else { return 0 };
    let mantissa = (u128::from(number) << 16) >> exponent;
    let steps = POW.iter().skip(1).filter(|step| mantissa >= u128::from(**step)).count();
    16 * u64::from(exponent) + steps as u64
}

/// What an identifier looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdentifierShape(u8);

impl IdentifierShape {
    const PATH: u8 = 1;
    const NUMBER: u8 = 2;
    const SPACE: u8 = 4;
    const CAMEL: u8 = 8;
    const DOT: u8 = 16;
    const BLOCK: u8 = 32;
    const DIGIT: u8 = 64;
    /// It has a `/`, whether it is a block or not.
    const SLASH: u8 = 128;

    pub(crate) fn of(name: &str) -> Self {
        let slash = if name.contains('/') { IdentifierShape::SLASH } else { 0 };
        let is_long = name.len() > BLOCK && name.chars().nth(BLOCK).is_some();
        if is_long && name.contains([' ', '\n']) {
            return IdentifierShape(IdentifierShape::BLOCK | slash);
        }
        let has_digit = name.chars().any(char::is_numeric);
        let starts_upper = name.chars().next().is_some_and(char::is_uppercase);
        let all_upper = !name.chars().any(char::is_lowercase);
        let flags = [
            (IdentifierShape::PATH, slash != 0),
            (IdentifierShape::NUMBER, name.chars().all(char::is_numeric)),
            (IdentifierShape::SPACE, name.contains(' ')),
            (IdentifierShape::CAMEL, starts_upper && !all_upper && !has_digit),
            (IdentifierShape::DOT, name.trim_matches('.').contains('.')),
            (IdentifierShape::DIGIT, has_digit),
        ];
        IdentifierShape(flags.iter().filter(|(_, holds)| *holds).fold(slash, |shape, (flag, _)| shape | flag))
    }

    fn has(self, flag: u8) -> i64 {
        i64::from(self.0 & flag != 0)
    }

    fn has_slash(self) -> bool {
        self.0 & IdentifierShape::SLASH != 0
    }
}

/// The moment a call is made.
pub(crate) struct Moment {
    /// Number of groups before the call.
    now: u32,
    /// Weight of the links to what is on the table, by group, and the sum of all weights.
    spread: Vec<u64>,
    total: u64,
    /// Folders that were named in the newest calls.
    folders: HashSet<String>,
}

impl Moment {
    /// The moment before group `now`, with the identifiers of the lead and of the live groups on the table.
    pub(crate) fn new(index: &NeedIndex, now: u32, table: &HashSet<u32>, folders: HashSet<String>) -> Self {
        let mut moment = Moment { now, spread: vec![0; now as usize], total: 0, folders };
        let most = (now / 4).clamp(2, 32);
        for known in table.iter().filter_map(|id| index.known().get(*id as usize)) {
            if known.groups <= 1 || known.groups > most {
                continue;
            }
            let weight = lg(1 + u64::from(now / known.groups));
            moment.total += weight;
            for group in index.posts(known) {
                if let Some(spread) = moment.spread.get_mut(*group as usize) {
                    *spread += weight;
                }
            }
        }
        moment
    }

    /// How closely an identifier is tied to what is on the table, up to 64.
    fn link(&self, index: &NeedIndex, known: &IdentifierUse) -> i64 {
        let posts = index.posts(known).iter().rev().take(LINKED);
        let most = posts.filter_map(|group| self.spread.get(*group as usize)).max().copied().unwrap_or(0);
        (64 * most).checked_div(self.total).unwrap_or(0).cast_signed()
    }

    /// The weighted sum of an identifier's features.
    pub(crate) fn sum(&self, index: &NeedIndex, id: u32, known: &IdentifierUse) -> i64 {
        let shape = known.shape;
        let log = |number: u32| lg(number.into()).cast_signed();
        let gap = 1 + self.now.saturating_sub(known.last);
        let said = known.last_said();
        let (is_said, groups) = (i64::from(said.is_some()), log(known.groups));
        let since_said = said.map_or(0, |last| log(1 + self.now.saturating_sub(last)));
        let flag = |holds: bool| i64::from(holds);
        let sibling = || {
            shape.has_slash()
                && index.text(id).rsplit_once('/').is_some_and(|(folder, _)| self.folders.contains(folder))
        };
        weight::BIAS
            + weight::GAP * log(gap)
            + weight::GROUPS * groups
            + weight::ARGUMENT * flag(known.is_argument)
            + weight::SAID * is_said
            + weight::CROWD * log(known.crowd.saturating_add(1))
            + weight::LINK * self.link(index, known)
            + weight::PATH * shape.has(IdentifierShape::PATH)
            + weight::NUMBER * shape.has(IdentifierShape::NUMBER)
            + weight::SPACE * shape.has(IdentifierShape::SPACE)
            + weight::CAMEL * shape.has(IdentifierShape::CAMEL)
            + weight::DOT * shape.has(IdentifierShape::DOT)
            + weight::BLOCK * shape.has(IdentifierShape::BLOCK)
            + weight::LEAF * flag(known.leaf > 0)
            + weight::LEAVES * log(known.leaf)
            + weight::OPEN * flag(known.in_result && said.is_none() && known.groups > 1)
            + weight::SAID_GAP * since_said
            + weight::GROUPS_SAID * groups * is_said
            + weight::FRESH * flag(self.now.saturating_sub(known.last) <= 2)
            + weight::SIBLING * flag(said.is_none() && sibling())
            + weight::KEY * flag(known.is_key)
            + weight::FIELD * flag(said.is_none() && index.fills_an_argument(known))
            + weight::DIGIT * shape.has(IdentifierShape::DIGIT)
    }

    /// The chance of every identifier of the index, by number; 0 for what is on the table or stands in no group.
    pub(crate) fn chances(&self, index: &NeedIndex, table: &HashSet<u32>) -> Vec<u32> {
        let chance = |(id, known): (u32, &IdentifierUse)| {
            if known.groups == 0 || table.contains(&id) {
                return 0;
            }
            chance(self.sum(index, id, known))
        };
        (0..).zip(index.known()).map(chance).collect()
    }
}

/// Folders that the newest calls before group `now` named.
pub(crate) fn folders(record: &Record, now: u32) -> HashSet<String> {
    let mut folders = HashSet::new();
    let newest = (now.saturating_sub(FOLDER_GROUPS)..now).filter_map(|group| record.groups.get(group));
    for group in newest.filter(|group| group.role == Role::Assistant) {
        let Some(entry) = record.entry(group.first.into()) else { continue };
        EntrySegments::of(entry).arguments(|_, units| {
            for unit in units {
                let whole = std::iter::once(unit.as_str());
                for path in identifiers(unit).into_iter().chain(whole).filter(|path| is_path(path)) {
                    folders.extend(path.rsplit_once('/').map(|(folder, _)| folder.to_string()));
                }
            }
        });
    }
    folders
}

/// Whether an identifier is a path with folders.
fn is_path(text: &str) -> bool {
    let word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '@' | '~' | '-');
    let mut parts = text.split('/');
    text.chars().nth(LONGEST_PATH - 1).is_none()
        && parts.next().is_some_and(|first| first.chars().all(word))
        && text.contains('/')
        && parts.all(|part| !part.is_empty() && part.chars().all(|letter| word(letter) || letter == '+'))
}

/// The logistic function of a weighted sum.
pub(crate) fn chance(sum: i64) -> u32 {
    let scaled = (sum.clamp(-MOST, MOST) * 1477) >> 10;
    let (exponent, step) = (scaled >> 10, (scaled >> 6) & 15);
    let base = u128::from(POW.get(step as usize).copied().unwrap_or(POW[0])) * 256;
    let shift = exponent.unsigned_abs() as u32;
    let odds = if exponent < 0 { base >> shift } else { base << shift };
    (odds * u128::from(ONE) / (odds + u128::from(ONE))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_follows_its_table() {
        for (number, wanted) in
            [(0, 0), (1, 0), (2, 16), (3, 25), (4, 32), (5, 37), (6, 41), (7, 44), (8, 48)]
        {
            assert_eq!(lg(number), wanted, "{number}");
        }
        let exact = |number: u64| (16.0 * (number as f64).log2()).floor() as u64;
        let off: Vec<u64> = (1..20_001).filter(|number| lg(*number) != exact(*number)).collect();
        assert_eq!(off, [5547, 11_094]);
        assert_eq!(lg(u64::MAX), 16 * 63 + 15);
    }

    #[test]
    fn chances_are_those_of_the_worked_example() {
        for (sum, wanted) in [
            (-1777, 2_428_897),
            (-2105, 1_864_135),
            (-2811, 986_895),
            (-3337, 601_147),
            (-6777, 22_158),
            (-6237, 37_233),
        ] {
            assert_eq!(chance(sum), wanted, "{sum}");
        }
        assert!(u64::from(chance(i64::MAX)) <= ONE && chance(i64::MIN) < 10);
    }

    #[test]
    fn shapes_tell_paths_numbers_names_and_blocks_apart() {
        let shape = |name: &str| IdentifierShape::of(name).0;
        assert_eq!(
            shape("src/lib.rs"),
            IdentifierShape::PATH | IdentifierShape::SLASH | IdentifierShape::DOT
        );
        assert_eq!(shape("49150"), IdentifierShape::NUMBER | IdentifierShape::DIGIT);
        assert_eq!(shape("Blue box"), IdentifierShape::CAMEL | IdentifierShape::SPACE);
        assert_eq!(shape("README"), 0);
        assert_eq!(shape(&"a word ".repeat(10)), IdentifierShape::BLOCK);
    }
}
