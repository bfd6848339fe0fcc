//! From the record to the request that is sent on.
//!
//! As long as nothing has to be left out, that is the client's own bytes. Above the high mark one cut is decided, recorded and
//! held, and the view is put into the body the client sent.

use std::sync::{Arc, LazyLock, OnceLock};

use axum::http::HeaderMap;
use bytes::Bytes;
use scrollback_agent::ModelSummarizer;
use scrollback_agent::config::ServerSettings;
use scrollback_agent::provider::Overflow;
use scrollback_agent::runner::{Repair, cut_to_fit, room_after};
use scrollback_core::json::{self, Raw};
use scrollback_core::manager::{self, Ask, Fit, SharedManager};
use scrollback_core::tokens::entry_tokens;
use scrollback_core::wire::check::{CheckOptions, Size, Strictness, Violation, check};
use scrollback_core::wire::repair::mend;
use scrollback_core::wire::{Purpose, RenderOptions, list_key, system_key};
use scrollback_core::{
    CurationContext, CurationError, Decision, Entry, Item, Reason, Record, Slot, Source, View,
    summarize_offline,
};
use scrollback_store::{Summarizer, Tenant};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use super::aside::{LARGE, aside};
use super::asked::{Asked, header};
use super::echo::OWN_ID;
use super::identity::Carries;
use super::record::Recorded;
use crate::App;
use crate::problem::Problem;

/// Rules about how much a model can read: cutting is a manager's business, not a repair.
const LENGTH: [&str; 3] = ["OC-13", "OR-19", "AN-21"];
/// Keys by which a request refers to what its provider holds.
const HELD: [&str; 2] = ["previous_response_id", "conversation"];

/// A request that is ready to be sent on.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    /// What the model is shown where that is not what the client said.
    said: Option<Vec<Entry>>,
    pub(crate) told: Told,
    pub(crate) epoch: Option<u64>,
    /// Chain over the bytes of the messages.
    pub(crate) prefix_hash: [u8; 32],
    /// The managers as canonical JSON.
    pub(crate) managers: Arc<str>,
}

impl Outgoing {
    /// A request that goes on as it came, and is not counted yet.
    pub(crate) fn untouched(asked: &Asked, managers: Arc<str>) -> Self {
        let count = asked.entries.len();
        let told = Told { entries: (count, count), tokens: None, by: PASSTHROUGH.into() };
        let body = asked.body.clone();
        Outgoing { body, said: None, told, epoch: None, prefix_hash: [0; 32], managers }
    }

    /// What the model is shown, for answers of our own.
    pub(crate) fn said<'a>(&'a self, asked: &'a Asked) -> &'a [Entry] {
        self.said.as_ref().unwrap_or(&asked.entries)
    }

    /// Tokens of it; 0 where nobody counted them.
    pub(crate) fn tokens(&self) -> usize {
        self.told.tokens.map_or(0, |(shown, _)| shown)
    }
}

/// What the client is told about the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Entries shown and recorded.
    pub(crate) entries: (usize, usize),
    /// Tokens shown and recorded; none while they are not counted.
    pub(crate) tokens: Option<(usize, usize)>,
    /// The managers that left something out or changed it.
    pub(crate) by: String,
}

impl Told {
    pub(crate) fn header(&self) -> String {
        let ((shown, all), (tokens, of)) = (self.entries, self.tokens.unwrap_or_default());
        format!("entries={shown}/{all}; tokens={tokens}/{of}; by={}", self.by)
    }
}

/// Managers, and how they are written.
#[derive(Clone)]
pub(crate) struct Policy {
    manager: SharedManager,
    /// The managers as canonical JSON.
    written: Arc<str>,
}

/// What fits the model.
static USUAL: LazyLock<Policy> = LazyLock::new(|| Policy::of(Arc::new(Fit::default())));

