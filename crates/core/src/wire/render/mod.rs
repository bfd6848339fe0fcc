//! From entries to a provider's JSON. One file per wire; what they share (ids, media, the field for instructions) has
//! files of its own.
//!
//! An unchanged entry goes back to its own wire as exactly the text it came as. On another wire it is printed from its
//! blocks, and what that wire cannot hold is listed as [`Lost`], never dropped in silence.

mod anthropic;
mod bedrock;
mod blocks;
mod definition;
mod draft;
mod formats;
mod gemini;
pub(crate) mod ids;
mod lost;
mod media;
mod openai_chat;
mod openai_responses;
mod places;
mod schema;
pub(crate) mod scrollback;
mod system;
mod tools;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::block::{Block, BlockKind, CallStyle, ToolResult};
use crate::context::Tools;
use crate::entry::{Entry, Role};
use crate::json::{self, quote};
use crate::model::ModelName;
use crate::record::{Record, Slot};
use crate::view::{Changed, Dropped, Explanation, Fidelity, ItemSource, Reason, ViewItem};

use super::check::Violation;
use super::repair::Repair;
use super::replies::Replies;
use super::{Body, Wire};
pub(super) use gemini::UNSIGNED;
pub use lost::Lost;
pub(super) use tools::{fit_name as tool_name, placeholder as placeholder_tool};

/// What a list is printed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To hold everything: nothing is left out, joined or moved that the wire's grammar can hold.
    #[default]
    Keep,
    /// To be sent: what the provider would refuse is left out, joined or moved, and explained.
    Send,
}

/// What rendering may know beside the entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderOptions<'a> {
    /// What the list is for.
    pub purpose: Purpose,
    /// The model it is for; decides what its provider binds reasoning to.
    pub model: Option<&'a ModelName>,
    /// The tools on offer.
    pub tools: Option<&'a Tools>,
    /// Whether the request asks for reasoning of the older kind, which no provider binds to its prefix.
    pub manual_thinking: bool,
    /// The record the entries are from, which tells where decisions stand between them.
    pub record: Option<&'a Record>,
}

/// A list of messages as a wire wants them.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The value of the wire's field for instructions, where it has one and there are any.
    pub system: Option<String>,
    /// The value of the wire's field for tools, where the entries came from another wire or it must be there.
    pub tools: Option<String>,
    /// The messages, one JSON text each.
    pub messages: Vec<String>,
    /// What the wire cannot hold.
    pub lost: Vec<Lost>,
    /// What was left out because the provider would refuse it, one for each entry, in order of position.
    pub left_out: Vec<LeftOut>,
    /// Whether a message of our own had to be put in front.
    pub opened: bool,
    /// What had to be repaired before it could be sent.
    pub repairs: Vec<Repair>,
    /// The entries each message is made of; messages of our own have none.
    pub(super) sources: Sources,
    /// The request, where repairing it changed more than the fields above.
    pub(super) whole: Option<String>,
    /// The request as it was checked, if nothing had to be repaired.
    pub(super) checked: Option<Checked>,
}

/// The entries that messages are made of, by position: one list for all messages, and where in it each of them ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    positions: Vec<u64>,
    ends: Vec<usize>,
}

impl Sources {
    fn with_room(messages: usize) -> Self {
        Sources { positions: Vec::with_capacity(messages), ends: Vec::with_capacity(messages) }
    }

    /// Notes what the next message is made of.
    fn add(&mut self, positions: impl IntoIterator<Item = u64>) {
        self.positions.extend(positions);
        self.ends.push(self.positions.len());
    }

    /// Notes that all further messages, up to so many, are made of one entry or of none.
    fn fill(&mut self, messages: usize, position: Option<u64>) {
        while self.ends.len() < messages {
            self.add(position);
        }
    }

    /// What each message is made of, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| self.positions.get(*start..*end).unwrap_or_default())
    }
}

/// A request that was checked and needed no repair.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its JSON text.
    pub body: String,
    /// What is still wrong with it and is not repaired here.
    pub violations: Vec<Violation>,
}

