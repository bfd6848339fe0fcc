//! What the free names of a unit stand for in one run.

use std::sync::Arc;

use super::Machine;
use super::definitions::Global;
use crate::builtin::{self, Builtin, BuiltinId};
use crate::compile::{FreeName, Space, Unit};
use crate::error::{Error, Fault, Reason};
use crate::hint;
use crate::value::{Function, Value, Word};

/// The names of one unit.
pub(crate) struct Links {
    pub(crate) unit: Arc<Unit>,
    pub(crate) names: Vec<NameLink>,
}

/// One name.
pub(crate) struct NameLink {
    /// The definition of that name, which comes first if it has a value.
    pub(crate) global: Option<u32>,
    pub(crate) otherwise: Meaning,
}

/// What a name stands for, definitions aside.
pub(crate) enum Meaning {
    Builtin(&'static Builtin, BuiltinId),
    Value(Value),
    Tool(Value),
    /// Data that was not granted: nil, with a warning.
    NoData,
    Ambiguous,
    Unbound,
}

impl Machine {
    /// The links of a unit, made when it is first met.
    pub(crate) fn links_of(&mut self, unit: &Arc<Unit>) -> usize {
        if let Some(at) = self.links.iter().position(|links| Arc::ptr_eq(&links.unit, unit)) {
            return at;
        }
        let names = unit.names.iter().map(|name| self.link(name, None)).collect();
        self.links.push(Links { unit: Arc::clone(unit), names });
        self.links.len() - 1
    }

    /// The links of the program itself, whose names have their numbers already.
    pub(crate) fn link_program(&mut self, unit: &Arc<Unit>) {
        let names = unit.names.iter().map(|name| self.link(name, name.global)).collect();
        self.links.push(Links { unit: Arc::clone(unit), names });
        if !self.env.memory.is_empty() {
            self.base = unit.globals.iter().map(|name| self.before(name)).collect();
        }
    }

    fn link(&mut self, name: &FreeName, number: Option<u32>) -> NameLink {
        let otherwise = match name.space {
            Space::Bare | Space::Builtin => match name.builtin {
                Some(id) => builtin_meaning(id),
                None if name.space == Space::Builtin => Meaning::Unbound,
                None => match (self.tool_value(&name.text), self.data_value(&name.text)) {
                    (Some(_), Some(_)) => Meaning::Ambiguous,
                    (Some(tool), None) => Meaning::Tool(tool),
                    (None, Some(value)) => Meaning::Value(value.clone()),
                    (None, None) => Meaning::Unbound,
                },
            },
            Space::Data => match self.data_value(&name.text) {
                Some(value) => Meaning::Value(value.clone()),
                None => Meaning::NoData,
            },
            Space::Tool => self.tool_value(&name.text).map_or(Meaning::Unbound, Meaning::Tool),
            Space::History(at) => {
                Meaning::Value(self.env.history.get(usize::from(at)).cloned().unwrap_or_default())
            }
            Space::User | Space::Unknown => Meaning::Unbound,
        };
        // Without earlier definitions, nothing but this program can give a builtin's name another meaning.
        let fixed = name.builtin.is_some() && !name.defined && self.env.memory.is_empty();
        let definable = matches!(name.space, Space::Bare | Space::User) && !fixed;
        let global = definable.then(|| number.unwrap_or_else(|| self.global_index(&name.text)));
        NameLink { global, otherwise }
    }

    fn tool_value(&self, name: &Word) -> Option<Value> {
        let position = self.env.tools.keys().position(|tool| tool.as_bytes() == name.as_bytes())?;
        Some(Value::Function(Arc::new(Function::tool(name.as_str().into(), position))))
    }

    fn data_value(&self, name: &Word) -> Option<&Value> {
        let data = &self.env.data.values;
        // Most programs have no data, and need no name to look for.
        if data.is_empty() { None } else { data.get(name.as_str()) }
    }

    /// The number a definition has in this run.
    pub(crate) fn global_index(&mut self, name: &Word) -> u32 {
        let index = self.numbers.number(name);
        if self.base.len() <= index as usize && !self.env.memory.is_empty() {
            self.base.push(self.before(name));
        }
        index
    }

    /// What a name stood for before the run.
    fn before(&self, name: &Word) -> Global {
        let definition = self.env.memory.get(name.as_str());
        let value = definition.and_then(|definition| definition.value.clone());
        Global { value, doc: definition.and_then(|definition| definition.doc.clone()) }
    }

