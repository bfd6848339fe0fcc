//! Closures that only compute: what `map` and its relatives call for every element needs no frame until it calls something.

use super::execute::{integer, integers};
use super::meter::{Meter, UNMETERED};
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
    // Kept out of memory until the end.
    let mut fuel = meter.slice();
    let short = execute(&mut fuel, stack, closure, code, base, shadowed);
    meter.set_slice(fuel);
    short
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "fuel stays in a register only where it is inlined")]
fn execute(
    fuel: &mut u64,
    stack: &mut Vec<Value>,
    closure: &Closure,
    code: &[Op],
    base: usize,
    shadowed: bool,
) -> Short {
    let mut pc = 0;
    // The topmost value, kept out of memory.
    let mut top: Option<Value> = None;
    let local = |stack: &[Value], slot: u16| stack.get(base + usize::from(slot)).cloned().unwrap_or_default();
    while let Some(&op) = code.get(pc) {
        let next = pc + 1;
        let Some(left) = fuel.checked_sub(cost(op)) else { break };
        let goes_on = match op {
            Op::Const(index) => {
                let value = closure.unit.consts.get(index as usize).cloned().unwrap_or_default();
                push(stack, &mut top, value);
                Some(next)
            }
            Op::Int(n) => {
                push(stack, &mut top, Value::Int(i64::from(n)));
                Some(next)
            }
            Op::Nil => {
                push(stack, &mut top, Value::Nil);
                Some(next)
            }
            Op::True | Op::False => {
                push(stack, &mut top, Value::Bool(matches!(op, Op::True)));
                Some(next)
            }
            Op::Local(slot) => {
                let value = local(stack, slot);
                push(stack, &mut top, value);
                Some(next)
            }
            Op::Store(slot) => {
                let value = pop(stack, &mut top);
                if let Some(place) = stack.get_mut(base + usize::from(slot)) {
                    *place = value;
                }
                Some(next)
            }
            Op::Capture(index) => {
                let value = closure.captures().get(usize::from(index)).cloned().unwrap_or_default();
                push(stack, &mut top, value);
                Some(next)
            }
            Op::Pop => {
                pop(stack, &mut top).discard();
                Some(next)
            }
            Op::Jump(target) => Some(target as usize),
            Op::JumpIfFalse(target) => {
                let value = pop(stack, &mut top);
                let truth = value.is_truthy();
                value.discard();
                Some(if truth { next } else { target as usize })
            }
            Op::AndJump(target) | Op::OrJump(target) => {
                let value = pop(stack, &mut top);
                if value.is_truthy() == matches!(op, Op::OrJump(_)) {
                    push(stack, &mut top, value);
                    Some(target as usize)
                } else {
                    value.discard();
                    Some(next)
                }
            }
            Op::Unary(quick, _) if !shadowed => match pop(stack, &mut top) {
                Value::Int(n) => {
                    let result = integer(quick, n);
                    let goes_on = result.is_some().then_some(next);
                    push(stack, &mut top, result.unwrap_or(Value::Int(n)));
                    goes_on
                }
                other => {
                    push(stack, &mut top, other);
                    None
                }
            },
            Op::Binary(quick, _) if !shadowed => {
                match (pop(stack, &mut top), stack.pop().unwrap_or_default()) {
                    (Value::Int(b), Value::Int(a)) => {
                        if let Some(result) = integers(quick, a, b) {
                            push(stack, &mut top, result);
                            Some(next)
                        } else {
                            stack.push(Value::Int(a));
                            push(stack, &mut top, Value::Int(b));
                            None
                        }
                    }
                    (b, a) => {
                        stack.push(a);
                        push(stack, &mut top, b);
                        None
                    }
                }
            }
            Op::BinaryOfLocals { quick, left, right, .. } if !shadowed => {
                let both = [left, right].map(|slot| stack.get(base + usize::from(slot)));
                let result = match both {
                    [Some(Value::Int(a)), Some(Value::Int(b))] => integers(quick, *a, *b),
                    _ => None,
                };
                result.map(|result| {
                    push(stack, &mut top, result);
                    next
                })
            }
            Op::BinaryWithInt { quick, slot, number, .. } if !shadowed => {
                let result = match stack.get(base + usize::from(slot)) {
                    Some(Value::Int(own)) => integers(quick, *own, i64::from(number)),
                    _ => None,
                };
                result.map(|result| {
                    push(stack, &mut top, result);
                    next
                })
            }
            Op::Return => {
                *fuel = left;
                return Short::Value(pop(stack, &mut top));
            }
            _ => None,
        };
        let Some(goes_on) = goes_on else { break };
        *fuel = left;
        pc = goes_on;
    }
    stack.extend(top);
    Short::Frame(pc)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "the topmost value stays out of memory only where this is inlined")]
fn push(stack: &mut Vec<Value>, top: &mut Option<Value>, value: Value) {
    if let Some(below) = top.replace(value) {
        stack.push(below);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "as above")]
fn pop(stack: &mut Vec<Value>, top: &mut Option<Value>) -> Value {
    top.take().or_else(|| stack.pop()).unwrap_or_default()
}

/// The fuel of an instruction, where nothing but the instruction costs any.
#[inline]
fn cost(op: Op) -> u64 {
    match op {
        _ if UNMETERED => 0,
        // They stand for three instructions.
        Op::BinaryOfLocals { .. } | Op::BinaryWithInt { .. } => 3,
        _ => 1,
    }
}
