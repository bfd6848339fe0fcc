//! Errors of the front door as exceptions of the package.

use pyo3::prelude::*;
use scrollback::{Error, ErrorKind};

/// The exception that the package raises for an error: `scrollback._errors` has one class per kind.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Manager => "manager",
        ErrorKind::Model => "model",
        ErrorKind::Messages => "messages",
        ErrorKind::View => "view",
        ErrorKind::Store(_) => "store",
        _ => "argument",
    };
    exception(py, kind, error.code(), &error.to_string(), error.path())
}

/// An exception of that kind.
pub(crate) fn exception(py: Python<'_>, kind: &str, code: &str, message: &str, path: &str) -> PyErr {
    let made = py
        .import("scrollback._errors")
        .and_then(|errors| errors.call_method1("made", (kind, code, message, path)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
