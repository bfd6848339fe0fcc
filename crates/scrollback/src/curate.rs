//! Curating a list of messages that is kept elsewhere.

use scrollback_core::wire::{Body, ParseOptions, Rendered, Wire};
use scrollback_core::{CurationContext, Explanation, ItemSource, Record, Summaries, ViewItem, json};
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::messages::{model_named, wire_of};
use crate::shown::{ViewOptions, described, manager_from};
use crate::view::{Request, View};

/// What [`curate`] made of a list of messages.
#[derive(Debug)]
pub struct Curated {
    /// The request, in the format that was given, with everything around the messages as it was.
    pub request: Request,
    /// Which manager left out or changed which entry, and why. Positions are those of the messages that were given.
    pub explanation: Explanation,
    /// The format that was recognised.
    pub wire: Wire,
}

/// Curates a provider's request, or a bare list of messages, given as JSON text.
///
/// ```
/// let messages = r#"[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}]"#;
/// let curated = scrollback::curate(messages, "turn_window(1)")?;
/// assert_eq!(curated.request.to_value()[0]["content"], "two");
/// assert_eq!(curated.explanation.dropped.len(), 2);
/// # Ok::<(), scrollback::Error>(())
/// ```
pub fn curate(messages: &str, manager: &str) -> Result<Curated> {
    let wanted = ViewOptions { manager: manager.into(), ..ViewOptions::default() };
    let list = List::read(messages, &wanted)?;
    let view = list.view(&wanted)?;
    let explanation = view.explain();
    let mut request = view.request(list.wire);
    request.text = request.rendered.body(list.wire, Some(&list.around));
    Ok(Curated { request, explanation, wire: list.wire })
}

/// One message of a curated list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CuratedPiece {
    /// The message at this place of the list that was given, as it was.
    Same(usize),
    /// Another message: changed, or one that was never said.
    Text(String),
}

/// A curated list as what it shares with the list that was given.
#[derive(Clone, Debug)]
pub struct CuratedPieces {
    /// The messages, in order; none where they cannot be told apart, or stand in an object: then `body` is the request.
    pub pieces: Option<Vec<CuratedPiece>>,
    /// The whole request, where it is not given by the pieces.
    pub body: Option<String>,
    /// The format that was recognised.
    pub wire: Wire,
    /// Tokens of what is sent.
    pub tokens: usize,
    /// What was left out or changed, and where each entry comes from; only where asked for.
    pub report: Option<Value>,
}

/// Whether the pieces come with a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explaining {
    /// Only the messages.
    Left,
    /// Also who left out or changed what, which costs in proportion to the list.
    Made,
}

/// [`curate`] for callers that have the messages as values and want their own values back: whatever is unchanged is named by
/// its place in the list, and not printed again.
pub fn curate_pieces(messages: &str, wanted: &ViewOptions, report: Explaining) -> Result<CuratedPieces> {
    let list = List::read(messages, wanted)?;
    let view = list.view(wanted)?;
    let rendered = view.inner().render(list.wire, &list.cx);
    let is_list = matches!(list.around, Body::List);
    let report = (report == Explaining::Made).then(|| list.report(&view));
    let pieces = if is_list { list.pieces(&view, &rendered) } else { None };
    let body = pieces.is_none().then(|| rendered.body(list.wire, Some(&list.around)));
    Ok(CuratedPieces { pieces, body, wire: list.wire, tokens: view.tokens(), report })
}

/// A list of messages, read.
struct List {
    record: Record,
    /// For each position the place in the list.
    indexes: Vec<Option<usize>>,
    around: Body,
    wire: Wire,
    cx: CurationContext,
}

impl List {
    fn read(messages: &str, wanted: &ViewOptions) -> Result<Self> {
        let body = json::check(messages)
            .map_err(|error| Error::new(ErrorKind::Messages, error).at("bad_json", ""))?;
        let wire = wire_of(body, wanted.wire)?;
        let parsed = wire.parse(body, &ParseOptions::default())?;
        let (around, tools, indexes) = (parsed.body.clone(), parsed.tools.clone(), parsed.indexes.clone());
        let record = parsed.into_record()?;
        let model = wanted.model.as_deref().map(|name| model_named(name, Some(wire))).transpose()?;
        let mut cx = CurationContext::for_model(model);
        (cx.tools, cx.wire, cx.summaries) = (tools, Some(wire), Summaries::InPlace);
        Ok(List { record, indexes, around, wire, cx })
    }

    fn view(&self, wanted: &ViewOptions) -> Result<View<'_>> {
        let manager = manager_from(&wanted.manager)?;
        View::within(&self.record, &*manager, self.cx.clone())
    }

    fn index(&self, position: u64) -> Option<usize> {
        self.indexes.get(position as usize).copied().flatten()
    }

    /// The messages by what they share with the list; none where several entries became one message, or one several.
    fn pieces(&self, view: &View<'_>, rendered: &Rendered) -> Option<Vec<CuratedPiece>> {
        let items: Vec<ViewItem> = view.inner().items().collect();
        if items.len() != rendered.messages.len() || rendered.system.is_some() {
            return None;
        }
        let piece = |(item, message): (&ViewItem, &String)| match item.source {
            ItemSource::Entry(position) if *item.entry.origin.raw == **message => {
                self.index(position).map_or_else(|| CuratedPiece::Text(message.clone()), CuratedPiece::Same)
            }
            _ => CuratedPiece::Text(message.clone()),
        };
        Some(items.iter().zip(&rendered.messages).map(piece).collect())
    }

    fn report(&self, view: &View<'_>) -> Value {
        let explanation = view.explain();
        let placed = |value: Value| {
            let mut value = value;
            if let Some(index) = value.get("index").and_then(Value::as_u64)
                && let Some(place) = self.index(index)
            {
                value["index"] = Value::from(place);
            }
            value
        };
        let dropped = explanation.dropped.iter().filter_map(|one| serde_json::to_value(one).ok());
        let changed = explanation.changed.iter().filter_map(|one| serde_json::to_value(one).ok());
        json!({
            "dropped": dropped.map(placed).collect::<Vec<Value>>(),
            "changed": changed.map(placed).collect::<Vec<Value>>(),
            "view": view.inner().items().map(|item| placed(described(item, self.wire))).collect::<Vec<Value>>(),
            "warnings": view.inner().warnings(),
        })
    }
}
