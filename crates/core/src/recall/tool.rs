//! The four tools, as they are offered to models.

use serde_json::{Value, json};

/// One of the four tools. All of them only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecallTool {
    /// Finds entries by words, phrases or a regular expression.
    Search,
    /// The exact text behind a handle.
    Read,
    /// What was said before and after a handle.
    Around,
    /// What happened in a session or conversation.
    Outline,
}

impl RecallTool {
    /// All four, in the order in which they are offered.
    pub const ALL: [RecallTool; 4] =
        [RecallTool::Search, RecallTool::Read, RecallTool::Around, RecallTool::Outline];

    /// Its name in MCP, where clients put the name of the server in front.
    pub fn name(self) -> &'static str {
        match self {
            RecallTool::Search => "search",
            RecallTool::Read => "read",
            RecallTool::Around => "around",
            RecallTool::Outline => "outline",
        }
    }

    /// Its name in our own agents, so that it never collides with a tool called `search`.
    pub fn agent_name(self) -> &'static str {
        match self {
            RecallTool::Search => "recall_search",
            RecallTool::Read => "recall_read",
            RecallTool::Around => "recall_around",
            RecallTool::Outline => "recall_outline",
        }
    }

    /// The tool that a call means, by either name or as a client spells a tool of our MCP server, such as
    /// `mcp__scrollback__search`.
    ///
    /// ```
    /// use scrollback_core::recall::RecallTool;
    /// assert_eq!(RecallTool::called("mcp__scrollback__read"), Some(RecallTool::Read));
    /// assert_eq!(RecallTool::called("recall_search"), Some(RecallTool::Search));
    /// assert_eq!(RecallTool::called("search"), None);
    /// ```
    pub fn called(name: &str) -> Option<Self> {
        RecallTool::ALL.into_iter().find(|tool| {
            let of_server = || {
                let before = name.strip_suffix(tool.name())?;
                let before =
                    before.strip_suffix("__").or_else(|| before.strip_suffix(['_', '.', '/', '-']))?;
                Some(before.ends_with("scrollback"))
            };
            name == tool.agent_name() || of_server().unwrap_or(false)
        })
    }

    /// The tool of that MCP name.
    pub fn named(name: &str) -> Option<Self> {
        RecallTool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What models are told about it.
    pub fn description(self) -> &'static str {
        match self {
            RecallTool::Search => {
                "Search everything that was said, including what is no longer in your context: messages, tool calls and \
                 tool results. Words must all be there; \"phrases\" in quotes, wor* for beginnings, -word to exclude, \
                 /regex/ for a regular expression. Answers with handles (sb:…#N) to read."
            }
            RecallTool::Read => {
                "Read the exact text behind a handle (sb:…#N or sb:…#N-M), with line numbers. Use `lines` or `pattern` \
                 for a part of a long text."
            }
            RecallTool::Around => {
                "Show the entries before and after a handle, shortened, each with its own handle."
            }
            RecallTool::Outline => {
                "Show what happened so far: turns, what was left out of the context, summaries, open obligations, files \
                 and identifiers with the handles of the last read and write. Without a handle, of this session."
            }
        }
    }

    /// The JSON Schema of its arguments.
    pub fn schema(self) -> Value {
        let handle = json!({ "type": "string", "description": "A handle such as sb:k7q2m9x4td#412" });
        let (properties, required) = match self {
            RecallTool::Search => (
                json!({
                    "query": { "type": "string", "description": "Words, \"phrases\" or /regex/" },
                    "scope": {
                        "type": "string", "enum": ["session", "conversation", "project", "all"],
                        "description": "Where to look; session if not given"
                    },
                    "role": { "type": "string", "enum": ["user", "assistant", "tool", "system"] },
                    "tool": { "type": "string", "description": "Only calls and results of this tool" },
                    "since": { "type": "string", "description": "Only from this time on, such as 2026-01-31T12:00:00Z" },
                    "before": { "type": "string", "description": "Only before this time" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 20, "description": "10 if not given" }
                }),
                json!(["query"]),
            ),
            RecallTool::Read => (
                json!({
                    "handle": handle,
                    "lines": { "type": "string", "description": "A range of lines such as 10-40" },
                    "pattern": { "type": "string", "description": "Only lines with this text or /regex/" },
                    "context": { "type": "integer", "minimum": 0, "maximum": 50, "description": "Lines around each match; 2 if not given" }
                }),
                json!(["handle"]),
            ),
            RecallTool::Around => (
                json!({
                    "handle": handle,
                    "before": { "type": "integer", "minimum": 0, "maximum": 20, "description": "5 if not given" },
                    "after": { "type": "integer", "minimum": 0, "maximum": 20, "description": "5 if not given" }
                }),
                json!(["handle"]),
            ),
            RecallTool::Outline => (json!({ "handle": handle }), json!([])),
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }
}
