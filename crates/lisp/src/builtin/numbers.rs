//! Arithmetic. Integers never overflow; where a float takes part the result is a float.

use num_bigint::BigInt;

use super::collect::{arg, float, integer};
use super::table::{Builtin, MANY, constant, pure};
use crate::error::{Fault, Reason, fault};
use crate::run::Context;
use crate::value::number::{self, Pair, limbs, pair};
use crate::value::{Value, order};

pub(super) const TABLE: &[Builtin] = &[
    pure("+", (0, MANY), "x …", "the sum", "(+ 1 2.5) ; => 3.5", plus),
    pure("-", (1, MANY), "x …", "the difference; of one number its opposite", "(- 10 3 2) ; => 5", minus),
    pure("*", (0, MANY), "x …", "the product", "(* 2 3) ; => 6", times),
    pure("/", (1, MANY), "x …", "the quotient, always a float", "(/ 10 4) ; => 2.5", over),
    pure("+'", (0, MANY), "x …", "the same as +", "(+' 1 2) ; => 3", plus),
    pure("-'", (1, MANY), "x …", "the same as -", "(-' 3 2) ; => 1", minus),
    pure("*'", (0, MANY), "x …", "the same as *", "(*' 2 3) ; => 6", times),
    pure("inc", (1, 1), "x", "one more", "(inc 1) ; => 2", inc),
    pure("dec", (1, 1), "x", "one less", "(dec 1) ; => 0", dec),
    pure("inc'", (1, 1), "x", "the same as inc", "(inc' 1) ; => 2", inc),
    pure("dec'", (1, 1), "x", "the same as dec", "(dec' 1) ; => 0", dec),
    pure("quot", (2, 2), "a b", "the quotient, rounded towards zero", "(quot -9 4) ; => -2", quot),
    pure("rem", (2, 2), "a b", "the remainder of quot; it has the sign of a", "(rem -9 4) ; => -1", rem),
    pure("mod", (2, 2), "a b", "the remainder that has the sign of b", "(mod -9 4) ; => 3", modulo),
    pure("abs", (1, 1), "x", "without its sign", "(abs -2) ; => 2", abs),
    pure("max", (1, MANY), "x …", "the largest", "(max 1 3 2) ; => 3", max),
    pure("min", (1, MANY), "x …", "the smallest", "(min 1 3 2) ; => 1", min),
    pure("sqrt", (1, 1), "x", "the square root, a float", "(sqrt 16) ; => 4.0", sqrt),
    pure("pow", (2, 2), "base exponent", "the power; of integers an integer", "(pow 2 10) ; => 1024", pow),
    pure("floor", (1, 1), "x", "the next integer below", "(floor 2.7) ; => 2", |cx, args| {
        rounded(cx, "floor", args, f64::floor)
    }),
    pure("ceil", (1, 1), "x", "the next integer above", "(ceil 2.1) ; => 3", |cx, args| {
        rounded(cx, "ceil", args, f64::ceil)
    }),
    pure("trunc", (1, 1), "x", "without its fraction, an integer", "(trunc -2.7) ; => -2", |cx, args| {
        rounded(cx, "trunc", args, f64::trunc)
    }),
    pure(
        "round",
        (1, 2),
        "x digits?",
        "the nearest integer, halves up; with digits a float with so many decimals",
        "(round 3.14159 2) ; => 3.14",
        round,
    ),
    pure("int", (1, 1), "x", "without its fraction, an integer", "(int 3.9) ; => 3", int),
    pure("long", (1, 1), "x", "the same as int", "(long -3.9) ; => -3", int),
    pure("double", (1, 1), "x", "as a float", "(double 2) ; => 2.0", |cx, args| to_float(cx, "double", args)),
    pure("float", (1, 1), "x", "as a float", "(float 2) ; => 2.0", |cx, args| to_float(cx, "float", args)),
    pure("bit-and", (2, MANY), "a b …", "bits set in all", "(bit-and 12 10) ; => 8", |cx, args| {
        bits(cx, "bit-and", args, |a, b| a & b)
    }),
    pure("bit-or", (2, MANY), "a b …", "bits set in one", "(bit-or 12 10) ; => 14", |cx, args| {
        bits(cx, "bit-or", args, |a, b| a | b)
    }),
    pure("bit-xor", (2, MANY), "a b …", "bits set in exactly one", "(bit-xor 12 10) ; => 6", |cx, args| {
        bits(cx, "bit-xor", args, |a, b| a ^ b)
    }),
    pure(
        "bit-and-not",
        (2, MANY),
        "a b …",
        "bits set in the first only",
        "(bit-and-not 12 10) ; => 4",
        |cx, args| bits(cx, "bit-and-not", args, |a, b| a & !b),
    ),
    pure("bit-not", (1, 1), "a", "all bits inverted", "(bit-not 0) ; => -1", bit_not),
    pure(
        "bit-shift-left",
        (2, 2),
        "a n",
        "bits moved up by n",
        "(bit-shift-left 1 4) ; => 16",
        |cx, args| bits(cx, "bit-shift-left", args, |a, n| a.wrapping_shl(n as u32)),
    ),
    pure(
        "bit-shift-right",
        (2, 2),
        "a n",
        "bits moved down by n",
        "(bit-shift-right 16 4) ; => 1",
        |cx, args| bits(cx, "bit-shift-right", args, |a, n| a.wrapping_shr(n as u32)),
    ),
    pure("bit-test", (2, 2), "a n", "whether bit n is set", "(bit-test 4 2) ; => true", bit_test),
    pure("bit-set", (2, 2), "a n", "with bit n set", "(bit-set 0 2) ; => 4", |cx, args| {
        bits(cx, "bit-set", args, |a, n| a | 1_i64.wrapping_shl(n as u32))
    }),
    pure("bit-clear", (2, 2), "a n", "with bit n cleared", "(bit-clear 7 1) ; => 5", |cx, args| {
        bits(cx, "bit-clear", args, |a, n| a & !1_i64.wrapping_shl(n as u32))
    }),
    pure("bit-flip", (2, 2), "a n", "with bit n inverted", "(bit-flip 4 0) ; => 5", |cx, args| {
        bits(cx, "bit-flip", args, |a, n| a ^ 1_i64.wrapping_shl(n as u32))
    }),
];

