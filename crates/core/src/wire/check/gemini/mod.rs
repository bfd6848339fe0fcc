//! Gemini `generateContent`: rules GE-1 to GE-14.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Gate, Rule, Severity, ViolationReport};
use crate::json::{JsonKind, Raw};
use crate::model::{ModelLine, ModelName};

/// The rules, in order.
pub(super) const RULES: &[Rule] = &[
    Rule::new("GE-1", Severity::Refused, "function responses go under the role `user`", "corrected the role"),
    Rule::new(
        "GE-2",
        Severity::Refused,
        "the content after a call turn holds exactly one functionResponse part for each functionCall part",
        "closed unanswered calls with an interrupted response, and left out responses without a call",
    ),
    Rule::new(
        "GE-3",
        Severity::Refused,
        "a call turn comes immediately after a user turn or a function response turn",
        "put a user content in front, or joined neighbours of one role",
    ),
    Rule::new(
        "GE-4",
        Severity::Refused,
        "a content with functionResponse parts holds nothing else",
        "moved the other parts to a content of their own",
    ),
    Rule::new(
        "GE-5",
        Severity::Refused,
        "the last content is not a model's",
        "put a user content at the end",
    )
    .only(Gate { models: "Gemini 3.5 Flash-Lite, Gemini 3.6 and later", holds: refuses_prefill }),
    Rule::new(
        "GE-6",
        Severity::Refused,
        "in the current turn the first functionCall part of each step carries its thoughtSignature",
        "added the placeholder signature",
    )
    .only(Gate {
        models: "Gemini 3 and later",
        holds: |model| is_gemini(model, |version| version >= (3, 0)),
    }),
    Rule::new("GE-7", Severity::Quality, "a thoughtSignature stays on the model's part it came with", ""),
    Rule::new("GE-8", Severity::Quality, "the placeholder signature is a last resort that costs quality", ""),
    Rule::new(
        "GE-9",
        Severity::Cost,
        "no signature stands on two parts: each copy is billed as the whole context of its turn",
        "",
    ),
    Rule::new("GE-10", Severity::Refused, "no content is without parts", "left out the empty content"),
    Rule::new(
        "GE-11",
        Severity::Refused,
        "functionResponse.response is an object",
        "put the value under `output`",
    ),
    Rule::new(
        "GE-12",
        Severity::Allowed,
        "ids are optional; without them calls and responses pair by name and order",
        "",
    ),
    Rule::new(
        "GE-13",
        Severity::Refused,
        "a request with cachedContent sets no systemInstruction, tools or toolConfig",
        "left out what the cached content holds already",
    ),
    Rule::new(
        "GE-14",
        Severity::Silent,
        "neighbouring contents of one role are merged",
        "joined neighbours of one role",
    ),
];

/// What newer models name as roles in their error; `assistant` and the others pass there.
const ROLES: [&str; 8] =
    ["user", "model", "assistant", "system", "system_1", "developer", "context", "user_context"];

/// The signature that is accepted in place of any other, as text and as the bytes REST wants.
const PLACEHOLDERS: [&str; 2] =
    ["skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="];

fn is_gemini(model: &ModelName, wanted: fn((u32, u32)) -> bool) -> bool {
    model
        .generation()
        .is_some_and(|generation| generation.line == ModelLine::Gemini && wanted(generation.version))
}

/// Earlier models continue a reply that was begun for them.
fn refuses_prefill(model: &ModelName) -> bool {
    let lite = model.model().contains("lite");
    is_gemini(model, |version| version >= (3, 6)) || lite && is_gemini(model, |version| version >= (3, 5))
}

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut ViolationReport<'_>) {
    let (mut list, mut cached) = (body, false);
    let mut settings = Vec::new();
    for (key, value) in body.members() {
        match key.as_ref() {
            "contents" => list = value,
            "cachedContent" | "cached_content" => cached = is_set(value),
            "systemInstruction" | "system_instruction" | "tools" | "toolConfig" | "tool_config" => {
                settings.push((key, value));
            }
            _ => {}
        }
    }
    for (key, value) in settings {
        if cached && is_set(value) {
            let message = format!(
                "`{key}` beside `cachedContent`: it belongs into the cached content, leave it out here"
            );
            report.add("GE-13", format!("/{key}"), message);
        }
    }
    let contents: Vec<GeminiContent<'_>> = list.elements().map(GeminiContent::read).collect();
    GeminiWalk { report, cached, signatures: HashSet::new() }.contents(&contents);
}

/// Whether a field says anything: an empty list or object is the same as none.
fn is_set(value: Raw<'_>) -> bool {
    match value.kind() {
        JsonKind::Null => false,
        JsonKind::Array => value.elements().next().is_some(),
        JsonKind::Object => value.members().next().is_some(),
        _ => true,
    }
}

