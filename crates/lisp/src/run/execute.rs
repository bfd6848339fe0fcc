//! What each instruction does.

use std::sync::Arc;

use super::Machine;
use super::call::Called;
use super::fiber::Fiber;
use super::machine::{MachineStop, save};
use crate::builtin;
use crate::compile::{FreeName, Op, Quick};
use crate::error::{Error, Fault, Reason, fault};
use crate::value::{Closure, Function, Map, Value, Vector};

/// Goes on with the next instruction if a call is over; else the loop over the frames goes on.
macro_rules! call {
    ($called:expr) => {
        match $called? {
            Called::Done => {}
            Called::Frames => return Ok(None),
            Called::Waiting => return Ok(Some(Box::new(MachineStop::Waiting))),
        }
    };
}

impl Machine {
    /// Executes instructions from `pc` on until frames change or the fiber has to stop. An error comes from the
    /// instruction before `pc`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its only caller is the function that all time is spent in")]
    #[expect(clippy::too_many_arguments, reason = "the registers of the machine, kept out of memory")]
    pub(super) fn execute(
        &mut self,
        fiber: &mut Fiber,
        function: &Arc<Function>,
        closure: &Closure,
        code: &[Op],
        links: usize,
        base: usize,
        pc: &mut usize,
    ) -> Result<Option<Box<MachineStop>>, Fault> {
        while let Some(&op) = code.get(*pc) {
            *pc += 1;
            self.context.meter.tick()?;
            match op {
                Op::Const(index) => {
                    let value = closure.unit.consts.get(index as usize).cloned().unwrap_or_default();
                    fiber.stack.push(value);
                }
                Op::Int(n) => fiber.stack.push(Value::Int(i64::from(n))),
                Op::Nil => fiber.stack.push(Value::Nil),
                Op::True => fiber.stack.push(Value::Bool(true)),
                Op::False => fiber.stack.push(Value::Bool(false)),
                Op::Local(slot) => {
                    let value = fiber.stack.get(base + usize::from(slot)).cloned().unwrap_or_default();
                    fiber.stack.push(value);
                }
                Op::Store(slot) => {
                    let value = fiber.stack.pop().unwrap_or_default();
                    set(fiber, base, slot, value);
                }
                Op::Capture(index) => {
                    let value = closure.captures().get(usize::from(index)).cloned().unwrap_or_default();
                    fiber.stack.push(value);
                }
                Op::SelfFn => fiber.stack.push(Value::Function(Arc::clone(function))),
                Op::Sibling(proto) => {
                    let value = self.sibling(closure, proto)?;
                    fiber.stack.push(value);
                }
                Op::Global(name) => {
                    let value = match self.named_definition(fiber, links, name) {
                        Some(value) => value.clone(),
                        None => self.global(fiber, links, name)?,
                    };
                    fiber.stack.push(value);
                }
                Op::Var(name) => {
                    let defined = self.global(fiber, links, name).is_ok();
                    let name = closure.unit.names.get(name as usize);
                    if !defined {
                        let text = name.map_or("", |name| name.text.as_str());
                        return fault(Reason::UnboundVar, format!("undefined variable: {text}"));
                    }
                    fiber.stack.push(name.map(FreeName::var).unwrap_or_default());
                }
                Op::Pop => drop(fiber.stack.pop()),
                Op::Jump(target) => *pc = target as usize,
                Op::JumpIfFalse(target) => {
                    if !fiber.stack.pop().is_some_and(|value| value.is_truthy()) {
                        *pc = target as usize;
                    }
                }
                Op::AndJump(target) => {
                    if !fiber.stack.last().is_some_and(Value::is_truthy) {
                        *pc = target as usize;
                        continue;
                    }
                    fiber.stack.pop();
                }
                Op::OrJump(target) => {
                    if fiber.stack.last().is_some_and(Value::is_truthy) {
                        *pc = target as usize;
                        continue;
                    }
                    fiber.stack.pop();
                }
                Op::JumpIfNil(slot, target) => {
                    if matches!(local(fiber, base, slot), Value::Nil) {
                        *pc = target as usize;
                    }
                }
                Op::JumpIfEqual(slot, constant, target) => {
                    let value = local(fiber, base, slot);
                    if let Some(constant) = closure.unit.consts.get(constant as usize)
                        && self.context.equal(value, constant)?
                    {
                        *pc = target as usize;
                    }
                }
                Op::JumpIfDefined(name, target) => {
                    let global = self.links.get(links).and_then(|links| links.names.get(name as usize));
                    if let Some(index) = global.and_then(|link| link.global)
                        && self.definition(fiber, index).is_some()
                    {
                        *pc = target as usize;
                    }
                }
                Op::Unary(quick, name) => {
                    let result = match fiber.stack.last() {
                        Some(Value::Int(n)) if !self.shadowed => integer(quick, *n),
                        _ => None,
                    };
                    if let (Some(result), Some(top)) = (result, fiber.stack.last_mut()) {
                        *top = result;
                    } else {
                        save(fiber, *pc);
                        call!(self.call_global(fiber, links, name, 1, false));
                    }
                }
                Op::Binary(quick, name) => {
                    if !self.shadowed
                        && let [.., Value::Int(a), Value::Int(b)] = fiber.stack.as_slice()
                        && let Some(result) = integers(quick, *a, *b)
                    {
                        fiber.stack.pop();
                        if let Some(top) = fiber.stack.last_mut() {
                            *top = result;
                        }
                    } else {
                        save(fiber, *pc);
                        call!(self.call_global(fiber, links, name, 2, false));
                    }
                }
                Op::BinaryOfLocals { quick, left, right, name } => {
                    self.context.meter.charge(2)?;
                    let result = match (local(fiber, base, left), local(fiber, base, right)) {
                        (Value::Int(a), Value::Int(b)) if !self.shadowed => integers(quick, *a, *b),
                        _ => None,
                    };
                    if let Some(result) = result {
                        fiber.stack.push(result);
                    } else {
                        let both = [left, right].map(|slot| local(fiber, base, slot).clone());
                        fiber.stack.extend(both);
                        save(fiber, *pc);
                        call!(self.call_global(fiber, links, name, 2, false));
                    }
                }
                Op::BinaryWithInt { quick, slot, number, name } => {
                    // It stands for three instructions, and costs as much.
                    self.context.meter.charge(2)?;
                    let other = i64::from(number);
                    let result = match local(fiber, base, slot) {
                        Value::Int(own) if !self.shadowed => integers(quick, *own, other),
                        _ => None,
                    };
                    if let Some(result) = result {
                        fiber.stack.push(result);
                    } else {
                        let own = local(fiber, base, slot).clone();
                        fiber.stack.extend([own, Value::Int(other)]);
                        save(fiber, *pc);
                        call!(self.call_global(fiber, links, name, 2, false));
                    }
                }
                Op::Call(count) => {
                    save(fiber, *pc);
                    call!(self.call_stacked(fiber, usize::from(count), false));
                }
                Op::TailCall(count) => {
                    save(fiber, *pc);
                    call!(self.call_stacked(fiber, usize::from(count), true));
                }
                Op::CallGlobal(name, count) => {
                    save(fiber, *pc);
                    call!(self.call_global(fiber, links, name, usize::from(count), false));
                }
                Op::TailCallGlobal(name, count) => {
                    save(fiber, *pc);
                    call!(self.call_global(fiber, links, name, usize::from(count), true));
                }
                Op::CallBuiltin(builtin, count) => {
                    save(fiber, *pc);
                    let floor = fiber.stack.len().saturating_sub(usize::from(count));
                    call!(self.call_builtin(fiber, builtin::get(builtin), usize::from(count), floor));
                }
                Op::Vector(count) => {
                    self.context.sequence(count as usize)?;
                    let items = pop_many(fiber, count as usize);
                    fiber.stack.push(Value::Vector(items.into()));
                }
                Op::Set(count) => {
                    self.context.sequence(count as usize)?;
                    let items = pop_many(fiber, count as usize);
                    for item in &items {
                        self.context.key(item)?;
                    }
                    fiber.stack.push(Value::Set(items.into_iter().collect()));
                }
                Op::Map(count) => {
                    let count = count as usize;
                    self.context.sequence(count * 2)?;
                    let from = fiber.stack.len().saturating_sub(count * 2);
                    for key in fiber.stack.iter().skip(from).step_by(2) {
                        self.context.key(key)?;
                    }
                    let mut items = fiber.stack.drain(from..);
                    let map: Map = std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect();
                    drop(items);
                    if map.len() < count {
                        return fault(Reason::RuntimeError, "two keys of this map are equal");
                    }
                    fiber.stack.push(Value::Map(map));
                }
                Op::Closure(proto) => {
                    let value = self.make_closure(fiber, function, closure, base, proto)?;
                    fiber.stack.push(value);
                }
                Op::Define(index) => {
                    self.define(fiber, closure, links, index)?;
                    fiber.stack.extend(closure.unit.defined_name(index).map(FreeName::var));
                }
                Op::DefineOnly(index) => {
                    // It stands for two instructions, and costs as much.
                    self.context.meter.tick()?;
                    self.define(fiber, closure, links, index)?;
                }
                Op::Recur { first, count, target } => {
                    self.context.meter.jump()?;
                    let from = fiber.stack.len().saturating_sub(usize::from(count));
                    for offset in 0..usize::from(count) {
                        let value =
                            fiber.stack.get_mut(from + offset).map(std::mem::take).unwrap_or_default();
                        if let Some(slot) = fiber.stack.get_mut(base + usize::from(first) + offset) {
                            *slot = value;
                        }
                    }
                    fiber.stack.truncate(from);
                    *pc = target as usize;
                }
                Op::Nth(slot, index) => {
                    let value = match local(fiber, base, slot) {
                        Value::Vector(items) => items.get(usize::from(index)).cloned().unwrap_or_default(),
                        Value::Nil => Value::Nil,
                        Value::Str(text) => {
                            let element = text.nth(usize::from(index)).map(Value::from);
                            self.context.meter.visit(usize::from(index).min(text.bytes()) + 1)?;
                            element.unwrap_or_default()
                        }
                        other => return not_sequential(other),
                    };
                    fiber.stack.push(value);
                }
                Op::Rest(slot, index) => {
                    let value = match local(fiber, base, slot) {
                        Value::Vector(items) => {
                            self.context.grow()?;
                            items.slice(usize::from(index), items.len())
                        }
                        Value::Nil => Vector::default(),
                        Value::Str(text) => {
                            let elements = text.count();
                            self.context.sequence(elements)?;
                            text.graphemes().skip(usize::from(index)).map(Value::from).collect()
                        }
                        other => return not_sequential(other),
                    };
                    fiber.stack.push(if value.is_empty() { Value::Nil } else { Value::Vector(value) });
                }
                Op::PairsToMap(slot) => {
                    if let Value::Vector(items) = local(fiber, base, slot) {
                        let map = self.pairs_to_map(&items.clone())?;
                        set(fiber, base, slot, map);
                    }
                }
                Op::Key(slot, key) => {
                    let key = closure.unit.consts.get(key as usize).unwrap_or(&Value::Nil);
                    let value = match local(fiber, base, slot) {
                        Value::Map(map) => {
                            if let Some(value) = map.get(key) {
                                value.clone()
                            } else {
                                if !matches!(key, Value::Nil) {
                                    self.context.note_missing(key, map);
                                }
                                Value::Nil
                            }
                        }
                        Value::Nil => Value::Nil,
                        other => return not_a_map(other),
                    };
                    fiber.stack.push(value);
                }
                Op::KeyOr { slot, key, target } => {
                    let key = closure.unit.consts.get(key as usize).unwrap_or(&Value::Nil);
                    match local(fiber, base, slot) {
                        Value::Map(map) => {
                            if let Some(value) = map.get(key).cloned() {
                                fiber.stack.push(value);
                                *pc = target as usize;
                            }
                        }
                        Value::Nil => {}
                        other => return not_a_map(other),
                    }
                }
                Op::IterStart(slot) => {
                    let collection = fiber.stack.pop().unwrap_or_default();
                    let items = crate::builtin::to_vector(&mut self.context, "for", &collection, 1)?;
                    set(fiber, base, slot, Value::Vector(items));
                    set(fiber, base, slot + 1, Value::Int(0));
                }
                Op::IterNext(slot, target) => {
                    let at = match local(fiber, base, slot + 1) {
                        Value::Int(at) => *at,
                        _ => 0,
                    };
                    let Value::Vector(items) = local(fiber, base, slot) else {
                        *pc = target as usize;
                        continue;
                    };
                    let Some(item) = items.get(at as usize).cloned() else {
                        *pc = target as usize;
                        continue;
                    };
                    set(fiber, base, slot + 1, Value::Int(at + 1));
                    fiber.stack.push(item);
                }
                Op::CountStart(slot) => {
                    let count = fiber.stack.pop().unwrap_or_default();
                    let Some(n) = crate::value::number::index(&count) else {
                        return self.context.wrong("dotimes", "integer", &count, 1);
                    };
                    set(fiber, base, slot, Value::Int(n));
                    set(fiber, base, slot + 1, Value::Int(0));
                }
                Op::CountNext(slot, target) => {
                    let (Value::Int(count), Value::Int(at)) =
                        (local(fiber, base, slot), local(fiber, base, slot + 1))
                    else {
                        *pc = target as usize;
                        continue;
                    };
                    let at = *at;
                    if at >= *count {
                        *pc = target as usize;
                        continue;
                    }
                    set(fiber, base, slot + 1, Value::Int(at + 1));
                    fiber.stack.push(Value::Int(at));
                }
                Op::Collect(slot) => {
                    self.context.meter.reserve(24)?;
                    let value = fiber.stack.pop().unwrap_or_default();
                    if let Some(Value::Vector(items)) = fiber.stack.get_mut(base + usize::from(slot)) {
                        items.push(value);
                    }
                }
                Op::NoMatch(slot) => {
                    let value = super::context::describe(local(fiber, base, slot));
                    return fault(
                        Reason::RuntimeError,
                        format!("no test matches {value}, and there is no default"),
                    );
                }
                Op::Return => {
                    self.leave(fiber);
                    return Ok(None);
                }
                Op::EndReturn => {
                    let value = fiber.stack.pop().unwrap_or_default();
                    if fiber.parent.is_some() {
                        return fault(
                            Reason::RuntimeError,
                            "return cannot end a branch: give the value instead",
                        );
                    }
                    return Ok(Some(Box::new(MachineStop::Returned(value))));
                }
                Op::EndFail => {
                    let value = fiber.stack.pop().unwrap_or_default();
                    let message = self.context.display(&value)?;
                    let mut error = Error::new(Reason::Failed, message);
                    error.value = Some(value);
                    return Err(Box::new(error));
                }
                Op::Pmap(count) => {
                    save(fiber, *pc);
                    self.start_pmap(fiber, usize::from(count))?;
                    return Ok(None);
                }
                Op::Pcalls(count) => {
                    save(fiber, *pc);
                    self.start_pcalls(fiber, usize::from(count))?;
                    return Ok(None);
                }
            }
        }
        fault(Reason::RuntimeError, "the program ran past its end")
    }

