//! What a provider's cache would have held of a prompt.

use crate::entry::Time;
use crate::model::ModelName;

const TABLE: &str = include_str!("../../data/caches.csv");

/// How a provider caches the start of prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheRule {
    /// Shorter prefixes are not cached.
    pub minimum: u64,
    /// Prefixes are cached in steps of so many tokens.
    pub step: u64,
    /// How long a prefix is kept after its last use, in milliseconds.
    pub lifetime_ms: i64,
    /// What a token costs that is read anew and written to the cache, relative to plain input.
    pub write: f64,
    /// What a token costs that is read from the cache.
    pub read: f64,
    /// Most marks of a request behind which its provider caches; none where it finds the prefix by itself.
    pub marks: u8,
    /// The longer lifetime that a request can ask for, in milliseconds, and what a written token costs then.
    pub long: Option<(i64, f64)>,
}

/// Which lifetime the requests ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheRetention {
    /// The one a provider gives unless it is asked.
    #[default]
    Usual,
    /// The longer one, where the provider has one: an hour at Anthropic, a day at `OpenAI`.
    Long,
}

/// The rule where the table has none.
const USUAL: CacheRule = CacheRule {
    minimum: 1024,
    step: 128,
    lifetime_ms: 300_000,
    write: 1.25,
    read: 0.1,
    marks: 0,
    long: None,
};

impl CacheRule {
    /// The rule for a model; the usual one where none is named.
    ///
    /// ```
    /// use scrollback_core::{model::ModelName, replay::CacheRule};
    /// let model = ModelName::parse("anthropic:claude-haiku-4-5")?;
    /// assert_eq!(CacheRule::of(Some(&model)).minimum, 4096);
    /// assert_eq!(CacheRule::of(None).held(1300, None), 1280);
    /// # Ok::<(), scrollback_core::model::BadModel>(())
    /// ```
    pub fn of(model: Option<&ModelName>) -> Self {
        let name = model.map(ToString::to_string).unwrap_or_default();
        // `bedrock:eu.anthropic.claude…` is the model `bedrock:anthropic.claude…` in an area.
        let without_area = name
            .strip_prefix("bedrock:")
            .and_then(|profile| profile.split_once('.'))
            .map(|(_, model)| format!("bedrock:{model}"))
            .unwrap_or_default();
        let rows =
            TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(','));
        let fits = rows.filter(|(start, _)| name.starts_with(start) || without_area.starts_with(start));
        let best = fits.max_by_key(|(start, _)| start.len());
        best.and_then(|(_, rest)| CacheRule::parse(rest)).unwrap_or(USUAL)
    }

    /// The same rule where requests ask for a lifetime; as it is where there is only one.
    #[must_use]
    pub fn kept(self, retention: CacheRetention) -> Self {
        match (retention, self.long) {
            (CacheRetention::Long, Some((lifetime_ms, write))) => CacheRule { lifetime_ms, write, ..self },
            _ => self,
        }
    }

    fn parse(row: &str) -> Option<CacheRule> {
        let mut cells = row.split(',');
        let minimum = cells.next()?.parse().ok()?;
        let step = cells.next()?.parse::<u64>().ok()?.max(1);
        let lifetime_ms = cells.next()?.parse::<i64>().ok()? * 1000;
        let (write, read) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
        let marks = cells.next()?.parse().ok()?;
        let long_seconds = cells.next().and_then(|cell| cell.parse::<i64>().ok());
        let long_write = cells.next().and_then(|cell| cell.parse().ok());
        let long = long_seconds.map(|seconds| seconds * 1000).zip(long_write);
        Some(CacheRule { minimum, step, lifetime_ms, write, read, marks, long })
    }

    /// Tokens the cache holds of a prefix of `shared` tokens that was last used `idle` milliseconds ago, where that is known.
    pub fn held(&self, shared: u64, idle: Option<i64>) -> u64 {
        if shared < self.minimum || idle.is_some_and(|idle| idle > self.lifetime_ms) {
            return 0;
        }
        shared / self.step * self.step
    }
}

/// Milliseconds between two calls, where a transcript has the times of both.
pub(super) fn idle(before: Option<Time>, now: Time) -> Option<i64> {
    let before = before.filter(|before| before.0 > 0)?;
    (now.0 > 0).then(|| now.0 - before.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_row_reads_and_the_longest_name_counts() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (_, rest) = line.split_once(',').unwrap();
            assert!(
                CacheRule::parse(rest).is_some_and(|rule| rule.minimum > 0 && rule.lifetime_ms > 0),
                "{line}"
            );
        }
        let rule = |name: &str| CacheRule::of(ModelName::parse(name).ok().as_ref());
        let long = Some((3_600_000, 2.0));
        assert_eq!(
            rule("anthropic:claude-sonnet-4-5"),
            CacheRule {
                minimum: 1024,
                step: 1,
                lifetime_ms: 300_000,
                write: 1.25,
                read: 0.1,
                marks: 4,
                long
            }
        );
        assert_eq!(rule("anthropic:claude-3-haiku-20240307").minimum, 2048);
        assert_eq!((rule("openai:gpt-5").write, rule("openai:gpt-5").marks), (1.0, 0));
        assert_eq!(
            (rule("gemini:gemini-2.5-pro").minimum, rule("gemini:gemini-3-pro").minimum),
            (2048, 4096)
        );
        assert_eq!(rule("mistral:mistral-large").step, 128);
        assert_eq!(rule("bedrock:eu.anthropic.claude-haiku-4-5-20251001-v1:0").minimum, 4096);
        assert_eq!(rule("bedrock:us.amazon.nova-pro-v1:0").marks, 4);
    }

    #[test]
    fn a_longer_lifetime_is_taken_where_there_is_one() {
        let rule =
            |name: &str| CacheRule::of(ModelName::parse(name).ok().as_ref()).kept(CacheRetention::Long);
        let (claude, gpt) = (rule("anthropic:claude-sonnet-4-5"), rule("openai:gpt-4o"));
        assert_eq!((claude.lifetime_ms, claude.write), (3_600_000, 2.0));
        assert_eq!((gpt.lifetime_ms, gpt.write), (86_400_000, 1.0));
        assert_eq!(rule("gemini:gemini-2.5-pro").lifetime_ms, 300_000);
    }

    #[test]
    fn a_prefix_that_is_short_or_was_idle_for_long_is_not_held() {
        let rule = CacheRule { lifetime_ms: 1000, ..USUAL };
        assert_eq!(
            (rule.held(1023, None), rule.held(1200, Some(1000)), rule.held(1200, Some(1001))),
            (0, 1152, 0)
        );
    }
}
