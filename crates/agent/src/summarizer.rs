//! Summaries written by a model, wherever one is asked for.

use std::sync::Arc;

use scrollback_core::Record;
use scrollback_core::manager::SummaryAsk;
use scrollback_store::{BoxFuture, Summarizer, summary_input};

use crate::exchange::summary_instructions;
use crate::journal::Journal;
use crate::provider::Provider;
use crate::runner::{EvaluationEnd, Prompt, Runner};

/// Writes summaries by asking a model.
pub struct ModelSummarizer {
    name: String,
    runner: Runner,
}

impl ModelSummarizer {
    /// The summariser that asks `provider`.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        ModelSummarizer { name: provider.describe().model.to_string(), runner: Runner::new(provider) }
    }
}

impl Summarizer for ModelSummarizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn write<'a>(&'a self, record: &'a Record, ask: &'a SummaryAsk) -> BoxFuture<'a, Result<String, String>> {
        let prompt = Prompt {
            name: "summary".into(),
            system: Some(summary_instructions(ask)),
            user: summary_input(record, ask),
            response_format: None,
        };
        Box::pin(async move {
            let mut journal = Journal::memory(Record::new());
            match self.runner.run(&mut journal, &prompt).await.ended {
                EvaluationEnd::Replied { text, .. } => Ok(text.trim().to_string()),
                EvaluationEnd::Failed(error) => Err(error.to_string()),
                EvaluationEnd::Paused(_) => Err("the model asked a question instead".into()),
            }
        })
    }
}
