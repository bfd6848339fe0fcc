//! Sets.

use super::collect::{arg, take, to_vector};
use super::table::{Builtin, MANY, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Set, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure("set", (1, 1), "coll", "the elements as a set", "(set [1 2 1]) ; => #{1 2}", set),
    pure("hash-set", (0, MANY), "x …", "a set of its arguments", "(hash-set 2 1) ; => #{1 2}", hash_set),
    pure(
        "sorted-set",
        (0, MANY),
        "x …",
        "the same as hash-set: every set is sorted",
        "(sorted-set 2 1) ; => #{1 2}",
        hash_set,
    ),
    pure("union", (0, MANY), "set …", "what is in one of them", "(union #{1} #{2}) ; => #{1 2}", union),
    pure(
        "intersection",
        (1, MANY),
        "set …",
        "what is in all of them",
        "(intersection #{1 2} #{2 3}) ; => #{2}",
        intersection,
    ),
    pure(
        "difference",
        (1, MANY),
        "set …",
        "what is in the first only",
        "(difference #{1 2} #{2}) ; => #{1}",
        difference,
    ),
    pure("subset?", (2, 2), "a b", "whether all of a is in b", "(subset? #{1} #{1 2}) ; => true", subset),
    pure(
        "superset?",
        (2, 2),
        "a b",
        "whether all of b is in a",
        "(superset? #{1 2} #{1}) ; => true",
        superset,
    ),
    pure("disj", (1, MANY), "set x …", "the set without the elements", "(disj #{1 2} 1) ; => #{2}", disj),
];

/// A set of values, paid for.
fn collect(cx: &mut Context, items: Vec<Value>) -> Result<Value, Fault> {
    cx.sequence(items.len())?;
    for item in &items {
        cx.key(item)?;
    }
    Ok(Value::Set(items.into_iter().collect()))
}

fn set(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Set(_)) {
        return Ok(take(args, 0));
    }
    let items = to_vector(cx, "set", arg(args, 0), 1)?;
    let items = items.iter().cloned().collect();
    collect(cx, items)
}

fn hash_set(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = args.iter_mut().map(std::mem::take).collect();
    collect(cx, items)
}

/// An argument as a set: nil is empty, a vector is taken for the set of its elements.
fn as_set(cx: &mut Context, who: &str, args: &[Value], at: usize) -> Result<Set, Fault> {
    match arg(args, at) {
        Value::Set(set) => Ok(set.clone()),
        Value::Nil => Ok(Set::default()),
        Value::Vector(items) => {
            let items = items.iter().cloned().collect();
            match collect(cx, items)? {
                Value::Set(set) => Ok(set),
                _ => Ok(Set::default()),
            }
        }
        other => cx.wrong(who, "set", other, at + 1),
    }
}

fn union(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut joined = Set::default();
    for at in 0..args.len() {
        let more = as_set(cx, "union", args, at)?;
        if joined.is_empty() {
            joined = more;
            continue;
        }
        cx.sequence(more.len())?;
        for member in more.iter() {
            cx.key(member)?;
            joined.insert(member.clone());
        }
    }
    Ok(Value::Set(joined))
}

/// The members of the first set, as far as all others have them, or have them not.
fn keep(cx: &mut Context, who: &str, args: &[Value], wanted: bool) -> Result<Value, Fault> {
    let first = as_set(cx, who, args, 0)?;
    let mut others = Vec::new();
    for at in 1..args.len() {
        others.push(as_set(cx, who, args, at)?);
    }
    cx.sequence(first.len())?;
    cx.meter.visit(first.len().saturating_mul(others.len()))?;
    let mut kept = Vec::new();
    for member in first.iter() {
        cx.key(member)?;
        if others.iter().all(|other| other.contains(member) == wanted) {
            kept.push(member.clone());
        }
    }
    Ok(Value::Set(kept.into_iter().collect()))
}

fn intersection(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    keep(cx, "intersection", args, true)
}

fn difference(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    keep(cx, "difference", args, false)
}

fn within(cx: &mut Context, who: &str, args: &[Value], inner: usize, outer: usize) -> Result<Value, Fault> {
    let (inner, outer) = (as_set(cx, who, args, inner)?, as_set(cx, who, args, outer)?);
    for member in inner.iter() {
        cx.meter.tick()?;
        cx.key(member)?;
        if !outer.contains(member) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn subset(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    within(cx, "subset?", args, 0, 1)
}

fn superset(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    within(cx, "superset?", args, 1, 0)
}

fn disj(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Nil) {
        return Ok(Value::Nil);
    }
    let mut set = as_set(cx, "disj", args, 0)?;
    for at in 1..args.len() {
        cx.key(arg(args, at))?;
        cx.grow()?;
        set.remove(arg(args, at));
    }
    Ok(Value::Set(set))
}
