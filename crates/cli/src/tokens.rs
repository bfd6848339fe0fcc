//! `scrollback tokens`: how much a list of messages is.

use scrollback_core::CurationContext;
use scrollback_core::json::Raw;
use scrollback_core::model::ModelName;
use scrollback_core::tokens::{Counter, Method, Tokenizer, entry_tokens};
use scrollback_core::wire::Wire;
use serde::Serialize;

use crate::args::TokensArgs;
use crate::failure::Failure;
use crate::{batch, curate, input};

/// The `--json` object.
#[derive(Serialize)]
pub(crate) struct Answer {
    model: Option<String>,
    method: Method,
    tokenizer: Tokenizer,
    total: usize,
    messages: Vec<usize>,
    overhead: usize,
}

pub(crate) fn run(args: &TokensArgs, json: bool) -> Result<(), Failure> {
    if let Some(file) = &args.input.batch {
        return batch::tokens(file);
    }
    let model = input::model_named(args.input.model.as_deref())?;
    let from = input::wire_named(args.input.from.as_deref())?;
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    let bytes = input::read(file)?;
    let answer = input::check(&bytes)
        .and_then(|body| count(body, model, from, args.input.take))
        .map_err(|failure| failure.about(file))?;
    if json {
        return input::print(&format!("{}\n", curate::to_json(&answer)?));
    }
    input::print(&format!(
        "{} tokens ({}, {})\n",
        answer.total,
        answer.method.name(),
        answer.tokenizer.name()
    ))
}

/// Counts every message as it is: nothing is left out, coherent or not.
pub(crate) fn count(
    body: Raw<'_>,
    model: Option<ModelName>,
    from: Option<Wire>,
    take: Option<usize>,
) -> Result<Answer, Failure> {
    let (_, parsed) = input::parse(body, from, take)?;
    let Counter { tokenizer, method } = Counter::for_model(model.as_ref());
    let mut messages = vec![0; parsed.indexes.last().map_or(0, |last| last + 1)];
    for (entry, &index) in parsed.entries.iter().zip(&parsed.indexes) {
        if let Some(message) = messages.get_mut(index) {
            *message += entry_tokens(tokenizer, entry);
        }
    }
    let cx = CurationContext { tools: parsed.tools, ..CurationContext::for_model(model) };
    let overhead = cx.overhead(cx.counter);
    let total = messages.iter().sum::<usize>() + overhead;
    Ok(Answer {
        model: cx.model.map(|model| model.to_string()),
        method,
        tokenizer,
        total,
        messages,
        overhead,
    })
}
