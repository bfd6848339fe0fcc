//! Sums, averages and extremes of data as it comes: what is missing is skipped.

use std::cmp::Ordering;

use super::collect::{arg, map, to_vector};
use super::each::{results, with_results};
use super::numbers::{add, divide};
use super::sort::compare;
use super::table::{Builtin, higher, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::run::work::WorkNext;
use crate::value::{Value, Vector};

pub(super) const TABLE: &[Builtin] = &[
    pure("sum", (1, 1), "coll", "the sum; nil is skipped", "(sum [1 nil 2]) ; => 3", sum),
    pure(
        "avg",
        (1, 1),
        "coll",
        "the average, or nil of nothing; nil is skipped",
        "(avg [1 nil 2]) ; => 1.5",
        avg,
    ),
    higher(
        "sum-by",
        (2, 2),
        "f coll",
        "the sum of f; nil is skipped",
        "(sum-by :x [{:x 2} {}]) ; => 2",
        sum_by,
    ),
    higher(
        "avg-by",
        (2, 2),
        "f coll",
        "the average of f; nil is skipped",
        "(avg-by :x [{:x 2} {:x 3}]) ; => 2.5",
        avg_by,
    ),
    higher(
        "min-by",
        (2, 2),
        "f coll",
        "the element with the smallest f; nil is skipped",
        "(min-by :x [{:x 2} {:x 1}]) ; => {:x 1}",
        min_by,
    ),
    higher(
        "max-by",
        (2, 2),
        "f coll",
        "the element with the largest f; nil is skipped",
        "(max-by :x [{:x 2} {:x 1}]) ; => {:x 2}",
        max_by,
    ),
    higher(
        "pluck",
        (2, 2),
        "key coll",
        "the value under the key in each map",
        "(pluck :x [{:x 1} {}]) ; => [1 nil]",
        pluck,
    ),
    pure(
        "entries",
        (1, 1),
        "m",
        "the entries of a map as [key value] vectors, by key",
        "(entries {:b 1 :a 2}) ; => [[:a 2] [:b 1]]",
        entries,
    ),
    pure("pairs", (1, 1), "m", "the same as entries", "(pairs {:a 1}) ; => [[:a 1]]", entries),
];

/// The sum of what is there, and how many that is.
fn total(cx: &mut Context, who: &str, values: impl Iterator<Item = Value>) -> Result<(Value, i64), Fault> {
    let (mut sum, mut count) = (Value::Int(0), 0);
    for value in values {
        cx.meter.tick()?;
        if matches!(value, Value::Nil) {
            continue;
        }
        if !value.is_number() {
            return cx.wrong(who, "number", &value, 1);
        }
        sum = add(cx, who, &sum, &value, 1)?;
        count += 1;
    }
    Ok((sum, count))
}

fn average(cx: &mut Context, who: &str, (sum, count): (Value, i64)) -> Result<Value, Fault> {
    if count == 0 { Ok(Value::Nil) } else { divide(cx, who, &sum, &Value::Int(count)) }
}

fn sum(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "sum", arg(args, 0), 1)?;
    total(cx, "sum", items.iter().cloned()).map(|(sum, _)| sum)
}

fn avg(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "avg", arg(args, 0), 1)?;
    let total = total(cx, "avg", items.iter().cloned())?;
    average(cx, "avg", total)
}

fn sum_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    results(cx, "sum-by", &args, |cx, out, _| total(cx, "sum-by", out.into_iter()).map(|(sum, _)| sum))
}

fn avg_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    results(cx, "avg-by", &args, |cx, out, _| {
        let total = total(cx, "avg-by", out.into_iter())?;
        average(cx, "avg-by", total)
    })
}

fn min_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    with_results(cx, "min-by", &args, |cx, out, _| extreme(cx, out, Ordering::Less))
}

fn max_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    with_results(cx, "max-by", &args, |cx, out, _| extreme(cx, out, Ordering::Greater))
}

/// The element whose key is first or last by `compare`; of equal ones the first.
fn extreme(cx: &mut Context, out: Vec<Value>, wanted: Ordering) -> Result<Value, Fault> {
    let mut out = out.into_iter();
    let mut best: Option<(Value, Value)> = None;
    while let (Some(item), Some(key)) = (out.next(), out.next()) {
        if matches!(key, Value::Nil) {
            continue;
        }
        let better = match &best {
            Some((_, most)) => compare(cx, &key, most)? == wanted,
            None => true,
        };
        if better {
            best = Some((item, key));
        }
    }
    Ok(best.map(|(item, _)| item).unwrap_or_default())
}

fn pluck(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let key = arg(&args, 0);
    if matches!(key, Value::Function(_)) {
        return results(cx, "pluck", &args, |cx, out, _| cx.vector(out));
    }
    cx.key(key)?;
    let items: Vector = to_vector(cx, "pluck", arg(&args, 1), 2)?;
    cx.sequence(items.len())?;
    let value = |item: &Value| match item {
        Value::Map(map) => map.get(key).cloned().unwrap_or_default(),
        _ => Value::Nil,
    };
    Ok(WorkNext::Value(Value::vector(items.iter().map(value))))
}

fn entries(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let map = map(cx, "entries", args, 0)?;
    super::sequence::entries(cx, &map)
}
