//! How far estimates are from what a provider reports, and the factor that corrects them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Replies whose reported input is remembered.
const REPLIES: usize = 20;
/// Largest step of a factor per reply, in thousandths of its value: one odd reply must not move a cut.
const STEP: u32 = 100;
/// Smallest and largest factor, in thousandths. A larger error is a mistake in the usage, not in the estimate.
const RANGE: (u32, u32) = (500, 2000);
/// One, in thousandths.
const ONE: u32 = 1000;

/// What estimates are multiplied by, kept in thousandths so that equal factors are equal on every machine.
///
/// ```
/// use scrollback_core::tokens::Factor;
/// assert_eq!(Factor::of(1.25).apply(100), 125);
/// assert_eq!(Factor::of(9.0), Factor::of(2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct Factor(u32);

impl Factor {
    /// Estimates stay as they are.
    pub const ONE: Factor = Factor(ONE);

    /// The factor nearest to a ratio, between 0.5 and 2; 1 where the ratio is not a number.
    pub fn of(ratio: f64) -> Self {
        if !ratio.is_finite() {
            return Factor::ONE;
        }
        let thousandths = (ratio * f64::from(ONE)).round();
        Factor(thousandths.clamp(f64::from(RANGE.0), f64::from(RANGE.1)) as u32)
    }

    /// The factor as a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }

    /// Tokens times the factor, rounded up.
    pub fn apply(self, tokens: usize) -> usize {
        if self == Factor::ONE {
            return tokens;
        }
        (tokens as u64).saturating_mul(self.0.into()).div_ceil(ONE.into()) as usize
    }

    /// The tokens whose product with the factor is at most `tokens`.
    pub fn undo(self, tokens: usize) -> usize {
        ((tokens as u64).saturating_mul(ONE.into()) / u64::from(self.0)) as usize
    }

    /// A step towards another factor, of at most a tenth of this one.
    fn towards(self, goal: Factor) -> Factor {
        let step = (self.0 * STEP / ONE).max(1);
        Factor(goal.0.clamp(self.0.saturating_sub(step), self.0 + step))
    }
}

impl Default for Factor {
    fn default() -> Self {
        Factor::ONE
    }
}

impl From<f64> for Factor {
    fn from(ratio: f64) -> Self {
        Factor::of(ratio)
    }
}

impl From<Factor> for f64 {
    fn from(factor: Factor) -> Self {
        factor.value()
    }
}

/// What was learnt from the last replies of one model: the median of reported ÷ estimated, approached step by step.
///
/// Both numbers are about the whole request: instructions, tools and messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    ratios: VecDeque<f64>,
    factor: Factor,
}

impl Calibration {
    /// What estimates are multiplied by now.
    pub fn factor(&self) -> Factor {
        self.factor
    }

    /// Whether any reply was heard.
    pub fn is_empty(&self) -> bool {
        self.ratios.is_empty()
    }

    /// Takes in one reply: tokens of its request as estimated without a factor, and as its provider reported them.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated == 0 || reported == 0 {
            return;
        }
        if self.ratios.len() == REPLIES {
            self.ratios.pop_front();
        }
        self.ratios.push_back(reported as f64 / estimated as f64);
        let goal = Factor::of(self.median());
        // The first reply is all there is to know; later ones move what is known already.
        self.factor = if self.ratios.len() == 1 { goal } else { self.factor.towards(goal) };
    }

    fn median(&self) -> f64 {
        let mut sorted: Vec<f64> = self.ratios.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let at = |index: usize| sorted.get(index).copied().unwrap_or(1.0);
        if sorted.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.saturating_sub(1)), at(middle))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_follows_the_median_in_steps_of_a_tenth() {
        let mut known = Calibration::default();
        assert_eq!(known.factor(), Factor::ONE);
        known.observe(1000, 1200);
        assert_eq!(known.factor(), Factor::of(1.2));
        known.observe(1000, 9000);
        assert_eq!(known.factor(), Factor::of(1.32), "the median of two is far away, and a step is a tenth");
        for _ in 0..20 {
            known.observe(1000, 900);
        }
        assert_eq!(known.factor(), Factor::of(0.9));
        known.observe(0, 5);
        known.observe(5, 0);
        assert_eq!(known.factor(), Factor::of(0.9), "nothing was said");
        let mut wild = Calibration::default();
        wild.observe(1, 1_000_000);
        assert_eq!(wild.factor(), Factor::of(2.0));
    }

    #[test]
    fn scaling_rounds_up_and_back_down() {
        for ratio in [0.5, 0.9, 1.0, 1.234, 2.0] {
            let factor = Factor::of(ratio);
            for tokens in [0_usize, 1, 7, 1000, 123_457] {
                assert!(factor.apply(tokens) as f64 >= tokens as f64 * factor.value() - 1e-6);
                assert!(factor.apply(factor.undo(tokens)) <= tokens);
            }
        }
        assert_eq!(Factor::of(f64::NAN), Factor::ONE);
    }
}
