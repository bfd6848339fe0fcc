//! The same conversation and our own figures on it, for a comparison with other libraries.

use std::fs;
use std::path::Path;

use scrollback_core::wire::{RenderOptions, Wire};
use serde_json::json;

use crate::lists::{items, parse};
use crate::{Fallible, measure, requests, session};

/// Writes `talk.json`, 1,000 messages, and `convert.json`, what turning them into Anthropic's takes in seconds.
pub(crate) fn write(directory: &Path) -> Fallible<()> {
    let list = session::as_list(&session::talk(|messages| messages.len() >= 1_000));
    let entries = items(parse(Wire::OpenaiChat, &list)?);
    let from_memory =
        measure::quickest(|| Wire::Anthropic.render(entries.iter().cloned(), RenderOptions::default()));
    let from_text = measure::quickest(|| requests::text_to_text(&list, Wire::Anthropic));
    let figures = json!({
        "from_memory": from_memory.as_secs_f64(),
        "from_text": from_text.as_secs_f64(),
    });
    fs::create_dir_all(directory)?;
    fs::write(directory.join("talk.json"), &list)?;
    fs::write(directory.join("convert.json"), figures.to_string())?;
    Ok(())
}
