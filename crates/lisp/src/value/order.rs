//! The order of values: one engine without recursion for keys, for `=`, and for `compare`.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::tree::Iter;
use super::{Set, Value, Vector};

/// The order in which keys stand in maps and sets. Total: any two values compare, and not-a-number equals itself.
pub(crate) fn keys(a: &Value, b: &Value) -> Ordering {
    // Most keys are short strings, all of one map.
    if let (Value::Str(a), Value::Str(b)) = (a, b) {
        return if a.same(b) { Ordering::Equal } else { a.as_str().cmp(b.as_str()) };
    }
    if let Some(order) = scalars(a, b) {
        return order;
    }
    match walk(a, b, Rules::Keys, &mut || Ok::<(), std::convert::Infallible>(())) {
        Ok(order) => order.unwrap_or(Ordering::Less),
        Err(never) => match never {},
    }
}

/// How a key compares to a string, without making a value of the string.
pub(crate) fn against_string(key: &Value, text: &str) -> Ordering {
    match key {
        Value::Str(own) => own.as_str().cmp(text),
        _ => rank(key).cmp(&STRING_RANK),
    }
}

/// How a key compares to a keyword, without making a value of the keyword.
pub(crate) fn against_keyword(key: &Value, text: &str) -> Ordering {
    match key {
        Value::Keyword(own) => own.as_str().cmp(text),
        _ => rank(key).cmp(&KEYWORD_RANK),
    }
}

/// `=`: as keys, but not-a-number equals nothing. `spend` is called once for every pair that is looked at.
pub(crate) fn equal<E>(a: &Value, b: &Value, spend: &mut impl FnMut() -> Result<(), E>) -> Result<bool, E> {
    Ok(walk(a, b, Rules::Equality, spend)? == Some(Ordering::Equal))
}

/// `compare`: `None` where the two cannot be compared.
pub(crate) fn compare<E>(
    a: &Value,
    b: &Value,
    spend: &mut impl FnMut() -> Result<(), E>,
) -> Result<Option<Ordering>, E> {
    walk(a, b, Rules::Compare, spend)
}

#[derive(Clone, Copy, PartialEq)]
enum Rules {
    Keys,
    Equality,
    Compare,
}

/// Two collections of equal length, walked side by side.
enum PendingPair<'v> {
    Values(Iter<'v, Value>, Iter<'v, Value>),
    Entries(Iter<'v, (Value, Value)>, Iter<'v, (Value, Value)>),
    One(&'v Value, &'v Value),
}

/// The first difference decides. `None`: by these rules the two cannot be compared.
fn walk<'v, E>(
    a: &'v Value,
    b: &'v Value,
    rules: Rules,
    spend: &mut impl FnMut() -> Result<(), E>,
) -> Result<Option<Ordering>, E> {
    let mut pending = Vec::new();
    let mut pair = Some((a, b));
    loop {
        let (a, b) = match pair.take() {
            Some(pair) => pair,
            None => match pending.last_mut() {
                None => return Ok(Some(Ordering::Equal)),
                Some(PendingPair::One(a, b)) => {
                    let both = (*a, *b);
                    pending.pop();
                    both
                }
                Some(PendingPair::Values(left, right)) => {
                    if let (Some(a), Some(b)) = (left.next(), right.next()) {
                        (a, b)
                    } else {
                        pending.pop();
                        continue;
                    }
                }
                Some(PendingPair::Entries(left, right)) => {
                    if let (Some((a_key, a)), Some((b_key, b))) = (left.next(), right.next()) {
                        pending.push(PendingPair::One(a, b));
                        (a_key, b_key)
                    } else {
                        pending.pop();
                        continue;
                    }
                }
            },
        };
        spend()?;
        let order = match (a, b) {
            (Value::Set(_), Value::Set(_)) | (Value::Map(_), Value::Map(_)) if rules == Rules::Compare => {
                return Ok(None);
            }
            (Value::Vector(Vector(a)), Value::Vector(Vector(b)))
            | (Value::Set(Set(a)), Value::Set(Set(b))) => {
                if a.same(b) {
                    continue;
                }
                let order = a.len().cmp(&b.len());
                if order.is_eq() {
                    pending.push(PendingPair::Values(a.iter(), b.iter()));
                }
                order
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.0.same(&b.0) {
                    continue;
                }
                let order = a.len().cmp(&b.len());
                if order.is_eq() {
                    pending.push(PendingPair::Entries(a.0.iter(), b.0.iter()));
                }
                order
            }
            (Value::Float(a), Value::Float(b)) if rules == Rules::Equality => {
                a.partial_cmp(b).unwrap_or(Ordering::Less)
            }
            _ => match scalars(a, b) {
                Some(order) if rules != Rules::Compare || comparable(a, b) => order,
                _ => return Ok(None),
            },
        };
        if order.is_ne() {
            return Ok(Some(order));
        }
    }
}

