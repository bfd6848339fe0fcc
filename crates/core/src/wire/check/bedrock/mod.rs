//! Bedrock Converse: rules BC-1 to BC-15.

mod media;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use self::media::Documents;
use super::{Gate, Rule, Severity, ViolationReport};
use crate::json::{JsonKind, Raw};
use crate::model::{ModelLine, ModelName};

/// The rules, in order.
pub(super) const RULES: &[Rule] = &[
    Rule::new("BC-1", Severity::Refused, "the first message is a user's", "put a user message in front"),
    Rule::new("BC-2", Severity::Refused, "user and assistant alternate", "joined neighbours of one role"),
    Rule::new(
        "BC-3",
        Severity::Refused,
        "every toolUse is answered in the next message",
        "gave the call its result, an interrupted one where there was none",
    ),
    Rule::new(
        "BC-4",
        Severity::Refused,
        "no toolResult is without its toolUse in the message before",
        "left out the result without a call",
    ),
    Rule::new(
        "BC-5",
        Severity::Refused,
        "no id appears twice among the toolUse or the toolResult blocks of one message",
        "left out the second one",
    ),
    Rule::new(
        "BC-6",
        Severity::Refused,
        "a toolUseId is 1 to 64 characters of [a-zA-Z0-9_.:-], the name of a tool 1 to 64 of [a-zA-Z0-9_-]",
        "mapped the id or name with a hash suffix, on both sides",
    ),
    Rule::new(
        "BC-7",
        Severity::Refused,
        "a request with tool blocks in its messages has a toolConfig",
        "added a `toolConfig` from the tools named in the history",
    ),
    Rule::new(
        "BC-8",
        Severity::Refused,
        "toolResult blocks stand alone in their message",
        "moved the other blocks to a message of their own",
    )
    .only(Gate {
        models: "Llama and Mistral; Claude beside documents and video",
        holds: |model| is_one_of(model, &[ModelLine::Llama, ModelLine::Mistral, ModelLine::Claude]),
    }),
    Rule::new(
        "BC-9",
        Severity::Refused,
        "an assistant's text comes before its toolUse blocks",
        "moved the text before the calls",
    ),
    Rule::new("BC-10", Severity::Refused, "no text is blank and no content empty", "left out the blank text"),
    Rule::new(
        "BC-11",
        Severity::Refused,
        "a toolResult with status `error` has content",
        "added a text that says the tool failed",
    ),
    Rule::new(
        "BC-12",
        Severity::Refused,
        "a document has a text beside it and a name of its own: at most 200 letters, digits, single spaces, \
               hyphens, parentheses and brackets",
        "added a text, or renamed the document",
    ),
    Rule::new(
        "BC-13",
        Severity::Refused,
        "a message has at most 20 images of 3.75 MB and 8000 pixels and 5 documents of 4.5 MB, all of them a user's",
        "replaced what is too much or too large by a note",
    ),
    Rule::new(
        "BC-14",
        Severity::Refused,
        "reasoning goes back as it came, with its text and, on Claude, its signature",
        "left out the reasoning",
    ),
    Rule::new(
        "BC-15",
        Severity::Refused,
        "a message of role `system` only where the model allows it",
        "turned the system message into a user's",
    )
    .only(Gate {
        models: "all but Claude Opus 4.8, Sonnet 5, Fable 5, Haiku 5.5 and later",
        holds: refuses_system_messages,
    }),
];

/// BC-8 for models that want nothing at all beside a result.
const ALONE: Gate = Gate {
    models: "Llama and Mistral",
    holds: |model| is_one_of(model, &[ModelLine::Llama, ModelLine::Mistral]),
};
/// BC-8 and BC-14, where only Claude is strict.
const CLAUDE: Gate = Gate { models: "Claude", holds: |model| is_one_of(model, &[ModelLine::Claude]) };

fn is_one_of(model: &ModelName, lines: &[ModelLine]) -> bool {
    model.generation().is_some_and(|generation| lines.contains(&generation.line))
}

/// Whether the name hides the model behind a profile of the account.
fn is_hidden(model: &ModelName) -> bool {
    model.generation().is_none() && model.model().starts_with("arn:")
}

fn needs_user_first(model: &ModelName) -> bool {
    !is_hidden(model) && !is_one_of(model, &[ModelLine::Claude, ModelLine::Qwen])
}