/// An entry, or part of it, that is not sent because the provider would refuse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The entry.
    pub position: u64,
    /// Why.
    pub reason: Reason,
    /// Whether nothing of it is left.
    pub whole: bool,
    /// Length of its texts in Unicode scalar values before and after.
    pub chars: (usize, usize),
}

impl LeftOut {
    /// Adds what was left out for the provider's sake to the explanation of the view.
    pub fn explain(left_out: &[LeftOut], explanation: &mut Explanation) {
        let gone: HashSet<u64> =
            left_out.iter().filter(|left| left.whole).map(|left| left.position).collect();
        explanation.changed.retain(|changed| !gone.contains(&changed.index));
        for left in left_out {
            let (index, reason) = (left.position, left.reason);
            if left.whole {
                let dropped = Dropped { index, manager: "wire".into(), reason, group: None, by: None };
                explanation.dropped.push(dropped);
            } else {
                let (from_chars, to_chars) = left.chars;
                let changed = Changed {
                    index,
                    manager: "wire",
                    reason,
                    from_chars,
                    to_chars,
                    by: None,
                    lines: Vec::new(),
                };
                explanation.changed.push(changed);
            }
        }
        explanation.dropped.sort_by_key(|dropped| dropped.index);
        explanation.changed.sort_by_key(|changed| changed.index);
    }
}

/// The text of a message of our own that opens a list whose first entry the provider would refuse there.
pub const OPENING: &str = "(continued)";
/// What marks instructions given in the middle of a conversation on wires that have no place for them.
pub const SYSTEM_NOTE: &str = "[System message]\n";

/// What becomes of what was said on the wire it is printed on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Own<'o> {
    /// It goes out as it came.
    AsSaid,
    /// Ids that would be refused are replaced.
    Repaired {
        /// The first entry known to be sent otherwise than it was said.
        edited: Option<u64>,
        /// What a provider said, whose ids stay as they are.
        replies: Option<&'o Replies>,
    },
}

/// What is known while entries are printed one after the other.
pub(crate) struct Cx<'o> {
    pub(crate) wire: Wire,
    pub(crate) options: RenderOptions<'o>,
    own: Own<'o>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The entry being printed.
    position: Option<u64>,
    /// Ids of the calls of the entry being printed, those still to come.
    printed: VecDeque<String>,
    /// How many of them are printed.
    calls_printed: usize,
    /// The printed ids that results are waited for, by the id that was said.
    awaited: HashMap<String, VecDeque<String>>,
    /// Ids of the calls printed in the message being made, which must differ.
    taken: HashSet<String>,
    /// The number to try next for a call whose id is taken, by that id: counting anew for each call of one id would cost the
    /// square of their number.
    next_number: HashMap<String, u32>,
    /// Whether only the model has spoken since it called, so that its next calls join the message.
    only_model: bool,
    /// Calls printed in the custom style, by printed id: their results must have it too.
    custom: HashSet<String>,
    /// Names of the calls printed, by printed id: some wires repeat them in results.
    names: HashMap<String, String>,
    places: places::Places,
    /// Names of documents printed, which some wires want to differ.
    documents: HashSet<String>,
}

