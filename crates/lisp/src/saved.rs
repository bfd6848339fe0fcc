//! Memory as JSON, so that a session can go on another day.
//!
//! A value is kept as its text; a function as its source with the values it closes over. What has neither, such as a
//! map of functions, cannot be kept and is named.

use crate::env::Env;
use crate::memory::{Definition, Memory};
use crate::program::Program;
use crate::value::{Function, Map, Text, Value};

/// Functions in the captures of functions in captures: deeper than this nothing is kept.
const MAX_NESTING: usize = 32;

/// A memory as JSON, and the names that could not be kept.
pub struct Saved {
    /// An object from names to definitions.
    pub json: String,
    /// Definitions whose values have no text.
    pub skipped: Vec<String>,
}

impl Memory {
    /// This memory as JSON.
    ///
    /// ```
    /// use scrollback_lisp::{Env, Memory, Program};
    /// let outcome = Program::compile("(def n 2) (defn twice \"Doubles.\" [x] (* n x))")?.run(&mut Env::new());
    /// let memory = Memory::from_json(&outcome.memory.to_json().json).unwrap_or_default();
    /// let again = Program::compile("(twice 21)")?.run(&mut Env::new().memory(&memory));
    /// assert_eq!(again.value().map(|value| value.to_string()).as_deref(), Some("42"));
    /// # Ok::<(), scrollback_lisp::Error>(())
    /// ```
    pub fn to_json(&self) -> Saved {
        let mut skipped = Vec::new();
        let mut entries = Vec::new();
        for (name, definition) in self.iter() {
            let Some(mut entry) = definition.value.as_ref().map_or(Some(Vec::new()), |value| entry(value, 0))
            else {
                skipped.push(name.to_string());
                continue;
            };
            let mut put = |key: &str, text: Option<&str>| {
                entry.extend(text.map(|text| (Value::from(key), Value::from(text))));
            };
            put("doc", definition.doc.as_ref().map(Text::as_str));
            put("returns", definition.returns.as_deref());
            entries.push((Value::from(name), Value::Map(entry.into_iter().collect())));
        }
        Saved { json: Value::Map(entries.into_iter().collect()).to_json(), skipped }
    }

    /// Reads what [`to_json`](Memory::to_json) wrote. A definition may also be just the text of its value.
    pub fn from_json(text: &str) -> Result<Memory, String> {
        let Some(Value::Map(entries)) = Value::from_json(text) else {
            return Err("a memory is a JSON object from names to definitions".into());
        };
        let mut memory = Memory::default();
        for (name, entry) in entries.iter() {
            let Value::Str(name) = name else { continue };
            let definition = definition(entry).map_err(|trouble| format!("{}: {trouble}", name.as_str()))?;
            memory.insert(name.as_str(), definition);
        }
        Ok(memory)
    }
}

/// How a value is kept; `None` if it has no text.
fn entry(value: &Value, nesting: usize) -> Option<Vec<(Value, Value)>> {
    match value {
        Value::Function(function) => function_entry(function, nesting),
        value => {
            let text = value.to_string();
            // Only what reads back is worth keeping.
            let back = Program::compile(&format!("(quote {text})")).ok()?.run(&mut Env::new());
            (back.value() == Some(value)).then(|| vec![(Value::from("value"), Value::from(text))])
        }
    }
}

fn function_entry(function: &Function, nesting: usize) -> Option<Vec<(Value, Value)>> {
    if nesting > MAX_NESTING {
        return None;
    }
    let mut captures = Vec::new();
    for (name, value) in function.captures() {
        let kept = entry(value, nesting + 1)?;
        captures.push((Value::from(name), Value::Map(kept.into_iter().collect())));
    }
    let mut kept = vec![(Value::from("function"), Value::from(function.source()?))];
    if !captures.is_empty() {
        kept.push((Value::from("captures"), Value::Map(captures.into_iter().collect())));
    }
    Some(kept)
}

fn definition(entry: &Value) -> Result<Definition, String> {
    let fields = match entry {
        Value::Str(text) => {
            return Ok(Definition { value: Some(read(text.as_str())?), ..Definition::default() });
        }
        Value::Map(fields) => fields,
        _ => {
            return Err(
                "expected the text of a value, or an object with value, doc, function or captures".into()
            );
        }
    };
    let text = |key: &str| match fields.get_exact(&Value::from(key)) {
        Some(Value::Str(text)) => Some(text.clone()),
        _ => None,
    };
    Ok(Definition {
        value: restore(fields, 0)?,
        doc: text("doc"),
        returns: text("returns").map(|text| text.as_str().to_string().into()),
        run: 0,
    })
}

fn restore(fields: &Map, nesting: usize) -> Result<Option<Value>, String> {
    if nesting > MAX_NESTING {
        return Err(format!("functions are nested deeper than {MAX_NESTING}"));
    }
    if let Some(Value::Str(text)) = fields.get_exact(&Value::from("value")) {
        return read(text.as_str()).map(Some);
    }
    let Some(Value::Str(source)) = fields.get_exact(&Value::from("function")) else { return Ok(None) };
    let mut memory = Memory::default();
    let mut bindings = Vec::new();
    if let Some(Value::Map(captures)) = fields.get_exact(&Value::from("captures")) {
        for (name, capture) in captures.iter() {
            let (Value::Str(name), Value::Map(capture)) = (name, capture) else { continue };
            let value = restore(capture, nesting + 1)?;
            memory.insert(name.as_str(), Definition { value, ..Definition::default() });
            bindings.push(format!("{0} user/{0}", name.as_str()));
        }
    }
    evaluate(&format!("(let [{}] {})", bindings.join(" "), source.as_str()), &memory).map(Some)
}

fn read(text: &str) -> Result<Value, String> {
    evaluate(&format!("(quote {text}\n)"), &Memory::default())
}

fn evaluate(source: &str, memory: &Memory) -> Result<Value, String> {
    let program = Program::compile(source).map_err(|error| error.message)?;
    let outcome = program.run_unchecked(&mut Env::new().memory(memory));
    outcome.value().cloned().ok_or_else(|| match outcome.result {
        Err(error) => error.message,
        Ok(_) => String::new(),
    })
}
