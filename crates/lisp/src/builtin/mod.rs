//! The builtins: one table that the analyser, the evaluator, `doc`, hints and the reference all read.
#![allow(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "the functions of one table have one type, whether they need all of it or not"
)]

mod aggregate;
mod collect;
mod compare;
mod dates;
mod each;
mod fold;
mod format;
mod functions;
mod interop;
mod json;
mod mapping;
mod maps;
mod numbers;
mod output;
mod predicates;
mod regex;
mod replace;
mod search;
mod sequence;
mod sets;
mod slices;
mod sort;
mod strings;
mod table;
mod tree;
mod where_;

pub(crate) use collect::to_vector;
pub(crate) use functions::apply_derived;
pub use table::{Arity, Builtin, Family};
pub(crate) use table::{
    BuiltinId, Documentation, Implementation, explain, find, get, is_namespace, members, names, table,
};
