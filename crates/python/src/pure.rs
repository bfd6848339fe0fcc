//! What needs no store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use scrollback::{CuratedPiece, CuratedPieces, Explaining, ViewOptions, wire_named};
use serde_json::json;

use crate::error::raised;
use crate::waiting::apart;

/// Bytes from which curating takes so long that Ctrl-C has to be looked for meanwhile.
const LONG: usize = 1 << 20;

/// The curated messages: the wire, the whole body or none, a list of places and texts or none, tokens, and the report.
type Answer<'py> = (&'static str, Option<String>, Option<Bound<'py, PyList>>, usize, Option<String>);

#[pyfunction]
pub(crate) fn curate(
    py: Python<'_>,
    messages: String,
    manager: String,
    model: Option<String>,
    wire: Option<String>,
    explain: bool,
) -> PyResult<Answer<'_>> {
    let wire = wire.as_deref().map(wire_named).transpose().map_err(|error| raised(py, &error))?;
    let wanted = ViewOptions { manager, wire, model };
    let report = if explain { Explaining::Made } else { Explaining::Left };
    let long = messages.len() > LONG;
    let work = move || scrollback::curate_pieces(&messages, &wanted, report);
    let made = if long { apart(py, work)? } else { py.detach(work) };
    let CuratedPieces { pieces, body, wire, tokens, report } = made.map_err(|error| raised(py, &error))?;
    let pieces = pieces.map(|pieces| {
        let listed = PyList::empty(py);
        for piece in pieces {
            match piece {
                CuratedPiece::Same(index) => listed.append(index)?,
                CuratedPiece::Text(text) => listed.append(PyString::new(py, &text))?,
            }
        }
        Ok::<_, PyErr>(listed)
    });
    Ok((wire.name(), body, pieces.transpose()?, tokens, report.map(|report| report.to_string())))
}

/// Reads messages as an append would: how many entries they are, or what is wrong with them. For stores behind a server: what is refused has not begun
/// a conversation there.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, messages: String, wire: Option<String>) -> PyResult<usize> {
    let read = py.detach(|| {
        let wire = wire.as_deref().map(wire_named).transpose()?;
        scrollback::read_messages(&messages, wire)
    });
    Ok(read.map_err(|error| raised(py, &error))?.len())
}

/// Replays transcripts; the answer is JSON.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    managers: Vec<String>,
    model: Option<String>,
) -> PyResult<String> {
    let wanted = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&wanted);
    let done = apart(py, move || scrollback::simulate(&paths, &managers, model.as_deref(), &asked));
    if done.is_err() {
        // Ctrl-C: the replay ends at its next call.
        wanted.store(false, Ordering::Relaxed);
    }
    let done = done?.map_err(|error| raised(py, &error))?;
    let figures: Vec<_> = done
        .figures
        .iter()
        .map(|one| {
            let mut told = one.json();
            told["calls"] = json!(one.calls);
            told
        })
        .collect();
    let failed: Vec<_> = done
        .failed
        .iter()
        .map(|(file, line, problem)| json!({ "file": file, "line": line, "problem": problem }))
        .collect();
    let told = json!({
        "model": done.model,
        "conversations": done.conversations,
        "total": figures,
        "failed": failed,
    });
    Ok(told.to_string())
}