impl Cx<'_> {
    fn sends(&self) -> bool {
        self.options.purpose == Purpose::Send
    }

    /// Whether the entry is printed on the wire it came from.
    fn is_own(&self, entry: &Entry) -> bool {
        entry.origin.wire == self.wire
    }

    /// Starts with an item: whose it is, the ids its calls are printed with, and what their results must know.
    fn enter(&mut self, item: &ViewItem) {
        let entry = &item.entry;
        self.position = match item.source {
            ItemSource::Entry(position) => Some(position),
            _ => None,
        };
        self.only_model &= entry.role == Role::Assistant;
        if entry.tool_calls().next().is_none() {
            return;
        }
        if !(self.only_model && matches!(self.wire, Wire::Gemini | Wire::Bedrock)) {
            self.awaited.clear();
            self.taken.clear();
            self.next_number.clear();
        }
        self.only_model = true;
        self.printed.clear();
        self.calls_printed = 0;
        let kept = self.is_own(entry) && (matches!(self.own, Own::AsSaid) || entry.is_reply());
        let said: HashSet<Cow<'_, str>> = entry.call_ids().collect();
        for (number, call) in entry.tool_calls().filter(|call| call.style.is_client()).enumerate() {
            let id = call.call_id.as_ref().map(|id| id.as_str().into_owned());
            let printed = match &id {
                Some(id) if kept || self.is_a_providers(id, entry) => id.clone(),
                Some(id) => self.free_id(id, &said),
                None => format!("sb_{}_{number}", self.position.unwrap_or_default()),
            };
            self.printed.push_back(printed.clone());
            self.taken.insert(printed.clone());
            if call.style == CallStyle::Custom {
                self.custom.insert(printed.clone());
            } else {
                self.custom.remove(&printed);
            }
            self.names.insert(printed.clone(), call.name.as_str().into_owned());
            if let Some(id) = id {
                self.awaited.entry(id).or_default().push_back(printed);
            }
        }
    }

    /// Whether a provider of this wire gave the id, and gets it back.
    fn is_a_providers(&self, id: &str, entry: &Entry) -> bool {
        let Own::Repaired { replies: Some(replies), .. } = self.own else { return false };
        self.is_own(entry) && replies.gave(id)
    }

    /// An id as the wire takes it, and numbered where another call of the message has it.
    fn free_id(&mut self, id: &str, said: &HashSet<Cow<'_, str>>) -> String {
        let fitting = ids::fit(self.wire, id);
        if !self.taken.contains(fitting.as_ref()) {
            return fitting.into_owned();
        }
        let number = self.next_number.entry(id.into()).or_insert(2);
        loop {
            let new = ids::fit(self.wire, &format!("{id}_{number}")).into_owned();
            *number += 1;
            if !self.taken.contains(&new) && !said.contains(new.as_str()) {
                return new;
            }
        }
    }

    /// The id of the next call of the entry, as it is printed.
    fn call_id(&mut self) -> String {
        self.calls_printed += 1;
        self.printed.pop_front().unwrap_or_default()
    }

    /// The id a result is printed with: that of the call it answers.
    fn result_id(&mut self, result: &ToolResult) -> String {
        let Some(id) = &result.call_id else { return format!("sb_{}_0", self.position.unwrap_or_default()) };
        let id = id.as_str();
        match self.awaited.get_mut(id.as_ref()) {
            Some(waiting) if waiting.len() > 1 => waiting.pop_front().unwrap_or_default(),
            Some(waiting) => waiting.front().cloned().unwrap_or_default(),
            None => ids::fit(self.wire, &id).into_owned(),
        }
    }

    /// The name of the tool whose result this is, by the id it is printed with.
    fn tool_name(&self, id: &str, result: &ToolResult) -> String {
        let named = || result.name.as_ref().map(|name| name.as_str().into_owned());
        self.names.get(id).cloned().or_else(named).unwrap_or_else(|| "unknown".into())
    }

    /// The id a call or result of this wire needs instead of the one it came with; none if that will do.
    fn other_id(&mut self, block: &Block) -> Option<String> {
        let printed = match &block.kind {
            BlockKind::ToolCall(call) if call.style.is_client() => self.call_id(),
            BlockKind::ToolResult(result) => self.result_id(result),
            _ => return None,
        };
        let changed = matches!(self.own, Own::Repaired { .. })
            && block.call_id().is_some_and(|said| said.as_str() != printed);
        changed.then_some(printed)
    }

    /// Notes in the explanation that an entry is sent otherwise than it was said, or not at all.
    fn explain(&mut self, entry: &Entry, reason: Reason, left: usize, whole: bool) {
        if let Some(position) = self.position
            && self.sends()
            && self.left_out.last().is_none_or(|last| last.position != position)
        {
            self.left_out.push(LeftOut { position, reason, whole, chars: (entry.chars(), left) });
        }
    }
}

