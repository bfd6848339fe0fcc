//! Spans for a collector, as the configuration wants them.

use scrollback_agent::config::Config;
use scrollback_agent::telemetry::Telemetry;
use scrollback_core::redact::Redactor;

use crate::failure::{Failure, USAGE};
use crate::input;

/// Where spans are sent; nowhere, unless the configuration says so. Must be called where tasks can be spawned.
pub(crate) fn start(config: &Config) -> Result<Telemetry, Failure> {
    let Some(settings) = config.telemetry()? else { return Ok(Telemetry::default()) };
    let redactor = Redactor::new(&config.redaction())
        .map_err(|error| Failure::new(USAGE, "bad_config", format!("[redact]: {error}")))?;
    Ok(Telemetry::start(&settings, redactor)?)
}

/// Sends the rest before a command ends, and says what was not taken.
pub(crate) async fn end(telemetry: &Telemetry) {
    if !telemetry.is_on() {
        return;
    }
    telemetry.flush().await;
    let dropped = telemetry.counts().dropped;
    if dropped > 0 {
        input::note(&format!("the collector did not take {dropped} of the spans"));
    }
}
