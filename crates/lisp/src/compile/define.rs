//! `def`, `defn`, `defonce`, and vars.

use super::function::Parts;
use super::unit::{Definition, FunctionText};
use super::{CompileTask, Compiler, Op, Quick, VALUE, is_special};
use crate::error::{Fault, Reason};
use crate::read::{FormId, Items, SourceSpan, Symbol};
use crate::value::Text;

impl Compiler<'_> {
    /// The name a definition is for.
    fn defined_name(&self, id: FormId, arguments: Items, shape: &str) -> Result<Symbol, Fault> {
        let Some((name, _)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, shape);
        };
        let Some(symbol) = self.forms.name(name) else {
            return self.fail(name, Reason::InvalidForm, shape);
        };
        let text = self.forms.symbols.text(symbol);
        if text.as_bytes().contains(&b'/') && text != "/" {
            let message = format!("{text} cannot be defined: definitions have no namespace");
            return self.fail(name, Reason::InvalidForm, message);
        }
        if is_special(text) || matches!(text, "*1" | "*2" | "*3") {
            return self.fail(
                name,
                Reason::InvalidForm,
                format!("{text} cannot be defined: the language uses it"),
            );
        }
        Ok(symbol)
    }

    fn definition(&mut self, name: Symbol, doc: Option<Text>, has_value: bool) -> Op {
        let name = self.name(name, None);
        let mut shadows = false;
        if let Some(entry) = self.names.get_mut(name as usize) {
            entry.defined = true;
            shadows = Quick::NAMES.contains(&entry.text.as_str());
        }
        self.defs.push(Definition { name, doc, has_value, shadows });
        Op::Define((self.defs.len() - 1) as u32)
    }

    /// `(def name)`, `(def name value)`, `(def name "doc" value)`; `defonce` only where there is no value yet.
    pub(super) fn def(&mut self, id: FormId, keyword: &str, arguments: Items) -> Result<(), Fault> {
        let shape = match keyword {
            "defonce" => "expected (defonce name docstring? value)",
            _ => "expected (def name docstring? value)",
        };
        let name = self.defined_name(id, arguments, shape)?;
        let span = self.forms.span(id);
        let (doc, value) = match *self.forms.items(arguments) {
            [_] => (None, None),
            [_, value] => (None, Some(value)),
            [_, doc, value] if self.forms.string(doc).is_some() => (self.forms.string(doc), Some(value)),
            _ => return self.fail(id, Reason::InvalidForm, shape),
        };
        let doc = doc.map(Text::from);
        let define = self.definition(name, doc, value.is_some());
        let index = self.name(name, None);
        let from = self.tasks.len();
        let once = (keyword == "defonce").then(|| (self.here().label(), self.here().label()));
        if let Some((defined, _)) = once {
            self.tasks.push(CompileTask::Emit(Op::JumpIfDefined(index, defined), span));
        }
        self.tasks.extend(value.map(|value| CompileTask::Form(value, VALUE)));
        self.tasks.push(CompileTask::Emit(define, span));
        if let Some((defined, end)) = once {
            self.tasks.push(CompileTask::Emit(Op::Jump(end), span));
            self.tasks.push(CompileTask::Place(defined));
            self.tasks.push(CompileTask::Emit(Op::Var(index), span));
            self.tasks.push(CompileTask::Place(end));
        }
        self.turn(from);
        Ok(())
    }

    /// `(defn name "doc"? [params] body…)` or with several arities.
    pub(super) fn defn(&mut self, id: FormId, arguments: Items) -> Result<(), Fault> {
        const SHAPE: &str = "expected (defn name docstring? [params] body…)";
        let name = self.defined_name(id, arguments, SHAPE)?;
        let rest = arguments.skip(1);
        let doc = match *self.forms.items(rest) {
            [first, _, ..] => self.forms.string(first).map(Text::from),
            _ => None,
        };
        let arities = self.arities(id, rest, SHAPE)?;
        let span = self.forms.span(id);
        let written = self.forms.split_first(rest.skip(usize::from(doc.is_some())));
        let start = written.map_or(span.start, |(first, _)| self.forms.span(first).start);
        let written = FunctionText::Body(SourceSpan { start, end: span.end });
        let define = self.definition(name, doc, true);
        self.tasks.push(CompileTask::Emit(define, span));
        self.function(&Parts { self_name: None, shown: Some(name), arities, written, span })
    }

    /// `(var x)` and `#'x`.
    pub(super) fn var(&mut self, id: FormId, target: FormId) -> Result<(), Fault> {
        let Some(symbol) = self.forms.name(target) else {
            return self.fail(id, Reason::InvalidForm, "expected (var name)");
        };
        let span = self.forms.span(id);
        let bare = match self.forms.symbols.text(symbol).strip_prefix("user/").map(str::to_string) {
            Some(bare) => self.forms.symbols.intern(bare.into()),
            None => symbol,
        };
        let index = self.name(bare, Some(span));
        self.emit(Op::Var(index), span);
        Ok(())
    }
}
