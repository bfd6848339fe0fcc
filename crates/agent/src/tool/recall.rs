//! The recall tools of our own agents: the record that is being written, searched and read by the model itself.

use std::sync::Arc;

use scrollback_core::recall::RecallTool;
use scrollback_store::recall::{Deadline, Here, answer};
use scrollback_store::{ConversationId, Store, Tenant};
use serde_json::Value;

use super::{Call, Effects, Spec, Tool, ToolOutcome, ToolOutput};
use crate::effects::{BoxFuture, Clock};

/// How long one call may take, in milliseconds. A search ends there with what it found.
const LIMIT: i64 = 5_000;

/// Where recall looks things up.
#[derive(Clone)]
pub struct RecallPlace {
    /// The store with the record.
    pub store: Arc<dyn Store>,
    /// Whose data.
    pub tenant: Tenant,
    /// The conversation that is being written.
    pub conversation: ConversationId,
    /// The clock by which searches end.
    pub clock: Arc<dyn Clock>,
}

/// One of the recall tools.
struct Recall {
    spec: Spec,
    tool: RecallTool,
    place: RecallPlace,
}

/// What recall tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallNames {
    /// `recall_search` and so on, which collide with no tool called `search`.
    Prefixed,
    /// `search` and so on, for programs that write `(tool/search …)`.
    Bare,
}

/// The four tools, in the order in which they are offered.
pub fn recall_tools(place: &RecallPlace, names: RecallNames) -> Vec<Arc<dyn Tool>> {
    let made = |tool: RecallTool| -> Arc<dyn Tool> {
        let name = match names {
            RecallNames::Prefixed => tool.agent_name(),
            RecallNames::Bare => tool.name(),
        };
        let spec =
            Spec { parameters: tool.schema(), effects: Effects::Read, ..Spec::new(name, tool.description()) };
        Arc::new(Recall { spec, tool, place: place.clone() })
    };
    RecallTool::ALL.map(made).into()
}

impl RecallPlace {
    /// Where the conversation is now. It has no row before the first thing is said.
    async fn here(&self) -> Here {
        match self.store.conversation(&self.tenant, &self.conversation).await {
            Ok(conversation) => Here::of(&conversation, ""),
            Err(_) => Here::nowhere("nothing of this conversation is recorded yet"),
        }
    }
}

impl Tool for Recall {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(async move {
            let RecallPlace { store, tenant, clock, .. } = &self.place;
            let here = self.place.here().await;
            let (clock, until) = (Arc::clone(clock), clock.now().0 + LIMIT);
            let deadline = Deadline::new(move || clock.now().0 >= until);
            let reply =
                answer(&**store, tenant, &here, self.tool, &Value::Object(call.arguments), &deadline).await;
            if reply.failed {
                ToolOutcome::Failed(reply.text)
            } else {
                ToolOutcome::Done(ToolOutput::Text(reply.text))
            }
        })
    }
}
