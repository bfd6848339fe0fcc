//! Choosing: `if` and its relatives, `cond`, `condp`, `case`, `and`, `or`.

use super::{CompileTask, Compiler, Op, TailPosition, VALUE, then};
use crate::error::{Fault, Reason};
use crate::read::{Form, FormId, Items, SourceSpan};
use crate::value::Value;

/// What a binding has to be for the first branch to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchTest {
    Truthy,
    NotNil,
    /// The first element of a collection that has one.
    First,
}

/// What is done in one case of a choice.
#[derive(Clone, Copy)]
pub(super) enum BranchBody {
    Form(FormId),
    Body(Items),
    Nothing,
}

impl Compiler<'_> {
    /// Adds the tasks of a branch, to be turned.
    fn add_branch(&mut self, branch: BranchBody, place: TailPosition, span: SourceSpan) {
        match branch {
            BranchBody::Form(form) => self.tasks.push(CompileTask::Form(form, place)),
            BranchBody::Body(body) => self.add_body(body, place, span),
            BranchBody::Nothing => self.tasks.push(CompileTask::Emit(Op::Nil, span)),
        }
    }

    /// `condition ? then : otherwise`, for conditions that are wanted true or false.
    fn choose(
        &mut self,
        condition: FormId,
        wanted: bool,
        (then, otherwise): (BranchBody, BranchBody),
        place: TailPosition,
        span: SourceSpan,
    ) {
        let (other, end) = (self.here().label(), self.here().label());
        let (first, second) = if wanted { (then, otherwise) } else { (otherwise, then) };
        let from = self.tasks.len();
        self.tasks.push(CompileTask::Form(condition, VALUE));
        self.tasks.push(CompileTask::Emit(Op::JumpIfFalse(other), span));
        self.add_branch(first, place, span);
        self.tasks.push(CompileTask::Emit(Op::Jump(end), span));
        self.tasks.push(CompileTask::Place(other));
        self.add_branch(second, place, span);
        self.tasks.push(CompileTask::Place(end));
        self.turn(from);
    }

    pub(super) fn if_form(
        &mut self,
        id: FormId,
        arguments: Items,
        wanted: bool,
        place: TailPosition,
    ) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let (condition, then, otherwise) = match *self.forms.items(arguments) {
            [condition, then] => (condition, then, BranchBody::Nothing),
            [condition, then, otherwise] => (condition, then, BranchBody::Form(otherwise)),
            _ => {
                let name = if wanted { "if" } else { "if-not" };
                let message = format!("expected ({name} condition then else?)");
                return self.fail(id, Reason::InvalidForm, message);
            }
        };
        self.choose(condition, wanted, (BranchBody::Form(then), otherwise), place, span);
        Ok(())
    }

    pub(super) fn when_form(
        &mut self,
        id: FormId,
        arguments: Items,
        wanted: bool,
        place: TailPosition,
    ) -> Result<(), Fault> {
        let Some((condition, body)) = self.forms.split_first(arguments) else {
            let name = if wanted { "when" } else { "when-not" };
            return self.fail(id, Reason::InvalidForm, format!("expected ({name} condition body…)"));
        };
        let span = self.forms.span(id);
        self.choose(condition, wanted, (BranchBody::Body(body), BranchBody::Nothing), place, span);
        Ok(())
    }

    /// `if-let if-some when-let when-some when-first`: a choice by a value that is also bound.
    pub(super) fn bound_choice(
        &mut self,
        id: FormId,
        name: &str,
        arguments: Items,
        wanted: BranchTest,
        place: TailPosition,
    ) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let when = name.starts_with("when");
        let shape = if when {
            format!("expected ({name} [name value] body…)")
        } else {
            format!("expected ({name} [name value] then else?)")
        };
        let Some((bindings, rest)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, shape);
        };
        let pairs = self.pairs(bindings, &shape)?;
        let [pattern, value] = *self.forms.items(pairs) else {
            return self.fail(bindings, Reason::InvalidForm, format!("{shape}: exactly one binding"));
        };
        let (body, otherwise) = match *self.forms.items(rest) {
            _ if when => (BranchBody::Body(rest), BranchBody::Nothing),
            [then] => (BranchBody::Form(then), BranchBody::Nothing),
            [then, otherwise] => (BranchBody::Form(then), BranchBody::Form(otherwise)),
            _ => return self.fail(id, Reason::InvalidForm, shape),
        };
        let (other, end) = (self.here().label(), self.here().label());
        self.here().open();
        let from = self.tasks.len();
        self.tasks.push(CompileTask::Form(value, VALUE));
        self.tasks.push(then(move |c| {
            let slot = c.slot(pattern)?;
            match wanted {
                BranchTest::Truthy => {
                    c.emit(Op::Store(slot), span);
                    c.emit(Op::Local(slot), span);
                    c.emit(Op::JumpIfFalse(other), span);
                }
                BranchTest::NotNil => {
                    c.emit(Op::Store(slot), span);
                    c.emit(Op::JumpIfNil(slot, other), span);
                }
                BranchTest::First => {
                    let iteration = c.slot(pattern)?;
                    c.slot(pattern)?;
                    c.emit(Op::IterStart(iteration), span);
                    c.emit(Op::IterNext(iteration, other), span);
                    c.emit(Op::Store(slot), span);
                }
            }
            c.bind_slot(pattern, slot, false)
        }));
        self.add_branch(body, place, span);
        self.tasks.push(CompileTask::CloseScope);
        self.tasks.push(CompileTask::Emit(Op::Jump(end), span));
        self.tasks.push(CompileTask::Place(other));
        self.add_branch(otherwise, place, span);
        self.tasks.push(CompileTask::Place(end));
        self.turn(from);
        Ok(())
    }

    pub(super) fn cond(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        place: TailPosition,
    ) -> Result<(), Fault> {
        if arguments.len() % 2 == 1 {
            let message = format!("cond needs an even number of forms, got {}", arguments.len());
            return self.fail(id, Reason::InvalidCondForm, message);
        }
        let span = self.forms.span(id);
        let end = self.here().label();
        let mut tasks = Vec::new();
        for pair in arguments.chunks_exact(2) {
            let [condition, value] = pair else { continue };
            let next = self.here().label();
            // `:else` and other constants need no test.
            let always = self.forms.literal(*condition).is_some_and(Value::is_truthy);
            if !always {
                tasks.push(CompileTask::Form(*condition, VALUE));
                tasks.push(CompileTask::Emit(Op::JumpIfFalse(next), span));
            }
            tasks.push(CompileTask::Form(*value, place));
            tasks.push(CompileTask::Emit(Op::Jump(end), span));
            tasks.push(CompileTask::Place(next));
        }
        tasks.push(CompileTask::Emit(Op::Nil, span));
        tasks.push(CompileTask::Place(end));
        self.queue(tasks);
        Ok(())
    }

    pub(super) fn and_or(&mut self, id: FormId, name: &str, arguments: &[FormId], place: TailPosition) {
        let span = self.forms.span(id);
        let Some((last, before)) = arguments.split_last() else {
            return self.emit(if name == "and" { Op::True } else { Op::Nil }, span);
        };
        let end = self.here().label();
        let jump = if name == "and" { Op::AndJump(end) } else { Op::OrJump(end) };
        let mut tasks = Vec::new();
        for form in before {
            tasks.push(CompileTask::Form(*form, VALUE));
            tasks.push(CompileTask::Emit(jump, span));
        }
        tasks.push(CompileTask::Form(*last, place));
        tasks.push(CompileTask::Place(end));
        self.queue(tasks);
    }

    /// `(case value test result … default?)` with literal tests; a list groups several.
    pub(super) fn case(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        place: TailPosition,
    ) -> Result<(), Fault> {
        let Some((value, clauses)) = arguments.split_first() else {
            return self.fail(id, Reason::InvalidForm, "expected (case value test result … default?)");
        };
        let span = self.forms.span(id);
        let (value, end) = (*value, self.here().label());
        let mut tests: Vec<(Value, super::op::JumpTarget)> = Vec::new();
        let mut results = Vec::new();
        let mut pairs = clauses.chunks_exact(2);
        for pair in pairs.by_ref() {
            let [test, result] = pair else { continue };
            let label = self.here().label();
            let alternatives = match self.forms.get(*test) {
                Form::List(items) => self.forms.items(items).to_vec(),
                _ => vec![*test],
            };
            for test in alternatives {
                match self.forms.data(test) {
                    Ok(constant) if tests.iter().any(|(known, _)| *known == constant) => {
                        return self.fail(test, Reason::InvalidForm, "this test is there twice");
                    }
                    Ok(constant) => tests.push((constant, label)),
                    Err(culprit) => {
                        return self.fail(
                            culprit,
                            Reason::InvalidForm,
                            "tests of case are literals; use cond or condp",
                        );
                    }
                }
            }
            results.push((label, *result));
        }
        let default = pairs.remainder().first().copied();
        self.here().open();
        let mut tasks = vec![CompileTask::Form(value, VALUE)];
        tasks.push(then(move |c| {
            let slot = c.slot(value)?;
            c.emit(Op::Store(slot), span);
            for (constant, label) in tests {
                let constant = c.constant(constant);
                c.emit(Op::JumpIfEqual(slot, constant, label), span);
            }
            c.queue([match default {
                Some(default) => CompileTask::Form(default, place),
                None => CompileTask::Emit(Op::NoMatch(slot), span),
            }]);
            Ok(())
        }));
        for (label, result) in results {
            tasks.push(CompileTask::Emit(Op::Jump(end), span));
            tasks.push(CompileTask::Place(label));
            tasks.push(CompileTask::Form(result, place));
        }
        tasks.push(CompileTask::Place(end));
        tasks.push(CompileTask::CloseScope);
        self.queue(tasks);
        Ok(())
    }

    /// `(condp predicate value test result … default?)`, also `test :>> function`.
    pub(super) fn condp(
        &mut self,
        id: FormId,
        arguments: &[FormId],
        place: TailPosition,
    ) -> Result<(), Fault> {
        let [predicate, value, clauses @ ..] = arguments else {
            return self.fail(
                id,
                Reason::InvalidForm,
                "expected (condp predicate value test result … default?)",
            );
        };
        let span = self.forms.span(id);
        let (predicate, value, clauses) = (*predicate, *value, clauses.to_vec());
        let [function, subject, found] = [(); 3].map(|()| self.temporary(span));
        let end = self.here().label();
        self.here().open();
        let mut tasks = vec![
            CompileTask::Form(predicate, VALUE),
            CompileTask::Bind(function),
            CompileTask::Form(value, VALUE),
            CompileTask::Bind(subject),
        ];
        let mut clauses = clauses.into_iter().peekable();
        let mut default = None;
        while let Some(test) = clauses.next() {
            let Some(mut result) = clauses.next() else {
                default = Some(test);
                break;
            };
            let call = self.forms.add_items(&[function, test, subject]);
            let call = self.forms.add(Form::List(call), span);
            let next = self.here().label();
            let piped = self.forms.keyword(result) == Some(">>");
            tasks.push(CompileTask::Form(call, VALUE));
            if piped {
                let Some(function) = clauses.next() else {
                    return self.fail(id, Reason::InvalidForm, "a function stands after :>>");
                };
                let call = self.forms.add_items(&[function, found]);
                result = self.forms.add(Form::List(call), self.forms.span(function));
                tasks.push(CompileTask::Bind(found));
                tasks.push(CompileTask::Form(found, VALUE));
            }
            tasks.push(CompileTask::Emit(Op::JumpIfFalse(next), span));
            tasks.push(CompileTask::Form(result, place));
            tasks.push(CompileTask::Emit(Op::Jump(end), span));
            tasks.push(CompileTask::Place(next));
        }
        match default {
            Some(default) => tasks.push(CompileTask::Form(default, place)),
            None => tasks.extend([
                CompileTask::Form(subject, VALUE),
                then(move |c| {
                    let slot = c.slot(subject)?;
                    c.emit(Op::Store(slot), span);
                    c.emit(Op::NoMatch(slot), span);
                    Ok(())
                }),
            ]),
        }
        tasks.push(CompileTask::Place(end));
        tasks.push(CompileTask::CloseScope);
        self.queue(tasks);
        Ok(())
    }
}
