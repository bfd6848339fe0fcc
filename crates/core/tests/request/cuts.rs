//! A cut is never followed by another on the next call, unless nothing else is possible: a cut costs the provider's cache.
//!
//! After a cut the request has at most `low` tokens, so the next call has `high − low` of room. Two things may take it away:
//! what came since the last call is larger than that, or what must stay (instructions, tools, the task, the newest group)
//! is larger than `low`, so that the cut could not reach it.

use proptest::prelude::*;
use scrollback_core::request::{PrepareError, prepare};
use scrollback_core::tokens::{Factor, entry_tokens};
use scrollback_core::transcript::{self, ReadConversation};
use scrollback_core::wire::{Wire, opening_tokens};
use scrollback_core::{CurationContext, Entry, Record, Role, Time, Tools};
use serde_json::json;

use super::{CLAUDE, GPT, context, cuts, ours, policy, read_chat, record_all, session, shared, step};
use crate::support::cases;

/// What a walk over a session saw.
#[derive(Debug, Default)]
struct Seen {
    calls: usize,
    cuts: usize,
    /// Calls that cut right after a call that cut, because there was no room.
    forced: usize,
    /// Of these, calls that had room until the factor rose.
    by_factor: usize,
    /// Calls that were too large whatever was left out.
    too_large: usize,
}

/// The last call that cut.
struct LastCut {
    factor: Factor,
    /// Tokens of what had to stay in it.
    must_stay: usize,
}

/// Walks through a session, one call after each list of entries, and panics at a cut that was not necessary.
fn walk(
    name: &str,
    wire: Wire,
    mut cx: CurationContext,
    window: usize,
    calls: &[Vec<Entry>],
    factors: &mut dyn FnMut() -> Factor,
) -> Seen {
    let asked = ours(wire, &cx.model.as_ref().unwrap().to_string());
    let policy = policy(&format!("fit(window={window}, reserve=0)"));
    let (high, low) = (window, window / 5 * 3 + window % 5 * 3 / 5);
    let mut record = Record::new();
    let mut seen = Seen::default();
    let mut before: Option<LastCut> = None;
    for (number, new) in calls.iter().enumerate() {
        for entry in new {
            let sequence = record.message_count() as u64;
            record.append(entry.clone().stamped(uuid::Uuid::nil(), sequence, Time(1))).unwrap();
        }
        cx.counter = cx.counter.with_factor(factors());
        seen.calls += 1;
        let prepared = match prepare(&record, &asked, &policy, &cx) {
            Ok(prepared) => prepared,
            Err(PrepareError::TooLarge { .. }) => {
                seen.too_large += 1;
                before = None;
                continue;
            }
            // A list that ends with what the model said, or holds nothing: no agent would send it.
            Err(PrepareError::Invalid { .. }) => {
                before = None;
                continue;
            }
            Err(other) => panic!("{name}, call {number}: {other}"),
        };
        assert!(prepared.tokens.unwrap().total <= high, "{name}, call {number}: {:?}", prepared.tokens);
        record_all(&mut record, &prepared.decisions);
        let earlier = before.take();
        if !cuts(&prepared.decisions) {
            continue;
        }
        seen.cuts += 1;
        let factor = cx.counter.factor;
        let tokens = |entry: &Entry| factor.apply(entry_tokens(cx.counter.tokenizer, entry));
        if let Some(earlier) = earlier {
            let came: usize = new.iter().map(tokens).sum();
            let forced = came > high - low || earlier.must_stay > low;
            // What was left at the last cut counts more when the factor has risen since.
            let left = (low as f64 * factor.value() / earlier.factor.value()).ceil() as usize;
            assert!(
                forced || came + left > high,
                "{name}: a cut at call {number}, right after one; {came} tokens came, {} had to stay, high {high}, low {low}, \
                 factor {factor:?} after {:?}",
                earlier.must_stay,
                earlier.factor
            );
            seen.forced += 1;
            seen.by_factor += usize::from(!forced);
        }
        before = Some(LastCut { factor, must_stay: must_stay(&record, &cx, &tokens) });
    }
    seen
}

