//! What names stand for while a program runs, and how definitions are made.

use std::sync::Arc;

use super::Machine;
use super::definitions::Global;
use super::fiber::Fiber;
use super::link::Meaning;
use crate::builtin::Documentation;
use crate::error::{Error, Fault, Reason};
use crate::value::{Closure, Function, Value};

impl Machine {
    /// The value a definition has now.
    #[inline]
    pub(super) fn definition<'f>(&'f self, fiber: &'f Fiber, index: u32) -> Option<&'f Value> {
        match fiber.globals.get(index) {
            Some(global) => global.value.as_ref(),
            None => self.base.get(index as usize)?.value.as_ref(),
        }
    }

    /// The value of the definition that a free name stands for now.
    #[inline]
    pub(super) fn named_definition<'f>(
        &'f self,
        fiber: &'f Fiber,
        links: usize,
        name: u32,
    ) -> Option<&'f Value> {
        let link = self.links.get(links)?.names.get(name as usize)?;
        self.definition(fiber, link.global?)
    }

    /// What a free name stands for now.
    pub(super) fn global(&mut self, fiber: &Fiber, links: usize, name: u32) -> Result<Value, Fault> {
        let Some(link) = self.links.get(links).and_then(|links| links.names.get(name as usize)) else {
            return Ok(Value::Nil);
        };
        if let Some(index) = link.global
            && let Some(value) = self.definition(fiber, index)
        {
            return Ok(value.clone());
        }
        match &link.otherwise {
            Meaning::Builtin(_, id) => Ok(Value::Function(Arc::new(Function::builtin(*id)))),
            Meaning::Value(value) | Meaning::Tool(value) => Ok(value.clone()),
            Meaning::NoData => {
                self.warn_no_data(links, name);
                Ok(Value::Nil)
            }
            Meaning::Ambiguous => Err(self.ambiguous(links, name)),
            Meaning::Unbound => {
                match self.links.get(links).and_then(|links| links.unit.names.get(name as usize)) {
                    Some(name) => Err(self.unbound(name)),
                    None => Ok(Value::Nil),
                }
            }
        }
    }

    fn warn_no_data(&mut self, links: usize, name: u32) {
        let text = self.name_text(links, name);
        let known: Vec<&str> = self.env.data.values.keys().map(|key| &**key).collect();
        let known = if known.is_empty() {
            "there is no data".into()
        } else {
            format!("data/ has: {}", known.join(", "))
        };
        self.context.warn(format!("data/{text} is not there; {known}"));
    }

    pub(super) fn name_text(&self, links: usize, name: u32) -> String {
        let links = self.links.get(links);
        links
            .and_then(|links| links.unit.names.get(name as usize))
            .map_or_else(String::new, |name| name.text.as_str().into())
    }

    pub(super) fn ambiguous(&self, links: usize, name: u32) -> Fault {
        let text = self.name_text(links, name);
        let message = format!("{text} is both tool/{text} and data/{text}; write one of them");
        Box::new(Error::new(Reason::AmbiguousReference, message))
    }

    /// The docstring and the parameters of what a name stands for now, for `(doc name)`.
    pub(super) fn documentation(&self, fiber: &Fiber, name: &str) -> Option<Documentation> {
        let parameters = |value: Option<&Value>| match value {
            Some(Value::Function(function)) => function.parameters(),
            _ => None,
        };
        let own = self.numbers.find(name).and_then(|index| fiber.globals.get(index));
        if let Some(global) = own {
            return Some((global.doc.clone(), parameters(global.value.as_ref())));
        }
        let definition = self.env.memory.get(name)?;
        Some((definition.doc.clone(), definition.parameters()))
    }

    /// Makes a definition.
    pub(super) fn define(
        &mut self,
        fiber: &mut Fiber,
        closure: &Closure,
        links: usize,
        index: u32,
    ) -> Result<(), Fault> {
        let Some(definition) = closure.unit.defs.get(index as usize) else { return Ok(()) };
        let link = self.links.get(links).and_then(|links| links.names.get(definition.name as usize));
        let global = match link.and_then(|link| link.global) {
            Some(global) => global,
            None => match closure.unit.names.get(definition.name as usize) {
                Some(name) => self.global_index(&name.text),
                None => return Ok(()),
            },
        };
        self.context.meter.reserve(128)?;
        self.shadowed |= definition.shadows;
        let value =
            if definition.has_value { fiber.stack.pop() } else { self.definition(fiber, global).cloned() };
        if let Some(slot) = fiber.returns.get_mut(global as usize) {
            *slot = None;
        }
        fiber.globals.put(global, Global { value, doc: definition.doc.clone() });
        Ok(())
    }
}
