//! What most people write instead: a list of messages, trimmed from the front until the rest fits.

use std::time::{Duration, Instant};

use scrollback_core::tokens::Tokenizer;
use scrollback_core::{CurationContext, Entry, Role, manager};

use crate::curating::agent_loop;
use crate::table::{self, note, time};
use crate::{Fallible, entries_before, measure, session, warm_record};

const BUDGET: usize = 8_000;
const TOKENIZER: Tokenizer = Tokenizer::O200kBase;
/// Tokens of a message beside its text.
const PER_MESSAGE: usize = 4;

/// A message as it would be sent.
#[derive(Clone)]
struct Message {
    role: Role,
    /// Everything in it that is counted.
    text: String,
}

impl Message {
    fn tokens(&self) -> usize {
        TOKENIZER.count(&self.text) + PER_MESSAGE
    }
}

/// When messages are counted.
#[derive(Clone, Copy)]
enum Counting {
    /// All of them at every call.
    Again,
    /// Each as it comes.
    Once,
}

/// The history as a list. It knows no groups, so a result can stay without its call.
struct List {
    counting: Counting,
    messages: Vec<Message>,
    counts: Vec<usize>,
}

impl List {
    fn new(counting: Counting) -> Self {
        List { counting, messages: Vec::new(), counts: Vec::new() }
    }

    fn push(&mut self, entry: &Entry) {
        let message = Message { role: entry.role, text: session::text_of(entry) };
        if matches!(self.counting, Counting::Once) {
            self.counts.push(message.tokens());
        }
        self.messages.push(message);
    }

    /// The first message and the newest ones that fit beside it.
    fn trimmed(&self) -> Vec<Message> {
        match self.counting {
            Counting::Again => self.trim(&self.messages.iter().map(Message::tokens).collect::<Vec<_>>()),
            Counting::Once => self.trim(&self.counts),
        }
    }

    fn trim(&self, counts: &[usize]) -> Vec<Message> {
        let mut total: usize = counts.iter().sum();
        let mut start = 1;
        for tokens in counts.iter().skip(1) {
            if total <= BUDGET {
                break;
            }
            total -= tokens;
            start += 1;
        }
        self.messages.iter().take(1).chain(self.messages.iter().skip(start)).cloned().collect()
    }
}

/// Trims after every message: the time of all of it, and how many of the lists a provider would refuse.
fn loop_over(entries: &[Entry], counting: Counting) -> (Duration, usize) {
    let mut broken = 0;
    let start = Instant::now();
    let mut list = List::new(counting);
    for entry in entries {
        list.push(entry);
        let trimmed = list.trimmed();
        broken += usize::from(trimmed.get(1).is_some_and(|oldest| oldest.role == Role::Tool));
    }
    (start.elapsed(), broken)
}

/// Scrollback beside such lists.
pub(crate) fn compare() -> Fallible<()> {
    let short = entries_before(1_000)?;
    let long = entries_before(10_000)?;
    let list_of = |counting| {
        let mut list = List::new(counting);
        for entry in &long {
            list.push(entry);
        }
        list
    };

    let list = list_of(Counting::Again);
    let again = measure::long(|| Fallible::Ok(measure::once(|| list.trimmed()).1))?;
    let mut rows = vec![vec![
        "a list, every token counted again".to_string(),
        time(again),
        time(loop_over(&short, Counting::Again).0),
        // Half of the list on average.
        format!("≈ {}, not run", time(again * long.len() as u32 / 2)),
        "as below".to_string(),
    ]];

    let list = list_of(Counting::Once);
    let (loop_time, broken) = loop_over(&long, Counting::Once);
    rows.push(vec![
        "a list, counts kept, all of it summed".to_string(),
        time(measure::call(|| list.trimmed())),
        time(loop_over(&short, Counting::Once).0),
        time(loop_time),
        broken.to_string(),
    ]);

    let cx = CurationContext::default();
    let manager = manager::parse(&format!("token_budget({BUDGET})"))?;
    let record = warm_record(10_000)?;
    rows.push(vec![
        format!("Scrollback, token_budget({BUDGET})"),
        time(measure::call(|| record.view(&cx, &*manager))),
        time(measure::long(|| agent_loop(&short, &cx, &*manager))?),
        time(measure::long(|| agent_loop(&long, &cx, &*manager))?),
        "0".to_string(),
    ]);
    table::print(
        "Beside the usual way: the newest 8,000 tokens of a list",
        &["", "one call at 10,000", "loop of 1,000", "loop of 10,000", "broken requests"],
        &rows,
    );
    note("the same tokenizer on both sides; every loop counts every token at least once.");
    note(
        "broken: of 10,000 requests, those that begin with the result of a call that was trimmed away; providers refuse them.",
    );
    Ok(())
}
