//! Days, moments and durations. What time it is, only the host can say.

use super::collect::{arg, integer, runtime, text};
use super::table::{Builtin, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Date, Duration, Instant, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "parse-date",
        (1, 1),
        "text",
        "the day of an ISO text, or nil",
        "(parse-date \"2024-01-15\") ; => #date \"2024-01-15\"",
        parse_date,
    ),
    pure(
        "parse-instant",
        (1, 1),
        "text",
        "the moment of an ISO text, or nil",
        "(parse-instant \"2024-01-15T10:00:00Z\") ; => #inst \"2024-01-15T10:00:00Z\"",
        parse_instant,
    ),
    pure(
        "date-str",
        (2, 2),
        "date pattern",
        "the date by a pattern of yyyy MM dd HH mm ss MMM EEE",
        "(date-str (parse-date \"2024-01-15\") \"dd.MM.yyyy\") ; => \"15.01.2024\"",
        date_str,
    ),
    pure(
        "days-between",
        (2, 2),
        "from to",
        "how many days later the second is",
        "(days-between (parse-date \"2024-02-28\") (parse-date \"2024-03-01\")) ; => 2",
        days_between,
    ),
    pure(
        "plus-days",
        (2, 2),
        "date n",
        "n days later",
        "(plus-days (parse-date \"2024-02-28\") 2) ; => #date \"2024-03-01\"",
        plus_days,
    ),
    pure("year", (1, 1), "date", "the year", "(year (parse-date \"2024-01-15\")) ; => 2024", |cx, args| {
        part(cx, "year", args, |date| date.parts().0)
    }),
    pure(
        "month",
        (1, 1),
        "date",
        "the month, from 1",
        "(month (parse-date \"2024-01-15\")) ; => 1",
        |cx, args| part(cx, "month", args, |date| date.parts().1),
    ),
    pure(
        "day",
        (1, 1),
        "date",
        "the day of the month",
        "(day (parse-date \"2024-01-15\")) ; => 15",
        |cx, args| part(cx, "day", args, |date| date.parts().2),
    ),
    pure(
        "LocalDate/parse",
        (1, 1),
        "text",
        "the day of an ISO text; an error if it is not a date",
        "(LocalDate/parse \"2024-01-15\") ; => #date \"2024-01-15\"",
        local_date_parse,
    ),
    pure(
        "LocalDate/of",
        (3, 3),
        "year month day",
        "a day",
        "(LocalDate/of 2024 1 15) ; => #date \"2024-01-15\"",
        local_date_of,
    ),
    pure("LocalDate/now", (0, 0), "", "the day the host says it is", "", local_date_now),
    pure(
        "Instant/parse",
        (1, 1),
        "text",
        "the moment of an ISO text; an error if it is not a time",
        "(Instant/parse \"2024-01-15T10:00:00Z\") ; => #inst \"2024-01-15T10:00:00Z\"",
        instant_parse,
    ),
    pure(
        "Instant/ofEpochMilli",
        (1, 1),
        "ms",
        "the moment so many milliseconds after 1970",
        "(Instant/ofEpochMilli 0) ; => #inst \"1970-01-01T00:00:00Z\"",
        instant_of,
    ),
    pure("Instant/now", (0, 0), "", "the moment the host says it is", "", instant_now),
    pure(
        "Duration/between",
        (2, 2),
        "from to",
        "the time from one moment to another",
        "(Duration/between (Instant/ofEpochMilli 0) (Instant/ofEpochMilli 90000)) ; => #duration \"PT90S\"",
        between,
    ),
    pure(
        "System/currentTimeMillis",
        (0, 0),
        "",
        "the host's time in milliseconds since 1970",
        "",
        current_time,
    ),
];

/// A day: a date, the day of a moment, or the day of an ISO text.
pub(super) fn date(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<Date, Fault> {
    let found = match arg(args, at) {
        Value::Date(date) => Some(*date),
        Value::DateTime(instant) => Some(instant.date()),
        Value::Str(text) => read_date(text.as_str()),
        _ => None,
    };
    match found {
        Some(date) => Ok(date),
        None => cx.wrong(who, "date", arg(args, at), at + 1),
    }
}

fn read_date(text: &str) -> Option<Date> {
    Date::parse(text).or_else(|| Instant::parse(text).map(Instant::date))
}

/// A moment: a date-time, or the start of a day.
pub(super) fn instant(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<Instant, Fault> {
    match arg(args, at) {
        Value::DateTime(instant) => Ok(*instant),
        Value::Date(date) => Ok(Instant::start_of(*date)),
        other => cx.wrong(who, "datetime", other, at + 1),
    }
}

fn parse_date(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match arg(args, 0) {
        Value::Str(text) => read_date(text.as_str()).map(Value::Date).unwrap_or_default(),
        date @ Value::Date(_) => date.clone(),
        Value::DateTime(instant) => Value::Date(instant.date()),
        _ => Value::Nil,
    })
}

fn parse_instant(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match arg(args, 0) {
        Value::Str(text) => {
            let day = || Date::parse(text.as_str()).map(Instant::start_of);
            Instant::parse(text.as_str()).or_else(day).map(Value::DateTime).unwrap_or_default()
        }
        instant @ Value::DateTime(_) => instant.clone(),
        _ => Value::Nil,
    })
}

fn local_date_parse(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, "LocalDate/parse", args, 0)?;
    Date::parse(text.as_str()).map_or_else(
        || runtime("LocalDate/parse: the text is not a date; expected 2024-01-15"),
        |date| Ok(Value::Date(date)),
    )
}

