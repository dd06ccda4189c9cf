//! The end of one piece of work, to be waited for.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;

/// Signalled once, with the instant at which the work ended in the model.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    /// 0 until then.
    end_ns: AtomicU64,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Fence {
    pub(crate) fn signal(&self, end_ns: u64) {
        let _order = lock(&self.waiting);
        self.end_ns.store(end_ns.max(1), Release);
        self.changed.notify_all();
    }

    /// When the work ended, ns; none while it has not.
    pub(crate) fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns.load(Acquire)).filter(|end_ns| *end_ns != 0)
    }

    /// Waits for the end.
    pub(crate) fn wait(&self) -> u64 {
        if let Some(end_ns) = self.end_ns() {
            return end_ns;
        }
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(end_ns) = self.end_ns() {
                return end_ns;
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
