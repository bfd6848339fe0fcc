//! Replies of Amazon Bedrock Converse, which come in one piece; its streams are binary frames.

use super::stop::Asks;
use super::{ReplyMeta, text, usage};
use crate::json::{Object, Raw};

/// The message of a whole response.
pub(super) fn body(response: &Object<'_>, told: &mut ReplyMeta) -> Option<String> {
    told.stop = text(response.get("stopReason"));
    told.usage = response.get("usage").and_then(usage::bedrock);
    let message = response.get("output").and_then(|output| output.get("message"))?;
    let blocks = message.get("content").into_iter().flat_map(Raw::elements);
    if blocks.into_iter().any(|block| block.get("toolUse").is_some()) {
        told.asks = Asks::ForTools;
    }
    Some(message.text().into())
}
