//! Names in expressions and templates, and where their values come from.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// Something a flow can name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FlowName {
    /// `previous` or `output`: the latest output; in `exit_expression` the iteration's.
    Previous,
    /// `input`: the run's input.
    Input,
    /// `loop.input`: the input of the innermost loop.
    LoopInput,
    /// `loop.iteration`: from 1.
    LoopIteration,
    /// `steps.NAME.output`: of the latest execution visible from here.
    StepOutput(Box<str>),
    /// `steps.NAME.status`: likewise.
    StepStatus(Box<str>),
    /// `item`: the item that a `map` works on.
    Item,
    /// `index`: its number, from 0.
    Index,
    /// `history`: turns of the innermost conversational loop, as objects with `role` and `content`.
    History,
}

impl FlowName {
    /// The step it is about.
    pub fn step(&self) -> Option<&str> {
        match self {
            FlowName::StepOutput(step) | FlowName::StepStatus(step) => Some(step),
            _ => None,
        }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowName::Previous => f.write_str("previous"),
            FlowName::Input => f.write_str("input"),
            FlowName::LoopInput => f.write_str("loop.input"),
            FlowName::LoopIteration => f.write_str("loop.iteration"),
            FlowName::StepOutput(step) => write!(f, "steps.{step}.output"),
            FlowName::StepStatus(step) => write!(f, "steps.{step}.status"),
            FlowName::Item => f.write_str("item"),
            FlowName::Index => f.write_str("index"),
            FlowName::History => f.write_str("history"),
        }
    }
}

/// One step from a value into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathKey {
    /// The member of an object.
    Member(Box<str>),
    /// The element of a list; negative numbers count from the end.
    Element(i64),
}

/// A name, and the way from its value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where the way begins.
    pub name: FlowName,
    /// The way; empty: the whole value.
    pub keys: Vec<PathKey>,
}

impl Reference {
    /// The value it stands for; none if it is missing.
    pub fn value<'n>(&self, names: &'n dyn Names) -> Option<Cow<'n, Value>> {
        follow(names.value(&self.name)?, &self.keys)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        for key in &self.keys {
            match key {
                PathKey::Member(name) => write!(f, ".{name}")?,
                PathKey::Element(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}

/// What names stand for at one place of a run. Implemented by the driver that runs a flow.
pub trait Names {
    /// The value of a name; `None` while it has no value: a step that did not run, `item` outside a map.
    fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>>;
}

/// The part of a value at the end of a way.
pub(crate) fn follow<'v>(value: Cow<'v, Value>, keys: &[PathKey]) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => keys.iter().try_fold(value, |value, key| part(value, key)).map(Cow::Borrowed),
        Cow::Owned(value) if keys.is_empty() => Some(Cow::Owned(value)),
        Cow::Owned(value) => {
            keys.iter().try_fold(&value, |value, key| part(value, key)).map(|part| Cow::Owned(part.clone()))
        }
    }
}

/// One step into a value.
pub(crate) fn part<'v>(value: &'v Value, key: &PathKey) -> Option<&'v Value> {
    match (value, key) {
        (Value::Object(members), PathKey::Member(name)) => members.get(&**name),
        // `items.0` is the first element, as in Handlebars.
        (Value::Array(list), PathKey::Member(name)) => list.get(name.parse::<usize>().ok()?),
        (Value::Array(list), PathKey::Element(number)) => {
            let place = if *number < 0 {
                list.len().checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?
            } else {
                usize::try_from(*number).ok()?
            };
            list.get(place)
        }
        _ => None,
    }
}
