//! What is replayed: conversations of files and folders, or of a store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::{Record, Slot, Time, Tools};
use scrollback_store::{ConversationId, Listing};
use serde_json::Value;

use super::args::SimulateArgs;
use crate::failure::{Failure, USAGE};
use crate::load::{LoadOptions, format_named};
use crate::store::{Intent, Setup, block_on, now};

/// Conversations of a store that are replayed unless another number is given.
const NEWEST: usize = 50;

/// One conversation to replay.
pub(crate) struct SourceConversation {
    /// The file it is from; none for one of a store.
    pub(crate) file: Option<PathBuf>,
    /// Its place in the file, or its id in the store.
    pub(crate) id: Value,
    pub(crate) slots: Vec<Slot>,
    pub(crate) tools: Option<Tools>,
    pub(crate) wire: Option<Wire>,
}

impl SourceConversation {
    /// How a place of it is named: by handle in a store, by file elsewhere.
    pub(crate) fn place(&self, position: u64) -> String {
        match (&self.file, self.id.as_str()) {
            (None, Some(id)) => {
                let tail = id.get(id.len().saturating_sub(10)..).unwrap_or(id).to_lowercase();
                format!("sb:{tail}#{position}")
            }
            (file, _) => format!("{}#{position}", file.as_deref().unwrap_or(Path::new("-")).display()),
        }
    }
}

/// A transcript that could not be read.
pub(crate) struct Unread {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) problem: String,
}

/// Everything that is to be replayed, and what could not be read.
pub(crate) struct Gathered {
    pub(crate) conversations: Vec<SourceConversation>,
    pub(crate) failed: Vec<Unread>,
}

pub(crate) fn gather(args: &SimulateArgs) -> Result<Gathered, Failure> {
    let mut gathered = if args.paths.is_empty() { of_store(args)? } else { of_files(args)? };
    if let Some(sample) = args.sample {
        sampled(&mut gathered.conversations, sample, args.seed);
    }
    if let Some(limit) = args.limit {
        gathered.conversations.truncate(limit);
    }
    Ok(gathered)
}

fn of_files(args: &SimulateArgs) -> Result<Gathered, Failure> {
    let how = LoadOptions { from: format_named(args.from.as_deref())?, ..LoadOptions::default() };
    let mut gathered = Gathered { conversations: Vec::new(), failed: Vec::new() };
    for path in &args.paths {
        for file in files_of(path)? {
            // Without a sample the rest would not be replayed anyway.
            let enough = args.limit.filter(|_| args.sample.is_none());
            if enough.is_some_and(|enough| gathered.conversations.len() >= enough) {
                return Ok(gathered);
            }
            match how.load_all(&file) {
                Ok(all) => gathered.conversations.extend(all.into_iter().enumerate().map(|(number, one)| {
                    SourceConversation {
                        file: Some(file.clone()),
                        id: Value::from(number),
                        slots: one.record.slots().to_vec(),
                        tools: one.tools,
                        wire: Some(one.wire).filter(|wire| *wire != Wire::Scrollback),
                    }
                })),
                Err(failure) => gathered.failed.push(Unread {
                    file: file.display().to_string(),
                    line: failure.to_json().pointer("/error/line").and_then(Value::as_u64).unwrap_or(0),
                    problem: told(&failure, &file),
                }),
            }
        }
    }
    Ok(gathered)
}

/// What is wrong with a file, without its name.
fn told(failure: &Failure, file: &Path) -> String {
    let told = failure.to_json();
    let message = told.pointer("/error/message").and_then(Value::as_str).unwrap_or("it cannot be read");
    message.strip_prefix(&format!("{}: ", file.display())).unwrap_or(message).to_string()
}

/// The files below a path, in order of their names. The folder of a session is one transcript.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path == Path::new("-") {
        return Ok(vec![path.into()]);
    }
    let failed = |path: &Path, error: &std::io::Error| Failure::io(&path.display().to_string(), error);
    std::fs::metadata(path).map_err(|error| failed(path, &error))?;
    let (mut files, mut open) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(next) = open.pop() {
        if !next.is_dir() || next.join("agents").is_dir() {
            files.push(next);
            continue;
        }
        for entry in std::fs::read_dir(&next).map_err(|error| failed(&next, &error))? {
            open.push(entry.map_err(|error| failed(&next, &error))?.path());
        }
    }
    // What is named is read whatever it is; of a folder only what may be a transcript.
    if path.is_dir() {
        files.retain(|file| {
            file.is_dir() || file.extension().is_some_and(|end| READ.iter().any(|one| end == *one))
        });
    }
    files.sort();
    Ok(files)
}

/// Endings of files that are looked at in folders.
const READ: [&str; 7] = ["json", "jsonl", "ndjson", "traj", "yaml", "yml", "log"];

