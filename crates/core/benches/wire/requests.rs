//! Request bodies: read and printed, checked, repaired, and turned into those of other providers.

use std::time::Duration;

use scrollback_core::manager::Passthrough;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::repair::repair;
use scrollback_core::wire::{RenderOptions, Wire};
use scrollback_core::{CurationContext, json};

use crate::lists::{self, items, parse};
use crate::table::{self, against, megabytes, note, rate, time};
use crate::{Fallible, PROVIDERS, measure, plain};

const BYTES: usize = 2_000_000;
const MESSAGES: usize = 1_000;

/// Reading a body and printing it again, beside `serde_json`.
pub(crate) fn reading_and_printing() -> Fallible<()> {
    let mut rows = Vec::new();
    for wire in PROVIDERS {
        let body = lists::of_bytes(wire, BYTES)?;
        let entries = items(parse(wire, &body)?);
        let speed = |taken| format!("{:.0} MB/s", rate(body.len(), taken));
        let checked = measure::quickest(|| json::check(&body).map(|_| ()));
        let read = measure::quickest(|| parse(wire, &body));
        let printed = measure::quickest(|| wire.render(entries.iter().cloned(), RenderOptions::default()));
        let tree = measure::quickest(|| plain::tree(&body));
        let typed = (wire == Wire::OpenaiChat).then(|| measure::quickest(|| plain::typed(&body)));
        rows.push(vec![
            wire.to_string(),
            megabytes(body.len()),
            speed(checked),
            speed(read),
            speed(printed),
            against(&speed(read + printed), rate(body.len(), read + printed) >= 200.0),
            speed(tree),
            typed.map(speed).unwrap_or_default(),
        ]);
    }
    table::print(
        "Reading and printing a conversation",
        &[
            "wire",
            "size",
            "valid JSON",
            "read",
            "print",
            "both ≥ 200 MB/s",
            "serde_json, tree",
            "serde_json, types",
        ],
        &rows,
    );
    note(
        "valid JSON is part of read; serde_json's figures are for both ways; it spells texts and numbers anew, and types lose what they do not name.",
    );
    Ok(())
}

/// Checking a body against its provider's rules, and repairing one that breaks them.
pub(crate) fn checking() -> Fallible<()> {
    let options = CheckOptions::default();
    let mut rows = Vec::new();
    for wire in PROVIDERS {
        let (body, broken) = (lists::of_messages(wire, MESSAGES)?, lists::broken(wire, MESSAGES)?);
        let (body, broken) = (json::check(&body)?, json::check(&broken)?);
        let fatal = |body| {
            check(wire, body, options).iter().filter(|found| found.is_fatal(Strictness::Lenient)).count()
        };
        if fatal(body) > 0 {
            return Err(format!("the conversation breaks rules of {wire}").into());
        }
        let checked = measure::quickest(|| check(wire, body, options));
        let repaired = measure::quickest(|| repair(wire, broken, options, Strictness::Lenient));
        rows.push(vec![
            wire.to_string(),
            megabytes(body.text().len()),
            against(&time(checked), checked < Duration::from_millis(2)),
            fatal(broken).to_string(),
            time(repaired),
        ]);
    }
    table::print(
        "Checking 1,000 messages, and repairing them with every seventh missing",
        &["wire", "size", "check < 2 ms", "broken rules", "repair"],
        &rows,
    );
    Ok(())
}

/// A conversation of one provider for all the others.
pub(crate) fn converting() -> Fallible<()> {
    let body = lists::of_messages(Wire::OpenaiChat, MESSAGES)?;
    let entries = items(parse(Wire::OpenaiChat, &body)?);
    let cx = CurationContext::default();
    let record = parse(Wire::OpenaiChat, &body)?.into_record()?;
    let view = record.view(&cx, &Passthrough)?;
    let mut rows = Vec::new();
    for wire in PROVIDERS {
        let printed = measure::quickest(|| wire.render(entries.iter().cloned(), RenderOptions::default()));
        let from_text = measure::quickest(|| text_to_text(&body, wire));
        let sent = measure::quickest(|| view.render(wire, &cx));
        rows.push(vec![wire.to_string(), time(printed), time(from_text), time(sent)]);
    }
    table::print(
        "1,000 messages of openai-chat for every provider",
        &["to", "entries to messages", "text to text", "a view to send, checked"],
        &rows,
    );
    Ok(())
}

/// The text of a request for one provider from that of another.
pub(crate) fn text_to_text(chat: &str, to: Wire) -> Fallible<String> {
    let parsed = parse(Wire::OpenaiChat, chat)?;
    Ok(to.render(items(parsed), RenderOptions::default()).body(to, None))
}
