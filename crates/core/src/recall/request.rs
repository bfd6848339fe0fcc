//! What a model asks of the four tools: its arguments, read strictly, with every mistake answered in a sentence.

use std::fmt;

use serde_json::{Map, Value};

use super::handle::Handle;
use super::pattern::{LONGEST, TextPattern};
use super::tool::RecallTool;
use crate::entry::{Role, Time};
use crate::nearest::nearest_key;

/// Hits that a search gives if nothing else is asked for, and most.
const HITS: usize = 10;
const MOST_HITS: usize = 20;
/// Neighbours on each side if nothing else is asked for, and most.
const NEIGHBOURS: usize = 5;
const MOST_NEIGHBOURS: usize = 20;
/// Lines around a match if nothing else is asked for, and most.
const CONTEXT: usize = 2;
const MOST_CONTEXT: usize = 50;

/// Why a call is not answered, in a sentence that tells the model what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal in these words.
    pub fn new(words: String) -> Self {
        Refusal(words)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Where a search looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecallScope {
    /// The session the caller is in, with its sub-agents and branches.
    #[default]
    Session,
    /// Its conversation only.
    Conversation,
    /// All sessions of the same working directory or repository; else of the same recipient; else of the tenant.
    Project,
    /// Everything of the tenant.
    All,
}

impl RecallScope {
    /// All four.
    pub const ALL: [RecallScope; 4] =
        [RecallScope::Session, RecallScope::Conversation, RecallScope::Project, RecallScope::All];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RecallScope::Session => "session",
            RecallScope::Conversation => "conversation",
            RecallScope::Project => "project",
            RecallScope::All => "all",
        }
    }

    /// The next wider one, which an empty answer points to.
    pub fn wider(self) -> Option<Self> {
        match self {
            RecallScope::Conversation => Some(RecallScope::Session),
            RecallScope::Session => Some(RecallScope::Project),
            RecallScope::Project => Some(RecallScope::All),
            RecallScope::All => None,
        }
    }
}

/// What to look for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Words and phrases, in the store's grammar.
    Words(String),
    /// A regular expression.
    Pattern(TextPattern),
}

/// Arguments of `search`.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// What to look for.
    pub wanted: Wanted,
    /// Where.
    pub scope: RecallScope,
    /// Only what this role said.
    pub role: Option<Role>,
    /// Only calls and results of this tool.
    pub tool: Option<String>,
    /// Only from this time on.
    pub since: Option<Time>,
    /// Only before this time.
    pub before: Option<Time>,
    /// Most hits.
    pub limit: usize,
}

/// Lines of a text, from 1, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The first.
    pub first: usize,
    /// The last; none for the end of the text.
    pub last: Option<usize>,
}

/// Arguments of `read`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRequest {
    /// What to read.
    pub handle: Handle,
    /// Only these lines.
    pub lines: Option<LineRange>,
    /// Only lines that match.
    pub pattern: Option<TextPattern>,
    /// Lines around each match.
    pub context: usize,
}

/// Arguments of `around`.
#[derive(Clone, Debug, PartialEq)]
pub struct AroundRequest {
    /// The place.
    pub handle: Handle,
    /// Entries before it.
    pub before: usize,
    /// Entries after it.
    pub after: usize,
}

/// A call of one of the tools.
#[derive(Clone, Debug, PartialEq)]
pub enum RecallRequest {
    /// Find entries.
    Search(SearchRequest),
    /// Read a place.
    Read(ReadRequest),
    /// Look around a place.
    Around(AroundRequest),
    /// What happened; of the caller's session if no handle is given.
    Outline(Option<Handle>),
}

impl RecallRequest {
    /// Reads the arguments of a call. Numbers may be written as texts, as some models do.
    pub fn parse(tool: RecallTool, arguments: &Value) -> Result<Self, Refusal> {
        let empty = Map::new();
        let given = match arguments {
            Value::Object(given) => given,
            Value::Null => &empty,
            _ => return Err(Refusal::new(format!("the arguments of {} are an object", tool.name()))),
        };
        let read = Arguments { tool, given };
        read.known()?;
        match tool {
            RecallTool::Search => read.search().map(RecallRequest::Search),
            RecallTool::Read => read.read().map(RecallRequest::Read),
            RecallTool::Around => Ok(RecallRequest::Around(AroundRequest {
                handle: read.handle()?,
                before: read.count("before", NEIGHBOURS, 0, MOST_NEIGHBOURS)?,
                after: read.count("after", NEIGHBOURS, 0, MOST_NEIGHBOURS)?,
            })),
            RecallTool::Outline => {
                let handle = read.text("handle")?.filter(|text| !text.trim().is_empty());
                handle.map(parse_handle).transpose().map(RecallRequest::Outline)
            }
        }
    }
}