    fn pairs_to_map(&mut self, items: &Vector) -> Result<Value, Fault> {
        if items.len() == 1
            && let Some(map @ Value::Map(_)) = items.get(0)
        {
            return Ok(map.clone());
        }
        if items.len() % 2 == 1 {
            let message = format!("keys and values come in pairs, got {} arguments", items.len());
            return fault(Reason::DestructureError, message);
        }
        self.context.sequence(items.len())?;
        let mut values = items.iter();
        let mut entries = Vec::new();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            self.context.key(key)?;
            entries.push((key.clone(), value.clone()));
        }
        Ok(Value::Map(entries.into_iter().collect()))
    }
}

#[inline]
pub(super) fn local(fiber: &Fiber, base: usize, slot: u16) -> &Value {
    const NIL: &Value = &Value::Nil;
    fiber.stack.get(base + usize::from(slot)).unwrap_or(NIL)
}

#[inline]
fn set(fiber: &mut Fiber, base: usize, slot: u16, value: Value) {
    if let Some(place) = fiber.stack.get_mut(base + usize::from(slot)) {
        *place = value;
    }
}

fn pop_many(fiber: &mut Fiber, count: usize) -> Vec<Value> {
    fiber.stack.split_off(fiber.stack.len().saturating_sub(count))
}

