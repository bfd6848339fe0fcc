//! What is replayed: conversations of files and folders, or of a store.

use std::path::Path;

use scrollback::{ReplayContent, ReplaySource, ReplaySources};
use scrollback_core::Time;
use scrollback_core::replay::RequestFrame;
use scrollback_core::wire::Wire;
use scrollback_store::{CallListing, Conversation, ConversationId, Listing, Store};

use super::args::SimulateArgs;
use crate::failure::{Failure, USAGE};
use crate::load::format_named;
use crate::store::{Intent, Setup, block_on, now};

/// Conversations of a store that are replayed unless another number is given.
const NEWEST: usize = 50;

pub(crate) fn gather(args: &SimulateArgs) -> Result<ReplaySources, Failure> {
    if args.paths.is_empty() { of_store(args) } else { of_files(args) }
}

fn of_files(args: &SimulateArgs) -> Result<ReplaySources, Failure> {
    let format = format_named(args.from.as_deref())?;
    for path in args.paths.iter().filter(|path| path.as_path() != Path::new("-")) {
        std::fs::metadata(path).map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    }
    // A sample is drawn from all of them; without one the rest would not be replayed anyway.
    let enough = args.limit.filter(|_| args.sample.is_none());
    let read = ReplaySources::read(&args.paths, format, enough);
    let mut sources = read.map_err(|error| Failure::new(USAGE, "bad_input", error.to_string()))?;
    if let Some(sample) = args.sample {
        let chosen = sampled(sources.conversations.len(), sample, args.seed);
        let mut number = 0;
        sources.conversations.retain(|_| {
            number += 1;
            chosen.binary_search(&(number - 1)).is_ok()
        });
    }
    if let Some(limit) = args.limit {
        sources.conversations.truncate(limit);
    }
    Ok(sources)
}

fn of_store(args: &SimulateArgs) -> Result<ReplaySources, Failure> {
    let setup = Setup::new(&args.store)?;
    let since = args.since.as_deref().map(since).transpose()?;
    let newest = if args.sample.is_some() { usize::MAX } else { args.limit.unwrap_or(NEWEST) };
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        let mut ids = matching(store.as_ref(), &setup, newest, since, args.client.as_deref()).await?;
        if let Some(sample) = args.sample {
            let chosen = sampled(ids.len(), sample, args.seed);
            ids = chosen.into_iter().filter_map(|at| ids.get(at).cloned()).collect();
        }
        ids.truncate(args.limit.unwrap_or(usize::MAX));
        let mut sources = ReplaySources::default();
        for id in &ids {
            sources.conversations.push(stored(store.as_ref(), &setup, id).await?);
        }
        Ok(sources)
    })
}

/// The conversations that are asked for, newest first; at most `most`.
async fn matching(
    store: &dyn Store,
    setup: &Setup,
    most: usize,
    since: Option<Time>,
    client: Option<&str>,
) -> Result<Vec<ConversationId>, Failure> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let listing = Listing { limit: 100, after, ..Listing::default() };
        let page = store.list(Some(&setup.tenant()), listing).await?;
        for (row, _) in page.conversations {
            if found.len() >= most || since.is_some_and(|since| row.updated_at < since) {
                return Ok(found);
            }
            if client.is_none_or(|client| is_of(&row, client)) {
                found.push(row.id);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Whether a conversation's key names the client: imports and the proxy write it first.
fn is_of(row: &Conversation, client: &str) -> bool {
    row.key.as_deref().is_some_and(|key| key.split([':', '/']).any(|part| part == client))
}

/// A conversation with the tools, the format and the length of replies of its newest call, as `/api/simulate` replays it.
async fn stored(store: &dyn Store, setup: &Setup, id: &ConversationId) -> Result<ReplaySource, Failure> {
    let tenant = setup.tenant();
    let places = store.entries(&tenant, id, 0, u64::MAX).await?;
    let slots = places.into_iter().map(|placed| placed.slot).collect();
    let listing = CallListing { conversation: Some(id.clone()), limit: 1, after: None };
    let mut content = ReplayContent { slots, tools: None, wire: None, output: None };
    if let Some(call) = store.calls(&tenant, listing).await?.calls.first() {
        let call = store.call(&tenant, &call.id).await?;
        content.wire = Wire::named(&call.wire);
        let frame = RequestFrame::read(content.wire, call.request.as_deref());
        (content.tools, content.output) = (frame.tools, frame.output);
    }
    Ok(ReplaySource::stored(id.as_str(), content))
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

/// Chooses so many of `count` places at random, in order. The same seed chooses the same.
fn sampled(count: usize, wanted: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for at in 0..wanted.min(count) {
        // SplitMix64: small, and the same everywhere.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let other = at + (mixed % (count - at) as u64) as usize;
        numbers.swap(at, other);
    }
    numbers.truncate(wanted);
    numbers.sort_unstable();
    numbers
}
