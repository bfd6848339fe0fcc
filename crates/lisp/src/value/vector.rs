//! Vectors: the only sequence of the language.

use super::Value;
use super::tree::Tree;

/// A persistent vector: copying is free, changing costs the logarithm of its length.
#[derive(Clone, Default)]
pub struct Vector(pub(crate) Tree<Value>);

impl Vector {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The element at an index.
    pub fn get(&self, index: usize) -> Option<&Value> {
        self.0.get(index)
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    pub(crate) fn push(&mut self, value: Value) {
        self.0.push(value);
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> Vector {
        Vector(self.0.slice(start, end))
    }
}

impl From<Vec<Value>> for Vector {
    fn from(items: Vec<Value>) -> Self {
        Vector(items.into())
    }
}

impl FromIterator<Value> for Vector {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Vector(items.into_iter().collect())
    }
}

impl std::fmt::Debug for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", Value::Vector(self.clone()))
    }
}
