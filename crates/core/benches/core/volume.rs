//! What a byte of conversation costs: to count, to read and print, to keep.

use scrollback_core::manager::Passthrough;
use scrollback_core::tokens::Tokenizer;
use scrollback_core::wire::{RenderOptions, Wire};
use scrollback_core::{CurationContext, Entry};

use crate::table::{self, against, megabytes, note, rate, time};
use crate::{Fallible, entries_before, heap, measure, read, record_of, session};

/// Tokens of text that was not counted yet.
pub(crate) fn counting() -> Fallible<()> {
    let text: String = entries_before(10_000)?.iter().map(session::text_of).collect();
    let mut rows = Vec::new();
    for tokenizer in [Tokenizer::O200kBase, Tokenizer::Cl100kBase] {
        tokenizer.count("unpacks the vocabulary");
        // The tokenizer remembers words by thread, and a new thread has not seen any.
        let in_new_thread = || {
            std::thread::scope(|scope| {
                let counting = scope.spawn(|| measure::once(|| tokenizer.count(&text)).1);
                counting.join().map_err(|_| "counting panicked")
            })
        };
        let taken = measure::long(in_new_thread)?;
        let speed = rate(text.len(), taken);
        rows.push(vec![
            tokenizer.name().to_string(),
            megabytes(text.len()),
            time(taken),
            against(&format!("{speed:.0} MB/s"), speed >= 25.0),
        ]);
    }
    table::print("Counting tokens, cold", &["vocabulary", "mixed text", "time", "speed ≥ 25 MB/s"], &rows);
    note("the tokenizer has seen none of the text before, and its vocabulary is unpacked.");
    Ok(())
}

/// Tokens of a record, the first time and again.
pub(crate) fn counting_again() -> Fallible<()> {
    let cx = CurationContext::default();
    let record = record_of(entries_before(10_000)?)?;
    let view = record.view(&cx, &Passthrough)?;
    let (_, first) = measure::once(|| view.count(&cx));
    let again = measure::call(|| view.count(&cx));
    record.tokens(cx.counter);
    let total = measure::call(|| record.tokens(cx.counter));
    let row = |name: &str, taken| {
        let share = measure::ratio(first, taken);
        vec![name.to_string(), time(taken), against(&format!("{share:.0}"), share >= 50.0)]
    };
    table::print(
        "Counting a record of 10,000 entries",
        &["", "time", "first / this ≥ 50"],
        &[
            vec!["first time, entry by entry".into(), time(first), String::new()],
            row("again, entry by entry", again),
            row("again, the total", total),
        ],
    );
    Ok(())
}

/// Reading a list of messages, and printing it again.
pub(crate) fn wire() -> Fallible<()> {
    let list = session::as_list(&session::before(10_000));
    let plain = session::plain_list(list.len());
    let mut rows = Vec::new();
    for (name, list, target) in [("agent session", &list, None), ("plain text", &plain, Some(200.0))] {
        let record = record_of(read(list)?)?;
        let view = record.view(&CurationContext::default(), &Passthrough)?;
        let parse = measure::call(|| read(list));
        let render = measure::call(|| Wire::OpenaiChat.render(view.items(), RenderOptions::default()));
        let both = rate(list.len(), parse + render);
        rows.push(vec![
            name.to_string(),
            megabytes(list.len()),
            format!("{:.0} MB/s", rate(list.len(), parse)),
            format!("{:.0} MB/s", rate(list.len(), render)),
            target.map_or_else(
                || format!("{both:.0} MB/s"),
                |least| against(&format!("{both:.0} MB/s"), both >= least),
            ),
        ]);
    }
    table::print(
        "Reading and printing openai-chat",
        &["list", "size", "parse", "render", "both, plain text ≥ 200 MB/s"],
        &rows,
    );
    Ok(())
}

/// What a record holds on the heap.
pub(crate) fn memory() -> Fallible<()> {
    let list = session::as_list(&session::before(10_000));
    let before = heap::live_bytes();
    let mut entries: Vec<Entry> = read(&list)?;
    entries.shrink_to_fit();
    let of_entries = heap::live_bytes() - before;
    let record = record_of(entries)?;
    let of_record = heap::live_bytes() - before;
    record.tokens(CurationContext::default().counter);
    let counted = heap::live_bytes() - before;
    let share = |bytes: usize| bytes as f64 / list.len() as f64;
    let row =
        |name: &str, bytes: usize| vec![name.to_string(), megabytes(bytes), format!("{:.2}", share(bytes))];
    table::print(
        "Memory of a record of 10,000 entries, live on the heap",
        &["", "size", "of its JSON, entries ≤ 1.5"],
        &[
            row("its JSON", list.len()),
            vec![
                "the entries alone".to_string(),
                megabytes(of_entries),
                against(&format!("{:.2}", share(of_entries)), share(of_entries) <= 1.5),
            ],
            row("the record, with indexes", of_record),
            row("the record, tokens counted", counted),
        ],
    );
    Ok(())
}
