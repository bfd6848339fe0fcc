//! From entries to a provider's JSON. One file per wire; what they share (ids, media, the field for instructions) has
//! files of its own.
//!
//! An unchanged entry goes back to its own wire as exactly the text it came as. On another wire it is printed from its
//! blocks, and what that wire cannot hold is listed as [`Lost`], never dropped in silence.

mod anthropic;
mod bedrock;
mod blocks;
mod draft;
mod formats;
mod gemini;
pub(crate) mod ids;
mod lost;
mod media;
mod openai_chat;
mod openai_responses;
mod schema;
pub(crate) mod scrollback;
mod system;
mod tools;

use std::collections::{HashMap, HashSet, VecDeque};

use crate::block::{CallStyle, ToolResult};
use crate::context::Tools;
use crate::entry::{Entry, Role};
use crate::json;
use crate::model::ModelName;
use crate::record::{Record, Slot};
use crate::view::{Changed, Dropped, Explanation, Fidelity, Item, Reason, Source};

use super::repair::Repair;
use super::{Body, Wire};
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
    /// What was left out because the provider would refuse it.
    pub left_out: Vec<LeftOut>,
    /// Whether a message of our own had to be put in front.
    pub opened: bool,
    /// What had to be mended before it could be sent.
    pub repairs: Vec<Repair>,
    /// The entries each message is made of, by position; messages of our own have none.
    pub sources: Vec<Vec<u64>>,
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
        for left in left_out {
            let (index, reason) = (left.position, left.reason);
            if left.whole {
                explanation.changed.retain(|changed| changed.index != index);
                let dropped = Dropped { index, manager: "wire".into(), reason, group: None, by: None };
                explanation.dropped.push(dropped);
            } else {
                let (from_chars, to_chars) = left.chars;
                let changed = Changed { index, manager: "wire", reason, from_chars, to_chars, by: None };
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

/// What is known while entries are printed one after the other.
pub(crate) struct Cx<'o> {
    pub(crate) wire: Wire,
    pub(crate) options: RenderOptions<'o>,
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
    /// Calls printed in the custom style, whose results must have it too.
    custom: HashSet<String>,
    /// Names of the calls printed, by id: some wires repeat them in results.
    names: HashMap<String, String>,
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

    /// Notes the calls of an entry: the ids they are printed with, and what their results must know.
    fn note_calls(&mut self, entry: &Entry) {
        if entry.tool_calls().next().is_none() {
            return;
        }
        let own = self.is_own(entry);
        self.printed.clear();
        self.calls_printed = 0;
        self.awaited.clear();
        for (number, call) in entry.tool_calls().filter(|call| call.style.is_client()).enumerate() {
            let id = call.call_id.as_ref().map(|id| id.as_str().into_owned());
            let same = id.as_ref().and_then(|id| self.awaited.get(id)).map_or(0, VecDeque::len);
            let printed = match &id {
                Some(id) if own => id.clone(),
                // Two calls of one id are told apart, and so are their results.
                Some(id) if same > 0 => self.free_id(id, entry),
                Some(id) => ids::fit(self.wire, id).into_owned(),
                None => format!("sb_{}_{number}", self.position.unwrap_or_default()),
            };
            self.printed.push_back(printed.clone());
            let Some(id) = id else { continue };
            if call.style == CallStyle::Custom {
                self.custom.insert(id.clone());
            } else {
                self.custom.remove(&id);
            }
            self.names.insert(id.clone(), call.name.as_str().into_owned());
            self.awaited.entry(id).or_default().push_back(printed);
        }
    }

    /// The first numbered form of an id that no call of the entry has.
    fn free_id(&self, id: &str, entry: &Entry) -> String {
        let taken = |new: &String| {
            self.printed.contains(new)
                || entry
                    .tool_calls()
                    .any(|call| call.call_id.as_ref().is_some_and(|id| **new == *id.as_str()))
        };
        let mut numbered = (2..).map(|number| ids::fit(self.wire, &format!("{id}_{number}")).into_owned());
        numbered.find(|new| !taken(new)).unwrap_or_default()
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

    /// The name of the tool whose result this is.
    fn tool_name(&self, result: &ToolResult) -> String {
        let named = result.name.as_ref().map(|name| name.as_str().into_owned());
        let called = || self.names.get(result.call_id.as_ref()?.as_str().as_ref()).cloned();
        called().or(named).unwrap_or_else(|| "unknown".into())
    }
}

/// Prints entries as messages of `wire`.
pub(super) fn render(
    wire: Wire,
    items: impl IntoIterator<Item = Item>,
    options: RenderOptions<'_>,
) -> Rendered {
    let mut cx = Cx {
        wire,
        options,
        lost: Vec::new(),
        left_out: Vec::new(),
        position: None,
        printed: VecDeque::new(),
        calls_printed: 0,
        awaited: HashMap::new(),
        custom: HashSet::new(),
        names: HashMap::new(),
        documents: HashSet::new(),
    };
    let mut items: Vec<Item> = items.into_iter().collect();
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
    fn of(items: &[Item], lead: usize, cx: &Cx<'_>) -> Self {
        if !cx.sends() || !binds(cx) {
            return Binding { edited_from: None, binds: false };
        }
        let mut expected = next_message(0, cx);
        let edited = items.iter().position(|item| {
            let as_said = item.fidelity == Fidelity::AsSaid && item.source == Source::Entry(expected);
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
fn binds(cx: &Cx<'_>) -> bool {
    if !matches!(cx.wire, Wire::Anthropic | Wire::Bedrock) {
        return false;
    }
    match cx.options.model {
        Some(model) => model.binds_reasoning(),
        None => !cx.options.manual_thinking,
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

/// A JSON string literal.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json::write_string(&mut out, text);
    out
}

impl Rendered {
    /// The request: everything around the messages as it was where the wire is the same, the wire's own keys otherwise.
    pub fn body(&self, wire: Wire, around: Option<&Body>) -> String {
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
            && was.kind() == json::Kind::String
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
