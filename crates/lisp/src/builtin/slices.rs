//! Parts of sequences: first, rest, take, drop, partition.

use super::collect::{arg, integer, no_order, ordered, runtime, size, text, to_vector};
use super::table::{Builtin, pure};
use crate::error::{Fault, Reason, fault};
use crate::run::Context;
use crate::value::{Value, Vector, number};

pub(super) const TABLE: &[Builtin] = &[
    pure("first", (1, 1), "coll", "the first element, or nil", "(first [1 2]) ; => 1", first),
    pure("second", (1, 1), "coll", "the second element, or nil", "(second [1 2]) ; => 2", second),
    pure("last", (1, 1), "coll", "the last element, or nil", "(last [1 2]) ; => 2", last),
    pure("rest", (1, 1), "coll", "all but the first", "(rest [1 2]) ; => [2]", rest),
    pure("next", (1, 1), "coll", "all but the first, or nil if nothing is left", "(next [1]) ; => nil", next),
    pure(
        "butlast",
        (1, 1),
        "coll",
        "all but the last, or nil if nothing is left",
        "(butlast [1 2]) ; => [1]",
        butlast,
    ),
    pure("ffirst", (1, 1), "coll", "the first of the first", "(ffirst [[1 2] [3]]) ; => 1", ffirst),
    pure("fnext", (1, 1), "coll", "the second", "(fnext [1 2]) ; => 2", fnext),
    pure("nfirst", (1, 1), "coll", "the next of the first", "(nfirst [[1 2] [3]]) ; => [2]", nfirst),
    pure("nnext", (1, 1), "coll", "all but the first two, or nil", "(nnext [1 2 3]) ; => [3]", nnext),
    pure(
        "nth",
        (2, 3),
        "coll index default?",
        "the element with this index, or the default, or nil",
        "(nth [1 2] 1) ; => 2",
        nth,
    ),
    pure("nthrest", (2, 2), "coll n", "all but the first n", "(nthrest [1 2 3] 2) ; => [3]", nthrest),
    pure("nthnext", (2, 2), "coll n", "all but the first n, or nil", "(nthnext [1 2] 2) ; => nil", nthnext),
    pure("take", (2, 2), "n coll", "the first n elements", "(take 2 [1 2 3]) ; => [1 2]", take),
    pure("drop", (2, 2), "n coll", "all but the first n elements", "(drop 2 [1 2 3]) ; => [3]", drop_),
    pure(
        "take-last",
        (2, 2),
        "n coll",
        "the last n elements, or nil if there are none",
        "(take-last 2 [1 2 3]) ; => [2 3]",
        take_last,
    ),
    pure(
        "drop-last",
        (1, 2),
        "n? coll",
        "all but the last n (1) elements",
        "(drop-last [1 2 3]) ; => [1 2]",
        drop_last,
    ),
    pure("take-nth", (2, 2), "n coll", "every nth element", "(take-nth 2 [0 1 2 3]) ; => [0 2]", take_nth),
    pure(
        "split-at",
        (2, 2),
        "n coll",
        "take and drop in one",
        "(split-at 1 [1 2 3]) ; => [[1] [2 3]]",
        split_at,
    ),
    pure(
        "partition",
        (2, 4),
        "n step? pad? coll",
        "groups of n elements; an incomplete last group is dropped or padded",
        "(partition 2 [1 2 3]) ; => [[1 2]]",
        partition,
    ),
    pure(
        "partition-all",
        (2, 3),
        "n step? coll",
        "groups of n elements; the last may be shorter",
        "(partition-all 2 [1 2 3]) ; => [[1 2] [3]]",
        partition_all,
    ),
    pure("peek", (1, 1), "coll", "the last element of a vector, or nil", "(peek [1 2]) ; => 2", peek),
    pure("pop", (1, 1), "coll", "a vector without its last element", "(pop [1 2]) ; => [1]", pop),
    pure(
        "subvec",
        (2, 3),
        "v start end?",
        "the elements from start up to but not including end",
        "(subvec [1 2 3] 1) ; => [2 3]",
        subvec,
    ),
];

