//! How often a failed request is tried again, and how long to wait between two tries.

use std::time::Duration;

use crate::error::AgentError;
use crate::runner::bad_limit;

/// How a request that failed for the moment is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    attempts: u32,
    base: Duration,
    cap: Duration,
    total: Duration,
}

impl Default for Throttle {
    /// Five attempts within half a minute: long enough for a rate limit, short enough for a person who waits.
    fn default() -> Self {
        Throttle {
            attempts: 5,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(8),
            total: Duration::from_secs(30),
        }
    }
}

impl Throttle {
    /// So many attempts, the waits between them growing from `base` to `cap` and adding up to at most `total`.
    pub fn new(attempts: u32, base: Duration, cap: Duration, total: Duration) -> Result<Self, AgentError> {
        let zero = [("base_ms", base), ("cap_ms", cap), ("total_ms", total)];
        if attempts == 0 {
            return Err(bad_limit("attempts must be above 0".into()));
        }
        if let Some((name, _)) = zero.iter().find(|(_, time)| time.is_zero()) {
            return Err(bad_limit(format!("{name} must be above 0")));
        }
        Ok(Throttle { attempts, base, cap, total })
    }

    /// How long to wait after attempt `attempt` failed, having waited for `waited` already; otherwise why not to.
    ///
    /// `chance` lies between 0 and 1, and spreads those who failed together.
    pub(crate) fn delay(
        &self,
        attempt: u32,
        waited: Duration,
        retry_after: Option<Duration>,
        chance: f64,
    ) -> Result<Duration, GiveUp> {
        if attempt >= self.attempts {
            return Err(GiveUp::Attempts(attempt));
        }
        let asked = retry_after.unwrap_or_default();
        let doubled = self.base.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        let most = doubled.min(self.cap).max(asked);
        let delay = most.mul_f64(chance.clamp(0.0, 1.0)).max(self.base).max(asked);
        if waited.saturating_add(delay) > self.total { Err(GiveUp::Time(delay)) } else { Ok(delay) }
    }
}

/// Why a request is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUp {
    /// It was tried often enough.
    Attempts(u32),
    /// The next wait would be too long.
    Time(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn waits_double_up_to_the_cap_and_never_undercut_what_the_provider_asks_for() {
        let throttle = Throttle::default();
        let delay = |attempt, asked, chance| throttle.delay(attempt, Duration::ZERO, asked, chance);
        assert_eq!(delay(1, None, 0.0), Ok(MS(500)));
        assert_eq!(delay(1, None, 1.0), Ok(MS(500)));
        assert_eq!(delay(2, None, 1.0), Ok(MS(1000)));
        assert_eq!(delay(4, None, 0.5), Ok(MS(2000)));
        assert_eq!(delay(4, None, 1.0), Ok(MS(4000)));
        assert_eq!(delay(1, Some(MS(2000)), 0.1), Ok(MS(2000)));
        assert_eq!(delay(1, Some(MS(20)), 0.1), Ok(MS(500)));
        assert_eq!(delay(5, None, 0.5), Err(GiveUp::Attempts(5)));
        assert_eq!(delay(1, Some(MS(31_000)), 0.5), Err(GiveUp::Time(MS(31_000))));
        let patient = Throttle::new(100, MS(1), MS(8), MS(1000)).unwrap_or_default();
        assert_eq!(patient.delay(90, Duration::ZERO, None, 1.0), Ok(MS(8)));
        assert_eq!(patient.delay(9, MS(999), None, 1.0), Err(GiveUp::Time(MS(8))));
    }

    #[test]
    fn waits_of_nothing_are_refused() {
        assert!(Throttle::new(0, MS(1), MS(1), MS(1)).is_err());
        assert!(Throttle::new(1, MS(0), MS(1), MS(1)).is_err());
    }
}
