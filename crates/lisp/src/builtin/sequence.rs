//! Building and rearranging sequences.

use super::collect::{
    arg, as_pair, count as length, integer, map_from, no_order, not_a_pair, ordered, pair, runtime, size,
    take, to_vector,
};
use super::table::{Builtin, MANY, pure};
use crate::error::{Fault, Reason, fault};
use crate::run::Context;
use crate::value::{Map, Set, Value, Vector, number};

pub(super) const TABLE: &[Builtin] = &[
    pure("count", (1, 1), "coll", "how many elements there are", "(count [1 2]) ; => 2", count),
    pure("empty", (1, 1), "coll", "an empty collection of the same kind", "(empty {:a 1}) ; => {}", empty),
    pure("empty?", (1, 1), "coll", "whether there are no elements", "(empty? nil) ; => true", is_empty),
    pure(
        "not-empty",
        (1, 1),
        "coll",
        "the collection, or nil if it is empty",
        "(not-empty []) ; => nil",
        not_empty,
    ),
    pure(
        "seq",
        (1, 1),
        "coll",
        "the elements as a vector, or nil if there are none",
        "(seq {:a 1}) ; => [[:a 1]]",
        seq,
    ),
    pure("vec", (1, 1), "coll", "the elements as a vector", "(vec #{1 2}) ; => [1 2]", vec),
    pure("vector", (0, MANY), "x …", "a vector of its arguments", "(vector 1 2) ; => [1 2]", vector),
    pure(
        "list",
        (0, MANY),
        "x …",
        "a vector of its arguments; there are no lists",
        "(list 1 2) ; => [1 2]",
        vector,
    ),
    pure("doall", (1, 1), "coll", "the collection; nothing is lazy", "(doall [1]) ; => [1]", identity),
    pure("dorun", (1, 1), "coll", "nil; nothing is lazy", "(dorun [1]) ; => nil", |_, _| Ok(Value::Nil)),
    pure(
        "conj",
        (1, MANY),
        "coll x …",
        "the collection with the elements added; a vector at its end",
        "(conj [1] 2) ; => [1 2]",
        conj,
    ),
    pure("cons", (2, 2), "x coll", "a vector with x in front", "(cons 0 [1]) ; => [0 1]", cons),
    pure(
        "concat",
        (0, MANY),
        "coll …",
        "all elements in one vector",
        "(concat [1] [2 3]) ; => [1 2 3]",
        concat,
    ),
    pure(
        "into",
        (0, 2),
        "to from",
        "to with all elements of from added",
        "(into {} [[:a 1]]) ; => {:a 1}",
        into,
    ),
    pure("reverse", (1, 1), "coll", "the elements in opposite order", "(reverse [1 2]) ; => [2 1]", reverse),
    pure(
        "distinct",
        (1, 1),
        "coll",
        "the elements without repetitions",
        "(distinct [1 2 1]) ; => [1 2]",
        distinct,
    ),
    pure(
        "dedupe",
        (1, 1),
        "coll",
        "the elements without repetitions in a row",
        "(dedupe [1 1 2 1]) ; => [1 2 1]",
        dedupe,
    ),
    pure(
        "distinct?",
        (1, MANY),
        "x …",
        "whether no two arguments are equal",
        "(distinct? 1 2 1) ; => false",
        is_distinct,
    ),
    pure(
        "frequencies",
        (1, 1),
        "coll",
        "a map from each element to how often it is there",
        "(frequencies [:a :b :a]) ; => {:a 2 :b 1}",
        frequencies,
    ),
    pure(
        "flatten",
        (1, 1),
        "coll",
        "the elements of nested vectors, in one vector",
        "(flatten [1 [2 [3]]]) ; => [1 2 3]",
        flatten,
    ),
    pure(
        "interleave",
        (0, MANY),
        "coll …",
        "the first of each, the second of each, and so on",
        "(interleave [1 2] [:a :b]) ; => [1 :a 2 :b]",
        interleave,
    ),
    pure(
        "interpose",
        (2, 2),
        "x coll",
        "the elements with x between them",
        "(interpose 0 [1 2]) ; => [1 0 2]",
        interpose,
    ),
    pure(
        "zip",
        (1, MANY),
        "coll …",
        "vectors of the first of each, the second of each, and so on",
        "(zip [1 2] [:a :b]) ; => [[1 :a] [2 :b]]",
        zip,
    ),
    pure(
        "zipmap",
        (2, 2),
        "keys vals",
        "a map of keys and values",
        "(zipmap [:a :b] [1 2]) ; => {:a 1 :b 2}",
        zipmap,
    ),
    pure(
        "range",
        (1, 3),
        "start? end step?",
        "the numbers from start (0) up to but not including end",
        "(range 1 4) ; => [1 2 3]",
        range,
    ),
    pure("repeat", (2, 2), "n x", "x, n times", "(repeat 2 :x) ; => [:x :x]", repeat),
    pure(
        "combinations",
        (2, 2),
        "coll n",
        "all choices of n elements, in order",
        "(combinations [1 2 3] 2) ; => [[1 2] [1 3] [2 3]]",
        combinations,
    ),
];

