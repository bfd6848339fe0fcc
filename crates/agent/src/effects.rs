//! What decides differently on every run: the clock and chance. Both are given, so that a test repeats exactly.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scrollback_core::Time;

pub use scrollback_store::BoxFuture;

/// The time, and waiting for it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// What time it is.
    fn now(&self) -> Time;

    /// Waits.
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Waits until a time has come, without making it come sooner.
    fn reached(&self, time: Time) -> BoxFuture<'_, ()>;
}

/// A time some milliseconds after another.
pub fn later(time: Time, by: Duration) -> Time {
    Time(time.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

/// How long it is from one time to another; nothing if it has passed.
pub fn between(from: Time, to: Time) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// Asks work to stop at the next safe point. Clones ask for the same work.
#[derive(Clone, Debug)]
pub struct StopSignal(tokio::sync::watch::Sender<bool>);

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal(tokio::sync::watch::Sender::new(false))
    }
}

impl StopSignal {
    /// Asks for it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until a stop is requested.
    pub async fn asked(&self) {
        let mut asked = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = asked.wait_for(|asked| *asked).await;
    }
}

/// Chance.
pub trait Random: Send + Sync + fmt::Debug {
    /// A number from 0 up to, not including, 1.
    fn fraction(&self) -> f64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn reached(&self, time: Time) -> BoxFuture<'_, ()> {
        self.sleep(between(self.now(), time))
    }
}

/// Numbers that look random, from a seed: good enough to spread retries, of no use for secrets.
#[derive(Debug)]
pub struct Seeded(AtomicU64);

impl Seeded {
    /// Numbers of that seed.
    pub fn new(seed: u64) -> Self {
        Seeded(AtomicU64::new(seed))
    }
}

impl Default for Seeded {
    /// Numbers that differ from process to process.
    fn default() -> Self {
        Seeded::new(uuid::Uuid::new_v4().as_u64_pair().0)
    }
}

impl Random for Seeded {
    fn fraction(&self) -> f64 {
        // SplitMix64.
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A clock that stands still until a task sleeps, and then has moved: time costs a test nothing.
#[derive(Debug, Default)]
pub struct FakeClock {
    now: AtomicI64,
    slept: Mutex<Vec<Duration>>,
}

impl FakeClock {
    /// A clock that begins at a time.
    pub fn at(time: Time) -> Self {
        FakeClock { now: AtomicI64::new(time.0), slept: Mutex::default() }
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let passed = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.now.fetch_add(passed, Ordering::SeqCst);
    }

    /// How long was slept each time.
    pub fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Time {
        Time(self.now.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.advance(time);
        self.slept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(time);
        Box::pin(std::future::ready(()))
    }

    fn reached(&self, time: Time) -> BoxFuture<'_, ()> {
        // Reading the time does not make it pass.
        if time <= self.now() { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }
}
