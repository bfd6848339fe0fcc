//! From text to nodes.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Key, Node, Place, Problem, Value};

/// Deepest nesting of a document; nobody writes deeper by hand.
const MAX_DEPTH: usize = 64;
/// Most values that aliases may add: a few lines can name each other into millions.
const MAX_ALIASED: usize = 100_000;

/// Reads the one document of a text.
///
/// ```
/// use scrollback_agent::document::parse;
/// let node = parse("name: travel\ntools: [weather]\n")?;
/// assert_eq!(node.get("name").and_then(|name| name.as_text()), Some("travel"));
/// assert_eq!(node.get("tools").map(|tools| tools.at.line), Some(2));
/// let problem = parse("a: 1\na: 2\n").unwrap_err();
/// assert_eq!(problem.to_string(), "2:1: a: stands twice; remove one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse(text: &str) -> Result<Node, Problem> {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_comments: false,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| {
            problem(place(*error.marker()), "", format!("not valid YAML: {}", error.info()))
        })?;
        builder.event(event, place(span.start))?;
    }
    Ok(builder.done.unwrap_or(Node { value: Value::Null, at: Place { line: 1, column: 1 } }))
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

fn problem(at: Place, path: &str, message: impl Into<String>) -> Problem {
    Problem { path: path.into(), at, message: message.into() }
}

/// A list or map that is open.
struct Frame {
    at: Place,
    anchor: usize,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    /// The members so far, and the name that waits for its value.
    Map(Vec<(Key, Node)>, Option<Key>),
}

#[derive(Default)]
struct Builder {
    frames: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    done: Option<Node>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Place) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) if self.done.is_some() => {
                Err(problem(at, "", "a second document begins here; split the file"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.add(Node { value, at }, anchor)
            }
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).cloned();
                let node = named.ok_or_else(|| problem(at, "", "an alias inside what it names"))?;
                self.aliased += size(&node);
                if self.aliased > MAX_ALIASED {
                    return Err(problem(at, "", "aliases add up to more than 100,000 values"));
                }
                self.add(Node { value: node.value, at }, 0)
            }
            Event::SequenceStart(_, anchor, _) => self.open(at, anchor, Open::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.open(at, anchor, Open::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                Some(frame) => {
                    let value = match frame.open {
                        Open::List(list) => Value::List(list),
                        Open::Map(map, _) => Value::Map(map),
                    };
                    self.add(Node { value, at: frame.at }, frame.anchor)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: Place, anchor: usize, open: Open) -> Result<(), Problem> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(problem(at, "", "nested deeper than 64 levels"));
        }
        self.frames.push(Frame { at, anchor, open });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.frames.last_mut().map(|frame| &mut frame.open) {
            None => self.done = Some(node),
            Some(Open::List(list)) => list.push(node),
            Some(Open::Map(map, waiting)) => {
                if let Some(key) = waiting.take() {
                    map.push((key, node));
                } else {
                    *waiting = Some(name(node, map)?);
                }
            }
        }
        Ok(())
    }
}

/// A node as the name of the next value in a map.
fn name(node: Node, map: &[(Key, Node)]) -> Result<Key, Problem> {
    let name = match node.value {
        Value::Text(text) | Value::Number(text) => text,
        Value::Bool(flag) => flag.to_string(),
        Value::Null => "null".into(),
        Value::List(_) | Value::Map(_) => return Err(problem(node.at, "", "a name must be a text")),
    };
    if map.iter().any(|(key, _)| key.name == name) {
        return Err(problem(node.at, &name, "stands twice; remove one"));
    }
    Ok(Key { name, at: node.at })
}

/// How many values there are in a node.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|(_, node)| size(node)).sum::<usize>(),
        _ => 1,
    }
}

/// What a scalar says: plain ones by the rules of YAML 1.2, in which only `true` and `false` are flags.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    if style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str") {
        return Value::Text(text.into());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_number(text) => Value::Number(text.trim_start_matches('+').into()),
        _ => Value::Text(text.into()),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && text.parse::<f64>().is_ok()
}
