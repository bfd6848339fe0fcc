//! Tokens of a whole request, its parts counted apart.

use serde::{Deserialize, Serialize};

use crate::context::CurationContext;
use crate::tokens::{Counter, Factor, Method, OVERHEAD, entry_tokens};
use crate::view::{View, ViewItem};

/// Tokens of one request: what it says to do, what it offers, and what was said.
///
/// All parts are corrected by the factor; `counted` is the sum without it, which later replies are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTokens {
    /// Instructions: the system entries it begins with.
    pub instructions: usize,
    /// Definitions of tools.
    pub tools: usize,
    /// Everything else that is said in it.
    pub messages: usize,
    /// The parts, and the start of the reply.
    pub total: usize,
    /// The total as it was counted, before the factor.
    pub counted: usize,
    /// Whether the model's own vocabulary counted.
    pub exact: bool,
    /// What estimates were multiplied by.
    pub factor: Factor,
}

impl RequestTokens {
    /// Tokens of a request that shows a view.
    pub fn of(view: &View<'_>, cx: &CurationContext) -> Self {
        let plain = Counter { factor: Factor::ONE, ..cx.counter };
        let (instructions, body) = (view.anchored_tokens(cx.counter), view.body_tokens(cx.counter));
        let counted = plain_total(view.anchored_tokens(plain) + view.body_tokens(plain), plain, cx);
        RequestTokens::sum(instructions, body, counted, cx)
    }

    /// Tokens of a request that shows these items.
    pub fn of_items(items: &[ViewItem], cx: &CurationContext) -> Self {
        let lead = items.iter().take_while(|item| item.entry.role == crate::Role::System).count();
        let counts: Vec<usize> =
            items.iter().map(|item| entry_tokens(cx.counter.tokenizer, &item.entry)).collect();
        let (lead, body) = counts.split_at(lead);
        let (lead, body): (usize, usize) = (lead.iter().sum(), body.iter().sum());
        let plain = Counter { factor: Factor::ONE, ..cx.counter };
        let factor = cx.counter.factor;
        RequestTokens::sum(factor.apply(lead), factor.apply(body), plain_total(lead + body, plain, cx), cx)
    }

    fn sum(instructions: usize, messages: usize, counted: usize, cx: &CurationContext) -> Self {
        let tools = cx.tool_tokens(cx.counter);
        RequestTokens {
            instructions,
            tools,
            messages,
            total: instructions + messages + cx.overhead(cx.counter),
            counted,
            exact: cx.counter.method == Method::Exact,
            factor: cx.counter.factor,
        }
    }
}

fn plain_total(entries: usize, plain: Counter, cx: &CurationContext) -> usize {
    entries + OVERHEAD + cx.tool_tokens(plain)
}
