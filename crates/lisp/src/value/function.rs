//! What can be called by its own right: closures, builtins, tools, and functions made of other functions.

use std::sync::Arc;

use super::{Debris, Text, Value, Word, clear_debris};
use crate::builtin::BuiltinId;
use crate::compile::{Arity, FunctionText, Proto, Unit};

/// A function of the language. Two are equal only if they are one and the same.
pub struct Function {
    id: u64,
    body: FunctionBody,
}

enum FunctionBody {
    Closure(Closure),
    Builtin(BuiltinId),
    Tool(Text),
    Derived(Derived),
}

/// Code of a program with the values it closes over.
pub(crate) struct Closure {
    pub(crate) unit: Arc<Unit>,
    pub(crate) proto: u32,
    /// What it closes over, if that is anything.
    pub(crate) captures: Option<Arc<[Value]>>,
}

impl Closure {
    /// The values it closes over.
    #[inline]
    pub(crate) fn captures(&self) -> &[Value] {
        self.captures.as_deref().unwrap_or_default()
    }

    /// The code, with its parameters and slots.
    pub(crate) fn proto(&self) -> &Proto {
        self.unit.proto(self.proto)
    }

    /// The arity that takes so many arguments.
    #[inline]
    pub(crate) fn arity_for(&self, arguments: usize) -> Option<&Arity> {
        self.unit.arity_for(self.proto(), arguments)
    }

    /// Its name and how many arguments it takes, in words: `f expects 1 argument`.
    pub(crate) fn expects(&self) -> String {
        let proto = self.proto();
        let name = proto.name.as_ref().map_or("the function", Word::as_str);
        format!("{name} expects {}", self.unit.expected(proto))
    }
}

/// A function that calls others.
pub(crate) enum Derived {
    Composed(Vec<Value>),
    Partial(Value, Vec<Value>),
    Complement(Value),
    Constantly(Value),
    Juxtaposed(Vec<Value>),
    NilSafe(Value, Vec<Value>),
    EveryPredicate(Vec<Value>),
    SomeFunction(Vec<Value>),
    Where(Vec<Value>, Test, Value),
    AllOf(Vec<Value>),
    AnyOf(Vec<Value>),
    NoneOf(Vec<Value>),
    /// What `reduced` marks: the end of a `reduce`.
    Reduced(Value),
}

/// What `where` tests a field for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    Truthy,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Includes,
    In,
}

/// Ids below this belong to builtins and tools, which are the same in every run.
pub(crate) const FIRST_ID: u64 = 1 << 32;
const FIRST_TOOL_ID: u64 = 1 << 20;

impl Function {
    pub(crate) fn closure(id: u64, closure: Closure) -> Self {
        Function { id, body: FunctionBody::Closure(closure) }
    }

    pub(crate) fn builtin(builtin: BuiltinId) -> Self {
        Function { id: u64::from(builtin.0), body: FunctionBody::Builtin(builtin) }
    }

    /// The tool of this name, which is so far down the sorted list of tools.
    pub(crate) fn tool(name: Text, position: usize) -> Self {
        Function { id: FIRST_TOOL_ID + position as u64, body: FunctionBody::Tool(name) }
    }

    pub(crate) fn derived(id: u64, derived: Derived) -> Self {
        Function { id, body: FunctionBody::Derived(derived) }
    }

