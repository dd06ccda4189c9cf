//! Training.

use rtswap_policy::task::MemoryProfile;

use super::{MILLISECOND, program};
use crate::scenario::{Arrivals, SimTask};

/// Iterations of 165 ms, one after another and without end: small jobs, because a program that waits for
/// each iteration leaves gaps between them.
///
/// The time is that of a training iteration of a vision model on one consumer card, assumed.
pub fn training(name: &str, memory: MemoryProfile) -> SimTask {
    let span = 165 * MILLISECOND;
    program(name, memory, Arrivals::Greedy, (span, span))
}
