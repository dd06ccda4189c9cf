//! Whether the host let programs run: what is measured while it did not says nothing of the GPU.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the witness sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// By how much a sleep overshoots before it counts.
const TOLERANCE: Duration = Duration::from_millis(2);

/// A thread that only sleeps, and notes when it is woken late.
#[derive(Debug)]
pub(crate) struct StallWitness {
    over: Arc<AtomicBool>,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the last stall ended.
    last: Mutex<Option<Instant>>,
    count: AtomicU64,
}

impl StallWitness {
    /// Begins.
    pub(crate) fn start() -> Self {
        let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let (told, noted) = (Arc::clone(&over), Arc::clone(&seen));
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(SLEEP);
                noted.note(start, Instant::now());
            }
        });
        Self {
            over,
            seen,
            thread: Some(thread),
        }
    }

    /// Whether the host stood still at some time since `start`. A stall that has not ended yet is seen after it.
    pub(crate) fn since(&self, start: Instant) -> bool {
        let last = self
            .seen
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|ended| ended >= start)
    }

    /// How often it stood still.
    pub(crate) fn count(&self) -> u64 {
        self.seen.count.load(Ordering::Relaxed)
    }
}

impl Seen {
    fn note(&self, start: Instant, woken: Instant) {
        if (woken - start).saturating_sub(SLEEP) > TOLERANCE {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(woken);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for StallWitness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only sleeps.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sleep_is_a_stall() {
        let witness = StallWitness::start();
        let start = Instant::now() + Duration::from_secs(9);
        let late = start + SLEEP + TOLERANCE;
        witness.seen.note(start, late);
        assert!(!witness.since(start));
        witness.seen.note(start, late + SLEEP);
        assert!(witness.since(start) && !witness.since(late + SLEEP + SLEEP));
        assert!(witness.count() > 0);
    }
}
