//! Maps: reading, changing, joining.

use super::collect::{arg, as_pair, map, map_from, not_a_pair, take, to_vector};
use super::table::{Builtin, MANY, higher, pure};
use crate::error::{Fault, Reason, fault};
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Map, Value, number};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "get",
        (2, 3),
        "coll key default?",
        "the value under a key of a map, a member of a set, an element by index",
        "(get {:a 1} :b 0) ; => 0",
        get,
    ),
    pure(
        "get-in",
        (2, 3),
        "coll path default?",
        "the value under a path of keys",
        "(get-in {:a [{:b 1}]} [:a 0 :b]) ; => 1",
        get_in,
    ),
    pure(
        "assoc",
        (3, MANY),
        "coll key value …",
        "the map, or vector, with values set",
        "(assoc {:a 1} :b 2) ; => {:a 1 :b 2}",
        assoc,
    ),
    pure(
        "assoc-in",
        (3, 3),
        "coll path value",
        "the map with the value under a path set",
        "(assoc-in {} [:a :b] 1) ; => {:a {:b 1}}",
        assoc_in,
    ),
    higher(
        "update",
        (3, MANY),
        "coll key f arg …",
        "the map with (f value arg …) under the key",
        "(update {:n 1} :n + 4) ; => {:n 5}",
        update,
    ),
    higher(
        "update-in",
        (3, MANY),
        "coll path f arg …",
        "the map with (f value arg …) under the path",
        "(update-in {:a {:n 1}} [:a :n] inc) ; => {:a {:n 2}}",
        update_in,
    ),
    pure(
        "dissoc",
        (1, MANY),
        "m key …",
        "the map without the keys",
        "(dissoc {:a 1 :b 2} :a) ; => {:b 2}",
        dissoc,
    ),
    pure(
        "merge",
        (0, MANY),
        "m …",
        "the maps joined; later ones win",
        "(merge {:a 1} {:a 2 :b 3}) ; => {:a 2 :b 3}",
        merge,
    ),
    pure(
        "select-keys",
        (2, 2),
        "m keys",
        "the entries under these keys",
        "(select-keys {:a 1 :b 2} [:a]) ; => {:a 1}",
        select_keys,
    ),
    pure("keys", (1, 1), "m", "the keys, sorted", "(keys {:b 1 :a 2}) ; => [:a :b]", keys),
    pure("vals", (1, 1), "m", "the values, in the order of keys", "(vals {:b 1 :a 2}) ; => [2 1]", vals),
    pure("key", (1, 1), "entry", "the first of a pair", "(key [:a 1]) ; => :a", key),
    pure("val", (1, 1), "entry", "the second of a pair", "(val [:a 1]) ; => 1", val),
    pure(
        "hash-map",
        (0, MANY),
        "key value …",
        "a map of its arguments",
        "(hash-map :a 1) ; => {:a 1}",
        hash_map,
    ),
    pure(
        "array-map",
        (0, MANY),
        "key value …",
        "the same as hash-map",
        "(array-map :a 1) ; => {:a 1}",
        hash_map,
    ),
    pure(
        "sorted-map",
        (0, MANY),
        "key value …",
        "the same as hash-map: every map is sorted",
        "(sorted-map :b 1 :a 2) ; => {:a 2 :b 1}",
        hash_map,
    ),
    pure(
        "rename-keys",
        (2, 2),
        "m names",
        "the map with keys renamed",
        "(rename-keys {:a 1} {:a :b}) ; => {:b 1}",
        rename_keys,
    ),
    pure(
        "map-invert",
        (1, 1),
        "m",
        "the map from values to keys",
        "(map-invert {:a 1}) ; => {1 :a}",
        map_invert,
    ),
];

/// What is under a key of anything that has keys; `None` if nothing is.
fn look_up(cx: &mut Context, collection: &Value, key: &Value) -> Result<Option<Value>, Fault> {
    cx.key(key)?;
    Ok(match collection {
        Value::Map(map) => {
            let found = map.get(key);
            if found.is_none() {
                cx.note_missing(key, map);
            }
            found.cloned()
        }
        Value::Set(set) => set.get(key).cloned(),
        Value::Vector(items) => position(key).and_then(|at| items.get(at)).cloned(),
        Value::Str(text) => {
            cx.meter.visit(position(key).unwrap_or(0).min(text.bytes()) / 16)?;
            position(key).and_then(|at| text.nth(at)).map(Value::from)
        }
        _ => None,
    })
}

fn position(key: &Value) -> Option<usize> {
    number::index(key).and_then(|at| usize::try_from(at).ok())
}

