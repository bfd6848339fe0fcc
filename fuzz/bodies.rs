//! What each fuzz target does with its bytes. The targets and the short run inside the tests share these, so a
//! finding of one is a case for the other.

use scrollback_core::wire::{ParseOptions, RenderOptions, Wire};
use scrollback_core::{CurationContext, Record, json, manager};

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
            shown += usize::from(matches!(item.source, scrollback_core::Source::Entry(_)));
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
