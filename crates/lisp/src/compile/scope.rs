//! Which name means which slot, and what closures have to hold.

use super::op::{JumpTarget, Op, Quick};
use super::unit::{Arity, CaptureSource};
use crate::read::{SourceSpan, Symbol};

/// The functions around the current place, with what is known of them so far.
///
/// What belongs to the arity that is being compiled is at the end of lists that all of them share: a function inside a
/// function adds to them, and takes what it added away when it is done. So they are allocated once for a program.
pub(super) struct Functions {
    /// The innermost one.
    pub(super) current: OpenFunction,
    /// The others, outermost first.
    pub(super) outer: Vec<OpenFunction>,
    /// Instructions, with the forms they come from.
    code: Vec<(Op, SourceSpan)>,
    /// The place in the arity's code that each label stands for.
    labels: Vec<u32>,
    locals: Vec<(Symbol, u16)>,
    /// For each open scope: how many locals and slots there were before it.
    scopes: Vec<(usize, u16)>,
    /// What `recur` can jump to, innermost last.
    pub(super) loops: Vec<LoopTarget>,
    /// The arities that are compiled, of functions that are not.
    pub(super) done: Vec<Arity>,
}

/// A function that is being compiled.
#[derive(Default)]
pub(super) struct OpenFunction {
    /// Its prototype in the unit.
    pub(super) proto: u32,
    /// Its list of captures; the members of a `letfn` share one.
    pub(super) group: usize,
    /// The name it has for itself.
    pub(super) self_name: Option<Symbol>,
    /// The other functions of its `letfn`, and itself.
    pub(super) siblings: Vec<(Symbol, u32)>,
    start: FunctionStart,
    /// The last place in the code that a label stands for.
    last_place: usize,
    next_slot: u16,
    slots: u16,
}

/// Where in the lists a function begins.
#[derive(Default, Clone, Copy)]
struct FunctionStart {
    code: usize,
    labels: usize,
    locals: usize,
    scopes: usize,
    loops: usize,
    done: usize,
}

/// Instructions of most programs before they are put in their place.
const ROOM: usize = 48;

#[derive(Clone, Copy)]
pub(super) struct LoopTarget {
    pub(super) label: JumpTarget,
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
    pub(super) all: Vec<(Symbol, CaptureSource)>,
}

impl Captures {
    fn add(&mut self, name: Symbol, source: CaptureSource) -> u16 {
        let known = self.all.iter().position(|known| *known == (name, source));
        let at = known.unwrap_or_else(|| {
            self.all.push((name, source));
            self.all.len() - 1
        });
        at as u16
    }
}