fn get(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let found = look_up(cx, arg(args, 0), arg(args, 1))?;
    Ok(found.unwrap_or_else(|| arg(args, 2).clone()))
}

fn get_in(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let path = to_vector(cx, "get-in", arg(args, 1), 2)?;
    let mut value = arg(args, 0).clone();
    for key in path.iter() {
        cx.meter.tick()?;
        match look_up(cx, &value, key)? {
            Some(inner) => value = inner,
            None => return Ok(arg(args, 2).clone()),
        }
    }
    Ok(value)
}

/// Sets the value under one key.
fn put(cx: &mut Context, who: &str, collection: &mut Value, key: Value, value: Value) -> Result<(), Fault> {
    cx.key(&key)?;
    cx.grow()?;
    match collection {
        Value::Map(map) => map.insert(key, value),
        Value::Nil => *collection = Value::Map([(key, value)].into_iter().collect()),
        Value::Vector(items) => {
            let Some(at) = number::index(&key) else { return cx.wrong(who, "integer", &key, 2) };
            match usize::try_from(at) {
                Ok(at) if at == items.len() => items.push(value),
                Ok(at) if at < items.len() => {
                    if let Some(slot) = items.0.get_mut(at) {
                        *slot = value;
                    }
                }
                _ => {
                    let message = format!("{who}: index {at} is outside a vector of {}", items.len());
                    return fault(Reason::IndexError, message);
                }
            }
        }
        other => return cx.wrong(who, "map or vector", other, 1),
    }
    Ok(())
}

fn assoc(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if args.len().is_multiple_of(2) {
        let message = format!("assoc expects a value after every key, got {} arguments", args.len());
        return fault(Reason::ArityError, message);
    }
    let mut collection = take(args, 0);
    for at in (1..args.len()).step_by(2) {
        let (key, value) = (take(args, at), take(args, at + 1));
        put(cx, "assoc", &mut collection, key, value)?;
    }
    Ok(collection)
}

/// Sets the value under a path: down through what is there, and up again with what was changed.
fn put_in(
    cx: &mut Context,
    who: &str,
    collection: Value,
    path: &[Value],
    value: Value,
) -> Result<Value, Fault> {
    let Some((last, before)) = path.split_last() else {
        // As in Clojure, no path is the path of nil.
        let mut collection = collection;
        put(cx, who, &mut collection, Value::Nil, value)?;
        return Ok(collection);
    };
    let mut levels = vec![collection];
    for key in before {
        cx.meter.tick()?;
        let inner = match levels.last() {
            Some(level) => look_up(cx, level, key)?.unwrap_or_default(),
            None => Value::Nil,
        };
        levels.push(inner);
    }
    let mut changed = levels.pop().unwrap_or_default();
    put(cx, who, &mut changed, last.clone(), value)?;
    for key in before.iter().rev() {
        let mut level = levels.pop().unwrap_or_default();
        put(cx, who, &mut level, key.clone(), changed)?;
        changed = level;
    }
    Ok(changed)
}

fn assoc_in(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let path = to_vector(cx, "assoc-in", arg(args, 1), 2)?;
    let path: Vec<Value> = path.iter().cloned().collect();
    let value = take(args, 2);
    put_in(cx, "assoc-in", take(args, 0), &path, value)
}

/// A call whose result goes under a path.
struct Update {
    who: &'static str,
    call: Option<(Value, Vec<Value>)>,
    collection: Value,
    path: Vec<Value>,
}

impl Work for Update {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        if let Some((f, args)) = self.call.take() {
            return Ok(WorkNext::Call(f, Args::Many(args)));
        }
        let collection = std::mem::take(&mut self.collection);
        put_in(cx, self.who, collection, &self.path, answer.unwrap_or_default()).map(WorkNext::Value)
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.collection);
        self.path.iter().for_each(&mut *see);
        if let Some((f, args)) = &self.call {
            see(f);
            args.iter().for_each(see);
        }
    }
}

fn update_path(
    cx: &mut Context,
    who: &'static str,
    args: Vec<Value>,
    path: Vec<Value>,
) -> Result<WorkNext, Fault> {
    let mut value = arg(&args, 0).clone();
    if !matches!(value, Value::Map(_) | Value::Vector(_) | Value::Nil) {
        return cx.wrong(who, "map or vector", &value, 1);
    }
    for key in &path {
        value = look_up(cx, &value, key)?.unwrap_or_default();
    }
    let mut rest = args.into_iter();
    let collection = rest.next().unwrap_or_default();
    rest.next();
    let f = rest.next().unwrap_or_default();
    let call = Some((f, std::iter::once(value).chain(rest).collect()));
    Ok(WorkNext::Work(Box::new(Update { who, call, collection, path })))
}

