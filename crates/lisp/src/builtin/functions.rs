//! Functions made of functions, and calling them.

use super::collect::{arg, take, to_vector};
use super::table::{Builtin, MANY, higher, pure};
use super::where_;
use crate::error::{Fault, Reason, fault};
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Derived, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure("identity", (1, 1), "x", "x", "(identity 1) ; => 1", identity),
    pure(
        "constantly",
        (1, 1),
        "x",
        "a function of anything that gives x",
        "((constantly 1) 2 3) ; => 1",
        constantly,
    ),
    pure(
        "comp",
        (0, MANY),
        "f …",
        "a function that calls the last f, then the one before, and so on",
        "((comp inc #(* 2 %)) 5) ; => 11",
        comp,
    ),
    pure(
        "partial",
        (1, MANY),
        "f arg …",
        "f with its first arguments given",
        "((partial + 1) 2) ; => 3",
        partial,
    ),
    pure(
        "complement",
        (1, 1),
        "f",
        "the opposite of a predicate",
        "((complement even?) 1) ; => true",
        complement,
    ),
    pure(
        "juxt",
        (1, MANY),
        "f …",
        "a function that gives a vector of the results of each f",
        "((juxt inc dec) 1) ; => [2 0]",
        juxt,
    ),
    pure(
        "fnil",
        (2, 4),
        "f default …",
        "f with defaults for arguments that are nil",
        "((fnil inc 0) nil) ; => 1",
        fnil,
    ),
    pure(
        "every-pred",
        (1, MANY),
        "pred …",
        "a function that tests all its arguments by all predicates",
        "((every-pred pos? even?) 2) ; => true",
        every_pred,
    ),
    pure(
        "some-fn",
        (1, MANY),
        "f …",
        "a function that gives the first true result",
        "((some-fn :a :b) {:b 2}) ; => 2",
        some_fn,
    ),
    higher(
        "apply",
        (2, MANY),
        "f arg … coll",
        "calls f with the arguments and the elements",
        "(apply + 1 [2 3]) ; => 6",
        apply,
    ),
];

fn identity(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(take(args, 0))
}

fn constantly(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    cx.derived(Derived::Constantly(take(args, 0)))
}

/// All arguments, taken out and paid for.
fn all(cx: &mut Context, args: &mut [Value]) -> Result<Vec<Value>, Fault> {
    cx.sequence(args.len())?;
    Ok(args.iter_mut().map(std::mem::take).collect())
}

fn comp(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let functions = all(cx, args)?;
    cx.derived(Derived::Composed(functions))
}

fn partial(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut given = all(cx, args)?;
    if given.len() == 1 {
        return Ok(given.remove(0));
    }
    let f = given.remove(0);
    cx.derived(Derived::Partial(f, given))
}

fn complement(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    cx.derived(Derived::Complement(take(args, 0)))
}

fn juxt(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let functions = all(cx, args)?;
    cx.derived(Derived::Juxtaposed(functions))
}

fn fnil(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut given = all(cx, args)?;
    let f = given.remove(0);
    cx.derived(Derived::NilSafe(f, given))
}

fn every_pred(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let predicates = all(cx, args)?;
    cx.derived(Derived::EveryPredicate(predicates))
}

fn some_fn(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let functions = all(cx, args)?;
    cx.derived(Derived::SomeFunction(functions))
}

fn apply(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let last = args.len() - 1;
    let rest = to_vector(cx, "apply", arg(&args, last), last + 1)?;
    if rest.len() > 60_000 && !matches!(arg(&args, 0), Value::Function(f) if f.as_builtin().is_some()) {
        return fault(Reason::RuntimeError, "apply: more than 60000 arguments; use reduce");
    }
    cx.sequence(rest.len())?;
    let mut args = args.into_iter();
    let f = args.next().unwrap_or_default();
    let mut given: Vec<Value> = args.collect();
    given.pop();
    given.extend(rest.iter().cloned());
    Ok(WorkNext::Become(f, Args::Many(given)))
}

