//! Records choices that every later view repeats: `cargo run -p scrollback-core --example decisions`.

use scrollback_core::{CurationContext, Decision, Entry, ItemSource, Record, Role, Time, View, manager};

fn record_of(texts: &[(Role, &str)]) -> Result<Record, Box<dyn std::error::Error>> {
    let mut record = Record::new();
    for (sequence, (role, text)) in texts.iter().enumerate() {
        let entry = Entry::text(*role, text).stamped(uuid::Uuid::nil(), sequence as u64, Time::default());
        record.append(entry)?;
    }
    Ok(record)
}

fn positions(view: &View<'_>) -> Vec<u64> {
    let position = |source| match source {
        ItemSource::Entry(position) => Some(position),
        _ => None,
    };
    view.items().filter_map(|item| position(item.source)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut record = record_of(&[
        (Role::System, "You plan trips."),
        (Role::User, "I am allergic to nuts."),
        (Role::Assistant, "Noted."),
        (Role::User, "Find a restaurant."),
        (Role::Assistant, "In which town?"),
        (Role::User, "Bergen."),
    ])?;
    let cx = CurationContext::default();
    let window = manager::parse("sliding_window(2)")?;
    assert_eq!(positions(&record.view(&cx, &*window)?), [0, 4, 5]);

    // From here on no manager may drop the allergy.
    record.decide(Decision::Pin { positions: vec![1] }, Time::default())?;
    assert_eq!(positions(&record.view(&cx, &*window)?), [0, 1, 4, 5]);

    // A cut is kept even if the configuration changes: what was paid for in the prompt cache stays.
    let cut = Decision::Cut {
        before: 3,
        held: None,
        by: "me".into(),
        scope: None,
        kept: Vec::new(),
        owed: Vec::new(),
        notice: None,
        factor: None,
    };
    let at = record.decide(cut, Time::default())?;
    let view = record.view(&cx, &*manager::parse("passthrough")?)?;
    assert_eq!(positions(&view), [0, 1, 3, 4, 5]);
    assert_eq!(view.explain().dropped[0].by, Some(at));
    println!("{}", serde_json::to_string_pretty(&view.explain())?);
    Ok(())
}
