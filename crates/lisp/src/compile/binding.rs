//! `let`, `loop`, `recur`, and taking values apart by patterns.

use super::scope::LoopTarget;
use super::{CompileTask, Compiler, Op, TailPosition, VALUE, then};
use crate::error::{Fault, Reason};
use crate::read::{Form, FormId, Items, Symbol};
use crate::value::{Keyword, Value};

impl Compiler<'_> {
    /// The forms of a binding vector, names and values in turn.
    pub(super) fn pairs(&self, id: FormId, shape: &str) -> Result<Items, Fault> {
        match self.forms.vector(id) {
            Some(items) if items.len() % 2 == 0 => Ok(items),
            Some(items) => {
                let message = format!("{shape}: bindings come in pairs, got {} forms", items.len());
                self.fail(id, Reason::InvalidForm, message)
            }
            None => self.fail(id, Reason::InvalidForm, shape),
        }
    }

    /// Adds the tasks that bind values to patterns one after the other, to be turned.
    pub(super) fn add_bindings(&mut self, pairs: Items) {
        for pair in self.forms.items(pairs).chunks_exact(2) {
            let [pattern, value] = *pair else { continue };
            self.tasks.push(CompileTask::Form(value, VALUE));
            self.tasks.push(CompileTask::Bind(pattern));
        }
    }

    pub(super) fn let_form(
        &mut self,
        id: FormId,
        arguments: Items,
        place: TailPosition,
    ) -> Result<(), Fault> {
        const SHAPE: &str = "expected (let [name value …] body…)";
        let Some((bindings, body)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, SHAPE);
        };
        let pairs = self.pairs(bindings, SHAPE)?;
        self.here().open();
        let from = self.tasks.len();
        self.add_bindings(pairs);
        self.add_body(body, place, self.forms.span(id));
        self.tasks.push(CompileTask::CloseScope);
        self.turn(from);
        Ok(())
    }

    pub(super) fn loop_form(
        &mut self,
        id: FormId,
        arguments: Items,
        place: TailPosition,
    ) -> Result<(), Fault> {
        const SHAPE: &str = "expected (loop [name value …] body…)";
        let Some((bindings, body)) = self.forms.split_first(arguments) else {
            return self.fail(id, Reason::InvalidForm, SHAPE);
        };
        let pairs = self.pairs(bindings, SHAPE)?;
        let count = (pairs.len() / 2) as u16;
        self.here().open();
        let Some(first) = self.here().slots(count) else {
            return self.fail(id, Reason::InvalidForm, "too many bindings");
        };
        let label = self.here().label();
        let span = self.forms.span(id);
        let from = self.tasks.len();
        let slots = || (first..).zip(self.forms.items(pairs).chunks_exact(2));
        for (slot, pair) in slots() {
            let [pattern, value] = *pair else { continue };
            self.tasks.push(CompileTask::Form(value, VALUE));
            self.tasks.push(CompileTask::Emit(Op::Store(slot), span));
            self.tasks.push(CompileTask::BindSlot(pattern, slot));
        }
        self.tasks.push(CompileTask::Place(label));
        // A jump brings new values; what patterns made of the old ones is made again.
        for (slot, pair) in slots() {
            let [pattern, _] = *pair else { continue };
            if self.forms.name(pattern).is_none() {
                self.tasks.push(CompileTask::BindSlot(pattern, slot));
            }
        }
        self.tasks.push(then(move |c| {
            c.here().loops.push(LoopTarget { label, first, count });
            Ok(())
        }));
        self.add_body(body, TailPosition { recur: true, call: place.call }, span);
        self.tasks.push(then(|c| {
            c.here().loops.pop();
            c.here().close();
            Ok(())
        }));
        self.turn(from);
        Ok(())
    }

    pub(super) fn recur(&mut self, id: FormId, arguments: Items, place: TailPosition) -> Result<(), Fault> {
        let Some(target) = self.here().loops.last().copied().filter(|_| place.recur) else {
            return self.fail(
                id,
                Reason::InvalidForm,
                "recur is only allowed where its loop or function ends",
            );
        };
        if arguments.len() != usize::from(target.count) {
            let plural = if target.count == 1 { "" } else { "s" };
            let message = format!("recur expects {} argument{plural}, got {}", target.count, arguments.len());
            return self.fail(id, Reason::InvalidArity, message);
        }
        let LoopTarget { label, first, count } = target;
        self.queue_values(arguments, Op::Recur { first, count, target: label }, self.forms.span(id));
        Ok(())
    }

    /// Binds the value on the stack to a pattern.
    pub(super) fn bind(&mut self, pattern: FormId) -> Result<(), Fault> {
        let slot = self.slot(pattern)?;
        self.emit(Op::Store(slot), self.forms.span(pattern));
        self.bind_slot(pattern, slot, false)
    }

    /// Binds the value of a slot to a pattern. `pairs`: it may be the vector of a rest parameter, to be read as a map.
    pub(super) fn bind_slot(&mut self, pattern: FormId, slot: u16, pairs: bool) -> Result<(), Fault> {
        let span = self.forms.span(pattern);
        match self.forms.get(pattern) {
            Form::Symbol(symbol) => {
                let name = self.forms.symbols.text(symbol);
                if name.as_bytes().contains(&b'/') && name != "/" {
                    let message = format!("{name} has a namespace and cannot be bound");
                    return self.fail(pattern, Reason::UnsupportedPattern, message);
                }
                self.here().declare(symbol, slot);
                Ok(())
            }
            Form::Vector(items) => {
                let items = self.forms.items(items).to_vec();
                self.bind_vector(pattern, &items, slot)
            }
            Form::Map(items) => {
                let items = self.forms.items(items).to_vec();
                if pairs {
                    self.emit(Op::PairsToMap(slot), span);
                }
                self.bind_map(pattern, &items, slot)
            }
            _ => self.fail(
                pattern,
                Reason::UnsupportedPattern,
                "a name, a vector or a map of patterns is expected here",
            ),
        }
    }

    /// `[a b & rest :as all]`.
    fn bind_vector(&mut self, pattern: FormId, items: &[FormId], slot: u16) -> Result<(), Fault> {
        let mut tasks = Vec::new();
        let mut items = items.iter().copied();
        let mut index = 0;
        while let Some(item) = items.next() {
            let span = self.forms.span(item);
            match (self.forms.symbol(item), self.forms.keyword(item)) {
                (Some("&"), _) => {
                    let Some(rest) = items.next() else {
                        return self.fail(pattern, Reason::UnsupportedPattern, "a name stands after &");
                    };
                    tasks.push(CompileTask::Emit(Op::Rest(slot, index), span));
                    tasks.push(then(move |c| {
                        let slot = c.slot(rest)?;
                        c.emit(Op::Store(slot), c.forms.span(rest));
                        c.bind_slot(rest, slot, true)
                    }));
                }
                (_, Some("as")) => {
                    let Some(all) = items.next() else {
                        return self.fail(pattern, Reason::UnsupportedPattern, "a name stands after :as");
                    };
                    // Also the whole has to be a sequence.
                    tasks.push(CompileTask::Emit(Op::Nth(slot, u16::MAX), span));
                    tasks.push(CompileTask::Emit(Op::Pop, span));
                    tasks.push(CompileTask::BindSlot(all, slot));
                }
                (_, Some(_)) => {
                    return self.fail(item, Reason::UnsupportedPattern, "a vector pattern knows only :as");
                }
                _ => {
                    tasks.push(CompileTask::Emit(Op::Nth(slot, index), span));
                    tasks.push(CompileTask::Bind(item));
                    index += 1;
                }
            }
        }
        self.queue(tasks);
        Ok(())
    }

    /// `{a :key, :keys [b c] :strs [d] :or {b 0} :as all}`.
    fn bind_map(&mut self, pattern: FormId, items: &[FormId], slot: u16) -> Result<(), Fault> {
        let entries: Vec<(FormId, FormId)> =
            items.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
        let mut defaults: Vec<(Symbol, FormId)> = Vec::new();
        for (key, value) in &entries {
            if self.forms.keyword(*key) == Some("or") {
                let Form::Map(pairs) = self.forms.get(*value) else {
                    return self.fail(
                        *value,
                        Reason::UnsupportedPattern,
                        ":or takes a map of names and values",
                    );
                };
                for pair in self.forms.items(pairs).chunks_exact(2) {
                    if let [name, value] = pair
                        && let Some(name) = self.forms.name(*name)
                    {
                        defaults.push((name, *value));
                    }
                }
            }
        }
        let span = self.forms.span(pattern);
        let check = self.constant(Value::Nil);
        let mut tasks = vec![CompileTask::Emit(Op::Key(slot, check), span), CompileTask::Emit(Op::Pop, span)];
        for (left, right) in entries {
            let kind: Option<Box<str>> = self.forms.keyword(left).map(Into::into);
            match kind.as_deref() {
                Some("or") => {}
                Some("as") => tasks.push(CompileTask::BindSlot(right, slot)),
                Some(kind @ ("keys" | "strs")) => {
                    let Some(names) = self.forms.vector(right) else {
                        let message = format!(":{kind} takes a vector of names");
                        return self.fail(right, Reason::UnsupportedPattern, message);
                    };
                    for &name in &self.forms.items(names).to_vec() {
                        let written = self.forms.symbol(name).or_else(|| self.forms.keyword(name));
                        let Some(written) = written else {
                            return self.fail(name, Reason::UnsupportedPattern, "a name is expected here");
                        };
                        let key = match kind {
                            "strs" => Value::str(written),
                            _ => Value::Keyword(Keyword::new(written)),
                        };
                        let local = written.rsplit('/').next().unwrap_or(written).to_string();
                        let local = self.forms.symbols.intern(local.into());
                        let default =
                            defaults.iter().find(|(name, _)| *name == local).map(|(_, value)| *value);
                        tasks.push(self.key(name, slot, key, default));
                        tasks.push(then(move |c| {
                            let slot = c.slot(name)?;
                            c.emit(Op::Store(slot), c.forms.span(name));
                            c.here().declare(local, slot);
                            Ok(())
                        }));
                    }
                }
                Some(other) => {
                    let message = format!("a map pattern knows :keys, :strs, :or and :as, not :{other}");
                    return self.fail(left, Reason::UnsupportedPattern, message);
                }
                None => match self.forms.data(right) {
                    Ok(key) => {
                        let name = self.forms.name(left);
                        let default =
                            defaults.iter().find(|(n, _)| Some(*n) == name).map(|(_, value)| *value);
                        tasks.push(self.key(left, slot, key, default));
                        tasks.push(CompileTask::Bind(left));
                    }
                    Err(culprit) => {
                        return self.fail(
                            culprit,
                            Reason::UnsupportedPattern,
                            "keys of a pattern are literals",
                        );
                    }
                },
            }
        }
        self.queue(tasks);
        Ok(())
    }

    /// The task that pushes the value under a key of the map in a slot, or else the default.
    fn key(&mut self, at: FormId, slot: u16, key: Value, default: Option<FormId>) -> CompileTask {
        let span = self.forms.span(at);
        let key = self.constant(key);
        match default {
            None => CompileTask::Emit(Op::Key(slot, key), span),
            Some(default) => then(move |c| {
                let target = c.here().label();
                c.emit(Op::KeyOr { slot, key, target }, span);
                c.queue([CompileTask::Form(default, VALUE), CompileTask::Place(target)]);
                Ok(())
            }),
        }
    }
}
