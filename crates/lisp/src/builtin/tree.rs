//! Walking nested data with a function, without recursion.

use super::collect::{arg, as_pair, not_a_pair, take};
use super::each;
use super::table::{Builtin, higher, pure};
use crate::error::Fault;
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::{Keyword, Map, Set, Value, Vector};

pub(super) const TABLE: &[Builtin] = &[
    higher(
        "tree-seq",
        (3, 3),
        "branch? children root",
        "all nodes of a tree, parents first",
        "(tree-seq vector? seq [1 [2]]) ; => [[1 [2]] 1 [2] 2]",
        tree_seq,
    ),
    higher(
        "walk",
        (3, 3),
        "inner outer form",
        "outer of the form with inner of each element",
        "(walk inc sum [1 2]) ; => 5",
        walk,
    ),
    higher(
        "prewalk",
        (2, 2),
        "f form",
        "f of every part, the outer before the inner",
        "(prewalk #(if (vector? %) (conj % 0) %) [[1]]) ; => [[1 0] 0]",
        prewalk,
    ),
    higher(
        "postwalk",
        (2, 2),
        "f form",
        "f of every part, the inner before the outer",
        "(postwalk #(if (number? %) (inc %) %) [1 {:a 2}]) ; => [2 {:a 3}]",
        postwalk,
    ),
    pure(
        "keywordize-keys",
        (1, 1),
        "form",
        "string keys of all maps become keywords",
        "(keywordize-keys {\"a\" [{\"b\" 1}]}) ; => {:a [{:b 1}]}",
        keywordize,
    ),
    pure(
        "stringify-keys",
        (1, 1),
        "form",
        "keyword keys of all maps become strings",
        "(stringify-keys {:a 1}) ; => {\"a\" 1}",
        stringify,
    ),
];

/// Parts of a tree, parents first.
struct TreeSeq {
    branch: Value,
    children: Value,
    /// Nodes to visit, the next last.
    left: Vec<Value>,
    out: Vec<Value>,
    /// The node whose answer is awaited, and whether its children are asked for.
    asked: Option<(Value, bool)>,
}

impl Work for TreeSeq {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        if let (Some((node, for_children)), Some(answer)) = (self.asked.take(), answer) {
            if for_children {
                let children = super::to_vector(cx, "tree-seq: the children", &answer, 1)?;
                cx.sequence(children.len() * 2)?;
                let from = self.left.len();
                self.left.extend(children.iter().cloned());
                if let Some(added) = self.left.get_mut(from..) {
                    added.reverse();
                }
            } else if answer.is_truthy() {
                let call = WorkNext::Call(self.children.clone(), Args::One(node.clone()));
                self.asked = Some((node, true));
                return Ok(call);
            }
        }
        cx.meter.tick()?;
        let Some(node) = self.left.pop() else {
            return cx.vector(std::mem::take(&mut self.out)).map(WorkNext::Value);
        };
        cx.meter.reserve(32)?;
        self.out.push(node.clone());
        self.asked = Some((node.clone(), false));
        Ok(WorkNext::Call(self.branch.clone(), Args::One(node)))
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        [&self.branch, &self.children].into_iter().chain(&self.left).chain(&self.out).for_each(see);
    }
}

fn tree_seq(_: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let mut args = args.into_iter();
    let branch = args.next().unwrap_or_default();
    let children = args.next().unwrap_or_default();
    let left = vec![args.next().unwrap_or_default()];
    Ok(WorkNext::Work(Box::new(TreeSeq { branch, children, left, out: Vec::new(), asked: None })))
}

/// What kind of collection parts are put together to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectionKind {
    Vector,
    Map,
    Set,
}

/// The parts of a collection: a map's are its pairs. `None` if it has none.
fn open(cx: &mut Context, value: &Value) -> Result<Option<(CollectionKind, Vector)>, Fault> {
    let kind = match value {
        Value::Vector(_) => CollectionKind::Vector,
        Value::Map(_) => CollectionKind::Map,
        Value::Set(_) => CollectionKind::Set,
        _ => return Ok(None),
    };
    super::to_vector(cx, "walk", value, 1).map(|items| Some((kind, items)))
}

fn close(cx: &mut Context, kind: CollectionKind, parts: Vec<Value>) -> Result<Value, Fault> {
    cx.sequence(parts.len() * 2)?;
    Ok(match kind {
        CollectionKind::Vector => Value::vector(parts),
        CollectionKind::Set => {
            for part in &parts {
                cx.key(part)?;
            }
            Value::Set(parts.into_iter().collect::<Set>())
        }
        CollectionKind::Map => {
            let mut map = Map::default();
            for part in parts {
                match as_pair(&part) {
                    Some((key, value)) => {
                        cx.key(&key)?;
                        map.insert_exact(key, value);
                    }
                    None if matches!(part, Value::Nil) => {}
                    None => return not_a_pair("walk", &part),
                }
            }
            Value::Map(map)
        }
    })
}

/// Inner of the parts, then outer of the whole.
struct TreeWalk {
    outer: Value,
    kind: CollectionKind,
    parts: Box<dyn Work>,
}

