//! Common reducers. Each is a pure function from a slice and an item to the new slice.

use super::slice::{Slice, SliceChange};

/// Adds the item.
pub fn append<T>(_: &Slice<T>, item: T) -> SliceChange<T> {
    SliceChange::Append(item)
}

/// Adds the item unless it is there already.
pub fn append_unique<T: PartialEq>(slice: &Slice<T>, item: T) -> SliceChange<T> {
    if slice.iter().any(|known| *known == item) { SliceChange::Keep } else { SliceChange::Append(item) }
}

/// Puts the item in place of the first with the same key, and removes any later one; adds it if there is none.
pub fn upsert_by<T: Clone, K: PartialEq>(key: impl Fn(&T) -> K) -> impl Fn(&Slice<T>, T) -> SliceChange<T> {
    move |slice, item| {
        let wanted = key(&item);
        let Some(first) = slice.iter().position(|known| key(known) == wanted) else {
            return SliceChange::Append(item);
        };
        let mut items: Vec<T> = Vec::with_capacity(slice.len());
        for (index, known) in slice.iter().enumerate() {
            if index == first {
                items.push(item.clone());
            } else if key(known) != wanted {
                items.push(known.clone());
            }
        }
        SliceChange::Replace(items)
    }
}

/// Keeps only this item.
pub fn replace_latest<T>(_: &Slice<T>, item: T) -> SliceChange<T> {
    SliceChange::Replace(vec![item])
}

/// Removes every item with the same key and adds this one at the end.
pub fn replace_latest_by<T: Clone, K: PartialEq>(
    key: impl Fn(&T) -> K,
) -> impl Fn(&Slice<T>, T) -> SliceChange<T> {
    move |slice, item| {
        let wanted = key(&item);
        if slice.iter().all(|known| key(known) != wanted) {
            return SliceChange::Append(item);
        }
        let others = slice.iter().filter(|known| key(known) != wanted).cloned();
        SliceChange::Replace(others.chain([item.clone()]).collect())
    }
}