pub(super) const MATH: &[Builtin] = &[
    constant("Math/PI", "the ratio of a circle's circumference to its diameter", std::f64::consts::PI),
    constant("Math/E", "the base of natural logarithms", std::f64::consts::E),
    pure("Math/abs", (1, 1), "x", "without its sign", "(Math/abs -2) ; => 2", abs),
    pure("Math/ceil", (1, 1), "x", "rounded up, a float", "(Math/ceil 2.1) ; => 3.0", |cx, args| {
        math(cx, "Math/ceil", args, f64::ceil)
    }),
    pure("Math/cos", (1, 1), "x", "the cosine", "(Math/cos 0) ; => 1.0", |cx, args| {
        math(cx, "Math/cos", args, f64::cos)
    }),
    pure("Math/exp", (1, 1), "x", "e to the power of x", "(Math/exp 0) ; => 1.0", |cx, args| {
        math(cx, "Math/exp", args, f64::exp)
    }),
    pure("Math/floor", (1, 1), "x", "rounded down, a float", "(Math/floor 2.7) ; => 2.0", |cx, args| {
        math(cx, "Math/floor", args, f64::floor)
    }),
    pure("Math/log", (1, 1), "x", "the natural logarithm", "(Math/log 1) ; => 0.0", |cx, args| {
        math(cx, "Math/log", args, f64::ln)
    }),
    pure("Math/log10", (1, 1), "x", "the decimal logarithm", "(Math/log10 100) ; => 2.0", |cx, args| {
        math(cx, "Math/log10", args, f64::log10)
    }),
    pure("Math/max", (2, 2), "a b", "the larger", "(Math/max 1 2) ; => 2", max),
    pure("Math/min", (2, 2), "a b", "the smaller", "(Math/min 1 2) ; => 1", min),
    pure("Math/pow", (2, 2), "base exponent", "the power, a float", "(Math/pow 2 3) ; => 8.0", math_pow),
    pure("Math/round", (1, 1), "x", "the nearest integer, halves up", "(Math/round 2.5) ; => 3", round),
    pure("Math/signum", (1, 1), "x", "-1.0, 0.0 or 1.0", "(Math/signum -5) ; => -1.0", |cx, args| {
        math(cx, "Math/signum", args, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() })
    }),
    pure("Math/sin", (1, 1), "x", "the sine", "(Math/sin 0) ; => 0.0", |cx, args| {
        math(cx, "Math/sin", args, f64::sin)
    }),
    pure("Math/sqrt", (1, 1), "x", "the square root", "(Math/sqrt 16) ; => 4.0", sqrt),
    pure("Math/tan", (1, 1), "x", "the tangent", "(Math/tan 0) ; => 0.0", |cx, args| {
        math(cx, "Math/tan", args, f64::tan)
    }),
];

