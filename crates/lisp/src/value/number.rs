//! Arithmetic: integers that never overflow, floats, and the rules where the two meet.

use std::sync::Arc;

use num_bigint::{BigInt, Sign};

use super::Value;

/// What an operation is applied to once both sides are of one kind.
pub(crate) enum Pair {
    Integers(BigInt, BigInt),
    Floats(f64, f64),
}

/// Two numbers brought to one kind: floats if one is a float. `None` if one is no number.
pub(crate) fn pair(a: &Value, b: &Value) -> Option<Pair> {
    if matches!(a, Value::Float(_)) || matches!(b, Value::Float(_)) {
        return Some(Pair::Floats(float(a)?, float(b)?));
    }
    Some(Pair::Integers(integer(a)?, integer(b)?))
}

/// A number as a float.
pub(crate) fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        Value::Big(n) => Some(big_to_float(n)),
        _ => None,
    }
}

/// An integer of any size as a big one.
pub(crate) fn integer(value: &Value) -> Option<BigInt> {
    match value {
        Value::Int(n) => Some(BigInt::from(*n)),
        Value::Big(n) => Some(BigInt::clone(n)),
        _ => None,
    }
}

/// The nearest float, ties to even; infinite when too large.
fn big_to_float(n: &BigInt) -> f64 {
    let bits = n.bits();
    if bits > 1100 {
        return if n.sign() == Sign::Minus { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    // Decimal text parses to the nearest float, and 1100 bits are a short text.
    n.to_string().parse().unwrap_or(f64::NAN)
}

/// A float without a fraction as an integer; `None` for infinities and not-a-number.
pub(crate) fn whole(x: f64) -> Option<Value> {
    if !x.is_finite() {
        return None;
    }
    let x = x.trunc();
    if (-9.0e18..=9.0e18).contains(&x) {
        return Some(Value::Int(x as i64));
    }
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1075;
    let mantissa = BigInt::from((bits & ((1 << 52) - 1)) | (1 << 52));
    let magnitude =
        if exponent >= 0 { mantissa << exponent as u64 } else { mantissa >> exponent.unsigned_abs() };
    Some(Value::from(if x < 0.0 { -magnitude } else { magnitude }))
}

/// An integer that fits 64 bits, also from a float without fraction: `/` always gives floats.
pub(crate) fn index(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        Value::Float(x) if x.fract() == 0.0 => match whole(*x)? {
            Value::Int(n) => Some(n),
            _ => None,
        },
        _ => None,
    }
}

/// Quotient and remainder, rounded towards zero. The divisor is not zero.
pub(crate) fn divide(a: &Value, b: &Value) -> Option<(Value, Value)> {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let (Some(quotient), Some(remainder)) = (a.checked_div(*b), a.checked_rem(*b))
    {
        return Some((Value::Int(quotient), Value::Int(remainder)));
    }
    Some(match pair(a, b)? {
        Pair::Integers(a, b) => (Value::from(&a / &b), Value::from(&a % &b)),
        Pair::Floats(a, b) => (Value::Float((a / b).trunc()), Value::Float(a % b)),
    })
}

/// Bytes a big integer takes, nothing for others.
pub(crate) fn bytes(value: &Value) -> usize {
    match value {
        Value::Big(n) => n.bits() as usize / 8 + 48,
        _ => 0,
    }
}

/// What adding, multiplying or printing integers of this size costs: nothing worth counting below a kilobit.
pub(crate) fn limbs(value: &Value) -> u64 {
    match value {
        Value::Big(n) => n.bits() / 64 + 1,
        _ => 1,
    }
}

/// `base` to the power of a whole exponent.
pub(crate) fn power(base: &Value, exponent: u32) -> Option<Value> {
    if let Value::Int(base) = base
        && let Some(n) = base.checked_pow(exponent)
    {
        return Some(Value::Int(n));
    }
    Some(Value::from(integer(base)?.pow(exponent)))
}

/// A number of either kind from its text: digits only give an integer. `None` if it is no number.
pub(crate) fn parse(text: &str) -> Option<Value> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+') {
        return match text.parse::<i64>() {
            Ok(n) => Some(Value::Int(n)),
            Err(_) => text.parse::<BigInt>().ok().map(|n| Value::Big(Arc::new(n))),
        };
    }
    text.parse().ok().map(Value::Float)
}

/// The text of a float: the shortest digits that read back as the same float, always with a point.
pub(crate) fn print_float(x: f64) -> String {
    if x.is_nan() {
        return "##NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "##Inf".into() } else { "##-Inf".into() };
    }
    let magnitude = x.abs();
    if x == 0.0 || (1e-4..1e16).contains(&magnitude) {
        let text = format!("{x}");
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{x:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_the_reader_reads_them() {
        for (x, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (12_345_678.9, "12345678.9"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2E-5"),
            (2.5e-7, "2.5E-7"),
            (1e20, "1.0E20"),
            (1e16, "1.0E16"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (f64::NAN, "##NaN"),
            (f64::NEG_INFINITY, "##-Inf"),
            (5e-324, "5.0E-324"),
        ] {
            assert_eq!(print_float(x), text);
        }
    }

    #[test]
    fn floats_become_whole_numbers_of_any_size() {
        for (x, text) in [
            (1e19, "10000000000000000000"),
            (-1e19, "-10000000000000000000"),
            (1e300, &format!("{:.0}", 1e300)),
            (3.99, "3"),
            (-3.99, "-3"),
        ] {
            assert_eq!(whole(x).map(|n| n.to_string()).as_deref(), Some(text));
        }
        assert!(whole(f64::NAN).is_none());
    }

    #[test]
    fn big_integers_become_the_nearest_float() {
        let big = |text: &str| text.parse::<BigInt>().unwrap_or_default();
        assert_eq!(float(&Value::from(big("9223372036854775808"))), Some(9_223_372_036_854_775_808.0));
        assert_eq!(float(&Value::from(BigInt::from(1) << 2000)), Some(f64::INFINITY));
    }
}
