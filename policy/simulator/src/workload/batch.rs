//! Batch inference.

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::Nanos;

use super::{MILLISECOND, SECOND, program};
use crate::scenario::{Arrivals, SimTask};

/// A list of inputs that does not end, in batches of 2 to 4 s, with 20 to 40 ms between two of them in which
/// the program reads and writes. All numbers are assumed.
pub fn batch(name: &str, memory: MemoryProfile) -> SimTask {
    let arrivals = Arrivals::Thinks {
        jobs: (1, 1),
        pause: Nanos(0),
        think: (Nanos(20 * MILLISECOND), Nanos(40 * MILLISECOND)),
    };
    program(name, memory, arrivals, (2 * SECOND, 4 * SECOND))
}
