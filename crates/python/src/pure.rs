//! What needs no store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use scrollback::core::recall::{Handle, RecallTool};
use scrollback::core::replay::{CompareOptions, Field, Losses};
use scrollback::{CuratedPiece, CuratedPieces, Explaining, SimulationOptions, ViewOptions, wire_named};
use serde_json::json;

use crate::error::{exception, raised};
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
    let wanted = ViewOptions { manager, wire, model, request: None };
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

/// The name of a model as its provider knows it, and the wire of a request for it.
#[pyfunction]
pub(crate) fn request_for(
    py: Python<'_>,
    model: String,
    wire: Option<String>,
) -> PyResult<(String, &'static str)> {
    let found =
        wire.as_deref().map(wire_named).transpose().and_then(|wire| scrollback::request_for(&model, wire));
    let (model, wire) = found.map_err(|error| raised(py, &error))?;
    Ok((model, wire.name()))
}

/// The message that the events of a stream amount to, as JSON, and whether the stream came to its end.
#[pyfunction]
pub(crate) fn heard(py: Python<'_>, wire: String, events: String) -> PyResult<Option<(String, bool)>> {
    let read = py.detach(|| wire_named(&wire).and_then(|wire| scrollback::message_of_events(wire, &events)));
    read.map_err(|error| raised(py, &error))
}

/// The end of the id, and the first and last position that a handle names; none for those of a whole conversation.
#[pyfunction]
pub(crate) fn handle(py: Python<'_>, text: String) -> PyResult<(String, Option<(u64, u64)>)> {
    let read: Result<Handle, _> = text.parse();
    let handle = read.map_err(|error| exception(py, "argument", "bad_handle", &error.to_string(), ""))?;
    Ok((handle.tail().to_string(), handle.positions()))
}

/// The recall tools as models are told of them: names, descriptions and schemas, as JSON.
#[pyfunction]
pub(crate) fn recall_tools() -> String {
    let tools = RecallTool::ALL.map(|tool| {
        json!({
            "name": tool.agent_name(),
            "description": tool.description(),
            "schema": tool.schema(),
        })
    });
    json!(tools).to_string()
}

/// Replays transcripts; the answer is JSON, as `scrollback simulate --json` prints it, and what to take.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    managers: Vec<String>,
    model: Option<String>,
    budgets: Vec<u64>,
    lost: bool,
) -> PyResult<String> {
    let wanted = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&wanted);
    let losses = if lost { Losses::Listed } else { Losses::Counted };
    let how = CompareOptions { losses, ..CompareOptions::default() };
    let options = SimulationOptions { field: Field { managers, budgets }, model, how };
    let done = apart(py, move || scrollback::simulate(&paths, &options, &asked));
    if done.is_err() {
        // Ctrl-C: the replay ends at its next call.
        wanted.store(false, Ordering::Relaxed);
    }
    let done = done?.map_err(|error| raised(py, &error))?;
    let mut told = done.json(losses);
    told["conversations"] = json!(done.transcripts.len());
    for (figures, one) in done.figures.iter().enumerate() {
        told["total"][figures]["calls"] = json!(one.calls);
    }
    told["advice"] = json!(done.advice().map(|advice| advice.reason));
    Ok(told.to_string())
}
