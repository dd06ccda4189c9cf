//! Training.

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::Nanos;

use super::{MILLISECOND, program};
use crate::scenario::{Arrivals, SimTask};

/// Iterations of 165 ms without end: small jobs, because a program that waits for the result of each
/// iteration leaves the GPU idle for 1 to 2 ms while it prepares the next.
///
/// The times are those of training a vision model on one consumer card, assumed.
pub fn training(name: &str, memory: MemoryProfile) -> SimTask {
    let arrivals = Arrivals::Thinks {
        jobs: (1, 1),
        pause: Nanos::ZERO,
        think: (Nanos(MILLISECOND), Nanos(2 * MILLISECOND)),
    };
    let span = 165 * MILLISECOND;
    program(name, memory, arrivals, (span, span))
}
