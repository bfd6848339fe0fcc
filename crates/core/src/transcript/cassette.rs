//! Recorded HTTP: cassettes of VCR and its kin, each interaction a request to a provider and its answer.

use super::chat::reply_meta;
use super::values::{finished, first_record, has_key, has_list, leave_notes, note};
use super::yaml::{self, PrintedYaml};
use super::{Note, ReadConversation, Source, Transcript, TranscriptError};
use crate::entry::Meta;
use crate::json::{self, JsonKind, Raw};
use crate::wire::{ParseOptions, Wire, WireError};

/// Keys that hold the interactions: of the Python recorders, and of the Ruby one.
const LISTS: [&str; 2] = ["interactions", "http_interactions"];

/// A recorded request whose body is of a known wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The wire of the body, by the address it was sent to, else by its shape.
    pub wire: Wire,
    /// The body: verbatim where the recorder kept its text, else printed in the recorder's order of keys.
    pub body: String,
    /// What the provider answered.
    pub status: Option<u16>,
    /// Where it was sent.
    pub uri: String,
}

/// Every request of a cassette that has a body of a known wire, in order.
///
/// ```
/// use scrollback_core::{transcript::cassette, wire::Wire};
/// let text = "interactions:
/// - request:
///     method: POST
///     uri: https://api.openai.com/v1/chat/completions
///     body: '{\"messages\": []}'
///   response: {status: {code: 200}}
/// ";
/// let recorded = cassette::requests(text)?;
/// assert_eq!((recorded[0].wire, recorded[0].body.as_str()), (Wire::OpenaiChat, "{\"messages\": []}"));
/// # Ok::<(), scrollback_core::transcript::TranscriptError>(())
/// ```
pub fn requests(text: &str) -> Result<Vec<RecordedRequest>, TranscriptError> {
    let tape = Tape::of(text)?;
    let all = tape.interactions()?;
    Ok(all.into_iter().filter_map(|(raw, ..)| Some(Interaction::of(raw)?.recorded)).collect())
}

/// Whether the text is a cassette: a mapping with interactions in it, as YAML or JSON.
pub(crate) fn looks_like(text: &str) -> bool {
    let requests = |tape: Raw<'_>, key: &str| {
        let first = tape.get(key).and_then(|list| list.elements().next());
        first.is_some_and(|first| first.get("request").is_some())
    };
    if text.trim_start().starts_with(['{', '[']) {
        return LISTS.iter().any(|key| has_key(text, key))
            && first_record(text)
                .is_some_and(|tape| LISTS.iter().any(|key| has_list(tape, key) && requests(tape, key)));
    }
    let mut lines = text.lines().map(str::trim_end);
    let opened =
        lines.by_ref().take(1000).any(|line| LISTS.iter().any(|key| line.strip_suffix(':') == Some(key)));
    opened && lines.next().is_some_and(|line| line.trim_start() == "- request:")
}

/// Reads one conversation per request of a known wire: what was sent, and the answer if it is a plain one.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let tape = Tape::of(text)?;
    let mut transcript = Transcript::default();
    let mut pending = Vec::new();
    for (place, (raw, line, byte)) in tape.interactions()?.into_iter().enumerate() {
        let Some(interaction) = Interaction::of(raw) else {
            pending.push(note(place + 1, "interaction", raw));
            continue;
        };
        match interaction.conversation(place + 1) {
            Ok(mut conversation) => {
                conversation.notes.append(&mut pending);
                transcript.conversations.push(conversation);
            }
            Err(error) => transcript.failed.push(TranscriptError { line, byte, problem: error.to_string() }),
        }
    }
    // What came after the last request of a wire stays with it.
    match transcript.conversations.last_mut() {
        Some(last) => last.notes.append(&mut pending),
        None if transcript.failed.is_empty() => leave_notes(&mut transcript, pending),
        None => {}
    }
    finished(transcript)
}

/// A cassette as JSON.
struct Tape {
    printed: PrintedYaml,
}

impl Tape {
    fn of(text: &str) -> Result<Tape, TranscriptError> {
        if !text.trim_start().starts_with('{') {
            return Ok(Tape { printed: yaml::to_json(text)? });
        }
        json::check(text).map_err(|error| TranscriptError {
            line: error.line,
            byte: error.offset,
            problem: error.problem,
        })?;
        Ok(Tape { printed: PrintedYaml { json: text.into(), items: Vec::new() } })
    }