fn instant_parse(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, "Instant/parse", args, 0)?;
    Instant::parse(text.as_str()).map_or_else(
        || runtime("Instant/parse: the text is not a time; expected 2024-01-15T10:00:00Z"),
        |moment| Ok(Value::DateTime(moment)),
    )
}

fn local_date_of(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let part = |at| integer(cx, "LocalDate/of", args, at);
    let (year, month, day) = (part(0)?, part(1)?, part(2)?);
    Date::new(year, month, day).map_or_else(
        || runtime(format!("LocalDate/of: there is no day {year}-{month}-{day}")),
        |date| Ok(Value::Date(date)),
    )
}

fn instant_of(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let ms = integer(cx, "Instant/ofEpochMilli", args, 0)?;
    Instant::from_epoch_ms(ms)
        .map_or_else(|| runtime("Instant/ofEpochMilli: too far away"), |moment| Ok(Value::DateTime(moment)))
}

fn now(cx: &Context, who: &str) -> Result<Instant, Fault> {
    match cx.now.and_then(Instant::from_epoch_ms) {
        Some(now) => Ok(now),
        None => runtime(format!("{who}: there is no clock here; use a date from the data")),
    }
}

fn local_date_now(cx: &mut Context, _: &mut [Value]) -> Result<Value, Fault> {
    now(cx, "LocalDate/now").map(|now| Value::Date(now.date()))
}

fn instant_now(cx: &mut Context, _: &mut [Value]) -> Result<Value, Fault> {
    now(cx, "Instant/now").map(Value::DateTime)
}

fn current_time(cx: &mut Context, _: &mut [Value]) -> Result<Value, Fault> {
    now(cx, "System/currentTimeMillis").map(|now| Value::Int(now.epoch_ms()))
}

fn days_between(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (from, to) = (date(cx, "days-between", args, 0)?, date(cx, "days-between", args, 1)?);
    Ok(Value::Int(to.epoch_day() - from.epoch_day()))
}

/// A date so many days, months or years later; a moment keeps its time of day.
pub(super) fn later(
    cx: &Context,
    who: &str,
    args: &[Value],
    step: impl Fn(Date, i64) -> Option<Date>,
) -> Result<Value, Fault> {
    let count = integer(cx, who, args, 1)?;
    let from = date(cx, who, args, 0)?;
    let Some(to) = step(from, count) else { return runtime(format!("{who}: too far away")) };
    Ok(match arg(args, 0) {
        Value::DateTime(moment) => {
            let within = moment.epoch_ms() - Instant::start_of(from).epoch_ms();
            Instant::from_epoch_ms(Instant::start_of(to).epoch_ms() + within)
                .map(Value::DateTime)
                .unwrap_or_default()
        }
        _ => Value::Date(to),
    })
}

fn plus_days(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    later(cx, "plus-days", args, Date::plus_days)
}

pub(super) fn part(cx: &Context, who: &str, args: &[Value], part: fn(Date) -> i64) -> Result<Value, Fault> {
    date(cx, who, args, 0).map(|date| Value::Int(part(date)))
}

fn between(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (from, to) = (instant(cx, "Duration/between", args, 0)?, instant(cx, "Duration/between", args, 1)?);
    Ok(Value::Duration(Duration(to.epoch_ms() - from.epoch_ms())))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The English name of a weekday, from 1 for Monday.
pub(super) fn weekday(date: Date) -> &'static str {
    usize::try_from(date.weekday() - 1).ok().and_then(|at| DAYS.get(at)).copied().unwrap_or_default()
}

fn date_str(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let day = date(cx, "date-str", args, 0)?;
    let moment = match arg(args, 0) {
        Value::DateTime(moment) => *moment,
        _ => Instant::start_of(day),
    };
    let pattern = text(cx, "date-str", args, 1)?;
    cx.meter.reserve(pattern.bytes() * 4)?;
    cx.meter.visit(pattern.bytes())?;
    let (year, month, of_month) = day.parts();
    let seconds = (moment.epoch_ms() - Instant::start_of(day).epoch_ms()) / 1000;
    let month_name =
        usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or_default();
    let short = |name: &'static str| name.get(..3).unwrap_or(name).to_string();
    let mut out = String::new();
    let mut rest = pattern.as_str();
    while let Some(letter) = rest.chars().next() {
        let length = rest.chars().take_while(|c| *c == letter).count();
        let run = rest.get(..length * letter.len_utf8()).unwrap_or_default();
        rest = rest.get(run.len()..).unwrap_or_default();
        let padded = |n: i64| format!("{n:0length$}");
        let filled = match letter {
            'y' | 'u' if length == 2 => format!("{:02}", year.rem_euclid(100)),
            'y' | 'u' => format!("{year:04}"),
            'M' if length >= 4 => month_name.to_string(),
            'M' if length == 3 => short(month_name),
            'M' => padded(month),
            'd' => padded(of_month),
            'E' if length >= 4 => weekday(day).to_string(),
            'E' => short(weekday(day)),
            'H' => padded(seconds / 3600),
            'm' => padded(seconds / 60 % 60),
            's' => padded(seconds % 60),
            '\'' => {
                // Quoted text stands for itself.
                let end = rest.find('\'').unwrap_or(rest.len());
                let quoted = rest.get(..end).unwrap_or_default().to_string();
                rest = rest.get(end + 1..).unwrap_or_default();
                quoted
            }
            c if c.is_ascii_alphabetic() => {
                return runtime(format!(
                    "date-str: {run} is not known; known are yyyy yy MM MMM MMMM dd HH mm ss EEE EEEE"
                ));
            }
            _ => run.to_string(),
        };
        out.push_str(&filled);
    }
    cx.text(out)
}
