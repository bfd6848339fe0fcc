//! Threading: `->`, `->>`, `as->`, `cond->`, `cond->>`, `some->`, `some->>`.

use super::{Compiler, Op, Place, Task, VALUE};
use crate::error::{Fault, Reason};
use crate::read::{Form, FormId, Span};

/// Where the threaded value goes in each step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    First,
    Last,
}

impl Compiler<'_> {
    /// A step with the threaded form put in.
    fn step(&mut self, step: FormId, value: FormId, position: Position) -> Result<FormId, Fault> {
        let span = self.forms.span(step);
        let items = match self.forms.get(step) {
            Form::Symbol(_) => vec![step, value],
            Form::Literal(_) if self.forms.keyword(step).is_some() => vec![step, value],
            Form::Lambda(_) => {
                return self.fail(
                    step,
                    Reason::InvalidThreadForm,
                    "a function as a step needs parentheses of its own: (#(…))",
                );
            }
            Form::List(items) if items.len() > 0 => {
                let mut items = self.forms.items(items).to_vec();
                let at = if position == Position::First { 1 } else { items.len() };
                items.insert(at, value);
                items
            }
            _ => {
                let message = "a step is a symbol, a keyword or a list";
                return self.fail(step, Reason::InvalidThreadForm, message);
            }
        };
        let items = self.forms.add_items(&items);
        Ok(self.forms.add(Form::List(items), span))
    }

    /// `->` and `->>`: the steps, nested.
    pub(super) fn thread(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        position: Position,
        place: Place,
    ) -> Result<(), Fault> {
        let Some((first, steps)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidThreadForm, "a value and its steps are expected");
        };
        let mut form = *first;
        for step in steps {
            form = self.step(*step, form, position)?;
        }
        self.queue([Task::Form(form, place)]);
        Ok(())
    }

    /// `(as-> value name step…)`.
    pub(super) fn thread_as(&mut self, id: FormId, arguments: &[FormId], place: Place) -> Result<(), Fault> {
        let [value, name, steps @ ..] = arguments else {
            return self.fail(id, Reason::InvalidThreadForm, "expected (as-> value name step…)");
        };
        let name = *name;
        self.here().open();
        let mut tasks = vec![Task::Form(*value, VALUE), Task::Bind(name)];
        if let Some((last, before)) = steps.split_last() {
            for step in before {
                tasks.push(Task::Form(*step, VALUE));
                tasks.push(Task::Bind(name));
            }
            tasks.push(Task::Form(*last, place));
        } else {
            tasks.push(Task::Form(name, VALUE));
        }
        tasks.push(Task::CloseScope);
        self.queue(tasks);
        Ok(())
    }

    /// A form that means what is in a slot.
    fn held(&mut self, slot: u16, span: Span) -> FormId {
        let form = self.temporary(span);
        if let Some(symbol) = self.forms.name(form) {
            self.here().declare(symbol, slot);
        }
        form
    }

    /// `some->` and `some->>`: stops at nil.
    pub(super) fn thread_some(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        position: Position,
    ) -> Result<(), Fault> {
        let Some((first, steps)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidThreadForm, "a value and its steps are expected");
        };
        let span = self.forms.span(id);
        let end = self.here().label();
        self.here().open();
        let slot = self.slot(id)?;
        let value = self.held(slot, span);
        let mut tasks = vec![Task::Form(*first, VALUE), Task::Emit(Op::Store(slot), span)];
        for step in steps {
            let step = self.step(*step, value, position)?;
            tasks.push(Task::Emit(Op::JumpIfNil(slot, end), span));
            tasks.push(Task::Form(step, VALUE));
            tasks.push(Task::Emit(Op::Store(slot), span));
        }
        tasks.extend([Task::Place(end), Task::Emit(Op::Local(slot), span), Task::CloseScope]);
        self.queue(tasks);
        Ok(())
    }

    /// `cond->` and `cond->>`: takes the steps whose test holds.
    pub(super) fn thread_cond(
        &mut self,
        id: FormId,
        name: &str,
        arguments: &[FormId],
        position: Position,
    ) -> Result<(), Fault> {
        let Some((first, clauses)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidThreadForm, format!("expected ({name} value test step …)"));
        };
        if clauses.len() % 2 == 1 {
            let message = format!("{name} needs pairs of test and step, got {} forms", clauses.len());
            return self.fail(id, Reason::InvalidCondForm, message);
        }
        let span = self.forms.span(id);
        self.here().open();
        let slot = self.slot(id)?;
        let value = self.held(slot, span);
        let mut tasks = vec![Task::Form(*first, VALUE), Task::Emit(Op::Store(slot), span)];
        for clause in clauses.chunks_exact(2) {
            let [test, step] = clause else { continue };
            let step = self.step(*step, value, position)?;
            let next = self.here().label();
            tasks.push(Task::Form(*test, VALUE));
            tasks.push(Task::Emit(Op::JumpIfFalse(next), span));
            tasks.push(Task::Form(step, VALUE));
            tasks.push(Task::Emit(Op::Store(slot), span));
            tasks.push(Task::Place(next));
        }
        tasks.extend([Task::Emit(Op::Local(slot), span), Task::CloseScope]);
        self.queue(tasks);
        Ok(())
    }
}
