//! Waiting for a word of the control page.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec, wait};

/// The longest that anything waits before it looks around: lost wake-ups cost no more.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Waits until `word` is no longer `seen`, somebody wakes it, or `bound` has passed. The page is
/// shared between processes, so the futex is not private.
pub(crate) fn wait_change(word: &AtomicU32, seen: u32, bound: Duration) {
    let bound = Timespec {
        tv_sec: bound.as_secs().cast_signed(),
        tv_nsec: i64::from(bound.subsec_nanos()),
    };
    // Every outcome is a reason to look again.
    let _ = wait(word, Flags::empty(), seen, Some(&bound));
}

/// Wakes all that wait for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = rustix::thread::futex::wake(word, Flags::empty(), i32::MAX.cast_unsigned());
}
