//! YAML as JSON text: keys in their order, numbers in their spelling.
//!
//! Events are printed as they come, so nothing is built and nothing recurses. Plain scalars are read as the recorders
//! write them (YAML 1.1 by way of `PyYAML` and Psych): a number with an exponent has a point and a sign, and `1e5` is a
//! text.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::TranscriptError;
use crate::json::{self, JsonKind, MAX_DEPTH};

/// Bytes that aliases may add: a few lines of YAML can name each other into gigabytes.
const MAX_ALIASED: usize = 64 << 20;

/// A document, printed.
#[derive(Default)]
pub(super) struct PrintedYaml {
    pub(super) json: String,
    /// Where the items of the lists under the outermost keys begin: byte of the JSON, line and byte of the YAML.
    pub(super) items: Vec<(usize, usize, usize)>,
}

/// Prints the one document of a text.
pub(super) fn to_json(text: &str) -> Result<PrintedYaml, TranscriptError> {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_comments: false,
    };
    let mut document = Printer::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| at(*error.marker(), "not valid YAML"))?;
        document.event(event, span.start).map_err(|problem| at(span.start, problem))?;
    }
    let printed = document.printed;
    json::check(&printed.json).map_err(|error| TranscriptError {
        line: 0,
        byte: 0,
        problem: format!("not valid YAML: {}", error.problem),
    })?;
    Ok(printed)
}

fn at(place: Marker, problem: &str) -> TranscriptError {
    TranscriptError { line: place.line(), byte: place.byte_offset().unwrap_or(0), problem: problem.into() }
}

/// A list or mapping that is open.
struct YamlFrame {
    start: usize,
    anchor: usize,
    of: Of,
    empty: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Of {
    List,
    Keys,
    /// A mapping whose key is written and whose value comes next.
    Value,
}

#[derive(Default)]
struct Printer {
    printed: PrintedYaml,
    frames: Vec<YamlFrame>,
    anchors: BTreeMap<usize, Range<usize>>,
    aliased: usize,
    documents: usize,
}

impl Printer {
    fn event(&mut self, event: Event<'_>, place: Marker) -> Result<(), &'static str> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 { Err("a second document; split the file") } else { Ok(()) }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let key = self.begin(place);
                let start = self.printed.json.len();
                if key {
                    json::write_string(&mut self.printed.json, &text);
                } else {
                    write_scalar(&mut self.printed.json, &text, style, tag.as_deref());
                }
                self.end(start, anchor, key);
                Ok(())
            }
            Event::Alias(anchor) => {
                let range = self.anchors.get(&anchor).cloned().ok_or("an alias that refers to itself")?;
                let value = self.printed.json.get(range).unwrap_or_default().to_string();
                self.aliased += value.len();
                if self.aliased > MAX_ALIASED {
                    return Err("aliases that add up to more than 64 MiB");
                }
                let key = self.begin(place);
                if key && !value.starts_with('"') {
                    return Err("a key that is not a text");
                }
                let start = self.printed.json.len();
                self.printed.json.push_str(&value);
                self.end(start, 0, key);
                Ok(())
            }
            Event::SequenceStart(_, anchor, _) => self.open(place, anchor, Of::List, '['),
            Event::MappingStart(_, anchor, _) => self.open(place, anchor, Of::Keys, '{'),
            Event::SequenceEnd => self.close(']'),
            Event::MappingEnd => self.close('}'),
            _ => Ok(()),
        }
    }

    /// What stands before a node; whether it is a key.
    fn begin(&mut self, place: Marker) -> bool {
        let depth = self.frames.len();
        let Some(frame) = self.frames.last_mut() else { return false };
        if frame.of != Of::Value {
            if !frame.empty {
                self.printed.json.push(',');
            }
            frame.empty = false;
        }
        if depth == 2 && frame.of == Of::List {
            let byte = place.byte_offset().unwrap_or(0);
            self.printed.items.push((self.printed.json.len(), place.line(), byte));
        }
        frame.of == Of::Keys
    }

    /// What stands after a node that began at `start`.
    fn end(&mut self, start: usize, anchor: usize, key: bool) {
        if anchor != 0 {
            self.anchors.insert(anchor, start..self.printed.json.len());
        }
        if key {
            self.printed.json.push(':');
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.of = match frame.of {
                Of::List => Of::List,
                Of::Keys => Of::Value,
                Of::Value => Of::Keys,
            };
        }
    }

    fn open(&mut self, place: Marker, anchor: usize, of: Of, bracket: char) -> Result<(), &'static str> {
        if self.begin(place) {
            return Err("a key that is not a text");
        }
        if self.frames.len() == MAX_DEPTH {
            return Err("nested deeper than 128");
        }
        self.frames.push(YamlFrame { start: self.printed.json.len(), anchor, of, empty: true });
        self.printed.json.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: char) -> Result<(), &'static str> {
        self.printed.json.push(bracket);
        let frame = self.frames.pop().ok_or("an end without its beginning")?;
        self.end(frame.start, frame.anchor, false);
        Ok(())
    }
}

