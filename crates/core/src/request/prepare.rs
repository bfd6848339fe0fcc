//! One request, made ready: curated, rendered, checked, counted.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::cache_marks;
use super::caller_request::{CallerRequest, Carries, ClientBody, Surroundings, chain};
use super::ladder::Stated;
use super::new_entries::{replaced, standing_count};
use super::reference::{Reference, without_references};
use super::template::BodyTemplate;
use super::tokens::RequestTokens;
use crate::chain::Link;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::{Entry, Role};
use crate::error::CurationError;
use crate::event::HistoryCurated;
use crate::json;
use crate::manager::{Fit, HistoryManager, SharedManager};
use crate::record::Record;
use crate::view::{Dropped, Epoch, Fidelity::AsSaid, ItemSource, Reason, View, ViewItem};
use crate::wire::check::{Size, Strictness, Violation, check};
use crate::wire::repair::Repair;
use crate::wire::{Checked, ParseOptions, Purpose, RenderOptions, Rendered, Wire};

/// Who is named where the whole list is sent instead of a reference to what the provider holds.
const THREAD: &str = "thread";
/// Share of the promised error of estimates: a size finding that an estimate may be wrong about is left to the provider.
const DOUBT: usize = 10;

/// How requests of one caller are made.
#[derive(Clone)]
pub struct Policy {
    /// Which manager curates.
    pub manager: SharedManager,
    /// Its configuration as JSON, as it is written down with every call.
    pub written: Arc<str>,
    /// What happens to a request that breaks its provider's rules.
    pub invalid: Invalid,
    /// What happens where `fit` does not know the window of the model.
    pub unknown_window: UnknownWindow,
    /// Whether what was left out is listed entry by entry, which takes time in proportion to the record.
    pub explains: bool,
}

/// What happens to a request that breaks its provider's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Invalid {
    /// It is repaired; what cannot be repaired is an error, before anything is sent.
    #[default]
    Repaired,
    /// It is repaired; what cannot be repaired is sent, and its provider answers for itself. For other people's requests.
    RepairedOrSent,
    /// It is an error.
    Refused,
    /// It is an error, but only what a repair would change; the rest is sent.
    RefusedOrSent,
}

impl Invalid {
    fn repairs(self) -> bool {
        matches!(self, Invalid::Repaired | Invalid::RepairedOrSent)
    }

    /// Whether the request is a client's: its provider judges it, and its size.
    fn is_passed_on(self) -> bool {
        matches!(self, Invalid::RepairedOrSent | Invalid::RefusedOrSent)
    }
}

/// What happens where the window of a model is not known, or what must stay is larger than a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownWindow {
    /// An error: the manager was asked for.
    #[default]
    Fails,
    /// Everything is sent, and the provider says what is too much.
    SendsAll,
}

impl Policy {
    /// A policy for requests of our own.
    pub fn new(manager: SharedManager) -> Self {
        let written = manager.config().to_string().into();
        Policy {
            manager,
            written,
            invalid: Invalid::default(),
            unknown_window: UnknownWindow::default(),
            explains: false,
        }
    }

    /// A policy for requests that are passed on for a client.
    pub fn for_client(manager: SharedManager, invalid: Invalid) -> Self {
        Policy { invalid, unknown_window: UnknownWindow::SendsAll, ..Policy::new(manager) }
    }

    /// Whether the manager does nothing below the window of the model.
    fn only_fits(&self) -> bool {
        &*self.written == "\"fit\"" || *self.written == *Fit::default().config().to_string()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("manager", &self.written)
            .field("invalid", &self.invalid)
            .finish_non_exhaustive()
    }
}

/// How far a body is from what the caller had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// The client's own bytes.
    Untouched,
    /// The client's own bytes, but for what its provider would have refused.
    Repaired,
    /// Another list of messages in the client's request.
    Spliced,
    /// A request of our own.
    Rendered,
}

/// One message of a request, as traces show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RequestMessage {
    /// An entry of the record.
    Entry {
        /// Its position.
        index: u64,
        /// Whether it is sent otherwise than it was said.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    /// One message that stands for turns of a sub-agent.
    Coalesced {
        /// The entries it stands for.
        coalesced: Vec<u64>,
        /// The strategy that left them out.
        strategy: &'static str,
    },
    /// Something that was never said.
    Synthetic {
        /// What it is: `summary`, `ledger`, `interrupted`, `prompt`.
        synthetic: &'static str,
    },
}

