//! What a manager may know beside the record: the caller's wishes, the model, the tools on offer.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::json::{self, JsonKind, Raw};
use crate::model::ModelName;
use crate::recall::{RecallTool, Tail};
use crate::tokens::{Counter, OVERHEAD, Tokenizer};
use crate::wire::{ParseOptions, Wire, WireError, list_key};

/// What a view does with a tool call whose results are not all there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unfinished {
    /// The group is left out until it is complete.
    #[default]
    Drop,
    /// The group stays, and missing results say that there was an interruption.
    Close,
}

/// Where summaries come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Summaries {
    /// From the record: the caller answers what managers ask for in [`plan`](crate::HistoryManager::plan) and records the texts.
    #[default]
    Recorded,
    /// Written offline while curating, and handed out with the view, so that the caller can record them.
    InPlace,
}

/// The tools offered with a call, so that their definitions can be counted and groups of others dropped.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    names: Vec<String>,
    /// Shared, because every call has a context of its own and definitions are long.
    definitions: Arc<[OfferedTool]>,
    /// The format of the definitions.
    wire: Option<Wire>,
    counted: [OnceLock<usize>; Tokenizer::ALL.len()],
}

/// One tool as a request defines it.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTool {
    /// Its name; none for most tools that the provider runs.
    pub(crate) name: Option<String>,
    /// JSON pointer to it in the request; none if it came without one.
    pub(crate) place: Option<String>,
    /// Its JSON text.
    pub(crate) text: String,
}

impl Tools {
    /// Tools known by name only.
    pub fn named(names: Vec<String>) -> Self {
        Tools { names, ..Tools::default() }
    }

    /// Tools with the JSON text of their definitions, which every call sends along.
    pub fn defined(wire: Wire, names: Vec<String>, definitions: Vec<String>) -> Self {
        let mut known = names.iter();
        let define = |text| OfferedTool { name: known.next().cloned(), place: None, text };
        let definitions = definitions.into_iter().map(define).collect();
        Tools { names, definitions, wire: Some(wire), ..Tools::default() }
    }

    /// The tools of a request.
    pub(crate) fn found(wire: Wire, definitions: Vec<OfferedTool>) -> Self {
        let names = definitions.iter().filter_map(|definition| definition.name.clone()).collect();
        Tools { names, definitions: definitions.into(), wire: Some(wire), ..Tools::default() }
    }

    /// The same with more names: tools that are defined inside another definition.
    pub(crate) fn with_names(mut self, names: Vec<String>) -> Self {
        self.names.extend(names);
        self
    }

    /// Only those of the tools that have one of these names, and those that have none.
    #[must_use]
    pub fn only(self, names: Vec<String>) -> Self {
        let wanted = |definition: &&OfferedTool| {
            definition.name.as_ref().is_none_or(|name| names.iter().any(|wanted| wanted == name))
        };
        let definitions = self.definitions.iter().filter(wanted).cloned().collect();
        Tools { names, definitions, wire: self.wire, ..Tools::default() }
    }

    /// The format the definitions are written in; none if there are none.
    pub fn wire(&self) -> Option<Wire> {
        self.wire.filter(|_| !self.definitions.is_empty())
    }

    /// The names on offer.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Their definitions, with where they stood.
    pub(crate) fn definitions(&self) -> &[OfferedTool] {
        &self.definitions
    }

    fn tokens(&self, tokenizer: Tokenizer) -> usize {
        let count = || self.definitions.iter().map(|definition| tokenizer.count(&definition.text) + 8).sum();
        self.counted.get(tokenizer.index()).map_or_else(count, |counted| *counted.get_or_init(count))
    }
}

/// What a configuration says about what views keep and say for the sake of recall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecallWishes {
    /// Whether models can read handles; where nothing is said, the tools on offer tell.
    pub available: Option<bool>,
    /// Whether a cut leaves a line that says what was left out.
    pub notice: Option<bool>,
    /// Whether obligations survive every manager.
    pub obligations: Option<bool>,
}

impl RecallWishes {
    /// These, and the others where these say nothing.
    #[must_use]
    pub fn over(self, others: RecallWishes) -> Self {
        RecallWishes {
            available: self.available.or(others.available),
            notice: self.notice.or(others.notice),
            obligations: self.obligations.or(others.obligations),
        }
    }
}

/// Everything a view depends on beside the record and the manager. Time is absent on purpose.
#[derive(Clone, Debug)]
pub struct CurationContext {
    /// Whether leading system entries survive every manager.
    pub preserve_system: bool,
    /// Whether the last user entry, and results that no reply has answered yet, survive every manager.
    pub preserve_task: bool,
    /// Body entries at the end that survive every manager, rounded up to whole groups.
    pub preserve_last_n: Option<usize>,
    /// What happens to unfinished groups.
    pub unfinished: Unfinished,
    /// The tools on offer; none if not known.
    pub tools: Option<Tools>,
    /// The model the view is for.
    pub model: Option<ModelName>,
    /// How tokens are counted: by the model's tokenizer.
    pub counter: Counter,
    /// Context windows the configuration states, by model name; they win over the built-in table.
    pub windows: BTreeMap<String, u64>,
    /// The loop or agent the view is for, where one record serves several.
    pub scope: Option<String>,
    /// Where summaries come from.
    pub summaries: Summaries,
    /// Tokens the request allows the reply, where it says so: `fit` leaves that much of the window free.
    pub output: Option<u64>,
    /// Tokens of instructions that the caller sends with the request and that are not in the record.
    pub instructions: usize,
    /// The wire the view will be sent on, where it is known: budgets leave room for what some wires put in front.
    pub wire: Option<Wire>,
    /// The conversation whose handles stand in placeholders; none where the model has no tool to read them with.
    pub recall: Option<Tail>,
    /// The conversation that is recorded, where one is. Its handles stand in placeholders also where no tool to read them is on
    /// offer now, once the record shows that the model has one: clients hold tools back until they are looked for.
    pub conversation: Option<Tail>,
    /// Whether the model is known to have a tool that reads handles, or to have none; where nothing is said, the tools on offer
    /// tell.
    pub recall_available: Option<bool>,
    /// Whether a cut leaves a line that says what was left out; where nothing is said, it does where the model can read handles.
    pub notice: Option<bool>,
    /// Whether what the conversation still owes survives every manager: unanswered questions, calls that wait, the newest todo
    /// list, open errors and constraints that the person marked. Off for a context of its own; on in everything that is
    /// configured, unless the configuration says otherwise.
    pub obligations: bool,
    /// State of the caller's that managers of its own read, such as an agent's session.
    pub session: Option<Arc<dyn Any + Send + Sync>>,
}