fn at(cx: &mut Context, who: &str, args: &[Value], index: usize) -> Result<Value, Fault> {
    no_order(who, arg(args, 0))?;
    if let Value::Str(text) = arg(args, 0) {
        cx.meter.visit(index.min(text.bytes()))?;
        return Ok(text.nth(index).map(Value::from).unwrap_or_default());
    }
    Ok(ordered(cx, who, arg(args, 0))?.get(index).cloned().unwrap_or_default())
}

fn first(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    at(cx, "first", args, 0)
}

fn second(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    at(cx, "second", args, 1)
}

fn fnext(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    at(cx, "fnext", args, 1)
}

fn last(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = ordered(cx, "last", arg(args, 0))?;
    Ok(items.0.last().cloned().unwrap_or_default())
}

/// The elements from an index on.
fn from(cx: &mut Context, who: &str, value: &Value, argument: usize, index: usize) -> Result<Vector, Fault> {
    let items = to_vector(cx, who, value, argument)?;
    cx.grow()?;
    Ok(items.slice(index, items.len()))
}

fn or_nil(items: Vector) -> Value {
    if items.is_empty() { Value::Nil } else { Value::Vector(items) }
}

fn rest(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    from(cx, "rest", arg(args, 0), 1, 1).map(Value::Vector)
}

fn next(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    from(cx, "next", arg(args, 0), 1, 1).map(or_nil)
}

fn nnext(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Map(_)) {
        no_order("nnext", arg(args, 0))?;
    }
    from(cx, "nnext", arg(args, 0), 1, 2).map(or_nil)
}

fn butlast(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "butlast", arg(args, 0), 1)?;
    cx.grow()?;
    Ok(or_nil(items.slice(0, items.len().saturating_sub(1))))
}

fn ffirst(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let inner = at(cx, "ffirst", args, 0)?;
    at(cx, "ffirst", &[inner], 0)
}

fn nfirst(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let inner = at(cx, "nfirst", args, 0)?;
    from(cx, "nfirst", &inner, 1, 1).map(or_nil)
}

fn nth(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    no_order("nth", arg(args, 0))?;
    let index = integer(cx, "nth", args, 1)?;
    let default = arg(args, 2).clone();
    let Ok(index) = usize::try_from(index) else { return Ok(default) };
    Ok(match arg(args, 0) {
        Value::Vector(items) => items.get(index).cloned().unwrap_or(default),
        Value::Str(text) => {
            cx.meter.visit(index.min(text.bytes()) / 16)?;
            text.nth(index).map_or(default, Value::from)
        }
        Value::Nil => default,
        other => return cx.wrong("nth", "vector or string", other, 1),
    })
}

fn nthrest(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "nthrest", args, 1)?;
    from(cx, "nthrest", arg(args, 0), 1, count).map(Value::Vector)
}

fn nthnext(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "nthnext", args, 1)?;
    from(cx, "nthnext", arg(args, 0), 1, count).map(or_nil)
}

fn take(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "take", args, 0)?;
    let items = to_vector(cx, "take", arg(args, 1), 2)?;
    cx.grow()?;
    Ok(Value::Vector(items.slice(0, count)))
}

fn drop_(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "drop", args, 0)?;
    from(cx, "drop", arg(args, 1), 2, count).map(Value::Vector)
}

fn take_last(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "take-last", args, 0)?;
    let items = to_vector(cx, "take-last", arg(args, 1), 2)?;
    cx.grow()?;
    Ok(or_nil(items.slice(items.len().saturating_sub(count), items.len())))
}

fn drop_last(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (count, position) = if args.len() == 1 { (1, 0) } else { (size(cx, "drop-last", args, 0)?, 1) };
    let items = to_vector(cx, "drop-last", arg(args, position), position + 1)?;
    cx.grow()?;
    Ok(Value::Vector(items.slice(0, items.len().saturating_sub(count))))
}

