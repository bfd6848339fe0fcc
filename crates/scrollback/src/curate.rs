//! Curating a list of messages that is kept elsewhere.

use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Explanation, json, manager};

use crate::error::{Error, ErrorKind, Result};
use crate::view::{Request, View};

/// What [`curate`] made of a list of messages.
#[derive(Debug)]
pub struct Curated {
    /// The request, in the format that was given, with everything around the messages as it was.
    pub request: Request,
    /// Which manager left out or changed which entry, and why.
    pub explanation: Explanation,
    /// The format that was recognised.
    pub wire: Wire,
}

/// Curates a provider's request, or a bare list of messages, given as JSON text.
///
/// ```
/// let messages = r#"[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}]"#;
/// let curated = scrollback::curate(messages, "turn_window(1)")?;
/// assert_eq!(curated.request.to_value()[0]["content"], "two");
/// assert_eq!(curated.explanation.dropped.len(), 2);
/// # Ok::<(), scrollback::Error>(())
/// ```
pub fn curate(messages: &str, manager: &str) -> Result<Curated> {
    let manager = manager::parse(manager)?;
    let body = json::check(messages).map_err(|error| Error::new(ErrorKind::Messages, error))?;
    let wire = Wire::detect(body).ok_or_else(|| {
        Error::new(
            ErrorKind::Messages,
            "no provider's format: give a list of messages, or a request that holds one",
        )
    })?;
    let parsed = wire.parse(body, &ParseOptions::default())?;
    let (around, tools) = (parsed.body.clone(), parsed.tools.clone());
    let record = parsed.into_record()?;
    let view = View::within(&record, &*manager, CurationContext { tools, ..CurationContext::default() })?;
    let explanation = view.explain();
    let mut request = view.request(wire);
    request.text = request.rendered.body(wire, Some(&around));
    Ok(Curated { request, explanation, wire })
}