fn write_scalar(out: &mut String, text: &str, style: ScalarStyle, tag: Option<&Tag>) {
    let untyped = style == ScalarStyle::Plain
        && tag.is_none_or(|tag| tag.is_yaml_core_schema() && !tag.is_yaml_core_schema_tag("str"));
    match text {
        "" | "~" | "null" | "Null" | "NULL" if untyped => out.push_str("null"),
        "true" | "True" | "TRUE" if untyped => out.push_str("true"),
        "false" | "False" | "FALSE" if untyped => out.push_str("false"),
        number if untyped && is_number(number) => out.push_str(number),
        _ => json::write_string(out, text),
    }
}

fn is_number(text: &str) -> bool {
    let exponent_is_whole = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => mantissa.contains('.') && exponent.starts_with(['+', '-']),
        None => true,
    };
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && exponent_is_whole
        && json::check(text).is_ok_and(|raw| raw.kind() == JsonKind::Number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_stay_in_order_and_numbers_keep_their_spelling() {
        let cases = [
            ("b: 1\na: [x, 2.50, -1.0e-05]\n", r#"{"b":1,"a":["x",2.50,-1.0e-05]}"#),
            (
                "a: '1'\nb: \"\\u00e9\\n\"\nc: 1e5\nd: 019\n200: yes\n",
                "{\"a\":\"1\",\"b\":\"é\\n\",\"c\":\"1e5\",\"d\":\"019\",\"200\":\"yes\"}",
            ),
            (
                "a:\nb: ~\nc: ''\nd: {}\ne: []\nf: true\n",
                r#"{"a":null,"b":null,"c":"","d":{},"e":[],"f":true}"#,
            ),
            ("a: |\n  {\"x\": 1}\nb: >-\n  one\n  two\n", r#"{"a":"{\"x\": 1}\n","b":"one two"}"#),
            ("a: &x [1, {k: v}]\nb: *x\n", r#"{"a":[1,{"k":"v"}],"b":[1,{"k":"v"}]}"#),
            (
                "---\n- a: 1\n  b:\n  - c\n- 12345678901234567890\n",
                r#"[{"a":1,"b":["c"]},12345678901234567890]"#,
            ),
            ("a: !!binary |\n  aGk=\nb: !!str 1\n", "{\"a\":\"aGk=\\n\",\"b\":\"1\"}"),
        ];
        for (yaml, json) in cases {
            assert_eq!(to_json(yaml).unwrap().json, json, "{yaml}");
        }
    }

    #[test]
    fn what_is_no_one_document_is_an_error_with_its_place() {
        for (yaml, line) in [
            ("a: [1\nb: 2\n", 2),
            ("a: 1\n--- \nb: 2\n", 2),
            ("a: &x [*x]\n", 1),
            ("[a]: 1\n", 1),
            ("a: *nobody\n", 1),
        ] {
            let error = to_json(yaml).err().unwrap();
            assert_eq!(error.line, line, "{yaml:?}: {error}");
        }
        assert!(to_json("").is_err());
        assert!(to_json(&"[".repeat(100_000)).is_err());
        assert!(to_json(&"- ".repeat(100_000)).is_err());
    }

    #[test]
    fn aliases_that_multiply_are_refused() {
        let mut lines = vec![format!("a0: &a0 [{}]", ["x"; 10].join(", "))];
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            lines.push(format!("a{level}: &a{level} [{}]", vec![before; 10].join(", ")));
        }
        let bomb = lines.join("\n");
        assert!(to_json(&bomb).err().unwrap().problem.contains("64 MiB"));
    }
}
