//! Fast hashing for keys that no input can make collide: addresses, and names in a table of our own.

use std::hash::{BuildHasherDefault, Hasher};

/// Spreads numbers and short texts.
#[derive(Default)]
pub(crate) struct Spread(u64);

/// For maps and sets.
pub(crate) type BuildSpread = BuildHasherDefault<Spread>;

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