/// Whose turn a content is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Speaker {
    /// No role is the user's too.
    #[default]
    User,
    Model,
    /// A role we do not know the rules of.
    Other,
}

/// One content, taken apart once.
#[derive(Default)]
struct GeminiContent<'a> {
    speaker: Speaker,
    /// A role word no model knows.
    bad_role: Option<Cow<'a, str>>,
    parts: Vec<GeminiPart<'a>>,
    /// Where the parts should be and are not.
    bare: Option<&'static str>,
    calls: usize,
    responses: usize,
}

struct GeminiPart<'a> {
    kind: PartKind<'a>,
    signature: Option<Cow<'a, str>>,
}

enum PartKind<'a> {
    Call,
    Response {
        key: Cow<'a, str>,
        /// The key and value of a response that is no object.
        wrong: Option<JsonKind>,
    },
    /// Text, media, code.
    Other,
    Unknown,
    Empty,
}

impl<'a> GeminiContent<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let mut content = GeminiContent {
            bare: (raw.kind() == JsonKind::Object).then_some(""),
            ..GeminiContent::default()
        };
        for (key, value) in raw.members() {
            match key.as_ref() {
                "role" => content.read_role(value),
                "parts" if value.kind() == JsonKind::Array => {
                    content.parts = value.elements().map(GeminiPart::read).collect();
                    content.bare = content.parts.is_empty().then_some("/parts");
                }
                "parts" if value.kind() != JsonKind::Null => content.bare = None,
                _ => {}
            }
        }
        for part in &content.parts {
            match part.kind {
                PartKind::Call => content.calls += 1,
                PartKind::Response { .. } => content.responses += 1,
                _ => {}
            }
        }
        content
    }

    fn read_role(&mut self, value: Raw<'a>) {
        let Some(role) = value.string().filter(|role| !role.is_empty()) else { return };
        let is = |word: &str| role.eq_ignore_ascii_case(word);
        let unknown = !ROLES.into_iter().any(is);
        self.speaker = if is("model") || is("assistant") {
            Speaker::Model
        } else if is("user") || unknown {
            Speaker::User
        } else {
            Speaker::Other
        };
        self.bad_role = unknown.then_some(role);
    }

    /// Whether the user says something here: the turn begins with it.
    fn begins_turn(&self) -> bool {
        let says = |part: &GeminiPart<'_>| !matches!(part.kind, PartKind::Response { .. } | PartKind::Empty);
        self.speaker != Speaker::Model && self.parts.iter().any(says)
    }
}

impl<'a> GeminiPart<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let mut part = GeminiPart { kind: PartKind::Unknown, signature: None };
        let mut empty = raw.kind() == JsonKind::Object;
        for (key, value) in raw.members() {
            empty = false;
            match key.as_ref() {
                "thoughtSignature" | "thought_signature" => {
                    part.signature = value.string().filter(|signature| !signature.is_empty());
                }
                "functionCall" | "function_call" if value.kind() == JsonKind::Object => {
                    part.kind = PartKind::Call;
                }
                "functionResponse" | "function_response" if value.kind() == JsonKind::Object => {
                    let response = value.get("response").map_or(JsonKind::Null, Raw::kind);
                    let wrong = (response != JsonKind::Object).then_some(response);
                    part.kind = PartKind::Response { key, wrong };
                }
                "text"
                | "inlineData"
                | "inline_data"
                | "fileData"
                | "file_data"
                | "executableCode"
                | "executable_code"
                | "codeExecutionResult"
                | "code_execution_result"
                    if value.kind() != JsonKind::Null =>
                {
                    part.kind = PartKind::Other;
                }
                _ => {}
            }
        }
        if empty {
            part.kind = PartKind::Empty;
        }
        part
    }
}

struct GeminiWalk<'r, 'o, 'a> {
    report: &'r mut ViolationReport<'o>,
    /// Whether earlier contents may be in the cache, where we do not see them.
    cached: bool,
    signatures: HashSet<&'a str>,
}