impl Policy {
    fn of(manager: SharedManager) -> Self {
        let written = manager.config().to_string().into();
        Policy { manager, written }
    }

    fn is_usual(&self) -> bool {
        self.written == USUAL.written
    }
}

/// How a request is curated: as it says itself, as the first policy that fits says, or by what fits its model.
pub(crate) fn policy(
    settings: &ServerSettings,
    tenant: &Tenant,
    headers: &HeaderMap,
    asked: &Asked,
) -> Result<Policy, Problem> {
    if let Some(text) = header(headers, "x-scrollback-managers") {
        return manager::parse(text).map(Policy::of).map_err(|error| {
            Problem::bad_request("bad_managers", format!("x-scrollback-managers: {error}"))
                .with("path", error.path())
        });
    }
    let route = asked.endpoint.route();
    let fits = settings.policies.iter().find(|policy| {
        let qualified = asked.model.as_ref().map(ToString::to_string);
        policy.fits(tenant, &asked.named, route)
            || qualified.is_some_and(|name| policy.fits(tenant, &name, route))
    });
    let configured = fits.map(|policy| &policy.managers).or(settings.managers.as_ref());
    Ok(configured.map_or_else(|| USUAL.clone(), |manager| Policy::of(Arc::clone(manager))))
}

/// A request that is being made ready.
pub(crate) struct Curating {
    app: App,
    pub(crate) asked: Asked,
    pub(crate) carries: Carries,
    policy: Policy,
    /// What a view depends on beside the record.
    pub(crate) cx: CurationContext,
    as_it_came: OnceLock<AsItCame>,
}

/// A record, and what was found out about it.
type Looked<T> = (Box<Recorded>, T);

impl Curating {
    pub(crate) fn new(app: &App, mut asked: Asked, carries: Carries, policy: Policy) -> Self {
        let mut cx = CurationContext::for_model(asked.model.clone());
        cx.tools = asked.tools.take();
        cx.wire = Some(asked.wire());
        cx.windows = app.catalog.windows();
        Curating { app: app.clone(), asked, carries, policy, cx, as_it_came: OnceLock::new() }
    }

    /// Begins to look at the client's own bytes on another thread, if they are many.
    pub(crate) fn begin_check(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let curating = (self.asked.body.len() >= LARGE).then(|| Arc::clone(self))?;
        Some(spawn_blocking(move || _ = curating.checked()))
    }

    /// The request as it is sent on. Decisions that follow are recorded first.
    pub(crate) async fn outgoing(
        self: &Arc<Self>,
        recorded: Box<Recorded>,
    ) -> Result<Looked<Outgoing>, Problem> {
        if self.goes_untouched(recorded.record()) {
            let outgoing = self.untouched(|| View::of(recorded.record(), &self.cx))?;
            return Ok((recorded, outgoing));
        }
        // Few requests come this far, and all of them would have to have room for it.
        Box::pin(self.curated(recorded)).await
    }

    async fn curated(self: &Arc<Self>, mut recorded: Box<Recorded>) -> Result<Looked<Outgoing>, Problem> {
        recorded.take_counts().await;
        let recorded = self.serve_summaries(recorded).await?;
        let (mut recorded, cut) = self.look(recorded, Self::new_cut).await?;
        if let Some(cut) = cut {
            self.app.metrics.add("scrollback_cuts_total", &[("by", self.policy.manager.name())], 1.0);
            recorded.decide(&self.app, cut).await?;
        }
        let (recorded, outgoing) = self.look(recorded, Self::rendered).await?;
        Ok((recorded, outgoing?))
    }

