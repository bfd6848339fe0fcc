//! Sorting: stable, with any comparator, without calling anything on the native stack.

use std::cmp::Ordering;

use super::collect::{arg, to_vector};
use super::each::{direct, with_results};
use super::table::{Builtin, higher};
use crate::error::{Fault, Reason, fault};
use crate::run::context::describe;
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Value, Vector, number, order};

pub(super) const TABLE: &[Builtin] = &[
    higher(
        "sort",
        (1, 2),
        "comparator? coll",
        "the elements in order; the comparator is a function, :asc or :desc",
        "(sort > [1 3 2]) ; => [3 2 1]",
        sort,
    ),
    higher(
        "sort-by",
        (2, 3),
        "f comparator? coll",
        "the elements in the order of f",
        "(sort-by :n :desc [{:n 1} {:n 2}]) ; => [{:n 2} {:n 1}]",
        sort_by,
    ),
];

/// How two keys are compared.
enum Comparator {
    Natural,
    Descending,
    Function(Value),
}

fn comparator(value: Option<&Value>) -> Comparator {
    match value {
        None => Comparator::Natural,
        Some(Value::Keyword(keyword)) if keyword.as_str() == "asc" => Comparator::Natural,
        Some(Value::Keyword(keyword)) if keyword.as_str() == "desc" => Comparator::Descending,
        Some(function) => Comparator::Function(function.clone()),
    }
}

fn sort(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let (by, collection) = match args.as_slice() {
        [by, collection] => (Some(by), collection),
        _ => (None, arg(&args, 0)),
    };
    let items = to_vector(cx, "sort", collection, args.len())?;
    let pairs = items.iter().map(|item| (item.clone(), item.clone())).collect();
    sorted(cx, pairs, comparator(by))
}

fn sort_by(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let (by, collection) = match args.as_slice() {
        [_, by, collection] => (Some(by), collection),
        _ => (None, arg(&args, 1)),
    };
    let items = to_vector(cx, "sort-by", collection, args.len())?;
    let f = arg(&args, 0).clone();
    if items.is_empty() {
        return Ok(WorkNext::Value(Value::vector([])));
    }
    // First the keys, then the order.
    let keys = with_results(cx, "sort-by", &[f, Value::Vector(items)], |cx, out, _| cx.vector(out))?;
    let WorkNext::Work(keys) = keys else { return Ok(keys) };
    Ok(WorkNext::Work(Box::new(KeysThenSort { keys, by: Some(comparator(by)) })))
}

/// Sorting by keys that are still being computed.
struct KeysThenSort {
    keys: Box<dyn Work>,
    by: Option<Comparator>,
}

impl Work for KeysThenSort {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        match self.keys.step(cx, answer, caller)? {
            WorkNext::Value(Value::Vector(Vector(turns))) => {
                let mut turns = turns.iter().cloned();
                let pairs = std::iter::from_fn(|| {
                    let (item, key) = (turns.next()?, turns.next()?);
                    Some((key, item))
                });
                sorted(cx, pairs.collect(), self.by.take().unwrap_or(Comparator::Natural))
            }
            other => Ok(other),
        }
    }

    fn function(&self) -> Option<&Value> {
        self.keys.function()
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        self.keys.trace(see);
        if let Some(Comparator::Function(function)) = &self.by {
            see(function);
        }
    }
}

/// Sorts items by their keys.
fn sorted(cx: &mut Context, mut pairs: Vec<(Value, Value)>, by: Comparator) -> Result<WorkNext, Fault> {
    let rounds = usize::BITS - pairs.len().leading_zeros();
    cx.sequence(pairs.len() * 3)?;
    cx.meter.visit(pairs.len() * rounds as usize)?;
    match by {
        Comparator::Function(function) => {
            cx.sequence(pairs.len() * 2)?;
            Ok(WorkNext::Work(Box::new(Merge::new(pairs, function))))
        }
        natural => {
            check_comparable(cx, &pairs)?;
            match natural {
                Comparator::Descending => pairs.sort_by(|a, b| order::keys(&b.0, &a.0)),
                _ => pairs.sort_by(|a, b| order::keys(&a.0, &b.0)),
            }
            Ok(WorkNext::Value(Value::vector(pairs.into_iter().map(|(_, item)| item))))
        }
    }
}

