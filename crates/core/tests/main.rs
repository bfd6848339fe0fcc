//! The tests of the core, in one program: building and starting many takes longer than running them.
#![allow(missing_docs)]

mod auto;
mod binding;
mod claude_code;
mod coherence;
mod configuration;
mod decisions;
mod evaluation_transcripts;
mod fuzz;
mod growth;
mod managers;
mod properties;
mod purity;
mod real_data;
mod recall;
mod redaction;
mod replay;
mod request;
mod streams;
mod support;
mod templates;
mod tokenizer;
mod transcript_formats;
mod transcripts;
mod wire_rules;
mod wires;
mod wrappers;
