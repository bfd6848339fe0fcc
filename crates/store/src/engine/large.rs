//! Values of runs, steps, spans and events that are too large for their rows: kept as blobs, and put back when they are read.

use super::sent::Freed;
use crate::body::{self, LARGE, hex, unhex};
use crate::error::StoreError;
use crate::id::Tenant;
use crate::precompute;
use crate::rows::{Blob, Rows};
use crate::run::{Event, Run, Span, Step};

/// What stands in a row for a value that is a blob. A value that begins like this is one, however short.
const MARK: &str = "blob:";

/// A row with values that may be large.
pub(crate) trait Values {
    fn values(&mut self) -> Vec<&mut String>;
}

impl Values for Run {
    fn values(&mut self) -> Vec<&mut String> {
        let others =
            [&mut self.settings, &mut self.input, &mut self.output, &mut self.error, &mut self.usage];
        std::iter::once(&mut self.text).chain(others.into_iter().flatten()).collect()
    }
}

impl Values for Step {
    fn values(&mut self) -> Vec<&mut String> {
        let all = [&mut self.input, &mut self.output, &mut self.usage, &mut self.error];
        all.into_iter().flatten().collect()
    }
}

impl Values for Span {
    fn values(&mut self) -> Vec<&mut String> {
        self.attributes.iter_mut().collect()
    }
}

impl Values for Event {
    fn values(&mut self) -> Vec<&mut String> {
        self.data.iter_mut().collect()
    }
}

/// Puts large values away, and lets go of those of the row that was there before. What went because of that.
pub(crate) async fn put_away<R: Rows, V: Values>(
    rows: &mut R,
    tenant: &Tenant,
    row: &mut V,
    before: Option<V>,
) -> Result<Freed, StoreError> {
    for value in row.values() {
        if value.len() > LARGE || value.starts_with(MARK) {
            let hash = *blake3::hash(value.as_bytes()).as_bytes();
            rows.refer(&precompute::blob(tenant, hash, value.as_bytes())).await?;
            *value = format!("{MARK}{}", hex(&hash));
        }
    }
    let mut freed = Freed::default();
    let Some(mut before) = before else { return Ok(freed) };
    for value in before.values() {
        if let Some(hash) = value.strip_prefix(MARK).and_then(unhex) {
            freed.blob(rows.release(tenant, &hash).await?);
        }
    }
    Ok(freed)
}

/// Puts large values back.
pub(crate) async fn put_back<R: Rows, V: Values>(
    rows: &mut R,
    tenant: &Tenant,
    found: &mut [V],
) -> Result<(), StoreError> {
    for value in found.iter_mut().flat_map(Values::values) {
        let Some(hash) = value.strip_prefix(MARK).and_then(unhex) else { continue };
        let missing = || StoreError::damaged("a large value of a run is missing");
        let key = vec![tenant.as_str().into(), (&hash).into()];
        let blob: Blob = rows.get(key).await?.ok_or_else(missing)?;
        *value = String::from_utf8(body::unpack(&blob)?).map_err(|_| missing())?;
    }
    Ok(())
}
