//! Tells listeners when it becomes time to get in touch with a recipient.

use std::time::Duration;

use scrollback_agent::event::FollowUpDue;
use scrollback_core::Time;
use scrollback_store::{Between, due};

use crate::App;
use crate::events::About;

/// How often is looked. Follow-ups are counted in minutes.
const LOOK: Duration = Duration::from_secs(2);

/// Looks again and again, as long as it is polled. Nothing is read while no one listens.
pub(crate) async fn watch(app: App) {
    let mut told = app.now();
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        let now = app.now();
        if now > told {
            tell(&app, Between { from: Time(told.0 + 1), to: now }).await;
            told = now;
        }
    }
}

/// Tells of everything that became due in a stretch of time.
async fn tell(app: &App, between: Between) {
    if !app.events.are_heard() {
        return;
    }
    // A store that does not answer now is asked again for what comes next; what is due stays listed.
    let found = due(app.store.as_ref(), None, &app.settings.follow_ups, between).await;
    for due in found.unwrap_or_default() {
        let row = &due.conversation;
        let Some(recipient) = &row.recipient else { continue };
        let about = About::Entry { conversation: row.id.as_str(), at: between.to };
        app.events.tell(&row.tenant, about, || FollowUpDue {
            recipient: recipient.to_string(),
            status: row.status().name(),
            due_at: due.at.to_string(),
        });
    }
}