impl<'a> GeminiWalk<'_, '_, 'a> {
    fn contents(&mut self, contents: &'a [GeminiContent<'a>]) {
        let turn = contents.iter().rposition(GeminiContent::begins_turn);
        let mut previous = None;
        for (number, content) in contents.iter().enumerate() {
            let path = || format!("/contents/{number}");
            let last = number + 1 == contents.len();
            self.role(content, number);
            self.pairing(content, previous, last, number);
            self.response_alone(content, number);
            if last && content.speaker == Speaker::Model && content.responses == 0 {
                self.report.add("GE-5", path(), "the request ends with a model turn: end it with a user's");
            }
            let current = turn.is_none_or(|turn| number > turn);
            self.parts(content, current, number);
            if let Some(at) = content.bare {
                let message = "a content without parts: leave it out, or give it a text";
                self.report.add("GE-10", path() + at, message);
            }
            if let Some(previous) = previous
                && content.speaker == previous.speaker
                && content.speaker != Speaker::Other
                // A content of its own beside the responses is what GE-4 asks for.
                && (content.responses == 0) == (previous.responses == 0)
            {
                let message = "two contents of one role in a row count as one: join them";
                self.report.add("GE-14", path(), message);
            }
            previous = Some(content);
        }
    }

    fn role(&mut self, content: &GeminiContent<'_>, number: usize) {
        let path = || format!("/contents/{number}/role");
        if let Some(role) = &content.bad_role {
            // Models before 3.6 take the old word for what it meant.
            let old =
                self.report.options.model.is_some_and(|model| is_gemini(model, |version| version < (3, 6)));
            let accepted = old && role == "function";
            let severity = if accepted { Severity::Quality } else { Severity::Refused };
            let message =
                "this role is not supported: function responses and everything people say go under `user`";
            self.report.add_as("GE-1", severity, path(), message);
        } else if content.speaker == Speaker::Model && content.responses > 0 {
            let message = "function responses under the model's role: put them under `user`";
            self.report.add("GE-1", path(), message);
        }
    }

    /// Calls and responses in number and order: GE-2 and GE-3.
    fn pairing(
        &mut self,
        content: &GeminiContent<'_>,
        previous: Option<&GeminiContent<'_>>,
        last: bool,
        number: usize,
    ) {
        let path = || format!("/contents/{number}");
        let unseen = previous.is_none() && self.cached;
        let (asked, answered) = (previous.map_or(0, |previous| previous.calls), content.responses);
        if asked != answered && !unseen {
            let message = format!(
                "{answered} function responses after {asked} function calls: answer each call of the turn before, and \
                 nothing else"
            );
            self.report.add("GE-2", path(), message);
        }
        if last && content.calls > 0 {
            let message = "function calls without their responses: answer each in the content after them";
            self.report.add("GE-2", path(), message);
        }
        let follows = previous.map_or(self.cached, |previous| previous.speaker != Speaker::Model);
        if content.calls > 0 && !follows {
            let message = "a function call must come right after a user turn or after function responses: put one in \
                           front, or join it with the model turn before";
            self.report.add("GE-3", path(), message);
        }
    }

    /// What stands beside responses: refused by Gemini 3 and later, tolerated by models before.
    fn response_alone(&mut self, content: &GeminiContent<'_>, number: usize) {
        if content.responses == 0 {
            return;
        }
        let is_other = |part: &GeminiPart<'_>| matches!(part.kind, PartKind::Other | PartKind::Call);
        let Some(first) = content.parts.iter().position(is_other) else { return };
        let old = self.report.options.model.is_some_and(|model| is_gemini(model, |version| version < (3, 0)));
        let severity = if old { Severity::Quality } else { Severity::Refused };
        let message = "a part beside function responses: put it into a content of its own after them";
        self.report.add_as("GE-4", severity, format!("/contents/{number}/parts/{first}"), message);
    }

    fn parts(&mut self, content: &'a GeminiContent<'a>, current: bool, number: usize) {
        let first_call = content.parts.iter().position(|part| matches!(part.kind, PartKind::Call));
        for (place, part) in content.parts.iter().enumerate() {
            let path = || format!("/contents/{number}/parts/{place}");
            if current && first_call == Some(place) && part.signature.is_none() {
                let message = "the first function call of this step has no thoughtSignature: send back the one it came with";
                self.report.add("GE-6", path(), message);
            }
            if let Some(signature) = &part.signature {
                self.signature(signature, content.speaker, path);
            }
            match &part.kind {
                PartKind::Empty => {
                    self.report.add("GE-10", path(), "an empty part: leave it out, or give it a text");
                }
                PartKind::Response { key, wrong: Some(kind) } => {
                    let message = format!(
                        "the response must be an object, not {}: put it under `output` or `error`",
                        kind.name()
                    );
                    // A response that is not there is missing from what should hold it.
                    let inner = if *kind == JsonKind::Null { "" } else { "/response" };
                    self.report.add("GE-11", format!("{}/{key}{inner}", path()), message);
                }
                _ => {}
            }
        }
    }

    /// Whether a signature stands where it came from: GE-7 to GE-9.
    fn signature(&mut self, signature: &'a str, speaker: Speaker, path: impl Fn() -> String) {
        if speaker == Speaker::User {
            let message = "a thoughtSignature on a user's part: it belongs on the model's part it came with";
            self.report.add("GE-7", path(), message);
        }
        if PLACEHOLDERS.contains(&signature) {
            let message = "the placeholder instead of a signature: send the model's own where there is one";
            self.report.add("GE-8", path(), message);
        } else if !self.signatures.insert(signature) {
            let message =
                "this signature stands on an earlier part too: keep it only on the part it came with";
            self.report.add("GE-9", path(), message);
        }
    }
}
