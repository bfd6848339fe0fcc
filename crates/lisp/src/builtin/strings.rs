//! Strings. Lengths and indexes are in graphemes.

use unicode_segmentation::UnicodeSegmentation;

use super::collect::{arg, integer, map, text, to_vector};
use super::format;
use super::regex::split_by;
use super::replace::{replace, replace_first};
use super::slices::subs;
use super::table::{Builtin, MANY, higher, pure};
use crate::error::{Error, Fault, Reason};
use crate::run::Context;
use crate::value::{Keyword, Text, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "str",
        (0, MANY),
        "x …",
        "the texts of all, joined; nil is empty",
        "(str \"a\" 1 nil :b) ; => \"a1:b\"",
        str_,
    ),
    pure(
        "subs",
        (2, 3),
        "text start end?",
        "the part from start up to but not including end",
        "(subs \"hello\" 1 3) ; => \"el\"",
        subs,
    ),
    pure(
        "join",
        (1, 2),
        "separator? coll",
        "the texts of the elements, with the separator between",
        "(join \", \" [1 2]) ; => \"1, 2\"",
        join,
    ),
    pure(
        "split",
        (2, 3),
        "text separator limit?",
        "the parts between separators, a string or a pattern",
        "(split \"a,b\" \",\") ; => [\"a\" \"b\"]",
        split,
    ),
    pure(
        "split-lines",
        (1, 1),
        "text",
        "the lines",
        "(split-lines \"a\\nb\") ; => [\"a\" \"b\"]",
        split_lines,
    ),
    pure(
        "trim",
        (1, 1),
        "text",
        "without white space at both ends",
        "(trim \" a \") ; => \"a\"",
        |cx, args| change(cx, "trim", args, |text| text.trim().into()),
    ),
    pure(
        "triml",
        (1, 1),
        "text",
        "without white space at the start",
        "(triml \" a\") ; => \"a\"",
        |cx, args| change(cx, "triml", args, |text| text.trim_start().into()),
    ),
    pure(
        "trimr",
        (1, 1),
        "text",
        "without white space at the end",
        "(trimr \"a \") ; => \"a\"",
        |cx, args| change(cx, "trimr", args, |text| text.trim_end().into()),
    ),
    pure(
        "trim-newline",
        (1, 1),
        "text",
        "without line ends at the end",
        "(trim-newline \"a\\n\") ; => \"a\"",
        |cx, args| change(cx, "trim-newline", args, |text| text.trim_end_matches(['\n', '\r']).into()),
    ),
    higher(
        "replace",
        (2, 3),
        "text match replacement",
        "with every match replaced; a pattern's replacement may have $1, or be a function or map",
        "(replace \"aXbX\" \"X\" \"-\") ; => \"a-b-\"",
        replace,
    ),
    higher(
        "replace-first",
        (3, 3),
        "text match replacement",
        "with the first match replaced",
        "(replace-first \"aXbX\" \"X\" \"-\") ; => \"a-bX\"",
        replace_first,
    ),
    pure("upper-case", (1, 1), "text", "in capitals", "(upper-case \"ab\") ; => \"AB\"", upper),
    pure("lower-case", (1, 1), "text", "in small letters", "(lower-case \"AB\") ; => \"ab\"", lower),
    pure("upcase", (1, 1), "text", "the same as upper-case", "(upcase \"ab\") ; => \"AB\"", upper),
    pure("downcase", (1, 1), "text", "the same as lower-case", "(downcase \"AB\") ; => \"ab\"", lower),
    pure(
        "capitalize",
        (1, 1),
        "text",
        "the first letter a capital, the others small",
        "(capitalize \"hELLO\") ; => \"Hello\"",
        capitalize,
    ),
    pure(
        "starts-with?",
        (2, 2),
        "text part",
        "whether the text starts with the part",
        "(starts-with? \"ab\" \"a\") ; => true",
        |cx, args| test(cx, "starts-with?", args, |text, part| text.starts_with(part)),
    ),
    pure(
        "ends-with?",
        (2, 2),
        "text part",
        "whether the text ends with the part",
        "(ends-with? \"ab\" \"b\") ; => true",
        |cx, args| test(cx, "ends-with?", args, |text, part| text.ends_with(part)),
    ),
    pure(
        "includes?",
        (2, 2),
        "text part",
        "whether the part is in the text",
        "(includes? \"abc\" \"b\") ; => true",
        includes,
    ),
    pure(
        "blank?",
        (1, 1),
        "text",
        "whether there is nothing but white space; nil is blank",
        "(blank? \" \") ; => true",
        blank,
    ),
    pure(
        "str/reverse",
        (1, 1),
        "text",
        "the text backwards",
        "(str/reverse \"abc\") ; => \"cba\"",
        |cx, args| change(cx, "str/reverse", args, |text| text.graphemes(true).rev().collect()),
    ),
    pure(
        "str/index-of",
        (2, 3),
        "text part from?",
        "the same as index-of",
        "(str/index-of \"abc\" \"b\") ; => 1",
        super::search::index_of,
    ),
    pure(
        "str/last-index-of",
        (2, 2),
        "text part",
        "the same as last-index-of",
        "(str/last-index-of \"aba\" \"a\") ; => 2",
        super::search::last_index_of,
    ),
    pure(
        "name",
        (1, 1),
        "x",
        "the text of a keyword without namespace, or the string",
        "(name :a/b) ; => \"b\"",
        name,
    ),
    pure(
        "namespace",
        (1, 1),
        "keyword",
        "the namespace of a keyword, or nil",
        "(namespace :a/b) ; => \"a\"",
        namespace,
    ),
    pure(
        "keyword",
        (1, 2),
        "namespace? name",
        "the keyword of this text",
        "(keyword \"a\") ; => :a",
        keyword,
    ),
    pure(
        "pr-str",
        (0, MANY),
        "x …",
        "the readable texts of all, with spaces between",
        "(pr-str \"a\" 1) ; => \"\\\"a\\\" 1\"",
        pr_str,
    ),
    pure(
        "format",
        (1, MANY),
        "pattern x …",
        "the pattern with %s %d %.2f and so on filled in",
        "(format \"%s: %.1f\" \"a\" 2) ; => \"a: 2.0\"",
        format::format,
    ),
    pure(
        "parse-long",
        (1, 1),
        "text",
        "the integer a text is, or nil",
        "(parse-long \"42\") ; => 42",
        parse_long,
    ),
    pure(
        "parse-double",
        (1, 1),
        "text",
        "the float a text is, or nil",
        "(parse-double \"1.5\") ; => 1.5",
        parse_double,
    ),
    pure(
        "parse-boolean",
        (1, 1),
        "text",
        "true of \"true\", false of \"false\", else nil",
        "(parse-boolean \"true\") ; => true",
        parse_boolean,
    ),
    pure(
        "escape",
        (2, 2),
        "text replacements",
        "with characters replaced by a map",
        "(escape \"a<b\" {\"<\" \"&lt;\"}) ; => \"a&lt;b\"",
        escape,
    ),
];

