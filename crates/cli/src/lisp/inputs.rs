//! From files and options to what a program is given.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as Moment};

use scrollback_lisp::{Env, Instant, Limits, Map, Memory, Signature, Tool, Value};

use super::args::GivenArgs;
use crate::failure::{Failure, USAGE};
use crate::input;

/// The environment the options describe.
pub(super) fn env(given: &GivenArgs) -> Result<Env, Failure> {
    let mut limits = Limits::default();
    if let Some(fuel) = given.fuel {
        limits.fuel = fuel;
    }
    if let Some(ms) = given.timeout {
        limits.time = Duration::from_millis(ms);
        limits.deadline = limits.deadline.max(limits.time);
    }
    if let Some(mib) = given.max_memory {
        limits.memory = mib.saturating_mul(1 << 20);
    }
    let start = Moment::now();
    let mut env = Env::new().limits(limits).clock(Arc::new(move || start.elapsed()));
    if let Some(file) = &given.data {
        env = with_data(env, &object(file, "data")?);
    }
    if let Some(file) = &given.tools {
        env = with_tools(env, &object(file, "tools")?)?;
    }
    if let Some(file) = &given.memory {
        let text = String::from_utf8_lossy(&input::read(file).map_err(Failure::into_usage)?).into_owned();
        let memory = Memory::from_json(&text)
            .map_err(|trouble| Failure::new(USAGE, "bad_memory", format!("{}: {trouble}", file.display())))?;
        env = env.memory(&memory);
    }
    if let Some(text) = &given.now {
        let Some(moment) = Instant::parse(text) else {
            let message = format!("--now {text:?} is not a time; expected one like 2024-01-15T10:00:00Z");
            return Err(Failure::new(USAGE, "usage", message));
        };
        env = env.now(moment.epoch_ms());
    }
    Ok(env)
}

/// A file with one JSON object.
fn object(file: &Path, what: &str) -> Result<Map, Failure> {
    let bytes = input::read(file).map_err(Failure::into_usage)?;
    if let Some(Value::Map(object)) = std::str::from_utf8(&bytes).ok().and_then(Value::from_json) {
        return Ok(object);
    }
    let message = format!("{}: {what} has to be a JSON object from names to values", file.display());
    Err(Failure::new(USAGE, "bad_file", message))
}

/// Grants every member of an object as data.
pub(super) fn with_data(mut env: Env, data: &Map) -> Env {
    for (name, value) in data.iter() {
        if let Value::Str(name) = name {
            env = env.data(name.as_str(), value.clone());
        }
    }
    env
}

/// Grants every member of an object as a stub tool.
pub(super) fn with_tools(mut env: Env, tools: &Map) -> Result<Env, Failure> {
    for (name, stub) in tools.iter() {
        let (Value::Str(name), Value::Map(stub)) = (name, stub) else {
            return Err(Failure::new(USAGE, "bad_tool", "a tool is an object with result, echo or error"));
        };
        env = env.tool(stub_tool(name.as_str(), stub)?);
    }
    Ok(env)
}

fn stub_tool(name: &str, stub: &Map) -> Result<Tool, Failure> {
    let field = |key: &str| stub.get_exact(&Value::from(key)).cloned();
    let signature = match field("signature") {
        Some(Value::Str(text)) => Some(
            Signature::parse(text.as_str())
                .map_err(|bad| Failure::new(USAGE, "bad_signature", format!("tool {name}: {bad}")))?,
        ),
        _ => None,
    };
    let (result, error) = (field("result"), field("error"));
    let echo = matches!(field("echo"), Some(Value::Bool(true)));
    if result.is_none() && error.is_none() && !echo {
        let message = format!("tool {name} needs \"result\", \"echo\": true or \"error\"");
        return Err(Failure::new(USAGE, "bad_tool", message));
    }
    Ok(Tool::new(name, signature, move |call| match &error {
        Some(Value::Str(text)) => Err(text.as_str().to_string()),
        Some(other) => Err(other.to_string()),
        None if echo => Ok(Value::Map(call.args)),
        None => Ok(result.clone().unwrap_or_default()),
    }))
}