/// Pays for an operation whose cost grows with the product of its operands' sizes.
fn pay(cx: &mut Context, a: &Value, b: &Value) -> Result<(), Fault> {
    if matches!(a, Value::Big(_)) || matches!(b, Value::Big(_)) {
        let (a, b) = (limbs(a), limbs(b));
        cx.meter.reserve(((a + b) as usize).saturating_mul(8) + 48)?;
        cx.meter.charge(a.saturating_mul(b) / 32)?;
    }
    Ok(())
}

fn not_numbers<T>(cx: &Context, who: &str, a: &Value, b: &Value, first: usize) -> Result<T, Fault> {
    if a.is_number() { cx.wrong(who, "number", b, first + 1) } else { cx.wrong(who, "number", a, first) }
}

/// One operation on two numbers. `first` is the number of the left argument.
fn operate(
    cx: &mut Context,
    who: &str,
    (a, b): (&Value, &Value),
    first: usize,
    small: fn(i64, i64) -> Option<i64>,
    big: fn(BigInt, BigInt) -> BigInt,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Fault> {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(result) = small(*a, *b)
    {
        return Ok(Value::Int(result));
    }
    pay(cx, a, b)?;
    match pair(a, b) {
        Some(Pair::Integers(a, b)) => Ok(Value::from(big(a, b))),
        Some(Pair::Floats(a, b)) => Ok(Value::Float(floats(a, b))),
        None => not_numbers(cx, who, a, b, first),
    }
}

pub(super) fn add(cx: &mut Context, who: &str, a: &Value, b: &Value, first: usize) -> Result<Value, Fault> {
    operate(cx, who, (a, b), first, i64::checked_add, |a, b| a + b, |a, b| a + b)
}

fn subtract(cx: &mut Context, a: &Value, b: &Value, first: usize) -> Result<Value, Fault> {
    operate(cx, "-", (a, b), first, i64::checked_sub, |a, b| a - b, |a, b| a - b)
}

fn multiply(cx: &mut Context, a: &Value, b: &Value, first: usize) -> Result<Value, Fault> {
    operate(cx, "*", (a, b), first, i64::checked_mul, |a, b| a * b, |a, b| a * b)
}

/// A quotient, always a float.
pub(super) fn divide(cx: &mut Context, who: &str, a: &Value, b: &Value) -> Result<Value, Fault> {
    let (Some(x), Some(y)) = (number::float(a), number::float(b)) else {
        return not_numbers(cx, who, a, b, 1);
    };
    let integers = !matches!(a, Value::Float(_)) && !matches!(b, Value::Float(_));
    if integers && y == 0.0 {
        return fault(Reason::ArithmeticError, "divide by zero");
    }
    Ok(Value::Float(x / y))
}

/// All arguments by an operation on two, from the first on.
fn chain(
    cx: &mut Context,
    who: &str,
    args: &[Value],
    unit: i64,
    operation: fn(&mut Context, &Value, &Value, usize) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    let mut result = match args.first() {
        None => return Ok(Value::Int(unit)),
        Some(first) if first.is_number() => first.clone(),
        Some(first) => return cx.wrong(who, "number", first, 1),
    };
    for (at, value) in args.iter().enumerate().skip(1) {
        cx.meter.tick()?;
        result = operation(cx, &result, value, at)?;
    }
    Ok(result)
}

fn plus(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    chain(cx, "+", args, 0, |cx, a, b, at| add(cx, "+", a, b, at))
}

fn minus(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if let [only] = args {
        return if only.is_number() {
            subtract(cx, &Value::Int(0), only, 1).map(negative_zero(only))
        } else {
            cx.wrong("-", "number", only, 1)
        };
    }
    chain(cx, "-", args, 0, subtract)
}

/// The opposite of zero as a float is minus zero, which subtracting does not give.
fn negative_zero(of: &Value) -> impl Fn(Value) -> Value {
    let zero = matches!(of, Value::Float(x) if *x == 0.0 && x.is_sign_positive());
    move |value| if zero { Value::Float(-0.0) } else { value }
}

fn times(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    chain(cx, "*", args, 1, multiply)
}

fn over(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if let [only] = args {
        return divide(cx, "/", &Value::Int(1), only);
    }
    chain(cx, "/", args, 1, |cx, a, b, _| divide(cx, "/", a, b))
}

fn inc(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    add(cx, "inc", arg(args, 0), &Value::Int(1), 1)
}

fn dec(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    add(cx, "dec", arg(args, 0), &Value::Int(-1), 1)
}

/// Quotient and remainder of two numbers.
fn division(cx: &mut Context, who: &str, args: &[Value]) -> Result<(Value, Value), Fault> {
    let (a, b) = (arg(args, 0), arg(args, 1));
    pay(cx, a, b)?;
    if a.is_number() && number::float(b) == Some(0.0) {
        return fault(Reason::ArithmeticError, "divide by zero");
    }
    match number::divide(a, b) {
        Some(parts) => Ok(parts),
        None => not_numbers(cx, who, a, b, 1),
    }
}

fn quot(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    division(cx, "quot", args).map(|(quotient, _)| quotient)
}

fn rem(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    division(cx, "rem", args).map(|(_, remainder)| remainder)
}

fn modulo(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (_, remainder) = division(cx, "mod", args)?;
    let negative = |value: &Value| order::numbers(value, &Value::Int(0)).is_lt();
    let zero = order::numbers(&remainder, &Value::Int(0)).is_eq();
    if !zero && negative(&remainder) != negative(arg(args, 1)) {
        return add(cx, "mod", &remainder, arg(args, 1), 1);
    }
    Ok(remainder)
}

fn abs(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match arg(args, 0) {
        Value::Float(x) => Ok(Value::Float(x.abs())),
        value if !value.is_number() => cx.wrong("abs", "number", value, 1),
        value if order::numbers(value, &Value::Int(0)).is_lt() => subtract(cx, &Value::Int(0), value, 1),
        value => Ok(value.clone()),
    }
}

fn extreme(cx: &mut Context, who: &str, args: &[Value], wanted: std::cmp::Ordering) -> Result<Value, Fault> {
    let mut best: Option<&Value> = None;
    for (at, value) in args.iter().enumerate() {
        cx.meter.tick()?;
        if !value.is_number() {
            return cx.wrong(who, "number", value, at + 1);
        }
        if matches!(value, Value::Float(x) if x.is_nan()) {
            return Ok(value.clone());
        }
        if best.is_none_or(|best| order::numbers(value, best) == wanted) {
            best = Some(value);
        }
    }
    Ok(best.cloned().unwrap_or_default())
}

fn max(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    extreme(cx, "max", args, std::cmp::Ordering::Greater)
}

fn min(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    extreme(cx, "min", args, std::cmp::Ordering::Less)
}

fn math(cx: &mut Context, who: &str, args: &[Value], f: fn(f64) -> f64) -> Result<Value, Fault> {
    float(cx, who, args, 0).map(|x| Value::Float(f(x)))
}

fn sqrt(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    math(cx, "sqrt", args, f64::sqrt)
}

fn math_pow(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (base, exponent) = (float(cx, "Math/pow", args, 0)?, float(cx, "Math/pow", args, 1)?);
    Ok(Value::Float(base.powf(exponent)))
}

fn pow(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match (arg(args, 0), arg(args, 1)) {
        (base @ (Value::Int(_) | Value::Big(_)), Value::Int(exponent)) if *exponent >= 0 => {
            let small = matches!(base, Value::Int(-1..=1));
            let bits = match base {
                Value::Big(n) => n.bits(),
                Value::Int(n) => u64::from(64 - n.unsigned_abs().leading_zeros()),
                _ => 1,
            };
            let exponent =
                if small { *exponent as u64 % 2 + u64::from(*exponent > 0) * 2 } else { *exponent as u64 };
            let size = bits.saturating_mul(exponent) / 64 + 1;
            cx.meter.reserve(usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(16))?;
            cx.meter.charge(size.saturating_mul(size) / 32)?;
            match u32::try_from(exponent).ok().and_then(|exponent| number::power(base, exponent)) {
                Some(value) => Ok(value),
                None => fault(Reason::ArithmeticError, "pow: the exponent is too large"),
            }
        }
        _ => {
            let (base, exponent) = (float(cx, "pow", args, 0)?, float(cx, "pow", args, 1)?);
            Ok(Value::Float(base.powf(exponent)))
        }
    }
}

fn whole(who: &str, x: f64) -> Result<Value, Fault> {
    match number::whole(x) {
        Some(value) => Ok(value),
        None => {
            fault(Reason::ArithmeticError, format!("{who}: {} is not an integer", number::print_float(x)))
        }
    }
}

fn rounded(cx: &mut Context, who: &str, args: &[Value], f: fn(f64) -> f64) -> Result<Value, Fault> {
    match arg(args, 0) {
        value @ (Value::Int(_) | Value::Big(_)) => Ok(value.clone()),
        _ => whole(who, f(float(cx, who, args, 0)?)),
    }
}

fn round(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if args.len() == 1 {
        return rounded(cx, "round", args, half_up);
    }
    let (x, digits) = (float(cx, "round", args, 0)?, integer(cx, "round", args, 1)?);
    if !x.is_finite() || digits > 300 {
        return Ok(Value::Float(x));
    }
    if digits < 0 {
        let unit = 10_f64.powi(i32::try_from(-digits).unwrap_or(i32::MAX));
        return Ok(Value::Float(half_up(x / unit) * unit));
    }
    // On the decimal digits, so that 1.005 has the neighbours a person would give it.
    let text = super::format::fixed(x, digits as usize, super::format::Half::Up);
    Ok(Value::Float(text.parse().unwrap_or(x)))
}

/// The nearest whole number, halves towards plus infinity.
fn half_up(x: f64) -> f64 {
    let floor = x.floor();
    if x - floor >= 0.5 { floor + 1.0 } else { floor }
}

fn int(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    rounded(cx, "int", args, f64::trunc)
}

fn to_float(cx: &mut Context, who: &str, args: &[Value]) -> Result<Value, Fault> {
    float(cx, who, args, 0).map(Value::Float)
}

fn bits(cx: &mut Context, who: &str, args: &[Value], operation: fn(i64, i64) -> i64) -> Result<Value, Fault> {
    let mut result = integer(cx, who, args, 0)?;
    for at in 1..args.len() {
        cx.meter.tick()?;
        result = operation(result, integer(cx, who, args, at)?);
    }
    Ok(Value::Int(result))
}

fn bit_not(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    integer(cx, "bit-not", args, 0).map(|n| Value::Int(!n))
}

fn bit_test(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (n, bit) = (integer(cx, "bit-test", args, 0)?, integer(cx, "bit-test", args, 1)?);
    Ok(Value::Bool(n & 1_i64.wrapping_shl(bit as u32) != 0))
}