/// Prints entries as messages of `wire`.
pub(super) fn render<'o>(
    wire: Wire,
    mut items: Vec<ViewItem>,
    options: RenderOptions<'o>,
    own: Own<'o>,
) -> Rendered {
    let mut cx = Cx {
        wire,
        options,
        own,
        lost: Vec::new(),
        left_out: Vec::new(),
        position: None,
        printed: VecDeque::new(),
        calls_printed: 0,
        awaited: HashMap::new(),
        taken: HashSet::new(),
        next_number: HashMap::new(),
        only_model: false,
        custom: HashSet::new(),
        names: HashMap::new(),
        places: places::Places::default(),
        documents: HashSet::new(),
    };
    let lead_len = items.iter().take_while(|item| item.entry.role == Role::System).count();
    let binding = Binding::of(&items, lead_len, &cx);
    let mut rendered = Rendered::default();
    let body = match wire {
        Wire::OpenaiChat | Wire::Scrollback => items,
        _ => {
            let body = items.split_off(lead_len);
            // Instructions that were items of the list stay there.
            let (field, listed) = system::split(items, &cx);
            rendered.system = system::render(&field, &mut cx);
            listed.into_iter().chain(body).collect()
        }
    };
    match wire {
        Wire::OpenaiChat => (rendered.messages, rendered.sources) = openai_chat::render(&body, &mut cx),
        Wire::OpenaiResponses => {
            (rendered.messages, rendered.sources) = openai_responses::render(&body, &mut cx);
        }
        Wire::Anthropic => blocks::render(&anthropic::STYLE, &body, &binding, &mut cx, &mut rendered),
        Wire::Gemini => blocks::render(&gemini::STYLE, &body, &binding, &mut cx, &mut rendered),
        Wire::Bedrock => blocks::render(&bedrock::STYLE, &body, &binding, &mut cx, &mut rendered),
        Wire::Scrollback => rendered.messages = scrollback::render(&body),
    }
    rendered.tools = tools::render(&body, &mut cx);
    rendered.lost = cx.lost;
    rendered.left_out = cx.left_out;
    // A result that stands beside its call was said later.
    rendered.left_out.sort_by_key(|left| left.position);
    rendered
}

/// From which entry on signed reasoning is no longer what its provider signed.
struct Binding {
    /// The first item after the lead whose prefix differs from what was said; none while all is as said.
    edited_from: Option<usize>,
    /// Whether the provider binds reasoning at all.
    binds: bool,
}

impl Binding {
    fn of(items: &[ViewItem], lead: usize, cx: &Cx<'_>) -> Self {
        if !cx.sends() || !binds(cx.wire, cx.options) {
            return Binding { edited_from: None, binds: false };
        }
        let known = match cx.own {
            Own::AsSaid => None,
            Own::Repaired { edited, .. } => edited,
        };
        let mut expected = next_message(0, cx);
        let edited = items.iter().position(|item| {
            let as_said = item.fidelity == Fidelity::AsSaid
                && item.source == ItemSource::Entry(expected)
                && known != Some(expected);
            expected = next_message(expected + 1, cx);
            !as_said
        });
        Binding { edited_from: edited.map(|index| index.saturating_sub(lead)), binds: true }
    }

    /// Whether the reasoning of item number `index` has lost what it was signed over.
    fn is_broken(&self, index: usize) -> bool {
        self.edited_from.is_some_and(|from| index >= from)
    }
}

/// The first position from `from` on that holds something said, not decided.
fn next_message(from: u64, cx: &Cx<'_>) -> u64 {
    let Some(record) = cx.options.record else { return from };
    let slots = record.slots().get(from as usize..).unwrap_or_default();
    from + slots.iter().take_while(|slot| matches!(slot, Slot::Decision(..))).count() as u64
}

