//! `[retention]` of `scrollback.toml`: what is kept for how long, and how large the store may become.

use std::time::Duration;

use scrollback_core::Time;
use scrollback_store::prune::PruneLimits;
use serde::Deserialize;

use super::{BadConfig, read_span};

/// The word for keeping without end.
const FOREVER: &str = "forever";

/// Bytes of each unit. The decimal ones are what disks are sold by.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads a size with its unit, as in `20GB` or `512MiB`; above zero.
///
/// ```
/// use scrollback_agent::config::read_size;
/// assert_eq!(read_size("20GB"), Ok(20_000_000_000));
/// assert_eq!(read_size("512MiB"), Ok(512 << 20));
/// assert!(read_size("0GB").is_err() && read_size("20").is_err());
/// ```
pub fn read_size(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "{text:?} is not a size; write a number above 0 and kB, MB, GB, TB, KiB, MiB, GiB or TiB, as in 20GB"
        )
    };
    let (number, bytes) =
        UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))).ok_or_else(bad)?;
    let number: u64 = number.trim().parse().map_err(|_| bad())?;
    number.checked_mul(bytes).filter(|bytes| *bytes > 0).ok_or_else(bad)
}

/// `[retention]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenRetention {
    sent_bodies: Option<String>,
    conversations: Option<String>,
    recipients: Option<String>,
    max_size: Option<String>,
}

/// What is kept for how long; without end where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Exact bodies of calls.
    pub sent_bodies: Option<Duration>,
    /// Conversations since they were last written.
    pub conversations: Option<Duration>,
    /// Those with a recipient; like the others where nothing is said.
    pub recipients: Option<Duration>,
    /// Most bytes in use.
    pub max_size: Option<u64>,
}

impl Retention {
    /// What is to go at a moment.
    pub fn limits(&self, now: Time) -> PruneLimits {
        let before = |span: Option<Duration>| {
            span.map(|span| Time(now.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))))
        };
        PruneLimits {
            sent_before: before(self.sent_bodies),
            conversations_before: before(self.conversations),
            recipients_before: before(self.recipients),
            max_bytes: self.max_size,
        }
    }

    /// Whether everything is kept.
    pub fn is_nothing(&self) -> bool {
        *self == Retention::default()
    }
}

impl WrittenRetention {
    /// Fills what this file leaves open from a file of lower rank.
    pub(super) fn over(self, lower: WrittenRetention) -> WrittenRetention {
        WrittenRetention {
            sent_bodies: self.sent_bodies.or(lower.sent_bodies),
            conversations: self.conversations.or(lower.conversations),
            recipients: self.recipients.or(lower.recipients),
            max_size: self.max_size.or(lower.max_size),
        }
    }

    /// What it means; what is wrong with it otherwise.
    pub(super) fn settings(&self) -> Result<Retention, BadConfig> {
        let span = |key: &str, written: &Option<String>| match written.as_deref() {
            None | Some(FOREVER) => Ok(None),
            Some(text) => read_span(text)
                .map(Some)
                .map_err(|problem| BadConfig(format!("[retention] {key}: {problem}, or \"{FOREVER}\""))),
        };
        // With people nothing else may stand for "forever": the limit of other conversations is not theirs then.
        let recipients = match self.recipients.as_deref() {
            Some(FOREVER) => Some(Duration::MAX),
            _ => span("recipients", &self.recipients)?,
        };
        let size = self.max_size.as_deref().map(read_size).transpose();
        Ok(Retention {
            sent_bodies: span("sent_bodies", &self.sent_bodies)?,
            conversations: span("conversations", &self.conversations)?,
            recipients,
            max_size: size.map_err(|problem| BadConfig(format!("[retention] max_size: {problem}")))?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<Retention, String> {
        toml::from_str::<WrittenRetention>(text).unwrap().settings().map_err(|error| error.to_string())
    }

    const DAY: i64 = 86_400_000;

    #[test]
    fn spans_and_sizes_become_moments_and_bytes() {
        let all =
            read("sent_bodies = '30d'\nconversations = '90d'\nrecipients = '1y'\nmax_size = '20GB'").unwrap();
        let limits = all.limits(Time(400 * DAY));
        assert_eq!(limits.sent_before, Some(Time(370 * DAY)));
        assert_eq!(limits.conversations_before, Some(Time(310 * DAY)));
        assert_eq!(limits.recipients_before, Some(Time(35 * DAY)));
        assert_eq!(limits.max_bytes, Some(20_000_000_000));
        assert!(read("").unwrap().is_nothing() && read("conversations = 'forever'").unwrap().is_nothing());
        let people = read("conversations = '90d'\nrecipients = 'forever'").unwrap().limits(Time(400 * DAY));
        assert!(people.recipients_before.is_some_and(|before| before < Time(0)));
    }

    #[test]
    fn a_retention_of_nothing_or_of_no_unit_is_refused() {
        for text in [
            "sent_bodies = '0d'",
            "conversations = '-1d'",
            "sent_bodies = '30'",
            "max_size = '0GB'",
            "max_size = '20'",
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains("[retention]"), "{text}: {error}");
        }
    }
}
