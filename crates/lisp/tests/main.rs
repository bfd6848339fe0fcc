//! The tests of the language, in one program: building and starting many takes longer than running them.
#![allow(missing_docs)]

mod bounds;
mod cases;
mod clojure;
mod fuzz;
mod host;
mod properties;
mod reference;
mod support;