/// Whether the provider binds reasoning to what came before it. Where the model is not known, it might.
pub(super) fn binds(wire: Wire, options: RenderOptions<'_>) -> bool {
    if !matches!(wire, Wire::Anthropic | Wire::Bedrock) {
        return false;
    }
    match options.model {
        Some(model) => model.binds_reasoning(),
        None => !options.manual_thinking,
    }
}

/// The texts of an entry as one.
fn joined_text(entry: &Entry) -> String {
    let texts: Vec<String> = entry.texts().map(|text| text.as_str().into_owned()).collect();
    texts.join("\n")
}

/// What a failed result says on wires that cannot mark it.
fn error_text(text: &str) -> String {
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (says_so, text.is_empty()) {
        (true, _) => text.into(),
        (false, true) => "Error".into(),
        (false, false) => format!("Error: {text}"),
    }
}

impl Rendered {
    /// The request: everything around the messages as it was where the wire is the same, the wire's own keys otherwise.
    pub fn body(&self, wire: Wire, around: Option<&Body>) -> String {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let list = super::one_per_line(&self.messages);
        let system_key = system::key(wire);
        if let Some(Body::Object { raw, key }) = around
            && let Ok(object) = json::check(raw)
        {
            return self.body_around(wire, object, key, &list);
        }
        let bare = matches!(around, Some(Body::List)) && self.system.is_none() && self.tools.is_none();
        if bare {
            return list;
        }
        let mut out = String::from("{");
        if wire == Wire::Scrollback {
            out.push_str("\"scrollback\":1,");
        }
        for (key, value) in [(system_key, &self.system), (Some(tools::key(wire)), &self.tools)] {
            if let Some((key, value)) = key.zip(value.as_ref()) {
                json::write_string(&mut out, key);
                out.push(':');
                out.push_str(value);
                out.push(',');
            }
        }
        json::write_string(&mut out, list_key(wire));
        out.push(':');
        out.push_str(&list);
        out.push('}');
        out
    }

    /// The request with these messages in it, every other member as it was.
    fn body_around(&self, wire: Wire, object: json::Raw<'_>, list_key: &str, list: &str) -> String {
        let mut out = String::from("{");
        let mut put = |name: &str, value: &str| {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            out.push_str(value);
        };
        let system_names = system::names(wire);
        let has = |key: &str| object.get(key).is_some();
        for (name, value) in object.spelled_members() {
            let key = json::unescape(name.text());
            if key == list_key {
                if let Some((key, system)) = system::key(wire).zip(self.system.as_ref())
                    && !system_names.iter().any(|key| has(key))
                {
                    put(&quote(key), system);
                }
                put(name.text(), self.list_value(wire, value, list));
            } else if system_names.contains(&key.as_ref()) {
                match &self.system {
                    Some(system) => put(name.text(), system),
                    None if !system::holds(wire, value) => put(name.text(), &json::one_line(value)),
                    None => {}
                }
            } else {
                put(name.text(), &json::one_line(value));
            }
        }
        if let Some(tools) = self.tools.as_ref().filter(|_| !has(tools::key(wire))) {
            put(&quote(tools::key(wire)), tools);
        }
        out.push('}');
        out
    }

    /// `input` that was one text stays one as long as it is all there is.
    fn list_value<'s>(&self, wire: Wire, was: json::Raw<'s>, list: &'s str) -> &'s str {
        if wire == Wire::OpenaiResponses
            && was.kind() == json::JsonKind::String
            && let [only] = self.messages.as_slice()
            && *only == format!("{{\"role\":\"user\",\"content\":{}}}", was.text())
        {
            return was.text();
        }
        list
    }
}

/// The key a wire keeps its messages under.
pub fn list_key(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenaiChat | Wire::Anthropic | Wire::Bedrock => "messages",
        Wire::OpenaiResponses => "input",
        Wire::Gemini => "contents",
        Wire::Scrollback => "entries",
    }
}

/// The key of a wire's field for instructions.
pub fn system_key(wire: Wire) -> Option<&'static str> {
    system::key(wire)
}

/// The key of a wire's field for tools.
pub fn tools_key(wire: Wire) -> &'static str {
    tools::key(wire)
}