/// Tokens that no cut can take away: around the messages, the instructions, the task and the newest group.
fn must_stay(record: &Record, cx: &CurationContext, tokens: &dyn Fn(&Entry) -> usize) -> usize {
    let entries: Vec<&Entry> =
        (0..record.len() as u64).filter_map(|at| record.entry(at)).map(AsRef::as_ref).collect();
    let lead = entries.iter().take_while(|entry| entry.role == Role::System).count();
    let newest = entries.iter().rposition(|entry| entry.tool_result().is_none()).unwrap_or(0);
    let task = entries.iter().rposition(|entry| entry.role == Role::User).filter(|task| *task < newest);
    let opening = if cx.wire.is_some_and(Wire::starts_with_user) {
        cx.counter.factor.apply(opening_tokens(cx.counter.tokenizer))
    } else {
        0
    };
    let said = entries[..lead].iter().chain(task.map(|task| &entries[task])).chain(&entries[newest..]);
    cx.overhead(cx.counter) + opening + said.map(|entry| tokens(entry)).sum::<usize>()
}

fn steady() -> Factor {
    Factor::ONE
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(150), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_cuts_in_a_row_in_random_sessions(
        steps in prop::collection::vec(step(4000), 1..50),
        moves in prop::collection::vec(-0.1..0.1f64, 60),
        window in prop_oneof![1200..8000usize, 8000..30_000usize],
        instructions in 1..6000usize,
        estimated in any::<bool>(),
    ) {
        let (name, wire) = if estimated { (CLAUDE, Wire::Anthropic) } else { (GPT, Wire::OpenaiChat) };
        let tool = json!({ "name": "read_file", "description": super::text(instructions / 3) }).to_string();
        let cx = CurationContext {
            tools: Some(Tools::defined(wire, vec!["read_file".into()], vec![tool])),
            ..context(name, wire)
        };
        let mut calls: Vec<Vec<Entry>> = session(&steps).iter().map(|new| read_chat(new, 0)).collect();
        calls[0].insert(0, Entry::text(Role::System, &super::text(instructions)));
        let mut moves = moves.into_iter();
        let mut factor = 1.2;
        let mut factors = || {
            factor = (factor * (1.0 + moves.next().unwrap_or(0.0))).clamp(0.5, 2.0);
            Factor::of(factor)
        };
        walk("random", wire, cx, window, &calls, &mut factors);
    }
}

/// The entries of a conversation, a call after each point where the model answered.
fn calls_of(conversation: ReadConversation) -> Vec<Vec<Entry>> {
    let mut calls = vec![Vec::new()];
    for entry in conversation.entries {
        let answers = entry.role == Role::Assistant;
        let (Some(last), true) = (calls.last_mut(), answers) else {
            calls.last_mut().unwrap().push(entry);
            continue;
        };
        if last.iter().all(|entry: &Entry| entry.role == Role::Assistant) {
            last.push(entry);
        } else {
            calls.push(vec![entry]);
        }
    }
    calls
}

#[test]
fn no_two_cuts_in_a_row_in_shared_transcripts() {
    let sets = [
        ("claude-code-fasthooks", ".jsonl", CLAUDE, Wire::Anthropic),
        ("claude-code-session-share", ".jsonl", CLAUDE, Wire::Anthropic),
        ("claude-code-spotter", ".jsonl", CLAUDE, Wire::Anthropic),
        ("tau-bench", ".json", GPT, Wire::OpenaiChat),
        ("swe-agent", ".traj", GPT, Wire::OpenaiChat),
    ];
    for (set, ending, name, wire) in sets {
        let mut all = Vec::new();
        for path in shared(set, ending) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let Ok(read) = transcript::read(None, &text) else { continue };
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            all.extend(
                read.conversations.into_iter().map(|conversation| (file.clone(), calls_of(conversation))),
            );
        }
        for window in [8_000, 16_000, 60_000] {
            let mut total = Seen::default();
            for (file, calls) in &all {
                let mut number = 0_u32;
                // An estimate moves up and down by up to a tenth, as calibration lets it.
                let mut moving = || {
                    number += 1;
                    Factor::of(1.3 + 0.1 * f64::from(number).sin())
                };
                let factors: &mut dyn FnMut() -> Factor =
                    if name == CLAUDE { &mut moving } else { &mut steady };
                let seen = walk(file, wire, context(name, wire), window, calls, factors);
                total.calls += seen.calls;
                total.cuts += seen.cuts;
                total.forced += seen.forced;
                total.by_factor += seen.by_factor;
                total.too_large += seen.too_large;
            }
            println!("{set}, window {window}: {} conversations, {total:?}", all.len());
        }
    }
}
