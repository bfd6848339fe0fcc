//! Builtins that call a function for each element: `map`, `filter` and their relatives.

use std::collections::BTreeMap;

use super::collect::{arg, as_pair, map, map_from, not_a_pair, size, to_vector};
use super::each::{
    Cursor, Each, ElementShape, Finish, Flow, Take, as_vector, keep_pair, keep_result, repeat,
};
use super::table::{Builtin, MANY, higher};
use crate::error::Fault;
use crate::run::Context;
use crate::run::work::WorkNext;
use crate::value::{Value, Vector};

pub(super) const TABLE: &[Builtin] = &[
    higher(
        "map",
        (2, MANY),
        "f coll …",
        "f of each element, as a vector; several collections are walked together",
        "(map inc [1 2 3]) ; => [2 3 4]",
        map_,
    ),
    higher("mapv", (2, MANY), "f coll …", "the same as map", "(mapv + [1 2] [10 20]) ; => [11 22]", map_),
    higher(
        "filter",
        (2, 2),
        "pred coll",
        "the elements for which pred is true",
        "(filter odd? [1 2 3]) ; => [1 3]",
        filter,
    ),
    higher("filterv", (2, 2), "pred coll", "the same as filter", "(filterv odd? [1 2 3]) ; => [1 3]", filter),
    higher(
        "remove",
        (2, 2),
        "pred coll",
        "the elements for which pred is false",
        "(remove nil? [1 nil 2]) ; => [1 2]",
        remove,
    ),
    higher(
        "keep",
        (2, 2),
        "f coll",
        "the results of f that are not nil",
        "(keep :a [{:a 1} {}]) ; => [1]",
        keep,
    ),
    higher(
        "keep-indexed",
        (2, 2),
        "f coll",
        "the results of (f index element) that are not nil",
        "(keep-indexed (fn [i x] (if (odd? i) x)) [:a :b]) ; => [:b]",
        keep_indexed,
    ),
    higher(
        "map-indexed",
        (2, 2),
        "f coll",
        "(f index element) of each element",
        "(map-indexed vector [:a :b]) ; => [[0 :a] [1 :b]]",
        map_indexed,
    ),
    higher(
        "mapcat",
        (2, MANY),
        "f coll …",
        "the results of f, joined",
        "(mapcat reverse [[2 1] [4 3]]) ; => [1 2 3 4]",
        mapcat,
    ),
    higher("run!", (2, 2), "f coll", "calls f for each element; nil", "(run! println []) ; => nil", run),
    higher(
        "some",
        (2, 2),
        "pred coll",
        "the first true result of pred, or nil",
        "(some #{2} [1 2]) ; => 2",
        some,
    ),
    higher(
        "every?",
        (2, 2),
        "pred coll",
        "whether pred is true of all",
        "(every? pos? [1 2]) ; => true",
        every,
    ),
    higher(
        "not-any?",
        (2, 2),
        "pred coll",
        "whether pred is true of none",
        "(not-any? neg? [1 2]) ; => true",
        not_any,
    ),
    higher(
        "not-every?",
        (2, 2),
        "pred coll",
        "whether pred is false of one",
        "(not-every? neg? [1 -2]) ; => true",
        not_every,
    ),
    higher(
        "take-while",
        (2, 2),
        "pred coll",
        "the elements before the first for which pred is false",
        "(take-while pos? [2 1 0 3]) ; => [2 1]",
        take_while,
    ),
    higher(
        "drop-while",
        (2, 2),
        "pred coll",
        "the elements from the first for which pred is false",
        "(drop-while pos? [2 1 0 3]) ; => [0 3]",
        drop_while,
    ),
    higher(
        "split-with",
        (2, 2),
        "pred coll",
        "take-while and drop-while in one",
        "(split-with pos? [1 0 2]) ; => [[1] [0 2]]",
        split_with,
    ),
    higher(
        "group-by",
        (2, 2),
        "f coll",
        "a map from each result of f to its elements",
        "(group-by odd? [1 2 3]) ; => {false [2] true [1 3]}",
        group_by,
    ),
    higher(
        "partition-by",
        (2, 2),
        "f coll",
        "runs of elements with the same result of f",
        "(partition-by odd? [1 3 2]) ; => [[1 3] [2]]",
        partition_by,
    ),
    higher(
        "distinct-by",
        (2, 2),
        "f coll",
        "the first element for each result of f",
        "(distinct-by count [\"a\" \"b\" \"cc\"]) ; => [\"a\" \"cc\"]",
        distinct_by,
    ),
    higher(
        "repeatedly",
        (2, 2),
        "n f",
        "the results of n calls of f",
        "(repeatedly 2 (fn [] 1)) ; => [1 1]",
        repeatedly,
    ),
    higher(
        "max-key",
        (2, MANY),
        "f x …",
        "the x with the largest f; the last of equals",
        "(max-key count \"a\" \"bb\") ; => \"bb\"",
        max_key,
    ),
    higher(
        "min-key",
        (2, MANY),
        "f x …",
        "the x with the smallest f; the last of equals",
        "(min-key count \"a\" \"bb\") ; => \"a\"",
        min_key,
    ),
    higher(
        "update-vals",
        (2, 2),
        "m f",
        "the map with f of every value",
        "(update-vals {:a 1} inc) ; => {:a 2}",
        update_vals,
    ),
    higher(
        "update-keys",
        (2, 2),
        "m f",
        "the map with f of every key",
        "(update-keys {:a 1} name) ; => {\"a\" 1}",
        update_keys,
    ),
];

