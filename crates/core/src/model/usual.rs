//! Which model a conversation was held with.

use std::collections::BTreeMap;

use super::{ModelName, facts};
use crate::{Entry, Slot};

/// The model that most replies of these conversations name, with the provider of the wire they came in; `None` if no reply
/// names one that the built-in table lists, because another name gives neither a window nor prices.
pub fn usual_model<'s>(slots: impl IntoIterator<Item = &'s Slot>) -> Option<ModelName> {
    // By name, so that two models named equally often are always told apart in the same way.
    let mut counts: BTreeMap<String, (usize, ModelName)> = BTreeMap::new();
    for slot in slots {
        if let Slot::Message(entry) = slot
            && let Some(model) = named_by(entry)
        {
            counts.entry(model.to_string()).or_insert((0, model)).0 += 1;
        }
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(_, model)| model)
}

fn named_by(entry: &Entry) -> Option<ModelName> {
    let meta = entry.meta.as_ref()?;
    let name = meta.model_served.as_deref().or(meta.model_asked.as_deref())?;
    let model = ModelName::resolve(name, entry.origin.wire.provider()).ok()?;
    facts(&model).map(|_| model)
}
