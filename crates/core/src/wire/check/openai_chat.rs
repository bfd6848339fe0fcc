//! `OpenAI` Chat Completions: rules OC-1 to OC-15.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Severity::{Allowed, Quality, Refused, Silent};
use super::body::{is_longer_than, lists, longer_than, overflow, text};
use super::{Rule, ViolationReport};
use crate::json::{JsonKind, Raw};
use crate::wire::Wire;

/// The rules, in order.
pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "OC-1",
        Refused,
        "every call of an assistant message is answered by a tool message before any other message",
        "gave the call its result, an interrupted one where there was none",
    ),
    Rule::new(
        "OC-2",
        Refused,
        "a tool message follows the assistant message that made its call, with only tool messages between",
        "moved the result to its call, or left it out if there is none",
    ),
    Rule::new("OC-3", Refused, "a call has one tool message", "left the second result out"),
    Rule::new("OC-4", Allowed, "the results of one assistant message may come in any order", "").unverified(),
    Rule::new(
        "OC-5",
        Refused,
        "content may be null or missing only in an assistant message with calls",
        "put an empty text in the place of the missing content",
    ),
    Rule::new("OC-6", Refused, "tool_calls is never an empty list", "removed the empty tool_calls")
        .unverified(),
    Rule::new(
        "OC-7",
        Refused,
        "the id of a call has at most 40 characters",
        "mapped the id to a shorter one with a hash suffix, on the call and its result",
    ),
    Rule::new("OC-8", Refused, "a text has at most 10485760 characters", "cut the text"),
    Rule::new(
        "OC-9",
        Refused,
        "a tool has a description of at most 1024 characters and a name of 1 to 64 letters, digits, _ and -",
        "cut the description, and put _ in the place of what a name may not have",
    ),
    Rule::new("OC-10", Allowed, "roles need not alternate, and any role may be the first", "").unverified(),
    Rule::new(
        "OC-11",
        Refused,
        "images, audio and files stand only in user messages; a tool message has texts only",
        "moved the media to a user message after the results",
    ),
    Rule::new("OC-12", Quality, "a list that ends on an assistant message is not continued", "").unverified(),
    Rule::new("OC-13", Refused, "the messages fit into the window of the model", ""),
    Rule::new("OC-14", Silent, "a tool message has no name", ""),
    Rule::new(
        "OC-15",
        Refused,
        "hosts with a dialect of their own want reasoning_content back on assistant messages with calls",
        "added an empty reasoning_content",
    ),
];

/// Most characters of the id of a call.
const ID_CHARS: usize = 40;
/// An id beyond this is too long by an error text that was seen, on the wire with the larger limit.
const ID_CHARS_SEEN: usize = 64;
/// Most characters of a text; the limit was a tenth of this until 2025.
const TEXT_CHARS: usize = 10_485_760;
/// Most characters of the description of a tool.
const DESCRIPTION_CHARS: usize = 1024;
/// Most characters of the name of a tool.
const NAME_CHARS: usize = 64;

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut ViolationReport<'_>) {
    let [messages, tools] = lists(body, ["messages", "tools"]);
    check_parts(body, messages, tools, report);
}

/// The same where the messages and the tools of the body are at hand.
pub(super) fn check_parts<'a>(
    body: Raw<'_>,
    messages: impl Iterator<Item = Raw<'a>>,
    tools: impl Iterator<Item = Raw<'a>>,
    report: &mut ViolationReport<'_>,
) {
    let messages: Vec<CheckedMessage<'_>> = messages.map(CheckedMessage::read).collect();
    // How many results each id before this message still takes, as long as only results have followed its call.
    let mut open: HashMap<&str, usize> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        if message.role != ChatRole::Tool {
            open.clear();
        }
        check_content(index, message, report);
        match message.role {
            ChatRole::Assistant => {
                check_calls(index, message, messages.get(index + 1..).unwrap_or_default(), report);
                for id in message.calls().iter().filter_map(|call| call.id.as_deref()) {
                    // One message per id, even where two calls share it.
                    open.insert(id, 1);
                }
            }
            ChatRole::Tool => check_result(index, message, &mut open, report),
            ChatRole::User | ChatRole::System | ChatRole::Other => {}
        }
    }
    let ends_speaking =
        |last: &CheckedMessage<'_>| last.role == ChatRole::Assistant && last.calls().is_empty();
    if messages.last().is_some_and(ends_speaking) {
        let path = format!("/messages/{}", messages.len() - 1);
        report.add(
            "OC-12",
            path,
            "the list ends on an assistant message, which is not continued; end on another",
        );
    }
    check_tools(tools, report);
    if let Some((tokens, window)) = overflow(Wire::OpenaiChat, body, &report.options) {
        let message = format!("{tokens} tokens do not fit into the window of {window}; leave messages out");
        report.add("OC-13", "/messages", message);
    }
}

