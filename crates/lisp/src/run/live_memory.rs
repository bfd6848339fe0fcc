//! Counting what is alive: everything that can still be reached, each thing once, granted data excepted.

use std::collections::HashSet;
use std::sync::Arc;

use super::Machine;
use super::context::{FUNCTION_BYTES, NODE_BYTES, TEXT_BYTES, VALUE_BYTES};
use super::fiber::{Fiber, Frame};
use crate::error::Fault;
use crate::hashing::BuildSpread;
use crate::value::tree::TreeNode;
use crate::value::{Function, Map, Set, Value, Vector, number};

/// Addresses of things in memory.
pub(crate) type Addresses = HashSet<usize, BuildSpread>;

/// What has been counted, and what is still to be looked into.
#[derive(Default)]
struct Count<'g> {
    /// Granted data, which costs nothing and need not be looked into again.
    granted: Option<&'g Addresses>,
    /// Whether everything is remembered, not only what is shared.
    remember: bool,
    seen: Addresses,
    bytes: usize,
    nodes: Vec<Arc<TreeNode<Value>>>,
    entries: Vec<Arc<TreeNode<(Value, Value)>>>,
    functions: Vec<Arc<Function>>,
}

impl Machine {
    /// Counts what is alive and tells the meter.
    pub(super) fn count_memory(&mut self, running: &Fiber) -> Result<(), Fault> {
        let granted = self.env.data.addresses.get_or_init(|| {
            let mut count = Count { remember: true, ..Count::default() };
            self.env.data.values.values().for_each(|value| count.value(value));
            count.finish();
            count.seen
        });
        let mut count = Count { granted: Some(granted), ..Count::default() };
        let fibers = self.fibers.iter().flatten().map(AsRef::as_ref).chain([running]);
        for fiber in fibers {
            count.fiber(fiber);
        }
        for global in &self.base {
            global.value.iter().for_each(|value| count.value(value));
        }
        count.finish();
        self.context.meter.counted(count.bytes)
    }
}

impl Count<'_> {
    fn fiber(&mut self, fiber: &Fiber) {
        self.bytes += fiber.stack.len() * VALUE_BYTES + fiber.frames.len() * 128 + fiber.prints.bytes();
        fiber.stack.iter().chain(&fiber.answer).for_each(|value| self.value(value));
        for global in fiber.globals.iter() {
            self.bytes += 128;
            global.value.iter().for_each(|value| self.value(value));
        }
        for call in &fiber.calls {
            self.bytes += 256;
            self.value(&Value::Map(call.args.clone()));
            if let Ok(value) = &call.result {
                self.value(value);
            }
        }
        for frame in &fiber.frames {
            match frame {
                Frame::Code(frame) => frame.function.iter().for_each(|function| self.function(function)),
                Frame::Work(work, _) => work.trace(&mut |value| self.value_held(value)),
                Frame::Branches(branches) => {
                    for (function, arguments) in &branches.calls {
                        self.value(function);
                        for value in arguments {
                            self.value_held(value);
                        }
                    }
                    for finished in branches.finished.iter().flatten() {
                        self.bytes += finished.prints.bytes();
                        if let Ok(value) = &finished.result {
                            self.value_held(value);
                        }
                    }
                }
            }
        }
    }

    /// A value in a list of our own, which takes memory itself.
    fn value_held(&mut self, value: &Value) {
        self.bytes += VALUE_BYTES;
        if !value.is_plain() {
            self.value(value);
        }
    }

    /// Whether something is met for the first time. A value with one owner is met only once.
    fn first(&mut self, address: usize, shared: bool) -> bool {
        if !shared && !self.remember {
            return true;
        }
        !self.granted.is_some_and(|granted| granted.contains(&address)) && self.seen.insert(address)
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Str(text) if self.first(text.address(), text.is_shared()) => {
                self.bytes += text.bytes() + TEXT_BYTES;
            }
            Value::Keyword(keyword) => {
                let text = keyword.text();
                if self.first(text.address(), text.is_shared()) {
                    self.bytes += text.bytes() + TEXT_BYTES;
                }
            }
            Value::Vector(Vector(tree)) | Value::Set(Set(tree)) => {
                if let Some(root) = tree.root() {
                    self.node(root);
                }
            }
            Value::Map(Map(tree)) => {
                if let Some(root) = tree.root() {
                    self.entry_node(root);
                }
            }
            Value::Function(function) => self.function(function),
            Value::Big(_) => self.bytes += number::bytes(value),
            Value::Regex(pattern) => self.bytes += pattern.bytes(),
            _ => {}
        }
    }

    fn function(&mut self, function: &Arc<Function>) {
        if self.first(Arc::as_ptr(function).addr(), Arc::strong_count(function) > 1) {
            self.functions.push(Arc::clone(function));
        }
    }

    fn node(&mut self, node: &Arc<TreeNode<Value>>) {
        if self.first(Arc::as_ptr(node).addr(), Arc::strong_count(node) > 1) {
            self.nodes.push(Arc::clone(node));
        }
    }

    fn entry_node(&mut self, node: &Arc<TreeNode<(Value, Value)>>) {
        if self.first(Arc::as_ptr(node).addr(), Arc::strong_count(node) > 1) {
            self.entries.push(Arc::clone(node));
        }
    }

    /// Looks into everything that was only noted so far.
    fn finish(&mut self) {
        loop {
            if let Some(node) = self.nodes.pop() {
                let (items, children) = node.parts();
                self.bytes += NODE_BYTES + items.len() * VALUE_BYTES;
                for item in items.iter().filter(|item| !item.is_plain()) {
                    self.value(item);
                }
                children.for_each(|child| self.node(child));
            } else if let Some(node) = self.entries.pop() {
                let (entries, children) = node.parts();
                self.bytes += NODE_BYTES + entries.len() * 2 * VALUE_BYTES;
                for (key, value) in entries {
                    self.value(key);
                    self.value(value);
                }
                children.for_each(|child| self.entry_node(child));
            } else if let Some(function) = self.functions.pop() {
                let held = function.values();
                self.bytes += FUNCTION_BYTES + held.len() * VALUE_BYTES;
                for value in held {
                    self.value(value);
                }
            } else {
                return;
            }
        }
    }
}
