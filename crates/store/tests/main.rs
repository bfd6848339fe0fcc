//! The tests of the store, in one program: building and starting many takes longer than running them.
#![allow(missing_docs)]

mod behind;
mod conformance;
mod crash;
mod opening;
mod plans;
mod power;
mod pruning;
mod recall;
mod requests;
mod session;
mod support;
mod tamper;
mod trust;
mod writers;
