//! What the compiler makes: the code of a program with everything it refers to.

use std::sync::OnceLock;

use super::op::Op;
use crate::builtin::BuiltinId;
use crate::error::{Error, Fault};
use crate::read::{SourceSpan, position};
use crate::value::text::shorten;
use crate::value::{Text, Value, Word};

/// A compiled program. Nothing in it changes while it runs.
pub(crate) struct Unit {
    pub(crate) source: Box<str>,
    pub(crate) code: Code,
    pub(crate) protos: Vec<Proto>,
    pub(crate) consts: Vec<Value>,
    pub(crate) names: Vec<FreeName>,
    /// The names that definitions can have; a name's number among them is its number in a run.
    pub(crate) globals: Vec<Word>,
    /// Their numbers, sorted by name.
    pub(crate) sorted: Vec<u32>,
    pub(crate) defs: Vec<Definition>,
    /// The prototype of the program itself.
    pub(crate) main: u32,
}

/// A name that is no local.
pub(crate) struct FreeName {
    /// As it is written, without its namespace.
    pub(crate) text: Word,
    /// The same as the value of its var, once a run has made it.
    pub(super) var: OnceLock<Text>,
    pub(crate) space: Space,
    /// The builtin of this name.
    pub(crate) builtin: Option<BuiltinId>,
    /// Its number among the names that can be defined.
    pub(crate) global: Option<u32>,
    /// Where it is first used; `None` if it is only defined.
    pub(crate) used: Option<SourceSpan>,
    /// Whether the program defines it.
    pub(crate) defined: bool,
    /// Locals in reach at its first use, for a hint.
    pub(crate) locals: Vec<Word>,
}

impl FreeName {
    /// The var of this name: all of them share one text.
    pub(crate) fn var(&self) -> Value {
        Value::Var(self.var.get_or_init(|| self.text.as_str().into()).clone())
    }
}

/// Where a name is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Space {
    /// Definitions, builtins, tools, data, in this order.
    Bare,
    Data,
    Tool,
    User,
    /// Only among builtins.
    Builtin,
    /// `*1`, `*2`, `*3`.
    History(u8),
    /// An unknown namespace.
    Unknown,
}

/// What a `def` says besides its value.
pub(crate) struct Definition {
    pub(crate) name: u32,
    pub(crate) doc: Option<Text>,
    pub(crate) has_value: bool,
    /// Whether its name is that of a builtin with an instruction of its own.
    pub(crate) shadows: bool,
}

/// The instructions of all functions one after the other, with what belongs to them.
pub(crate) struct Code {
    pub(super) ops: Vec<Op>,
    /// The form each instruction comes from.
    pub(super) spans: Vec<SourceSpan>,
    pub(super) arities: Vec<Arity>,
    pub(super) captures: Vec<Capture>,
}

impl Code {
    /// With room for the code of a source of so many bytes.
    pub(super) fn for_source(bytes: usize) -> Self {
        let room = bytes / 4 + 8;
        Code {
            ops: Vec::with_capacity(room),
            spans: Vec::with_capacity(room),
            arities: Vec::new(),
            captures: Vec::new(),
        }
    }
}

/// A part of one of these lists.
#[derive(Clone, Copy, Default)]
pub(crate) struct ListPart {
    start: u32,
    end: u32,
}

impl ListPart {
    /// What has been added to a list since it had this length.
    pub(super) fn since<T>(start: usize, list: &[T]) -> ListPart {
        ListPart { start: start as u32, end: list.len() as u32 }
    }

