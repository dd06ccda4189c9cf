//! CLOCK_MONOTONIC, the same for all processes of the machine, and waiting for it.

use std::hint;
use std::num::NonZeroU64;

use rustix::thread::{
    ClockId as SleepClock, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A sleep overshoots by about this much; the last of a wait is spun.
const SPIN_NS: u64 = 70_000;

/// Now, in ns since some fixed instant before boot.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns at `deadline_ns` or, if it has passed, at once.
pub(crate) fn wait_until(deadline_ns: u64) {
    loop {
        let now = now_ns();
        if now >= deadline_ns {
            return;
        }
        if deadline_ns - now > SPIN_NS {
            let _slack = NoSlack::begin();
            sleep_until(deadline_ns - SPIN_NS);
        } else {
            hint::spin_loop();
        }
    }
}

/// As [`wait_until`], but may return somewhat late and never spins.
pub(crate) fn wait_roughly_until(deadline_ns: u64) {
    while now_ns() < deadline_ns {
        sleep_until(deadline_ns);
    }
}

fn sleep_until(at_ns: u64) {
    let at = Timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    };
    // Interrupted by a signal: the caller looks at the clock again.
    let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &at);
}

/// A thread without timer slack. The kernel puts off wake-ups by up to 50 µs to merge them; a virtual machine adds 40 µs, and
/// together a sleep overshoots by more than is spun.
struct NoSlack {
    former: NonZeroU64,
}

impl NoSlack {
    /// None for a thread that has no slack to give back, as a real-time one.
    fn begin() -> Option<Self> {
        let former = NonZeroU64::new(current_timer_slack().ok()?)?;
        set_current_timer_slack(Some(NonZeroU64::MIN)).ok()?;
        Some(Self { former })
    }
}

impl Drop for NoSlack {
    fn drop(&mut self) {
        // The value was the thread's own before.
        let _ = set_current_timer_slack(Some(self.former));
    }
}

/// A call that has to last a given time from here on, whatever its own work
/// takes; the rest is waited for when this is dropped.
pub(crate) struct Lasting {
    until_ns: u64,
}

impl Lasting {
    /// A call of `us` microseconds that starts now.
    pub(crate) fn us(us: f64) -> Self {
        Self {
            until_ns: now_ns() + (us * 1e3) as u64,
        }
    }

    /// Makes it last longer.
    pub(crate) fn extend_us(&mut self, us: f64) {
        self.until_ns += (us * 1e3) as u64;
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        wait_until(self.until_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_leaves_the_threads_slack_as_it_was() {
        let own = NonZeroU64::new(123_456).unwrap();
        set_current_timer_slack(Some(own)).unwrap();
        let until = now_ns() + 3 * SPIN_NS;
        wait_until(until);
        assert!(now_ns() >= until);
        assert_eq!(current_timer_slack().unwrap(), own.get());
    }

    #[test]
    fn no_slack_ends_with_its_guard() {
        let own = NonZeroU64::new(123_456).unwrap();
        set_current_timer_slack(Some(own)).unwrap();
        let guard = NoSlack::begin().unwrap();
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(guard);
        assert_eq!(current_timer_slack().unwrap(), own.get());
    }
}
