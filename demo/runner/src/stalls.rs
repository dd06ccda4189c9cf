//! Whether the host let processes run: the witness beside each missed deadline.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long the witness sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// By how much a sleep overshoots before it counts.
const TOLERANCE: Duration = Duration::from_millis(5);
/// Stalls that are this close may delay the same job: no period is shorter.
const WINDOW: Duration = Duration::from_secs(1);

/// What the witness saw, in ms.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Stalls {
    /// Sum of all overshoots that count.
    pub total: f64,
    /// The longest.
    pub max: f64,
    /// The largest sum of those that ended within one second.
    pub most_in_a_second: f64,
}

/// Adds them up.
#[derive(Default)]
struct Sums {
    stalls: Stalls,
    /// When each of the last second ended, and its ms.
    lately: VecDeque<(Instant, f64)>,
}

impl Sums {
    fn add(&mut self, woken: Instant, overshoot: Duration) {
        if overshoot <= TOLERANCE {
            return;
        }
        let ms = overshoot.as_secs_f64() * 1e3;
        self.lately.push_back((woken, ms));
        self.lately
            .retain(|(ended, _)| woken.duration_since(*ended) < WINDOW);
        let lately: f64 = self.lately.iter().map(|(_, ms)| ms).sum();
        let stalls = &mut self.stalls;
        stalls.total += ms;
        stalls.max = stalls.max.max(ms);
        stalls.most_in_a_second = stalls.most_in_a_second.max(lately);
    }
}

/// A thread that only sleeps, and notes when it is woken late.
pub(crate) struct StallWitness {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Stalls>>,
}

impl StallWitness {
    /// Begins.
    pub(crate) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut sums = Sums::default();
            while !told.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(SLEEP);
                let woken = Instant::now();
                sums.add(woken, (woken - start).saturating_sub(SLEEP));
            }
            sums.stalls
        });
        Self {
            over,
            thread: Some(thread),
        }
    }

    /// Ends it; what it saw.
    pub(crate) fn stop(mut self) -> Stalls {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken here alone");
        thread.join().expect("the witness only sleeps")
    }
}

impl Drop for StallWitness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_overshoots_count() {
        let mut sums = Sums::default();
        for ms in [1, 5, 6, 20] {
            sums.add(Instant::now(), Duration::from_millis(ms));
        }
        assert_eq!((sums.stalls.total, sums.stalls.max), (26.0, 20.0));
    }

    #[test]
    fn stalls_within_a_second_are_summed() {
        let (mut sums, start) = (Sums::default(), Instant::now());
        for (at, ms) in [(100, 10), (800, 60), (1200, 20), (1799, 80), (5000, 90)] {
            sums.add(start + Duration::from_millis(at), Duration::from_millis(ms));
        }
        let Stalls {
            max,
            most_in_a_second,
            ..
        } = sums.stalls;
        assert_eq!((max, most_in_a_second), (90.0, 160.0));
    }

    #[test]
    fn the_witness_ends_when_told() {
        let witness = StallWitness::start();
        thread::sleep(Duration::from_millis(20));
        let stalls = witness.stop();
        assert!(stalls.total >= stalls.most_in_a_second);
        assert!(stalls.most_in_a_second >= stalls.max);
    }
}