    /// Tells functions apart that print alike.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn as_closure(&self) -> Option<&Closure> {
        if let FunctionBody::Closure(closure) = &self.body { Some(closure) } else { None }
    }

    #[inline]
    pub(crate) fn as_builtin(&self) -> Option<BuiltinId> {
        if let FunctionBody::Builtin(builtin) = self.body { Some(builtin) } else { None }
    }

    pub(crate) fn as_tool(&self) -> Option<&Text> {
        if let FunctionBody::Tool(name) = &self.body { Some(name) } else { None }
    }

    pub(crate) fn as_derived(&self) -> Option<&Derived> {
        if let FunctionBody::Derived(derived) = &self.body { Some(derived) } else { None }
    }

    /// The parameters as they were written, one text per arity: `[x y]`. None for a function without source.
    pub fn parameters(&self) -> Option<String> {
        self.as_closure().map(|closure| closure.unit.parameters(closure.proto()))
    }

    /// An expression that makes this function again, given its captures as locals. None for a tool, and for a function made
    /// of others.
    pub fn source(&self) -> Option<String> {
        if let Some(builtin) = self.as_builtin() {
            return Some(crate::builtin::get(builtin).name.to_string());
        }
        let closure = self.as_closure()?;
        let proto = closure.proto();
        Some(match &proto.written {
            FunctionText::Whole => closure.unit.text(proto.span).to_string(),
            FunctionText::Body(span) => format!("(fn {}", closure.unit.text(*span)),
            FunctionText::Member(span) => {
                format!(
                    "(letfn {} {})",
                    closure.unit.text(*span),
                    proto.name.as_ref().map_or("", Word::as_str)
                )
            }
        })
    }

    /// The values this function closes over, by name.
    pub fn captures(&self) -> impl Iterator<Item = (&str, &Value)> {
        let closure = self.as_closure();
        let names = closure.into_iter().flat_map(|closure| closure.unit.captures(closure.proto()));
        let values = closure.into_iter().flat_map(Closure::captures);
        names.map(|capture| capture.name.as_str()).zip(values)
    }

    /// How the function prints: `#fn[x y]`.
    pub fn label(&self) -> String {
        match self.as_closure() {
            Some(closure) => {
                let text = closure.unit.parameters(closure.proto());
                let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
                format!("#fn[{inner}]")
            }
            None => "#fn[...]".to_string(),
        }
    }

    /// The values this function holds.
    pub(crate) fn values(&self) -> Vec<&Value> {
        match &self.body {
            FunctionBody::Closure(closure) => closure.captures().iter().collect(),
            FunctionBody::Builtin(_) | FunctionBody::Tool(_) => Vec::new(),
            FunctionBody::Derived(derived) => match derived {
                Derived::Composed(values)
                | Derived::Juxtaposed(values)
                | Derived::EveryPredicate(values)
                | Derived::SomeFunction(values)
                | Derived::AllOf(values)
                | Derived::AnyOf(values)
                | Derived::NoneOf(values) => values.iter().collect(),
                Derived::Partial(first, rest)
                | Derived::NilSafe(first, rest)
                | Derived::Where(rest, _, first) => rest.iter().chain([first]).collect(),
                Derived::Complement(value) | Derived::Constantly(value) | Derived::Reduced(value) => {
                    vec![value]
                }
            },
        }
    }

    /// Moves what could be nested deeply to `heap`.
    pub(crate) fn dismantle(&mut self, heap: &mut Vec<Debris>) {
        let mut take = |value: &mut Value| super::tree::TreeItem::dismantle(value, heap);
        match &mut self.body {
            // Captures that siblings share are taken apart by the last of them.
            FunctionBody::Closure(closure) => {
                if let Some(captures) = closure.captures.as_mut().and_then(Arc::get_mut) {
                    captures.iter_mut().for_each(take);
                }
            }
            FunctionBody::Builtin(_) | FunctionBody::Tool(_) => {}
            FunctionBody::Derived(derived) => match derived {
                Derived::Composed(values)
                | Derived::Juxtaposed(values)
                | Derived::EveryPredicate(values)
                | Derived::SomeFunction(values)
                | Derived::AllOf(values)
                | Derived::AnyOf(values)
                | Derived::NoneOf(values) => values.iter_mut().for_each(take),
                Derived::Partial(first, rest)
                | Derived::NilSafe(first, rest)
                | Derived::Where(rest, _, first) => {
                    take(first);
                    rest.iter_mut().for_each(take);
                }
                Derived::Complement(value) | Derived::Constantly(value) | Derived::Reduced(value) => {
                    take(value);
                }
            },
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let mut heap = Vec::new();
        self.dismantle(&mut heap);
        clear_debris(heap);
    }
}
