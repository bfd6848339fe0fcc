//! Summaries that managers ask for: written by a model or offline, and recorded, so that every later view is pure.

use scrollback_core::manager::{Ask, SummaryAsk};
use scrollback_core::{Decision, Entry, Role, Usage, summarize_offline};
use scrollback_store::summary_input;

use super::call::Outgoing;
use super::error::EvaluationError;
use super::evaluation::Evaluation;
use crate::event::{SummaryFailed, SummaryWritten};
use crate::provider::Provider;

/// What a model is told about the text it is given.
const INSTRUCTIONS: &str = "You are given part of a conversation. Write a summary of it that a colleague could continue \
the work from: the task, decisions and their reasons, facts and figures, names and paths, what is done and what is open. \
Do not answer the conversation, and do not add anything that is not in it.";

/// What a model is told that shall write a summary.
pub(crate) fn summary_instructions(ask: &SummaryAsk) -> String {
    format!("{INSTRUCTIONS} Use at most {} characters.", ask.max_chars)
}

impl Evaluation<'_> {
    /// Writes the summaries that are asked for before the next view. One that fails leaves everything as it was.
    pub(crate) async fn serve_summaries(&mut self) -> Result<(), EvaluationError> {
        let asks = self.journal.record().plan(&self.cx, &self.manager);
        let Some(Ask::Summary(ask)) = asks.into_iter().next() else { return Ok(()) };
        let decision = if ask.summarizer == "offline" {
            summarize_offline(self.journal.record(), &ask)
        } else {
            match self.written(&ask).await? {
                Ok((text, usage)) => ask.answered(text.trim(), &ask.summarizer, usage),
                Err(reason) => ask.failed(&reason),
            }
        };
        let first = ask.covers.first().map_or(0, |span| span.0);
        let range = (first, ask.covers.last().map_or(first, |span| span.1));
        let told = decision.clone();
        self.decide(decision).await?;
        match told {
            Decision::SummaryFailed { reason, .. } => self.tell(&SummaryFailed { range, reason }),
            _ => self.tell(&SummaryWritten { range, by: ask.summarizer }),
        }
        Ok(())
    }

    /// What a model wrote, or why it wrote nothing. Halting is an error of the evaluation.
    async fn written(
        &mut self,
        ask: &SummaryAsk,
    ) -> Result<Result<(String, Option<Usage>), String>, EvaluationError> {
        let provider = match self.runner.catalog.provider_named(&ask.summarizer) {
            Ok(provider) => provider,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let outgoing = self.summary_request(&*provider, ask)?;
        let answered = match self.ask(&*provider, &outgoing).await {
            Ok(answered) => answered,
            Err(unanswered) => {
                self.check_halt()?;
                return Ok(Err(unanswered.error.to_string()));
            }
        };
        if let Some(sent) = answered.sent {
            let rows = crate::journal::Rows { sent: vec![sent], ..Default::default() };
            self.journal.write(Vec::new(), rows, self.now()).await?;
        }
        self.check_budget()?;
        let text = answered.reply.entry().ok().and_then(|entry| entry.content());
        Ok(Ok((text.unwrap_or_default(), answered.reply.meta.usage)))
    }

    fn summary_request(
        &self,
        provider: &dyn Provider,
        ask: &SummaryAsk,
    ) -> Result<Outgoing, EvaluationError> {
        let text = summary_input(self.journal.record(), ask);
        let entries =
            vec![Entry::text(Role::System, &summary_instructions(ask)), Entry::text(Role::User, &text)];
        self.outgoing_of(provider, entries, None)
    }
}
