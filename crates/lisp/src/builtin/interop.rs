//! The methods of Java that models write most: on dates and on strings.

use super::collect::{arg, runtime, text};
use super::dates::{date, instant, later, part, weekday};
use super::strings::split_literal;
use super::table::{Builtin, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Date, Pattern, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        ".plusDays",
        (2, 2),
        "date n",
        "n days later",
        "(.plusDays #date \"2024-02-28\" 2) ; => #date \"2024-03-01\"",
        |cx, args| later(cx, ".plusDays", args, Date::plus_days),
    ),
    pure(
        ".minusDays",
        (2, 2),
        "date n",
        "n days earlier",
        "(.minusDays #date \"2024-03-01\" 1) ; => #date \"2024-02-29\"",
        |cx, args| later(cx, ".minusDays", args, |date, n| date.plus_days(n.checked_neg()?)),
    ),
    pure(
        ".plusMonths",
        (2, 2),
        "date n",
        "n months later",
        "(.plusMonths #date \"2024-01-31\" 1) ; => #date \"2024-02-29\"",
        |cx, args| later(cx, ".plusMonths", args, Date::plus_months),
    ),
    pure(
        ".plusYears",
        (2, 2),
        "date n",
        "n years later",
        "(.plusYears #date \"2024-02-29\" 1) ; => #date \"2025-02-28\"",
        |cx, args| later(cx, ".plusYears", args, |date, n| date.plus_months(n.checked_mul(12)?)),
    ),
    pure(
        ".isBefore",
        (2, 2),
        "a b",
        "whether a is earlier",
        "(.isBefore #date \"2024-01-01\" #date \"2024-01-02\") ; => true",
        |cx, args| ordered(cx, ".isBefore", args, std::cmp::Ordering::is_lt),
    ),
    pure(
        ".isAfter",
        (2, 2),
        "a b",
        "whether a is later",
        "(.isAfter #date \"2024-01-01\" #date \"2024-01-02\") ; => false",
        |cx, args| ordered(cx, ".isAfter", args, std::cmp::Ordering::is_gt),
    ),
    pure(
        ".isEqual",
        (2, 2),
        "a b",
        "whether both are the same",
        "(.isEqual #date \"2024-01-01\" #date \"2024-01-01\") ; => true",
        |cx, args| ordered(cx, ".isEqual", args, std::cmp::Ordering::is_eq),
    ),
    pure(".getYear", (1, 1), "date", "the year", "(.getYear #date \"2024-01-15\") ; => 2024", |cx, args| {
        part(cx, ".getYear", args, |date| date.parts().0)
    }),
    pure(
        ".getMonthValue",
        (1, 1),
        "date",
        "the month, from 1",
        "(.getMonthValue #date \"2024-01-15\") ; => 1",
        |cx, args| part(cx, ".getMonthValue", args, |date| date.parts().1),
    ),
    pure(
        ".getDayOfMonth",
        (1, 1),
        "date",
        "the day of the month",
        "(.getDayOfMonth #date \"2024-01-15\") ; => 15",
        |cx, args| part(cx, ".getDayOfMonth", args, |date| date.parts().2),
    ),
    pure(
        ".getDayOfWeek",
        (1, 1),
        "date",
        "the weekday, as a string in capitals",
        "(.getDayOfWeek #date \"2024-01-15\") ; => \"MONDAY\"",
        |cx, args| date(cx, ".getDayOfWeek", args, 0).map(|date| Value::from(weekday(date).to_uppercase())),
    ),
    pure(
        ".toEpochDay",
        (1, 1),
        "date",
        "days since 1970-01-01",
        "(.toEpochDay #date \"1970-01-02\") ; => 1",
        |cx, args| part(cx, ".toEpochDay", args, Date::epoch_day),
    ),
    pure(
        ".toEpochMilli",
        (1, 1),
        "moment",
        "milliseconds since 1970",
        "(.toEpochMilli #inst \"1970-01-01T00:00:01Z\") ; => 1000",
        |cx, args| instant(cx, ".toEpochMilli", args, 0).map(|moment| Value::Int(moment.epoch_ms())),
    ),
    pure(
        ".getTime",
        (1, 1),
        "moment",
        "milliseconds since 1970",
        "(.getTime #inst \"1970-01-01T00:00:01Z\") ; => 1000",
        |cx, args| instant(cx, ".getTime", args, 0).map(|moment| Value::Int(moment.epoch_ms())),
    ),
    pure(
        ".toMillis",
        (1, 1),
        "duration",
        "in milliseconds",
        "(.toMillis #duration \"PT1.5S\") ; => 1500",
        |cx, args| duration(cx, ".toMillis", args, 1),
    ),
    pure(
        ".toDays",
        (1, 1),
        "duration",
        "in whole days",
        "(.toDays #duration \"PT90000S\") ; => 1",
        |cx, args| duration(cx, ".toDays", args, 86_400_000),
    ),
    pure(
        ".toString",
        (1, 1),
        "x",
        "the text of anything",
        "(.toString #date \"2024-01-15\") ; => \"2024-01-15\"",
        to_string,
    ),
    pure(".length", (1, 1), "text", "how many characters there are", "(.length \"abc\") ; => 3", length),
    pure(
        ".contains",
        (2, 2),
        "text part",
        "whether the part is in the text",
        "(.contains \"abc\" \"b\") ; => true",
        |cx, args| test(cx, ".contains", args, |text, part| text.contains(part)),
    ),
    pure(
        ".startsWith",
        (2, 2),
        "text part",
        "whether the text starts with the part",
        "(.startsWith \"abc\" \"a\") ; => true",
        |cx, args| test(cx, ".startsWith", args, |text, part| text.starts_with(part)),
    ),
    pure(
        ".endsWith",
        (2, 2),
        "text part",
        "whether the text ends with the part",
        "(.endsWith \"abc\" \"c\") ; => true",
        |cx, args| test(cx, ".endsWith", args, |text, part| text.ends_with(part)),
    ),
    pure(
        ".indexOf",
        (2, 2),
        "text part",
        "where the part first is, or -1",
        "(.indexOf \"abc\" \"z\") ; => -1",
        index_of,
    ),
    pure(
        ".substring",
        (2, 3),
        "text start end?",
        "the same as subs",
        "(.substring \"hello\" 1 3) ; => \"el\"",
        super::slices::subs,
    ),
    pure(
        ".trim",
        (1, 1),
        "text",
        "without white space at both ends",
        "(.trim \" a \") ; => \"a\"",
        |cx, args| change(cx, ".trim", args, |text| text.trim().into()),
    ),
    pure(
        ".toLowerCase",
        (1, 1),
        "text",
        "in small letters",
        "(.toLowerCase \"AB\") ; => \"ab\"",
        |cx, args| change(cx, ".toLowerCase", args, str::to_lowercase),
    ),
    pure(".toUpperCase", (1, 1), "text", "in capitals", "(.toUpperCase \"ab\") ; => \"AB\"", |cx, args| {
        change(cx, ".toUpperCase", args, str::to_uppercase)
    }),
    pure(
        ".replace",
        (3, 3),
        "text match replacement",
        "with every match of a string replaced",
        "(.replace \"aXb\" \"X\" \"-\") ; => \"a-b\"",
        replace,
    ),
    pure(
        ".split",
        (2, 2),
        "text pattern",
        "the parts between matches of a pattern, given as a string",
        "(.split \"a1b\" \"[0-9]\") ; => [\"a\" \"b\"]",
        split,
    ),
];

