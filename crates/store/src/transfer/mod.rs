//! Conversations in and out of a store. Command line and server call the same functions; they differ in where the text comes
//! from and how the result is shown.
//!
//! - [`Importer`] writes conversations of other tools; importing again adds only what is new.
//! - [`import_text`] does that for a text of any known format; [`ExportImport`] reads our own export line by line.
//! - [`lines`] is our own export, which loses nothing; [`with_parents`] says what it has to contain; [`whole_body`] is
//!   everything said as one body of a wire, and [`langchain`], [`sharegpt`] and [`finetune`] are forms of other tools.

mod export;
mod import;
mod read;
mod write;

pub use export::{ExportReader, LinkCheck, WIRES, is_header, lines};
pub use import::{Course, ImportMode, Imported, Importer};
pub use read::{ExportImport, FailedLine, MAX_FAILED, TextImport, import_text, read_body, session_name};
pub use write::{NotTrainable, finetune, langchain, sharegpt, whole_body, with_parents};
