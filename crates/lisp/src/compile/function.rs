//! `fn`, `letfn` and `#()`: functions and their arities.

use std::rc::Rc;

use super::scope::{Body, Captures, FnContext, LoopTarget};
use super::unit::{Arity, Proto, Written};
use super::{Compiler, Op, Place, Task, then};
use crate::error::{Error, Fault, Reason};
use crate::read::{Form, FormId, Span};

/// What follows the required parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    /// `& more`.
    Vector,
}

/// The parts of a function.
pub(super) struct Parts {
    /// The name it has for itself.
    pub(super) self_name: Option<Box<str>>,
    /// The name errors give it.
    pub(super) shown: Option<Box<str>>,
    /// The parameter vector and the body of each arity.
    pub(super) arities: Vec<(FormId, Vec<FormId>)>,
    pub(super) written: Written,
    pub(super) span: Span,
}

/// Most parameters a `#()` can name.
const MAX_PLACEHOLDER: usize = 20;

const FN_SHAPE: &str = "expected (fn name? [params] body…)";
const LETFN_SHAPE: &str = "expected (letfn [(name [params] body…) …] body…)";

impl Compiler<'_> {
    /// `(fn name? [params] body…)` or `(fn name? ([params] body…) …)`.
    pub(super) fn fn_form(&mut self, id: FormId, arguments: &[FormId]) -> Result<(), Fault> {
        let mut rest = arguments;
        let mut name: Option<Box<str>> = None;
        if let Some((first, after)) = rest.split_first()
            && let Some(symbol) = self.forms.symbol(*first)
        {
            (name, rest) = (Some(symbol.into()), after);
        }
        let arities = self.arities(id, rest, FN_SHAPE)?;
        let span = self.forms.span(id);
        self.function(Parts { self_name: name.clone(), shown: name, arities, written: Written::Whole, span })
    }

    /// The arities of a function, from what follows its name; a docstring may stand before the parameters.
    pub(super) fn arities(
        &self,
        id: FormId,
        rest: &[FormId],
        shape: &str,
    ) -> Result<Vec<(FormId, Vec<FormId>)>, Fault> {
        let rest = match rest.split_first() {
            Some((first, after)) if self.forms.string(*first).is_some() => after,
            _ => rest,
        };
        match rest.split_first() {
            Some((params, body)) if self.forms.vector(*params).is_some() => {
                Ok(vec![(*params, body.to_vec())])
            }
            Some(_) => rest
                .iter()
                .map(|arity| match self.forms.list(*arity).and_then(<[FormId]>::split_first) {
                    Some((params, body)) if self.forms.vector(*params).is_some() => {
                        Ok((*params, body.to_vec()))
                    }
                    _ => self.fail(*arity, Reason::InvalidForm, shape),
                })
                .collect(),
            None => self.fail(id, Reason::InvalidForm, shape),
        }
    }

    /// Compiles a function and pushes a closure of it.
    pub(super) fn function(&mut self, parts: Parts) -> Result<(), Fault> {
        let (proto, group, span) = (self.reserve_proto(), self.reserve_captures(), parts.span);
        let mut tasks = self.member(parts, proto, group, Vec::new())?;
        tasks.push(Task::Emit(Op::Closure(proto), span));
        self.queue(tasks);
        Ok(())
    }

    fn reserve_proto(&mut self) -> u32 {
        self.protos.push(None);
        (self.protos.len() - 1) as u32
    }

    fn reserve_captures(&mut self) -> usize {
        self.captures.push(Captures::default());
        self.captures.len() - 1
    }

    /// The tasks that compile a function into its prototype.
    fn member(
        &mut self,
        parts: Parts,
        proto: u32,
        group: usize,
        siblings: Vec<(Box<str>, u32)>,
    ) -> Result<Vec<Task>, Fault> {
        let Parts { self_name, shown, arities, written, span } = parts;
        let mut variadic = 0;
        let mut tasks = vec![then(move |c| {
            let inner =
                FnContext { proto, group, self_name, siblings, done: Vec::new(), current: Body::default() };
            c.outer.push(std::mem::replace(&mut c.function, inner));
            Ok(())
        })];
        for (params, body) in arities {
            let (required, rest) = self.parameters(params)?;
            variadic += usize::from(rest.is_some());
            if variadic > 1 {
                return self.fail(params, Reason::InvalidForm, "only one arity can be variadic");
            }
            let text: Box<str> = self.text(params).into();
            tasks.push(then(move |c| {
                c.arity(params, required, rest, &body, text, span);
                Ok(())
            }));
        }
        tasks.push(then(move |c| {
            c.end_function(span, &written, shown);
            Ok(())
        }));
        Ok(tasks)
    }

    fn text(&self, id: FormId) -> &str {
        let span = self.forms.span(id);
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// The required parameters, and the one after `&`.
    fn parameters(&self, params: FormId) -> Result<(Vec<FormId>, Option<FormId>), Fault> {
        let items = self.forms.vector(params).unwrap_or_default();
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
        Ok((required.to_vec(), rest))
    }

    /// Compiles one arity of the function.
    fn arity(
        &mut self,
        params: FormId,
        required: Vec<FormId>,
        rest: Option<FormId>,
        body: &[FormId],
        text: Box<str>,
        span: Span,
    ) {
        let count = required.len() as u16;
        let total = count + u16::from(rest.is_some());
        let first = self.here().slots(total).unwrap_or_default();
        let label = self.here().label();
        self.here().place(label);
        self.here().loops.push(LoopTarget { label, first, count: total });
        let variadic = if rest.is_some() { Rest::Vector } else { Rest::None };
        let mut tasks = Vec::new();
        for (slot, pattern) in (first..).zip(required.into_iter().chain(rest)) {
            tasks.push(if rest == Some(pattern) {
                then(move |c| c.bind_slot(pattern, slot, true))
            } else {
                Task::BindSlot(pattern, slot)
            });
        }
        tasks.extend(self.body(body, Place { recur: true, call: true }, self.forms.span(params)));
        tasks.push(Task::Emit(Op::Return, span));
        tasks.push(then(move |c| {
            c.end_arity(count, variadic, text);
            Ok(())
        }));
        self.queue(tasks);
    }

    /// Finishes the arity that is being compiled.
    pub(super) fn end_arity(&mut self, required: u16, rest: Rest, parameters: Box<str>) {
        let mut body = std::mem::take(&mut self.function.current);
        body.link();
        self.function.done.push(Arity {
            required,
            variadic: rest == Rest::Vector,
            slots: body.slots,
            code: body.code,
            spans: body.spans,
            parameters,
        });
    }

    /// Finishes the function that is being compiled, and goes on with the one around it.
    pub(super) fn end_function(&mut self, span: Span, written: &Written, shown: Option<Box<str>>) {
        let done = std::mem::take(&mut self.function);
        if let Some(proto) = self.protos.get_mut(done.proto as usize) {
            let captures = self.captures.get(done.group).cloned().unwrap_or_default();
            *proto = Some(Proto {
                name: shown,
                arities: done.done,
                captures: captures.sources,
                capture_names: captures.names,
                written: written.clone(),
                span,
            });
        }
        self.function = self.outer.pop().unwrap_or_default();
    }

    /// `(letfn [(name [params] body…) …] body…)`: functions that see each other.
    pub(super) fn letfn(&mut self, id: FormId, arguments: &[FormId], place: Place) -> Result<(), Fault> {
        let Some((bindings, body)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidForm, LETFN_SHAPE);
        };
        let Some(members) = self.forms.vector(*bindings).map(<[FormId]>::to_vec) else {
            return self.fail(*bindings, Reason::InvalidForm, LETFN_SHAPE);
        };
        let whole = self.forms.span(*bindings);
        let group = self.reserve_captures();
        let mut functions = Vec::new();
        for member in members {
            let list = self.forms.list(member).and_then(<[FormId]>::split_first);
            let Some((name, rest)) = list.map(|(name, rest)| (*name, rest.to_vec())) else {
                return self.fail(member, Reason::InvalidForm, LETFN_SHAPE);
            };
            let Some(name) = self.forms.symbol(name).map(Box::<str>::from) else {
                return self.fail(member, Reason::InvalidForm, LETFN_SHAPE);
            };
            let arities = self.arities(member, &rest, LETFN_SHAPE)?;
            functions.push((name, arities, self.forms.span(member), self.reserve_proto()));
        }
        let siblings: Vec<(Box<str>, u32)> =
            functions.iter().map(|(name, _, _, proto)| (name.clone(), *proto)).collect();
        let mut tasks = Vec::new();
        for (name, arities, span, proto) in functions {
            let written = Written::Member(whole);
            let parts = Parts { self_name: None, shown: Some(name), arities, written, span };
            tasks.extend(self.member(parts, proto, group, siblings.clone())?);
        }
        self.here().open();
        tasks.push(then(move |c| {
            // All members close over the same values, known only now that all of them are compiled.
            let captures = c.captures.get(group).cloned().unwrap_or_default();
            for (name, proto) in siblings {
                if let Some(Some(proto)) = c.protos.get_mut(proto as usize) {
                    proto.captures.clone_from(&captures.sources);
                    proto.capture_names.clone_from(&captures.names);
                }
                let slot = c.slot(id)?;
                c.emit(Op::Closure(proto), whole);
                c.emit(Op::Store(slot), whole);
                c.here().declare(&name, slot);
            }
            Ok(())
        }));
        tasks.extend(self.body(body, place, self.forms.span(id)));
        tasks.push(Task::CloseScope);
        self.queue(tasks);
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
    pub(super) fn lambda(&mut self, id: FormId, items: &Rc<[FormId]>) -> Result<(), Fault> {
        if self.lambda.is_some() {
            let error = Error::new(Reason::InvalidForm, "#() cannot stand inside #()")
                .hint("write (fn [x] …) for one of them");
            return Err(self.fault(id, error));
        }
        let span = self.forms.span(id);
        let (count, rest) = self.placeholders(items)?;
        let mut params: Vec<FormId> =
            (1..=count).map(|n| self.forms.add(Form::Symbol(format!("%{n}").into()), span)).collect();
        if rest {
            params.push(self.forms.add(Form::Symbol("&".into()), span));
            params.push(self.forms.add(Form::Symbol("%&".into()), span));
        }
        let text: Vec<String> =
            (1..=count).map(|n| format!("%{n}")).chain(rest.then(|| "& %&".into())).collect();
        let text: Box<str> = format!("[{}]", text.join(" ")).into();
        let params = self.forms.add(Form::Vector(params.into()), span);
        let body = self.forms.add(Form::List(Rc::clone(items)), span);
        let (proto, group) = (self.reserve_proto(), self.reserve_captures());
        let parts = Parts {
            self_name: None,
            shown: None,
            arities: vec![(params, vec![body])],
            written: Written::Whole,
            span,
        };
        let mut tasks = vec![then(move |c| {
            c.lambda = Some(id);
            Ok(())
        })];
        tasks.extend(self.member(parts, proto, group, Vec::new())?);
        tasks.push(then(move |c| {
            c.lambda = None;
            if let Some(Some(proto)) = c.protos.get_mut(proto as usize) {
                proto.arities.iter_mut().for_each(|arity| arity.parameters.clone_from(&text));
            }
            c.emit(Op::Closure(proto), span);
            Ok(())
        }));
        self.queue(tasks);
        Ok(())
    }

    /// How many parameters the forms of a `#()` name, and whether they name the rest.
    fn placeholders(&self, items: &[FormId]) -> Result<(usize, bool), Fault> {
        let (mut count, mut rest) = (0, false);
        let mut forms = items.to_vec();
        while let Some(id) = forms.pop() {
            match self.forms.get(id) {
                Form::Symbol(name) => match name.strip_prefix('%') {
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
                    forms.extend(items.iter());
                }
                Form::Quote(inner) | Form::VarQuote(inner) => forms.push(*inner),
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
    pub(super) fn placeholder<'n>(&self, id: FormId, name: &'n str) -> Result<&'n str, Fault> {
        match name.strip_prefix('%') {
            Some(rest)
                if rest.is_empty() || rest == "&" || rest.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                if self.lambda.is_none() {
                    return self.bad_placeholder(id, name);
                }
                Ok(if rest.is_empty() { "%1" } else { name })
            }
            _ => Ok(name),
        }
    }
}