    /// Looks at a record, on another thread if it is a long one.
    async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        recorded: Box<Recorded>,
        look: impl FnOnce(&Self, &Record) -> T + Send + 'static,
    ) -> Result<Looked<T>, Problem> {
        let bytes = recorded.known.bytes().max(self.asked.body.len());
        let curating = Arc::clone(self);
        let looking = move || {
            let found = look(&curating, recorded.record());
            (recorded, found)
        };
        aside(bytes, looking).await
    }

    /// The same after the provider said that a request was too large; none if nothing can go.
    pub(crate) async fn tightened(
        self: &Arc<Self>,
        recorded: Box<Recorded>,
        overflow: Overflow,
        before: &Outgoing,
    ) -> Result<Looked<Option<Outgoing>>, Problem> {
        let Some(model) = &self.asked.model else { return Ok((recorded, None)) };
        let room = room_after(overflow, model, before.tokens());
        let cut = move |curating: &Self, record: &Record| {
            cut_to_fit(&View::of(record, &curating.cx), &curating.cx, room).map_err(|error| curation(&error))
        };
        let (mut recorded, cut) = self.look(recorded, cut).await?;
        let Some(cut) = cut? else { return Ok((recorded, None)) };
        self.app.metrics.add("scrollback_cuts_total", &[("by", "overflow")], 1.0);
        recorded.decide(&self.app, cut).await?;
        let (recorded, tightened) = self.look(recorded, Self::rendered).await?;
        let mut tightened = tightened?;
        if tightened.told.by == PASSTHROUGH {
            tightened.told.by = "token_budget".into();
        }
        Ok((recorded, Some(tightened)))
    }

    /// Writes the summaries that the manager asks for. One that fails leaves everything as it was.
    async fn serve_summaries(self: &Arc<Self>, recorded: Box<Recorded>) -> Result<Box<Recorded>, Problem> {
        let plan = |curating: &Self, record: &Record| record.plan(&curating.cx, &*curating.policy.manager);
        let (mut recorded, asks) = self.look(recorded, plan).await?;
        let Some(Ask::Summary(ask)) = asks.into_iter().next() else { return Ok(recorded) };
        let decision = if ask.summarizer == "offline" {
            summarize_offline(recorded.record(), &ask)
        } else {
            match self.app.catalog.provider_named(&ask.summarizer) {
                Ok(provider) => match ModelSummarizer::new(provider).write(recorded.record(), &ask).await {
                    Ok(text) => ask.answered(&text, &ask.summarizer, None),
                    Err(reason) => ask.failed(&reason),
                },
                Err(error) => ask.failed(&error.to_string()),
            }
        };
        recorded.decide(&self.app, decision).await?;
        Ok(recorded)
    }

    /// The cut that the manager made and the record does not have yet.
    fn new_cut(&self, record: &Record) -> Option<Decision> {
        if self.needs_no_view(record) {
            return None;
        }
        let view = record.view(&self.cx, &*self.policy.manager).ok()?;
        let cut = view.cut().filter(|_| view.epoch().is_some_and(|epoch| epoch.id > 0))?;
        let last = record.slots().iter().rev().find_map(|slot| match slot {
            Slot::Decision(decision, _) if matches!(decision.as_ref(), Decision::Cut { .. }) => {
                Some(decision)
            }
            _ => None,
        });
        let same = match (last.map(AsRef::as_ref), cut) {
            (Some(Decision::Cut { before, .. }), Decision::Cut { before: new, .. }) => before == new,
            _ => false,
        };
        (!same).then(|| cut.clone())
    }

    /// Whether it is plain without looking that everything is shown: nothing was ever decided, and there are fewer bytes
    /// than the model takes tokens.
    fn needs_no_view(&self, record: &Record) -> bool {
        let fits = self.policy.is_usual()
            && self.window().is_some_and(|window| (self.asked.body.len() as u64) < window / 8 * 7);
        fits && self.carries == Carries::History && !is_decided(record)
    }

    fn window(&self) -> Option<u64> {
        let model = self.asked.model.as_ref()?;
        let known = || scrollback_core::model::facts(model).map(|facts| facts.context_window);
        let windows = &self.cx.windows;
        // Mostly there are none, and nothing is written out to be looked for.
        let stated = if windows.is_empty() { None } else { windows.get(&model.to_string()).copied() };
        stated.or_else(known)
    }

    /// Whether the client's own bytes go on without a look at the record.
    fn goes_untouched(&self, record: &Record) -> bool {
        !self.is_held_here() && self.needs_no_view(record)
    }

    /// Whether the request goes on from a response that only this server has.
    fn is_held_here(&self) -> bool {
        self.asked.previous.as_ref().is_some_and(|id| id.contains(OWN_ID))
    }

    /// Whether the request goes on from something that is not in it.
    fn refers(&self) -> bool {
        self.asked.previous.is_some() || self.asked.thread.is_some()
    }

    /// The request as it came, with a look at the view only where it goes on from something that is not in it. Its tokens
    /// are not counted: that can be done while it is on its way.
    fn untouched<'r>(&self, view: impl FnOnce() -> View<'r>) -> Result<Outgoing, Problem> {
        let mut outgoing = Outgoing::untouched(&self.asked, Arc::clone(&self.policy.written));
        if self.refers() {
            let said: Vec<Entry> = view().items().map(|item| Entry::clone(&item.entry)).collect();
            outgoing.told.entries = (said.len(), said.len());
            outgoing.said = Some(said);
        }
        (outgoing.body, outgoing.prefix_hash) = self.as_it_came()?;
        Ok(outgoing)
    }

    /// Tokens of a request that goes on as it came, shown and recorded.
    pub(super) fn counted(&self, record: &Record) -> (usize, usize) {
        let tokens = View::of(record, &self.cx).count(&self.cx).total;
        (tokens, tokens)
    }

    /// The request that shows what is to be shown of a record.
    pub(super) fn rendered(&self, record: &Record) -> Result<Outgoing, Problem> {
        let everything = || View::of(record, &self.cx);
        if self.goes_untouched(record) {
            return self.untouched(everything);
        }
        let (view, (is_whole, by)) = if self.needs_no_view(record) {
            (everything(), (true, String::new()))
        } else {
            // Nobody knows how much the model takes, or it is too little for what must stay: its provider shall say.
            let view =
                record.view(&self.cx, &*self.policy.manager).unwrap_or_else(|_: CurationError| everything());
            let changes = changes(&view);
            (view, changes)
        };
        let tokens = view.count(&self.cx).total;
        if is_whole && self.carries == Carries::History && !self.is_held_here() {
            let epoch = epoch(&view);
            let mut outgoing = self.untouched(|| view)?;
            outgoing.told.tokens = Some((tokens, tokens));
            return Ok(Outgoing { epoch, ..outgoing });
        }
        let items: Vec<Item> = view.items().collect();
        let told = Told {
            entries: (items.len(), shown_of(record)),
            tokens: Some((tokens, self.recorded_tokens(record, &items, tokens))),
            by: if by.is_empty() { PASSTHROUGH.into() } else { by },
        };
        let said = Some(items.iter().map(|item| Entry::clone(&item.entry)).collect());
        let around = if self.refers() { self.asked.around.without(&HELD) } else { self.asked.around.clone() };
        let options = RenderOptions {
            purpose: Purpose::Send,
            model: self.asked.model.as_ref(),
            tools: self.cx.tools.as_ref(),
            manual_thinking: self.asked.around.asks_for_manual_thinking(),
            record: Some(record),
        };
        let wire = self.asked.wire();
        let mut rendered = wire.request(items, options, Some(&around));
        if !rendered.repairs.is_empty() {
            let broken: Vec<(String, String)> =
                rendered.repairs.iter().map(|repair| (repair.rule.into(), repair.path.clone())).collect();
            self.mended(&broken)?;
        }
        let prefix_hash = chain(rendered.system.as_deref(), rendered.messages.iter().map(String::as_str));
        let checked = rendered.take_checked().map(|checked| checked.body);
        let body = Bytes::from(checked.unwrap_or_else(|| rendered.body(wire, Some(&around))));
        let managers = Arc::clone(&self.policy.written);
        Ok(Outgoing { body, said, told, epoch: epoch(&view), prefix_hash, managers })
    }

    /// The client's own bytes, unless its provider would refuse them.
    fn as_it_came(&self) -> Result<(Bytes, [u8; 32]), Problem> {
        let AsItCame { body, prefix_hash, broken } = self.checked();
        if !broken.is_empty() {
            self.mended(broken)?;
        }
        Ok((body.clone(), *prefix_hash))
    }

    /// What the rules of its wire make of the client's own bytes.
    fn checked(&self) -> &AsItCame {
        self.as_it_came.get_or_init(|| self.check())
    }

    fn check(&self) -> AsItCame {
        let wire = self.asked.wire();
        let body = self.asked.body.clone();
        let as_it_is = |prefix_hash| AsItCame { body: body.clone(), prefix_hash, broken: Vec::new() };
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let Ok(raw) = json::check(text) else { return as_it_is([0; 32]) };
        let dialect = self.asked.model.as_ref().and_then(|model| self.app.catalog.dialect(model));
        // Whether it is too large is for the manager and the provider to say.
        let options = CheckOptions {
            model: self.asked.model.as_ref(),
            dialect: dialect.as_deref(),
            size: Size::NotJudged,
            ..CheckOptions::default()
        };
        let refers = self.refers();
        let matters = |violation: &Violation| {
            // What the provider holds is not in the list, and pairs with what is.
            let held = refers && ["OR-1", "OR-2", "OR-4", "OR-5"].contains(&violation.rule);
            violation.is_fatal(Strictness::Lenient) && !LENGTH.contains(&violation.rule) && !held
        };
        let broken: Vec<Violation> = check(wire, raw, options).into_iter().filter(matters).collect();
        if broken.is_empty() {
            return as_it_is(chain_of(wire, raw));
        }
        let broken = broken.iter().map(|violation| (violation.rule.into(), violation.path.clone())).collect();
        let mended = mend(wire, raw, options, &matters);
        let prefix_hash = json::check(&mended.body).map_or([0; 32], |raw| chain_of(wire, raw));
        AsItCame { body: mended.body.into(), prefix_hash, broken }
    }

    /// Notes that a list had to be mended; an error where it may not be.
    fn mended(&self, broken: &[(String, String)]) -> Result<(), Problem> {
        if self.app.settings.repair == Repair::Never {
            let (rule, path) = broken.first().cloned().unwrap_or_default();
            let list: Vec<_> =
                broken.iter().map(|(rule, path)| json!({ "rule": rule, "path": path })).collect();
            let detail =
                format!("the messages break rule {rule} of their provider at {path}, and are not repaired");
            return Err(Problem::bad_request("invalid_messages", detail)
                .with("rule", rule)
                .with("path", path)
                .with("violations", list));
        }
        self.app.metrics.add("scrollback_repairs_total", &[("wire", self.asked.wire().name())], 1.0);
        Ok(())
    }

    /// Tokens of everything that was said, instructions that were replaced aside: as many more than the view's as a plain
    /// count of both says, so that an estimate is corrected on both sides alike.
    fn recorded_tokens(&self, record: &Record, items: &[Item], shown: usize) -> usize {
        let (tokenizer, overhead) = (self.cx.counter.tokenizer, self.cx.overhead(self.cx.counter));
        let all = overhead + standing(record).map(|entry| entry_tokens(tokenizer, entry)).sum::<usize>();
        let view = overhead + items.iter().map(|item| entry_tokens(tokenizer, &item.entry)).sum::<usize>();
        (shown as f64 * all as f64 / view.max(1) as f64).round() as usize
    }
}

