//! Recorded conversations again, call by call, under other managers.

mod transcripts;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use scrollback_core::CurationContext;
use scrollback_core::model::{ModelName, usual_model};
use scrollback_core::replay::{
    Advice, CompareOptions, Entrant, Field, Figures, Losses, Lost, Replayed, Tally, advice, compare, length,
};
use scrollback_core::tokens::Counter;
use serde_json::{Value, json};

use crate::error::Result;
use crate::messages::model_named;
use crate::shown::manager_from;
pub use transcripts::{ReplayContent, ReplaySource, ReplaySources, UnreadTranscript};

/// What is compared, and what is told about it.
#[derive(Clone, Debug, Default)]
pub struct SimulationOptions {
    /// The managers, or the usual field; a `B` in them stands for each budget.
    pub field: Field,
    /// The model that counts and whose prices are taken; that of most replies if not given.
    pub model: Option<String>,
    /// Whether every value that was lost is listed, and how long caches live.
    pub how: CompareOptions,
}

/// What managers would have sent, cost and lost.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// The model that counted and whose prices were taken.
    pub model: Option<String>,
    /// The managers, in order.
    pub managers: Vec<String>,
    /// Every conversation with its figures.
    pub transcripts: Vec<SimulatedConversation>,
    /// One for each manager, over all conversations.
    pub figures: Vec<Figures>,
    /// What could not be read.
    pub failed: Vec<UnreadTranscript>,
}

/// What one conversation came to.
#[derive(Clone, Debug)]
pub struct SimulatedConversation {
    /// The file it is from; none for one of a store.
    pub file: Option<PathBuf>,
    /// Its place in the file, from 0, or its id in the store.
    pub id: Value,
    /// Calls that were repeated.
    pub calls: u64,
    /// One for each manager.
    pub figures: Vec<Figures>,
    /// What each manager would have lost, where that was asked for.
    pub lost: Vec<Vec<LostValue>>,
}

/// A value that a reply used and that its view would not have shown, with places that can be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostValue {
    /// The value.
    pub value: String,
    /// What needed it: `argument` or `answer`.
    pub needed_by: &'static str,
    /// The call that needed it.
    pub call: String,
    /// Where it stood.
    pub stood_at: String,
    /// Why it was not in the view.
    pub why: String,
}

/// Replays the transcripts in these files and folders under each manager, as `scrollback simulate` does. Stops soon after
/// `wanted` becomes false; the figures are then those up to there.
pub fn simulate(
    paths: &[PathBuf],
    options: &SimulationOptions,
    wanted: &AtomicBool,
) -> Result<SimulationReport> {
    let named = options.model.as_deref().map(|name| model_named(name, None)).transpose()?;
    // Texts that are given are read first: a mistake in them is told before anything is replayed.
    for text in &options.field.managers {
        if !text.contains('B') {
            manager_from(text)?;
        }
    }
    let sources = ReplaySources::read(paths, None, None)?;
    let cx = CurationContext::for_model(named.or_else(|| sources.usual_model()));
    let texts = sources.managers(&options.field, &cx);
    let entrants: Vec<Entrant> = texts
        .into_iter()
        .map(|name| Ok(Entrant { manager: manager_from(&name)?, name }))
        .collect::<Result<_>>()?;
    Ok(sources.replay(&entrants, &cx, options.how, &|| {}, wanted))
}

impl ReplaySources {
    /// The model that most replies name, of the conversations that are in memory.
    pub fn usual_model(&self) -> Option<ModelName> {
        let held = self.conversations.iter().filter_map(|source| source.content.as_ref());
        usual_model(held.flat_map(|content| &content.slots))
    }

    /// The managers that are compared over these conversations.
    pub fn managers(&self, field: &Field, cx: &CurationContext) -> Vec<String> {
        let longest = if field.needs_lengths() { self.longest(cx.counter) } else { 0 };
        let knows_window = cx.model.as_ref().is_some_and(|model| cx.window_of(model).is_some());
        field.texts(longest, knows_window)
    }

    /// Tokens of the longest history.
    fn longest(&self, counter: Counter) -> u64 {
        let of_job = |job: &transcripts::ReplayJob| {
            let sources = self.conversations.get(job.first..job.first + job.count).unwrap_or_default();
            let contents = transcripts::contents(sources);
            contents.iter().map(|content| length(&content.slots, counter)).max().unwrap_or(0)
        };
        transcripts::jobs(&self.conversations).iter().map(of_job).max().unwrap_or(0)
    }

