//! The generated conversation as a body of every wire.

use std::sync::Arc;

use scrollback_core::wire::{ParseOptions, Parsed, RenderOptions, Wire, list_key};
use scrollback_core::{Fidelity, ItemSource, ViewItem, json};
use serde_json::Value;

use crate::{Fallible, session};

/// About so many bytes of conversation, as the body of a request.
pub(crate) fn of_bytes(wire: Wire, bytes: usize) -> Fallible<String> {
    in_wire(wire, &session::talk(|messages| messages.iter().map(String::len).sum::<usize>() >= bytes))
}

/// At least so many messages, as the body of a request.
pub(crate) fn of_messages(wire: Wire, count: usize) -> Fallible<String> {
    in_wire(wire, &session::talk(|messages| messages.len() >= count))
}

/// The same with every seventh message missing, as after trimming by hand.
pub(crate) fn broken(wire: Wire, count: usize) -> Fallible<String> {
    let mut body: Value = serde_json::from_str(&of_messages(wire, count)?)?;
    if let Some(list) = body[list_key(wire)].as_array_mut() {
        let mut number = 0;
        list.retain(|_| {
            number += 1;
            number % 7 != 0
        });
    }
    Ok(body.to_string())
}

fn in_wire(wire: Wire, messages: &[String]) -> Fallible<String> {
    let list = session::as_list(messages);
    let rendered = wire.render(items(parse(Wire::OpenaiChat, &list)?), RenderOptions::default());
    Ok(rendered.body(wire, None))
}

/// Reads a body.
pub(crate) fn parse(wire: Wire, body: &str) -> Fallible<Parsed> {
    Ok(wire.parse(json::check(body)?, &ParseOptions::default())?)
}

/// The entries of a body, as they are.
pub(crate) fn items(parsed: Parsed) -> Vec<ViewItem> {
    let item = |(position, entry)| ViewItem {
        source: ItemSource::Entry(position),
        entry: Arc::new(entry),
        fidelity: Fidelity::AsSaid,
    };
    (0..).zip(parsed.entries).map(item).collect()
}
