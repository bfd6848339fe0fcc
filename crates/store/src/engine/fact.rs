//! What is known about the store itself: its secrets, and when it last took a write.

use scrollback_core::Time;

use crate::body::hex;
use crate::erasure::Pseudonyms;
use crate::error::StoreError;
use crate::id::random;
use crate::rows::Rows;
use crate::table::{Cells, ColumnValue, Table};

/// The key of the secret that signs and seals the sessions of the lens.
const SECRET: &str = "session_secret";
/// The key of the secret that names of erased people are made from.
const ERASURE: &str = "erasure_secret";
/// The key of the time of the last heartbeat.
const HEARTBEAT: &str = "heartbeat";

/// A row of `meta`.
#[derive(Clone, Debug)]
struct Fact {
    key: String,
    value: String,
}

impl Table for Fact {
    const NAME: &'static str = "meta";
    const COLUMNS: &'static [&'static str] = &["key", "value"];
    const KEY: usize = 1;
    const HASHED: bool = false;

    fn cells(&self) -> Vec<ColumnValue> {
        vec![self.key.as_str().into(), self.value.as_str().into()]
    }

    fn read(mut cells: Cells) -> Result<Self, StoreError> {
        Ok(Fact { key: cells.text(), value: cells.text() })
    }
}

/// The secret of the store; the proposed one if it has none yet.
pub(crate) async fn secret<R: Rows>(rows: &mut R, proposed: String) -> Result<String, StoreError> {
    rows.lock_name(SECRET).await?;
    if let Some(known) = rows.get::<Fact>(vec![SECRET.into()]).await? {
        return Ok(known.value);
    }
    rows.put(&Fact { key: SECRET.into(), value: proposed.clone() }).await?;
    Ok(proposed)
}

/// What makes pseudonyms, if anything was erased by name yet.
pub(crate) async fn pseudonyms<R: Rows>(rows: &mut R) -> Result<Option<Pseudonyms>, StoreError> {
    let known = rows.get::<Fact>(vec![ERASURE.into()]).await?;
    Ok(known.map(|known| Pseudonyms::new(&known.value)))
}

/// The same; its secret is made if there is none.
pub(crate) async fn pseudonyms_made<R: Rows>(rows: &mut R) -> Result<Pseudonyms, StoreError> {
    rows.lock_name(ERASURE).await?;
    if let Some(known) = pseudonyms(rows).await? {
        return Ok(known);
    }
    let value = hex(&[random(), random()].concat());
    let made = Pseudonyms::new(&value);
    rows.put(&Fact { key: ERASURE.into(), value }).await?;
    Ok(made)
}

/// Writes down that the store takes writes.
pub(crate) async fn heartbeat<R: Rows>(rows: &mut R, now: Time) -> Result<(), StoreError> {
    rows.put(&Fact { key: HEARTBEAT.into(), value: now.to_string() }).await
}