fn ordered(
    cx: &Context,
    who: &str,
    args: &[Value],
    holds: fn(std::cmp::Ordering) -> bool,
) -> Result<Value, Fault> {
    let (a, b) = (instant(cx, who, args, 0)?, instant(cx, who, args, 1)?);
    Ok(Value::Bool(holds(a.cmp(&b))))
}

fn duration(cx: &Context, who: &str, args: &[Value], unit: i64) -> Result<Value, Fault> {
    match arg(args, 0) {
        Value::Duration(span) => Ok(Value::Int(span.0 / unit)),
        other => cx.wrong(who, "duration", other, 1),
    }
}

fn to_string(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = cx.display(arg(args, 0))?;
    cx.text(text)
}

fn length(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, ".length", args, 0)?;
    cx.meter.visit(text.bytes() / 16)?;
    Ok(Value::Int(text.count() as i64))
}

fn test(cx: &mut Context, who: &str, args: &[Value], holds: fn(&str, &str) -> bool) -> Result<Value, Fault> {
    let (whole, part) = (text(cx, who, args, 0)?, text(cx, who, args, 1)?);
    cx.meter.visit(whole.bytes() / 16)?;
    Ok(Value::Bool(holds(whole.as_str(), part.as_str())))
}

fn change(cx: &mut Context, who: &str, args: &[Value], change: fn(&str) -> String) -> Result<Value, Fault> {
    let text = text(cx, who, args, 0)?;
    cx.meter.reserve(text.bytes() * 2)?;
    cx.meter.visit(text.bytes() / 8)?;
    Ok(Value::str(change(text.as_str())))
}

fn index_of(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match super::search::index_of(cx, args)? {
        Value::Nil => Value::Int(-1),
        found => found,
    })
}

fn replace(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let part = |at| text(cx, ".replace", args, at);
    let (text, old, new) = (part(0)?, part(1)?, part(2)?);
    let hits = text.as_str().matches(old.as_str()).count();
    cx.meter.visit(text.bytes() / 8)?;
    cx.meter.reserve(text.bytes() + hits.saturating_mul(new.bytes()) + 48)?;
    Ok(Value::str(text.as_str().replace(old.as_str(), new.as_str())))
}

fn split(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let subject = text(cx, ".split", args, 0)?;
    if let Value::Regex(pattern) = arg(args, 1) {
        return super::regex::split_by(cx, &subject, &pattern.clone(), 0);
    }
    let separator = text(cx, ".split", args, 1)?;
    if separator.as_str().chars().all(|c| c.is_alphanumeric() || c == ' ' || c == ',') {
        return split_literal(cx, &subject, separator.as_str(), 0);
    }
    cx.meter.charge(2000 + separator.bytes() as u64 * 500)?;
    match Pattern::compile(separator.as_str()) {
        Ok(pattern) => super::regex::split_by(cx, &subject, &pattern, 0),
        Err(bad) => runtime(format!(".split: {}", bad.message)),
    }
}
