//! JSON as text.

use super::collect::arg;
use super::table::{Builtin, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::json::{self, Keys};
use crate::value::{Text, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "json/parse-string",
        (1, 2),
        "text keywords?",
        "the value a JSON text is, or nil; with true keys become keywords",
        "(json/parse-string \"{\\\"a\\\": 1}\" true) ; => {:a 1}",
        parse,
    ),
    pure(
        "json/generate-string",
        (1, 1),
        "x",
        "the value as compact JSON",
        "(json/generate-string {:a [1 nil]}) ; => \"{\\\"a\\\":[1,null]}\"",
        generate,
    ),
    pure(
        "json/parse-lines",
        (1, 2),
        "text keywords?",
        "the value of each line; blank lines are skipped",
        "(json/parse-lines \"1\\n2\") ; => [1 2]",
        parse_lines,
    ),
    pure(
        "json/read-str",
        (1, 3),
        "text keywords?",
        "the same as json/parse-string",
        "(json/read-str \"[1]\") ; => [1]",
        parse,
    ),
    pure(
        "json/write-str",
        (1, 1),
        "x",
        "the same as json/generate-string",
        "(json/write-str [1]) ; => \"[1]\"",
        generate,
    ),
];

fn keys(args: &[Value]) -> Keys {
    if arg(args, 1).is_truthy() { Keys::Keywords } else { Keys::Strings }
}

/// Pays for reading so much JSON before it is read: the densest is made of brackets.
fn pay(cx: &mut Context, text: &Text) -> Result<(), Fault> {
    cx.meter.reserve(text.bytes().saturating_mul(24))?;
    cx.meter.visit(text.bytes() / 2)
}

fn parse(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Value::Str(text) = arg(args, 0) else { return Ok(Value::Nil) };
    pay(cx, text)?;
    Ok(json::read(text.as_str(), keys(args)).unwrap_or_default())
}

fn parse_lines(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Value::Str(text) = arg(args, 0) else { return Ok(Value::Nil) };
    pay(cx, text)?;
    let lines = text.as_str().lines().filter(|line| !line.trim().is_empty());
    let values: Vec<Value> = lines.map(|line| json::read(line, keys(args)).unwrap_or_default()).collect();
    cx.vector(values)
}

fn generate(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let written = json::write(arg(args, 0), cx.meter.room() / 2);
    if written.truncated {
        cx.meter.out_of_memory()?;
    }
    cx.meter.visit(written.text.len() / 8)?;
    for name in &written.doubled {
        cx.warn(format!("json/generate-string: two keys have the name {name:?}; the later was kept"));
    }
    cx.text(written.text)
}
