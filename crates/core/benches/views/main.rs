//! What managers keep of public transcripts, and at what cost: `./dev bench views`, or
//! `cargo bench -p scrollback-core --bench views -- --data FOLDER [--set NAME] [-m MANAGER] [--peers FILE] [--export FILE]`.
//!
//! One line of JSON for each set and manager. `--export` writes the conversations for other programs instead, and `--peers`
//! reads the views those made (`bench/views.py` does both), so that everyone is measured by the same figures in one run.
//! Tokens are o200k for everyone and prices are relative to plain input: reading 0.1, writing 1.25, output 5.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the core reads no clock and no file; this measures it

mod peers;
mod sets;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use scrollback_core::manager::{self, SharedManager};
use scrollback_core::replay::{Candidate, Needs, Tally, simulate};
use scrollback_core::{CurationContext, Slot, tokens::entry_tokens};
use serde_json::json;
use sets::{Conversation, SETS, Set};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the command line says.
#[derive(Default)]
struct BenchArgs {
    data: PathBuf,
    set: Option<String>,
    managers: Vec<String>,
    peers: Option<PathBuf>,
    export: Option<PathBuf>,
    each: bool,
}

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut wanted, mut benched) = (BenchArgs::default(), false);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--bench" => benched = true,
            "--data" => wanted.data = value()?.into(),
            "--set" => wanted.set = Some(value()?),
            "-m" => wanted.managers.push(value()?),
            "--peers" => wanted.peers = Some(value()?.into()),
            "--export" => wanted.export = Some(value()?.into()),
            "--each" => wanted.each = true,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    if !benched || wanted.data.as_os_str().is_empty() {
        // `cargo test --benches` comes here, and there is nothing to measure.
        return Ok(());
    }
    let chosen = SETS
        .iter()
        .filter(|set| wanted.set.as_deref().is_none_or(|name| name.split(',').any(|name| name == set.name)));
    for set in chosen {
        let conversations = set.read(&wanted.data);
        if let Some(file) = &wanted.export {
            peers::export(file, set, &conversations)?;
        } else {
            measure(set, &conversations, &wanted)?;
        }
    }
    Ok(())
}

/// The managers of a set: those that were given, a `B` in them once for each budget; or ours.
fn field(set: &Set, wanted: &BenchArgs) -> Vec<(String, Option<u64>)> {
    let ours = [
        "sliding_window(20)",
        "tool_result_truncator(2000)",
        "clear_tool_results(3)",
        "token_budget(B)",
        "sticky(token_budget(B))",
        "relevant(B)",
        "auto(B)",
    ];
    let given: Vec<&str> = if wanted.managers.is_empty() {
        ours.to_vec()
    } else {
        wanted.managers.iter().map(String::as_str).collect()
    };
    let mut all = vec![("passthrough".to_string(), None)];
    for text in given {
        if text.contains('B') {
            all.extend(
                set.budgets.iter().map(|budget| (text.replace('B', &budget.to_string()), Some(*budget))),
            );
        } else {
            all.push((text.to_string(), None));
        }
    }
    all
}

fn context(conversation: &Conversation) -> CurationContext {
    CurationContext { tools: conversation.tools.clone(), ..CurationContext::default() }
}

/// Tokens of everything a conversation says.
fn length(conversation: &Conversation, cx: &CurationContext) -> u64 {
    let entries = conversation.slots.iter().filter_map(|slot| match slot {
        Slot::Message(entry) => Some(entry_tokens(cx.counter.tokenizer, entry) as u64),
        _ => None,
    });
    entries.sum()
}

/// One conversation: its place, its length, and the tallies of our managers and of the others, where those made views of it.
type Measured = (usize, u64, Vec<Tally>, Vec<Option<Tally>>);