fn str_(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut out = String::new();
    for value in args.iter() {
        cx.meter.tick()?;
        push(cx, &mut out, value)?;
    }
    cx.text(out)
}

/// Adds the text of a value, which has to fit what memory is left.
pub(super) fn push(cx: &mut Context, out: &mut String, value: &Value) -> Result<(), Fault> {
    match value {
        Value::Nil => {}
        Value::Str(text) => {
            room(cx, out, text.bytes())?;
            out.push_str(text.as_str());
        }
        value => {
            let text = cx.display(value)?;
            room(cx, out, text.len())?;
            out.push_str(&text);
        }
    }
    Ok(())
}

/// Fails if a text that grows by so many bytes would not fit.
pub(super) fn room(cx: &mut Context, out: &str, more: usize) -> Result<(), Fault> {
    cx.meter.visit(more / 64)?;
    if (out.len() + more).saturating_mul(2) > cx.meter.room() { cx.meter.out_of_memory() } else { Ok(()) }
}

fn join(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (separator, collection) = match &*args {
        [separator, collection] => (cx.display(separator)?, collection),
        _ => (String::new(), arg(args, 0)),
    };
    let items = to_vector(cx, "join", collection, args.len())?;
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        cx.meter.tick()?;
        if at > 0 {
            room(cx, &out, separator.len())?;
            out.push_str(&separator);
        }
        push(cx, &mut out, item)?;
    }
    cx.text(out)
}

fn split(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, "split", args, 0)?;
    let limit = if args.len() == 3 { integer(cx, "split", args, 2)? } else { 0 };
    match arg(args, 1) {
        Value::Regex(pattern) => split_by(cx, &text, &pattern.clone(), limit),
        Value::Str(separator) => split_literal(cx, &text, separator.as_str(), limit),
        other => cx.wrong("split", "pattern or string", other, 2),
    }
}

/// The parts between literal separators.
pub(super) fn split_literal(
    cx: &mut Context,
    text: &Text,
    separator: &str,
    limit: i64,
) -> Result<Value, Fault> {
    cx.meter.visit(text.bytes() / 8)?;
    let parts: Vec<&str> = match (separator, usize::try_from(limit).unwrap_or(0)) {
        ("", 0) => text.graphemes().collect(),
        ("", limit) => {
            let cut = text.offset(limit - 1);
            let (front, back) = text.as_str().split_at_checked(cut).unwrap_or((text.as_str(), ""));
            front.graphemes(true).chain([back]).collect()
        }
        (separator, 0) => text.as_str().split(separator).collect(),
        (separator, limit) => text.as_str().splitn(limit, separator).collect(),
    };
    let parts = drop_empty_end(parts, limit);
    strings(cx, &parts)
}

/// Without a limit, empty parts at the end are dropped; a text that is all separators gives nothing.
pub(super) fn drop_empty_end(mut parts: Vec<&str>, limit: i64) -> Vec<&str> {
    if limit == 0 && parts.len() > 1 {
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
    }
    parts
}

