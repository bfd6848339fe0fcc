//! Slices: immutable lists of one type, which readers share.

use std::any::Any;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What may be kept in a session, in a slice of its type.
pub trait SliceItem: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in snapshots.
    const NAME: &'static str;
    /// Whether a rollback takes it back.
    const KIND: SliceKind;
}

/// What a rollback does with a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceKind {
    /// It goes back to what the snapshot says.
    State,
    /// It keeps what it has.
    Log,
}

impl SliceKind {
    /// Its word in snapshots.
    pub fn as_str(self) -> &'static str {
        match self {
            SliceKind::State => "state",
            SliceKind::Log => "log",
        }
    }
}

/// A slice as it is at one moment. Cloning it copies a pointer; later changes do not show.
pub struct Slice<T> {
    items: rpds::VectorSync<T>,
}

impl<T> Slice<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at a place.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)
    }

    /// The newest item.
    pub fn latest(&self) -> Option<&T> {
        self.items.last()
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    fn pushed(&self, item: T) -> Self {
        Slice { items: self.items.push_back(item) }
    }

    fn of(items: impl IntoIterator<Item = T>) -> Self {
        Slice { items: items.into_iter().collect() }
    }

    /// The slice after a change.
    pub(super) fn after(&self, op: SliceChange<T>) -> Self {
        match op {
            SliceChange::Keep => self.clone(),
            SliceChange::Append(item) => self.pushed(item),
            SliceChange::Extend(items) => {
                let mut longer = self.items.clone();
                for item in items {
                    longer.push_back_mut(item);
                }
                Slice { items: longer }
            }
            SliceChange::Replace(items) => Slice::of(items),
            SliceChange::Clear => Slice::default(),
        }
    }
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        Slice { items: self.items.clone() }
    }
}

impl<T> Default for Slice<T> {
    fn default() -> Self {
        Slice { items: rpds::Vector::new_sync() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What a reducer does with a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceChange<T> {
    /// Nothing.
    Keep,
    /// One more item at the end.
    Append(T),
    /// More items at the end.
    Extend(Vec<T>),
    /// Other items in place of all.
    Replace(Vec<T>),
    /// No items.
    Clear,
}

/// A slice of some type, as the session keeps it.
pub(super) trait AnySlice: Send + Sync {
    fn name(&self) -> &'static str;
    fn kind(&self) -> SliceKind;
    fn as_any(&self) -> &dyn Any;
    /// The items as JSON; the first that has none is named.
    fn to_json(&self) -> Result<Vec<Value>, (usize, String)>;
    /// The same slice with other items, read from JSON; the first that cannot be read is named.
    fn read(&self, items: &[Value]) -> Result<Box<dyn AnySlice>, (usize, String)>;
    /// The same slice without items.
    fn emptied(&self) -> Box<dyn AnySlice>;
    /// The same slice; its items are shared.
    fn shared(&self) -> Box<dyn AnySlice>;
}

impl<T: SliceItem> AnySlice for Slice<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn kind(&self) -> SliceKind {
        T::KIND
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_json(&self) -> Result<Vec<Value>, (usize, String)> {
        let write = |(index, item)| serde_json::to_value(item).map_err(|error| (index, error.to_string()));
        self.iter().enumerate().map(write).collect()
    }

    fn read(&self, items: &[Value]) -> Result<Box<dyn AnySlice>, (usize, String)> {
        let read =
            |(index, item): (usize, &Value)| T::deserialize(item).map_err(|error| (index, error.to_string()));
        let items: Vec<T> = items.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Box::new(Slice::of(items)))
    }

    fn emptied(&self) -> Box<dyn AnySlice> {
        Box::new(Slice::<T>::default())
    }

    fn shared(&self) -> Box<dyn AnySlice> {
        Box::new(self.clone())
    }
}
