//! The same session and our own figures on it, for a comparison with other libraries.

use std::fs;
use std::path::Path;

use scrollback_core::model::ModelName;
use scrollback_core::{CurationContext, HistoryManager, manager};
use serde_json::json;

use crate::curating::agent_loop;
use crate::{Fallible, entries_before, measure, read, record_of, session};

/// Writes `session.json`, 10,000 messages, and `scrollback.json`, what `token_budget(8000)` takes on them in seconds.
///
/// Tokens are counted with `cl100k_base`, the vocabulary that the other libraries can be given without a download.
pub(crate) fn write(directory: &Path) -> Fallible<()> {
    let list = session::as_list(&session::before(10_000));
    let cx = CurationContext::for_model(Some(ModelName::parse("openai:gpt-4")?));
    let manager = manager::parse("token_budget(8000)")?;
    cx.counter.tokenizer.count("unpacks the vocabulary");

    let from_text = measure::long(|| {
        let (sent, taken) = measure::once(|| curate_text(&list, &cx, &*manager));
        sent.map(|_| taken)
    })?;
    let record = record_of(read(&list)?)?;
    let call = measure::call(|| record.view(&cx, &*manager));
    let loop_of_1_000 = measure::long(|| agent_loop(&entries_before(1_000)?, &cx, &*manager))?;
    let figures = json!({
        "from_text": from_text.as_secs_f64(),
        "call": call.as_secs_f64(),
        "loop_of_1_000": loop_of_1_000.as_secs_f64(),
        "kept": record.view(&cx, &*manager)?.len(),
    });

    fs::create_dir_all(directory)?;
    fs::write(directory.join("session.json"), list)?;
    fs::write(directory.join("scrollback.json"), figures.to_string())?;
    Ok(())
}

/// Everything from the text of the list to a view of it.
fn curate_text(list: &str, cx: &CurationContext, manager: &dyn HistoryManager) -> Fallible<usize> {
    let record = record_of(read(list)?)?;
    Ok(record.view(cx, manager)?.len())
}