fn take_nth(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let step = size(cx, "take-nth", args, 0)?;
    if step == 0 {
        return runtime("take-nth: a step of zero never ends");
    }
    let items = to_vector(cx, "take-nth", arg(args, 1), 2)?;
    cx.sequence(items.len())?;
    Ok(Value::vector(items.iter().step_by(step).cloned()))
}

fn split_at(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "split-at", args, 0)?;
    let items = to_vector(cx, "split-at", arg(args, 1), 2)?;
    cx.sequence(8)?;
    Ok(Value::vector([Value::Vector(items.slice(0, count)), Value::Vector(items.slice(count, items.len()))]))
}

fn groups(cx: &mut Context, who: &str, args: &[Value]) -> Result<(usize, usize, Vector), Fault> {
    let size_of = |cx: &Context, at| match number::index(arg(args, at)) {
        Some(n) if n > 0 => Ok(n as usize),
        Some(_) => runtime(format!("{who}: the size and the step are at least 1")),
        None => cx.wrong(who, "integer", arg(args, at), at + 1),
    };
    let size = size_of(cx, 0)?;
    let step = if args.len() > 2 { size_of(cx, 1)? } else { size };
    let items = to_vector(cx, who, arg(args, args.len() - 1), args.len())?;
    // Every group is a slice of the same vector.
    let groups = items.len() / step + 1;
    cx.sequence(groups.saturating_mul(size.min(items.len()).min(64) + 8))?;
    Ok((size, step, items))
}

fn partition(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (size, step, items) = groups(cx, "partition", args)?;
    let mut out = Vec::new();
    for start in (0..items.len()).step_by(step) {
        let group = items.slice(start, start.saturating_add(size));
        if group.len() == size {
            out.push(Value::Vector(group));
            continue;
        }
        if args.len() == 4 {
            let padding = to_vector(cx, "partition", arg(args, 2), 3)?;
            let padded = group.iter().chain(padding.iter().take(size - group.len())).cloned();
            out.push(Value::vector(padded));
        }
        break;
    }
    Ok(Value::vector(out))
}

fn partition_all(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (size, step, items) = groups(cx, "partition-all", args)?;
    let starts = (0..items.len()).step_by(step);
    Ok(Value::vector(starts.map(|start| Value::Vector(items.slice(start, start.saturating_add(size))))))
}

fn peek(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    no_order("peek", arg(args, 0))?;
    match arg(args, 0) {
        Value::Vector(items) => Ok(items.0.last().cloned().unwrap_or_default()),
        Value::Nil => Ok(Value::Nil),
        other => cx.wrong("peek", "vector", other, 1),
    }
}

fn pop(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match super::collect::take(args, 0) {
        Value::Vector(mut items) => {
            cx.grow()?;
            if items.0.pop().is_none() {
                return runtime("pop: the vector is empty");
            }
            Ok(Value::Vector(items))
        }
        Value::Nil => Ok(Value::Nil),
        other => cx.wrong("pop", "vector", &other, 1),
    }
}

fn subvec(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Value::Vector(items) = arg(args, 0) else { return cx.wrong("subvec", "vector", arg(args, 0), 1) };
    let start = integer(cx, "subvec", args, 1)?;
    let end = if args.len() == 3 { integer(cx, "subvec", args, 2)? } else { items.len() as i64 };
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return fault(
            Reason::IndexError,
            format!("subvec: {start} to {end} is outside a vector of {}", items.len()),
        );
    };
    if from > to || to > items.len() {
        return fault(
            Reason::IndexError,
            format!("subvec: {start} to {end} is outside a vector of {}", items.len()),
        );
    }
    cx.grow()?;
    Ok(Value::Vector(items.slice(from, to)))
}

/// The part of a string between two indexes, which may lie outside.
pub(super) fn subs(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, "subs", args, 0)?;
    let start = size(cx, "subs", args, 1)?;
    let end = if args.len() == 3 { size(cx, "subs", args, 2)? } else { usize::MAX };
    cx.meter.reserve(text.bytes() + 48)?;
    cx.meter.visit(text.bytes() / 16)?;
    Ok(Value::Str(text.slice(start, end.max(start))))
}