/// Whether `compare` takes two values that are not both collections: nil with anything, else of one kind.
fn comparable(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Nil, _) | (_, Value::Nil) | (Value::Bool(_), Value::Bool(_)) => true,
        (Value::Function(_) | Value::Regex(_), _) => false,
        _ => rank(a) == rank(b),
    }
}

const KEYWORD_RANK: u8 = 4;
const STRING_RANK: u8 = 5;

/// Where values of one kind stand among others. Kinds after sets stand in the order of their printed forms.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Nil => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Int(_) | Value::Big(_) | Value::Float(_) => 3,
        Value::Keyword(_) => KEYWORD_RANK,
        Value::Str(_) => STRING_RANK,
        Value::Vector(_) => 6,
        Value::Map(_) => 7,
        Value::Set(_) => 8,
        Value::Regex(_) => 9,
        Value::Var(_) => 10,
        Value::Date(_) => 11,
        Value::Duration(_) => 12,
        Value::Function(_) => 13,
        Value::DateTime(_) => 14,
    }
}

/// The order of two values at least one of which has no parts; `None` for two collections of one kind.
fn scalars(a: &Value, b: &Value) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Str(a), Value::Str(b)) => {
            if a.same(b) {
                Ordering::Equal
            } else {
                a.as_str().cmp(b.as_str())
            }
        }
        (Value::Keyword(a), Value::Keyword(b)) => {
            if a.text().same(b.text()) {
                Ordering::Equal
            } else {
                a.as_str().cmp(b.as_str())
            }
        }
        (Value::Regex(a), Value::Regex(b)) => a.source().cmp(b.source()),
        (Value::Var(a), Value::Var(b)) => a.as_str().cmp(b.as_str()),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::DateTime(a), Value::DateTime(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Function(a), Value::Function(b)) => a.label().cmp(&b.label()).then(a.id().cmp(&b.id())),
        _ => match rank(a).cmp(&rank(b)) {
            Ordering::Equal if a.is_collection() => return None,
            Ordering::Equal if a.is_number() => numbers(a, b),
            order => order,
        },
    })
}

/// By value, exactly; not-a-number after every other number.
pub(crate) fn numbers(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Value::Int(a), Value::Float(b)) => integer_and_float(*a, *b),
        (Value::Float(a), Value::Int(b)) => integer_and_float(*b, *a).reverse(),
        (Value::Big(a), Value::Big(b)) => a.cmp(b),
        (Value::Big(a), Value::Int(b)) => (**a).cmp(&BigInt::from(*b)),
        (Value::Int(a), Value::Big(b)) => BigInt::from(*a).cmp(b),
        (Value::Big(a), Value::Float(b)) => big_and_float(a, *b),
        (Value::Float(a), Value::Big(b)) => big_and_float(b, *a).reverse(),
        _ => Ordering::Equal,
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn integer_and_float(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b >= TWO_TO_63 {
        Ordering::Less
    } else if b < -TWO_TO_63 {
        Ordering::Greater
    } else {
        // The whole part fits; what is behind the point decides between equal whole parts.
        let whole = b.trunc();
        a.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&b).unwrap_or(Ordering::Equal))
    }
}

fn big_and_float(a: &BigInt, b: f64) -> Ordering {
    if b.is_nan() || b == f64::INFINITY {
        return Ordering::Less;
    }
    if b == f64::NEG_INFINITY {
        return Ordering::Greater;
    }
    // A big integer is beyond 2^63, where a float has no fraction that could matter.
    super::number::whole(b).map_or(Ordering::Less, |whole| numbers(&Value::Big(a.clone().into()), &whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_kinds_compare_by_value() {
        let big = |text: &str| Value::from(text.parse::<BigInt>().unwrap_or_default());
        let ascending = [
            Value::Float(f64::NEG_INFINITY),
            big("-9223372036854775809"),
            Value::Int(i64::MIN),
            Value::Float(-1.5),
            Value::Int(-1),
            Value::Float(0.5),
            Value::Int(1),
            Value::Float(1.5),
            Value::Int(9_007_199_254_740_992),
            Value::Int(9_007_199_254_740_993),
            Value::Int(i64::MAX),
            Value::Float(9_223_372_036_854_775_808.0),
            big("9223372036854775809"),
            Value::Float(f64::INFINITY),
            Value::Float(f64::NAN),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(keys(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(keys(&Value::Int(1), &Value::Float(1.0)), Ordering::Equal);
        assert_eq!(keys(&Value::Int(0), &Value::Float(-0.0)), Ordering::Equal);
    }
}