impl RequestMessage {
    fn of(item: &ViewItem) -> Self {
        match item.source {
            ItemSource::Entry(index) => RequestMessage::Entry { index, changed: item.is_changed() },
            ItemSource::Interrupted { .. } => RequestMessage::Synthetic { synthetic: "interrupted" },
            ItemSource::Summary { .. } => RequestMessage::Synthetic { synthetic: "summary" },
            ItemSource::Ledger { .. } => RequestMessage::Synthetic { synthetic: "ledger" },
        }
    }
}

/// Everything one provider call will send, and why.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The exact bytes to send.
    pub body: Bytes,
    /// How far they are from what the caller had.
    pub fidelity: Fidelity,
    /// What is to be recorded before they are sent: cuts, shortened results.
    pub decisions: Vec<Decision>,
    /// What had to be repaired; empty for a request that broke no rule.
    pub repairs: Vec<Repair>,
    /// Its tokens; none while they are not counted, which only requests that are sent as they came leave for later.
    pub tokens: Option<RequestTokens>,
    /// Tokens of everything recorded, corrected like those of the request.
    pub tokens_recorded: Option<usize>,
    /// The messages of the view, in order; empty where the client's own list is sent.
    pub shown: Vec<RequestMessage>,
    /// What the view leaves out, where the policy asks for it.
    pub left_out: Vec<Dropped>,
    /// How many entries are shown, and how many are recorded.
    pub entries: (usize, usize),
    /// Who left something out or changed it: managers, `repair`, `thread`, `overflow`. Empty where nothing was.
    pub by: Vec<String>,
    /// The epoch, where a sticky manager is at work.
    pub epoch: Option<Epoch>,
    /// Chain over the bytes of the messages; equal prefixes have equal values.
    pub prefix_hash: Link,
    /// What observed managers reported.
    pub events: Vec<HistoryCurated>,
    /// The body as what it shares with the record; none where the caller chose the entries itself.
    pub template: Option<BodyTemplate>,
    /// What the model is shown, where that is not what the client said; kept for answers without a provider and for spans.
    pub said: Option<Vec<Entry>>,
}

/// Why no request was made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrepareError {
    /// The manager cannot do what it was asked for.
    Curation(CurationError),
    /// The request breaks rules of its provider, and may or can not be repaired.
    Invalid {
        /// The rules, and where they are broken.
        broken: Vec<(&'static str, String)>,
        /// In words.
        message: String,
    },
    /// It is larger than its model takes: there are steps that make it smaller.
    TooLarge {
        /// What is known about its size.
        stated: Stated,
        /// Its tokens.
        tokens: RequestTokens,
    },
    /// It goes on from something that is not all here, and its provider cannot be left to go on by itself: the client has to
    /// send the whole conversation.
    Unresolved(Reference),
}

impl PrepareError {
    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self {
            PrepareError::Curation(error) => error.code(),
            PrepareError::Invalid { .. } => "invalid_request",
            PrepareError::TooLarge { .. } => "context_overflow",
            PrepareError::Unresolved(_) => "unresolved_reference",
        }
    }
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Curation(error) => error.fmt(f),
            PrepareError::Invalid { message, .. } => f.write_str(message),
            PrepareError::TooLarge { stated, tokens } => f.write_str(&super::too_large(*stated, tokens)),
            PrepareError::Unresolved(reference) => {
                let id = reference.id();
                write!(
                    f,
                    "the request continues from {id}, which is not in the record; send the whole conversation"
                )
            }
        }
    }
}

impl std::error::Error for PrepareError {}

