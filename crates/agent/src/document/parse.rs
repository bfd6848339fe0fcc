//! From text to nodes.

use std::collections::{BTreeMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{DocumentProblem, Node, NodeKey, TextPosition, Value, code};

/// Deepest nesting of a document; people do not write deeper by hand.
const MAX_DEPTH: usize = 64;
/// Most values that aliases may add: a few lines can name each other into millions.
const MAX_ALIASED: usize = 10_000;

/// What a text says, and what is wrong with it as a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedDocument {
    /// The one value, as far as it could be read; none if the grammar was broken.
    pub root: Option<Node>,
    /// What is wrong, in the order of the text. Of keys that appear twice, the first counts.
    pub problems: Vec<DocumentProblem>,
}

/// Reads the one document of a text.
///
/// ```
/// use scrollback_agent::document::parse;
/// let node = parse("name: travel\ntools: [weather]\n")?;
/// assert_eq!(node.get("name").and_then(|name| name.as_text()), Some("travel"));
/// assert_eq!(node.get("tools").map(|tools| tools.at.line), Some(2));
/// let problem = parse("a: 1\na: 2\n").unwrap_err();
/// assert_eq!(problem.to_string(), "2:1: a: appears twice; remove one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse(text: &str) -> Result<Node, DocumentProblem> {
    let parsed = parse_all(text);
    let nothing = Node { value: Value::Null, at: TextPosition { line: 1, column: 1 } };
    match parsed.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(parsed.root.unwrap_or(nothing)),
    }
}

/// Reads the one document of a text, and goes on behind mistakes that leave its shape clear.
pub fn parse_all(text: &str) -> ParsedDocument {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_comments: false,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let went = match next {
            Ok((event, span)) => builder.event(event, place(span.start)),
            Err(error) => Err(syntax(place(*error.marker()), format!("not valid YAML: {}", error.info()))),
        };
        if let Err(problem) = went {
            builder.problems.push(problem);
            return ParsedDocument { root: None, problems: builder.problems };
        }
    }
    let nothing = Node { value: Value::Null, at: TextPosition { line: 1, column: 1 } };
    ParsedDocument { root: Some(builder.done.unwrap_or(nothing)), problems: builder.problems }
}

fn place(marker: Marker) -> TextPosition {
    TextPosition { line: marker.line(), column: marker.col() + 1 }
}

fn syntax(at: TextPosition, message: impl Into<String>) -> DocumentProblem {
    DocumentProblem::new(code::SYNTAX, "", at, message)
}

/// A list or map that is open.
struct OpenFrame {
    at: TextPosition,
    anchor: usize,
    open: OpenNode,
}

enum OpenNode {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    members: Vec<(NodeKey, Node)>,
    names: HashSet<String>,
    /// The name that waits for its value.
    waiting: Option<Expecting>,
}

enum Expecting {
    Key(NodeKey),
    /// A name that appears twice: its value is read and left out.
    Again,
}

#[derive(Default)]
struct Builder {
    frames: Vec<OpenFrame>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    done: Option<Node>,
    problems: Vec<DocumentProblem>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: TextPosition) -> Result<(), DocumentProblem> {
        match event {
            Event::DocumentStart(..) if self.done.is_some() => {
                Err(syntax(at, "a second document begins here; split the file"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), at);
                self.add(Node { value, at }, anchor)
            }
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).cloned();
                let node = named.ok_or_else(|| syntax(at, "an alias that refers to itself"))?;
                self.aliased += size(&node);
                if self.aliased > MAX_ALIASED {
                    return Err(syntax(at, "aliases add up to more than 10,000 values"));
                }
                self.add(Node { value: node.value, at }, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "seq", at);
                self.open(at, anchor, OpenNode::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "map", at);
                self.open(at, anchor, OpenNode::Map(OpenMap::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                Some(frame) => {
                    let value = match frame.open {
                        OpenNode::List(list) => Value::List(list),
                        OpenNode::Map(map) => Value::Map(map.members),
                    };
                    self.add(Node { value, at: frame.at }, frame.anchor)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: TextPosition, anchor: usize, open: OpenNode) -> Result<(), DocumentProblem> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(syntax(at, "nested deeper than 64 levels"));
        }
        self.frames.push(OpenFrame { at, anchor, open });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), DocumentProblem> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.frames.last_mut().map(|frame| &mut frame.open) {
            None => self.done = Some(node),
            Some(OpenNode::List(list)) => list.push(node),
            Some(OpenNode::Map(map)) => match map.waiting.take() {
                Some(Expecting::Key(key)) => map.members.push((key, node)),
                Some(Expecting::Again) => {}
                None => {
                    let key = name(node)?;
                    if map.names.insert(key.name.clone()) {
                        map.waiting = Some(Expecting::Key(key));
                    } else {
                        map.waiting = Some(Expecting::Again);
                        let path = self.path(&key.name);
                        let message = "appears twice; remove one";
                        self.problems.push(DocumentProblem::new(code::DUPLICATE_KEY, path, key.at, message));
                    }
                }
            },
        }
        Ok(())
    }

    /// The path of a name in the innermost open map.
    fn path(&self, name: &str) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match &frame.open {
                OpenNode::List(list) => path = format!("{path}[{}]", list.len()),
                OpenNode::Map(map) => {
                    let key = match &map.waiting {
                        Some(Expecting::Key(key)) => key.name.as_str(),
                        Some(Expecting::Again) | None => name,
                    };
                    let dot = if path.is_empty() { "" } else { "." };
                    path = path + dot + key;
                }
            }
        }
        path
    }

    /// Notes a tag that is not YAML's own for what it stands at.
    fn refuse_tag(&mut self, tag: Option<&Tag>, own: &str, at: TextPosition) {
        if let Some(tag) = tag.filter(|tag| !(tag.is_yaml_core_schema() && tag.suffix() == own)) {
            let message = format!("unknown tag `{}{}`; remove it", tag.original_handle(), tag.suffix());
            self.problems.push(syntax(at, message));
        }
    }

    /// What a scalar says: plain ones by the rules of YAML 1.2, in which only `true` and `false` are flags.
    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: TextPosition) -> Value {
        let value = if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.into()) };
        let Some(tag) = tag else { return value };
        let own = match value {
            _ if tag.suffix() == "str" => "str",
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) if tag.suffix() == "float" => "float",
            Value::Number(_) => "int",
            _ => "str",
        };
        self.refuse_tag(Some(tag), own, at);
        if own == "str" { Value::Text(text.into()) } else { value }
    }
}

/// A node as the name of the next value in a map.
fn name(node: Node) -> Result<NodeKey, DocumentProblem> {
    let name = match node.value {
        Value::Text(text) | Value::Number(text) => text,
        Value::Bool(flag) => flag.to_string(),
        Value::Null => "null".into(),
        Value::List(_) | Value::Map(_) => return Err(syntax(node.at, "keys must be strings")),
    };
    Ok(NodeKey { name, at: node.at })
}

/// How many values there are in a node.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|(_, node)| size(node)).sum::<usize>(),
        _ => 1,
    }
}

/// What a text without quotes says.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
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
