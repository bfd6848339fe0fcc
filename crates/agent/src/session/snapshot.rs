//! Snapshots: a session's slices as JSON, and the way back.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::slice::{AnySlice, SliceKind};

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
    pub fn parse(text: &str) -> Result<Self, SnapshotError> {
        serde_json::from_str(text).map_err(|error| SnapshotError::new("", error.to_string()))
    }
}

/// Why a snapshot could not be taken or gone back to. The session is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotError {
    /// JSON pointer into the snapshot.
    pub path: String,
    problem: String,
}

impl SnapshotError {
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        SnapshotError { path: path.into(), problem: problem.into() }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// Slices by type name.
pub(super) type Changed = HashMap<&'static str, Box<dyn AnySlice>>;

/// The slices that a snapshot puts in place of others.
pub(super) fn restored(
    snapshot: &Snapshot,
    known: &HashMap<&'static str, &dyn AnySlice>,
) -> Result<Changed, SnapshotError> {
    if snapshot.version != VERSION {
        let problem = format!("version {:?} of a snapshot; this program reads {VERSION:?}", snapshot.version);
        return Err(SnapshotError::new("/version", problem));
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
            return Err(SnapshotError::new(format!("{path}/type"), problem));
        };
        if slice.kind != own.kind().as_str() {
            let problem = format!("{:?} is a {} slice here", slice.name, own.kind().as_str());
            return Err(SnapshotError::new(format!("{path}/kind"), problem));
        }
        if own.kind() == SliceKind::State {
            let read = own
                .read(&slice.items)
                .map_err(|(item, problem)| SnapshotError::new(format!("{path}/items/{item}"), problem))?;
            changed.insert(name, read);
        }
    }
    Ok(changed)
}