/// Makes the next request: what the manager shows of the record, in the provider's format, within its rules.
///
/// Pure: the same record, request, policy and context give the same bytes.
pub fn prepare(
    record: &Record,
    asked: &CallerRequest,
    policy: &Policy,
    cx: &CurationContext,
) -> Result<Prepared, PrepareError> {
    let everything = || View::of(record, cx);
    let client = asked.client.as_ref();
    let named = asked.names_unkept_items();
    // A request that could not be recorded is sent as it came.
    let carried = |client: &ClientBody| client.carries == Carries::History && !named;
    let whole = client.is_some_and(|client| carried(client) || record.is_empty());
    let refers = client.and_then(|client| client.refers.as_ref());
    if let Some(reference) = refers.filter(|reference| !reference.is_in(record)) {
        // Only its provider can go on from there.
        let unresolved = || PrepareError::Unresolved(reference.clone());
        return if whole { untouched(asked, policy, everything, cx) } else { Err(unresolved()) };
    }
    if whole && needs_no_view(record, asked, policy, cx) {
        return untouched(asked, policy, everything, cx);
    }
    let view = match policy.manager.curate(View::to_send(record, cx), cx) {
        Ok(view) => view,
        Err(CurationError::WindowTooSmall { needed, window }) if !policy.invalid.is_passed_on() => {
            return Err(too_large_for(&everything(), cx, needed, window));
        }
        // The window is unknown, or too small for what must stay: the provider decides.
        Err(_) if policy.unknown_window == UnknownWindow::SendsAll => everything(),
        Err(error) => return Err(PrepareError::Curation(error)),
    };
    let decisions = decisions(record, &view, cx);
    let (is_whole, by) = changes(&view);
    if is_whole && whole {
        let (epoch, tokens) = (view.epoch(), RequestTokens::of(&view, cx));
        let prepared = untouched(asked, policy, || view, cx)?;
        return Ok(Prepared {
            epoch,
            tokens: prepared.tokens.or(Some(tokens)),
            tokens_recorded: prepared.tokens_recorded.or(Some(tokens.total)),
            decisions,
            ..prepared
        });
    }
    if let Some(reference) = refers
        && client.is_some_and(|client| client.surroundings == Surroundings::WithProvider)
    {
        return Err(PrepareError::Unresolved(reference.clone()));
    }
    let tokens = RequestTokens::of(&view, cx);
    let mut items: Vec<ViewItem> = view.items().collect();
    let shown = items.iter().map(RequestMessage::of).collect();
    let said = asked.client.is_some().then(|| items.iter().map(|item| Entry::clone(&item.entry)).collect());
    let recorded = recorded_tokens(record, &tokens, cx);
    let left_out = if policy.explains && view.len() < record.message_count() {
        view.explain().dropped
    } else {
        Vec::new()
    };
    let recorded_as: Vec<(u64, Arc<Entry>)> =
        items.iter().filter_map(|item| place_of(record, item)).collect();
    speak_as_the_client(&mut items, asked);
    let rendered = render(items, Some(record), asked, cx);
    let made = finish(Some(record), rendered, asked, policy, &tokens, cx)?;
    let entries_of = recorded_as.iter().map(|(position, entry)| (*position, entry.as_ref()));
    Ok(Prepared {
        template: Some(BodyTemplate::of(asked.wire, &made.body, entries_of)),
        fidelity: if asked.client.is_some() { Fidelity::Spliced } else { Fidelity::Rendered },
        decisions,
        tokens: Some(tokens),
        tokens_recorded: Some(recorded),
        shown,
        left_out,
        entries: (view.len(), standing_count(record)),
        by: stages(by, &made.repairs, asked),
        epoch: view.epoch(),
        events: view.events().to_vec(),
        said,
        body: made.body,
        repairs: made.repairs,
        prefix_hash: made.prefix_hash,
    })
}

/// Makes a request of entries that the caller chose itself: turns of a sub-agent, a text to be summarised.
pub fn prepare_items(
    items: Vec<ViewItem>,
    shown: Vec<RequestMessage>,
    recorded: usize,
    asked: &CallerRequest,
    policy: &Policy,
    cx: &CurationContext,
) -> Result<Prepared, PrepareError> {
    let tokens = RequestTokens::of_items(&items, cx);
    let count = items.len();
    let rendered = render(items, None, asked, cx);
    let made = finish(None, rendered, asked, policy, &tokens, cx)?;
    Ok(Prepared {
        template: None,
        fidelity: Fidelity::Rendered,
        decisions: Vec::new(),
        tokens: Some(tokens),
        tokens_recorded: None,
        shown,
        left_out: Vec::new(),
        entries: (count, recorded),
        by: stages(Vec::new(), &made.repairs, asked),
        epoch: None,
        events: Vec::new(),
        said: None,
        body: made.body,
        repairs: made.repairs,
        prefix_hash: made.prefix_hash,
    })
}

