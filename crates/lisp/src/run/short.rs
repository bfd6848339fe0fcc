//! Closures that only compute: what `map` and its relatives call for every element needs no frame until it calls something.

use super::execute::{integer, integers};
use super::meter::Meter;
use crate::compile::Op;
use crate::value::{Closure, Value};

/// How far a closure came without a frame.
pub(super) enum Short {
    /// To its end.
    Value(Value),
    /// To an instruction that may need one. Nothing of that was done, and no fuel was taken for it.
    Frame(usize),
}

/// Executes a closure whose parameters and locals are on the stack from `base` on.
#[inline]
pub(super) fn compute(
    meter: &mut Meter,
    stack: &mut Vec<Value>,
    closure: &Closure,
    code: &[Op],
    base: usize,
    shadowed: bool,
) -> Short {
    let mut pc = 0;
    while let Some(&op) = code.get(pc) {
        let next = pc + 1;
        if !meter.take(cost(op)) {
            break;
        }
        let local =
            |stack: &[Value], slot: u16| stack.get(base + usize::from(slot)).cloned().unwrap_or_default();
        let goes_on = match op {
            Op::Const(index) => {
                stack.push(closure.unit.consts.get(index as usize).cloned().unwrap_or_default());
                Some(next)
            }
            Op::Int(n) => {
                stack.push(Value::Int(i64::from(n)));
                Some(next)
            }
            Op::Nil => {
                stack.push(Value::Nil);
                Some(next)
            }
            Op::True | Op::False => {
                stack.push(Value::Bool(matches!(op, Op::True)));
                Some(next)
            }
            Op::Local(slot) => {
                stack.push(local(stack, slot));
                Some(next)
            }
            Op::Store(slot) => {
                let value = stack.pop().unwrap_or_default();
                if let Some(place) = stack.get_mut(base + usize::from(slot)) {
                    *place = value;
                }
                Some(next)
            }
            Op::Capture(index) => {
                stack.push(closure.captures.get(usize::from(index)).cloned().unwrap_or_default());
                Some(next)
            }
            Op::Pop => {
                stack.pop();
                Some(next)
            }
            Op::Jump(target) => Some(target as usize),
            Op::JumpIfFalse(target) => {
                let truth = stack.pop().is_some_and(|value| value.is_truthy());
                Some(if truth { next } else { target as usize })
            }
            Op::AndJump(target) | Op::OrJump(target) => {
                let truth = stack.last().is_some_and(Value::is_truthy);
                if truth == matches!(op, Op::OrJump(_)) {
                    Some(target as usize)
                } else {
                    stack.pop();
                    Some(next)
                }
            }
            Op::Unary(quick, _) if !shadowed => match stack.last_mut() {
                Some(top) => match top {
                    Value::Int(n) => integer(quick, *n).map(|result| {
                        *top = result;
                        next
                    }),
                    _ => None,
                },
                None => None,
            },
            Op::Binary(quick, _) if !shadowed => match stack.as_slice() {
                [.., Value::Int(a), Value::Int(b)] => integers(quick, *a, *b).map(|result| {
                    stack.pop();
                    if let Some(top) = stack.last_mut() {
                        *top = result;
                    }
                    next
                }),
                _ => None,
            },
            Op::BinaryOfLocals { quick, left, right, .. } if !shadowed => {
                let both = [left, right].map(|slot| stack.get(base + usize::from(slot)));
                match both {
                    [Some(Value::Int(a)), Some(Value::Int(b))] => integers(quick, *a, *b).map(|result| {
                        stack.push(result);
                        next
                    }),
                    _ => None,
                }
            }
            Op::BinaryWithInt { quick, slot, number, .. } if !shadowed => {
                match stack.get(base + usize::from(slot)) {
                    Some(Value::Int(own)) => integers(quick, *own, i64::from(number)).map(|result| {
                        stack.push(result);
                        next
                    }),
                    _ => None,
                }
            }
            Op::Return => return Short::Value(stack.pop().unwrap_or_default()),
            _ => None,
        };
        let Some(goes_on) = goes_on else {
            meter.give_back(cost(op));
            break;
        };
        pc = goes_on;
    }
    Short::Frame(pc)
}

/// The fuel of an instruction, where nothing but the instruction costs any.
#[inline]
fn cost(op: Op) -> u64 {
    match op {
        // They stand for three instructions.
        Op::BinaryOfLocals { .. } | Op::BinaryWithInt { .. } => 3,
        _ => 1,
    }
}
