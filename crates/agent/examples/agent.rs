//! An agent in a few lines: a model, a tool, a record that is kept, and a view that stays bounded.

use std::sync::Arc;

use scrollback_agent::journal::Journal;
use scrollback_agent::provider::Catalog;
use scrollback_agent::react::{AgentSession, React};
use scrollback_agent::runner::Runner;
use scrollback_agent::tool::tool;
use scrollback_core::{Record, manager};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Place {
    city: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "offline:echo".into());
    let mut runner = Runner::new(Catalog::default().provider_named(&model)?);
    runner.manager = manager::parse("sticky(trajectory_window(100))")?;
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    runner.tools.add(Arc::new(tool("weather", "Weather by city", schema, |at: Place| async move {
        Ok(json!(format!("{}: 22 degrees, sunny", at.city)))
    })))?;
    let journal = Journal::memory(Record::new());
    let session =
        AgentSession::new("travel", Some("You answer briefly.".into()), runner, React::default(), journal);
    let result = session.query("What is the weather in Paris?").await?;
    println!("{}", result.answer.unwrap_or_default());
    Ok(())
}