    /// The interactions, each with the line and byte it begins at.
    fn interactions(&self) -> Result<Vec<(Raw<'_>, usize, usize)>, TranscriptError> {
        let PrintedYaml { json, items } = &self.printed;
        let tape = Raw::trusted(json.trim());
        let list = LISTS.iter().find_map(|key| tape.get(key)).filter(|list| list.kind() == JsonKind::Array);
        let missing = || TranscriptError {
            line: 1,
            byte: 0,
            problem: "not a cassette: it has no list of `interactions`".into(),
        };
        let with_place = |raw: Raw<'_>| {
            let start = raw.span_in(json).0 as usize;
            let item = items
                .binary_search_by_key(&start, |(printed, ..)| *printed)
                .ok()
                .and_then(|at| items.get(at));
            // A tape that was JSON already has no other places than its own.
            let own = || (1 + json.get(..start).unwrap_or_default().matches('\n').count(), start);
            item.map_or_else(own, |(_, line, byte)| (*line, *byte))
        };
        let each = list.ok_or_else(missing)?.elements().map(|raw| {
            let (line, byte) = with_place(raw);
            (raw, line, byte)
        });
        Ok(each.collect())
    }
}

/// A request of a known wire, and its answer.
struct Interaction<'a> {
    recorded: RecordedRequest,
    method: String,
    request: Raw<'a>,
    response: Option<Raw<'a>>,
}

impl<'a> Interaction<'a> {
    fn of(raw: Raw<'a>) -> Option<Self> {
        let request = raw.get("request")?;
        let text = |key: &str| request.get(key).and_then(Raw::string).map(std::borrow::Cow::into_owned);
        let uri = text("uri").or_else(|| text("url")).unwrap_or_default();
        let body = body_of(request)?;
        let wire = {
            let checked = json::check(&body).ok().filter(|body| body.kind() == JsonKind::Object)?;
            wire_at(&uri).or_else(|| Wire::detect(checked))?
        };
        let response = raw.get("response");
        let status = response.and_then(|response| response.get("status"));
        let status = status.map(|status| status.get("code").unwrap_or(status));
        let status = status.and_then(|code| code.text().parse().ok());
        let method = text("method").unwrap_or_default().to_uppercase();
        Some(Interaction { recorded: RecordedRequest { wire, body, status, uri }, method, request, response })
    }

    /// What was sent and answered. An answer the wire cannot read as messages stays in the note about it.
    fn conversation(&self, place: usize) -> Result<ReadConversation, WireError> {
        let RecordedRequest { wire, body, status, uri } = &self.recorded;
        let body = json::check(body)?;
        let accepted = status.is_none_or(|status| status < 400);
        let answer = self.response.filter(|_| accepted).and_then(body_of);
        let answer = answer.as_deref().and_then(|answer| json::check(answer).ok());
        let reply = answer.map(|answer| replies(*wire, answer)).filter(|reply| !reply.is_empty());
        let whole = reply.as_ref().and_then(|reply| with_messages(*wire, body, reply));
        let options = ParseOptions::default();
        let parse = |text: &str| wire.parse(json::check(text)?, &options);
        let parsed = match whole.as_deref().map(parse) {
            Some(Ok(parsed)) => parsed,
            _ => wire.parse(body, &options)?,
        };
        let sent = list_of(*wire, body).map_or(0, |list| list.elements().count().max(1));
        let meta = answer.map(|answer| answer_meta(*wire, body, answer));
        let mut conversation = ReadConversation {
            title: Some(format!("{} {uri}", self.method).trim().into()),
            tools: parsed.tools,
            ..ReadConversation::default()
        };
        for (mut entry, index) in parsed.entries.into_iter().zip(parsed.indexes) {
            if index.is_some_and(|index| index >= sent) && entry.meta.is_none() {
                entry.meta = meta.clone().map(Box::new);
            }
            conversation.entries.push(entry);
            conversation.sources.push(Source { line: index.map_or(0, |index| index + 1), id: None });
        }
        let assumed = parsed.notes.into_iter().map(|kind| Note { line: 0, kind, raw: None });
        conversation.notes.extend(assumed);
        conversation.notes.push(note(place, "request", self.request));
        conversation.notes.extend(self.response.map(|response| note(place, "response", response)));
        Ok(conversation)
    }
}

