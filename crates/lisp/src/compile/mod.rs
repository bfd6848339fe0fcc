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

use std::sync::{Arc, OnceLock};

use function::{Closed, Opened, RestParameter, Signature};
pub(crate) use op::{Op, Quick};
use scope::{Captures, Functions, Resolved};
pub(crate) use special::{is_special, special_forms};
use unit::Code;
pub(crate) use unit::{
    Arity, CaptureSource, Definition, FreeName, FunctionText, ListPart, Proto, Space, Unit,
};

use crate::builtin;
use crate::error::{Error, Fault, Reason};
use crate::read::{Form, FormId, Forms, Items, SourceSpan, Symbol, read};
use crate::value::{Value, Word};

/// Compiles a program.
pub(crate) fn compile(source: &str) -> Result<Arc<Unit>, Fault> {
    let forms = read(source)?;
    // The program itself comes first; most programs have a few functions.
    let (mut captures, mut protos) = (Vec::with_capacity(4), Vec::with_capacity(4));
    captures.push(Captures::default());
    protos.push(Proto::default());
    let mut compiler = Compiler {
        source,
        forms,
        tasks: Vec::with_capacity(16),
        functions: Functions::new(),
        captures,
        code: Code::for_source(source.len()),
        protos,
        names: Vec::with_capacity(8),
        known: Vec::with_capacity(24),
        globals: Vec::with_capacity(8),
        defs: Vec::with_capacity(8),
        lambda: None,
        temporaries: 0,
    };
    compiler.program()?;
    let globals = compiler.globals;
    let mut sorted: Vec<u32> = (0..globals.len() as u32).collect();
    sorted.sort_unstable_by_key(|number| globals.get(*number as usize).map(Word::as_bytes));
    Ok(Arc::new(Unit {
        source: source.into(),
        code: compiler.code,
        protos: compiler.protos,
        consts: compiler.forms.constants,
        names: compiler.names,
        globals,
        sorted,
        defs: compiler.defs,
        main: 0,
    }))
}

/// Where a form stands, for `recur` and for calls that give up their frame.
#[derive(Clone, Copy)]
struct TailPosition {
    /// Its value is the value of the nearest loop or function body.
    recur: bool,
    /// Its value is the value of the function.
    call: bool,
}

const VALUE: TailPosition = TailPosition { recur: false, call: false };

/// Something left to do.
enum CompileTask {
    Form(FormId, TailPosition),
    Emit(Op, SourceSpan),
    Place(op::JumpTarget),
    CloseScope,
    /// Binds the value on the stack to a pattern.
    Bind(FormId),
    /// Binds the value of a slot to a pattern.
    BindSlot(FormId, u16),
    /// Starts a function.
    Function(Opened),
    /// Compiles one arity of it: parameters and body.
    Arity(FormId, Items, SourceSpan),
    EndArity(Signature),
    EndFunction(Closed),
    Then(Then),
}

