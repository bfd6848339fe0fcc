//! Builtins that carry a result from element to element: `reduce` and its relatives.

use super::collect::{arg, map, to_vector};
use super::each::{self, Cursor, direct, needs_frame};
use super::table::{Builtin, MANY, higher, pure};
use crate::error::Fault;
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Derived, Map, Value};

pub(super) const TABLE: &[Builtin] = &[
    higher(
        "reduce",
        (2, 3),
        "f init? coll",
        "f of the result so far and each element",
        "(reduce + 10 [1 2]) ; => 13",
        reduce,
    ),
    pure(
        "reduced",
        (1, 1),
        "x",
        "as a result of f: ends reduce with x",
        "(reduce (fn [a x] (reduced x)) 0 [7 8]) ; => 7",
        reduced,
    ),
    higher(
        "reductions",
        (2, 3),
        "f init? coll",
        "every intermediate result of reduce",
        "(reductions + [1 2 3]) ; => [1 3 6]",
        reductions,
    ),
    higher(
        "reduce-kv",
        (3, 3),
        "f init m",
        "reduce with (f result key value)",
        "(reduce-kv (fn [a k v] (+ a v)) 0 {:a 1 :b 2}) ; => 3",
        reduce_kv,
    ),
    higher(
        "merge-with",
        (1, MANY),
        "f m …",
        "the maps joined; (f old new) where both have the key",
        "(merge-with + {:a 1} {:a 2}) ; => {:a 3}",
        merge_with,
    ),
];

/// What one element brings to the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoldArgument {
    Element,
    KeyAndValue,
}

/// A function carried over a collection.
struct Fold {
    f: Value,
    cursor: Cursor,
    given: FoldArgument,
    result: Value,
    /// All results so far, for `reductions`.
    steps: Option<Vec<Value>>,
}

impl Fold {
    fn note(&mut self, cx: &mut Context) -> Result<(), Fault> {
        if let Some(steps) = &mut self.steps {
            cx.meter.reserve(2 * crate::run::context::VALUE_BYTES)?;
            steps.push(self.result.clone());
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Context) -> Result<WorkNext, Fault> {
        match self.steps.take() {
            Some(steps) => cx.vector(steps).map(WorkNext::Value),
            None => Ok(WorkNext::Value(std::mem::take(&mut self.result))),
        }
    }
}

/// The value inside `(reduced value)`.
fn unreduced(value: &Value) -> Option<Value> {
    match value {
        Value::Function(function) => match function.as_derived() {
            Some(Derived::Reduced(value)) => Some(value.clone()),
            _ => None,
        },
        _ => None,
    }
}

impl Work for Fold {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        let mut answer = answer;
        let in_frame = self.given == FoldArgument::Element && needs_frame(&self.f);
        loop {
            if let Some(result) = answer.take() {
                let ended = unreduced(&result);
                let over = ended.is_some();
                self.result = ended.unwrap_or(result);
                self.note(cx)?;
                if over {
                    return self.finish(cx);
                }
            }
            cx.meter.tick()?;
            if in_frame {
                let Some(item) = self.cursor.next_in_place() else { return self.finish(cx) };
                caller.push(std::mem::take(&mut self.result));
                caller.push(item.clone());
                answer = caller.call(cx, 2);
                if answer.is_none() {
                    return Ok(WorkNext::Again(2));
                }
                continue;
            }
            let Some(item) = self.cursor.next() else { return self.finish(cx) };
            let result = std::mem::take(&mut self.result);
            answer = Some(match self.given {
                FoldArgument::Element => {
                    let mut args = [result, item];
                    if let Some(result) = direct(cx, &self.f, &mut args) {
                        result?
                    } else {
                        let [result, item] = args;
                        return Ok(WorkNext::Call(self.f.clone(), Args::Two(result, item)));
                    }
                }
                FoldArgument::KeyAndValue => {
                    let (key, value) = super::collect::as_pair(&item).unwrap_or_default();
                    let mut args = vec![result, key, value];
                    match direct(cx, &self.f, &mut args) {
                        Some(result) => result?,
                        None => return Ok(WorkNext::Call(self.f.clone(), Args::Many(args))),
                    }
                }
            });
        }
    }

