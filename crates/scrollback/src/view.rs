//! What one model call is sent of a conversation.

use std::fmt;

use scrollback_core::manager::parse;
use scrollback_core::wire::{Rendered, Wire};
use scrollback_core::{CurationContext, Explanation, HistoryManager, Record};
use serde_json::{Map, Value};

use crate::error::Result;

/// What one model call is sent of a record.
#[derive(Debug)]
pub struct View<'r> {
    view: scrollback_core::View<'r>,
    cx: CurationContext,
}

impl<'r> View<'r> {
    /// The view of a record through a manager, given as text: `sliding_window(20)`, or a list of managers in brackets.
    pub fn of(record: &'r Record, manager: &str) -> Result<Self> {
        View::within(record, &*parse(manager)?, CurationContext::default())
    }

    /// The same with a manager of your own and everything else a view depends on: the model, the tools on offer, what is
    /// protected.
    pub fn within(record: &'r Record, manager: &dyn HistoryManager, cx: CurationContext) -> Result<Self> {
        let view = record.view(&cx, manager)?;
        Ok(View { view, cx })
    }

    /// How many entries are sent.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Tokens of what is sent, by the tokenizer of the model.
    pub fn tokens(&self) -> usize {
        self.view.tokens(&self.cx)
    }

    /// Which manager left out or changed which entry, and why.
    pub fn explain(&self) -> Explanation {
        self.view.explain()
    }

    /// The view as the request of a provider: its messages, and the instructions where the provider has a field for them.
    /// It passes the check of the provider's rules.
    pub fn request(&self, wire: Wire) -> Request {
        let rendered = self.view.render(wire, &self.cx);
        Request { text: rendered.body(wire, None), rendered }
    }

    /// The view with everything that `scrollback-core` can do with it.
    pub fn inner(&self) -> &scrollback_core::View<'r> {
        &self.view
    }
}

/// The part of a request that is the conversation. It prints as JSON.
#[derive(Debug)]
pub struct Request {
    pub(crate) text: String,
    pub(crate) rendered: Rendered,
}

impl Request {
    /// The JSON text, in which everything that no manager changed is spelled as it was recorded.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same as a value.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The request with more keys: the model, limits, tools. The messages keep their spelling.
    ///
    /// ```
    /// use scrollback::{Entry, Record, View, Wire};
    /// use scrollback::serde_json::json;
    ///
    /// let mut record = Record::new();
    /// record.append(Entry::user("hello"))?;
    /// let request = View::of(&record, "passthrough")?.request(Wire::OpenaiChat);
    /// let body = request.with(&[("model", json!("gpt-4o"))]);
    /// assert!(body.starts_with(r#"{"model":"gpt-4o","messages":["#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(&self, more: &[(&str, Value)]) -> String {
        let more: Map<String, Value> =
            more.iter().map(|(key, value)| ((*key).into(), value.clone())).collect();
        let more = Value::Object(more).to_string();
        match (more.strip_suffix('}'), self.text.strip_prefix('{')) {
            (Some(more), Some(rest)) if more != "{" => format!("{more},{rest}"),
            _ => self.text.clone(),
        }
    }

    /// The messages, the instructions, and what could not be sent as it was recorded.
    pub fn rendered(&self) -> &Rendered {
        &self.rendered
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
