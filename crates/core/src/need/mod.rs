//! What coming replies are likely to need: the identifiers of a record, where they stand, and the chance that each is needed.
//!
//! An identifier is a word that is not said by chance: a path, an id, a number, a quoted name, a whole argument. [`NeedIndex`]
//! knows for each of them which groups hold it and who said it, and cuts every entry into short segments; [`score`] turns that
//! into the chance that the next reply needs it. Only integers are used, so every machine gives the same answer.

pub(crate) mod arguments;
pub(crate) mod identifiers;
pub(crate) mod index;
pub(crate) mod score;
pub(crate) mod segments;

pub(crate) use index::NeedIndex;
