//! Waiting for work on another thread without holding Python's lock, and without being deaf to Ctrl-C.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::exception;

/// How long a wait is before Python is asked whether a signal came.
const BETWEEN: Duration = Duration::from_millis(50);

/// Waits for an answer. A signal whose handler raises ends the wait; the work goes on, and its answer is dropped.
pub(crate) fn wait<T: Send>(py: Python<'_>, mut answer: Receiver<T>) -> PyResult<T> {
    loop {
        let (back, got) = py.detach(move || {
            let got = answer.recv_timeout(BETWEEN);
            (answer, got)
        });
        answer = back;
        match got {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let message = "a background thread ended without an answer: this is a defect of scrollback, please report it";
                return Err(exception(py, "argument", "internal", message, ""));
            }
        }
    }
}

/// Runs work on a thread of its own and waits for it.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, answer) = sync_channel(1);
    let started = std::thread::Builder::new().name("scrollback".into()).spawn(move || {
        // Gone if the caller was interrupted.
        let _ = done.send(work());
    });
    started.map_err(|error| exception(py, "argument", "io", &error.to_string(), ""))?;
    wait(py, answer)
}