impl Default for CurationContext {
    fn default() -> Self {
        CurationContext {
            preserve_system: true,
            preserve_task: true,
            preserve_last_n: None,
            unfinished: Unfinished::Drop,
            tools: None,
            model: None,
            counter: Counter::for_model(None),
            windows: BTreeMap::new(),
            scope: None,
            summaries: Summaries::Recorded,
            output: None,
            instructions: 0,
            wire: None,
            recall: None,
            conversation: None,
            recall_available: None,
            notice: None,
            obligations: false,
            session: None,
        }
    }
}

impl CurationContext {
    /// The caller's state, if it is of that type.
    pub fn session<T: Any>(&self) -> Option<&T> {
        self.session.as_ref()?.downcast_ref()
    }

    /// Whether the model can read a handle: as was said, else by the tools on offer.
    pub fn offers_recall(&self) -> bool {
        if let Some(available) = self.recall_available {
            return available;
        }
        let names = self.tools.as_ref().map(Tools::names).unwrap_or_default();
        names.iter().any(|name| RecallTool::called(name).is_some())
    }

    /// The same context in a conversation of that id: placeholders carry handles where the model can read them.
    #[must_use]
    pub fn in_conversation(mut self, id: &str) -> Self {
        self.conversation = Tail::of(id).filter(|_| self.recall_available != Some(false));
        self.recall = self.conversation.clone().filter(|_| self.offers_recall());
        self
    }

    /// The same with what a configuration or an agent says about recall; obligations survive unless it says no.
    pub fn wish(&mut self, wishes: RecallWishes) {
        self.recall_available = wishes.available.or(self.recall_available);
        self.notice = wishes.notice.or(self.notice);
        self.obligations = wishes.obligations.unwrap_or(true);
    }

    /// The defaults for a model: its tokenizer counts.
    pub fn for_model(model: Option<ModelName>) -> Self {
        CurationContext { counter: Counter::for_model(model.as_ref()), model, ..CurationContext::default() }
    }

    /// Counts what a request of a wire holds beside the conversation, so that budgets leave room for it: its tools, its
    /// instructions, and the limit of the reply. `request` is a JSON object; messages in it do not matter.
    ///
    /// ```
    /// use scrollback_core::{CurationContext, json, wire::Wire};
    /// let request = json::check(r#"{"system":"Be brief.","max_tokens":1024}"#)?;
    /// let mut cx = CurationContext::default();
    /// cx.leave_room_for(Wire::Anthropic, request)?;
    /// assert!(cx.instructions > 0 && cx.output == Some(1024));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leave_room_for(&mut self, wire: Wire, request: Raw<'_>) -> Result<(), WireError> {
        if request.kind() != JsonKind::Object {
            return Err(WireError::bad_input("what a request holds is a JSON object"));
        }
        let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        self.output = limits.iter().find_map(|name| request.get(name)?.text().parse().ok());
        let mut whole = format!("{{\"{}\":[]", list_key(wire));
        for (name, value) in request.members().filter(|(name, _)| name != list_key(wire)) {
            whole.push(',');
            whole.push_str(&serde_json::Value::from(&*name).to_string());
            whole.push(':');
            whole.push_str(value.text());
        }
        whole.push('}');
        let whole = json::check(&whole).map_err(|error| WireError::bad_input(error.to_string()))?;
        let parsed = wire.parse(whole, &ParseOptions::default())?;
        self.tools.clone_from(&parsed.tools);
        self.instructions = parsed.into_record().map_or(0, |record| record.tokens(self.counter) as usize);
        Ok(())
    }

    /// Tokens of the message that the wire may put in front of the first one.
    pub(crate) fn opening(&self, counter: Counter) -> usize {
        let opens = self.wire.is_some_and(Wire::starts_with_user);
        if opens { counter.factor.apply(crate::wire::opening_tokens(counter.tokenizer)) } else { 0 }
    }

    /// Tokens a request has beside its messages: the definitions of its tools, instructions that are not in the record, and
    /// the start of the reply.
    pub fn overhead(&self, counter: Counter) -> usize {
        counter.factor.apply(OVERHEAD) + self.tool_tokens(counter) + self.instructions
    }

    /// Tokens of the definitions of the tools on offer.
    pub fn tool_tokens(&self, counter: Counter) -> usize {
        counter.factor.apply(self.tools.as_ref().map_or(0, |tools| tools.tokens(counter.tokenizer)))
    }

    /// The window of a model in tokens: as configured, else from the built-in table.
    pub fn window_of(&self, model: &ModelName) -> Option<u64> {
        // Mostly nothing is configured, and no name is written out to be looked for.
        let stated =
            if self.windows.is_empty() { None } else { self.windows.get(&model.to_string()).copied() };
        stated.or_else(|| crate::model::facts(model).map(|facts| facts.context_window))
    }
}