fn refuses_system_messages(model: &ModelName) -> bool {
    match model.generation() {
        Some(generation) if generation.line == ModelLine::Claude => match generation.variant {
            "opus" => generation.version < (4, 8),
            "sonnet" | "fable" => generation.version < (5, 0),
            "haiku" => generation.version < (5, 5),
            _ => false,
        },
        _ => !is_hidden(model),
    }
}

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut ViolationReport<'_>) {
    let (mut list, mut system, mut tools) = (body, None, None);
    for (key, value) in body.members() {
        match key.as_ref() {
            "messages" => list = value,
            "system" => system = Some(value),
            "toolConfig" => tools = value.get("tools"),
            _ => {}
        }
    }
    for (number, block) in system.into_iter().flat_map(Raw::elements).enumerate() {
        if block.get("text").and_then(Raw::string).is_some_and(|text| text.is_empty()) {
            report.add("BC-10", format!("/system/{number}"), "a blank text: leave it out");
        }
    }
    let messages: Vec<BedrockMessage<'_>> = list.elements().map(BedrockMessage::read).collect();
    // A bare list cannot say which tools there are.
    let needs_config =
        body.kind() == JsonKind::Object && tools.is_none_or(|tools| tools.elements().next().is_none());
    BedrockWalk { report, needs_config, documents: Documents::default() }.messages(&messages);
    for (number, tool) in tools.into_iter().flat_map(Raw::elements).enumerate() {
        let spec = tool.get("toolSpec").filter(|spec| spec.kind() == JsonKind::Object);
        if let Some(spec) = spec {
            check_word(
                report,
                spec.get("name"),
                RestrictedWord::Name,
                &format!("/toolConfig/tools/{number}/toolSpec"),
            );
        }
    }
}

/// One message, taken apart once.
#[derive(Default)]
struct BedrockMessage<'a> {
    role: Cow<'a, str>,
    blocks: Vec<BedrockBlock<'a>>,
    /// Where the content should be and is not.
    bare: Option<&'static str>,
}

enum BedrockBlock<'a> {
    Text {
        blank: bool,
    },
    Use {
        id: Option<Raw<'a>>,
        name: Option<Raw<'a>>,
        by: RunBy,
    },
    Result {
        id: Option<Raw<'a>>,
        failed_silently: bool,
    },
    Reasoning(Raw<'a>),
    Image(Raw<'a>),
    Document(Raw<'a>),
    Video,
    /// Anything else passes in silence.
    Other,
}

/// Who runs a tool. What the provider runs is answered in the same message.
#[derive(PartialEq, Eq)]
enum RunBy {
    Client,
    Provider,
}

impl<'a> BedrockMessage<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let mut message = BedrockMessage {
            bare: (raw.kind() == JsonKind::Object).then_some(""),
            ..BedrockMessage::default()
        };
        for (key, value) in raw.members() {
            match key.as_ref() {
                "role" => message.role = value.string().unwrap_or_default(),
                "content" if value.kind() == JsonKind::Array => {
                    message.blocks = value.elements().map(BedrockBlock::read).collect();
                    message.bare = message.blocks.is_empty().then_some("/content");
                }
                "content" if value.kind() != JsonKind::Null => message.bare = None,
                _ => {}
            }
        }
        message
    }

    /// The ids the client must answer in the next message.
    fn asked(&self) -> HashSet<Cow<'a, str>> {
        self.blocks.iter().filter_map(BedrockBlock::asked).collect()
    }

    /// The ids that are answered here.
    fn answered(&self) -> HashSet<Cow<'a, str>> {
        let answered = |block: &BedrockBlock<'a>| match block {
            BedrockBlock::Result { id, .. } => id.and_then(Raw::string),
            _ => None,
        };
        self.blocks.iter().filter_map(answered).collect()
    }
}

impl<'a> BedrockBlock<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let known = raw.members().find_map(|(key, value)| {
            Some(match (key.as_ref(), value.kind()) {
                ("text", JsonKind::String) => {
                    BedrockBlock::Text { blank: value.string().is_some_and(|text| text.trim().is_empty()) }
                }
                ("toolUse", JsonKind::Object) => BedrockBlock::read_use(value),
                ("toolResult", JsonKind::Object) => BedrockBlock::read_result(value),
                ("reasoningContent", JsonKind::Object) => BedrockBlock::Reasoning(value),
                ("image", JsonKind::Object) => BedrockBlock::Image(value),
                ("document", JsonKind::Object) => BedrockBlock::Document(value),
                ("video", JsonKind::Object) => BedrockBlock::Video,
                _ => return None,
            })
        });
        known.unwrap_or(BedrockBlock::Other)
    }

    fn read_use(raw: Raw<'a>) -> Self {
        let (mut id, mut name, mut by) = (None, None, RunBy::Client);
        for (key, value) in raw.members() {
            match key.as_ref() {
                "toolUseId" => id = Some(value),
                "name" => name = Some(value),
                "type" if value.kind() == JsonKind::String => by = RunBy::Provider,
                _ => {}
            }
        }
        BedrockBlock::Use { id, name, by }
    }

    fn read_result(raw: Raw<'a>) -> Self {
        let (mut id, mut failed, mut empty) = (None, false, true);
        for (key, value) in raw.members() {
            match key.as_ref() {
                "toolUseId" => id = Some(value),
                "status" => failed = value.string().as_deref() == Some("error"),
                "content" => empty = value.elements().next().is_none(),
                _ => {}
            }
        }
        BedrockBlock::Result { id, failed_silently: failed && empty }
    }

    fn asked(&self) -> Option<Cow<'a, str>> {
        match self {
            BedrockBlock::Use { id, by: RunBy::Client, .. } => id.and_then(Raw::string),
            _ => None,
        }
    }
}

