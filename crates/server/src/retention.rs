//! What `[retention]` says, kept while the server runs; and how much room the store takes.

use std::time::{Duration, Instant};

use scrollback_store::prune::{PruneMode, prune};

use crate::App;

/// How often the retention is looked after. It is counted in days.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// How long a request for figures waits for the store to be measured; they come with the next one otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prunes again and again, as long as it is polled.
pub(crate) async fn keep(app: App) {
    if app.settings.retention.is_nothing() {
        return;
    }
    let mut again = tokio::time::interval(EVERY);
    loop {
        again.tick().await;
        let (now, retention) = (app.now(), app.settings.retention);
        match prune(app.store.as_ref(), None, retention.limits(now), PruneMode::Prune, now).await {
            Ok(done) => {
                tracing::info!(
                    calls = done.calls,
                    conversations = done.conversations,
                    bytes = done.bytes_after,
                    "retention applied"
                );
                app.metrics.set_over(done.over);
                if done.over > 0 {
                    tracing::warn!(
                        bytes = done.over,
                        "the store is larger than max_size of [retention], and nothing is left that may go"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "retention failed"),
        }
    }
}

/// Measures the store, unless that was done recently.
pub(crate) async fn measure_store(app: &App) {
    if !app.metrics.measures_store(app.now()) {
        return;
    }
    let measuring = {
        let app = app.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            match app.store.sizes().await {
                Ok(sizes) => {
                    app.metrics.set_sizes(&sizes);
                    let took = began.elapsed().as_millis();
                    app.metrics.measuring_took(i64::try_from(took).unwrap_or(i64::MAX));
                }
                Err(error) => tracing::warn!(%error, "the store could not be measured"),
            }
        })
    };
    let _ = tokio::time::timeout(PATIENCE, measuring).await;
}
