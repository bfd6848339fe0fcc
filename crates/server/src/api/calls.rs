//! Model calls: what was sent, what came back, what it used.

use schemars::JsonSchema;
use scrollback_store::{CallListing, ConversationId, Cursor};
use serde::{Deserialize, Serialize};

use super::conversations::limit;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::{CallEntriesShape, CallShape};
use crate::HttpProblem;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/conversations/{id}/calls",
            "listCallsOfConversation",
            "The model calls of a conversation, newest first.",
            of,
        ),
        Operation::get("/calls", "listCalls", "Model calls, newest first.", list),
        Operation::get(
            "/calls/{id}",
            "getCall",
            "A model call, with exactly what was sent and what came back.",
            one,
        ),
    ]
}

/// Which calls to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsQuery {
    /// Only those of this conversation.
    conversation: Option<String>,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// Which calls of a conversation to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfQuery {
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// A page of calls.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Calls")]
pub(crate) struct CallsAnswer {
    /// Newest first.
    calls: Vec<CallShape>,
    /// Where the next page begins; null at the end.
    next: Option<String>,
}

async fn of(asking: ApiRequest, query: OfQuery) -> Result<CallsAnswer, HttpProblem> {
    let conversation = Some(asking.conversation()?);
    page(&asking, conversation, query.limit, query.after.as_deref()).await
}

async fn list(asking: ApiRequest, query: CallsQuery) -> Result<CallsAnswer, HttpProblem> {
    let conversation = query.conversation.as_deref().map(|id| {
        ConversationId::parse(id).ok_or_else(|| {
            HttpProblem::bad_request("bad_conversation", "`conversation` is not the id of a conversation")
        })
    });
    page(&asking, conversation.transpose()?, query.limit, query.after.as_deref()).await
}

async fn page(
    asking: &ApiRequest,
    conversation: Option<ConversationId>,
    most: Option<usize>,
    after: Option<&str>,
) -> Result<CallsAnswer, HttpProblem> {
    let listing =
        CallListing { conversation, limit: limit(most)?, after: after.map(Cursor::parse).transpose()? };
    let page = asking.app.store.calls(asking.tenant(), listing).await?;
    Ok(CallsAnswer {
        calls: page.calls.iter().map(CallShape::of).collect(),
        next: page.next.map(|next| next.as_str().to_string()),
    })
}

/// A model call, with exactly what was sent and what came back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CallWithBodies")]
pub(crate) struct CallAnswer {
    #[serde(flatten)]
    call: CallShape,
    /// What the request held of the record; null where it is not kept and the call cannot be repeated.
    entries: Option<CallEntriesShape>,
    /// The bytes that were sent, as text; null where they were erased.
    request: Option<String>,
    /// The bytes that came back, as text; null where there are none.
    response: Option<String>,
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<CallAnswer, HttpProblem> {
    let call = asking.app.store.call(asking.tenant(), asking.part("id")).await?;
    let sight = crate::recorded_calls::sight(&asking.app, asking.tenant(), &call).await?;
    Ok(CallAnswer {
        call: CallShape::of(&call),
        entries: sight.ok().map(|sight| CallEntriesShape::of(&sight)),
        request: text(call.request.as_ref()),
        response: text(call.response.as_ref()),
    })
}

fn text(bytes: Option<&Vec<u8>>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}