/// A vector of strings, paid for.
pub(super) fn strings(cx: &mut Context, parts: &[&str]) -> Result<Value, Fault> {
    let bytes: usize = parts.iter().map(|part| part.len() + 48).sum();
    cx.meter.reserve(bytes)?;
    cx.sequence(parts.len())?;
    Ok(Value::vector(parts.iter().map(|part| Value::from(*part))))
}

fn split_lines(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let text = text(cx, "split-lines", args, 0)?;
    cx.meter.visit(text.bytes() / 8)?;
    let lines: Vec<&str> =
        text.as_str().split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    strings(cx, &drop_empty_end(lines, 0))
}

/// A text made of another.
fn change(cx: &mut Context, who: &str, args: &[Value], change: fn(&str) -> String) -> Result<Value, Fault> {
    let text = text(cx, who, args, 0)?;
    cx.meter.reserve(text.bytes() * 2)?;
    cx.meter.visit(text.bytes() / 8)?;
    Ok(Value::str(change(text.as_str())))
}

fn upper(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    change(cx, "upper-case", args, str::to_uppercase)
}

fn lower(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    change(cx, "lower-case", args, str::to_lowercase)
}

fn capitalize(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    change(cx, "capitalize", args, |text| {
        let first = text.graphemes(true).next().unwrap_or_default();
        first.to_uppercase() + &text.get(first.len()..).unwrap_or_default().to_lowercase()
    })
}

fn test(cx: &mut Context, who: &str, args: &[Value], holds: fn(&str, &str) -> bool) -> Result<Value, Fault> {
    let (whole, part) = (text(cx, who, args, 0)?, text(cx, who, args, 1)?);
    cx.meter.visit(whole.bytes() / 16)?;
    Ok(Value::Bool(holds(whole.as_str(), part.as_str())))
}

fn includes(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if arg(args, 0).is_collection() {
        let message = format!("includes?: expected string, got {} (argument 1)", arg(args, 0).kind());
        return Err(Box::new(
            Error::new(Reason::TypeError, message).hint("use (contains? coll x) for collections"),
        ));
    }
    test(cx, "includes?", args, |text, part| text.contains(part))
}

fn blank(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if matches!(arg(args, 0), Value::Nil) {
        return Ok(Value::Bool(true));
    }
    let text = text(cx, "blank?", args, 0)?;
    Ok(Value::Bool(text.as_str().trim().is_empty()))
}

fn name(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match arg(args, 0) {
        Value::Keyword(keyword) => Ok(Value::from(keyword.name())),
        text @ Value::Str(_) => Ok(text.clone()),
        other => cx.wrong("name", "keyword or string", other, 1),
    }
}

fn namespace(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match arg(args, 0) {
        Value::Keyword(keyword) => Ok(keyword.namespace().map(Value::from).unwrap_or_default()),
        other => cx.wrong("namespace", "keyword", other, 1),
    }
}

fn keyword(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    if args.len() == 2 {
        let (space, name) = (cx.display(arg(args, 0))?, text(cx, "keyword", args, 1)?);
        return Ok(Value::Keyword(Keyword::new(&format!("{space}/{}", name.as_str()))));
    }
    Ok(match arg(args, 0) {
        keyword @ Value::Keyword(_) => keyword.clone(),
        Value::Str(text) => {
            cx.meter.reserve(text.bytes() + 64)?;
            Value::Keyword(Keyword::new(text.as_str()))
        }
        _ => Value::Nil,
    })
}

fn pr_str(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let mut out = String::new();
    for (at, value) in args.iter().enumerate() {
        let text = cx.readable(value)?;
        room(cx, &out, text.len() + 1)?;
        if at > 0 {
            out.push(' ');
        }
        out.push_str(&text);
    }
    cx.text(out)
}

fn parse_long(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match arg(args, 0) {
        Value::Str(text) => text.as_str().parse().map(Value::Int).unwrap_or_default(),
        _ => Value::Nil,
    })
}

fn parse_double(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Value::Str(text) = arg(args, 0) else { return Ok(Value::Nil) };
    let text = text.as_str().trim();
    let numeric = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    Ok(match text {
        "NaN" => Value::Float(f64::NAN),
        "Infinity" | "+Infinity" => Value::Float(f64::INFINITY),
        "-Infinity" => Value::Float(f64::NEG_INFINITY),
        text if numeric => text.parse().map(Value::Float).unwrap_or_default(),
        _ => Value::Nil,
    })
}

fn parse_boolean(_: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    Ok(match arg(args, 0) {
        Value::Str(text) if text.as_str() == "true" => Value::Bool(true),
        Value::Str(text) if text.as_str() == "false" => Value::Bool(false),
        _ => Value::Nil,
    })
}

fn escape(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let (text, replacements) = (text(cx, "escape", args, 0)?, map(cx, "escape", args, 1)?);
    let mut out = String::new();
    for grapheme in text.graphemes() {
        cx.meter.tick()?;
        match replacements.get_exact(&Value::from(grapheme)) {
            Some(replacement) => push(cx, &mut out, replacement)?,
            None => out.push_str(grapheme),
        }
        room(cx, &out, 0)?;
    }
    cx.text(out)
}