type Then = Box<dyn FnOnce(&mut Compiler<'_>) -> Result<(), Fault>>;

/// A task that decides what to do when its turn comes.
fn then(work: impl FnOnce(&mut Compiler<'_>) -> Result<(), Fault> + 'static) -> CompileTask {
    CompileTask::Then(Box::new(work))
}

struct Compiler<'s> {
    source: &'s str,
    forms: Forms<'s>,
    /// What is left to do, the next last.
    tasks: Vec<CompileTask>,
    /// The functions around the current place.
    functions: Functions,
    captures: Vec<Captures>,
    code: Code,
    protos: Vec<Proto>,
    names: Vec<FreeName>,
    /// What is known of symbols, by symbol.
    known: Vec<FreeSymbol>,
    /// The names that definitions of the program or of its memory can have.
    globals: Vec<Word>,
    defs: Vec<Definition>,
    /// The `#()` around the current place.
    lambda: Option<FormId>,
    temporaries: u32,
}

/// What is known of a symbol where it is no local.
#[derive(Clone, Copy, Default)]
struct FreeSymbol {
    /// Its entry in the unit.
    name: Option<u32>,
    /// Whether it is known to belong to no special form.
    plain: bool,
    /// Its number among the names that can be defined.
    global: Option<u32>,
}

impl Compiler<'_> {
    fn program(&mut self) -> Result<(), Fault> {
        let span = SourceSpan::new(0, self.source.len());
        let from = self.tasks.len();
        self.add_body(self.forms.top, VALUE, span);
        self.tasks.push(CompileTask::Emit(Op::Return, span));
        self.turn(from);
        self.work()?;
        self.end_arity(Signature {
            required: 0,
            rest: RestParameter::None,
            parameters: SourceSpan::default(),
        });
        self.end_function(Closed { span, written: FunctionText::Whole, shown: None });
        Ok(())
    }

    fn work(&mut self) -> Result<(), Fault> {
        while let Some(task) = self.tasks.pop() {
            match task {
                CompileTask::Form(id, place) => self.form(id, place)?,
                CompileTask::Emit(op, span) => self.emit(op, span),
                CompileTask::Place(label) => self.here().place(label),
                CompileTask::CloseScope => self.here().close(),
                CompileTask::Bind(pattern) => self.bind(pattern)?,
                CompileTask::BindSlot(pattern, slot) => self.bind_slot(pattern, slot, false)?,
                CompileTask::Function(opened) => self.open_function(opened, Vec::new()),
                CompileTask::Arity(params, body, span) => self.arity(params, body, span)?,
                CompileTask::EndArity(signature) => self.end_arity(signature),
                CompileTask::EndFunction(closed) => self.end_function(closed),
                CompileTask::Then(work) => work(self)?,
            }
        }
        Ok(())
    }

    /// Puts tasks before everything else that is left to do, in the order given.
    fn queue(&mut self, tasks: impl IntoIterator<Item = CompileTask>) {
        let from = self.tasks.len();
        self.tasks.extend(tasks);
        self.turn(from);
    }

    /// The same for tasks that were added one by one.
    fn turn(&mut self, from: usize) {
        if let Some(added) = self.tasks.get_mut(from..) {
            added.reverse();
        }
    }

    /// Adds the tasks for forms of which the last gives the value, to be turned; none give nil.
    fn add_body(&mut self, body: Items, place: TailPosition, span: SourceSpan) {
        let forms = &self.forms;
        let Some((last, before)) = forms.items(body).split_last() else {
            return self.tasks.push(CompileTask::Emit(Op::Nil, span));
        };
        for form in before {
            self.tasks.push(CompileTask::Form(*form, VALUE));
            self.tasks.push(CompileTask::Emit(Op::Pop, forms.span(*form)));
        }
        self.tasks.push(CompileTask::Form(*last, place));
    }

    /// Adds the tasks for forms whose values are all wanted, then this instruction.
    fn queue_values(&mut self, forms: Items, op: Op, span: SourceSpan) {
        let from = self.tasks.len();
        self.tasks.extend(self.forms.items(forms).iter().map(|form| CompileTask::Form(*form, VALUE)));
        self.tasks.push(CompileTask::Emit(op, span));
        self.turn(from);
    }

    /// The function that is being compiled, with those around it.
    fn here(&mut self) -> &mut Functions {
        &mut self.functions
    }

    fn emit(&mut self, op: Op, span: SourceSpan) {
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

    fn form(&mut self, id: FormId, place: TailPosition) -> Result<(), Fault> {
        let span = self.forms.span(id);
        match self.forms.get(id) {
            Form::Literal(constant) => self.literal(constant, span),
            Form::Symbol(symbol) => return self.symbol(id, symbol),
            Form::List(items) => return self.list(id, items, place),
            Form::Vector(items) => self.collection(id, items, Op::Vector(items.len() as u32)),
            Form::Map(items) => self.collection(id, items, Op::Map(items.len() as u32 / 2)),
            Form::Set(items) => self.collection(id, items, Op::Set(items.len() as u32)),
            Form::Lambda(items) => return self.lambda(id, items),
            Form::Quote(quoted) => return self.quoted(quoted, span),
            Form::VarQuote(target) => return self.var(id, target),
        }
        Ok(())
    }

    /// A collection; one made of literals only is a constant.
    fn collection(&mut self, id: FormId, items: Items, op: Op) {
        let span = self.forms.span(id);
        if self.forms.is_constant(id)
            && let Ok(value) = self.forms.data(id)
        {
            let constant = self.forms.constant(value);
            return self.emit(Op::Const(constant), span);
        }
        self.queue_values(items, op, span);
    }

    fn literal(&mut self, constant: u32, span: SourceSpan) {
        let op = match self.forms.constants.get(constant as usize) {
            Some(Value::Nil) => Op::Nil,
            Some(Value::Bool(true)) => Op::True,
            Some(Value::Bool(false)) => Op::False,
            Some(Value::Int(n)) if i32::try_from(*n).is_ok() => Op::Int(*n as i32),
            _ => Op::Const(constant),
        };
        self.emit(op, span);
    }

    fn constant(&mut self, value: Value) -> u32 {
        self.forms.constant(value)
    }

    fn quoted(&mut self, quoted: FormId, span: SourceSpan) -> Result<(), Fault> {
        match self.forms.data(quoted) {
            Ok(value) => {
                let constant = self.constant(value);
                self.literal(constant, span);
                Ok(())
            }
            Err(culprit) => {
                let hint = "only literals can be quoted: use a keyword or a string instead of a symbol";
                let error = Error::new(Reason::InvalidForm, "symbols are not values here").hint(hint);
                Err(self.fault(culprit, error))
            }
        }
    }

    fn symbol(&mut self, id: FormId, symbol: Symbol) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let symbol = self.placeholder(id, symbol)?;
        let op = match self.resolve(symbol) {
            Resolved::Local(slot) => Op::Local(slot),
            Resolved::Capture(at) => Op::Capture(at),
            Resolved::SelfFn => Op::SelfFn,
            Resolved::Sibling(proto) => Op::Sibling(proto),
            Resolved::Free if !self.known(symbol).plain && is_special(self.forms.symbols.text(symbol)) => {
                let name = self.forms.symbols.text(symbol);
                let error = Error::new(Reason::UnboundVar, format!("undefined variable: {name}"))
                    .hint(format!("{name} is a special form: wrap it in parentheses, as in ({name} …)"));
                return Err(self.fault(id, error));
            }
            Resolved::Free => Op::Global(self.name(symbol, Some(span))),
        };
        self.emit(op, span);
        Ok(())
    }

    /// A call or a special form.
    fn list(&mut self, id: FormId, items: Items, place: TailPosition) -> Result<(), Fault> {
        let span = self.forms.span(id);
        let Some((head, arguments)) = self.forms.split_first(items) else {
            let empty = self.constant(Value::vector([]));
            self.emit(Op::Const(empty), span);
            return Ok(());
        };
        if let Some(symbol) = self.forms.name(head)
            && !matches!(self.forms.symbols.text(symbol), "%" | "%&")
            && matches!(self.resolve(symbol), Resolved::Free)
        {
            if !self.known(symbol).plain {
                if let Some(result) = self.special(symbol, id, arguments, place) {
                    return result;
                }
                self.learn(symbol, |known| known.plain = true);
            }
            let count = self.count(id, arguments.len())?;
            self.placeholder(head, symbol)?;
            let index = self.name(symbol, Some(self.forms.span(head)));
            let op = match (Quick::of(self.forms.symbols.text(symbol), arguments.len()), arguments.len()) {
                (Some(quick), 1) => Op::Unary(quick, index),
                (Some(quick), _) => Op::Binary(quick, index),
                (None, _) if place.call => Op::TailCallGlobal(index, count),
                (None, _) => Op::CallGlobal(index, count),
            };
            self.queue_values(arguments, op, span);
            return Ok(());
        }
        let count = self.count(id, arguments.len())?;
        let call = if place.call { Op::TailCall(count) } else { Op::Call(count) };
        self.queue_values(items, call, span);
        Ok(())
    }

    /// A number of arguments as instructions hold it.
    fn count(&self, id: FormId, count: usize) -> Result<u16, Fault> {
        u16::try_from(count).or_else(|_| self.fail(id, Reason::InvalidForm, "more than 65535 arguments"))
    }

    fn known(&self, symbol: Symbol) -> FreeSymbol {
        self.known.get(symbol.index()).copied().unwrap_or_default()
    }

    fn learn(&mut self, symbol: Symbol, what: impl FnOnce(&mut FreeSymbol)) {
        let at = symbol.index();
        if self.known.len() <= at {
            self.known.resize(at + 1, FreeSymbol::default());
        }
        self.known.get_mut(at).map(what);
    }

    /// The entry of a free name in the unit.
    fn name(&mut self, symbol: Symbol, used: Option<SourceSpan>) -> u32 {
        let index = match self.known(symbol).name {
            Some(index) => index,
            None => self.add_name(symbol),
        };
        if let Some(name) = self.names.get_mut(index as usize)
            && name.used.is_none()
            && used.is_some()
        {
            name.used = used;
            if name.builtin.is_none() {
                let texts = self.functions.local_names().map(|local| self.forms.symbols.text(local));
                name.locals = texts.filter(|text| !text.starts_with('\0')).map(Word::from).take(50).collect();
            }
        }
        index
    }

    fn add_name(&mut self, symbol: Symbol) -> u32 {
        let written = self.forms.symbols.text(symbol);
        let (text, space) = split(written);
        let builtin = match space {
            Space::Bare | Space::Builtin => builtin::find(written),
            _ => None,
        };
        let shown = match space {
            Space::Bare | Space::Unknown | Space::Builtin => symbol,
            _ => {
                let text = text.to_string();
                self.forms.symbols.intern(text.into())
            }
        };
        let global = matches!(space, Space::Bare | Space::User).then(|| self.global(shown));
        let text = self.forms.symbols.word(shown);
        let locals = Vec::new();
        self.names.push(FreeName {
            text,
            var: OnceLock::new(),
            space,
            builtin,
            global,
            used: None,
            defined: false,
            locals,
        });
        let index = (self.names.len() - 1) as u32;
        self.learn(symbol, |known| known.name = Some(index));
        index
    }

    /// The number of a name among those that can be defined: `x` and `user/x` are one.
    fn global(&mut self, bare: Symbol) -> u32 {
        if let Some(global) = self.known(bare).global {
            return global;
        }
        let text = self.forms.symbols.word(bare);
        self.globals.push(text);
        let global = (self.globals.len() - 1) as u32;
        self.learn(bare, |known| known.global = Some(global));
        global
    }

    fn resolve(&mut self, name: Symbol) -> Resolved {
        self.functions.resolve(&mut self.captures, name)
    }

    /// A name no program can write.
    fn temporary(&mut self, span: SourceSpan) -> FormId {
        self.temporaries += 1;
        self.forms.add_symbol(format!("\0{}", self.temporaries), span)
    }
}

/// The namespace of a name as written, and what is left of it.
fn split(written: &str) -> (&str, Space) {
    match written {
        "*1" => return (written, Space::History(0)),
        "*2" => return (written, Space::History(1)),
        "*3" => return (written, Space::History(2)),
        _ if !written.as_bytes().contains(&b'/') => return (written, Space::Bare),
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