/// Content that has to be there, texts that are too long, media where only texts may stand.
fn check_content(index: usize, message: &CheckedMessage<'_>, report: &mut ViolationReport<'_>) {
    let Some(content) = message.content.filter(|content| content.kind() != JsonKind::Null) else {
        let path = match message.content {
            Some(_) => format!("/messages/{index}/content"),
            None => format!("/messages/{index}"),
        };
        match message.role {
            ChatRole::Other => {}
            ChatRole::Assistant if message.says_otherwise || !message.calls().is_empty() => {}
            ChatRole::Assistant => {
                report.add(
                    "OC-5",
                    path,
                    "content is null or missing in a message without calls; give it a text",
                );
            }
            _ => report.add("OC-5", path, "content is null or missing; give it a text, if only an empty one"),
        }
        return;
    };
    if is_longer_than(TEXT_CHARS, content) {
        let message = format!("the text is longer than {TEXT_CHARS} characters; shorten it");
        report.add("OC-8", format!("/messages/{index}/content"), message);
    }
    // Parts of user messages may be anything; there only a text can be too long.
    let media_allowed = matches!(message.role, ChatRole::User | ChatRole::Other);
    if media_allowed && content.text().len() <= TEXT_CHARS {
        return;
    }
    for (number, part) in content.elements().enumerate() {
        let path = || format!("/messages/{index}/content/{number}");
        if part.get("text").is_some_and(|text| is_longer_than(TEXT_CHARS, text)) {
            let message = format!("the text is longer than {TEXT_CHARS} characters; shorten it");
            report.add_unverified("OC-8", format!("{}/text", path()), message);
        }
        if media_allowed {
            continue;
        }
        let Some(kind) = text(part, "type") else { continue };
        if message.role == ChatRole::Tool && kind != "text" {
            let message = "a tool message holds texts only; put this into a user message after the results";
            report.add("OC-11", path(), message);
        } else if MEDIA.contains(&kind.as_ref()) {
            report.add("OC-11", path(), "only user messages hold media; put this into one");
        }
    }
}

/// The parts that stand only in user messages.
const MEDIA: [&str; 3] = ["image_url", "input_audio", "file"];

