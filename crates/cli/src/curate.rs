//! `scrollback curate`: what a model call would be sent.

use scrollback_core::json::Raw;
use scrollback_core::manager::{SharedManager, parse_list};
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::{
    Changed, CurationContext, Decision, Dropped, Epoch, HistoryCurated, Record, Source, Summaries, Tools,
    Unfinished, View, Warning,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::{CurateArgs, UnfinishedArg};
use crate::config::Config;
use crate::failure::{FAILED, Failure};
use crate::{batch, config, explain, input};

/// One curation, wherever it was asked for.
pub(crate) struct Job {
    pub(crate) manager: SharedManager,
    pub(crate) cx: CurationContext,
    pub(crate) from: Option<Wire>,
    pub(crate) to: Option<Wire>,
    pub(crate) take: Option<usize>,
}

/// The context of a model on the command line: its windows as configured, summaries written on the spot.
pub(crate) fn context(model: Option<ModelName>, config: &Config) -> CurationContext {
    CurationContext {
        windows: config.windows(),
        summaries: Summaries::InPlace,
        ..CurationContext::for_model(model)
    }
}

/// The `--json` object.
#[derive(Serialize)]
pub(crate) struct Answer {
    messages: Vec<Box<RawValue>>,
    wire: Wire,
    view: Vec<ViewItem>,
    dropped: Vec<Dropped>,
    changed: Vec<Changed>,
    warnings: Vec<Warning>,
    counts: Counts,
    tokens: Tokens,
    events: Vec<HistoryCurated>,
    decisions: Vec<Recorded>,
    epoch: Option<Epoch>,
    lost: Vec<serde_json::Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ViewItem {
    Entry {
        index: u64,
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
}

#[derive(Serialize)]
struct Counts {
    original: usize,
    curated: usize,
}

#[derive(Serialize)]
struct Tokens {
    original: usize,
    curated: usize,
    method: scrollback_core::tokens::Method,
    tokenizer: scrollback_core::tokens::Tokenizer,
}

#[derive(Serialize)]
struct Recorded {
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
    let from = input::wire_named(args.input.from.as_deref())?;
    let to = input::wire_named(args.to.as_deref())?;
    let job = Job { manager, cx, from, to, take: args.input.take };
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    let bytes = input::read(file)?;
    let finish = |curated: &Curated<'_>| {
        if args.explain {
            explain::print(curated);
        }
        if json {
            return input::print(&format!("{}\n", to_json(&curated.answer()?)?));
        }
        let messages = curated.wire.render(curated.view.items());
        input::print(&format!("{}\n", curated.body.with_messages(&messages)))
    };
    input::check(&bytes).and_then(|body| job.run(body, finish)).map_err(|failure| failure.about(file))
}

/// A finished curation with everything it came from.
pub(crate) struct Curated<'r> {
    pub(crate) view: &'r View<'r>,
    pub(crate) cx: &'r CurationContext,
    pub(crate) wire: Wire,
    pub(crate) body: &'r scrollback_core::wire::Body,
    /// What the reader had to assume.
    pub(crate) notes: &'r [String],
}

impl Job {
    /// Curates `body` and hands the result to `finish`.
    pub(crate) fn run<T>(
        mut self,
        body: Raw<'_>,
        finish: impl FnOnce(&Curated<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (wire, parsed) = input::parse(body, self.from, self.take)?;
        self.cx.tools = self.cx.tools.or(parsed.tools);
        let mut record = Record::new();
        for entry in parsed.entries {
            record.append(entry)?;
        }
        let view = record.view(&self.cx, &*self.manager)?;
        finish(&Curated {
            view: &view,
            cx: &self.cx,
            wire: self.to.unwrap_or(wire),
            body: &parsed.body,
            notes: &parsed.notes,
        })
    }
}

impl Curated<'_> {
    pub(crate) fn answer(&self) -> Result<Answer, Failure> {
        let record = self.view.record();
        let count = self.view.count(self.cx);
        let explanation = self.view.explain();
        let recorded = |(at, decision): (usize, &Decision)| Recorded {
            position: (record.len() + at) as u64,
            decision: decision.clone(),
        };
        let messages = self.wire.render(self.view.items()).into_iter().map(RawValue::from_string);
        Ok(Answer {
            messages: messages.collect::<Result<_, _>>().map_err(|error| unprintable(&error))?,
            wire: self.wire,
            view: self.view.items().map(|item| view_item(item.is_changed(), item.source)).collect(),
            dropped: explanation.dropped,
            changed: explanation.changed,
            warnings: self.view.warnings(),
            counts: Counts { original: record.message_count(), curated: count.per_entry.len() },
            tokens: Tokens {
                original: record.tokens(self.cx.counter) as usize + count.overhead,
                curated: count.total,
                method: count.counter.method,
                tokenizer: count.counter.tokenizer,
            },
            events: self.view.events().to_vec(),
            decisions: self.view.decisions().iter().enumerate().map(recorded).collect(),
            epoch: self.view.epoch(),
            lost: Vec::new(),
        })
    }
}

fn view_item(changed: bool, source: Source) -> ViewItem {
    match source {
        Source::Entry(index) => ViewItem::Entry { index, changed },
        Source::Interrupted { call_id } => ViewItem::Interrupted { synthetic: "interrupted", call_id },
        Source::Summary { covers } => ViewItem::Summary { synthetic: "summary", covers },
    }
}

/// An answer as one line of JSON.
pub(crate) fn to_json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| unprintable(&error))
}

fn unprintable(error: &serde_json::Error) -> Failure {
    Failure::new(FAILED, "internal", format!("the answer could not be printed: {error}"))
}
