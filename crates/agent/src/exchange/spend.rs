//! What an evaluation used: tokens of all its requests, and what they cost.

use scrollback_core::Usage;
use scrollback_core::model::{ModelFacts, ModelName, facts};
use scrollback_core::stream::Reply;
use scrollback_core::tokens::Tokenizer;
use serde::Serialize;

/// Prices in dollars per million tokens, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Input that is neither read from nor written to a cache.
    pub input: Option<f64>,
    /// Output, reasoning included.
    pub output: Option<f64>,
    /// Input read from a cache.
    pub cache_read: Option<f64>,
    /// Input written to a cache, where it is kept for as long as the provider usually keeps it.
    pub cache_write: Option<f64>,
}

/// What Anthropic asks for input that its cache keeps for an hour, in proportion to plain input. Tables of prices have only the price
/// of input that is kept for five minutes.
const KEPT_FOR_AN_HOUR: f64 = 2.0;

impl Prices {
    /// The prices of the built-in table.
    pub fn of(model: &ModelName) -> Self {
        facts(model).map_or_else(Prices::default, Prices::from)
    }

    /// These prices where they are known, others where not.
    #[must_use]
    pub fn or(self, other: Prices) -> Self {
        Prices {
            input: self.input.or(other.input),
            output: self.output.or(other.output),
            cache_read: self.cache_read.or(other.cache_read),
            cache_write: self.cache_write.or(other.cache_write),
        }
    }

    /// What input costs that a cache keeps for an hour.
    pub fn cache_write_1h(&self) -> Option<f64> {
        // A cache without a price of its own is billed as any other input.
        match self.cache_write {
            Some(_) => self.input.map(|input| input * KEPT_FOR_AN_HOUR),
            None => self.input,
        }
    }

    /// What tokens cost; none if the price of any of them is not known.
    fn cost(&self, used: &AttemptUsage) -> Option<f64> {
        let usual = used.cache_write.saturating_sub(used.cache_write_1h);
        let parts = [
            (used.input.saturating_sub(used.cache_read).saturating_sub(used.cache_write), self.input),
            (used.output, self.output),
            (used.cache_read, self.cache_read.or(self.input)),
            (usual, self.cache_write.or(self.input)),
            (used.cache_write_1h, self.cache_write_1h()),
        ];
        parts.iter().try_fold(0.0, |sum, (tokens, price)| match (tokens, price) {
            (0, _) => Some(sum),
            (tokens, price) => Some(sum + *tokens as f64 * (*price)? / 1e6),
        })
    }
}

impl From<ModelFacts> for Prices {
    fn from(facts: ModelFacts) -> Self {
        Prices {
            input: facts.input_per_mtok,
            output: facts.output_per_mtok,
            cache_read: facts.cache_read_per_mtok,
            cache_write: facts.cache_write_per_mtok,
        }
    }
}

/// What was used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttemptUsage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// All output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Of these, the tokens that the cache keeps for an hour, which cost more.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_1h: u64,
    /// What it cost; none where a price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether a provider reported nothing, so that tokens were counted here.
    pub estimated: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

/// Costs are told apart to a millionth of a millionth of a dollar.
const PRECISION: f64 = 1e12;

impl AttemptUsage {
    /// What a provider reported; what it left out is estimated.
    pub fn reported(usage: Option<&Usage>, guess: (usize, usize), prices: Prices) -> Self {
        let usage = usage.cloned().unwrap_or_default();
        let (input, output) = (usage.input(), usage.output);
        let mut spent = AttemptUsage {
            input: input.unwrap_or(guess.0 as u64),
            output: output.unwrap_or(guess.1 as u64),
            cache_read: usage.cache_read.unwrap_or(0),
            cache_write: usage.cache_write.values().fold(0, |sum, tokens| sum.saturating_add(*tokens)),
            cache_write_1h: usage.cache_write.get("1h").copied().unwrap_or(0),
            cost_usd: None,
            estimated: input.is_none() || output.is_none(),
        };
        spent.cost_usd = prices.cost(&spent);
        spent
    }

