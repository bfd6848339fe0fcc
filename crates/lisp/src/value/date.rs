//! Days, moments and spans of time: proleptic Gregorian, UTC, and nothing that depends on where or when it runs.

use std::fmt;

const MS_PER_DAY: i64 = 86_400_000;
/// Farther than this no date goes: eight digits of years would not print as ISO text.
const MAX_YEAR: i64 = 999_999;

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date(i64);

/// A moment, in milliseconds from 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant(i64);

/// A span of time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Duration(pub i64);

impl Date {
    /// The day so many days after 1970-01-01; `None` beyond the year 999999.
    pub fn from_epoch_day(day: i64) -> Option<Date> {
        let date = Date(day);
        (day.abs() < 400_000_000 && date.parts().0.abs() <= MAX_YEAR).then_some(date)
    }

    /// The day of a year, month and day of the month; `None` if there is no such day.
    pub fn new(year: i64, month: i64, day: i64) -> Option<Date> {
        let valid = year.abs() <= MAX_YEAR && (1..=12).contains(&month);
        if !valid || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        // Howard Hinnant's days_from_civil: years start in March, so the leap day comes last.
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let of_era = y.rem_euclid(400);
        let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
        Some(Date(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468))
    }

    /// Reads `2024-01-15`.
    pub fn parse(text: &str) -> Option<Date> {
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let mut parts = rest.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || year.len() < 4 || month.len() != 2 || day.len() != 2 {
            return None;
        }
        Date::new(sign * digits(year)?, digits(month)?, digits(day)?)
    }

    /// Days since 1970-01-01.
    pub fn epoch_day(self) -> i64 {
        self.0
    }

    /// Year, month from 1, day from 1.
    pub fn parts(self) -> (i64, i64, i64) {
        let z = self.0 + 719_468;
        let era = z.div_euclid(146_097);
        let of_era = z.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// The day so many days later, or earlier.
    pub fn plus_days(self, days: i64) -> Option<Date> {
        Date::from_epoch_day(self.0.checked_add(days)?)
    }

    /// The same day of another month; the last day of that month where it is shorter.
    pub fn plus_months(self, months: i64) -> Option<Date> {
        let (year, month, day) = self.parts();
        let count = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(months)?;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) + 1);
        Date::new(year, month, day.min(days_in_month(year, month)))
    }

    /// Monday is 1, Sunday is 7.
    pub fn weekday(self) -> i64 {
        (self.0 + 3).rem_euclid(7) + 1
    }
}

impl Instant {
    /// The moment so many milliseconds after 1970; `None` beyond the year 999999.
    pub fn from_epoch_ms(ms: i64) -> Option<Instant> {
        Date::from_epoch_day(ms.div_euclid(MS_PER_DAY)).map(|_| Instant(ms))
    }

    /// Reads `2024-01-15T10:00:00Z`, with up to nine digits of a second, an offset instead of `Z`, or no zone (UTC).
    pub fn parse(text: &str) -> Option<Instant> {
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let day = Date::parse(date)?;
        let (time, offset) = if let Some(time) = time.strip_suffix(['Z', 'z']) {
            (time, 0)
        } else if let Some(at) = time.rfind(['+', '-']) {
            let (time, zone) = time.split_at_checked(at)?;
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let zone = zone.get(1..)?;
            let (hours, minutes) =
                zone.split_once(':').or_else(|| zone.split_at_checked(2)).unwrap_or((zone, "00"));
            let (hours, minutes) = (digits(hours)?, digits(minutes)?);
            if hours > 18 || minutes > 59 {
                return None;
            }
            (time, sign * (hours * 60 + minutes) * 60_000)
        } else {
            (time, 0)
        };
        let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
        let mut parts = clock.split(':');
        let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("00"));
        if parts.next().is_some()
            || [hour, minute, second].iter().any(|part| part.len() != 2)
            || fraction.len() > 9
        {
            return None;
        }
        let (hour, minute, second) = (digits(hour)?, digits(minute)?, digits(second)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let thousandths = format!("{fraction:0<3}");
        let ms = if fraction.is_empty() { 0 } else { digits(thousandths.get(..3)?)? };
        digits(&thousandths)?;
        let within = ((hour * 60 + minute) * 60 + second) * 1000 + ms;
        Instant::from_epoch_ms(day.0 * MS_PER_DAY + within - offset)
    }

    /// Milliseconds since 1970.
    pub fn epoch_ms(self) -> i64 {
        self.0
    }

    /// The day it falls on, in UTC.
    pub fn date(self) -> Date {
        Date(self.0.div_euclid(MS_PER_DAY))
    }

    /// The first moment of a day.
    pub fn start_of(day: Date) -> Instant {
        Instant(day.0 * MS_PER_DAY)
    }
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.parts();
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = self.0.rem_euclid(MS_PER_DAY);
        let (seconds, ms) = (within / 1000, within % 1000);
        write!(f, "{}T{:02}:{:02}:{:02}", self.date(), seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if ms > 0 {
            write!(f, ".{ms:03}")?;
        }
        f.write_str("Z")
    }
}

impl Duration {
    /// Reads `PT90S` and `PT-1.5S`, as durations print.
    pub fn parse(text: &str) -> Option<Duration> {
        let seconds = text.strip_prefix("PT")?.strip_suffix('S')?;
        let (sign, seconds) = seconds.strip_prefix('-').map_or((1, seconds), |rest| (-1, rest));
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        if fraction.len() > 3 || fraction.is_empty() {
            return None;
        }
        let ms = digits(whole)?.checked_mul(1000)? + digits(&format!("{fraction:0<3}"))?;
        Some(Duration(sign * ms))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "PT{sign}{}", ms / 1000)?;
        if !ms.is_multiple_of(1000) {
            let fraction = format!("{:03}", ms % 1000);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("S")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_thousand_years_comes_back() {
        let (mut year, mut month, mut day) = (999, 12, 31);
        let start = Date::new(1000, 1, 1).map_or(0, Date::epoch_day);
        for at in start..start + 730_485 {
            day += 1;
            if day > days_in_month(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
            assert_eq!(Date(at).parts(), (year, month, day));
            assert_eq!(Date::new(year, month, day), Some(Date(at)));
        }
    }

    #[test]
    fn iso_texts_are_read_and_printed() {
        for (text, printed) in [
            ("2024-01-15T10:00:00Z", "2024-01-15T10:00:00Z"),
            ("2024-01-15T10:00:00.250Z", "2024-01-15T10:00:00.250Z"),
            ("2024-01-15T10:00:00+02:00", "2024-01-15T08:00:00Z"),
            ("2024-01-15T10:00", "2024-01-15T10:00:00Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Instant::parse(text).map(|moment| moment.to_string()).as_deref(), Some(printed));
        }
        for bad in ["", "2024-02-30", "2024-1-5", "20240105", "2024-01-15T25:00:00Z", "2024-01-15T10:00:00.x"]
        {
            assert!(Date::parse(bad).is_none() && Instant::parse(bad).is_none(), "{bad}");
        }
        for text in ["PT90S", "PT-1.5S", "PT0S", "PT0.001S"] {
            assert_eq!(Duration::parse(text).map(|span| span.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn months_end_where_they_end() {
        let leap = Date::new(2024, 1, 31).and_then(|day| day.plus_months(1));
        assert_eq!(leap.map(|day| day.to_string()).as_deref(), Some("2024-02-29"));
        assert_eq!(Date::new(2024, 1, 15).map(Date::weekday), Some(1));
    }
}
