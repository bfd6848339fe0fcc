//! `scrollback curate`: what a model call would be sent.

use std::io::Write as _;
use std::sync::Arc;

use scrollback_agent::config::{self, Config};
use scrollback_core::manager::{Passthrough, SharedManager, parse_list};
use scrollback_core::model::ModelName;
use scrollback_core::tokens::Counter;
use scrollback_core::wire::check::CheckOptions;
use scrollback_core::wire::repair::drop_parted_ids;
use scrollback_core::wire::{Body, LeftOut, Purpose, RenderOptions, Rendered, Wire, opening_tokens};
use scrollback_core::{
    CurationContext, Decision, Epoch, Explanation, Fidelity, HistoryCurated, ItemSource, Role, Summaries,
    Tools, Unfinished, View,
};
use serde::Serialize;
use serde_json::Value;

use crate::args::{CurateArgs, UnfinishedArg};
use crate::failure::Failure;
use crate::load::{Conversations, LoadOptions, LoadedInput, WhichConversation};
use crate::{answer, batch, convert, explain, input};

/// One curation, wherever it was asked for.
#[derive(Clone)]
pub(crate) struct CurateJob {
    pub(crate) manager: SharedManager,
    pub(crate) cx: CurationContext,
    pub(crate) to: Option<Wire>,
    pub(crate) how: LoadOptions,
}

/// The context of a model on the command line: its windows as configured, summaries written on the spot.
pub(crate) fn context(model: Option<ModelName>, config: &Config) -> CurationContext {
    let mut cx = CurationContext { summaries: Summaries::InPlace, ..CurationContext::for_model(model) };
    config.catalog().configure(&mut cx);
    cx
}