fn map_(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    each_of(cx, "map", args, keep_result, as_vector)
}

/// A function over one collection, or over several walked together.
fn each_of(
    cx: &mut Context,
    who: &str,
    args: Vec<Value>,
    take: Take,
    finish: Finish,
) -> Result<WorkNext, Fault> {
    if args.len() == 2 {
        return Each::start(cx, who, &args, take, finish);
    }
    let mut cursors = Vec::new();
    for (at, collection) in args.iter().enumerate().skip(1) {
        cursors.push(Cursor::new(to_vector(cx, who, collection, at + 1)?));
    }
    let f = args.into_iter().next().unwrap_or_default();
    Ok(Each::over(f, Vector::default(), ElementShape::Zipped(cursors), take, finish))
}

fn mapcat(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
        let items = to_vector(cx, "mapcat: the result of f", &result, 1)?;
        cx.meter.reserve(items.len() * 2 * crate::run::context::VALUE_BYTES)?;
        cx.meter.visit(items.len())?;
        each.out.extend(items.iter().cloned());
        Ok(Flow::On)
    }
    each_of(cx, "mapcat", args, take, as_vector)
}

fn filter(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
        if result.is_truthy() { each.push(cx, each.item()) } else { Ok(Flow::On) }
    }
    Each::start(cx, "filter", &args, take, as_vector)
}

fn remove(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
        if result.is_truthy() { Ok(Flow::On) } else { each.push(cx, each.item()) }
    }
    Each::start(cx, "remove", &args, take, as_vector)
}

fn keep_some(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
    if matches!(result, Value::Nil) { Ok(Flow::On) } else { each.push(cx, result) }
}

fn keep(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "keep", &args, keep_some, as_vector)
}

fn keep_indexed(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let items = to_vector(cx, "keep-indexed", arg(&args, 1), 2)?;
    Ok(Each::over(arg(&args, 0).clone(), items, ElementShape::Indexed(0), keep_some, as_vector))
}

fn map_indexed(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let items = to_vector(cx, "map-indexed", arg(&args, 1), 2)?;
    Ok(Each::over(arg(&args, 0).clone(), items, ElementShape::Indexed(0), keep_result, as_vector))
}

fn run(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "run!", &args, |_, _, _| Ok(Flow::On), |_, _, _| Ok(Value::Nil))
}

fn some(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(_: &mut Each, _: &mut Context, result: Value) -> Result<Flow, Fault> {
        Ok(if result.is_truthy() { Flow::Answer(result) } else { Flow::On })
    }
    Each::start(cx, "some", &args, take, |_, _, _| Ok(Value::Nil))
}

fn every(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "every?", &args, stop_if_false::<false>, |_, _, _| Ok(Value::Bool(true)))
}

fn not_every(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "not-every?", &args, stop_if_false::<true>, |_, _, _| Ok(Value::Bool(false)))
}

fn not_any(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(_: &mut Each, _: &mut Context, result: Value) -> Result<Flow, Fault> {
        Ok(if result.is_truthy() { Flow::Answer(Value::Bool(false)) } else { Flow::On })
    }
    Each::start(cx, "not-any?", &args, take, |_, _, _| Ok(Value::Bool(true)))
}

fn stop_if_false<const ANSWER: bool>(_: &mut Each, _: &mut Context, result: Value) -> Result<Flow, Fault> {
    Ok(if result.is_truthy() { Flow::On } else { Flow::Answer(Value::Bool(ANSWER)) })
}

fn take_until_false(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
    if result.is_truthy() {
        return each.push(cx, each.item());
    }
    Ok(Flow::Enough)
}

fn take_while(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "take-while", &args, take_until_false, as_vector)
}

fn drop_while(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(each: &mut Each, _: &mut Context, result: Value) -> Result<Flow, Fault> {
        Ok(if result.is_truthy() { Flow::On } else { Flow::Answer(Value::Vector(each.cursor.rest_with(1))) })
    }
    Each::start(cx, "drop-while", &args, take, |_, _, _| Ok(Value::vector([])))
}