fn count(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    length(cx, "count", arg(args, 0), 1).map(|count| Value::Int(count as i64))
}

fn empty(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match arg(args, 0) {
        Value::Map(_) => Value::Map(Map::default()),
        Value::Set(_) => Value::Set(Set::default()),
        Value::Vector(_) => Value::Vector(Vector::default()),
        _ => Value::Nil,
    })
}

fn is_empty(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    length(cx, "empty?", arg(args, 0), 1).map(|count| Value::Bool(count == 0))
}

fn not_empty(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = length(cx, "not-empty", arg(args, 0), 1)?;
    Ok(if count == 0 { Value::Nil } else { take(args, 0) })
}

fn seq(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "seq", arg(args, 0), 1)?;
    Ok(if items.is_empty() { Value::Nil } else { Value::Vector(items) })
}

fn vec(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    to_vector(cx, "vec", arg(args, 0), 1).map(Value::Vector)
}

fn vector(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items: Vec<Value> = args.iter_mut().map(std::mem::take).collect();
    cx.vector(items)
}

fn identity(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(take(args, 0))
}

/// One element added to a collection.
pub(super) fn add(cx: &mut Context, who: &str, collection: &mut Value, item: Value) -> Result<(), Fault> {
    cx.grow()?;
    match collection {
        Value::Vector(items) => items.push(item),
        Value::Nil => *collection = Value::vector([item]),
        Value::Set(set) => {
            cx.key(&item)?;
            set.insert(item);
        }
        Value::Map(map) => match &item {
            Value::Map(more) => {
                cx.sequence(more.len() * 2)?;
                for (key, value) in more.iter() {
                    map.insert_exact(key.clone(), value.clone());
                }
            }
            Value::Nil => {}
            item => match as_pair(item) {
                Some((key, value)) => {
                    cx.key(&key)?;
                    map.insert_exact(key, value);
                }
                None => return not_a_pair(who, item),
            },
        },
        other => return cx.wrong(who, "collection", other, 1),
    }
    Ok(())
}

fn conj(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut collection = take(args, 0);
    for at in 1..args.len() {
        let item = take(args, at);
        cx.meter.tick()?;
        add(cx, "conj", &mut collection, item)?;
    }
    Ok(collection)
}

fn cons(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut items = to_vector(cx, "cons", arg(args, 1), 2)?;
    cx.grow()?;
    items.0.insert(0, take(args, 0));
    Ok(Value::Vector(items))
}

fn concat(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut lists = Vec::with_capacity(args.len());
    for (at, collection) in args.iter().enumerate() {
        lists.push(to_vector(cx, "concat", collection, at + 1)?);
    }
    let total = lists.iter().map(Vector::len).sum();
    cx.sequence(total)?;
    Ok(Value::Vector(lists.iter().flat_map(|list| list.iter().cloned()).collect()))
}

