//! The tests of the binary, in one program: building and starting many takes longer than running them.
#![allow(missing_docs)]

mod agent;
mod busy;
mod cases;
mod chat;
mod cli;
mod docs;
mod first_hour;
mod flow_documents;
mod flow_files;
mod honest;
mod large;
mod linear;
mod lisp;
mod old_scripts;
mod operating;
mod runs;
mod sdk;
mod setup;
mod simulate;
mod store;
mod strings;
mod subagent;
mod subagent_ends;
mod subagent_tools;
mod support;
mod wires;
