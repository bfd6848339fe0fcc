//! Replaying conversations, several at a time.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use scrollback_core::CurationContext;
use scrollback_core::manager::{Passthrough, SharedManager};
use scrollback_core::replay::{Candidate, Needs, Tally, simulate};

use super::candidates::Entrant;
use super::sources::SourceConversation;

/// What one conversation came to: everything sent, and every candidate in order.
pub(crate) struct ReplayResult {
    pub(crate) everything: Tally,
    pub(crate) tallies: Vec<Tally>,
}

/// Replays every conversation under every candidate, in the order of the conversations.
pub(crate) fn replay(
    conversations: &[SourceConversation],
    entrants: &[Entrant],
    cx: &CurationContext,
    lists_lost: bool,
) -> Vec<ReplayResult> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(conversations.len().max(1));
    let bar = progress(conversations.len() as u64);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, ReplayResult)>> = Mutex::new(Vec::with_capacity(conversations.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(conversation) = conversations.get(at) else { return };
                    let replayed = one(conversation, entrants, cx, lists_lost);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, replayed));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, replayed)| replayed).collect()
}

fn one(
    conversation: &SourceConversation,
    entrants: &[Entrant],
    cx: &CurationContext,
    lists_lost: bool,
) -> ReplayResult {
    let cx = CurationContext { tools: conversation.tools.clone(), wire: conversation.wire, ..cx.clone() };
    let needs = Needs::of(&conversation.slots);
    let began = Instant::now();
    let clock = || began.elapsed().as_secs_f64() * 1e3;
    let wanted = AtomicBool::new(true);
    let run = |manager: &SharedManager| {
        let candidate = Candidate { lists_lost, ..Candidate::new(manager) };
        simulate(&conversation.slots, &needs, &candidate, &cx, &clock, &wanted)
    };
    let passthrough: SharedManager = std::sync::Arc::new(Passthrough);
    let everything = run(&passthrough);
    let tally = |entrant: &Entrant| {
        if entrant.name == "passthrough" { everything.clone() } else { run(&entrant.manager) }
    };
    let tallies = entrants.iter().map(tally).collect();
    ReplayResult { everything, tallies }
}

/// A bar, where a person watches and has to wait.
fn progress(conversations: u64) -> ProgressBar {
    if conversations < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(conversations);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} conversations, {eta} left") {
        bar.set_style(style);
    }
    bar
}
