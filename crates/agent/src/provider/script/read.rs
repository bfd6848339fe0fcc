//! From the text of a script to its answers.

use std::time::Duration;

use super::{Expect, Says, ScriptedCall, ScriptedReply};
use crate::document::{DocumentProblem, Fields, Node, Value, code, parse};
use crate::provider::ErrorKind;

/// The answers, and whether they start again after the last.
pub(super) fn script(text: &str) -> Result<(Vec<ScriptedReply>, bool), Vec<DocumentProblem>> {
    let node = parse(text).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let Some(items) = node.as_list() else {
        let message = format!("a script must be a list of answers, not {}", node.kind());
        return Err(vec![DocumentProblem::new(code::WRONG_TYPE, "", node.at, message)]);
    };
    let repeats = items.first().and_then(|first| first.get("loop"));
    let repeats = repeats.is_some_and(|node| node.value == Value::Bool(true));
    let mut answers = Vec::new();
    for (number, item) in items.iter().enumerate().skip(usize::from(repeats)) {
        answers.extend(answer(item, &format!("[{number}]"), &mut problems));
    }
    if problems.is_empty() { Ok((answers, repeats)) } else { Err(problems) }
}

fn answer(item: &Node, path: &str, problems: &mut Vec<DocumentProblem>) -> Option<ScriptedReply> {
    let mut fields = Fields::of(item, path, problems);
    let text = fields.text("reply").or_else(|| fields.text("text"));
    let fail_after = fields.count("fail_after", 0).map(|count| count as usize);
    let calls_path = fields.path("calls");
    let calls = fields.list("calls").map(|list| calls(list, &calls_path, fields.problems()));
    let error_path = fields.path("error");
    let error = fields.node("error").map(|node| error(node, &error_path, fields.problems()));
    let expect_path = fields.path("expect");
    let expect = fields.node("expect").map(|node| expect(node, &expect_path, fields.problems()));
    let usage_path = fields.path("usage");
    let usage = fields.node("usage").map(|node| usage(node, &usage_path, fields.problems()));
    let says = match (error, text, calls) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            fields.problem("error", "an answer is an error or a reply, not both");
            None
        }
        (Some(error), None, None) => error,
        (None, None, None) if item.as_map().is_some() => {
            fields.problem("", "an answer needs `reply`, `calls` or `error`");
            None
        }
        (None, text, calls) => Some(Says::Reply { text, calls: calls.unwrap_or_default(), fail_after }),
    };
    fields.end();
    Some(ScriptedReply { expect, says: says?, usage })
}

fn calls(list: &[Node], path: &str, problems: &mut Vec<DocumentProblem>) -> Vec<ScriptedCall> {
    let mut found = Vec::new();
    for (number, node) in list.iter().enumerate() {
        let mut fields = Fields::of(node, format!("{path}[{number}]"), problems);
        let name = fields.required_text("name");
        let arguments = fields.node("arguments").map_or_else(
            || "{}".into(),
            |node| match node.as_text() {
                Some(text) => text.to_string(),
                None => node.to_json().to_string(),
            },
        );
        let id = fields.text("id");
        fields.end();
        found.extend(name.map(|name| ScriptedCall { id, name, arguments }));
    }
    found
}

fn error(node: &Node, path: &str, problems: &mut Vec<DocumentProblem>) -> Option<Says> {
    let mut fields = Fields::of(node, path, problems);
    let words: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let kind = fields.word("kind", &words).and_then(|word| ErrorKind::named(&word));
    if kind.is_none() && node.get("kind").is_none() {
        fields.problem("", "`kind` is missing");
    }
    let message = fields.text("message").unwrap_or_else(|| "as the script says".into());
    let retry_after = fields.positive("retry_after").map(Duration::from_secs_f64);
    fields.end();
    Some(Says::Error { kind: kind?, message, retry_after })
}

fn usage(node: &Node, path: &str, problems: &mut Vec<DocumentProblem>) -> (u64, u64) {
    let mut fields = Fields::of(node, path, problems);
    let usage = (fields.count("input", 0).unwrap_or(0), fields.count("output", 0).unwrap_or(0));
    fields.end();
    usage
}

fn expect(node: &Node, path: &str, problems: &mut Vec<DocumentProblem>) -> Expect {
    let mut fields = Fields::of(node, path, problems);
    let expect = Expect {
        contains: fields.texts("contains").unwrap_or_default(),
        absent: fields.texts("absent").unwrap_or_default(),
        roles: fields.texts("roles"),
        count: fields.count("count", 0).map(|count| count as usize),
        tools: fields.texts("tools"),
    };
    fields.end();
    expect
}