    /// Whether every name of the program stands for something, before anything runs.
    pub(crate) fn check_names(&mut self, unit: &Arc<Unit>) -> Result<(), Fault> {
        let mut shadowed = Vec::new();
        let mut worst: Option<(u32, Fault)> = None;
        for (at, name) in unit.names.iter().enumerate() {
            let Some(link) = self.links.first().and_then(|links| links.names.get(at)) else { continue };
            if name.space == Space::Bare
                && name.used.is_some()
                && name.builtin.is_some()
                && self.data_value(&name.text).is_some()
            {
                shadowed.push(name.text.as_str().to_string());
            }
            let Some(used) = name.used else { continue };
            let defined = || {
                let text = || name.text.as_str();
                let here = name.defined || (name.space == Space::User && unit.defines(text()));
                link.global.is_some() && (here || self.env.memory.get(text()).is_some())
            };
            if !matches!(link.otherwise, Meaning::Unbound) || defined() {
                continue;
            }
            if worst.as_ref().is_none_or(|(start, _)| used.start < *start) {
                let error = unit.locate(self.unbound(name), used);
                worst = Some((used.start, error));
            }
        }
        for name in shadowed {
            self.context.warn(format!("{name} is the builtin; the data is data/{name}"));
        }
        worst.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The error for a name that stands for nothing.
    pub(crate) fn unbound(&self, name: &FreeName) -> Fault {
        let text = name.text.as_str();
        Box::new(match name.space {
            Space::Tool => {
                let tools: Vec<&str> = self.env.tools.keys().map(|tool| &**tool).collect();
                let known = if tools.is_empty() {
                    "No tools available.".to_string()
                } else {
                    format!("Available tools: {}", tools.join(", "))
                };
                let mut error = Error::new(Reason::UnknownTool, format!("Unknown tool: {text}. {known}"));
                error.hint = hint::nearest(text, tools).map(|tool| format!("Did you mean: tool/{tool}"));
                error
            }
            Space::User => {
                let mut error = Error::new(Reason::UnboundVar, format!("undefined variable: user/{text}"));
                let defined = self.env.memory.iter().map(|(name, _)| name);
                error.hint = hint::nearest(text, defined).map(|name| format!("Did you mean: user/{name}"));
                error
            }
            Space::Builtin => {
                let (space, member) = text.split_once('/').unwrap_or(("", text));
                let members = builtin::members(space);
                let mut error = Error::new(Reason::UnboundVar, format!("undefined variable: {text}"));
                let near = hint::nearest(member, members.iter().copied());
                let known = format!("{space}/ has: {}", members.join(" "));
                error.hint = Some(match near {
                    Some(near) => format!("Did you mean: {space}/{near}; {known}"),
                    None => known,
                });
                error
            }
            _ => {
                let mut error = Error::new(Reason::UnboundVar, format!("undefined variable: {text}"));
                error.hint = self.name_hint(name);
                error
            }
        })
    }

    fn name_hint(&self, name: &FreeName) -> Option<String> {
        let text = name.text.as_str();
        if let Some(hint) = hint::absent(text) {
            return Some(hint.to_string());
        }
        let mut known: Vec<&str> = name.locals.iter().map(Word::as_str).collect();
        known.extend(self.links.iter().flat_map(|links| links.unit.defined()));
        known.extend(self.env.memory.iter().map(|(name, _)| name));
        known.extend(self.env.tools.keys().map(|tool| &**tool));
        known.extend(self.env.data.values.keys().map(|key| &**key));
        for builtin in builtin::names() {
            known.push(builtin);
        }
        let hyphenated = text.replace('_', "-");
        if hyphenated != text && known.contains(&hyphenated.as_str()) {
            return Some(format!("did you mean {hyphenated}?"));
        }
        hint::nearest(text, known).map(|near| format!("Did you mean: {near}"))
    }
}

fn builtin_meaning(id: BuiltinId) -> Meaning {
    match builtin::get(id).constant() {
        Some(constant) => Meaning::Value(Value::Float(constant)),
        None => Meaning::Builtin(builtin::get(id), id),
    }
}

impl Unit {
    /// The names the program defines.
    fn defined(&self) -> impl Iterator<Item = &str> {
        let names = self.defs.iter().filter_map(|definition| self.names.get(definition.name as usize));
        names.map(|name| name.text.as_str())
    }

    /// Whether the program defines a name.
    fn defines(&self, name: &str) -> bool {
        self.defined().any(|defined| defined == name)
    }
}
