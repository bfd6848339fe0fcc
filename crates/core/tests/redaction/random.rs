//! A seeded source of random choices: the same seed always gives the same corpus.

pub(crate) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
pub(crate) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(crate) const BASE64_URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const DIGITS: &str = "0123456789";

/// Splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// Characters of an alphabet.
    pub(crate) fn text(&mut self, alphabet: &str, length: usize) -> String {
        (0..length).map(|_| char::from(alphabet.as_bytes()[self.below(alphabet.len())])).collect()
    }

    /// Some of the words, with blanks between.
    pub(crate) fn words(&mut self, words: &[&str], count: usize) -> String {
        (0..count).map(|_| self.pick(words)).collect::<Vec<_>>().join(" ")
    }
}
