//! `for`, `doseq` and `dotimes`.

use super::op::JumpTarget;
use super::{CompileTask, Compiler, Op, VALUE, then};
use crate::error::{Fault, Reason};
use crate::read::{FormId, Items, SourceSpan};

/// A part of a comprehension's binding vector.
#[derive(Clone, Copy)]
enum Clause {
    Each(FormId, FormId),
    When(FormId),
    While(FormId),
    Let(FormId),
}

impl Compiler<'_> {
    /// `(for [x coll …] body)` gives a vector; `(doseq [x coll …] body…)` gives nil.
    pub(super) fn comprehension(&mut self, id: FormId, name: &str, arguments: Items) -> Result<(), Fault> {
        let collects = name == "for";
        let shape = if collects {
            "expected (for [name collection …] body)"
        } else {
            "expected (doseq [name collection …] body…)"
        };
        let Some((bindings, body)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, shape);
        };
        if collects && body.len() != 1 {
            return self.fail(id, Reason::InvalidForm, shape);
        }
        let mut clauses = Vec::new();
        for pair in self.forms.items(self.pairs(bindings, shape)?).chunks_exact(2) {
            let [left, right] = *pair else { continue };
            clauses.push(match self.forms.keyword(left) {
                None => Clause::Each(left, right),
                Some("when") => Clause::When(right),
                Some("while") => Clause::While(right),
                Some("let") => Clause::Let(right),
                Some(other) => {
                    let message = format!("{name} knows :when, :while and :let, not :{other}");
                    return self.fail(left, Reason::InvalidForm, message);
                }
            });
        }
        if !matches!(clauses.first(), Some(Clause::Each(..))) {
            return self.fail(bindings, Reason::InvalidForm, format!("{shape}: a collection comes first"));
        }
        let span = self.forms.span(id);
        let done = self.here().label();
        self.here().open();
        let result = self.slot(id)?;
        self.emit(if collects { Op::Vector(0) } else { Op::Nil }, span);
        self.emit(Op::Store(result), span);
        self.queue([
            then(move |c| {
                c.clauses(
                    clauses,
                    body,
                    if collects { Op::Collect(result) } else { Op::Pop },
                    done,
                    done,
                    span,
                )
            }),
            CompileTask::Place(done),
            CompileTask::Emit(Op::Local(result), span),
            CompileTask::CloseScope,
        ]);
        Ok(())
    }

    /// The clauses that are left, inside those before. `next` is where the innermost collection goes on, `exit` where
    /// it ends.
    fn clauses(
        &mut self,
        mut clauses: Vec<Clause>,
        body: Items,
        take: Op,
        next: JumpTarget,
        exit: JumpTarget,
        span: SourceSpan,
    ) -> Result<(), Fault> {
        if clauses.is_empty() {
            let from = self.tasks.len();
            self.add_body(body, VALUE, span);
            self.tasks.push(CompileTask::Emit(take, span));
            self.tasks.push(CompileTask::Emit(Op::Jump(next), span));
            self.turn(from);
            return Ok(());
        }
        match clauses.remove(0) {
            Clause::Each(pattern, collection) => {
                self.here().open();
                let again = self.here().label();
                self.queue([
                    CompileTask::Form(collection, VALUE),
                    then(move |c| {
                        let iteration = c.slot(pattern)?;
                        c.slot(pattern)?;
                        c.emit(Op::IterStart(iteration), span);
                        c.here().place(again);
                        // When this collection ends, the one around it goes on.
                        c.emit(Op::IterNext(iteration, next), span);
                        c.queue([
                            CompileTask::Bind(pattern),
                            then(move |c| c.clauses(clauses, body, take, again, next, span)),
                        ]);
                        Ok(())
                    }),
                    CompileTask::CloseScope,
                ]);
            }
            Clause::When(condition) => self.queue([
                CompileTask::Form(condition, VALUE),
                CompileTask::Emit(Op::JumpIfFalse(next), span),
                then(move |c| c.clauses(clauses, body, take, next, exit, span)),
            ]),
            Clause::While(condition) => self.queue([
                CompileTask::Form(condition, VALUE),
                CompileTask::Emit(Op::JumpIfFalse(exit), span),
                then(move |c| c.clauses(clauses, body, take, next, exit, span)),
            ]),
            Clause::Let(bindings) => {
                let pairs = self.pairs(bindings, "expected :let [name value …]")?;
                self.here().open();
                let from = self.tasks.len();
                self.add_bindings(pairs);
                self.tasks.push(then(move |c| c.clauses(clauses, body, take, next, exit, span)));
                self.tasks.push(CompileTask::CloseScope);
                self.turn(from);
            }
        }
        Ok(())
    }

    /// `(dotimes [i n] body…)`.
    pub(super) fn dotimes(&mut self, id: FormId, arguments: Items) -> Result<(), Fault> {
        const SHAPE: &str = "expected (dotimes [name count] body…)";
        let Some((bindings, body)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, SHAPE);
        };
        let pairs = self.pairs(bindings, SHAPE)?;
        let [pattern, count] = *self.forms.items(pairs) else {
            return self.fail(bindings, Reason::InvalidForm, SHAPE);
        };
        let span = self.forms.span(id);
        let (again, done) = (self.here().label(), self.here().label());
        self.here().open();
        let counter = self.slot(id)?;
        self.slot(id)?;
        let from = self.tasks.len();
        self.tasks.extend([
            CompileTask::Form(count, VALUE),
            CompileTask::Emit(Op::CountStart(counter), span),
            CompileTask::Place(again),
            CompileTask::Emit(Op::CountNext(counter, done), span),
            CompileTask::Bind(pattern),
        ]);
        self.add_body(body, VALUE, span);
        self.tasks.extend([
            CompileTask::Emit(Op::Pop, span),
            CompileTask::Emit(Op::Jump(again), span),
            CompileTask::Place(done),
            CompileTask::Emit(Op::Nil, span),
            CompileTask::CloseScope,
        ]);
        self.turn(from);
        Ok(())
    }
}
