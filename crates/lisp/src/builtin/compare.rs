//! Equality and order.

use super::collect::arg;
use super::table::{Builtin, MANY, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Value, order};

pub(super) const TABLE: &[Builtin] = &[
    pure("=", (1, MANY), "x …", "whether all are equal; numbers by value", "(= 1 1.0) ; => true", equal),
    pure("==", (1, MANY), "x …", "whether all numbers are equal", "(== 2 2) ; => true", equal_numbers),
    pure("not=", (1, MANY), "x …", "whether not all are equal", "(not= 1 2) ; => true", not_equal),
    pure("<", (1, MANY), "x …", "whether the numbers ascend", "(< 1 2 3) ; => true", |cx, args| {
        ordered(cx, "<", args, std::cmp::Ordering::is_lt)
    }),
    pure(">", (1, MANY), "x …", "whether the numbers descend", "(> 3 2 2) ; => false", |cx, args| {
        ordered(cx, ">", args, std::cmp::Ordering::is_gt)
    }),
    pure(
        "<=",
        (1, MANY),
        "x …",
        "whether the numbers never descend",
        "(<= 1 1 2) ; => true",
        |cx, args| ordered(cx, "<=", args, std::cmp::Ordering::is_le),
    ),
    pure(">=", (1, MANY), "x …", "whether the numbers never ascend", "(>= 2 2 1) ; => true", |cx, args| {
        ordered(cx, ">=", args, std::cmp::Ordering::is_ge)
    }),
    pure("compare", (2, 2), "a b", "-1, 0 or 1; nil comes first", "(compare \"a\" \"c\") ; => -1", compare),
    pure("not", (1, 1), "x", "true of nil and false", "(not nil) ; => true", not),
    pure("boolean", (1, 1), "x", "false of nil and false, else true", "(boolean 0) ; => true", boolean),
];

fn all_equal(cx: &mut Context, args: &[Value]) -> Result<bool, Fault> {
    for pair in args.windows(2) {
        if let [a, b] = pair
            && !cx.equal(a, b)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    all_equal(cx, args).map(Value::Bool)
}

fn not_equal(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    all_equal(cx, args).map(|equal| Value::Bool(!equal))
}

fn numbers(cx: &Context, who: &str, args: &[Value]) -> Result<(), Fault> {
    match args.iter().position(|value| !value.is_number()) {
        Some(at) => cx.wrong(who, "number", arg(args, at), at + 1),
        None => Ok(()),
    }
}

fn equal_numbers(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    numbers(cx, "==", args)?;
    all_equal(cx, args).map(Value::Bool)
}

fn ordered(
    cx: &mut Context,
    who: &str,
    args: &[Value],
    holds: fn(std::cmp::Ordering) -> bool,
) -> Result<Value, Fault> {
    numbers(cx, who, args)?;
    cx.meter.visit(args.len())?;
    let nan = |value: &Value| matches!(value, Value::Float(x) if x.is_nan());
    let pairs = args.windows(2).all(|pair| match pair {
        [a, b] => !nan(a) && !nan(b) && holds(order::numbers(a, b)),
        _ => true,
    });
    Ok(Value::Bool(pairs))
}

fn compare(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let order = cx.compare(arg(args, 0), arg(args, 1))?;
    Ok(Value::Int(order as i64))
}

fn not(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::Bool(!arg(args, 0).is_truthy()))
}

fn boolean(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::Bool(arg(args, 0).is_truthy()))
}
