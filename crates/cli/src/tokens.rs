//! `scrollback tokens`: how much a list of messages is.

use scrollback_core::model::ModelName;
use scrollback_core::tokens::{Counter, Method, Tokenizer, entry_tokens};
use scrollback_core::{CurationContext, Role};
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
    parts: PartTokens,
    #[serde(flatten)]
    which: WhichConversation,
}

/// The same total by what it is for; the three tokens that start the reply are in none of the parts.
#[derive(Serialize)]
struct PartTokens {
    /// The system entries at the start, in a field of their own or not.
    instructions: usize,
    /// Definitions of tools.
    tools: usize,
    /// Everything else that was said.
    messages: usize,
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
    let model = model.or_else(|| loaded.model.clone());
    let Counter { tokenizer, method, .. } = Counter::for_model(model.as_ref());
    let last = loaded.indexes.iter().copied().flatten().max();
    let mut messages = vec![0; last.map_or(0, |last| last + 1)];
    let (mut around, mut instructions) = (0, 0);
    let mut is_lead = true;
    for (position, index) in loaded.indexes.iter().enumerate() {
        let Some(entry) = loaded.record.entry(position as u64) else { continue };
        let tokens = entry_tokens(tokenizer, entry);
        is_lead &= entry.role == Role::System;
        if is_lead {
            instructions += tokens;
        }
        match index.and_then(|index| messages.get_mut(index)) {
            Some(message) => *message += tokens,
            None => around += tokens,
        }
    }
    let cx = CurationContext { tools: loaded.tools, ..CurationContext::for_model(model) };
    let overhead = cx.overhead(cx.counter) + around;
    let said = messages.iter().sum::<usize>();
    let parts = PartTokens {
        instructions,
        tools: cx.tool_tokens(cx.counter),
        messages: said + around - instructions,
    };
    let total = said + overhead;
    TokensJson {
        model: cx.model.map(|model| model.to_string()),
        method,
        tokenizer,
        total,
        messages,
        overhead,
        parts,
        which,
    }
}
