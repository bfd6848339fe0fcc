//! The instructions a program is compiled to, for a machine with a stack of values and slots for locals.

use crate::builtin::BuiltinId;

/// A place in the code; while compiling a label, afterwards an index.
pub(crate) type JumpTarget = u32;

/// One instruction. "Pushes" and "pops" are about the stack of values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Pushes a constant of the unit.
    Const(u32),
    /// Pushes a small integer.
    Int(i32),
    Nil,
    True,
    False,
    /// Pushes what is in a slot.
    Local(u16),
    /// Pops into a slot.
    Store(u16),
    /// Pushes a value the closure holds.
    Capture(u16),
    /// Pushes the closure that is running.
    SelfFn,
    /// Pushes another function of the same `letfn`.
    Sibling(u32),
    /// Pushes what a free name stands for now.
    Global(u32),
    /// Pushes the var of a name.
    Var(u32),
    Pop,
    Jump(JumpTarget),
    /// Pops; jumps unless it is true.
    JumpIfFalse(JumpTarget),
    /// Jumps, keeping the value, if it is false; else pops it.
    AndJump(JumpTarget),
    /// Jumps, keeping the value, if it is true; else pops it.
    OrJump(JumpTarget),
    /// Jumps if the slot is nil.
    JumpIfNil(u16, JumpTarget),
    /// Jumps if the slot equals a constant.
    JumpIfEqual(u16, u32, JumpTarget),
    /// Jumps if a name has a value among the definitions.
    JumpIfDefined(u32, JumpTarget),
    /// Calls the function below so many arguments.
    Call(u16),
    /// The same in tail position: the frame is given up first.
    TailCall(u16),
    /// Calls what a free name stands for.
    CallGlobal(u32, u16),
    TailCallGlobal(u32, u16),
    /// Calls a builtin whatever its name stands for now.
    CallBuiltin(BuiltinId, u16),
    /// An arithmetic builtin with one or two arguments, done in place unless a definition shadows its name.
    Unary(Quick, u32),
    Binary(Quick, u32),
    /// The same of a slot and a small integer: `(- n 1)`.
    BinaryWithInt {
        quick: Quick,
        slot: u16,
        number: i32,
        name: u32,
    },
    /// The same of two slots: `(+ a b)`.
    BinaryOfLocals {
        quick: Quick,
        left: u16,
        right: u16,
        name: u32,
    },
    /// Pops so many values and pushes a collection of them; for a map, keys and values in turn.
    Vector(u32),
    Map(u32),
    Set(u32),
    /// Pushes a closure over a prototype of the unit.
    Closure(u32),
    /// Defines a name; pops the value if the definition has one, and pushes the var.
    Define(u32),
    /// The same where the var itself is not used.
    DefineOnly(u32),
    /// Pops so many values into the slots from the first on, and jumps.
    Recur {
        first: u16,
        count: u16,
        target: JumpTarget,
    },
    /// Pushes the element with this index of the sequence in a slot, nil if there is none.
    Nth(u16, u16),
    /// Pushes what follows the first so many elements, nil if nothing does.
    Rest(u16, u16),
    /// Makes the slot a map, if it holds the pairs of a rest parameter.
    PairsToMap(u16),
    /// Pushes the value under a constant key of the map in a slot, nil if there is none.
    Key(u16, u32),
    /// If the key is there, pushes its value and jumps; else goes on to the default.
    KeyOr {
        slot: u16,
        key: u32,
        target: JumpTarget,
    },
    /// Pops a collection into a slot as a vector, and starts the count in the next slot.
    IterStart(u16),
    /// Pushes the next element of the collection in a slot, or jumps.
    IterNext(u16, JumpTarget),
    /// Pops a count into a slot, and starts at zero in the next.
    CountStart(u16),
    /// Pushes the next number below the count in a slot, or jumps.
    CountNext(u16, JumpTarget),
    /// Pops a value onto the vector in a slot.
    Collect(u16),
    /// Fails: nothing matched the value in a slot.
    NoMatch(u16),
    /// Ends the function with the value on top.
    Return,
    /// Pops and ends the program with that value.
    EndReturn,
    /// Pops and ends the program as failed.
    EndFail,
    /// Runs branches: a function and its collections, or functions.
    Pmap(u16),
    Pcalls(u16),
}

/// Builtins so common that they have instructions of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quick {
    Add,
    Subtract,
    Multiply,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    Increment,
    Decrement,
    Even,
    Odd,
    Zero,
    Positive,
    Negative,
}

impl Quick {
    /// The names of all of them.
    pub(crate) const NAMES: [&str; 15] =
        ["+", "-", "*", "<", ">", "<=", ">=", "=", "inc", "dec", "even?", "odd?", "zero?", "pos?", "neg?"];

    /// The instruction for a call of this name with this many arguments.
    pub(crate) fn of(name: &str, arguments: usize) -> Option<Quick> {
        Some(match (name, arguments) {
            ("+", 2) => Quick::Add,
            ("-", 2) => Quick::Subtract,
            ("*", 2) => Quick::Multiply,
            ("<", 2) => Quick::Less,
            (">", 2) => Quick::Greater,
            ("<=", 2) => Quick::LessOrEqual,
            (">=", 2) => Quick::GreaterOrEqual,
            ("=", 2) => Quick::Equal,
            ("inc", 1) => Quick::Increment,
            ("dec", 1) => Quick::Decrement,
            ("even?", 1) => Quick::Even,
            ("odd?", 1) => Quick::Odd,
            ("zero?", 1) => Quick::Zero,
            ("pos?", 1) => Quick::Positive,
            ("neg?", 1) => Quick::Negative,
            _ => return None,
        })
    }
}

impl Op {
    /// Where this instruction may jump to.
    pub(crate) fn target_mut(&mut self) -> Option<&mut JumpTarget> {
        match self {
            Op::Jump(target)
            | Op::JumpIfFalse(target)
            | Op::AndJump(target)
            | Op::OrJump(target)
            | Op::JumpIfNil(_, target)
            | Op::JumpIfEqual(_, _, target)
            | Op::JumpIfDefined(_, target)
            | Op::Recur { target, .. }
            | Op::KeyOr { target, .. }
            | Op::IterNext(_, target)
            | Op::CountNext(_, target) => Some(target),
            _ => None,
        }
    }
}
