//! How a request is made from the record, and made smaller when it is too large.

use std::sync::Arc;

use scrollback_core::request::{
    CallerRequest, Ladder, LadderStep, Policy, PrepareError, Prepared, RequestMessage, RequestTokens, Stated,
    prepare, prepare_items,
};
use scrollback_core::{
    CurationContext, CurationError, Decision, Entry, Fidelity, ItemSource, Record, ViewItem,
};

/// How the requests of one exchange are made. The exchange asks again after every decision that it recorded, so a maker reads
/// the decisions of the record each time.
pub trait RequestBuilder: Send + Sync {
    /// The request as the record stands now.
    fn make(&self, record: &Record, cx: &CurationContext) -> Result<Prepared, PrepareError>;

    /// How the record is curated before the request shows it.
    fn policy(&self) -> &Policy;

    /// The next step of the ladder that changes something, as the decision to record; none when no step is left.
    ///
    /// `tokens` are those of the request that was too large, by our count.
    fn smaller(
        &self,
        ladder: &mut Ladder,
        record: &Record,
        cx: &CurationContext,
        stated: Stated,
        tokens: usize,
    ) -> Option<(LadderStep, Decision)> {
        ladder.next(record, &*self.policy().manager, cx, stated, tokens)
    }

    /// Tokens of the request as the record stands now, for the event about a step.
    fn tokens(&self, record: &Record, cx: &CurationContext) -> usize;
}

/// How the requests of an exchange are made; shared with the thread that makes them.
pub type Make = Arc<dyn RequestBuilder>;

/// Requests that show what a manager shows of the record: the runner's, the proxy's and those of flows.
#[derive(Debug)]
pub struct CuratedRequests {
    /// What is sent besides the record.
    pub asked: Arc<CallerRequest>,
    /// How the record is curated.
    pub policy: Arc<Policy>,
}

impl RequestBuilder for CuratedRequests {
    fn make(&self, record: &Record, cx: &CurationContext) -> Result<Prepared, PrepareError> {
        prepare(record, &self.asked, &self.policy, cx)
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn tokens(&self, record: &Record, cx: &CurationContext) -> usize {
        record.view(cx, &*self.policy.manager).map_or(0, |view| view.tokens(cx))
    }
}

/// Writes the entries of a request from what the record shows.
pub type Write = Arc<dyn Fn(&Record, &CurationContext) -> Result<Vec<Entry>, CurationError> + Send + Sync>;

/// Requests of entries that are written anew each time: instructions and a text that tells what the record shows.
pub struct Composed {
    /// Writes the entries.
    pub write: Write,
    /// What is sent besides them.
    pub asked: CallerRequest,
    /// What the record is curated with before it is told.
    pub policy: Arc<Policy>,
    /// How the request itself is counted and rendered: it offers no tools, and another model may be asked.
    pub own: CurationContext,
}

impl Composed {
    fn written(&self, record: &Record, cx: &CurationContext) -> Result<Vec<ViewItem>, PrepareError> {
        let entries = (self.write)(record, cx).map_err(PrepareError::Curation)?;
        let item = |(number, entry): (u64, Entry)| ViewItem {
            source: ItemSource::Entry(number),
            entry: entry.into(),
            fidelity: Fidelity::AsSaid,
        };
        Ok((0..).zip(entries).map(item).collect())
    }
}

impl RequestBuilder for Composed {
    fn make(&self, record: &Record, cx: &CurationContext) -> Result<Prepared, PrepareError> {
        let items = self.written(record, cx)?;
        let shown = vec![RequestMessage::Synthetic { synthetic: "prompt" }; items.len()];
        prepare_items(items, shown, record.message_count(), &self.asked, &self.policy, &self.own)
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn tokens(&self, record: &Record, cx: &CurationContext) -> usize {
        self.written(record, cx).map_or(0, |items| RequestTokens::of_items(&items, &self.own).total)
    }
}
