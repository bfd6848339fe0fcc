//! `fn`, `letfn` and `#()`: functions and their arities.

use super::scope::{Captures, LoopTarget, OpenFunction};
use super::unit::{Arity, Capture, FunctionText, ListPart, Proto};
use super::{CompileTask, Compiler, Op, TailPosition, then};
use crate::error::{Error, Fault, Reason};
use crate::read::{Form, FormId, Items, SourceSpan, Symbol};

/// What follows the required parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RestParameter {
    None,
    /// `& more`.
    Vector,
}

/// The parts of a function.
pub(super) struct Parts {
    /// The name it has for itself.
    pub(super) self_name: Option<Symbol>,
    /// The name errors give it.
    pub(super) shown: Option<Symbol>,
    pub(super) arities: Arities,
    pub(super) written: FunctionText,
    pub(super) span: SourceSpan,
}

/// The parameter vector and the body of each arity. Nearly all functions have one.
pub(super) enum Arities {
    One((FormId, Items)),
    Several(Vec<(FormId, Items)>),
}

impl Arities {
    fn all(&self) -> &[(FormId, Items)] {
        match self {
            Arities::One(only) => std::slice::from_ref(only),
            Arities::Several(all) => all,
        }
    }
}

/// A function about to be compiled.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    proto: u32,
    /// Its list of captures.
    group: usize,
    self_name: Option<Symbol>,
}

/// What is known of an arity besides its code.
#[derive(Clone, Copy)]
pub(super) struct Signature {
    pub(super) required: u16,
    pub(super) rest: RestParameter,
    /// Where its parameters are written.
    pub(super) parameters: SourceSpan,
}

/// What is known of a function when it has been compiled.
#[derive(Clone, Copy)]
pub(super) struct Closed {
    pub(super) span: SourceSpan,
    pub(super) written: FunctionText,
    pub(super) shown: Option<Symbol>,
}

/// Most parameters a `#()` can name.
const MAX_PLACEHOLDER: usize = 20;

const FN_SHAPE: &str = "expected (fn name? [params] body…)";
const LETFN_SHAPE: &str = "expected (letfn [(name [params] body…) …] body…)";

