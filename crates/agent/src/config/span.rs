//! Spans of time as people write them: `30d`, `1h`, `90s`.

use std::time::Duration;

/// Seconds of each unit, by its letter.
const UNITS: [(&str, u64); 6] =
    [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 7 * 86_400), ("y", 365 * 86_400)];

/// Reads a whole number with its unit: `s`, `m` (minutes), `h`, `d`, `w` or `y` (365 days); above zero.
///
/// ```
/// use scrollback_agent::config::read_span;
/// assert_eq!(read_span("30d").map(|span| span.as_secs()), Ok(30 * 86_400));
/// assert!(read_span("0d").is_err() && read_span("30").is_err());
/// ```
pub fn read_span(text: &str) -> Result<Duration, String> {
    let bad =
        || format!("{text:?} is not a duration; write a number above 0 and s, m, h, d, w or y, as in 30d");
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let (_, seconds) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(bad)?;
    let number: u64 = number.trim().parse().map_err(|_| bad())?;
    let seconds = number.checked_mul(*seconds).filter(|seconds| *seconds > 0).ok_or_else(bad)?;
    // Times are kept in milliseconds as 64 bits with a sign.
    if seconds > i64::MAX as u64 / 2_000 { Err(bad()) } else { Ok(Duration::from_secs(seconds)) }
}