fn not_sequential<T>(value: &Value) -> Result<T, Fault> {
    let message = format!(
        "a vector pattern takes a vector, a string or nil apart, not {}",
        super::context::describe(value)
    );
    fault(Reason::DestructureError, message)
}

fn not_a_map<T>(value: &Value) -> Result<T, Fault> {
    let message = format!("a map pattern takes a map or nil apart, not {}", super::context::describe(value));
    fault(Reason::DestructureError, message)
}

/// An operation on two integers; `None` if it overflows or is about something else.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a result that goes through memory costs more than the operation")]
pub(super) fn integers(quick: Quick, a: i64, b: i64) -> Option<Value> {
    Some(match quick {
        Quick::Add => Value::Int(a.checked_add(b)?),
        Quick::Subtract => Value::Int(a.checked_sub(b)?),
        Quick::Multiply => Value::Int(a.checked_mul(b)?),
        Quick::Less => Value::Bool(a < b),
        Quick::Greater => Value::Bool(a > b),
        Quick::LessOrEqual => Value::Bool(a <= b),
        Quick::GreaterOrEqual => Value::Bool(a >= b),
        Quick::Equal => Value::Bool(a == b),
        _ => return None,
    })
}

/// The same on one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as above")]
pub(super) fn integer(quick: Quick, n: i64) -> Option<Value> {
    Some(match quick {
        Quick::Increment => Value::Int(n.checked_add(1)?),
        Quick::Decrement => Value::Int(n.checked_sub(1)?),
        Quick::Even => Value::Bool(n & 1 == 0),
        Quick::Odd => Value::Bool(n & 1 == 1),
        Quick::Zero => Value::Bool(n == 0),
        Quick::Positive => Value::Bool(n > 0),
        Quick::Negative => Value::Bool(n < 0),
        _ => return None,
    })
}
