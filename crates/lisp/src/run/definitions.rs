//! The definitions that a run makes, by number.

use std::sync::Arc;

use crate::value::{Text, Value};

/// A definition during a run.
#[derive(Clone, Default)]
pub(crate) struct Global {
    pub(crate) value: Option<Value>,
    pub(crate) doc: Option<Text>,
}

/// Definitions of one fiber. Branches share those of the fiber that started them until they make their own.
pub(crate) enum Definitions {
    Own(Vec<Option<Global>>),
    Shared(Arc<Vec<Option<Global>>>),
}

impl Definitions {
    /// None yet, with room for so many.
    pub(crate) fn with_room(count: usize) -> Self {
        Definitions::Own(std::iter::repeat_with(|| None).take(count).collect())
    }

    #[inline]
    fn all(&self) -> &[Option<Global>] {
        match self {
            Definitions::Own(all) => all,
            Definitions::Shared(all) => all,
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Global> {
        self.all().get(index as usize)?.as_ref()
    }

    /// Those that were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Global> {
        self.all().iter().flatten()
    }

    #[inline]
    pub(crate) fn put(&mut self, index: u32, global: Global) {
        let (all, index) = (self.own(), index as usize);
        if all.len() <= index {
            all.resize_with(index + 8, || None);
        }
        if let Some(place) = all.get_mut(index) {
            *place = Some(global);
        }
    }

    /// The same for a branch.
    pub(crate) fn share(&mut self) -> Definitions {
        let all = match self {
            Definitions::Own(all) => Arc::new(std::mem::take(all)),
            Definitions::Shared(all) => Arc::clone(all),
        };
        *self = Definitions::Shared(Arc::clone(&all));
        Definitions::Shared(all)
    }

    /// All of them, to be changed: what others still share is copied first.
    #[inline]
    pub(crate) fn own(&mut self) -> &mut Vec<Option<Global>> {
        match self {
            Definitions::Own(all) => all,
            Definitions::Shared(all) => Arc::make_mut(all),
        }
    }
}
