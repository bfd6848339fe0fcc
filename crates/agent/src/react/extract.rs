//! The answer, read out of the steps that led to it.

use std::sync::Arc;

use scrollback_core::{Entry, Role};
use serde_json::Value;

use crate::exchange::Write;
use crate::provider::ResponseFormat;
use crate::runner::{Evaluation, EvaluationEnd, EvaluationError, structured};
use crate::trajectory::recent_for_extract;

const INSTRUCTIONS: &str = "You are given the steps an agent took for a user: what the user asked, the agent's thoughts, \
the tools it used and what they answered. Answer the user from these steps alone.";

/// One more request, over the steps since the last query. Its reply is the final answer.
pub(super) async fn extract(
    evaluation: &mut Evaluation<'_>,
    output: Option<&ResponseFormat>,
) -> Result<EvaluationEnd, EvaluationError> {
    let mut instructions = INSTRUCTIONS.to_string();
    if let Some(fields) = output.and_then(|format| format.schema.get("properties")?.as_object()) {
        let told: Vec<String> =
            fields.iter().map(|(name, schema)| format!("{name} ({})", kind(schema))).collect();
        instructions =
            format!("{instructions} Reply with a JSON object with the fields: {}.", told.join(", "));
    }
    let policy = Arc::clone(&evaluation.policy);
    let write: Write = Arc::new(move |record, cx| {
        let recent = recent_for_extract(record.view(cx, &*policy.manager)?.items());
        Ok(vec![Entry::text(Role::System, &instructions), Entry::text(Role::User, &recent)])
    });
    let provider = Arc::clone(&evaluation.runner.provider);
    let overflow = evaluation.runner.overflow;
    let answered = match evaluation.ask_with(&provider, write, output, overflow).await {
        Ok(answered) => answered,
        Err(none) => return Err(evaluation.keep_partial(none).await),
    };
    let mut entry = answered.reply.entry().map_err(|error| EvaluationError::unreadable(&error))?;
    let text = entry.content().unwrap_or_default();
    let read = output.map(|format| structured(&text, &format.schema));
    if let Some(Ok(found)) = &read {
        entry.meta.get_or_insert_default().tags.insert("output".into(), found.to_string());
    }
    evaluation.record_reply(entry, answered.sent).await?;
    Ok(EvaluationEnd::Replied { text, output: read.transpose()? })
}

fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or("any")
}