/// Whether it is plain without looking that everything is shown: nothing was ever decided, and the body has fewer bytes than
/// the model takes tokens.
fn needs_no_view(record: &Record, asked: &CallerRequest, policy: &Policy, cx: &CurationContext) -> bool {
    // What a request refers to is part of it, and not in its bytes.
    let plain = |client: &&ClientBody| client.refers.is_none() && policy.only_fits();
    let Some(client) = asked.client.as_ref().filter(plain) else { return false };
    let limit = Fit::default().limit(cx).ok();
    limit.is_some_and(|limit| client.bytes.len() < limit) && !is_decided(record)
}

/// Whether anything was decided or erased that a client's own list does not show already.
fn is_decided(record: &Record) -> bool {
    record.decided.beyond_client || record.erased_count() > 0
}

/// The client's own request. Its tokens are not counted: that can be done while it is on its way.
fn untouched<'r>(
    asked: &CallerRequest,
    policy: &Policy,
    view: impl FnOnce() -> View<'r>,
    cx: &CurationContext,
) -> Result<Prepared, PrepareError> {
    let view = view();
    let (Some(client), Some(came)) = (&asked.client, asked.as_it_came(view.record())) else {
        return Err(PrepareError::Invalid {
            broken: Vec::new(),
            message: "there is no request to send".into(),
        });
    };
    if !came.repairs.is_empty() && !policy.invalid.repairs() {
        return Err(refused(&came.repairs));
    }
    let mut items: Vec<ViewItem> = view.items().collect();
    if view.is_compacted() {
        // The client's list has everything still.
        items = View::of(view.record(), &CurationContext::default()).items().collect();
    }
    let count = items.len();
    let recorded_as: Vec<(u64, Arc<Entry>)> =
        items.iter().filter_map(|item| place_of(view.record(), item)).collect();
    let entries_of = recorded_as.iter().map(|(position, entry)| (*position, entry.as_ref()));
    let template = Some(BodyTemplate::of(asked.wire, &came.body, entries_of));
    // What goes on from elsewhere is not in the list that came.
    let said = client.refers.is_some().then(|| items.iter().map(|item| Entry::clone(&item.entry)).collect());
    let mut prepared = Prepared {
        body: came.body.clone(),
        fidelity: Fidelity::Untouched,
        decisions: Vec::new(),
        repairs: came.repairs.clone(),
        tokens: None,
        tokens_recorded: None,
        shown: Vec::new(),
        left_out: Vec::new(),
        entries: (count, count),
        by: Vec::new(),
        epoch: None,
        prefix_hash: came.prefix_hash,
        events: Vec::new(),
        template,
        said,
    };
    if !came.repairs.is_empty() {
        // What is sent is not what the view shows: it is counted as it is sent.
        let sent = entries_in(asked.wire, &came.body);
        let tokens = RequestTokens::of_items(&sent, cx);
        prepared.fidelity = Fidelity::Repaired;
        prepared.by.push(REPAIR.into());
        prepared.entries = (sent.len(), standing_count(view.record()));
        prepared.tokens_recorded = Some(recorded_tokens(view.record(), &tokens, cx));
        prepared.tokens = Some(tokens);
    }
    Ok(prepared)
}

/// The entries of a body.
fn entries_in(wire: Wire, body: &[u8]) -> Vec<ViewItem> {
    let parsed =
        json::check_bytes(body).ok().and_then(|body| wire.parse(body, &ParseOptions::default()).ok());
    let entries = parsed.map(|parsed| parsed.entries).unwrap_or_default();
    let item = |(place, entry)| ViewItem {
        source: ItemSource::Entry(place),
        entry: Arc::new(entry),
        fidelity: AsSaid,
    };
    (0..).zip(entries).map(item).collect()
}

/// The entry an item is made of, as it is recorded.
fn place_of(record: &Record, item: &ViewItem) -> Option<(u64, Arc<Entry>)> {
    match item.source {
        ItemSource::Entry(position) => record.entry(position).map(|entry| (position, Arc::clone(entry))),
        _ => None,
    }
}