    /// What a request of so many tokens used: as its reply reports, else as counted here.
    pub fn of_reply(reply: Option<&Reply>, tokens: usize, prices: Prices) -> Self {
        let usage = reply.and_then(|reply| reply.meta.usage.as_ref());
        let reported = usage.is_some_and(|usage| usage.output.is_some());
        let raw = reply.and_then(|reply| reply.raw.as_deref()).filter(|_| !reported);
        // What was not reported is estimated by the text, its JSON included.
        let guess = raw.map_or(0, |raw| Tokenizer::Characters.count(raw));
        AttemptUsage::reported(usage, (tokens, guess), prices)
    }

    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Adds what another request used.
    pub fn add(&mut self, other: &AttemptUsage) {
        let nothing_yet = self.total() == 0;
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.estimated |= other.estimated;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(more)) => Some(one + more),
            // Before anything was used there was no cost to know.
            (None, more) if nothing_yet => more,
            _ => None,
        };
    }

    /// What was used since an earlier time.
    #[must_use]
    pub fn since(&self, before: &AttemptUsage) -> AttemptUsage {
        AttemptUsage {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            cache_write_1h: self.cache_write_1h.saturating_sub(before.cache_write_1h),
            // A difference has digits that are only noise; without them the number is read back as it was written.
            cost_usd: self.cost_usd.map(|cost| {
                let difference = cost - before.cost_usd.unwrap_or(0.0);
                (difference * PRECISION).round() / PRECISION
            }),
            estimated: self.estimated,
        }
    }

    /// The same in the form of entries, for those who listen.
    pub(crate) fn usage(&self) -> Usage {
        let uncached = self.input.saturating_sub(self.cache_read).saturating_sub(self.cache_write);
        let mut usage = Usage {
            input_uncached: Some(uncached),
            cache_read: Some(self.cache_read).filter(|tokens| *tokens > 0),
            output: Some(self.output),
            ..Usage::default()
        };
        let usual = self.cache_write.saturating_sub(self.cache_write_1h);
        for (lifetime, tokens) in [("5m", usual), ("1h", self.cache_write_1h)] {
            if tokens > 0 {
                usage.cache_write.insert(lifetime.into(), tokens);
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cache_keeps_for_an_hour_costs_twice_the_input() {
        let prices =
            Prices { input: Some(3.0), output: Some(15.0), cache_read: Some(0.3), cache_write: Some(3.75) };
        let mut usage = Usage { input_uncached: Some(0), output: Some(0), ..Usage::default() };
        usage.cache_write.insert("5m".into(), 1_000_000);
        usage.cache_write.insert("1h".into(), 500_000);
        let spent = AttemptUsage::reported(Some(&usage), (0, 0), prices);
        assert_eq!((spent.cache_write, spent.cache_write_1h), (1_500_000, 500_000));
        assert_eq!(spent.cost_usd, Some(3.75 + 0.5 * 6.0));
        assert_eq!(spent.usage().cache_write, usage.cache_write, "what is told has both lifetimes");
        // Without a price for its cache a model is billed as for any other input.
        let plain = AttemptUsage::reported(Some(&usage), (0, 0), Prices { cache_write: None, ..prices });
        assert_eq!(plain.cost_usd, Some(4.5));
    }

    #[test]
    fn cost_is_known_only_if_every_price_is() {
        let prices =
            Prices { input: Some(2.0), output: Some(10.0), cache_read: Some(0.5), cache_write: None };
        let mut usage = Usage {
            input_uncached: Some(1_000_000),
            cache_read: Some(2_000_000),
            output: Some(100_000),
            ..Usage::default()
        };
        usage.cache_write.insert("5m".into(), 500_000);
        let spent = AttemptUsage::reported(Some(&usage), (0, 0), prices);
        assert_eq!((spent.input, spent.output, spent.total()), (3_500_000, 100_000, 3_600_000));
        assert_eq!(spent.cost_usd, Some(2.0 + 1.0 + 1.0 + 1.0));
        assert!(!spent.estimated);
        let mut all = AttemptUsage::default();
        all.add(&spent);
        all.add(&AttemptUsage::reported(None, (10, 5), Prices::default()));
        assert_eq!((all.input, all.output, all.cost_usd, all.estimated), (3_500_010, 100_005, None, true));
    }
}
