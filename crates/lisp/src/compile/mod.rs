//! The analyser: forms to code, before anything runs.
//!
//! It checks the shape of every special form, gives locals their slots, finds what closures capture, and which calls
//! are in tail position. It works through a list of tasks instead of calling itself, so no program can exhaust the
//! stack. Names that are no locals are listed in the unit; what they stand for is decided when a run starts.

mod binding;
mod branch;
mod define;
mod function;
mod iterate;
mod op;
mod scope;
mod special;
mod thread;
mod unit;

use std::collections::HashMap;
use std::sync::Arc;

use function::Rest;
pub(crate) use op::{Op, Quick};
use scope::{Body, Captures, FnContext, Resolved, resolve};
pub(crate) use special::{is_special, special_forms};
pub(crate) use unit::{Definition, Name, Proto, Source, Space, Unit, Written};

use crate::builtin;
use crate::error::{Error, Fault, Reason};
use crate::read::{Form, FormId, Forms, Span, read};
use crate::value::{Text, Value};

/// Compiles a program.
pub(crate) fn compile(source: &str) -> Result<Arc<Unit>, Fault> {
    let forms = read(source)?;
    let mut compiler = Compiler {
        source,
        forms,
        tasks: Vec::new(),
        function: FnContext::default(),
        outer: Vec::new(),
        captures: vec![Captures::default()],
        protos: vec![None],
        consts: Vec::new(),
        names: Vec::new(),
        known: HashMap::new(),
        defs: Vec::new(),
        lambda: None,
        temporaries: 0,
    };
    compiler.program()?;
    let protos = compiler.protos.into_iter().flatten().collect();
    Ok(Arc::new(Unit {
        source: source.into(),
        protos,
        consts: compiler.consts,
        names: compiler.names,
        defs: compiler.defs,
        main: 0,
    }))
}

/// Where a form stands, for `recur` and for calls that give up their frame.
#[derive(Clone, Copy)]
struct Place {
    /// Its value is the value of the nearest loop or function body.
    recur: bool,
    /// Its value is the value of the function.
    call: bool,
}

const VALUE: Place = Place { recur: false, call: false };

/// Something left to do.
enum Task {
    Form(FormId, Place),
    Emit(Op, Span),
    Place(op::Target),
    CloseScope,
    /// Binds the value on the stack to a pattern.
    Bind(FormId),
    /// Binds the value of a slot to a pattern.
    BindSlot(FormId, u16),
    Then(Then),
}

