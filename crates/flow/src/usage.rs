//! What calls used, as runs and steps tell it.

use scrollback_agent::runner::AttemptUsage;
use serde::{Deserialize, Serialize};

use crate::MicroDollars;

/// What was used, all attempts and summaries included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunUsage {
    /// Calls that were sent.
    pub calls: u64,
    /// Tokens of the requests, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// What it cost; none if the price of any of it is not known.
    pub cost: Option<MicroDollars>,
    /// Whether a provider reported nothing, so that tokens were counted here.
    pub estimated: bool,
}

impl Default for RunUsage {
    fn default() -> Self {
        RunUsage {
            calls: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost: Some(MicroDollars(0)),
            estimated: false,
        }
    }
}

impl RunUsage {
    /// One call that used this much.
    pub fn call(spent: &AttemptUsage, free: Price) -> Self {
        let cost = match free {
            Price::Free => Some(MicroDollars(0)),
            Price::Paid => spent.cost_usd.and_then(MicroDollars::from_dollars),
        };
        RunUsage {
            calls: 1,
            input_tokens: spent.input,
            output_tokens: spent.output,
            // Nothing used costs nothing, whatever the price.
            cost: if spent.total() == 0 { Some(MicroDollars(0)) } else { cost },
            estimated: spent.estimated,
        }
    }

    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: RunUsage) -> RunUsage {
        let cost = self.cost.zip(other.cost).map(|(one, more)| MicroDollars(one.0.saturating_add(more.0)));
        RunUsage {
            calls: self.calls.saturating_add(other.calls),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost,
            estimated: self.estimated || other.estimated,
        }
    }
}

/// Whether a model has a price at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// It runs here: `offline:` models cost nothing.
    Free,
    /// Its provider wants money for it.
    Paid,
}

/// The form in documents and rows.
#[derive(Serialize, Deserialize)]
struct Document {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    cost_usd: Option<f64>,
    estimated: bool,
}

impl Serialize for RunUsage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            calls: self.calls,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            total_tokens: self.total(),
            cost_usd: self.cost.map(MicroDollars::dollars),
            estimated: self.estimated,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunUsage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Document::deserialize(deserializer)?;
        Ok(RunUsage {
            calls: read.calls,
            input_tokens: read.input_tokens,
            output_tokens: read.output_tokens,
            cost: read.cost_usd.and_then(MicroDollars::from_dollars),
            estimated: read.estimated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_with_an_unknown_price_has_none_and_comes_back_from_its_row() {
        let spent =
            AttemptUsage { input: 10, output: 5, cost_usd: Some(0.000_25), ..AttemptUsage::default() };
        let paid = RunUsage::call(&spent, Price::Paid);
        assert_eq!((paid.total(), paid.cost), (15, Some(MicroDollars(250))));
        let unknown = RunUsage::call(&AttemptUsage { cost_usd: None, ..spent.clone() }, Price::Paid);
        let free = RunUsage::call(&AttemptUsage { cost_usd: None, ..spent }, Price::Free);
        assert_eq!(RunUsage::default().and(paid).and(free).cost, Some(MicroDollars(250)));
        assert_eq!(paid.and(unknown).cost, None);
        let both = paid.and(free);
        let text = serde_json::to_string(&both).unwrap_or_default();
        assert_eq!(serde_json::from_str::<RunUsage>(&text).ok(), Some(both));
    }
}