/// Whether `compare` takes all keys: then their order as keys is the order by `compare`.
fn check_comparable(cx: &mut Context, pairs: &[(Value, Value)]) -> Result<(), Fault> {
    let mut first: Option<&Value> = None;
    for (key, _) in pairs {
        cx.key(key)?;
        match (first, key) {
            (_, Value::Nil) => {}
            (None, _) => {
                if matches!(key, Value::Map(_) | Value::Set(_) | Value::Function(_) | Value::Regex(_))
                    && pairs.len() > 1
                {
                    let message = format!("sort: cannot compare {}", describe(key));
                    return fault(Reason::TypeError, message);
                }
                first = Some(key);
            }
            (Some(first), _) => drop(cx.compare(first, key)?),
        }
    }
    if pairs.iter().any(|(key, _)| matches!(key, Value::Vector(_))) {
        // Vectors of one length are compared element by element, which may fail deeper down.
        let mut keys: Vec<&Value> = pairs.iter().map(|(key, _)| key).collect();
        keys.sort_by(|a, b| order::keys(a, b));
        for neighbours in keys.windows(2) {
            if let [a, b] = neighbours {
                cx.compare(a, b)?;
            }
        }
    }
    Ok(())
}

/// A merge sort that stops for every comparison.
struct Merge {
    comparator: Value,
    /// The pairs in runs of `width` that are sorted.
    from: Vec<(Value, Value)>,
    into: Vec<(Value, Value)>,
    width: usize,
    /// Where the two runs that are being merged stand.
    left: usize,
    right: usize,
    left_end: usize,
    right_end: usize,
}

impl Merge {
    fn new(pairs: Vec<(Value, Value)>, comparator: Value) -> Self {
        let mut merge = Merge {
            comparator,
            into: Vec::with_capacity(pairs.len()),
            from: pairs,
            width: 1,
            left: 0,
            right: 0,
            left_end: 0,
            right_end: 0,
        };
        merge.open(0);
        merge
    }

    /// Takes up the two runs that start at `start`.
    fn open(&mut self, start: usize) {
        let end = self.from.len();
        self.left = start;
        self.left_end = (start + self.width).min(end);
        self.right = self.left_end;
        self.right_end = (start + 2 * self.width).min(end);
    }

    fn take(&mut self, at: usize) {
        if let Some(pair) = self.from.get_mut(at) {
            self.into.push(std::mem::take(pair));
        }
    }

    /// Merges until a comparison is needed; whether one is.
    fn needs_comparison(&mut self) -> bool {
        loop {
            if self.left < self.left_end && self.right < self.right_end {
                return true;
            }
            while self.left < self.left_end {
                self.take(self.left);
                self.left += 1;
            }
            while self.right < self.right_end {
                self.take(self.right);
                self.right += 1;
            }
            if self.right_end < self.from.len() {
                self.open(self.right_end);
                continue;
            }
            std::mem::swap(&mut self.from, &mut self.into);
            self.into.clear();
            self.width *= 2;
            if self.width >= self.from.len() {
                return false;
            }
            self.open(0);
        }
    }

    /// The right one goes first only if it is less: equal ones keep their order.
    fn decide(&mut self, right_is_less: bool) {
        if right_is_less {
            self.take(self.right);
            self.right += 1;
        } else {
            self.take(self.left);
            self.left += 1;
        }
    }
}

impl Work for Merge {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        if let Some(answer) = answer {
            self.decide(is_less(cx, &answer)?);
        }
        while self.needs_comparison() {
            cx.meter.tick()?;
            let key = |at: usize| self.from.get(at).map(|(key, _)| key.clone()).unwrap_or_default();
            let mut args = [key(self.right), key(self.left)];
            if let Some(result) = direct(cx, &self.comparator, &mut args) {
                let result = result?;
                self.decide(is_less(cx, &result)?);
            } else {
                let [a, b] = args;
                return Ok(WorkNext::Call(self.comparator.clone(), Args::Two(a, b)));
            }
        }
        let pairs = std::mem::take(&mut self.from);
        Ok(WorkNext::Value(Value::vector(pairs.into_iter().map(|(_, item)| item))))
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.comparator);
        for (key, item) in self.from.iter().chain(&self.into) {
            see(key);
            see(item);
        }
    }
}

/// What a comparator's answer says: a number by its sign, anything else by its truth.
fn is_less(cx: &Context, answer: &Value) -> Result<bool, Fault> {
    match answer {
        Value::Bool(truth) => Ok(*truth),
        Value::Nil => Ok(false),
        value if value.is_number() => Ok(number::float(value).is_some_and(|x| x < 0.0)),
        other => cx.wrong("sort", "boolean or number from the comparator", other, 1),
    }
}

/// The order of two values for `min-by` and its relatives.
pub(super) fn compare(cx: &mut Context, a: &Value, b: &Value) -> Result<Ordering, Fault> {
    cx.compare(a, b)
}
