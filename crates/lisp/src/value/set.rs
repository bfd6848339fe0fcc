//! Sets, kept sorted by the order of keys.

use super::tree::Tree;
use super::{Value, order};

/// A persistent set, sorted.
#[derive(Clone, Default)]
pub struct Set(pub(crate) Tree<Value>);

impl Set {
    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    /// The member that equals `value`.
    pub fn get(&self, value: &Value) -> Option<&Value> {
        self.0.get(self.find(value).ok()?)
    }

    /// Whether a member equals `value`.
    pub fn contains(&self, value: &Value) -> bool {
        self.find(value).is_ok()
    }

    fn find(&self, value: &Value) -> Result<usize, usize> {
        self.0.search(|member| order::keys(member, value))
    }

    /// Adds a member; whether it is new. One that is there already stays as it is.
    pub(crate) fn insert(&mut self, value: Value) -> bool {
        match self.find(&value) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, value);
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, value: &Value) {
        if let Ok(at) = self.find(value) {
            self.0.remove(at);
        }
    }
}

impl FromIterator<Value> for Set {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        let mut items: Vec<Value> = items.into_iter().collect();
        items.sort_by(order::keys);
        items.dedup_by(|later, kept| order::keys(later, kept).is_eq());
        Set(items.into_iter().collect())
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", Value::Set(self.clone()))
    }
}