struct BedrockWalk<'r, 'o, 'a> {
    report: &'r mut ViolationReport<'o>,
    /// Whether tool blocks would miss their `toolConfig`; false once that was said.
    needs_config: bool,
    documents: Documents<'a>,
}

impl<'a> BedrockWalk<'_, '_, 'a> {
    fn messages(&mut self, messages: &[BedrockMessage<'a>]) {
        let mut previous: Option<&BedrockMessage<'a>> = None;
        for (number, message) in messages.iter().enumerate() {
            let path = format!("/messages/{number}");
            if message.role == "system" {
                let text = "this model takes no system message here: put it into `system`, or under `user`";
                self.report.add("BC-15", format!("{path}/role"), text);
            }
            match previous {
                // Two families take a leading reply, so a known model of theirs is let pass.
                None if message.role == "assistant"
                    && self.report.options.model.is_none_or(needs_user_first) =>
                {
                    self.report.add(
                        "BC-1",
                        path.as_str(),
                        "the conversation starts with the assistant: put a user message first",
                    );
                }
                Some(previous) if !message.role.is_empty() && message.role == previous.role => {
                    self.report.add("BC-2", path.as_str(), "two messages of one role in a row: join them");
                }
                _ => {}
            }
            if let Some(at) = message.bare {
                self.report.add(
                    "BC-10",
                    format!("{path}{at}"),
                    "a message without content: leave it out, or give it a text",
                );
            }
            let is_system = |message: &&BedrockMessage<'a>| message.role == "system";
            if message.role == "assistant" {
                let next = messages.iter().skip(number + 1).find(|next| !is_system(next));
                let answered = next.map(BedrockMessage::answered).unwrap_or_default();
                self.reply(message, &answered, &path);
            } else {
                let asked = previous.map(BedrockMessage::asked).unwrap_or_default();
                self.results(message, &asked, &path);
            }
            if !is_system(&message) {
                previous = Some(message);
            }
        }
    }

    /// The blocks of an assistant's message.
    fn reply(&mut self, message: &BedrockMessage<'a>, answered: &HashSet<Cow<'a, str>>, path: &str) {
        let mut seen = HashSet::new();
        let mut called = false;
        for (number, block) in message.blocks.iter().enumerate() {
            let path = format!("{path}/content/{number}");
            self.needs_config(block, &path);
            match block {
                BedrockBlock::Use { id, name, by } => {
                    if let Some(asked) = block.asked() {
                        if !answered.contains(&asked) {
                            let text = "this toolUse has no toolResult in the next message: answer it there";
                            self.report.add("BC-3", path.as_str(), text);
                        }
                        if !seen.insert(asked) {
                            let text = "a second toolUse with the same id in one message: leave it out";
                            self.report.add("BC-5", path.as_str(), text);
                        }
                    }
                    let path = path + "/toolUse";
                    check_word(self.report, *id, RestrictedWord::Id, &path);
                    check_word(self.report, *name, RestrictedWord::Name, &path);
                    called |= *by == RunBy::Client;
                }
                BedrockBlock::Text { blank } => {
                    if called {
                        let text = "a text after a toolUse: move it before the calls";
                        self.report.add("BC-9", path.as_str(), text);
                    }
                    if *blank {
                        self.report.add("BC-10", path, "a blank text: leave it out");
                    }
                }
                BedrockBlock::Image(_) | BedrockBlock::Document(_) => {
                    let text = "images and documents only in a user's message: move it there";
                    self.report.add("BC-13", path, text);
                }
                BedrockBlock::Reasoning(reasoning) => self.reasoning(*reasoning, path),
                BedrockBlock::Result { .. } | BedrockBlock::Video | BedrockBlock::Other => {}
            }
        }
    }

    /// The blocks of a user's message; `asked` are the ids that wait for an answer.
    fn results(&mut self, message: &BedrockMessage<'a>, asked: &HashSet<Cow<'a, str>>, path: &str) {
        let mut seen = HashSet::new();
        self.alone(message, path);
        self.documents
            .begin_message(message.blocks.iter().any(|block| matches!(block, BedrockBlock::Text { .. })));
        for (number, block) in message.blocks.iter().enumerate() {
            let path = format!("{path}/content/{number}");
            self.needs_config(block, &path);
            match block {
                BedrockBlock::Result { id, failed_silently } => {
                    if let Some(answered) = id.and_then(Raw::string) {
                        if !asked.contains(&answered) {
                            let text = "a toolResult without its toolUse in the message before: leave it out";
                            self.report.add("BC-4", path.as_str(), text);
                        }
                        if !seen.insert(answered) {
                            let text = "a second toolResult for the same call in one message: leave it out";
                            self.report.add("BC-5", path.as_str(), text);
                        }
                    }
                    check_word(self.report, *id, RestrictedWord::Id, &format!("{path}/toolResult"));
                    if *failed_silently {
                        let text =
                            "a failed toolResult must have content: add a text that says what went wrong";
                        self.report.add("BC-11", path, text);
                    }
                }
                BedrockBlock::Text { blank: true } => {
                    self.report.add("BC-10", path, "a blank text: leave it out");
                }
                BedrockBlock::Image(image) => self.documents.image(*image, &path, self.report),
                BedrockBlock::Document(document) => self.documents.document(*document, &path, self.report),
                _ => {}
            }
        }
    }

    /// BC-8: what stands beside results.
    fn alone(&mut self, message: &BedrockMessage<'a>, path: &str) {
        if !message.blocks.iter().any(|block| matches!(block, BedrockBlock::Result { .. })) {
            return;
        }
        let text = "a block beside toolResult blocks: put it into a message of its own";
        let place = |wanted: fn(&BedrockBlock<'_>) -> bool| {
            message.blocks.iter().position(wanted).map(|number| format!("{path}/content/{number}"))
        };
        if let Some(path) = place(|block| !matches!(block, BedrockBlock::Result { .. } | BedrockBlock::Other))
        {
            self.report.add_for("BC-8", ALONE, path, text);
        }
        if let Some(path) = place(|block| matches!(block, BedrockBlock::Document(_) | BedrockBlock::Video)) {
            self.report.add_for("BC-8", CLAUDE, path, text);
        }
    }

    /// BC-7, on the first tool block there is.
    fn needs_config(&mut self, block: &BedrockBlock<'_>, path: &str) {
        if self.needs_config && matches!(block, BedrockBlock::Use { .. } | BedrockBlock::Result { .. }) {
            self.needs_config = false;
            let text = "tool blocks in a request without `toolConfig`: define the tools of the history there";
            self.report.add("BC-7", path, text);
        }
    }

    fn reasoning(&mut self, reasoning: Raw<'_>, path: String) {
        let Some(inner) = reasoning.get("reasoningText").filter(|inner| inner.kind() == JsonKind::Object)
        else {
            return;
        };
        let has = |key: &str| inner.get(key).is_some_and(|value| value.kind() == JsonKind::String);
        if !has("text") {
            self.report.add(
                "BC-14",
                path,
                "reasoning without its text: send it back as it came, or leave it out",
            );
        } else if !has("signature") {
            let text = "reasoning without its signature: send it back as it came, or leave it out";
            self.report.add_for("BC-14", CLAUDE, path, text);
        }
    }
}

/// What BC-6 restricts.
#[derive(Clone, Copy)]
enum RestrictedWord {
    Id,
    Name,
}

/// BC-6 for a value of the object at `path`.
fn check_word(report: &mut ViolationReport<'_>, value: Option<Raw<'_>>, word: RestrictedWord, path: &str) {
    let (key, extra, text) = match word {
        RestrictedWord::Id => {
            ("toolUseId", "_.:-", "a toolUseId must be 1 to 64 letters, digits, `_`, `.`, `:` or `-`")
        }
        RestrictedWord::Name => {
            ("name", "_-", "the name of a tool must be 1 to 64 letters, digits, `_` or `-`")
        }
    };
    let Some(value) = value.filter(|value| value.kind() != JsonKind::Null) else {
        report.add("BC-6", path, format!("`{key}` is missing: {text}"));
        return;
    };
    let fits = |word: &str| {
        (1..=64).contains(&word.len()) && word.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    if !value.string().is_some_and(|word| fits(&word)) {
        report.add("BC-6", format!("{path}/{key}"), text);
    }
}
