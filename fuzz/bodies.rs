//! What each fuzz target does with its bytes. The targets and the short run inside the tests share these, so a
//! finding of one is a case for the other.

use std::sync::Arc;

use scrollback_core::json::Raw;
use scrollback_core::manager::Passthrough;
use scrollback_core::stream::{Assembler, Reply};
use scrollback_core::transcript::{self, Format};
use scrollback_core::wire::check::{CheckOptions, Strictness, Violation, check};
use scrollback_core::wire::repair::repair;
use scrollback_core::wire::{self, ParseOptions, Parsed, RenderOptions, Wire, list_key};
use scrollback_core::{CurationContext, Fidelity, ItemSource, Record, ViewItem, json, manager};

/// The wires that a provider speaks.
const PROVIDERS: [Wire; 5] =
    [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini, Wire::Bedrock];

/// The wires whose replies come as events.
const STREAMED: [Wire; 4] = [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini];

/// Rules about how a conversation ends or how long it is: the caller that asks for a view decides that.
const CALLERS: [&str; 7] = ["AN-12", "AN-13", "AN-21", "GE-5", "OC-12", "OC-13", "OR-19"];

/// Any bytes as messages: an error with a place, or entries that print back as they came and make coherent views.
pub(crate) fn parse(data: &[u8]) {
    let Ok(raw) = json::check_bytes(data) else { return };
    // What we accept, another reader must accept too (numbers it cannot hold aside).
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(raw.text()) {
        assert!(error.to_string().contains("recursion limit"), "{error}: {:?}", raw.text());
    }
    let Ok(parsed) = Wire::OpenaiChat.parse(raw, &ParseOptions::default()) else { return };
    let mut record = Record::new();
    for entry in parsed.entries {
        assert!(record.append(entry).is_ok(), "a parsed list has no gaps");
    }
    let cx = CurationContext::default();
    for text in [
        "passthrough",
        "sliding_window(2)",
        "sticky(sliding_window(3), low=1)",
        "tool_result_truncator(3)",
        "clear_tool_results(0)",
    ] {
        let Ok(manager) = manager::parse(text) else { panic!("{text} is a manager") };
        let Ok(view) = record.view(&cx, &*manager) else { panic!("{text} cannot fail") };
        let explanation = view.explain();
        let mut shown = 0;
        for item in view.items() {
            shown += usize::from(matches!(item.source, scrollback_core::ItemSource::Entry(_)));
        }
        assert_eq!(shown + explanation.dropped.len(), record.message_count(), "{text}");
        for message in Wire::OpenaiChat.render(view.items(), RenderOptions::default()).messages {
            assert!(json::check(&message).is_ok(), "{text}: {message}");
        }
    }
    // Unchanged entries print as they came, white space aside.
    let view = scrollback_core::View::of(&record, &cx);
    for (item, message) in
        view.items().zip(Wire::OpenaiChat.render(view.items(), RenderOptions::default()).messages)
    {
        if item.fidelity == scrollback_core::Fidelity::AsSaid {
            let raw = item.entry.origin.raw.as_ref();
            assert_eq!(message, json::one_line(json::check(raw).unwrap_or_else(|error| panic!("{error}"))));
        }
    }
}

/// Any text as a configuration: an error with code and path, or a manager whose printed form reads back the same.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match manager::parse(text) {
        Err(error) => assert!(!error.to_string().is_empty() && !error.code().is_empty()),
        Ok(manager) => {
            let printed = manager.config();
            match manager::parse_value(&printed) {
                Ok(again) => assert_eq!(again.config(), printed, "{text}"),
                Err(error) => panic!("{text} prints as {printed}, which does not read back: {error}"),
            }
        }
    }
}

/// Any bytes as a request: refused with a reason, or kept to the byte, valid for every provider, and repaired so that nothing is left to repair.
///
/// A fixture of `corpus/wire` names its wire; anything else is tried on all of them.
pub(crate) fn wires(data: &[u8]) {
    let Ok(text) = json::check_bytes(data) else { return };
    let named = text.get("wire").and_then(Raw::string).and_then(|name| Wire::named(&name));
    match named.zip(text.get("body")) {
        Some((wire, body)) => request(wire, body),
        None => Wire::ALL.into_iter().for_each(|wire| request(wire, text)),
    }
}

fn request(wire: Wire, body: Raw<'_>) {
    let left_after_repair = PROVIDERS.contains(&wire).then(|| violations_after_repair(wire, body));
    let parsed = match wire.parse(body, &ParseOptions::default()) {
        Ok(parsed) => parsed,
        Err(error) => return assert!(!error.to_string().is_empty() && !error.code().is_empty()),
    };
    if let Some(left) = left_after_repair {
        assert!(left.is_empty(), "{wire} cannot repair {}: {left:#?}", body.text());
        survives(wire, body, &parsed);
    }
    let Ok(record) = parsed.into_record() else {
        return assert_eq!(wire, Wire::Scrollback, "only our own form can have gaps");
    };
    keeps_everything(&record);
    let cx = CurationContext::default();
    let Ok(view) = record.view(&cx, &Passthrough) else { panic!("passing all on cannot fail") };
    for to in PROVIDERS {
        let sent = view.render(to, &cx).body(to, None);
        let broken = fatal(to, &sent);
        assert!(broken.is_empty(), "{wire} as {to}: {broken:#?}\n{sent}\nfrom {}", body.text());
    }
}