/// The `--json` object, beside the keys of the body.
#[derive(Serialize)]
struct CurateJson {
    wire: Wire,
    view: Vec<ViewItem>,
    dropped: Value,
    changed: Value,
    warnings: Value,
    counts: CurateCounts,
    tokens: CurateTokens,
    events: Vec<HistoryCurated>,
    decisions: Vec<RecordedSummary>,
    epoch: Option<Epoch>,
    lost: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<scrollback_core::wire::repair::Repair>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    which: WhichConversation,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ViewItem {
    Entry {
        index: Option<u64>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    Interrupted {
        synthetic: &'static str,
        call_id: String,
    },
    Summary {
        synthetic: &'static str,
        covers: Vec<u64>,
    },
    Ledger {
        synthetic: &'static str,
        of: Vec<u64>,
    },
    Opening {
        synthetic: &'static str,
    },
}

#[derive(Serialize)]
struct CurateCounts {
    original: usize,
    curated: usize,
}

#[derive(Serialize)]
struct CurateTokens {
    original: usize,
    curated: usize,
    method: scrollback_core::tokens::Method,
    tokenizer: scrollback_core::tokens::Tokenizer,
}

#[derive(Serialize)]
struct RecordedSummary {
    position: u64,
    #[serde(flatten)]
    decision: Decision,
}

pub(crate) fn run(args: &CurateArgs, json: bool) -> Result<(), Failure> {
    let config = config::load()?;
    if let Some(file) = &args.input.batch {
        return batch::curate(file, &config);
    }
    let manager = parse_list(&args.managers)?;
    let mut cx = context(input::model_named(args.input.model.as_deref())?, &config);
    cx.preserve_system = !args.no_system;
    cx.preserve_task = !args.no_task;
    cx.preserve_last_n = args.preserve_last;
    cx.unfinished = match args.unfinished {
        UnfinishedArg::Drop => Unfinished::Drop,
        UnfinishedArg::Close => Unfinished::Close,
    };
    cx.tools = args.tools.clone().map(Tools::named);
    let to = input::wire_named(args.to.as_deref())?;
    let job = CurateJob { manager, cx, to, how: LoadOptions::of(&args.input)? };
    let which = if args.input.all { Conversations::All } else { Conversations::One };
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    for loaded in job.how.load_asked(file, which)? {
        if which == Conversations::All {
            loaded.say_which(which);
        }
        job.clone().run(loaded, |curated| show(curated, args, json))?;
    }
    Ok(())
}

/// Prints a curation, and where it was asked for what it left out.
fn show(curated: &FinishedCuration<'_>, args: &CurateArgs, json: bool) -> Result<(), Failure> {
    if let Some(which) = args.explain {
        explain::print(curated, which);
    }
    if let Some(file) = &args.dropped {
        let text = format!("{}\n", curated.left_out());
        let written = input::create(file)?.write_all(text.as_bytes());
        written.map_err(|error| Failure::io(&file.display().to_string(), &error))?;
    }
    if json {
        return input::print(&format!("{}\n", to_json(curated)?));
    }
    let same = curated.wire == curated.loaded.wire && curated.loaded.transcript.is_none();
    let around = same.then_some(&curated.loaded.body);
    input::print(&format!("{}\n", curated.rendered.body(curated.wire, around)))?;
    if args.explain.is_none() {
        curated.loaded.notes.iter().for_each(|note| input::note(note));
    }
    convert::report(curated.loaded, &curated.rendered);
    Ok(())
}

/// A finished curation with everything it came from.
pub(crate) struct FinishedCuration<'r> {
    pub(crate) view: &'r View<'r>,
    pub(crate) cx: &'r CurationContext,
    pub(crate) wire: Wire,
    pub(crate) loaded: &'r LoadedInput,
    /// What would be sent.
    pub(crate) rendered: Rendered,
}

impl CurateJob {
    /// Curates what was loaded and hands the result to `finish`.
    pub(crate) fn run<T>(
        mut self,
        mut loaded: LoadedInput,
        finish: impl FnOnce(&FinishedCuration<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.cx.tools = match (self.cx.tools.take(), loaded.tools.take()) {
            (Some(wanted), Some(offered)) => Some(offered.only(wanted.names().to_vec())),
            (wanted, offered) => wanted.or(offered),
        };
        if self.cx.model.is_none()
            && let Some(model) = loaded.model.take()
        {
            self.cx.counter = Counter::for_model(Some(&model));
            self.cx.model = Some(model);
        }
        let wire = self.to.unwrap_or(loaded.wire);
        self.cx.wire = Some(wire);
        let view = loaded.record.view(&self.cx, &*self.manager)?;
        let options = RenderOptions {
            purpose: Purpose::Send,
            model: self.cx.model.as_ref(),
            tools: self.cx.tools.as_ref(),
            manual_thinking: loaded.body.asks_for_manual_thinking(),
            record: Some(&loaded.record),
        };
        // On its own wire an entry goes out as it came; what was wrong with it before is the business of `check`.
        let mut rendered = match self.to {
            Some(to) => to.request(view.items(), options, (to == loaded.wire).then_some(&loaded.body)),
            None => wire.render(view.items(), options),
        };
        if wire == Wire::OpenaiResponses && wire == loaded.wire {
            let before = loaded.record.view(&self.cx, &Passthrough)?;
            let before = wire.render(before.items(), options).messages;
            let options = CheckOptions { model: self.cx.model.as_ref(), ..CheckOptions::default() };
            drop_parted_ids(&mut rendered.messages, &before, options);
        }
        let defined = self.cx.tools.as_ref().and_then(Tools::wire) == Some(wire);
        if defined && loaded.transcript.is_none() {
            // They stand in the request as they came.
            rendered.tools = None;
        }
        if wire != loaded.wire {
            rendered.lost.extend(convert::settings(&loaded, convert::ToolConversion::Converted));
        }
        finish(&FinishedCuration { view: &view, cx: &self.cx, wire, loaded: &loaded, rendered })
    }
}

impl FinishedCuration<'_> {
    /// Who left out or changed what; the provider's rules included.
    pub(crate) fn explanation(&self) -> Explanation {
        let mut explanation = self.view.explain();
        LeftOut::explain(&self.rendered.left_out, &mut explanation);
        explanation
    }