fn parse_handle(text: &str) -> Result<Handle, Refusal> {
    text.parse().map_err(|error: super::handle::BadHandle| Refusal::new(error.to_string()))
}

/// The arguments of a call on their way to a request.
struct Arguments<'a> {
    tool: RecallTool,
    given: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// An error if there is an argument that the tool does not take.
    fn known(&self) -> Result<(), Refusal> {
        let schema = self.tool.schema();
        let known = || schema["properties"].as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        let unknown =
            self.given.iter().find(|(name, value)| !value.is_null() && !known().any(|one| one == *name));
        let Some((name, _)) = unknown else { return Ok(()) };
        let name: String = name.chars().take(40).collect();
        let meant =
            nearest_key(&name, known()).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let all = known().collect::<Vec<_>>().join(", ");
        Err(Refusal::new(format!("{} takes no `{name}`{meant} It takes: {all}", self.tool.name())))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        match self.given.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::new(format!("`{name}` must be a text"))),
        }
    }

    fn count(&self, name: &str, default: usize, least: usize, most: usize) -> Result<usize, Refusal> {
        let given = match self.given.get(name) {
            None | Some(Value::Null) => return Ok(default),
            Some(Value::Number(number)) => number.as_u64().or_else(|| {
                number
                    .as_f64()
                    .filter(|float| *float >= 0.0 && float.fract() == 0.0)
                    .map(|float| float as u64)
            }),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let number = given.and_then(|number| usize::try_from(number).ok());
        number.filter(|number| *number >= least).map(|number| number.min(most)).ok_or_else(|| {
            Refusal::new(format!("`{name}` must be a number from {least} to {most}; omit it for {default}"))
        })
    }

    fn handle(&self) -> Result<Handle, Refusal> {
        let text = self.text("handle")?.ok_or_else(|| {
            Refusal::new("`handle` is missing: give one from a search, such as sb:k7q2m9x4td#412".into())
        })?;
        parse_handle(text)
    }

    fn search(&self) -> Result<SearchRequest, Refusal> {
        let query = self.text("query")?.unwrap_or_default();
        if query.trim().is_empty() {
            return Err(Refusal::new("`query` is missing: give a few words, a \"phrase\" or /regex/".into()));
        }
        if query.len() > LONGEST {
            return Err(Refusal::new(format!(
                "the query has {} bytes, {LONGEST} are the most; give a few words that stand near what you look for",
                query.len()
            )));
        }
        let wanted = if TextPattern::expression(query).is_some() {
            Wanted::Pattern(TextPattern::parse(query)?)
        } else {
            Wanted::Words(query.into())
        };
        Ok(SearchRequest {
            wanted,
            scope: self.scope()?,
            role: self.role()?,
            tool: self.text("tool")?.map(String::from).filter(|tool| !tool.is_empty()),
            since: self.time("since")?,
            before: self.time("before")?,
            limit: self.count("limit", HITS, 1, MOST_HITS)?,
        })
    }

    fn scope(&self) -> Result<RecallScope, Refusal> {
        let Some(word) = self.text("scope")? else { return Ok(RecallScope::default()) };
        let found = RecallScope::ALL.into_iter().find(|scope| scope.as_str() == word);
        found.ok_or_else(|| {
            let meant = nearest_key(word, RecallScope::ALL.map(RecallScope::as_str));
            let meant = meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
            Refusal::new(format!("unknown scope; {meant}use session, conversation, project or all"))
        })
    }

    fn role(&self) -> Result<Option<Role>, Refusal> {
        let Some(word) = self.text("role")?.filter(|word| !word.is_empty()) else { return Ok(None) };
        let roles = [Role::User, Role::Assistant, Role::Tool, Role::System];
        let found = roles.into_iter().find(|role| role.as_str() == word);
        found
            .map(Some)
            .ok_or_else(|| Refusal::new("unknown role; use user, assistant, tool or system".into()))
    }

    fn time(&self, name: &str) -> Result<Option<Time>, Refusal> {
        let Some(text) = self.text(name)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let read = Time::parse(text).or_else(|| Time::parse(&format!("{text}T00:00:00Z")));
        read.map(Some).ok_or_else(|| {
            Refusal::new(format!(
                "`{name}` must be a day or a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
            ))
        })
    }

    fn read(&self) -> Result<ReadRequest, Refusal> {
        let pattern = self.text("pattern")?.filter(|pattern| !pattern.is_empty());
        Ok(ReadRequest {
            handle: self.handle()?,
            lines: self.lines()?,
            pattern: pattern.map(TextPattern::parse).transpose()?,
            context: self.count("context", CONTEXT, 0, MOST_CONTEXT)?,
        })
    }

    fn lines(&self) -> Result<Option<LineRange>, Refusal> {
        let text = match self.given.get("lines") {
            Some(Value::Number(number)) => number.to_string(),
            _ => match self.text("lines")? {
                Some(text) if !text.trim().is_empty() => text.trim().to_string(),
                _ => return Ok(None),
            },
        };
        let bad = || Refusal::new("`lines` must be a range such as 10-40, counted from 1".into());
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let (first, last) = match text.split_once('-') {
            Some((first, "")) => (number(first).ok_or_else(bad)?, None),
            Some((first, last)) => (number(first).ok_or_else(bad)?, Some(number(last).ok_or_else(bad)?)),
            None => {
                let line = number(&text).ok_or_else(bad)?;
                (line, Some(line))
            }
        };
        if last.is_some_and(|last| last < first) {
            return Err(bad());
        }
        Ok(Some(LineRange { first, last }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn refused(tool: RecallTool, arguments: &Value) -> String {
        RecallRequest::parse(tool, arguments).unwrap_err().to_string()
    }

    #[test]
    fn arguments_read_with_their_defaults() {
        let RecallRequest::Search(search) = RecallRequest::parse(
            RecallTool::Search,
            &json!({ "query": "red pen", "limit": "3", "role": null }),
        )
        .unwrap() else {
            panic!("a search");
        };
        assert_eq!((search.scope, search.limit, search.role), (RecallScope::Session, 3, None));
        assert_eq!(search.wanted, Wanted::Words("red pen".into()));
        let lines = |text: Value| match RecallRequest::parse(
            RecallTool::Read,
            &json!({ "handle": "sb:k7q2m9x4td#1", "lines": text }),
        ) {
            Ok(RecallRequest::Read(read)) => read.lines.map(|lines| (lines.first, lines.last)),
            other => panic!("{other:?}"),
        };
        assert_eq!(lines(json!("10-40")), Some((10, Some(40))));
        assert_eq!(lines(json!("10-")), Some((10, None)));
        assert_eq!(lines(json!(7)), Some((7, Some(7))));
        assert_eq!(lines(json!("")), None);
    }

    #[test]
    fn mistakes_say_what_to_do() {
        use RecallTool::{Around, Read, Search};
        for (tool, arguments, says) in [
            (Search, json!({}), "`query` is missing"),
            (Search, json!({ "query": "x", "scop": "all" }), "did you mean `scope`"),
            (Search, json!({ "query": "x", "scope": "sesion" }), "did you mean `session`"),
            (Search, json!({ "query": 4 }), "`query` must be a text"),
            (Search, json!({ "query": "x", "limit": 0 }), "from 1 to 20"),
            (Search, json!({ "query": "x", "since": "yesterday" }), "2026-01-31"),
            (Search, json!({ "query": "x".repeat(1_000_000) }), "the query has 1000000 bytes"),
            (Search, json!({ "query": "/(/" }), "search for the words instead"),
            (Read, json!({}), "`handle` is missing"),
            (Read, json!({ "handle": "#4" }), "handles look like sb:"),
            (Read, json!({ "handle": "sb:k7q2m9x4td#4", "lines": "40-10" }), "10-40"),
            (Around, json!({ "handle": "sb:k7q2m9x4td#4", "before": -1 }), "from 0 to 20"),
            (Around, json!([1]), "are an object"),
        ] {
            let answer = refused(tool, &arguments);
            assert!(answer.contains(says) && answer.len() < 400, "{says}: {answer}");
        }
    }
}
