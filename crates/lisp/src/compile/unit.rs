//! What the compiler makes: the code of a program with everything it refers to.

use super::op::Op;
use crate::builtin::BuiltinId;
use crate::error::{Error, Fault};
use crate::read::{Span, position};
use crate::value::text::shorten;
use crate::value::{Text, Value};

/// A compiled program. Nothing in it changes while it runs.
pub(crate) struct Unit {
    pub(crate) source: Box<str>,
    pub(crate) protos: Vec<Proto>,
    pub(crate) consts: Vec<Value>,
    pub(crate) names: Vec<Name>,
    pub(crate) defs: Vec<Definition>,
    /// The prototype of the program itself.
    pub(crate) main: u32,
}

/// A name that is no local.
pub(crate) struct Name {
    /// As it is written, without its namespace.
    pub(crate) text: Text,
    pub(crate) space: Space,
    /// The builtin of this name.
    pub(crate) builtin: Option<BuiltinId>,
    /// Where it is first used; `None` if it is only defined.
    pub(crate) used: Option<Span>,
    /// Whether the program defines it.
    pub(crate) defined: bool,
    /// Locals in reach at its first use, for a hint.
    pub(crate) locals: Vec<Box<str>>,
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
    /// A namespace nobody knows.
    Unknown,
}

/// What a `def` says besides its value.
pub(crate) struct Definition {
    pub(crate) name: u32,
    pub(crate) doc: Option<Text>,
    pub(crate) has_value: bool,
}

/// A function as written: what closures are made from.
pub(crate) struct Proto {
    /// What errors call it.
    pub(crate) name: Option<Box<str>>,
    pub(crate) arities: Vec<Arity>,
    pub(crate) captures: Vec<Source>,
    pub(crate) capture_names: Vec<Box<str>>,
    /// How it could be written again.
    pub(crate) written: Written,
    pub(crate) span: Span,
}

/// How the source of a function can be written again as one expression.
#[derive(Clone)]
pub(crate) enum Written {
    /// The form itself is the expression.
    Whole,
    /// `(fn` and what stands in this span.
    Body(Span),
    /// A member of this `letfn` vector.
    Member(Span),
}

/// Where the value of a capture is found when a closure is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
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
    pub(crate) code: Vec<Op>,
    /// The form each instruction comes from.
    pub(crate) spans: Vec<Span>,
    /// The parameters as written, brackets included.
    pub(crate) parameters: Box<str>,
}

impl Arity {
    fn takes(&self, arguments: usize) -> bool {
        let required = usize::from(self.required);
        arguments == required || (self.variadic && arguments > required)
    }
}

impl Proto {
    /// The arity that takes so many arguments, and which it is.
    pub(crate) fn arity_for(&self, arguments: usize) -> Option<(usize, &Arity)> {
        if let [only] = self.arities.as_slice() {
            return only.takes(arguments).then_some((0, only));
        }
        let exact = |(_, arity): &(usize, &Arity)| !arity.variadic && arity.takes(arguments);
        let arities = || self.arities.iter().enumerate();
        arities().find(exact).or_else(|| arities().find(|(_, arity)| arity.takes(arguments)))
    }

    /// All parameter lists, as written.
    pub(crate) fn parameter_text(&self) -> String {
        let texts: Vec<&str> = self.arities.iter().map(|arity| &*arity.parameters).collect();
        texts.join(" ")
    }

    /// How many arguments it takes, in words: `1 or 2 arguments`.
    pub(crate) fn expected(&self) -> String {
        let mut counts: Vec<String> = self
            .arities
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
}

impl Unit {
    pub(crate) fn proto(&self, index: u32) -> &Proto {
        const NONE: &Proto = &Proto {
            name: None,
            arities: Vec::new(),
            captures: Vec::new(),
            capture_names: Vec::new(),
            written: Written::Whole,
            span: Span { start: 0, end: 0 },
        };
        self.protos.get(index as usize).unwrap_or(NONE)
    }

    /// The source text of a span.
    pub(crate) fn text(&self, span: Span) -> &str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Says where an error happened, unless it knows better already.
    pub(crate) fn locate(&self, mut error: Fault, span: Span) -> Fault {
        if error.at.is_none() {
            mark(&mut error, &self.source, span);
        }
        error
    }
}

/// Notes the place of an error, and the form that stands there.
pub(crate) fn mark(error: &mut Error, source: &str, span: Span) {
    error.at = Some(position(source, span.start as usize));
    let text = source.get(span.start as usize..span.end as usize).unwrap_or_default();
    error.form = (!text.is_empty()).then(|| shorten(text, 60).into_owned());
}
