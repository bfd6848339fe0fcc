//! What the reader makes of a text: forms, kept flat in one list so that no depth of nesting costs stack.

use std::borrow::Cow;
use std::rc::Rc;

use crate::value::{Map, Value};

/// A place in the source, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Span { start: start as u32, end: end as u32 }
    }
}

/// Which form of [`Forms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FormId(u32);

/// One form. Copies are cheap: names are parts of the source, lists are shared.
#[derive(Clone, Debug)]
pub(crate) enum Form<'s> {
    /// A number, string, keyword, regex, date, boolean or nil.
    Literal(Value),
    Symbol(Cow<'s, str>),
    List(Rc<[FormId]>),
    Vector(Rc<[FormId]>),
    /// Keys and values in turn.
    Map(Rc<[FormId]>),
    Set(Rc<[FormId]>),
    /// `#(…)`, with the forms of its one call.
    Lambda(Rc<[FormId]>),
    Quote(FormId),
    VarQuote(FormId),
}

/// All forms of a program.
#[derive(Default)]
pub(crate) struct Forms<'s> {
    all: Vec<(Form<'s>, Span)>,
    /// Which forms are literals all the way down.
    constant: Vec<bool>,
    /// The forms that stand in no other.
    pub(crate) top: Vec<FormId>,
}

impl<'s> Forms<'s> {
    pub(crate) fn add(&mut self, form: Form<'s>, span: Span) -> FormId {
        let constant = match &form {
            Form::Literal(_) => true,
            Form::Vector(items) | Form::Map(items) | Form::Set(items) => {
                items.iter().all(|item| self.is_constant(*item))
            }
            _ => false,
        };
        self.constant.push(constant);
        self.all.push((form, span));
        FormId((self.all.len() - 1) as u32)
    }

    pub(crate) fn get(&self, id: FormId) -> &Form<'s> {
        const NIL: &Form<'static> = &Form::Literal(Value::Nil);
        self.all.get(id.0 as usize).map_or(NIL, |(form, _)| form)
    }

    pub(crate) fn span(&self, id: FormId) -> Span {
        self.all.get(id.0 as usize).map_or_else(Span::default, |(_, span)| *span)
    }

    /// Whether a form is a literal all the way down.
    pub(crate) fn is_constant(&self, id: FormId) -> bool {
        self.constant.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The name of a symbol.
    pub(crate) fn symbol(&self, id: FormId) -> Option<&str> {
        if let Form::Symbol(name) = self.get(id) { Some(name) } else { None }
    }

    /// The name of a symbol, to keep.
    pub(crate) fn name(&self, id: FormId) -> Option<Cow<'s, str>> {
        if let Form::Symbol(name) = self.get(id) { Some(name.clone()) } else { None }
    }

    /// The text of a string literal.
    pub(crate) fn string(&self, id: FormId) -> Option<&str> {
        if let Form::Literal(Value::Str(text)) = self.get(id) { Some(text.as_str()) } else { None }
    }

    /// The text of a keyword literal.
    pub(crate) fn keyword(&self, id: FormId) -> Option<&str> {
        if let Form::Literal(Value::Keyword(keyword)) = self.get(id) { Some(keyword.as_str()) } else { None }
    }

    /// The elements of a vector.
    pub(crate) fn vector(&self, id: FormId) -> Option<&[FormId]> {
        if let Form::Vector(items) = self.get(id) { Some(items) } else { None }
    }

    /// The forms of a list.
    pub(crate) fn list(&self, id: FormId) -> Option<&[FormId]> {
        if let Form::List(items) = self.get(id) { Some(items) } else { None }
    }

    /// A form made of literals only, as data: lists become vectors. Fails with the form that is no literal.
    pub(crate) fn data(&self, id: FormId) -> Result<Value, FormId> {
        enum Step {
            Enter(FormId),
            /// Take so many values and make a collection of them.
            Leave(FormId, usize),
        }
        if let Form::Literal(value) = self.get(id) {
            return Ok(value.clone());
        }
        let mut steps = vec![Step::Enter(id)];
        let mut values: Vec<Value> = Vec::new();
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(id) => match self.get(id) {
                    Form::Literal(value) => values.push(value.clone()),
                    Form::List(items) | Form::Vector(items) | Form::Map(items) | Form::Set(items) => {
                        steps.push(Step::Leave(id, items.len()));
                        steps.extend(items.iter().rev().map(|item| Step::Enter(*item)));
                    }
                    Form::Symbol(_) | Form::Lambda(_) | Form::Quote(_) | Form::VarQuote(_) => return Err(id),
                },
                Step::Leave(id, count) => {
                    let items = values.split_off(values.len().saturating_sub(count));
                    values.push(match self.get(id) {
                        Form::Map(_) => {
                            let mut items = items.into_iter();
                            let mut map = Map::default();
                            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                                map.insert_exact(key, value);
                            }
                            Value::Map(map)
                        }
                        Form::Set(_) => Value::Set(items.into_iter().collect()),
                        _ => Value::vector(items),
                    });
                }
            }
        }
        Ok(values.pop().unwrap_or_default())
    }
}