/// Repairs a body; what is left of the trouble with its messages. Repairing again changes nothing.
fn violations_after_repair(wire: Wire, body: Raw<'_>) -> Vec<Violation> {
    let again = |body| repair(wire, body, CheckOptions::default(), Strictness::Lenient);
    let once = again(body);
    let Ok(repaired) = json::check(&once.body) else { panic!("no JSON after repair: {}", once.body) };
    assert_eq!(again(repaired).body, once.body, "{wire}: repairing {} twice", body.text());
    fatal(wire, &once.body)
}

/// What a provider would refuse about the messages of a body.
fn fatal(wire: Wire, body: &str) -> Vec<Violation> {
    let Ok(body) = json::check(body) else { panic!("no JSON: {body}") };
    let list = format!("/{}", list_key(wire));
    let mut found = check(wire, body, CheckOptions::default());
    found.retain(|violation| {
        violation.is_fatal(Strictness::Lenient)
            && violation.path.starts_with(&list)
            && !CALLERS.contains(&violation.rule)
    });
    found
}

/// What is printed to be kept is what came, white space aside.
fn survives(wire: Wire, body: Raw<'_>, parsed: &Parsed) {
    let item = |(position, entry): (u64, &scrollback_core::Entry)| ViewItem {
        source: ItemSource::Entry(position),
        entry: Arc::new(entry.clone()),
        fidelity: Fidelity::AsSaid,
    };
    let rendered = wire.render((0..).zip(&parsed.entries).map(item), RenderOptions::default());
    let printed = rendered.body(wire, Some(&parsed.body));
    assert_eq!(squeezed(&printed), squeezed(body.text()), "{wire}");
    assert!(rendered.lost.is_empty(), "{wire} loses {:?} of {}", rendered.lost, body.text());
}

/// Our own form gives back the very record.
fn keeps_everything(record: &Record) {
    let entries = wire::neutral(record);
    let body = format!("{{\"scrollback\":1,\"entries\":[{}]}}", entries.join(","));
    let Ok(raw) = json::check(&body) else { panic!("no JSON: {body}") };
    let read = Wire::Scrollback.parse(raw, &ParseOptions::default()).map(Parsed::into_record);
    let Ok(Ok(read)) = read else { panic!("{read:?} from {body}") };
    assert_eq!(wire::neutral(&read), entries);
}

/// A JSON text without the white space between its values.
fn squeezed(text: &str) -> String {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        if inside || !c.is_ascii_whitespace() {
            out.push(c);
        }
        inside ^= c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
    }
    out
}

/// Any bytes as the stream of a reply, on every wire: the same reply however they are cut, and JSON.
pub(crate) fn stream(data: &[u8]) {
    for wire in STREAMED {
        let whole = assembled(wire, [data]);
        // Cuts are chosen by the bytes themselves, so that every input has cuts of its own.
        let sizes = data.iter().cycle().map(|byte| 1 + usize::from(byte % 61));
        let mut rest = data;
        let chunks = sizes.map_while(|size| {
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            (!chunk.is_empty()).then_some(chunk)
        });
        assert_eq!(assembled(wire, chunks), whole, "{wire}");
        assert_eq!(assembled(wire, data.chunks(1)), whole, "{wire}");
        if let Some(raw) = &whole.raw {
            assert!(json::check(raw).is_ok(), "{wire}: {raw}");
            let _ = whole.entry();
        }
    }
    if let Ok(body) = json::check_bytes(data) {
        for wire in Wire::ALL {
            let _ = Reply::from_body(wire, body).entry();
        }
    }
}

fn assembled<'a>(wire: Wire, chunks: impl IntoIterator<Item = &'a [u8]>) -> Reply {
    let Ok(mut assembler) = Assembler::new(wire) else { panic!("{wire} has streams") };
    for chunk in chunks {
        assembler.feed(chunk);
    }
    assembler.finish()
}

/// Any text as a transcript of every format: refused with a reason, or conversations that become records.
pub(crate) fn transcript(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in Format::ALL {
        match transcript::read(Some(format), text) {
            Err(error) => assert!(!error.problem.is_empty(), "{format}"),
            Ok(transcript) => transcript.conversations.into_iter().for_each(|conversation| {
                assert_eq!(conversation.entries.len(), conversation.sources.len(), "{format}");
                let record = conversation.into_record(None);
                assert!(record.is_ok(), "{format}: {:?}", record.err());
            }),
        }
    }
    let named = transcript::detect(text).map(|format| transcript::read(Some(format), text).is_ok());
    assert_eq!(transcript::read(None, text).is_ok(), named.unwrap_or(false));
}