fn into(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match args.len() {
        0 => return Ok(Value::vector([])),
        1 => return Ok(take(args, 0)),
        _ => {}
    }
    let from = to_vector(cx, "into", arg(args, 1), 2)?;
    let mut to = take(args, 0);
    for item in from.iter() {
        cx.meter.tick()?;
        add(cx, "into", &mut to, item.clone())?;
    }
    Ok(to)
}

fn reverse(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Map(_)) {
        no_order("reverse", arg(args, 0))?;
    }
    let items = to_vector(cx, "reverse", arg(args, 0), 1)?;
    let mut items: Vec<Value> = items.iter().cloned().collect();
    cx.sequence(items.len())?;
    items.reverse();
    Ok(Value::vector(items))
}

/// For each key whether it is the first of its kind.
pub(super) fn first_of_each(cx: &mut Context, keys: &[Value]) -> Result<Vec<bool>, Fault> {
    cx.sequence(keys.len())?;
    for key in keys {
        cx.key(key)?;
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| keys.get(*a).cmp(&keys.get(*b)));
    let mut first = vec![false; keys.len()];
    let mut last: Option<&Value> = None;
    for at in order {
        let key = keys.get(at);
        if last.is_none() || key != last {
            if let Some(slot) = first.get_mut(at) {
                *slot = true;
            }
            last = key;
        }
    }
    Ok(first)
}

fn distinct(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "distinct", arg(args, 0), 1)?;
    let items: Vec<Value> = items.iter().cloned().collect();
    let kept = first_of_each(cx, &items)?;
    Ok(Value::vector(items.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(item, _)| item)))
}

fn dedupe(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "dedupe", arg(args, 0), 1)?;
    let mut kept: Vec<Value> = Vec::new();
    cx.sequence(items.len())?;
    for item in items.iter() {
        let repeated = match kept.last() {
            Some(last) => cx.equal(last, item)?,
            None => false,
        };
        if !repeated {
            kept.push(item.clone());
        }
    }
    Ok(Value::vector(kept))
}

fn is_distinct(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let first = first_of_each(cx, args)?;
    Ok(Value::Bool(first.into_iter().all(|first| first)))
}

fn frequencies(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "frequencies", arg(args, 0), 1)?;
    let mut items: Vec<Value> = items.iter().cloned().collect();
    cx.sequence(items.len() * 2)?;
    for item in &items {
        cx.key(item)?;
    }
    items.sort();
    let runs = items
        .chunk_by(|a, b| a == b)
        .filter_map(|run| Some((run.first()?.clone(), Value::Int(run.len() as i64))));
    Ok(Value::Map(runs.collect()))
}

fn flatten(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Value::Vector(items) = arg(args, 0) else { return Ok(Value::vector([])) };
    let mut out = Vec::new();
    let mut open = vec![super::each::Cursor::new(items.clone())];
    while let Some(cursor) = open.last_mut() {
        cx.meter.tick()?;
        match cursor.next() {
            None => drop(open.pop()),
            Some(Value::Vector(inner)) => {
                cx.meter.reserve(64)?;
                open.push(super::each::Cursor::new(inner));
            }
            Some(item) => {
                cx.meter.reserve(2 * crate::run::context::VALUE_BYTES)?;
                out.push(item);
            }
        }
    }
    cx.vector(out)
}

/// The first of each collection, the second of each, and so on.
fn rows(cx: &mut Context, who: &str, args: &[Value]) -> Result<Vec<Vec<Value>>, Fault> {
    let mut lists = Vec::new();
    for (at, collection) in args.iter().enumerate() {
        lists.push(to_vector(cx, who, collection, at + 1)?);
    }
    let length = lists.iter().map(Vector::len).min().unwrap_or(0);
    cx.sequence(length.saturating_mul(lists.len() + 6))?;
    let mut cursors: Vec<_> = lists.iter().map(Vector::iter).collect();
    Ok((0..length).map(|_| cursors.iter_mut().filter_map(Iterator::next).cloned().collect()).collect())
}

fn interleave(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::vector(rows(cx, "interleave", args)?.into_iter().flatten()))
}