/// Replays all conversations of a set, on as many threads as there are cores.
fn measure(set: &Set, conversations: &[Conversation], wanted: &BenchArgs) -> Fallible<()> {
    let began = Instant::now();
    let field = field(set, wanted);
    let managers: Vec<SharedManager> =
        field.iter().map(|(name, _)| manager::parse(name)).collect::<Result<_, _>>()?;
    let peers =
        wanted.peers.as_deref().map(|file| peers::read(file, set.name)).transpose()?.unwrap_or_default();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Measured>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(conversation) = conversations.get(at) else { return };
                    let cx = context(conversation);
                    let needs = Needs::of(&conversation.slots);
                    let clock = || began.elapsed().as_secs_f64() * 1e3;
                    let run = |manager| {
                        simulate(
                            &conversation.slots,
                            &needs,
                            &Candidate::new(manager),
                            &cx,
                            &clock,
                            &AtomicBool::new(true),
                        )
                    };
                    let ours = managers.iter().map(run).collect();
                    let theirs = peers.iter().map(|peer| peer.judged(conversation, &needs, &cx)).collect();
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((
                        at,
                        length(conversation, &cx),
                        ours,
                        theirs,
                    ));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, ..)| *at);
    let names = field.iter().cloned().chain(peers.iter().map(|peer| (peer.manager.clone(), peer.budget)));
    for (number, (name, budget)) in names.enumerate() {
        let mut all = Sums::default();
        for (at, length, ours, theirs) in &done {
            let tally = ours.get(number).or_else(|| theirs.get(number - ours.len())?.as_ref());
            let (Some(whole), Some(tally)) = (ours.first(), tally) else { continue };
            let is_over = budget.is_none_or(|budget| *length > budget);
            all.add(whole, tally, is_over, budget);
            if wanted.each && is_over {
                let mut one = Sums::default();
                one.add(whole, tally, true, budget);
                println!(
                    "{}",
                    one.line(
                        &conversations.get(*at).map_or_else(String::new, |found| found.name.clone()),
                        &name
                    )
                );
            }
        }
        println!("{}", all.line(set.name, &name));
    }
    eprintln!("{}: {} conversations, {:.1} s", set.name, conversations.len(), began.elapsed().as_secs_f64());
    Ok(())
}

/// A manager and sending everything: over all conversations, over those longer than the budget, and over the calls whose history
/// is above it.
#[derive(Default)]
struct Sums {
    tally: Tally,
    whole: Tally,
    over: (f64, f64),
    conversations: u64,
    conversations_over: u64,
    calls_over: u64,
    over_calls: (f64, f64),
}

impl Sums {
    fn add(&mut self, whole: &Tally, tally: &Tally, is_over: bool, budget: Option<u64>) {
        self.conversations += 1;
        for (all, one) in whole.per_call.iter().zip(&tally.per_call) {
            if budget.is_none_or(|budget| all.tokens > budget) {
                self.calls_over += 1;
                self.over_calls.0 += price(one.cache_read, one.tokens);
                self.over_calls.1 += price(all.cache_read, all.tokens);
            }
        }
        self.tally.add(tally);
        self.whole.add(whole);
        if is_over {
            self.over.0 += input_cost(tally);
            self.over.1 += input_cost(whole);
            self.conversations_over += 1;
        }
    }

    fn line(&self, set: &str, name: &str) -> String {
        let figures = self.tally.figures(name, Some(&self.whole));
        let round = |share: f64| (share * 1e4).round() / 1e4;
        json!({
            "set": set, "manager": name, "arguments": figures.at_cut.argument_retention.map(round),
            "answers": figures.at_cut.answer_grounding.map(round),
            "of": [self.tally.kept_at_cut.arguments.of, self.tally.kept_at_cut.answer.of],
            "cost": figures.cost_ratio.map(round), "input_cost": round(input_cost(&self.tally) / input_cost(&self.whole).max(1.0)),
            "over_cost": round(self.over.0 / self.over.1.max(1.0)), "over": self.conversations_over, "conversations": self.conversations,
            "over_calls_cost": round(self.over_calls.0 / self.over_calls.1.max(1.0)), "over_calls": self.calls_over,
            "tokens_per_call": self.tally.input_tokens / self.tally.calls.max(1), "calls": self.tally.calls, "cuts": self.tally.cuts,
            "peak": self.tally.peak, "task": round(figures.task_kept), "violations": self.tally.violations,
            "infeasible": self.tally.infeasible, "ms_p50": figures.ms_p50, "ms_p99": figures.ms_p99,
        })
        .to_string()
    }
}

/// Reading and writing without the replies, in tokens of plain input.
fn input_cost(tally: &Tally) -> f64 {
    tally.cache_read as f64 * 0.1 + tally.cache_write as f64 * 1.25
}

/// The same of one call, of whose tokens so many are read from a cache.
fn price(read: u64, tokens: u64) -> f64 {
    read as f64 * 0.1 + tokens.saturating_sub(read) as f64 * 1.25
}

/// Writes to a file, creating it, or at its end.
fn append(file: &Path, text: &str) -> Fallible<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(text.as_bytes())?;
    Ok(())
}
