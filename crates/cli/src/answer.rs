//! Answers as JSON: the body's own keys first, then what is said about them.

use scrollback_core::json::{self, Raw};
use scrollback_core::wire::{Lost, Rendered, Wire, list_key, system_key, tools_key};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{FAILED, Failure};
use crate::load::LoadedInput;

/// One line of JSON: the keys of the body, then the members of `rest`.
pub(crate) fn with_body(wire: Wire, rendered: &Rendered, rest: &impl Serialize) -> Result<String, Failure> {
    let mut out = String::from("{");
    let messages = format!("[{}]", rendered.messages.join(","));
    let system = system_key(wire).zip(rendered.system.as_deref());
    let tools = rendered.tools.as_deref().map(|tools| (tools_key(wire), tools));
    let version = (wire == Wire::Scrollback).then_some(("scrollback", "1"));
    let list = Some((list_key(wire), messages.as_str()));
    for (key, value) in [version, system, tools, list].into_iter().flatten() {
        json::write_string(&mut out, key);
        out.push(':');
        out.push_str(value);
        out.push(',');
    }
    let rest = to_json(rest)?;
    out.push_str(rest.strip_prefix('{').unwrap_or(&rest));
    Ok(out)
}

/// Members that say something about a body, which it must not have itself.
const SAID_ABOUT_IT: [&str; 5] = ["wire", "valid", "violations", "repairs", "left"];

/// The same for a body that is text already, with everything it has.
pub(crate) fn with_text(wire: Wire, body: Raw<'_>, rest: &impl Serialize) -> Result<String, Failure> {
    let mut out = String::from("{");
    let mut put = |key: &str, value: Raw<'_>| {
        json::write_string(&mut out, key);
        out.push(':');
        out.push_str(&json::one_line(value));
        out.push(',');
    };
    if body.kind() == json::JsonKind::Array {
        put(list_key(wire), body);
    } else {
        for (key, value) in body.members().filter(|(key, _)| !SAID_ABOUT_IT.contains(&key.as_ref())) {
            put(&key, value);
        }
    }
    let rest = to_json(rest)?;
    out.push_str(rest.strip_prefix('{').unwrap_or(&rest));
    Ok(out)
}

/// An answer as one line of JSON.
pub(crate) fn to_json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| {
        Failure::new(FAILED, "internal", format!("the answer could not be printed: {error}"))
    })
}

/// What the target cannot hold, with pointers into the input.
pub(crate) fn lost(lost: &[Lost], loaded: &LoadedInput) -> Vec<Value> {
    let line = |lost: &Lost| {
        let path = match lost.position {
            Some(position) => loaded.pointer(position, &lost.path),
            None => lost.path.clone(),
        };
        json!({ "path": path, "what": lost.what, "reason": lost.reason })
    };
    lost.iter().map(line).collect()
}

/// Explanations speak of positions; answers of places in the input.
pub(crate) fn reindexed(items: &impl Serialize, loaded: &LoadedInput) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(items).map_err(|error| {
        Failure::new(FAILED, "internal", format!("the answer could not be printed: {error}"))
    })?;
    for item in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for key in ["index", "group"] {
            if let Some(place) = item.get_mut(key) {
                reindex(place, loaded);
            }
        }
    }
    Ok(value)
}

fn reindex(place: &mut Value, loaded: &LoadedInput) {
    match place {
        Value::Number(number) => {
            let index = number.as_u64().and_then(|position| loaded.index(position));
            *place = index.map_or(Value::Null, Value::from);
        }
        Value::Array(places) => {
            for place in places.iter_mut() {
                reindex(place, loaded);
            }
            places.dedup();
        }
        _ => {}
    }
}