fn zip(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::vector(rows(cx, "zip", args)?.into_iter().map(Value::vector)))
}

fn interpose(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = to_vector(cx, "interpose", arg(args, 1), 2)?;
    cx.sequence(items.len().saturating_mul(2))?;
    let separator = arg(args, 0);
    let spread = items.iter().flat_map(|item| [separator.clone(), item.clone()]);
    Ok(Value::vector(spread.skip(1)))
}

fn zipmap(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let keys = to_vector(cx, "zipmap", arg(args, 0), 1)?;
    let values = to_vector(cx, "zipmap", arg(args, 1), 2)?;
    let entries = keys.iter().cloned().zip(values.iter().cloned()).collect();
    map_from(cx, entries)
}

fn range(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let zero = Value::Int(0);
    let one = Value::Int(1);
    let (start, end, step) = match &*args {
        [end] => (&zero, end, &one),
        [start, end] => (start, end, &one),
        _ => (arg(args, 0), arg(args, 1), arg(args, 2)),
    };
    if let (Value::Int(start), Value::Int(end), Value::Int(step)) = (start, end, step) {
        let (start, end, step) = (*start, *end, *step);
        if step == 0 {
            return fault(Reason::ArithmeticError, "range: a step of zero never ends");
        }
        let distance = i128::from(end) - i128::from(start);
        let steps = (distance + i128::from(step) - i128::from(step.signum())) / i128::from(step);
        let length = usize::try_from(steps.max(0)).unwrap_or(usize::MAX);
        cx.sequence(length)?;
        return Ok(Value::vector(
            (0..length).map(|at| Value::Int(start.wrapping_add(step.wrapping_mul(at as i64)))),
        ));
    }
    for (at, value) in args.iter().enumerate() {
        if !value.is_number() {
            return cx.wrong("range", "number", value, at + 1);
        }
    }
    let (start, end, step) = (
        number::float(start).unwrap_or(0.0),
        number::float(end).unwrap_or(0.0),
        number::float(step).unwrap_or(1.0),
    );
    let length = ((end - start) / step).ceil();
    if step == 0.0 || length.is_nan() {
        return fault(Reason::ArithmeticError, "range: the step never reaches the end");
    }
    let length = if length <= 0.0 {
        0
    } else if length > 1e12 {
        usize::MAX
    } else {
        length as usize
    };
    cx.sequence(length)?;
    Ok(Value::vector((0..length).map(|at| Value::Float(start + step * at as f64))))
}

fn repeat(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let count = size(cx, "repeat", args, 0)?;
    cx.sequence(count)?;
    Ok(Value::vector(std::iter::repeat_n(arg(args, 1).clone(), count)))
}

fn combinations(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let items = ordered(cx, "combinations", arg(args, 0))?;
    let chosen = integer(cx, "combinations", args, 1)?;
    let Ok(chosen) = usize::try_from(chosen) else {
        return runtime("combinations: a negative number of elements");
    };
    let items: Vec<Value> = items.iter().cloned().collect();
    if chosen > items.len() {
        return Ok(Value::vector([]));
    }
    let mut indexes: Vec<usize> = (0..chosen).collect();
    let mut out = Vec::new();
    loop {
        cx.sequence(chosen + 6)?;
        out.push(Value::vector(indexes.iter().filter_map(|at| items.get(*at)).cloned()));
        // The last index that can still move on, moves; those after it follow closely.
        let movable =
            indexes.iter().enumerate().rev().find(|(at, index)| **index < items.len() - chosen + at);
        let Some((at, index)) = movable.map(|(at, index)| (at, *index)) else { break };
        for (offset, slot) in indexes.iter_mut().skip(at).enumerate() {
            *slot = index + 1 + offset;
        }
    }
    cx.vector(out)
}

/// The entries of a map as pairs.
pub(super) fn entries(cx: &mut Context, map: &Map) -> Result<Value, Fault> {
    cx.sequence(map.len() * 8)?;
    Ok(Value::vector(map.iter().map(pair)))
}
