//! `ReAct` for models that cannot call tools: the next step comes as a JSON object in their text. It is recorded as a
//! thought and a call, so that both modes leave the same record.

use std::fmt::Write;
use std::sync::Arc;

use scrollback_core::{Entry, ItemSource, Meta, Role, ViewItem};
use serde_json::{Map, Value};

use crate::exchange::Write as WriteRequest;
use crate::runner::{Evaluation, EvaluationError, EvaluationErrorKind, FailurePhase, Round, first_object};
use crate::tool::Toolbox;
use crate::trajectory::{Current, StepKind, context_prompt, steps_of_view, thought};

const FORMAT: &str = "Work step by step. Reply with one JSON object and nothing else: {\"thought\": what you think, \
\"tool_name\": the tool to use next, \"tool_args\": an object with its arguments}. When you know enough to answer, use \
the tool_name \"finish\" with empty tool_args.";

const CORRECTION: &str = "Your reply could not be read. Reply with one JSON object with the members thought (text), \
tool_name (text) and tool_args (object), and nothing else.";

/// What the model wants to do next.
struct NextAction {
    thought: String,
    tool_name: String,
    tool_args: Value,
}

impl NextAction {
    fn read(text: &str) -> Option<Self> {
        let object = first_object(text)?;
        let tool_name = object.get("tool_name")?.as_str()?.to_string();
        let thought = object.get("thought").and_then(Value::as_str).unwrap_or_default().to_string();
        let tool_args = object.get("tool_args").cloned().filter(|args| !args.is_null());
        Some(NextAction {
            thought,
            tool_name,
            tool_args: tool_args.unwrap_or_else(|| Value::Object(Map::default())),
        })
    }
}

/// One iteration; none if the model has finished.
pub(super) async fn round(evaluation: &mut Evaluation<'_>) -> Result<Option<Round>, EvaluationError> {
    evaluation.rounds += 1;
    evaluation.serve_summaries().await?;
    let Some((next, meta, sent)) = ask(evaluation).await? else {
        let message = "the model's reply could not be read, nor its correction";
        return Err(EvaluationError::new(
            FailurePhase::Response,
            EvaluationErrorKind::UnparsableReply,
            message,
        ));
    };
    let said = (!next.thought.is_empty()).then_some(next.thought.as_str());
    if next.tool_name == "finish" {
        evaluation.record_reply(thought(said.unwrap_or("finish"), meta), sent).await?;
        return Ok(None);
    }
    let id = format!("call_{}_0", evaluation.journal.record().len());
    let arguments = next.tool_args.to_string();
    let mut entry = Entry::calling(said, &[(&id, &next.tool_name, &arguments)]);
    entry.meta = Some(Box::new(meta));
    let position = evaluation.record_reply(entry, sent).await?;
    let Some(entry) = evaluation.journal.entry(position).cloned() else { return Ok(Some(Round::Acted)) };
    let paused = evaluation.run_calls(&entry).await?;
    Ok(Some(paused.map_or(Round::Acted, Round::Paused)))
}

/// Asks, and once more where the reply cannot be read; none if that one cannot either.
async fn ask(
    evaluation: &mut Evaluation<'_>,
) -> Result<Option<(NextAction, Meta, Option<scrollback_store::Sent>)>, EvaluationError> {
    let provider = Arc::clone(&evaluation.runner.provider);
    let mut unreadable = None;
    for _ in 0..2 {
        let request = request(evaluation, unreadable.take());
        let overflow = evaluation.runner.overflow;
        let answered = match evaluation.ask_with(&provider, request, None, overflow).await {
            Ok(answered) => answered,
            Err(none) => return Err(evaluation.keep_partial(none).await),
        };
        let entry = answered.reply.entry().map_err(|error| EvaluationError::unreadable(&error))?;
        let text = entry.content().unwrap_or_default();
        if let Some(next) = NextAction::read(&text) {
            return Ok(Some((next, answered.reply.meta, answered.sent)));
        }
        // What was said is kept, whatever it is worth.
        let at = evaluation.record_reply(thought(&text, answered.reply.meta), answered.sent).await?;
        unreadable = Some(UnreadableReply { at, text });
    }
    Ok(None)
}

/// A reply that could not be read, as the model is told of it in the next request.
struct UnreadableReply {
    /// Where it is recorded.
    at: u64,
    text: String,
}

/// The request: instructions and tools, then what happened so far and what is asked. It is written from the record each time,
/// so that it follows what was decided because it was too large.
fn request(evaluation: &Evaluation<'_>, unreadable: Option<UnreadableReply>) -> WriteRequest {
    let mut system =
        evaluation.prompt.system.clone().map_or_else(String::new, |system| format!("{system}\n\n"));
    let _ = write!(system, "{FORMAT}\n\nTools:\n{}", tool_list(&evaluation.runner.tools));
    let policy = Arc::clone(&evaluation.policy);
    Arc::new(move |record, cx| {
        // What could not be read is said as it came, behind the request that it is the reply to.
        let is_unreadable = |item: &ViewItem| {
            unreadable.as_ref().is_some_and(|reply| item.source == ItemSource::Entry(reply.at))
        };
        let view = record.view(cx, &*policy.manager)?;
        let items: Vec<_> = view.items().filter(|item| !is_unreadable(item)).collect();
        let query = steps_of_view(items.clone()).into_iter().rfind(|step| step.kind == StepKind::UserQuery);
        let context = context_prompt(items, Current::Excluded);
        let mut user = String::new();
        if !context.is_empty() {
            let _ = write!(user, "context_prompt:\n{context}\n\n");
        }
        let _ = write!(user, "user_query: {}", query.map(|step| step.content).unwrap_or_default());
        let mut entries = vec![Entry::text(Role::System, &system), Entry::text(Role::User, &user)];
        if let Some(reply) = &unreadable {
            entries.push(Entry::text(Role::Assistant, &reply.text));
            entries.push(Entry::text(Role::User, CORRECTION));
        }
        Ok(entries)
    })
}

fn tool_list(tools: &Toolbox) -> String {
    let specs = tools.specs();
    let lines = specs.iter().map(|spec| {
        format!("- {}: {} Arguments, as a JSON Schema: {}", spec.name, spec.description, spec.parameters)
    });
    let finish = "- finish: Ends the work; use it when you know enough to answer.".to_string();
    lines.chain([finish]).collect::<Vec<_>>().join("\n")
}