/// What calling a function made of functions amounts to.
pub(crate) fn apply_derived(
    cx: &mut Context,
    derived: &Derived,
    args: Vec<Value>,
) -> Result<WorkNext, Fault> {
    let work = |work: Derivation| Ok(WorkNext::Work(Box::new(work) as Box<dyn Work>));
    match derived {
        Derived::Constantly(value) => Ok(WorkNext::Value(value.clone())),
        Derived::Partial(f, given) => {
            cx.sequence(given.len() + args.len())?;
            Ok(WorkNext::Become(f.clone(), Args::Many(given.iter().cloned().chain(args).collect())))
        }
        Derived::NilSafe(f, defaults) => {
            let mut args = args;
            for (value, default) in args.iter_mut().zip(defaults) {
                if matches!(value, Value::Nil) {
                    *value = default.clone();
                }
            }
            Ok(WorkNext::Become(f.clone(), Args::Many(args)))
        }
        Derived::Composed(functions) => match functions.split_last() {
            None => Ok(WorkNext::Value(args.into_iter().next().unwrap_or_default())),
            Some((only, [])) => Ok(WorkNext::Become(only.clone(), Args::Many(args))),
            Some(_) => work(Derivation::Chain { left: functions.clone(), first: Some(args) }),
        },
        Derived::Complement(f) => work(Derivation::Not { call: Some((f.clone(), args)) }),
        Derived::Juxtaposed(functions) => {
            work(Derivation::All { functions: functions.clone(), at: 0, args, results: Vec::new() })
        }
        Derived::SomeFunction(functions) => work(Derivation::tests(functions, args, Verdict::Some)),
        Derived::EveryPredicate(predicates) | Derived::AllOf(predicates) => {
            work(Derivation::tests(predicates, args, Verdict::Every))
        }
        Derived::AnyOf(predicates) => work(Derivation::tests(predicates, args, Verdict::Any)),
        Derived::NoneOf(predicates) => work(Derivation::tests(predicates, args, Verdict::None)),
        Derived::Where(path, test, wanted) => match args.as_slice() {
            [subject] => where_::holds(cx, subject, path, *test, wanted)
                .map(|truth| WorkNext::Value(Value::Bool(truth))),
            _ => {
                fault(Reason::ArityError, format!("a where predicate expects 1 argument, got {}", args.len()))
            }
        },
        Derived::Reduced(_) => fault(Reason::NotCallable, "not callable: the result of reduced"),
    }
}

/// How the results of several tests are judged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// True if all are.
    Every,
    /// The first true result.
    Some,
    /// True if one is.
    Any,
    /// True if none is.
    None,
}

/// A call of a function made of functions, under way.
enum Derivation {
    /// The functions of `comp` that are still to be called, the next last.
    Chain {
        left: Vec<Value>,
        first: Option<Vec<Value>>,
    },
    Not {
        call: Option<(Value, Vec<Value>)>,
    },
    /// The functions of `juxt`.
    All {
        functions: Vec<Value>,
        at: usize,
        args: Vec<Value>,
        results: Vec<Value>,
    },
    /// Every test with every argument, in turn.
    Tests {
        functions: Vec<Value>,
        args: Vec<Value>,
        at: usize,
        verdict: Verdict,
        last: Value,
    },
}

impl Derivation {
    fn tests(functions: &[Value], args: Vec<Value>, verdict: Verdict) -> Self {
        Derivation::Tests { functions: functions.to_vec(), args, at: 0, verdict, last: Value::Nil }
    }
}

impl Work for Derivation {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        cx.meter.tick()?;
        match self {
            Derivation::Chain { left, first } => {
                let args = match first.take() {
                    Some(args) => Args::Many(args),
                    None => Args::One(answer.unwrap_or_default()),
                };
                let f = left.pop().unwrap_or_default();
                Ok(if left.is_empty() { WorkNext::Become(f, args) } else { WorkNext::Call(f, args) })
            }
            Derivation::Not { call } => Ok(match (call.take(), answer) {
                (Some((f, args)), _) => WorkNext::Call(f, Args::Many(args)),
                (None, answer) => {
                    WorkNext::Value(Value::Bool(!answer.is_some_and(|answer| answer.is_truthy())))
                }
            }),
            Derivation::All { functions, at, args, results } => {
                results.extend(answer);
                match functions.get(*at) {
                    Some(f) => {
                        *at += 1;
                        cx.meter.reserve(32)?;
                        Ok(WorkNext::Call(f.clone(), Args::Many(args.clone())))
                    }
                    None => cx.vector(std::mem::take(results)).map(WorkNext::Value),
                }
            }
            Derivation::Tests { functions, args, at, verdict, last } => {
                if let Some(answer) = answer {
                    match (*verdict, answer.is_truthy()) {
                        (Verdict::Every, false) | (Verdict::None, true) => {
                            return Ok(WorkNext::Value(Value::Bool(false)));
                        }
                        (Verdict::Some, true) => return Ok(WorkNext::Value(answer)),
                        (Verdict::Any, true) => return Ok(WorkNext::Value(Value::Bool(true))),
                        _ => *last = answer,
                    }
                }
                let count = functions.len();
                let place = at.checked_rem(count).zip(at.checked_div(count));
                let next = place.and_then(|(test, subject)| functions.get(test).zip(args.get(subject)));
                *at += 1;
                Ok(match next {
                    Some((f, subject)) => WorkNext::Call(f.clone(), Args::One(subject.clone())),
                    None => WorkNext::Value(match verdict {
                        Verdict::Every | Verdict::None => Value::Bool(true),
                        Verdict::Any => Value::Bool(false),
                        Verdict::Some => std::mem::take(last),
                    }),
                })
            }
        }
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        match self {
            Derivation::Chain { left, first } => left.iter().chain(first.iter().flatten()).for_each(see),
            Derivation::Not { call } => {
                if let Some((f, args)) = call {
                    see(f);
                    args.iter().for_each(see);
                }
            }
            Derivation::All { functions, args, results, .. } => {
                functions.iter().chain(args).chain(results).for_each(see);
            }
            Derivation::Tests { functions, args, .. } => functions.iter().chain(args).for_each(see),
        }
    }
}