type Then = Box<dyn FnOnce(&mut Compiler<'_>) -> Result<(), Fault>>;

/// A task that decides what to do when its turn comes.
fn then(work: impl FnOnce(&mut Compiler<'_>) -> Result<(), Fault> + 'static) -> Task {
    Task::Then(Box::new(work))
}

struct Compiler<'s> {
    source: &'s str,
    forms: Forms<'s>,
    /// What is left to do, the next last.
    tasks: Vec<Task>,
    /// The function around the current place.
    function: FnContext,
    /// The functions around that, outermost first.
    outer: Vec<FnContext>,
    captures: Vec<Captures>,
    protos: Vec<Option<Proto>>,
    consts: Vec<Value>,
    names: Vec<Name>,
    /// Numbers of names as written.
    known: HashMap<Box<str>, u32>,
    defs: Vec<Definition>,
    /// The `#()` around the current place.
    lambda: Option<FormId>,
    temporaries: u32,
}

impl Compiler<'_> {
    fn program(&mut self) -> Result<(), Fault> {
        let top = self.forms.top.clone();
        let span = Span::new(0, self.source.len());
        let mut tasks = self.body(&top, VALUE, span);
        tasks.push(Task::Emit(Op::Return, span));
        self.queue(tasks);
        self.work()?;
        self.end_arity(0, Rest::None, "[]".into());
        self.end_function(span, &Written::Whole, None);
        Ok(())
    }

    fn work(&mut self) -> Result<(), Fault> {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Form(id, place) => self.form(id, place)?,
                Task::Emit(op, span) => self.emit(op, span),
                Task::Place(label) => self.here().place(label),
                Task::CloseScope => self.here().close(),
                Task::Bind(pattern) => self.bind(pattern)?,
                Task::BindSlot(pattern, slot) => self.bind_slot(pattern, slot, false)?,
                Task::Then(work) => work(self)?,
            }
        }
        Ok(())
    }

    /// Puts tasks before everything else that is left to do, in the order given.
    fn queue(&mut self, tasks: impl IntoIterator<Item = Task>) {
        let from = self.tasks.len();
        self.tasks.extend(tasks);
        if let Some(added) = self.tasks.get_mut(from..) {
            added.reverse();
        }
    }

    /// The tasks for forms of which the last gives the value; none give nil.
    fn body(&self, forms: &[FormId], place: Place, span: Span) -> Vec<Task> {
        let Some((last, before)) = forms.split_last() else { return vec![Task::Emit(Op::Nil, span)] };
        let mut tasks = Vec::with_capacity(forms.len() * 2);
        for form in before {
            tasks.push(Task::Form(*form, VALUE));
            tasks.push(Task::Emit(Op::Pop, self.forms.span(*form)));
        }
        tasks.push(Task::Form(*last, place));
        tasks
    }

    /// The body that is being compiled.
    fn here(&mut self) -> &mut Body {
        &mut self.function.current
    }

    fn emit(&mut self, op: Op, span: Span) {
        self.here().emit(op, span);
    }

    /// An error at a form.
    fn fail<T>(&self, id: FormId, reason: Reason, message: impl Into<String>) -> Result<T, Fault> {
        Err(self.fault(id, Error::new(reason, message)))
    }

    fn fault(&self, id: FormId, mut error: Error) -> Fault {
        unit::mark(&mut error, self.source, self.forms.span(id));
        Box::new(error)
    }

    fn form(&mut self, id: FormId, place: Place) -> Result<(), Fault> {
        let span = self.forms.span(id);
        match self.forms.get(id) {
            Form::Literal(value) => {
                let value = value.clone();
                self.literal(value, span);
            }
            Form::Symbol(name) => {
                let name = name.clone();
                return self.symbol(id, &name);
            }
            Form::List(items) => {
                let items = items.clone();
                return self.list(id, &items, place);
            }
            Form::Vector(items) => {
                let (items, op) = (items.clone(), Op::Vector(items.len() as u32));
                self.collection(id, &items, op);
            }
            Form::Map(items) => {
                let (items, op) = (items.clone(), Op::Map(items.len() as u32 / 2));
                self.collection(id, &items, op);
            }
            Form::Set(items) => {
                let (items, op) = (items.clone(), Op::Set(items.len() as u32));
                self.collection(id, &items, op);
            }
            Form::Lambda(items) => {
                let items = items.clone();
                return self.lambda(id, &items);
            }
            Form::Quote(quoted) => {
                let quoted = *quoted;
                return self.quoted(quoted, span);
            }
            Form::VarQuote(target) => {
                let target = *target;
                return self.var(id, target);
            }
        }
        Ok(())
    }

    /// A collection; one made of literals only is a constant.
    fn collection(&mut self, id: FormId, items: &[FormId], op: Op) {
        let span = self.forms.span(id);
        if self.forms.is_constant(id)
            && let Ok(value) = self.forms.data(id)
        {
            return self.literal(value, span);
        }
        self.queue(values(items).chain([Task::Emit(op, span)]));
    }

    fn literal(&mut self, value: Value, span: Span) {
        let op = match value {
            Value::Nil => Op::Nil,
            Value::Bool(true) => Op::True,
            Value::Bool(false) => Op::False,
            Value::Int(n) if i32::try_from(n).is_ok() => Op::Int(n as i32),
            value => Op::Const(self.constant(value)),
        };
        self.emit(op, span);
    }

    fn constant(&mut self, value: Value) -> u32 {
        self.consts.push(value);
        (self.consts.len() - 1) as u32
    }

    fn quoted(&mut self, quoted: FormId, span: Span) -> Result<(), Fault> {
        match self.forms.data(quoted) {
            Ok(value) => {
                self.literal(value, span);
                Ok(())
            }
            Err(culprit) => {
                let hint = "only literals can be quoted: use a keyword or a string instead of a symbol";
                let error = Error::new(Reason::InvalidForm, "symbols are not values here").hint(hint);
                Err(self.fault(culprit, error))
            }
        }
    }

    fn symbol(&mut self, id: FormId, name: &str) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let name = self.placeholder(id, name)?;
        let op = match self.resolve(name) {
            Resolved::Local(slot) => Op::Local(slot),
            Resolved::Capture(at) => Op::Capture(at),
            Resolved::SelfFn => Op::SelfFn,
            Resolved::Sibling(proto) => Op::Sibling(proto),
            Resolved::Free if is_special(name) => {
                let error = Error::new(Reason::UnboundVar, format!("undefined variable: {name}"))
                    .hint(format!("{name} is a special form: wrap it in parentheses, as in ({name} …)"));
                return Err(self.fault(id, error));
            }
            Resolved::Free => Op::Global(self.name(name, Some(span))),
        };
        self.emit(op, span);
        Ok(())
    }

    /// A call or a special form.
    fn list(&mut self, id: FormId, items: &[FormId], place: Place) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let Some((head, arguments)) = items.split_first() else {
            self.literal(Value::vector([]), span);
            return Ok(());
        };
        if let Some(name) = self.forms.name(*head)
            && matches!(self.resolve(&name), Resolved::Free)
            && !matches!(&*name, "%" | "%&")
        {
            if let Some(result) = self.special(&name, id, arguments, place) {
                return result;
            }
            let count = self.count(id, arguments.len())?;
            self.placeholder(*head, &name)?;
            let index = self.name(&name, Some(self.forms.span(*head)));
            let op = match (Quick::of(&name, arguments.len()), arguments.len()) {
                (Some(quick), 1) => Op::Unary(quick, index),
                (Some(quick), _) => Op::Binary(quick, index),
                (None, _) if place.call => Op::TailCallGlobal(index, count),
                (None, _) => Op::CallGlobal(index, count),
            };
            self.queue(values(arguments).chain([Task::Emit(op, span)]));
            return Ok(());
        }
        let count = self.count(id, arguments.len())?;
        let call = if place.call { Op::TailCall(count) } else { Op::Call(count) };
        self.queue(values(items).chain([Task::Emit(call, span)]));
        Ok(())
    }

    /// A number of arguments as instructions hold it.
    fn count(&self, id: FormId, count: usize) -> Result<u16, Fault> {
        u16::try_from(count).or_else(|_| self.fail(id, Reason::InvalidForm, "more than 65535 arguments"))
    }

    /// The entry of a free name in the unit.
    fn name(&mut self, written: &str, used: Option<Span>) -> u32 {
        let index = if let Some(index) = self.known.get(written) {
            *index
        } else {
            let (text, space) = split(written);
            let builtin = match space {
                Space::Bare | Space::Builtin => builtin::find(written),
                _ => None,
            };
            let shown = if matches!(space, Space::Unknown | Space::Builtin) { written } else { text };
            let text = Text::from(shown);
            self.names.push(Name { text, space, builtin, used: None, defined: false, locals: Vec::new() });
            let index = (self.names.len() - 1) as u32;
            self.known.insert(written.into(), index);
            index
        };
        if let Some(name) = self.names.get_mut(index as usize)
            && name.used.is_none()
            && used.is_some()
        {
            name.used = used;
            if name.builtin.is_none() {
                let functions = self.outer.iter().chain([&self.function]);
                let locals = functions.flat_map(|function| function.current.local_names());
                name.locals =
                    locals.filter(|local| !local.starts_with('\0')).map(Box::from).take(50).collect();
            }
        }
        index
    }

    fn resolve(&mut self, name: &str) -> Resolved {
        resolve(&self.outer, &self.function, &mut self.captures, name)
    }

    /// A name no program can write.
    fn temporary(&mut self) -> Box<str> {
        self.temporaries += 1;
        format!("\0{}", self.temporaries).into()
    }
}

/// The tasks for forms whose values are all wanted.
fn values(forms: &[FormId]) -> impl Iterator<Item = Task> {
    forms.iter().map(|form| Task::Form(*form, VALUE))
}

/// The namespace of a name as written, and what is left of it.
fn split(written: &str) -> (&str, Space) {
    match written {
        "*1" => return (written, Space::History(0)),
        "*2" => return (written, Space::History(1)),
        "*3" => return (written, Space::History(2)),
        _ => {}
    }
    match written.split_once('/').filter(|(space, name)| !space.is_empty() && !name.is_empty()) {
        None => (written, Space::Bare),
        Some(("data", name)) => (name, Space::Data),
        Some(("tool", name)) => (name, Space::Tool),
        Some(("user", name)) => (name, Space::User),
        Some((space, _)) if builtin::is_namespace(space) => (written, Space::Builtin),
        Some(_) => (written, Space::Unknown),
    }
}
