//! Whether the host let processes run: the witness beside each missed deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long the witness sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// By how much a sleep overshoots before it counts.
const TOLERANCE: Duration = Duration::from_millis(5);

/// What the witness saw, in ms.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Stalls {
    /// Sum of all overshoots that count.
    pub total: f64,
    /// The longest.
    pub max: f64,
}

impl Stalls {
    fn add(&mut self, overshoot: Duration) {
        if overshoot > TOLERANCE {
            let ms = overshoot.as_secs_f64() * 1e3;
            self.total += ms;
            self.max = self.max.max(ms);
        }
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
            let mut stalls = Stalls::default();
            while !told.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(SLEEP);
                stalls.add(start.elapsed().saturating_sub(SLEEP));
            }
            stalls
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
        let mut stalls = Stalls::default();
        for ms in [1, 5, 6, 20] {
            stalls.add(Duration::from_millis(ms));
        }
        assert_eq!(
            stalls,
            Stalls {
                total: 26.0,
                max: 20.0
            }
        );
    }

    #[test]
    fn the_witness_ends_when_told() {
        let witness = StallWitness::start();
        thread::sleep(Duration::from_millis(20));
        let stalls = witness.stop();
        assert!(stalls.total >= stalls.max);
    }
}
