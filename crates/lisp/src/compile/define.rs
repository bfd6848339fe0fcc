//! `def`, `defn`, `defonce`, and vars.

use super::function::Parts;
use super::unit::{Definition, Written};
use super::{Compiler, Op, Task, VALUE, is_special};
use crate::error::{Fault, Reason};
use crate::read::{FormId, Span};
use crate::value::Text;

impl Compiler<'_> {
    /// The name a definition is for.
    fn defined_name(&self, id: FormId, name: Option<&FormId>, shape: &str) -> Result<Box<str>, Fault> {
        let Some(name) = name else { return self.fail(id, Reason::InvalidForm, shape) };
        let Some(text) = self.forms.symbol(*name) else {
            return self.fail(*name, Reason::InvalidForm, shape);
        };
        if text.contains('/') && text != "/" {
            let message = format!("{text} cannot be defined: definitions have no namespace");
            return self.fail(*name, Reason::InvalidForm, message);
        }
        if is_special(text) || matches!(text, "*1" | "*2" | "*3") {
            return self.fail(
                *name,
                Reason::InvalidForm,
                format!("{text} cannot be defined: the language uses it"),
            );
        }
        Ok(text.into())
    }

    fn definition(&mut self, name: &str, doc: Option<Text>, has_value: bool) -> Op {
        let name = self.name(name, None);
        if let Some(entry) = self.names.get_mut(name as usize) {
            entry.defined = true;
        }
        self.defs.push(Definition { name, doc, has_value });
        Op::Define((self.defs.len() - 1) as u32)
    }

    /// `(def name)`, `(def name value)`, `(def name "doc" value)`; `defonce` only where there is no value yet.
    pub(super) fn def(&mut self, id: FormId, keyword: &str, arguments: &[FormId]) -> Result<(), Fault> {
        let shape = match keyword {
            "defonce" => "expected (defonce name docstring? value)",
            _ => "expected (def name docstring? value)",
        };
        let name = self.defined_name(id, arguments.first(), shape)?;
        let span = self.forms.span(id);
        let (doc, value) = match arguments {
            [_] => (None, None),
            [_, value] => (None, Some(*value)),
            [_, doc, value] if self.forms.string(*doc).is_some() => (self.forms.string(*doc), Some(*value)),
            _ => return self.fail(id, Reason::InvalidForm, shape),
        };
        let doc = doc.map(Text::from);
        let define = self.definition(&name, doc, value.is_some());
        let mut tasks = Vec::new();
        let (defined, end) = (self.here().label(), self.here().label());
        if keyword == "defonce" {
            let index = self.name(&name, None);
            tasks.push(Task::Emit(Op::JumpIfDefined(index, defined), span));
        }
        // A function takes the name it is defined under, in errors.
        tasks.extend(value.map(|value| Task::Form(value, VALUE)));
        tasks.push(Task::Emit(define, span));
        if keyword == "defonce" {
            let index = self.name(&name, None);
            tasks.push(Task::Emit(Op::Jump(end), span));
            tasks.push(Task::Place(defined));
            tasks.push(Task::Emit(Op::Var(index), span));
            tasks.push(Task::Place(end));
        }
        self.queue(tasks);
        Ok(())
    }

    /// `(defn name "doc"? [params] body…)` or with several arities.
    pub(super) fn defn(&mut self, id: FormId, arguments: &[FormId]) -> Result<(), Fault> {
        const SHAPE: &str = "expected (defn name docstring? [params] body…)";
        let name = self.defined_name(id, arguments.first(), SHAPE)?;
        let rest = arguments.get(1..).unwrap_or_default();
        let doc = match rest {
            [first, _, ..] => self.forms.string(*first).map(Text::from),
            _ => None,
        };
        let arities = self.arities(id, rest, SHAPE)?;
        let span = self.forms.span(id);
        let first = if doc.is_some() { rest.get(1) } else { rest.first() };
        let start = first.map_or(span.start, |form| self.forms.span(*form).start);
        let written = Written::Body(Span { start, end: span.end });
        let define = self.definition(&name, doc, true);
        self.queue([Task::Emit(define, span)]);
        self.function(Parts { self_name: None, shown: Some(name), arities, written, span })
    }

    /// `(var x)` and `#'x`.
    pub(super) fn var(&mut self, id: FormId, target: FormId) -> Result<(), Fault> {
        let Some(name) = self.forms.symbol(target).map(Box::<str>::from) else {
            return self.fail(id, Reason::InvalidForm, "expected (var name)");
        };
        let span = self.forms.span(id);
        let bare = name.strip_prefix("user/").unwrap_or(&name);
        let index = self.name(bare, Some(span));
        self.emit(Op::Var(index), span);
        Ok(())
    }
}