    fn function(&self) -> Option<&Value> {
        Some(&self.f)
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.f);
        see(&self.result);
        self.cursor.trace(see);
        self.steps.iter().flatten().for_each(see);
    }
}

fn fold(cx: &mut Context, who: &str, args: &[Value], keep: bool) -> Result<WorkNext, Fault> {
    let (f, init, collection) = match args {
        [f, init, collection] => (f, Some(init.clone()), collection),
        _ => (arg(args, 0), None, arg(args, 1)),
    };
    let mut cursor = Cursor::new(to_vector(cx, who, collection, args.len())?);
    let result = match init {
        Some(init) => init,
        None => match cursor.next() {
            Some(first) => first,
            // Without anything to start from, the function says what nothing amounts to.
            None if keep => return Ok(each::repeat(f.clone(), 1)),
            None => return Ok(WorkNext::Become(f.clone(), Args::Many(Vec::new()))),
        },
    };
    let steps = keep.then(|| vec![result.clone()]);
    Ok(WorkNext::Work(Box::new(Fold { f: f.clone(), cursor, given: FoldArgument::Element, result, steps })))
}

fn reduce(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fold(cx, "reduce", &args, false)
}

fn reductions(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    fold(cx, "reductions", &args, true)
}

fn reduced(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    cx.derived(Derived::Reduced(super::collect::take(args, 0)))
}

fn reduce_kv(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let [f, init, collection] = args.as_slice() else { return Ok(WorkNext::Value(Value::Nil)) };
    let items = match collection {
        Value::Vector(items) => {
            cx.sequence(items.len() * 8)?;
            let indexed = items.iter().enumerate();
            indexed.map(|(at, item)| Value::vector([Value::Int(at as i64), item.clone()])).collect()
        }
        Value::Map(_) | Value::Nil => to_vector(cx, "reduce-kv", collection, 3)?,
        other => return cx.wrong("reduce-kv", "map", other, 3),
    };
    Ok(WorkNext::Work(Box::new(Fold {
        f: f.clone(),
        cursor: Cursor::new(items),
        given: FoldArgument::KeyAndValue,
        result: init.clone(),
        steps: None,
    })))
}

/// Maps joined one entry at a time.
struct MergeWith {
    f: Value,
    result: Map,
    /// Entries still to be joined, as pairs.
    entries: Cursor,
    /// The key whose values are being joined.
    key: Value,
}

impl Work for MergeWith {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        if let Some(value) = answer {
            self.result.insert(std::mem::take(&mut self.key), value);
        }
        while let Some(entry) = self.entries.next() {
            cx.meter.tick()?;
            cx.grow()?;
            let (key, value) = super::collect::as_pair(&entry).unwrap_or_default();
            cx.key(&key)?;
            match self.result.get(&key) {
                Some(old) => {
                    let args = Args::Two(old.clone(), value);
                    self.key = key;
                    return Ok(WorkNext::Call(self.f.clone(), args));
                }
                None => self.result.insert(key, value),
            }
        }
        Ok(WorkNext::Value(Value::Map(std::mem::take(&mut self.result))))
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.f);
        see(&self.key);
        see(&Value::Map(self.result.clone()));
        self.entries.trace(see);
    }
}

fn merge_with(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let mut entries = Vec::new();
    let mut any = false;
    for at in 1..args.len() {
        any |= !matches!(arg(&args, at), Value::Nil);
        let map = map(cx, "merge-with", &args, at)?;
        cx.sequence(map.len() * 8)?;
        entries.extend(map.iter().map(super::collect::pair));
    }
    if !any {
        return Ok(WorkNext::Value(Value::Nil));
    }
    let f = args.into_iter().next().unwrap_or_default();
    let entries = Cursor::new(entries.into_iter().collect());
    Ok(WorkNext::Work(Box::new(MergeWith { f, result: Map::default(), entries, key: Value::Nil })))
}