impl Work for TreeWalk {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        match self.parts.step(cx, answer, caller)? {
            WorkNext::Value(Value::Vector(parts)) => {
                let whole = close(cx, self.kind, parts.iter().cloned().collect())?;
                Ok(WorkNext::Become(self.outer.clone(), Args::One(whole)))
            }
            other => Ok(other),
        }
    }

    fn function(&self) -> Option<&Value> {
        self.parts.function()
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.outer);
        self.parts.trace(see);
    }
}

fn walk(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    let (inner, outer, form) = (arg(&args, 0), arg(&args, 1), arg(&args, 2));
    let Some((kind, items)) = open(cx, form)? else {
        return Ok(WorkNext::Become(outer.clone(), Args::One(form.clone())));
    };
    match each::calls(inner.clone(), items, |cx, out, _| cx.vector(out)) {
        WorkNext::Work(parts) => Ok(WorkNext::Work(Box::new(TreeWalk { outer: outer.clone(), kind, parts }))),
        other => Ok(other),
    }
}

/// What is left to do of a deep walk, the next last.
enum TreeTask {
    /// Walk into a value.
    Enter(Value),
    /// Put so many finished parts together.
    Leave(CollectionKind, usize),
}

/// A function applied to every part, before or after the parts of that part.
struct DeepWalk {
    f: Value,
    before: bool,
    tasks: Vec<TreeTask>,
    /// Finished parts.
    done: Vec<Value>,
    /// Whether an answer is a part to walk into; else it is finished.
    entering: bool,
}

impl DeepWalk {
    /// Walks into a value: its parts come first. One without parts is finished.
    fn descend(&mut self, cx: &mut Context, value: Value) -> Result<Option<Value>, Fault> {
        match open(cx, &value)? {
            Some((kind, items)) => {
                cx.meter.reserve(items.len() * 40 + 64)?;
                self.tasks.push(TreeTask::Leave(kind, items.len()));
                let from = self.tasks.len();
                self.tasks.extend(items.iter().cloned().map(TreeTask::Enter));
                if let Some(added) = self.tasks.get_mut(from..) {
                    added.reverse();
                }
                Ok(None)
            }
            None => Ok(Some(value)),
        }
    }
}

impl Work for DeepWalk {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        _: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        if let Some(answer) = answer {
            let finished =
                if std::mem::take(&mut self.entering) { self.descend(cx, answer)? } else { Some(answer) };
            self.done.extend(finished);
        }
        loop {
            cx.meter.tick()?;
            match self.tasks.pop() {
                None => return Ok(WorkNext::Value(self.done.pop().unwrap_or_default())),
                Some(TreeTask::Enter(value)) if self.before => {
                    self.entering = true;
                    return Ok(WorkNext::Call(self.f.clone(), Args::One(value)));
                }
                Some(TreeTask::Enter(value)) => {
                    if let Some(scalar) = self.descend(cx, value)? {
                        return Ok(WorkNext::Call(self.f.clone(), Args::One(scalar)));
                    }
                }
                Some(TreeTask::Leave(kind, count)) => {
                    let parts = self.done.split_off(self.done.len().saturating_sub(count));
                    let whole = close(cx, kind, parts)?;
                    if !self.before {
                        return Ok(WorkNext::Call(self.f.clone(), Args::One(whole)));
                    }
                    self.done.push(whole);
                }
            }
        }
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.f);
        self.done.iter().for_each(&mut *see);
        for task in &self.tasks {
            if let TreeTask::Enter(value) = task {
                see(value);
            }
        }
    }
}

fn deep(args: Vec<Value>, before: bool) -> WorkNext {
    let mut args = args.into_iter();
    let f = args.next().unwrap_or_default();
    let tasks = vec![TreeTask::Enter(args.next().unwrap_or_default())];
    WorkNext::Work(Box::new(DeepWalk { f, before, tasks, done: Vec::new(), entering: false }))
}

fn prewalk(_: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Ok(deep(args, true))
}

fn postwalk(_: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    Ok(deep(args, false))
}

/// All maps of a form with their keys changed.
fn rekey(cx: &mut Context, form: Value, change: fn(Value) -> Value) -> Result<Value, Fault> {
    let mut walk = DeepWalk {
        f: Value::Nil,
        before: false,
        tasks: vec![TreeTask::Enter(form)],
        done: Vec::new(),
        entering: false,
    };
    loop {
        cx.meter.tick()?;
        match walk.tasks.pop() {
            None => return Ok(walk.done.pop().unwrap_or_default()),
            Some(TreeTask::Enter(value)) => {
                let finished = walk.descend(cx, value)?;
                walk.done.extend(finished);
            }
            Some(TreeTask::Leave(kind, count)) => {
                let mut parts = walk.done.split_off(walk.done.len().saturating_sub(count));
                if kind == CollectionKind::Map {
                    for part in &mut parts {
                        if let Some((key, value)) = as_pair(part) {
                            *part = Value::vector([change(key), value]);
                        }
                    }
                }
                let whole = close(cx, kind, parts)?;
                walk.done.push(whole);
            }
        }
    }
}

fn keywordize(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    rekey(cx, take(args, 0), |key| match key {
        Value::Str(text) => Value::Keyword(Keyword::new(text.as_str())),
        other => other,
    })
}

fn stringify(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    rekey(cx, take(args, 0), |key| match key {
        Value::Keyword(keyword) => Value::from(keyword.as_str()),
        other => other,
    })
}
