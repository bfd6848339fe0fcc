//! What calls used: read from their rows, and added up.

use schemars::JsonSchema;
use scrollback_core::request::RequestTokens;
use scrollback_store::{CallListing, ConversationId, Sent, Store, StoreError, Tenant};
use serde::{Deserialize, Serialize};

/// Calls of one conversation that are looked at: the newest.
const MOST_CALLS: usize = 10_000;

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spent {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// All output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Of these, the tokens that the cache keeps for an hour, which cost more; left out if there are none.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_1h: u64,
    /// What it cost in US dollars; null where a price is not known.
    pub cost_usd: Option<f64>,
    /// Whether the provider reported nothing, so that tokens were counted here.
    pub estimated: bool,
    /// How long the first byte of the reply took, in milliseconds; left out where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

impl Spent {
    /// What a row says; none before the answer ended.
    pub fn of(call: &Sent) -> Option<Self> {
        serde_json::from_str(call.usage.as_deref()?).ok()
    }
}

/// Our own count of the request of a call, its parts apart; none in rows that were written before it was kept.
pub fn request_tokens(call: &Sent) -> Option<RequestTokens> {
    serde_json::from_str(call.tokens.as_deref()?).ok()
}

/// What the calls of a conversation used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Total {
    /// How many calls there were, attempts that failed included.
    pub calls: u64,
    /// Calls whose provider reported nothing: their tokens were counted here.
    pub estimated_calls: u64,
    /// All input tokens, cached ones included: reported ones, and counted ones where nothing was reported.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// What they cost in US dollars; null where a price is not known.
    pub cost_usd: Option<f64>,
}

impl Total {
    /// Adds up rows.
    pub fn of<'c>(calls: impl IntoIterator<Item = &'c Sent>) -> Self {
        let mut total = Total::default();
        // Nothing is known to be free: where no call says what it used, no cost is known.
        let (mut cost, mut known) = (Some(0.0), false);
        for call in calls {
            total.calls += 1;
            let Some(spent) = Spent::of(call) else { continue };
            known = true;
            total.estimated_calls += u64::from(spent.estimated);
            total.input += spent.input;
            total.output += spent.output;
            total.cache_read += spent.cache_read;
            cost = cost.zip(spent.cost_usd).map(|(sum, more)| sum + more);
        }
        total.cost_usd = cost.filter(|_| known);
        total
    }

    /// Calls that are not known to be estimated.
    pub fn reported_calls(&self) -> u64 {
        self.calls.saturating_sub(self.estimated_calls)
    }

    /// What the input tokens are: reported by providers, estimated here, or both.
    pub fn input_word(&self) -> &'static str {
        match (self.estimated_calls, self.reported_calls()) {
            (0, _) => "Reported input",
            (_, 0) => "Input (estimate)",
            _ => "Input, partly estimated",
        }
    }
}

/// The calls of a conversation as they were made, without what was sent and what came back.
pub(crate) async fn calls_of(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<Sent>, StoreError> {
    let listing = CallListing { conversation: Some(id.clone()), limit: MOST_CALLS, after: None };
    let mut calls = store.calls(tenant, listing).await?.calls;
    calls.reverse();
    Ok(calls)
}
