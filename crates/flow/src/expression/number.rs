//! Numbers: whole ones are exact, others are floating; what does not fit is null.

use std::cmp::Ordering;

use serde_json::{Number as Json, Value};

use super::parse::Arithmetic;

/// Below this every whole number has its own floating one.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// Between the least and the largest that JSON values hold: 64 bits, with or without a sign.
    Whole(i128),
    /// Finite.
    Floating(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Number> {
        let Value::Number(number) = value else { return None };
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        whole.map(Number::Whole).or_else(|| Number::floating(number.as_f64()?))
    }

    /// A finite number; a whole one where that is exact.
    fn floating(number: f64) -> Option<Number> {
        if !number.is_finite() {
            None
        } else if number.fract() == 0.0 && number.abs() < EXACT {
            Some(Number::Whole(number as i128))
        } else {
            Some(Number::Floating(number))
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Floating(number) => number,
        }
    }

    pub(super) fn value(self) -> Option<Value> {
        match self {
            Number::Whole(number) => {
                let small = i64::try_from(number).map(Json::from);
                small.or_else(|_| u64::try_from(number).map(Json::from)).ok().map(Value::Number)
            }
            Number::Floating(number) => Json::from_f64(number).map(Value::Number),
        }
    }

    pub(super) fn negated(self) -> Option<Number> {
        match self {
            Number::Whole(number) => number.checked_neg().map(Number::Whole),
            Number::Floating(number) => Some(Number::Floating(-number)),
        }
    }

    pub(super) fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(one), Number::Whole(two)) => Some(one.cmp(&two)),
            (one, two) => one.float().partial_cmp(&two.float()),
        }
    }

    pub(super) fn combined(self, sign: Arithmetic, other: Number) -> Option<Number> {
        if let (Number::Whole(one), Number::Whole(two)) = (self, other) {
            let whole = match sign {
                Arithmetic::Add => one.checked_add(two),
                Arithmetic::Subtract => one.checked_sub(two),
                Arithmetic::Multiply => one.checked_mul(two),
                Arithmetic::Remainder => one.checked_rem(two),
                Arithmetic::Divide if one.checked_rem(two) == Some(0) => one.checked_div(two),
                Arithmetic::Divide => return divided(one as f64, two as f64),
            };
            // What 64 bits do not hold has overflowed.
            return whole.map(Number::Whole).filter(|number| number.value().is_some());
        }
        let (one, two) = (self.float(), other.float());
        match sign {
            Arithmetic::Add => Number::floating(one + two),
            Arithmetic::Subtract => Number::floating(one - two),
            Arithmetic::Multiply => Number::floating(one * two),
            Arithmetic::Divide => divided(one, two),
            Arithmetic::Remainder => Number::floating(one % two),
        }
    }
}

fn divided(one: f64, two: f64) -> Option<Number> {
    if two == 0.0 { None } else { Number::floating(one / two) }
}

/// A number as JSON writes it; white space around it does not matter.
pub(super) fn read(text: &str) -> Option<Value> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || text.len() > 400 {
        return None;
    }
    let whole = text.parse::<i64>().map(Json::from).or_else(|_| text.parse::<u64>().map(Json::from));
    match whole {
        Ok(whole) => Some(Value::Number(whole)),
        Err(_) => Number::floating(text.parse().ok()?)?.value(),
    }
}
