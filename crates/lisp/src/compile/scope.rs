//! Which name means which slot, and what closures have to hold.

use super::op::{Op, Target};
use super::unit::{Arity, Source};
use crate::read::{Span, Symbol};

/// A function that is being compiled.
#[derive(Default)]
pub(super) struct FnContext {
    /// Its prototype in the unit.
    pub(super) proto: u32,
    /// Its list of captures; the members of a `letfn` share one.
    pub(super) group: usize,
    /// The name it has for itself.
    pub(super) self_name: Option<Symbol>,
    /// The other functions of its `letfn`, and itself.
    pub(super) siblings: Vec<(Symbol, u32)>,
    pub(super) done: Vec<Arity>,
    pub(super) current: Body,
}

impl FnContext {
    /// One with room for most functions.
    pub(super) fn with_room() -> Self {
        let mut function = FnContext::default();
        function.current.code.reserve(ROOM);
        function.current.spans.reserve(ROOM);
        function
    }
}

/// Instructions of most functions.
const ROOM: usize = 32;

/// The arity that is being compiled.
#[derive(Default)]
pub(super) struct Body {
    pub(super) code: Vec<Op>,
    pub(super) spans: Vec<Span>,
    labels: Vec<u32>,
    /// The last place that a label stands for.
    last_place: usize,
    locals: Vec<(Symbol, u16)>,
    /// For each open scope: how many locals and slots there were before it.
    scopes: Vec<(usize, u16)>,
    next_slot: u16,
    pub(super) slots: u16,
    /// What `recur` can jump to, innermost last.
    pub(super) loops: Vec<LoopTarget>,
}

#[derive(Clone, Copy)]
pub(super) struct LoopTarget {
    pub(super) label: Target,
    pub(super) first: u16,
    pub(super) count: u16,
}

/// What a name means where it is used.
pub(super) enum Resolved {
    Local(u16),
    Capture(u16),
    SelfFn,
    Sibling(u32),
    Free,
}

/// The captures of a function or of all members of a `letfn`.
#[derive(Default, Clone)]
pub(super) struct Captures {
    /// Each under the name it has in the program.
    pub(super) all: Vec<(Symbol, Source)>,
}

impl Captures {
    fn add(&mut self, name: Symbol, source: Source) -> u16 {
        let known = self.all.iter().position(|known| *known == (name, source));
        let at = known.unwrap_or_else(|| {
            self.all.push((name, source));
            self.all.len() - 1
        });
        at as u16
    }
}

impl Body {
    pub(super) fn emit(&mut self, op: Op, span: Span) {
        let op = self.joined(op);
        self.code.push(op);
        self.spans.push(span);
    }

    /// One instruction instead of two or three, where nothing jumps between them.
    fn joined(&mut self, op: Op) -> Op {
        if let (Op::Pop, Some(Op::Define(definition))) = (op, self.code.last().copied())
            && self.last_place < self.code.len()
        {
            self.code.pop();
            self.spans.pop();
            return Op::DefineOnly(definition);
        }
        let Op::Binary(quick, name) = op else { return op };
        let start = self.code.len().saturating_sub(2);
        let joined = match self.code.as_slice() {
            _ if self.last_place > start => return op,
            [.., Op::Local(slot), Op::Int(number)] => {
                Op::BinaryWithInt { quick, slot: *slot, number: *number, name }
            }
            [.., Op::Local(left), Op::Local(right)] => {
                Op::BinaryOfLocals { quick, left: *left, right: *right, name }
            }
            _ => return op,
        };
        self.code.truncate(start);
        self.spans.truncate(start);
        joined
    }

    /// Gives the code away, and is ready for the next arity.
    pub(super) fn finish(&mut self, code: &mut Vec<Op>, spans: &mut Vec<Span>) -> u16 {
        self.link();
        code.append(&mut self.code);
        spans.append(&mut self.spans);
        self.labels.clear();
        self.locals.clear();
        self.scopes.clear();
        self.loops.clear();
        self.last_place = 0;
        self.next_slot = 0;
        std::mem::take(&mut self.slots)
    }

    pub(super) fn label(&mut self) -> Target {
        self.labels.push(0);
        (self.labels.len() - 1) as Target
    }

    /// The label stands for the next instruction.
    pub(super) fn place(&mut self, label: Target) {
        if let Some(place) = self.labels.get_mut(label as usize) {
            *place = self.code.len() as u32;
            self.last_place = self.code.len();
        }
    }

    /// Puts places where instructions have labels.
    fn link(&mut self) {
        for op in &mut self.code {
            if let Some(target) = op.target_mut() {
                *target = self.labels.get(*target as usize).copied().unwrap_or_default();
            }
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push((self.locals.len(), self.next_slot));
    }

    pub(super) fn close(&mut self) {
        if let Some((locals, slot)) = self.scopes.pop() {
            self.locals.truncate(locals);
            self.next_slot = slot;
        }
    }

    /// So many fresh slots in a row; `None` if there are too many.
    pub(super) fn slots(&mut self, count: u16) -> Option<u16> {
        let first = self.next_slot;
        self.next_slot = first.checked_add(count)?;
        self.slots = self.slots.max(self.next_slot);
        Some(first)
    }

    pub(super) fn declare(&mut self, name: Symbol, slot: u16) {
        self.locals.push((name, slot));
    }

    fn lookup(&self, name: Symbol) -> Option<u16> {
        self.locals.iter().rev().find(|(local, _)| *local == name).map(|(_, slot)| *slot)
    }

    pub(super) fn local_names(&self) -> impl Iterator<Item = Symbol> {
        self.locals.iter().map(|(name, _)| *name)
    }
}

/// Finds a name, and makes every function between its home and its use hold it.
pub(super) fn resolve(
    outer: &[FnContext],
    innermost: &FnContext,
    captures: &mut [Captures],
    name: Symbol,
) -> Resolved {
    for level in (0..=outer.len()).rev() {
        let function = outer.get(level).unwrap_or(innermost);
        let found = if let Some(slot) = function.current.lookup(name) {
            Source::Local(slot)
        } else if let Some((_, proto)) = function.siblings.iter().find(|(sibling, _)| *sibling == name) {
            Source::Sibling(*proto)
        } else if function.self_name == Some(name) {
            Source::SelfFn
        } else {
            continue;
        };
        let mut source = found;
        for inner in outer.iter().chain([innermost]).skip(level + 1) {
            if let Some(list) = captures.get_mut(inner.group) {
                source = Source::Capture(list.add(name, source));
            }
        }
        return match source {
            Source::Local(slot) => Resolved::Local(slot),
            Source::Capture(at) => Resolved::Capture(at),
            Source::SelfFn => Resolved::SelfFn,
            Source::Sibling(proto) => Resolved::Sibling(proto),
        };
    }
    Resolved::Free
}