fn of_store(args: &SimulateArgs) -> Result<Gathered, Failure> {
    let setup = Setup::new(&args.store)?;
    let since = args.since.as_deref().map(since).transpose()?;
    let wanted = args.limit.or(args.sample).unwrap_or(NEWEST);
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let mut conversations = Vec::new();
        let mut after = None;
        loop {
            let listing = Listing { limit: 100, after, ..Listing::default() };
            let page = store.list(Some(&setup.tenant()), listing).await?;
            for (row, _) in page.conversations {
                if conversations.len() >= wanted || since.is_some_and(|since| row.updated_at < since) {
                    return Ok(Gathered { conversations, failed: Vec::new() });
                }
                if args.client.as_deref().is_some_and(|client| !is_of(&row, client)) {
                    continue;
                }
                conversations.push(stored(store.as_ref(), &setup, &row.id).await?);
            }
            after = page.next;
            if after.is_none() {
                return Ok(Gathered { conversations, failed: Vec::new() });
            }
        }
    })
}

/// Whether a conversation's key names the client: imports and the proxy write it first.
fn is_of(row: &scrollback_store::Conversation, client: &str) -> bool {
    row.key.as_deref().is_some_and(|key| key.split([':', '/']).any(|part| part == client))
}

async fn stored(
    store: &dyn scrollback_store::Store,
    setup: &Setup,
    id: &ConversationId,
) -> Result<SourceConversation, Failure> {
    let places = store.entries(&setup.tenant(), id, 0, u64::MAX).await?;
    let slots = places.into_iter().map(|placed| placed.slot).collect();
    Ok(SourceConversation { file: None, id: Value::from(id.as_str()), slots, tools: None, wire: None })
}

/// A time as it is written, or so long ago: `7d`, `12h`, `30m`.
fn since(text: &str) -> Result<Time, Failure> {
    if let Some(time) = Time::parse(text) {
        return Ok(time);
    }
    let split = text.len().saturating_sub(1);
    let (number, unit) = text.split_at_checked(split).unwrap_or((text, ""));
    let unit = match unit {
        "d" => Some(86_400_000),
        "h" => Some(3_600_000),
        "m" => Some(60_000),
        _ => None,
    };
    let Some((number, unit)) = number.parse::<i64>().ok().zip(unit) else {
        let message = format!("{text:?} is not a time; write 7d, 12h, 30m, or 2026-01-31T12:00:00Z");
        return Err(Failure::new(USAGE, "usage", message));
    };
    Ok(Time(now().0.saturating_sub(number.saturating_mul(unit))))
}

/// Chooses so many at random and keeps their order. The same seed chooses the same.
fn sampled(conversations: &mut Vec<SourceConversation>, wanted: usize, seed: u64) {
    let mut numbers: Vec<usize> = (0..conversations.len()).collect();
    let mut state = seed;
    for at in 0..wanted.min(numbers.len()) {
        // SplitMix64: small, and the same everywhere.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let other = at + (mixed % (numbers.len() - at) as u64) as usize;
        numbers.swap(at, other);
    }
    numbers.truncate(wanted);
    numbers.sort_unstable();
    let mut number = 0;
    conversations.retain(|_| {
        number += 1;
        numbers.binary_search(&(number - 1)).is_ok()
    });
}

/// The model that most replies name, with the provider of their wire.
pub(crate) fn usual_model(conversations: &[SourceConversation]) -> Option<ModelName> {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for conversation in conversations {
        for slot in &conversation.slots {
            let Slot::Message(entry) = slot else { continue };
            let Some(model) = entry
                .meta
                .as_ref()
                .and_then(|meta| meta.model_served.as_deref().or(meta.model_asked.as_deref()))
            else {
                continue;
            };
            let provider = match entry.origin.wire {
                Wire::Anthropic => "anthropic",
                Wire::Gemini => "gemini",
                Wire::Bedrock => "bedrock",
                Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Scrollback => "openai",
            };
            *named.entry(format!("{provider}:{model}")).or_default() += 1;
        }
    }
    // A name that is not in the table gives neither window nor prices.
    let known = named.into_iter().filter_map(|(name, count)| Some((count, ModelName::parse(&name).ok()?)));
    let known = known.filter(|(_, model)| scrollback_core::model::facts(model).is_some());
    known.max_by_key(|(count, _)| *count).map(|(_, model)| model)
}

/// Tokens of the longest history.
pub(crate) fn longest(
    conversations: &[SourceConversation],
    counter: scrollback_core::tokens::Counter,
) -> u64 {
    let tokens = |conversation: &SourceConversation| {
        Record::restore(conversation.slots.iter().cloned()).map_or(0, |record| record.tokens(counter))
    };
    conversations.iter().map(tokens).max().unwrap_or(0)
}
