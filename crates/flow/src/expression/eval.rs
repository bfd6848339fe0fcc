//! Trees into values, within a number of operations.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::number::Number;
use super::parse::{Comparison, Expr, PathStep};
use super::{Evaluated, LIMITS, is_true};
use crate::reference::{Names, PathKey, part};

/// The operations were used up.
pub(super) struct OutOfOperations;

/// How many operations are left.
pub(super) struct OperationMeter {
    left: u64,
}

/// Bytes of text that count as one operation: about what a comparison of two short texts costs.
const BYTES_PER_OPERATION: usize = 256;

impl OperationMeter {
    pub(super) fn charge(&mut self, operations: u64) -> Result<(), OutOfOperations> {
        self.left = self.left.checked_sub(operations).ok_or(OutOfOperations)?;
        Ok(())
    }

    /// Charges for reading a value once, from end to end if it is a text.
    pub(super) fn charge_for(&mut self, value: &Value) -> Result<(), OutOfOperations> {
        match value {
            Value::String(text) => self.charge((text.len() / BYTES_PER_OPERATION) as u64),
            _ => Ok(()),
        }
    }

    // The depth of values is limited where they are parsed.
    /// Charges for copying a value.
    fn charge_copy(&mut self, value: &Value) -> Result<(), OutOfOperations> {
        self.charge(1)?;
        match value {
            Value::Array(list) => list.iter().try_for_each(|item| self.charge_copy(item)),
            Value::Object(members) => members.values().try_for_each(|item| self.charge_copy(item)),
            other => self.charge_for(other),
        }
    }
}

pub(super) fn eval(root: &Expr, names: &dyn Names) -> Evaluated {
    let mut machine = Evaluator { names, meter: OperationMeter { left: LIMITS.operations } };
    match machine.value(root) {
        Ok(value) => Evaluated { value: value.into_owned(), limit_reached: false },
        Err(OutOfOperations) => Evaluated { value: Value::Null, limit_reached: true },
    }
}

struct Evaluator<'e> {
    names: &'e dyn Names,
    meter: OperationMeter,
}

type EvalResult<'e> = Result<Cow<'e, Value>, OutOfOperations>;

impl<'e> Evaluator<'e> {
    // The depth is that of the tree, which its parser limits.
    fn value(&mut self, expr: &'e Expr) -> EvalResult<'e> {
        self.meter.charge(1)?;
        Ok(match expr {
            Expr::Literal(value) => Cow::Borrowed(value),
            Expr::Name(name) => self.names.value(name).unwrap_or_default(),
            Expr::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    let item = self.value(item)?;
                    self.meter.charge_copy(&item)?;
                    list.push(item.into_owned());
                }
                Cow::Owned(Value::Array(list))
            }
            Expr::Path(start, steps) => {
                let mut value = self.value(start)?;
                for step in steps {
                    value = self.step(value, step)?;
                }
                value
            }
            Expr::Not(inner) => flag(!is_true(&*self.value(inner)?)),
            Expr::Negate(inner) => {
                let number = Number::of(&*self.value(inner)?);
                Cow::Owned(number.and_then(Number::negated).and_then(Number::value).unwrap_or_default())
            }
            Expr::Any(parts) => flag(self.first(parts, true)?),
            Expr::All(parts) => flag(!self.first(parts, false)?),
            Expr::Compare(left, comparison, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                flag(compare(&left, *comparison, &right, &mut self.meter)?)
            }
            Expr::Chain(first, rest) => {
                let mut number = Number::of(&*self.value(first)?);
                for (sign, next) in rest {
                    let next = Number::of(&*self.value(next)?);
                    number = number.zip(next).and_then(|(one, two)| one.combined(*sign, two));
                }
                Cow::Owned(number.and_then(Number::value).unwrap_or_default())
            }
            Expr::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                function.call(&mut values, &mut self.meter)?
            }
        })
    }

    /// Whether any of the parts counts as `wanted`; what stands behind the first that does is not looked at.
    fn first(&mut self, parts: &'e [Expr], wanted: bool) -> Result<bool, OutOfOperations> {
        for part in parts {
            if is_true(&*self.value(part)?) == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&mut self, value: Cow<'e, Value>, step: &'e PathStep) -> EvalResult<'e> {
        self.meter.charge(1)?;
        let key = match step {
            PathStep::Member(name) => PathKey::Member(name.clone()),
            PathStep::Index(index) => match &*self.value(index)? {
                Value::String(name) => PathKey::Member(name.as_str().into()),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => PathKey::Element(number),
                    None => return Ok(Cow::default()),
                },
                _ => return Ok(Cow::default()),
            },
        };
        Ok(match value {
            Cow::Borrowed(value) => part(value, &key).map_or_else(Cow::default, Cow::Borrowed),
            Cow::Owned(value) => {
                let part = part(&value, &key);
                part.map_or(Ok(()), |part| self.meter.charge_copy(part))?;
                Cow::Owned(part.cloned().unwrap_or_default())
            }
        })
    }
}

fn flag<'e>(flag: bool) -> Cow<'e, Value> {
    Cow::Owned(Value::Bool(flag))
}

fn compare(
    left: &Value,
    by: Comparison,
    right: &Value,
    meter: &mut OperationMeter,
) -> Result<bool, OutOfOperations> {
    let ordered = |wanted: fn(Ordering) -> bool| order(left, right).is_some_and(wanted);
    Ok(match by {
        Comparison::Equal => equal(left, right, meter)?,
        Comparison::Unequal => !equal(left, right, meter)?,
        Comparison::In => contains(right, left, meter)?,
        Comparison::NotIn => !contains(right, left, meter)?,
        Comparison::Less => ordered(Ordering::is_lt),
        Comparison::LessOrEqual => ordered(Ordering::is_le),
        Comparison::Greater => ordered(Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
    })
}

/// How two values stand to each other: numbers and texts have an order, nothing else has.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        (one, two) => Number::of(one)?.compare(Number::of(two)?),
    }
}

// The depth of values is limited where they are parsed.
/// Whether two values are equal: `1` and `1.0` are, `1` and `'1'` are not.
fn equal(left: &Value, right: &Value, meter: &mut OperationMeter) -> Result<bool, OutOfOperations> {
    meter.charge(1)?;
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => Ok(order(left, right) == Some(Ordering::Equal)),
        (Value::String(one), Value::String(two)) if one.len() == two.len() => {
            meter.charge_for(left)?;
            Ok(one == two)
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (one, two) in one.iter().zip(two) {
                if !equal(one, two, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(one), Value::Object(two)) if one.len() == two.len() => {
            for (name, one) in one {
                match two.get(name) {
                    Some(two) if equal(one, two, meter)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (one, two) => Ok(one == two),
    }
}

/// Whether a list has an element, a text a part, or an object a member.
pub(super) fn contains(
    whole: &Value,
    part: &Value,
    meter: &mut OperationMeter,
) -> Result<bool, OutOfOperations> {
    match (whole, part) {
        (Value::Array(list), part) => {
            for item in list {
                if equal(item, part, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::String(text), Value::String(part)) => {
            meter.charge_for(whole)?;
            Ok(text.contains(part.as_str()))
        }
        (Value::Object(members), Value::String(name)) => Ok(members.contains_key(name)),
        _ => Ok(false),
    }
}
