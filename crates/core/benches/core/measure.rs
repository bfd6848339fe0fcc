//! How time is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Samples of a short call; the median of so many ignores what else the machine does.
const SAMPLES: usize = 101;
/// A sample holds so many calls that it lasts at least this long and the clock's grain does not show.
const SAMPLE: Duration = Duration::from_micros(200);
/// Samples of something that takes long.
const LONG_SAMPLES: usize = 5;

/// Pairs of long runs that are compared.
const PAIRS: usize = 9;

/// Median time of a short call, after a warm-up. Dropping what the call returns is part of it.
pub(crate) fn call<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut batch = 1;
    while batch_time(&mut work, batch) < SAMPLE && batch < 1 << 20 {
        batch *= 2;
    }
    median((0..SAMPLES).map(|_| batch_time(&mut work, batch) / batch).collect())
}

/// Shortest time of a call that lasts milliseconds: a busy machine interrupts most of those, but hardly all.
pub(crate) fn quickest<T>(mut work: impl FnMut() -> T) -> Duration {
    (0..SAMPLES).map(|_| batch_time(&mut work, 1)).min().unwrap_or_default()
}

fn batch_time<T>(work: &mut impl FnMut() -> T, batch: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..batch {
        drop(black_box(work()));
    }
    start.elapsed()
}

/// Median of a few runs of something long that takes its own time, so that preparing it is not counted.
pub(crate) fn long<E>(mut run: impl FnMut() -> Result<Duration, E>) -> Result<Duration, E> {
    Ok(median((0..LONG_SAMPLES).map(|_| run()).collect::<Result<_, E>>()?))
}

/// Two runs that are compared: the median of each, and of how many times the first the second is. They are taken in
/// turns, so that the two of a pair meet the same machine.
pub(crate) fn in_turns<E>(
    mut first: impl FnMut() -> Result<Duration, E>,
    mut second: impl FnMut() -> Result<Duration, E>,
) -> Result<(Duration, Duration, f64), E> {
    let pairs = (0..PAIRS).map(|_| Ok((first()?, second()?))).collect::<Result<Vec<_>, E>>()?;
    let mut growth: Vec<f64> = pairs.iter().map(|&(first, second)| ratio(second, first)).collect();
    growth.sort_unstable_by(f64::total_cmp);
    let (firsts, seconds) = pairs.into_iter().unzip();
    Ok((median(firsts), median(seconds), growth.get(PAIRS / 2).copied().unwrap_or_default()))
}

/// How many times `base` the other is.
pub(crate) fn ratio(time: Duration, base: Duration) -> f64 {
    time.as_secs_f64() / base.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// What `work` gives and how long it took, once.
pub(crate) fn once<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let made = black_box(work());
    (made, start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
