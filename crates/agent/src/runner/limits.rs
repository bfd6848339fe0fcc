//! How far an evaluation may go. Values are checked when they are made, so that a run never begins with one that is invalid.

use std::time::Duration;

use scrollback_core::Time;

use crate::effects::{between, later};
use crate::error::{AgentError, AgentErrorKind};
use crate::exchange::AttemptUsage;

/// The error about a limit that cannot be kept.
pub(crate) fn bad_limit(problem: String) -> AgentError {
    AgentError::new(AgentErrorKind::Limit, problem)
}

/// When an evaluation must be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Time);

impl Deadline {
    /// A deadline at a time, which must lie more than a second ahead.
    pub fn at(time: Time, now: Time) -> Result<Self, AgentError> {
        if time.0.saturating_sub(now.0) <= 1000 {
            return Err(bad_limit(format!("the deadline {time} must lie more than 1 second ahead of {now}")));
        }
        Ok(Deadline(time))
    }

    /// A deadline some time from now.
    pub fn after(time: Duration, now: Time) -> Result<Self, AgentError> {
        Deadline::at(later(now, time), now)
    }

    /// A deadline that may come at once: of a mission, which may be as short as its author likes.
    pub fn exactly(time: Time) -> Self {
        Deadline(time)
    }

    /// When it is.
    pub fn time(self) -> Time {
        self.0
    }

    /// How long it is until then.
    pub(super) fn remaining(self, now: Time) -> Duration {
        between(now, self.0)
    }
}

/// What an evaluation may use, all its requests together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    cost: Option<f64>,
}

impl Budget {
    /// Limits on tokens and dollars: each above 0, at least one of them given.
    pub fn new(
        input: Option<u64>,
        output: Option<u64>,
        total: Option<u64>,
        cost_usd: Option<f64>,
    ) -> Result<Self, AgentError> {
        let named = [("input_tokens", input), ("output_tokens", output), ("total_tokens", total)];
        if let Some((name, _)) = named.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(bad_limit(format!("{name} must be above 0")));
        }
        if cost_usd.is_some_and(|cost| !(cost.is_finite() && cost > 0.0)) {
            return Err(bad_limit("cost_usd must be above 0".into()));
        }
        if named.iter().all(|(_, limit)| limit.is_none()) && cost_usd.is_none() {
            return Err(bad_limit(
                "a budget needs a limit: input_tokens, output_tokens, total_tokens or cost_usd".into(),
            ));
        }
        Ok(Budget { input, output, total, cost: cost_usd })
    }

    /// What was exceeded, in words; the first of input, output, total and cost.
    pub(super) fn exceeded(&self, spent: &AttemptUsage) -> Option<String> {
        let tokens = [
            ("input", self.input, spent.input),
            ("output", self.output, spent.output),
            ("total", self.total, spent.total()),
        ];
        let over = tokens.into_iter().find_map(|(name, limit, used)| {
            let limit = limit.filter(|limit| used > *limit)?;
            Some(format!("{used} {name} tokens were used, and the limit is {limit}"))
        });
        over.or_else(|| {
            let (limit, used) = (self.cost?, spent.cost_usd?);
            (used > limit).then(|| format!("${used:.6} was spent, and the limit is ${limit}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        assert!(Budget::new(None, None, None, None).is_err());
        assert!(Budget::new(Some(0), None, None, None).is_err());
        assert!(Budget::new(Some(1), None, None, Some(0.0)).is_err());
        assert!(Budget::new(None, None, None, Some(f64::NAN)).is_err());
        assert!(Deadline::at(Time(1000), Time(0)).is_err());
        assert_eq!(Deadline::after(MS(1001), Time(0)).map(Deadline::time), Ok(Time(1001)));
    }
}
