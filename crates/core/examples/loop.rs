//! Gives an existing agent loop a record and a bounded view: `cargo run -p scrollback-core --example loop`.

use scrollback_core::wire::{Wire, openai_chat::provider_message_to_entry};
use scrollback_core::{CurationContext, Record, Time, json, manager};

/// Keeps a message exactly as it was written.
fn keep(record: &mut Record, message: &str) -> Result<(), Box<dyn std::error::Error>> {
    let entry = provider_message_to_entry(json::check(message)?)?;
    let sequence = record.message_count() as u64;
    record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time::default()))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = manager::parse("sticky(token_budget(120))")?;
    let cx = CurationContext::default();
    let mut record = Record::new();
    keep(&mut record, r#"{"role":"system","content":"You count sheep."}"#)?;
    for sheep in 1..=12 {
        keep(&mut record, &format!(r#"{{"role":"user","content":"Sheep {sheep} jumps. How many?"}}"#))?;
        let view = record.view(&cx, &*manager)?;
        let request = format!("[{}]", view.render(Wire::OpenaiChat, &cx).messages.join(","));
        println!("{:2} of {:2} messages, {} bytes", view.len(), record.len(), request.len());
        let reply = r#"{"role":"assistant","content":"One more."}"#; // your client sends `request` and gets this
        keep(&mut record, reply)?;
    }
    Ok(())
}
