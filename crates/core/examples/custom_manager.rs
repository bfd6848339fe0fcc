//! A manager of your own, composed with built-in ones: `cargo run -p scrollback-core --example custom_manager`.

use std::sync::Arc;

use scrollback_core::manager::{self, Compose};
use scrollback_core::{CurationContext, CurationError, Entry, HistoryManager, Record, Role, Time, View};

/// Leaves out small talk: groups of one entry with fewer than `words` words.
struct NoSmallTalk {
    words: usize,
}

impl HistoryManager for NoSmallTalk {
    fn name(&self) -> &'static str {
        "no_small_talk"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        view.retain(self.name(), |group| match group {
            [only] => only.entry.content().is_some_and(|text| text.split(' ').count() >= self.words),
            _ => true,
        });
        Ok(view)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut record = Record::new();
    let said =
        ["Hello!", "Please book a table for four on Friday.", "Thanks!", "Make it five people.", "OK?"];
    for (sequence, text) in said.iter().enumerate() {
        let entry = Entry::text(Role::User, text);
        record.append(entry.stamped(uuid::Uuid::nil(), sequence as u64, Time::default()))?;
    }
    let manager =
        Compose { managers: vec![Arc::new(NoSmallTalk { words: 3 }), manager::parse("sliding_window(10)")?] };
    let view = record.view(&CurationContext::default(), &manager)?;
    let sent: Vec<String> = view.items().filter_map(|item| item.entry.content()).collect();
    // "OK?" is the task, and no manager drops the task.
    assert_eq!(sent, ["Please book a table for four on Friday.", "Make it five people.", "OK?"]);
    for drop in view.explain().dropped {
        println!("{}: {} by {}", drop.index, drop.reason.as_str(), drop.manager);
    }
    Ok(())
}