/// The instructions as the client spells them now, with its own cache marks: those of the record are from another call.
fn speak_as_the_client(items: &mut [ViewItem], asked: &CallerRequest) {
    let lead = items.iter().take_while(|item| item.entry.role == Role::System).count();
    let Some(lead) = items.get_mut(..lead) else { return };
    let said = lead.iter().filter(|item| matches!(item.source, ItemSource::Entry(_))).count();
    // After a cut, instructions that were given in the middle may stand behind them.
    if said < asked.instructions.len() {
        return;
    }
    let entries = lead.iter_mut().filter(|item| matches!(item.source, ItemSource::Entry(_)));
    for (item, own) in entries.zip(&asked.instructions) {
        item.entry = Arc::new(own.clone());
    }
}

fn render(
    items: Vec<ViewItem>,
    record: Option<&Record>,
    asked: &CallerRequest,
    cx: &CurationContext,
) -> Rendered {
    let options = RenderOptions {
        purpose: Purpose::Send,
        model: asked.model.as_ref(),
        tools: cx.tools.as_ref(),
        manual_thinking: asked.around.asks_for_manual_thinking(),
        record,
    };
    asked.wire.request_marked(items, options, Some(&around(asked)), &asked.marks())
}

/// What stands around the messages: without references to what the provider holds, where the whole list is sent.
fn around(asked: &CallerRequest) -> crate::wire::Body {
    match &asked.client {
        Some(client) => without_references(&asked.around, client.refers.as_ref(), client.threads),
        None => asked.around.clone(),
    }
}

/// A body that may be sent.
struct Made {
    body: Bytes,
    repairs: Vec<Repair>,
    prefix_hash: Link,
}

fn finish(
    record: Option<&Record>,
    mut rendered: Rendered,
    asked: &CallerRequest,
    policy: &Policy,
    tokens: &RequestTokens,
    cx: &CurationContext,
) -> Result<Made, PrepareError> {
    if !rendered.repairs.is_empty() && !policy.invalid.repairs() {
        return Err(refused(&rendered.repairs));
    }
    if !policy.invalid.is_passed_on()
        && let Some(error) = judged_too_large(asked.wire, tokens, cx)
    {
        return Err(error);
    }
    let prefix_hash = chain(rendered.system.as_deref(), rendered.messages.iter().map(String::as_str));
    // It was checked when it was rendered, but for what a host of its own kind wants.
    let checked = rendered.take_checked().filter(|_| asked.dialect.is_none());
    let Checked { body, violations } = if let Some(checked) = checked {
        checked
    } else {
        let body = rendered.body(asked.wire, Some(&around(asked)));
        let violations = json::check(&body)
            .map(|raw| {
                let found = check(asked.wire, raw, asked.check_options(Size::NotJudged));
                let replies = record.map(|record| rendered.replies(asked.wire, record)).unwrap_or_default();
                replies.without_exempt(asked.wire, raw, found)
            })
            .map_err(|error| invalid(Vec::new(), error.to_string()))?;
        Checked { body, violations }
    };
    let fatal = |violation: &&Violation| violation.is_fatal(Strictness::Lenient);
    if !policy.invalid.is_passed_on()
        && let Some(broken) = violations.iter().find(fatal)
    {
        let message = format!("{} at {}: {}", broken.rule, broken.path, broken.message);
        return Err(invalid(vec![(broken.rule, broken.path.clone())], message));
    }
    Ok(Made { body: body.into(), repairs: rendered.repairs, prefix_hash })
}

/// Whether the provider would surely refuse a request of so many tokens.
fn judged_too_large(wire: Wire, tokens: &RequestTokens, cx: &CurationContext) -> Option<PrepareError> {
    let window = cx.window_of(cx.model.as_ref()?)?;
    let reply = if wire == Wire::Anthropic { cx.output.unwrap_or(0).min(window / 2) } else { 0 };
    let limit = (window - reply) as usize;
    let sure = if tokens.exact { limit } else { limit + limit / DOUBT };
    (tokens.total > sure).then_some(PrepareError::TooLarge {
        stated: Stated { limit: Some(limit as u64), size: Some(tokens.total as u64) },
        tokens: *tokens,
    })
}

/// What must stay does not fit the window.
fn too_large_for(view: &View<'_>, cx: &CurationContext, needed: usize, window: usize) -> PrepareError {
    let stated = Stated { limit: Some(window as u64), size: Some(needed as u64) };
    PrepareError::TooLarge { stated, tokens: RequestTokens::of(view, cx) }
}