/// The calls of an assistant message, with the messages that come after it.
fn check_calls(
    index: usize,
    message: &CheckedMessage<'_>,
    after: &[CheckedMessage<'_>],
    report: &mut ViolationReport<'_>,
) {
    let Some(calls) = &message.calls else { return };
    if calls.is_empty() {
        report.add("OC-6", format!("/messages/{index}/tool_calls"), "tool_calls is empty; leave the key out");
        return;
    }
    if report.options.dialect.is_some() && !message.has_reasoning {
        let message = "the message has calls and no reasoning_content; send back what the host returned";
        report.add("OC-15", format!("/messages/{index}"), message);
    }
    let answered: HashSet<&str> = after
        .iter()
        .take_while(|message| message.role == ChatRole::Tool)
        .filter_map(|result| result.call_id.as_deref())
        .collect();
    for (number, call) in calls.iter().enumerate() {
        let path = || format!("/messages/{index}/tool_calls/{number}");
        if call.id.as_deref().is_none_or(|id| !answered.contains(id)) {
            let message =
                "the call has no result in the tool messages after it; add one or leave the call out";
            report.add("OC-1", path(), message);
        }
        if let Some(id) = call.id.as_deref().filter(|id| longer_than(ID_CHARS, id)) {
            let (path, message) =
                (format!("{}/id", path()), "the id is longer than 40 characters; shorten it");
            if longer_than(ID_CHARS_SEEN, id) {
                report.add("OC-7", path, message);
            } else {
                report.add_unverified("OC-7", path, message);
            }
        }
        if let Some((key, name)) = &call.name {
            check_name(name, || format!("{}/{key}/name", path()), report);
        }
    }
}

/// A tool message, with the calls it may answer.
fn check_result(
    index: usize,
    message: &CheckedMessage<'_>,
    open: &mut HashMap<&str, usize>,
    report: &mut ViolationReport<'_>,
) {
    let path = format!("/messages/{index}");
    match message.call_id.as_deref().map(|id| open.get_mut(id)) {
        None => report.add("OC-2", &path, "the tool message has no tool_call_id; name the call it answers"),
        Some(None) => {
            let message = "no assistant message directly before made the call this answers; \
                           move it to its call or leave it out";
            report.add("OC-2", &path, message);
        }
        Some(Some(0)) => report.add("OC-3", &path, "the call has its result already; leave this one out"),
        Some(Some(left)) => *left -= 1,
    }
    if message.has_name {
        report.add(
            "OC-14",
            format!("{path}/name"),
            "remove `name`: tool messages do not take one, it is dropped",
        );
    }
}

/// The tools a request offers.
fn check_tools<'a>(tools: impl Iterator<Item = Raw<'a>>, report: &mut ViolationReport<'_>) {
    for (index, tool) in tools.enumerate() {
        let Some((key, inner)) = callee(tool) else { continue };
        for (member, value) in inner.members() {
            let path = || format!("/tools/{index}/{key}/{member}");
            match member.as_ref() {
                "description" if is_longer_than(DESCRIPTION_CHARS, value) => {
                    report.add("OC-9", path(), "the description is longer than 1024 characters; shorten it");
                }
                "name" => {
                    if let Some(name) = value.string() {
                        check_name(&name, path, report);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The name of a tool, where it is offered and where it is called.
fn check_name(name: &str, path: impl FnOnce() -> String, report: &mut ViolationReport<'_>) {
    let fits = (1..=NAME_CHARS).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !fits {
        let message = "the name is not 1 to 64 letters, digits, _ and -; rename the tool";
        report.add_unverified("OC-9", path(), message);
    }
}

/// What is called by a call, or offered by a tool, and the key it stands under.
fn callee(value: Raw<'_>) -> Option<(&'static str, Raw<'_>)> {
    ["function", "custom"].into_iter().find_map(|key| Some((key, value.get(key)?)))
}

/// Who speaks; `Other` is everything this wire has no rules for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChatRole {
    User,
    System,
    Assistant,
    Tool,
    Other,
}

/// A message taken apart once, as far as the rules look into it.
struct CheckedMessage<'a> {
    role: ChatRole,
    /// As it is written; none if the key is missing.
    content: Option<Raw<'a>>,
    /// The list under `tool_calls`; none if it is missing or null.
    calls: Option<Vec<CheckedCall<'a>>>,
    call_id: Option<Cow<'a, str>>,
    /// Whether it says something beside its content and its calls.
    says_otherwise: bool,
    has_reasoning: bool,
    has_name: bool,
}

/// One of the `tool_calls`.
struct CheckedCall<'a> {
    id: Option<Cow<'a, str>>,
    /// What is called, and the key it stands under.
    name: Option<(&'static str, Cow<'a, str>)>,
}

impl<'a> CheckedMessage<'a> {
    fn read(message: Raw<'a>) -> Self {
        let mut read = CheckedMessage {
            role: ChatRole::Other,
            content: None,
            calls: None,
            call_id: None,
            says_otherwise: false,
            has_reasoning: false,
            has_name: false,
        };
        for (key, value) in message.members() {
            let given = value.kind() != JsonKind::Null;
            match key.as_ref() {
                "role" => {
                    read.role = match value.string().as_deref() {
                        Some("user") => ChatRole::User,
                        Some("system" | "developer") => ChatRole::System,
                        Some("assistant") => ChatRole::Assistant,
                        Some("tool") => ChatRole::Tool,
                        _ => ChatRole::Other,
                    }
                }
                "content" => read.content = Some(value),
                "tool_calls" if value.kind() == JsonKind::Array => {
                    read.calls = Some(value.elements().map(CheckedCall::read).collect());
                }
                "tool_call_id" => read.call_id = value.string(),
                "function_call" | "refusal" | "audio" => read.says_otherwise |= given,
                "reasoning_content" => read.has_reasoning = given,
                "name" => read.has_name = given,
                _ => {}
            }
        }
        read
    }

    fn calls(&self) -> &[CheckedCall<'a>] {
        self.calls.as_deref().unwrap_or_default()
    }
}

impl<'a> CheckedCall<'a> {
    fn read(call: Raw<'a>) -> Self {
        let name = callee(call).and_then(|(key, inner)| Some((key, text(inner, "name")?)));
        CheckedCall { id: text(call, "id"), name }
    }
}