/// The JSON body of a request or an answer, in its own text where that was kept.
fn body_of(side: Raw<'_>) -> Option<String> {
    if let Some(parsed) = side.get("parsed_body").filter(|body| body.kind() == JsonKind::Object) {
        return Some(parsed.text().into());
    }
    let body = side.get("body")?;
    let body = body.get("string").unwrap_or(body);
    match body.kind() {
        JsonKind::String => {
            body.string().map(|text| text.trim().to_string()).filter(|text| text.starts_with('{'))
        }
        JsonKind::Object => Some(body.text().into()),
        _ => None,
    }
}

/// The wire that is spoken at an address.
fn wire_at(uri: &str) -> Option<Wire> {
    let path = uri.split(['?', '#']).next().unwrap_or(uri).trim_end_matches('/');
    Some(match path {
        path if path.ends_with("/chat/completions") => Wire::OpenaiChat,
        path if path.ends_with("/responses") => Wire::OpenaiResponses,
        path if path.ends_with("/v1/messages") || path.ends_with("/v1/messages/count_tokens") => {
            Wire::Anthropic
        }
        path if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") => {
            Wire::Gemini
        }
        path if path.ends_with("/converse") || path.ends_with("/converse-stream") => Wire::Bedrock,
        _ => return None,
    })
}

/// The messages of an answer, as the next request would carry them; none if it is not a plain answer.
fn replies(wire: Wire, answer: Raw<'_>) -> Vec<String> {
    let first = |key: &str| answer.get(key).and_then(|list| list.elements().next());
    let message = match wire {
        Wire::OpenaiChat => first("choices").and_then(|choice| choice.get("message")),
        Wire::Gemini => first("candidates").and_then(|candidate| candidate.get("content")),
        Wire::Bedrock => answer.get("output").and_then(|output| output.get("message")),
        Wire::OpenaiResponses => {
            return answer
                .get("output")
                .into_iter()
                .flat_map(Raw::elements)
                .map(|item| item.text().into())
                .collect();
        }
        Wire::Anthropic => {
            let content = answer.get("content").filter(|content| content.kind() == JsonKind::Array);
            return content
                .map(|content| format!("{{\"role\":\"assistant\",\"content\":{}}}", content.text()))
                .into_iter()
                .collect();
        }
        Wire::Scrollback => None,
    };
    message
        .filter(|message| message.kind() == JsonKind::Object)
        .map(|message| message.text().into())
        .into_iter()
        .collect()
}

/// The key that holds the messages of a request.
fn list_key(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenaiChat | Wire::Anthropic | Wire::Bedrock => "messages",
        Wire::OpenaiResponses => "input",
        Wire::Gemini => "contents",
        Wire::Scrollback => "entries",
    }
}

