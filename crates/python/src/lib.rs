//! The module `scrollback._core`: JSON text in, JSON text out, and everything between is the crate `scrollback`.
//!
//! Nothing is decided here. A call becomes one call of the front door, which runs on a thread of the store's own runtime
//! without Python's lock, while the caller's thread looks for Ctrl-C. A store that was opened before a `fork` refuses to be
//! used in the child: its threads are not there.
#![cfg(feature = "extension-module")]

mod error;
mod pure;
mod store;
mod waiting;

use pyo3::prelude::*;

/// The engine; use the package `scrollback`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::Store>()?;
    module.add_class::<store::Chat>()?;
    module.add_function(wrap_pyfunction!(pure::curate, module)?)?;
    module.add_function(wrap_pyfunction!(pure::check, module)?)?;
    module.add_function(wrap_pyfunction!(pure::handle, module)?)?;
    module.add_function(wrap_pyfunction!(pure::heard, module)?)?;
    module.add_function(wrap_pyfunction!(pure::recall_tools, module)?)?;
    module.add_function(wrap_pyfunction!(pure::request_for, module)?)?;
    module.add_function(wrap_pyfunction!(pure::simulate, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
