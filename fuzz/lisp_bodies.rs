//! What the fuzz targets of the Lisp do with their bytes; the tests run the same bodies over mutated programs.

use std::time::Duration;

use scrollback_lisp::{Env, Limits, Program, Reason, Signature, Tool, Value, builtins};

/// Any bytes as a source: a program, or an error of the text with a place in it.
pub(crate) fn read(data: &[u8]) {
    match Program::compile_bytes(data) {
        Ok(program) => assert_eq!(program.source().as_bytes(), data),
        Err(error) => {
            assert!(error.reason.is_static(), "{error}");
            assert!(error.at.is_some() || error.message.contains("UTF-8"), "{error}");
            assert!(!error.message.is_empty() && error.message.len() < 4000, "{error}");
        }
    }
}

/// Any bytes as a program: as text, or as a choice of words of the language.
pub(crate) fn eval(data: &[u8]) {
    let source = match data.split_first() {
        Some((first, rest)) if first % 2 == 1 => words(rest),
        Some((_, rest)) => String::from_utf8_lossy(rest).into_owned(),
        None => return,
    };
    let Ok(program) = Program::compile(&source) else { return };
    assert_eq!(run(&program), run(&program), "two runs differ: {source}");
}

/// Limits so low that any input is quick.
fn limits() -> Limits {
    Limits {
        fuel: 20_000,
        loop_jumps: 2_000,
        time: Duration::from_secs(10),
        memory: 2 << 20,
        depth: 100,
        tool_calls: 10,
        ..Limits::default()
    }
}

/// Runs a program and looks whether what came of it can be right; says what came of it.
fn run(program: &Program) -> String {
    let signature = Signature::parse("(x :int, y :string?) -> :any").ok();
    let mut env = Env::new()
        .data(
            "rows",
            Value::from_json(r#"[{"id": 1, "n": 2.5, "tag": "a-b"}, {"id": 2, "n": null}]"#)
                .unwrap_or_default(),
        )
        .data("both", Value::from(1))
        .tool(Tool::new("echo", None, |call| Ok(Value::Map(call.args))))
        .tool(Tool::new("typed", signature, |call| Ok(Value::Map(call.args))))
        .tool(Tool::new("both", None, |_| Err("it is broken".into())))
        .now(1_700_000_000_000)
        .limits(limits());
    let outcome = program.run(&mut env);
    // Where it has just run, a program runs the same way again.
    let again = program.run(&mut env);
    assert_eq!((outcome.usage, &outcome.prints), (again.usage, &again.prints));
    assert!(outcome.usage.fuel <= 20_000 && outcome.usage.tool_calls <= 10);
    match &outcome.result {
        Ok(_) => {
            let value = outcome.value().cloned().unwrap_or_default();
            let text = value.to_string();
            let json = value.to_json();
            assert!(text.len() > 1 << 20 || Value::from_json(&json).is_some(), "no JSON: {json}");
            if !text.contains("#fn[") && !text.contains("#'") && text.len() < 100_000 {
                round_trip(&value, &text);
            }
            format!("{text} {:?}", outcome.prints)
        }
        Err(error) => {
            assert_eq!(outcome.memory.len(), 0, "an error leaves the memory as it was");
            assert!(error.reason != Reason::Timeout && error.reason != Reason::ParseError, "{error}");
            format!("{error} {:?} {:?}", error.at, outcome.prints)
        }
    }
}

/// What is printed reads back as the same value.
fn round_trip(value: &Value, text: &str) {
    let limits = Limits { fuel: u64::MAX, memory: usize::MAX / 2, ..Limits::default() };
    let read = Program::compile(&format!("(quote {text})"));
    let Ok(program) = read else {
        let error = read.err().map(|error| error.message).unwrap_or_default();
        assert!(
            error.contains("nested deeper") || error.contains("longer than") || error.contains("digits"),
            "{error}: {text}"
        );
        return;
    };
    let back = program.run(&mut Env::new().limits(limits));
    assert_eq!(back.value(), Some(value), "{text}");
    assert_eq!(back.value().map(ToString::to_string).as_deref(), Some(text));
}

/// A program made of words: each byte chooses one, and brackets are closed at the end.
fn words(data: &[u8]) -> String {
    const WORDS: &[&str] = &[
        "(",
        "(",
        "(",
        "(",
        ")",
        ")",
        ")",
        "[",
        "]",
        "{",
        "}",
        "#{",
        "#(",
        "'",
        "#_",
        "nil",
        "true",
        "0",
        "1",
        "-3",
        "2.5",
        "1e300",
        "9223372036854775807",
        "\"a-b\"",
        "\"é👩‍👩‍👧\"",
        ":id",
        ":n",
        ":a-b",
        "x",
        "y",
        "f",
        "%",
        "%2",
        "&",
        ":as",
        ":keys",
        ":or",
        ":when",
        ":let",
        ":while",
        "data/rows",
        "rows",
        "both",
        "tool/echo",
        "tool/typed",
        "#\"(a)|b*\"",
        "#inst \"2024-01-15T10:00:00Z\"",
        "#date \"2024-02-29\"",
        "let",
        "loop",
        "recur",
        "fn",
        "if",
        "def",
        "defn",
        "for",
        "doseq",
        "cond",
        "case",
        "->",
        "->>",
        "some->",
        "pmap",
        "pcalls",
        "where",
        "return",
        "fail",
        "letfn",
        "dotimes",
        "cond->",
        "as->",
        "and",
        "or",
        "if-let",
        "*1",
        "##NaN",
        "range",
        "reduced",
    ];
    let names = builtins();
    let mut out = String::new();
    let mut open = Vec::new();
    let mut bytes = data.iter();
    while let Some(byte) = bytes.next() {
        let word = if let Some(word) = WORDS.get(usize::from(*byte)) {
            *word
        } else {
            // Two bytes for a builtin.
            let index = usize::from(*byte) * 256 + usize::from(bytes.next().copied().unwrap_or_default());
            names.get(index % names.len().max(1)).map_or("inc", |(_, builtin)| builtin.name)
        };
        match word {
            "(" | "#(" => open.push(")"),
            "[" => open.push("]"),
            "{" | "#{" => open.push("}"),
            ")" | "]" | "}" => match open.pop() {
                // Whatever closes, closes what is open.
                Some(close) => {
                    out.push_str(close);
                    out.push(' ');
                    continue;
                }
                None => continue,
            },
            _ => {}
        }
        out.push_str(word);
        out.push(' ');
    }
    while let Some(close) = open.pop() {
        out.push_str(close);
    }
    out
}
