//! A sub-agent in Rust: a mission, a signature, data, and a script in place of a model.

use std::sync::Arc;

use scrollback_agent::provider::Scripted;
use scrollback_agent::provider::script::Script;
use scrollback_core::model::ModelName;
use scrollback_lisp::{Signature, Value};
use scrollback_subagent::{Host, InheritedSettings, SubAgent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let signature = Signature::parse("(numbers [:int]) -> :int")?;
    let agent = SubAgent::new("Add up the numbers.", Some(signature))?;
    let script =
        Script::parse("- reply: (return (sum data/numbers))").map_err(|problems| format!("{problems:?}"))?;
    let model = Arc::new(Scripted::new(ModelName::parse("offline:script=demo")?, Arc::new(script)));
    let settings = InheritedSettings { model: Some(model), ..InheritedSettings::default() };
    let data = [("numbers".to_string(), Value::read("[1 2 3]")?)].into();
    let host = Arc::new(Host::default());
    let step = agent.run(&data, &settings, &host, &mut host.journal()).await?;
    assert_eq!(step.outcome.map(|value| value.to_string()).ok().as_deref(), Some("6"));
    Ok(())
}
