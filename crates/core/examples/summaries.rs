//! Summaries in two phases, written by any code you like: `cargo run -p scrollback-core --example summaries`.

use scrollback_core::manager::{self, Ask};
use scrollback_core::{CurationContext, Entry, HistoryManager, ItemSource, Record, Role, Time};

/// Asks the manager what it would like summarised, writes it and records it.
fn settle(
    record: &mut Record,
    cx: &CurationContext,
    manager: &dyn HistoryManager,
) -> Result<(), Box<dyn std::error::Error>> {
    for Ask::Summary(ask) in record.plan(cx, manager) {
        let texts: Vec<String> =
            ask.entries.iter().filter_map(|position| record.entry(*position)?.content()).collect();
        let text = call_summarizer(ask.previous.as_deref(), &texts);
        // A blank text or one that is too long becomes a recorded failure, and the view stays as it was.
        record.decide(ask.answered(&text, "my summariser", None), Time::default())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cx = CurationContext::default();
    let manager = manager::parse("summarize(max_turns=4, keep_recent=2)")?;
    let mut record = Record::new();
    for number in 0..9 {
        let question = Entry::text(Role::User, &format!("question {number}"));
        record.append(question.stamped(uuid::Uuid::nil(), number, Time::default()))?;
        settle(&mut record, &cx, &*manager)?;
    }
    let view = record.view(&cx, &*manager)?;
    let summaries = view.items().filter(|item| matches!(item.source, ItemSource::Summary { .. })).count();
    assert_eq!(summaries, 1, "a new summary takes the place of the one before");
    for item in view.items() {
        println!("{}: {}", item.entry.role, item.entry.content().unwrap_or_default().replace('\n', " "));
    }
    Ok(())
}

/// A call to a model stands here.
fn call_summarizer(previous: Option<&str>, texts: &[String]) -> String {
    let earlier = previous.map(|text| format!("{text} ")).unwrap_or_default();
    format!("{earlier}They asked {}.", texts.join(" and "))
}