    /// What was left out whole, as a list of messages in the format of the input.
    fn left_out(&self) -> String {
        let mut dropped: Vec<u64> = self.explanation().dropped.iter().map(|drop| drop.index).collect();
        dropped.sort_unstable();
        dropped.dedup();
        let item = |position: u64| {
            let entry = Arc::clone(self.loaded.record.entry(position)?);
            Some(scrollback_core::ViewItem {
                source: ItemSource::Entry(position),
                entry,
                fidelity: Fidelity::AsSaid,
            })
        };
        let items = dropped.into_iter().filter_map(item);
        self.loaded.wire.render(items, RenderOptions::default()).body(self.loaded.wire, Some(&Body::List))
    }

    /// One item per entry that is sent.
    fn items(&self) -> Vec<ViewItem> {
        // In order of position, one each.
        let left_out = &self.rendered.left_out;
        let fate = |position: u64| {
            left_out
                .binary_search_by_key(&position, |left| left.position)
                .ok()
                .and_then(|at| left_out.get(at))
        };
        let lead = self.view.items().take_while(|item| item.entry.role == Role::System).count();
        let items = self.view.items().filter_map(|item| {
            let changed = item.is_changed();
            Some(match item.source {
                ItemSource::Entry(position) => match fate(position) {
                    Some(left) if left.whole => return None,
                    left => ViewItem::Entry {
                        index: self.loaded.index(position),
                        changed: changed || left.is_some(),
                    },
                },
                ItemSource::Interrupted { call_id } => {
                    ViewItem::Interrupted { synthetic: "interrupted", call_id }
                }
                ItemSource::Ledger { of } => {
                    let of = of.iter().filter_map(|position| self.loaded.index(*position)).collect();
                    ViewItem::Ledger { synthetic: "ledger", of }
                }
                ItemSource::Summary { covers } => {
                    let mut covers: Vec<u64> =
                        covers.iter().filter_map(|position| self.loaded.index(*position)).collect();
                    covers.dedup();
                    ViewItem::Summary { synthetic: "summary", covers }
                }
            })
        });
        let mut items: Vec<ViewItem> = items.collect();
        if self.rendered.opened {
            items.insert(lead.min(items.len()), ViewItem::Opening { synthetic: "opening" });
        }
        items
    }
}

/// The answer as one line of JSON.
pub(crate) fn to_json(curated: &FinishedCuration<'_>) -> Result<String, Failure> {
    let record = curated.view.record();
    let count = curated.view.count(curated.cx);
    let explanation = curated.explanation();
    let recorded = |(at, decision): (usize, &Decision)| RecordedSummary {
        position: (record.len() + at) as u64,
        decision: decision.clone(),
    };
    let view = curated.items();
    let opening = if curated.rendered.opened { opening_tokens(count.counter.tokenizer) } else { 0 };
    let answer = CurateJson {
        wire: curated.wire,
        counts: CurateCounts { original: record.message_count(), curated: view.len() },
        view,
        dropped: answer::reindexed(&explanation.dropped, curated.loaded)?,
        changed: answer::reindexed(&explanation.changed, curated.loaded)?,
        warnings: answer::reindexed(&curated.view.warnings(), curated.loaded)?,
        tokens: CurateTokens {
            original: record.tokens(curated.cx.counter) as usize + count.overhead,
            curated: count.total + opening,
            method: count.counter.method,
            tokenizer: count.counter.tokenizer,
        },
        events: curated.view.events().to_vec(),
        decisions: curated.view.decisions().iter().enumerate().map(recorded).collect(),
        epoch: curated.view.epoch(),
        lost: answer::lost(&curated.rendered.lost, curated.loaded),
        repairs: curated.rendered.repairs.clone(),
        notes: curated.loaded.notes.clone(),
        which: curated.loaded.which_members(),
    };
    answer::with_body(curated.wire, &curated.rendered, &answer)
}
