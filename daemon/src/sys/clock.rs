//! CLOCK_MONOTONIC, the daemon's only clock: the same for all processes until the next boot. The time of day is only
//! shown, nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

use rtswap_policy::units::{Nanos, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time now, in ns of CLOCK_MONOTONIC.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time(now.tv_sec.cast_unsigned() * NANOS_PER_SECOND + now.tv_nsec.cast_unsigned())
}

/// The processor time that the calling thread has taken so far.
pub fn worked() -> Nanos {
    let worked = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(worked.tv_sec.cast_unsigned() * NANOS_PER_SECOND + worked.tv_nsec.cast_unsigned())
}

/// The time now in hundredths of a second since boot, time in suspend included, as
/// [`super::peer::start_ticks`] counts.
pub fn boot_ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 100 + now.tv_nsec.cast_unsigned() / (NANOS_PER_SECOND / 100)
}

/// The time of day in µs since 1970.
pub fn unix_usec() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = now.unwrap_or_default().as_micros();
    micros.try_into().unwrap_or(u64::MAX)
}

/// Converts a time to the kernel's `timespec`.
pub fn timespec(time: Time) -> Timespec {
    Timespec {
        tv_sec: (time.0 / NANOS_PER_SECOND).cast_signed(),
        tv_nsec: (time.0 % NANOS_PER_SECOND).cast_signed(),
    }
}

/// Milliseconds as nanoseconds.
pub const fn millis(ms: u64) -> Nanos {
    Nanos(ms.saturating_mul(1_000_000))
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
