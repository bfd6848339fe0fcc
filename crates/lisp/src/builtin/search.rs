//! Finding things in collections.

use super::collect::{arg, integer, to_vector};
use super::each::{Cursor, direct};
use super::table::{Builtin, higher, pure};
use crate::error::{Error, Fault, Reason};
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Value, number};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "contains?",
        (2, 2),
        "coll x",
        "whether a map has the key, or a set or vector the element",
        "(contains? {:a 1} :a) ; => true",
        contains,
    ),
    higher(
        "find",
        (2, 2),
        "m key",
        "the entry of a key; with a function first: the first element that satisfies it",
        "(find {:a 1} :a) ; => [:a 1]",
        find,
    ),
    pure(
        "index-of",
        (2, 3),
        "coll x from?",
        "where x first is in a string or vector, or nil",
        "(index-of \"abc\" \"c\") ; => 2",
        index_of,
    ),
    pure(
        "last-index-of",
        (2, 2),
        "coll x",
        "where x last is in a string or vector, or nil",
        "(last-index-of [1 2 1] 1) ; => 2",
        last_index_of,
    ),
];

fn contains(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let wanted = arg(args, 1);
    cx.key(wanted)?;
    Ok(Value::Bool(match arg(args, 0) {
        Value::Map(map) => map.entry(wanted).is_some(),
        Value::Set(set) => set.contains(wanted),
        Value::Nil => false,
        Value::Vector(items) => {
            for item in items.iter() {
                if cx.equal(item, wanted)? {
                    return Ok(Value::Bool(true));
                }
            }
            false
        }
        Value::Str(_) => {
            let error =
                Error::new(Reason::TypeError, "contains?: expected collection, got string (argument 1)");
            return Err(Box::new(error.hint("use (includes? text part) for strings")));
        }
        other => return cx.wrong("contains?", "collection", other, 1),
    }))
}

fn find(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    match (arg(&args, 0), arg(&args, 1)) {
        (Value::Map(map), key) => {
            cx.key(key)?;
            cx.grow()?;
            Ok(WorkNext::Value(map.entry(key).map(super::collect::pair).unwrap_or_default()))
        }
        (Value::Vector(items), index) => {
            let found = number::index(index).and_then(|n| usize::try_from(n).ok()).and_then(|n| items.get(n));
            Ok(WorkNext::Value(
                found.map(|item| Value::vector([index.clone(), item.clone()])).unwrap_or_default(),
            ))
        }
        (Value::Nil, _) => Ok(WorkNext::Value(Value::Nil)),
        (
            predicate @ (Value::Function(_) | Value::Keyword(_) | Value::Set(_) | Value::Var(_)),
            collection,
        ) => {
            let items = Cursor::new(to_vector(cx, "find", collection, 2)?);
            Ok(WorkNext::Work(Box::new(First { predicate: predicate.clone(), items, item: Value::Nil })))
        }
        (other, _) => cx.wrong("find", "map", other, 1),
    }
}

/// The first element that satisfies a predicate.
struct First {
    predicate: Value,
    items: Cursor,
    item: Value,
}

impl Work for First {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        let mut answer = answer;
        loop {
            if answer.take().is_some_and(|answer| answer.is_truthy()) {
                return Ok(WorkNext::Value(std::mem::take(&mut self.item)));
            }
            cx.meter.tick()?;
            let Some(item) = self.items.next() else { return Ok(WorkNext::Value(Value::Nil)) };
            self.item = item.clone();
            let mut args = [item];
            match direct(cx, &self.predicate, &mut args) {
                Some(result) => answer = Some(result?),
                None => return Ok(WorkNext::Call(self.predicate.clone(), Args::One(self.item.clone()))),
            }
        }
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.predicate);
        see(&self.item);
        self.items.trace(see);
    }
}

pub(super) fn index_of(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let from = if args.len() == 3 { integer(cx, "index-of", args, 2)?.max(0) as usize } else { 0 };
    match (arg(args, 0), arg(args, 1)) {
        (Value::Str(text), Value::Str(part)) => {
            cx.meter.visit(text.bytes() / 8 + 1)?;
            let start = text.offset(from);
            let found = text.as_str().get(start..).and_then(|rest| rest.find(part.as_str()));
            Ok(found.map_or(Value::Nil, |at| Value::Int(text.index_of_byte(start + at) as i64)))
        }
        (Value::Str(_), other) => cx.wrong("index-of", "string", other, 2),
        (collection, wanted) => {
            let items = to_vector(cx, "index-of", collection, 1)?;
            for (at, item) in items.iter().enumerate().skip(from) {
                if cx.equal(item, wanted)? {
                    return Ok(Value::Int(at as i64));
                }
            }
            Ok(Value::Nil)
        }
    }
}

pub(super) fn last_index_of(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match (arg(args, 0), arg(args, 1)) {
        (Value::Str(text), Value::Str(part)) => {
            cx.meter.visit(text.bytes() / 8 + 1)?;
            let found = text.as_str().rfind(part.as_str());
            Ok(found.map_or(Value::Nil, |at| Value::Int(text.index_of_byte(at) as i64)))
        }
        (Value::Str(_), other) => cx.wrong("last-index-of", "string", other, 2),
        (collection, wanted) => {
            let items = to_vector(cx, "last-index-of", collection, 1)?;
            let mut found = Value::Nil;
            for (at, item) in items.iter().enumerate() {
                if cx.equal(item, wanted)? {
                    found = Value::Int(at as i64);
                }
            }
            Ok(found)
        }
    }
}