fn split_with(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fn take(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
        if result.is_truthy() {
            return each.push(cx, each.item());
        }
        let before = cx.vector(std::mem::take(&mut each.out))?;
        Ok(Flow::Answer(Value::vector([before, Value::Vector(each.cursor.rest_with(1))])))
    }
    Each::start(cx, "split-with", &args, take, |cx, out, rest| {
        Ok(Value::vector([cx.vector(out)?, Value::Vector(rest)]))
    })
}

/// Pairs of element and result, as `keep_pair` collected them.
fn pairs(out: Vec<Value>) -> impl Iterator<Item = (Value, Value)> {
    let mut out = out.into_iter();
    std::iter::from_fn(move || Some((out.next()?, out.next()?)))
}

fn group_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "group-by", &args, keep_pair, |cx, out, _| {
        let mut groups: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
        cx.sequence(out.len())?;
        for (item, key) in pairs(out) {
            cx.key(&key)?;
            groups.entry(key).or_default().push(item);
        }
        cx.sequence(groups.len() * 8)?;
        Ok(Value::Map(groups.into_iter().map(|(key, items)| (key, Value::vector(items))).collect()))
    })
}

fn partition_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "partition-by", &args, keep_pair, |cx, out, _| {
        let mut runs: Vec<(Value, Vec<Value>)> = Vec::new();
        for (item, key) in pairs(out) {
            match runs.last_mut() {
                Some((last, items)) if cx.equal(last, &key)? => items.push(item),
                _ => {
                    cx.grow()?;
                    runs.push((key, vec![item]));
                }
            }
        }
        let runs: Vec<Value> = runs.into_iter().map(|(_, items)| Value::vector(items)).collect();
        cx.vector(runs)
    })
}

fn distinct_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Each::start(cx, "distinct-by", &args, keep_pair, |cx, out, _| {
        let (items, keys): (Vec<Value>, Vec<Value>) = pairs(out).unzip();
        let kept = super::sequence::first_of_each(cx, &keys)?;
        let items = items.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(item, _)| item).collect();
        cx.vector(items)
    })
}

fn repeatedly(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let count = size(cx, "repeatedly", &args, 0)?;
    Ok(repeat(arg(&args, 1).clone(), count))
}

fn extreme(cx: &mut Context, args: Vec<Value>, finish: Finish) -> Result<WorkNext, Fault> {
    let mut args = args.into_iter();
    let f = args.next().unwrap_or_default();
    cx.sequence(args.len())?;
    Ok(Each::over(f, args.collect(), ElementShape::One, keep_pair, finish))
}

fn max_key(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    extreme(cx, args, |cx, out, _| best(cx, "max-key", out, std::cmp::Ordering::Greater))
}

fn min_key(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    extreme(cx, args, |cx, out, _| best(cx, "min-key", out, std::cmp::Ordering::Less))
}

/// The element whose number is best; of equal ones the last.
fn best(cx: &mut Context, who: &str, out: Vec<Value>, wanted: std::cmp::Ordering) -> Result<Value, Fault> {
    let mut best: Option<(Value, Value)> = None;
    for (item, key) in pairs(out) {
        if !key.is_number() {
            return cx.wrong(who, "number from f", &key, 1);
        }
        let order = best.as_ref().map(|(_, most)| crate::value::order::numbers(&key, most));
        if order.is_none_or(|order| order == wanted || order.is_eq()) {
            best = Some((item, key));
        }
    }
    Ok(best.map(|(item, _)| item).unwrap_or_default())
}

fn update_vals(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let map = Value::Map(map(cx, "update-vals", &args, 0)?);
    let items = to_vector(cx, "update-vals", &map, 1)?;
    Ok(Each::over(arg(&args, 1).clone(), items, ElementShape::Part(1), keep_pair, |cx, out, _| {
        let mut entries = Vec::new();
        for (item, result) in pairs(out) {
            let Some((key, _)) = as_pair(&item) else { return not_a_pair("update-vals", &item) };
            entries.push((key, result));
        }
        map_from(cx, entries)
    }))
}

fn update_keys(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let map = Value::Map(map(cx, "update-keys", &args, 0)?);
    let items = to_vector(cx, "update-keys", &map, 1)?;
    Ok(Each::over(arg(&args, 1).clone(), items, ElementShape::Part(0), keep_pair, |cx, out, _| {
        let mut entries = Vec::new();
        for (item, result) in pairs(out) {
            let Some((_, value)) = as_pair(&item) else { return not_a_pair("update-keys", &item) };
            entries.push((result, value));
        }
        map_from(cx, entries)
    }))
}