impl Compiler<'_> {
    /// `(fn name? [params] body…)` or `(fn name? ([params] body…) …)`.
    pub(super) fn fn_form(&mut self, id: FormId, arguments: Items) -> Result<(), Fault> {
        let first = self.forms.split_first(arguments);
        let name = first.and_then(|(first, _)| self.forms.name(first));
        let rest = arguments.skip(usize::from(name.is_some()));
        let arities = self.arities(id, rest, FN_SHAPE)?;
        let span = self.forms.span(id);
        self.function(&Parts { self_name: name, shown: name, arities, written: FunctionText::Whole, span })
    }

    /// The arities of a function, from what follows its name; a docstring may stand before the parameters.
    pub(super) fn arities(&self, id: FormId, rest: Items, shape: &str) -> Result<Arities, Fault> {
        let documented =
            self.forms.split_first(rest).is_some_and(|(first, _)| self.forms.string(first).is_some());
        let rest = rest.skip(usize::from(documented));
        match self.forms.split_first(rest) {
            Some((params, body)) if self.forms.vector(params).is_some() => Ok(Arities::One((params, body))),
            Some(_) => {
                let arity = |arity: &FormId| {
                    let parts = self.forms.list(*arity).and_then(|list| self.forms.split_first(list));
                    match parts {
                        Some((params, body)) if self.forms.vector(params).is_some() => Ok((params, body)),
                        _ => self.fail(*arity, Reason::InvalidForm, shape),
                    }
                };
                self.forms.items(rest).iter().map(arity).collect::<Result<_, _>>().map(Arities::Several)
            }
            None => self.fail(id, Reason::InvalidForm, shape),
        }
    }

    /// Compiles a function and pushes a closure of it.
    pub(super) fn function(&mut self, parts: &Parts) -> Result<(), Fault> {
        let (proto, group, span) = (self.reserve_proto(), self.reserve_captures(), parts.span);
        let from = self.tasks.len();
        self.add_member(parts, proto, group, Vec::new())?;
        self.tasks.push(CompileTask::Emit(Op::Closure(proto), span));
        self.turn(from);
        Ok(())
    }

    fn reserve_proto(&mut self) -> u32 {
        self.protos.push(Proto::default());
        (self.protos.len() - 1) as u32
    }

    fn reserve_captures(&mut self) -> usize {
        self.captures.push(Captures::default());
        self.captures.len() - 1
    }

    /// Adds the tasks that compile a function into its prototype, to be turned.
    fn add_member(
        &mut self,
        parts: &Parts,
        proto: u32,
        group: usize,
        siblings: Vec<(Symbol, u32)>,
    ) -> Result<(), Fault> {
        let Parts { self_name, shown, written, span, .. } = *parts;
        let opened = Opened { proto, group, self_name };
        self.tasks.push(if siblings.is_empty() {
            CompileTask::Function(opened)
        } else {
            then(move |c| {
                c.open_function(opened, siblings);
                Ok(())
            })
        });
        let mut variadic = 0;
        for &(params, body) in parts.arities.all() {
            let (_, rest) = self.parameters(params)?;
            variadic += usize::from(rest.is_some());
            if variadic > 1 {
                return self.fail(params, Reason::InvalidForm, "only one arity can be variadic");
            }
            self.tasks.push(CompileTask::Arity(params, body, span));
        }
        self.tasks.push(CompileTask::EndFunction(Closed { span, written, shown }));
        Ok(())
    }

    /// Goes into a function.
    pub(super) fn open_function(&mut self, opened: Opened, siblings: Vec<(Symbol, u32)>) {
        let mut function = OpenFunction::default();
        (function.proto, function.group, function.self_name) = (opened.proto, opened.group, opened.self_name);
        function.siblings = siblings;
        self.functions.enter(function);
    }

    /// The required parameters, and the one after `&`.
    fn parameters(&self, params: FormId) -> Result<(&[FormId], Option<FormId>), Fault> {
        let items = self.forms.items(self.forms.vector(params).unwrap_or_default());
        let ampersand = items.iter().position(|item| self.forms.symbol(*item) == Some("&"));
        let (required, rest) = match ampersand {
            None => (items, None),
            Some(at) => match items.get(at + 1..) {
                Some([rest]) => (items.get(..at).unwrap_or_default(), Some(*rest)),
                _ => return self.fail(params, Reason::InvalidForm, "exactly one name stands after &"),
            },
        };
        if required.len() > 255 {
            return self.fail(params, Reason::InvalidForm, "more than 255 parameters");
        }
        Ok((required, rest))
    }

    /// Compiles one arity of the function.
    pub(super) fn arity(&mut self, params: FormId, body: Items, span: SourceSpan) -> Result<(), Fault> {
        let (required, rest) = self.parameters(params)?;
        let count = required.len() as u16;
        let total = count + u16::from(rest.is_some());
        let first = self.here().slots(total).unwrap_or_default();
        let label = self.here().label();
        self.here().place(label);
        self.here().loops.push(LoopTarget { label, first, count: total });
        let from = self.tasks.len();
        let patterns = self.forms.items(self.forms.vector(params).unwrap_or_default());
        let required = patterns.iter().take(usize::from(count));
        self.tasks
            .extend((first..).zip(required).map(|(slot, pattern)| CompileTask::BindSlot(*pattern, slot)));
        if let Some(pattern) = rest {
            let slot = first + count;
            self.tasks.push(then(move |c| c.bind_slot(pattern, slot, true)));
        }
        let parameters = self.forms.span(params);
        self.add_body(body, TailPosition { recur: true, call: true }, parameters);
        self.tasks.push(CompileTask::Emit(Op::Return, span));
        let rest = if rest.is_some() { RestParameter::Vector } else { RestParameter::None };
        self.tasks.push(CompileTask::EndArity(Signature { required: count, rest, parameters }));
        self.turn(from);
        Ok(())
    }

    /// Finishes the arity that is being compiled.
    pub(super) fn end_arity(&mut self, signature: Signature) {
        let start = self.code.ops.len();
        let slots = self.functions.finish(&mut self.code.ops, &mut self.code.spans);
        self.functions.done.push(Arity {
            required: signature.required,
            variadic: signature.rest == RestParameter::Vector,
            slots,
            code: ListPart::since(start, &self.code.ops),
            parameters: signature.parameters,
        });
    }

    /// Finishes the function that is being compiled, and goes on with the one around it.
    pub(super) fn end_function(&mut self, closed: Closed) {
        let start = self.code.arities.len();
        let done = self.functions.leave(&mut self.code.arities);
        let arities = ListPart::since(start, &self.code.arities);
        // The members of a letfn close over the same values, known when all of them are compiled.
        let captures = if done.siblings.is_empty() { self.captured(done.group) } else { ListPart::default() };
        let name = closed.shown.map(|symbol| self.forms.symbols.word(symbol));
        if let Some(proto) = self.protos.get_mut(done.proto as usize) {
            let (written, span) = (closed.written, closed.span);
            *proto = Proto { name, arities, captures, unwritten: None, written, span };
        }
    }

    /// What the functions of a group hold, as part of the unit.
    fn captured(&mut self, group: usize) -> ListPart {
        let start = self.code.captures.len();
        let captures = self.captures.get_mut(group).map(std::mem::take).unwrap_or_default();
        for (name, source) in captures.all {
            let name = self.forms.symbols.word(name);
            self.code.captures.push(Capture { name, source });
        }
        ListPart::since(start, &self.code.captures)
    }

    /// `(letfn [(name [params] body…) …] body…)`: functions that see each other.
    pub(super) fn letfn(&mut self, id: FormId, arguments: Items, place: TailPosition) -> Result<(), Fault> {
        let Some((bindings, body)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, LETFN_SHAPE);
        };
        let Some(members) = self.forms.vector(bindings).map(|members| self.forms.items(members).to_vec())
        else {
            return self.fail(bindings, Reason::InvalidForm, LETFN_SHAPE);
        };
        let whole = self.forms.span(bindings);
        let group = self.reserve_captures();
        let mut functions = Vec::new();
        for member in members {
            let list = self.forms.list(member).and_then(|list| self.forms.split_first(list));
            let name = list.and_then(|(name, rest)| Some((self.forms.name(name)?, rest)));
            let Some((name, rest)) = name else {
                return self.fail(member, Reason::InvalidForm, LETFN_SHAPE);
            };
            let arities = self.arities(member, rest, LETFN_SHAPE)?;
            functions.push((name, arities, self.forms.span(member), self.reserve_proto()));
        }
        let siblings: Vec<(Symbol, u32)> =
            functions.iter().map(|(name, _, _, proto)| (*name, *proto)).collect();
        let from = self.tasks.len();
        for (name, arities, span, proto) in functions {
            let written = FunctionText::Member(whole);
            let parts = Parts { self_name: None, shown: Some(name), arities, written, span };
            self.add_member(&parts, proto, group, siblings.clone())?;
        }
        self.here().open();
        self.tasks.push(then(move |c| {
            let captures = c.captured(group);
            for (name, proto) in siblings {
                if let Some(proto) = c.protos.get_mut(proto as usize) {
                    proto.captures = captures;
                }
                let slot = c.slot(id)?;
                c.emit(Op::Closure(proto), whole);
                c.emit(Op::Store(slot), whole);
                c.here().declare(name, slot);
            }
            Ok(())
        }));
        self.add_body(body, place, self.forms.span(id));
        self.tasks.push(CompileTask::CloseScope);
        self.turn(from);
        Ok(())
    }

    /// A fresh slot.
    pub(super) fn slot(&mut self, id: FormId) -> Result<u16, Fault> {
        match self.here().slots(1) {
            Some(slot) => Ok(slot),
            None => self.fail(id, Reason::InvalidForm, "more than 65535 locals in one function"),
        }
    }

    /// `#(…)`: a function of `%`, `%1` to `%20` and `%&`.
    pub(super) fn lambda(&mut self, id: FormId, items: Items) -> Result<(), Fault> {
        if self.lambda.is_some() {
            let error = Error::new(Reason::InvalidForm, "#() cannot stand inside #()")
                .hint("write (fn [x] …) for one of them");
            return Err(self.fault(id, error));
        }
        let span = self.forms.span(id);
        let (count, rest) = self.placeholders(items)?;
        let names: Vec<String> = (1..=count).map(|n| format!("%{n}")).collect();
        let names = names.into_iter().chain(rest.then(|| ["&".into(), "%&".into()]).into_iter().flatten());
        let names: Vec<String> = names.collect();
        let text: Box<str> = format!("[{}]", names.join(" ")).into();
        let params: Vec<FormId> = names.into_iter().map(|name| self.forms.add_symbol(name, span)).collect();
        let params = self.forms.add_items(&params);
        let params = self.forms.add(Form::Vector(params), span);
        let body = self.forms.add(Form::List(items), span);
        let arities = Arities::One((params, self.forms.add_items(&[body])));
        let (proto, group) = (self.reserve_proto(), self.reserve_captures());
        let parts = Parts { self_name: None, shown: None, arities, written: FunctionText::Whole, span };
        let from = self.tasks.len();
        self.tasks.push(then(move |c| {
            c.lambda = Some(id);
            Ok(())
        }));
        self.add_member(&parts, proto, group, Vec::new())?;
        self.tasks.push(then(move |c| {
            c.lambda = None;
            if let Some(proto) = c.protos.get_mut(proto as usize) {
                proto.unwritten = Some(text);
            }
            c.emit(Op::Closure(proto), span);
            Ok(())
        }));
        self.turn(from);
        Ok(())
    }

    /// How many parameters the forms of a `#()` name, and whether they name the rest.
    fn placeholders(&self, items: Items) -> Result<(usize, bool), Fault> {
        let (mut count, mut rest) = (0, false);
        let mut forms = self.forms.items(items).to_vec();
        while let Some(id) = forms.pop() {
            let name = self.forms.symbol(id).unwrap_or_default();
            match self.forms.get(id) {
                Form::Symbol(_) => match name.strip_prefix('%') {
                    Some("") => count = count.max(1),
                    Some("&") => rest = true,
                    Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        match digits.parse() {
                            Ok(n) if (1..=MAX_PLACEHOLDER).contains(&n) => count = count.max(n),
                            _ => return self.bad_placeholder(id, name),
                        }
                    }
                    _ => {}
                },
                Form::List(items) | Form::Vector(items) | Form::Map(items) | Form::Set(items) => {
                    forms.extend(self.forms.items(items));
                }
                Form::Quote(inner) | Form::VarQuote(inner) => forms.push(inner),
                Form::Lambda(_) | Form::Literal(_) => {}
            }
        }
        Ok((count, rest))
    }

    fn bad_placeholder<T>(&self, id: FormId, name: &str) -> Result<T, Fault> {
        let message =
            format!("{name} is not a parameter: inside #() there are % and %1 to %{MAX_PLACEHOLDER}, and %&");
        self.fail(id, Reason::InvalidPlaceholder, message)
    }

    /// The local a symbol means: `%` is `%1`. A placeholder outside `#()` is an error.
    pub(super) fn placeholder(&mut self, id: FormId, symbol: Symbol) -> Result<Symbol, Fault> {
        let name = self.forms.symbols.text(symbol);
        match name.strip_prefix('%') {
            Some(rest)
                if rest.is_empty() || rest == "&" || rest.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                if self.lambda.is_none() {
                    return self.bad_placeholder(id, name);
                }
                let first = rest.is_empty();
                Ok(if first { self.forms.symbols.intern("%1".into()) } else { symbol })
            }
            _ => Ok(symbol),
        }
    }
}