    #[inline]
    fn of<T>(self, list: &[T]) -> &[T] {
        list.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A function as written: what closures are made from.
#[derive(Default)]
pub(crate) struct Proto {
    /// What errors call it.
    pub(crate) name: Option<Word>,
    pub(super) arities: ListPart,
    pub(super) captures: ListPart,
    /// The parameters of a `#()`, which are not written.
    pub(super) unwritten: Option<Box<str>>,
    /// How it could be written again.
    pub(crate) written: FunctionText,
    pub(crate) span: SourceSpan,
}

/// A value a closure holds.
pub(crate) struct Capture {
    pub(crate) name: Word,
    pub(crate) source: CaptureSource,
}

/// How the source of a function can be written again as one expression.
#[derive(Clone, Copy, Default)]
pub(crate) enum FunctionText {
    /// The form itself is the expression.
    #[default]
    Whole,
    /// `(fn` and what stands in this span.
    Body(SourceSpan),
    /// A member of this `letfn` vector.
    Member(SourceSpan),
}

/// Where the value of a capture is found when a closure is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaptureSource {
    Local(u16),
    Capture(u16),
    SelfFn,
    Sibling(u32),
}

/// The code for one number of arguments.
pub(crate) struct Arity {
    /// Parameters before `&`.
    pub(crate) required: u16,
    pub(crate) variadic: bool,
    /// Slots for parameters and locals.
    pub(crate) slots: u16,
    /// Its instructions, among those of all functions.
    pub(crate) code: ListPart,
    /// The parameters as written, brackets included.
    pub(super) parameters: SourceSpan,
}

impl Arity {
    fn takes(&self, arguments: usize) -> bool {
        let required = usize::from(self.required);
        arguments == required || (self.variadic && arguments > required)
    }
}

impl Unit {
    pub(crate) fn proto(&self, index: u32) -> &Proto {
        const NONE: &Proto = &Proto {
            name: None,
            arities: ListPart { start: 0, end: 0 },
            captures: ListPart { start: 0, end: 0 },
            unwritten: None,
            written: FunctionText::Whole,
            span: SourceSpan { start: 0, end: 0 },
        };
        self.protos.get(index as usize).unwrap_or(NONE)
    }

    /// The name that a definition is for.
    pub(crate) fn defined_name(&self, index: u32) -> Option<&FreeName> {
        self.names.get(self.defs.get(index as usize)?.name as usize)
    }

    pub(crate) fn arities(&self, proto: &Proto) -> &[Arity] {
        proto.arities.of(&self.code.arities)
    }

    pub(crate) fn captures(&self, proto: &Proto) -> &[Capture] {
        proto.captures.of(&self.code.captures)
    }

    /// The instructions of an arity.
    #[inline]
    pub(crate) fn ops(&self, code: ListPart) -> &[Op] {
        code.of(&self.code.ops)
    }

    /// The form that one of them comes from.
    pub(crate) fn span(&self, code: ListPart, pc: usize) -> SourceSpan {
        code.of(&self.code.spans).get(pc).copied().unwrap_or_default()
    }

    /// The arity of a function that takes so many arguments.
    #[inline]
    pub(crate) fn arity_for(&self, proto: &Proto, arguments: usize) -> Option<&Arity> {
        let arities = self.arities(proto);
        if let [only] = arities {
            return only.takes(arguments).then_some(only);
        }
        let exact = arities.iter().find(|arity| !arity.variadic && arity.takes(arguments));
        exact.or_else(|| arities.iter().find(|arity| arity.takes(arguments)))
    }

    /// All parameter lists of a function, as written.
    pub(crate) fn parameters(&self, proto: &Proto) -> String {
        if let Some(text) = &proto.unwritten {
            return text.to_string();
        }
        let texts: Vec<&str> = self.arities(proto).iter().map(|arity| self.text(arity.parameters)).collect();
        texts.join(" ")
    }

    /// How many arguments a function takes, in words: `1 or 2 arguments`.
    pub(crate) fn expected(&self, proto: &Proto) -> String {
        let mut counts: Vec<String> = self
            .arities(proto)
            .iter()
            .map(|arity| {
                if arity.variadic {
                    format!("at least {}", arity.required)
                } else {
                    arity.required.to_string()
                }
            })
            .collect();
        let last = counts.pop().unwrap_or_default();
        let plural = if last == "1" && counts.is_empty() { "" } else { "s" };
        let counts = if counts.is_empty() { last } else { format!("{} or {last}", counts.join(", ")) };
        format!("{counts} argument{plural}")
    }

    /// The source text of a span.
    pub(crate) fn text(&self, span: SourceSpan) -> &str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Says where an error happened, unless it knows better already.
    pub(crate) fn locate(&self, mut error: Fault, span: SourceSpan) -> Fault {
        if error.at.is_none() {
            mark(&mut error, &self.source, span);
        }
        error
    }
}

/// Notes the place of an error, and the form that stands there.
pub(crate) fn mark(error: &mut Error, source: &str, span: SourceSpan) {
    error.at = Some(position(source, span.start as usize));
    let text = source.get(span.start as usize..span.end as usize).unwrap_or_default();
    error.form = (!text.is_empty()).then(|| shorten(text, 60).into_owned());
}
