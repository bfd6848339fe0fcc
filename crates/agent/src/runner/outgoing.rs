//! From the record to the request: view, render, check.

use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::{Body, Checked, Purpose, RenderOptions, Rendered};
use scrollback_core::{Entry, Fidelity, Item, Source, View, json};

use super::call::{Outgoing, Shown};
use super::error::{EvaluationError, Phase};
use super::evaluation::Evaluation;
use super::{Repair, Runner};
use crate::provider::body::{Wishes, around};
use crate::provider::{ModelInfo, Provider, ResponseFormat};

impl Evaluation<'_> {
    /// What the manager shows of the record now, which is told to whoever listens.
    pub(crate) fn shown(&self) -> Result<View<'_>, EvaluationError> {
        let view = self.journal.record().view(&self.cx, &self.manager)?;
        for event in view.events() {
            self.tell(event);
        }
        Ok(view)
    }

    /// The next request: what the manager shows of the record, in the provider's format, mended where need be.
    pub(super) fn outgoing(&self) -> Result<Outgoing, EvaluationError> {
        let record = self.journal.record();
        let view = self.shown()?;
        let items: Vec<Item> = view.items().collect();
        let specs = self.runner.tools.specs();
        let wishes = Wishes {
            tools: &specs,
            choice: self.choice.clone(),
            format: self.prompt.response_format.as_ref(),
            delivery: self.runner.delivery,
            sampling: self.runner.sampling,
        };
        let info = self.runner.provider.describe();
        let around = around(&info, &wishes);
        let options = RenderOptions {
            purpose: Purpose::Send,
            model: Some(&info.model),
            tools: self.cx.tools.as_ref(),
            manual_thinking: false,
            record: Some(record),
        };
        let shown = items.iter().map(shown).collect();
        let mut rendered = info.wire.request(items, options, Some(&around));
        let repairs = self.runner.repairs(&rendered)?;
        let body = self.runner.checked(&info, &mut rendered, &around)?;
        let whole = view.len() >= record.message_count();
        let left_out =
            if self.journal.is_elsewhere() && !whole { view.explain().dropped } else { Vec::new() };
        Ok(Outgoing {
            prefix_hash: prefix_hash(&rendered),
            body: body.into(),
            original: record.message_count(),
            curated: view.len(),
            tokens: view.tokens(&self.cx),
            epoch: view.epoch(),
            view: shown,
            left_out,
            repairs,
        })
    }

    /// A request of our own making: instructions and a text, no tools.
    pub(crate) fn outgoing_of(
        &self,
        provider: &dyn Provider,
        entries: Vec<Entry>,
        format: Option<&ResponseFormat>,
    ) -> Result<Outgoing, EvaluationError> {
        let items: Vec<Item> = entries
            .into_iter()
            .enumerate()
            .map(|(number, entry)| Item {
                source: Source::Entry(number as u64),
                entry: entry.into(),
                fidelity: Fidelity::AsSaid,
            })
            .collect();
        let view = vec![Shown::Synthetic { synthetic: "prompt" }; items.len()];
        self.outgoing_items(provider, items, view, format)
    }

    /// A request of these entries, of which somebody knows where they come from.
    pub(crate) fn outgoing_items(
        &self,
        provider: &dyn Provider,
        items: Vec<Item>,
        view: Vec<Shown>,
        format: Option<&ResponseFormat>,
    ) -> Result<Outgoing, EvaluationError> {
        let info = provider.describe();
        let around = around(&info, &Wishes { format, delivery: self.runner.delivery, ..Wishes::default() });
        let tokenizer = self.cx.counter.tokenizer;
        let tokens =
            items.iter().map(|item| scrollback_core::tokens::entry_tokens(tokenizer, &item.entry)).sum();
        let count = items.len();
        let options =
            RenderOptions { purpose: Purpose::Send, model: Some(&info.model), ..RenderOptions::default() };
        let mut rendered = info.wire.request(items, options, Some(&around));
        let repairs = self.runner.repairs(&rendered)?;
        let body = self.runner.checked(&info, &mut rendered, &around)?;
        Ok(Outgoing {
            prefix_hash: prefix_hash(&rendered),
            body: body.into(),
            original: self.journal.record().message_count(),
            curated: count,
            tokens,
            epoch: None,
            view,
            left_out: Vec::new(),
            repairs,
        })
    }
}

impl Runner {
    /// What was mended, by rule and place; an error where nothing may be.
    fn repairs(&self, rendered: &Rendered) -> Result<Vec<String>, EvaluationError> {
        let repairs: Vec<String> =
            rendered.repairs.iter().map(|repair| format!("{} {}", repair.rule, repair.path)).collect();
        if self.repair == Repair::Never && !repairs.is_empty() {
            return Err(invalid(&format!("the request breaks its provider's rules: {}", repairs.join(", "))));
        }
        Ok(repairs)
    }

    /// The request; an error if the provider would refuse it, whatever was mended.
    fn checked(
        &self,
        info: &ModelInfo,
        rendered: &mut Rendered,
        around: &Body,
    ) -> Result<String, EvaluationError> {
        let dialect = self.catalog.dialect(&info.model);
        // It was checked when it was rendered, but for what a host of its own kind wants.
        let checked = rendered.take_checked().filter(|_| dialect.is_none());
        let Checked { body, violations } = if let Some(checked) = checked {
            checked
        } else {
            let body = rendered.body(info.wire, Some(around));
            let raw = json::check(&body).map_err(|error| invalid(&error.to_string()))?;
            let dialect = dialect.as_deref();
            let options = CheckOptions { model: Some(&info.model), dialect, ..CheckOptions::default() };
            let violations = check(info.wire, raw, options);
            Checked { body, violations }
        };
        match violations.iter().find(|violation| violation.is_fatal(Strictness::Lenient)) {
            Some(broken) => Err(invalid(&format!("{} at {}: {}", broken.rule, broken.path, broken.message))),
            None => Ok(body),
        }
    }
}

fn invalid(message: &str) -> EvaluationError {
    EvaluationError::new(Phase::Request, "invalid_request", message)
}

fn shown(item: &Item) -> Shown {
    match item.source {
        Source::Entry(index) => Shown::Entry { index, changed: item.is_changed() },
        Source::Interrupted { .. } => Shown::Synthetic { synthetic: "interrupted" },
        Source::Summary { .. } => Shown::Synthetic { synthetic: "summary" },
    }
}

/// Chain over the bytes of what is sent; equal prefixes have equal values.
fn prefix_hash(rendered: &Rendered) -> [u8; 32] {
    let start = blake3::hash(rendered.system.as_deref().unwrap_or_default().as_bytes());
    rendered.messages.iter().fold(*start.as_bytes(), |link, message| {
        let mut hash = blake3::Hasher::new();
        hash.update(&link).update(message.as_bytes());
        *hash.finalize().as_bytes()
    })
}