impl Functions {
    /// Only the program itself.
    pub(super) fn new() -> Self {
        Functions {
            current: OpenFunction::default(),
            outer: Vec::new(),
            code: Vec::with_capacity(ROOM),
            labels: Vec::with_capacity(16),
            locals: Vec::with_capacity(16),
            scopes: Vec::new(),
            loops: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Goes into a function.
    pub(super) fn enter(&mut self, mut function: OpenFunction) {
        function.start = FunctionStart {
            code: self.code.len(),
            labels: self.labels.len(),
            locals: self.locals.len(),
            scopes: self.scopes.len(),
            loops: self.loops.len(),
            done: self.done.len(),
        };
        function.last_place = self.code.len();
        self.outer.push(std::mem::replace(&mut self.current, function));
    }

    /// Goes back to the function around the current one, which is compiled; its arities go to a list.
    pub(super) fn leave(&mut self, arities: &mut Vec<Arity>) -> OpenFunction {
        arities.extend(self.done.drain(self.current.start.done..));
        let outer = self.outer.pop().unwrap_or_default();
        std::mem::replace(&mut self.current, outer)
    }

    pub(super) fn emit(&mut self, op: Op, span: SourceSpan) {
        let op = match op {
            Op::Pop => self.without_var(op),
            Op::Binary(quick, name) => self.with_operands(quick, name),
            _ => op,
        };
        self.code.push((op, span));
    }

    /// A definition whose var is popped is one instruction, unless something jumps between.
    fn without_var(&mut self, pop: Op) -> Op {
        match self.code.last() {
            Some((Op::Define(definition), _)) if self.current.last_place < self.code.len() => {
                let joined = Op::DefineOnly(*definition);
                self.code.pop();
                joined
            }
            _ => pop,
        }
    }

    /// Arithmetic on a local and a small integer or another local is one instruction, unless something jumps between.
    fn with_operands(&mut self, quick: Quick, name: u32) -> Op {
        let start = self.code.len().saturating_sub(2);
        let joined = match self.code.as_slice() {
            _ if self.current.last_place > start => return Op::Binary(quick, name),
            [.., (Op::Local(slot), _), (Op::Int(number), _)] => {
                Op::BinaryWithInt { quick, slot: *slot, number: *number, name }
            }
            [.., (Op::Local(left), _), (Op::Local(right), _)] => {
                Op::BinaryOfLocals { quick, left: *left, right: *right, name }
            }
            _ => return Op::Binary(quick, name),
        };
        self.code.truncate(start);
        joined
    }

    /// Gives the code of an arity away, and is ready for the next; how many slots it has.
    pub(super) fn finish(&mut self, code: &mut Vec<Op>, spans: &mut Vec<SourceSpan>) -> u16 {
        let start = self.current.start;
        self.link();
        let own = self.code.get(start.code..).unwrap_or_default();
        code.extend(own.iter().map(|(op, _)| *op));
        spans.extend(own.iter().map(|(_, span)| *span));
        self.code.truncate(start.code);
        self.labels.truncate(start.labels);
        self.locals.truncate(start.locals);
        self.scopes.truncate(start.scopes);
        self.loops.truncate(start.loops);
        self.current.last_place = start.code;
        self.current.next_slot = 0;
        std::mem::take(&mut self.current.slots)
    }

    pub(super) fn label(&mut self) -> JumpTarget {
        self.labels.push(0);
        (self.labels.len() - self.current.start.labels - 1) as JumpTarget
    }

    /// The label stands for the next instruction.
    pub(super) fn place(&mut self, label: JumpTarget) {
        let FunctionStart { code, labels, .. } = self.current.start;
        if let Some(place) = self.labels.get_mut(labels + label as usize) {
            *place = (self.code.len() - code) as u32;
            self.current.last_place = self.code.len();
        }
    }

    /// Puts places where instructions have labels.
    fn link(&mut self) {
        let FunctionStart { code, labels, .. } = self.current.start;
        let places = self.labels.get(labels..).unwrap_or_default();
        for (op, _) in self.code.get_mut(code..).unwrap_or_default() {
            if let Some(target) = op.target_mut() {
                *target = places.get(*target as usize).copied().unwrap_or_default();
            }
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push((self.locals.len(), self.current.next_slot));
    }

    pub(super) fn close(&mut self) {
        if let Some((locals, slot)) = self.scopes.pop() {
            self.locals.truncate(locals);
            self.current.next_slot = slot;
        }
    }

    /// So many fresh slots in a row; `None` if there are too many.
    pub(super) fn slots(&mut self, count: u16) -> Option<u16> {
        let function = &mut self.current;
        let first = function.next_slot;
        function.next_slot = first.checked_add(count)?;
        function.slots = function.slots.max(function.next_slot);
        Some(first)
    }

    pub(super) fn declare(&mut self, name: Symbol, slot: u16) {
        self.locals.push((name, slot));
    }

    /// The locals in reach, those of the outermost function first.
    pub(super) fn local_names(&self) -> impl Iterator<Item = Symbol> {
        self.locals.iter().map(|(name, _)| *name)
    }

    /// Finds a name, and makes every function between its home and its use hold it.
    pub(super) fn resolve(&self, captures: &mut [Captures], name: Symbol) -> Resolved {
        let mut locals = self.locals.as_slice();
        for level in (0..=self.outer.len()).rev() {
            let function = self.outer.get(level).unwrap_or(&self.current);
            let (before, own) = locals.split_at_checked(function.start.locals).unwrap_or_default();
            locals = before;
            let found = if let Some((_, slot)) = own.iter().rev().find(|(local, _)| *local == name) {
                CaptureSource::Local(*slot)
            } else if let Some((_, proto)) = function.siblings.iter().find(|(sibling, _)| *sibling == name) {
                CaptureSource::Sibling(*proto)
            } else if function.self_name == Some(name) {
                CaptureSource::SelfFn
            } else {
                continue;
            };
            let mut source = found;
            for inner in self.outer.iter().chain([&self.current]).skip(level + 1) {
                if let Some(list) = captures.get_mut(inner.group) {
                    source = CaptureSource::Capture(list.add(name, source));
                }
            }
            return match source {
                CaptureSource::Local(slot) => Resolved::Local(slot),
                CaptureSource::Capture(at) => Resolved::Capture(at),
                CaptureSource::SelfFn => Resolved::SelfFn,
                CaptureSource::Sibling(proto) => Resolved::Sibling(proto),
            };
        }
        Resolved::Free
    }
}
