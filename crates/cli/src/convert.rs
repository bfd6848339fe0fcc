//! `scrollback convert`: messages of one wire as those of another, with what the other cannot hold.

use std::io::Write as _;

use scrollback_core::wire::{Body, Lost, Purpose, RenderOptions, Rendered, Wire, system_key, tools_key};
use scrollback_core::{Fidelity, ItemSource, Slot, ViewItem, json};
use serde_json::json;

use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::load::{Conversations, LoadOptions, LoadedInput};
use crate::{answer, batch, input};

pub(crate) fn run(args: &ConvertArgs, json: bool) -> Result<(), Failure> {
    if let Some(file) = &args.input.batch {
        return batch::convert(file);
    }
    let to = input::wire_named(args.to.as_deref())?.ok_or_else(no_target)?;
    let how = LoadOptions::of(&args.input)?;
    let which = if args.input.all { Conversations::All } else { Conversations::One };
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    how.load_asked(file, which)?.iter().try_for_each(|loaded| print(loaded, to, which, json))
}

fn print(loaded: &LoadedInput, to: Wire, which: Conversations, json: bool) -> Result<(), Failure> {
    let rendered = convert(loaded, to);
    if json {
        return input::print(&format!("{}\n", to_json(loaded, &rendered, to)?));
    }
    let around = match &loaded.body {
        body if loaded.wire == to && loaded.transcript.is_none() => Some(body),
        // A list stays one where nothing has to stand beside it.
        Body::List if to == Wire::OpenaiChat => Some(&Body::List),
        _ => None,
    };
    if which == Conversations::All {
        loaded.say_which(which);
    }
    input::print(&format!("{}\n", rendered.body(to, around)))?;
    loaded.notes.iter().for_each(|note| input::note(note));
    report(loaded, &rendered);
    Ok(())
}

/// A conversion without a target is a mistake of the command line.
pub(crate) fn no_target() -> Failure {
    Failure::new(crate::failure::USAGE, "usage", "name the wire to convert to: --to WIRE (see --help)")
}

/// Every entry on another wire.
pub(crate) fn convert(loaded: &LoadedInput, to: Wire) -> Rendered {
    if to == Wire::Scrollback {
        let lost = if loaded.wire == to { Vec::new() } else { settings(loaded, ToolConversion::Lost) };
        let mut rendered = Rendered::default();
        (rendered.messages, rendered.lost) = (scrollback_core::wire::neutral(&loaded.record), lost);
        return rendered;
    }
    let items = loaded.record.slots().iter().enumerate().filter_map(|(position, slot)| match slot {
        Slot::Message(entry) => Some(ViewItem {
            source: ItemSource::Entry(position as u64),
            entry: std::sync::Arc::clone(entry),
            fidelity: Fidelity::AsSaid,
        }),
        _ => None,
    });
    let options = RenderOptions {
        purpose: Purpose::Keep,
        tools: loaded.tools.as_ref().filter(|_| to != loaded.wire || loaded.transcript.is_some()),
        ..RenderOptions::default()
    };
    let mut rendered = to.render(items, options);
    if to != loaded.wire {
        rendered.lost.extend(settings(loaded, ToolConversion::Converted));
    }
    rendered.lost.extend(undecided(loaded));
    rendered
}

/// What happens to the definitions of tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolConversion {
    Converted,
    Lost,
}

/// Members of the request around the messages, which are the provider's own.
pub(crate) fn settings(loaded: &LoadedInput, tools: ToolConversion) -> Vec<Lost> {
    let Body::Object { raw, key: list_key } = &loaded.body else { return Vec::new() };
    let Ok(body) = json::check(raw) else { return Vec::new() };
    let wire = loaded.wire;
    let mut found = Vec::new();
    let mut lose = |path: String, what: &str| {
        let reason = "settings of a request are not converted";
        found.push(Lost { position: None, path, what: what.into(), reason });
    };
    // Instructions are read from the first of their spellings, and only where they are text.
    let instructions = |key: &str, value: json::Raw<'_>| match wire {
        Wire::OpenaiResponses => key == "instructions" && value.kind() == json::JsonKind::String,
        Wire::Gemini => {
            key == "systemInstruction"
                || (key == "system_instruction" && body.get("systemInstruction").is_none())
        }
        _ => system_key(wire) == Some(key),
    };
    for (key, value) in body.members() {
        let path = format!("/{}", json::escape_pointer(&key));
        if key == *list_key || key == "scrollback" || instructions(&key, value) {
            continue;
        }
        if tools == ToolConversion::Converted && key == tools_key(wire) {
            // One wire has more than the tools there.
            for (inner, _) in value.members().filter(|(inner, _)| inner != "tools") {
                lose(format!("{path}/{}", json::escape_pointer(&inner)), &inner);
            }
            continue;
        }
        if value.kind() != json::JsonKind::Null {
            lose(path, &key);
        }
    }
    found
}

/// Decisions and erased places, which only our own form holds.
fn undecided(loaded: &LoadedInput) -> Vec<Lost> {
    let slots = loaded.record.slots().iter().enumerate();
    slots
        .filter_map(|(position, slot)| {
            let what = match slot {
                Slot::Message(_) => return None,
                Slot::Decision(..) => "decision",
                Slot::Erased(_) => "erased entry",
            };
            let path = format!("/entries/{position}");
            Some(Lost {
                position: None,
                path,
                what: what.into(),
                reason: "only the form `scrollback` holds it",
            })
        })
        .collect()
}

pub(crate) fn to_json(loaded: &LoadedInput, rendered: &Rendered, to: Wire) -> Result<String, Failure> {
    let from = loaded.transcript.map_or(loaded.wire.name(), |format| format.name());
    let lost = answer::lost(&rendered.lost, loaded);
    let mut answer = json!({ "from": from, "to": to, "lost": lost });
    if !loaded.notes.is_empty() {
        answer["notes"] = json!(loaded.notes);
    }
    answer::with_body(to, rendered, &answer)
}

/// What was lost, for people, on standard error.
pub(crate) fn report(loaded: &LoadedInput, rendered: &Rendered) {
    let mut err = anstream::stderr().lock();
    for lost in answer::lost(&rendered.lost, loaded) {
        let text = |key: &str| lost.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_string();
        let _ = writeln!(err, "lost: {} at {} ({})", text("what"), text("path"), text("reason"));
    }
}