/// The client's own bytes, mended where their provider would refuse them.
struct AsItCame {
    body: Bytes,
    /// Chain over the bytes of the messages.
    prefix_hash: [u8; 32],
    /// Rules that were broken, and where.
    broken: Vec<(String, String)>,
}

/// What is said about a view that nobody changed.
pub(crate) const PASSTHROUGH: &str = "passthrough";

fn epoch(view: &View<'_>) -> Option<u64> {
    view.epoch().map(|epoch| epoch.id)
}

pub(crate) fn curation(error: &CurationError) -> Problem {
    Problem::bad_request(error.code(), error.to_string())
}

/// Whether anything was decided beyond which instructions stand first.
fn is_decided(record: &Record) -> bool {
    record.slots().iter().any(|slot| match slot {
        Slot::Decision(decision, _) => !matches!(decision.as_ref(), Decision::Lead { .. }),
        Slot::Message(_) => false,
        Slot::Erased(_) => true,
    })
}

/// Whether a view shows everything as it was said, and otherwise who did what. What is incoherent is not a manager's doing:
/// the check finds it in the client's own list.
fn changes(view: &View<'_>) -> (bool, String) {
    let explained = view.explain();
    let incoherent = |reason: Reason| {
        matches!(
            reason,
            Reason::OrphanResult
                | Reason::DuplicateResult
                | Reason::UnfinishedGroup
                | Reason::Moved
                | Reason::ReplacedLead
        )
    };
    let dropped = explained.dropped.iter().filter(|dropped| !incoherent(dropped.reason));
    let changed = explained.changed.iter().filter(|changed| !incoherent(changed.reason));
    let mut by: Vec<String> = Vec::new();
    let names =
        dropped.map(|dropped| dropped.manager.clone()).chain(changed.map(|changed| changed.manager.into()));
    for name in names {
        if !by.contains(&name) {
            by.push(name);
        }
    }
    let synthetic = view.items().any(|item| matches!(item.source, Source::Summary { .. }));
    (by.is_empty() && !synthetic, by.join(","))
}

