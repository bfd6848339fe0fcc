//! Arguments: what counts as a collection, a number, a text.

use crate::error::{Error, Fault, Reason};
use crate::run::Context;
use crate::run::context::describe;
use crate::value::{Map, Text, Value, Vector, number};

/// An argument, nil if it is not there.
pub(super) fn arg(args: &[Value], at: usize) -> &Value {
    const NIL: &Value = &Value::Nil;
    args.get(at).unwrap_or(NIL)
}

/// An argument taken out, so that a value with no other owner can be changed in place.
pub(super) fn take(args: &mut [Value], at: usize) -> Value {
    args.get_mut(at).map(std::mem::take).unwrap_or_default()
}

/// The elements of a collection: a vector's own, the pairs of a map, the members of a set, the graphemes of a string,
/// nothing for nil.
pub(crate) fn to_vector(
    cx: &mut Context,
    who: &str,
    value: &Value,
    argument: usize,
) -> Result<Vector, Fault> {
    match to_vector_of(cx, value)? {
        Some(items) => Ok(items),
        None => cx.wrong(who, "collection", value, argument),
    }
}

/// As [`to_vector`], `None` if the value is no collection.
pub(crate) fn to_vector_of(cx: &mut Context, value: &Value) -> Result<Option<Vector>, Fault> {
    Ok(Some(match value {
        Value::Vector(items) => items.clone(),
        Value::Nil => Vector::default(),
        Value::Map(map) => {
            cx.sequence(map.len() * 8)?;
            map.iter().map(pair).collect()
        }
        Value::Set(set) => {
            cx.sequence(set.len())?;
            set.iter().cloned().collect()
        }
        Value::Str(text) => {
            cx.meter.reserve(text.bytes().saturating_mul(96))?;
            cx.meter.visit(text.bytes())?;
            text.graphemes().map(Value::from).collect()
        }
        _ => return Ok(None),
    }))
}

/// An entry of a map as a vector of two.
pub(super) fn pair((key, value): (&Value, &Value)) -> Value {
    Value::vector([key.clone(), value.clone()])
}

/// How many elements a collection has.
pub(super) fn count(cx: &mut Context, who: &str, value: &Value, argument: usize) -> Result<usize, Fault> {
    match value {
        Value::Nil => Ok(0),
        Value::Vector(items) => Ok(items.len()),
        Value::Map(map) => Ok(map.len()),
        Value::Set(set) => Ok(set.len()),
        Value::Str(text) => {
            cx.meter.visit(text.bytes() / 16)?;
            Ok(text.count())
        }
        other => cx.wrong(who, "collection", other, argument),
    }
}

/// The elements where their order is asked for, which maps and sets do not have.
pub(super) fn ordered(cx: &mut Context, who: &str, value: &Value) -> Result<Vector, Fault> {
    no_order(who, value)?;
    to_vector(cx, who, value, 1)
}

/// Fails for a map or set: it has no order to ask for.
pub(super) fn no_order(who: &str, value: &Value) -> Result<(), Fault> {
    let what = match value {
        Value::Map(_) => "map",
        Value::Set(_) => "set",
        _ => return Ok(()),
    };
    let message = format!("{who}: a {what} has no order to ask for");
    let hint = match what {
        "map" => "use keys, vals, entries, sort-by, or min-by and max-by",
        _ => "use sort, or min-by and max-by",
    };
    Err(Box::new(Error::new(Reason::TypeError, message).hint(hint)))
}

/// An integer that fits 64 bits; a float without fraction is one.
pub(super) fn integer(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<i64, Fault> {
    let value = arg(args, at);
    match number::index(value) {
        Some(n) => Ok(n),
        None => cx.wrong(who, "integer", value, at + 1),
    }
}

/// A count: an integer, of which negative ones count as nothing.
pub(super) fn size(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<usize, Fault> {
    integer(cx, who, args, at).map(|n| usize::try_from(n).unwrap_or(0))
}

/// A number of any kind, as a float.
pub(super) fn float(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<f64, Fault> {
    let value = arg(args, at);
    match number::float(value) {
        Some(x) => Ok(x),
        None => cx.wrong(who, "number", value, at + 1),
    }
}

/// A string.
pub(super) fn text(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<Text, Fault> {
    match arg(args, at) {
        Value::Str(text) => Ok(text.clone()),
        other => cx.wrong(who, "string", other, at + 1),
    }
}

/// A map; nil is an empty one.
pub(super) fn map(cx: &Context, who: &str, args: &[Value], at: usize) -> Result<Map, Fault> {
    match arg(args, at) {
        Value::Map(map) => Ok(map.clone()),
        Value::Nil => Ok(Map::default()),
        other => cx.wrong(who, "map", other, at + 1),
    }
}

/// A map from pairs, paid for.
pub(super) fn map_from(cx: &mut Context, entries: Vec<(Value, Value)>) -> Result<Value, Fault> {
    cx.sequence(entries.len() * 2)?;
    for (key, _) in &entries {
        cx.key(key)?;
    }
    Ok(Value::Map(entries.into_iter().collect()))
}

/// The two parts of a pair: a vector of two.
pub(super) fn as_pair(value: &Value) -> Option<(Value, Value)> {
    match value {
        Value::Vector(items) if items.len() == 2 => Some((items.get(0)?.clone(), items.get(1)?.clone())),
        _ => None,
    }
}

/// A runtime error.
pub(super) fn runtime<T>(message: impl Into<String>) -> Result<T, Fault> {
    crate::error::fault(Reason::RuntimeError, message)
}

/// An error about something that is not a pair.
pub(super) fn not_a_pair<T>(who: &str, value: &Value) -> Result<T, Fault> {
    crate::error::fault(
        Reason::TypeError,
        format!("{who}: expected a pair [key value], got {}", describe(value)),
    )
}