    /// Replays every conversation under every manager, several at a time. `done` is called after each conversation.
    pub fn replay(
        self,
        entrants: &[Entrant],
        cx: &CurationContext,
        how: CompareOptions,
        done: &(dyn Fn() + Sync),
        wanted: &AtomicBool,
    ) -> SimulationReport {
        let jobs = transcripts::jobs(&self.conversations);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
        let next = AtomicUsize::new(0);
        let replayed: Mutex<Vec<(usize, Replayed)>> =
            Mutex::new(Vec::with_capacity(self.conversations.len()));
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sources = self.conversations.get(job.first..job.first + job.count).unwrap_or_default();
                for (number, content) in transcripts::contents(sources).into_iter().enumerate() {
                    let one = replay_one(&content, entrants, cx, how, wanted);
                    replayed.lock().unwrap_or_else(PoisonError::into_inner).push((job.first + number, one));
                    done();
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let mut replayed = replayed.into_inner().unwrap_or_else(PoisonError::into_inner);
        replayed.sort_by_key(|(at, _)| *at);
        let mut sum = Replayed { tallies: vec![Tally::default(); entrants.len()], ..Replayed::default() };
        for (_, one) in &replayed {
            sum.add(one);
        }
        let transcripts = self.conversations.iter().zip(&replayed);
        let transcripts = transcripts.map(|(source, (_, one))| SimulatedConversation {
            file: source.file.clone(),
            id: source.id.clone(),
            calls: one.everything.calls,
            figures: one.figures(entrants),
            lost: one
                .tallies
                .iter()
                .map(|tally| tally.lost.iter().map(|lost| LostValue::of(source, lost)).collect())
                .collect(),
        });
        SimulationReport {
            model: cx.model.as_ref().map(ToString::to_string),
            managers: entrants.iter().map(|entrant| entrant.name.clone()).collect(),
            transcripts: transcripts.collect(),
            figures: sum.figures(entrants),
            failed: self.failed,
        }
    }
}

fn replay_one(
    content: &ReplayContent,
    entrants: &[Entrant],
    cx: &CurationContext,
    how: CompareOptions,
    wanted: &AtomicBool,
) -> Replayed {
    let cx = CurationContext {
        tools: content.tools.clone(),
        wire: content.wire,
        output: content.output,
        ..cx.clone()
    };
    let began = Instant::now();
    let clock = || began.elapsed().as_secs_f64() * 1e3;
    compare(&content.slots, entrants, &cx, how, &clock, wanted)
}

impl LostValue {
    fn of(source: &ReplaySource, lost: &Lost) -> Self {
        LostValue {
            value: lost.value.clone(),
            needed_by: lost.needed_by,
            call: source.place(lost.call),
            stood_at: source.place(lost.stood_at),
            why: lost.why.clone(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "value": self.value,
            "needed_by": self.needed_by,
            "call": self.call,
            "stood_at": self.stood_at,
            "why": self.why,
        })
    }
}

impl SimulationReport {
    /// Which manager to take; none if no call was replayed.
    pub fn advice(&self) -> Option<Advice> {
        advice(&self.figures.iter().collect::<Vec<_>>())
    }

    /// The report as `scrollback simulate --json` prints it.
    pub fn json(&self, losses: Losses) -> Value {
        let transcript = |one: &SimulatedConversation| {
            let mut managers: Vec<Value> = one.figures.iter().map(Figures::json).collect();
            if losses == Losses::Listed {
                for (figures, lost) in managers.iter_mut().zip(&one.lost) {
                    if let Some(members) = figures.as_object_mut() {
                        members.insert("lost".into(), lost.iter().map(LostValue::json).collect());
                    }
                }
            }
            json!({
                "file": one.file.as_deref().map(Path::display).map(|file| file.to_string()),
                "conversation": one.id,
                "calls": one.calls,
                "managers": managers,
            })
        };
        let failed =
            |one: &UnreadTranscript| json!({ "file": one.file, "line": one.line, "problem": one.problem });
        json!({
            "model": self.model,
            "transcripts": self.transcripts.iter().map(transcript).collect::<Vec<_>>(),
            "total": self.figures.iter().map(Figures::json).collect::<Vec<_>>(),
            "failed": self.failed.iter().map(failed).collect::<Vec<_>>(),
        })
    }
}