fn list_of(wire: Wire, body: Raw<'_>) -> Option<Raw<'_>> {
    body.get(list_key(wire))
}

/// The request with more messages at its end, everything else as it was written.
fn with_messages(wire: Wire, body: Raw<'_>, more: &[String]) -> Option<String> {
    let list = list_of(wire, body)?;
    let mut items: Vec<String> = match list.kind() {
        JsonKind::Array => list.elements().map(|item| item.text().into()).collect(),
        // Responses takes a bare text for one message of the user.
        JsonKind::String => vec![format!("{{\"role\":\"user\",\"content\":{}}}", list.text())],
        _ => return None,
    };
    items.extend_from_slice(more);
    let (start, end) = list.span_in(body.text());
    let before = body.text().get(..start as usize)?;
    let after = body.text().get(end as usize..)?;
    Some(format!("{before}[{}]{after}", items.join(",")))
}

/// What is known about an answer.
fn answer_meta(wire: Wire, body: Raw<'_>, answer: Raw<'_>) -> Meta {
    let text = |of: Raw<'_>, key: &str| of.get(key).and_then(Raw::string).map(std::borrow::Cow::into_owned);
    let mut meta = match wire {
        Wire::OpenaiChat => reply_meta(answer),
        _ => Meta {
            model_served: text(answer, "model").or_else(|| text(answer, "modelVersion")),
            response_id: text(answer, "id").or_else(|| text(answer, "responseId")),
            stop_raw: text(answer, "stop_reason").or_else(|| text(answer, "stopReason")),
            ..Meta::default()
        },
    };
    meta.model_asked = text(body, "model");
    meta
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const CHAT: &str = include_str!("../../../../corpus/transcript/cassette/chat.yaml");
    const OTHERS: &str = include_str!("../../../../corpus/transcript/cassette/other_wires.yaml");

    #[test]
    fn bodies_come_verbatim_or_in_the_order_of_their_keys() {
        let recorded = requests(CHAT).unwrap();
        let bodies: Vec<_> = recorded.iter().map(|request| (request.status, request.body.as_str())).collect();
        let printed = r#"{"messages":[{"content":"How hot is Oslo?","role":"user"}],"model":"some-model","temperature":0.50,"tools":[{"function":{"name":"weather","parameters":{"type":"object"}},"type":"function"}]}"#;
        let verbatim = r#"{"messages": [{"role": "user", "content": "caf\u00e9"}],  "stream": true}"#;
        let refused = r#"{"messages": [{"role": "nobody"}]}"#;
        assert_eq!(bodies, [(Some(200), printed), (Some(200), verbatim), (Some(400), refused)]);
    }

    #[test]
    fn a_request_and_its_plain_answer_are_a_conversation() {
        assert!(looks_like(CHAT) && looks_like(OTHERS));
        let transcript = read(CHAT).unwrap();
        let first = &transcript.conversations[0];
        assert_eq!(first.title.as_deref(), Some("POST https://api.openai.com/v1/chat/completions"));
        assert_eq!(first.tools.as_ref().unwrap().names(), ["weather"]);
        let [asked, answered] = &first.entries[..] else { panic!("two entries") };
        assert!(asked.meta.is_none());
        assert_eq!(answered.tool_calls().count(), 1);
        let meta = answered.meta.as_ref().unwrap();
        assert_eq!(
            (meta.model_asked.as_deref(), meta.model_served.as_deref(), meta.response_id.as_deref()),
            (Some("some-model"), Some("some-model-2026"), Some("chatcmpl-1"))
        );
    }

    #[test]
    fn streams_other_requests_and_refused_ones_are_kept_apart() {
        let transcript = read(CHAT).unwrap();
        let second = &transcript.conversations[1];
        assert_eq!(second.entries.len(), 1);
        let kinds: Vec<_> = second.notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
        assert_eq!(kinds, [(3, "request"), (3, "response"), (2, "interaction")]);
        assert_eq!(transcript.failed.len(), 1);
        assert!(CHAT.lines().nth(transcript.failed[0].line - 1).unwrap().contains("request:"));
        assert!(CHAT.get(transcript.failed[0].byte..).unwrap().starts_with("request:"));
    }

    #[test]
    fn the_wire_follows_from_the_address() {
        let wires: Vec<_> = requests(OTHERS).unwrap().into_iter().map(|request| request.wire).collect();
        assert_eq!(wires, [Wire::Anthropic, Wire::OpenaiResponses, Wire::Gemini, Wire::Bedrock]);
    }

    #[test]
    fn every_wire_gives_question_and_answer() {
        let transcript = read(OTHERS).unwrap();
        assert_eq!(transcript.failed, []);
        for conversation in transcript.conversations {
            let texts: Vec<_> = conversation.entries.iter().map(|entry| entry.content().unwrap()).collect();
            assert_eq!(texts, ["hi", "hello"], "{:?}", conversation.title);
        }
    }

    #[test]
    fn the_same_tape_as_json_is_read_too() {
        let json = format!("\n{}", yaml::to_json(CHAT).unwrap().json);
        assert!(looks_like(&json));
        let failed = &read(&json).unwrap().failed[0];
        assert_eq!((failed.line, json.get(failed.byte..failed.byte + 11)), (2, Some(r#"{"request":"#)));
        assert_eq!(requests(&json).unwrap(), requests(CHAT).unwrap());
    }

    #[test]
    fn a_text_without_interactions_is_no_cassette() {
        for text in ["", "a: 1", "{\"a\":1}", "{", "interactions: 3", "- request: x"] {
            assert!(!looks_like(text), "{text}");
            assert!(read(text).is_err(), "{text}");
        }
    }
}
