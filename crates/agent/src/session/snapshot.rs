//! Snapshots: a session's slices as JSON, and the way back.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::slice::{AnySlice, SliceKind};
use crate::error::{AgentError, AgentErrorKind};

/// The version of snapshots this program writes and reads.
pub(super) const VERSION: &str = "1";

/// A session at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The version of this form.
    pub version: String,
    /// When it was taken.
    pub created_at: String,
    /// The session.
    pub session_id: String,
    /// The session it is part of.
    pub parent_id: Option<String>,
    /// Its own parts, in order of registration.
    pub children: Vec<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its slices, by name.
    pub slices: Vec<SliceSnapshot>,
}

/// One slice of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceSnapshot {
    /// The name of its items' type.
    #[serde(rename = "type")]
    pub name: String,
    /// `state` or `log`.
    pub kind: String,
    /// The items.
    pub items: Vec<Value>,
}

impl Snapshot {
    /// Reads a snapshot from JSON text.
    pub fn parse(text: &str) -> Result<Self, AgentError> {
        serde_json::from_str(text).map_err(|error| refused("", error.to_string()))
    }
}

/// Why a snapshot could not be taken or restored, with the JSON pointer into it.
pub(super) fn refused(path: impl AsRef<str>, problem: impl std::fmt::Display) -> AgentError {
    let message = match path.as_ref() {
        "" => problem.to_string(),
        path => format!("{path}: {problem}"),
    };
    AgentError::new(AgentErrorKind::Snapshot, message)
}

/// Slices by type name.
pub(super) type Changed = HashMap<&'static str, Box<dyn AnySlice>>;

/// The slices that a snapshot puts in place of others.
pub(super) fn restored(
    snapshot: &Snapshot,
    known: &HashMap<&'static str, &dyn AnySlice>,
) -> Result<Changed, AgentError> {
    if snapshot.version != VERSION {
        let problem = format!("version {:?} of a snapshot; this program reads {VERSION:?}", snapshot.version);
        return Err(refused("/version", problem));
    }
    let mut changed: Changed = known
        .values()
        .filter(|slice| slice.kind() == SliceKind::State)
        .map(|slice| (slice.name(), slice.emptied()))
        .collect();
    for (number, slice) in snapshot.slices.iter().enumerate() {
        let path = format!("/slices/{number}");
        let Some((name, own)) = known.get_key_value(slice.name.as_str()) else {
            let problem = format!("the session has no slice of {:?}; register it first", slice.name);
            return Err(refused(format!("{path}/type"), problem));
        };
        if slice.kind != own.kind().as_str() {
            let problem =
                format!("{:?} has the kind {}, not {}", slice.name, own.kind().as_str(), slice.kind);
            return Err(refused(format!("{path}/kind"), problem));
        }
        if own.kind() == SliceKind::State {
            let read = own
                .read(&slice.items)
                .map_err(|(item, problem)| refused(format!("{path}/items/{item}"), problem))?;
            changed.insert(name, read);
        }
    }
    Ok(changed)
}
