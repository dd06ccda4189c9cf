//! How late the host runs what wants to run: it makes the victims as late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// A host that stalls longer makes the victims late itself.
const STALL: Duration = Duration::from_millis(15);

/// How late this host runs a thread that wants to run.
pub(crate) struct Host {
    worst: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Host {
    /// Begins to watch.
    pub(crate) fn watch() -> Self {
        const NAP: Duration = Duration::from_millis(2);
        let host = Self {
            worst: Arc::default(),
            ended: Arc::default(),
        };
        let (worst, ended) = (Arc::clone(&host.worst), Arc::clone(&host.ended));
        thread::spawn(move || {
            while !ended.load(Relaxed) {
                let begun = Instant::now();
                thread::sleep(NAP);
                let late = begun.elapsed().saturating_sub(NAP);
                worst.fetch_max(late.as_nanos() as u64, Relaxed);
            }
        });
        host
    }

    /// Waits until no thread was late for some seconds, at most until then. Nothing else of the run may be at work.
    ///
    /// # Errors
    /// The host stalled until then.
    pub(crate) fn calm(&self, until: Instant) -> Result<()> {
        const CALM: Duration = Duration::from_secs(3);
        loop {
            self.begin();
            thread::sleep(CALM);
            let Some(stall) = self.stall() else {
                return Ok(());
            };
            ensure!(
                Instant::now() < until,
                "the host still stalls, {stall:?} in {CALM:?}"
            );
        }
    }

    /// Forgets what was.
    pub(crate) fn begin(&self) {
        self.worst.store(0, Relaxed);
    }

    /// The longest stall since then, if it made others late.
    pub(crate) fn stall(&self) -> Option<Duration> {
        let worst = Duration::from_nanos(self.worst.load(Relaxed));
        (worst > STALL).then_some(worst)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}
