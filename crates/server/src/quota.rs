//! How much a key may be used: requests and tokens a minute, money a day. Counted in the store, so that all servers on it
//! count together and a restart forgets nothing.

use std::sync::OnceLock;
use std::time::Instant;

use axum::http::StatusCode;
use scrollback_agent::config::Recording;
use scrollback_core::Time;
use scrollback_store::{Key, KeyLimits, KeyUse};

use crate::App;
use crate::auth::ApiCaller;
use crate::keys;
use crate::problem::HttpProblem;

/// Time as the use of keys is counted: the machine's when it was first asked for, and from then on what has really passed, so
/// that a clock that jumps neither locks keys nor gives them more.
#[derive(Debug, Default)]
pub(crate) struct QuotaClock(OnceLock<(Instant, Time)>);

impl QuotaClock {
    /// What time it is.
    pub(crate) fn now(&self, app: &App) -> Time {
        self.at(Instant::now(), || app.now())
    }

    fn at(&self, now: Instant, clock: impl FnOnce() -> Time) -> Time {
        let (began, time) = self.0.get_or_init(|| (now, clock()));
        let passed = now.saturating_duration_since(*began).as_millis();
        Time(time.0.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)))
    }
}

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Counts a request, and refuses it if its key was used too much.
pub(crate) async fn admit(app: &App, caller: &ApiCaller) -> Result<(), HttpProblem> {
    let now = app.quota_clock.now(app);
    if let Some(key) = caller.key.as_deref() {
        note_use(app, key, now);
    }
    let Some(key) = limited(caller) else { return Ok(()) };
    let used = match app.store.charge(uses(key, now, Amount { requests: 1, ..Amount::default() })).await {
        Err(error) if app.settings.record == Recording::BestEffort => {
            tracing::warn!(%error, "a request could not be counted");
            return Ok(());
        }
        other => other?,
    };
    match exceeded(&key.limits, &used) {
        Some((what, span)) => {
            let wait = (span - now.0.rem_euclid(span) + 999) / 1000;
            let detail = format!("the key {:?} has used its {what}; try again in {wait} s", key.name);
            let problem = HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", detail);
            Err(problem.retry_after(wait.max(1) as u64))
        }
        None => Ok(()),
    }
}

/// Counts what a call used.
pub(crate) async fn charge(app: &App, caller: &ApiCaller, tokens: u64, cost_usd: Option<f64>) {
    let Some(key) = limited(caller) else { return };
    let microdollars = (cost_usd.unwrap_or(0.0) * 1e6).round() as u64;
    let amount = Amount { tokens, microdollars, ..Amount::default() };
    if let Err(error) = app.store.charge(uses(key, app.quota_clock.now(app), amount)).await {
        tracing::warn!(%error, "what a key used could not be counted");
    }
}

/// What the stretch is called whose beginning is the last use of a key.
pub const LAST_USE: &str = "last";

/// Notes that a key was used: at most once a minute for each key and server, and not while the request waits.
fn note_use(app: &App, key: &Key, now: Time) {
    if !app.keyring.is_first_use(&key.name, now, MINUTE) {
        return;
    }
    let used = KeyUse {
        key: key.name.clone(),
        window: LAST_USE.into(),
        began: now,
        requests: 1,
        ..KeyUse::default()
    };
    let app = app.clone();
    tokio::spawn(async move {
        if let Err(error) = app.store.charge(vec![used]).await {
            tracing::warn!(%error, "could not record the use of a key");
        }
    });
}

fn limited(caller: &ApiCaller) -> Option<&Key> {
    caller.key.as_deref().filter(|key| key.limits != KeyLimits::default())
}

#[derive(Clone, Copy, Default)]
struct Amount {
    requests: u64,
    tokens: u64,
    microdollars: u64,
}

/// What a key was used for, as people are shown it.
pub(crate) struct UseOfKey {
    /// When it was used last, to the minute.
    pub(crate) last: Option<Time>,
    /// Requests and tokens of today, in UTC, and millionths of a dollar; counted only for keys with a limit.
    pub(crate) today: KeyUse,
}

/// What a key was used for.
pub(crate) async fn use_of(app: &App, key: &Key) -> Result<UseOfKey, HttpProblem> {
    let all = app.store.key_uses().await?;
    let today = app.quota_clock.now(app).0.div_euclid(DAY) * DAY;
    let last = all.iter().find(|used| used.key == key.name && used.window == LAST_USE);
    let counted = all.iter().find(|used| {
        used.key == keys::family(&key.name) && used.window == "day" && used.began == Time(today)
    });
    Ok(UseOfKey {
        last: last.map(|used| used.began).filter(|at| *at > Time(0)),
        today: counted.cloned().unwrap_or_default(),
    })
}

fn uses(key: &Key, now: Time, amount: Amount) -> Vec<KeyUse> {
    let within = |window: &str, span: i64| KeyUse {
        key: keys::family(&key.name).into(),
        window: window.into(),
        began: Time(now.0 - now.0.rem_euclid(span)),
        requests: amount.requests,
        tokens: amount.tokens,
        microdollars: amount.microdollars,
    };
    vec![within("minute", MINUTE), within("day", DAY)]
}

/// What was used up, and how long the stretch is that it counts for.
fn exceeded(limits: &KeyLimits, used: &[KeyUse]) -> Option<(&'static str, i64)> {
    let [minute, day] = used else { return None };
    if limits.requests_per_minute.is_some_and(|most| minute.requests > most) {
        return Some(("requests a minute", MINUTE));
    }
    if limits.tokens_per_minute.is_some_and(|most| minute.tokens >= most) {
        return Some(("tokens a minute", MINUTE));
    }
    // Money that is not there cannot be spent, so nothing is left at exactly the limit.
    limits.microdollars_per_day.is_some_and(|most| day.microdollars >= most).then_some(("dollars a day", DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_moves_no_window() {
        let (clock, start) = (QuotaClock::default(), Instant::now());
        assert_eq!(clock.at(start, || Time(1_000)), Time(1_000));
        let later = start + std::time::Duration::from_secs(2);
        assert_eq!(clock.at(later, || Time(900_000_000)), Time(3_000), "forward");
        assert_eq!(clock.at(later, || Time(0)), Time(3_000), "back");
    }

    #[test]
    fn each_limit_counts_for_its_time() {
        let used = |requests, tokens, microdollars| {
            let minute = KeyUse { requests, tokens, ..KeyUse::default() };
            vec![minute, KeyUse { microdollars, ..KeyUse::default() }]
        };
        let requests = KeyLimits { requests_per_minute: Some(2), ..KeyLimits::default() };
        assert_eq!(exceeded(&requests, &used(2, 99, 99)), None);
        assert_eq!(exceeded(&requests, &used(3, 0, 0)), Some(("requests a minute", MINUTE)));
        let tokens = KeyLimits { tokens_per_minute: Some(10), ..KeyLimits::default() };
        assert_eq!(exceeded(&tokens, &used(9, 9, 9)), None);
        assert_eq!(exceeded(&tokens, &used(1, 10, 0)), Some(("tokens a minute", MINUTE)));
        let money = KeyLimits { microdollars_per_day: Some(5), ..KeyLimits::default() };
        assert_eq!(exceeded(&money, &used(9, 9, 4)), None);
        assert_eq!(exceeded(&money, &used(1, 0, 5)), Some(("dollars a day", DAY)));
    }
}
