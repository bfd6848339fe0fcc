//! What the reader makes of a text: forms, kept flat in a few lists so that no depth of nesting costs stack, and so
//! that reading allocates for the program and not for each of its forms.

use super::symbol::{Symbol, Symbols};
use crate::value::{Map, Value};

/// A place in the source, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SourceSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl SourceSpan {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        SourceSpan { start: start as u32, end: end as u32 }
    }
}

/// Which form of [`Forms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FormId(u32);

/// The forms inside a form, as a part of one list that all forms share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Items {
    start: u32,
    end: u32,
}

impl Items {
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// What follows the first so many.
    pub(crate) fn skip(self, count: usize) -> Items {
        Items { start: self.end.min(self.start.saturating_add(count as u32)), end: self.end }
    }
}

/// One form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// A number, string, keyword, regex, date, boolean or nil, by its number among the constants.
    Literal(u32),
    Symbol(Symbol),
    List(Items),
    Vector(Items),
    /// Keys and values in turn.
    Map(Items),
    Set(Items),
    /// `#(…)`, with the forms of its one call.
    Lambda(Items),
    Quote(FormId),
    VarQuote(FormId),
}

#[derive(Clone, Copy)]
struct FormNode {
    form: Form,
    span: SourceSpan,
    /// Whether it is a literal all the way down.
    constant: bool,
}

/// All forms of a program.
pub(crate) struct Forms<'s> {
    all: Vec<FormNode>,
    items: Vec<FormId>,
    /// The literals; the compiler adds to them, and they become the constants of the unit.
    pub(crate) constants: Vec<Value>,
    pub(crate) symbols: Symbols<'s>,
    /// The forms that stand in no other.
    pub(crate) top: Items,
}

impl Forms<'_> {
    /// With room for the forms of a source of so many bytes.
    pub(super) fn for_source(bytes: usize) -> Self {
        Forms {
            all: Vec::with_capacity(bytes / 3 + 8),
            items: Vec::with_capacity(bytes / 2 + 8),
            constants: Vec::with_capacity(bytes / 16 + 8),
            symbols: Symbols::default(),
            top: Items::default(),
        }
    }

    pub(crate) fn add(&mut self, form: Form, span: SourceSpan) -> FormId {
        let constant = match form {
            Form::Literal(_) => true,
            Form::Vector(items) | Form::Map(items) | Form::Set(items) => {
                self.items(items).iter().all(|item| self.is_constant(*item))
            }
            _ => false,
        };
        self.all.push(FormNode { form, span, constant });
        FormId((self.all.len() - 1) as u32)
    }

    /// A symbol that is not written in the source.
    pub(crate) fn add_symbol(&mut self, name: String, span: SourceSpan) -> FormId {
        let symbol = self.symbols.intern(name.into());
        self.add(Form::Symbol(symbol), span)
    }

    /// Puts forms where others can have them as their parts.
    pub(crate) fn add_items(&mut self, forms: &[FormId]) -> Items {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(forms);
        Items { start, end: self.items.len() as u32 }
    }

    pub(crate) fn constant(&mut self, value: Value) -> u32 {
        self.constants.push(value);
        (self.constants.len() - 1) as u32
    }

    pub(crate) fn get(&self, id: FormId) -> Form {
        const NOTHING: Form = Form::List(Items { start: 0, end: 0 });
        self.all.get(id.0 as usize).map_or(NOTHING, |node| node.form)
    }

    pub(crate) fn span(&self, id: FormId) -> SourceSpan {
        self.all.get(id.0 as usize).map_or_else(SourceSpan::default, |node| node.span)
    }

    /// The forms inside a form.
    pub(crate) fn items(&self, items: Items) -> &[FormId] {
        self.items.get(items.start as usize..items.end as usize).unwrap_or_default()
    }

    /// The first of some forms, and the others.
    pub(crate) fn split_first(&self, items: Items) -> Option<(FormId, Items)> {
        Some((*self.items(items).first()?, items.skip(1)))
    }

    /// Whether a form is a literal all the way down.
    pub(crate) fn is_constant(&self, id: FormId) -> bool {
        self.all.get(id.0 as usize).is_some_and(|node| node.constant)
    }

    /// The value of a literal.
    pub(crate) fn literal(&self, id: FormId) -> Option<&Value> {
        if let Form::Literal(at) = self.get(id) { self.constants.get(at as usize) } else { None }
    }

    /// The name of a symbol.
    pub(crate) fn symbol(&self, id: FormId) -> Option<&str> {
        self.name(id).map(|symbol| self.symbols.text(symbol))
    }

    /// A symbol, to keep.
    pub(crate) fn name(&self, id: FormId) -> Option<Symbol> {
        if let Form::Symbol(symbol) = self.get(id) { Some(symbol) } else { None }
    }

    /// The text of a string literal.
    pub(crate) fn string(&self, id: FormId) -> Option<&str> {
        if let Some(Value::Str(text)) = self.literal(id) { Some(text.as_str()) } else { None }
    }

    /// The text of a keyword literal.
    pub(crate) fn keyword(&self, id: FormId) -> Option<&str> {
        if let Some(Value::Keyword(keyword)) = self.literal(id) { Some(keyword.as_str()) } else { None }
    }

    /// The elements of a vector.
    pub(crate) fn vector(&self, id: FormId) -> Option<Items> {
        if let Form::Vector(items) = self.get(id) { Some(items) } else { None }
    }

    /// The forms of a list.
    pub(crate) fn list(&self, id: FormId) -> Option<Items> {
        if let Form::List(items) = self.get(id) { Some(items) } else { None }
    }

    /// A form made of literals only, as data: lists become vectors. Fails with the form that is no literal.
    pub(crate) fn data(&self, id: FormId) -> Result<Value, FormId> {
        enum WalkStep {
            Enter(FormId),
            /// Take so many values and make a collection of them.
            Leave(FormId, usize),
        }
        if let Some(value) = self.literal(id) {
            return Ok(value.clone());
        }
        let mut steps = Vec::with_capacity(16);
        steps.push(WalkStep::Enter(id));
        let mut values: Vec<Value> = Vec::with_capacity(16);
        while let Some(step) = steps.pop() {
            match step {
                WalkStep::Enter(id) => match self.get(id) {
                    Form::Literal(_) => values.push(self.literal(id).cloned().unwrap_or_default()),
                    Form::List(items) | Form::Vector(items) | Form::Map(items) | Form::Set(items) => {
                        steps.push(WalkStep::Leave(id, items.len()));
                        steps.extend(self.items(items).iter().rev().map(|item| WalkStep::Enter(*item)));
                    }
                    Form::Symbol(_) | Form::Lambda(_) | Form::Quote(_) | Form::VarQuote(_) => return Err(id),
                },
                WalkStep::Leave(id, count) => {
                    let mut items = values.drain(values.len().saturating_sub(count)..);
                    let made = match self.get(id) {
                        Form::Map(_) => {
                            let pair = || Some((items.next()?, items.next()?));
                            Value::Map(std::iter::from_fn(pair).collect::<Map>())
                        }
                        Form::Set(_) => Value::Set(items.by_ref().collect()),
                        _ => Value::vector(items.by_ref()),
                    };
                    drop(items);
                    values.push(made);
                }
            }
        }
        Ok(values.pop().unwrap_or_default())
    }
}
