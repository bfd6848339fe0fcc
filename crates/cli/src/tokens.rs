//! `scrollback tokens`: how much a list of messages is.

use scrollback_core::CurationContext;
use scrollback_core::model::ModelName;
use scrollback_core::tokens::{Counter, Method, Tokenizer, entry_tokens};
use serde::Serialize;

use crate::args::TokensArgs;
use crate::failure::Failure;
use crate::load::{Conversations, LoadOptions, LoadedInput, WhichConversation};
use crate::{answer, batch, input};

/// The `--json` object.
#[derive(Serialize)]
pub(crate) struct TokensJson {
    model: Option<String>,
    method: Method,
    tokenizer: Tokenizer,
    total: usize,
    messages: Vec<usize>,
    overhead: usize,
    #[serde(flatten)]
    which: WhichConversation,
}

pub(crate) fn run(args: &TokensArgs, json: bool) -> Result<(), Failure> {
    if let Some(file) = &args.input.batch {
        return batch::tokens(file);
    }
    let model = input::model_named(args.input.model.as_deref())?;
    let how = LoadOptions::of(&args.input)?;
    let which = if args.input.all { Conversations::All } else { Conversations::One };
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    for loaded in how.load_asked(file, which)? {
        loaded.say_which(which);
        let answer = count(loaded, model.clone());
        if json {
            input::print(&format!("{}\n", answer::to_json(&answer)?))?;
            continue;
        }
        input::print(&format!(
            "{} tokens ({}, {})\n",
            answer.total,
            answer.method.name(),
            answer.tokenizer.name()
        ))?;
    }
    Ok(())
}

/// Counts every message as it is: nothing is left out, coherent or not. Instructions that stand in a field of their
/// own count as overhead.
pub(crate) fn count(loaded: LoadedInput, model: Option<ModelName>) -> TokensJson {
    let which = loaded.which_members();
    let Counter { tokenizer, method, .. } = Counter::for_model(model.as_ref());
    let last = loaded.indexes.iter().copied().flatten().max();
    let mut messages = vec![0; last.map_or(0, |last| last + 1)];
    let mut around = 0;
    for (position, index) in loaded.indexes.iter().enumerate() {
        let Some(entry) = loaded.record.entry(position as u64) else { continue };
        let tokens = entry_tokens(tokenizer, entry);
        match index.and_then(|index| messages.get_mut(index)) {
            Some(message) => *message += tokens,
            None => around += tokens,
        }
    }
    let cx = CurationContext { tools: loaded.tools, ..CurationContext::for_model(model) };
    let overhead = cx.overhead(cx.counter) + around;
    let total = messages.iter().sum::<usize>() + overhead;
    TokensJson {
        model: cx.model.map(|model| model.to_string()),
        method,
        tokenizer,
        total,
        messages,
        overhead,
        which,
    }
}