fn update(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let path = vec![arg(&args, 1).clone()];
    update_path(cx, "update", args, path)
}

fn update_in(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let path = to_vector(cx, "update-in", arg(&args, 1), 2)?;
    let path: Vec<Value> = if path.is_empty() { vec![Value::Nil] } else { path.iter().cloned().collect() };
    update_path(cx, "update-in", args, path)
}

fn dissoc(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Nil) {
        return Ok(Value::Nil);
    }
    let mut map = match take(args, 0) {
        Value::Map(map) => map,
        other => return cx.wrong("dissoc", "map", &other, 1),
    };
    for at in 1..args.len() {
        let key = arg(args, at);
        cx.key(key)?;
        cx.grow()?;
        map.remove(key);
    }
    Ok(Value::Map(map))
}

fn merge(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut merged = Value::Nil;
    for at in 0..args.len() {
        let more = match take(args, at) {
            Value::Nil => continue,
            Value::Map(more) => more,
            other => return cx.wrong("merge", "map", &other, at + 1),
        };
        match &mut merged {
            Value::Map(map) => {
                cx.sequence(more.len() * 2)?;
                for (key, value) in more.iter() {
                    cx.key(key)?;
                    map.insert(key.clone(), value.clone());
                }
            }
            _ => merged = Value::Map(more),
        }
    }
    Ok(merged)
}

fn select_keys(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let map = map(cx, "select-keys", args, 0)?;
    let keys = to_vector(cx, "select-keys", arg(args, 1), 2)?;
    let mut kept = Map::default();
    for key in keys.iter() {
        cx.meter.tick()?;
        cx.key(key)?;
        if let Some((own, value)) = map.entry(key) {
            cx.grow()?;
            kept.insert_exact(own.clone(), value.clone());
        }
    }
    Ok(Value::Map(kept))
}

fn keys(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    parts(cx, "keys", arg(args, 0), |(key, _)| key)
}

fn vals(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    parts(cx, "vals", arg(args, 0), |(_, value)| value)
}

/// The keys or the values of a map, or of a vector of pairs; nil if there are none.
fn parts(
    cx: &mut Context,
    who: &str,
    value: &Value,
    part: fn((Value, Value)) -> Value,
) -> Result<Value, Fault> {
    match value {
        Value::Map(map) if map.is_empty() => Ok(Value::Nil),
        Value::Nil => Ok(Value::Nil),
        Value::Map(map) => {
            cx.sequence(map.len())?;
            Ok(Value::vector(map.iter().map(|(key, value)| part((key.clone(), value.clone())))))
        }
        Value::Vector(items) if items.is_empty() => Ok(Value::Nil),
        Value::Vector(items) => {
            cx.sequence(items.len())?;
            let mut out = Vec::with_capacity(items.len());
            for item in items.iter() {
                match as_pair(item) {
                    Some(pair) => out.push(part(pair)),
                    None => return not_a_pair(who, item),
                }
            }
            Ok(Value::vector(out))
        }
        other => cx.wrong(who, "map", other, 1),
    }
}

fn key(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    as_pair(arg(args, 0)).map_or_else(|| not_a_pair("key", arg(args, 0)), |(key, _)| Ok(key))
}

fn val(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    as_pair(arg(args, 0)).map_or_else(|| not_a_pair("val", arg(args, 0)), |(_, value)| Ok(value))
}

fn hash_map(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if args.len() % 2 == 1 {
        let message = format!("hash-map expects a value after every key, got {} arguments", args.len());
        return fault(Reason::ArityError, message);
    }
    let mut values = args.iter_mut().map(std::mem::take);
    let mut entries = Vec::new();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        entries.push((key, value));
    }
    map_from(cx, entries)
}

fn rename_keys(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (old, names) = (map(cx, "rename-keys", args, 0)?, map(cx, "rename-keys", args, 1)?);
    cx.sequence((old.len() + names.len()) * 2)?;
    let mut renamed = old.clone();
    for (from, _) in names.iter() {
        cx.key(from)?;
        renamed.remove(from);
    }
    for (from, to) in names.iter() {
        if let Some(value) = old.get(from) {
            cx.key(to)?;
            renamed.insert_exact(to.clone(), value.clone());
        }
    }
    Ok(Value::Map(renamed))
}

fn map_invert(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let map = map(cx, "map-invert", args, 0)?;
    let entries = map.iter().map(|(key, value)| (value.clone(), key.clone())).collect();
    map_from(cx, entries)
}
