//! Taking values apart without recursion.
//!
//! A value nested a million levels deep would overflow the stack if each level dropped the next. Instead every level
//! hands what it owns to a heap, and a loop empties the heap.

use std::sync::Arc;

use super::function::Function;
use super::tree::{TreeItem, TreeNode};
use super::{Map, Set, Value, Vector, Word};
use crate::memory::Definition;

/// Something whose last owner may be gone.
pub(crate) enum Debris {
    Values(Arc<TreeNode<Value>>),
    Entries(Arc<TreeNode<(Value, Value)>>),
    Definitions(Arc<TreeNode<(Word, Definition)>>),
    Function(Arc<Function>),
}

/// Drops everything on the heap, and everything below it.
#[inline]
pub(crate) fn clear(heap: Vec<Debris>) {
    if !heap.is_empty() {
        take_apart(heap);
    }
}

fn take_apart(mut heap: Vec<Debris>) {
    while let Some(debris) = heap.pop() {
        match debris {
            Debris::Values(node) => {
                if let Some(mut node) = Arc::into_inner(node) {
                    node.dismantle(&mut heap);
                }
            }
            Debris::Entries(node) => {
                if let Some(mut node) = Arc::into_inner(node) {
                    node.dismantle(&mut heap);
                }
            }
            Debris::Definitions(node) => {
                if let Some(mut node) = Arc::into_inner(node) {
                    node.dismantle(&mut heap);
                }
            }
            Debris::Function(function) => {
                if let Some(mut function) = Arc::into_inner(function) {
                    function.dismantle(&mut heap);
                }
            }
        }
    }
}

impl TreeItem for Value {
    #[inline]
    fn dismantle(&mut self, heap: &mut Vec<Debris>) {
        if self.is_plain() {
            return;
        }
        match self {
            Value::Vector(Vector(tree)) | Value::Set(Set(tree)) => {
                heap.extend(tree.take_root().map(Debris::Values));
            }
            Value::Map(Map(tree)) => heap.extend(tree.take_root().map(Debris::Entries)),
            // One that holds nothing leads nowhere.
            Value::Function(function)
                if function.as_closure().is_some_and(|closure| closure.captures.is_none()) => {}
            Value::Function(_) => {
                if let Value::Function(function) = std::mem::replace(self, Value::Nil) {
                    heap.push(Debris::Function(function));
                }
            }
            _ => {}
        }
    }

    fn debris(node: Arc<TreeNode<Self>>) -> Debris {
        Debris::Values(node)
    }
}

impl TreeItem for (Value, Value) {
    fn dismantle(&mut self, heap: &mut Vec<Debris>) {
        self.0.dismantle(heap);
        self.1.dismantle(heap);
    }

    fn debris(node: Arc<TreeNode<Self>>) -> Debris {
        Debris::Entries(node)
    }
}