/// The entries of a record, without instructions that others took the place of.
fn standing(record: &Record) -> impl Iterator<Item = &Entry> {
    let leads = record.slots().iter().rev().find_map(|slot| match slot {
        Slot::Decision(decision, _) => match decision.as_ref() {
            Decision::Lead { positions } => Some(positions.clone()),
            _ => None,
        },
        _ => None,
    });
    let leading = record
        .slots()
        .iter()
        .take_while(
            |slot| matches!(slot, Slot::Message(entry) if entry.role == scrollback_core::Role::System),
        )
        .count() as u64;
    (0..).zip(record.slots()).filter_map(move |(at, slot)| {
        let Slot::Message(entry) = slot else { return None };
        let instructs = at < leading || entry.is_lead();
        let replaced = leads.as_ref().is_some_and(|leads| instructs && !leads.contains(&at));
        (!replaced).then_some(entry.as_ref())
    })
}

fn shown_of(record: &Record) -> usize {
    standing(record).count()
}

/// Chain over the bytes of what is sent; equal prefixes have equal values.
fn chain<'m>(system: Option<&str>, messages: impl Iterator<Item = &'m str>) -> [u8; 32] {
    let start = *blake3::hash(system.unwrap_or_default().as_bytes()).as_bytes();
    messages.fold(start, |link, message| {
        let mut hash = blake3::Hasher::new();
        hash.update(&link).update(message.as_bytes());
        *hash.finalize().as_bytes()
    })
}

fn chain_of(wire: scrollback_core::wire::Wire, body: Raw<'_>) -> [u8; 32] {
    let system = system_key(wire).and_then(|key| body.get(key)).map(json::one_line);
    let list = body.get(list_key(wire)).into_iter().flat_map(Raw::elements);
    let messages: Vec<_> = list.map(json::one_line).collect();
    chain(system.as_deref(), messages.iter().map(AsRef::as_ref))
}