fn invalid(broken: Vec<(&'static str, String)>, message: String) -> PrepareError {
    PrepareError::Invalid { broken, message }
}

/// Repairs would be needed, and are not wanted.
fn refused(repairs: &[Repair]) -> PrepareError {
    let broken: Vec<(&'static str, String)> =
        repairs.iter().map(|repair| (repair.rule, repair.path.clone())).collect();
    let list: Vec<String> = broken.iter().map(|(rule, path)| format!("{rule} {path}")).collect();
    invalid(broken, format!("the request breaks its provider's rules: {}", list.join(", ")))
}

/// What the managers decided and the record does not have yet: a cut that moved, results that were shortened.
pub fn decisions(record: &Record, view: &View<'_>, cx: &CurationContext) -> Vec<Decision> {
    let mut new = Vec::new();
    let epoch = view.epoch().map_or(0, |epoch| epoch.id);
    if let Some(cut @ Decision::Cut { before, .. }) = view.cut().filter(|_| epoch > 0) {
        let known = record.decided.cut(cx.scope.as_deref());
        let before = record.groups.at_or_after(*before);
        // Instructions in the middle that come to stand first after a cut become part of the lead: the first group after
        // the cut is another one then, and nothing was cut.
        if known.is_none_or(|known| epoch > known.epoch && known.before != before) {
            new.push(cut.clone());
        }
    }
    let summaries = |decision: &&Decision| !matches!(decision, Decision::Summary { .. });
    new.extend(view.decisions().iter().filter(summaries).cloned());
    new
}

/// Whether a view shows everything as it was said, so that a client that sent the history sent these very bytes.
pub fn is_whole(view: &View<'_>) -> bool {
    changes(view).0
}

/// Whether a view shows everything as it was said, and otherwise who did what. What is incoherent is not a manager's doing:
/// the check finds it in the client's own list. What the client itself changed or gave up is in its list that way already, and
/// what the provider compacts or clears by itself it does again.
fn changes(view: &View<'_>) -> (bool, Vec<String>) {
    let by_a_manager = |reason: Reason| {
        !matches!(
            reason,
            Reason::OrphanResult
                | Reason::DuplicateResult
                | Reason::UnfinishedGroup
                | Reason::Moved
                | Reason::ReplacedLead
                | Reason::Superseded
                | Reason::ChangedByClient
                | Reason::Compacted
                | Reason::ClearedByProvider
        )
    };
    let by = view.altered_by(by_a_manager);
    (by.is_empty() && !view.has_summary(), by)
}

/// The stage that repairs what a provider would refuse.
const REPAIR: &str = "repair";

/// Everything that made a request another one than the client's: the managers that did something, the repair if there was
/// one, and the history that the client left to others to supply.
fn stages(mut by: Vec<String>, repairs: &[Repair], asked: &CallerRequest) -> Vec<String> {
    if !repairs.is_empty() {
        by.push(REPAIR.into());
    }
    let refers = |client: &ClientBody| client.refers.is_some() || client.carries == Carries::News;
    if asked.client.as_ref().is_some_and(refers) || asked.names_unkept_items() {
        by.push(THREAD.into());
    }
    by
}

/// Tokens of everything that was said, instructions that were replaced aside, and of what stands around the messages.
fn recorded_tokens(record: &Record, tokens: &RequestTokens, cx: &CurationContext) -> usize {
    let replaced = replaced(record).into_iter();
    let replaced: usize = replaced.map(|at| record.entry_tokens(cx.counter, at as u32)).sum();
    let said = usize::try_from(record.tokens(cx.counter)).unwrap_or(usize::MAX);
    let around = tokens.total.saturating_sub(tokens.instructions + tokens.messages);
    around + said.saturating_sub(replaced)
}

impl Wire {
    /// As [`Wire::request`], with cache marks where the client's request had them.
    pub(crate) fn request_marked(
        self,
        items: Vec<ViewItem>,
        options: RenderOptions<'_>,
        around: Option<&crate::wire::Body>,
        client: &cache_marks::ClientMarks,
    ) -> Rendered {
        self.request_with(items, options, around, |messages| cache_marks::place(self, messages, client))
    }
}
