//! Threading: `->`, `->>`, `as->`, `cond->`, `cond->>`, `some->`, `some->>`.

use super::{CompileTask, Compiler, Op, TailPosition, VALUE};
use crate::error::{Fault, Reason};
use crate::read::{Form, FormId, SourceSpan};

/// Where the threaded value goes in each step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadPosition {
    First,
    Last,
}

impl Compiler<'_> {
    /// A step with the threaded form put in.
    fn step(&mut self, step: FormId, value: FormId, position: ThreadPosition) -> Result<FormId, Fault> {
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
                let at = if position == ThreadPosition::First { 1 } else { items.len() };
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
        position: ThreadPosition,
        place: TailPosition,
    ) -> Result<(), Fault> {
        let Some((first, steps)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidThreadForm, "a value and its steps are expected");
        };
        let mut form = *first;
        for step in steps {
            form = self.step(*step, form, position)?;
        }
        self.queue([CompileTask::Form(form, place)]);
        Ok(())
    }

    /// `(as-> value name step…)`.
    pub(super) fn thread_as(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        place: TailPosition,
    ) -> Result<(), Fault> {
        let [value, name, steps @ ..] = arguments else {
            return self.fail(id, Reason::InvalidThreadForm, "expected (as-> value name step…)");
        };
        let name = *name;
        self.here().open();
        let mut tasks = vec![CompileTask::Form(*value, VALUE), CompileTask::Bind(name)];
        if let Some((last, before)) = steps.split_last() {
            for step in before {
                tasks.push(CompileTask::Form(*step, VALUE));
                tasks.push(CompileTask::Bind(name));
            }
            tasks.push(CompileTask::Form(*last, place));
        } else {
            tasks.push(CompileTask::Form(name, VALUE));
        }
        tasks.push(CompileTask::CloseScope);
        self.queue(tasks);
        Ok(())
    }

    /// A form that means what is in a slot.
    fn held(&mut self, slot: u16, span: SourceSpan) -> FormId {
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
        position: ThreadPosition,
    ) -> Result<(), Fault> {
        let Some((first, steps)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidThreadForm, "a value and its steps are expected");
        };
        let span = self.forms.span(id);
        let end = self.here().label();
        self.here().open();
        let slot = self.slot(id)?;
        let value = self.held(slot, span);
        let mut tasks = vec![CompileTask::Form(*first, VALUE), CompileTask::Emit(Op::Store(slot), span)];
        for step in steps {
            let step = self.step(*step, value, position)?;
            tasks.push(CompileTask::Emit(Op::JumpIfNil(slot, end), span));
            tasks.push(CompileTask::Form(step, VALUE));
            tasks.push(CompileTask::Emit(Op::Store(slot), span));
        }
        tasks.extend([
            CompileTask::Place(end),
            CompileTask::Emit(Op::Local(slot), span),
            CompileTask::CloseScope,
        ]);
        self.queue(tasks);
        Ok(())
    }

    /// `cond->` and `cond->>`: takes the steps whose test holds.
    pub(super) fn thread_cond(
        &mut self,
        id: FormId,
        name: &str,
        arguments: &[FormId],
        position: ThreadPosition,
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
        let mut tasks = vec![CompileTask::Form(*first, VALUE), CompileTask::Emit(Op::Store(slot), span)];
        for clause in clauses.chunks_exact(2) {
            let [test, step] = clause else { continue };
            let step = self.step(*step, value, position)?;
            let next = self.here().label();
            tasks.push(CompileTask::Form(*test, VALUE));
            tasks.push(CompileTask::Emit(Op::JumpIfFalse(next), span));
            tasks.push(CompileTask::Form(step, VALUE));
            tasks.push(CompileTask::Emit(Op::Store(slot), span));
            tasks.push(CompileTask::Place(next));
        }
        tasks.extend([CompileTask::Emit(Op::Local(slot), span), CompileTask::CloseScope]);
        self.queue(tasks);
        Ok(())
    }
}
