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
        if let Some(stretch) = since(told, now) {
            tell(&app, stretch).await;
        }
        told = now;
    }
}

/// What was not looked at yet. A clock that was set back begins anew from where it is: waiting until it comes to where it was
/// would tell of nothing for as long, so what became due in between is told twice.
fn since(told: Time, now: Time) -> Option<Between> {
    (now > told).then_some(Between { from: Time(told.0 + 1), to: now })
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
            status: row.status(),
            due_at: due.at.to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_told_of_once_and_a_clock_set_back_is_followed() {
        let stretch = |from, to| Some(Between { from: Time(from), to: Time(to) });
        let (mut told, mut seen) = (Time(1_000), Vec::new());
        for now in [3_000, 3_000, 5_000, 2_000, 4_000] {
            seen.push(since(told, Time(now)));
            told = Time(now);
        }
        assert_eq!(seen, [stretch(1_001, 3_000), None, stretch(3_001, 5_000), None, stretch(2_001, 4_000)]);
    }
}
