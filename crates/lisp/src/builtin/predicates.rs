//! Questions about one value.

use super::collect::arg;
use super::table::{Builtin, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Value, number, order};

/// A row for a question that every value answers.
const fn ask(
    name: &'static str,
    doc: &'static str,
    example: &'static str,
    run: fn(&mut Context, &mut [Value]) -> Result<Value, Fault>,
) -> Builtin {
    pure(name, (1, 1), "x", doc, example, run)
}

/// A question as a builtin.
macro_rules! is {
    ($pattern:pat) => {
        |_, args| Ok(Value::Bool(matches!(arg(args, 0), $pattern)))
    };
}

pub(super) const TABLE: &[Builtin] = &[
    ask("nil?", "whether it is nil", "(nil? nil) ; => true", is!(Value::Nil)),
    ask("some?", "whether it is not nil", "(some? false) ; => true", |_, args| {
        Ok(Value::Bool(!matches!(arg(args, 0), Value::Nil)))
    }),
    ask("true?", "whether it is true", "(true? 1) ; => false", is!(Value::Bool(true))),
    ask("false?", "whether it is false", "(false? nil) ; => false", is!(Value::Bool(false))),
    ask("boolean?", "whether it is true or false", "(boolean? false) ; => true", is!(Value::Bool(_))),
    ask(
        "number?",
        "whether it is a number",
        "(number? 1.5) ; => true",
        is!(Value::Int(_) | Value::Big(_) | Value::Float(_)),
    ),
    ask("int?", "whether it is an integer", "(int? 1.0) ; => false", is!(Value::Int(_) | Value::Big(_))),
    ask("integer?", "whether it is an integer", "(integer? 1) ; => true", is!(Value::Int(_) | Value::Big(_))),
    ask("float?", "whether it is a float", "(float? 1.0) ; => true", is!(Value::Float(_))),
    ask("double?", "whether it is a float", "(double? 1.0) ; => true", is!(Value::Float(_))),
    ask("pos-int?", "whether it is an integer above zero", "(pos-int? 1) ; => true", |_, args| {
        Ok(integer_that(args, std::cmp::Ordering::is_gt))
    }),
    ask("neg-int?", "whether it is an integer below zero", "(neg-int? -1) ; => true", |_, args| {
        Ok(integer_that(args, std::cmp::Ordering::is_lt))
    }),
    ask("nat-int?", "whether it is an integer of zero or more", "(nat-int? 0) ; => true", |_, args| {
        Ok(integer_that(args, std::cmp::Ordering::is_ge))
    }),
    ask("zero?", "whether the number is zero", "(zero? 0.0) ; => true", |cx, args| {
        sign(cx, "zero?", args, std::cmp::Ordering::is_eq)
    }),
    ask("pos?", "whether the number is above zero", "(pos? 1) ; => true", |cx, args| {
        sign(cx, "pos?", args, std::cmp::Ordering::is_gt)
    }),
    ask("neg?", "whether the number is below zero", "(neg? 1) ; => false", |cx, args| {
        sign(cx, "neg?", args, std::cmp::Ordering::is_lt)
    }),
    ask("even?", "whether the integer is even", "(even? 2) ; => true", |cx, args| {
        parity(cx, "even?", args).map(|odd| Value::Bool(!odd))
    }),
    ask("odd?", "whether the integer is odd", "(odd? 2) ; => false", |cx, args| {
        parity(cx, "odd?", args).map(Value::Bool)
    }),
    ask("NaN?", "whether it is not a number at all", "(NaN? ##NaN) ; => true", |_, args| {
        Ok(Value::Bool(matches!(arg(args, 0), Value::Float(x) if x.is_nan())))
    }),
    ask("infinite?", "whether it is infinite", "(infinite? ##Inf) ; => true", |_, args| {
        Ok(Value::Bool(matches!(arg(args, 0), Value::Float(x) if x.is_infinite())))
    }),
    ask("string?", "whether it is a string", "(string? \"a\") ; => true", is!(Value::Str(_))),
    ask("char?", "whether it is a string of one grapheme", "(char? \"a\") ; => true", |_, args| {
        Ok(Value::Bool(matches!(arg(args, 0), Value::Str(text) if text.bytes() < 256 && text.count() == 1)))
    }),
    ask("keyword?", "whether it is a keyword", "(keyword? :a) ; => true", is!(Value::Keyword(_))),
    ask(
        "simple-keyword?",
        "whether it is a keyword without a namespace",
        "(simple-keyword? :a/b) ; => false",
        |_, args| {
            Ok(Value::Bool(matches!(arg(args, 0), Value::Keyword(keyword) if keyword.namespace().is_none())))
        },
    ),
    ask("vector?", "whether it is a vector", "(vector? [1]) ; => true", is!(Value::Vector(_))),
    ask("sequential?", "whether it is a vector", "(sequential? [1]) ; => true", is!(Value::Vector(_))),
    ask("seq?", "false: there are no lists", "(seq? [1]) ; => false", |_, _| Ok(Value::Bool(false))),
    ask("list?", "false: there are no lists", "(list? [1]) ; => false", |_, _| Ok(Value::Bool(false))),
    ask("map?", "whether it is a map", "(map? {}) ; => true", is!(Value::Map(_))),
    ask("map-entry?", "whether it is a vector of two", "(map-entry? [:a 1]) ; => true", |_, args| {
        Ok(Value::Bool(super::collect::as_pair(arg(args, 0)).is_some()))
    }),
    ask("set?", "whether it is a set", "(set? #{}) ; => true", is!(Value::Set(_))),
    ask(
        "coll?",
        "whether it is a vector, map or set",
        "(coll? []) ; => true",
        is!(Value::Vector(_) | Value::Map(_) | Value::Set(_)),
    ),
    ask(
        "associative?",
        "whether it is a vector or map",
        "(associative? {}) ; => true",
        is!(Value::Vector(_) | Value::Map(_)),
    ),
    ask(
        "counted?",
        "whether it is a vector, map or set",
        "(counted? [1]) ; => true",
        is!(Value::Vector(_) | Value::Map(_) | Value::Set(_)),
    ),
    ask("indexed?", "whether it is a vector", "(indexed? [1]) ; => true", is!(Value::Vector(_))),
    ask("fn?", "whether it is a function", "(fn? inc) ; => true", is!(Value::Function(_))),
    ask(
        "ifn?",
        "whether it can be called",
        "(ifn? :a) ; => true",
        is!(Value::Function(_)
            | Value::Keyword(_)
            | Value::Map(_)
            | Value::Set(_)
            | Value::Vector(_)
            | Value::Var(_)),
    ),
    ask("regex?", "whether it is a regular expression", "(regex? #\"a\") ; => true", is!(Value::Regex(_))),
    ask("date?", "whether it is a day", "(date? (parse-date \"2024-01-15\")) ; => true", is!(Value::Date(_))),
    ask(
        "inst?",
        "whether it is a moment",
        "(inst? #inst \"2024-01-15T10:00:00Z\") ; => true",
        is!(Value::DateTime(_)),
    ),
    ask("var?", "whether it is a var", "(var? (def x 1)) ; => true", is!(Value::Var(_))),
    ask("any?", "true", "(any? nil) ; => true", |_, _| Ok(Value::Bool(true))),
];

fn integer_that(args: &[Value], holds: fn(std::cmp::Ordering) -> bool) -> Value {
    Value::Bool(match arg(args, 0) {
        value @ (Value::Int(_) | Value::Big(_)) => holds(order::numbers(value, &Value::Int(0))),
        _ => false,
    })
}

fn sign(
    cx: &mut Context,
    who: &str,
    args: &[Value],
    holds: fn(std::cmp::Ordering) -> bool,
) -> Result<Value, Fault> {
    let value = arg(args, 0);
    if !value.is_number() {
        return cx.wrong(who, "number", value, 1);
    }
    let nan = matches!(value, Value::Float(x) if x.is_nan());
    Ok(Value::Bool(!nan && holds(order::numbers(value, &Value::Int(0)))))
}

/// Whether an integer is odd.
fn parity(cx: &mut Context, who: &str, args: &[Value]) -> Result<bool, Fault> {
    match arg(args, 0) {
        Value::Int(n) => Ok(n & 1 == 1),
        Value::Big(n) => Ok(n.bit(0)),
        Value::Float(x) if x.fract() == 0.0 => Ok(number::index(arg(args, 0)).is_some_and(|n| n & 1 == 1)),
        other => cx.wrong(who, "integer", other, 1),
    }
}
