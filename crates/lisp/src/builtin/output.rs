//! Printing, and asking about values and names.

use super::collect::arg;
use super::table::{self, Arity, Builtin, Definitions, Implementation, MANY, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Value, print};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "println",
        (0, MANY),
        "x …",
        "prints its arguments, strings bare",
        "(println \"a\" 1) ; => nil",
        println,
    ),
    pure("print", (0, MANY), "x …", "the same as println", "(print \"a\") ; => nil", println),
    pure("prn", (0, MANY), "x …", "prints its arguments readably", "(prn \"a\") ; => nil", prn),
    pure("pr", (0, MANY), "x …", "the same as prn", "(pr \"a\") ; => nil", prn),
    pure("type", (1, 1), "x", "the kind of a value, as a keyword", "(type [1]) ; => :list", type_),
    pure(
        "describe",
        (1, 1),
        "x",
        "the kind and size of a value",
        "(describe [1 2]) ; => \"list[2]\"",
        describe,
    ),
    Builtin {
        name: "doc",
        arity: Arity { least: 1, most: Some(1) },
        parameters: "f",
        doc: "what a function or the thing of a name does",
        example: "(doc \"inc\") ; => \"(inc x): one more\"",
        implementation: Implementation::Reflecting(doc),
    },
    pure(
        "apropos",
        (1, 1),
        "text",
        "the builtins with this text in their names",
        "(apropos \"index-of\") ; => [\"index-of\" \"last-index-of\" \"str/index-of\" \"str/last-index-of\"]",
        apropos,
    ),
];

/// Prints one entry.
fn output(
    cx: &mut Context,
    args: &[Value],
    how: fn(&Value, usize) -> print::PrintedValue,
) -> Result<Value, Fault> {
    // Nothing beyond what one entry keeps need be printed; a grapheme has rarely more than 16 bytes.
    let limit = cx.meter.limits().print_graphemes.saturating_mul(16).saturating_add(64);
    let mut line = String::new();
    for (at, value) in args.iter().enumerate() {
        cx.meter.tick()?;
        if at > 0 {
            line.push(' ');
        }
        if line.len() > limit {
            break;
        }
        let text = match value {
            Value::Str(text) if text.bytes() > limit => {
                text.graphemes().take(cx.meter.limits().print_graphemes + 1).collect()
            }
            _ => how(value, limit).text,
        };
        cx.meter.charge(text.len() as u64 / 8)?;
        line.push_str(&text);
    }
    cx.meter.reserve(line.len().min(limit))?;
    let limits = cx.meter.limits().clone();
    cx.prints.push(&line, &limits);
    Ok(Value::Nil)
}

fn println(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    output(cx, args, print::display)
}

fn prn(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    output(cx, args, print::readable)
}

fn type_(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::keyword(arg(args, 0).kind()))
}

fn describe(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(Value::from(arg(args, 0).label()))
}

fn doc(definitions: &Definitions, args: &[Value]) -> Value {
    let name = match arg(args, 0) {
        Value::Function(function) => match (function.as_builtin(), function.parameters()) {
            (Some(id), _) => return Value::from(line(table::get(id))),
            (None, Some(parameters)) => return Value::from(format!("a function of {parameters}")),
            (None, None) => return Value::from("a function"),
        },
        Value::Str(text) | Value::Var(text) => text.as_str().to_string(),
        Value::Keyword(keyword) => keyword.as_str().to_string(),
        _ => return Value::Nil,
    };
    if let Some((doc, parameters)) = definitions(&name) {
        let parameters = parameters.map(|text| format!("({name} {text})")).unwrap_or(name);
        let doc = doc.as_ref().map_or("no documentation", |doc| doc.as_str());
        return Value::from(format!("{parameters}: {doc}"));
    }
    table::find(&name).map(|id| Value::from(line(table::get(id)))).unwrap_or_default()
}

fn line(builtin: &Builtin) -> String {
    format!("{}: {}", builtin.usage(), builtin.doc)
}

fn apropos(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let wanted = cx.display(arg(args, 0))?;
    let mut names: Vec<&str> = table::names().filter(|name| name.contains(&wanted)).collect();
    names.sort_unstable();
    cx.sequence(names.len() * 4)?;
    Ok(Value::vector(names.into_iter().map(Value::from)))
}
